"""Transforms inside transforms: forward over forward, mixtures, vmap between them, other modes."""

import pytest

from .values import constant, leaf, near

POINT = [0.3, 0.7, 1.1]

# Ops whose derivative is written with their own output, and others whose second derivative is not
# what a first look suggests.
FUNCTIONS = {
    "exp": lambda torch, x: x.exp(),
    "sigmoid": lambda torch, x: x.sigmoid(),
    "tanh": lambda torch, x: x.tanh(),
    "sqrt": lambda torch, x: x.sqrt(),
    "rsqrt": lambda torch, x: x.rsqrt(),
    "reciprocal": lambda torch, x: x.reciprocal(),
    "tan": lambda torch, x: x.tan(),
    "softmax": lambda torch, x: x.softmax(0),
    "log_softmax": lambda torch, x: x.log_softmax(0),
    "logsumexp": lambda torch, x: x.logsumexp(0),
    "norm": lambda torch, x: x.norm(),
    "cumprod": lambda torch, x: x.cumprod(0),
    "prod": lambda torch, x: x.prod(),
    "in_place_exp": lambda torch, x: (x * 1).exp_(),
    "in_place_exp_of_a_view": lambda torch, x: written_through_a_view(x, lambda v: v.exp_()),
    "in_place_tanh_of_a_view": lambda torch, x: written_through_a_view(x, lambda v: v.tanh_()),
}


def written_through_a_view(x, write):
    y = x * x
    write(y[1:])
    return y


def weighted(torch, y):
    return (y * torch.arange(1.0, y.numel() + 1, dtype=torch.float64).reshape(y.shape)).sum()


def along(torch, function, x, direction):
    return torch.func.jvp(function, (x,), (direction,))[1]


@pytest.fixture(params=FUNCTIONS)
def function(request, torch):
    if torch.__name__ == "torch" and request.param == "norm":
        pytest.skip("PyTorch refuses the third derivative")
    return lambda x: weighted(torch, FUNCTIONS[request.param](torch, x))


def third_derivative(torch, function, x, direction):
    """Along one direction, by reverse mode alone."""
    x = x.detach().requires_grad_()
    y = function(x)
    for _ in range(3):
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        y = (grad * direction).sum()
    return y.detach()


def test_forward_over_forward(torch, function):
    x, direction = constant(torch, POINT), constant(torch, [1.0, -2.0, 0.5])
    first = lambda x: along(torch, function, x, direction)  # noqa: E731
    second = lambda x: along(torch, first, x, direction)  # noqa: E731
    hessian = torch.autograd.functional.hessian(function, x)
    assert near(second(x), direction @ hessian @ direction)
    if torch.__name__ == "tapegrad":  # PyTorch's forward mode lacks some third derivatives
        expected = third_derivative(torch, function, x, direction)
        assert near(along(torch, second, x, direction), expected)


def test_mixtures_agree(torch, function):
    """Every order of forward and reverse mode gives the same third derivative."""
    x, direction = constant(torch, POINT), constant(torch, [1.0, -2.0, 0.5])
    steps = {
        "jvp": lambda f: lambda x: along(torch, f, x, direction),
        "grad": lambda f: lambda x: (torch.func.grad(f)(x) * direction).sum(),
    }
    expected = third_derivative(torch, function, x, direction)
    orders = [("grad", "grad", "jvp"), ("grad", "jvp", "grad"), ("jvp", "grad", "grad")]
    if torch.__name__ == "tapegrad":
        orders += [("grad", "jvp", "jvp"), ("jvp", "grad", "jvp"), ("jvp", "jvp", "grad")]
    for order in orders:
        composed = function
        for step in order:
            composed = steps[step](composed)
        assert near(composed(x), expected), order


def test_jvp_of_grad_of_grad(torch):
    grad = torch.func.grad
    x, one = constant(torch, 0.3), constant(torch, 1.0)
    value, tangent = torch.func.jvp(grad(grad(torch.exp)), (x,), (one,))
    assert near(value, x.exp()) and near(tangent, x.exp())


def test_grad_of_jvp_of_grad(torch):
    grad = torch.func.grad
    x, one = constant(torch, 0.3), constant(torch, 1.0)
    assert near(grad(lambda x: along(torch, grad(torch.exp), x, one))(x), x.exp())


def test_hessian_of_hessian(torch):
    hessian = torch.func.hessian
    assert near(hessian(hessian(torch.exp))(constant(torch, 0.3)), constant(torch, 0.3).exp())


