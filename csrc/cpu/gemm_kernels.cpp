// Serial matrix products in registers and cache. Compiled once per instruction set: the build
// defines TAPEGRAD_ISA as the namespace of this copy (and passes the matching -march).
//
// The product is cut twice. In the inner cut, one *tile* of c (a few rows by a few vectors of
// columns) lives in registers while k runs: each step loads the vectors of one row of b and
// multiplies them by one element of each row of a. In the outer cut, *blocks* keep what tiles reuse
// near: a block of b (kDepth deep, as many columns as the second-level cache takes) is swept by
// every row of tiles, whose own strip of a (kTileRows x kDepth) stays in the first level.
//
// Operands are read where they lie when that is as fast, and copied ("packed") when it is not:
//   b  packed into panels, one per tile width, when transposed (vectors must run along a row of b)
//      and when enough rows of c reuse it. Rows of b lie far apart and no processor guesses the
//      next one, so the kernel fetches them ahead: that pays for many rows of c in place;
//   a  packed strip by strip when enough panels reuse it, which frees large products from the
//      cache-set conflicts of power-of-two leading dimensions.
//
// Remainders cost little. Cuts are even: 9 rows in tiles of at most 8 are 5 + 4, not 8 + 1, which
// is why there is a kernel for every tile size up to the largest. At the right edge the last vector
// overlaps its neighbour instead of reaching beyond the matrix; only where there is no neighbour (a
// *sliver*, narrower than one vector) is b padded with zeros and c written by way of a whole tile.
//
// This file must not emit inline functions shared with other files (std templates, for one): the
// linker keeps one copy of such a function for the whole program, and it might keep the one
// compiled for an instruction set that the machine lacks.

#include "cpu/gemm_kernels.h"

#include "cpu/register_tile.h"

namespace tapegrad::cpu::TAPEGRAD_ISA {
namespace {

// Cuts follow from cache sizes; thresholds are where packing began to win on an AVX-512 machine.
// The stride is no power of two, so packed rows stay off each other's cache sets.
constexpr int64_t kDepth = 384;                    // k of a block
constexpr int64_t kStripStride = kDepth + 16;      // between packed rows of a
constexpr int64_t kNearBytes = int64_t{24} << 10;  // half of a first-level cache
constexpr int64_t kFarBytes = int64_t{128} << 10;  // beyond this, reading in place costs more
constexpr int64_t kPageBytes = int64_t{4} << 10;
constexpr int64_t kConflictBytes = int64_t{1} << 10;
constexpr int64_t kRowsToPackB = 192;  // rows of c whose reuse pays for packing b
constexpr int64_t kRowsToAlignB = 48;  // the same where vectors of b straddle cache lines
constexpr int64_t kRowsAhead = 8;      // rows of b between what is fetched and what is used
constexpr int64_t kPanelsToPackA = 5;  // panels whose reuse pays for packing a
constexpr int64_t kTilesInGroup = 8;   // row tiles packed together from a transposed a
constexpr int64_t kFewProducts = 128;
constexpr int64_t kGemvChunkBytes = int64_t{8} << 10;

template <class T>
struct Buffers {
  static constexpr int64_t kStrips = kGemmStripBytes / sizeof(T);
  static constexpr int64_t kBlock = kGemmBlockBytes / sizeof(T);
  static_assert(kTilesInGroup * kTileRows * kStripStride <= kStrips);
};

// ---- the tile -----------------------------------------------------------------------------------

template <class T>
struct Tile {
  int64_t k;
  const T* a;
  int64_t a_stride;
  const T* b;
  int64_t b_stride;
  bool fetch_b;  // rows of b ahead of their use
  T alpha, beta;
  T* c;
  int64_t c_stride;
  const T* bias;  // of the tile's columns, or null
  // Columns of the tile, from which the last vector is counted backwards: where the right edge
  // leaves it no full vector it overlaps its neighbour, and both compute the same values.
  int64_t columns;
};

// kAlongK: a[i * a_stride + p] (rows of a as they lie); else a[p * a_stride + i] (a transposed).
// Every loop over the tile is unrolled by force: `sum` must be registers, never an array.
template <class T, int kRows, int kVectors, bool kAlongK>
void tile_kernel(const Tile<T>& tile) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  Vector sum[kRows][kVectors];
  TAPEGRAD_UNROLL for (int i = 0; i < kRows; ++i) {
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector{};
  }
  const T* a = tile.a;
  const T* b = tile.b;
  const int64_t a_stride = tile.a_stride, b_stride = tile.b_stride;
  const int64_t last = tile.columns - kWidth;
  const auto offset = [last](int v) { return v == kVectors - 1 ? last : v * kWidth; };
  const auto add_products = [&]<bool kFetch>() __attribute__((always_inline)) {
    for (int64_t p = tile.k; p > 0; --p) {
      if constexpr (kFetch) {
        TAPEGRAD_UNROLL for (int v = 0; v < kVectors; v += kVectorsInLine) {
          __builtin_prefetch(b + kRowsAhead * b_stride + v * kWidth);
        }
      }
      Vector row[kVectors];
      TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) row[v] = load(b + offset(v));
      TAPEGRAD_UNROLL for (int i = 0; i < kRows; ++i) {
        const T factor = kAlongK ? a[i * a_stride] : a[i];
        TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * row[v];
      }
      a += kAlongK ? 1 : a_stride;
      b += b_stride;
    }
  };
  if (tile.fetch_b) {
    add_products.template operator()<true>();
  } else {
    add_products.template operator()<false>();
  }
  const T alpha = tile.alpha, beta = tile.beta;
  T* c = tile.c;
  TAPEGRAD_UNROLL for (int i = 0; i < kRows; ++i, c += tile.c_stride) {
    Vector value[kVectors];
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) value[v] = alpha * sum[i][v];
    if (tile.bias) {
      TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) value[v] += load(tile.bias + offset(v));
    }
    if (beta != T(0)) {  // all loads before any store, because of the overlap
      TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) value[v] += beta * load(c + offset(v));
    }
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) store(c + offset(v), value[v]);
  }
}

