// Subscripts: how Python's key objects become views and index tensors.
//
// Ints, slices, None and Ellipsis make a view (ops/subscript.h); tensors, arrays, lists and bools are
// index tensors on that view's dimensions (ops/index.h). As in PyTorch, a 0-d integer tensor is an
// int, and a bool is an index on a new dimension of size one.
#include <vector>

#include "core/error.h"
#include "graph/record.h"
#include "intercept/batch.h"
#include "intercept/capture.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/mask.h"
#include "ops/promotion.h"
#include "ops/subscript.h"
#include "ops/view.h"
#include "python/binding.h"
#include "python/exchange.h"
#include "python/from_data.h"
#include "python/index.h"
#include "python/warn.h"

namespace tapegrad::python {

namespace {

[[noreturn]] void fail_key(PyObject* item) {
  fail<IndexError>("index: only integers, slices (`:`), ellipsis (`...`), None and long or byte "
                   "tensors are valid indices (got ",
                   Py_TYPE(item)->tp_name, ")");
}

int64_t as_int64(PyObject* number) {
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  TAPEGRAD_CHECK_AS(ValueError, overflow == 0, "index: the integer does not fit into 64 bits");
  return value;
}

void apply_slice(Subscript& subscript, PyObject* item) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(item, &start, &stop, &step) < 0) throw nb::python_error();
  subscript.slice(start, stop, step);
}

// A list of ints or of bools without going through a general constructor.
bool flat_list_to_tensor(PyObject* list, Tensor* tensor) {
  if (!PyList_CheckExact(list)) return false;
  Py_ssize_t length = PyList_GET_SIZE(list);
  bool bools = length > 0 && PyBool_Check(PyList_GET_ITEM(list, 0));
  for (Py_ssize_t i = 0; i < length; ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (bools ? !PyBool_Check(item) : !PyLong_CheckExact(item)) return false;
  }
  *tensor = empty("index", DimVector{length}, bools ? DType::Bool : DType::Int64, Device{});
  for (Py_ssize_t i = 0; i < length; ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (bools) fill_on_host<bool>(*tensor)[i] = item == Py_True;
    else fill_on_host<int64_t>(*tensor)[i] = as_int64(item);
  }
  note_constant(*tensor);
  return true;
}

// Lists, ranges and arrays as index tensors.
Tensor sequence_to_tensor(PyObject* sequence) {
  Tensor tensor;
  if (flat_list_to_tensor(sequence, &tensor)) return tensor;
  tensor = tensor_over_data("index", sequence, std::nullopt);
  // An empty list says nothing about its dtype.
  return tensor.numel() == 0 && is_floating(tensor.dtype()) ? cast(tensor, DType::Int64) : tensor;
}

bool is_mask(const Tensor& tensor) {
  return tensor.dtype() == DType::Bool || tensor.dtype() == DType::UInt8;
}

