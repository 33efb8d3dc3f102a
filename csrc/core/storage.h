// Storage: a run of bytes and the version counter that every view of it shares.
//
// The header of a small storage lies behind its bytes in the same block, so a tensor of four floats
// costs one allocation and one cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/allocator.h"
#include "core/device.h"
#include "core/interceptor.h"
#include "core/pool.h"
#include "core/refcount.h"

namespace tapegrad {

// What storages made on this thread are born with.
struct StorageContext {
  uint32_t vmap = 0;  // the innermost vmap that is running, see intercept/batch.h
  uint16_t flags = 0;
  Device device;           // of the storage; on a thread, the CPU
  uint32_t transform = 0;  // the innermost reverse-mode transform that is running
};
inline thread_local StorageContext storage_context;

// How many storages are on other devices than the CPU, on any thread.
inline Reasons device_storages{kOtherDevice};

class Storage;
// A layer above marks storages with flags of its own, keeps what it knows of them, and is told what happens
// to them. It may leave out what does not concern it.
struct StorageListener {
  unsigned flags;
  void (*destroyed)(Storage& storage) noexcept = nullptr;
  // Its bytes are asked for outside of calls.
  void (*used)(Storage& storage) = nullptr;
  // Its address becomes known: it may be written unseen.
  void (*exposed)(Storage& storage) = nullptr;
};
// Called while the library is loaded.
bool add_storage_listener(const StorageListener& listener);

// Note [Memory that is written unseen]
// Calls are the only writers that anybody sees: they bump the version, and whoever must know what
// the bytes were before has been told. Memory of others (kBorrowed: a NumPy array, a mapped file,
// what another process shares) and memory whose address is out (kLent while an array made by
// numpy() or a DLPack capsule lives, kExposed for good after data_ptr()) may be written between any
// two calls. So nothing may be concluded from an unchanged version there: what is to be found again
// later, such as what a budget computes values from, is a copy; codes and kept results of such
// memory are not used for other values; and bytes whose address is out stay where they are.
class Storage {
 public:
  enum Flag : uint16_t {
    kInference = 1,  // made in inference mode: never to meet the tape
    kBatched = 2,    // the bytes stand once for each element of a batch, see intercept/batch.h
    kLeaf = 4,       // a leaf of the graph shows it: not the tape's memory
    kEvicted = 8,    // the bytes are gone and can be computed again, see graph/budget.h
    kTracked = 16,   // the budget knows how to compute the bytes, or that nobody does
    kFresh = 32,     // born under a budget and not written yet
    kBorrowed = 64,  // the bytes are somebody else's
    kCoded = 128,    // saved values were made of the bytes that may be shared, see graph/coding.h
    kExposed = 256,  // the address is known outside, for good
    kLent = 512,     // the address is known outside, until end_loan()
    kWasOut = 1024,  // the address was known outside at some time
    kDevice = 2048,  // the bytes are on another device than the CPU, or nowhere
    kLeft = 4096,    // a tensor that showed the bytes was given others
    kMade = 8192,    // made while a program listened on this thread, see intercept/program.h
    kVoid = 16384,   // there are no bytes: the meta device
    kHeld = 32768,   // a call that was put off reads or writes the bytes, see cuda/held_calls.h
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
  static Ref<Storage> allocate(size_t nbytes, Device device) {
    if (device.is_cpu()) [[likely]]
      return allocate(nbytes);
    return allocate_on(device, nbytes);
  }
  // Bytes owned by somebody else, such as a NumPy array; free_owner(owner) runs at the end.
  static Ref<Storage> borrow(void* data, size_t nbytes, void* owner, void (*free_owner)(void*),
                             Device device = {}) {
    auto* keeper = new (pool_allocate(sizeof(Owner))) Owner{owner, free_owner};
    auto* storage = new (pool_allocate(sizeof(Storage))) Storage(data, nbytes, keeper);
    if (!device.is_cpu()) storage->settle_on(device);
    return Ref<Storage>::adopt(storage);
  }

  Device device() const { return context_.device; }
  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  bool has(unsigned flags) const { return context_.flags & flags; }
  bool is_borrowed() const { return has(kBorrowed); }
  // See Note [Memory that is written unseen].
  bool is_unguarded() const { return has(kBorrowed | kExposed | kLent); }

