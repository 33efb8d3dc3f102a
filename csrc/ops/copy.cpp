#include "ops/copy.h"

#include "core/error.h"
#include "core/layout.h"
#include "core/op.h"
#include "core/torch_names.h"
#include "graph/record.h"
#include "graph/view.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "intercept/capture.h"
#include "ops/create.h"
#include "ops/pointwise.h"

namespace tapegrad {

const Op copy_op("copy", {}, kAnyRank | kComplex | kBare);
const Op cast_tensors_op("cast_tensors", {}, kUnrecorded);
const Op move_op("move", {"non_blocking"}, kUnrecorded | kMoves);

namespace {

const Op has_zero_op("has_zero", {}, kNoDerivative | kHostRead);

const EntryKind clone_entry("clone", copy_op);
const EntryKind to_copy_entry("to_copy", copy_op);
const EntryKind copy_entry("copy", &copy_op, EntryKind::Role::Derivative, {}, "CopyBackwards");
const EntryKind fill_entry("fill", fill_op);

// The gradient goes through unchanged; the sweep casts it and sums broadcast dimensions away.
struct CloneBackward final : Entry<clone_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override { grad_inputs[0] = grads[0]; }
};

// The elements in another order: the gradient goes back into the order that they had.
struct RearrangedBackward final : Entry<clone_entry> {
  explicit RearrangedBackward(Sizes strides) : strides(strides) {}
  void vjp(Gradients grads, Gradients grad_inputs) override {
    grad_inputs[0] = rearranged(grads[0], strides);
  }
  DimVector strides;
};

struct ToCopyBackward final : Entry<to_copy_entry> {
  // A wider gradient is left to the sweep: see Note [Dtypes of gradients]. Others are rounded, whatever comes before x.
  void vjp(Gradients grads, Gradients grad_inputs) override {
    const Edge& edge = edges()[0];
    const DType dtype = edge.node->output_dtype(edge.output_number);
    grad_inputs[0] = itemsize(dtype) > itemsize(output_dtype(0)) ? grads[0] : cast(grads[0], dtype);
  }
};

// self.copy_(from): what self held before is gone, and so is its gradient.
struct CopyBackward final : Entry<copy_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (needs(0)) grad_inputs[0] = zeros(grads[0].sizes(), grads[0].dtype(), grads[0]->device());
    if (needs(1)) grad_inputs[1] = grads[0];
  }
};

struct FillBackward final : Entry<fill_entry> {
  void vjp(Gradients grads, Gradients grad_inputs) override {
    if (needs(0)) grad_inputs[0] = zeros_like(grads[0]);
  }
};

// In which bytes of its storage a tensor lies.
ByteRange byte_range(const Tensor& x) { return byte_range(placement_of(*x.impl())); }

// Of two tensors that share their storage.
bool ranges_meet(const Tensor& a, const Tensor& b) {
  return a.numel() > 0 && b.numel() > 0 && byte_range(a).meets(byte_range(b));
}

void check_no_internal_overlap(const char* op, const Tensor& self) {
  if (self.numel() <= 1) return;
  for (int64_t d = 0; d < self.dim(); ++d)
    TAPEGRAD_CHECK(self.size(d) <= 1 || self.stride(d) != 0, op,
                   ": unsupported operation: more than one element of the written-to tensor refers "
                   "to a single memory location. Please clone() the tensor before performing the "
                   "operation.");
}

// What can be told at a glance of the memory of two tensors: whether dense ones share it. Others
// count as apart: an op that reads one while it writes the other copies first.
enum class Overlap { None, Partial, Full };

Overlap overlap(const Tensor& a, const Tensor& b) {
  if (!(a->storage_ref() == b->storage_ref()) || a.numel() == 0 || b.numel() == 0)
    return Overlap::None;
  if (a.is_same(b)) return Overlap::Full;
  if (!is_dense(*a.impl()) || !is_dense(*b.impl())) return Overlap::None;
  ByteRange x = byte_range(a), y = byte_range(b);
  if (x.begin == y.begin && x.end == y.end)
    return same_sizes(a.strides(), b.strides()) ? Overlap::Full : Overlap::Partial;
  return x.meets(y) ? Overlap::Partial : Overlap::None;
}

