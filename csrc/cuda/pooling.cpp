// Pooling: csrc/cpu/pooling.cpp tells what the ops are, kernels/pooling.cu how they are computed.
//
// Pools and their derivatives take tensors in the usual order, or with their channels last, all of a call, and halves
// as they are. What goes by places alone takes neither: see plain.h.
#include <algorithm>

#include "core/registry.h"
#include "core/tensor.h"
#include "cuda/elements.h"
#include "cuda/kernel_errors.h"
#include "cuda/launch.h"
#include "cuda/meet.h"
#include "cuda/move.h"
#include "cuda/plain.h"
#include "cuda/settings.h"

namespace tapegrad::cuda {

namespace {

// ---- as kernels/pooling.cu has them

struct PoolDim {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, step = 1;
};
struct PoolWindows {
  PoolDim dim[3];
  int64_t adaptive = 0, count_padding = 0;
  double divisor = 0;
};
struct PoolArguments {
  int64_t count, channels;
  PoolWindows windows;
  const void *x, *places;
  void *y, *found;
};
struct PlaneArguments {
  int64_t count, in, out;
  const void *x, *places;
  void *y, *winners;
  ErrorPlace errors;
};

// ---- windows

constexpr int64_t kLargeWindow = 128;  // elements that are worth a warp
constexpr int64_t kManyResults = 64 * 1024;

// `geometry` is where the kernel of the first dimension stands among the attributes.
PoolWindows windows_of(const OpCall& call, size_t geometry, const TensorImpl& x,
                       const TensorImpl& y) {
  const auto rank = static_cast<size_t>(call.integer(0));
  PoolWindows windows;
  for (size_t d = 0; d < 3; ++d) {
    PoolDim& dim = windows.dim[d];
    if (d + rank >= 3) {
      const size_t from_last = 3 - d;
      dim.in = x.size(static_cast<size_t>(x.dim()) - from_last);
      dim.out = y.size(static_cast<size_t>(y.dim()) - from_last);
    }
    dim.kernel = call.integer(geometry + d);
    dim.stride = call.integer(geometry + 3 + d);
    dim.padding = call.integer(geometry + 6 + d);
    dim.step = call.integer(geometry + 9 + d);
  }
  windows.adaptive = call.integer(geometry + 12);
  return windows;
}

PoolWindows windows_of_pool(const OpCall& call, const TensorImpl& x, const TensorImpl& y) {
  PoolWindows windows = windows_of(call, 1, x, y);
  windows.count_padding = call.integer(14);
  windows.divisor = call.real(15);
  return windows;
}

// Whether everything that is computed of places fits into 32 bits.
bool is_narrow(const PoolWindows& windows, int64_t count) {
  bool fits = count <= kMostNarrowCount;
  for (const PoolDim& dim : windows.dim)
    fits = fits && dim.kernel * dim.step + dim.out * dim.stride + dim.in + 2 * dim.padding <
                       kMostNarrowCount / 2;
  return fits;
}

// Whether a warp shares the places of a window. Where channels lie last neighbouring threads read neighbouring elements
// by themselves, and do so where there are enough of them.
bool shares_windows(const PoolWindows& windows, int64_t channels, int64_t results) {
  if (channels && results >= kManyResults) return false;
  int64_t size = 1;
  for (const PoolDim& dim : windows.dim)
    size *= windows.adaptive ? (dim.in + dim.out - 1) / dim.out : std::min(dim.kernel, dim.in);
  return size >= kLargeWindow;
}

const char* index_type(bool narrow) { return narrow ? "int" : "int64"; }

// How the channels of a call's tensors are taken where they lie last: so many pieces of `width`. Else none, of one.
struct Pieces {
  int64_t channels = 0;
  int width = 1;

