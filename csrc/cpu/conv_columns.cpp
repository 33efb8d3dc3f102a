// Convolution by columns: what each place of the output sees is copied out as a column of a matrix
// of depth() rows, and the convolution is that matrix times the weights. Several images share one
// matrix, so that the product is wide even where images are small.
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "cpu/conv.h"
#include "cpu/gemm.h"

namespace tapegrad::cpu {

namespace {

constexpr int64_t kColumnsWanted = 512;             // of a matrix, if there are that many places
constexpr int64_t kMatrixBytes = int64_t{4} << 20;  // at most, unless one image needs more
constexpr int64_t kMoveGrain = 16 * 1024;

// A batch in blocks of images that are treated together.
template <class T>
int64_t images_in_block(const ConvShape& s) {
  const int64_t places = volume(s.out);
  const int64_t wanted = (kColumnsWanted + places - 1) / places;
  const int64_t fits = kMatrixBytes / std::max<int64_t>(1, s.depth() * places * sizeof(T));
  return std::clamp<int64_t>(std::min(wanted, fits), 1, s.batch);
}

// Calls visit(first output, count, source) for runs of one output row that lie inside the image,
// and blank(first, count) for the rest. Outputs are numbered within the image.
template <class Visit, class Blank>
void for_each_run(const ConvShape& s, int64_t tap, Visit&& visit, Blank&& blank) {
  const int64_t kw = tap % s.kernel[2], kh = tap / s.kernel[2] % s.kernel[1],
                kd = tap / (s.kernel[2] * s.kernel[1]);
  // Columns of the output whose source column is inside.
  const int64_t shift = kw * s.dilation[2] - s.padding[2], step = s.stride[2];
  const int64_t begin =
      std::clamp<int64_t>(shift >= 0 ? 0 : (-shift + step - 1) / step, 0, s.out[2]);
  const int64_t end = shift >= s.in[2]
                          ? begin
                          : std::clamp<int64_t>((s.in[2] - 1 - shift) / step + 1, begin, s.out[2]);
  for (int64_t od = 0; od < s.out[0]; ++od) {
    const int64_t id = od * s.stride[0] + kd * s.dilation[0] - s.padding[0];
    for (int64_t oh = 0; oh < s.out[1]; ++oh) {
      const int64_t ih = oh * s.stride[1] + kh * s.dilation[1] - s.padding[1];
      const int64_t row = (od * s.out[1] + oh) * s.out[2];
      if (id < 0 || id >= s.in[0] || ih < 0 || ih >= s.in[1] || begin == end) {
        blank(row, s.out[2]);
        continue;
      }
      if (begin > 0) blank(row, begin);
      visit(row + begin, end - begin, (id * s.in[1] + ih) * s.in[2] + begin * step + shift);
      if (end < s.out[2]) blank(row + end, s.out[2] - end);
    }
  }
}

// The matrix of `count` images of one group; x is the first one's first channel.
template <class T>
void gather_columns(const ConvShape& s, const T* x, int64_t count, T* columns) {
  const int64_t places = volume(s.out), width = count * places, step = s.stride[2];
  parallel_for(0, s.depth(), std::max<int64_t>(1, kMoveGrain / width),
               [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t n = 0; n < count; ++n) {
        const T* from = x + n * s.groups * s.image() + k / s.taps() * volume(s.in);
        T* to = columns + k * width + n * places;
        for_each_run(s, k % s.taps(), [=](int64_t first, int64_t length, int64_t source) {
          if (step == 1) std::memcpy(to + first, from + source, length * sizeof(T));
          else
            for (int64_t j = 0; j < length; ++j) to[first + j] = from[source + j * step];
        }, [=](int64_t first, int64_t length) { std::fill_n(to + first, length, T(0)); });
      }
    }
  });
}

// Adds the columns to the images that they came from.
template <class T>
void scatter_columns(const ConvShape& s, const T* columns, int64_t count, T* x) {
  const int64_t places = volume(s.out), width = count * places, step = s.stride[2];
  parallel_for(0, s.in_channels * count, std::max<int64_t>(1, kMoveGrain / (places * s.taps())),
               [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t c = k / count, n = k % count;
      T* to = x + n * s.groups * s.image() + c * volume(s.in);
      for (int64_t tap = 0; tap < s.taps(); ++tap) {
        const T* from = columns + (c * s.taps() + tap) * width + n * places;
        for_each_run(s, tap, [=](int64_t first, int64_t length, int64_t source) {
          for (int64_t j = 0; j < length; ++j) to[source + j * step] += from[first + j];
        }, [](int64_t, int64_t) {});
      }
    }
  });
}

