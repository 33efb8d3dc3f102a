// uses: multiply_add.cuh
// uses: reduce.cuh
//
// Convolutions of two dimensions in which each channel has a window of its own, and their derivatives. Channels lie last:
// neighbouring threads have neighbouring channels, kWidth each. The weights of a channel lie beside each other.
//
// Windows of kSide x kSide and a stride that is known are computed from registers: a thread makes kRows x kColumns
// results of its channels, and reads each row of the input that a row of the window sees once. The number of
// channels may be known as well (kChannels, else 0): steps between columns are parts of instructions then.

struct DepthwiseArguments {
  int64 batch, channels;
  int64 in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];  // height and width
  const void *first, *second, *bias;  // the factors in the order of the op; bias may be null
  void* result;
  int64 strips, bands, rows;  // tiles of an image: beside each other, below each other, rows of a band
  int64 parts;                // of the sums of weights' gradients, each with a result of its own
  int lanes, chunks, groups;  // threads beside each other in channels, blocks of them, tiles at a time
  int flipped;                // whether the window is turned by half a turn
};

inline constexpr int kMostLanes = 64;

template <int kChannels>
__device__ inline int64 channel_count(const DepthwiseArguments& a) {
  return kChannels ? int64(kChannels) : a.channels;
}

// Which channels a thread has, and which of what its block does at a time.
struct DepthwiseThread {
  int lane, group;
  int64 chunk, block;

  __device__ explicit DepthwiseThread(const DepthwiseArguments& a)
      : lane(int(threadIdx.x % unsigned(a.lanes))),
        group(int(threadIdx.x / unsigned(a.lanes))),
        chunk(blockIdx.x % unsigned(a.chunks)),
        block(blockIdx.x / unsigned(a.chunks)) {}
  __device__ int64 blocks(const DepthwiseArguments& a) const {
    return gridDim.x / unsigned(a.chunks);
  }
};

// Tiles below each other have neighbouring numbers: they read the same rows.
struct DepthwiseTile {
  int64 image;
  int row, column;

  __device__ DepthwiseTile(const DepthwiseArguments& a, int64 number, int rows, int columns) {
    const int64 above = quotient(number, a.bands);
    image = quotient(above, a.strips);
    row = int(number - above * a.bands) * rows;
    column = int(above - image * a.strips) * columns;
  }
};

__device__ inline int limited(int n, int most) { return n < 0 ? 0 : n < most ? n : most; }

// Bits of the columns of a strip that are in a row of so many, if the strip begins at a column of it.
__device__ inline unsigned columns_inside(int begin, int columns) {
  const unsigned first = limited(-begin, 31), end = limited(columns - begin, 31);
  unsigned bits = ((1u << end) - 1) & ~((1u << first) - 1);
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(bits));  // is not computed again for each column
#endif
  return bits;
}

// Neighbouring columns of a row of a tensor, zero outside of it.
template <class S, int kWidth, int kCount>
struct DepthwiseStrip {
  static_assert(kCount < 32, "bits of a word");
  using A = typename Storage<S>::Compute;
  static constexpr bool kIsWord = kSame<S, BFloat16> && kWidth == 2;  // one instruction for each element
  using Piece = Either<kIsWord, unsigned, Vector<S, kWidth>>;
  Piece pieces[kCount];

  __device__ void read(const S* x, int64 first, int64 channels, unsigned inside) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      pieces[j] = Piece{};
      if (inside >> j & 1u) pieces[j] = *reinterpret_cast<const Piece*>(x + (first + j * channels));
    }
  }
  __device__ A at(int j, int k) const {
    if constexpr (kIsWord)
      return __uint_as_float(k ? pieces[j] & 0xffff0000u : pieces[j] << 16);
    else return Storage<S>::load(pieces[j].elements[k]);
  }
};

// ---- results, and gradients of inputs where the stride is 1