  // Of elements, and places where there are any.
  Pieces(const TensorImpl& x, const TensorImpl& y, const TensorImpl* places) {
    if (x.is_contiguous() && y.is_contiguous()) return;
    constexpr int kWidth = 4;
    channels = x.size(1);
    for (const TensorImpl* each : {&x, &y, places})
      if (each && reinterpret_cast<uintptr_t>(each->data()) % (kWidth * itemsize(each->dtype())))
        return;
    if (channels % kWidth) return;
    channels /= kWidth;
    width = kWidth;
  }
};

const char* text(bool is) { return is ? "true" : "false"; }

uint64_t key_of(DType dtype, bool a = false, bool b = false, bool c = false) {
  return static_cast<uint64_t>(dtype) << 3 | static_cast<uint64_t>(a) << 2 |
         static_cast<uint64_t>(b) << 1 | static_cast<uint64_t>(c);
}
uint64_t key_of(const Pieces& pieces, DType dtype, bool a = false, bool b = false, bool c = false) {
  return key_of(dtype, a, b, c) << 4 | static_cast<uint64_t>(pieces.width) << 1 |
         (pieces.channels > 0);
}
// The template's arguments.
std::string text(const Pieces& pieces) {
  return concat(text(pieces.channels > 0), ", ", pieces.width, ">");
}

// A thread for each of `count`, or a warp.
template <class Struct>
void launch_each(FunctionHandle kernel, int device, int64_t count, bool warps,
                 const Struct& arguments) {
  const int64_t threads = warps ? count * 32 : count;
  launch_with(kernel, device, (threads + kElementThreads - 1) / kElementThreads, kElementThreads,
              arguments);
}

void fill_bytes(const TensorImpl& x, unsigned char value) {
  const int device = x.device().index;
  const DeviceGuard guard(device);
  check(driver().fill_bytes(reinterpret_cast<DevicePointer>(x.data()), value,
                            static_cast<size_t>(x.numel()) * itemsize(x.dtype()),
                            current_stream(device)),
        "fill");
}

// ---- the ops; operands are of floating dtypes or, where no derivative is, of int64

void max_pool(const OpCall& call) {
  const TensorImpl &x = call.in(0), &y = call.out(0);
  if (y.numel() == 0) return;
  const PoolWindows windows = windows_of_pool(call, x, y);
  const TensorImpl* found = call.outputs.size() > 1 ? call.outputs[1] : nullptr;
  const bool narrow = is_narrow(windows, std::max(x.numel(), y.numel()));
  const Pieces pieces(x, y, found);
  const bool warps = shares_windows(windows, pieces.channels, y.numel());
  const bool wide = found && found->dtype() == DType::Int64;
  static auto& cache = *new KernelCache;
  const int device = y.device().index;
  const uint64_t key = key_of(pieces, x.dtype(), narrow, warps, wide);
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file pooling.cu\nPoolArguments\nmax_pool<", kernel_type(x.dtype()), ", ",
                  index_type(!wide), ", ", index_type(narrow), ", ", text(warps), ", ",
                  text(pieces));
  });
  const int64_t count = y.numel() / pieces.width;
  launch_each(kernel, device, count, warps,
              PoolArguments{count, pieces.channels, windows, x.data(), nullptr, y.data(),
                            found ? found->data() : nullptr});
}

void avg_pool(const OpCall& call) {
  const TensorImpl &x = call.in(0), &y = call.out(0);
  if (y.numel() == 0) return;
  const PoolWindows windows = windows_of_pool(call, x, y);
  const bool narrow = is_narrow(windows, std::max(x.numel(), y.numel()));
  const Pieces pieces(x, y, nullptr);
  const bool warps = shares_windows(windows, pieces.channels, y.numel());
  static auto& cache = *new KernelCache;
  const int device = y.device().index;
  const FunctionHandle kernel = cache.find(device, key_of(pieces, x.dtype(), narrow, warps), [&] {
    return concat("file pooling.cu\nPoolArguments\navg_pool<", kernel_type(x.dtype()), ", ",
                  index_type(narrow), ", ", text(warps), ", ", text(pieces));
  });
  const int64_t count = y.numel() / pieces.width;
  launch_each(kernel, device, count, warps,
              PoolArguments{count, pieces.channels, windows, x.data(), nullptr, y.data(), nullptr});
}

void avg_pool_backward(const OpCall& call) {
  const TensorImpl &grad = call.in(0), &grad_x = call.out(0);
  if (grad_x.numel() == 0) return;
  if (grad.numel() == 0) return fill_bytes(grad_x, 0);
  const PoolWindows windows = windows_of_pool(call, grad_x, grad);
  const bool narrow = is_narrow(windows, std::max(grad.numel(), grad_x.numel()));
  static auto& cache = *new KernelCache;
  const int device = grad.device().index;
  const Pieces pieces(grad_x, grad, nullptr);
  const FunctionHandle kernel = cache.find(device, key_of(pieces, grad.dtype(), narrow), [&] {
    return concat("file pooling.cu\nPoolArguments\navg_pool_backward<", kernel_type(grad.dtype()),
                  ", ", index_type(narrow), ", ", text(pieces));
  });
  const int64_t count = grad_x.numel() / pieces.width;
  launch_each(
      kernel, device, count, false,
      PoolArguments{count, pieces.channels, windows, grad.data(), nullptr, grad_x.data(), nullptr});
}

// Where the places are those of windows, each place of the result asks the windows that cover it.
void max_pool_backward(const OpCall& call) {
  const TensorImpl &grad = call.in(0), &places = call.in(1), &grad_x = call.out();
  const PoolWindows windows = windows_of(call, 2, grad_x, grad);
  const bool narrow = is_narrow(windows, std::max(grad.numel(), grad_x.numel()));
  const bool wide = places.dtype() == DType::Int64;
  static auto& cache = *new KernelCache;
  const int device = grad.device().index;
  const Pieces pieces(grad_x, grad, &places);
  const uint64_t key = key_of(pieces, grad.dtype(), narrow, wide);
  const FunctionHandle kernel = cache.find(device, key, [&] {
    return concat("file pooling.cu\nPoolArguments\nmax_pool_backward<", kernel_type(grad.dtype()),
                  ", ", index_type(!wide), ", ", index_type(narrow), ", ", text(pieces));
  });
  const int64_t count = grad_x.numel() / pieces.width;
  launch_each(kernel, device, count, false,
              PoolArguments{count, pieces.channels, windows, grad.data(), places.data(),
                            grad_x.data(), nullptr});
}

