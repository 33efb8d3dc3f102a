// Pooling: each thread, or each warp where windows are large, computes one place of the result. Derivatives are
// gathered too: a place of the input adds up what the windows that cover it owe it, always in one order.
//
// Planes lie one behind the other, or, where channels lie last (kLast), those of a sample element by element beside
// each other; a thread takes kWidth of them at a time then, and they count as one. S is the type of elements; what is
// computed, is so in their Compute.

struct PoolDim {
  int64 in, out, kernel, stride, padding, step;
};
struct PoolWindows {
  PoolDim dim[3];  // depth, height, width; those that there are not are of size 1
  int64 adaptive, count_padding;
  double divisor;  // of an average; 0: what the window covers
};

struct PoolArguments {
  int64 count;  // places of the result
  int64 channels;  // where they lie last: pieces of kWidth of them
  PoolWindows windows;
  const void* x;
  const void* places;  // where the derivative of a maximum goes
  void* y;
  void* found;  // places of maxima, or null
};

// What a window covers in one dimension: begin, begin + step, ... below end.
template <class I>
struct Span {
  I begin, end;
  I extent;  // what it counts for in the divisor of an average

  __device__ Span(const PoolWindows& windows, int d, I o) {
    const PoolDim& dim = windows.dim[d];
    const I in = I(dim.in), out = I(dim.out);
    if (windows.adaptive) {
      begin = I(int64(o) * in / out);
      end = I((int64(o + 1) * in + out - 1) / out);
      extent = end - begin;
      return;
    }
    const I step = I(dim.step), start = o * I(dim.stride) - I(dim.padding);
    const I stop = start + (I(dim.kernel) - 1) * step + 1;
    begin = start < 0 ? start + (-start + step - 1) / step * step : start;
    end = stop < in ? stop : in;
    const I padded = in + I(dim.padding);
    extent = windows.count_padding ? (stop < padded ? stop : padded) - start : end - begin;
  }
  __device__ I count(I step) const { return begin < end ? (end - begin + step - 1) / step : 0; }
};

// The windows that may cover a place of the input: first <= o < last.
template <class I>
struct Covering {
  I first, last;

  __device__ Covering(const PoolWindows& windows, int d, I place) {
    const PoolDim& dim = windows.dim[d];
    const I in = I(dim.in), out = I(dim.out);
    if (windows.adaptive) {
      first = I(int64(place) * out / in);
      last = I((int64(place + 1) * out + in - 1) / in);
      return;
    }
    const I stride = I(dim.stride), shifted = place + I(dim.padding);
    const I least = shifted - (I(dim.kernel) - 1) * I(dim.step);
    first = least > 0 ? (least + stride - 1) / stride : 0;
    last = shifted / stride + 1;
    if (last > out) last = out;
  }
};

// A number of a place taken apart: the plane, or the sample where channels lie last, and where it is in it.
template <class I, bool kLast>
struct Place {
  I channel = 0, plane, z, y, x;

  __device__ Place(const PoolArguments& a, I place, I depth, I height, I width) {
    if constexpr (kLast) {
      channel = place % I(a.channels);
      place /= I(a.channels);
    }
    x = place % width;
    place /= width;
    y = place % height;
    place /= height;
    z = place % depth;
    plane = place / depth;
  }
  // Where a place of its plane lies, if planes have so many.
  __device__ I offset(const PoolArguments& a, I size, I place) const {
    const I at = plane * size + place;
    return kLast ? at * I(a.channels) + channel : at;
  }
};

template <class I, bool kLast>
__device__ Place<I, kLast> output_place(const PoolArguments& a, I place) {
  const PoolWindows& w = a.windows;
  return {a, place, I(w.dim[0].out), I(w.dim[1].out), I(w.dim[2].out)};
}
template <class I, bool kLast>
__device__ Place<I, kLast> input_place(const PoolArguments& a, I place) {
  const PoolWindows& w = a.windows;
  return {a, place, I(w.dim[0].in), I(w.dim[1].in), I(w.dim[2].in)};
}

// Calls body(place in the plane) for what a window covers: all of it, or every 32nd place for the lanes of a warp.
template <bool kWarp, class I, class Body>
__device__ void for_covered(const PoolWindows& w, const Span<I> (&spans)[3], int lane, Body&& body) {
  const I steps[3] = {I(w.dim[0].step), I(w.dim[1].step), I(w.dim[2].step)};
  const I height = I(w.dim[1].in), width = I(w.dim[2].in);
  if constexpr (kWarp) {
    const I columns = spans[2].count(steps[2]), rows = spans[1].count(steps[1]);
    const I total = spans[0].count(steps[0]) * rows * columns;
    for (I e = lane; e < total; e += 32) {
      const I row = e / columns, i = spans[0].begin + row / rows * steps[0];
      const I j = spans[1].begin + row % rows * steps[1];
      body((i * height + j) * width + spans[2].begin + e % columns * steps[2]);
    }
  } else {
    for (I i = spans[0].begin; i < spans[0].end; i += steps[0])
      for (I j = spans[1].begin; j < spans[1].end; j += steps[1])
        for (I k = spans[2].begin; k < spans[2].end; k += steps[2])
          body((i * height + j) * width + k);
  }
}

