"""Gradients of gradients: create_graph, products with Hessians, penalties, unrolled learning."""

import math

import pytest

from .values import constant, leaf, near


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_derivatives_of_a_power_to_any_order(torch, order):
    x = leaf(torch, 1.5)
    y = x**6
    for _ in range(order):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    factor = math.factorial(6) // math.factorial(6 - order)
    assert near(y, factor * 1.5 ** (6 - order))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_an_exponential_are_itself(torch, order):
    x = leaf(torch, 0.3)
    y = x.exp()
    for _ in range(order):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    assert near(y, math.exp(0.3))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_a_sine_turn_by_a_quarter(torch, order):
    x = leaf(torch, 0.3)
    y = x.sin()
    for _ in range(order):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    assert near(y, math.sin(0.3 + order * math.pi / 2))


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("log", -1 / 0.49),
        ("sqrt", -0.25 * 0.7**-1.5),
        ("reciprocal", 2 / 0.7**3),
        ("tanh", -2 * math.tanh(0.7) * (1 - math.tanh(0.7) ** 2)),
        ("atan", -2 * 0.7 / (1 + 0.49) ** 2),
        ("square", 2.0),
        ("log1p", -1 / 1.7**2),
        ("erf", -4 * 0.7 * math.exp(-0.49) / math.sqrt(math.pi)),
        ("sinh", math.sinh(0.7)),
        ("relu", 0.0),
    ],
)
def test_second_derivatives_of_elementwise_ops(torch, name, second):
    x = leaf(torch, 0.7)
    (first,) = torch.autograd.grad(getattr(torch, name)(x), x, create_graph=True)
    (found,) = torch.autograd.grad(first, x, allow_unused=True, materialize_grads=True)
    assert near(found, second)


def test_a_mixed_second_derivative(torch):
    x, y = leaf(torch, 2.0), leaf(torch, 3.0)
    (at_x,) = torch.autograd.grad(x**2 * y**3, x, create_graph=True)
    (mixed,) = torch.autograd.grad(at_x, y)
    assert near(mixed, 6 * 2.0 * 9.0)


def test_mixed_derivatives_commute(torch):
    x, y = leaf(torch, 0.4), leaf(torch, 0.9)
    f = (x * y).sin() * y.exp()
    at_x, at_y = torch.autograd.grad(f, (x, y), create_graph=True)
    (one,) = torch.autograd.grad(at_x, y, retain_graph=True)
    (other,) = torch.autograd.grad(at_y, x)
    assert near(one, other)


def test_without_create_graph_the_gradient_has_no_history(torch):
    x = leaf(torch, 2.0)
    (grad,) = torch.autograd.grad(x**3, x)
    assert not grad.requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(grad, x)


def test_a_hessian_vector_product(torch):
    x, v = leaf(torch, [1.0, 2.0]), constant(torch, [1.0, -1.0])
    (grad,) = torch.autograd.grad(x[0] ** 2 * x[1], x, create_graph=True)
    (product,) = torch.autograd.grad(grad @ v, x)
    # The Hessian at (1, 2) is [[4, 2], [2, 0]].
    assert near(product, [2.0, 2.0])


def test_a_hessian_by_rows(torch):
    x = leaf(torch, [1.0, 2.0])
    (grad,) = torch.autograd.grad(x[0] ** 2 * x[1], x, create_graph=True)
    rows = [torch.autograd.grad(g, x, retain_graph=True)[0] for g in grad]
    assert near(torch.stack(rows), [[4.0, 2.0], [2.0, 0.0]])


def test_forward_derivative_from_two_reverse_passes(torch):
    x, v = leaf(torch, [0.3, 0.6]), constant(torch, [1.0, 2.0])
    y = x.sin()
    dummy = torch.zeros_like(y, requires_grad=True)
    (pulled,) = torch.autograd.grad(y, x, grad_outputs=dummy, create_graph=True)
    (pushed,) = torch.autograd.grad(pulled, dummy, grad_outputs=v)
    assert near(pushed, x.cos() * v)


def test_a_gradient_penalty(torch):
    x, weight = constant(torch, [[1.0, 2.0]]).requires_grad_(), leaf(torch, [[3.0], [4.0]])
    out = (x @ weight).sum()
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    penalty = (grad.norm() - 1) ** 2
    penalty.backward()
    # The norm of the weight is 5: 2 * (5 - 1) * weight / 5.
    assert near(weight.grad, [[4.8], [6.4]])


