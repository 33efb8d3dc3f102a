// Copies that exchange dimensions: neighbours in the source are far apart in the result. A block reads a tile
// along the source's memory, and writes it along the result's.

constexpr int kTransposeThreads = 128;
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

// Elements are moved kWidth at a time on either side: up to 16 bytes, where sizes and addresses allow it. Tiles are small, so
// that many blocks run beside each other.
template <class Word, int kWidth, int kTile>
__device__ void transpose(const TransposeArguments& a) {
  using Piece = Vector<Word, kWidth>;
  __shared__ Word tile[kTile][kTile + 1];
  int64 rest = blockIdx.x;
  const int64 down = rest % a.tiles_down * kTile;
  rest /= a.tiles_down;
  const int64 across = rest % a.tiles_across * kTile;
  rest /= a.tiles_across;
  int64 from_offset = 0, to_offset = 0;
  for (int d = 0; d < a.outer; ++d) {
    const int64 index = rest % a.sizes[d];
    rest /= a.sizes[d];
    from_offset += index * a.from_strides[d];
    to_offset += index * a.to_strides[d];
  }
  const Word* from = static_cast<const Word*>(a.from) + from_offset;
  Word* to = static_cast<Word*>(a.to) + to_offset;
  constexpr int kAcross = kTile / kWidth, kStep = kTransposeThreads / kAcross;
  constexpr int kPieces = kTile / kStep;
  const int column = threadIdx.x % kAcross * kWidth, row = threadIdx.x / kAcross;
  Piece pieces[kPieces];
#pragma unroll
  for (int u = 0; u < kPieces; ++u)
    if (across + row + u * kStep < a.width && down + column < a.height)
      pieces[u] = *reinterpret_cast<const Piece*>(from + (across + row + u * kStep) * a.from_stride +
                                                  down + column);
#pragma unroll
  for (int u = 0; u < kPieces; ++u)
#pragma unroll
    for (int k = 0; k < kWidth; ++k) tile[row + u * kStep][column + k] = pieces[u].elements[k];
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kPieces; ++u) {
    if (across + column >= a.width || down + row + u * kStep >= a.height) continue;
    Piece piece;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) piece.elements[k] = tile[column + k][row + u * kStep];
    *reinterpret_cast<Piece*>(to + (down + row + u * kStep) * a.to_stride + across + column) = piece;
  }
}