template <class I>
__device__ I plane_size(const PoolWindows& w) {
  return I(w.dim[0].in) * I(w.dim[1].in) * I(w.dim[2].in);
}

template <class S>
__device__ auto lowest() {
  using A = typename Storage<S>::Compute;
  if constexpr (Storage<S>::kFloating) return A(-1) / A(0);
  else return A(1ull << 63);
}

// The larger one, and of equals the first; a NaN is the largest, and of several the last.
template <class A, class I>
struct Largest {
  A value;
  I place;

  __device__ void take(A other, I other_place) {
    if (other > value || other != other) {
      value = other;
      place = other_place;
    }
  }
  __device__ void join(A other, I other_place) {
    const bool both_nan = value != value && other != other;
    const bool wins = both_nan ? other_place > place
                               : other > value || other != other ||
                                     (other == value && other_place < place);
    if (wins) {
      value = other;
      place = other_place;
    }
  }
};

// Pieces of kWidth elements.
template <int kWidth, class S>
__device__ const Vector<S, kWidth>& piece_of(const void* from, int64 piece) {
  return static_cast<const Vector<S, kWidth>*>(from)[piece];
}

// P: what places are stored as; I: what they are computed in.
template <class S, class P, class I, bool kWarp, bool kLast, int kWidth>
__device__ void max_pool(const PoolArguments& a) {
  const int lane = kWarp ? threadIdx.x % 32 : 0;
  const int64 thread = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 element = kWarp ? thread / 32 : thread;
  if (element >= a.count) return;
  const PoolWindows& w = a.windows;
  const auto at = output_place<I, kLast>(a, I(element));
  const Span<I> spans[3] = {{w, 0, at.z}, {w, 1, at.y}, {w, 2, at.x}};
  const I size = plane_size<I>(w);
  const I first =
      (spans[0].begin * I(w.dim[1].in) + spans[1].begin) * I(w.dim[2].in) + spans[2].begin;
  Largest<typename Storage<S>::Compute, I> best[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) best[k] = {lowest<S>(), first};
  for_covered<kWarp>(w, spans, lane, [&](I place) {
    const auto x = piece_of<kWidth, S>(a.x, at.offset(a, size, place));
#pragma unroll
    for (int k = 0; k < kWidth; ++k) best[k].take(Storage<S>::load(x.elements[k]), place);
  });
  if constexpr (kWarp) {
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        best[k].join(__shfl_xor_sync(0xffffffffu, best[k].value, distance),
                     __shfl_xor_sync(0xffffffffu, best[k].place, distance));
    if (lane > 0) return;
  }
  Vector<S, kWidth> values;
  Vector<P, kWidth> places;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    values.elements[k] = Storage<S>::store(best[k].value);
    places.elements[k] = P(best[k].place);
  }
  static_cast<Vector<S, kWidth>*>(a.y)[element] = values;
  if (a.found) static_cast<Vector<P, kWidth>*>(a.found)[element] = places;
}

template <class A, class I>
__device__ A divisor_of(const PoolWindows& w, const Span<I> (&spans)[3]) {
  if (w.divisor != 0) return A(w.divisor);
  return A(double(spans[0].extent) * double(spans[1].extent) * double(spans[2].extent));
}

template <class S, class I, bool kWarp, bool kLast, int kWidth>
__device__ void avg_pool(const PoolArguments& a) {
  using A = typename Storage<S>::Compute;
  const int lane = kWarp ? threadIdx.x % 32 : 0;
  const int64 thread = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 element = kWarp ? thread / 32 : thread;
  if (element >= a.count) return;
  const PoolWindows& w = a.windows;
  const auto at = output_place<I, kLast>(a, I(element));
  const Span<I> spans[3] = {{w, 0, at.z}, {w, 1, at.y}, {w, 2, at.x}};
  const I size = plane_size<I>(w);
  A sums[kWidth] = {};
  for_covered<kWarp>(w, spans, lane, [&](I place) {
    const auto x = piece_of<kWidth, S>(a.x, at.offset(a, size, place));
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sums[k] += Storage<S>::load(x.elements[k]);
  });
  if constexpr (kWarp) {
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        sums[k] += __shfl_xor_sync(0xffffffffu, sums[k], distance);
    if (lane > 0) return;
  }
  const A divisor = divisor_of<A>(w, spans);
  Vector<S, kWidth> results;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) results.elements[k] = Storage<S>::store(sums[k] / divisor);
  static_cast<Vector<S, kWidth>*>(a.y)[element] = results;
}

