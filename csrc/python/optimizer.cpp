// Steps of optimizers, read straight from their parameter groups and state dicts.
#include "ops/optimizer.h"
#include "graph/record.h"
#include "intercept/program.h"
#include "ops/clip.h"
#include "python/binding.h"
#include "python/optimizer.h"

namespace tapegrad::python {

namespace {

// A key of a dict, interned at first use.
PyObject* interned(const char* key) {
  PyObject* object = PyUnicode_InternFromString(key);
  if (!object) throw nb::python_error();
  return object;
}

// A key of the group, and whether it has two numbers.
struct Option {
  PyObject* key;
  bool is_pair;

  explicit Option(const char* name) : key(interned(name)) {
    const std::string_view view(name);
    is_pair = view == "betas" || view == "etas" || view == "step_sizes";
  }
};

// The keys of an optimizer as Python strings.
struct Keys {
  std::vector<Option> options;
  std::vector<PyObject*> states, counts;

  explicit Keys(const OptimizerInfo& info) {
    for (const char* key : info.options) options.emplace_back(key);
    for (const char* key : info.states) states.push_back(interned(key));
    for (const char* key : info.counts) counts.push_back(interned(key));
  }
};

const Keys& keys_of(size_t which) {
  static const std::vector<Keys> all = [] {
    std::vector<Keys> keys;
    for (const OptimizerInfo& info : optimizers()) keys.emplace_back(info);
    return keys;
  }();
  return all[which];
}

// A borrowed item, or null.
PyObject* find(PyObject* dict, PyObject* key) {
  PyObject* item = PyDict_GetItemWithError(dict, key);
  if (!item && PyErr_Occurred()) throw nb::python_error();
  return item;
}

bool is_set(PyObject* dict, PyObject* key) {
  PyObject* item = find(dict, key);
  if (!item || item == Py_False) return false;
  const int truth = PyObject_IsTrue(item);
  if (truth < 0) throw nb::python_error();
  return truth;
}

// The options of a group. Those that are tensors on a device have a zero among the numbers.
struct Options {
  std::vector<double> numbers;
  std::vector<OptionTensor> tensors;
};

bool read_tensor(const Tensor& x, Options& options) {
  if (x.numel() != 1 || x->storage().is_batched()) return false;
  if (x.dtype() != DType::Float64 && x.dtype() != DType::Float32) return false;
  double number = 0;
  if (!x->device().is_cpu()) options.tensors.push_back({options.numbers.size(), x});
  else if (x.dtype() == DType::Float64) number = *read_on_host<double>(x);
  else number = *read_on_host<float>(x);
  options.numbers.push_back(number);
  return true;
}

// A number, or a tensor of one number.
bool read_number(PyObject* object, Options& options) {
  Scalar number;
  if (!object) return false;
  if (PyFloat_CheckExact(object)) {
    options.numbers.push_back(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (is_tensor(object)) return read_tensor(tensor_of(object), options);
  if (!scalar_from_object(object, &number)) return false;
  options.numbers.push_back(number.as_double());
  return true;
}

bool read_pair(PyObject* object, Options& options) {
  if (!object || !(PyTuple_Check(object) || PyList_Check(object))) return false;
  if (PySequence_Fast_GET_SIZE(object) != 2) return false;
  return read_number(PySequence_Fast_GET_ITEM(object, 0), options) &&
         read_number(PySequence_Fast_GET_ITEM(object, 1), options);
}

bool read_option(PyObject* group, const Option& option, Options& options) {
  PyObject* object = find(group, option.key);
  return option.is_pair ? read_pair(object, options) : read_number(object, options);
}

// Native steps that a program of this thread captured: the number of the program's step, the optimizer, the group.
thread_local std::vector<std::tuple<size_t, size_t, nb::object>>* captured_steps = nullptr;

bool step(size_t which, nb::handle params, nb::handle state, nb::handle group,
          std::optional<Tensor> found_inf) {
  static PyObject* const differentiable = interned("differentiable");
  static PyObject* const capturable = interned("capturable");
  if (which >= optimizers().size() || !PyList_Check(params.ptr()) || !PyDict_Check(state.ptr()) ||
      !PyDict_Check(group.ptr()))
    return false;
  if (is_set(group.ptr(), differentiable)) return false;
  const Keys& keys = keys_of(which);
  Options options;
  options.numbers.reserve(16);
  for (const Option& option : keys.options)
    if (!read_option(group.ptr(), option, options)) return false;

  // Row by row: gradients, parameters, each state, each count.
  std::vector<PyObject*> chosen;
  chosen.reserve(static_cast<size_t>(PyList_GET_SIZE(params.ptr())));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params.ptr()); ++i) {
    PyObject* param = PyList_GET_ITEM(params.ptr(), i);
    if (!is_tensor(param)) return false;
    const AutogradMeta* meta = impl_of(param)->meta();
    if (meta && meta->grad.defined()) chosen.push_back(param);
  }
  const size_t count = chosen.size();
  if (count == 0) return true;
  if (impl_of(chosen[0])->device().is_cpu() && is_set(group.ptr(), capturable)) return false;
  const size_t states = keys.states.size(), counts = keys.counts.size();
  std::vector<Tensor> operands((2 + states + counts) * count);
  for (size_t i = 0; i < count; ++i) {
    operands[i] = impl_of(chosen[i])->meta()->grad;
    operands[count + i] = tensor_of(chosen[i]);
    if (states + counts == 0) continue;
    PyObject* entry = find(state.ptr(), chosen[i]);
    if (!entry || !PyDict_Check(entry)) return false;
    for (size_t k = 0; k < states + counts; ++k) {
      PyObject* value = find(entry, k < states ? keys.states[k] : keys.counts[k - states]);
      if (!value || !is_tensor(value)) return false;
      operands[(2 + k) * count + i] = tensor_of(value);
    }
  }
  const bool is_done = optimizer_step(which, operands, count, options.numbers, options.tensors,
                                      found_inf ? *found_inf : Tensor());
  if (is_done && capturing && captured_steps) [[unlikely]]
    captured_steps->emplace_back(capturing->steps().size() - 1, which, nb::borrow(group));
  return is_done;
}

// Runs a function and returns what it returned, with the native steps that were captured meanwhile.
nb::object with_steps(nb::callable function) {
  std::vector<std::tuple<size_t, size_t, nb::object>> steps;
  auto* const outer = std::exchange(captured_steps, &steps);
  nb::object result = nb::steal(PyObject_CallNoArgs(function.ptr()));
  captured_steps = outer;
  if (!result.is_valid()) throw nb::python_error();
  return nb::make_tuple(result, steps);
}

bool drop_gradients(nb::handle params) {
  if (!PyList_Check(params.ptr())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params.ptr()); ++i) {
    PyObject* param = PyList_GET_ITEM(params.ptr(), i);
    if (!is_tensor(param)) return false;
    if (AutogradMeta* meta = impl_of(param)->meta()) {
      // Whatever goes with it may run Python, which may change the list.
      Tensor last = std::move(meta->grad);
      meta->grad = Tensor();
    }
  }
  return true;
}

}  // namespace

