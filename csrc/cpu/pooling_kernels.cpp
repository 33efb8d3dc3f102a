// Compiled once per instruction set.
//
// Two ways through a plane. Along a row of outputs, for regular windows: for each row and column of
// the window, one loop over the outputs that it reaches, which the compiler turns into vectors; the row
// of results stays in the first cache. Window by window, for irregular windows and for large windows
// with few outputs.
#include "cpu/pooling_kernels.h"

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

constexpr int64_t kFewOutputs = 6;

// Integers go window by window, as do places that need 64 bits: they are rare.
template <class T>
constexpr bool kInteger = sizeof(T) == 8 && T(1) / T(2) == T(0);
template <class T>
constexpr T lowest() {
  if constexpr (kInteger<T>) return INT64_MIN;
  else return -math::Format<T>::kInfinity;
}

// Calls body(row) for the start of every row of the input that window (oz, oy) covers.
template <class Body>
TAPEGRAD_INLINE void for_each_row(const PoolPlane& plane, int64_t oz, int64_t oy, Body body) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1];
  for (int64_t i = d.begin[oz]; i < d.end[oz]; i += d.step)
    for (int64_t j = h.begin[oy]; j < h.end[oy]; j += h.step)
      body((i * h.in + j) * plane.dim[2].in);
}

// Calls body(column, Count) for the columns of a window, up to three at a time: results are then read
// and written once for all of them.
template <int kCount>
struct Count {
  static constexpr int value = kCount;
};
template <class Body>
TAPEGRAD_INLINE void for_each_columns(int64_t kernel, Body body) {
  int64_t column = 0;
  for (; column + 3 <= kernel; column += 3) body(column, Count<3>());
  if (column + 2 == kernel) body(column, Count<2>());
  else if (column < kernel) body(column, Count<1>());
}

// The outputs of a row whose windows the edges do not cut.
struct Inside {
  int64_t begin, end;
  explicit Inside(const PoolDim& w) {
    const int64_t last = w.in + w.padding - (w.kernel - 1) * w.step;  // starts lie before it
    begin = (w.padding + w.stride - 1) / w.stride;
    end = last > 0 ? (last + w.stride - 1) / w.stride : 0;
    if (end > w.out) end = w.out;
    if (begin > end) begin = end;
  }
};

bool goes_along_rows(const PoolPlane& plane) {
  const PoolDim& w = plane.dim[2];
  return plane.regular && (w.out >= kFewOutputs || w.kernel <= w.out);
}

// ---- maximum

template <class T, class I, bool kIndices>
TAPEGRAD_INLINE void take(T value, I place, T& best, I& index) {
  // A NaN is taken, and stays. Of equals the first stays.
  const bool better = (value > best) | (value != value);
  best = better ? value : best;
  if constexpr (kIndices) index = better ? place : index;
}

// Outputs begin to end of one row, window by window.
template <class T, class I, bool kIndices>
[[gnu::noinline]] void max_windows(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy,
                                   int64_t begin, int64_t end, T* y, I* indices) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  for (int64_t ox = begin; ox < end; ++ox) {
    T best = lowest<T>();
    I index = static_cast<I>((d.begin[oz] * h.in + h.begin[oy]) * w.in + w.begin[ox]);
    for_each_row(plane, oz, oy, [&](int64_t row) {
      for (int64_t i = w.begin[ox]; i < w.end[ox]; i += w.step)
        take<T, I, kIndices>(x[row + i], static_cast<I>(row + i), best, index);
    });
    y[ox] = best;
    if constexpr (kIndices) indices[ox] = index;
  }
}

// Outputs begin to end of one row, all of whose windows are whole.
template <class T, class I, bool kIndices, int kStride>
TAPEGRAD_INLINE void max_row(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy,
                             Inside inside, T* __restrict best, I* __restrict index) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  const int64_t stride = kStride ? kStride : w.stride, step = w.step;
  const I start = static_cast<I>((d.begin[oz] * h.in + h.begin[oy]) * w.in - w.padding);
  for (int64_t o = inside.begin; o < inside.end; ++o) best[o] = lowest<T>();
  if constexpr (kIndices)
    for (int64_t o = inside.begin; o < inside.end; ++o)
      index[o] = start + static_cast<I>(o) * static_cast<I>(stride);
  for_each_row(plane, oz, oy, [&](int64_t row) {
    for_each_columns(w.kernel, [&](int64_t column, auto count) {
      const int64_t offset = row + column * step - w.padding;
      const T* from = x + offset;
      for (int64_t o = inside.begin; o < inside.end; ++o) {
        T value = best[o];
        I found = kIndices ? index[o] : I(0);
        const I place = static_cast<I>(offset) + static_cast<I>(o) * static_cast<I>(stride);
        for (int k = 0; k < count.value; ++k)
          take<T, I, kIndices>(from[o * stride + k * step], place + static_cast<I>(k * step), value,
                               found);
        best[o] = value;
        if constexpr (kIndices) index[o] = found;
      }
    });
  });
}