  // Any write to the bytes bumps the version; a saved value compares it when it is read.
  uint32_t version() const { return version_; }
  void bump_version() { ++version_; }

  // How many values that the tape saved show these bytes (graph/tape_memory.h).
  uint32_t savers() const { return savers_; }
  void set_savers(uint32_t count) { savers_ = count; }
  void mark_leaf() { set(kLeaf); }

  uint32_t birth_vmap() const { return context_.vmap; }
  uint32_t birth_transform() const { return context_.transform; }
  // What the budget knows of the bytes, while kTracked is set; never of borrowed ones.
  void* tracker() const { return tracker_; }
  void set_tracker(void* tracker) {
    tracker_ = tracker;
    set(kTracked);
  }
  void clear_tracker() {
    tracker_ = nullptr;
    clear(kTracked);
  }
  // The bytes are asked for outside of calls, and not written except for the first time. Fails where there are
  // none to be had: those of a batch as if they were one tensor's, or of another device.
  void use();
  // The address goes to somebody who may write the bytes whenever it likes.
  void expose();
  // The same until end_loan() was called as often; the borrower holds the storage.
  void lend();
  void end_loan() noexcept;
  // The bytes are written by such a way, before anything else.
  void clear_fresh() { clear(kFresh); }
  void clear_made() { clear(kMade); }
  bool is_inference() const { return context_.flags & kInference; }
  bool is_batched() const { return context_.flags & kBatched; }
  bool is_coded() const { return context_.flags & kCoded; }
  void set_coded() { set(kCoded); }
  void set_left() { set(kLeft); }
  void set_held() { set(kHeld); }
  void clear_held() { clear(kHeld); }

  void retain() { ++references_; }
  void release() noexcept {
    if (--references_ == 0) destroy();
  }
  uint32_t use_count() const { return references_; }

 private:
  friend class Batches;  // moves the bytes when they become a batch
  friend class Budget;   // takes the bytes away and gives new ones
  struct Owner {
    void* object;
    void (*free)(void*);
  };

  Storage(void* data, size_t nbytes, Owner* owner)
      : data_(data), nbytes_(nbytes), owner_(owner), context_(storage_context) {
    if (owner) {
      clear(kFresh);
      set(kBorrowed);
    }
  }
  static Ref<Storage> allocate_on(Device device, size_t nbytes);
  // The bytes alone, on any device.
  static void* allocate_bytes(Device device, size_t nbytes);
  static void free_bytes(Device device, void* data, size_t nbytes) noexcept;
  // The bytes are on another device than the CPU, or nowhere.
  void settle_on(Device device);

  void set(unsigned flags) { context_.flags = static_cast<uint16_t>(context_.flags | flags); }
  void clear(unsigned flags) { context_.flags = static_cast<uint16_t>(context_.flags & ~flags); }

  static constexpr size_t kEmbedLimit = 1024;
  static constexpr size_t header_offset(size_t nbytes) { return (nbytes + 7) / 8 * 8; }
  // True while this header lies behind the bytes it describes.
  bool is_embedded() const {
    return !is_borrowed() && nbytes_ <= kEmbedLimit &&
           static_cast<char*>(data_) + header_offset(nbytes_) ==
               reinterpret_cast<const char*>(this);
  }

  void destroy() noexcept {
    if (has(kBatched | kTracked | kCoded | kDevice)) [[unlikely]] {
      tell_destroyed();
      if (has(kDevice)) return free_on_device();
    }
    if (is_embedded()) return deallocate(data_, header_offset(nbytes_) + sizeof(Storage));
    if (is_borrowed()) return_bytes();
    else deallocate(data_, nbytes_);
    pool_free(this, sizeof(Storage));
  }
  void return_bytes() noexcept {
    owner_->free(owner_->object);
    pool_free(owner_, sizeof(Owner));
  }
  void tell_destroyed() noexcept;
  void tell_exposed();
  void free_on_device() noexcept;

  uint32_t references_ = 1;
  uint32_t version_ = 0;
  void* data_;
  size_t nbytes_;
  union {
    Owner* owner_;   // of borrowed bytes
    void* tracker_;  // of others: what the budget knows of them
  };
  StorageContext context_;
  uint32_t savers_ = 0;
};
static_assert(sizeof(Storage) == 48);

}  // namespace tapegrad
