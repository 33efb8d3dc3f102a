// Convolution in registers. Compiled once per instruction set; no inline functions shared with other
// files (see gemm_kernels.cpp).
#include "cpu/conv_kernels.h"

#include <utility>

#include "cpu/register_tile.h"

#if defined(__clang__)
#define TAPEGRAD_UNROLL_ALL _Pragma("unroll")
#else
#define TAPEGRAD_UNROLL_ALL _Pragma("GCC unroll 32")
#endif

namespace tapegrad::cpu::TAPEGRAD_ISA {
namespace {

// Narrow tiles have more rows, so that there are always enough sums to hide their latency; but not
// more than there are registers for their addresses.
constexpr int rows_of_tile(int vectors) {
  const int rows = kTileRows * kTileVectors / vectors;
  return rows < 12 ? rows : 12;
}

// Rows of row_tile, each of which has an address of its own.
constexpr int rows_of_addresses(int vectors) {
  const int rows = rows_of_tile(vectors);
  return rows < 10 ? rows : 10;
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TAPEGRAD_SHUFFLES
#endif
#endif

#if defined(TAPEGRAD_SHUFFLES)
template <class To, class From, int... kLane>
inline To join_lanes(From low, From high, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(low, high, kLane...);
}
#endif

template <class To, class From>
inline To join(From low, From high) {
#if defined(TAPEGRAD_SHUFFLES)
  constexpr int kLanes = sizeof(To) / sizeof(low[0]);
  return join_lanes<To>(low, high, std::make_integer_sequence<int, kLanes>{});
#else
  To result;
  __builtin_memcpy(&result, &low, sizeof low);
  __builtin_memcpy(reinterpret_cast<char*>(&result) + sizeof low, &high, sizeof high);
  return result;
#endif
}

// ---- outputs: rows are output channels, columns are places of the output --------------------

// A vector of kPieces parts, `stride` apart.
template <class T, int kPieces>
inline typename Shape<T>::Vector load_pieces(const T* pointer, int64_t stride) {
  using Vector = typename Shape<T>::Vector;
  if constexpr (kPieces == 1) {
    return load(pointer);
  } else {
    constexpr int kBytes = kVectorBytes / kPieces;
    typedef T Piece __attribute__((vector_size(kBytes)));
    const auto piece = [&](int k) {
      Piece result;
      __builtin_memcpy(&result, pointer + k * stride, kBytes);
      return result;
    };
    if constexpr (kPieces == 2) {
      return join<Vector>(piece(0), piece(1));
    } else {
      typedef T Two __attribute__((vector_size(2 * kBytes)));
      return join<Vector>(join<Two>(piece(0), piece(1)), join<Two>(piece(2), piece(3)));
    }
  }
}

template <class T, int kRows, int kVectors, int kPieces>
void plane_tile(const PlaneProduct<T>& g, int64_t row) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  Vector sum[kRows][kVectors];
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector{};
  }
  const T* a = g.a + row * g.a_stride;
  const int64_t a_stride = g.a_stride, piece_stride = g.piece_stride;
  const int64_t *offsets = g.offsets, *a_offsets = g.a_offsets;
  int64_t places[kVectors];
  TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) places[v] = g.places[v];
  for (int64_t p = 0; p < g.depth; ++p) {
    const T* b = g.b + offsets[p];
    const T* element = a + a_offsets[p];
    Vector place[kVectors];
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) place[v] =
        load_pieces<T, kPieces>(b + places[v], piece_stride);
    TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
      const T factor = element[i * a_stride];
      TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * place[v];
    }
  }
  T* c = g.c + row * g.c_stride;
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i, c += g.c_stride) {
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) {
      if (g.accumulate) sum[i][v] += load(c + v * kWidth);
      store(c + v * kWidth, sum[i][v]);
    }
  }
}

// ---- weights: rows are taps, columns are output channels -----------------------------------------

template <class T, int kRows, int kVectors>
void tap_tile(const TapProduct<T>& t, int64_t row, int64_t vector) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  Vector sum[kRows][kVectors];
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector{};
  }
  const T* x[kRows];
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) x[i] = t.x + t.offsets[row + i];
  const T* g = t.g + vector * kWidth;
  const int64_t g_stride = t.g_stride, step = t.step, end = t.length * step;
  for (int64_t line = 0; line < t.lines; ++line) {
    for (int64_t q = 0; q < end; q += step, g += g_stride) {
      Vector channels[kVectors];
      TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) channels[v] = load(g + v * kWidth);
      TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
        const T factor = x[i][q];
        TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * channels[v];
      }
    }
    TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) x[i] += t.line_stride;
  }
  T* c = t.c + row * t.c_stride + vector * kWidth;
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i, c += t.c_stride) {
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) {
      store(c + v * kWidth, sum[i][v] + load(c + v * kWidth));
    }
  }
}