// A parsed key: the view, and index tensors for some of the view's dimensions.
class Key {
 public:
  Key(const Tensor& x, PyObject* key) : subscript_(x) {
    if (!PyTuple_Check(key) && !reads_as_tuple(key)) {
      items_.push_back(nb::borrow(key));
    } else {
      nb::object items = nb::steal(PySequence_Tuple(key));
      if (!items.is_valid()) throw nb::python_error();
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.ptr()); ++i)
        items_.push_back(nb::borrow(PyTuple_GET_ITEM(items.ptr(), i)));
    }
    convert_sequences();
    int64_t free = x.dim() - specified();
    TAPEGRAD_CHECK_AS(IndexError, free >= 0, "index: too many indices for tensor of dimension ",
                      x.dim());
    for (const nb::object& item : items_) apply(item.ptr(), free);
    subscript_.keep(subscript_.left());
  }

  const Subscript& subscript() const { return subscript_; }
  const std::vector<Tensor>& indices() const { return indices_; }

 private:
  // A list that holds more than numbers is read like a tuple, as old code expects.
  static bool reads_as_tuple(PyObject* key) {
    if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(key); ++i) {
      PyObject* item = PyList_GET_ITEM(key, i);
      if (item == Py_None || item == Py_Ellipsis || PySlice_Check(item) || is_tensor(item) ||
          (PySequence_Check(item) && !PyUnicode_Check(item)))
        return true;
    }
    return false;
  }

  void convert_sequences() {
    for (nb::object& item : items_) {
      PyObject* object = item.ptr();
      if (is_tensor(object) || PyIndex_Check(object) || PySlice_Check(object)) continue;
      TAPEGRAD_CHECK_AS(TypeError, !PyUnicode_Check(object) && !PyBytes_Check(object),
                        "index: invalid index of type '", Py_TYPE(object)->tp_name, "'");
      if (PySequence_Check(object)) item = nb::steal(wrap(sequence_to_tensor(object)));
    }
  }

  // How many of x's dimensions the items consume.
  int64_t specified() const {
    int64_t count = 0;
    for (const nb::object& item : items_) {
      PyObject* object = item.ptr();
      if (object == Py_None || object == Py_Ellipsis || PyBool_Check(object)) continue;
      bool mask = is_tensor(object) && is_mask(tensor_of(object));
      count += mask ? tensor_of(object).dim() : 1;
    }
    return count;
  }

  void apply(PyObject* item, int64_t& free) {
    if (PyBool_Check(item)) return add_flag(item == Py_True);
    if (PyLong_Check(item)) return subscript_.select(as_int64(item));
    if (PySlice_Check(item)) return apply_slice(subscript_, item);
    if (item == Py_None) return subscript_.insert();
    if (item == Py_Ellipsis) return subscript_.keep(std::exchange(free, 0));
    if (is_tensor(item)) return add_tensor(tensor_of(item));
    if (!PyIndex_Check(item)) fail_key(item);
    nb::object number = nb::steal(PyNumber_Index(item));
    if (!number.is_valid()) {  // an array of several elements says so by failing here
      PyErr_Clear();
      return add_tensor(sequence_to_tensor(item));
    }
    subscript_.select(as_int64(number.ptr()));
  }

  void add_tensor(const Tensor& tensor) {
    // One that differs over a vmap's batch picks a different element in each.
    if (tensor.dim() == 0 && is_integral(tensor.dtype()) && !is_batched(tensor)) {
      Scalar value = element_of(tensor);
      return is_mask(tensor) ? add_flag(value.as_bool()) : subscript_.select(value.as_int());
    }
    if (tensor.dtype() == DType::UInt8)
      warn_user("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
                "instead.");
    add_index(tensor);
    subscript_.keep(is_mask(tensor) ? tensor.dim() : 1);
  }

  // True indexes a new dimension at 0, False nowhere.
  void add_flag(bool flag) {
    add_index(zeros(DimVector{flag ? 1 : 0}, DType::Int64, Device{}));
    subscript_.insert();
  }

  void add_index(const Tensor& tensor) {
    // A mask stands for all the dimensions it covers, so later positions count by it.
    size_t position = static_cast<size_t>(subscript_.dim() - covered_);
    indices_.resize(position + 1);
    indices_[position] = tensor;
    if (is_mask(tensor)) covered_ += tensor.dim() - 1;
  }

  Subscript subscript_;
  std::vector<nb::object> items_;
  std::vector<Tensor> indices_;
  int64_t covered_ = 0;
};

// The commonest keys, x[3] and x[1:5] and x[i, j], without parsing. False for any other key.
bool apply_simple(Subscript& subscript, PyObject* key) {
  auto one = [&](PyObject* item) {
    if (PyLong_CheckExact(item)) subscript.select(as_int64(item));
    else if (PySlice_Check(item)) apply_slice(subscript, item);
    else return false;
    return true;
  };
  if (!PyTuple_CheckExact(key)) {
    if (!one(key)) return false;
  } else {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      PyObject* item = PyTuple_GET_ITEM(key, i);
      if (!PyLong_CheckExact(item) && !PySlice_Check(item)) return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) one(PyTuple_GET_ITEM(key, i));
  }
  subscript.keep(subscript.left());
  return true;
}

// ---- assignment

