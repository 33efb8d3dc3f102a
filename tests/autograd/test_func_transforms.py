"""The function transforms: grad, vjp, jvp, jacrev, jacfwd, hessian, linearize; their nesting."""

import math

import pytest

from .values import constant, leaf, near

# PyTorch's linearize traces, and its tracer warns about its own constants.
QUIET_LINEARIZE = pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")


def cube_sum(x):
    return (x**3).sum()


def test_grad(torch):
    x = constant(torch, [1.0, 2.0])
    assert near(torch.func.grad(cube_sum)(x), [3.0, 12.0])
    assert not x.requires_grad and x.grad is None


def test_grad_of_a_vector_function_raises(torch):
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda x: x * 2)(constant(torch, [1.0, 2.0]))


def test_grad_of_a_function_that_returns_no_tensor_raises(torch):
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda x: 1.0)(constant(torch, [1.0]))


def test_grad_with_an_argument_that_is_no_tensor(torch):
    grad = torch.func.grad(lambda x, power: (x**power).sum())
    assert near(grad(constant(torch, [2.0]), 4), [32.0])


def test_grad_passes_keyword_arguments(torch):
    grad = torch.func.grad(lambda x, *, factor: (x * factor).sum())
    assert grad(constant(torch, [2.0]), factor=5.0).tolist() == [5.0]


def test_grad_argnums(torch):
    x, y = constant(torch, 2.0), constant(torch, 3.0)
    assert torch.func.grad(lambda a, b: a * b, argnums=1)(x, y).item() == 2.0
    both = torch.func.grad(lambda a, b: a * b, argnums=(0, 1))(x, y)
    assert isinstance(both, tuple) and [g.item() for g in both] == [3.0, 2.0]


def test_grad_argnums_may_be_negative(torch):
    x, y = constant(torch, 2.0), constant(torch, 3.0)
    assert torch.func.grad(lambda a, b: a * b * b, argnums=-1)(x, y).item() == 12.0


def test_grad_argnums_out_of_range_raises(torch):
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        torch.func.grad(cube_sum, argnums=3)(constant(torch, [1.0]))


def test_grad_has_aux(torch):
    grad, aux = torch.func.grad(lambda x: (cube_sum(x), {"double": x * 2}), has_aux=True)(
        constant(torch, [2.0])
    )
    assert near(grad, [12.0]) and aux["double"].tolist() == [4.0]
    assert not aux["double"].requires_grad


def test_grad_of_a_dictionary_is_a_dictionary(torch):
    params = {"w": constant(torch, [2.0]), "b": constant(torch, [1.0])}
    grads = torch.func.grad(lambda p: (p["w"] * p["w"] + 3 * p["b"]).sum())(params)
    assert set(grads) == {"w", "b"}
    assert grads["w"].tolist() == [4.0] and grads["b"].tolist() == [3.0]


def test_grad_of_nested_lists_keeps_their_structure(torch):
    values = [constant(torch, 2.0), (constant(torch, 3.0), constant(torch, 4.0))]
    grads = torch.func.grad(lambda v: v[0] * v[1][0] * v[1][1])(values)
    assert isinstance(grads, list) and isinstance(grads[1], tuple)
    assert [grads[0].item(), grads[1][0].item(), grads[1][1].item()] == [12.0, 8.0, 6.0]


def test_grad_of_an_unused_argument_is_zeros(torch):
    x, y = constant(torch, [2.0]), constant(torch, [3.0, 4.0])
    assert torch.func.grad(lambda a, b: a.sum(), argnums=1)(x, y).tolist() == [0.0, 0.0]


def test_grad_and_value(torch):
    grad, value = torch.func.grad_and_value(cube_sum)(constant(torch, [2.0]))
    assert near(grad, [12.0]) and near(value, 8.0)


def test_grad_and_value_with_aux(torch):
    grad, (value, aux) = torch.func.grad_and_value(lambda x: (cube_sum(x), x + 1), has_aux=True)(
        constant(torch, [2.0])
    )
    assert near(grad, [12.0]) and near(value, 8.0) and aux.tolist() == [3.0]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_grad_nests(torch, order):
    function = torch.sin
    for _ in range(order):
        function = torch.func.grad(function)
    assert near(function(constant(torch, 0.3)), math.sin(0.3 + order * math.pi / 2))


def test_no_perturbation_confusion_in_nested_grad(torch):
    # d/dx of x * (d/dy (x + y)) is 1; a library that mixes the levels up says 2.
    def outer(x):
        return x * torch.func.grad(lambda y: x + y)(constant(torch, 1.0))

    assert torch.func.grad(outer)(constant(torch, 1.0)).item() == 1.0


