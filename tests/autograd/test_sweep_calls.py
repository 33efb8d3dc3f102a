"""Calls at the end of sweeps, and leaves that run early: what reducers of gradients ask for."""

import pytest
from library import IS_TORCH

import tapegrad as torch

pytestmark = pytest.mark.skipif(IS_TORCH, reason="about tapegrad's engine")


@pytest.fixture
def early_leaves():
    torch._C._want_early_leaves(True)
    yield
    torch._C._want_early_leaves(False)


def test_calls_come_after_the_outermost_sweep():
    events = []
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))

    def inner(grad):
        with torch.enable_grad():
            (y * 2).sum().backward()
        events.append("inner is over")

    y.register_hook(lambda grad: torch._C._call_after_sweeps(lambda: events.append("call")))
    (x * 3).sum().backward()
    x.register_hook(inner)
    (x * 3).sum().backward()
    assert events == ["inner is over", "call"]
    (y * 2).sum().backward()
    assert events == ["inner is over", "call", "call"]


def test_calls_are_dropped_with_a_sweep_that_fails():
    events = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: torch._C._call_after_sweeps(lambda: events.append(1)))
    handle = x.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward(retain_graph=True)
    handle.remove()
    assert events == []
    y.sum().backward()
    assert events == [1]
    with pytest.raises(RuntimeError, match="from a hook while backward runs"):
        torch._C._call_after_sweeps(print)


def test_an_error_of_a_call_is_that_of_the_backward():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda grad: torch._C._call_after_sweeps(lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("held", [False, True])
def test_leaves_run_as_soon_as_they_can(early_leaves, held):
    weights = [torch.full((2,), 2.0, requires_grad=True) for _ in range(4)]
    old = sum(w.sum() for w in weights) if held else None  # makes all entries of leaves old
    events = []
    for number, w in enumerate(weights):
        w.register_hook(lambda grad, number=number: events.append(number))
    x = torch.ones(2)
    for number, w in enumerate(weights):
        x = x * w
        x.register_hook(lambda grad, number=number: events.append(f"after {number}"))
    (x * weights[1]).sum().backward()  # weights[1] is used twice
    assert events == ["after 3", 3, "after 2", 2, "after 1", 1, "after 0", 0]
    assert [w.grad.tolist() for w in weights] == [[16, 16], [32, 32], [16, 16], [16, 16]]
    del old


def test_early_leaves_that_are_roots_or_get_nothing(early_leaves):
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    torch.autograd.backward([x, x * 2], [torch.ones(2), torch.ones(2)])
    assert x.grad.tolist() == [3, 3]

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    (Half.apply(y, x) + y).sum().backward()
    assert y.grad.tolist() == [2, 2] and x.grad.tolist() == [3, 3]
    (grad,) = torch.autograd.grad((y * y).sum(), y, create_graph=True)
    (grad * grad).sum().backward()
    assert y.grad.tolist() == [10, 10]
