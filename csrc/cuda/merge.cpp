// Which calls are merged: the rules over Note [Held calls].
//
//   sum, norm, cast   one kernel adds, normalises the sum and rounds the result to a half type; any two of them, too.
//                     The bits are those of the single calls, and the result that was rounded is only written
//                     if somebody asks for it.
//   norm', cast       the kernel of a norm's derivative rounds the gradient of x as well, for the branch that was added.
//   product, GELU     cuBLASLt applies the tanh form of GELU to a product with a bias, and writes what it applied it to
//                     aside, for the derivative.
//   product, GELU'    cuBLASLt multiplies a product, which is the gradient for GELU's result, by GELU's derivative.
//   GELU', columns    one kernel computes the gradient for a linear layer's result and the sums of its columns, which are the
//                     gradient of the bias.
//
// Note [What is worth holding]
// Holding a call costs a tenth of a microsecond, and may leave the device without work for as long as the program takes
// to get to the next call. So sums and norms are held where one that looked the same was followed by a call that it could
// have been merged with; the first one runs at once. Since their bits are the same either way, nobody can tell.
// GELU of a product that has not been rounded to a half type is another number than GELU of a rounded one, and so is a sum
// in another order. So that a program gives the same numbers in each run, whatever ran before, large products and
// derivatives of half types are held always, and small ones never. Deterministic algorithms (torch.use_deterministic_algorithms)
// leave them alone: then bits do not depend on a budget, either. Under interceptors that compute calls again (budgets, selective
// checkpoints), and where calls mean
// something else than they say (vmap, waiting tangents), nothing is held.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "core/registry.h"
#include "cuda/blas.h"
#include "cuda/held_calls.h"
#include "cuda/normalize.h"
#include "cuda/pointwise.h"
#include "cuda/product.h"
#include "cuda/settings.h"
#include "spec/pointwise.h"

namespace tapegrad::cuda {

namespace {

using Role = HeldCall::Role;

// Which ops may be among those of the rules, by a few bits of their addresses; all of them until it is known.
uint64_t op_filter = ~uint64_t{0};
bool may_be_ruled(const Op& op) {
  return op_filter >> (reinterpret_cast<uintptr_t>(&op) / alignof(Op) % 64) & 1;
}

struct Ops {
  const Op *add = find_op("add"), *layer_norm = find_op("layer_norm"), *matmul = find_op("matmul"),
           *copy = find_op("copy"), *gelu = find_op("gelu_tanh"),
           *gelu_backward = find_op("gelu_tanh_backward"),
           *erf_gelu_backward = find_op("gelu_backward"), *sum = find_op("sum"),
           *norm_backward = find_op("layer_norm_backward");

  Ops() {
    op_filter = 0;
    for (const Op* op :
         {add, layer_norm, matmul, copy, gelu, gelu_backward, erf_gelu_backward, norm_backward})
      op_filter |= uint64_t{1} << (reinterpret_cast<uintptr_t>(op) / alignof(Op) % 64);
  }
};
const Ops& ops() {
  static const Ops found;
  return found;
}

// ---- what has been seen

struct Seen {
  int8_t score = 0;           // of being followed by a call that it can be merged with
  bool is_asked_for = false;  // although a norm's result had been rounded
  bool cannot = false;        // no kernel does both

