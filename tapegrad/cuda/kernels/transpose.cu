// Copies that exchange dimensions: neighbours in the source are far apart in the result. A block reads a tile
// along the source's memory, and writes it along the result's.

constexpr int kTile = 64;
constexpr int kMostOuter = 6;

struct TransposeArguments {
  const void* from;
  void* to;
  int64 width, height;           // of the two dimensions: in order in the result, and in the source
  int64 from_stride, to_stride;  // of the first in the source, of the second in the result
  int64 tiles_across, tiles_down;
  int64 outer;  // further dimensions
  int64 sizes[kMostOuter], from_strides[kMostOuter], to_strides[kMostOuter];
};

template <class Word>
__device__ void transpose(const TransposeArguments& a) {
  __shared__ Word tile[kTile][kTile + 1];
  int64 rest = blockIdx.x;
  const int64 across = rest % a.tiles_across * kTile;
  rest /= a.tiles_across;
  const int64 down = rest % a.tiles_down * kTile;
  rest /= a.tiles_down;
  int64 from_offset = 0, to_offset = 0;
  for (int d = 0; d < a.outer; ++d) {
    const int64 index = rest % a.sizes[d];
    rest /= a.sizes[d];
    from_offset += index * a.from_strides[d];
    to_offset += index * a.to_strides[d];
  }
  const Word* from = static_cast<const Word*>(a.from) + from_offset;
  Word* to = static_cast<Word*>(a.to) + to_offset;
  const int column = threadIdx.x % kTile, step = blockDim.x / kTile;
#pragma unroll 8
  for (int row = threadIdx.x / kTile; row < kTile; row += step)
    if (across + row < a.width && down + column < a.height)
      tile[row][column] = from[(across + row) * a.from_stride + down + column];
  __syncthreads();
#pragma unroll 8
  for (int row = threadIdx.x / kTile; row < kTile; row += step)
    if (across + column < a.width && down + row < a.height)
      to[(down + row) * a.to_stride + across + column] = tile[column][row];
}