// The first lanes of a vector, as many as are there; zeros behind them.
template <class T>
inline typename Shape<T>::Vector load_first(const T* pointer, int64_t count) {
  typename Shape<T>::Vector result = {};
  if (count >= Shape<T>::kWidth) return load(pointer);
  __builtin_memcpy(&result, pointer, count * sizeof(T));
  return result;
}

template <class T>
inline void store_first(T* pointer, typename Shape<T>::Vector value, int64_t count) {
  if (count >= Shape<T>::kWidth) return store(pointer, value);
  __builtin_memcpy(pointer, &value, count * sizeof(T));
}

// ---- channels last: rows are places of the output, columns are its channels ----------------------

template <class T, int kRows, int kVectors>
void row_tile(const RowProduct<T>& g, int64_t row) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  Vector sum[kRows][kVectors];
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector{};
  }
  const T* b = g.b;
  const int64_t b_stride = g.b_stride;
  for (int64_t r = 0; r < g.runs; ++r) {
    const T* a[kRows];
    TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) a[i] =
        g.a + g.origins[row + i] + g.offsets[r];
    const int64_t length = g.lengths[r];
    for (int64_t k = 0; k < length; ++k, b += b_stride) {
      Vector channels[kVectors];
      TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) channels[v] = load(b + v * kWidth);
      TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
        const T factor = a[i][k];
        TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * channels[v];
      }
    }
  }
  const int64_t rest = g.columns - (kVectors - 1) * kWidth;  // of the last vector
  TAPEGRAD_UNROLL_ALL for (int i = 0; i < kRows; ++i) {
    T* c = g.c + g.targets[row + i];
    TAPEGRAD_UNROLL_ALL for (int v = 0; v < kVectors; ++v) {
      const int64_t count = v == kVectors - 1 ? rest : kWidth;
      if (g.bias) sum[i][v] += load_first(g.bias + v * kWidth, count);
      if (g.accumulate) sum[i][v] += load_first(c + v * kWidth, count);
      store_first(c + v * kWidth, sum[i][v], count);
    }
  }
}

// Pieces of one element are not worth their instructions.
template <class T, int kWanted>
constexpr int kPieces = Shape<T>::kWidth / kWanted >= 2 ? kWanted : 1;

template <class T>
struct Tiles {
  static constexpr int kMost = rows_of_tile(1);
  // [1, 2 or 4 pieces][vectors - 1][rows - 1]
  void (*plane[3][kTileVectors][kMost])(const PlaneProduct<T>&, int64_t row);
  void (*tap[kTileVectors][kMost])(const TapProduct<T>&, int64_t row, int64_t vector);
  void (*row[kTileVectors][kMost])(const RowProduct<T>&, int64_t row);
};

template <class T, int kVectors, int kRows>
constexpr void fill_tiles(Tiles<T>& tiles) {
  tiles.plane[0][kVectors - 1][kRows - 1] = plane_tile<T, kRows, kVectors, 1>;
  tiles.plane[1][kVectors - 1][kRows - 1] = plane_tile<T, kRows, kVectors, kPieces<T, 2>>;
  tiles.plane[2][kVectors - 1][kRows - 1] = plane_tile<T, kRows, kVectors, kPieces<T, 4>>;
  tiles.tap[kVectors - 1][kRows - 1] = tap_tile<T, kRows, kVectors>;
  tiles.row[kVectors - 1][kRows - 1] = row_tile<T, kRows, kVectors>;
  if constexpr (kRows > 1) {
    fill_tiles<T, kVectors, kRows - 1>(tiles);
  } else if constexpr (kVectors > 1) {
    fill_tiles<T, kVectors - 1, rows_of_tile(kVectors - 1)>(tiles);
  }
}

template <class T>
constexpr Tiles<T> make_tiles() {
  Tiles<T> tiles{};
  fill_tiles<T, kTileVectors, rows_of_tile(kTileVectors)>(tiles);
  return tiles;
}

template <class T>
constexpr Tiles<T> kTiles = make_tiles<T>();