[[noreturn]] void fail_overlap(const char* op) {
  fail(op,
       ": unsupported operation: some elements of the input tensor and the written-to tensor refer "
       "to a single memory location. Please clone() the tensor before performing the operation.");
}

void check_no_partial_overlap(const char* op, const Tensor& self,
                              std::span<const Tensor* const> operands) {
  for (const Tensor* operand : operands)
    if ((*operand)->storage_ref() == self->storage_ref() &&
        overlap(*operand, self) == Overlap::Partial)
      fail_overlap(op);
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !has_gradient(to)) return false;
  return !(to == DType::Bool && from != DType::Bool);
}

bool laid_out_alike(const Tensor& a, const Tensor& b) {
  return same_sizes(a.sizes(), b.sizes()) && same_sizes(a.strides(), b.strides()) &&
         is_dense(*a.impl());
}

// Between devices, where bytes are moved as they are: elements are put in order and converted on the device
// they come from, and spread on the one they go to. To the meta device nothing has to be moved, and from it
// nothing can be.
void copy_across(const Tensor& to, const Tensor& from, bool non_blocking) {
  if (to->device().is_meta()) return;
  if (from->device().is_meta())
    fail<NotImplementedError>(
        "copy: Cannot copy out of meta tensor; no data! Make an empty tensor with "
        "torch.empty_like(x, device=...) instead, or use Module.to_empty()");
  const bool direct = from.dtype() == to.dtype() && laid_out_alike(to, from);
  Tensor source = from;
  if (!direct && !(from.dtype() == to.dtype() && from.is_contiguous())) {
    source = empty_like(from, from.sizes(), to.dtype());
    dispatch(copy_op, {from}, {}, {source});
  }
  const bool lands = direct || laid_out_alike(to, source);
  const Tensor landing = lands ? to : empty("copy", source.sizes(), to.dtype(), to->device());
  dispatch(move_op, {source}, {non_blocking}, {landing});
  if (!lands) dispatch(copy_op, {landing}, {}, {to});
}

}  // namespace

void copy_into(const Tensor& to, const Tensor& from, bool non_blocking) {
  if (device_storages && to->device() != from->device()) return copy_across(to, from, non_blocking);
  dispatch(copy_op, {from}, {}, {to});
}

Tensor clone(const Tensor& x, MemoryFormat format) {
  Tensor y = empty_like_layout(x, x.dtype(), format);
  copy_into(y, x);
  if (should_record(x)) record<CloneBackward>({&x}, y, 0);
  return y;
}

Tensor contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor y = empty_like(x);
  copy_into(y, x);
  if (should_record(x)) record<CloneBackward>({&x}, y, 0);
  return y;
}

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  return is_contiguous(*x.impl(), format) ? x : clone(x, format);
}

Tensor in_format_of(const Tensor& y, const Tensor& x) {
  if (x.dim() < 4 || y.dim() != x.dim()) return y;
  MemoryFormat format = suggested_format(*x.impl());
  if (format == MemoryFormat::Contiguous) return y;
  return rearranged(y, format_strides("memory_format", y.sizes(), format));
}

Tensor rearranged(const Tensor& x, Sizes strides) {
  if (same_sizes(x.strides(), strides)) return x;
  Tensor y = empty_like(x);
  y->set_geometry(x.sizes(), strides, 0);
  copy_into(y, x);
  if (should_record(x)) record<RearrangedBackward>({&x}, y, 0, strides_like(*x.impl()));
  return y;
}

Tensor cast(const Tensor& x, DType dtype, MemoryFormat format) {
  if (x.dtype() == dtype &&
      (format == MemoryFormat::Preserve || format == suggested_format(*x.impl())))
    return x;
  Tensor y = empty_like_layout(x, dtype, format);
  copy_into(y, x);
  record_cast(x, y);
  return y;
}

void record_cast(const Tensor& x, const Tensor& result) {
  if (has_gradient(result.dtype()) && should_record(x))
    record<ToCopyBackward>({&x}, result, 0).set_gradient_dtypes(Node::GradientDtypes::Any);
}

std::vector<Tensor> cast_together(std::span<const Tensor> tensors, DType dtype) {
  std::vector<Tensor> results;
  results.reserve(tensors.size());
  for (const Tensor& x : tensors) results.push_back(empty_like(x, x.sizes(), dtype));
  dispatch(cast_tensors_op, tensors, {}, results);
  return results;
}

