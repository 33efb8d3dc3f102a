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

// What storages made on this thread are born with.
struct StorageContext {
  uint32_t level = 0;  // the innermost vmap that is running, see core/batch.h
  uint32_t flags = 0;
  uint32_t transform = 0;  // the innermost reverse-mode transform that is running
};
inline thread_local StorageContext storage_context;

class Storage;
// Set by the graph layer: a storage of which something is coded is being destroyed (graph/coding.h).
inline void (*forget_codings)(Storage& storage) noexcept = nullptr;

class Storage {
 public:
  enum Flag : uint32_t {
    kInference = 1,  // made in inference mode: never to meet the tape
    kBatched = 2,    // the bytes stand once for each element of a batch, see core/batch.h
    kCoded = 64,     // saved values were made of the bytes that may be shared, see graph/coding.h
  };

  static Ref<Storage> allocate(size_t nbytes) {
    if (nbytes <= kEmbedLimit) {
      size_t header = header_offset(nbytes);
      char* block = static_cast<char*>(tapegrad::allocate(header + sizeof(Storage)));
      return Ref<Storage>::adopt(new (block + header) Storage(block, nbytes, nullptr));
    }
    void* data = tapegrad::allocate(nbytes);
    return Ref<Storage>::adopt(new (pool_allocate(sizeof(Storage))) Storage(data, nbytes, nullptr));
  }
  // Bytes owned by somebody else, such as a NumPy array; free_owner(owner) runs at the end.
  static Ref<Storage> borrow(void* data, size_t nbytes, void* owner, void (*free_owner)(void*)) {
    auto* keeper = new (pool_allocate(sizeof(Owner))) Owner{owner, free_owner};
    return Ref<Storage>::adopt(new (pool_allocate(sizeof(Storage))) Storage(data, nbytes, keeper));
  }

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  bool is_borrowed() const { return owner_ != nullptr; }

  // Any write to the bytes bumps the version; a saved value compares it when it is read.
  uint32_t version() const { return version_; }
  void bump_version() { ++version_; }

  // How many values that the tape saved show these bytes: while there are any, writes are noted
  // with their place and line (graph/write_log.h).
  uint32_t savers() const { return savers_; }
  void add_saver() { ++savers_; }
  void remove_saver() { --savers_; }

  uint32_t birth_level() const { return context_.level; }
  uint32_t birth_transform() const { return context_.transform; }
  bool is_inference() const { return context_.flags & kInference; }
  bool is_batched() const { return context_.flags & kBatched; }
  bool is_coded() const { return context_.flags & kCoded; }
  void set_coded() { context_.flags |= kCoded; }

  void retain() { ++references_; }
  void release() noexcept {
    if (--references_ == 0) destroy();
  }
  uint32_t use_count() const { return references_; }

 private:
  friend class Batches;  // moves the bytes when they become a batch
  struct Owner {
    void* object;
    void (*free)(void*);
  };

  Storage(void* data, size_t nbytes, Owner* owner)
      : data_(data), nbytes_(nbytes), owner_(owner), context_(storage_context) {}

  static constexpr size_t kEmbedLimit = 1024;
  static constexpr size_t header_offset(size_t nbytes) { return (nbytes + 7) / 8 * 8; }
  // True while this header lies behind the bytes it describes.
  bool is_embedded() const {
    return !owner_ && nbytes_ <= kEmbedLimit &&
           static_cast<char*>(data_) + header_offset(nbytes_) ==
               reinterpret_cast<const char*>(this);
  }

  void destroy() noexcept {
    if (is_batched()) [[unlikely]]
      destroy_batch();
    if (is_coded()) [[unlikely]]
      forget_codings(*this);
    if (is_embedded()) return deallocate(data_, header_offset(nbytes_) + sizeof(Storage));
    if (owner_) {
      owner_->free(owner_->object);
      pool_free(owner_, sizeof(Owner));
    } else {
      deallocate(data_, nbytes_);
    }
    pool_free(this, sizeof(Storage));
  }
  void destroy_batch() noexcept;

  uint32_t references_ = 1;
  uint32_t version_ = 0;
  void* data_;
  size_t nbytes_;
  Owner* owner_;
  StorageContext context_;
  uint32_t savers_ = 0;
};
static_assert(sizeof(Storage) == 48);

}  // namespace tapegrad