template <class T>
void plane_product(const PlaneProduct<T>& product) {
  const EvenCut rows(product.rows, divide_up(product.rows, rows_of_tile(product.vectors)));
  const auto& kernels = kTiles<T>.plane[product.pieces / 2][product.vectors - 1];
  for (int64_t tile = 0; tile < rows.parts; ++tile) {
    const int64_t row = rows.begin(tile);
    kernels[rows.begin(tile + 1) - row - 1](product, row);
  }
}

template <class T, int kPieces>
void gather_pieces(const PlaneProduct<T>& g, T* out, int64_t out_stride) {
  constexpr int kWidth = Shape<T>::kWidth;
  for (int64_t p = 0; p < g.depth; ++p, out += out_stride) {
    const T* b = g.b + g.offsets[p];
    for (int64_t v = 0; v < g.vectors; ++v)
      store(out + v * kWidth, load_pieces<T, kPieces>(b + g.places[v], g.piece_stride));
  }
}

template <class T>
void gather_panel(const PlaneProduct<T>& g, T* out, int64_t out_stride) {
  if (g.pieces == 4) gather_pieces<T, kPieces<T, 4>>(g, out, out_stride);
  else if (g.pieces == 2) gather_pieces<T, kPieces<T, 2>>(g, out, out_stride);
  else gather_pieces<T, 1>(g, out, out_stride);
}

template <class T>
void tap_product(const TapProduct<T>& product) {
  const EvenCut columns(product.vectors, divide_up(product.vectors, kTileVectors));
  for (int64_t panel = 0; panel < columns.parts; ++panel) {
    const int64_t vector = columns.begin(panel), vectors = columns.begin(panel + 1) - vector;
    const EvenCut rows(product.rows, divide_up(product.rows, rows_of_tile(vectors)));
    for (int64_t tile = 0; tile < rows.parts; ++tile) {
      const int64_t row = rows.begin(tile);
      kTiles<T>.tap[vectors - 1][rows.begin(tile + 1) - row - 1](product, row, vector);
    }
  }
}

template <class T>
void row_product(const RowProduct<T>& product) {
  const int64_t vectors = divide_up(product.columns, Shape<T>::kWidth);
  const EvenCut rows(product.rows, divide_up(product.rows, rows_of_addresses(vectors)));
  for (int64_t tile = 0; tile < rows.parts; ++tile) {
    const int64_t row = rows.begin(tile);
    kTiles<T>.row[vectors - 1][rows.begin(tile + 1) - row - 1](product, row);
  }
}

// ---- moving ------------------------------------------------------------------------------------

// Half of a vector.
template <class T>
struct HalfOf {
  typedef T Type __attribute__((vector_size(kVectorBytes / 2)));
};

// Copies n elements, or zeros, by vectors of which the last may overlap the one before.
template <class T, class Vector, class Value>
inline void put(int64_t n, T* to, Value value) {
  constexpr int64_t kWidth = sizeof(Vector) / sizeof(T);
  for (int64_t u = 0; u < n - kWidth; u += kWidth) {
    const Vector part = value(u);
    __builtin_memcpy(to + u, &part, sizeof part);
  }
  const Vector part = value(n - kWidth);
  __builtin_memcpy(to + n - kWidth, &part, sizeof part);
}

template <class T>
inline void zero(T* to, int64_t n) {
  using Vector = typename Shape<T>::Vector;
  using Half = typename HalfOf<T>::Type;
  if (n >= Shape<T>::kWidth) return put<T, Vector>(n, to, [](int64_t) { return Vector{}; });
  if (n >= Shape<T>::kWidth / 2) return put<T, Half>(n, to, [](int64_t) { return Half{}; });
  for (int64_t u = 0; u < n; ++u) to[u] = T(0);
}

template <class T>
inline void copy(const T* from, int64_t n, T* to) {
  using Half = typename HalfOf<T>::Type;
  if (n >= Shape<T>::kWidth)
    return put<T, typename Shape<T>::Vector>(n, to, [=](int64_t u) { return load(from + u); });
  if (n >= Shape<T>::kWidth / 2) {
    return put<T, Half>(n, to, [=](int64_t u) {
      Half part;
      __builtin_memcpy(&part, from + u, sizeof part);
      return part;
    });
  }
  for (int64_t u = 0; u < n; ++u) to[u] = from[u];
}

