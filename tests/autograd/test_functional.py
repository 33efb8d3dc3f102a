"""torch.autograd.functional: jacobian, hessian, vjp, jvp, hvp, vhp and their options."""

import pytest

from .values import constant, leaf, near


def square(x):
    return x**2


def cube_sum(x):
    return (x**3).sum()


def test_jacobian(torch):
    x = constant(torch, [1.0, 2.0])
    found = torch.autograd.functional.jacobian(square, x)
    assert near(found, [[2.0, 0.0], [0.0, 4.0]]) and not x.requires_grad


def test_jacobian_shape_is_output_then_input(torch):
    x = torch.ones(2, 3, dtype=torch.float64)
    assert torch.autograd.functional.jacobian(lambda t: t.sum(0), x).shape == (3, 2, 3)


def test_jacobian_of_several_inputs_is_a_tuple(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, [3.0, 4.0])
    at_x, at_y = torch.autograd.functional.jacobian(lambda a, b: a * b, (x, y))
    assert near(at_x, [[3.0, 0.0], [0.0, 4.0]]) and near(at_y, [[1.0, 0.0], [0.0, 2.0]])


def test_jacobian_of_several_outputs_is_a_tuple_of_tuples(torch):
    x, y = constant(torch, [1.0]), constant(torch, [3.0])
    found = torch.autograd.functional.jacobian(lambda a, b: (a * b, a + b), (x, y))
    assert [[part.item() for part in row] for row in found] == [[3.0, 1.0], [1.0, 1.0]]


def test_jacobian_of_an_unused_input_is_zeros(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, [3.0])
    _, at_y = torch.autograd.functional.jacobian(lambda a, b: a * 2, (x, y))
    assert at_y.tolist() == [[0.0], [0.0]]


def test_jacobian_strict_refuses_an_unused_input(torch):
    x, y = constant(torch, [1.0, 2.0]), constant(torch, [3.0])
    with pytest.raises(RuntimeError):
        torch.autograd.functional.jacobian(lambda a, b: a * 2, (x, y), strict=True)


def test_jacobian_strict_refuses_an_output_without_history(torch):
    x = constant(torch, [1.0])
    with pytest.raises(RuntimeError):
        torch.autograd.functional.jacobian(lambda a: torch.ones(2), x, strict=True)


def test_jacobian_has_no_history_by_default(torch):
    x = leaf(torch, [1.0, 2.0])
    assert not torch.autograd.functional.jacobian(square, x).requires_grad


def test_jacobian_create_graph(torch):
    x = leaf(torch, [1.0, 2.0])
    found = torch.autograd.functional.jacobian(lambda t: t**3, x, create_graph=True)
    found.sum().backward()
    assert near(x.grad, [6.0, 12.0])


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian_vectorized(torch, strategy):
    x = constant(torch, [0.3, 0.7, 1.1])

    def function(t):
        return (t.sin().unsqueeze(1) * t).sum(0)

    plain = torch.autograd.functional.jacobian(function, x)
    found = torch.autograd.functional.jacobian(function, x, vectorize=True, strategy=strategy)
    assert near(found, plain)


def test_jacobian_forward_mode_must_be_vectorized(torch):
    with pytest.raises(NotImplementedError):
        torch.autograd.functional.jacobian(
            square, constant(torch, [1.0]), vectorize=False, strategy="forward-mode"
        )


def test_an_unknown_strategy_is_refused(torch):
    with pytest.raises((RuntimeError, ValueError, AssertionError)):
        torch.autograd.functional.jacobian(square, constant(torch, [1.0]), strategy="sideways")


def test_jacobian_refuses_what_is_no_tensor(torch):
    with pytest.raises(TypeError):
        torch.autograd.functional.jacobian(square, "text")
    with pytest.raises(TypeError):
        torch.autograd.functional.jacobian(lambda t: "text", constant(torch, [1.0]))


def test_hessian(torch):
    found = torch.autograd.functional.hessian(cube_sum, constant(torch, [1.0, 2.0]))
    assert near(found, [[6.0, 0.0], [0.0, 12.0]])


def test_hessian_of_several_inputs(torch):
    x, y = constant(torch, [1.0]), constant(torch, [3.0])
    blocks = torch.autograd.functional.hessian(lambda a, b: (a**2 * b**2).sum(), (x, y))
    assert [[block.item() for block in row] for row in blocks] == [[18.0, 12.0], [12.0, 2.0]]


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessian_vectorized(torch, strategy):
    x = constant(torch, [0.3, 0.7])
    plain = torch.autograd.functional.hessian(lambda t: t.sin().prod(), x)
    found = torch.autograd.functional.hessian(
        lambda t: t.sin().prod(), x, vectorize=True, outer_jacobian_strategy=strategy
    )
    assert near(found, plain)


def test_hessian_create_graph(torch):
    x = leaf(torch, [2.0])
    found = torch.autograd.functional.hessian(lambda t: (t**4).sum(), x, create_graph=True)
    found.sum().backward()
    assert near(x.grad, [48.0])


