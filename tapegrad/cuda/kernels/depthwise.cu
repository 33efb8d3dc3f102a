// Depthwise convolution with its channels last: each channel has a square kernel of its own, of K x K taps, without
// stride and dilation. A thread has two neighbouring channels, and kStrip neighbouring places of a row at a time, so that
// what it reads serves several of them. The gradient of the input is the same sum, by the taps in reverse.

struct DepthwiseArguments {
  const void* x;     // [batch, height, width, channels]
  const void* w;     // [channels, K, K]; for the gradient of weights the gradient of the output
  const void* bias;  // null where there is none
  void* y;           // [batch, out_height, out_width, channels], or parts [chunks, K, K, channels] of float
  void* sums;        // the gradient of the weights
  int64 channels;
  int64 rows;        // of all outputs
  int64 span;        // that a block takes
  int64 chunks, tiles;
  int height, width, out_height, out_width, padding, reversed;
};

inline constexpr int kLanes = 16, kChannels = 2 * kLanes;  // of a block: two of each thread
inline constexpr int kStrip = 8, kThreads = 256, kPartRows = 8;

struct Two {
  float a, b;
  __device__ void add(const Two& x, const Two& by) {
    a = fmaf(x.a, by.a, a);
    b = fmaf(x.b, by.b, b);
  }
};

template <class S>
__device__ inline Two load_two(const S* from) {
  const auto pair = *reinterpret_cast<const Vector<S, 2>*>(from);
  return {Storage<S>::load(pair.elements[0]), Storage<S>::load(pair.elements[1])};
}

// A place of a row of two channels, and zero beside it.
template <class S>
__device__ inline Two load_place(const S* row, int place, int width, int64 channels) {
  return place >= 0 && place < width ? load_two(row + place * channels) : Two{0, 0};
}

template <class S, int K>
__device__ void depthwise(const DepthwiseArguments& a) {
  __shared__ Two taps[K * K][kLanes];
  const int64 chunk = blockIdx.x / a.tiles, tile = blockIdx.x - chunk * a.tiles;
  for (int e = threadIdx.x; e < K * K * kLanes; e += kThreads) {
    const int tap = e / kLanes;
    const int64 channel = tile * kChannels + 2 * (e % kLanes);
    const int from = a.reversed ? K * K - 1 - tap : tap;
    if (channel < a.channels) {
      const S* w = static_cast<const S*>(a.w) + channel * (K * K) + from;
      taps[tap][e % kLanes] = {Storage<S>::load(w[0]), Storage<S>::load(w[K * K])};
    }
  }
  __syncthreads();
  const int lane = threadIdx.x % kLanes;
  const int64 channel = tile * kChannels + 2 * lane;
  if (channel >= a.channels) return;
  const Two bias = a.bias ? load_two(static_cast<const S*>(a.bias) + channel) : Two{0, 0};
  const int strips = (a.out_width + kStrip - 1) / kStrip;
  const int64 end = (a.rows < (chunk + 1) * a.span ? a.rows : (chunk + 1) * a.span) * strips;
  for (int64 task = chunk * a.span * strips + threadIdx.x / kLanes; task < end;
       task += kThreads / kLanes) {
    const int64 row = task / strips, image = row / a.out_height;
    const int begin = int(task - row * strips) * kStrip, top = int(row - image * a.out_height) - a.padding;
    Two sums[kStrip];
#pragma unroll
    for (int k = 0; k < kStrip; ++k) sums[k] = bias;
#pragma unroll 1
    for (int i = 0; i < K; ++i) {
      if (top + i < 0 || top + i >= a.height) continue;
      const S* x = static_cast<const S*>(a.x) +
                   (image * a.height + top + i) * a.width * a.channels + channel;
      Two seen[kStrip + K - 1];
#pragma unroll
      for (int k = 0; k < kStrip + K - 1; ++k)
        seen[k] = load_place(x, begin - a.padding + k, a.width, a.channels);
#pragma unroll
      for (int j = 0; j < K; ++j) {
        const Two tap = taps[i * K + j][lane];
#pragma unroll
        for (int k = 0; k < kStrip; ++k) sums[k].add(seen[k + j], tap);
      }
    }
    S* y = static_cast<S*>(a.y) + (row * a.out_width + begin) * a.channels + channel;
#pragma unroll
    for (int k = 0; k < kStrip; ++k)
      if (begin + k < a.out_width)
        *reinterpret_cast<Vector<S, 2>*>(y + k * a.channels) = {Storage<S>::store(sums[k].a),
                                                                Storage<S>::store(sums[k].b)};
  }
}