template <class T, class I, bool kIndices, int kStride>
void max_rows(const PoolPlane& plane, const T* x, T* y, I* indices) {
  const PoolDim& w = plane.dim[2];
  constexpr bool kAlongRows = sizeof(I) == 4 && !kInteger<T>;
  const bool along_rows = kAlongRows && goes_along_rows(plane);
  const Inside inside(w);
  for (int64_t oz = 0; oz < plane.dim[0].out; ++oz)
    for (int64_t oy = 0; oy < plane.dim[1].out; ++oy) {
      if (along_rows) {
        if constexpr (sizeof(I) == 4)
          max_row<T, I, kIndices, kStride>(plane, x, oz, oy, inside, y, indices);
        max_windows<T, I, kIndices>(plane, x, oz, oy, 0, inside.begin, y, indices);
        max_windows<T, I, kIndices>(plane, x, oz, oy, inside.end, w.out, y, indices);
      } else {
        max_windows<T, I, kIndices>(plane, x, oz, oy, 0, w.out, y, indices);
      }
      y += w.out;
      if constexpr (kIndices) indices += w.out;
    }
}

template <class T, class I, bool kIndices>
void max_of(const PoolPlane& plane, const T* x, T* y, I* indices) {
  const PoolDim& w = plane.dim[2];
  if constexpr (sizeof(I) == 4 && !kInteger<T>) {
    if (w.stride == 1 && w.step == 1) return max_rows<T, I, kIndices, 1>(plane, x, y, indices);
    if (w.stride == 2 && w.step == 1) return max_rows<T, I, kIndices, 2>(plane, x, y, indices);
  }
  max_rows<T, I, kIndices, 0>(plane, x, y, indices);
}

template <class T, class I>
void max_plane(const PoolPlane& plane, const void* source, void* target, void* indices) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  if (indices) max_of<T, I, true>(plane, x, y, static_cast<I*>(indices));
  else max_of<T, I, false>(plane, x, y, nullptr);
}

// ---- average

// What the outputs of row (oz, oy) are divided by, but for the extent in the width.
double row_divisor(const PoolPlane& plane, int64_t oz, int64_t oy) {
  return plane.divisor != 0 ? plane.divisor : plane.dim[0].extent[oz] * plane.dim[1].extent[oy];
}

// to = from / divisor
template <class T>
TAPEGRAD_INLINE void divide_row(const PoolPlane& plane, int64_t oz, int64_t oy, const T* from,
                                T* to) {
  const PoolDim& w = plane.dim[2];
  const double divisor = row_divisor(plane, oz, oy);
  if (plane.divisor != 0)
    for (int64_t o = 0; o < w.out; ++o) to[o] = from[o] / T(divisor);
  else
    for (int64_t o = 0; o < w.out; ++o) to[o] = from[o] / T(divisor * w.extent[o]);
}

// x[0] + ... + x[n - 1], in lanes where there are many.
template <class T>
T add_up(const T* x, int64_t n) {
  constexpr int kLanes = 32;
  T sum = 0;
  int64_t i = 0;
  if (n >= kLanes) {
    T lanes[kLanes] = {};
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < kLanes; ++k) lanes[k] += x[i + k];
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int k = 0; k < width; ++k) lanes[k] += lanes[k + width];
    sum = lanes[0];
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// The sums of outputs begin to end of one row, window by window. Windows of an average have no gaps.
template <class T>
[[gnu::noinline]] void sum_windows(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy,
                                   int64_t begin, int64_t end, T* y) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  for (int64_t ox = begin; ox < end; ++ox) {
    T sum = 0;
    if (w.end[ox] - w.begin[ox] == w.in) {
      // Rows that are covered whole lie one after the other.
      for (int64_t i = d.begin[oz]; i < d.end[oz]; ++i)
        sum += add_up(x + (i * h.in + h.begin[oy]) * w.in, (h.end[oy] - h.begin[oy]) * w.in);
    } else {
      for_each_row(plane, oz, oy, [&](int64_t row) {
        sum += add_up(x + row + w.begin[ox], w.end[ox] - w.begin[ox]);
      });
    }
    y[ox] = sum;
  }
}