def test_no_perturbation_confusion_in_nested_jvp(torch):
    one = constant(torch, 1.0)

    def derivative(function, x):
        return torch.func.jvp(function, (x,), (one,))[1]

    found = derivative(lambda x: x * derivative(lambda y: x + y, one), one)
    assert found.item() == 1.0


def test_no_perturbation_confusion_between_forward_and_reverse(torch):
    one = constant(torch, 1.0)

    def outer(x):
        return x * torch.func.jvp(lambda y: x * y * y, (one,), (one,))[1]

    # x * 2 x, whose derivative is 4 x.
    assert torch.func.grad(outer)(constant(torch, 3.0)).item() == 12.0


def test_no_perturbation_confusion_between_reverse_and_forward(torch):
    one = constant(torch, 1.0)

    def outer(x):
        return x * torch.func.grad(lambda y: x * y * y)(one)

    assert torch.func.jvp(outer, (constant(torch, 3.0),), (one,))[1].item() == 12.0


def test_a_curried_function_keeps_its_levels_apart(torch):
    # d/dx at 2 of (d/dy at 3 of x^2 y^3) is 2 x * 3 y^2 = 108.
    mixed = torch.func.grad(lambda x: torch.func.grad(lambda y: x**2 * y**3)(constant(torch, 3.0)))(
        constant(torch, 2.0)
    )
    assert near(mixed, 108.0)


def test_a_tensor_closed_over_gets_no_gradient_from_func_grad(torch):
    w = leaf(torch, [3.0])
    grad = torch.func.grad(lambda x: (x * w).sum())(constant(torch, [2.0]))
    assert grad.tolist() == [3.0] and w.grad is None


def test_func_grad_composes_with_the_outer_tape(torch):
    w = leaf(torch, [3.0])
    grad = torch.func.grad(lambda x: (x**2 * w).sum())(constant(torch, [2.0]))
    grad.sum().backward()
    # grad is 2 x w.
    assert w.grad.tolist() == [4.0]


def test_func_grad_of_an_outer_leaf_records_on_the_outer_tape(torch):
    x = leaf(torch, [2.0])
    grad = torch.func.grad(cube_sum)(x)
    grad.sum().backward()
    assert near(x.grad, [12.0])


def test_backward_inside_func_grad_uses_autograd_grad(torch):
    def inner(x):
        (grad,) = torch.autograd.grad(cube_sum(x), x, create_graph=True)
        return grad.sum()

    assert near(torch.func.grad(inner)(constant(torch, [2.0])), [12.0])


def test_no_grad_inside_func_grad_cuts(torch):
    def function(x):
        with torch.no_grad():
            shift = x * x
        return (x * x - shift).sum()

    assert torch.func.grad(function)(constant(torch, [3.0])).tolist() == [6.0]


def test_no_grad_outside_func_grad_does_not_reach_inside(torch):
    with torch.no_grad():
        grad = torch.func.grad(cube_sum)(constant(torch, [2.0]))
    assert near(grad, [12.0])


def test_detach_inside_func_grad_cuts(torch):
    grad = torch.func.grad(lambda x: (x * x.detach()).sum())(constant(torch, [3.0]))
    assert grad.tolist() == [3.0]


def test_in_place_inside_func_grad(torch):
    def function(x):
        y = x.clone()
        y[0].mul_(5)
        y.pow_(2)
        return y.sum()

    assert near(torch.func.grad(function)(constant(torch, [1.0, 2.0])), [50.0, 4.0])


def test_in_place_on_a_captured_tensor_inside_func_grad_raises(torch):
    captured = constant(torch, [1.0])

    def function(x):
        captured.add_(x)
        return captured.sum()

    with pytest.raises(RuntimeError):
        torch.func.grad(function)(constant(torch, [1.0]))


def test_an_exception_inside_a_transform_leaves_a_clean_state(torch):
    def fail(x):
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        torch.func.grad(torch.func.grad(fail))(constant(torch, 1.0))
    assert near(torch.func.grad(cube_sum)(constant(torch, [2.0])), [12.0])


def test_vjp(torch):
    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, 10.0])
    y, pull = torch.func.vjp(lambda t: t**2, x)
    (grad,) = pull(v)
    assert y.tolist() == [1.0, 4.0] and grad.tolist() == [2.0, 40.0]


def test_vjp_may_be_called_again(torch):
    _, pull = torch.func.vjp(lambda t: t**2, constant(torch, [3.0]))
    first, second = pull(constant(torch, [1.0])), pull(constant(torch, [2.0]))
    assert first[0].tolist() == [6.0] and second[0].tolist() == [12.0]


def test_vjp_of_several_inputs(torch):
    x, y = constant(torch, [2.0]), constant(torch, [3.0])
    _, pull = torch.func.vjp(lambda a, b: a * b, x, y)
    assert [g.tolist() for g in pull(constant(torch, [1.0]))] == [[3.0], [2.0]]


