// What a Fourier transform of one length needs to know: the factors of the length, roots of one.
//
// Plans are made once per length and dtype and kept. Roots are computed in double, each from its own angle.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "cpu/fft_kernels.h"

namespace tapegrad::cpu {

// Numbers that begin on a cache line.
template <class T>
class FftNumbers {
 public:
  FftNumbers() = default;
  explicit FftNumbers(int64_t count)
      : count_(count), data_(static_cast<T*>(operator new(count * sizeof(T), kAlignment))) {}
  T& operator[](int64_t i) const { return data_.get()[i]; }
  T* get() const { return data_.get(); }
  int64_t nbytes() const { return count_ * static_cast<int64_t>(sizeof(T)); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { operator delete(data, kAlignment); }
  };
  int64_t count_ = 0;
  std::unique_ptr<T, Free> data_;
};

// A chain and what it points to.
template <class T>
struct FftOwnChain {
  explicit FftOwnChain(int64_t length);
  FftChain<T> chain;
  std::vector<FftPass<T>> passes;
  std::vector<int32_t> place, order;
  std::vector<FftNumbers<T>> numbers;
};

template <class T>
struct FftOwnGrid {
  FftOwnGrid(int64_t rows, int64_t columns);
  FftOwnChain<T> down, across;
  FftNumbers<T> factors;
  FftNumbers<double> fine, coarse;
  FftGrid<T> grid;
};

template <class T>
struct FftPlan;

// A length with a large prime factor, as a convolution (Bluestein): j * k is (j^2 + k^2 - (j - k)^2) / 2, so the
// transform is a product with a chirp, a convolution with another one, and a product again. Real parts of the factors
// stand before imaginary ones.
template <class T>
struct FftConvolution {
  FftConvolution(int64_t length, int64_t size);
  int64_t size;                            // of the cyclic convolution
  std::shared_ptr<const FftPlan<T>> plan;  // for this size
  FftNumbers<T> chirp;                     // the factors before, and after
  FftNumbers<T> spectrum;                  // the transform of the other chirp, divided by the size
};

template <class T>
struct FftPlan {
  explicit FftPlan(int64_t length);
  int64_t length;
  // At least one of these is there.
  std::unique_ptr<FftOwnChain<T>> lanes;
  std::unique_ptr<FftOwnGrid<T>> grid;
  std::unique_ptr<FftConvolution<T>> convolution;
  // Of a real transform of this length, if it is even: roots of one up to the quarter of the circle.
  FftNumbers<T> half_roots;
  int64_t nbytes() const;

  // How it can be run; at least one of the two ways is there. A long convolution of records would leave the cache.
  bool takes_lanes() const { return lanes || (convolution && convolution->size <= 512); }
  bool takes_lines() const { return grid || (convolution && convolution->plan->grid); }
};

template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t length);

}  // namespace tapegrad::cpu
