// Note [Which values are coded]
// The reading that an entry gives of a saved value (spec/saved_use.h) decides what the value may become.
//
//   read smoothly            quantised, by the codec asked for
//   read as a ratio          bfloat16, whose error is small beside each value
//   read by tests            bits: one value for each side stands for all of that side
//   read exactly             bits where it has two values, else as it is
//   read by Python           the same, unless the policy names the function
//   integers and bool        bits, bytes in their windows, or as few bytes as their range needs
//
// Kept as they are: what is small; what another entry keeps as it is; parameters and other leaves (the
// tape is not what keeps them alive); and floats without history that somebody else shows, too (the
// program's own data), unless the policy asks for them.
#include "ops/compress.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/error.h"
#include "core/random.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "intercept/capture.h"
#include "ops/copy.h"

namespace tapegrad {

namespace {

const Op quantize_op("quantize", {"bits", "block", "seed", "offset"},
                     kRandom | kUnrecorded | kHostRead);
const Op unscaled_blocks_op("unscaled_blocks", {"block"}, kUnrecorded);
const Op dequantize_op("dequantize", {"bits", "block"}, kUnrecorded);
const Op two_values_op("two_values", {}, kUnrecorded | kHostRead);
const Op pack_bits_op("pack_bits", {"one"}, kUnrecorded);
const Op unpack_bits_op("unpack_bits", {"zero", "one"}, kUnrecorded);
const Op integer_range_op("integer_range", {}, kUnrecorded | kHostRead);
const Op narrow_integers_op("narrow_integers", {"low", "bytes"}, kUnrecorded);
const Op widen_integers_op("widen_integers", {"low", "bytes"}, kUnrecorded);
const Op round_to_bfloat16_op("round_to_bfloat16", {}, kUnrecorded | kHostRead);
const Op from_bfloat16_op("from_bfloat16", {}, kUnrecorded);
const Op pack_places_op("pack_places",
                        {"input_size*", "output_size*", "kernel*", "stride*", "padding*",
                         "dilation*", "adaptive"},
                        kUnrecorded | kHostRead);
const Op unpack_places_op("unpack_places",
                          {"input_size*", "output_size*", "kernel*", "stride*", "padding*",
                           "dilation*", "adaptive"},
                          kUnrecorded);

// Beside another tensor, on its device.
Tensor make(const Tensor& beside, DType dtype, int64_t count) {
  const int64_t sizes[] = {count};
  return Tensor(TensorImpl::empty(dtype, sizes, count, beside->device()));
}

Ref<Payload> new_payload(Codec codec, const Op& decoder, const Tensor& run) {
  return Ref<Payload>::adopt(new Payload(codec, decoder, run.dtype(), run.numel()));
}

// ---- geometry

// A tensor as a run of elements, and how to read the run as the tensor.
struct Run {
  Tensor elements;    // one dimension, contiguous
  DimVector strides;  // of the tensor over the run
  bool in_place;      // the elements are the tensor's own memory
};

// The strides of the tensor over its own elements if they lie without gaps, in whatever order.
bool lies_dense(Sizes sizes, Sizes strides) {
  DimVector order;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) order.push_back(static_cast<int64_t>(d));
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[static_cast<size_t>(a)] < strides[static_cast<size_t>(b)];
  });
  int64_t expected = 1;
  for (int64_t d : order) {
    if (strides[static_cast<size_t>(d)] != expected) return false;
    expected *= sizes[static_cast<size_t>(d)];
  }
  return true;
}

// Elements that a tensor repeats by strides of zero are coded once.
Run as_run(const Tensor& x) {
  DimVector sizes(x.sizes()), strides(x.strides());
  int64_t count = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] == 0) sizes[d] = 1;
    count *= sizes[d];
  }
  const int64_t flat_size[] = {count}, flat_stride[] = {1};
  if (x.is_contiguous()) return {alias(x, flat_size, flat_stride, x->offset()), strides, true};
  if (lies_dense(sizes, strides))
    return {alias(x, flat_size, flat_stride, x->offset()), strides, true};
  Tensor once = alias(x, sizes, strides, x->offset());
  Tensor copy = empty_like(x, sizes, x.dtype());
  copy_into(copy, once);
  DimVector packed = contiguous_strides(sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d] == 0) packed[d] = 0;
  return {alias(copy, flat_size, flat_stride, 0), packed, false};
}

