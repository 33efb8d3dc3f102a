// uses: keys.cuh
// Sorting rows that fit into shared memory: several short ones in a block, by a bitonic network. Entries are a key and
// the position in the row, which makes them all different, and so the order stable.

inline constexpr int kRowThreads = 256;
inline constexpr int kRowSlots = 2048;

struct RowArguments {
  const void* x;
  const unsigned* positions;  // what the indices are, or null where they are places in the row
  void* values;
  int64* indices;
  int64 rows;
  int length, out_length;
  int first;   // of what is wanted of a sorted row
  int padded;  // the length as a power of two
  int rows_per_block;
  int descending;
  int is_median;
};

// Keys of up to four bytes and positions compare as one integer.
template <bool kPacked>
struct RowEntries {
  uint64 packed[kRowSlots];

  __device__ void set(int slot, uint64 key, unsigned position) { packed[slot] = key << 32 | position; }
  __device__ uint64 key(int slot) const { return packed[slot] >> 32; }
  __device__ unsigned position(int slot) const { return static_cast<unsigned>(packed[slot]); }
  __device__ void order(int a, int b, bool up) {
    const uint64 first = packed[a], second = packed[b];
    if ((first > second) != up) return;
    packed[a] = second;
    packed[b] = first;
  }
};
template <>
struct RowEntries<false> {
  uint64 keys[kRowSlots];
  unsigned positions[kRowSlots];

  __device__ void set(int slot, uint64 key, unsigned position) {
    keys[slot] = key;
    positions[slot] = position;
  }
  __device__ uint64 key(int slot) const { return keys[slot]; }
  __device__ unsigned position(int slot) const { return positions[slot]; }
  __device__ void order(int a, int b, bool up) {
    const uint64 first = keys[a], second = keys[b];
    const unsigned p = positions[a], q = positions[b];
    if ((first > second || (first == second && p > q)) != up) return;
    keys[a] = second;
    keys[b] = first;
    positions[a] = q;
    positions[b] = p;
  }
};

// Sorts runs of `length` slots, a power of two, by order(a, b, up), which puts two slots in order. A warp keeps to
// its slots while they are near: then the warp is all that must wait.
template <class Order>
__device__ inline void bitonic_sort(int slots, int length, const Order& order) {
  bool was_far = true;
  for (int run = 2; run <= length; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      const bool is_far = distance > 32;
      if (is_far || was_far) __syncthreads();
      else __syncwarp();
      was_far = is_far;
      for (int pair = threadIdx.x; pair < slots / 2; pair += kRowThreads) {
        const int a = 2 * pair - (pair & (distance - 1));
        order(a, a + distance, (a & (length - 1) & run) == 0);
      }
    }
  }
  __syncthreads();
}

// The first NaN of a row whose last entry is one; of other rows the entry asked for.
template <class S, class Entries>
__device__ inline int median_slot(const Entries& entries, int start, int length, int slot) {
  constexpr uint64 kNaN = static_cast<KeyBits<S>>(~KeyBits<S>(0));
  if (kInfinityBits<S> == 0 || entries.key(start + length - 1) != kNaN) return slot;
  int low = start, high = start + length - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (entries.key(middle) == kNaN) high = middle;
    else low = middle + 1;
  }
  return low;
}

template <class S>
__device__ void sort_short_rows(const RowArguments& a) {
  using Bits = KeyBits<S>;
  __shared__ RowEntries<sizeof(Bits) <= 4> entries;
  const int64 first_row = static_cast<int64>(blockIdx.x) * a.rows_per_block;
  const int64 rows_left = a.rows - first_row;
  const int rows = rows_left < a.rows_per_block ? static_cast<int>(rows_left) : a.rows_per_block;
  const Bits* x = static_cast<const Bits*>(a.x) + first_row * a.length;
  const int slots = rows * a.padded;
  for (int slot = threadIdx.x; slot < slots; slot += kRowThreads) {
    const int row = slot / a.padded, at = slot - row * a.padded;
    // What fills a row up comes last: nothing else has that position.
    if (at < a.length)
      entries.set(slot, ordered<S>(x[row * a.length + at], a.descending), at);
    else
      entries.set(slot, static_cast<Bits>(~Bits(0)), ~0u);
  }
  bitonic_sort(slots, a.padded, [&](int p, int q, bool up) { entries.order(p, q, up); });
  for (int out = threadIdx.x; out < rows * a.out_length; out += kRowThreads) {
    const int row = out / a.out_length, start = row * a.padded;
    int slot = start + a.first + out - row * a.out_length;
    if (a.is_median) slot = median_slot<S>(entries, start, a.length, slot);
    const unsigned position = entries.position(slot);
    const int64 to = first_row * a.out_length + out, from = row * a.length + position;
    static_cast<Bits*>(a.values)[to] = x[from];
    a.indices[to] = a.positions ? a.positions[first_row * a.length + from] : position;
  }
}

// ---- the rows of a matrix, compared element by element from the left: one block

struct MatrixArguments {
  const void* x;
  int64* order;
  int64 columns;
  int rows, padded;
};

template <class S>
__device__ void sort_few_matrix_rows(const MatrixArguments& a) {
  using Bits = KeyBits<S>;
  __shared__ unsigned order[kRowSlots];
  const Bits* x = static_cast<const Bits*>(a.x);
  for (int slot = threadIdx.x; slot < a.padded; slot += kRowThreads) order[slot] = slot;
  bitonic_sort(a.padded, a.padded, [&](int p, int q, bool up) {
    const unsigned first = order[p], second = order[q];
    bool is_greater = first > second;
    const bool both_rows = first < static_cast<unsigned>(a.rows) && second < static_cast<unsigned>(a.rows);
    for (int64 c = 0; both_rows && c < a.columns; ++c) {
      const Bits one = ordered<S>(x[first * a.columns + c], false);
      const Bits other = ordered<S>(x[second * a.columns + c], false);
      if (one == other) continue;
      is_greater = one > other;
      break;
    }
    if (is_greater != up) return;
    order[p] = second;
    order[q] = first;
  });
  for (int row = threadIdx.x; row < a.rows; row += kRowThreads) a.order[row] = order[row];
}
