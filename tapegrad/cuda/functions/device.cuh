// What the functions beside this file need, in CUDA C. csrc/cpu/special.cpp has the same in C++.
#define TAPEGRAD_FUNCTION __device__ __noinline__
#define TAPEGRAD_HELPER __device__ inline
#define TAPEGRAD_TABLE __device__ const double

__device__ inline double infinity() { return 1.0 / 0.0; }
__device__ inline double not_a_number() { return 0.0 / 0.0; }
constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1;

// c[0] + c[1] u + c[2] u^2 + ...
template <int kCount>
__device__ inline double horner(const double (&c)[kCount], double u) {
  double y = c[kCount - 1];
#pragma unroll
  for (int k = kCount - 2; k >= 0; --k) y = y * u + c[k];
  return y;
}

