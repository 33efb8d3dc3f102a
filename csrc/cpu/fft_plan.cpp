#include "cpu/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <unordered_map>

#include "core/complex.h"
#include "cpu/fft_transform.h"

namespace tapegrad::cpu {

namespace {

// Primes up to here have butterflies of their own; others become convolutions.
constexpr int64_t kLargestPrime = 31;
constexpr int64_t kLongestLanes = 4096;    // the records of longer ones would leave the cache
constexpr int64_t kBlock = 256;            // records that fit into the first level of it
constexpr int64_t kWholeFactors = 65536;   // up to this length all factors of a grid are kept
constexpr int64_t kKeptBytes = 256 << 20;  // of all plans

// exp(-2 pi i k / n), from an angle of at most an eighth of the circle.
Complex<double> root_of_one(int64_t k, int64_t n) {
  k %= n;
  const bool is_lower = 2 * k > n;
  if (is_lower) k = n - k;  // the conjugate
  const bool is_left = 4 * k > n;
  // In quarters of n from here on, so that nothing is rounded.
  int64_t angle = is_left ? 2 * n - 4 * k : 4 * k;
  const bool is_steep = 2 * angle > n;
  if (is_steep) angle = n - angle;
  const double x = std::numbers::pi / 2 * (static_cast<double>(angle) / static_cast<double>(n));
  double re = std::cos(x), im = std::sin(x);
  if (is_steep) std::swap(re, im);
  return {is_left ? -re : re, is_lower ? im : -im};
}

std::vector<int64_t> prime_factors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; p * p <= n; ++p)
    for (; n % p == 0; n /= p) factors.push_back(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

bool is_smooth(int64_t n) {
  for (int64_t p = 2; p <= kLargestPrime; ++p)
    while (n % p == 0) n /= p;
  return n == 1;
}

// Eights and fours in place of twos, the largest first.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  int64_t twos = 0;
  for (int64_t p : prime_factors(n)) p == 2 ? void(++twos) : radices.push_back(p);
  for (; twos >= 5 || twos == 3; twos -= 3) radices.push_back(8);
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos) radices.push_back(2);
  std::sort(radices.rbegin(), radices.rend());
  return radices;
}

// Instructions for a record, roughly.
double cost_of_chain(int64_t n) {
  double cost = n > 2 * kBlock ? 12 : 6;
  for (int64_t radix : radices_of(n))
    cost += radix == 8   ? 15
            : radix == 4 ? 11
            : radix == 2 ? 9
                         : 9 + 2.0 * static_cast<double>(radix);
  return cost;
}

int64_t groups(int64_t n, int64_t width) { return (n + width - 1) / width; }

struct Split {
  int64_t rows = 0;
  double cost = std::numeric_limits<double>::infinity();
};

Split best_split(int64_t n, int64_t width) {
  Split best;
  for (int64_t rows = 1; rows * rows <= n; ++rows) {
    if (n % rows) continue;
    for (int64_t r : {rows, n / rows}) {
      const int64_t c = n / r;
      const double cost = static_cast<double>(r * groups(c, width)) * cost_of_chain(r) +
                          static_cast<double>(c * groups(r, width)) * (cost_of_chain(c) + 12);
      if (cost < best.cost) best = {r, cost};
    }
  }
  return best;
}

// The size that is the cheapest to transform.
int64_t convolution_size(int64_t least, int64_t width) {
  int64_t best = 0;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int64_t odd : {1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45, 63, 75, 81, 105, 135, 225}) {
    int64_t size = odd;
    while (size < least || size % 16) size *= 2;
    const double cost = least < 256 ? static_cast<double>(size) * cost_of_chain(size)
                                    : best_split(size, width).cost;
    if (cost < best_cost) best = size, best_cost = cost;
  }
  return best;
}

template <class T>
void set_pair(T* pair, Complex<double> z) {
  pair[0] = static_cast<T>(z.real);
  pair[1] = static_cast<T>(z.imag);
}

}  // namespace

template <class T>
FftOwnChain<T>::FftOwnChain(int64_t length) : place(length), order(length, 0) {
  chain = {length, 1, 0, 0, nullptr, nullptr, nullptr};
  int64_t before = 1;
  for (int64_t radix : radices_of(length)) {
    const T* circle = nullptr;
    if (radix % 2) {
      auto& angles = numbers.emplace_back(2 * radix);
      for (int64_t k = 0; k < radix; ++k) {
        const Complex<double> z = root_of_one(k, radix);
        angles[k] = static_cast<T>(z.real);
        angles[radix + k] = static_cast<T>(-z.imag);
      }
      circle = angles.get();
    }
    auto& twiddles = numbers.emplace_back(2 * (radix - 1) * before);
    T* next = twiddles.get();
    for (int64_t k = 0; k < before; ++k)
      for (int64_t j = 1; j < radix; ++j, next += 2)
        set_pair(next, root_of_one(j * k, radix * before));
    passes.push_back({radix, before, twiddles.get(), circle});
    // Those before become the transforms of every radix-th element.
    for (int64_t j = radix - 1; j >= 0; --j)
      for (int64_t q = 0; q < before; ++q)
        order[j * before + q] = static_cast<int32_t>(j + radix * order[q]);
    before *= radix;
    if (before <= std::max(kBlock, radix)) {
      chain.block = before;
      chain.block_passes = static_cast<int64_t>(passes.size());
    }
  }
  for (int64_t i = 0; i < length; ++i) place[order[i]] = static_cast<int32_t>(i);
  chain.passes = static_cast<int64_t>(passes.size());
  chain.pass = passes.data();
  chain.place = place.data();
  chain.order = order.data();
}