Tensor to_device(const Tensor& x, Device device, bool non_blocking, MemoryFormat format) {
  if (x->device() == device) return cast(x, x.dtype(), format);
  Tensor y = empty_like_layout(x, x.dtype(), format, device);
  copy_into(y, x, non_blocking);
  if (should_record(x)) record<ToCopyBackward>({&x}, y, 0);
  return y;
}

Tensor beside(const Tensor& number, const Tensor& x) {
  return number.dim() == 0 && number->device().is_cpu() ? to_device(number, x->device()) : number;
}

Tensor clone_with_history(const Tensor& x) {
  Tensor y = empty_like_layout(x, x.dtype());
  copy_into(y, x);
  if (Node* node = grad_fn(x)) put_history(y, Ref<Node>(node), x->meta()->output_number);
  if (forward_levels) set_tangents(y, tangents_of(x));  // its own list: x is about to change
  return y;
}

void copy_(const Tensor& self, const Tensor& from, bool non_blocking) {
  bool recording = should_record(self, from);
  // Of a tensor to itself nothing is written: elements may share a place, if no gradient has to tell
  // them apart.
  if (self.is_same(from) && !recording) check_write("copy_", self, recording);
  else check_inplace("copy_", self, recording);
  TAPEGRAD_CHECK(
      can_expand(from.sizes(), self.sizes()),
      "copy_: The expanded size of the tensor must match the existing size at non-singleton "
      "dimensions: a tensor of shape ",
      to_string(from.sizes()), " cannot be broadcast to shape ", to_string(self.sizes()));
  bool shares = from->storage_ref() == self->storage_ref() && !same_geometry(from, self);
  if (shares && overlap(from, self) == Overlap::Partial) fail_overlap("copy_");
  if (!self.is_same(from))
    copy_into(self, shares && ranges_meet(from, self) ? clone_with_history(from) : from,
              non_blocking);
  note_write("copy_", self);
  if (!recording || !has_gradient(self.dtype())) return;
  Ref<CopyBackward> node = Node::create<CopyBackward>(2, 0, std::span(&self, 1));
  node->edges()[0] = gradient_edge(self);
  node->edges()[1] = gradient_edge(from);
  node->stamp();
  rebase_history(self, std::move(node));
}

void overwrite(const char* op, const Tensor& self, Scalar value) {
  bool recording = should_record(self);
  // One value everywhere: it does not matter that elements share a place.
  check_write(op, self, recording);
  fill_into(self, value);
  note_write(op, self);
  if (!recording) return;
  Ref<FillBackward> node = Node::create<FillBackward>(1, 0, std::span(&self, 1));
  node->edges()[0] = gradient_edge(self);
  node->stamp();
  rebase_history(self, std::move(node));
}

void fill_(const Tensor& self, const Tensor& value) {
  TAPEGRAD_CHECK(value.dim() == 0, "fill_: only supports a 0-dimension value tensor, got one with ",
                 value.dim(), " dimensions");
  // The value may be an element of self.
  copy_(self, value->storage_ref() == self->storage_ref() ? clone(value) : value);
}

void fill_(const Tensor& self, Scalar value) {
  check_fits("fill_", value, self.dtype());
  overwrite("fill_", self, value);
}
void zero_(const Tensor& self) { overwrite("zero_", self, 0); }

bool has_zero(const Tensor& x) {
  if (x->device().is_meta()) return false;
  Tensor found = empty_like(x, {}, DType::Bool);
  dispatch(has_zero_op, {x}, {}, {found});
  if (!is_batched(found)) return *read_on_host<bool>(found);
  BatchDim dim = Batches::of(found->storage()).back();
  return has_zero(logical_not(Batches::reveal(found, 0, dim.vmap, dim.size)));
}

void check_inplace(const char* op, const Tensor& self, bool recording) {
  check_write(op, self, recording);
  check_no_internal_overlap(op, self);
}

void check_apart(const char* op, const Tensor& self,
                 std::initializer_list<const Tensor*> operands) {
  for (const Tensor* operand : operands)
    if (overlap(*operand, self) != Overlap::None) fail_overlap(op);
}

