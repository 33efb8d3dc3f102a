// uses: block.cuh
// Scans along the lines of a contiguous block [outer, length, inner].
//
// Rows are taken in tiles by a warp or by a block: a lane folds the few neighbouring elements that it reads at a
// time, lanes and warps scan those, and each element is then combined with what lies before it. Columns are walked by
// a thread each, neighbouring ones together. Where there are too few lines to fill a device they are cut into parts.
// A part of a sum or product over a row is a tile that a block holds in shared memory while it waits for what the tiles
// before it come to (scan_tiles). Of others one launch finds what the parts come to, and a second begins each part with
// those before. Either way they are put together in a fixed order, so that results do not depend on timing.

struct ScanArguments {
  const void* in;
  const void* second;  // the terms of a recurrence
  void* out;
  int64* places;       // of an extreme
  void* states;        // of parts: [lines][parts]; of tiles as scan_tiles says
  int64 outer, length, inner;
  int64 parts, part_length;
  int reverse, group;  // how many tiles are added up for those that come later
};

// ---- what is scanned: `of` an element, `combine` with a later one

template <class S>
struct OneInput {
  using A = typename Storage<S>::Compute;
  using Value = A;
  static constexpr bool kAnyOrder = true;
  static constexpr bool kPlaces = false;
  __device__ static Value load(S x, S) { return Storage<S>::load(x); }
};

template <class S>
struct ScanSum : OneInput<S> {
  using State = Either<Storage<S>::kFloating, double, uint64>;
  __device__ static State identity() { return 0; }
  __device__ static State of(typename OneInput<S>::Value x, int64) { return static_cast<State>(x); }
  __device__ static State combine(State a, State b) { return a + b; }
  __device__ static State result(State state) { return state; }
};
template <class S>
struct ScanProd : OneInput<S> {
  using State = Either<Storage<S>::kFloating, double, uint64>;
  __device__ static State identity() { return 1; }
  __device__ static State of(typename OneInput<S>::Value x, int64) { return static_cast<State>(x); }
  __device__ static State combine(State a, State b) { return a * b; }
  __device__ static State result(State state) { return state; }
};

// Equal infinities have no difference; any other way a difference may be infinite or NaN comes out right.
template <class S>
struct ScanLogSumExp : OneInput<S> {
  struct State {
    double top, sum;  // of exp(x - top)
  };
  __device__ static State identity() { return {lowest_number<double>(), 0}; }
  __device__ static State of(typename OneInput<S>::Value x, int64) { return {double(x), 1}; }
  __device__ static State combine(State a, State b) {
    const double difference = a.top == b.top ? 0.0 : b.top - a.top;
    const double decay = ::exp(-::fabs(difference));
    if (b.top <= a.top) return {a.top, a.sum + b.sum * decay};
    return {b.top, a.sum * decay + b.sum};
  }
  __device__ static double result(State state) { return state.top + ::log(state.sum); }
};

// The latest of equal values counts, and a NaN stays.
template <class S, class Order>
struct ScanExtreme : OneInput<S> {
  using A = typename Storage<S>::Compute;
  using State = Placed<A>;
  static constexpr bool kPlaces = true;
  __device__ static State identity() { return {A(0), -1}; }
  __device__ static State of(A x, int64 place) { return {x, place}; }
  __device__ static State combine(State a, State b) {
    if (b.place < 0) return a;
    if (a.place < 0 || Order::beats(b.value, a.value)) return b;
    const bool same = a.value == b.value || (a.value != a.value && b.value != b.value);
    return same && b.place > a.place ? b : a;
  }
  __device__ static A result(State state) { return state.value; }
};
template <class S>
using ScanMax = ScanExtreme<S, Larger>;
template <class S>
using ScanMin = ScanExtreme<S, Smaller>;

