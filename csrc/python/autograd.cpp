// The engine and the modes, as the Python layer calls them.
#include <nanobind/stl/variant.h>

#include "core/error.h"
#include "engine/sweep.h"
#include "graph/grad_mode.h"
#include "graph/hooks.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/view.h"
#include "python/binding.h"

namespace tapegrad::python {

namespace {

// The gradient a root starts with: given, or one for a scalar.
Tensor root_gradient(const Tensor& root, const std::optional<Tensor>& given) {
  TAPEGRAD_CHECK(
      requires_grad(root),
      "backward: element 0 of tensors does not require grad and does not have a grad_fn");
  if (given) {
    TAPEGRAD_CHECK(same_sizes(given->sizes(), root.sizes()),
                   "backward: mismatch in shape: a "
                   "gradient of shape ",
                   to_string(given->sizes()),
                   " was given for an output of "
                   "shape ",
                   to_string(root.sizes()));
    return given->dtype() == root.dtype() ? *given : cast(*given, root.dtype());
  }
  TAPEGRAD_CHECK(root.numel() == 1,
                 "backward: grad can be implicitly created only for scalar outputs, got one of "
                 "shape ",
                 to_string(root.sizes()), "; pass gradient=, or reduce with .sum() first");
  return ones(root.sizes(), root.dtype(), root->device());
}

// Who is told of every sweep that is no part of another, or null: tapegrad/tape/sweeps.py.
PyObject* sweep_listener = nullptr;

void set_sweep_listener(nb::object listener) {
  Py_XSETREF(sweep_listener, listener.is_none() ? nullptr : listener.inc_ref().ptr());
}

// Runs a sweep, after telling the listener; what that returns is called when the sweep is over.
template <class Run>
auto announced(std::span<const Tensor> roots, bool retain_graph, Run&& run) {
  if (!sweep_listener || sweeps_running > 0) [[likely]]
    return run();
  nb::list list;
  for (const Tensor& root : roots) list.append(nb::steal(wrap(root)));
  nb::object after = nb::borrow(sweep_listener)(list, retain_graph);
  try {
    auto result = run();
    if (!after.is_none()) after();
    return result;
  } catch (...) {
    if (!after.is_none()) after();
    throw;
  }
}

std::vector<Tensor> run_backward(const std::vector<Tensor>& roots,
                                 const std::vector<std::optional<Tensor>>& given, bool retain_graph,
                                 bool create_graph,
                                 const std::optional<std::vector<Tensor>>& inputs,
                                 bool accumulate) {
  TAPEGRAD_CHECK(roots.size() == given.size(), "backward: got ", roots.size(), " tensors and ",
                 given.size(), " gradients");
  TAPEGRAD_CHECK(!inputs || !inputs->empty(), "backward: inputs argument cannot be empty");
  std::vector<Tensor> grads;
  for (size_t i = 0; i < roots.size(); ++i) grads.push_back(root_gradient(roots[i], given[i]));
  std::span<const Tensor> wanted;
  if (inputs) wanted = *inputs;
  return announced(roots, retain_graph, [&] {
    return sweep(roots, grads, wanted, accumulate, {retain_graph, create_graph});
  });
}

// x.backward() with nothing else: the hot path.
void backward(const Tensor& self, const std::optional<Tensor>& gradient,
              std::optional<bool> retain_graph, bool create_graph,
              const std::optional<std::variant<Tensor, std::vector<Tensor>>>& inputs) {
  std::span<const Tensor> wanted;
  if (inputs && inputs->index() == 0) wanted = {&std::get<0>(*inputs), 1};
  if (inputs && inputs->index() == 1) {
    wanted = std::get<1>(*inputs);
    TAPEGRAD_CHECK(!wanted.empty(), "backward: inputs argument cannot be empty");
  }
  Tensor grad = root_gradient(self, gradient);
  const SweepOptions options{retain_graph.value_or(create_graph), create_graph};
  announced({&self, 1}, options.retain_graph,
            [&] { return sweep({&self, 1}, {&grad, 1}, wanted, true, options); });
}

}  // namespace

void bind_autograd(Binder& b) {
  b.function("run_backward", run_backward, "roots"_a, "grad_roots"_a, "retain_graph"_a,
             "create_graph"_a, "inputs"_a.none(), "accumulate"_a,
             "The reverse sweep. Returns the inputs' gradients unless they are accumulated.");
  b.method("backward", backward, "gradient"_a.none() = nb::none(),
           "retain_graph"_a.none() = nb::none(), "create_graph"_a = false,
           "inputs"_a.none() = nb::none(),
           "Computes the gradients of this tensor with respect to the leaves of its graph.\n\n"
           "Args:\n"
           "    gradient: the gradient of this tensor; may be left out for a scalar.\n"
           "    retain_graph: keep what the graph saved, for another backward.\n"
           "    create_graph: record the sweep itself, for higher-order gradients.\n"
           "    inputs: accumulate into these tensors only.\n\n"
           "Example:\n"
           "    >>> x = torch.tensor(3.0, requires_grad=True)\n"
           "    >>> (x * x).backward()\n"
           "    >>> x.grad\n"
           "    tensor(6.)\n");
  b.function("_set_sweep_listener", set_sweep_listener, "listener"_a.none(),
             "Calls a function with (roots, retain_graph) before every backward, or none.");
  b.function("is_grad_enabled", [] { return grad_enabled; },
             "Whether ops are recorded on this thread.");
  b.function("set_grad_enabled", [](bool enabled) { grad_enabled = enabled; }, "enabled"_a,
             "Turns recording on or off on this thread.");
  b.method("requires_grad_", [](Tensor self, bool value) {
    set_requires_grad(self, value);
    return self;
  }, "requires_grad"_a = true, "Changes whether gradients are wanted, in place.");
  b.method("_is_view", [](const Tensor& self) {
    const AutogradMeta* meta = self->meta();
    return meta && meta->extra && meta->extra->base.defined();
  }, "Whether the tensor is a view of another.");
  b.method("retain_grad", [](const Tensor& self) { retain_grad(self); },
           "Makes a non-leaf tensor keep its gradient in .grad.");
  b.method("detach", [](const Tensor& self) { return detach(self); },
           "The same memory without history.");
  b.function("detach", [](const Tensor& input) { return detach(input); }, "input"_a,
             "The same memory without history.");
  b.method("detach_", [](Tensor self) {
    const AutogradMeta* before = self->meta();
    TAPEGRAD_CHECK(!(before && before->extra && before->extra->base.defined()),
                   "detach_: can't detach views in-place; use detach() instead");
    if (!is_leaf(self)) {
      AutogradMeta* meta = self->meta();
      uint32_t rewrites = meta->rewrites;
      self->set_meta(nullptr);
      destroy_autograd_meta(self.impl(), meta);
      if (rewrites != 0) ensure_meta(self).rewrites = rewrites;  // views of it go on comparing
    } else if (self->meta()) {
      ensure_meta(self).requires_grad = false;
    }
    return self;
  }, "Forgets this tensor's history.");
}

}  // namespace tapegrad::python
