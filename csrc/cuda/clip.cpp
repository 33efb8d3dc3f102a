// Norms over many tensors, their scaling and casts: a launch takes up to kMostTensors of them.
#include <algorithm>

#include "core/registry.h"
#include "cuda/launch.h"
#include "cuda/rows.h"
#include "spec/clip.h"

namespace tapegrad::cuda {

namespace {

constexpr int kMostTensors = 128;
constexpr int64_t kPiece = 16384;
constexpr int kThreads = 256;

// As in tapegrad/cuda/kernels/clip.cu, and so are those below.
struct ManyTensors {
  void* data[kMostTensors];
  int64_t numel[kMostTensors];
  int first_piece[kMostTensors + 1];
  int count;
};
struct TotalNormArguments {
  ManyTensors tensors;
  void* parts;
  int64_t first_part;
};
struct NormOfPartsArguments {
  const void* parts;
  int64_t count;
  void* out;
};
struct ScaleArguments {
  ManyTensors tensors;
  const void* factor;
};
struct UnscaleArguments {
  ManyTensors tensors;
  const void* factor;
  void* found;
};
struct CastArguments {
  ManyTensors tensors;
  void* to[kMostTensors];
};
struct UpdateScaleArguments {
  void* scale;
  void* tracker;
  const void* found;
  double growth_factor;
  double backoff_factor;
  int64_t growth_interval;
};

int64_t pieces_of(const TensorImpl& x) { return divide_up(x.numel(), kPiece); }

// Calls body(pieces) for groups that fit into a launch, and before it place(k, i) for each tensor i that is number k there.
template <class Body, class Place>
void for_groups(std::span<TensorImpl* const> all, ManyTensors& tensors, Body&& body,
                Place&& place) {
  tensors.count = tensors.first_piece[0] = 0;
  const auto flush = [&] {
    const int pieces = tensors.first_piece[tensors.count];
    if (pieces > 0) body(pieces);
    tensors.count = 0;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorImpl* x = all[i];
    if (x->numel() == 0) continue;
    const int k = tensors.count++;
    place(k, i);
    tensors.data[k] = x->data();
    tensors.numel[k] = x->numel();
    tensors.first_piece[k + 1] = tensors.first_piece[k] + static_cast<int>(pieces_of(*x));
    if (tensors.count == kMostTensors) flush();
  }
  flush();
}
template <class Body>
void for_groups(std::span<TensorImpl* const> all, ManyTensors& tensors, Body&& body) {
  for_groups(all, tensors, body, [](int, size_t) {});
}

void check_dtype(const OpCall& call) {
  const DType dtype = call.out().dtype();
  if (dtype != DType::Float32 && dtype != DType::Float64)
    fail_unsupported_dtype(call.op.name, dtype);
}

FunctionHandle find_norm_kernel(TotalNorm kind, DType dtype, int device, bool of_parts) {
  static auto& cache = *new KernelCache;
  const uint64_t key =
      static_cast<uint64_t>(dtype) << 3 | static_cast<uint64_t>(kind) << 1 | of_parts;
  return cache.find(device, key, [&] {
    constexpr const char* kNorms[] = {"NormOne<", "NormTwo<", "NormInfinity<"};
    const char* type = kernel_type(dtype);
    return concat(
        "file clip.cu\n",
        of_parts ? "NormOfPartsArguments\nnorm_of_parts<" : "TotalNormArguments\ntotal_norm_parts<",
        type, ", ", kNorms[static_cast<int>(kind)], type, ">>");
  });
}

void total_norm(const OpCall& call) {
  check_dtype(call);
  const auto kind = static_cast<TotalNorm>(call.integer(0));
  const TensorImpl& out = call.out();
  const int device = out.device().index;
  int64_t count = 0;
  for (const TensorImpl* x : call.inputs) count += pieces_of(*x);
  const Tensor parts = empty("total_norm", DimVector{count}, DType::Float64, out.device());
  TotalNormArguments arguments;
  arguments.parts = parts->data();
  arguments.first_part = 0;
  for_groups(call.inputs, arguments.tensors, [&](int pieces) {
    launch_with(find_norm_kernel(kind, out.dtype(), device, false), device, pieces, kThreads,
                arguments);
    arguments.first_part += pieces;
  });
  launch_with(find_norm_kernel(kind, out.dtype(), device, true), device, 1, kThreads,
              NormOfPartsArguments{parts->data(), count, out.data()});
}

// Input 0 is the factor, on the device.
void scale_tensors(const OpCall& call) {
  check_dtype(call);
  const TensorImpl& factor = call.in(0);
  const DType dtype = call.out().dtype();
  const int device = call.out().device().index;
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(dtype) << 8 | static_cast<uint64_t>(factor.dtype());
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file clip.cu\nScaleArguments\nscale_pieces<", kernel_type(dtype), ", ",
                  kernel_type(factor.dtype()), ">");
  });
  ScaleArguments arguments;
  arguments.factor = factor.data();
  for_groups(call.outputs, arguments.tensors,
             [&](int pieces) { launch_with(kernel, device, pieces, kThreads, arguments); });
}

// All inputs are of one dtype, and so are all outputs; each is contiguous.
void cast_tensors(const OpCall& call) {
  const DType from = call.in(0).dtype(), to = call.out().dtype();
  const int device = call.out().device().index;
  static auto& cache = *new KernelCache;
  const uint64_t key = static_cast<uint64_t>(from) << 8 | static_cast<uint64_t>(to);
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file clip.cu\nCastArguments\ncast_pieces<", kernel_type(from), ", ",
                  kernel_type(to), ">");
  });
  CastArguments arguments;
  for_groups(call.inputs, arguments.tensors, [&](int pieces) {
    launch_with(kernel, device, pieces, kThreads, arguments);
  }, [&](int k, size_t i) { arguments.to[k] = call.out(i).data(); });
}

// Inputs the factor, what was found before, and the tensors; outputs what is found, and the tensors.
void unscale(const OpCall& call) {
  const std::span<TensorImpl* const> tensors = call.outputs.subspan(1);
  const DType dtype = tensors[0]->dtype();
  const int device = call.out().device().index;
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel = cache.find(device, static_cast<uint64_t>(dtype), [&] {
    return concat("file clip.cu\nUnscaleArguments\nunscale_pieces<", kernel_type(dtype), ">");
  });
  UnscaleArguments arguments;
  arguments.factor = call.in(0).data();
  arguments.found = call.out(0).data();
  for_groups(tensors, arguments.tensors,
             [&](int pieces) { launch_with(kernel, device, pieces, kThreads, arguments); });
}

void update_scale(const OpCall& call) {
  const int device = call.out().device().index;
  static auto& cache = *new KernelCache;
  const FunctionHandle kernel = cache.find(
      device, 0, [] { return std::string("file clip.cu\nUpdateScaleArguments\nupdate_scale"); });
  launch_with(kernel, device, 1, 1,
              UpdateScaleArguments{call.out(0).data(), call.out(1).data(), call.in(2).data(),
                                   call.real(0), call.real(1), call.integer(2)});
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"total_norm", total_norm}, {"scale_tensors", scale_tensors}, {"cast_tensors", cast_tensors},
    {"unscale", unscale},       {"update_scale", update_scale},
};

}  // namespace

}  // namespace tapegrad::cuda