template <class T>
using TileKernel = void (*)(const Tile<T>&);

template <class T>
struct TileTable {
  TileKernel<T> kernels[2][kTileRows][kTileVectors];  // [kAlongK][rows - 1][vectors - 1]
};

template <class T, bool kAlongK, int kRows, int kVectors>
constexpr void fill_tiles(TileTable<T>& table) {
  table.kernels[kAlongK][kRows - 1][kVectors - 1] = tile_kernel<T, kRows, kVectors, kAlongK>;
  if constexpr (kVectors > 1) {
    fill_tiles<T, kAlongK, kRows, kVectors - 1>(table);
  } else if constexpr (kRows > 1) {
    fill_tiles<T, kAlongK, kRows - 1, kTileVectors>(table);
  }
}

template <class T>
constexpr TileTable<T> make_tiles() {
  TileTable<T> table{};
  fill_tiles<T, false, kTileRows, kTileVectors>(table);
  fill_tiles<T, true, kTileRows, kTileVectors>(table);
  return table;
}

template <class T>
constexpr TileTable<T> kTiles = make_tiles<T>();

// ---- packing ------------------------------------------------------------------------------------

// Copies the `depth` rows of a panel of b, `columns` wide, padded with zeros to whole vectors.
template <class T>
void pack_panel(const T* b, int64_t ldb, int64_t depth, int64_t columns, T* panel) {
  constexpr int kWidth = Shape<T>::kWidth;
  const int64_t width = divide_up(columns, kWidth) * kWidth;
  for (int64_t p = 0; p < depth; ++p, b += ldb, panel += width) {
    int64_t j = 0;
    for (; j + kWidth <= columns; j += kWidth) store(panel + j, load(b + j));
    if (j < columns) {
      typename Shape<T>::Vector last = {};
      __builtin_memcpy(&last, b + j, (columns - j) * sizeof(T));
      store(panel + j, last);
    }
  }
}

