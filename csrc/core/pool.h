// Free lists for the small objects of the hot path: tensors, storages, tape entries.
//
// Note [The GIL guards handles]
// Handles (Ref<T>), reference counts, free lists, the allocator's bins and the graph's links are
// touched only while the Python interpreter lock is held. Kernels drop the lock around long loops
// (BlockingSection in parallel.h), and inside such a section code sees raw pointers only: it neither
// copies handles nor allocates tensors. This is what makes a reference count a plain increment
// and an allocation a pointer pop. An interpreter built without the lock turns it on again when it
// loads this module, so the rule holds there too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace tapegrad {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kPoolEnabled = false;  // let the sanitizer see every object
#else
inline constexpr bool kPoolEnabled = true;
#endif

inline constexpr size_t kPoolGranule = 8;
inline constexpr size_t kPoolLimit = 512;

struct PoolList {
  void* head = nullptr;
};
inline PoolList pool_lists[kPoolLimit / kPoolGranule + 1];

void* pool_refill(size_t bytes);

inline void* pool_allocate(size_t bytes) {
  if (!kPoolEnabled || bytes > kPoolLimit) return ::operator new(bytes);
  size_t slot = (bytes + kPoolGranule - 1) / kPoolGranule;
  void* head = pool_lists[slot].head;
  if (!head) [[unlikely]]
    return pool_refill(slot * kPoolGranule);
  pool_lists[slot].head = *static_cast<void**>(head);
  return head;
}

inline void pool_free(void* pointer, size_t bytes) noexcept {
  if (!kPoolEnabled || bytes > kPoolLimit) return ::operator delete(pointer);
  size_t slot = (bytes + kPoolGranule - 1) / kPoolGranule;
  *static_cast<void**>(pointer) = pool_lists[slot].head;
  pool_lists[slot].head = pointer;
}

}  // namespace tapegrad
