"""Hooks on tensors and on graph nodes, their handles and order, and the edges of the graph."""

import gc
import weakref

import pytest

from .values import constant, leaf


def test_a_tensor_hook_sees_the_gradient(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    (x * 3).sum().backward()
    assert seen == [[3.0]] and x.grad.tolist() == [3.0]


def test_a_tensor_hook_on_an_inner_tensor(torch):
    seen = []
    x = leaf(torch, [2.0])
    y = x * 3
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    (y * 5).sum().backward()
    assert seen == [[5.0]] and x.grad.tolist() == [15.0]


def test_a_tensor_hook_may_replace_the_gradient(torch):
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: grad * 10)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [30.0]


def test_a_replacement_on_an_inner_tensor_flows_on(torch):
    x = leaf(torch, [2.0])
    y = x * 3
    y.register_hook(lambda grad: grad + 1)
    y.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_tensor_hooks_run_in_the_order_of_registration(torch):
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: grad * 2)
    x.register_hook(lambda grad: grad + 1)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [7.0]


def test_a_tensor_hook_runs_once_on_the_summed_gradient(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    (x * 3 + x * 4).sum().backward()
    assert seen == [[7.0]]


def test_a_handle_removes_its_hook(torch):
    x = leaf(torch, [2.0])
    handle = x.register_hook(lambda grad: grad * 10)
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_a_handle_removes_only_its_hook(torch):
    x = leaf(torch, [2.0])
    first = x.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad + 1)
    first.remove()
    first.remove()
    x.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_handle_is_a_context_manager(torch):
    x = leaf(torch, [2.0])
    with x.register_hook(lambda grad: grad * 10):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [11.0]


def test_a_hook_on_a_tensor_without_grad_raises(torch):
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        constant(torch, [1.0]).register_hook(lambda grad: grad)


def test_a_hook_that_returns_something_else_raises(torch):
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: "text")
    with pytest.raises(TypeError):
        x.sum().backward()


def test_a_hook_that_returns_another_shape_raises(torch):
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: grad.expand(3))
    with pytest.raises(RuntimeError):
        x.sum().backward()


def test_an_error_in_a_hook_leaves_backward(torch):
    def fail(grad):
        raise ValueError("from the hook")

    x = leaf(torch, [2.0])
    y = x * 3
    y.register_hook(fail)
    with pytest.raises(ValueError, match="from the hook"):
        y.sum().backward()
    assert x.grad is None


def test_the_library_works_after_a_hook_has_raised(torch):
    def fail(grad):
        raise KeyError

    x = leaf(torch, [2.0])
    handle = x.register_hook(fail)
    with pytest.raises(KeyError):
        x.sum().backward()
    handle.remove()
    (x * 5).sum().backward()
    assert x.grad.tolist() == [5.0]


def test_a_tensor_hook_runs_for_autograd_grad_too(torch):
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: grad * 10)
    (grad,) = torch.autograd.grad((x * 3).sum(), x)
    assert grad.tolist() == [30.0]


def test_a_hook_runs_before_retain_grad_takes_the_gradient(torch):
    y = leaf(torch, [2.0]) * 1
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0]


def test_a_hook_registered_before_an_in_place_op_sees_the_old_value(torch):
    seen = []
    x = leaf(torch, [2.0])
    y = x * 1
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    y.mul_(5)
    (y * 3).sum().backward()
    assert seen == [[15.0]]


def test_a_hook_registered_after_an_in_place_op_sees_the_new_value(torch):
    seen = []
    x = leaf(torch, [2.0])
    y = x * 1
    y.mul_(5)
    y.register_hook(lambda grad: seen.append(grad.tolist()))
    (y * 3).sum().backward()
    assert seen == [[3.0]]


def test_a_tensor_hook_with_create_graph_is_differentiated(torch):
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: grad * x)
    (grad,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    # grad is 2 x * x; the second call passes through the hook again: 4 x * x.
    assert grad.tolist() == [8.0] and second.tolist() == [16.0]


def test_hooks_run_without_recording_by_default(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: seen.append(torch.is_grad_enabled()))
    x.sum().backward()
    torch.autograd.grad(x.sum(), x, create_graph=True)
    assert seen == [False, True]


def test_registering_a_hook_twice_calls_it_twice(torch):
    seen = []

    def hook(grad):
        seen.append(1)

    x = leaf(torch, [2.0])
    x.register_hook(hook)
    x.register_hook(hook)
    x.sum().backward()
    assert seen == [1, 1]


def test_a_hook_may_be_registered_on_a_view(torch):
    seen = []
    x = leaf(torch, [1.0, 2.0])
    view = x[1:]
    view.register_hook(lambda grad: seen.append(grad.tolist()))
    (view * 4).sum().backward()
    assert seen == [[4.0]] and x.grad.tolist() == [0.0, 4.0]


def test_post_accumulate_hook_sees_the_tensor_with_its_gradient(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.tolist()))
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert seen == [[3.0], [6.0]]


