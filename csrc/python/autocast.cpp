// The state of autocast in Python; the blocks themselves are in tapegrad/amp/autocast_mode.py.
#include "ops/autocast.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/error.h"
#include "python/binding.h"
#include "python/tensor_object.h"

namespace tapegrad::python {

namespace {

// By its name alone, or with the number of a device. There need not be one.
DeviceType device_type_of(const std::string& device_type) {
  const std::string type = device_type.substr(0, device_type.find(':'));
  for (DeviceType each : {DeviceType::CPU, DeviceType::CUDA})
    if (type == name(each)) return each;
  fail("autocast: unknown device type for autocast, expected 'cpu' or 'cuda', got '", device_type,
       "'");
}

bool is_enabled(const std::string& device_type) {
  return autocast_devices & device_bit(device_type_of(device_type));
}

void set_enabled(const std::string& device_type, bool enabled) {
  const uint8_t bit = device_bit(device_type_of(device_type));
  autocast_devices =
      static_cast<uint8_t>(enabled ? autocast_devices | bit : autocast_devices & ~bit);
}

DType get_dtype(const std::string& device_type) {
  return autocast_settings.dtype(device_type_of(device_type));
}

void set_dtype(const std::string& device_type, DType dtype) {
  autocast_settings.dtypes[static_cast<int>(device_type_of(device_type))] = dtype;
}

void bind_state(Binder& b) {
  const char* kIsEnabled = R"(Whether autocast is on for a device type on this thread.

Args:
    device_type: "cpu" or "cuda"; "cuda" if there is none.

Example:
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
)";
  b.function("is_autocast_enabled", is_enabled, "device_type"_a = "cuda", kIsEnabled);
  b.function("set_autocast_enabled", set_enabled, "device_type"_a, "enabled"_a,
             R"(Turns autocast on or off for a device type on this thread; use torch.autocast.

Args:
    device_type: "cpu" or "cuda"; without it, "cuda".
    enabled: whether it is on.
)");
  b.function("set_autocast_enabled", [](bool enabled) { set_enabled("cuda", enabled); },
             "enabled"_a);
  b.function("get_autocast_dtype", get_dtype, "device_type"_a,
             R"(The dtype that autocast casts to on a device type.

Args:
    device_type: "cpu" or "cuda".

Example:
    >>> torch.get_autocast_dtype("cpu")
    torch.bfloat16
)");
  b.function("set_autocast_dtype", set_dtype, "device_type"_a, "dtype"_a,
             R"(Sets the dtype that autocast casts to on a device type; use torch.autocast.

Args:
    device_type: "cpu" or "cuda".
    dtype: float16 or bfloat16.
)");
  b.function("is_autocast_cache_enabled", [] { return autocast_settings.caches; },
             "Whether autocast keeps the casts of parameters until the outermost block is left.");
  b.function("set_autocast_cache_enabled", [](bool enabled) { autocast_settings.caches = enabled; },
             "enabled"_a,
             R"(Says whether autocast keeps the casts of parameters; use torch.autocast.

Args:
    enabled: whether it does.
)");
  b.function("clear_autocast_cache", [] { clear_kept_casts(); },
             "Drops the casts of parameters that autocast has kept on this thread.");
  b.function("autocast_increment_nesting", [] { return ++autocast_settings.nesting; },
             "Enters a block of autocast; returns how many this thread is in.");
  b.function("autocast_decrement_nesting", [] { return --autocast_settings.nesting; },
             "Leaves a block of autocast; returns how many this thread is in.");
}

// A name of old code, which warns.
template <class F, class... Extra>
void bind_deprecated(Binder& b, const char* name, const char* instead, F function,
                     const Extra&... extra) {
  const std::string doc = concat("Deprecated: use torch.", instead, ".");
  b.function(name, function, extra..., doc.c_str());
}
void warn_deprecated(const char* name, const char* instead) {
  const std::string text =
      concat("torch.", name, " is deprecated. Please use torch.", instead, " instead.");
  if (PyErr_WarnEx(PyExc_DeprecationWarning, text.c_str(), 1) < 0) throw nb::python_error();
}

void bind_old_names(Binder& b) {
  bind_deprecated(b, "is_autocast_cpu_enabled", "is_autocast_enabled('cpu')", [] {
    warn_deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')");
    return is_enabled("cpu");
  });
  bind_deprecated(b, "set_autocast_cpu_enabled", "set_autocast_enabled('cpu', enabled)",
                  [](bool enabled) {
    warn_deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)");
    set_enabled("cpu", enabled);
  }, "enabled"_a);
  bind_deprecated(b, "get_autocast_cpu_dtype", "get_autocast_dtype('cpu')", [] {
    warn_deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')");
    return get_dtype("cpu");
  });
  bind_deprecated(b, "get_autocast_gpu_dtype", "get_autocast_dtype('cuda')", [] {
    warn_deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')");
    return get_dtype("cuda");
  });
  bind_deprecated(b, "set_autocast_cpu_dtype", "set_autocast_dtype('cpu', dtype)", [](DType dtype) {
    warn_deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)");
    set_dtype("cpu", dtype);
  }, "dtype"_a);
  bind_deprecated(b, "set_autocast_gpu_dtype", "set_autocast_dtype('cuda', dtype)",
                  [](DType dtype) {
    warn_deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)");
    set_dtype("cuda", dtype);
  }, "dtype"_a);
}

