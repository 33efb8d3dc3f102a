#include "cuda/foreign.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cuda/capturing.h"
#include "cuda/context.h"
#include "cuda/stream.h"

namespace tapegrad::cuda {

namespace {

// Of CUpointer_attribute.
constexpr int kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9;
constexpr unsigned kDeviceMemory = 2;  // CU_MEMORYTYPE_DEVICE

struct Foreign {
  int device;
  void* owner;
  void (*free_owner)(void*);
  std::vector<StreamHandle> users;
  const Storage* storage = nullptr;
  int waits = 0;  // for so many events, after it was freed
};

struct Waiting {
  EventHandle event;
  Foreign* foreign;
};

// Never destroyed: storages may outlive static objects.
auto& borrowed = *new std::unordered_map<const Storage*, Foreign*>();
auto& waiting = *new std::vector<Waiting>();
auto& deferred = *new std::vector<Foreign*>();  // freed while a graph was captured

void add_user(Foreign& foreign, StreamHandle stream) {
  auto& users = foreign.users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

void tell_owner(Foreign* foreign) noexcept {
  foreign->free_owner(foreign->owner);
  delete foreign;
}

void wait_for_users(Foreign* foreign);

// The storage is gone.
void free_foreign(void* object) {
  auto* foreign = static_cast<Foreign*>(object);
  borrowed.erase(foreign->storage);
  add_user(*foreign, current_stream(foreign->device));
  if (capture_underway) deferred.push_back(foreign);
  else wait_for_users(foreign);
}

// Until they are done.
void wait_for_users(Foreign* foreign) {
  for (StreamHandle stream : foreign->users)
    if (EventHandle event = record_pooled_event(foreign->device, stream)) {
      waiting.push_back({event, foreign});
      ++foreign->waits;
    }
  if (foreign->waits == 0)
    return tell_owner(foreign);  // the process ends, or the device has failed
  collect_foreign();
}

template <class T>
bool ask(T* value, int attribute, const void* data) {
  return driver().get_pointer_attribute(value, attribute, reinterpret_cast<DevicePointer>(data)) ==
         kSuccess;
}

bool is_managed(const void* data) {
  unsigned managed = 0;
  return ask(&managed, kIsManaged, data) && managed != 0;
}

}  // namespace

int device_of_address(const char* op, const void* data) {
  const DeviceGuard guard(current_device());
  unsigned type = 0;
  int device = -1;
  const bool is_known = ask(&type, kMemoryType, data) && ask(&device, kDeviceOrdinal, data);
  TAPEGRAD_CHECK_AS(ValueError,
                    is_known && (type == kDeviceMemory || is_managed(data)) && device >= 0 &&
                        device < device_count(),
                    op, ": expected the address of memory on a CUDA device, got ",
                    reinterpret_cast<uintptr_t>(data), ", which the driver does not know as such");
  return device;
}

void check_foreign(const char* op, int device, const void* data, ForeignKind kind) {
  check_device(device);
  if (!data) return;
  const DeviceGuard guard(device);
  if (kind == ForeignKind::Managed && is_managed(data)) return;  // belongs to all devices
  const int found = device_of_address(op, data);
  TAPEGRAD_CHECK_AS(ValueError, found == device, op, ": expected memory of 'cuda:", device,
                    "', got an address on 'cuda:", found, "'");
}

Ref<Storage> borrow(int device, void* data, size_t nbytes, void* owner, void (*free_owner)(void*)) {
  collect_foreign();
  auto foreign = std::make_unique<Foreign>(Foreign{device, owner, free_owner, {}});
  foreign->users.push_back(current_stream(device));
  const Device place{DeviceType::CUDA, static_cast<uint8_t>(device)};
  Foreign* held = foreign.get();
  Ref<Storage> storage = Storage::borrow(data, nbytes, held, free_foreign, place);
  (void)foreign.release();
  held->storage = storage.get();
  borrowed.emplace(held->storage, held);
  return storage;
}

bool record_foreign(const Storage& storage, StreamHandle stream) {
  const auto found = borrowed.find(&storage);
  if (found == borrowed.end()) return false;
  add_user(*found->second, stream);
  return true;
}

void collect_foreign() noexcept {
  if (capture_underway) return;
  for (Foreign* foreign : std::exchange(deferred, {})) wait_for_users(foreign);
  if (waiting.empty()) return;
  std::vector<Foreign*> done;
  std::erase_if(waiting, [&](const Waiting& each) {
    if (!has_passed(each.foreign->device, each.event)) return false;
    return_pooled_event(each.foreign->device, each.event);
    if (--each.foreign->waits == 0) done.push_back(each.foreign);
    return true;
  });
  for (Foreign* foreign : done) tell_owner(foreign);  // may come back here
}

StreamHandle stream_of_number(const char* op, int64_t number) {
  constexpr int64_t kLegacy = 1;  // CU_STREAM_LEGACY, the null stream
  TAPEGRAD_CHECK_AS(ValueError, number > 0, op, ": unsupported stream on CUDA: ", number,
                    "; expected 1 for the default stream, 2 for that of the thread, or a handle");
  return number == kLegacy ? nullptr : reinterpret_cast<StreamHandle>(number);
}

int64_t number_of_stream(StreamHandle stream) {
  return stream ? reinterpret_cast<int64_t>(stream) : 1;
}

}  // namespace tapegrad::cuda
