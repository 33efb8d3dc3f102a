// The driver of pooling: reads the windows of a call, tabulates them, and cuts the work by planes.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "cpu/pooling_kernels.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kGrain = 16384;  // elements of the input

// The attributes of a pooling call: rank, then kernel, stride, padding and dilation of three
// dimensions each, then whether windows are those of adaptive pooling, then for averages whether
// padding counts, and the divisor.
class Windows {
 public:
  Windows(const OpCall& call, const TensorImpl& x, const TensorImpl& y) {
    const int64_t rank = call.integer(0);
    adaptive_ = call.integer(13) != 0;
    count_padding_ = call.attributes.size() > 14 && call.integer(14) != 0;
    plane.divisor = call.attributes.size() > 15 ? call.real(15) : 0;
    plane.regular = !adaptive_;
    for (int64_t d = 0; d < 3; ++d) {
      PoolDim& dim = plane.dim[d];
      const int64_t at = d - (3 - rank);  // among the spatial dimensions that there are
      if (at >= 0) {
        dim.in = x.size(static_cast<size_t>(x.dim() - rank + at));
        dim.out = y.size(static_cast<size_t>(y.dim() - rank + at));
      }
      const auto k = static_cast<size_t>(d);
      dim.kernel = call.integer(1 + k);
      dim.stride = call.integer(4 + k);
      dim.padding = call.integer(7 + k);
      dim.step = call.integer(10 + k);
      tabulate(k);
      in *= dim.in;
      out *= dim.out;
    }
    planes = out == 0 ? 0 : y.numel() / out;
  }

  // For one row of the input and one of the output.
  std::vector<double> room() const {
    return std::vector<double>(static_cast<size_t>(plane.dim[2].in + plane.dim[2].out));
  }

  // For the plane with padded rows, where windows reach over the edges of rows.
  std::unique_ptr<char[]> padded_room(int64_t itemsize) const {
    const PoolDim& w = plane.dim[2];
    if (!plane.regular || out == 0 || (w.padding == 0 && padded_width(w) <= w.in)) return nullptr;
    const int64_t rows = plane.dim[0].in * plane.dim[1].in;
    const auto bytes = static_cast<size_t>(rows * padded_width(w) * itemsize);
    return std::unique_ptr<char[]>(new char[bytes]);
  }

  PoolPlane plane{};
  int64_t planes = 0, in = 1, out = 1;

 private:
  void tabulate(size_t k) {
    PoolDim& dim = plane.dim[k];
    std::vector<int64_t>& table = tables_[k];
    table.resize(static_cast<size_t>(2 * dim.out));
    extents_[k].resize(static_cast<size_t>(dim.out));
    int64_t *begins = table.data(), *ends = table.data() + dim.out;
    for (int64_t o = 0; o < dim.out; ++o) {
      if (adaptive_) {
        begins[o] = o * dim.in / dim.out;
        ends[o] = ((o + 1) * dim.in + dim.out - 1) / dim.out;
        extents_[k][static_cast<size_t>(o)] = static_cast<double>(ends[o] - begins[o]);
        continue;
      }
      const int64_t start = o * dim.stride - dim.padding;
      const int64_t stop = start + (dim.kernel - 1) * dim.step + 1;
      begins[o] = start < 0 ? start + (-start + dim.step - 1) / dim.step * dim.step : start;
      ends[o] = std::min(stop, dim.in);
      extents_[k][static_cast<size_t>(o)] = static_cast<double>(
          count_padding_ ? std::min(stop, dim.in + dim.padding) - start : ends[o] - begins[o]);
    }
    dim.begin = begins;
    dim.end = ends;
    dim.extent = extents_[k].data();
  }

  bool adaptive_, count_padding_;
  std::vector<int64_t> tables_[3];
  std::vector<double> extents_[3];
};