def test_post_accumulate_hook_may_step_and_free_the_gradient(torch):
    def step(parameter):
        with torch.no_grad():
            parameter.sub_(parameter.grad)
        parameter.grad = None

    x = leaf(torch, [2.0])
    x.register_post_accumulate_grad_hook(step)
    (x * 3).sum().backward()
    assert x.tolist() == [-1.0] and x.grad is None


def test_post_accumulate_hook_runs_after_the_tensor_hooks(torch):
    events = []
    x = leaf(torch, [2.0])
    x.register_post_accumulate_grad_hook(lambda tensor: events.append("post"))
    x.register_hook(lambda grad: events.append("pre"))
    x.sum().backward()
    assert events == ["pre", "post"]


def test_post_accumulate_hook_is_for_leaves(torch):
    with pytest.raises(RuntimeError):
        (leaf(torch, [2.0]) * 1).register_post_accumulate_grad_hook(lambda tensor: None)


def test_post_accumulate_hook_on_a_tensor_without_grad_raises(torch):
    with pytest.raises(RuntimeError):
        constant(torch, [2.0]).register_post_accumulate_grad_hook(lambda tensor: None)


def test_post_accumulate_hook_must_not_return_a_replacement(torch):
    x = leaf(torch, [2.0])
    x.register_post_accumulate_grad_hook(lambda tensor: tensor.grad * 10)
    with pytest.raises(RuntimeError):
        x.sum().backward()


def test_post_accumulate_hook_does_not_run_for_autograd_grad(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(1))
    torch.autograd.grad(x.sum(), x)
    assert seen == []


def test_post_accumulate_handle_removes(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(1)).remove()
    x.sum().backward()
    assert seen == []


def test_a_node_hook_sees_gradients_of_inputs_and_outputs(torch):
    seen = []
    x, y = leaf(torch, [2.0]), leaf(torch, [5.0])
    z = x * y
    z.grad_fn.register_hook(
        lambda inputs, outputs: seen.append(
            ([g.item() for g in inputs], [g.item() for g in outputs])
        )
    )
    (z * 3).sum().backward()
    assert seen == [([15.0, 6.0], [3.0])]


def test_a_node_hook_may_replace_the_gradients_of_the_inputs(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [5.0])
    z = x * y
    z.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, inputs[1] * 100))
    z.sum().backward()
    assert x.grad.tolist() == [50.0] and y.grad.tolist() == [200.0]


def test_a_node_hook_gets_none_for_an_input_without_grad(torch):
    seen = []
    z = leaf(torch, [2.0]) * constant(torch, [5.0])
    z.grad_fn.register_hook(lambda inputs, outputs: seen.extend(inputs))
    z.sum().backward()
    assert seen[0].tolist() == [5.0] and seen[1] is None


def test_a_node_hook_that_returns_the_wrong_number_raises(torch):
    z = leaf(torch, [2.0]) * leaf(torch, [5.0])
    z.grad_fn.register_hook(lambda inputs, outputs: inputs[:1])
    with pytest.raises(RuntimeError):
        z.sum().backward()


def test_a_node_prehook_sees_the_gradients_of_the_outputs(torch):
    seen = []
    z = leaf(torch, [2.0]) * 5
    z.grad_fn.register_prehook(lambda outputs: seen.append([g.tolist() for g in outputs]))
    (z * 3).sum().backward()
    assert seen == [[[3.0]]]


def test_a_node_prehook_may_replace_them(torch):
    x = leaf(torch, [2.0])
    z = x * 5
    z.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    z.sum().backward()
    assert x.grad.tolist() == [50.0]


def test_node_handles_remove(torch):
    x = leaf(torch, [2.0])
    z = x * 5
    z.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,)).remove()
    z.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None)).remove()
    z.sum().backward()
    assert x.grad.tolist() == [5.0]


def test_the_order_around_a_node(torch):
    events = []
    z = leaf(torch, [2.0]) * 5
    z.retain_grad()
    z.grad_fn.register_hook(lambda inputs, outputs: events.append("post"))
    z.register_hook(lambda grad: events.append("tensor"))
    z.grad_fn.register_prehook(lambda outputs: events.append("pre"))
    z.sum().backward()
    assert events == ["tensor", "pre", "post"]


def test_an_error_in_a_node_hook_leaves_backward(torch):
    def fail(inputs, outputs):
        raise ValueError("from the node")

    z = leaf(torch, [2.0]) * 5
    z.grad_fn.register_hook(fail)
    with pytest.raises(ValueError, match="from the node"):
        z.sum().backward()


def test_a_hook_on_the_accumulating_node(torch):
    events = []
    x = leaf(torch, [2.0])
    node = torch.autograd.graph.get_gradient_edge(x).node
    node.register_prehook(lambda outputs: events.append(outputs[0].tolist()))
    node.register_hook(lambda inputs, outputs: events.append("accumulated"))
    (x * 3).sum().backward()
    assert events == [[3.0], "accumulated"]


