// Compiled once per instruction set.
//
// Two ways through a plane. Along a row of outputs, for regular windows: for each row and column of
// the window, one loop over the outputs that it reaches, which the compiler turns into vectors; the row
// of results stays in the first cache. Averages sum down the rows first, which is one row less to go along. Window by window, for irregular windows and for large windows
// with few outputs.
//
// Where the channels of an image lie last, loops go along them, for windows of any kind.
#include "cpu/pooling_kernels.h"

#include "cpu/math.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {

namespace {

constexpr int64_t kFewOutputs = 6;
constexpr int64_t kLongRow = 32;

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

// A NaN wins, and stays. Written as two choices, each of which is one vector instruction.
template <class T>
TAPEGRAD_INLINE T greater(T a, T b) {
  const T larger = b > a ? b : a;
  return b != b ? b : larger;
}

template <class T, class I, bool kIndices>
TAPEGRAD_INLINE void take(T value, I place, T& best, I& index) {
  // A NaN is taken, and stays. Of equals the first stays.
  const bool better = (value > best) | (value != value);
  best = better ? value : best;
  if constexpr (kIndices) index = better ? place : index;
}

// The largest of n elements, found in lanes; where it was found only if it is better than the best.
template <class T, class I, bool kIndices>
TAPEGRAD_INLINE void take_row(const T* x, int64_t n, I place, T& best, I& index) {
  constexpr int kLanes = 32;
  T lanes[kLanes];
  int64_t i = 0;
  for (int k = 0; k < kLanes; ++k) lanes[k] = x[k];
  for (i = kLanes; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] = greater(lanes[k], x[i + k]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] = greater(lanes[k], lanes[k + half]);
  T top = lanes[0];
  for (; i < n; ++i) top = greater(top, x[i]);
  if (!((top > best) | (top != top))) return;
  best = top;
  if constexpr (kIndices) {
    int64_t at = 0;
    if (top != top)
      for (at = n - 1; x[at] == x[at]; --at) continue;
    else
      for (; x[at] != top; ++at) continue;
    index = place + static_cast<I>(at);
  }
}

// Outputs begin to end of one row, window by window.
template <class T, class I, bool kIndices>
[[gnu::noinline]] void max_windows(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy,
                                   int64_t begin, int64_t end, T* y, I* indices) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  for (int64_t ox = begin; ox < end; ++ox) {
    T best = lowest<T>();
    I index = static_cast<I>((d.begin[oz] * h.in + h.begin[oy]) * w.in + w.begin[ox]);
    const int64_t first = w.begin[ox], width = w.end[ox] - first;
    const int64_t run = (h.end[oy] - h.begin[oy]) * w.in;
    if (width == w.in && w.step == 1 && h.step == 1 && run >= kLongRow) {
      // Rows that are covered whole lie one after the other.
      for (int64_t i = d.begin[oz]; i < d.end[oz]; i += d.step) {
        const int64_t row = (i * h.in + h.begin[oy]) * w.in;
        take_row<T, I, kIndices>(x + row, run, static_cast<I>(row), best, index);
      }
      y[ox] = best;
      if constexpr (kIndices) indices[ox] = index;
      continue;
    }
    for_each_row(plane, oz, oy, [&](int64_t row) {
      const T* from = x + row + first;
      const I place = static_cast<I>(row + first);
      if (width >= kLongRow && w.step == 1)
        return take_row<T, I, kIndices>(from, width, place, best, index);
      for (int64_t i = 0; i < width; i += w.step)
        take<T, I, kIndices>(from[i], place + static_cast<I>(i), best, index);
    });
    y[ox] = best;
    if constexpr (kIndices) indices[ox] = index;
  }
}

