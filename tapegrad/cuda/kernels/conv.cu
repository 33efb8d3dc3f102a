// uses: tile.cuh
//
// Convolution and its two derivatives as matrix products whose factors are read where they lie: a column is a place of
// the result, the depth of the sum is channels times taps. Where groups have too few channels for a tile, each thread
// or block computes one element by itself.

struct ConvArguments {
  int64 batch, groups, in_channels, out_channels;  // channels of one group
  int64 in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  const void *first, *second, *bias;  // the factors in the order of the op
  void* result;
  int64 tile_rows, tile_columns;  // tiles of one group
  int64 splits;                   // parts of the sum that blocks share, each with a result of its own
};

// Three sizes or steps, and numbers taken apart by them.
template <class I>
struct Triple {
  I z, y, x;

  __device__ Triple(I z, I y, I x) : z(z), y(y), x(x) {}
  __device__ explicit Triple(const int64 (&of)[3]) : z(I(of[0])), y(I(of[1])), x(I(of[2])) {}
  __device__ I volume() const { return z * y * x; }
  __device__ Triple split(I place) const {
    const I row = place / x;
    return {row / y, row % y, place % x};
  }
  __device__ I join(const Triple& at) const { return (at.z * y + at.y) * x + at.x; }
};

// What the three ops know of their geometry.
template <class I>
struct Geometry {
  Triple<I> in, out, kernel, stride, padding, dilation;
  I in_channels, out_channels, groups, taps, in_places, out_places;

  __device__ explicit Geometry(const ConvArguments& a)
      : in(a.in),
        out(a.out),
        kernel(a.kernel),
        stride(a.stride),
        padding(a.padding),
        dilation(a.dilation),
        in_channels(I(a.in_channels)),
        out_channels(I(a.out_channels)),
        groups(I(a.groups)),
        taps(kernel.volume()),
        in_places(in.volume()),
        out_places(out.volume()) {}

  // Where the input is that an output sees through a tap, or -1 if that is padding.
  __device__ I seen(const Triple<I>& o, const Triple<I>& tap) const {
    const Triple<I> at(o.z * stride.z + tap.z * dilation.z - padding.z,
                       o.y * stride.y + tap.y * dilation.y - padding.y,
                       o.x * stride.x + tap.x * dilation.x - padding.x);
    const bool inside = at.z >= 0 && at.z < in.z && at.y >= 0 && at.y < in.y && at.x >= 0 &&
                        at.x < in.x;
    return inside ? in.join(at) : -1;
  }
  // Where the output is that sees an input through a tap, or -1.
  __device__ I seeing(const Triple<I>& i, const Triple<I>& tap) const {
    const Triple<I> at(i.z + padding.z - tap.z * dilation.z, i.y + padding.y - tap.y * dilation.y,
                       i.x + padding.x - tap.x * dilation.x);
    if (at.z < 0 || at.y < 0 || at.x < 0) return -1;
    const Triple<I> o(at.z / stride.z, at.y / stride.y, at.x / stride.x);
    const bool fits = o.z * stride.z == at.z && o.y * stride.y == at.y && o.x * stride.x == at.x &&
                      o.z < out.z && o.y < out.y && o.x < out.x;
    return fits ? out.join(o) : -1;
  }
};

// Elements of the factors and of the results, zero outside.
template <class T, class I>
struct Conv : Geometry<I> {
  using G = Geometry<I>;
  const ConvArguments& a;

  __device__ explicit Conv(const ConvArguments& a) : G(a), a(a) {}

  __device__ int64 x_channel(I image, I group, I channel) const {
    return ((int64(image) * G::groups + group) * G::in_channels + channel) * G::in_places;
  }
  __device__ int64 y_channel(I image, I group, I channel) const {
    return ((int64(image) * G::groups + group) * G::out_channels + channel) * G::out_places;
  }
  __device__ int64 weight(I group, I out_channel, I in_channel) const {
    return ((int64(group) * G::out_channels + out_channel) * G::in_channels + in_channel) * G::taps;
  }

