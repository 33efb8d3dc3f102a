#include "ops/autocast.h"

#include <unordered_map>

#include "core/error.h"
#include "core/layout.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "intercept/call_cache.h"
#include "intercept/capture.h"
#include "ops/copy.h"

namespace tapegrad {

namespace {

bool is_eligible(const Tensor& x, DeviceType device) {
  return x.defined() && x->device().type == device && is_floating(x.dtype()) &&
         x.dtype() != DType::Float64;
}

// ---- casts that are kept

struct KeptCast {
  Tensor leaf;
  // What the leaf showed when it was cast: its memory, and the version of that. `leaf.data = x` changes both.
  Tensor seen;
  uint32_t version;
  bool recorded;
  Tensor result;

  bool is_for(DType dtype) const { return result.dtype() == dtype && recorded == grad_enabled; }
  bool is_valid() const {
    return leaf->storage_ref() == seen->storage_ref() && same_geometry(leaf, seen) &&
           version == leaf->storage().version();
  }
};
// By leaf, one for each dtype. Not an object of the thread: at its end nobody holds the GIL.
using KeptCasts = std::unordered_multimap<const TensorImpl*, KeptCast>;
thread_local KeptCasts* kept_casts = nullptr;

bool is_view(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  return meta && meta->extra && meta->extra->base.defined();
}

bool is_seen() {
  return capturing || reusing || forward_levels || transform_start || is_vmap_running();
}

bool may_keep(const Tensor& x, DType dtype) {
  return autocast_settings.caches && x.dtype() == DType::Float32 && is_reduced_float(dtype) &&
         requires_grad(x) && is_leaf(x) && !is_view(x) && !is_seen() && !x->storage().is_batched();
}

KeptCasts::iterator find_kept(const Tensor& x, DType dtype) {
  auto [each, end] = kept_casts->equal_range(x.impl());
  for (; each != end; ++each)
    if (each->second.is_for(dtype)) return each;
  return kept_casts->end();
}

Tensor kept_cast(const Tensor& x, DType dtype) {
  if (kept_casts) {
    auto kept = find_kept(x, dtype);
    if (kept != kept_casts->end() && kept->second.is_valid()) return kept->second.result;
  }
  const Tensor seen = alias(x, x.sizes(), x.strides(), x->offset());
  const uint32_t version = x->storage().version();
  Tensor result = cast(x, dtype);
  // The op may have run Python, which may have dropped all of them; what goes last may, too.
  if (!kept_casts) kept_casts = new KeptCasts;
  KeptCasts::node_type stale;
  if (auto kept = find_kept(x, dtype); kept != kept_casts->end()) stale = kept_casts->extract(kept);
  kept_casts->emplace(x.impl(), KeptCast{x, seen, version, grad_enabled, result});
  return result;
}

Tensor cast_operand(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return may_keep(x, dtype) ? kept_cast(x, dtype) : cast(x, dtype);
}

// ---- rules

DType widest(const CastRule& rule, std::span<const Tensor> operands, DeviceType device,
             DType lower) {
  DType found = lower;
  for (const Tensor& x : operands) {
    if (!is_eligible(x, device) || x.dtype() == lower) continue;
    TAPEGRAD_CHECK(x.dtype() == DType::Float32, rule.function, ": expected operands of float32 or ",
                   name(lower), ", the dtype of autocast, got ", name(x.dtype()),
                   "; cast it with .to()");
    found = DType::Float32;
  }
  return found;
}

[[noreturn]] void refuse(const CastRule& rule) {
  fail(rule.function, ": torch.nn.functional.", rule.function,
       " and torch.nn.BCELoss are unsafe to autocast. Many models use a sigmoid layer right before "
       "the binary cross entropy layer. In this case, combine the two layers using "
       "torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss, which "
       "are safe to autocast");
}

void cast_on(DeviceType device, const CastRule& rule, std::span<Tensor> operands) {
  const DType lower = autocast_settings.dtype(device);
  DType dtype = DType::Float32;
  switch (rule.on(device)) {
    case Cast::None:
    case Cast::Total:
      return;
    case Cast::Refused:
      refuse(rule);
    case Cast::Lower:
      dtype = lower;
      break;
    case Cast::Float32:
      break;
    case Cast::Widest:
      dtype = widest(rule, operands, device, lower);
  }
  for (Tensor& x : operands)
    if (is_eligible(x, device)) x = cast_operand(x, dtype);
}

bool is_any_on(DeviceType device, std::span<const Tensor> operands) {
  for (const Tensor& x : operands)
    if (x.defined() && x->device().type == device) return true;
  return false;
}

}  // namespace

void cast_operands(const CastRule& rule, std::span<Tensor> operands) {
  for (DeviceType device : {DeviceType::CUDA, DeviceType::CPU})
    if ((autocast_devices & device_bit(device)) && is_any_on(device, operands))
      cast_on(device, rule, operands);
}

std::optional<DType> total_dtype(const CastRule& rule, const Tensor& x,
                                 std::optional<DType> dtype) {
  const DeviceType device = x->device().type;
  const bool sets = !dtype && (autocast_devices & device_bit(device)) &&
                    rule.on(device) == Cast::Total && is_eligible(x, device);
  return sets ? DType::Float32 : dtype;
}

void clear_kept_casts() noexcept { delete std::exchange(kept_casts, nullptr); }

}  // namespace tapegrad