// y[t] = term[t] + factor[t] * y[t - 1]. What is not finite cannot be put together in another order than that of the
// line: infinity times a zero that is only a part of y is no number.
template <class S>
struct ScanRecurrence {
  using A = typename Storage<S>::Compute;
  struct Value {
    A factor, term;
  };
  struct State {
    double factor, term;
  };
  static constexpr bool kAnyOrder = false;
  static constexpr bool kPlaces = false;
  __device__ static Value load(S factor, S term) {
    return {Storage<S>::load(factor), Storage<S>::load(term)};
  }
  __device__ static State identity() { return {1, 0}; }
  __device__ static State of(Value value, int64 place) {
    const double factor = value.factor, term = value.term;
    return place == 0 ? State{0, term + factor * 0} : State{factor, term};
  }
  __device__ static bool is_finite(State state) {
    return state.factor - state.factor == 0 && state.term - state.term == 0;
  }
  __device__ static State combine(State a, State b) {
    if (a.factor == 1 && a.term == 0) return b;
    return {b.factor * a.factor, b.term + b.factor * a.term};
  }
  __device__ static double result(State state) { return state.term; }
};

enum Passes { kBoth, kOnlyStates, kOnlyResults };

template <class Rule>
__device__ inline typename Rule::State* states_of(const ScanArguments& a, int64 line) {
  return static_cast<typename Rule::State*>(a.states) + line * a.parts;
}

// ---- pieces of rows

template <class S, class Rule, int kWidth>
struct ScanPiece {
  typename Rule::Value values[kWidth];  // in the order of the scan

  // Position p of the scan is element p of the row, or p from its end.
  __device__ static int64 offset(const ScanArguments& a, int64 position) {
    return a.reverse ? a.length - kWidth - position : position;
  }
  __device__ void load(const ScanArguments& a, int64 row, int64 position) {
    const int64 at = row * a.length + offset(a, position);
    using Piece = Vector<S, kWidth>;
    const Piece first = *reinterpret_cast<const Piece*>(static_cast<const S*>(a.in) + at);
    Piece second = first;
    if constexpr (!Rule::kAnyOrder)
      second = *reinterpret_cast<const Piece*>(static_cast<const S*>(a.second) + at);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      if (a.reverse)
        values[k] = Rule::load(first.elements[kWidth - 1 - k], second.elements[kWidth - 1 - k]);
      else values[k] = Rule::load(first.elements[k], second.elements[k]);
    }
  }
  __device__ typename Rule::State total(int64 position) const {
    typename Rule::State state = Rule::of(values[0], position);
#pragma unroll
    for (int k = 1; k < kWidth; ++k) state = Rule::combine(state, Rule::of(values[k], position + k));
    return state;
  }
  __device__ void store(const ScanArguments& a, int64 row, int64 position,
                        typename Rule::State state) const {
    const int64 at = row * a.length + offset(a, position);
    Vector<S, kWidth> results;
    Vector<int64, kWidth> places;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      state = Rule::combine(state, Rule::of(values[k], position + k));
      const S result = convert<S>(to_convert(Rule::result(state)));
      if (a.reverse) results.elements[kWidth - 1 - k] = result;
      else results.elements[k] = result;
      if constexpr (Rule::kPlaces) places.elements[k] = state.place;
    }
    *reinterpret_cast<Vector<S, kWidth>*>(static_cast<S*>(a.out) + at) = results;
    // Extremes are only scanned forwards.
    if constexpr (Rule::kPlaces)
      *reinterpret_cast<Vector<int64, kWidth>*>(a.places + at) = places;
  }
  template <class T>
  __device__ static auto to_convert(T value) {
    if constexpr (kSame<T, uint64>) return static_cast<int64>(value);
    else return value;
  }
};

// ---- rows

inline constexpr int kSweeps = 2;

// What the parts before come to, in their order.
template <class Rule>
__device__ inline typename Rule::State before_part(const ScanArguments& a, int64 row, int64 part) {
  const int64 share = (part + blockDim.x - 1) / blockDim.x;
  int64 end = (threadIdx.x + 1) * share;
  if (end > part) end = part;
  typename Rule::State state = Rule::identity();
  for (int64 p = threadIdx.x * share; p < end; ++p)
    state = Rule::combine(state, states_of<Rule>(a, row)[p]);
  return reduce_block<Rule>(state, Rule::identity());
}

