#include "cuda/elements.h"

namespace tapegrad::cuda {

namespace {

// What a dtype makes of a number.
Scalar rounded(const Scalar& number, DType dtype) {
  return visit_dtype("cuda", dtype,
                     [&](auto type) { return scalar_of(number.as<decltype(type)>()); });
}

}  // namespace

bool lies_in_order(const LoopNest& nest, int tensor) {
  int64_t expected = 1;
  for (int d = 0; d < nest.rank(); ++d) {
    if (nest.stride(tensor, d) != expected) return false;
    expected *= nest.size(d);
  }
  return true;
}

void put_geometry(Arguments& arguments, const LoopNest& nest, int tensors, int64_t count,
                  int width) {
  for (int d = 0; d < nest.rank(); ++d) {
    const int64_t size = d == 0 ? nest.size(d) / width : nest.size(d);
    if (count <= kMostNarrowCount) arguments.put(Divisor(size));
    else arguments.put(size);
  }
  for (int tensor = 0; tensor < tensors; ++tensor)
    for (int d = 0; d < nest.rank(); ++d)
      arguments.put(d == 0 ? nest.stride(tensor, d) * width : nest.stride(tensor, d));
}

void put_number(Arguments& arguments, const Scalar& number, DType through, DType compute) {
  const Scalar value = rounded(number, through);
  switch (compute) {
    case DType::Float32:
      return arguments.put(static_cast<float>(value.as_double()));
    case DType::Float64:
      return arguments.put(value.as_double());
    case DType::Int64:
      return arguments.put(value.as_int());
    default:
      return arguments.put(static_cast<int32_t>(value.as_int()));
  }
}

void put_number(Arguments& arguments, const TensorImpl& number, DType through, DType compute) {
  put_number(arguments, read_element("cuda", number.data(), number.dtype()), through, compute);
}

}  // namespace tapegrad::cuda