// The windows of a block's channels in shared memory, [taps][channels].
template <class S, int kTaps, int kRow>
__device__ void read_windows(const DepthwiseArguments& a, typename Storage<S>::Compute* windows,
                             int64 first, int64 channels) {
  const int64 left = a.channels - first;
  const int count = int(left < channels ? left : channels) * kTaps;
  const S* w = static_cast<const S*>(a.second) + first * kTaps;
  for (int e = threadIdx.x; e < count; e += blockDim.x) {
    const int channel = e / kTaps, tap = e % kTaps;
    windows[(a.flipped ? kTaps - 1 - tap : tap) * kRow + channel] = Storage<S>::load(w[e]);
  }
}

template <class S, int kSide, int kStride, int kWidth, int kColumns, int kRows, int kChannels>
__device__ void depthwise(const DepthwiseArguments& a) {
  using A = typename Storage<S>::Compute;
  constexpr int kInputs = (kColumns - 1) * kStride + kSide, kTaps = kSide * kSide;
  constexpr int kRow = kMostLanes * kWidth + 2;  // so that few threads write to one bank
  __shared__ Vector<A, kWidth> shared[kTaps * kRow / kWidth];
  A* windows = shared[0].elements;
  const DepthwiseThread thread(a);
  const int64 in_block = int64(a.lanes) * kWidth;
  read_windows<S, kTaps, kRow>(a, windows, thread.chunk * in_block, in_block);
  __syncthreads();
  const int64 channels = channel_count<kChannels>(a);
  const int64 channel = thread.chunk * in_block + thread.lane * kWidth;
  if (thread.group >= a.groups || channel >= channels) return;
  const S* x = static_cast<const S*>(a.first) + channel;
  const int64 tiles = a.batch * a.strips * a.bands, step = thread.blocks(a) * a.groups;
  for (int64 number = thread.block * a.groups + thread.group; number < tiles; number += step) {
    const DepthwiseTile tile(a, number, kRows, kColumns);
    const int top = tile.row * kStride - int(a.padding[0]);
    const int left = tile.column * kStride - int(a.padding[1]);
    const unsigned inside = columns_inside(left, int(a.in[1]));
    const int64 line = a.in[1] * channels;
    int64 first = ((tile.image * a.in[0] + top) * a.in[1] + left) * channels;
    A sums[kRows][kColumns][kWidth];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sums[r][c][k] = A(0);
#pragma unroll 1
    for (int i = 0; i < kSide; ++i, first += line) {
      Vector<A, kWidth> taps[kSide];
#pragma unroll
      for (int j = 0; j < kSide; ++j)
        taps[j] = shared[((i * kSide + j) * kRow + thread.lane * kWidth) / kWidth];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (unsigned(top + r * kStride + i) >= unsigned(a.in[0])) continue;
        DepthwiseStrip<S, kWidth, kInputs> strip;
        strip.read(x, first + r * kStride * line, channels, inside);
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
#pragma unroll
          for (int j = 0; j < kSide; ++j)
#pragma unroll
            for (int k = 0; k < kWidth; ++k)
              sums[r][c][k] = multiply_add(strip.at(c * kStride + j, k), taps[j].elements[k],
                                           sums[r][c][k]);
      }
    }
    S* y = static_cast<S*>(a.result) + channel +
           ((tile.image * a.out[0] + tile.row) * a.out[1] + tile.column) * channels;
    const int rows = int(a.out[0]) - tile.row, columns = int(a.out[1]) - tile.column;
    A bias[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      bias[k] = a.bias ? Storage<S>::load(static_cast<const S*>(a.bias)[channel + k]) : A(0);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (c >= columns) break;
        Vector<S, kWidth> piece;
#pragma unroll
        for (int k = 0; k < kWidth; ++k)
          piece.elements[k] = Storage<S>::store(sums[r][c][k] + bias[k]);
        *reinterpret_cast<Vector<S, kWidth>*>(y + (r * a.out[1] + c) * channels) = piece;
      }
    }
  }
}

