#include "core/storage.h"

#include <unordered_map>
#include <vector>

#include "core/error.h"

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

}  // namespace

bool add_storage_listener(const StorageListener& listener) {
  listeners().push_back(listener);
  return true;
}

void* Storage::allocate_bytes(Device device, size_t nbytes) {
  if (device.is_cpu()) return tapegrad::allocate(nbytes);
  const DeviceAllocator& allocator = device_allocators[static_cast<int>(device.type)];
  TAPEGRAD_CHECK(allocator.allocate, "device: '", to_string(device),
                 "' is not available: this build has no back end for it; use 'cpu'");
  return allocator.allocate(device, nbytes);
}

void Storage::free_bytes(Device device, void* data, size_t nbytes) noexcept {
  if (device.is_cpu()) return deallocate(data, nbytes);
  device_allocators[static_cast<int>(device.type)].deallocate(device, data, nbytes);
}

void Storage::settle_on(Device device) {
  context_.device = device;
  set(kDevice);
  if (device.is_meta()) {
    set(kVoid);
    clear(kFresh);
  }
  ++device_storages;
}

Ref<Storage> Storage::allocate_on(Device device, size_t nbytes) {
  void* data = allocate_bytes(device, nbytes);
  auto* storage = new (pool_allocate(sizeof(Storage))) Storage(data, nbytes, nullptr);
  storage->settle_on(device);
  return Ref<Storage>::adopt(storage);
}

void Storage::free_on_device() noexcept {
  --device_storages;
  if (is_borrowed()) return_bytes();
  else free_bytes(device(), data_, nbytes_);
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
  if (has(kVoid))
    fail<NotImplementedError>(
        "sparse: the elements of a sparse tensor were asked for as if they were in memory; call "
        ".to_dense() first, or look at .indices() and .values()");
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