// Leading dimensions of size one do not count: they broadcast to whatever is there, or to nothing.
Tensor without_leading_ones(const Tensor& value) {
  int64_t lead = 0;
  while (lead < value.dim() && value.size(lead) == 1) ++lead;
  return lead == 0 ? value : view(value, value.sizes().subspan(lead));
}

Tensor value_tensor(const Tensor& self, PyObject* value) {
  if (is_tensor(value)) {
    warn_if_discarding(tensor_of(value).dtype(), self.dtype());
    return tensor_of(value);
  }
  Complex<double> complex_number;
  if (is_complex(self.dtype()) && complex_from_object(value, &complex_number))
    return number_operand(value);
  Scalar number;
  if (PyLong_Check(value) && !PyBool_Check(value) && self.dtype() != DType::UInt64)
    number = as_int64(value);
  else if (!element_from_object(value, self.dtype(), &number))
    fail<TypeError>("assignment: can't assign a ", Py_TYPE(value)->tp_name, " to a tensor of ",
                    name(self.dtype()));
  check_element_fits("assignment", number, self.dtype());
  return scalar_tensor(number, self.dtype(), self->device());
}

// The view to write to. Outside the tape a plain alias will do, and all of self is self: what was
// there before then has no part in the history of its gradient.
Tensor target_of(const Tensor& self, const Subscript& subscript, const Tensor& value) {
  if (subscript.is_identity()) return self;
  if (!should_record(self, value)) return subscript.alias();
  // Checked on self: its views are not leaves.
  if (requires_grad(self) && is_leaf(self)) check_inplace("assignment", self, true);
  return subscript.view();
}

void assign_view(const Tensor& self, const Subscript& subscript, const Tensor& value) {
  Tensor target = target_of(self, subscript, value);
  if (value.dim() == 0 && target.dim() > 0) return fill_(target, value);
  Tensor source = value.dim() > target.dim() ? without_leading_ones(value) : value;
  // As in PyTorch, an element in another shape is not the element itself.
  if (target.numel() == 1 && target.dim() > 0 && !same_sizes(value.sizes(), target.sizes()))
    check_apart("assignment", target, {&source});
  // A part of self that is broadcast over self is read at many places: copy_ takes care of that.
  bool shares = source->storage_ref() == target->storage_ref();
  if (shares && can_expand(source.sizes(), target.sizes())) source = expand(source, target.sizes());
  copy_(target, source);
}

void assign_indexed(const Tensor& self, const Key& key, const Tensor& value) {
  Tensor target = target_of(self, key.subscript(), value);
  const std::vector<Tensor>& indices = key.indices();
  bool one_mask = indices.size() == 1 && indices[0].dtype() == DType::Bool && value.numel() == 1;
  if (one_mask && same_sizes(indices[0].sizes(),
                             target.sizes().first(std::min(indices[0].dim(), target.dim())))) {
    DimVector sizes(indices[0].sizes());
    while (static_cast<int64_t>(sizes.size()) < target.dim()) sizes.push_back(1);
    const Tensor mask = to_device(reshape(indices[0], sizes), target->device());
    return masked_fill_(target, mask, reshape(value, {}));
  }
  index_put_(target, indices, without_leading_ones(value), false);
}

}  // namespace

PyObject* tensor_subscript(PyObject* self, PyObject* key) {
  return guarded([&] {
    const Tensor& x = tensor_of(self);
    Subscript simple(x);
    if (apply_simple(simple, key)) return wrap(simple.view());
    Key parts(x, key);
    if (parts.indices().empty()) return wrap(parts.subscript().view());
    return wrap(
        index(parts.subscript().is_identity() ? x : parts.subscript().view(), parts.indices()));
  });
}

int tensor_assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  try {
    TAPEGRAD_CHECK_AS(TypeError, value, "del: a Tensor does not support deleting items");
    const Tensor& x = tensor_of(self);
    Tensor source = value_tensor(x, value);
    Subscript simple(x);
    if (apply_simple(simple, key)) {
      assign_view(x, simple, source);
      return 0;
    }
    Key parts(x, key);
    if (parts.indices().empty()) assign_view(x, parts.subscript(), source);
    else assign_indexed(x, parts, source);
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

}  // namespace tapegrad::python
