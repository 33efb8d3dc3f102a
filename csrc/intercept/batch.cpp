#include "intercept/batch.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "core/error.h"
#include "core/loan.h"
#include "intercept/host_bytes.h"
#include "intercept/program.h"

namespace tapegrad {

namespace {

constexpr size_t kBatchAlignment = 64;

struct Batch {
  std::vector<BatchDim> dims;   // outermost vmap first
  void* narrow_data = nullptr;  // of a widened storage: where its bytes lay before
  size_t wide_nbytes = 0;
  Ref<Storage> parent;  // of a hidden or revealed one: whose bytes these are
};

auto& table = *new std::unordered_map<const Storage*, Batch>();
uint32_t last_vmap = 0;

void free_parent(void* parent) { static_cast<Storage*>(parent)->release(); }

void free_loan(void* held) { delete static_cast<Loan*>(held); }

// Another storage over the same bytes, which keeps the first one alive.
Ref<Storage> share(Storage& storage, void* data, size_t nbytes) {
  storage.retain();
  return Storage::borrow(data, nbytes, &storage, free_parent, storage.device());
}

// The same for longer than a call: what is written there is not seen here.
Ref<Storage> lend(Storage& storage, size_t nbytes) {
  auto loan = std::make_unique<Loan>(Ref<Storage>(&storage));
  return Storage::borrow(storage.data(), nbytes, loan.release(), free_loan, storage.device());
}

const BatchDim* find(std::span<const BatchDim> dims, uint32_t vmap) {
  for (const BatchDim& dim : dims)
    if (dim.vmap == vmap) return &dim;
  return nullptr;
}

void merge(const char* op, std::vector<BatchDim>& dims, const BatchDim& dim) {
  auto place =
      std::lower_bound(dims.begin(), dims.end(), dim.vmap,
                       [](const BatchDim& entry, uint32_t vmap) { return entry.vmap < vmap; });
  if (place == dims.end() || place->vmap != dim.vmap) dims.insert(place, dim);
  else
    TAPEGRAD_CHECK(place->size == dim.size, op, ": vmap: batches of sizes ", place->size, " and ",
                   dim.size, " meet; a tensor has escaped from another vmap");
}

// Counts through all elements of a batch.
class BatchIndex {
 public:
  explicit BatchIndex(std::span<const BatchDim> dims) : dims_(dims), index_(dims.size(), 0) {
    for (const BatchDim& dim : dims) done_ |= dim.size == 0;
  }
  bool done() const { return done_; }
  void next() {
    for (size_t d = dims_.size(); d-- > 0;) {
      if (++index_[d] < dims_[d].size) return;
      index_[d] = 0;
    }
    done_ = true;
  }
  // Where the current element of a storage with (some of) these vmaps begins.
  int64_t offset(std::span<const BatchDim> of) const {
    int64_t bytes = 0;
    for (size_t d = 0; d < dims_.size(); ++d)
      if (const BatchDim* dim = find(of, dims_[d].vmap)) bytes += index_[d] * dim->stride;
    return bytes;
  }

 private:
  std::span<const BatchDim> dims_;
  std::vector<int64_t> index_;
  bool done_ = false;
};

// A plain operand that stands for one element of a batched one.
struct Slice {
  TensorImpl* whole;
  Tensor plain;