// Any window, stride and dilation: each thread one result. kGradient: the gradient of the input, which reads the
// outputs that saw it.
template <class S, bool kGradient>
__device__ void depthwise_any(const DepthwiseArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 place = quotient(element, a.channels), line = quotient(place, a.out[1]);
  const int64 image = quotient(line, a.out[0]);
  if (image >= a.batch) return;
  const int64 channel = element - place * a.channels;
  const int64 at[2] = {line - image * a.out[0], place - line * a.out[1]};
  const S* x = static_cast<const S*>(a.first) + image * a.in[0] * a.in[1] * a.channels + channel;
  const S* w = static_cast<const S*>(a.second) + channel * a.kernel[0] * a.kernel[1];
  // Where a tap of dimension d reads, or -1.
  const auto seen = [&](int d, int64 tap) {
    int64 to = kGradient ? at[d] + a.padding[d] - tap * a.dilation[d]
                         : at[d] * a.stride[d] + tap * a.dilation[d] - a.padding[d];
    if (to < 0) return int64(-1);
    if constexpr (kGradient) {
      const int64 output = quotient(to, a.stride[d]);
      if (output * a.stride[d] != to) return int64(-1);
      to = output;
    }
    return to < a.in[d] ? to : int64(-1);
  };
  // Gradients without dilation: only each stride-th tap was on the place.
  const auto first_tap = [&](int d) {
    return kGradient && a.dilation[d] == 1 ? (at[d] + a.padding[d]) % a.stride[d] : 0;
  };
  const auto tap_step = [&](int d) { return kGradient && a.dilation[d] == 1 ? a.stride[d] : 1; };
  A sum = a.bias ? Storage<S>::load(static_cast<const S*>(a.bias)[channel]) : A(0);
  const int64 first = first_tap(1), step = tap_step(1);
  for (int64 i = first_tap(0); i < a.kernel[0]; i += tap_step(0)) {
    const int64 row = seen(0, i);
    if (row < 0) continue;
    for (int64 j = first; j < a.kernel[1]; j += step) {
      const int64 column = seen(1, j);
      if (column < 0) continue;
      sum = multiply_add(Storage<S>::load(x[(row * a.in[1] + column) * a.channels]),
                         Storage<S>::load(w[i * a.kernel[1] + j]), sum);
    }
  }
  static_cast<S*>(a.result)[element] = Storage<S>::store(sum);
}

// ---- gradients of weights: a thread adds up a row of the window over its share of tiles. The parts are
// [parts][taps][channels].

template <class S, int kSide, int kStride, int kWidth, int kColumns, int kChannels>
__device__ void depthwise_grad_weight(const DepthwiseArguments& a) {
  using A = typename Storage<S>::Compute;
  constexpr int kInputs = (kColumns - 1) * kStride + kSide;
  const DepthwiseThread thread(a);
  const int64 channels = channel_count<kChannels>(a);
  const int64 channel = (thread.chunk * a.lanes + thread.lane) * kWidth;
  const int i = thread.group % kSide, group = thread.group / kSide;
  if (group >= a.groups || channel >= channels) return;
  const S* x = static_cast<const S*>(a.first) + channel;
  const S* grad = static_cast<const S*>(a.second) + channel;
  A sums[kSide][kWidth];
#pragma unroll
  for (int j = 0; j < kSide; ++j)
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sums[j][k] = A(0);
  const int64 tiles = a.batch * a.strips * a.bands, part = thread.block * a.groups + group;
  for (int64 number = part; number < tiles; number += a.parts) {
    const DepthwiseTile tile(a, number, int(a.rows), kColumns);
    const int left = tile.column * kStride - int(a.padding[1]);
    const unsigned inside = columns_inside(left, int(a.in[1]));
    const unsigned graded = columns_inside(tile.column, int(a.out[1]));
    const int top = i - int(a.padding[0]);
    // Rows of the gradient whose window has its row i in the input.
    int row = tile.row, stop = int(least(tile.row + a.rows, a.out[0]));
    while (row < stop && row * kStride + top < 0) ++row;
    while (row < stop && (stop - 1) * kStride + top >= int(a.in[0])) --stop;
    int64 at = ((tile.image * a.in[0] + row * kStride + top) * a.in[1] + left) * channels;
    int64 from = ((tile.image * a.out[0] + row) * a.out[1] + tile.column) * channels;
#pragma unroll 1
    for (; row < stop; ++row) {
      DepthwiseStrip<S, kWidth, kColumns> grads;
      grads.read(grad, from, channels, graded);
      DepthwiseStrip<S, kWidth, kInputs> strip;
      strip.read(x, at, channels, inside);
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int j = 0; j < kSide; ++j)
#pragma unroll
          for (int k = 0; k < kWidth; ++k)
            sums[j][k] = multiply_add(grads.at(c, k), strip.at(c * kStride + j, k), sums[j][k]);
      at += kStride * a.in[1] * channels;
      from += a.out[1] * channels;
    }
  }
  A* result = static_cast<A*>(a.result) + (part * kSide + i) * kSide * channels + channel;