def test_vjp_of_several_outputs_takes_the_same_structure(torch):
    out, pull = torch.func.vjp(lambda a: {"s": a.sin(), "c": a.cos()}, constant(torch, [0.5]))
    (grad,) = pull({"s": constant(torch, [1.0]), "c": constant(torch, [2.0])})
    assert set(out) == {"s", "c"}
    assert near(grad, [math.cos(0.5) - 2 * math.sin(0.5)])


def test_vjp_has_aux(torch):
    _, pull, aux = torch.func.vjp(lambda a: (a * 2, a + 1), constant(torch, [1.0]), has_aux=True)
    assert aux.tolist() == [2.0] and pull(constant(torch, [1.0]))[0].tolist() == [2.0]


def test_vjp_cotangent_of_another_structure_raises(torch):
    _, pull = torch.func.vjp(lambda a: (a, a * 2), constant(torch, [1.0]))
    with pytest.raises(RuntimeError):
        pull(constant(torch, [1.0]))


def test_vjp_of_a_random_function_uses_one_draw(torch):
    _, pull = torch.func.vjp(lambda a: a * torch.rand(3), torch.ones(3))
    one = torch.ones(3)
    assert torch.equal(pull(one)[0], pull(one)[0])


def test_jvp(torch):
    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, 10.0])
    y, tangent = torch.func.jvp(lambda t: t**2, (x,), (v,))
    assert y.tolist() == [1.0, 4.0] and tangent.tolist() == [2.0, 40.0]


def test_jvp_of_several_inputs(torch):
    x, y = constant(torch, [2.0]), constant(torch, [3.0])
    _, tangent = torch.func.jvp(
        lambda a, b: a * b, (x, y), (constant(torch, [1.0]), constant(torch, [10.0]))
    )
    assert tangent.tolist() == [23.0]


def test_jvp_of_several_outputs(torch):
    x, one = constant(torch, [0.5]), constant(torch, [1.0])
    _, (sin, cos) = torch.func.jvp(lambda a: (a.sin(), a.cos()), (x,), (one,))
    assert near(sin, [math.cos(0.5)]) and near(cos, [-math.sin(0.5)])


def test_jvp_has_aux(torch):
    x, one = constant(torch, [2.0]), constant(torch, [1.0])
    _, tangent, aux = torch.func.jvp(lambda a: (a * 3, a + 1), (x,), (one,), has_aux=True)
    assert tangent.tolist() == [3.0] and aux.tolist() == [3.0]


def test_jvp_of_a_constant_is_zeros(torch):
    x, one = constant(torch, [2.0]), constant(torch, [1.0])
    _, tangent = torch.func.jvp(lambda a: torch.ones(3), (x,), (one,))
    assert tangent.tolist() == [0.0] * 3


def test_jvp_tangents_must_fit_the_primals(torch):
    x = constant(torch, [2.0])
    with pytest.raises(RuntimeError):
        torch.func.jvp(lambda a: a * 2, (x,), (x, x))
    with pytest.raises(RuntimeError):
        torch.func.jvp(lambda a: a * 2, x, x)


def test_jvp_nests(torch):
    one = constant(torch, 1.0)

    def derivative(function):
        return lambda x: torch.func.jvp(function, (x,), (one,))[1]

    third = derivative(derivative(derivative(torch.sin)))
    assert near(third(constant(torch, 0.3)), -math.cos(0.3))