bool read_optimizer_options(size_t which, nb::handle group, std::vector<double>& numbers) {
  Options options;
  if (which >= optimizers().size() || !PyDict_Check(group.ptr())) return false;
  for (const Option& option : keys_of(which).options) {
    PyObject* object = find(group.ptr(), option.key);
    if (object && is_tensor(object)) return false;
    if (!read_option(group.ptr(), option, options)) return false;
  }
  numbers = std::move(options.numbers);
  return true;
}

void bind_optimizer(Binder& b) {
  b.function("_optimizer_names", [] {
    nb::list names;
    for (const OptimizerInfo& info : optimizers()) names.append(info.op.name);
    return names;
  }, "The native steps of optimizers, in the order of their numbers.");
  b.function("_optimizer_step", step, "which"_a, "params"_a, "state"_a, "group"_a,
             "found_inf"_a.none() = nb::none(),
             "Takes a step with a parameter group, which the device leaves out if a number is not "
             "zero; False where that is left to Python.");
  b.function(
      "_with_optimizer_steps", with_steps, "function"_a,
      "(result, steps) of a function that a program captures: (step, optimizer, group) of each "
      "native step.");
  b.function("_drop_gradients", drop_gradients, "params"_a,
             "Sets the gradients of a list of parameters to None.");
  b.function("_total_norm", [](const std::vector<Tensor>& tensors, double p) {
    return total_norm(tensors, p);
  }, "tensors"_a, "p"_a, "The norm of all tensors as one vector; None where that is composed.");
  b.function("_scale_tensors", [](const std::vector<Tensor>& tensors, const Tensor& factor) {
    return scale_tensors(tensors, factor);
  }, "tensors"_a, "factor"_a, "Multiplies tensors in place; False where that is composed.");
  b.function("_amp_foreach_non_finite_check_and_unscale_",
             [](const std::vector<Tensor>& tensors, const Tensor& found_inf,
                const Tensor& inv_scale) { unscale_tensors(tensors, found_inf, inv_scale); },
             "self"_a, "found_inf"_a, "inv_scale"_a,
             "Multiplies tensors in place, and sets found_inf to one if an element is not finite.");
  b.function(
      "_amp_update_scale_",
      [](Tensor self, const Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
         double backoff_factor, int64_t growth_interval) {
    update_scale(self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
    return self;
  },
      "self"_a, "growth_tracker"_a, "found_inf"_a, "scale_growth_factor"_a,
      "scale_backoff_factor"_a, "growth_interval"_a,
      "Makes a scale smaller if found_inf is not zero, and larger after enough calls where it is.");
}

}  // namespace tapegrad::python