// The same from a b that is stored transposed: column j of the panel is row j of `b`.
template <class T>
void pack_panel_transposed(const T* b, int64_t ldb, int64_t depth, int64_t columns, T* panel) {
  constexpr int kWidth = Shape<T>::kWidth;
  const int64_t width = divide_up(columns, kWidth) * kWidth;
  for (int64_t j = 0; j < columns; j += kWidth) {
    const int64_t valid = minimum(kWidth, columns - j);
    const T* source = b + j * ldb;
    int64_t p = 0;
    for (; p + kWidth <= depth; p += kWidth) {
      typename Shape<T>::Vector square[kWidth] = {};
      if (valid == kWidth) {
        for (int q = 0; q < kWidth; ++q) square[q] = load(source + q * ldb + p);
      } else {
        for (int64_t q = 0; q < valid; ++q) square[q] = load(source + q * ldb + p);
      }
      transpose_square<T>(square);
      for (int q = 0; q < kWidth; ++q) store(panel + (p + q) * width + j, square[q]);
    }
    for (; p < depth; ++p) {
      for (int64_t q = 0; q < kWidth; ++q) {
        panel[p * width + j + q] = q < valid ? source[q * ldb + p] : T(0);
      }
    }
  }
}

// Copies `rows` rows of a, kStripStride apart.
template <class T>
void pack_strip(const T* a, int64_t lda, int64_t rows, int64_t depth, T* strip) {
  constexpr int kWidth = Shape<T>::kWidth;
  for (int64_t i = 0; i < rows; ++i, a += lda, strip += kStripStride) {
    int64_t p = 0;
    for (; p + kWidth <= depth; p += kWidth) store(strip + p, load(a + p));
    for (; p < depth; ++p) strip[p] = a[p];
  }
}

// ---- blocks -------------------------------------------------------------------------------------

// How one product is cut. Row tiles and panels are numbered; panels are measured in vectors.
template <class T>
struct Plan {
  static constexpr int kWidth = Shape<T>::kWidth;

  explicit Plan(const GemmArguments<T>& g)
      : n(g.n),
        rows(g.m, divide_up(g.m, kTileRows)),
        depths(g.k, divide_up(g.k, kDepth)),
        vectors(divide_up(g.n, kWidth), divide_up(g.n, kTileVectors * kWidth)) {
    const int64_t depth = divide_up(g.k, depths.parts);
    const int64_t a_bytes = g.m * depth * int64_t{sizeof(T)};
    const int64_t b_bytes = g.n * depth * int64_t{sizeof(T)};
    // When all of a stays in the first-level cache, so should the part of b that it sweeps.
    const bool a_is_near = a_bytes <= kNearBytes;
    const int64_t panel_elements = depth * kTileVectors * kWidth;
    panels_per_block = a_is_near ? 1 : minimum(vectors.parts, Buffers<T>::kBlock / panel_elements);
    // Rows of b whose distance is a multiple of a power of two compete for the same cache sets.
    const int64_t row_bytes = g.ldb * int64_t{sizeof(T)};
    const bool b_conflicts = row_bytes >= kPageBytes && row_bytes % kConflictBytes == 0;
    const bool b_is_far = b_bytes > kFarBytes && !a_is_near;
    const bool b_is_aligned =
        row_bytes % kLineBytes == 0 && reinterpret_cast<uintptr_t>(g.b) % kLineBytes == 0;
    pack_b = g.transpose_b ||
             ((b_is_far || b_conflicts) && g.m >= (b_is_aligned ? kRowsToPackB : kRowsToAlignB));
    fetch_b = b_bytes > kFarBytes || b_conflicts;
    pack_a = g.transpose_a ? a_bytes > kFarBytes : panels_per_block >= kPanelsToPackA;
  }

  int64_t first_row(int64_t tile) const { return rows.begin(tile); }
  int64_t first_column(int64_t panel) const { return vectors.begin(panel) * kWidth; }

  int64_t n;
  EvenCut rows, depths, vectors;
  int64_t panels_per_block;
  bool pack_a, pack_b, fetch_b;
};

