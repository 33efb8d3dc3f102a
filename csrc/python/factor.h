// Factors of sums, such as alpha= of addmm(), which may be complex numbers, as arguments of bound functions.
#pragma once

#include "ops/complex_composed.h"
#include "python/binding.h"
#include "python/exchange.h"

namespace nanobind::detail {

template <>
struct type_caster<tapegrad::Factor> {
  NB_TYPE_CASTER(tapegrad::Factor, const_name("bool | int | float | complex"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    using tapegrad::Scalar;
    value.complex = {};
    if (tapegrad::python::scalar_from_object(source.ptr(), &value.real)) return true;
    try {
      if (tapegrad::python::number_of_tensor(source.ptr(), &value.real)) return true;
      tapegrad::Complex<double> number;
      if (!tapegrad::python::complex_from_object(source.ptr(), &number)) return false;
      value.real = Scalar(number.real);
      if (number.imag != 0) value.complex = tapegrad::python::complex_operand(source.ptr());
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(const tapegrad::Factor& factor, rv_policy policy,
                         cleanup_list* cleanup) noexcept {
    return type_caster<tapegrad::Scalar>::from_cpp(factor.real, policy, cleanup);
  }
};

}  // namespace nanobind::detail