// ---- exact codings

int64_t pattern_at(const Tensor& run, int64_t i) {
  const int64_t one[] = {1};
  const Tensor element = alias(run, one, one, run->offset() + i);
  uint64_t pattern = 0;
  std::memcpy(&pattern, read_on_host<char>(element).get(), itemsize(run.dtype()));
  return static_cast<int64_t>(pattern);
}

// Bits, if `sides` has two values: all elements of the run on one side are taken for one of them. Which
// two is part of the code: what a captured program saves may have others when it runs again.
Ref<Payload> encode_bits(const Tensor& run, const Tensor& sides) {
  if (capturing) return {};
  Tensor found = make(run, DType::Int64, 2);
  dispatch(two_values_op, {sides}, {}, {found});
  const HostElements<int64_t> places = read_on_host<int64_t>(found);
  if (places[1] >= 0) return {};
  const int64_t second = places[0];
  const int64_t other = second < 0 ? 0 : second;
  Tensor bits = make(run, DType::UInt8, (run.numel() + 7) / 8);
  dispatch(pack_bits_op, {sides}, {pattern_at(sides, other)}, {bits});
  Ref<Payload> payload = new_payload(Codec::Bits, unpack_bits_op, run);
  payload->attributes = {pattern_at(run, 0), pattern_at(run, other)};
  payload->add(std::move(bits));
  return payload;
}

Ref<Payload> encode_places(const Tensor& run, std::vector<Scalar> windows) {
  int64_t places = 1;
  for (size_t d = 0; d < 3; ++d) {
    const int64_t in = windows[d].as_int(), out = windows[3 + d].as_int();
    // A window of adaptive pooling has at most so many places.
    const int64_t width =
        windows[18].as_bool() ? in / std::max<int64_t>(out, 1) + 2 : windows[6 + d].as_int();
    places *= std::min<int64_t>(width, 257);
  }
  if (places > 256) return {};
  Tensor codes = make(run, DType::UInt8, run.numel()), outside = make(run, DType::Int64, 1);
  const Tensor outputs[] = {codes, outside};
  dispatch(pack_places_op, std::span(&run, 1), windows, outputs);
  if (*read_on_host<int64_t>(outside) != 0) return {};
  Ref<Payload> payload = new_payload(Codec::Places, unpack_places_op, run);
  payload->attributes = std::move(windows);
  payload->add(std::move(codes));
  return payload;
}

// The range is part of the code: see above.
Ref<Payload> encode_narrow(const Tensor& run) {
  const auto item = static_cast<int64_t>(itemsize(run.dtype()));
  if (item == 1 || capturing) return {};
  Tensor range = make(run, DType::Int64, 2);
  dispatch(integer_range_op, {run}, {}, {range});
  const HostElements<int64_t> ends = read_on_host<int64_t>(range);
  const int64_t low = ends[0];
  const uint64_t width = static_cast<uint64_t>(ends[1]) - static_cast<uint64_t>(low);
  const int64_t bytes = width <= UINT8_MAX    ? 1
                        : width <= UINT16_MAX ? 2
                        : width <= UINT32_MAX ? 4
                                              : 8;
  if (bytes >= item) return {};
  Tensor codes = make(run, DType::UInt8, run.numel() * bytes);
  dispatch(narrow_integers_op, {run}, {low, bytes}, {codes});
  Ref<Payload> payload = new_payload(Codec::Narrow, widen_integers_op, run);
  payload->attributes = {low, bytes};
  payload->add(std::move(codes));
  return payload;
}

// ---- codings that round

Ref<Payload> encode_bfloat16(const Tensor& run) {
  if (itemsize(run.dtype()) <= 2) return {};
  Tensor codes = make(run, DType::BFloat16, run.numel()), beyond = make(run, DType::Int64, 1);
  dispatch(round_to_bfloat16_op, {run}, {}, {codes, beyond});
  if (*read_on_host<int64_t>(beyond) != 0) return {};
  Ref<Payload> payload = new_payload(Codec::BFloat16, from_bfloat16_op, run);
  payload->add(std::move(codes));
  return payload;
}