template <class T>
struct Block {
  int64_t first_panel, last_panel;  // half-open
  int64_t first_k, depth;
  T beta;
  const T* bias;
  T* packed;  // the panels of b, or those that are not read in place
};

// Where the block keeps a panel of b, its width in whole vectors and the columns that exist.
template <class T>
struct Panel {
  Panel(const Plan<T>& plan, const Block<T>& block, int64_t panel)
      : column(plan.first_column(panel)),
        width(plan.first_column(panel + 1) - column),
        columns(minimum(width, plan.n - column)),
        packed(block.packed + (column - plan.first_column(block.first_panel)) * block.depth) {}

  // Less than a vector, so none to overlap with: b is padded, c goes through a whole tile.
  bool is_sliver() const { return columns < Shape<T>::kWidth; }
  bool is_packed(const Plan<T>& plan) const { return plan.pack_b || is_sliver(); }

  int64_t column, width, columns;
  T* packed;
};

template <class T>
void pack_panels(const GemmArguments<T>& g, const Plan<T>& plan, const Block<T>& block) {
  for (int64_t number = block.first_panel; number < block.last_panel; ++number) {
    const Panel<T> panel(plan, block, number);
    if (!panel.is_packed(plan)) continue;
    if (g.transpose_b) {
      pack_panel_transposed(g.b + panel.column * g.ldb + block.first_k, g.ldb, block.depth,
                            panel.columns, panel.packed);
    } else {
      pack_panel(g.b + block.first_k * g.ldb + panel.column, g.ldb, block.depth, panel.columns,
                 panel.packed);
    }
  }
}

// Copies the strips of a group of row tiles from an a that is stored transposed. A group, because
// a single strip would use half of every cache line that it touches.
template <class T>
void pack_strips_transposed(const GemmArguments<T>& g, const Plan<T>& plan, const Block<T>& block,
                            int64_t first_tile, int64_t last_tile, T* strips) {
  int64_t first_row[kTilesInGroup + 1];
  for (int64_t tile = first_tile; tile <= last_tile; ++tile) {
    first_row[tile - first_tile] = plan.first_row(tile);
  }
  const int64_t tiles = last_tile - first_tile;
  const bool whole = first_row[tiles] - first_row[0] == tiles * kTileRows;
  const T* a = g.a + block.first_k * g.lda;
  for (int64_t p = 0; p < block.depth; ++p, a += g.lda) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      T* strip = strips + tile * kTileRows * kStripStride;
      const T* source = a + first_row[tile];
      if (whole) {
        __builtin_memcpy(strip + p * kTileRows, source, kTileRows * sizeof(T));
      } else {
        const int64_t rows = first_row[tile + 1] - first_row[tile];
        for (int64_t i = 0; i < rows; ++i) strip[p * rows + i] = source[i];
      }
    }
  }
}

// Runs a tile that is narrower than a vector by way of a whole one.
template <class T>
void run_sliver(TileKernel<T> kernel, Tile<T> tile, int64_t rows) {
  constexpr int kWidth = Shape<T>::kWidth;
  alignas(kVectorBytes) T whole[kTileRows * kWidth];
  const Tile<T> target = tile;
  tile.c = whole;
  tile.c_stride = kWidth;
  tile.columns = kWidth;
  tile.beta = T(0);
  tile.bias = nullptr;
  kernel(tile);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < target.columns; ++j) {
      T& c = target.c[i * target.c_stride + j];
      const T value = whole[i * kWidth + j] + (target.bias ? target.bias[j] : T(0));
      c = target.beta == T(0) ? value : value + target.beta * c;
    }
  }
}