// Inside grad(f) and the like, f must not write what depends on its inputs to a tensor from outside:
// the tensor would lead out of the transform what is to stay in it.
void check_captured_write(const char* op, const Tensor& self) {
  bool outside = self->storage().birth_transform() < storage_context.transform;
  const Node* node = grad_fn(self);
  bool inside = node && node->sequence() >= transform_start;
  TAPEGRAD_CHECK(!outside || inside, op,
                 ": during a grad (vjp, jvp, grad, etc) transform, the function attempted an "
                 "in-place operation that would mutate a captured Tensor; use the out-of-place op, "
                 "or pass the tensor as an argument");
}

// The argument of a vmapped function shares its memory with the tensor it was taken from, whose history
// would not know of the write.
void check_batched_write(const char* op, const Tensor& self) {
  TAPEGRAD_CHECK(!(grad_enabled && requires_grad(self) && Batches::parent(self->storage())), op,
                 ": vmap: an argument of the function that requires grad is being modified in "
                 "place; use the out-of-place op, or a .clone()");
}

void check_write(const char* op, const Tensor& self, bool recording) {
  if (recording && requires_grad(self) && begins_graph(self))
    fail(op, ": a leaf Variable that requires grad is being used in an in-place operation; wrap "
             "the update in no_grad(), or write to a .clone()");
  TAPEGRAD_CHECK(!self->storage().is_inference() || (storage_context.flags & Storage::kInference),
                 op,
                 ": Inplace update to inference tensor outside InferenceMode is not allowed; use "
                 "its .clone()");
  if (recording && storage_context.transform != self->storage().birth_transform())
    check_captured_write(op, self);
  if (is_batched(self)) [[unlikely]]
    check_batched_write(op, self);
  if (is_differentiating()) check_view_write(op, self, recording);
  if (before_write) [[unlikely]]
    before_write(self);
}

void check_inplace_result(const char* op, const Tensor& self, Sizes sizes, DType dtype,
                          std::span<const Tensor* const> operands) {
  TAPEGRAD_CHECK(same_sizes(self.sizes(), sizes), op, ": output with shape ",
                 to_string(self.sizes()), " doesn't match the broadcast shape ", to_string(sizes));
  TAPEGRAD_CHECK(can_cast(dtype, self.dtype()), op, ": result type ", type_name(dtype),
                 " can't be cast to the desired output type ", type_name(self.dtype()));
  check_no_partial_overlap(op, self, operands);
}

void prepare_out(const char* op, const Tensor& out, Sizes sizes, DType dtype,
                 std::span<const Tensor* const> operands) {
  TAPEGRAD_CHECK(can_cast(dtype, out.dtype()), op, ": result type ", type_name(dtype),
                 " can't be cast to the desired output type ", type_name(out.dtype()));
  // Before it is resized: it is what the caller gave that may not overlap.
  check_no_internal_overlap(op, out);
  check_no_partial_overlap(op, out, operands);
  if (!same_sizes(out.sizes(), sizes)) resize_(out, sizes);
}

void resize_(const Tensor& self, Sizes sizes, MemoryFormat format) {
  int64_t numel = checked_numel("resize_", sizes);
  TAPEGRAD_CHECK(format != MemoryFormat::Preserve,
                 "resize_: unsupported memory format preserve_format; use contiguous_format or "
                 "channels_last");
  const DimVector shape(sizes), strides_wanted = format_strides("resize_", shape, format);
  TAPEGRAD_CHECK(!requires_grad(self) || !grad_enabled,
                 "resize_: cannot resize variables that require grad");
  auto needed = (self->offset() + numel) * static_cast<int64_t>(itemsize(self.dtype()));
  if (needed > static_cast<int64_t>(self->storage().nbytes())) {
    Tensor fresh = empty_like(self, sizes, self.dtype());
    // The bytes stay in order, whatever strides the old shape read them with.
    const auto whole = static_cast<int64_t>(self->storage().nbytes() / itemsize(self.dtype()));
    const int64_t kept[] = {std::max<int64_t>(whole - self->offset(), 0)}, strides[] = {1};
    if (kept[0] > 0)
      copy_into(alias(fresh, kept, strides, 0), alias(self, kept, strides, self->offset()));
    set_memory(*self.impl(), fresh->storage_ref(), self.dtype());
    self->set_geometry(shape, strides_wanted, 0);
    return;
  }
  self->set_geometry(shape, strides_wanted, self->offset());
}

}  // namespace tapegrad