const PoolKernels& kernels_for(const OpCall& call, bool wide) {
  const DType dtype = call.in(0).dtype();
  const int type = dtype == DType::Float32   ? 0
                   : dtype == DType::Float64 ? 1
                   : dtype == DType::Int64   ? 2
                                             : -1;
  if (type < 0) fail_unsupported_dtype(call.op.name, dtype);
  return best_pool_table().kernels[type][wide];
}

// Calls body(begin, end) for blocks of planes, each of which costs `cost` elements.
template <class Body>
void for_planes(int64_t planes, int64_t cost, Body&& body) {
  if (planes * cost <= kGrain) return body(int64_t{0}, planes);
  BlockingSection blocking;
  parallel_for(0, planes, std::max<int64_t>(1, kGrain / std::max<int64_t>(cost, 1)), body);
}

// ---- channels last

// An image is then [places][channels]. Tensors that are in both orders, because a size is one, are in the
// usual one.
bool are_channels_last(std::initializer_list<const TensorImpl*> tensors) {
  bool usual = true;
  for (const TensorImpl* each : tensors) usual = usual && each->is_contiguous();
  return !usual;
}

struct Images {
  Images(const TensorImpl& x, const TensorImpl& y, const Windows& windows)
      : count(x.size(0)),
        channels(x.size(1)),
        item(static_cast<int64_t>(itemsize(x.dtype()))),
        in(windows.in * channels * item),
        out(windows.out * channels * static_cast<int64_t>(itemsize(y.dtype()))),
        rows(windows.plane.dim[0].out * windows.plane.dim[1].out),
        height(windows.plane.dim[1].out),
        cost(windows.in * channels / std::max<int64_t>(rows, 1)) {}
  std::unique_ptr<char[]> room() const {
    return std::unique_ptr<char[]>(new char[static_cast<size_t>(channels * item)]);
  }

  int64_t count, channels, item;
  int64_t in, out;       // bytes of an image
  int64_t rows, height;  // of the outputs of an image: in all, and for each depth
  int64_t cost;          // of a row of outputs, in elements
};

void max_pool_last(const OpCall& call, const Windows& windows, const TensorImpl* indices) {
  const Images images(call.in(0), call.out(0), windows);
  const bool wide = indices && indices->dtype() == DType::Int64;
  const PoolKernels& kernels = kernels_for(call, wide);
  auto* from = static_cast<const char*>(call.in(0).data());
  auto* to = static_cast<char*>(call.out(0).data());
  char* places = indices ? static_cast<char*>(indices->data()) : nullptr;
  const int64_t image_places = windows.out * images.channels * (wide ? 8 : 4);
  for_planes(images.count * images.rows, images.cost, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t n = k / images.rows, row = k % images.rows;
      kernels.max_last(windows.plane, images.channels, row / images.height, row % images.height,
                       from + n * images.in, to + n * images.out,
                       places ? places + n * image_places : nullptr);
    }
  });
}

void avg_pool_last(const OpCall& call, const Windows& windows) {
  const Images images(call.in(0), call.out(0), windows);
  const PoolKernels& kernels = kernels_for(call, false);
  auto* from = static_cast<const char*>(call.in(0).data());
  auto* to = static_cast<char*>(call.out(0).data());
  for_planes(images.count * images.rows, images.cost, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<char[]> room = images.room();
    for (int64_t k = begin; k < end; ++k) {
      const int64_t n = k / images.rows, row = k % images.rows;
      kernels.avg_last(windows.plane, images.channels, row / images.height, row % images.height,
                       from + n * images.in, to + n * images.out, room.get());
    }
  });
}

void avg_pool_backward_last(const OpCall& call, const Windows& windows) {
  const Images images(call.out(), call.in(0), windows);
  const PoolKernels& kernels = kernels_for(call, false);
  auto* from = static_cast<const char*>(call.in(0).data());
  auto* to = static_cast<char*>(call.out().data());
  for_planes(images.count, windows.in * images.channels, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<char[]> room = images.room();
    for (int64_t n = begin; n < end; ++n) {
      std::fill_n(to + n * images.in, images.in, 0);
      for (int64_t row = 0; row < images.rows; ++row)
        kernels.avg_backward_last(windows.plane, images.channels, row / images.height,
                                  row % images.height, from + n * images.out, to + n * images.in,
                                  room.get());
    }
  });
}

