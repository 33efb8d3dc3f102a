// The codings of saved values on CUDA: the codes that csrc/cpu/compress.cpp makes. Operands are contiguous.
#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/registry.h"
#include "cuda/launch.h"
#include "cuda/random_source.h"

namespace tapegrad::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kPerThread = 4;

int64_t blocks_for(int64_t count, int64_t per_block) { return (count + per_block - 1) / per_block; }

int device_of(const OpCall& call) { return call.out().device().index; }

// On the current stream of the device.
void set_bytes(void* to, unsigned char value, size_t nbytes, int device) {
  const DeviceGuard guard(device);
  check(driver().fill_bytes(reinterpret_cast<DevicePointer>(to), value, nbytes,
                            current_stream(device)),
        "cuda: setting bytes");
}

// Finds and launches one of the kernels of compress.cu. `which` tells the instances of a family apart.
template <class Struct, class Describe>
void launch_kernel(KernelCache& cache, uint64_t which, int device, int64_t blocks,
                   const Struct& arguments, Describe&& describe) {
  const FunctionHandle kernel =
      cache.find(device, which, [&] { return concat("file compress.cu\n", describe()); });
  launch_with(kernel, device, blocks, kThreads, arguments);
}

uint64_t key_of(DType dtype) { return static_cast<uint64_t>(dtype); }

// ---- quantised blocks

struct QuantizeArguments {
  const void* values;
  int64_t count, block;
  uint8_t* codes;
  void* scales;
  RandomSource source;
  int64_t* unscaled;
};

// How many lanes of a warp take a block of values, four each at a time.
int64_t lanes_for(int64_t block) {
  return std::min<int64_t>(32,
                           static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(block / 8))));
}

void check_floating(const OpCall& call, DType dtype) {
  if (!is_floating(dtype)) fail_unsupported_dtype(call.op.name, dtype);
}