// One row of outputs, from rows whose edges are padded with what is never the largest: output o reads
// from o * stride on.
template <class T, class I, bool kIndices, int kStride>
TAPEGRAD_INLINE void max_row(const PoolPlane& plane, const T* padded, int64_t width, int64_t oz,
                             int64_t oy, T* __restrict best, I* __restrict index) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  const int64_t stride = kStride ? kStride : w.stride, step = w.step;
  for (int64_t o = 0; o < w.out; ++o) best[o] = lowest<T>();
  if constexpr (kIndices) {
    const int64_t top = (d.begin[oz] * h.in + h.begin[oy]) * w.in;
    for (int64_t o = 0; o < w.out; ++o) index[o] = static_cast<I>(top + w.begin[o]);
  }
  for (int64_t i = d.begin[oz]; i < d.end[oz]; i += d.step)
    for (int64_t j = h.begin[oy]; j < h.end[oy]; j += h.step) {
      const int64_t row = i * h.in + j;
      for_each_columns(w.kernel, [&](int64_t column, auto count) {
        const T* from = padded + row * width + column * step;
        const I first = static_cast<I>(row * w.in + column * step - w.padding);
        for (int64_t o = 0; o < w.out; ++o) {
          T value = best[o];
          I found = kIndices ? index[o] : I(0);
          const I place = first + static_cast<I>(o) * static_cast<I>(stride);
          for (int k = 0; k < count.value; ++k)
            take<T, I, kIndices>(from[o * stride + k * step], place + static_cast<I>(k * step),
                                 value, found);
          best[o] = value;
          if constexpr (kIndices) index[o] = found;
        }
      });
    }
}

// The plane with room around its rows.
template <class T>
void pad_rows(const PoolPlane& plane, const T* x, T* __restrict room) {
  const PoolDim& w = plane.dim[2];
  const int64_t width = padded_width(w), rows = plane.dim[0].in * plane.dim[1].in;
  const int64_t copied = w.in < width - w.padding ? w.in : width - w.padding;
  for (int64_t row = 0; row < rows; ++row) {
    T* to = room + row * width;
    for (int64_t i = 0; i < w.padding; ++i) to[i] = lowest<T>();
    for (int64_t i = 0; i < copied; ++i) to[w.padding + i] = x[row * w.in + i];
    for (int64_t i = w.padding + copied; i < width; ++i) to[i] = lowest<T>();
  }
}

template <class T, class I, bool kIndices, int kStride>
void max_rows(const PoolPlane& plane, const T* x, T* y, I* indices, T* room) {
  const PoolDim& w = plane.dim[2];
  constexpr bool kAlongRows = sizeof(I) == 4 && !kInteger<T>;
  const bool along_rows = kAlongRows && goes_along_rows(plane);
  if (along_rows && room) pad_rows(plane, x, room);
  [[maybe_unused]] const T* rows = room ? room : x;
  [[maybe_unused]] const int64_t width = room ? padded_width(w) : w.in;
  for (int64_t oz = 0; oz < plane.dim[0].out; ++oz)
    for (int64_t oy = 0; oy < plane.dim[1].out; ++oy) {
      if constexpr (kAlongRows) {
        if (along_rows) max_row<T, I, kIndices, kStride>(plane, rows, width, oz, oy, y, indices);
      }
      if (!along_rows) max_windows<T, I, kIndices>(plane, x, oz, oy, 0, w.out, y, indices);
      y += w.out;
      if constexpr (kIndices) indices += w.out;
    }
}

template <class T, class I, bool kIndices>
void max_of(const PoolPlane& plane, const T* x, T* y, I* indices, T* room) {
  const PoolDim& w = plane.dim[2];
  if constexpr (sizeof(I) == 4 && !kInteger<T>) {
    if (w.stride == 1 && w.step == 1)
      return max_rows<T, I, kIndices, 1>(plane, x, y, indices, room);
    if (w.stride == 2 && w.step == 1)
      return max_rows<T, I, kIndices, 2>(plane, x, y, indices, room);
  }
  max_rows<T, I, kIndices, 0>(plane, x, y, indices, room);
}

