// uses: multiply_add.cuh
//
// A tile of a matrix product, computed by a block through shared memory.

constexpr int kTileSide = 16;   // threads of a block in each direction
constexpr int kTileDepth = 16;  // of the sum, taken at a time
constexpr int kTileThreads = kTileSide * kTileSide;

// Sums a(row, i) * b(i, column) over begin <= i < end for the rows and columns of one tile, each thread
// kPer x kPer of them, and gives them to emit(row, column, sum). `a` and `b` return zero outside. Threads beside each
// other ask for neighbours along the depth if `a_along_depth` and `b_along_depth` say so, else for neighbouring
// rows and columns: whichever lie side by side in memory.
template <class T, int kPer, class A, class B, class Emit>
__device__ void multiply_tile(int64 first_row, int64 first_column, int64 begin, int64 end,
                              bool a_along_depth, bool b_along_depth, const A& a, const B& b,
                              const Emit& emit) {
  constexpr int kTile = kTileSide * kPer;
  __shared__ T rows[kTileDepth][kTile + 1];
  __shared__ T columns[kTileDepth][kTile + 1];
  const int thread = threadIdx.x, x = thread % kTileSide, y = thread / kTileSide;
  // Where the parts lie in the tile that a thread brings there.
  const auto depth_of = [&](bool along, int part) {
    const int place = part * kTileThreads + thread;
    return along ? place % kTileDepth : place / kTile;
  };
  const auto side_of = [&](bool along, int part) {
    const int place = part * kTileThreads + thread;
    return along ? place / kTileDepth : place % kTile;
  };
  T next_rows[kPer], next_columns[kPer], sums[kPer][kPer] = {};
  const auto fetch = [&](int64 start) {
#pragma unroll
    for (int part = 0; part < kPer; ++part) {
      const int64 a_depth = start + depth_of(a_along_depth, part);
      const int64 b_depth = start + depth_of(b_along_depth, part);
      next_rows[part] =
          a_depth < end ? a(first_row + side_of(a_along_depth, part), a_depth) : T(0);
      next_columns[part] =
          b_depth < end ? b(b_depth, first_column + side_of(b_along_depth, part)) : T(0);
    }
  };
  fetch(begin);
  for (int64 start = begin; start < end; start += kTileDepth) {
#pragma unroll
    for (int part = 0; part < kPer; ++part) {
      rows[depth_of(a_along_depth, part)][side_of(a_along_depth, part)] = next_rows[part];
      columns[depth_of(b_along_depth, part)][side_of(b_along_depth, part)] = next_columns[part];
    }
    __syncthreads();
    // On its way while this part is multiplied.
    if (start + kTileDepth < end) fetch(start + kTileDepth);
#pragma unroll
    for (int i = 0; i < kTileDepth; ++i) {
      T left[kPer], right[kPer];
#pragma unroll
      for (int k = 0; k < kPer; ++k) {
        left[k] = rows[i][y + k * kTileSide];
        right[k] = columns[i][x + k * kTileSide];
      }
#pragma unroll
      for (int k = 0; k < kPer; ++k)
#pragma unroll
        for (int l = 0; l < kPer; ++l) sums[k][l] = multiply_add(left[k], right[l], sums[k][l]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < kPer; ++k)
#pragma unroll
    for (int l = 0; l < kPer; ++l)
      emit(first_row + y + k * kTileSide, first_column + x + l * kTileSide, sums[k][l]);
}