// ---- ops

void max_pool(const OpCall& call) {
  const TensorImpl &x = call.in(0), &y = call.out(0);
  if (y.numel() == 0) return;
  const Windows windows(call, x, y);
  const TensorImpl* indices = call.outputs.size() > 1 ? call.outputs[1] : nullptr;
  if (are_channels_last({&x, &y})) return max_pool_last(call, windows, indices);
  const bool wide = indices && indices->dtype() == DType::Int64;
  const PoolKernels& kernels = kernels_for(call, wide);
  const int64_t item = static_cast<int64_t>(itemsize(x.dtype())), index_item = wide ? 8 : 4;
  auto* from = static_cast<const char*>(x.data());
  auto* to = static_cast<char*>(y.data());
  char* places = indices ? static_cast<char*>(indices->data()) : nullptr;
  for_planes(windows.planes, windows.in, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<char[]> room = windows.padded_room(item);
    for (int64_t p = begin; p < end; ++p)
      kernels.max(windows.plane, from + p * windows.in * item, to + p * windows.out * item,
                  places ? places + p * windows.out * index_item : nullptr, room.get());
  });
}

void avg_pool(const OpCall& call) {
  const TensorImpl &x = call.in(0), &y = call.out(0);
  if (y.numel() == 0) return;
  const Windows windows(call, x, y);
  if (are_channels_last({&x, &y})) return avg_pool_last(call, windows);
  const PoolKernels& kernels = kernels_for(call, false);
  const auto item = static_cast<int64_t>(itemsize(x.dtype()));
  auto* from = static_cast<const char*>(x.data());
  auto* to = static_cast<char*>(y.data());
  for_planes(windows.planes, windows.in, [&](int64_t begin, int64_t end) {
    std::vector<double> room = windows.room();
    for (int64_t p = begin; p < end; ++p)
      kernels.avg(windows.plane, from + p * windows.in * item, to + p * windows.out * item,
                  room.data());
  });
}

void avg_pool_backward(const OpCall& call) {
  const TensorImpl &grad = call.in(0), &grad_x = call.out(0);
  const auto item = static_cast<int64_t>(itemsize(grad.dtype()));
  auto* from = static_cast<const char*>(grad.data());
  auto* to = static_cast<char*>(grad_x.data());
  if (grad.numel() == 0) {
    std::fill_n(to, grad_x.numel() * item, 0);
    return;
  }
  const Windows windows(call, grad_x, grad);
  if (are_channels_last({&grad, &grad_x})) return avg_pool_backward_last(call, windows);
  const PoolKernels& kernels = kernels_for(call, false);
  for_planes(windows.planes, windows.in, [&](int64_t begin, int64_t end) {
    std::vector<double> room = windows.room();
    for (int64_t p = begin; p < end; ++p) {
      char* plane = to + p * windows.in * item;
      std::fill_n(plane, windows.in * item, 0);
      kernels.avg_backward(windows.plane, from + p * windows.out * item, plane, room.data());
    }
  });
}

// Calls body(T, I) with the types of the values and of the places.
template <class Body>
void visit_planes(const OpCall& call, DType dtype, DType index_dtype, Body&& body) {
  auto with_index = [&](auto value) {
    if (index_dtype == DType::Int64) body(value, int64_t{});
    else body(value, int32_t{});
  };
  if (dtype == DType::Float32) with_index(float{});
  else if (dtype == DType::Float64) with_index(double{});
  else fail_unsupported_dtype(call.op.name, dtype);
}