  // x at what output `place` of all images sees through `tap` of a channel, a number of channel and tap.
  __device__ T seen_by(const T* x, I group, I place, I channel_tap) const {
    const I image = place / G::out_places, channel = channel_tap / G::taps;
    const I at = G::seen(G::out.split(place - image * G::out_places),
                         G::kernel.split(channel_tap - channel * G::taps));
    return at < 0 ? T(0) : x[x_channel(image, group, channel) + at];
  }
  // y's gradient at the output that sees input `place` of all images through a tap of a channel.
  __device__ T seeing_of(const T* grad, I group, I place, I channel_tap) const {
    const I image = place / G::in_places, channel = channel_tap / G::taps;
    const I at = G::seeing(G::in.split(place - image * G::in_places),
                           G::kernel.split(channel_tap - channel * G::taps));
    return at < 0 ? T(0) : grad[y_channel(image, group, channel) + at];
  }
  __device__ T bias(I channel) const {
    return a.bias ? static_cast<const T*>(a.bias)[channel] : T(0);
  }
};

// Which tile of which group a block has.
template <int kPer>
struct Tile {
  int64 group, row, column, part;

  __device__ explicit Tile(const ConvArguments& a) {
    int64 number = blockIdx.x;
    column = number % a.tile_columns * kTileSide * kPer;
    number /= a.tile_columns;
    row = number % a.tile_rows * kTileSide * kPer;
    number /= a.tile_rows;
    group = number % a.groups;
    part = number / a.groups;
  }
};

// y = w * columns of x
template <class T, class I, int kPer>
__device__ void conv(const ConvArguments& a) {
  const Conv<T, I> c(a);
  const Tile<kPer> tile(a);
  const I group = I(tile.group), columns = I(a.batch) * c.out_places;
  const I depth = c.in_channels * c.taps;
  const T *x = static_cast<const T*>(a.first), *w = static_cast<const T*>(a.second);
  w += c.weight(group, 0, 0);
  multiply_tile<T, kPer>(
      tile.row, tile.column, 0, depth, true, false,
      [&](int64 row, int64 i) { return row < c.out_channels ? w[row * depth + i] : T(0); },
      [&](int64 i, int64 column) {
        return column < columns ? c.seen_by(x, group, I(column), I(i)) : T(0);
      },
      [&](int64 row, int64 column, T sum) {
        if (row >= c.out_channels || column >= columns) return;
        const I image = I(column) / c.out_places;
        static_cast<T*>(a.result)[c.y_channel(image, group, I(row)) + column -
                                  int64(image) * c.out_places] =
            sum + c.bias(group * c.out_channels + I(row));
      });
}

// x's gradient = transposed w * columns of y's gradient
template <class T, class I, int kPer>
__device__ void conv_grad_input(const ConvArguments& a) {
  const Conv<T, I> c(a);
  const Tile<kPer> tile(a);
  const I group = I(tile.group), columns = I(a.batch) * c.in_places;
  const I depth = c.out_channels * c.taps;
  const T *grad = static_cast<const T*>(a.first), *w = static_cast<const T*>(a.second);
  multiply_tile<T, kPer>(
      tile.row, tile.column, 0, depth, true, false,
      [&](int64 row, int64 i) {
        const I channel = I(i) / c.taps;
        return row < c.in_channels
                   ? w[c.weight(group, channel, I(row)) + I(i) - channel * c.taps]
                   : T(0);
      },
      [&](int64 i, int64 column) {
        return column < columns ? c.seeing_of(grad, group, I(column), I(i)) : T(0);
      },
      [&](int64 row, int64 column, T sum) {
        if (row >= c.in_channels || column >= columns) return;
        const I image = I(column) / c.in_places;
        static_cast<T*>(a.result)[c.x_channel(image, group, I(row)) + column -
                                  int64(image) * c.in_places] =
            sum + c.bias(group * c.in_channels + I(row));
      });
}