template <class T, class I>
void max_plane(const PoolPlane& plane, const void* source, void* target, void* indices,
               void* room) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* padded = static_cast<T*>(room);
  if (indices) max_of<T, I, true>(plane, x, y, static_cast<I*>(indices), padded);
  else max_of<T, I, false>(plane, x, y, nullptr, padded);
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
  constexpr int kLanes = 64;
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

// The sum of all elements that window (oz, oy) covers, where it covers whole rows: they lie one after
// the other.
template <class T>
T sum_whole_rows(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1];
  const int64_t width = plane.dim[2].in;
  T sum = 0;
  for (int64_t i = d.begin[oz]; i < d.end[oz]; ++i)
    sum += add_up(x + (i * h.in + h.begin[oy]) * width, (h.end[oy] - h.begin[oy]) * width);
  return sum;
}

// A row with the sums down the rows that window (oz, oy) covers: the row itself if it is one, else `band`.
template <class T>
TAPEGRAD_INLINE const T* sum_rows(const PoolPlane& plane, const T* x, int64_t oz, int64_t oy,
                                  T* __restrict band) {
  const int64_t width = plane.dim[2].in;
  const T* only = nullptr;
  int64_t rows = 0;
  for_each_row(plane, oz, oy, [&](int64_t row) {
    const T* from = x + row;
    if (rows == 0) only = from;
    else if (rows == 1)
      for (int64_t i = 0; i < width; ++i) band[i] = only[i] + from[i];
    else
      for (int64_t i = 0; i < width; ++i) band[i] += from[i];
    ++rows;
  });
  return rows == 1 ? only : band;
}

// The sums of outputs begin to end, window by window. Windows of an average have no gaps.
template <class T>
TAPEGRAD_INLINE void sum_windows(const PoolDim& w, const T* band, int64_t begin, int64_t end,
                                 T* y) {
  for (int64_t ox = begin; ox < end; ++ox) {
    T sum = 0;
    for (int64_t i = w.begin[ox]; i < w.end[ox]; ++i) sum += band[i];
    y[ox] = sum;
  }
}

// The same along the row, where all windows are whole.
template <class T, int kStride>
TAPEGRAD_INLINE void sum_along(const PoolDim& w, const T* band, Inside inside, T* __restrict sum) {
  const int64_t stride = kStride ? kStride : w.stride;
  bool first = true;
  for_each_columns(w.kernel, [&](int64_t column, auto count) {
    const T* from = band + column - w.padding;
    for (int64_t o = inside.begin; o < inside.end; ++o) {
      T total = first ? T(0) : sum[o];
      for (int k = 0; k < count.value; ++k) total += from[o * stride + k];
      sum[o] = total;
    }
    first = false;
  });
}

// Down the rows first, then along them: a window of 3 x 3 takes 4 additions, and its edges are as cheap.
template <class T, int kStride>
void avg_rows(const PoolPlane& plane, const T* x, T* y, T* band) {
  const PoolDim& w = plane.dim[2];
  const bool along_rows = goes_along_rows(plane);
  const bool whole = w.out == 1 && w.end[0] - w.begin[0] == w.in;
  const Inside inside(w);
  for (int64_t oz = 0; oz < plane.dim[0].out; ++oz)
    for (int64_t oy = 0; oy < plane.dim[1].out; ++oy, y += w.out) {
      if (whole) {
        y[0] = sum_whole_rows(plane, x, oz, oy);
      } else {
        const T* sums = sum_rows(plane, x, oz, oy, band);
        if (along_rows) {
          sum_windows(w, sums, 0, inside.begin, y);
          sum_along<T, kStride>(w, sums, inside, y);
          sum_windows(w, sums, inside.end, w.out, y);
        } else {
          sum_windows(w, sums, 0, w.out, y);
        }
      }
      divide_row(plane, oz, oy, y, y);
    }
}