template <class S, class Rule, int kWidth>
__device__ void scan_part_totals(const ScanArguments& a, int64 row, int64 part, int64 begin, int64 end) {
  const int64 step = int64(blockDim.x) * kWidth;
  using Piece = ScanPiece<S, Rule, kWidth>;
  typename Rule::State state = Rule::identity();
  int64 i = begin + threadIdx.x * kWidth;
  for (; i + (kSweeps - 1) * step < end; i += kSweeps * step) {
    Piece pieces[kSweeps];
#pragma unroll
    for (int j = 0; j < kSweeps; ++j) pieces[j].load(a, row, i + j * step);
#pragma unroll
    for (int j = 0; j < kSweeps; ++j) state = Rule::combine(state, pieces[j].total(i + j * step));
  }
  for (; i < end; i += step) {
    Piece piece;
    piece.load(a, row, i);
    state = Rule::combine(state, piece.total(i));
  }
  state = reduce_block<Rule>(state, Rule::identity());
  if (threadIdx.x == 0) states_of<Rule>(a, row)[part] = state;
}

// One element after the other. Every thread walks, and the first one writes.
template <class S, class Rule>
__device__ inline typename Rule::State scan_in_order(const ScanArguments& a, int64 row, int64 begin,
                                                     int64 end, typename Rule::State state,
                                                     bool is_writer) {
  for (int64 i = begin; i < end; ++i) {
    ScanPiece<S, Rule, 1> piece;
    piece.load(a, row, i);
    if (is_writer) piece.store(a, row, i, state);
    state = Rule::combine(state, piece.total(i));
  }
  return state;
}

// From `begin` to `end`; `carry` is what lies before.
template <class S, class Rule, bool kByWarp, int kWidth>
__device__ inline void scan_range(const ScanArguments& a, int64 row, int64 begin, int64 end,
                                  typename Rule::State carry) {
  using State = typename Rule::State;
  using Piece = ScanPiece<S, Rule, kWidth>;
  constexpr int kWarpTile = kWarp * kWidth * kSweeps;
  const int warps = kByWarp ? 1 : blockDim.x / kWarp, warp = kByWarp ? 0 : warp_number();
  for (int64 tile = begin; tile < end; tile += int64(warps) * kWarpTile) {
    const int64 first = tile + int64(warp) * kWarpTile + lane_number() * kWidth;
    Piece pieces[kSweeps];
    State before[kSweeps];
#pragma unroll
    for (int j = 0; j < kSweeps; ++j)
      if (first + j * kWarp * kWidth < end) pieces[j].load(a, row, first + j * kWarp * kWidth);
    State total = Rule::identity();
#pragma unroll
    for (int j = 0; j < kSweeps; ++j) {
      const int64 at = first + j * kWarp * kWidth;
      const State with_own = scan_warp<Rule>(at < end ? pieces[j].total(at) : Rule::identity());
      const State in_warp = value_before(with_own, 1);
      before[j] = lane_number() == 0 ? total : Rule::combine(total, in_warp);
      total = Rule::combine(total, value_of_lane(with_own, kWarp - 1));
    }
    if constexpr (!Rule::kAnyOrder) {
      bool is_finite = Rule::is_finite(total);
#pragma unroll
      for (int j = 0; j < kSweeps; ++j) is_finite = is_finite && Rule::is_finite(before[j]);
      if (kByWarp ? __any_sync(kAllLanes, !is_finite) : __syncthreads_or(!is_finite)) {
        const int64 tile_end = tile + int64(warps) * kWarpTile;
        carry = scan_in_order<S, Rule>(a, row, tile, tile_end < end ? tile_end : end, carry,
                                       lane_number() == 0 && warp == 0);
        continue;
      }
    }
    State start = carry;
    if constexpr (kByWarp) {
      carry = Rule::combine(carry, total);
    } else {
      __shared__ State of_warps[kMostWarps];
      __syncthreads();  // those of the last tile have been read
      if (lane_number() == 0) of_warps[warp] = total;
      __syncthreads();
      const State sums =
          scan_warp<Rule>(lane_number() < warps ? of_warps[lane_number()] : Rule::identity());
      const State before_warp = value_of_lane(sums, warp > 0 ? warp - 1 : 0);
      if (warp > 0) start = Rule::combine(carry, before_warp);
      carry = Rule::combine(carry, value_of_lane(sums, warps - 1));
    }
#pragma unroll
    for (int j = 0; j < kSweeps; ++j) {
      const int64 at = first + j * kWarp * kWidth;
      if (at < end) pieces[j].store(a, row, at, Rule::combine(start, before[j]));
    }
  }
}

