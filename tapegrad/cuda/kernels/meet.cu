// uses: meet.cuh
// The values of sorted places, combined: see meet.cuh.
//
// A block takes a tile. Where a run of equal places lies inside of it, the block is done with it. A run that comes
// in from the tile before leaves what it has in `heads`, and one that goes on behind the tile in `tails`; meet_across
// puts those together.

struct MeetArguments {
  int64 count;
  void* out;
  const void* places;
  const void* values;
  void* heads;
  void* tails;
  uint64 limit;
};

inline constexpr int kMeetThreads = 256;
inline constexpr int kMeetPerThread = 4;
inline constexpr int kMeetTile = kMeetThreads * kMeetPerThread;

// Of a run: what has come so far, and whether its beginning has.
template <class M>
struct Part {
  using T = typename M::T;
  T value;
  int any, begun;

  // Followed by another.
  __device__ Part then(const Part& next) const {
    if (next.begun || !any) return {next.value, next.any, begun | next.begun};
    return {next.any ? M::combine(value, next.value) : value, 1, begun};
  }
};

template <class M>
__device__ inline Part<M> shuffle_up(const Part<M>& part, int distance) {
  return {__shfl_up_sync(~0u, part.value, distance), __shfl_up_sync(~0u, part.any, distance),
          __shfl_up_sync(~0u, part.begun, distance)};
}

// What the threads before this one have.
template <class M>
__device__ inline Part<M> parts_before(Part<M> part) {
  constexpr int kWarps = kMeetThreads / 32;
  __shared__ Part<M> of_warps[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Part<M> before = shuffle_up(part, distance);
    if (lane >= distance) part = before.then(part);
  }
  if (lane == 31) of_warps[warp] = part;
  const Part<M> nothing{typename M::T(0), 0, 0};
  Part<M> before = shuffle_up(part, 1);
  if (lane == 0) before = nothing;
  __syncthreads();
  Part<M> warps_before = nothing;
#pragma unroll
  for (int w = 0; w < kWarps; ++w)
    if (w < warp) warps_before = warps_before.then(of_warps[w]);
  return warps_before.then(before);
}

template <class S, class Place, int kMode>
__device__ void meet(const MeetArguments& a) {
  using M = Meet<S, kMode>;
  using T = typename M::T;
  const Place* places = static_cast<const Place*>(a.places);
  const S* values = static_cast<const S*>(a.values);
  const int64 tile_end = (static_cast<int64>(blockIdx.x) + 1) * kMeetTile;
  const int64 end = tile_end < a.count ? tile_end : a.count;
  const int64 first = static_cast<int64>(blockIdx.x) * kMeetTile + threadIdx.x * kMeetPerThread;
  Place place[kMeetPerThread + 1];
  T value[kMeetPerThread];
  bool begins[kMeetPerThread];
#pragma unroll
  for (int i = 0; i <= kMeetPerThread; ++i)
    place[i] = first + i < a.count ? places[first + i] : Place(0);
#pragma unroll
  for (int i = 0; i < kMeetPerThread; ++i)
    value[i] = first + i < end ? Storage<S>::load(values[first + i]) : T(0);
  Part<M> own{T(0), 0, 0};
#pragma unroll
  for (int i = 0; i < kMeetPerThread; ++i) {
    if (first + i >= end) break;
    begins[i] = i == 0 ? first == 0 || places[first - 1] != place[0] : place[i] != place[i - 1];
    own = own.then({value[i], 1, begins[i]});
  }
  Part<M> run = parts_before<M>(own);
#pragma unroll
  for (int i = 0; i < kMeetPerThread; ++i) {
    const int64 at = first + i;
    if (at >= end) break;
    run = run.then({value[i], 1, begins[i]});
    if (at + 1 == a.count || place[i + 1] != place[i]) {
      if (!run.begun) static_cast<T*>(a.heads)[blockIdx.x] = run.value;
      else if (place[i] != a.limit) M::apply(static_cast<S*>(a.out)[place[i]], run.value);
      run.begun = 0;
      run.any = 0;
    } else if (at + 1 == end) {
      static_cast<T*>(a.tails)[blockIdx.x] = run.value;
      if (!run.begun) static_cast<T*>(a.heads)[blockIdx.x] = run.value;
    }
  }
}

template <class M>
__device__ inline Part<M> warp_in_order(Part<M> part) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Part<M> next{__shfl_down_sync(~0u, part.value, distance),
                       __shfl_down_sync(~0u, part.any, distance), 0};
    if (threadIdx.x % 32 + distance < 32) part = part.then(next);
  }
  return part;
}

// A warp for each tile from which a run that begins in it goes on.
template <class S, class Place, int kMode>
__device__ void meet_across(const MeetArguments& a) {
  using M = Meet<S, kMode>;
  using T = typename M::T;
  const Place* places = static_cast<const Place*>(a.places);
  const int lane = threadIdx.x % 32;
  const int64 tile = (static_cast<int64>(blockIdx.x) * kMeetThreads + threadIdx.x) / 32;
  const int64 end = (tile + 1) * kMeetTile;
  if (end >= a.count) return;
  const Place place = places[end - 1];
  const bool comes_in = tile > 0 && places[tile * kMeetTile - 1] == place;
  if (place == a.limit || comes_in || places[end] != place) return;
  int64 low = tile + 1, high = (a.count - 1) / kMeetTile;  // the last tile that it reaches
  while (low < high) {
    const int64 middle = low + (high - low + 1) / 2;
    if (places[middle * kMeetTile] == place) low = middle;
    else high = middle - 1;
  }
  Part<M> run{static_cast<const T*>(a.tails)[tile], 1, 0};
  for (int64 next = tile + 1; next <= low; next += 32) {
    const bool inside = next + lane <= low;
    const Part<M> part{inside ? static_cast<const T*>(a.heads)[next + lane] : T(0), inside, 0};
    run = run.then(warp_in_order(part));
  }
  if (lane == 0) M::apply(static_cast<S*>(a.out)[place], run.value);
}