  explicit Slice(TensorImpl* operand) : whole(operand) {
    if (!operand->storage().is_batched()) {
      plain = Tensor(operand);
      return;
    }
    Storage& storage = operand->storage();
    Ref<Storage> part = share(storage, storage.data(), storage.nbytes());
    plain = Tensor(TensorImpl::create(std::move(part), operand->dtype(), operand->sizes(),
                                      operand->strides(), operand->offset()));
    plain->set_wrapped_number(operand->is_wrapped_number());
  }
};

// The operand with the batch as leading dimensions, aligned to `rank` dimensions of its own.
Tensor with_leading_dims(TensorImpl* operand, std::span<const BatchDim> dims, size_t rank) {
  Storage& storage = operand->storage();
  std::span<const BatchDim> own = Batches::of(storage);
  auto item = static_cast<int64_t>(itemsize(operand->dtype()));
  DimVector sizes, strides;
  for (const BatchDim& dim : dims) {
    const BatchDim* here = find(own, dim.vmap);
    sizes.push_back(here ? dim.size : 1);
    strides.push_back(here ? here->stride / item : 0);
  }
  for (size_t d = operand->sizes().size(); d < rank; ++d) {
    sizes.push_back(1);
    strides.push_back(0);
  }
  for (size_t d = 0; d < operand->sizes().size(); ++d) {
    sizes.push_back(operand->size(d));
    strides.push_back(operand->stride(d));
  }
  Tensor plain(TensorImpl::create(share(storage, storage.data(), storage.nbytes()),
                                  operand->dtype(), sizes, strides, operand->offset()));
  plain->set_wrapped_number(operand->is_wrapped_number());
  return plain;
}

// What one element of the batch gives is not kept for others.
void run_plain(const OpCall& call, const Next& next) { next.without(Interceptor::Reuse)(call); }

void run_with_leading_dims(const OpCall& call, const Next& next, std::span<const BatchDim> dims) {
  const bool by_elements = call.op.traits & kAnyRank;
  size_t rank = 0;  // of those that are aligned: matrices and vectors are not
  if (by_elements) {
    for (TensorImpl* input : call.inputs) rank = std::max(rank, input->sizes().size());
    for (TensorImpl* output : call.outputs) rank = std::max(rank, output->sizes().size());
  }
  std::vector<Tensor> operands;
  std::vector<TensorImpl*> inputs, outputs;
  operands.reserve(call.inputs.size() + call.outputs.size());
  auto extend = [&](TensorImpl* operand) {
    // A number stays one: it may be on the CPU, whatever device the others are on.
    const bool is_number = by_elements && operand->dim() == 0 && !operand->storage().is_batched();
    return operands
        .emplace_back(is_number ? Tensor(operand) : with_leading_dims(operand, dims, rank))
        .impl();
  };
  for (TensorImpl* input : call.inputs) inputs.push_back(extend(input));
  for (TensorImpl* output : call.outputs) outputs.push_back(extend(output));
  run_plain({call.op, inputs, call.attributes, outputs}, next);
}

void run_each(const OpCall& call, const Next& next, std::span<const BatchDim> dims,
              void (*shift)(Storage&, void*)) {
  std::vector<Scalar> attributes(call.attributes.begin(), call.attributes.end());
  Scalar* seed = call.op.traits & kRandom ? &attributes[call.op.attribute("seed")] : nullptr;
  for (BatchIndex index(dims); !index.done(); index.next()) {
    std::vector<Slice> slices;
    std::vector<TensorImpl*> inputs, outputs;
    slices.reserve(call.inputs.size() + call.outputs.size());
    auto slice = [&](TensorImpl* operand) {
      Slice& part = slices.emplace_back(operand);
      Storage& storage = operand->storage();
      if (storage.is_batched())
        shift(part.plain->storage(),
              static_cast<char*>(storage.data()) + index.offset(Batches::of(storage)));
      return part.plain.impl();
    };
    for (TensorImpl* input : call.inputs) inputs.push_back(slice(input));
    for (TensorImpl* output : call.outputs) outputs.push_back(slice(output));
    // Each element draws from a stream of its own.
    if (seed) *seed = static_cast<uint64_t>(seed->as_int()) + uint64_t{0x9E3779B97F4A7C15};
    run_plain({call.op, inputs, attributes, outputs}, next);
  }
}

// The vmaps over which an op that draws random numbers must draw anew.
void add_random_dims(const OpCall& call, std::vector<BatchDim>& dims) {
  for (const RunningVmap& running : running_vmaps) {
    TAPEGRAD_CHECK(running.randomness != Randomness::Error, call.op.name,
                   ": vmap: called random operation while in randomness error mode; pass "
                   "randomness='same' or randomness='different' to vmap");
    if (running.randomness == Randomness::Different)
      merge(call.op.name, dims, {running.vmap, running.size, 0});
    else
      TAPEGRAD_CHECK(!find(dims, running.vmap), call.op.name,
                     ": vmap: randomness='same' cannot draw into a tensor that differs over the "
                     "batch; pass randomness='different'");
  }
}

}  // namespace

uint32_t enter_vmap(int64_t size, Randomness randomness, uint32_t former) {
  TAPEGRAD_CHECK(former <= last_vmap, "vmap: no former one has the number ", former);
  uint32_t vmap = former ? former : ++last_vmap;
  running_vmaps.push_back({vmap, size, randomness});
  storage_context.vmap = vmap;
  intercept_here(Interceptor::Vmap, true);
  return vmap;
}

void exit_vmap() {
  TAPEGRAD_CHECK(!running_vmaps.empty(), "vmap: none is running");
  running_vmaps.pop_back();
  storage_context.vmap = running_vmaps.empty() ? 0 : running_vmaps.back().vmap;
  intercept_here(Interceptor::Vmap, !running_vmaps.empty());
}

std::span<const BatchDim> Batches::of(const Storage& storage) {
  if (!storage.is_batched()) return {};
  return table.find(&storage)->second.dims;
}

Storage* Batches::parent(const Storage& storage) {
  if (!storage.is_batched()) return nullptr;
  return table.find(&storage)->second.parent.get();
}

void Batches::forget(Storage& storage) noexcept {
  auto found = table.find(&storage);
  if (found->second.wide_nbytes) {
    Storage::free_bytes(storage.device(), storage.data_, found->second.wide_nbytes);
    storage.data_ = found->second.narrow_data;
  }
  Batch gone = std::move(found->second);  // its parent may be a batch too
  table.erase(found);
  --batched_storages;
}

Tensor Batches::hide(const Tensor& x, int64_t dim, uint32_t vmap) {
  Storage& storage = x->storage();
  TAPEGRAD_CHECK(!storage.device().is_meta(),
                 "vmap: expected tensors with elements, got one on the meta device");
  std::span<const BatchDim> outer = of(storage);
  Batch batch{{outer.begin(), outer.end()}, nullptr, 0, x->storage_ref()};
  merge("vmap", batch.dims,
        {vmap, x.size(dim), x.stride(dim) * static_cast<int64_t>(itemsize(x.dtype()))});
  DimVector sizes(x.sizes()), strides(x.strides());
  sizes.erase(dim);
  strides.erase(dim);
  Ref<Storage> hidden = lend(storage, storage.nbytes());
  hidden->context_.flags |= Storage::kBatched | (storage.context_.flags & Storage::kInference);
  table.emplace(hidden.get(), std::move(batch));
  ++batched_storages;
  return Tensor(TensorImpl::create(std::move(hidden), x.dtype(), sizes, strides, x->offset()));
}

Tensor Batches::reveal(const Tensor& x, int64_t dim, uint32_t vmap, int64_t size) {
  Storage& storage = x->storage();
  const BatchDim* here = find(of(storage), vmap);
  DimVector sizes(x.sizes()), strides(x.strides());
  sizes.insert(dim, here ? here->size : size);
  auto item = static_cast<int64_t>(itemsize(x.dtype()));
  strides.insert(dim, here ? here->stride / item : 0);
  if (!here) return alias(x, sizes, strides, x->offset());
  size_t reach = std::max(storage.nbytes(),
                          static_cast<size_t>((here->size - 1) * here->stride) + storage.nbytes());
  Ref<Storage> shown = lend(storage, here->size > 0 ? reach : 0);
  Batch batch{{}, nullptr, 0, x->storage_ref()};
  for (const BatchDim& other : of(storage))
    if (other.vmap != vmap) batch.dims.push_back(other);
  if (!batch.dims.empty()) {
    shown->context_.flags |= Storage::kBatched;
    table.emplace(shown.get(), std::move(batch));
    ++batched_storages;
  }
  return Tensor(TensorImpl::create(std::move(shown), x.dtype(), sizes, strides, x->offset()));
}

bool Batches::has_gaps(const Storage& storage, uint32_t vmap) {
  if (!storage.is_batched()) return false;
  const Batch& batch = table.find(&storage)->second;
  return batch.wide_nbytes > 0 && storage.nbytes() % kBatchAlignment != 0 && find(batch.dims, vmap);
}

Storage& Batches::owner(Storage& storage) {
  Storage* found = &storage;
  while (found->is_borrowed()) {
    const Storage::Owner& owner = *found->owner_;
    if (owner.free == free_parent) found = static_cast<Storage*>(owner.object);
    else if (owner.free == free_loan) found = &static_cast<Loan*>(owner.object)->storage();
    else break;
  }
  return *found;
}

Ref<Storage> Batches::plain(Storage& owner) {
  if (!owner.is_batched()) return Ref<Storage>(&owner);
  const size_t wide = table.find(&owner)->second.wide_nbytes;
  return share(owner, owner.data(), std::max(wide, owner.nbytes()));
}

namespace {

// The bytes of a storage once for each element of a batch that they differ over.
struct Spread {
  Device device;
  DimVector sizes, strides;

