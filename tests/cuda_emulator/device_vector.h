// CUDA's vector types: float4 and its like, with its alignment.
#pragma once

#define TAPEGRAD_VECTORS(NAME, T, ALIGN_2, ALIGN_4)                         \
  struct NAME##1 { T x; };                                                  \
  struct __attribute__((aligned(ALIGN_2))) NAME##2 { T x, y; };             \
  struct NAME##3 { T x, y, z; };                                            \
  struct __attribute__((aligned(ALIGN_4))) NAME##4 { T x, y, z, w; };       \
  static inline NAME##1 make_##NAME##1(T x) { return {x}; }                 \
  static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }         \
  static inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; } \
  static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TAPEGRAD_VECTORS(char, signed char, 2, 4)
TAPEGRAD_VECTORS(uchar, unsigned char, 2, 4)
TAPEGRAD_VECTORS(short, short, 4, 8)
TAPEGRAD_VECTORS(ushort, unsigned short, 4, 8)
TAPEGRAD_VECTORS(int, int, 8, 16)
TAPEGRAD_VECTORS(uint, unsigned, 8, 16)
TAPEGRAD_VECTORS(longlong, long long, 16, 16)
TAPEGRAD_VECTORS(ulonglong, unsigned long long, 16, 16)
TAPEGRAD_VECTORS(float, float, 8, 16)
TAPEGRAD_VECTORS(double, double, 16, 16)
#undef TAPEGRAD_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