template <class T>
void avg_plane(const PoolPlane& plane, const void* source, void* target, void* room) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* band = static_cast<T*>(room);
  if constexpr (!kInteger<T>) {
    if (plane.dim[2].stride == 1) return avg_rows<T, 1>(plane, x, y, band);
    if (plane.dim[2].stride == 2) return avg_rows<T, 2>(plane, x, y, band);
  }
  avg_rows<T, 0>(plane, x, y, band);
}

// Adds to a row what outputs begin to end owe it, window by window.
template <class T>
TAPEGRAD_INLINE void spread_windows(const PoolDim& w, int64_t begin, int64_t end, const T* share,
                                    T* to) {
  for (int64_t ox = begin; ox < end; ++ox)
    for (int64_t i = w.begin[ox]; i < w.end[ox]; ++i) to[i] += share[ox];
}

// The same along the row, where all windows are whole.
template <class T>
TAPEGRAD_INLINE void spread_along(const PoolDim& w, Inside inside, const T* __restrict share,
                                  T* __restrict to) {
  for (int64_t column = 0; column < w.kernel; ++column) {
    T* place = to + column - w.padding;
    if (w.stride == 1)
      for (int64_t o = inside.begin; o < inside.end; ++o) place[o] += share[o];
    else if (w.stride == 2)
      for (int64_t o = inside.begin; o < inside.end; ++o) place[o * 2] += share[o];
    else
      for (int64_t o = inside.begin; o < inside.end; ++o) place[o * w.stride] += share[o];
  }
}

// The way of avg_rows back: along one row, which is then added to all that the windows cover.
template <class T>
void avg_backward_plane(const PoolPlane& plane, const void* source, void* target, void* room) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  auto* grad = static_cast<const T*>(source);
  auto* grad_x = static_cast<T*>(target);
  T* __restrict band = static_cast<T*>(room);
  T* __restrict share = band + w.in;
  const bool along_rows = goes_along_rows(plane);
  const Inside inside(w);
  for (int64_t oz = 0; oz < d.out; ++oz)
    for (int64_t oy = 0; oy < h.out; ++oy, grad += w.out) {
      divide_row(plane, oz, oy, grad, share);
      for (int64_t i = 0; i < w.in; ++i) band[i] = 0;
      if (along_rows) {
        spread_windows(w, 0, inside.begin, share, band);
        spread_along(w, inside, share, band);
        spread_windows(w, inside.end, w.out, share, band);
      } else {
        spread_windows(w, 0, w.out, share, band);
      }
      for_each_row(plane, oz, oy, [&](int64_t row) {
        T* __restrict to = grad_x + row;
        for (int64_t i = 0; i < w.in; ++i) to[i] += band[i];
      });
    }
}

// ---- channels last

// Calls body(place) for every place of the input that window (oz, oy, ox) covers.
template <class Body>
TAPEGRAD_INLINE void for_each_place(const PoolPlane& plane, int64_t oz, int64_t oy, int64_t ox,
                                    Body body) {
  const PoolDim& w = plane.dim[2];
  for_each_row(plane, oz, oy, [&](int64_t row) {
    for (int64_t i = w.begin[ox]; i < w.end[ox]; i += w.step) body(row + i);
  });
}

template <class T, class I, bool kIndices>
TAPEGRAD_INLINE void max_row_last(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy,
                                  const T* x, T* y, I* indices) {
  const PoolDim &d = plane.dim[0], &h = plane.dim[1], &w = plane.dim[2];
  for (int64_t ox = 0; ox < w.out; ++ox) {
    const int64_t at = ((oz * h.out + oy) * w.out + ox) * channels;
    T* __restrict best = y + at;
    I* __restrict index = indices + (kIndices ? at : 0);
    const I first = static_cast<I>((d.begin[oz] * h.in + h.begin[oy]) * w.in + w.begin[ox]);
    for (int64_t c = 0; c < channels; ++c) best[c] = lowest<T>();
    if constexpr (kIndices)
      for (int64_t c = 0; c < channels; ++c) index[c] = first;
    for_each_place(plane, oz, oy, ox, [&](int64_t place) {
      const T* __restrict from = x + place * channels;
      if constexpr (kIndices)
        for (int64_t c = 0; c < channels; ++c)
          take<T, I, true>(from[c], static_cast<I>(place), best[c], index[c]);
      else
        for (int64_t c = 0; c < channels; ++c) best[c] = greater(best[c], from[c]);
    });
  }
}