// n elements plus a number.
template <class T>
inline void store_run(const T* from, int64_t n, T added, T* to) {
  using Half = typename HalfOf<T>::Type;
  if (n >= Shape<T>::kWidth)
    return put<T, typename Shape<T>::Vector>(n, to,
                                             [=](int64_t u) { return load(from + u) + added; });
  if (n >= Shape<T>::kWidth / 2) {
    return put<T, Half>(n, to, [=](int64_t u) {
      Half part;
      __builtin_memcpy(&part, from + u, sizeof part);
      return part + added;
    });
  }
  for (int64_t j = 0; j < n; ++j) to[j] = from[j] + added;
}

template <class T>
void store_runs(const T* c, int64_t c_stride, int64_t rows, const ConvRun* runs, int64_t count,
                const T* bias, T* out, int64_t out_stride, int64_t step) {
  for (int64_t i = 0; i < rows; ++i, c += c_stride, out += out_stride) {
    const T added = bias ? bias[i] : T(0);
    for (int64_t k = 0; k < count; ++k) {
      const T* from = c + runs[k].column;
      T* to = out + runs[k].target;
      const int64_t n = runs[k].length;
      if (step == 1) {
        store_run(from, n, added, to);
      } else {
        for (int64_t j = 0; j < n; ++j) to[j * step] = from[j] + added;
      }
    }
  }
}

template <class T>
void transpose(const T* in, int64_t in_stride, int64_t rows, int64_t columns, T* out,
               int64_t out_stride) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  for (int64_t i = 0; i < rows; i += kWidth) {
    const int64_t height = minimum(kWidth, rows - i);
    for (int64_t j = 0; j < columns; j += kWidth) {
      const int64_t width = minimum(kWidth, columns - j);
      const T* from = in + i * in_stride + j;
      Vector square[kWidth];
      for (int64_t k = 0; k < kWidth; ++k) {
        if (k >= height) square[k] = Vector{};
        else if (width == kWidth) square[k] = load(from + k * in_stride);
        else square[k] = load_first(from + k * in_stride, width);
      }
      transpose_square<T>(square);
      T* to = out + j * out_stride + i;
      if (height == kWidth) {
        for (int64_t k = 0; k < width; ++k) store(to + k * out_stride, square[k]);
      } else {
        for (int64_t k = 0; k < width; ++k)
          __builtin_memcpy(to + k * out_stride, square + k, height * sizeof(T));
      }
    }
  }
}

// Every other element: the even ones of a vector and the odd ones of the next, which is loaded one
// element early and so never reaches beyond the last.
template <class Vector, class T, int... kLane>
inline Vector load_even(const T* from, std::integer_sequence<int, kLane...>) {
#if defined(TAPEGRAD_SHUFFLES)
  constexpr int kWidth = sizeof...(kLane);
  Vector first, second;
  __builtin_memcpy(&first, from, sizeof first);
  __builtin_memcpy(&second, from + kWidth - 1, sizeof second);
  return __builtin_shufflevector(first, second,
                                 (kLane < kWidth / 2 ? 2 * kLane : 2 * kLane + 1)...);
#else
  return Vector{from[2 * kLane]...};
#endif
}

template <class T, class Vector>
inline void put_even(const T* from, int64_t n, T* to) {
  constexpr int kWidth = sizeof(Vector) / sizeof(T);
  put<T, Vector>(n, to, [=](int64_t u) {
    return load_even<Vector>(from + 2 * u, std::make_integer_sequence<int, kWidth>{});
  });
}

template <class T>
inline void copy_even(const T* from, int64_t n, T* to) {
  if (n >= Shape<T>::kWidth) return put_even<T, typename Shape<T>::Vector>(from, n, to);
  if (n >= Shape<T>::kWidth / 2) return put_even<T, typename HalfOf<T>::Type>(from, n, to);
  for (int64_t u = 0; u < n; ++u) to[u] = from[2 * u];
}

template <class T>
void pack_rows(const T* from, int64_t from_stride, int64_t rows, int64_t size, int64_t step,
               int64_t first, int64_t length, T* to) {
  int64_t begin = first >= 0 ? 0 : divide_up(-first, step);
  int64_t end = first >= size ? 0 : (size - 1 - first) / step + 1;
  begin = minimum(begin, length);
  end = minimum(end, length);
  const int64_t count = end - begin;
  from += first + begin * step;
  for (int64_t row = 0; row < rows; ++row, from += from_stride, to += length) {
    if (count < length) zero(to, length);
    if (step == 1) {
      if (count > 0) copy(from, count, to + begin);
    } else if (step == 2) {
      if (count > 0) copy_even(from, count, to + begin);
    } else {
      for (int64_t u = 0; u < count; ++u) to[begin + u] = from[u * step];
    }
  }
}