template <class S, class Rule, bool kByWarp, int kWidth, int kPasses>
__device__ void scan_rows(const ScanArguments& a) {
  if constexpr (kByWarp) {
    const int64 row = int64(blockIdx.x) * (blockDim.x / kWarp) + warp_number();
    if (row < a.outer) scan_range<S, Rule, true, kWidth>(a, row, 0, a.length, Rule::identity());
  } else {
    // What was read last is still in the cache, and is taken first when it is read again.
    const int64 number = kPasses == kOnlyResults ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int64 row = number / a.parts, part = number - row * a.parts;
    const int64 begin = part * a.part_length;
    const int64 end = begin + a.part_length < a.length ? begin + a.part_length : a.length;
    if constexpr (kPasses == kOnlyStates) {
      scan_part_totals<S, Rule, kWidth>(a, row, part, begin, end);
    } else {
      typename Rule::State carry = Rule::identity();
      if constexpr (kPasses == kOnlyResults) carry = before_part<Rule>(a, row, part);
      scan_range<S, Rule, false, kWidth>(a, row, begin, end, carry);
    }
  }
}

// ---- rows whose tiles are held in shared memory

// What a block has for others. Both halves are written and read at once, so that no fence is needed.
struct Posted {
  uint64 value, is_there;
};

template <class State>
__device__ inline void post(Posted* place, State state) {
  static_assert(sizeof(State) == 8, "a state of one word");
  uint64 word;
  memcpy(&word, &state, 8);
#ifdef TAPEGRAD_EMULATED
  *place = {word, 1};
#else
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(place), "l"(word), "l"(1ull)
               : "memory");
#endif
}
template <class State>
__device__ inline State wait_for(const Posted* place) {
  Posted posted;
  do {
#ifdef TAPEGRAD_EMULATED
    posted = *place;
#else
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(posted.value), "=l"(posted.is_there)
                 : "l"(place)
                 : "memory");
#endif
  } while (posted.is_there == 0);
  State state;
  memcpy(&state, &posted.value, 8);
  return state;
}

// In a block's memory, without a detour by registers where the device can.
template <int kBytes>
__device__ inline void copy_to_shared(void* to, const void* from) {
#ifndef TAPEGRAD_EMULATED
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
    return;
  } else if constexpr (kBytes >= 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(kBytes)
                 : "memory");
    return;
  }
#endif
  memcpy(to, from, kBytes);
}
__device__ inline void wait_for_copies_to_shared() {
#ifndef TAPEGRAD_EMULATED
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncwarp();
}

inline constexpr int kTileThreads = 256;
inline constexpr int kTileUnits = 8;  // of 16 bytes, that a thread scans

// Behind the units of each thread stays one free, so that those of neighbours lie in different banks.
__device__ inline unsigned place_of_unit(unsigned unit) { return unit + unit / kTileUnits; }

// Of what will not be read again soon.
template <class Piece>
__device__ inline void store_for_later(Piece* to, const Piece& piece) {
  if constexpr (sizeof(Piece) == 16) {
    float4 bits;
    memcpy(&bits, &piece, 16);
    __stcs(reinterpret_cast<float4*>(to), bits);
  } else {
    *to = piece;
  }
}