def test_hessian_needs_a_scalar(torch):
    with pytest.raises(RuntimeError):
        torch.autograd.functional.hessian(square, constant(torch, [1.0, 2.0]))


def test_vjp(torch):
    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, 10.0])
    out, product = torch.autograd.functional.vjp(square, x, v)
    assert out.tolist() == [1.0, 4.0] and product.tolist() == [2.0, 40.0]


def test_vjp_of_a_scalar_needs_no_vector(torch):
    _, product = torch.autograd.functional.vjp(cube_sum, constant(torch, [2.0]))
    assert near(product, [12.0])


def test_vjp_of_a_vector_needs_a_vector(torch):
    with pytest.raises(RuntimeError):
        torch.autograd.functional.vjp(square, constant(torch, [1.0, 2.0]))


def test_vjp_refuses_a_vector_of_another_shape(torch):
    with pytest.raises(RuntimeError):
        torch.autograd.functional.vjp(
            square, constant(torch, [1.0, 2.0]), constant(torch, [1.0, 2.0, 3.0])
        )


def test_vjp_strict(torch):
    x, y, v = (constant(torch, [1.0]) for _ in range(3))
    _, (_, at_y) = torch.autograd.functional.vjp(lambda a, b: a * 2, (x, y), v)
    assert at_y.tolist() == [0.0]
    with pytest.raises(RuntimeError):
        torch.autograd.functional.vjp(lambda a, b: a * 2, (x, y), v, strict=True)


def test_vjp_create_graph(torch):
    x, v = leaf(torch, [2.0]), constant(torch, [1.0])
    _, product = torch.autograd.functional.vjp(lambda t: t**3, x, v, create_graph=True)
    product.sum().backward()
    assert near(x.grad, [12.0])


def test_jvp(torch):
    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, 10.0])
    out, product = torch.autograd.functional.jvp(square, x, v)
    assert out.tolist() == [1.0, 4.0] and product.tolist() == [2.0, 40.0]


def test_jvp_of_several_inputs(torch):
    x, y = constant(torch, [2.0]), constant(torch, [3.0])
    one, ten = constant(torch, [1.0]), constant(torch, [10.0])
    _, product = torch.autograd.functional.jvp(lambda a, b: a * b, (x, y), (one, ten))
    assert product.tolist() == [23.0]


def test_jvp_of_a_single_element_needs_no_vector(torch):
    _, product = torch.autograd.functional.jvp(square, constant(torch, [3.0]))
    assert product.tolist() == [6.0]


def test_jvp_strict(torch):
    x = constant(torch, [1.0])
    _, product = torch.autograd.functional.jvp(lambda a: torch.ones(2), x, x)
    assert product.tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError):
        torch.autograd.functional.jvp(lambda a: torch.ones(2), x, x, strict=True)


def test_jvp_create_graph(torch):
    x, v = leaf(torch, [2.0]), constant(torch, [1.0])
    _, product = torch.autograd.functional.jvp(lambda t: t**3, x, v, create_graph=True)
    product.sum().backward()
    assert near(x.grad, [12.0])


def test_hvp_and_vhp(torch):
    x, v = constant(torch, [1.0, 2.0]), constant(torch, [1.0, -1.0])
    for name in ("hvp", "vhp"):
        value, product = getattr(torch.autograd.functional, name)(lambda t: t[0] ** 2 * t[1], x, v)
        assert near(value, 2.0) and near(product, [2.0, 2.0])


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_hessian_products_of_several_inputs(torch, name):
    x, y = constant(torch, [1.0]), constant(torch, [3.0])
    one = constant(torch, [1.0])
    _, products = getattr(torch.autograd.functional, name)(
        lambda a, b: (a**2 * b**2).sum(), (x, y), (one, one)
    )
    assert [part.item() for part in products] == [30.0, 14.0]


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_hessian_products_need_a_scalar(torch, name):
    x = constant(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError):
        getattr(torch.autograd.functional, name)(square, x, x)


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_hessian_products_strict(torch, name):
    x = constant(torch, [1.0])
    product_of = getattr(torch.autograd.functional, name)
    _, product = product_of(lambda t: (t * 2).sum(), x, x)
    assert product.tolist() == [0.0]
    with pytest.raises(RuntimeError):
        product_of(lambda t: (t * 2).sum(), x, x, strict=True)


@pytest.mark.parametrize("name", ["hvp", "vhp"])
def test_hessian_products_create_graph(torch, name):
    x, v = leaf(torch, [2.0]), constant(torch, [1.0])
    _, product = getattr(torch.autograd.functional, name)(
        lambda t: (t**4).sum(), x, v, create_graph=True
    )
    product.sum().backward()
    assert near(product, [48.0]) and near(x.grad, [48.0])


def test_functional_and_func_agree(torch):
    x = constant(torch, [0.4, 0.9])

    def function(t):
        return torch.stack([t.prod(), t.sin().sum(), t[0] / t[1]])

    assert near(torch.autograd.functional.jacobian(function, x), torch.func.jacrev(function)(x))