#pragma unroll
  for (int j = 0; j < kSide; ++j)
#pragma unroll
    for (int k = 0; k < kWidth; ++k) result[j * channels + k] = sums[j][k];
}

// Any window, stride and dilation: a thread has one tap of one channel. Bands are places of an image, a part of which
// a thread adds up.
template <class S>
__device__ void depthwise_grad_weight_any(const DepthwiseArguments& a) {
  using A = typename Storage<S>::Compute;
  const DepthwiseThread thread(a);
  const int64 channel = thread.chunk * a.lanes + thread.lane, taps = a.kernel[0] * a.kernel[1];
  const int64 row_of_parts = quotient(thread.block, taps), tap = thread.block - row_of_parts * taps;
  const int64 part = row_of_parts * a.groups + thread.group;
  if (thread.group >= a.groups || channel >= a.channels) return;
  const int64 i = quotient(tap, a.kernel[1]), j = tap - i * a.kernel[1];
  const S* x = static_cast<const S*>(a.first) + channel;
  const S* grad = static_cast<const S*>(a.second) + channel;
  const int64 places = a.batch * a.out[0] * a.out[1];
  A sum = 0;
  for (int64 place = part; place < places; place += a.parts) {
    const int64 line = quotient(place, a.out[1]), image = quotient(line, a.out[0]);
    const int64 row = (line - image * a.out[0]) * a.stride[0] + i * a.dilation[0] - a.padding[0];
    const int64 column = (place - line * a.out[1]) * a.stride[1] + j * a.dilation[1] - a.padding[1];
    if (row < 0 || row >= a.in[0] || column < 0 || column >= a.in[1]) continue;
    sum = multiply_add(
        Storage<S>::load(grad[place * a.channels]),
        Storage<S>::load(x[((image * a.in[0] + row) * a.in[1] + column) * a.channels]), sum);
  }
  static_cast<A*>(a.result)[(part * taps + tap) * a.channels + channel] = sum;
}

// The parts, added up in one order; the result is [channels][taps]. A warp has neighbouring elements, and each warp of a block its
// share of the parts.
struct DepthwisePartsArguments {
  int64 channels, taps, parts;
  const void* x;
  void* y;
};
template <class S>
__device__ void add_depthwise_parts(const DepthwisePartsArguments& a) {
  using A = typename Storage<S>::Compute;
  __shared__ A of_warps[kMostWarps][kWarp];
  const int64 count = a.channels * a.taps, element = int64(blockIdx.x) * kWarp + lane_number();
  const int warps = blockDim.x / kWarp;
  A sum = 0;
  if (element < count) {
    const A* x = static_cast<const A*>(a.x) + element;
#pragma unroll 4
    for (int64 part = warp_number(); part < a.parts; part += warps) sum += x[part * count];
  }
  of_warps[warp_number()][lane_number()] = sum;
  __syncthreads();
  if (warp_number() > 0 || element >= count) return;
  for (int warp = 1; warp < warps; ++warp) sum += of_warps[warp][lane_number()];
  const int64 tap = quotient(element, a.channels), channel = element - tap * a.channels;
  static_cast<S*>(a.y)[channel * a.taps + tap] = Storage<S>::store(sum);
}