// w's gradient = y's gradient * transposed columns of x: a long sum, of which each block takes a part.
template <class T, class I, int kPer>
__device__ void conv_grad_weight(const ConvArguments& a) {
  const Conv<T, I> c(a);
  const Tile<kPer> tile(a);
  const I group = I(tile.group), columns = c.in_channels * c.taps;
  const int64 depth = a.batch * c.out_places, each = (depth + a.splits - 1) / a.splits;
  const int64 begin = tile.part * each, end = begin + each < depth ? begin + each : depth;
  const T *x = static_cast<const T*>(a.first), *grad = static_cast<const T*>(a.second);
  T* result = static_cast<T*>(a.result) + tile.part * c.weight(c.groups, 0, 0);
  multiply_tile<T, kPer>(
      tile.row, tile.column, begin, end, true, true,
      [&](int64 row, int64 i) {
        const I image = I(i) / c.out_places;
        return row < c.out_channels ? grad[c.y_channel(image, group, I(row)) + i -
                                           int64(image) * c.out_places]
                                    : T(0);
      },
      [&](int64 i, int64 column) {
        return column < columns ? c.seen_by(x, group, I(i), I(column)) : T(0);
      },
      [&](int64 row, int64 column, T sum) {
        if (row < c.out_channels && column < columns)
          result[c.weight(group, I(row), 0) + column] = sum;
      });
}

// The parts of conv_grad_weight, added up in their order.
struct PartsArguments {
  int64 count, parts;
  const void* x;
  void* y;
};
template <class T>
__device__ void add_parts(const PartsArguments& a) {
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  T sum = 0;
  for (int64 part = 0; part < a.parts; ++part)
    sum += static_cast<const T*>(a.x)[part * a.count + element];
  static_cast<T*>(a.y)[element] = sum;
}

// ---- few channels: one element of the result by each thread, or by each block

template <class T, class I>
__device__ void conv_few(const ConvArguments& a) {
  const Conv<T, I> c(a);
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 channels = int64(c.groups) * c.out_channels;
  if (element >= a.batch * channels * c.out_places) return;
  const int64 plane = element / c.out_places;
  const I image = I(plane / channels), channel = I(plane % channels);
  const I group = channel / c.out_channels, depth = c.in_channels * c.taps;
  const I place = image * c.out_places + I(element - plane * c.out_places);
  const T* x = static_cast<const T*>(a.first);
  const T* w = static_cast<const T*>(a.second) + int64(channel) * depth;
  T sum = 0;
  for (I i = 0; i < depth; ++i) sum = multiply_add(w[i], c.seen_by(x, group, place, i), sum);
  static_cast<T*>(a.result)[element] = sum + c.bias(channel);
}

template <class T, class I>
__device__ void conv_grad_input_few(const ConvArguments& a) {
  const Conv<T, I> c(a);
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 channels = int64(c.groups) * c.in_channels;
  if (element >= a.batch * channels * c.in_places) return;
  const int64 plane = element / c.in_places;
  const I image = I(plane / channels), channel = I(plane % channels);
  const I group = channel / c.in_channels, own = channel - group * c.in_channels;
  const I place = image * c.in_places + I(element - plane * c.in_places);
  const T *grad = static_cast<const T*>(a.first), *w = static_cast<const T*>(a.second);
  T sum = 0;
  for (I o = 0; o < c.out_channels; ++o)
    for (I tap = 0; tap < c.taps; ++tap)
      sum = multiply_add(w[c.weight(group, o, own) + tap],
                         c.seeing_of(grad, group, place, o * c.taps + tap), sum);
  static_cast<T*>(a.result)[element] = sum + c.bias(channel);
}

template <class T, class I>
__device__ void conv_grad_weight_few(const ConvArguments& a) {
  __shared__ T sums[kTileThreads];
  const Conv<T, I> c(a);
  const I columns = c.in_channels * c.taps, places = I(a.batch) * c.out_places;
  const I row = I(blockIdx.x / columns), column = I(blockIdx.x % columns);
  const I group = row / c.out_channels, own = row - group * c.out_channels;
  const T *x = static_cast<const T*>(a.first), *grad = static_cast<const T*>(a.second);
  T sum = 0;
  for (I i = threadIdx.x; i < places; i += kTileThreads) {
    const I image = i / c.out_places;
    const T factor = grad[c.y_channel(image, group, own) + i - image * c.out_places];
    sum = multiply_add(factor, c.seen_by(x, group, i, column), sum);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kTileThreads / 2; half > 0; half /= 2) {
    if (int(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) static_cast<T*>(a.result)[blockIdx.x] = sums[0];
}