// What the tiles before come to: those of its group and of the group before it one by one, which other blocks have just
// posted, and the groups before that, each posted by its last tile.
template <class Rule>
__device__ inline typename Rule::State before_tile(Posted* tiles, int64 tile_count, int64 tile, int group_size,
                                                   typename Rule::State own) {
  using State = typename Rule::State;
  Posted* const groups = tiles + tile_count;
  const int64 group = tile / group_size, begin = group * group_size;
  State state = Rule::identity();
  for (int64 i = begin + threadIdx.x; i < tile; i += blockDim.x)
    state = Rule::combine(state, wait_for<State>(tiles + i));
  if (tile == begin + group_size - 1) {
    const State before_in_group = reduce_block<Rule>(state, Rule::identity());
    if (threadIdx.x == 0) post(groups + group, Rule::combine(before_in_group, own));
  }
  if (group > 0)
    for (int64 i = begin - group_size + threadIdx.x; i < begin; i += blockDim.x)
      state = Rule::combine(state, wait_for<State>(tiles + i));
  for (int64 i = threadIdx.x; i < group - 1; i += blockDim.x)
    state = Rule::combine(state, wait_for<State>(groups + i));
  return reduce_block<Rule>(state, Rule::identity());
}

// Calls body(place, is_there) for each piece of kCount elements that the lane moves; there are those from low to high.
template <int kCount, int kWidth, class Body>
__device__ inline void for_pieces(int low, int high, Body body) {
  const int first = lane_number() * kWidth;
  if (low == 0 && high == kCount) {
#pragma unroll 8
    for (int j = 0; j < kCount; j += kWarp * kWidth) body(first + j, true);
  } else {
    for (int at = first; at < kCount; at += kWarp * kWidth) body(at, at >= low && at < high);
  }
}

// For rules whose elements may be put together in any order. `states` begins with how many blocks have begun; then come
// for each row what its tiles and its groups of tiles have posted. Tiles are given to blocks in the order in which
// those begin, so that nobody waits for a block that has not begun. Run backwards, a tile lies in memory as it is read,
// and threads take it from its end.
template <class S, class Rule, int kWidth, bool kReverse>
__device__ void scan_tiles(const ScanArguments& a) {
  using State = typename Rule::State;
  constexpr int kUnit = 16 / sizeof(S), kOfWarp = kWarp * kTileUnits * kUnit;
  constexpr int kWarps = kTileThreads / kWarp, kTile = kWarps * kOfWarp;
  using Unit = Vector<S, kUnit>;
  using Piece = Vector<S, kWidth>;
  __shared__ int64 number;
  __shared__ State of_warps[kWarps];
  __shared__ Unit held[kTileThreads * (kTileUnits + 1)];
  Posted* const posted = static_cast<Posted*>(a.states);
  if (threadIdx.x == 0) number = atomicAdd(&posted->value, uint64(1));
  __syncthreads();
  const int64 row = number / a.parts, tile = number - row * a.parts;
  const int64 groups = (a.parts + a.group - 1) / a.group;
  const int thread = kReverse ? kTileThreads - 1 - threadIdx.x : threadIdx.x;
  const unsigned first_unit = thread / kWarp * kWarp * kTileUnits;  // of what the warp holds
  const int64 begin = (kReverse ? a.length - (tile + 1) * kTile : tile * kTile) + first_unit * kUnit;
  const S* const in = static_cast<const S*>(a.in) + row * a.length + begin;
  S* const out = static_cast<S*>(a.out) + row * a.length + begin;
  // What there is of it.
  const int low = begin < 0 ? static_cast<int>(-begin) : 0;
  const int high = a.length - begin < kOfWarp ? static_cast<int>(a.length - begin) : kOfWarp;
  const auto to_element = [](State state) {
    return convert<S>(ScanPiece<S, Rule, 1>::to_convert(Rule::result(state)));
  };
  const auto piece_at = [&](unsigned at) {
    return reinterpret_cast<Piece*>(held[place_of_unit(first_unit + at / kUnit)].elements + at % kUnit);
  };
  for_pieces<kOfWarp, kWidth>(low, high, [&](int at, bool is_there) {
    if (is_there) {
      copy_to_shared<sizeof(Piece)>(piece_at(at), in + at);
    } else {
      for (S& element : piece_at(at)->elements) element = to_element(Rule::identity());
    }
  });
  wait_for_copies_to_shared();

  Unit* const own = held + thread * (kTileUnits + 1);
  const auto unit_at = [&](int j) -> Unit& { return own[kReverse ? kTileUnits - 1 - j : j]; };
  const auto place_in_unit = [](int k) { return kReverse ? kUnit - 1 - k : k; };
  State with_own = Rule::identity();
#pragma unroll
  for (int j = 0; j < kTileUnits; ++j) {
    const Unit unit = unit_at(j);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const S element = unit.elements[place_in_unit(k)];
      with_own = Rule::combine(with_own, Rule::of(Rule::load(element, element), 0));
    }
  }
  with_own = scan_warp<Rule>(with_own);
  if (lane_number() == kWarp - 1) of_warps[warp_number()] = with_own;
  State start = value_before(with_own, 1);
  if (lane_number() == 0) start = Rule::identity();
  __syncthreads();
  State total = Rule::identity();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp_number()) start = Rule::combine(total, start);
    total = Rule::combine(total, of_warps[w]);
  }
  Posted* const tiles = posted + 1 + row * (a.parts + groups);
  if (threadIdx.x == 0) post(tiles + tile, total);
  State state = Rule::combine(before_tile<Rule>(tiles, a.parts, tile, a.group, total), start);