// ---- one channel at a time -----------------------------------------------------------------------

// kVectors vectors from each of the places.
template <class T, int kVectors>
inline void depthwise_at(int64_t taps, const T* weights, const T* plane, const int64_t* offsets,
                         T bias, T* out, const int64_t (&places)[kVectors]) {
  using Vector = typename Shape<T>::Vector;
  Vector sum[kVectors];
  TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) sum[v] = Vector{} + bias;
  for (int64_t t = 0; t < taps; ++t) {
    const T* from = plane + offsets[t];
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) sum[v] +=
        weights[t] * load(from + places[v]);
  }
  TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) store(out + places[v], sum[v]);
}

// The last vector of a row overlaps the one before.
template <class T>
void depthwise_rows(const DepthwiseRows<T>& g) {
  using Vector = typename Shape<T>::Vector;
  constexpr int64_t kWidth = Shape<T>::kWidth;
  const int64_t last = g.columns - kWidth;
  for (int64_t r = 0; r < g.rows; ++r) {
    const T* plane = g.plane + r * g.plane_stride;
    T* out = g.out + r * g.out_stride;
    if (last < 0) {
      Vector sum = Vector{} + g.bias;
      for (int64_t t = 0; t < g.taps; ++t) sum += g.weights[t] * load(plane + g.offsets[t]);
      alignas(kVectorBytes) T row[kWidth];
      store(row, sum);
      copy(row, g.columns, out);
      continue;
    }
    int64_t j = 0;
    for (; j + 4 * kWidth <= g.columns; j += 4 * kWidth)
      depthwise_at<T, 4>(g.taps, g.weights, plane, g.offsets, g.bias, out,
                         {j, j + kWidth, j + 2 * kWidth, j + 3 * kWidth});
    const int64_t rest = g.columns - j;
    if (rest > 3 * kWidth)
      depthwise_at<T, 4>(g.taps, g.weights, plane, g.offsets, g.bias, out,
                         {j, j + kWidth, j + 2 * kWidth, last});
    else if (rest > 2 * kWidth)
      depthwise_at<T, 3>(g.taps, g.weights, plane, g.offsets, g.bias, out, {j, j + kWidth, last});
    else if (rest > kWidth)
      depthwise_at<T, 2>(g.taps, g.weights, plane, g.offsets, g.bias, out, {j, last});
    else if (rest > 0) depthwise_at<T, 1>(g.taps, g.weights, plane, g.offsets, g.bias, out, {last});
  }
}

// kPlaces places from `place` on, kVectors whole vectors of channels from `first` on; or one vector of
// which `count` channels are there.
template <class T, int kPlaces, int kVectors, bool kWhole>
inline void depthwise_tile(const DepthwisePlaces<T>& g, int64_t place, int64_t first,
                           int64_t count) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  const auto part = [=](const T* from) { return kWhole ? load(from) : load_first(from, count); };
  Vector sum[kPlaces][kVectors];
  const T* x[kPlaces];
  TAPEGRAD_UNROLL for (int i = 0; i < kPlaces; ++i) {
    x[i] = g.x + (place + i) * g.x_step + first;
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] =
        g.bias ? part(g.bias + first + v * kWidth) : Vector{};
  }
  for (int64_t t = 0; t < g.taps; ++t) {
    const T* w = g.weights + g.rows[t] + first;
    const int64_t offset = g.offsets[t];
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Vector weight = part(w + v * kWidth);
      TAPEGRAD_UNROLL for (int i = 0; i < kPlaces; ++i) sum[i][v] +=
          weight * part(x[i] + offset + v * kWidth);
    }
  }
  TAPEGRAD_UNROLL for (int i = 0; i < kPlaces; ++i) {
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) store_first(
        g.out + (place + i) * g.out_step + first + v * kWidth, sum[i][v], kWhole ? kWidth : count);
  }
}

template <class T, int kPlaces>
inline void depthwise_channels(const DepthwisePlaces<T>& g, int64_t place) {
  constexpr int kWidth = Shape<T>::kWidth;
  int64_t first = 0;
  for (; first + 2 * kWidth <= g.channels; first += 2 * kWidth)
    depthwise_tile<T, kPlaces, 2, true>(g, place, first, kWidth);
  for (; first + kWidth <= g.channels; first += kWidth)
    depthwise_tile<T, kPlaces, 1, true>(g, place, first, kWidth);
  if (first < g.channels) depthwise_tile<T, kPlaces, 1, false>(g, place, first, g.channels - first);
}

