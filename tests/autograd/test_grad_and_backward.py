"""autograd.grad and backward: roots, gradients given, targets, errors, layout, re-entrance."""

import pytest

from .values import constant, leaf, near


def test_backward_on_a_scalar_fills_grad(torch):
    x = leaf(torch, [1.0, 2.0])
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_backward_accumulates(torch):
    x = leaf(torch, [1.0])
    for _ in range(3):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_backward_with_a_gradient(torch):
    x = leaf(torch, [1.0, 2.0])
    (x * x).backward(constant(torch, [1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]


def test_backward_on_a_vector_needs_a_gradient(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * x).backward()


def test_a_tensor_of_one_element_counts_as_a_scalar(torch):
    x = leaf(torch, [[3.0]])
    (x * x).backward()
    assert x.grad.tolist() == [[6.0]]


def test_a_gradient_of_another_shape_raises(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="shape"):
        (x * x).backward(constant(torch, [1.0, 1.0, 1.0]))


def test_a_root_without_grad_raises(torch):
    with pytest.raises(RuntimeError, match="does not require grad"):
        constant(torch, 1.0).backward()


def test_an_integer_result_raises(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="does not require grad"):
        x.argmax().backward()


def test_integer_results_do_not_require_grad(torch):
    x = leaf(torch, [1.0, 2.0])
    assert not x.argmax().requires_grad and not (x > 1).requires_grad
    values, indices = x.sort()
    assert values.requires_grad and not indices.requires_grad


def test_integer_tensors_cannot_require_grad(torch):
    with pytest.raises(RuntimeError, match="floating point"):
        torch.tensor([1, 2], requires_grad=True)


def test_several_roots(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    torch.autograd.backward([(x * y).sum(), (x + y).sum()])
    assert x.grad.tolist() == [4.0] and y.grad.tolist() == [3.0]


def test_several_roots_with_gradients(torch):
    x = leaf(torch, [1.0, 2.0])
    one, ten = constant(torch, [1.0, 1.0]), constant(torch, [10.0, 10.0])
    torch.autograd.backward([x * 2, x * x], [one, ten])
    assert x.grad.tolist() == [22.0, 42.0]


def test_a_scalar_root_may_have_none_beside_a_given_gradient(torch):
    x = leaf(torch, [1.0, 2.0])
    torch.autograd.backward([x.sum(), x * x], [None, constant(torch, [1.0, 1.0])])
    assert x.grad.tolist() == [3.0, 5.0]


def test_a_root_may_be_given_twice(torch):
    x = leaf(torch, [2.0])
    y = (x * x).sum()
    torch.autograd.backward([y, y])
    assert x.grad.tolist() == [8.0]


def test_a_root_that_feeds_another_root(torch):
    x = leaf(torch, [2.0])
    y = (x * 3).sum()
    torch.autograd.backward([y, y * y])
    assert x.grad.tolist() == [3.0 + 36.0]


def test_a_leaf_as_root(torch):
    x = leaf(torch, 2.0)
    x.backward()
    assert x.grad.item() == 1.0


def test_the_number_of_gradients_must_match(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(RuntimeError):
        torch.autograd.backward([x * 1, x * 2], [constant(torch, [1.0])])


def test_grad_returns_and_does_not_accumulate(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    grads = torch.autograd.grad((x * y).sum(), (x, y))
    assert isinstance(grads, tuple) and [g.tolist() for g in grads] == [[3.0], [2.0]]
    assert x.grad is None and y.grad is None


def test_grad_with_respect_to_an_inner_tensor(torch):
    x = leaf(torch, [2.0])
    y = x * 3
    (grad,) = torch.autograd.grad((y * y).sum(), y)
    assert grad.tolist() == [12.0]


def test_grad_with_respect_to_both_a_tensor_and_what_it_is_made_of(torch):
    x = leaf(torch, [2.0])
    y = x * 3
    at_x, at_y = torch.autograd.grad((y * y).sum(), (x, y))
    assert at_x.tolist() == [36.0] and at_y.tolist() == [12.0]


def test_grad_of_a_tensor_with_respect_to_itself(torch):
    y = leaf(torch, 2.0) * 3
    (grad,) = torch.autograd.grad(y, y)
    assert grad.item() == 1.0


def test_grad_outputs(torch):
    x = leaf(torch, [1.0, 2.0])
    (grad,) = torch.autograd.grad(x * x, x, grad_outputs=constant(torch, [1.0, 10.0]))
    assert grad.tolist() == [2.0, 40.0]


def test_grad_of_several_outputs_sums(torch):
    x = leaf(torch, [1.0, 2.0])
    weights = constant(torch, [1.0, 1.0])
    (grad,) = torch.autograd.grad([x * 2, x * x], [x], grad_outputs=[weights, weights])
    assert grad.tolist() == [4.0, 6.0]


def test_grad_outputs_of_another_shape_raise(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="shape"):
        torch.autograd.grad(x * x, x, grad_outputs=constant(torch, 1.0).expand(3))


def test_grad_of_a_vector_needs_grad_outputs(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        torch.autograd.grad(x * x, x)


def test_grad_takes_and_returns_a_dictionary(torch):
    inputs = {"x": leaf(torch, [2.0]), "y": leaf(torch, [3.0])}
    grads = torch.autograd.grad((inputs["x"] * inputs["y"]).sum(), inputs)
    assert {name: g.tolist() for name, g in grads.items()} == {"x": [3.0], "y": [2.0]}


def test_an_unused_input_raises(torch):
    x, unused = leaf(torch, [2.0]), leaf(torch, [3.0])
    with pytest.raises(RuntimeError, match="used in the graph"):
        torch.autograd.grad((x * x).sum(), (x, unused))


def test_allow_unused_gives_none(torch):
    x, unused = leaf(torch, [2.0]), leaf(torch, [3.0])
    grads = torch.autograd.grad((x * x).sum(), (x, unused), allow_unused=True)
    assert grads[0].tolist() == [4.0] and grads[1] is None


def test_materialize_grads_gives_zeros(torch):
    x, unused = leaf(torch, [2.0]), leaf(torch, [[3.0, 4.0]])
    grads = torch.autograd.grad((x * x).sum(), (x, unused), materialize_grads=True)
    assert grads[1].tolist() == [[0.0, 0.0]] and grads[1].dtype is torch.float64


def test_materialize_grads_contradicts_refusing_unused(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(ValueError):
        torch.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)


def test_an_input_that_does_not_require_grad_raises(torch):
    x, plain = leaf(torch, [2.0]), constant(torch, [3.0])
    with pytest.raises(RuntimeError, match=r"does(n't| not) require grad"):
        torch.autograd.grad((x * plain).sum(), plain)


def test_is_grads_batched_gives_one_gradient_per_row(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    rows = torch.eye(3, dtype=torch.float64)
    (jacobian,) = torch.autograd.grad(x * x, x, grad_outputs=rows, is_grads_batched=True)
    assert jacobian.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_is_grads_batched_through_a_matrix_product(torch):
    x, weight = leaf(torch, [[1.0, 2.0]]), constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    rows = torch.eye(2, dtype=torch.float64).reshape(2, 1, 2)
    (jacobian,) = torch.autograd.grad(x @ weight, x, grad_outputs=rows, is_grads_batched=True)
    assert jacobian.tolist() == [[[1.0, 3.0]], [[2.0, 4.0]]]


def test_inputs_limits_where_gradients_are_accumulated(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3.0] and y.grad is None


def test_inputs_may_be_one_tensor(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    (x * y).sum().backward(inputs=y)
    assert x.grad is None and y.grad.tolist() == [2.0]


def test_inputs_may_be_inner_tensors(torch):
    x = leaf(torch, [2.0])
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward(inputs=[y])
    assert y.grad.tolist() == [12.0] and x.grad is None


def test_empty_inputs_raise(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(RuntimeError):
        x.sum().backward(inputs=[])


def test_a_detached_part_gets_no_gradient(torch):
    x = leaf(torch, [2.0])
    (x * x.detach() * 3).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_a_gradient_that_never_arrives_stays_none(torch):
    x, other = leaf(torch, [2.0]), leaf(torch, [3.0])
    x.sum().backward()
    assert other.grad is None


def test_grad_may_be_set_to_none_and_to_a_tensor(torch):
    x = leaf(torch, [2.0])
    x.sum().backward()
    x.grad = None
    assert x.grad is None
    x.grad = constant(torch, [5.0])
    x.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_grad_refuses_another_shape(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(RuntimeError):
        x.grad = constant(torch, [1.0, 2.0])


def test_grad_refuses_another_dtype(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(RuntimeError):
        x.grad = torch.ones(1, dtype=torch.float32)


def test_grad_refuses_another_type(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(TypeError):
        x.grad = 1.0


def test_accumulation_happens_in_place_on_the_same_tensor(torch):
    x = leaf(torch, [2.0])
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    assert x.grad is first and first.tolist() == [2.0]


def test_accumulated_gradients_do_not_require_grad(torch):
    x = leaf(torch, [2.0])
    (x * x).sum().backward()
    assert not x.grad.requires_grad and x.grad.is_leaf


def test_the_first_gradient_of_a_dense_leaf_takes_its_strides(torch):
    x = torch.ones(2, 3, dtype=torch.float64).t().detach().requires_grad_()
    assert x.stride() == (1, 3)
    (x * torch.ones(3, 2, dtype=torch.float64)).sum().backward()
    assert x.grad.stride() == (1, 3)


def test_the_gradient_of_a_broadcast_leaf_is_dense(torch):
    x = leaf(torch, [1.0, 2.0]).detach().expand(3, 2).requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.is_contiguous() and x.grad.tolist() == [[2.0, 2.0]] * 3


def test_an_expanded_gradient_is_not_kept_as_it_is(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    x.sum().backward()
    x.grad[0] = 7.0
    assert x.grad.tolist() == [7.0, 1.0, 1.0]


def test_the_gradient_takes_the_dtype_of_the_leaf(torch):
    x = torch.ones(2, dtype=torch.float32, requires_grad=True)
    (x.double() * 3).sum().backward()
    assert x.grad.dtype is torch.float32


def test_a_gradient_is_rounded_to_the_dtype_of_each_value_on_its_way(torch):
    """There and back through a narrower dtype: what it cannot hold is lost, as in the value."""
    x = torch.ones(2, requires_grad=True)
    x.half().float().backward(constant(torch, [1e6, 1.0 + 2.0**-12]))
    assert x.grad.tolist() == [float("inf"), 1.0]
    x.grad = None
    (x.t().bfloat16().t() * torch.full((2,), 1.0 + 2.0**-12)).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    half = torch.ones(2, dtype=torch.float16, requires_grad=True)
    half.mul(1).bfloat16().backward(torch.full((2,), 1e20, dtype=torch.bfloat16))
    assert half.grad.tolist() == [float("inf")] * 2


def test_gradients_of_a_narrower_dtype_add_up_in_that_of_the_value(torch):
    x = torch.ones(2, requires_grad=True)
    y = x.t()
    torch.autograd.backward(
        [y.bfloat16(), y.bfloat16()],
        [torch.full((2,), value, dtype=torch.bfloat16) for value in (256.0, 1.0)],
    )
    assert x.grad.tolist() == [257.0, 257.0]


def test_the_given_gradient_is_left_alone(torch):
    x, given = leaf(torch, [1.0]), constant(torch, [2.0])
    for _ in range(2):
        (x + 0).backward(given)
    x.grad.mul_(100)
    assert given.tolist() == [2.0]


def test_create_graph_gives_a_gradient_with_history(torch):
    x = leaf(torch, [2.0])
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    assert grad.requires_grad and near(grad, [12.0])


def test_a_gradient_that_is_constant_has_no_history(torch):
    x = leaf(torch, [2.0])
    (grad,) = torch.autograd.grad((x * 3).sum(), x, create_graph=True)
    assert not grad.requires_grad


def test_a_given_gradient_that_requires_grad_is_differentiated(torch):
    x, given = leaf(torch, [2.0]), leaf(torch, [5.0])
    (grad,) = torch.autograd.grad(x * x, x, grad_outputs=given, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), given)
    assert second.tolist() == [4.0]


def test_backward_inside_a_hook(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])

    def hook(grad):
        with torch.enable_grad():
            (y * y).sum().backward()

    z = x * 5
    z.register_hook(hook)
    z.sum().backward()
    assert x.grad.tolist() == [5.0] and y.grad.tolist() == [6.0]


def test_backward_inside_a_hook_on_the_same_leaf(torch):
    x = leaf(torch, [2.0])

    def hook(grad):
        with torch.enable_grad():
            (x * 100).sum().backward()

    z = x * 5
    z.register_hook(hook)
    z.sum().backward()
    assert x.grad.tolist() == [105.0]


@pytest.mark.parametrize("depth", [3, 30, 150])
def test_re_entrant_backward_at_depth(torch, depth):
    class Deeper(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.levels = levels
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            if ctx.levels > 0:
                inner = ctx.saved_tensors[0].detach().requires_grad_()
                with torch.enable_grad():
                    out = Deeper.apply(inner, ctx.levels - 1)
                out.backward(grad)
                return inner.grad, None
            return grad * 2, None

    x = leaf(torch, [1.0])
    Deeper.apply(x, depth).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_an_error_in_an_inner_backward_leaves_the_outer(torch):
    def hook(grad):
        constant(torch, 1.0).backward()

    z = leaf(torch, [2.0]) * 5
    z.register_hook(hook)
    with pytest.raises(RuntimeError, match="does not require grad"):
        z.sum().backward()


def test_a_wide_graph_sums_every_path(torch):
    x = leaf(torch, [1.0])
    total = sum(x * k for k in range(100))
    total.sum().backward()
    assert x.grad.tolist() == [4950.0]


def test_a_deep_graph(torch):
    x = leaf(torch, [1.0])
    y = x
    for _ in range(10_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_a_diamond_waits_for_both_sides(torch):
    x = leaf(torch, [2.0])
    y = x * x
    left, right = y * 3, (y * y).exp() * 0 + y
    (left + right).sum().backward()
    assert near(x.grad, [16.0])


def test_backward_frees_nothing_it_did_not_sweep(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [3.0])
    shared, other = x.exp(), y.exp()
    torch.autograd.grad((shared * other).sum(), y, retain_graph=False)
    shared.sum().backward()
    assert near(x.grad, x.exp())


def test_indices_of_a_mask_carry_the_gradient(torch):
    x = leaf(torch, [1.0, -2.0, 3.0])
    x[x > 0].sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


def test_where_sends_the_gradient_to_the_chosen_side(torch):
    x, y = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0])
    torch.where(torch.tensor([True, False]), x, y).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0] and y.grad.tolist() == [0.0, 1.0]


def test_ties_in_a_full_maximum_share_the_gradient(torch):
    x = leaf(torch, [3.0, 1.0, 3.0])
    x.amax().backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("dim", [None, 0])
def test_unique_of_a_leaf_requires_grad_but_has_no_derivative(torch, dim):
    x = leaf(torch, [2.0, 1.0, 2.0])
    assert torch.unique(x, dim=dim).requires_grad
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=dim)
    assert values.requires_grad and not inverse.requires_grad and not counts.requires_grad
    assert values.tolist() == [1.0, 2.0] and inverse.tolist() == [1, 0, 1]
    with pytest.raises(NotImplementedError, match=r"the derivative for '.*unique.*' is not impl"):
        values.sum().backward()
    assert not torch.unique(x.detach()).requires_grad
    with torch.no_grad():
        assert not torch.unique(x).requires_grad


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_recorded_gradient_of_a_leaf_is_dense(torch):
    """A sum's gradient is one number shown many times: a leaf's own buffer is not."""
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    x.sum().backward(create_graph=True)
    assert x.grad.stride() == x.stride()
    x.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    x.grad.mul_(3)
    assert x.grad.tolist() == [[6.0, 6.0], [6.0, 6.0]]


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_recorded_gradient_is_laid_out_as_its_leaf(torch):
    x = constant(torch, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).t().requires_grad_()
    (x * x).sum().backward(create_graph=True)
    assert x.grad.stride() == x.stride() == (1, 3)
    (second,) = torch.autograd.grad(x.grad.sum(), x)
    assert second.tolist() == [[2.0, 2.0]] * 3
    x.grad = None


@pytest.mark.filterwarnings("ignore:Using backward")
def test_recorded_gradients_of_two_leaves_do_not_share_memory(torch):
    x, y = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0])
    (x + y).sum().backward(create_graph=True)
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_recorded_gradient_can_be_clipped(torch):
    x = leaf(torch, [1.0, 2.0])
    (3 * x).sum().backward(create_graph=True)
    torch.nn.utils.clip_grad_norm_([x], 1.0)
    assert near(x.grad, [0.5**0.5, 0.5**0.5], 1e-5)
    x.grad = None


def test_an_entry_can_be_called(torch):
    """It gives the gradients of its inputs: one, or a tuple, with None where none is needed."""
    x, y = leaf(torch, [2.0, 3.0]), leaf(torch, [5.0])
    g = constant(torch, [1.0, 10.0])
    by_x, by_y = (x * y).grad_fn(g)
    assert by_x.tolist() == [5.0, 50.0]
    assert by_y.tolist() == [32.0] if torch.__name__ == "tapegrad" else by_y.sum().item() == 32
    assert (x * constant(torch, 4.0)).grad_fn(g)[1] is None
    assert x.sin().grad_fn(g).tolist() == (g * x.cos()).tolist()
    assert x.grad is None and y.grad is None


def test_an_entry_that_is_called_is_recorded_like_any_op(torch):
    x = leaf(torch, [2.0, 3.0])
    entry = x.sin().grad_fn
    assert near(torch.autograd.grad(entry(torch.ones_like(x)).sum(), x)[0], -x.sin())
    with torch.no_grad():
        assert not entry(torch.ones_like(x)).requires_grad


def test_the_entry_of_a_leaf_accumulates_when_it_is_called(torch):
    x = leaf(torch, [2.0, 3.0])
    accumulate = (x * 2).grad_fn.next_functions[0][0]
    assert accumulate(constant(torch, [1.0, 2.0])) == ()
    accumulate(constant(torch, [1.0, 2.0]))
    assert x.grad.tolist() == [2.0, 4.0]


def test_an_entry_refuses_what_is_no_gradient_of_its_outputs(torch):
    y = leaf(torch, [2.0, 3.0]).sin()
    with pytest.raises(TypeError):
        y.grad_fn(3.0)
    if torch.__name__ == "tapegrad":
        with pytest.raises(RuntimeError, match=r"SinBackward0: expected a gradient of shape \[2\]"):
            y.grad_fn(constant(torch, [1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match="expected 1 arguments"):
        y.grad_fn(constant(torch, [1.0, 2.0]), constant(torch, [1.0, 2.0]))


def test_an_edge_without_a_grad_only_ends_the_sweep(torch):
    x = leaf(torch, [2.0])
    y = x * x
    edge_of = torch.autograd.graph.get_gradient_edge
    torch.autograd.backward(y.sum(), inputs=[edge_of(x)], retain_graph=True)
    assert near(x.grad, [4.0])
    torch.autograd.backward(y.sum(), inputs=[edge_of(y)])
    assert near(x.grad, [4.0])


def test_hooks_run_where_backward_is_told_to_end(torch):
    x = leaf(torch, [2.0])
    y = x * x
    calls = []
    y.grad_fn.register_prehook(lambda grads: calls.append("before"))
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append("after"))
    y.retain_grad()
    torch.autograd.backward((y * 3).sum(), inputs=[y], retain_graph=True)
    assert calls == ["before", "after"]
    assert near(y.grad, [3.0])
    accumulator = x.expand_as(x).grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda inputs, outputs: calls.append((inputs, outputs)))
    torch.autograd.backward((y * 3).sum(), inputs=[x])
    inputs, (output,) = calls[-1]
    assert inputs == ()
    assert near(output, [12.0])


def test_numpy_shows_what_requires_a_gradient_while_nothing_is_recorded(torch):
    x = leaf(torch, [2.0])
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with torch.no_grad():
        assert x.numpy().tolist() == [2.0]