def test_a_hook_may_read_other_gradients(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    scale = constant(torch, [10.0])
    x.register_hook(lambda grad: grad * scale)
    (x * y).sum().backward()
    assert x.grad.tolist() == [30.0] and y.grad.tolist() == [2.0]


def test_multi_grad_hook_waits_for_all(torch):
    seen = []
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    torch.autograd.graph.register_multi_grad_hook(
        (x, y), lambda grads: seen.append([g.item() for g in grads])
    )
    (x * y).sum().backward()
    assert seen == [[3.0, 2.0]]


def test_multi_grad_hook_passes_none_for_tensors_out_of_reach(torch):
    seen = []
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    product, unused = x * y, x + y
    torch.autograd.graph.register_multi_grad_hook(
        (x, y, product, unused), lambda grads: seen.append([g is not None for g in grads])
    )
    product.sum().backward(retain_graph=True)
    product.sum().backward(inputs=(x,))
    assert seen == [[True, True, True, False], [True, False, True, False]]


def test_multi_grad_hook_any_runs_at_the_first_gradient(torch):
    seen = []
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    inner = x * y
    torch.autograd.graph.register_multi_grad_hook(
        (x, inner), lambda grad: seen.append(grad.item()), mode="any"
    )
    (inner * 7).sum().backward()
    assert seen == [7.0]


def test_multi_grad_hook_handle_removes(torch):
    seen = []
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    handle = torch.autograd.graph.register_multi_grad_hook((x, y), lambda grads: seen.append(1))
    handle.remove()
    (x * y).sum().backward()
    assert seen == []


def test_multi_grad_hook_runs_in_every_backward(torch):
    seen = []
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    torch.autograd.graph.register_multi_grad_hook((x, y), lambda grads: seen.append(1))
    (x * y).sum().backward()
    (x * y).sum().backward()
    assert seen == [1, 1]


def test_gradient_edge_of_an_inner_tensor(torch):
    y = leaf(torch, [2.0]) * 3
    edge = torch.autograd.graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0


def test_gradient_edge_tells_the_outputs_of_one_node_apart(torch):
    first, second = leaf(torch, [[1.0], [2.0]]).unbind()
    one = torch.autograd.graph.get_gradient_edge(first)
    other = torch.autograd.graph.get_gradient_edge(second)
    assert one.node is other.node and (one.output_nr, other.output_nr) == (0, 1)
    assert (first.output_nr, second.output_nr) == (0, 1)


def test_gradient_edge_stands_for_its_tensor_in_grad(torch):
    x = leaf(torch, [2.0])
    y = x * 3
    edge = torch.autograd.graph.get_gradient_edge(y)
    z = (y * y).sum()
    del y
    (grad,) = torch.autograd.grad(z, edge)
    assert grad.tolist() == [12.0]


def test_gradient_edge_as_root(torch):
    x = leaf(torch, [2.0])
    edge = torch.autograd.graph.get_gradient_edge(x * 3)
    (grad,) = torch.autograd.grad(edge, x, grad_outputs=constant(torch, [5.0]))
    assert grad.tolist() == [15.0]


def test_gradient_edge_of_a_plain_tensor_raises(torch):
    with pytest.raises(RuntimeError, match="require"):
        torch.autograd.graph.get_gradient_edge(constant(torch, [1.0]))


def test_nodes_are_instances_of_graph_node(torch):
    y = leaf(torch, [2.0]) * 3
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    assert not isinstance(y, torch.autograd.graph.Node)


def test_next_functions_walk_to_the_leaf(torch):
    x = leaf(torch, [2.0])
    node, names = x.exp().sin().cos().grad_fn, []
    while node.next_functions:
        names.append(node.name())
        node = node.next_functions[0][0]
    assert names == ["CosBackward0", "SinBackward0", "ExpBackward0"]
    assert node.variable is x


def test_node_metadata_is_a_dictionary_that_stays(torch):
    y = leaf(torch, [2.0]) * 3
    y.grad_fn.metadata["note"] = "kept"
    gc.collect()
    assert y.grad_fn.metadata == {"note": "kept"}


def test_increment_version(torch):
    x, y = torch.zeros(2), torch.zeros(2)
    torch.autograd.graph.increment_version(x)
    torch.autograd.graph.increment_version([x, y])
    assert (x._version, y._version) == (2, 1)


def test_a_hook_dies_with_its_tensor(torch):
    class Callback:
        def __call__(self, grad):
            return None

    callback = Callback()
    alive = weakref.ref(callback)
    x = leaf(torch, [2.0])
    x.register_hook(callback)
    del callback
    assert alive() is not None
    del x
    gc.collect()
    assert alive() is None


def test_reading_grad_of_an_inner_tensor_warns(torch):
    y = leaf(torch, [2.0]) * 3
    y.sum().backward()
    with pytest.warns(UserWarning, match="not a leaf"):
        assert y.grad is None


def test_retain_grad_on_a_leaf_does_nothing(torch):
    x = leaf(torch, [2.0])
    x.retain_grad()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] and not x.retains_grad


def test_retain_grad_on_a_tensor_without_grad_raises(torch):
    with pytest.raises(RuntimeError):
        constant(torch, [2.0]).retain_grad()