// ---- blocks

// What a thread leaves when it enters a block, and comes back to. The innermost is the last.
struct OuterState {
  uint8_t devices;
  DType dtypes[kDeviceTypes];
  bool caches;
};
thread_local std::vector<OuterState> outer_states;

OuterState current_state() {
  OuterState state{autocast_devices, {}, autocast_settings.caches};
  std::copy_n(autocast_settings.dtypes, kDeviceTypes, state.dtypes);
  return state;
}

void set_state(const OuterState& state) {
  autocast_devices = state.devices;
  std::copy_n(state.dtypes, kDeviceTypes, autocast_settings.dtypes);
  autocast_settings.caches = state.caches;
}

void begin_block() {
  outer_states.push_back(current_state());
  ++autocast_settings.nesting;
}

void enter_block(const std::string& device_type, DType dtype, bool enabled, bool caches) {
  device_type_of(device_type);
  begin_block();
  set_enabled(device_type, enabled);
  set_dtype(device_type, dtype);
  autocast_settings.caches = caches;
}

// The state of another time, to be brought back by a block.
using NotedState = std::tuple<int, DType, DType, bool>;

NotedState note_state() {
  return {autocast_devices, autocast_settings.dtype(DeviceType::CPU),
          autocast_settings.dtype(DeviceType::CUDA), autocast_settings.caches};
}

void enter_noted(const NotedState& noted) {
  const auto [devices, cpu, cuda, caches] = noted;
  begin_block();
  set_state({static_cast<uint8_t>(devices), {cpu, cuda, DType::Float32}, caches});
}

// Casts are kept until the outermost block is left.
void leave_block() {
  TAPEGRAD_CHECK(!outer_states.empty(), "autocast: left a block that this thread has not entered");
  if (--autocast_settings.nesting == 0) clear_kept_casts();
  set_state(outer_states.back());
  outer_states.pop_back();
}

void bind_blocks(Binder& b) {
  b.function("_enter_autocast", enter_block, "device_type"_a, "dtype"_a, "enabled"_a, "caches"_a,
             "Enters a block of autocast.");
  b.function("_autocast_state", note_state, "The state of autocast on this thread.");
  b.function("_enter_autocast_state", enter_noted, "state"_a,
             "Enters a block with the state that _autocast_state() gave.");
  b.function("_leave_autocast", leave_block, "Leaves the innermost block of autocast.");
}

// ---- functions written in Python

Cast cast_named(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(Cast::Refused); ++i)
    if (text == name(static_cast<Cast>(i))) return static_cast<Cast>(i);
  fail<ValueError>("casts: expected 'none', 'lower', 'float32', 'widest' or 'refused', got '", text,
                   "'");
}

// The number of a new rule. Rules live as long as the program, as those of native functions do.
size_t add_rule(const std::string& function, const std::string& cpu, const std::string& cuda) {
  new CastRule(strdup(function.c_str()), cast_named(cpu), cast_named(cuda));
  return all_cast_rules().size() - 1;
}