  Spread(std::span<const BatchDim> dims, std::span<const BatchDim> own, const Storage& storage)
      : device(storage.device()) {
    for (const BatchDim& dim : dims) {
      const BatchDim* here = find(own, dim.vmap);
      sizes.push_back(dim.size);
      strides.push_back(here ? here->stride : 0);
    }
    sizes.push_back(static_cast<int64_t>(storage.nbytes()));
    strides.push_back(1);
  }
  Placement placement() const { return {DType::UInt8, device, 0, sizes, strides}; }
  Tensor over(void* data) const {
    const auto nbytes = static_cast<size_t>(byte_range(placement()).end);
    Ref<Storage> memory = Storage::borrow(data, nbytes, nullptr, [](void*) {}, device);
    return Tensor(TensorImpl::create(std::move(memory), DType::UInt8, sizes, strides, 0));
  }
};

// A 0-d tensor on the CPU may meet those of a device, where it is a number; a batch of them is not one number.
bool has_numbers_elsewhere(const OpCall& call) {
  const Device device = call.out().device();
  return std::any_of(call.inputs.begin(), call.inputs.end(), [&](const TensorImpl* input) {
    return input->storage().is_batched() && input->device() != device;
  });
}

}  // namespace

void Batches::widen(const char* op, TensorImpl& tensor, std::span<const BatchDim> dims) {
  Storage& storage = tensor.storage();
  std::span<const BatchDim> own = of(storage);
  std::vector<BatchDim> all(own.begin(), own.end());
  for (const BatchDim& dim : dims) {
    if (find(own, dim.vmap)) continue;
    bool fresh = storage.use_count() == 1 && !storage.is_borrowed() && !tensor.python_object();
    TAPEGRAD_CHECK((fresh || dim.vmap <= storage.birth_vmap()) && !parent(storage), op,
                   ": vmap: inplace arithmetic is not possible, because the written-to tensor is "
                   "not being vmapped over but what is written differs over the batch; make the "
                   "tensor inside the function, or use the out-of-place op");
    merge(op, all, dim);
  }
  if (all.size() == own.size()) return;
  // Elements of the batch lie one after the other, each on a cache line of its own.
  auto stride = static_cast<int64_t>((storage.nbytes() + kBatchAlignment - 1) / kBatchAlignment *
                                     kBatchAlignment);
  std::vector<BatchDim> wide = all;
  for (size_t d = wide.size(); d-- > 0;) {
    wide[d].stride = stride;
    TAPEGRAD_CHECK_AS(OutOfMemoryError,
                      !__builtin_mul_overflow(stride, std::max<int64_t>(wide[d].size, 1), &stride),
                      op, ": vmap: a batch of ", wide[d].size, " tensors of ", storage.nbytes(),
                      " bytes is larger than can be addressed");
  }
  const Device device = storage.device();
  void* data = Storage::allocate_bytes(device, static_cast<size_t>(stride));
  const Spread before(wide, own, storage), after(wide, wide, storage);
  if (storage.data_) copy_unseen(before.over(storage.data_), after.over(data));
  Batch batch{std::move(wide), storage.data_, static_cast<size_t>(stride), nullptr};
  if (auto found = table.find(&storage); found != table.end()) {
    if (found->second.wide_nbytes)
      Storage::free_bytes(device, storage.data_, found->second.wide_nbytes);
    batch.narrow_data = found->second.narrow_data;
    found->second = std::move(batch);
  } else {
    table.emplace(&storage, std::move(batch));
    storage.context_.flags |= Storage::kBatched;
    ++batched_storages;
  }
  if (data) storage.data_ = data;  // nothing to hold: the storage stays where it is
  if (capturing) capturing->append_move(storage, before.placement(), after.placement());
}

void Batches::run(const OpCall& call, const Next& next) {
  std::vector<BatchDim> dims;
  for (TensorImpl* input : call.inputs)
    for (const BatchDim& dim : of(input->storage())) merge(call.op.name, dims, dim);
  for (TensorImpl* output : call.outputs)
    for (const BatchDim& dim : of(output->storage())) merge(call.op.name, dims, dim);
  if (call.op.traits & kRandom) add_random_dims(call, dims);
  if (dims.empty()) return run_plain(call, next);
  for (TensorImpl* output : call.outputs) widen(call.op.name, *output, dims);
  if ((call.op.traits & (kAnyRank | kLeadingDims)) && !has_numbers_elsewhere(call))
    run_with_leading_dims(call, next, dims);
  else run_each(call, next, dims, shift);
}

bool is_batched_at(const Tensor& x, uint32_t vmap) {
  return find(Batches::of(x->storage()), vmap) != nullptr;
}

namespace {

// A batch that lives somewhere does not concern a call that it takes no part in.
bool has_batch(const OpCall& call) {
  auto is_batch = [](const TensorImpl* x) { return x->storage().is_batched(); };
  return std::any_of(call.inputs.begin(), call.inputs.end(), is_batch) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), is_batch);
}

[[noreturn]] void fail_one_answer(Storage&) {
  fail("vmap: it looks like you're calling .item(), bool(), numpy() or an op whose result's shape "
       "depends on the values, on a tensor that differs over the batch; this has no one answer. "
       "Use torch.where for choices, or move the call out of the vmapped function");
}

}  // namespace

[[maybe_unused]] const bool Batches::installed_ =
    add_storage_listener({Storage::kBatched, forget, fail_one_answer}) &&
    install(Interceptor::Vmap, [](const OpCall& call, const Next& next) {
  if (is_vmap_running() || has_batch(call)) run(call, next);
  else next(call);
});

}  // namespace tapegrad