// See Note [Blocks of quantised values] in cpu/compress_kernels.h.
Ref<Payload> encode_blocks(const Tensor& run, Codec codec, int64_t block) {
  const int64_t bits = codec == Codec::Int4 ? 4 : 8;
  const int64_t blocks = (run.numel() + block - 1) / block;
  Tensor codes = make(run, DType::UInt8, blocks * block * bits / 8);
  Tensor scales =
      make(run, run.dtype() == DType::Float64 ? DType::Float64 : DType::Float32, blocks);
  Tensor unscaled = make(run, DType::Int64, 1);
  const RandomStream stream = default_generator(run->device()).reserve_aside(1);
  dispatch(quantize_op, {run}, {bits, block, stream.seed, stream.offset},
           {codes, scales, unscaled});
  Ref<Payload> payload = new_payload(codec, dequantize_op, run);
  payload->attributes = {bits, block};
  const int64_t beside = *read_on_host<int64_t>(unscaled);
  Tensor kept;
  if (beside != 0) {
    kept = make(run, run.dtype(), beside * block);
    dispatch(unscaled_blocks_op, {run, scales}, {block}, {kept});
  }
  payload->add(std::move(codes));
  payload->add(std::move(scales));
  if (kept.defined()) payload->add(std::move(kept));
  return payload;
}

// ---- choosing

// The codec for values of this entry, and whether the policy names the op.
struct Choice {
  Codec codec;
  bool named;
};

Choice choice_for(const CodingPolicy& policy, const Node& owner) {
  if (policy.ops.empty()) return {policy.codec, false};
  auto found = policy.ops.find(owner.function());
  return found == policy.ops.end() ? Choice{policy.codec, false} : Choice{found->second, true};
}

// What becomes of a float, apart from exact codings.
Codec rounded_codec(Choice choice, SavedUse use, bool is_data, const CodingPolicy& policy) {
  if (choice.codec == Codec::Exact || use == SavedUse::Exact || use == SavedUse::Test)
    return Codec::Whole;
  if (use == SavedUse::Unknown && !choice.named) return Codec::Whole;
  if (is_data && !policy.inputs && !choice.named) return Codec::Whole;
  if (use == SavedUse::Ratio && !choice.named && choice.codec != Codec::Whole)
    return Codec::BFloat16;
  return choice.codec;
}

int64_t block_of(const CodingPolicy& policy, Codec codec) {
  if (codec != Codec::Int8 && codec != Codec::Int4) return 0;
  return policy.block[codec == Codec::Int4];
}

// A payload that loses nothing, or null.
Ref<Payload> encode_exactly(const Run& run, const SavedReading& reading, bool has_history) {
  const Tensor& x = run.elements;
  if (is_floating(x.dtype())) {
    if (reading.sides.defined()) return encode_bits(x, reading.sides);
    const bool maybe_mask = !has_history || reading.use == SavedUse::Exact;
    return maybe_mask ? encode_bits(x, x) : Ref<Payload>();
  }
  if (!reading.windows.empty()) {
    if (Ref<Payload> payload = encode_places(x, reading.windows)) return payload;
  } else if (Ref<Payload> payload = encode_bits(x, x)) {
    return payload;
  }
  return x.dtype() == DType::Bool ? Ref<Payload>() : encode_narrow(x);
}

Ref<Payload> encode_rounded(const Run& run, Codec codec, const CodingPolicy& policy) {
  switch (codec) {
    case Codec::BFloat16:
      return encode_bfloat16(run.elements);
    case Codec::Int8:
    case Codec::Int4:
      return encode_blocks(run.elements, codec, block_of(policy, codec));
    default:
      return {};
  }
}

// A payload made for another saved value of the same memory. What tests or windows tell belongs to one
// entry. A captured program makes its own, so that it makes them again.
Ref<Payload> find_shared(const Run& run, const SavedReading& reading, Codec codec,
                         const CodingPolicy& policy) {
  if (capturing || !run.in_place || reading.sides.defined() || !reading.windows.empty()) return {};
  if (run.elements->storage().is_unguarded()) return {};
  for (Codec each : {Codec::Bits, Codec::Narrow, codec})
    if (Ref<Payload> payload = Payloads::find(run.elements, each, block_of(policy, each)))
      return payload;
  return {};
}

