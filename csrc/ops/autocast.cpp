#include "ops/autocast.h"

#include <algorithm>
#include <memory>
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
  bool captured;  // by the program that listens
  Tensor result;

  bool is_for(DType dtype) const {
    return result.dtype() == dtype && recorded == grad_enabled &&
           captured == (capturing != nullptr);
  }
  bool is_valid() const {
    return leaf->storage_ref() == seen->storage_ref() && same_geometry(leaf, seen) &&
           version == leaf->storage().version();
  }
};
// By leaf, one for each dtype. Not an object of the thread: at its end nobody holds the GIL.
using KeptCasts = std::unordered_multimap<const TensorImpl*, KeptCast>;
thread_local KeptCasts* kept_casts = nullptr;

// See Note [Casts that are made together].
using Remembered = std::shared_ptr<TensorImpl*>;
using Group = std::vector<Remembered>;  // only the first leaf where two groups begin with it
struct CastGroups {
  Group leaves;  // of this block
  std::unordered_map<const TensorImpl*, std::shared_ptr<Group>>
      former;                                            // by their first two leaves
  std::unordered_map<const TensorImpl*, KeptCast> made;  // and not asked for yet
};
thread_local CastGroups* cast_groups = nullptr;

bool is_view(const Tensor& x) {
  const AutogradMeta* meta = x->meta();
  return meta && meta->extra && meta->extra->base.defined();
}

bool is_seen() { return reusing || forward_levels || transform_start || is_vmap_running(); }

bool may_keep(const Tensor& x, DType dtype) {
  return autocast_settings.caches && x.dtype() == DType::Float32 && is_reduced_float(dtype) &&
         requires_grad(x) && is_leaf(x) && !is_view(x) && !is_seen() && !x->storage().is_batched();
}

KeptCast keep(const Tensor& x, Tensor result) {
  const Tensor seen = alias(x, x.sizes(), x.strides(), x->offset());
  return {x, seen, x->storage().version(), grad_enabled, capturing != nullptr, std::move(result)};
}

// ---- casts that are made together

bool may_join(const Tensor& x) {
  constexpr uint32_t kLookers = bit(Interceptor::Tangents) | bit(Interceptor::Budget) |
                                bit(Interceptor::Vmap) | bit(Interceptor::Capture) |
                                bit(Interceptor::Reuse);
  return x->device().type == DeviceType::CUDA && x.is_contiguous() && x.numel() > 0 &&
         sweeps_running == 0 && !((intercepted_here | intercepted_everywhere) & kLookers);
}

// Those of a former block that began with x.
void cast_former_leaves(const Tensor& x, DType dtype) {
  const auto found = cast_groups->former.find(x.impl());
  if (found == cast_groups->former.end()) return;
  std::vector<Tensor> leaves;
  for (const Remembered& each : *found->second) {
    if (!*each || cast_groups->made.contains(*each)) continue;
    const Tensor leaf(*each);
    if (leaf->device() == x->device() && may_keep(leaf, dtype) && may_join(leaf))
      leaves.push_back(leaf);
  }
  if (leaves.size() < 2) return;
  const std::vector<Tensor> results = cast_together(leaves, dtype);
  for (size_t i = 0; i < leaves.size(); ++i)
    cast_groups->made.emplace(leaves[i].impl(), keep(leaves[i], results[i]));
}

// One that was made, or an undefined tensor.
Tensor take_made(const Tensor& x, DType dtype) {
  if (!cast_groups) return {};
  const auto made = cast_groups->made.extract(x.impl());
  if (made.empty()) return {};
  const KeptCast& cast = made.mapped();
  return cast.result.dtype() == dtype && cast.is_valid() ? cast.result : Tensor();
}

void remember(const Tensor& x) {
  std::shared_ptr<TensorImpl*>& self = ensure_extras(x).self;
  if (!self) self = std::make_shared<TensorImpl*>(x.impl());
  cast_groups->leaves.push_back(self);
}

void end_group() {
  constexpr size_t kMostGroups = 32;
  if (!cast_groups) return;
  // What goes last may run Python, which may begin a block.
  const auto made = std::exchange(cast_groups->made, {});
  auto group = std::make_shared<Group>(std::exchange(cast_groups->leaves, {}));
  std::erase_if(*group, [](const Remembered& leaf) { return !*leaf; });
  if (group->size() < 3) return;
  auto& former = cast_groups->former;
  if (former.size() >= kMostGroups) former.clear();
  // The first one may be the input of several models, or a new one each time.
  std::shared_ptr<Group>& first = former[*group->front()];
  const bool is_same_leaf = first && first->front() == group->front();
  const bool is_shared = is_same_leaf && (first->size() == 1 || first->at(1) != group->at(1));
  first = is_shared ? std::make_shared<Group>(1, group->front()) : group;
  former[*group->at(1)] = group;
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
  if (may_join(x)) {
    if (!cast_groups) cast_groups = new CastGroups;
    if (!cast_groups->made.contains(x.impl())) cast_former_leaves(x, dtype);
    remember(x);
  }
  KeptCast cast_of_x = keep(x, take_made(x, dtype));
  if (cast_of_x.result.defined()) record_cast(x, cast_of_x.result);
  else cast_of_x.result = cast(x, dtype);
  const Tensor result = cast_of_x.result;
  // The op may have run Python, which may have dropped all of them; what goes last may, too.
  if (!kept_casts) kept_casts = new KeptCasts;
  KeptCasts::node_type stale;
  if (auto kept = find_kept(x, dtype); kept != kept_casts->end()) stale = kept_casts->extract(kept);
  kept_casts->emplace(x.impl(), std::move(cast_of_x));
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

void clear_kept_casts() noexcept {
  delete std::exchange(kept_casts, nullptr);
  try {
    end_group();
  } catch (const std::bad_alloc&) {
    // Then the next block casts one by one.
  }
}

void drop_captured_casts() noexcept {
  if (!kept_casts) return;
  // What goes last may run Python, which may drop all of them: one at a time.
  auto is_captured = [](const auto& kept) { return kept.second.captured; };
  while (kept_casts) {
    const auto found = std::ranges::find_if(*kept_casts, is_captured);
    if (found == kept_casts->end()) return;
    const KeptCasts::node_type dropped = kept_casts->extract(found);
  }
}

}  // namespace tapegrad
