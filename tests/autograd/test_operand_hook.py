"""The place where autocast stands: operands are replaced between an op and its record."""

import contextlib
import threading

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("tapegrad's own", allow_module_level=True)

from tapegrad import _C


@contextlib.contextmanager
def operand_hook(hook):
    before = _C._set_operand_hook(hook)
    try:
        yield
    finally:
        assert _C._set_operand_hook(before) is hook


def to_half(op, operands):
    return [each.bfloat16() for each in operands]


PRODUCTS = {
    "matmul": lambda a, b, x: a @ b,
    "mm": lambda a, b, x: torch.mm(a, b),
    "bmm": lambda a, b, x: torch.bmm(a[None], b[None])[0],
    "mv": lambda a, b, x: torch.mv(a, b[:, 0]),
    "addmm": lambda a, b, x: torch.addmm(x, a, b),
    "linear": lambda a, b, x: torch.nn.functional.linear(a, b.t(), x),
    "with leading dimensions": lambda a, b, x: a[None, None] @ b,
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_operands_are_cast_and_gradients_cast_back(name):
    product = PRODUCTS[name]
    a, b, x = (torch.randn(4, 4, requires_grad=True) for _ in range(3))
    x = x[0].detach().requires_grad_()
    with operand_hook(to_half):
        y = product(a, b, x)
    assert y.dtype is torch.bfloat16
    y.float().sum().backward()
    grads = [each.grad for each in (a, b, x)]
    for each in (a, b, x):
        each.grad = None
    expected = product(*(each.bfloat16() for each in (a, b, x)))
    assert torch.equal(y, expected)
    expected.float().sum().backward()
    for each, grad in zip((a, b, x), grads, strict=True):
        if each.grad is None:
            assert grad is None
        else:
            assert grad.dtype is torch.float32 and torch.equal(grad, each.grad)


def test_a_hook_is_called_once_with_the_name_of_the_op():
    seen = []

    def hook(op, operands):
        seen.append((op, [tuple(each.shape) for each in operands]))
        return [each @ torch.eye(2) for each in operands]  # a product of its own

    with operand_hook(hook):
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2))
        torch.ones(2, 2) + torch.ones(2, 2)
    assert seen == [("mm", [(2, 2)] * 2), ("addmm", [(2, 2)] * 3)]


def test_derivatives_take_operands_as_they_are():
    calls = []

    def hook(op, operands):
        calls.append(op)
        return operands

    a = torch.randn(2, 2, requires_grad=True)
    with operand_hook(hook):
        y = a @ a
        y.sum().backward()
        torch.func.jvp(lambda x: x @ a, (a,), (a,))
        torch.autograd.grad((a @ a).sum(), a, create_graph=True)
    assert calls == ["matmul"] * 3


def test_a_hook_that_fails_stays():
    def fail(op, operands):
        raise ZeroDivisionError

    x = torch.ones(2, 2)
    with operand_hook(fail):
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                x @ x
    assert (x @ x).sum() == 8


def test_a_hook_that_returns_the_wrong_number_of_operands():
    x = torch.ones(2, 2)
    words = "mm: expected 2 operands from the operand hook, got 1"
    with operand_hook(lambda op, operands: operands[:1]), pytest.raises(RuntimeError, match=words):
        torch.mm(x, x)


def test_a_hook_belongs_to_its_thread():
    found = []
    with operand_hook(to_half):
        thread = threading.Thread(target=lambda: found.append(torch.ones(2, 2) @ torch.ones(2, 2)))
        thread.start()
        thread.join()
    assert found[0].dtype is torch.float32


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_with_the_hook_it_ran_with(reentrant):
    w = torch.randn(3, 3, requires_grad=True)

    def function(x):
        return (x @ w).float().sin() @ w

    def gradient(run):
        x = torch.arange(9.0).reshape(3, 3).requires_grad_()
        w.grad = None
        with operand_hook(to_half):
            y = run(x)
        y.float().sum().backward()
        return x.grad, w.grad

    checkpoint = torch.utils.checkpoint.checkpoint
    again = gradient(lambda x: checkpoint(function, x, use_reentrant=reentrant))
    assert all(map(torch.equal, again, gradient(function)))
    assert _C._operand_hook() is None