def test_an_unrolled_inner_step(torch):
    rate, weight = leaf(torch, 0.1), leaf(torch, 2.0)
    inner = (weight - 5) ** 2
    (grad,) = torch.autograd.grad(inner, weight, create_graph=True)
    updated = weight - rate * grad
    ((updated - 5) ** 2).backward()
    # updated - 5 is (w - 5) (1 - 2 r).
    assert near(rate.grad, 2 * (-3.0 * 0.8) * (6.0)) and near(weight.grad, 2 * -3.0 * 0.8**2)


def test_several_unrolled_steps(torch):
    rate = leaf(torch, 0.1)
    weight = leaf(torch, 2.0)
    value = weight
    for _ in range(4):
        (grad,) = torch.autograd.grad((value - 5) ** 2, value, create_graph=True)
        value = value - rate * grad
    value.backward()
    assert near(weight.grad, 0.8**4)
    assert near(rate.grad, -3.0 * 4 * 0.8**3 * -2)


def test_an_implicit_derivative_of_a_fixed_point(torch):
    a = leaf(torch, 2.0)
    root = constant(torch, 1.0)
    for _ in range(30):
        root = 0.5 * (root + a.detach() / root)
    # One recorded Newton step has the derivative of the square root.
    x = root - (root**2 - a) / (2 * root)
    x.backward()
    assert near(a.grad, 0.5 / math.sqrt(2.0))


def test_second_derivatives_through_a_matrix_product(torch):
    x, w = leaf(torch, [[1.0, 2.0]]), leaf(torch, [[3.0], [4.0]])
    y = ((x @ w) ** 2).sum()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), w)
    # grad is 2 (x w) w^T; the derivative of its sum is 2 x^T (w1 + w2) + 2 (x w).
    assert near(second, [[14.0 + 22.0], [28.0 + 22.0]])


def test_second_derivatives_through_views_and_reductions(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = (x.t()[0].cumsum(0) ** 3).mean()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(grad[0, 0], x)
    # y is (a^3 + (a + c)^3) / 2 with a = 1 and c = 3.
    assert near(second, [[3.0 + 12.0, 0.0], [12.0, 0.0]])


def test_second_derivatives_through_in_place_ops(torch):
    x = leaf(torch, [2.0, 3.0])
    y = x * 1
    y[0].mul_(x[1])
    y.pow_(2)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad[1], x)
    # y is (x0 x1)^2 + x1^2.
    assert near(grad, [36.0, 30.0]) and near(second, [24.0, 10.0])


def test_second_derivatives_through_an_index(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    y = (x[torch.tensor([0, 0, 2])] ** 3).sum()
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert near(second, [12.0, 0.0, 18.0])


def test_second_derivatives_through_softmax(torch):
    x = leaf(torch, [0.1, 0.5, -0.2])
    p = x.softmax(0)
    (grad,) = torch.autograd.grad(p[0], x, create_graph=True)
    (second,) = torch.autograd.grad(grad[0], x)
    p = p.detach()
    expected = p[0] * (1 - 2 * p[0]) * (constant(torch, [1.0, 0.0, 0.0]) - p)
    assert near(second, expected)


def test_second_derivatives_of_a_product_with_a_zero(torch):
    x = leaf(torch, [0.0, 2.0, 3.0])
    (grad,) = torch.autograd.grad(x.prod(), x, create_graph=True)
    assert near(grad, [6.0, 0.0, 0.0])
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert near(second, [5.0, 3.0, 2.0])


def test_backward_through_a_gradient_reaches_every_leaf(torch):
    x, w = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0])
    (grad,) = torch.autograd.grad((w * x**2).sum(), x, create_graph=True)
    (grad**2).sum().backward()
    # grad is 2 w x.
    assert near(x.grad, [2 * 6 * 6.0, 2 * 16 * 8.0]) and near(w.grad, [2 * 6 * 2.0, 2 * 16 * 4.0])


def test_a_gradient_may_be_written_in_place_and_differentiated(torch):
    x = leaf(torch, [2.0])
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    grad = grad.clone()
    grad.mul_(x)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert near(second, [9 * 4.0])


def test_the_second_derivative_where_a_branch_is_not_taken(torch):
    x = leaf(torch, [-1.0, 2.0])
    y = torch.where(x > 0, x**3, x)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert near(second, [0.0, 12.0])


def test_newtons_method_finds_a_minimum(torch):
    x = leaf(torch, 1.0)
    for _ in range(8):
        (first,) = torch.autograd.grad(x.exp() - 2 * x, x, create_graph=True)
        (second,) = torch.autograd.grad(first, x)
        x = (x - first / second).detach().requires_grad_()
    assert near(x, math.log(2.0))
