// Batches: how one tensor stands for many, which is what vmap is made of.
//
// Note [A batch is a property of storage]
// Under vmap(f) a tensor has the shape that f thinks it has, and its storage holds the bytes once
// for each element of the batch, a fixed stride apart. Shapes, strides, offsets, views, type promotion,
// the tape and its sweep never learn of it: only the dispatch point does, which runs the kernel
// for every element, or once over an extra dimension where the kernel is pointwise. So every op
// has a batching rule, and vmap nests with every other transform in any order.
//
// Vmaps, running ones and those that have ended, are numbered by a counter that only grows. A storage is batched
// over any number of vmaps. It knows the innermost vmap that ran when it was made (its birth):
// writing a batch into a storage born outside the vmap would leak, and is refused. A storage born inside
// becomes a batch, its bytes repeated, when something batched is first written to it.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/op.h"
#include "core/tensor.h"

namespace tapegrad {

struct BatchDim {
  uint32_t vmap;
  int64_t size;
  int64_t stride;  // in bytes
};

enum class Randomness { Error, Same, Different };

// A running vmap, as the ops that draw random numbers must know it.
struct RunningVmap {
  uint32_t vmap;
  int64_t size;
  Randomness randomness;
};
inline thread_local std::vector<RunningVmap> running_vmaps;
inline bool is_vmap_running() { return is_intercepted_here(Interceptor::Vmap); }
// How many storages are batches, on any thread.
inline Reasons batched_storages{Interceptor::Vmap};

// Starts a vmap on this thread and returns its number; ends it. One that runs again, because what it
// computed was not kept, is given the number that it had: its batches are the same.
uint32_t enter_vmap(int64_t size, Randomness randomness, uint32_t former = 0);
void exit_vmap();

class Batches {
 public:
  // The batch dimensions of a storage, outermost vmap first; empty for a plain one.
  static std::span<const BatchDim> of(const Storage& storage);
  // A tensor over x's memory whose dimension `dim` has become the batch of `vmap`.
  static Tensor hide(const Tensor& x, int64_t dim, uint32_t vmap);
  // The reverse: the batch of `vmap` becomes dimension `dim` of a plain view. A tensor that is not
  // batched there is repeated `size` times, without copying.
  static Tensor reveal(const Tensor& x, int64_t dim, uint32_t vmap, int64_t size);
  // Whether elements of the batch of `vmap` have room between them, which widen() left.
  static bool has_gaps(const Storage& storage, uint32_t vmap);
  // Gives the tensor's storage room for a batch over these dimensions as well.
  static void widen(const char* op, TensorImpl& tensor, std::span<const BatchDim> dims);
  // The storage that a hidden tensor shares its bytes with, or null.
  static Storage* parent(const Storage& storage);
  // Whose bytes these are, however many vmaps share, hide or show them.
  static Storage& owner(Storage& storage);
  // The bytes of an owner as plain memory, whether or not it is a batch.
  static Ref<Storage> plain(Storage& owner);
  static void run(const OpCall& call, const Next& next);

 private:
  static void forget(Storage& storage) noexcept;
  static void shift(Storage& storage, void* data) { storage.data_ = data; }
  static const bool installed_;
};

// For a while, what is made belongs to that vmap, as if it were running.
class VmapScope {
 public:
  explicit VmapScope(uint32_t vmap) : outer_(std::exchange(storage_context.vmap, vmap)) {}
  ~VmapScope() { storage_context.vmap = outer_; }
  VmapScope(const VmapScope&) = delete;
  VmapScope& operator=(const VmapScope&) = delete;

 private:
  uint32_t outer_;
};

inline bool is_batched(const Tensor& x) { return x->storage().is_batched(); }
bool is_batched_at(const Tensor& x, uint32_t vmap);

}  // namespace tapegrad
