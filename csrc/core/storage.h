// Storage: a run of bytes and the version counter that every view of it shares.
//
// The header of a small storage lies behind its bytes in the same block, so a tensor of four floats
// costs one allocation and one cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/allocator.h"
#include "core/pool.h"
#include "core/refcount.h"

namespace tapegrad {

class Storage {
 public:
  static Ref<Storage> allocate(size_t nbytes) {
    if (nbytes <= kEmbedLimit) {
      size_t header = header_offset(nbytes);
      char* block = static_cast<char*>(tapegrad::allocate(header + sizeof(Storage)));
      return Ref<Storage>::adopt(new (block + header) Storage(block, nbytes, nullptr, nullptr));
    }
    void* data = tapegrad::allocate(nbytes);
    return Ref<Storage>::adopt(new (pool_allocate(sizeof(Storage)))
                                   Storage(data, nbytes, nullptr, nullptr));
  }
  // Bytes owned by somebody else, such as a NumPy array; free_owner(owner) runs at the end.
  static Ref<Storage> borrow(void* data, size_t nbytes, void* owner, void (*free_owner)(void*)) {
    return Ref<Storage>::adopt(new (pool_allocate(sizeof(Storage)))
                                   Storage(data, nbytes, owner, free_owner));
  }

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  bool is_borrowed() const { return free_owner_ != nullptr; }

  // Any write to the bytes bumps the version; a saved value compares it when it is read.
  uint32_t version() const { return version_; }
  void bump_version() { ++version_; }

  void retain() { ++references_; }
  void release() noexcept {
    if (--references_ == 0) destroy();
  }
  uint32_t use_count() const { return references_; }

 private:
  Storage(void* data, size_t nbytes, void* owner, void (*free_owner)(void*))
      : data_(data), nbytes_(nbytes), owner_(owner), free_owner_(free_owner) {}

  static constexpr size_t kEmbedLimit = 1024;
  static constexpr size_t header_offset(size_t nbytes) { return (nbytes + 7) / 8 * 8; }
  // True while this header lies behind the bytes it describes.
  bool is_embedded() const {
    return !free_owner_ && nbytes_ <= kEmbedLimit &&
           static_cast<char*>(data_) + header_offset(nbytes_) ==
               reinterpret_cast<const char*>(this);
  }

  void destroy() noexcept {
    if (is_embedded()) return deallocate(data_, header_offset(nbytes_) + sizeof(Storage));
    if (free_owner_) free_owner_(owner_);
    else deallocate(data_, nbytes_);
    pool_free(this, sizeof(Storage));
  }

  uint32_t references_ = 1;
  uint32_t version_ = 0;
  void* data_;
  size_t nbytes_;
  void* owner_;
  void (*free_owner_)(void*);
};

}  // namespace tapegrad