// Attributes: bits, values in a block, seed, offset.
void quantize(const OpCall& call) {
  const TensorImpl &x = call.in(0), &codes = call.out(0), &scales = call.out(1);
  check_floating(call, x.dtype());
  const int64_t bits = call.integer(0), block = call.integer(1), lanes = lanes_for(block);
  auto* unscaled = call.out(2).data_as<int64_t>();
  set_bytes(unscaled, 0, sizeof(int64_t), device_of(call));
  if (x.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const QuantizeArguments arguments{
      x.data(),
      x.numel(),
      block,
      codes.data_as<uint8_t>(),
      scales.data(),
      random_source_aside(call.op.name, device_of(call), static_cast<uint64_t>(call.integer(2)),
                          static_cast<uint64_t>(call.integer(3))),
      unscaled};
  const uint64_t which = key_of(x.dtype()) << 16 | static_cast<uint64_t>(bits << 8 | lanes);
  launch_kernel(cache, which, device_of(call),
                blocks_for(blocks_for(x.numel(), block) * lanes, kThreads), arguments, [&] {
    return concat("QuantizeArguments\nquantize<", kernel_type(x.dtype()), ", ", bits, ", ", lanes,
                  ">");
  });
}

struct UnscaledArguments {
  void* values;
  int64_t count, block;
  const void* scales;
  int64_t blocks;
  void* kept;
  int32_t* totals;
};

// Copies between the values and the blocks that were kept as they are, one after the other: counts how many
// there are in each stretch first.
void copy_unscaled(const TensorImpl& values, const TensorImpl& scales, const TensorImpl& kept,
                   int64_t block, bool store) {
  constexpr int64_t kScalesPerBlock = 1024;  // as in the text
  if (scales.numel() == 0) return;
  const int device = values.device().index;
  const int64_t stretches[] = {blocks_for(scales.numel(), kScalesPerBlock)};
  const Ref<TensorImpl> totals =
      TensorImpl::empty(DType::Int32, stretches, stretches[0], values.device());
  const UnscaledArguments arguments{values.data(),
                                    values.numel(),
                                    block,
                                    scales.data(),
                                    scales.numel(),
                                    kept.data(),
                                    totals->data_as<int32_t>()};
  static auto &counting = *new KernelCache, &copying = *new KernelCache;
  launch_kernel(counting, key_of(scales.dtype()), device, stretches[0], arguments, [&] {
    return concat("UnscaledArguments\ncount_unscaled<", kernel_type(scales.dtype()), ">");
  });
  launch_kernel(copying, key_of(values.dtype()) << 1 | store, device, stretches[0], arguments, [&] {
    return concat("UnscaledArguments\ncopy_unscaled<", kernel_type(values.dtype()),
                  store ? ", true>" : ", false>");
  });
}

void unscaled_blocks(const OpCall& call) {
  copy_unscaled(call.in(0), call.in(1), call.out(), call.integer(0), true);
}

// Attributes: bits, values in a block.
void dequantize(const OpCall& call) {
  struct DequantizeArguments {
    const uint8_t* codes;
    const void* scales;
    int64_t count, block;
    void* values;
  };
  const TensorImpl &codes = call.in(0), &scales = call.in(1), &x = call.out();
  check_floating(call, x.dtype());
  if (x.numel() == 0) return;
  const int64_t bits = call.integer(0), block = call.integer(1);
  static auto& cache = *new KernelCache;
  launch_kernel(
      cache, key_of(x.dtype()) << 8 | static_cast<uint64_t>(bits), device_of(call),
      blocks_for(x.numel(), kThreads * kPerThread),
      DequantizeArguments{codes.data_as<uint8_t>(), scales.data(), x.numel(), block, x.data()},
      [&] {
    return concat("DequantizeArguments\ndequantize<", kernel_type(x.dtype()), ", ", bits, ">");
  });
  if (call.inputs.size() > 2) copy_unscaled(x, scales, call.in(2), block, false);
}

// ---- bits

// An unsigned integer of so many bytes.
const char* word_type(size_t bytes) {
  constexpr const char* kNames[] = {"unsigned char", "unsigned short", "unsigned", "uint64"};
  return kNames[std::countr_zero(bytes)];
}

// Where another value comes first, and where a third one: -1 where none does.
void two_values(const OpCall& call) {
  struct PairArguments {
    const void* x;
    int64_t count;
    int64_t* found;
  };
  constexpr int64_t kPerBlock = kThreads * 8;  // kSearchPerThread in the text
  const TensorImpl& x = call.in(0);
  const int device = device_of(call);
  const PairArguments arguments{x.data(), x.numel(), call.out().data_as<int64_t>()};
  set_bytes(arguments.found, 0xff, 2 * sizeof(int64_t), device);
  if (x.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const size_t item = itemsize(x.dtype());
  for (const bool second : {false, true})
    launch_kernel(cache, item << 1 | second, device, blocks_for(x.numel(), kPerBlock), arguments,
                  [&] {
      return concat("PairArguments\nfind_other<", word_type(item), second ? ", true>" : ", false>");
    });
}

struct BitsArguments {
  void* x;
  int64_t count;
  uint8_t* bits;
  uint64_t zero, one;
};

// Attribute: the pattern that is a one.
void pack_bits(const OpCall& call) {
  constexpr int64_t kPerBlock = kThreads * 32;
  const TensorImpl &x = call.in(0), &bits = call.out();
  if (x.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const size_t item = itemsize(x.dtype());
  launch_kernel(cache, item, device_of(call), blocks_for(x.numel(), kPerBlock),
                BitsArguments{x.data(), x.numel(), bits.data_as<uint8_t>(), 0,
                              static_cast<uint64_t>(call.integer(0))},
                [&] { return concat("BitsArguments\npack_bits<", word_type(item), ">"); });
}

// Attributes: the patterns of a zero and of a one.
void unpack_bits(const OpCall& call) {
  const TensorImpl &bits = call.in(0), &x = call.out();
  if (x.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const size_t item = itemsize(x.dtype());
  launch_kernel(
      cache, item, device_of(call),
      blocks_for(x.numel(), kThreads * 16 / static_cast<int64_t>(item)),
      BitsArguments{x.data(), x.numel(), bits.data_as<uint8_t>(),
                    static_cast<uint64_t>(call.integer(0)), static_cast<uint64_t>(call.integer(1))},
      [&] { return concat("BitsArguments\nunpack_bits<", word_type(item), ">"); });
}

// ---- integers

void check_integers(const OpCall& call, DType dtype) {
  if (dtype != DType::Int16 && dtype != DType::Int32 && dtype != DType::Int64)
    fail_unsupported_dtype(call.op.name, dtype);
}

struct RangeArguments {
  const void* x;
  int64_t count;
  int64_t* ranges;
};

void find_range(const char* type, uint64_t which, int device, int64_t blocks,
                const RangeArguments& arguments) {
  static auto& cache = *new KernelCache;
  launch_kernel(cache, which, device, blocks, arguments,
                [&] { return concat("RangeArguments\ninteger_range<", type, ">"); });
}

// The least and the largest.
void integer_range(const OpCall& call) {
  constexpr int64_t kMostBlocks = 1024, kPerBlock = kThreads * 8;
  constexpr uint64_t kPairs = 255;  // not the number of any dtype
  const TensorImpl& x = call.in(0);
  check_integers(call, x.dtype());
  const int device = device_of(call);
  auto* result = call.out().data_as<int64_t>();
  if (x.numel() == 0) return set_bytes(result, 0, 2 * sizeof(int64_t), device);
  const int64_t blocks = std::min(kMostBlocks, blocks_for(x.numel(), kPerBlock));
  const char* type = kernel_type(x.dtype());
  if (blocks == 1)
    return find_range(type, key_of(x.dtype()), device, 1, {x.data(), x.numel(), result});
  const int64_t sizes[] = {2 * blocks};
  const Ref<TensorImpl> ranges = TensorImpl::empty(DType::Int64, sizes, sizes[0], x.device());
  auto* pairs = ranges->data_as<int64_t>();
  find_range(type, key_of(x.dtype()), device, blocks, {x.data(), x.numel(), pairs});
  find_range("void", kPairs, device, 1, {pairs, blocks, result});
}

struct NarrowArguments {
  void *x, *codes;
  int64_t count, low;
};

// Between integers and their distances from the least one. Attributes: that one, bytes of a code.
void convert_integers(const OpCall& call, const TensorImpl& x, const TensorImpl& codes,
                      const char* function, KernelCache& cache) {
  check_integers(call, x.dtype());
  if (x.numel() == 0) return;
  const auto bytes = static_cast<size_t>(call.integer(1));
  launch_kernel(cache, key_of(x.dtype()) << 8 | bytes, device_of(call),
                blocks_for(x.numel(), kThreads * kPerThread),
                NarrowArguments{x.data(), codes.data(), x.numel(), call.integer(0)}, [&] {
    return concat("NarrowArguments\n", function, "<", word_type(itemsize(x.dtype())), ", ",
                  word_type(bytes), ">");
  });
}

void narrow_integers(const OpCall& call) {
  static auto& cache = *new KernelCache;
  convert_integers(call, call.in(0), call.out(), "narrow_integers", cache);
}

void widen_integers(const OpCall& call) {
  static auto& cache = *new KernelCache;
  convert_integers(call, call.out(), call.in(0), "widen_integers", cache);
}

// ---- bfloat16

void round_to_bfloat16(const OpCall& call) {
  struct RoundArguments {
    const void* x;
    void* codes;
    int64_t count;
    int64_t* beyond;
  };
  const TensorImpl& x = call.in(0);
  if (x.dtype() != DType::Float32 && x.dtype() != DType::Float64)
    fail_unsupported_dtype(call.op.name, x.dtype());
  const RoundArguments arguments{x.data(), call.out().data(), x.numel(),
                                 call.out(1).data_as<int64_t>()};
  set_bytes(arguments.beyond, 0, sizeof(int64_t), device_of(call));
  if (x.numel() == 0) return;
  static auto& cache = *new KernelCache;
  launch_kernel(cache, key_of(x.dtype()), device_of(call),
                blocks_for(x.numel(), kThreads * kPerThread), arguments, [&] {
    return concat("RoundArguments\nround_to_bfloat16<", kernel_type(x.dtype()), ">");
  });
}

// ---- places of maxima

struct PlacesArguments {
  void* places;
  uint8_t* codes;
  int64_t count;
  int64_t* outside;
  int64_t in[3], out[3], stride[3], padding[3];
  int64_t width[3], dilation[3];
  int32_t adaptive;
};

// The widest window of adaptive pooling.
int64_t adaptive_width(int64_t in, int64_t out) {
  int64_t width = 0;
  for (int64_t o = 0; o < out; ++o)
    width = std::max(width, ((o + 1) * in + out - 1) / out - o * in / out);
  return width;
}

// Attributes: sizes of the input, of the output, of the windows, strides, paddings, dilations; adaptive.
PlacesArguments places_arguments(const OpCall& call, const TensorImpl& places,
                                 const TensorImpl& codes, int64_t* outside) {
  PlacesArguments a{};
  a.places = places.data();
  a.codes = codes.data_as<uint8_t>();
  a.count = places.numel();
  a.outside = outside;
  a.adaptive = call.integer(18) != 0;
  for (size_t d = 0; d < 3; ++d) {
    a.in[d] = call.integer(d);
    a.out[d] = call.integer(3 + d);
    a.width[d] = a.adaptive ? adaptive_width(a.in[d], a.out[d]) : call.integer(6 + d);
    a.stride[d] = call.integer(9 + d);
    a.padding[d] = call.integer(12 + d);
    a.dilation[d] = a.adaptive ? 1 : call.integer(15 + d);
  }
  return a;
}

void launch_places(const OpCall& call, const char* function, const TensorImpl& places,
                   const PlacesArguments& arguments, KernelCache& cache) {
  if (arguments.count == 0) return;
  launch_kernel(cache, key_of(places.dtype()), device_of(call),
                blocks_for(arguments.count, kThreads * kPerThread), arguments, [&] {
    return concat("PlacesArguments\n", function, "<", kernel_type(places.dtype()), ">");
  });
}

void pack_places(const OpCall& call) {
  auto* outside = call.out(1).data_as<int64_t>();
  const PlacesArguments arguments = places_arguments(call, call.in(0), call.out(), outside);
  const int64_t places = arguments.width[0] * arguments.width[1] * arguments.width[2];
  TAPEGRAD_CHECK(places <= 256, "pack_places: a window has ", places, " places, more than 256");
  set_bytes(outside, 0, sizeof(int64_t), device_of(call));
  static auto& cache = *new KernelCache;
  launch_places(call, "pack_places", call.in(0), arguments, cache);
}

void unpack_places(const OpCall& call) {
  static auto& cache = *new KernelCache;
  launch_places(call, "unpack_places", call.out(),
                places_arguments(call, call.out(), call.in(0), nullptr), cache);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"quantize", quantize},
    {"unscaled_blocks", unscaled_blocks},
    {"dequantize", dequantize},
    {"two_values", two_values},
    {"pack_bits", pack_bits},
    {"unpack_bits", unpack_bits},
    {"integer_range", integer_range},
    {"narrow_integers", narrow_integers},
    {"widen_integers", widen_integers},
    {"round_to_bfloat16", round_to_bfloat16},
    {"pack_places", pack_places},
    {"unpack_places", unpack_places},
};

}  // namespace

}  // namespace tapegrad::cuda
