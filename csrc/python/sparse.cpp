// See Note [A sparse tensor is no Tensor in C++].
#include "python/sparse.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "core/sparse.h"
#include "graph/record.h"
#include "graph/write_log.h"
#include "intercept/capture.h"
#include "intercept/program.h"
#include "ops/sparse.h"
#include "ops/view.h"
#include "python/callback.h"
#include "python/second_look.h"
#include "python/tensor_properties.h"

namespace tapegrad::python {

PyTypeObject* sparse_type = nullptr;

namespace {

// What Python gave: the class of handles, and the functions behind them.
PyTypeObject* handle_type = nullptr;
PyObject *call_rule = nullptr, *add_gradients = nullptr, *accumulate = nullptr, *densify = nullptr;

// ---- routes

bool holds_sparse(PyObject* object) {
  if (is_sparse_tensor(object)) return true;
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (is_sparse_tensor(PySequence_Fast_GET_ITEM(object, i))) return true;
  return false;
}

bool any_sparse(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  const Py_ssize_t all = count + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  return (self && is_sparse_tensor(self)) || std::any_of(args, args + all, holds_sparse);
}

PyObject* run_rule(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* keywords) noexcept {
  return guarded([&] {
    nb::list given;
    if (self) given.append(nb::handle(self));
    for (Py_ssize_t i = 0; i < count; ++i) given.append(nb::handle(args[i]));
    nb::dict named;
    for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); ++i)
      named[nb::handle(PyTuple_GET_ITEM(keywords, i))] = nb::handle(args[count + i]);
    return call_back(nb::handle(call_rule), nb::str(name), nb::tuple(given), named).release().ptr();
  });
}

// nanobind calls its functions in a few ways, which stand in every function object. What stood there
// before, by the number of its replacement. See also Note [A refused call gets a second look].
constexpr size_t kWays = 16;
std::array<vectorcallfunc, kWays> ways{};

template <size_t kWay>
PyObject* rerouted(PyObject* function, PyObject* const* args, size_t flagged, PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(flagged);
  if (!sparse_tensors || !any_sparse(nullptr, args, count, keywords)) [[likely]] {
    PyObject* result = ways[kWay](function, args, flagged, keywords);
    return result ? result : second_look(function, args, count, keywords);
  }
  return guarded([&] {
    const auto name = nb::cast<std::string>(nb::handle(function).attr("__name__"));
    return run_rule(name.c_str(), nullptr, args, count, keywords);
  });
}

template <size_t... kEach>
constexpr std::array<vectorcallfunc, kWays> replacements(std::index_sequence<kEach...>) {
  return {rerouted<kEach>...};
}

// What takes sparse tensors itself.
bool takes_any_layout(std::string_view name) {
  return name.starts_with("_sparse") || name == "_record_function" || name == "run_backward" ||
         name == "_tensor_hooks" || name == "_accumulate_hooks" || name == "_storage_id";
}

void reroute(nb::handle object) {
  const std::string_view type = Py_TYPE(object.ptr())->tp_name;
  if (!type.ends_with("nb_func") && !type.ends_with("nb_method")) return;
  if (takes_any_layout(nb::cast<std::string>(object.attr("__name__")))) return;
  const Py_ssize_t offset = Py_TYPE(object.ptr())->tp_vectorcall_offset;
  auto& way = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(object.ptr()) + offset);
  constexpr auto kReplacements = replacements(std::make_index_sequence<kWays>());
  if (std::find(kReplacements.begin(), kReplacements.end(), way) != kReplacements.end()) return;
  auto* known = std::find(ways.begin(), ways.end(), way);
  if (known == ways.end()) known = std::find(ways.begin(), ways.end(), nullptr);
  TAPEGRAD_CHECK(known != ways.end(), "internal error: more ways to call a function than expected");
  *known = way;
  way = kReplacements[static_cast<size_t>(known - ways.begin())];
}

}  // namespace

void reroute_all(nb::handle module) {
  for (nb::handle value : nb::dict(module.attr("__dict__")).values()) {
    reroute(value);
    if (!PyModule_Check(value.ptr())) continue;  // a family of functions
    for (nb::handle inside : nb::dict(value.attr("__dict__")).values()) reroute(inside);
  }
  auto* type = reinterpret_cast<PyObject*>(tensor_type);
  nb::object dict = nb::handle(type).attr("__dict__");
  for (nb::handle value : nb::list(dict.attr("values")())) reroute(value);
}