// One row of tiles against every panel of the block. `strip` is for the rows of a where they are
// packed.
template <class T>
void sweep_row_tile(const GemmArguments<T>& g, const Plan<T>& plan, const Block<T>& block,
                    int64_t number, T* strip) {
  const int64_t row = plan.first_row(number), rows = plan.first_row(number + 1) - row;
  Tile<T> tile;
  tile.k = block.depth;
  tile.alpha = g.alpha;
  tile.beta = block.beta;
  tile.fetch_b = plan.fetch_b;
  tile.c_stride = g.ldc;
  tile.a = g.transpose_a ? g.a + block.first_k * g.lda + row : g.a + row * g.lda + block.first_k;
  tile.a_stride = g.lda;
  if (plan.pack_a) {
    if (!g.transpose_a) pack_strip(tile.a, g.lda, rows, block.depth, strip);
    tile.a = strip;
    tile.a_stride = g.transpose_a ? rows : kStripStride;
  }
  const auto& kernels = kTiles<T>.kernels[!g.transpose_a][rows - 1];
  for (int64_t panel_number = block.first_panel; panel_number < block.last_panel; ++panel_number) {
    const Panel<T> panel(plan, block, panel_number);
    const bool packed = panel.is_packed(plan);
    tile.b = packed ? panel.packed : g.b + block.first_k * g.ldb + panel.column;
    tile.b_stride = packed ? panel.width : g.ldb;
    tile.c = g.c + row * g.ldc + panel.column;
    tile.columns = panel.columns;
    tile.bias = block.bias ? block.bias + panel.column : nullptr;
    const TileKernel<T> kernel = kernels[panel.width / Shape<T>::kWidth - 1];
    if (panel.is_sliver()) {
      run_sliver(kernel, tile, rows);
    } else {
      kernel(tile);
    }
  }
}

template <class T>
void sweep_block(const GemmArguments<T>& g, const Plan<T>& plan, const Block<T>& block, T* strips) {
  pack_panels(g, plan, block);
  const bool grouped = plan.pack_a && g.transpose_a;
  for (int64_t tile = 0; tile < plan.rows.parts; ++tile) {
    const int64_t in_group = grouped ? tile % kTilesInGroup : 0;
    if (grouped && in_group == 0) {
      pack_strips_transposed(g, plan, block, tile, minimum(tile + kTilesInGroup, plan.rows.parts),
                             strips);
    }
    sweep_row_tile(g, plan, block, tile, strips + in_group * kTileRows * kStripStride);
  }
}

// So few products that cutting them takes longer than computing them. The order of the sums is that of a tile.
template <class T>
void gemm_few(const GemmArguments<T>& g) {
  const int64_t a_row = g.transpose_a ? 1 : g.lda, a_step = g.transpose_a ? g.lda : 1;
  const int64_t b_column = g.transpose_b ? g.ldb : 1, b_step = g.transpose_b ? 1 : g.ldb;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      const T* a = g.a + i * a_row;
      const T* b = g.b + j * b_column;
      T sum = 0;
      for (int64_t p = 0; p < g.k; ++p, a += a_step, b += b_step) sum += *a * *b;
      T value = g.alpha * sum + (g.bias ? g.bias[j] : T(0));
      T& c = g.c[i * g.ldc + j];
      c = g.beta == T(0) ? value : value + g.beta * c;
    }
  }
}

template <class T>
void gemm_serial(const GemmArguments<T>& g, T* workspace) {
  if (g.m * g.n * g.k <= kFewProducts) return gemm_few(g);
  const Plan<T> plan(g);
  Block<T> block;
  block.packed = workspace + Buffers<T>::kStrips;
  for (int64_t panel = 0; panel < plan.vectors.parts; panel += plan.panels_per_block) {
    block.first_panel = panel;
    block.last_panel = minimum(plan.vectors.parts, panel + plan.panels_per_block);
    for (int64_t part = 0; part < plan.depths.parts; ++part) {
      block.first_k = plan.depths.begin(part);
      block.depth = plan.depths.begin(part + 1) - block.first_k;
      block.beta = part == 0 ? g.beta : T(1);
      block.bias = part == 0 ? g.bias : nullptr;
      sweep_block(g, plan, block, workspace);
    }
  }
}

// ---- matrix times vector ------------------------------------------------------------------------

template <class T>
inline T sum_of_lanes(typename Shape<T>::Vector value) {
  T result = value[0];
  for (int i = 1; i < Shape<T>::kWidth; ++i) result += value[i];
  return result;
}