def test_jvp_with_in_place_ops(torch):
    def function(x):
        y = x.clone()
        y[1:].mul_(10)
        y.add_(x)
        return y

    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, 1.0])
    assert torch.func.jvp(function, (x,), (v,))[1].tolist() == [2.0, 11.0]


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_a_jacobian(torch, name):
    jacobian = getattr(torch.func, name)(lambda x: torch.stack([x[0] * x[1], x[1] ** 2]))
    assert near(jacobian(constant(torch, [2.0, 3.0])), [[3.0, 2.0], [0.0, 6.0]])


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_the_shape_of_a_jacobian_is_output_then_input(torch, name):
    x = torch.ones(2, 3, dtype=torch.float64)
    assert getattr(torch.func, name)(lambda t: t.sum(1))(x).shape == (2, 2, 3)
    assert getattr(torch.func, name)(lambda t: t.sum())(x).shape == (2, 3)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_a_jacobian_with_argnums(torch, name):
    x, y = constant(torch, [2.0]), constant(torch, [3.0, 4.0])
    function = getattr(torch.func, name)(lambda a, b: a * b, argnums=(0, 1))
    at_x, at_y = function(x, y)
    assert at_x.tolist() == [[3.0], [4.0]] and at_y.tolist() == [[2.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_a_jacobian_with_aux(torch, name):
    function = getattr(torch.func, name)(lambda x: (x**2, x + 1), has_aux=True)
    jacobian, aux = function(constant(torch, [3.0]))
    assert near(jacobian, [[6.0]]) and aux.tolist() == [4.0]


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_a_jacobian_of_several_outputs(torch, name):
    first, second = getattr(torch.func, name)(lambda x: (x * 2, x.sum()))(
        constant(torch, [1.0, 2.0])
    )
    assert first.tolist() == [[2.0, 0.0], [0.0, 2.0]] and second.tolist() == [1.0, 1.0]


def test_jacrev_of_a_dictionary_of_inputs(torch):
    params = {"a": constant(torch, [1.0, 2.0]), "b": constant(torch, 3.0)}
    jacobian = torch.func.jacrev(lambda p: p["a"] * p["b"])(params)
    assert jacobian["a"].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert jacobian["b"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("chunk_size", [1, 2])
def test_jacrev_in_chunks(torch, chunk_size):
    x = constant(torch, [1.0, 2.0, 3.0])
    found = torch.func.jacrev(lambda t: t**2, chunk_size=chunk_size)(x)
    assert near(found, torch.diag(2 * x))


def test_jacrev_and_jacfwd_agree_on_a_small_network(torch):
    w = torch.linspace(-1.0, 1.0, 6, dtype=torch.float64).reshape(3, 2)
    x = constant(torch, [0.3, -0.2])

    def network(t):
        return torch.tanh(w @ t).softmax(0)

    assert near(torch.func.jacrev(network)(x), torch.func.jacfwd(network)(x))


def test_hessian(torch):
    found = torch.func.hessian(lambda x: x[0] ** 2 * x[1])(constant(torch, [1.0, 2.0]))
    assert near(found, [[4.0, 2.0], [2.0, 0.0]])


def test_hessian_with_argnums(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, 3.0)
    blocks = torch.func.hessian(lambda a, b: (a**2).sum() * b**2, argnums=(0, 1))(x, y)
    assert near(blocks[0][0], [[18.0, 0.0], [0.0, 18.0]])
    assert near(blocks[0][1], [12.0, 24.0]) and near(blocks[1][0], [12.0, 24.0])
    assert near(blocks[1][1], 10.0)


@pytest.mark.parametrize("outer", ["jacrev", "jacfwd"])
@pytest.mark.parametrize("inner", ["jacrev", "jacfwd"])
def test_hessians_by_every_pair_of_modes(torch, outer, inner):
    def function(x):
        return (x.sin() * x.prod()).sum()

    x = constant(torch, [0.4, 0.9, 1.3])
    found = getattr(torch.func, outer)(getattr(torch.func, inner)(function))(x)
    assert near(found, torch.func.hessian(function)(x)) and near(found, found.t())


def test_a_hessian_vector_product_by_jvp_of_grad(torch):
    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, -1.0])
    gradient = torch.func.grad(lambda t: t[0] ** 2 * t[1])
    assert near(torch.func.jvp(gradient, (x,), (v,))[1], [2.0, 2.0])


@QUIET_LINEARIZE
def test_linearize(torch):
    x = constant(torch, [1.0, 2.0])
    out, push = torch.func.linearize(lambda t: t**2, x)
    assert out.tolist() == [1.0, 4.0]
    for v in ([1.0, 0.0], [3.0, 5.0]):
        tangent = constant(torch, v)
        assert near(push(tangent), torch.func.jvp(lambda t: t**2, (x,), (tangent,))[1])


@QUIET_LINEARIZE
def test_linearize_of_several_inputs(torch):
    x, y = constant(torch, [2.0]), constant(torch, [3.0])
    out, push = torch.func.linearize(lambda a, b: a * b.sin(), x, y)
    assert near(out, [2 * math.sin(3.0)])
    found = push(constant(torch, [1.0]), constant(torch, [1.0]))
    assert near(found, [math.sin(3.0) + 2 * math.cos(3.0)])


def test_transforms_on_a_function_with_control_flow(torch):
    def function(x):
        return x**2 if x.item() > 0 else -x

    gradient = torch.func.grad(function)
    assert gradient(constant(torch, 3.0)).item() == 6.0
    assert gradient(constant(torch, -3.0)).item() == -1.0


def test_grad_as_a_decorator(torch):
    @torch.func.grad
    def derivative(x):
        """Square it."""
        return x * x

    assert derivative(constant(torch, 3.0)).item() == 6.0
    assert derivative.__doc__ == "Square it."


def test_the_result_of_func_grad_does_not_require_grad(torch):
    assert not torch.func.grad(cube_sum)(constant(torch, [2.0])).requires_grad
