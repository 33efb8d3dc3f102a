// uses: block.cuh
// How reductions walk: csrc/cuda/reduce.cpp chooses the walk and the numbers of ReduceArguments.
//
// A rule says what is computed:
//   State                        what elements are folded into; of whole words
//   start(arguments, result)     a state without elements, for the result at an offset of the outputs
//   kLooksAhead                  whether look_ahead(state, element) is to be told the first element of a part before its
//                                threads fold any
//   Piece<n>                     n adjacent elements as they are read, each with its value at(k)
//   read<n>(arguments, offset)
//   fold(state, values, place)   n values, of which value k is number place(k) of its result
//   combine(a, b)                two states
//   finish(arguments, state, out)  writes the result
// Everything is folded in an order that depends on the shape alone.

struct Axis {
  int64 size, stride, out_stride;
};

// As in csrc/cuda/reduce.h. With kAxes of one there are no axes besides line and across.
template <int kAxes>
struct ReduceArguments {
  static constexpr bool kIsMatrix = kAxes == 1;
  const void* in;
  const void* second;  // another input, of the same layout
  const void* levels;  // one number for each result
  void* outs[2];
  void* states;        // of parts: [parts][results]
  int64 results, reduced;    // reduced: elements for each result
  int64 parts, part_length;  // into which those are cut
  Axis line, across;   // the innermost of the reduced, and of the kept axes
  double count, correction;
  int lanes;           // threads along a result, or along the kept axis
  int take_root;
  int reduced_axes, kept_axes;  // besides line and across
  Axis reduced_by[kAxes], kept[kAxes];
};

// 64 bits are divided by a long routine.
__device__ inline int64 quotient(int64 n, int64 by) {
  if (((n | by) >> 32) == 0) return static_cast<unsigned>(n) / static_cast<unsigned>(by);
  return n / by;
}

// Where element i of a result is, from its first.
template <class Arguments>
__device__ inline int64 element_offset(const Arguments& a, int64 i) {
  if (Arguments::kIsMatrix || a.reduced_axes == 0) return i * a.line.stride;
  int64 rest = quotient(i, a.line.size);
  int64 offset = (i - rest * a.line.size) * a.line.stride;
  for (int d = 0; d < a.reduced_axes; ++d) {
    const Axis& axis = a.reduced_by[d];
    const int64 outer = d + 1 < a.reduced_axes ? quotient(rest, axis.size) : 0;
    offset += (rest - outer * axis.size) * axis.stride;
    rest = outer;
  }
  return offset;
}

// Where a result's elements begin, and where it is written.
struct Place {
  int64 offset, out;
};
template <class Arguments>
__device__ inline Place place_of(const Arguments& a, int64 strip, int64 column) {
  Place place{column * a.across.stride, column * a.across.out_stride};
  for (int d = 0; !Arguments::kIsMatrix && d < a.kept_axes; ++d) {
    const Axis& axis = a.kept[d];
    const int64 outer = d + 1 < a.kept_axes ? quotient(strip, axis.size) : 0;
    const int64 index = strip - outer * axis.size;
    place.offset += index * axis.stride;
    place.out += index * axis.out_stride;
    strip = outer;
  }
  return place;
}
template <class Arguments>
__device__ inline Place place_of(const Arguments& a, int64 result) {
  const int64 strip =
      Arguments::kIsMatrix || a.kept_axes == 0 ? 0 : quotient(result, a.across.size);
  return place_of(a, strip, result - strip * a.across.size);
}

template <class Rule, class Arguments>
__device__ inline void give(const Arguments& a, const typename Rule::State& state, int64 result,
                            int64 part, int64 out) {
  if (a.parts == 1) Rule::finish(a, state, out);
  else static_cast<typename Rule::State*>(a.states)[part * a.results + result] = state;
}

__device__ inline int64 least(int64 a, int64 b) { return a < b ? a : b; }

