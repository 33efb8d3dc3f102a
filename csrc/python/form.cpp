#include "python/form.h"

#include "cuda/blas.h"
#include "cuda/capturing.h"
#include "cuda/dnn.h"
#include "cuda/held_calls.h"
#include "cuda/settings.h"
#include "engine/events.h"
#include "graph/coding.h"
#include "graph/forward.h"
#include "graph/write_log.h"
#include "intercept/batch.h"
#include "intercept/capture.h"
#include "python/tensor_object.h"

namespace tapegrad::python {

namespace {

enum Trait : uint32_t {
  kRequiresGrad = 1,
  kNoLeaf = 2,
  kView = 4,
  kInference = 8,
  kOdd = 16,
  kOnDevice = 32
};

bool has_accumulator_hooks(const AutogradMeta* meta) {
  return meta && meta->is_leaf && meta->node && meta->node->has_hooks();
}

const char* find_refusal(const TensorImpl& x) {
  if (x.device().is_meta()) return "it is on the meta device";
  if (x.storage().has(Storage::kBatched | Storage::kEvicted))
    return "it belongs to a vmap or a budget";
  const AutogradMeta* meta = x.meta();
  const AutogradExtras* extra = meta ? meta->extra : nullptr;
  if (extra && (extra->hooks || extra->accumulate_hooks)) return "it has hooks";
  if (extra && (extra->tangents || extra->primal.defined())) return "it carries a tangent";
  if (meta && meta->retains_grad) return "it retains its gradient";
  if (has_accumulator_hooks(meta)) return "the entry that accumulates its gradient has hooks";
  return nullptr;
}

Py_ssize_t attribute_count(const TensorImpl& x) {
  const auto* object = static_cast<const TensorObject*>(x.python_object());
  return object && object->dict ? PyDict_GET_SIZE(object->dict) : 0;
}

}  // namespace

Form::Layout::Layout(const TensorImpl& x)
    : dtype(x.dtype()), sizes(x.sizes()), strides(x.strides()) {}

bool Form::Layout::fits(const TensorImpl& x) const {
  return x.dtype() == dtype && same_sizes(x.sizes(), sizes) && same_sizes(x.strides(), strides);
}

uint32_t Form::traits_of(const TensorImpl& x) {
  uint32_t traits = 0;
  if (x.storage().has(Storage::kInference | Storage::kBatched | Storage::kEvicted |
                      Storage::kDevice)) {
    if (x.storage().is_inference()) traits |= kInference;
    if (x.storage().has(Storage::kBatched | Storage::kEvicted)) traits |= kOdd;
    if (x.storage().has(Storage::kDevice)) traits |= kOnDevice;
  }
  const AutogradMeta* meta = x.meta();
  if (!meta) return traits;
  if (meta->requires_grad) traits |= kRequiresGrad;
  if (!meta->is_leaf) traits |= kNoLeaf;
  if (meta->retains_grad || has_accumulator_hooks(meta)) traits |= kOdd;
  if (const AutogradExtras* extra = meta->extra) {
    if (extra->base.defined()) {
      traits |= kView;
      if (!extra->no_grad_view && requires_grad(extra->base)) traits |= kRequiresGrad;
    }
    if (extra->hooks || extra->accumulate_hooks || extra->tangents || extra->primal.defined())
      traits |= kOdd;
  }
  return traits;
}

Form::Form(const Tensor& x)
    : storage_(x->storage_ref()),
      layout_(*x.impl()),
      offset_(x->offset()),
      device_(x->device()),
      attributes_(attribute_count(*x.impl())),
      traits_(traits_of(*x.impl())),
      refusal_(find_refusal(*x.impl())) {
  const AutogradMeta* meta = x->meta();
  if (!meta || !meta->grad.defined()) return;
  has_grad_ = true;
  grad_layout_ = Layout(*meta->grad.impl());
  if (!refusal_ && traits_of(*meta->grad.impl()) != (traits_ & kOnDevice))
    refusal_ = "its gradient is recorded, has hooks or is a view";
}

bool Form::is_odd() const { return traits_ & kOdd; }
bool Form::has_history() const { return traits_ & kNoLeaf; }

bool Form::fits(const TensorImpl& x, bool same_storage, bool same_grad) const {
  if (same_storage && (x.storage_ref() != storage_ || x.offset() != offset_)) return false;
  if (!layout_.fits(x) || traits_of(x) != traits_ || attribute_count(x) != attributes_)
    return false;
  if ((traits_ & kOnDevice) && x.device() != device_) return false;
  if (!same_grad) return true;
  const AutogradMeta* meta = x.meta();
  const bool has_grad = meta && meta->grad.defined();
  if (has_grad != has_grad_) return false;
  if (!has_grad) return true;
  return grad_layout_.fits(*meta->grad.impl()) &&
         traits_of(*meta->grad.impl()) == (traits_ & kOnDevice);
}

namespace {

uint64_t device_settings_now() {
  const auto& products = cuda::matmul_settings;
  const auto& dnn = cuda::dnn_settings;
  uint64_t bits = static_cast<uint64_t>(products.float32_precision);
  for (bool each : {products.allow_float16_reduction, products.allow_bfloat16_reduction,
                    products.allow_float16_accumulation, dnn.enabled, dnn.benchmark,
                    dnn.deterministic, dnn.allow_tf32, cuda::uses_blas, cuda::merges_calls})
    bits = bits << 1 | each;
  return bits;
}

}  // namespace

Environment::Environment()
    : grad(grad_enabled),
      inference(storage_context.flags & Storage::kInference),
      caches(autocast_settings.caches),
      deterministic(cuda::deterministic_algorithms),
      data_writes_are_errors(tapegrad::data_writes_are_errors),
      autocast(autocast_devices),
      nesting(autocast_settings.nesting),
      default_dtype(tapegrad::default_dtype()),
      default_device(tapegrad::default_device),
      attention(attention_choices),
      device_settings(device_settings_now()) {
  for (int i = 0; i < kDeviceTypes; ++i) dtypes[i] = autocast_settings.dtypes[i];
}

bool is_observed(bool in_sweep) {
  if (!in_sweep && (sweep_watch || sweeps_running)) return true;
  // Batches, complex numbers and storages of other devices may live somewhere: no form fits them.
  constexpr uint32_t kUnfit = kOtherDevice | kLimitedTensors | bit(Interceptor::Vmap);
  const uint32_t elsewhere = intercepted_everywhere & ~kUnfit;
  return intercepted_here || elsewhere || forward_levels || packing || coding || check_forward ||
         transform_start || cuda::capture_underway;
}

}  // namespace tapegrad::python