// Between images [count][channels][places], of which one group's channels are wanted, and a matrix
// [channels][count * places].
template <class T>
void gather_images(const T* g, int64_t count, int64_t image_stride, int64_t channels,
                   int64_t places, T* matrix) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t n = 0; n < count; ++n)
      std::memcpy(matrix + (c * count + n) * places, g + n * image_stride + c * places,
                  places * sizeof(T));
}

template <class T>
void scatter_images(const T* matrix, int64_t count, int64_t image_stride, int64_t channels,
                    int64_t places, const T* bias, T* y) {
  for (int64_t c = 0; c < channels; ++c) {
    const T added = bias ? bias[c] : T(0);
    for (int64_t n = 0; n < count; ++n) {
      const T* from = matrix + (c * count + n) * places;
      T* to = y + n * image_stride + c * places;
      for (int64_t j = 0; j < places; ++j) to[j] = from[j] + added;
    }
  }
}

// Calls body(first image, count, group) for every block.
template <class Body>
void for_each_block(const ConvShape& s, int64_t block, Body&& body) {
  for (int64_t n = 0; n < s.batch; n += block)
    for (int64_t k = 0; k < s.groups; ++k) body(n, std::min(block, s.batch - n), k);
}

}  // namespace

template <class T>
void conv_by_columns(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  const int64_t block = images_in_block<T>(s), places = volume(s.out);
  Workspace<T> columns(s.depth() * block * places), products(s.out_channels * block * places);
  BlockingSection blocking;
  for_each_block(s, block, [&](int64_t n, int64_t count, int64_t k) {
    const int64_t width = count * places;
    gather_columns(s, x + (n * s.groups + k) * s.image(), count, columns.get());
    gemm<T>(false, false, s.out_channels, width, s.depth(), T(1), w + k * s.weights(), s.depth(),
            columns.get(), width, T(0), products.get(), width);
    scatter_images(products.get(), count, s.groups * s.result(), s.out_channels, places,
                   bias ? bias + k * s.out_channels : nullptr, y + (n * s.groups + k) * s.result());
  });
}

template <class T>
void conv_grad_input_by_columns(const ConvShape& s, const T* g, const T* w, const T* bias, T* x) {
  const int64_t block = images_in_block<T>(s), places = volume(s.out);
  Workspace<T> columns(s.depth() * block * places), grads(s.out_channels * block * places);
  BlockingSection blocking;
  for (int64_t k = 0; k < s.batch * s.groups * s.in_channels; ++k)
    std::fill_n(x + k * volume(s.in), volume(s.in),
                bias ? bias[k % (s.groups * s.in_channels)] : T(0));
  for_each_block(s, block, [&](int64_t n, int64_t count, int64_t k) {
    const int64_t width = count * places;
    gather_images(g + (n * s.groups + k) * s.result(), count, s.groups * s.result(), s.out_channels,
                  places, grads.get());
    gemm<T>(true, false, s.depth(), width, s.out_channels, T(1), w + k * s.weights(), s.depth(),
            grads.get(), width, T(0), columns.get(), width);
    scatter_columns(s, columns.get(), count, x + (n * s.groups + k) * s.image());
  });
}

template <class T>
void conv_grad_weight_by_columns(const ConvShape& s, const T* x, const T* g, T* w) {
  const int64_t block = images_in_block<T>(s), places = volume(s.out);
  Workspace<T> columns(s.depth() * block * places), grads(s.out_channels * block * places);
  BlockingSection blocking;
  for_each_block(s, block, [&](int64_t n, int64_t count, int64_t k) {
    const int64_t width = count * places;
    gather_columns(s, x + (n * s.groups + k) * s.image(), count, columns.get());
    gather_images(g + (n * s.groups + k) * s.result(), count, s.groups * s.result(), s.out_channels,
                  places, grads.get());
    gemm<T>(false, true, s.out_channels, s.depth(), width, T(1), grads.get(), width, columns.get(),
            width, n ? T(1) : T(0), w + k * s.weights(), s.depth());
  });
}

#define TAPEGRAD_CONV(T)                                                                        \
  template void conv_by_columns(const ConvShape&, const T*, const T*, const T*, T*);            \
  template void conv_grad_input_by_columns(const ConvShape&, const T*, const T*, const T*, T*); \
  template void conv_grad_weight_by_columns(const ConvShape&, const T*, const T*, T*);
TAPEGRAD_CONV(float)
TAPEGRAD_CONV(double)
#undef TAPEGRAD_CONV

}  // namespace tapegrad::cpu