template <class Rule, class Arguments>
__device__ inline void look_ahead(const Arguments& a, int64 offset, int64 begin, int64 end,
                                  typename Rule::State& state) {
  if constexpr (Rule::kLooksAhead)
    if (begin < end)
      Rule::look_ahead(state, Rule::template read<1>(a, offset + element_offset(a, begin)).at(0));
}

// ---- rows: neighbouring threads take neighbouring elements of one result

template <class Rule, int kWidth, class Arguments>
__device__ inline typename Rule::State fold_range(const Arguments& a, const Place& place, int64 begin,
                                                  int64 end, typename Rule::State state) {
  constexpr int kPieces = kWidth >= 16 ? 2 : kWidth >= 8 ? 4 : kWidth >= 2 ? 16 / kWidth : 8;
  using Piece = typename Rule::template Piece<kWidth>;
  using Value = typename Rule::Value;
  const int64 step = int64(a.lanes) * kWidth;
  const int64 whole = begin + (end - begin) / kWidth * kWidth;
  look_ahead<Rule>(a, place.offset, begin, end, state);
  int64 i = begin + (threadIdx.x & (a.lanes - 1)) * kWidth;
  for (; i + (kPieces - 1) * step < whole; i += kPieces * step) {
    Piece pieces[kPieces];
#pragma unroll
    for (int u = 0; u < kPieces; ++u)
      pieces[u] = Rule::template read<kWidth>(a, place.offset + element_offset(a, i + u * step));
    Value values[kPieces * kWidth];
#pragma unroll
    for (int k = 0; k < kPieces * kWidth; ++k) values[k] = pieces[k / kWidth].at(k % kWidth);
    Rule::fold(state, values, [=](int k) { return i + k / kWidth * step + k % kWidth; });
  }
  for (; i < whole; i += step) {
    const Piece piece = Rule::template read<kWidth>(a, place.offset + element_offset(a, i));
    Value values[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) values[k] = piece.at(k);
    Rule::fold(state, values, [=](int k) { return i + k; });
  }
  if constexpr (kWidth > 1) {  // what is left is less than a piece
    const int64 tail = whole + (threadIdx.x & (a.lanes - 1));
    for (int64 at = tail; at < end; at += a.lanes) {
      const Value values[1] = {
          Rule::template read<1>(a, place.offset + element_offset(a, at)).at(0)};
      Rule::fold(state, values, [=](int) { return at; });
    }
  }
  return state;
}

// A result belongs to `lanes` neighbouring threads: to some of a warp, or to the block.
template <class Rule, int kWidth, class Arguments>
__device__ void reduce_rows(const Arguments& a) {
  using State = typename Rule::State;
  const bool by_block = a.lanes > kWarp;
  const int64 task = int64(blockIdx.x) * (blockDim.x / a.lanes) + threadIdx.x / a.lanes;
  const int64 part = a.parts == 1 ? 0 : task / a.results;
  const int64 result = task - part * a.results;
  const bool is_mine = part < a.parts && result < a.results;
  const Place place = is_mine ? place_of(a, result) : Place{0, 0};
  State state = Rule::start(a, place.out);
  if (is_mine) {
    const int64 begin = part * a.part_length;
    state = fold_range<Rule, kWidth>(a, place, begin, least(begin + a.part_length, a.reduced), state);
  }
  state = by_block ? reduce_block<Rule>(state, Rule::start(a, place.out))
                   : reduce_lanes<Rule>(state, a.lanes);
  if (is_mine && (threadIdx.x & (a.lanes - 1)) == 0) give<Rule>(a, state, result, part, place.out);
}

// ---- columns: neighbouring threads take neighbouring results

inline constexpr int kColumnThreads = 256;

