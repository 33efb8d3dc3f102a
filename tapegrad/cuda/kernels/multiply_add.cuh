// One rounding for floating numbers, and wrapping for integers: kernels are compiled so that the compiler does not
// join multiplications and additions by itself.

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline unsigned multiply_add(unsigned a, unsigned b, unsigned c) { return a * b + c; }
__device__ inline uint64 multiply_add(uint64 a, uint64 b, uint64 c) { return a * b + c; }
