#include "python/number_slots.h"

#include "core/error.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "python/binding.h"
#include "python/exchange.h"
#include "python/index.h"
#include "python/numpy.h"
#include "python/second_look.h"
#include "python/sparse.h"

namespace tapegrad::python {

namespace {

// An operand of an operator: a tensor, borrowed, or a Python number, made into one.
class Operand {
 public:
  [[gnu::always_inline]] explicit Operand(PyObject* object) {
    if (is_tensor(object)) [[likely]]
      tensor_ = &tensor_of(object);
    else take_number(object);
  }
  bool valid() const { return tensor_ != nullptr; }
  const Tensor* get() const { return tensor_; }

 private:
  [[gnu::noinline]] void take_number(PyObject* object) {
    Scalar number;
    if (scalar_from_object(object, &number)) [[likely]]
      number_ = wrapped_number(number);
    else number_ = complex_operand(object);
    if (number_.defined()) tensor_ = &number_;
  }

  const Tensor* tensor_ = nullptr;
  Tensor number_;
};

PyObject* not_implemented() { return Py_NewRef(Py_NotImplemented); }

// A uint64 tensor beside an integer of more than 63 bits, which is no operand elsewhere, or beside
// an object that computes by itself.
[[gnu::noinline]] PyObject* beside_unsigned(PointwiseId id, PyObject* a, PyObject* b) {
  PyObject* tensor = is_tensor(a) ? a : b;
  if (tensor == a && computes_itself(b)) return let_compute(pointwise_info(id).name, a, b);
  Scalar number;
  if (!is_tensor(tensor) || tensor_of(tensor).dtype() != DType::UInt64 ||
      !element_from_object(tensor == a ? b : a, DType::UInt64, &number))
    return not_implemented();
  const Tensor& x = tensor_of(tensor);
  const Tensor y = scalar_tensor(number, DType::UInt64, x->device());
  const Tensor* operands[] = {tensor == a ? &x : &y, tensor == a ? &y : &x};
  return wrap(pointwise(id, operands));
}

template <PointwiseId kId>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Operand x(a), y(b);
    if (!x.valid() || !y.valid()) return beside_unsigned(kId, a, b);
    const Tensor* operands[] = {x.get(), y.get()};
    return wrap(pointwise(kId, operands));
  });
}

// A sparse tensor is written into this one; what else there is may know better.
template <PointwiseId kId>
PyObject* unknown_term(PyObject* self, PyObject* other) {
  if (!is_sparse_tensor(other)) return not_implemented();
  const std::string method = std::string(pointwise_info(kId).name) + "_";
  return nb::handle(self).attr(method.c_str())(nb::handle(other)).release().ptr();
}

template <PointwiseId kId>
PyObject* inplace(PyObject* self, PyObject* other) {
  return guarded([&]() -> PyObject* {
    Operand y(other);
    if (!y.valid()) return unknown_term<kId>(self, other);
    const Tensor* operands[] = {&tensor_of(self), y.get()};
    pointwise_inplace(kId, operands, {});
    return Py_NewRef(self);
  });
}

template <PointwiseId kId>
PyObject* unary(PyObject* self) {
  return guarded([&] {
    const Tensor* operands[] = {&tensor_of(self)};
    return wrap(pointwise(kId, operands));
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) return not_implemented();
  return binary<PointwiseId::pow>(a, b);
}

PyObject* inplace_power(PyObject* self, PyObject* other, PyObject* modulus) {
  if (modulus != Py_None) return not_implemented();
  return inplace<PointwiseId::pow>(self, other);
}

PyObject* positive(PyObject* self) {
  return guarded([&] {
    TAPEGRAD_CHECK(tensor_of(self).dtype() != DType::Bool,
                   "positive: the `+` operator, on a bool tensor is not supported");
    return Py_NewRef(self);
  });
}

PyObject* matrix_multiply(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b))
    return is_tensor(a) && computes_itself(b) ? let_compute("matmul", a, b) : not_implemented();
  return guarded([&] { return wrap(matmul(tensor_of(a), tensor_of(b))); });
}

// Only equality takes arrays, too: NumPy would reduce the result to one bool.
template <PointwiseId kId>
PyObject* equality(PyObject* a, PyObject* b) {
  if (is_tensor(b) || !is_numpy_array(b)) return binary<kId>(a, b);
  return guarded([&] {
    Tensor other = tensor_from_numpy(pointwise_info(kId).name, b, ReadOnly::Allow);
    const Tensor* operands[] = {&tensor_of(a), &other};
    return wrap(pointwise(kId, operands));
  });
}