struct Coding {
  Ref<Payload> payload;
  bool is_new;
};

Coding find_or_encode(const Tensor& x, const Run& run, const SavedReading& reading, Choice choice,
                      bool has_history, const CodingPolicy& policy) {
  // Memory that somebody else shows, too, is not the op's own.
  const bool is_data =
      !has_history && (x->python_object() || x->storage().use_count() > (run.in_place ? 2u : 1u));
  const bool floating = is_floating(run.elements.dtype());
  const Codec codec = floating ? rounded_codec(choice, reading.use, is_data, policy) : Codec::Whole;
  if (Ref<Payload> shared = find_shared(run, reading, codec, policy)) return {shared, false};
  Ref<Payload> payload = encode_exactly(run, reading, has_history);
  if (!payload) payload = encode_rounded(run, codec, policy);
  // Nothing is gained by codes that are not smaller.
  const auto item = static_cast<int64_t>(itemsize(run.elements.dtype()));
  if (payload && payload->nbytes() >= run.elements.numel() * item) payload = {};
  // Nor are codes shared of memory that is written unseen.
  const bool own =
      reading.sides.defined() || !reading.windows.empty() || x->storage().is_unguarded();
  if (payload) Payloads::add(run.in_place ? run.elements : x, *payload, run.in_place && !own);
  return {payload, true};
}

// ---- counting

void count(CodingPolicy& policy, const Tensor& x, const Payload* payload, bool is_new,
           bool seen_before) {
  const Codec codec = payload ? payload->codec : Codec::Whole;
  const auto full = static_cast<int64_t>(x->storage().nbytes());
  int64_t saved = 0;
  if (payload) saved = is_new ? payload->nbytes() : 0;
  else if (x->storage().savers() == 0) saved = full;
  CodingCounts& counts = policy.counts[static_cast<int>(codec)];
  ++counts.values;
  counts.saved += saved;
  policy.saved_bytes += saved;
  if (!seen_before) policy.full_bytes += full;
}

Coded* encode(const Tensor& x, const Node& owner, size_t index, bool has_history) {
  CodingPolicy& policy = *coding;
  const GradMode off(false);
  const bool seen = Payloads::any(x->storage()) || x->storage().savers() != 0;
  const Choice choice = choice_for(policy, owner);
  const auto bytes = x.numel() * static_cast<int64_t>(itemsize(x.dtype()));
  // What another entry keeps whole costs nothing more.
  const bool kept = x->storage().savers() != 0 || choice.codec == Codec::Whole ||
                    bytes < policy.min_bytes || bytes == 0 || is_limited(x.dtype()) ||
                    is_vmap_running() || !quantize_op.kernels[static_cast<int>(x->device().type)];
  if (kept) {
    count(policy, x, nullptr, false, seen);
    return nullptr;
  }
  const Run run = as_run(x);
  const SavedReading reading = owner.reading(index, run.elements);
  Coding coding = find_or_encode(x, run, reading, choice, has_history, policy);
  count(policy, x, coding.payload.get(), coding.is_new, seen);
  if (!coding.payload) return nullptr;
  return new Coded{coding.payload, DimVector(x.sizes()), run.strides};
}

[[maybe_unused]] const bool installed = [] {
  coding_hooks = {encode, decode};
  return true;
}();

}  // namespace

Tensor decode(const Coded& coded) {
  const Payload& payload = *coded.payload;
  const GradMode off(false);
  Tensor run = make(payload.parts[0], payload.dtype, payload.count);
  dispatch(payload.decoder, payload.parts, payload.attributes, std::span<const Tensor>(&run, 1));
  return alias(run, coded.sizes, coded.strides, 0);
}

Tensor coded_and_decoded(const Tensor& x, const CodingPolicy& policy) {
  const GradMode off(false);
  if (x.numel() == 0 || is_limited(x.dtype())) return x;
  const Run run = as_run(x);
  const SavedReading reading;
  Ref<Payload> payload = encode_exactly(run, reading, is_floating(x.dtype()));
  if (!payload && is_floating(x.dtype())) payload = encode_rounded(run, policy.codec, policy);
  if (!payload) return x;
  return decode(Coded{payload, DimVector(x.sizes()), run.strides});
}

}  // namespace tapegrad