  bool is_followed() const { return score > 0; }
  // A checkpoint's first run may be followed by what its second run leaves out.
  void note_followed() { score = static_cast<int8_t>(std::min(score + 2, 4)); }
  void note_single() { score = static_cast<int8_t>(std::max(score - 1, 0)); }
};

// By key, which is found in one of a few places; others go when those are taken. Under Note [The GIL guards handles].
struct SeenPlace {
  uint64_t key;  // zero where there is none
  Seen seen;
};
constexpr size_t kSeenPlaces = 1024, kPlacesOfKey = 4;
SeenPlace all_seen[kSeenPlaces] = {};
size_t last_replaced = 0;

Seen& seen(uint64_t key) {
  SeenPlace* const places = all_seen + key % (kSeenPlaces / kPlacesOfKey) * kPlacesOfKey;
  for (size_t i = 0; i < kPlacesOfKey; ++i)
    if (places[i].key == key) return places[i].seen;
  SeenPlace* free = std::find_if(places, places + kPlacesOfKey,
                                 [](const SeenPlace& place) { return place.key == 0; });
  if (free == places + kPlacesOfKey) free = places + ++last_replaced % kPlacesOfKey;
  *free = {key, {}};
  return free->seen;
}

// Calls that might have been held, by their first output. What is compared is an address that may be another storage's by
// now: a call is then held in vain, once.
struct Candidate {
  const Storage* output;
  uint64_t key;
};
constexpr size_t kCandidates = 4;
Candidate candidates[kCandidates] = {};
size_t last_candidate = 0;

void note_candidate(const TensorImpl& output, uint64_t key) {
  for (Candidate& each : candidates)
    if (each.output == &output.storage()) each = {};  // one that is gone, at the same place
  candidates[++last_candidate % kCandidates] = {&output.storage(), key};
}
void note_follower(const TensorImpl& input) {
  for (Candidate& each : candidates)
    if (each.output == &input.storage()) {
      seen(each.key).note_followed();
      each = {};
      return;
    }
}

uint64_t mixed(uint64_t key, uint64_t number) {
  key = (key ^ number) * 0xff51afd7ed558ccd;
  return key ^ key >> 32;
}

// ---- what can be held

bool is_half(const TensorImpl& x) { return is_reduced_float(x.dtype()); }
bool is_narrow_float(const TensorImpl& x) { return x.dtype() == DType::Float32 || is_half(x); }

// Memory that only calls write, and that nobody takes away.
bool is_plain(const TensorImpl& x) {
  constexpr unsigned kNot = Storage::kBorrowed | Storage::kExposed | Storage::kLent |
                            Storage::kBatched | Storage::kEvicted | Storage::kTracked |
                            Storage::kVoid;
  return x.device().type == DeviceType::CUDA && !x.storage().has(kNot);
}
bool are_plain(const OpCall& call) {
  const auto plain = [](const TensorImpl* x) { return is_plain(*x); };
  return std::all_of(call.inputs.begin(), call.inputs.end(), plain) &&
         std::all_of(call.outputs.begin(), call.outputs.end(), plain);
}
bool writes_over_input(const OpCall& call) {
  for (const TensorImpl* input : call.inputs)
    for (const TensorImpl* output : call.outputs)
      if (&input->storage() == &output->storage()) return true;
  return false;
}
bool is_full(const TensorImpl& x, const TensorImpl& like) {
  return x.is_contiguous() && same_sizes(x.sizes(), like.sizes());
}

constexpr int64_t kLeastElements = 1024;  // of fewer nobody makes a model

bool is_sum(const OpCall& call) {
  const TensorImpl &a = call.in(0), &b = call.in(1), &out = call.out();
  return out.numel() >= kLeastElements && is_narrow_float(out) && is_narrow_float(a) &&
         is_narrow_float(b) && (a.dtype() == out.dtype() || b.dtype() == out.dtype()) &&
         (out.dtype() == DType::Float32 || a.dtype() == b.dtype()) && out.is_contiguous() &&
         is_full(a, out) && is_full(b, out) && call.attributes[0].as_dtype() == out.dtype();
}
bool is_norm(const OpCall& call) {
  return call.in(0).numel() >= kLeastElements && is_narrow_float(call.in(0));
}

// Of which GELU or its derivative may be taken.
bool is_product(const OpCall& call) {
  const TensorImpl& out = call.out();
  return call.outputs.size() == 1 && out.dim() == 2 && is_half(out) && out.is_contiguous() &&
         call.in(0).dtype() == out.dtype() && out.numel() >= least_held_product &&
         out.size(0) > 1 && out.size(1) > 1 && out.size(1) % 8 == 0 && call.in(0).size(1) > 0 &&
         call.attributes[1].as_double() == 0 && uses_blas && has_blas();
}

uint64_t key_of(const OpCall& call) {
  uint64_t key = mixed(reinterpret_cast<uintptr_t>(&call.op), call.out().numel());
  for (const TensorImpl* input : call.inputs)
    key = mixed(key, static_cast<uint64_t>(input->dtype()));
  if (call.inputs.size() > 1 && call.in(1).storage().has(Storage::kLeaf))
    key = mixed(key, reinterpret_cast<uintptr_t>(&call.in(1).storage()));
  return key;
}

// ---- merging

// Two calls of which one is held: `held` is run by what `merge` does with its operands. The other has no operands that it
// must not see half-way: its outputs are nobody's.
template <class Merge>
bool merge_with(const HeldRef& held, Merge&& merge) {
  try {
    const HeldOperands operands(held);
    const KernelScope scope;
    if (!merge(operands.call())) return false;
  } catch (...) {
    if (held->is_in_place()) HeldCalls::finish(*held);
    throw;
  }
  ++merged_calls;
  return true;
}

// The sum that a norm is of, if it is held.
HeldRef sum_of(const TensorImpl& x) {
  HeldRef sum = HeldCalls::writer_of(x.storage());
  return sum && sum->role() == Role::Sum && sum->gives(x) ? sum : nullptr;
}

// A norm with the sum before it, where that is held, and the cast behind it.
bool merge_norm(const OpCall& norm, NormNeighbours neighbours) {
  const HeldRef sum = sum_of(norm.in(0));
  if (!sum) return neighbours.narrow && run_merged_norm(norm, neighbours);
  const bool is_merged = merge_with(sum, [&](const OpCall& add) {
    const bool in_order = add.in(0).dtype() == norm.in(0).dtype();
    neighbours.first = &add.in(in_order ? 0 : 1);
    neighbours.second = &add.in(in_order ? 1 : 0);
    return run_merged_norm(norm, neighbours);
  });
  if (is_merged) {
    seen(sum->key()).note_followed();
    HeldCalls::finish(*sum);
  } else seen(sum->key()).cannot = true;
  return is_merged;
}

bool merge_cast_of_gradient(const HeldRef& norm, const TensorImpl& to) {
  const bool is_merged = merge_with(
      norm, [&](const OpCall& backward) { return run_merged_norm_backward(backward, to); });
  if (is_merged) {
    seen(norm->key()).note_followed();
    HeldCalls::finish(*norm);
  } else seen(norm->key()).cannot = true;
  return is_merged;
}

bool merge_cast(const OpCall& call) {
  const TensorImpl &from = call.in(0), &to = call.out();
  if (from.dtype() != DType::Float32 || !is_half(to) || from.numel() < kLeastElements ||
      !from.is_contiguous() || !to.is_contiguous() || from.numel() != to.numel() ||
      !is_plain(from) || !is_plain(to))
    return false;
  const HeldRef norm = HeldCalls::writer_of(from.storage());
  if (!norm) {
    note_follower(from);
    return false;
  }
  if (norm->is_put_aside() || !norm->gives(from) || to.storage().has(Storage::kHeld)) return false;
  if (norm->role() == Role::NormBackward) return merge_cast_of_gradient(norm, to);
  if (norm->role() != Role::Norm) return false;
  const bool wants_result = seen(norm->key()).is_asked_for;
  const bool is_merged = merge_with(norm, [&](const OpCall& call_of_norm) {
    return merge_norm(call_of_norm, {nullptr, nullptr, &to, wants_result});
  });
  if (is_merged) seen(norm->key()).note_followed();
  if (!is_merged) seen(norm->key()).cannot = true;
  else if (wants_result) HeldCalls::finish(*norm);
  else HeldCalls::put_aside(*norm);
  return is_merged;
}

bool merge_gelu(const OpCall& call) {
  const TensorImpl &x = call.in(0), &y = call.out();
  const HeldRef product = HeldCalls::writer_of(x.storage());
  if (!product || product->role() != Role::Product || product->input_count() != 3 ||
      !product->gives(x) || !is_plain(y) || !is_full(y, x) || y.dtype() != x.dtype() ||
      y.storage().has(Storage::kHeld) || call.attributes[0].as_dtype() != x.dtype())
    return false;
  const bool is_merged = merge_with(product, [&](const OpCall& matmul) {
    return multiply_with_gelu(matmul, Epilogue::Gelu, y, matmul.out());
  });
  if (is_merged) HeldCalls::finish(*product);
  return is_merged;
}

bool merge_gelu_backward(const OpCall& call) {
  const TensorImpl &g = call.in(0), &x = call.in(1), &out = call.out();
  const HeldRef product = HeldCalls::writer_of(g.storage());
  if (!product || product->role() != Role::Product || product->input_count() != 2 ||
      !product->gives(g) || !is_full(x, g) || x.dtype() != g.dtype() || !is_full(out, g) ||
      out.dtype() != g.dtype() || call.attributes[0].as_dtype() != g.dtype() ||
      &x.storage() == &g.storage() || x.device().type != DeviceType::CUDA)
    return false;
  // The product itself is not written. Mostly nobody asks for it any more, though a view and its base may show it.
  const bool is_over = &out.storage() == &g.storage() && out.offset() == g.offset();
  if (is_over ? HeldCalls::is_read(g.storage()) : out.storage().has(Storage::kHeld)) return false;
  if (!is_plain(out)) return false;
  const bool is_merged = merge_with(product, [&](const OpCall& matmul) {
    return multiply_with_gelu(matmul, Epilogue::GeluBackward, out, x);
  });
  if (is_merged && is_over) HeldCalls::finish(*product);
  else if (is_merged) HeldCalls::put_aside(*product);
  return is_merged;
}

// The columns of a matrix that a derivative of GELU writes.
bool merge_columns(const OpCall& call) {
  const TensorImpl &x = call.in(0), &sums = call.out();
  const HeldRef derivative = HeldCalls::writer_of(x.storage());
  if (!derivative || derivative->role() != Role::Derivative || !derivative->gives(x) ||
      x.dim() != 2 || call.integer(0) != 1 || sums.numel() != x.size(1) || !sums.is_contiguous() ||
      !is_narrow_float(sums) || !is_plain(sums) || sums.storage().has(Storage::kHeld))
    return false;
  Tensor parts;
  const bool is_merged = merge_with(derivative, [&](const OpCall& pointwise) {
    parts = run_with_column_parts(pointwise, sums.numel());
    return parts.defined();
  });
  if (!is_merged) return false;
  HeldCalls::finish(*derivative);
  const KernelScope scope;
  add_up_parts(parts, sums);
  return true;
}

// ---- the interceptor

bool is_merged(const OpCall& call) {
  const Ops& all = ops();
  if (&call.op == all.copy) return merge_cast(call);
  if (!HeldCalls::any()) return false;
  if (&call.op == all.gelu) return merge_gelu(call);
  if (&call.op == all.gelu_backward) return merge_gelu_backward(call);
  if (&call.op == all.sum) return merge_columns(call);
  return false;
}

// True where the call is held, or was run.
bool hold_sum(const OpCall& call) {
  if (call.inputs.size() != 2 || !is_sum(call) || writes_over_input(call) || !are_plain(call))
    return false;
  const uint64_t key = key_of(call);
  const Seen before = seen(key);
  if (before.cannot) return false;
  if (before.is_followed()) HeldCalls::hold(call, Role::Sum, key);
  else note_candidate(call.out(), key);
  return before.is_followed();
}

bool hold_norm(const OpCall& call) {
  if (!is_norm(call) || writes_over_input(call) || !are_plain(call)) return false;
  if (!HeldCalls::writer_of(call.in(0).storage())) note_follower(call.in(0));
  const uint64_t key = key_of(call);
  const Seen before = seen(key);
  const bool may_cast = call.in(0).dtype() == DType::Float32 && !before.cannot;
  if (may_cast && before.is_followed()) {
    HeldCalls::hold(call, Role::Norm, key);
    return true;
  }
  if (may_cast) note_candidate(call.out(), key);
  const KernelScope scope;
  return HeldCalls::any() && merge_norm(call, {});
}

bool hold_norm_backward(const OpCall& call) {
  const TensorImpl &x = call.in(1), &grad_x = call.out();
  const bool wants_input = call.integer(2) != 0;
  if (!wants_input || x.dtype() != DType::Float32 || grad_x.numel() < kLeastElements ||
      !are_plain(call))
    return false;
  const uint64_t key = key_of(call);
  const Seen before = seen(key);
  if (before.cannot) return false;
  if (before.is_followed()) HeldCalls::hold(call, Role::NormBackward, key);
  else note_candidate(grad_x, key);
  return before.is_followed();
}

bool hold_product(const OpCall& call) {
  if (deterministic_algorithms || !is_product(call) || writes_over_input(call) || !are_plain(call))
    return false;
  HeldCalls::hold(call, Role::Product, 0);
  return true;
}

bool hold_derivative(const OpCall& call) {
  const TensorImpl& out = call.out();
  if (deterministic_algorithms || out.numel() < least_held_product || !is_half(out) ||
      !out.is_contiguous() || call.inputs.size() != 2 || !is_full(call.in(0), out) ||
      !is_full(call.in(1), out) || call.in(0).dtype() != out.dtype() ||
      call.in(1).dtype() != out.dtype() || !are_plain(call))
    return false;
  HeldCalls::hold(call, Role::Derivative, 0);
  return true;
}

bool is_held(const OpCall& call) {
  const Ops& all = ops();
  if (&call.op == all.add) return hold_sum(call);
  if (&call.op == all.layer_norm) return hold_norm(call);
  if (&call.op == all.norm_backward) return hold_norm_backward(call);
  if (&call.op == all.matmul) return hold_product(call);
  if (&call.op == all.gelu_backward || &call.op == all.erf_gelu_backward)
    return hold_derivative(call);
  return false;
}

// Interceptors beside which nothing is held.
constexpr uint32_t kOthers = bit(Interceptor::Tangents) | bit(Interceptor::Budget) |
                             bit(Interceptor::Vmap) | bit(Interceptor::Reuse);

void intercept(const OpCall& call, const Next& next) {
  if (!HeldCalls::any() && !may_be_ruled(call.op)) [[likely]]
    return next(call);
  if (!merges_calls || ((intercepted_here | intercepted_everywhere) & kOthers)) {
    run_held_calls();
    return next(call);
  }
  if (is_merged(call)) return;
  if (HeldCalls::any()) {
    HeldCalls::run_before(call);
    HeldCalls::run_late();
  }
  if (!is_held(call)) next(call);
}

void note_single(const HeldCall& held) {
  if (held.role() == Role::Product || held.role() == Role::Derivative) return;
  Seen& each = seen(held.key());
  if (held.is_put_aside()) each.is_asked_for = true;
  else each.note_single();
}

// A norm that is asked for before a cast has come.
bool run_with_sum(const OpCall& call, const HeldCall& held) {
  return held.role() == Role::Norm && !held.is_put_aside() && merge_norm(call, {});
}

bool enabled_by_environment() {
  const char* text = std::getenv("TAPEGRAD_MERGE_CALLS");
  return !text || std::string_view(text) != "0";
}

[[maybe_unused]] const bool installed = [] {
  merges_calls = enabled_by_environment();
  HeldCalls::note_single = note_single;
  HeldCalls::run_with_others = run_with_sum;
  return install(Interceptor::Merge, intercept);
}();

}  // namespace

void set_merges_calls(bool enabled) {
  run_held_calls();
  merges_calls = enabled;
  std::fill(std::begin(all_seen), std::end(all_seen), SeenPlace{});
}

}  // namespace tapegrad::cuda