def test_the_tangent_of_a_gradient_has_no_history(torch):
    x = constant(torch, POINT)
    value, tangent = torch.func.jvp(torch.func.grad(lambda x: x.exp().sum()), (x,), (x,))
    assert not value.requires_grad and not tangent.requires_grad


def test_jvp_of_grad_of_vmap(torch):
    rows = constant(torch, [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9], [1.0, 1.1, 1.2]])
    weight, direction = constant(torch, [1.0, 2.0, 3.0]), constant(torch, [1.0, -1.0, 2.0])

    def total(weight):
        return torch.func.vmap(lambda row: (row * weight).sin().sum())(rows).sum()

    found = along(torch, torch.func.grad(total), weight, direction)
    expected = torch.func.hessian(lambda w: (rows * w).sin().sum())(weight) @ direction
    assert near(found, expected)


def test_double_backward_through_vmap_with_a_captured_value_used_twice(torch):
    rows = constant(torch, [0.5, 1.0, 2.0])

    def second(mapped):
        x = leaf(torch, 3.0)
        captured = x * x
        y = mapped(lambda row: (captured * row).sin() * captured * (row + captured).cos())
        (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(grad, x)[0]

    by_loop = second(lambda f: torch.stack([f(row) for row in rows]))
    assert near(second(lambda f: torch.func.vmap(f)(rows)), by_loop)


def test_double_backward_through_vmap_with_a_value_inside_used_twice(torch):
    rows = constant(torch, [0.5, 1.0, 2.0])

    def second(mapped):
        x = leaf(torch, 3.0)

        def inside(row):
            inner = (x * row).sin()
            return inner * inner.exp() + inner**3

        (grad,) = torch.autograd.grad(mapped(inside).sum(), x, create_graph=True)
        return torch.autograd.grad(grad, x)[0]

    by_loop = second(lambda f: torch.stack([f(row) for row in rows]))
    assert near(second(lambda f: torch.func.vmap(f)(rows)), by_loop)


def test_reverse_over_forward_through_vmap_over_a_value_that_it_also_captures(torch):
    """Gradients of one tangent come from each element of the batch and from the whole."""
    x, direction = constant(torch, [0.4, -0.3]), constant(torch, [1.0, 0.5])

    def total(x):
        y = x * x
        return torch.func.vmap(lambda element: (element * y).sum())(y).sum()

    found = torch.func.grad(lambda x: along(torch, total, x, direction))(x) @ direction
    expected = torch.func.hessian(lambda x: (x * x).sum() ** 2)(x)
    assert near(found, direction @ expected @ direction)


def test_a_value_made_inside_vmap_is_used_inside_and_outside(torch):
    x, rows = constant(torch, 3.0), constant(torch, [1.0, 2.0, 4.0])

    def total(x):
        def inside(row):
            shared = x * x
            return row * shared, shared

        mapped, shared = torch.func.vmap(inside, out_dims=(0, None))(rows)
        return mapped.sum() + shared * 10

    assert near(torch.func.grad(total)(x), 17 * 2 * x)
    assert near(along(torch, torch.func.grad(total), x, constant(torch, 1.0)), 34.0)


TRANSFORMS = {
    "jvp": lambda torch, f, x: torch.func.jvp(f, (x,), (x,))[1],
    "grad": lambda torch, f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "vjp": lambda torch, f, x: torch.func.vjp(f, x)[1](x)[0],
    "jacrev": lambda torch, f, x: torch.func.jacrev(f)(x),
    "jacfwd": lambda torch, f, x: torch.func.jacfwd(f)(x),
    "hessian": lambda torch, f, x: torch.func.hessian(f)(x),
    "vmap_of_grad": lambda torch, f, x: torch.func.vmap(torch.func.grad(f))(x),
    "jvp_of_jvp": lambda torch, f, x: along(torch, lambda x: along(torch, f, x, x * x), x, x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_work_in_inference_mode(torch, name):
    transform, x = TRANSFORMS[name], constant(torch, POINT)
    expected = transform(torch, lambda x: x.exp() * x, x)
    with torch.inference_mode():
        inside = x * 1
        for point in (x, inside):
            found = transform(torch, lambda x: x.exp() * x, point)
            assert near(found, expected)
            assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()


def test_a_transform_in_inference_mode_may_use_a_tensor_made_there(torch):
    with torch.inference_mode():
        factor = constant(torch, POINT) * 1
        hessian = torch.func.hessian(lambda x: (x.exp() * factor).sum())(constant(torch, POINT))
    assert near(hessian.diagonal(), constant(torch, POINT).exp() * constant(torch, POINT))


def test_a_transform_in_inference_mode_makes_normal_tensors(torch):
    with torch.inference_mode():
        x = constant(torch, POINT)
        assert not torch.func.grad(lambda x: x.exp().sum())(x).is_inference()
        assert not torch.func.jvp(torch.exp, (x,), (x,))[1].is_inference()
        assert not torch.func.vjp(torch.exp, x)[1](x)[0].is_inference()
        assert (x * 1).is_inference()


def test_inference_mode_inside_a_transform_hides_the_derivative(torch):
    def function(x):
        with torch.inference_mode():
            return x.exp()

    x = constant(torch, POINT)
    assert along(torch, function, x, x).tolist() == [0.0, 0.0, 0.0]


def test_jvp_inside_the_forward_of_a_custom_function(torch):
    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.func.jvp(torch.exp, (x,), (torch.ones_like(x),))[1]

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = constant(torch, POINT)
    assert near(Slope.apply(x), x.exp())


def test_linearize_is_differentiated(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch's linearize bakes the point in")
    x, direction = constant(torch, POINT), constant(torch, [1.0, -2.0, 0.5])
    push = lambda x, v: torch.func.linearize(torch.sin, x)[1](v).sum()  # noqa: E731
    assert near(torch.func.grad(push, 1)(x, direction), x.cos())
    assert near(torch.func.grad(push, 0)(x, direction), -x.sin() * direction)


def doubled(x):
    x[:1].mul_(2)
    return x.exp_()


def test_forward_over_forward_of_a_function_that_writes_to_its_argument(torch):
    def wanted(x):
        return torch.cat([(2 * x[:1]).exp(), x[1:].exp()])

    x, direction = constant(torch, POINT), constant(torch, [1.0, -2.0, 0.5])
    results = []
    for function in (doubled, wanted):
        inner = lambda x, f=function: torch.func.jvp(f, (x,), (direction.clone(),))  # noqa: E731
        results.append(torch.func.jvp(inner, (x.clone(),), (direction.clone(),)))
    for found, expected in zip(*results, strict=True):
        assert near(found[0], expected[0]) and near(found[1], expected[1])


WRITING = {
    "grad": lambda torch, x: torch.func.grad(lambda x: x.mul_(2).sum())(x),
    "grad of a part": lambda torch, x: torch.func.grad(lambda x: doubled(x).sum())(x),
    "vjp": lambda torch, x: torch.func.vjp(doubled, x)[1](x),
    "jacrev": lambda torch, x: torch.func.jacrev(doubled)(x),
    "hessian": lambda torch, x: torch.func.hessian(doubled)(x),
    "grad of jvp": lambda torch, x: torch.func.grad(
        lambda x: torch.func.jvp(doubled, (x,), (x * x,))[1].sum()
    )(x),
    "custom function": lambda torch, x: torch.func.grad(
        lambda x: writing_function(torch).apply(x).sum()
    )(x),
}


def writing_function(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Double


@pytest.mark.parametrize("name", WRITING)
def test_a_write_to_the_input_of_a_reverse_mode_transform_is_refused(torch, name):
    """Its gradient is asked for, so it is a leaf to the function."""
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        WRITING[name](torch, constant(torch, POINT))


def test_two_forward_levels_over_a_vjp_that_reads_the_batch_and_what_it_captures(torch):
    """The inner level's transposed vjp has entries whose inputs carry tangents of the outer one.

    Gradients were summed over the batch there: right alone, wrong where a cotangent of softmax
    depends on the batch and on the point both.
    """
    func = torch.func
    x, direction = constant(torch, [0.3, -0.4, 0.9]), constant(torch, [0.5, 0.2, -0.7])
    rows = constant(torch, [[1.0, -2.0, 0.5], [0.3, 0.7, -1.1]])

    def part(x, row):
        _, pull = func.vjp(lambda z: torch.softmax(z, 0), x)
        return pull(row * x)[0]

    def along(f):
        return lambda x: func.jvp(f, (x,), (direction,))[1]

    def second_slope_of_gradient(total):
        return along(along(func.grad(total)))(x)

    mapped = second_slope_of_gradient(lambda x: (rows * func.vmap(part, (None, 0))(x, rows)).sum())
    looped = second_slope_of_gradient(lambda x: sum((row * part(x, row)).sum() for row in rows))
    assert near(mapped, looped)