// ---- functions that are written in Python

bool is_list_or_tuple(PyObject* value) {
  return PyList_CheckExact(value) || PyTuple_CheckExact(value);
}

// A list may hold itself: then Python's own error is raised before the stack is used up.
class Recursion {
 public:
  Recursion() {
    if (Py_EnterRecursiveCall(" in a function under autocast")) throw nb::python_error();
  }
  ~Recursion() { Py_LeaveRecursiveCall(); }
  Recursion(const Recursion&) = delete;
  Recursion& operator=(const Recursion&) = delete;
};

void collect_tensors(PyObject* value, std::vector<Tensor>& tensors) {
  if (is_tensor(value)) return tensors.push_back(tensor_of(value));
  if (!is_list_or_tuple(value)) return;
  const Recursion recursion;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    collect_tensors(PySequence_Fast_GET_ITEM(value, i), tensors);
}

constexpr const char* kChanged = "autocast: a list changed while its tensors were cast";

// The value with its tensors, and those of lists and tuples in it, replaced one after the other.
nb::object with_tensors(PyObject* value, std::span<const Tensor>& left) {
  if (is_tensor(value)) {
    // Casting may have run Python, which may have put more into a list.
    TAPEGRAD_CHECK(!left.empty(), kChanged);
    const Tensor tensor = left.front();
    left = left.subspan(1);
    if (tensor.impl() == tensor_of(value).impl()) return nb::borrow(value);
    return nb::steal(wrap(tensor));
  }
  if (!is_list_or_tuple(value)) return nb::borrow(value);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  const bool is_list = PyList_CheckExact(value);
  nb::object result = nb::steal(is_list ? PyList_New(count) : PyTuple_New(count));
  if (!result.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0; i < count; ++i) {
    TAPEGRAD_CHECK(PySequence_Fast_GET_SIZE(value) == count, kChanged);
    PyObject* item = with_tensors(PySequence_Fast_GET_ITEM(value, i), left).release().ptr();
    if (is_list) PyList_SET_ITEM(result.ptr(), i, item);
    else PyTuple_SET_ITEM(result.ptr(), i, item);
  }
  return result;
}

// Calls a function with cast tensors, and autocast lifted.
nb::object call_cast(size_t rule, nb::handle function, const nb::tuple& arguments,
                     const nb::dict& options) {
  std::vector<Tensor> tensors;
  collect_tensors(arguments.ptr(), tensors);
  for (nb::handle value : options.values()) collect_tensors(value.ptr(), tensors);
  cast_operands(*all_cast_rules().at(rule), tensors);
  std::span<const Tensor> left(tensors);
  const nb::object cast_arguments = with_tensors(arguments.ptr(), left);
  nb::dict cast_options;
  for (auto [name, value] : options) cast_options[name] = with_tensors(value.ptr(), left);
  const WithoutAutocast lifted;
  PyObject* result = PyObject_Call(function.ptr(), cast_arguments.ptr(), cast_options.ptr());
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

void bind_rules(Binder& b) {
  b.function("_autocast_devices", [] { return int{autocast_devices}; },
             "For which devices autocast is in force on this thread, by bit.");
  b.function("_add_cast_rule", add_rule, "function"_a, "cpu"_a, "cuda"_a,
             "Says what autocast does with a function; returns the number of the rule.");
  b.function("_call_cast", call_cast, "rule"_a, "function"_a, "arguments"_a, "options"_a,
             "Calls a function as autocast does, by the number of its rule.");
  b.function("_cast_rules", [] {
    nb::list found;
    for (const CastRule* rule : all_cast_rules())
      found.append(nb::make_tuple(rule->function, name(rule->on(DeviceType::CPU)),
                                  name(rule->on(DeviceType::CUDA))));
    return found;
  }, "(function, on the CPU, on CUDA) of every function that autocast knows.");
}

}  // namespace

void bind_autocast(Binder& b) {
  bind_state(b);
  bind_old_names(b);
  bind_blocks(b);
  bind_rules(b);
}

}  // namespace tapegrad::python