template <class T>
inline void write(T* y, T value, T beta) {
  *y = beta == T(0) ? value : value + beta * *y;
}

// The products of kRows rows with x, kVectors vectors of each at a time: enough independent sums to
// hide the latency of an addition.
template <class T, int kRows, int kVectors>
inline void gemv_row_group(const GemvArguments<T>& g, int64_t row) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  const T* a = g.a + row * g.lda;
  Vector sum[kRows][kVectors] = {};
  int64_t j = 0;
  for (; j + kVectors * kWidth <= g.columns; j += kVectors * kWidth) {
    TAPEGRAD_UNROLL for (int v = 0; v < kVectors; ++v) {
      const Vector x = load(g.x + j + v * kWidth);
      TAPEGRAD_UNROLL for (int i = 0; i < kRows; ++i) {
        sum[i][v] += load(a + i * g.lda + j + v * kWidth) * x;
      }
    }
  }
  for (; j + kWidth <= g.columns; j += kWidth) {
    const Vector x = load(g.x + j);
    TAPEGRAD_UNROLL for (int i = 0; i < kRows; ++i) sum[i][0] += load(a + i * g.lda + j) * x;
  }
  TAPEGRAD_UNROLL for (int i = 0; i < kRows; ++i) {
    TAPEGRAD_UNROLL for (int v = 1; v < kVectors; ++v) sum[i][0] += sum[i][v];
    T total = sum_of_lanes<T>(sum[i][0]);
    for (int64_t rest = j; rest < g.columns; ++rest) total += a[i * g.lda + rest] * g.x[rest];
    write(g.y + row + i, g.alpha * total, g.beta);
  }
}

template <class T>
void gemv_rows(const GemvArguments<T>& g) {
  int64_t row = 0;
  for (; row + 4 <= g.rows; row += 4) gemv_row_group<T, 4, 2>(g, row);
  for (; row < g.rows; ++row) gemv_row_group<T, 1, 8>(g, row);
}

// Adds kRows scaled rows to y[first, last).
template <class T, int kRows>
inline void add_scaled_rows(const GemvArguments<T>& g, int64_t row, int64_t first, int64_t last) {
  using Vector = typename Shape<T>::Vector;
  constexpr int kWidth = Shape<T>::kWidth;
  const T* a = g.a + row * g.lda;
  T factor[kRows];
  for (int i = 0; i < kRows; ++i) factor[i] = g.alpha * g.x[row + i];
  int64_t j = first;
  for (; j + kWidth <= last; j += kWidth) {
    Vector sum = load(g.y + j);
    for (int i = 0; i < kRows; ++i) sum += factor[i] * load(a + i * g.lda + j);
    store(g.y + j, sum);
  }
  for (; j < last; ++j) {
    T sum = g.y[j];
    for (int i = 0; i < kRows; ++i) sum += factor[i] * a[i * g.lda + j];
    g.y[j] = sum;
  }
}

template <class T>
void gemv_columns(const GemvArguments<T>& g) {
  constexpr int64_t kChunk = kGemvChunkBytes / sizeof(T);  // of y, stays in the first-level cache
  constexpr int kRows = 8;
  for (int64_t first = 0; first < g.columns; first += kChunk) {
    const int64_t last = minimum(first + kChunk, g.columns);
    for (int64_t j = first; j < last; ++j) g.y[j] = g.beta == T(0) ? T(0) : g.beta * g.y[j];
    int64_t row = 0;
    for (; row + kRows <= g.rows; row += kRows) add_scaled_rows<T, kRows>(g, row, first, last);
    for (; row < g.rows; ++row) add_scaled_rows<T, 1>(g, row, first, last);
  }
}

template <class T>
constexpr GemmKernels<T> kernels_of() {
  return {gemm_serial<T>, gemv_rows<T>, gemv_columns<T>, Shape<T>::kWidth};
}

}  // namespace

constinit const GemmTable gemm_table = {kernels_of<float>(), kernels_of<double>(),
                                        kernels_of<uint32_t>(), kernels_of<uint64_t>()};

}  // namespace tapegrad::cpu::TAPEGRAD_ISA