namespace {

// ---- handles

nb::object make_handle(nb::object parts, DType dtype, const IntList& sizes) {
  TAPEGRAD_CHECK(handle_type, "internal error: there is no class of sparse tensors");
  if (capturing) capturing->refuse("it makes sparse tensors");
  const Tensor handle = sparse_handle(parts.release().ptr(), [](void* object) {
    Py_DECREF(static_cast<PyObject*>(object));
  }, dtype, sizes);
  return nb::steal(wrap(with_sparse_object(handle)));
}

nb::object parts_of(const AnyTensor& x) {
  TAPEGRAD_CHECK_AS(TypeError, is_sparse(*x.impl()), "expected a sparse tensor");
  // What the parts are may change without a call.
  if (capturing) capturing->refuse("it computes with sparse tensors");
  return nb::borrow(nb::handle(static_cast<PyObject*>(sparse_parts(*x.impl()))));
}

// The properties that a sparse tensor shares with others, as they are.
PyGetSetDef* handle_properties() {
  static std::vector<PyGetSetDef> chosen;
  constexpr std::string_view kShared[] = {
      "shape",   "dtype",        "device",   "ndim",      "requires_grad", "grad",
      "grad_fn", "is_leaf",      "_version", "output_nr", "retains_grad",  "is_cpu",
      "is_cuda", "is_quantized", "is_meta",  "__dict__",  "itemsize"};
  for (PyGetSetDef* each = tensor_properties(); each->name; ++each)
    if (std::find(std::begin(kShared), std::end(kShared), each->name) != std::end(kShared))
      chosen.push_back(*each);
  chosen.push_back({});
  return chosen.data();
}

Tensor call_for_tensor(PyObject* function, const Tensor& a, const Tensor& b, bool flag) {
  const nb::object result =
      call_back(nb::handle(function), nb::steal(wrap(a)), nb::steal(wrap(b)), nb::bool_(flag));
  TAPEGRAD_CHECK_AS(TypeError, is_any_tensor(result.ptr()), "expected a tensor");
  return tensor_of(result.ptr());
}

void register_rules(nb::handle type, nb::object call, nb::object add, nb::object accumulate_grad,
                    nb::object to_dense) {
  handle_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  call_rule = call.release().ptr();
  add_gradients = add.release().ptr();
  accumulate = accumulate_grad.release().ptr();
  densify = to_dense.release().ptr();
  sparse_calls.to_dense = [](const Tensor& x) {
    const nb::object result = call_back(nb::handle(densify), nb::steal(wrap(x)));
    TAPEGRAD_CHECK_AS(TypeError, is_tensor(result.ptr()), "expected a dense tensor");
    return tensor_of(result.ptr());
  };
  sparse_calls.add = [](const Tensor& a, const Tensor& b) {
    return call_for_tensor(add_gradients, a, b, false);
  };
  sparse_calls.accumulate = [](const Tensor& sum, const Tensor& grad, bool create_graph) {
    return call_for_tensor(accumulate, sum, grad, create_graph);
  };
}

}  // namespace

PyObject* failed(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t count,
                 PyObject* keywords) noexcept {
  if (sparse_tensors && any_sparse(self, args, count, keywords)) {
    // What the exception says is that a sparse tensor is none.
    PyErr_Clear();
    return run_rule(name, self, args, count, keywords);
  }
  set_python_error();
  return second_look(name, self, args, count, keywords);
}

Tensor with_sparse_object(const Tensor& handle) {
  const nb::object object = nb::steal(wrap_as(handle_type, handle));
  return tensor_of(object.ptr());
}

Tensor any_alias(const Tensor& x) {
  if (is_sparse(*x.impl())) return with_sparse_object(sparse_alias(x));
  return alias(x, x.sizes(), x.strides(), x->offset());
}

bool tensors_from_object(PyObject* object, bool may_be_none, std::vector<Tensor>& values) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
  values.clear();
  values.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(object, i);
    if (is_any_tensor(item)) values.push_back(tensor_of(item));
    else if (may_be_none && item == Py_None) values.emplace_back();
    else return false;
  }
  return true;
}

void bind_sparse(Binder& b) {
  sparse_type = make_sparse_type(handle_properties());
  b.module().attr("_SparseBase") = nb::handle(reinterpret_cast<PyObject*>(sparse_type));
  b.function("_sparse_register", register_rules, "cls"_a, "call"_a, "add"_a, "accumulate"_a,
             "to_dense"_a,
             "Takes the class of sparse tensors, and the functions for ops and gradients.");
  b.function("_sparse_handle", make_handle, "parts"_a, "dtype"_a, "shape"_a,
             "A sparse tensor that holds these parts.");
  b.function("_sparse_parts", parts_of, "tensor"_a, "What a sparse tensor holds.");
  b.function("_sparse_detach", [](const AnyTensor& x) { return AnyTensor{any_alias(x)}; },
             "tensor"_a, "The same parts without history.");
  b.function("_sparse_reshape", [](const AnyTensor& x, const IntList& shape) {
    x->set_geometry(shape, DimVector(shape.values.size(), 0), 0);
  }, "tensor"_a, "shape"_a, "Gives a sparse tensor another shape, in place.");
  b.function("_sparse_wrote", [](const char* op, const AnyTensor& x) { note_write(op, x); }, "op"_a,
             "tensor"_a, "Declares the parts of a sparse tensor written to.");
  b.function("_sparse_requires_grad", [](const AnyTensor& x, bool value) {
    set_requires_grad(x, value);
  }, "tensor"_a, "value"_a, "Changes whether gradients are wanted.");
  b.function("_sparse_retain_grad", [](const AnyTensor& x) { retain_grad(x); }, "tensor"_a,
             "Makes a sparse tensor keep its gradient.");
  b.function("_csr_mm", csr_mm, "starts"_a, "columns"_a, "values"_a, "dense"_a,
             "A matrix given by its rows times a dense one.");
  b.function("_csr_sampled_mm", csr_sampled_mm, "starts"_a, "columns"_a, "a"_a, "b"_a,
             "Of a @ b.mT, the elements at the places of a matrix given by its rows.");
  b.function("_counting_order", counting_order, "numbers"_a, "count"_a,
             "Where each number would begin among the sorted ones, and the order that sorts them.");
}

}  // namespace tapegrad::python