[[noreturn]] void fail_place(const char* op, int64_t place, int64_t size) {
  fail(op, ": Found an invalid max index: ", place, "; planes of the output have ", size,
       " elements");
}

// Planes, of which `channels` lie side by side and make an image: one, or all where channels lie last.
struct Planes {
  Planes(const OpCall& call, const TensorImpl& x, bool last) : channels(last ? x.size(1) : 1) {
    const auto rank = call.integer(0);
    for (int64_t d = 1; d <= rank; ++d) size *= x.size(static_cast<size_t>(x.dim() - d));
  }
  int64_t image() const { return size * channels; }

  int64_t channels, size = 1;
};

// Calls visit(element, target) for the elements of an image of places, where target is the element of an
// image of `size` places that it names.
template <class I, class Visit>
void for_each_place(const char* op, const I* at, const Planes& places, int64_t size,
                    Visit&& visit) {
  const auto checked = [=](int64_t place) {
    if (static_cast<uint64_t>(place) >= static_cast<uint64_t>(size)) [[unlikely]]
      fail_place(op, place, size);
    return place;
  };
  const int64_t channels = places.channels;
  if (channels == 1)
    for (int64_t i = 0; i < places.size; ++i) visit(i, checked(at[i]));
  else
    for (int64_t i = 0; i < places.image(); i += channels)
      for (int64_t c = 0; c < channels; ++c) visit(i + c, checked(at[i + c]) * channels + c);
}

// Inputs: planes of values, planes of places. Attribute: how many last dimensions make a plane.
void plane_gather(const OpCall& call) {
  const TensorImpl &x = call.in(0), &places = call.in(1), &y = call.out();
  const bool last = are_channels_last({&x, &places, &y});
  const Planes in(call, x, last), out(call, y, last);
  if (y.numel() == 0) return;
  visit_planes(call, x.dtype(), places.dtype(), [&](auto value, auto index) {
    using T = decltype(value);
    using I = decltype(index);
    const T* from = x.data_as<T>();
    const I* at = places.data_as<I>();
    T* to = y.data_as<T>();
    for_planes(y.numel() / out.image(), out.image(), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        for_each_place(call.op.name, at + n * out.image(), out, in.size,
                       [source = from + n * in.image(), target = to + n * out.image()](
                           int64_t i, int64_t place) { target[i] = source[place]; });
    });
  });
}

// Inputs: planes of values, planes of places. Attributes: how many last dimensions make a plane,
// whether values that go to one place are added up; otherwise the last stays.
void plane_scatter(const OpCall& call) {
  const TensorImpl &x = call.in(0), &places = call.in(1), &y = call.out();
  const bool last = are_channels_last({&x, &places, &y}), add = call.integer(1) != 0;
  const Planes in(call, x, last), out(call, y, last);
  if (y.numel() == 0) return;
  visit_planes(call, x.dtype(), places.dtype(), [&](auto value, auto index) {
    using T = decltype(value);
    using I = decltype(index);
    const T* from = x.data_as<T>();
    const I* at = places.data_as<I>();
    T* to = y.data_as<T>();
    for_planes(y.numel() / out.image(), out.image(), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        std::fill_n(to + n * out.image(), out.image(), T(0));
        for_each_place(call.op.name, at + n * in.image(), in, out.size,
                       [=, source = from + n * in.image(), target = to + n * out.image()](
                           int64_t i, int64_t place) {
          target[place] = add ? target[place] + source[i] : source[i];
        });
      }
    });
  });
}

// Operands and results are contiguous, or all of them have their channels last.
const KernelList<DeviceType::CPU> kKernels = {
    {"max_pool", max_pool},
    {"avg_pool", avg_pool},
    {"avg_pool_backward", avg_pool_backward},
    {"plane_gather", plane_gather},
    {"plane_scatter", plane_scatter},
    {"max_unpool", plane_scatter},
};

}  // namespace

}  // namespace tapegrad::cpu