// The same along the row, where all windows are whole.
template <class T, int kStride>
TAPEGRAD_INLINE void sum_row(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy,
                             Inside inside, T* __restrict sum) {
  const PoolDim& w = plane.dim[2];
  const int64_t stride = kStride ? kStride : w.stride;
  for (int64_t o = inside.begin; o < inside.end; ++o) sum[o] = 0;
  for_each_row(plane, oz, oy, [&](int64_t row) {
    for_each_columns(w.kernel, [&](int64_t column, auto count) {
      const T* from = x + row + column - w.padding;
      for (int64_t o = inside.begin; o < inside.end; ++o) {
        T total = sum[o];
        for (int k = 0; k < count.value; ++k) total += from[o * stride + k];
        sum[o] = total;
      }
    });
  });
}

template <class T, int kStride>
void avg_rows(const PoolPlane& plane, const T* x, T* y) {
  const PoolDim& w = plane.dim[2];
  const bool along_rows = !kInteger<T> && goes_along_rows(plane);
  const Inside inside(w);
  for (int64_t oz = 0; oz < plane.dim[0].out; ++oz)
    for (int64_t oy = 0; oy < plane.dim[1].out; ++oy, y += w.out) {
      if (along_rows) {
        if constexpr (!kInteger<T>) sum_row<T, kStride>(plane, x, oz, oy, inside, y);
        sum_windows(plane, x, oz, oy, 0, inside.begin, y);
        sum_windows(plane, x, oz, oy, inside.end, w.out, y);
      } else {
        sum_windows(plane, x, oz, oy, 0, w.out, y);
      }
      divide_row(plane, oz, oy, y, y);
    }
}

template <class T>
void avg_plane(const PoolPlane& plane, const void* source, void* target) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  if constexpr (!kInteger<T>) {
    if (plane.dim[2].stride == 1) return avg_rows<T, 1>(plane, x, y);
    if (plane.dim[2].stride == 2) return avg_rows<T, 2>(plane, x, y);
  }
  avg_rows<T, 0>(plane, x, y);
}

// Adds to a row of grad_x what outputs begin to end of one row owe it, window by window.
template <class T>
TAPEGRAD_INLINE void spread_windows(const PoolDim& w, int64_t begin, int64_t end, const T* share,
                                    T* to) {
  for (int64_t ox = begin; ox < end; ++ox)
    for (int64_t i = w.begin[ox]; i < w.end[ox]; ++i) to[i] += share[ox];
}

template <class T>
void avg_backward_plane(const PoolPlane& plane, const void* source, void* target, void* buffer) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  auto* grad = static_cast<const T*>(source);
  auto* grad_x = static_cast<T*>(target);
  auto* __restrict share = static_cast<T*>(buffer);
  const bool along_rows = goes_along_rows(plane);
  const Inside inside(w);
  for (int64_t oz = 0; oz < d.out; ++oz)
    for (int64_t oy = 0; oy < h.out; ++oy, grad += w.out) {
      divide_row(plane, oz, oy, grad, share);
      for_each_row(plane, oz, oy, [&](int64_t row) {
        T* __restrict to = grad_x + row;
        if (!along_rows) return spread_windows(w, 0, w.out, share, to);
        spread_windows(w, 0, inside.begin, share, to);
        for (int64_t column = 0; column < w.kernel; ++column) {
          T* __restrict place = to + column - w.padding;
          if (w.stride == 1)
            for (int64_t o = inside.begin; o < inside.end; ++o) place[o] += share[o];
          else
            for (int64_t o = inside.begin; o < inside.end; ++o) place[o * w.stride] += share[o];
        }
        spread_windows(w, inside.end, w.out, share, to);
      });
    }
}

template <class T, class I>
constexpr PoolKernels kernels_of() {
  return {max_plane<T, I>, avg_plane<T>, avg_backward_plane<T>};
}

}  // namespace

extern const PoolTable pool_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const PoolTable pool_table = {
    {{kernels_of<float, int32_t>(), kernels_of<float, int64_t>()},
     {kernels_of<double, int32_t>(), kernels_of<double, int64_t>()},
     {kernels_of<int64_t, int32_t>(), kernels_of<int64_t, int64_t>()}}};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