template <class T, class I>
void max_last(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy, const void* source,
              void* target, void* places) {
  auto* x = static_cast<const T*>(source);
  auto* y = static_cast<T*>(target);
  auto* indices = static_cast<I*>(places);
  if (indices) max_row_last<T, I, true>(plane, channels, oz, oy, x, y, indices);
  else max_row_last<T, I, false>(plane, channels, oz, oy, x, y, indices);
}

// What the sum of window (oz, oy, ox) is divided by.
TAPEGRAD_INLINE double window_divisor(const PoolPlane& plane, int64_t oz, int64_t oy, int64_t ox) {
  const double divisor = row_divisor(plane, oz, oy);
  return plane.divisor != 0 ? divisor : divisor * plane.dim[2].extent[ox];
}

// Each row of a window has sums of its own, so that those of large windows lose no digits.
template <class T>
void avg_last(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy, const void* source,
              void* target, void* room) {
  const PoolDim &h = plane.dim[1], &w = plane.dim[2];
  auto* x = static_cast<const T*>(source);
  T* __restrict sums = static_cast<T*>(room);
  for (int64_t ox = 0; ox < w.out; ++ox) {
    T* __restrict y = static_cast<T*>(target) + ((oz * h.out + oy) * w.out + ox) * channels;
    for (int64_t c = 0; c < channels; ++c) y[c] = 0;
    for_each_row(plane, oz, oy, [&](int64_t row) {
      for (int64_t c = 0; c < channels; ++c) sums[c] = 0;
      for (int64_t i = w.begin[ox]; i < w.end[ox]; i += w.step) {
        const T* __restrict from = x + (row + i) * channels;
        for (int64_t c = 0; c < channels; ++c) sums[c] += from[c];
      }
      for (int64_t c = 0; c < channels; ++c) y[c] += sums[c];
    });
    const T divisor = T(window_divisor(plane, oz, oy, ox));
    for (int64_t c = 0; c < channels; ++c) y[c] = y[c] / divisor;
  }
}

template <class T>
void avg_backward_last(const PoolPlane& plane, int64_t channels, int64_t oz, int64_t oy,
                       const void* source, void* target, void* room) {
  const PoolDim &h = plane.dim[1], &w = plane.dim[2];
  auto* grad_x = static_cast<T*>(target);
  T* __restrict share = static_cast<T*>(room);
  for (int64_t ox = 0; ox < w.out; ++ox) {
    const T* grad = static_cast<const T*>(source) + ((oz * h.out + oy) * w.out + ox) * channels;
    const T divisor = T(window_divisor(plane, oz, oy, ox));
    for (int64_t c = 0; c < channels; ++c) share[c] = grad[c] / divisor;
    for_each_place(plane, oz, oy, ox, [&](int64_t place) {
      T* __restrict to = grad_x + place * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] += share[c];
    });
  }
}

template <class T, class I>
constexpr PoolKernels kernels_of() {
  return {max_plane<T, I>, avg_plane<T>, avg_backward_plane<T>,
          max_last<T, I>,  avg_last<T>,  avg_backward_last<T>};
}

}  // namespace

extern const PoolTable pool_table;
// Constant-initialised: no code of this file may run before the instruction set is known.
constinit const PoolTable pool_table = {
    {{kernels_of<float, int32_t>(), kernels_of<float, int64_t>()},
     {kernels_of<double, int32_t>(), kernels_of<double, int64_t>()},
     {kernels_of<int64_t, int32_t>(), kernels_of<int64_t, int64_t>()}}};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