// The sums of a chunk of rows. A thread has a row of taps.
template <class S, int K>
__device__ void depthwise_weights(const DepthwiseArguments& a) {
  constexpr int kGroups = kThreads / kLanes / K;  // rows at a time
  __shared__ Two found[kGroups][K * K][kLanes];
  const int64 chunk = blockIdx.x / a.tiles, tile = blockIdx.x - chunk * a.tiles;
  const int lane = threadIdx.x % kLanes, i = threadIdx.x / kLanes % K;
  const int group = threadIdx.x / (kLanes * K);
  const int64 channel = tile * kChannels + 2 * lane;
  const bool is_inside = channel < a.channels && group < kGroups;
  Two sums[K];
#pragma unroll
  for (int j = 0; j < K; ++j) sums[j] = {0, 0};
  const int64 end = a.rows < (chunk + 1) * a.span ? a.rows : (chunk + 1) * a.span;
  for (int64 row = chunk * a.span + group; is_inside && row < end; row += kGroups) {
    const int64 image = row / a.out_height;
    const int from = int(row - image * a.out_height) - a.padding + i;
    if (from < 0 || from >= a.height) continue;
    const S* x = static_cast<const S*>(a.x) + (image * a.height + from) * a.width * a.channels + channel;
    const S* grad = static_cast<const S*>(a.w) + row * a.out_width * a.channels + channel;
    Two seen[kStrip + K - 1];
#pragma unroll
    for (int k = 0; k < K - 1; ++k) seen[k] = load_place(x, k - a.padding, a.width, a.channels);
    for (int begin = 0; begin < a.out_width; begin += kStrip) {
      Two grads[kStrip];
#pragma unroll
      for (int k = 0; k < kStrip; ++k) {
        seen[K - 1 + k] = load_place(x, begin - a.padding + K - 1 + k, a.width, a.channels);
        grads[k] = load_place(grad, begin + k, a.out_width, a.channels);
      }
#pragma unroll
      for (int j = 0; j < K; ++j)
#pragma unroll
        for (int k = 0; k < kStrip; ++k) sums[j].add(seen[k + j], grads[k]);
#pragma unroll
      for (int k = 0; k < K - 1; ++k) seen[k] = seen[kStrip + k];
    }
  }
  if (group < kGroups)
#pragma unroll
    for (int j = 0; j < K; ++j) found[group][i * K + j][lane] = sums[j];
  __syncthreads();
  for (int e = threadIdx.x; e < K * K * kLanes; e += kThreads) {
    const int tap = e / kLanes;
    const int64 to = tile * kChannels + 2 * (e % kLanes);
    if (to >= a.channels) continue;
    Two sum = found[0][tap][e % kLanes];
    for (int g = 1; g < kGroups; ++g) {
      sum.a += found[g][tap][e % kLanes].a;
      sum.b += found[g][tap][e % kLanes].b;
    }
    *reinterpret_cast<Two*>(static_cast<float*>(a.y) + (chunk * (K * K) + tap) * a.channels + to) = sum;
  }
}

// The sums of all chunks.
template <class S, int K>
__device__ void depthwise_parts(const DepthwiseArguments& a) {
  constexpr int kColumns = kThreads / kPartRows;
  __shared__ float found[kPartRows][kColumns];
  const int column = threadIdx.x % kColumns, part = threadIdx.x / kColumns;
  const int64 count = a.channels * (K * K), at = int64(blockIdx.x) * kColumns + column;
  float sum = 0;
  if (at < count)
    for (int64 chunk = part; chunk < a.chunks; chunk += kPartRows)
      sum += static_cast<const float*>(a.y)[chunk * count + at];
  found[part][column] = sum;
  __syncthreads();
  if (part > 0 || at >= count) return;
  for (int k = 1; k < kPartRows; ++k) sum += found[k][column];
  const int64 tap = at / a.channels, channel = at - tap * a.channels;
  static_cast<S*>(a.sums)[channel * (K * K) + tap] = Storage<S>::store(sum);
}