#pragma unroll
  for (int j = 0; j < kTileUnits; ++j) {
    Unit unit = unit_at(j);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      S& element = unit.elements[place_in_unit(k)];
      state = Rule::combine(state, Rule::of(Rule::load(element, element), 0));
      element = to_element(state);
    }
    unit_at(j) = unit;
  }
  __syncwarp();
  for_pieces<kOfWarp, kWidth>(low, high, [&](int at, bool is_there) {
    if (is_there) store_for_later(reinterpret_cast<Piece*>(out + at), *piece_at(at));
  });
}

// ---- columns

template <class S, class Rule, int kPasses>
__device__ void scan_columns(const ScanArguments& a) {
  using State = typename Rule::State;
  constexpr int kRows = 8;
  const int64 lines = a.outer * a.inner;
  const int64 thread = int64(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64 part = thread / lines, line = thread - part * lines;
  if (part >= a.parts) return;
  const int64 block = line / a.inner;
  const int64 base = block * a.length * a.inner + (line - block * a.inner);
  const auto place = [&](int64 position) {
    return base + (a.reverse ? a.length - 1 - position : position) * a.inner;
  };
  const auto load = [&](int64 position) {
    const S first = static_cast<const S*>(a.in)[place(position)];
    if constexpr (Rule::kAnyOrder) return Rule::load(first, first);
    else return Rule::load(first, static_cast<const S*>(a.second)[place(position)]);
  };
  const int64 begin = part * a.part_length;
  const int64 end = begin + a.part_length < a.length ? begin + a.part_length : a.length;
  State state = Rule::identity();
  if constexpr (kPasses == kOnlyResults)
#pragma unroll 8
    for (int64 p = 0; p < part; ++p) state = Rule::combine(state, states_of<Rule>(a, line)[p]);
  const auto take = [&](int64 position, typename Rule::Value value) {
    state = Rule::combine(state, Rule::of(value, position));
    if constexpr (kPasses != kOnlyStates) {
      using Piece = ScanPiece<S, Rule, 1>;
      static_cast<S*>(a.out)[place(position)] = convert<S>(Piece::to_convert(Rule::result(state)));
      if constexpr (Rule::kPlaces) a.places[place(position)] = state.place;
    }
  };
  int64 i = begin;
  for (; i + kRows <= end; i += kRows) {
    typename Rule::Value values[kRows];
#pragma unroll
    for (int u = 0; u < kRows; ++u) values[u] = load(i + u);
#pragma unroll
    for (int u = 0; u < kRows; ++u) take(i + u, values[u]);
  }
  for (; i < end; ++i) take(i, load(i));
  if constexpr (kPasses == kOnlyStates) states_of<Rule>(a, line)[part] = state;
}
