// Custom functions: an entry whose derivative is Python's. The user's side is
// tapegrad/autograd/function.py; here is the entry and how it joins the graph.
#include <nanobind/stl/shared_ptr.h>

#include <memory>

#include "core/error.h"
#include "core/sparse.h"
#include "graph/record.h"
#include "graph/view.h"
#include "graph/write_log.h"
#include "ops/view_history.h"
#include "python/binding.h"
#include "python/callback.h"
#include "python/collector.h"
#include "python/node_object.h"
#include "python/sparse.h"

namespace tapegrad::python {

namespace {

class FunctionNode;

// What a context knows of its entry: nothing, once that is gone. The entry keeps the context alive,
// not the other way round.
struct EntryLink {
  FunctionNode* node = nullptr;
};

const EntryKind custom_entry("custom", nullptr, EntryKind::Role::Custom, {"tensors*"}, "Function");

class FunctionNode final : public Entry<custom_entry> {
 public:
  FunctionNode(nb::object context, std::string name, std::shared_ptr<EntryLink> link)
      : context_(std::move(context)), name_(std::move(name)), link_(std::move(link)) {
    link_->node = this;
    set_collected();
  }
  ~FunctionNode() override { link_->node = nullptr; }
  const char* name() const override { return name_.c_str(); }
  std::string function() const override {
    nb::object function = nb::getattr(context_, "_function", nb::none());
    if (function.is_none()) return name_;
    return EntryKind::function_of_class(nb::cast<std::string>(function.attr("__name__")));
  }
  void vjp(Gradients grads, Gradients grad_inputs) override;
  SavedReading reading(size_t, const Tensor&) const override { return {SavedUse::Unknown}; }
  void visit(const Visitor& visitor) const override {
    visitor.object(context_.ptr(), visitor.state);
  }
  nb::handle context() const { return context_; }

  // With its history, also while the sweep is not recorded: backward may switch recording on and ask
  // for gradients of what was saved. Functions of saved_tensors_hooks run as the sweep does.
  Tensor saved_tensor(size_t i) const {
    GradMode mode(grad_enabled || !saved_values()[i].packed());
    return saved(i);
  }

 private:
  nb::object context_;
  std::string name_;
  std::shared_ptr<EntryLink> link_;
};

void FunctionNode::vjp(Gradients grads, Gradients grad_inputs) {
  nb::list incoming;
  for (const Tensor& grad : grads) incoming.append(nb::steal(wrap(grad)));
  nb::object result = call_back(nb::object(context_.attr("_run_backward")), nb::tuple(incoming));
  size_t i = 0;
  for (nb::handle item : nb::borrow<nb::tuple>(result)) {
    if (!item.is_none()) grad_inputs[i] = tensor_of(item.ptr());
    ++i;
  }
}

// An output that shows the memory of another tensor must not be written in place, nor that tensor
// while the output is in use: only the function knows what it made of the one to get the other.
void forbid_writes(const Tensor& output) {
  const AutogradMeta* meta = output->meta();
  if (!meta || !meta->extra || !meta->extra->base.defined()) return;
  meta->extra->no_grad_view = false;
  mark_multi_output_views({&output, 1});
}

// Gives the outputs their history, and room for tangents if a jvp will make some. Returns them: an
// output that is an input gets an object of its own, unless it was written in place.
nb::list record_function(nb::object context, const std::string& name,
                         std::shared_ptr<EntryLink> link, AnyTensors given_inputs,
                         AnyTensors given_outputs, const std::vector<bool>& differentiable,
                         const std::vector<Tensor>& dirty,
                         const std::vector<std::optional<Tensor>>& saved, bool awaits_tangents) {
  const std::vector<Tensor>& inputs = given_inputs.values;
  std::vector<Tensor> outputs = std::move(given_outputs.values);
  auto contains = [](const std::vector<Tensor>& list, const Tensor& x) {
    return std::any_of(list.begin(), list.end(), [&](const Tensor& y) { return y.is_same(x); });
  };
  bool recording = false;
  for (const Tensor& input : inputs) recording |= should_record(input);
  for (const Tensor& x : dirty) note_write("a custom function", x);
  for (const Tensor& x : dirty) {
    TAPEGRAD_CHECK(!(recording && requires_grad(x) && begins_graph(x)), name,
                   ": a leaf Variable that requires grad is being used in an in-place operation");
    if (recording) check_view_write(name.c_str(), x, true);
  }
  std::vector<Tensor> given = outputs;
  for (Tensor& output : outputs) {
    if (!contains(inputs, output) || contains(dirty, output)) continue;
    Tensor shown = any_alias(output);
    if (recording && !is_sparse(*output.impl())) mark_view(shown, output);
    output = std::move(shown);
  }
  // What is saved of them also gets the tangents that a jvp makes afterwards.
  if (awaits_tangents)
    for (const Tensor& output : outputs) await_tangents(output);
  if (recording) {
    Ref<FunctionNode> node =
        Node::create<FunctionNode>(inputs.size(), saved.size(), outputs, context, name, link);
    for (size_t i = 0; i < inputs.size(); ++i) node->edges()[i] = gradient_edge(inputs[i]);
    node->stamp();
    for (uint32_t k = 0; k < outputs.size(); ++k) {
      const Tensor& output = outputs[k];
      if (!differentiable[k] || !has_gradient(output.dtype())) continue;
      if (!contains(dirty, output)) {
        set_history(output, node, k);
        forbid_writes(output);
        continue;
      }
      const AutogradMeta* meta = output->meta();
      bool view = meta && meta->extra && meta->extra->base.defined();
      TAPEGRAD_CHECK(!view || (outputs.size() == 1 && inputs[0].is_same(output)), name,
                     ": a view that is marked dirty must be the first input and the only output");
      rebase_history(output, node, k);
    }
    for (size_t i = 0; i < saved.size(); ++i) {
      if (!saved[i]) continue;
      size_t k = 0;
      while (k < given.size() && !given[k].is_same(*saved[i])) ++k;
      bool own = k < given.size() && differentiable[k] && outputs[k].is_same(given[k]);
      if (own) node->save_output(i, outputs[k]);
      else node->save_input(i, *saved[i]);
    }
  }
  nb::list result;
  for (Tensor& output : outputs) result.append(nb::steal(wrap(output)));
  return result;
}

}  // namespace

nb::object function_context(const Node& node) {
  auto* function = dynamic_cast<const FunctionNode*>(&node);
  return function ? nb::borrow(function->context()) : nb::object();
}

void bind_function(Binder& b) {
  nb::class_<EntryLink>(b.module(), "_EntryLink", "What a function's context knows of its entry.")
      .def(nb::init<>())
      .def("saved_tensors",
           [](EntryLink& link) -> nb::object {
    if (!link.node) return nb::none();
    nb::list list;
    // A function that saves nothing has nothing to lose.
    for (size_t i = 0; i < link.node->saved_values().size(); ++i)
      list.append(nb::steal(wrap(link.node->saved_tensor(i))));
    return nb::tuple(list);
  }, "The saved values, checked; None when the entry is gone.")
      .def("node", [](EntryLink& link) { return nb::steal(wrap_node(link.node)); },
           "The entry, or None.");
  b.function("_record_function", record_function, "context"_a, "name"_a, "link"_a, "inputs"_a,
             "outputs"_a, "differentiable"_a, "dirty"_a, "saved"_a, "awaits_tangents"_a = false,
             "Makes a custom function's call an entry of the tape.");
}

}  // namespace tapegrad::python
