// The native module tapegrad._C.
#include "core/limits.h"
#include "core/parallel.h"
#include "core/registry.h"
#include "graph/entry_kind.h"
#include "python/binding.h"
#include "python/callback.h"
#include "python/node_object.h"
#include "python/second_look.h"
#include "python/sparse.h"
#include "python/visit_probe.h"

namespace tapegrad::python {

void bind_types(nb::module_ module);
PyObject* accelerator_error();
PyObject* out_of_memory_error();
PyObject* linear_algebra_error();

namespace {

void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const nb::builtin_exception&) {
    throw;  // nanobind's own, such as the request to try the next overload
  } catch (const std::exception&) {
    set_python_error();
  }
}

void release_lock_in_kernels() {
  set_blocking_hooks({[]() -> void* { return PyEval_SaveThread(); },
                      [](void* state) { take_lock(static_cast<PyThreadState*>(state)); }});
}

}  // namespace

NB_MODULE(_C, module) {
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  link_kernels();
  check_derivatives();
  check_interrupts = [] {
    if (PyErr_CheckSignals() < 0) throw nb::python_error();
  };
  bind_types(module);
  nb::handle type(reinterpret_cast<PyObject*>(make_tensor_type()));
  module.attr("Tensor") = type;
  module.attr("_TensorMeta") = nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(type.ptr())));
  module.attr("AcceleratorError") = nb::handle(accelerator_error());
  module.attr("OutOfMemoryError") = nb::handle(out_of_memory_error());
  module.attr("_LinAlgError") = nb::handle(linear_algebra_error());
  module.attr("Node") = nb::handle(reinterpret_cast<PyObject*>(node_class()));
  Binder b(module, type);
  bind_tensor(b);
  bind_view(b);
  bind_pointwise(b);
  bind_create(b);
  bind_autograd(b);
  bind_autocast(b);
  bind_hooks(b);
  bind_nodes(b);
  bind_function(b);
  bind_transforms(b);
  bind_capture(b);
  bind_trace(b);
  bind_tape(b);
  bind_system(b);
  bind_cuda_kernels(b);
  bind_reduce(b);
  bind_softmax(b);
  bind_conv(b);
  bind_normalize(b);
  bind_attention(b);
  bind_recurrent(b);
  bind_scan(b);
  bind_matmul(b);
  bind_linalg(b);
  bind_join(b);
  bind_index(b);
  bind_sort(b);
  bind_random(b);
  bind_complex(b);
  bind_fft(b);
  bind_exchange(b);
  bind_optimizer(b);
  bind_pooling(b);
  bind_profiler(b);
  bind_compress(b);
  bind_cuda(b);
  bind_cuda_graph(b);
  bind_sparse(b);
  bind_second_look(b);
  reroute_all(module);
  find_subtracting_visit();
  release_lock_in_kernels();
}

}  // namespace tapegrad::python