// Calls take(where the output's piece lies, its place) for the windows that may cover a place of the input.
template <class I, bool kLast, class Take>
__device__ void for_covering(const PoolArguments& a, const Place<I, kLast>& at, const Take& take) {
  const PoolWindows& w = a.windows;
  const Covering<I> z(w, 0, at.z), y(w, 1, at.y), x(w, 2, at.x);
  const I height = I(w.dim[1].out), width = I(w.dim[2].out);
  const I size = I(w.dim[0].out) * height * width;
  for (I i = z.first; i < z.last; ++i)
    for (I j = y.first; j < y.last; ++j)
      for (I k = x.first; k < x.last; ++k)
        take(at.offset(a, size, (i * height + j) * width + k), i, j, k);
}

template <class S, int kWidth, class A>
__device__ void write_sums(const PoolArguments& a, int64 piece, const A (&sums)[kWidth]) {
  Vector<S, kWidth> results;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) results.elements[k] = Storage<S>::store(sums[k]);
  static_cast<Vector<S, kWidth>*>(a.y)[piece] = results;
}

template <class S, class I, bool kLast, int kWidth>
__device__ void avg_pool_backward(const PoolArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const PoolWindows& w = a.windows;
  A sums[kWidth] = {};
  for_covering(a, input_place<I, kLast>(a, I(element)), [&](I piece, I i, I j, I k) {
    const Span<I> spans[3] = {{w, 0, i}, {w, 1, j}, {w, 2, k}};
    const A divisor = divisor_of<A>(w, spans);
    const auto grad = piece_of<kWidth, S>(a.x, piece);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sums[e] += Storage<S>::load(grad.elements[e]) / divisor;
  });
  write_sums<S>(a, element, sums);
}

template <class S, class P, class I, bool kLast, int kWidth>
__device__ void max_pool_backward(const PoolArguments& a) {
  using A = typename Storage<S>::Compute;
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const PoolWindows& w = a.windows;
  const auto at = input_place<I, kLast>(a, I(element));
  const I own = (at.z * I(w.dim[1].in) + at.y) * I(w.dim[2].in) + at.x;
  A sums[kWidth] = {};
  for_covering(a, at, [&](I piece, I, I, I) {
    const auto places = piece_of<kWidth, P>(a.places, piece);
    const auto grad = piece_of<kWidth, S>(a.x, piece);
#pragma unroll
    for (int e = 0; e < kWidth; ++e)
      if (I(places.elements[e]) == own) sums[e] += Storage<S>::load(grad.elements[e]);
  });
  write_sums<S>(a, element, sums);
}

// ---- planes and places, with no windows known

struct PlaneArguments {
  int64 count;
  int64 in, out;  // elements of a plane
  const void *x, *places;
  void* y;
  // Of each place of y, the number of the last element that goes there, or -1; or places in y, see plane_places.
  void* winners;
  ErrorPlace errors;
};

// See Note [Errors of kernels].
template <class P>
__device__ bool is_inside(const PlaneArguments& a, P place, int64 size) {
  if (place >= 0 && int64(place) < size) return true;
  a.errors.report(place);
  return false;
}

template <class S, class P>
__device__ void plane_gather(const PlaneArguments& a) {
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const P place = static_cast<const P*>(a.places)[element];
  if (!is_inside(a, place, a.in)) return;
  static_cast<S*>(a.y)[element] = static_cast<const S*>(a.x)[element / a.out * a.in + place];
}

// y is zero before.
template <class S, class P>
__device__ void plane_add(const PlaneArguments& a) {
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const P place = static_cast<const P*>(a.places)[element];
  if (!is_inside(a, place, a.out)) return;
  atomicAdd(static_cast<S*>(a.y) + element / a.in * a.out + place,
            static_cast<const S*>(a.x)[element]);
}

// Where the order matters they are sorted by their places: meet.cuh. y becomes their values.
template <class S, class P>
__device__ void plane_places(const PlaneArguments& a) {
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const P place = static_cast<const P*>(a.places)[element];
  const int64 plane = element / a.in, limit = a.count / a.in * a.out;
  static_cast<uint64*>(a.winners)[element] =
      is_inside(a, place, a.out) ? plane * a.out + place : limit;
  static_cast<S*>(a.y)[element] = static_cast<const S*>(a.x)[element];
}

template <class P>
__device__ void plane_compete(const PlaneArguments& a) {
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const P place = static_cast<const P*>(a.places)[element];
  if (!is_inside(a, place, a.out)) return;
  atomicMax(static_cast<int64*>(a.winners) + element / a.in * a.out + place, element);
}

template <class S>
__device__ void plane_take(const PlaneArguments& a) {
  const int64 element = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= a.count) return;
  const int64 winner = static_cast<const int64*>(a.winners)[element];
  static_cast<S*>(a.y)[element] = winner < 0 ? S(0) : static_cast<const S*>(a.x)[winner];
}