template <class T>
FftOwnGrid<T>::FftOwnGrid(int64_t rows, int64_t columns) : down(rows), across(columns) {
  const int64_t width = fft_kernels<T>().width, length = rows * columns;
  const bool is_whole = length <= kWholeFactors;
  const int64_t kept_groups = is_whole ? groups(columns, width) : 1;
  factors = FftNumbers<T>(kept_groups * rows * 2 * width);
  T* record = factors.get();
  for (int64_t group = 0; group < kept_groups; ++group)
    for (int64_t row = 0; row < rows; ++row, record += 2 * width)
      for (int64_t l = 0; l < width; ++l) {
        const Complex<double> z = root_of_one(row * (group * width + l), length);
        record[l] = static_cast<T>(z.real);
        record[width + l] = static_cast<T>(z.imag);
      }
  int64_t fine_count = 1;
  if (!is_whole) {
    while (fine_count * fine_count < length) fine_count *= 2;
    const int64_t coarse_count = groups(length, fine_count);
    fine = FftNumbers<double>(2 * fine_count);
    coarse = FftNumbers<double>(2 * coarse_count);
    for (int64_t e = 0; e < fine_count; ++e) set_pair(&fine[2 * e], root_of_one(e, length));
    for (int64_t e = 0; e < coarse_count; ++e)
      set_pair(&coarse[2 * e], root_of_one(e * fine_count, length));
  }
  grid = {down.chain, across.chain, factors.get(), is_whole, fine_count, fine.get(), coarse.get()};
}

template <class T>
FftConvolution<T>::FftConvolution(int64_t length, int64_t size)
    : size(size), plan(fft_plan<T>(size)), chirp(2 * length), spectrum(2 * size) {
  // In double whatever T is: the error of the factors would be that of all elements.
  std::vector<double> wave(2 * size, 0.0);
  for (int64_t j = 0; j < length; ++j) {
    const int64_t square = j * j % (2 * length);
    const Complex<double> z = root_of_one(square, 2 * length);
    chirp[j] = static_cast<T>(z.real);
    chirp[length + j] = static_cast<T>(z.imag);
    for (int64_t k : {j, (size - j) % size}) {
      wave[2 * k] = z.real;
      wave[2 * k + 1] = -z.imag;
    }
  }
  const std::vector<double> transformed = transform_once(*fft_plan<double>(size), wave);
  for (int64_t k = 0; k < size; ++k) {
    spectrum[k] = static_cast<T>(transformed[2 * k] / static_cast<double>(size));
    spectrum[size + k] = static_cast<T>(transformed[2 * k + 1] / static_cast<double>(size));
  }
}

template <class T>
FftPlan<T>::FftPlan(int64_t length) : length(length) {
  const int64_t width = fft_kernels<T>().width;
  if (is_smooth(length)) {
    if (length <= kLongestLanes) lanes = std::make_unique<FftOwnChain<T>>(length);
    if (length >= 4 * width) {
      const int64_t rows = best_split(length, width).rows;
      grid = std::make_unique<FftOwnGrid<T>>(rows, length / rows);
    }
  } else {
    convolution =
        std::make_unique<FftConvolution<T>>(length, convolution_size(2 * length - 1, width));
  }
  if (length % 2 == 0) {
    const int64_t count = length / 4 + 1;
    half_roots = FftNumbers<T>(2 * count);
    for (int64_t k = 0; k < count; ++k) {
      const Complex<double> z = root_of_one(k, length);
      half_roots[k] = static_cast<T>(z.real);
      half_roots[count + k] = static_cast<T>(z.imag);
    }
  }
}

template <class T>
int64_t FftPlan<T>::nbytes() const {
  auto of_chain = [](const FftOwnChain<T>& chain) {
    int64_t total = 8 * chain.chain.length;
    for (const auto& each : chain.numbers) total += each.nbytes();
    return total;
  };
  int64_t total = half_roots.nbytes();
  if (lanes) total += of_chain(*lanes);
  if (grid)
    total += of_chain(grid->down) + of_chain(grid->across) + grid->factors.nbytes() +
             grid->fine.nbytes() + grid->coarse.nbytes();
  if (convolution) total += convolution->chirp.nbytes() + convolution->spectrum.nbytes();
  return total;
}

namespace {

// Whoever runs a plan holds it: plans may be dropped at any time.
template <class T>
struct Kept {
  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<const FftPlan<T>>> plans;
  int64_t nbytes = 0;
};

}  // namespace

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t length) {
  static Kept<T>& kept = *new Kept<T>();
  {
    std::lock_guard lock(kept.mutex);
    if (auto found = kept.plans.find(length); found != kept.plans.end()) return found->second;
  }
  auto plan = std::make_shared<const FftPlan<T>>(length);
  std::lock_guard lock(kept.mutex);
  if (kept.nbytes + plan->nbytes() > kKeptBytes) {
    kept.plans.clear();
    kept.nbytes = 0;
  }
  if (kept.plans.emplace(length, plan).second) kept.nbytes += plan->nbytes();
  return plan;
}

template std::shared_ptr<const FftPlan<float>> fft_plan(int64_t length);
template std::shared_ptr<const FftPlan<double>> fft_plan(int64_t length);

}  // namespace tapegrad::cpu
