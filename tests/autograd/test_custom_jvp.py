"""Custom functions in forward mode, what their jvp is given, and setup_context's arguments."""

import pytest

from .values import constant, leaf, near


def dual(torch, value, tangent):
    make_dual = torch.autograd.forward_ad.make_dual
    return make_dual(constant(torch, value), constant(torch, tangent))


def tangent_of(torch, tensor):
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent


def product(torch, *, materialize):
    """Return a function of two tensors, an integer tensor and a string that notes its tangents."""

    class Product(torch.autograd.Function):
        given = None

        @staticmethod
        def forward(ctx, x, y, index, text):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def jvp(ctx, tx, ty, tindex, ttext):
            Product.given = (tx, ty, tindex, ttext)
            x, y = ctx.saved_tensors
            parts = [t * v for t, v in ((tx, y), (ty, x)) if t is not None]
            return sum(parts[1:], parts[0])

    return Product


def test_a_missing_tangent_is_zeros(torch):
    Product = product(torch, materialize=True)
    with torch.autograd.forward_ad.dual_level():
        x, y = dual(torch, [2.0], [1.0]), constant(torch, [3.0])
        assert tangent_of(torch, Product.apply(x, y, torch.arange(2), "text")).tolist() == [3.0]
        assert Product.given[1].tolist() == [0.0] and Product.given[2:] == (None, None)
        assert tangent_of(torch, Product.apply(y, x, torch.arange(2), "text")).tolist() == [3.0]
        assert Product.given[0].tolist() == [0.0]


def test_a_missing_tangent_is_none_without_materialize_grads(torch):
    Product = product(torch, materialize=False)
    with torch.autograd.forward_ad.dual_level():
        x, y = dual(torch, [2.0], [1.0]), constant(torch, [3.0])
        assert tangent_of(torch, Product.apply(x, y, torch.arange(2), "text")).tolist() == [3.0]
        assert Product.given[0].tolist() == [1.0] and Product.given[1:] == (None, None, None)


def exponential(torch):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.saved_tensors[0]

    return Exp


def test_an_output_that_was_saved_carries_its_tangent(torch):
    Exp, x, one = exponential(torch), constant(torch, 0.3), constant(torch, 1.0)
    grad, jvp = torch.func.grad, torch.func.jvp
    assert near(jvp(grad(Exp.apply), (x,), (one,))[1], x.exp())
    assert near(grad(grad(Exp.apply))(x), x.exp())
    slope = lambda x: jvp(Exp.apply, (x,), (one,))[1]  # noqa: E731
    if torch.__name__ == "tapegrad":  # PyTorch gives 0
        assert near(grad(slope)(x), x.exp())
        assert near(jvp(slope, (x,), (one,))[1], x.exp())


def test_a_jvp_that_writes_in_place(torch):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mul_(2)

    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [2.0], [1.0])
        y = Double.apply(x)
        assert y is x
        assert tangent_of(torch, x).tolist() == [2.0]


def test_a_view_written_by_a_function_with_a_jvp_is_refused(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch writes through views of tangents")

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 2

    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [2.0, 3.0], [1.0, 1.0])
        with pytest.raises(RuntimeError, match=r"view is marked dirty.*\.clone\(\)"):
            Double.apply(x[:1])


def test_setup_context_gets_default_arguments(torch):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor=2.0, power=1):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.factor, power = inputs
            assert power == 1

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None, None

    for arguments, expected in (((), 2.0), ((5.0,), 5.0), ((5.0, 1), 5.0)):
        x = leaf(torch, [1.0])
        Scale.apply(x, *arguments).sum().backward()
        assert x.grad.tolist() == [expected]


def test_backward_returns_a_gradient_for_each_default_argument(torch):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, factor=2.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="expected 2, got 1"):
        Scale.apply(leaf(torch, [1.0])).sum().backward()
