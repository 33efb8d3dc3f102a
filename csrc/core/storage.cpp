#include "core/storage.h"

#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/loan.h"

namespace tapegrad {

namespace {

// Never freed, as the loans below: storages may outlive static objects. Made when first asked for, since
// listeners are added in no fixed order.
std::vector<StorageListener>& listeners() {
  static auto& all = *new std::vector<StorageListener>();
  return all;
}

// How many borrowers there are. They hold the storages: an address here is not used again.
auto& loans = *new std::unordered_map<const Storage*, uint32_t>();

// Storages that this thread makes meanwhile are born on a device.
class BirthOn {
 public:
  explicit BirthOn(Device device) : outer_(storage_context) {
    storage_context.device = device;
    storage_context.flags |= Storage::kDevice;
  }
  ~BirthOn() { storage_context = outer_; }
  BirthOn(const BirthOn&) = delete;
  BirthOn& operator=(const BirthOn&) = delete;

 private:
  const StorageContext outer_;
};

}  // namespace

bool add_storage_listener(const StorageListener& listener) {
  listeners().push_back(listener);
  return true;
}

Ref<Storage> Storage::allocate_on(Device device, size_t nbytes) {
  const DeviceAllocator& allocator = device_allocators[static_cast<int>(device.type)];
  TAPEGRAD_CHECK(allocator.allocate, "device: '", to_string(device),
                 "' is not available: this build has no back end for it; use 'cpu'");
  void* data = allocator.allocate(device, nbytes);
  auto* storage = new (pool_allocate(sizeof(Storage))) Storage(data, nbytes, nullptr);
  storage->context_.device = device;
  storage->clear(kFresh);  // a budget knows of the CPU's bytes alone
  storage->set(kDevice);
  ++device_storages;
  return Ref<Storage>::adopt(storage);
}

Ref<Storage> borrow_on(Device device, void* data, size_t nbytes, void* owner,
                       void (*free_owner)(void*)) {
  if (device.is_cpu()) return Storage::borrow(data, nbytes, owner, free_owner);
  const BirthOn birth(device);
  Ref<Storage> storage = Storage::borrow(data, nbytes, owner, free_owner);
  ++device_storages;
  return storage;
}

void Storage::free_on_device() noexcept {
  --device_storages;
  if (is_borrowed()) {
    owner_->free(owner_->object);
    pool_free(owner_, sizeof(Owner));
  } else {
    device_allocators[static_cast<int>(device().type)].deallocate(device(), data_, nbytes_);
  }
  pool_free(this, sizeof(Storage));
}

void Storage::tell_destroyed() noexcept {
  for (const StorageListener& listener : listeners())
    if (listener.destroyed && has(listener.flags)) listener.destroyed(*this);
}

void Storage::use() {
  if (device().is_meta())
    fail<NotImplementedError>(
        "meta: the elements of a tensor on the meta device were asked for, and it has none; results "
        "whose values or sizes depend on them cannot be had there");
  clear_fresh();
  for (const StorageListener& listener : listeners())
    if (listener.used && has(listener.flags)) listener.used(*this);
}

void Storage::tell_exposed() {
  for (const StorageListener& listener : listeners())
    if (listener.exposed && has(listener.flags)) listener.exposed(*this);
}

void Storage::expose() {
  tell_exposed();
  set(kExposed | kWasOut);
}

void Storage::lend() {
  tell_exposed();
  ++loans[this];
  set(kLent | kWasOut);
}

void Storage::end_loan() noexcept {
  auto found = loans.find(this);
  if (found == loans.end() || --found->second > 0) return;
  loans.erase(found);
  clear(kLent);
}

}  // namespace tapegrad
