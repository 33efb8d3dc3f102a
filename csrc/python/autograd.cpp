// The engine and the modes, as the Python layer calls them.
#include <nanobind/stl/variant.h>

#include "core/error.h"
#include "engine/events.h"
#include "engine/sweep.h"
#include "graph/grad_mode.h"
#include "graph/hooks.h"
#include "graph/record.h"
#include "ops/copy.h"
#include "ops/create.h"
#include "ops/view.h"
#include "python/binding.h"
#include "python/node_object.h"
#include "python/sparse.h"

namespace tapegrad::python {

namespace {

// The gradient a root starts with: given, or one for a scalar.
Tensor root_gradient(const Tensor& root, const Tensor* given) {
  TAPEGRAD_CHECK(
      requires_grad(root),
      "backward: element 0 of tensors does not require grad and does not have a grad_fn");
  if (given) {
    TAPEGRAD_CHECK(same_sizes(given->sizes(), root.sizes()),
                   "backward: Mismatch in shape: grad_output[0] has a shape of ",
                   to_string(given->sizes()), " and output[0] has a shape of ",
                   to_string(root.sizes()));
    TAPEGRAD_CHECK(is_complex(given->dtype()) == is_complex(root.dtype()),
                   "backward: For complex Tensors, both grad_output and output are required to "
                   "be complex, got ",
                   name(root.dtype()), " and ", name(given->dtype()));
    return given->dtype() == root.dtype() ? *given : cast(*given, root.dtype());
  }
  TAPEGRAD_CHECK(!is_complex(root.dtype()),
                 "backward: grad can be implicitly created only for real scalar outputs but got ",
                 name(root.dtype()), "; pass gradient=");
  TAPEGRAD_CHECK(root.numel() == 1,
                 "backward: grad can be implicitly created only for scalar outputs, got one of "
                 "shape ",
                 to_string(root.sizes()), "; pass gradient=, or reduce with .sum() first");
  return ones(root.sizes(), root.dtype(), root->device());
}

// Functions of Python's that want to know of sweeps: tapegrad/tape/sweeps.py.
class PythonListener final : public SweepListener {
 public:
  PythonListener(nb::object begin, nb::object entry)
      : begin_(std::move(begin)), entry_(std::move(entry)) {}

  Finish sweep_begins(const SweepStart& start) override {
    if (begin_.is_none() || start.nested || start.transposing) return {};
    nb::list roots;
    for (const Tensor& root : start.roots) roots.append(nb::steal(wrap(root)));
    nb::object finish = begin_(roots, start.retain_graph);
    if (finish.is_none()) return {};
    return [finish] { finish(); };
  }
  Finish entry_runs(Node& node) override {
    if (!entry_.is_none()) entry_(nb::steal(wrap_node(&node)));
    return {};
  }

 private:
  nb::object begin_, entry_;
};

uintptr_t listen_to_sweeps(nb::object begin, nb::object entry) {
  auto listener = std::make_shared<PythonListener>(std::move(begin), std::move(entry));
  add_listener(listener);
  return reinterpret_cast<uintptr_t>(listener.get());
}

std::vector<Tensor> run_backward(const AnyTensors& given_roots,
                                 const AnyOptionalTensors& given_grads, bool retain_graph,
                                 bool create_graph, const std::optional<AnyTensors>& inputs,
                                 bool accumulate) {
  const std::vector<Tensor>&roots = given_roots.values, &given = given_grads.values;
  TAPEGRAD_CHECK(roots.size() == given.size(), "backward: got ", roots.size(), " tensors and ",
                 given.size(), " gradients");
  TAPEGRAD_CHECK(!inputs || !inputs->values.empty(), "backward: inputs argument cannot be empty");
  std::vector<Tensor> grads;
  for (size_t i = 0; i < roots.size(); ++i)
    grads.push_back(root_gradient(roots[i], given[i].defined() ? &given[i] : nullptr));
  std::span<const Tensor> wanted;
  if (inputs) wanted = inputs->values;
  return sweep(roots, grads, wanted, accumulate,
               {.retain_graph = retain_graph, .create_graph = create_graph});
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
  Tensor grad = root_gradient(self, gradient ? &*gradient : nullptr);
  sweep({&self, 1}, {&grad, 1}, wanted, true,
        {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
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
  b.function(
      "_listen_to_sweeps", listen_to_sweeps, "begin"_a.none(), "entry"_a.none(),
      "Calls begin(roots, retain_graph) before every backward that is no part of another, and "
      "what it returns after it; entry(node) before every entry that runs. Returns what ends "
      "it.");
  b.function("_stop_listening", [](uintptr_t listener) {
    remove_listener(reinterpret_cast<const SweepListener*>(listener));
  }, "listener"_a, "Ends what _listen_to_sweeps() began.");
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
                   "detach_: Can't detach views in-place; use detach() instead");
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
