"""Ops of one's own: `torch.library.custom_op`."""

import importlib

import pytest
from library import IS_TORCH, NAME, torch

library = importlib.import_module(f"{NAME}.library")
Tensor = torch.Tensor


@pytest.fixture(scope="module")
def scaled():
    @library.custom_op("tests::scaled", mutates_args=())
    def scaled(x: Tensor, y: Tensor, n: int = 3, *, s: float = 1.0) -> tuple[Tensor, Tensor]:
        return x * n * s, y + n

    def keep(ctx, inputs, keyword_only_inputs, output):
        assert len(inputs) == 3 and len(output) == 2
        ctx.factor = inputs[2] * keyword_only_inputs["s"]

    def backward(ctx, grad_first, grad_second):
        assert ctx.needs_input_grad[0] is True
        return grad_first * ctx.factor, grad_second, None

    scaled.register_autograd(backward, setup_context=keep)
    return scaled


def test_results_and_gradients(scaled):
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    for call in (scaled, torch.ops.tests.scaled, torch.ops.tests.scaled.default):
        x.grad = None
        first, second = call(x, y, s=2.0)
        assert first.tolist() == [6.0, 6.0] and second.tolist() == [4.0, 4.0]
        (first * torch.tensor([1.0, 2.0])).sum().backward()
        assert x.grad.tolist() == [6.0, 12.0]
    assert scaled(y, y, 1)[1].tolist() == [2.0, 2.0] and scaled(y, y)[0].grad_fn is None
    assert "tests_scaled" in type(first.grad_fn).__name__
    with torch.no_grad():
        assert not scaled(x, y)[0].requires_grad


def test_gradient_of_gradient(scaled):
    x = torch.tensor(2.0, requires_grad=True)
    cubed = scaled(x**3, x)[0]
    (g,) = torch.autograd.grad(cubed, x, create_graph=True)
    assert torch.autograd.grad(g, x)[0].item() == 36.0


def test_lists_of_tensors():
    @library.custom_op("tests::scaled_all", mutates_args=())
    def scaled_all(xs: list[Tensor], k: float) -> list[Tensor]:
        return [x * k for x in xs]

    def keep(ctx, inputs, output):
        assert isinstance(output, list)
        ctx.k = inputs[1]

    def backward(ctx, grads):
        assert isinstance(grads, list) and ctx.needs_input_grad[0] == [True, False]
        return [grads[0] * ctx.k, None], None

    scaled_all.register_autograd(backward, setup_context=keep)
    x, y = torch.ones(2, requires_grad=True), torch.ones(3)
    result = scaled_all([x, y], 4.0)
    assert isinstance(result, list) and result[1].tolist() == [4.0] * 3
    (result[0].sum() + result[1].sum()).backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_without_a_derivative():
    @library.custom_op("tests::plain", mutates_args=())
    def plain(x: Tensor) -> Tensor:
        return x.exp()

    y = plain(torch.ones(2, requires_grad=True))
    assert y.requires_grad
    with pytest.raises(RuntimeError, match=r"tests\.plain\.default but no autograd formula"):
        y.sum().backward()


def test_results_share_no_memory():
    @library.custom_op("tests::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(torch.ones(2))


def test_arguments_that_are_written():
    @library.custom_op("tests::increase", mutates_args=("x",))
    def increase(x: Tensor) -> None:
        x.add_(1)

    x = torch.ones(2)
    version = x._version
    assert increase(x) is None and x.tolist() == [2.0, 2.0] and x._version > version
    with pytest.raises(RuntimeError, match="non-functional operator"):
        increase.register_autograd(lambda ctx: None)


def test_meta_device_runs_the_fake():
    library.custom_op(
        "tests::count",
        lambda x: torch.tensor(float(x.numpy().size)),
        mutates_args=(),
        schema="(Tensor x) -> Tensor",
    )
    count = torch.ops.tests.count
    with pytest.raises((RuntimeError, NotImplementedError)):
        count(torch.ones(2, device="meta"))
    library.register_fake("tests::count", lambda x: x.new_empty(()))
    assert count(torch.ones(2, 3, device="meta")).shape == () and count(torch.ones(4)) == 4
    library.register_fake("tests::count", lambda x: x.new_empty(1), allow_override=False)
    assert count(torch.ones(2, 3, device="meta")).shape == (1,)


def test_kernels_by_device():
    @library.custom_op("tests::where", mutates_args=(), device_types="cuda")
    def where(x: Tensor) -> Tensor:
        return x + 1

    with pytest.raises((RuntimeError, NotImplementedError)):
        where(torch.ones(1))

    @library.register_kernel("tests::where", "cpu")
    def _(x):
        return x + 2

    assert where(torch.ones(1)).item() == 3.0


def test_an_op_is_defined_anew():
    for value in (1.0, 2.0):

        @library.custom_op("tests::anew", mutates_args=())
        def anew(x: Tensor) -> Tensor:
            return x * value  # noqa: B023

        assert torch.ops.tests.anew(torch.ones(1)).item() == value


def test_what_is_refused():
    with pytest.raises(ValueError, match="make these consistent"):
        library.custom_op(
            "tests::bad", lambda x: None, mutates_args=(), schema="(Tensor(a!) x) -> ()"
        )
    with pytest.raises(ValueError):
        library.custom_op("bad", mutates_args=())(lambda x: None)
    with pytest.raises((RuntimeError, AttributeError)):
        library.register_autograd("tests::nobody", lambda ctx, grad: grad)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch leaves the tensor without a derivative")
def test_writing_to_what_requires_a_gradient_is_refused():
    @library.custom_op("tests::doubled", mutates_args=("x",))
    def doubled(x: Tensor) -> None:
        x.mul_(2)

    with pytest.raises(RuntimeError, match="writes to 'x', which requires a gradient"):
        doubled(torch.ones(2, requires_grad=True))


@pytest.mark.skipif(IS_TORCH, reason="PyTorch's compiler takes seconds")
def test_compiled_functions_see_what_it_is_made_of(scaled):
    x = torch.tensor([1.0, 2.0])
    step = torch.compile(lambda x: scaled(x, x)[0].sum())
    assert [step(x).item() for _ in range(3)] == [9.0] * 3