// Elements of a plane: of the last `rank` dimensions.
int64_t plane_size(const TensorImpl& x, int64_t rank) {
  int64_t size = 1;
  for (int64_t d = 1; d <= rank; ++d) size *= x.size(static_cast<size_t>(x.dim() - d));
  return size;
}

FunctionHandle find_plane_kernel(KernelCache& cache, const char* name, const TensorImpl* x,
                                 const TensorImpl* places, int device) {
  const bool wide = places && places->dtype() == DType::Int64;
  return cache.find(device, key_of(x ? x->dtype() : DType::Bool, wide), [&] {
    return concat("file pooling.cu\nPlaneArguments\n", name, "<", x ? kernel_type(x->dtype()) : "",
                  x && places ? ", " : "", places ? index_type(!wide) : "", ">");
  });
}

ErrorPlace place_errors(const char* op, int device, int64_t size) {
  return error_place(device, {op, 0, size, [](const KernelError& error, int64_t place) {
    fail(error.op, ": Found an invalid max index: ", place, "; planes of the output have ",
         error.size, " elements");
  }});
}

void plane_gather(const OpCall& call) {
  const TensorImpl &x = call.in(0), &places = call.in(1), &y = call.out();
  if (y.numel() == 0) return;
  static auto& cache = *new KernelCache;
  const int device = y.device().index;
  const int64_t rank = call.integer(0);
  launch_each(
      find_plane_kernel(cache, "plane_gather", &x, &places, device), device, y.numel(), false,
      PlaneArguments{y.numel(), plane_size(x, rank), plane_size(y, rank), x.data(), places.data(),
                     y.data(), nullptr, place_errors(call.op.name, device, plane_size(x, rank))});
}

// What goes to one place is added up in the order in which it comes.
void plane_add_in_order(const OpCall& call) {
  const TensorImpl &x = call.in(0), &places = call.in(1), &y = call.out();
  static auto& cache = *new KernelCache;
  const int device = y.device().index;
  const int64_t rank = call.integer(0);
  Meeting meeting(call.op.name, y, ScatterMode::Add, x.numel(), y.numel() - 1);
  meeting.has_wide_places = true;
  Placed placed(meeting);
  launch_each(find_plane_kernel(cache, "plane_places", &x, &places, device), device, x.numel(),
              false,
              PlaneArguments{x.numel(), plane_size(x, rank), plane_size(y, rank), x.data(),
                             places.data(), placed.values->data(), placed.places->data(),
                             place_errors(call.op.name, device, plane_size(y, rank))});
  meet(meeting, std::move(placed));
}

// The same in any order: see Note [Any order].
void plane_add(const OpCall& call) {
  const TensorImpl &x = call.in(0), &places = call.in(1), &y = call.out();
  fill_bytes(y, 0);
  if (deterministic_algorithms) return plane_add_in_order(call);
  static auto& cache = *new KernelCache;
  const int device = y.device().index;
  const int64_t rank = call.integer(0);
  launch_each(
      find_plane_kernel(cache, "plane_add", &x, &places, device), device, x.numel(), false,
      PlaneArguments{x.numel(), plane_size(x, rank), plane_size(y, rank), x.data(), places.data(),
                     y.data(), nullptr, place_errors(call.op.name, device, plane_size(y, rank))});
}

void plane_scatter(const OpCall& call) {
  const TensorImpl &x = call.in(0), &y = call.out();
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill_bytes(y, 0);
  const bool knows_windows = call.integer(2) != 0;
  if (knows_windows) return max_pool_backward(call);
  run_plain(plane_add, call);
}

// Of those that go to one place the last stays: they compete for it before it is written.
void max_unpool(const OpCall& call) {
  const TensorImpl &x = call.in(0), &places = call.in(1), &y = call.out();
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill_bytes(y, 0);
  const Tensor winners = empty("max_unpool", y.sizes(), DType::Int64, y.device());
  fill_bytes(*winners.impl(), 0xff);
  static auto &competing = *new KernelCache, &taking = *new KernelCache;
  const int device = y.device().index;
  const int64_t rank = call.integer(0);
  PlaneArguments arguments{
      x.numel(),           plane_size(x, rank),
      plane_size(y, rank), x.data(),
      places.data(),       y.data(),
      winners->data(),     place_errors(call.op.name, device, plane_size(y, rank))};
  launch_each(find_plane_kernel(competing, "plane_compete", nullptr, &places, device), device,
              x.numel(), false, arguments);
  arguments.count = y.numel();
  launch_each(find_plane_kernel(taking, "plane_take", &x, nullptr, device), device, y.numel(),
              false, arguments);
}

const KernelList<DeviceType::CUDA> kKernels = {
    {"max_pool", max_pool},
    {"avg_pool", avg_pool},
    {"avg_pool_backward", avg_pool_backward},
    {"plane_gather", [](const OpCall& call) { run_plain(plane_gather, call); }},
    {"plane_scatter", plane_scatter},
    {"max_unpool", [](const OpCall& call) { run_plain(max_unpool, call); }},
};

}  // namespace

}  // namespace tapegrad::cuda