template <class T>
void depthwise_places(const DepthwisePlaces<T>& g) {
  int64_t place = 0;
  for (; place + 4 <= g.places; place += 4) depthwise_channels<T, 4>(g, place);
  for (; place < g.places; ++place) depthwise_channels<T, 1>(g, place);
}

template <class T, int kTaps, bool kWhole>
inline void depthwise_sums_tile(const DepthwiseSums<T>& g, int64_t tap, int64_t first,
                                int64_t count) {
  using Vector = typename Shape<T>::Vector;
  const auto part = [=](const T* from) { return kWhole ? load(from) : load_first(from, count); };
  Vector sum[kTaps];
  TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) sum[t] = Vector{};
  const int64_t* offsets = g.offsets + tap;
  for (int64_t i = 0; i < g.places; ++i) {
    const T* x = g.x + i * g.x_step + first;
    const Vector grad = part(g.g + i * g.channels + first);
    TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) sum[t] += grad * part(x + offsets[t]);
  }
  TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) {
    T* to = g.sums + g.rows[tap + t] + first;
    store_first(to, sum[t] + part(to), kWhole ? Shape<T>::kWidth : count);
  }
}

template <class T, bool kWhole>
inline void depthwise_sums_of(const DepthwiseSums<T>& g, int64_t first, int64_t count) {
  int64_t t = 0;
  for (; t + 9 <= g.taps; t += 9) depthwise_sums_tile<T, 9, kWhole>(g, t, first, count);
  for (; t + 3 <= g.taps; t += 3) depthwise_sums_tile<T, 3, kWhole>(g, t, first, count);
  for (; t < g.taps; ++t) depthwise_sums_tile<T, 1, kWhole>(g, t, first, count);
}

template <class T>
void depthwise_sums(const DepthwiseSums<T>& g) {
  constexpr int kWidth = Shape<T>::kWidth;
  int64_t first = 0;
  for (; first + kWidth <= g.channels; first += kWidth)
    depthwise_sums_of<T, true>(g, first, kWidth);
  if (first < g.channels) depthwise_sums_of<T, false>(g, first, g.channels - first);
}

template <class T, int kTaps>
void dots_tile(const T* plane, const int64_t* offsets, const T* g, int64_t lines, int64_t length,
               int64_t line_stride, T* sums) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  Vector sum[kTaps];
  const T* x[kTaps];
  TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) {
    sum[t] = Vector{};
    x[t] = plane + offsets[t];
  }
  for (int64_t line = 0; line < lines; ++line, g += length) {
    int64_t q = 0;
    for (; q + kWidth <= length; q += kWidth) {
      const Vector value = load(g + q);
      TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) sum[t] += value * load(x[t] + q);
    }
    if (q < length) {
      const Vector value = load_first(g + q, length - q);
      TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) sum[t] +=
          value * load_first(x[t] + q, length - q);
    }
    TAPEGRAD_UNROLL for (int t = 0; t < kTaps; ++t) x[t] += line_stride;
  }
  for (int t = 0; t < kTaps; ++t) {
    T total = 0;
    for (int k = 0; k < kWidth; ++k) total += sum[t][k];
    sums[t] += total;
  }
}

template <class T>
void depthwise_dots(int64_t taps, const T* plane, const int64_t* offsets, const T* g, int64_t lines,
                    int64_t length, int64_t line_stride, T* sums) {
  int64_t t = 0;
  for (; t + 9 <= taps; t += 9)
    dots_tile<T, 9>(plane, offsets + t, g, lines, length, line_stride, sums + t);
  for (; t + 3 <= taps; t += 3)
    dots_tile<T, 3>(plane, offsets + t, g, lines, length, line_stride, sums + t);
  for (; t < taps; ++t)
    dots_tile<T, 1>(plane, offsets + t, g, lines, length, line_stride, sums + t);
}

template <class T>
constexpr ConvKernels<T> kernels_of() {
  return {plane_product<T>,  gather_panel<T>,  tap_product<T>, row_product<T>, depthwise_places<T>,
          depthwise_sums<T>, store_runs<T>,    transpose<T>,   pack_rows<T>,   depthwise_rows<T>,
          depthwise_dots<T>, Shape<T>::kWidth, kTileVectors};
}

}  // namespace

constinit const ConvTable conv_table = {kernels_of<float>(), kernels_of<double>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