PyObject* compare(PyObject* a, PyObject* b, int operation) {
  switch (operation) {
    case Py_EQ:
      return equality<PointwiseId::eq>(a, b);
    case Py_NE:
      return equality<PointwiseId::ne>(a, b);
    case Py_LT:
      return binary<PointwiseId::lt>(a, b);
    case Py_LE:
      return binary<PointwiseId::le>(a, b);
    case Py_GT:
      return binary<PointwiseId::gt>(a, b);
    default:
      return binary<PointwiseId::ge>(a, b);
  }
}

// number / x is x.reciprocal() * number, as in PyTorch: the same roundings, and x is not saved.
PyObject* true_divide(PyObject* a, PyObject* b) {
  bool array = !is_tensor(a) && is_numpy_array(a);
  if (!array && (is_tensor(a) || !(PyFloat_Check(a) || PyLong_Check(a))))
    return binary<PointwiseId::div>(a, b);
  PyObject* inverse = guarded([&] { return wrap(reciprocal(tensor_of(b))); });
  if (!inverse) return nullptr;
  PyObject* result = array ? PyNumber_Multiply(inverse, a) : binary<PointwiseId::mul>(inverse, a);
  Py_DECREF(inverse);
  return result;
}

// By identity. Objects are aligned, so the low bits are turned away.
Py_hash_t hash(PyObject* self) {
  auto address = reinterpret_cast<uintptr_t>(self);
  auto result = static_cast<Py_hash_t>(address >> 4 | address << (8 * sizeof(address) - 4));
  return result == -1 ? -2 : result;
}

Py_ssize_t length(PyObject* self) {
  const Tensor& x = tensor_of(self);
  if (x.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return static_cast<Py_ssize_t>(x.size(0));
}

}  // namespace

void add_number_slots(std::vector<PyType_Slot>& slots) {
  auto add = [&](int slot, auto* function) {
    slots.push_back({slot, reinterpret_cast<void*>(function)});
  };
  add(Py_nb_add, binary<PointwiseId::add>);
  add(Py_nb_subtract, binary<PointwiseId::sub>);
  add(Py_nb_multiply, binary<PointwiseId::mul>);
  add(Py_nb_true_divide, true_divide);
  add(Py_nb_floor_divide, binary<PointwiseId::floor_divide>);
  add(Py_nb_remainder, binary<PointwiseId::remainder>);
  add(Py_nb_power, power);
  add(Py_nb_and, binary<PointwiseId::bitwise_and>);
  add(Py_nb_or, binary<PointwiseId::bitwise_or>);
  add(Py_nb_xor, binary<PointwiseId::bitwise_xor>);
  add(Py_nb_lshift, binary<PointwiseId::bitwise_left_shift>);
  add(Py_nb_rshift, binary<PointwiseId::bitwise_right_shift>);
  add(Py_nb_matrix_multiply, matrix_multiply);
  add(Py_nb_inplace_add, inplace<PointwiseId::add>);
  add(Py_nb_inplace_subtract, inplace<PointwiseId::sub>);
  add(Py_nb_inplace_multiply, inplace<PointwiseId::mul>);
  add(Py_nb_inplace_true_divide, inplace<PointwiseId::div>);
  add(Py_nb_inplace_floor_divide, inplace<PointwiseId::floor_divide>);
  add(Py_nb_inplace_remainder, inplace<PointwiseId::remainder>);
  add(Py_nb_inplace_power, inplace_power);
  add(Py_nb_inplace_and, inplace<PointwiseId::bitwise_and>);
  add(Py_nb_inplace_or, inplace<PointwiseId::bitwise_or>);
  add(Py_nb_inplace_xor, inplace<PointwiseId::bitwise_xor>);
  add(Py_nb_inplace_lshift, inplace<PointwiseId::bitwise_left_shift>);
  add(Py_nb_inplace_rshift, inplace<PointwiseId::bitwise_right_shift>);
  add(Py_nb_negative, unary<PointwiseId::neg>);
  add(Py_nb_positive, positive);
  add(Py_nb_absolute, unary<PointwiseId::abs>);
  add(Py_nb_invert, unary<PointwiseId::bitwise_not>);
  add(Py_nb_bool, tensor_bool);
  add(Py_nb_int, tensor_int);
  add(Py_nb_float, tensor_float);
  add(Py_nb_index, tensor_index);
  add(Py_mp_length, length);
  add(Py_mp_subscript, tensor_subscript);
  add(Py_mp_ass_subscript, tensor_assign_subscript);
  add(Py_tp_richcompare, compare);
  add(Py_tp_hash, hash);
}

}  // namespace tapegrad::python