// The states of threads that have the same columns become one, in the first of them.
template <class Rule, int kWidth>
__device__ inline void reduce_down(typename Rule::State (&states)[kWidth], int lanes) {
  using State = typename Rule::State;
  __shared__ State tile[kColumnThreads * kWidth];
  const int rows = kColumnThreads / lanes, row = threadIdx.x / lanes;
  for (int half = rows / 2; half > 0; half /= 2) {
    if (row >= half && row < 2 * half)
#pragma unroll
      for (int k = 0; k < kWidth; ++k) tile[k * kColumnThreads + threadIdx.x] = states[k];
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        states[k] =
            Rule::combine(states[k], tile[k * kColumnThreads + threadIdx.x + half * lanes]);
    __syncthreads();
  }
}

template <class Rule, int kWidth, class Arguments>
__device__ inline void fold_columns(const Arguments& a, int64 offset, int64 begin, int64 end,
                                    typename Rule::State (&states)[kWidth]) {
  constexpr int kRows = 8;
  using Piece = typename Rule::template Piece<kWidth>;
  using Value = typename Rule::Value;
  const int step = kColumnThreads / a.lanes;
#pragma unroll
  for (int k = 0; k < kWidth; ++k)
    look_ahead<Rule>(a, offset + k * a.across.stride, begin, end, states[k]);
  int64 i = begin + threadIdx.x / a.lanes;
  for (; i + (kRows - 1) * step < end; i += kRows * step) {
    Piece pieces[kRows];
#pragma unroll
    for (int u = 0; u < kRows; ++u)
      pieces[u] = Rule::template read<kWidth>(a, offset + element_offset(a, i + u * step));
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      Value values[kRows];
#pragma unroll
      for (int u = 0; u < kRows; ++u) values[u] = pieces[u].at(k);
      Rule::fold(states[k], values, [=](int u) { return i + u * step; });
    }
  }
  for (; i < end; i += step) {
    const Piece piece = Rule::template read<kWidth>(a, offset + element_offset(a, i));
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const Value values[1] = {piece.at(k)};
      Rule::fold(states[k], values, [=](int) { return i; });
    }
  }
}

template <class Rule, int kWidth, class Arguments>
__device__ void reduce_columns(const Arguments& a) {
  using State = typename Rule::State;
  const int64 per_block = int64(a.lanes) * kWidth;
  const int64 across_blocks = (a.across.size + per_block - 1) / per_block;
  const int64 strips = a.results / a.across.size;
  const int64 part = blockIdx.x / (across_blocks * strips);
  const int64 block = blockIdx.x - part * (across_blocks * strips);
  const int64 strip = block / across_blocks;
  const int64 column = (block - strip * across_blocks) * per_block +
                       (threadIdx.x & (a.lanes - 1)) * kWidth;
  const bool is_inside = column < a.across.size;
  const Place place = is_inside ? place_of(a, strip, column) : Place{0, 0};
  State states[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) states[k] = Rule::start(a, place.out + k * a.across.out_stride);
  const int64 begin = part * a.part_length;
  if (is_inside)
    fold_columns<Rule, kWidth>(a, place.offset, begin, least(begin + a.part_length, a.reduced),
                               states);
  reduce_down<Rule, kWidth>(states, a.lanes);
  if (is_inside && threadIdx.x < a.lanes)
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      give<Rule>(a, states[k], strip * a.across.size + column + k, part,
                 place.out + k * a.across.out_stride);
}

// ---- parts: the states that another launch left

template <class Rule, class Arguments>
__device__ void reduce_parts(const Arguments& a) {
  using State = typename Rule::State;
  const int64 result = int64(blockIdx.x) * a.lanes + (threadIdx.x & (a.lanes - 1));
  const bool is_inside = result < a.results;
  const Place place = is_inside ? place_of(a, result) : Place{0, 0};
  State states[1] = {Rule::start(a, place.out)};
  const int step = kColumnThreads / a.lanes;
  if (is_inside)
    for (int64 part = threadIdx.x / a.lanes; part < a.parts; part += step)
      states[0] = Rule::combine(states[0],
                                static_cast<const State*>(a.states)[part * a.results + result]);
  reduce_down<Rule, 1>(states, a.lanes);
  if (is_inside && threadIdx.x < a.lanes) Rule::finish(a, states[0], place.out);
}
