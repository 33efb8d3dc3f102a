"""Gradients of complex ops: finite differences, both modes, twice, batched; beside PyTorch's."""

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

from .cases import DIFFERENTIABLE, arrays

IDS = [name for name, *_ in DIFFERENTIABLE]
pytorch, REASON = pytorch_for_parity()


def leaves(library, operands, seed=0):
    return [library.from_numpy(x.copy()).requires_grad_() for x in arrays(operands, seed=seed)]


@pytest.mark.parametrize(("name", "call", "operands", "_"), DIFFERENTIABLE, ids=IDS)
def test_gradients(name, call, operands, _):
    inputs = leaves(torch, operands)
    torch.autograd.gradcheck(
        lambda *x: call(torch, *x), inputs, check_forward_ad=True, check_batched_grad=not IS_TORCH,
        check_batched_forward_grad=not IS_TORCH,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "call", "operands", "_"), DIFFERENTIABLE, ids=IDS)
def test_gradients_of_gradients(name, call, operands, _):
    inputs = leaves(torch, operands)
    torch.autograd.gradgradcheck(lambda *x: call(torch, *x), inputs, fast_mode=True)


# What fails there: a real gradient for a complex operand, version checks of its own writes,
# derivatives that are refused, and a factor that is not conjugated.
BROKEN_THERE = (
    "where.real", "write.part", "vander", "logaddexp.real", "silu", "nan_to_num", "index_add.alpha",
)  # fmt: skip


@pytest.mark.skipif(pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with")
@pytest.mark.parametrize(("name", "call", "operands", "_"), DIFFERENTIABLE, ids=IDS)
def test_gradients_are_those_of_pytorch(name, call, operands, _):
    if name in BROKEN_THERE:
        pytest.skip("PyTorch refuses its own gradient, or has another than the differences")
    found = []
    for library in (torch, pytorch):
        inputs = leaves(library, operands, seed=1)
        output = call(library, *inputs)
        rng = np.random.default_rng(2)
        weight = rng.normal(size=tuple(output.shape))
        if output.is_complex():
            weight = weight + 1j * rng.normal(size=tuple(output.shape))
        output.backward(library.from_numpy(np.asarray(weight)).to(output.dtype))
        found.append([None if x.grad is None else x.grad.resolve_conj().numpy() for x in inputs])
    for position, (ours, theirs) in enumerate(zip(*found, strict=True)):
        assert ours.dtype == theirs.dtype
        if name == "acosh":  # theirs has the wrong sign where the real part is negative
            right = arrays(operands, seed=1)[position].real > 0
            ours, theirs = ours[right], theirs[right]
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12, err_msg=f"{position}")


def test_backward_wants_a_gradient_for_a_complex_output():
    x = torch.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(RuntimeError, match="grad"):
        (x * x).sum().backward()
    (x * x).sum().backward(torch.tensor(1 + 0j))
    assert x.grad.tolist() == [2 - 4j]


def test_a_real_input_gets_a_real_gradient():
    x = torch.tensor([2.0], requires_grad=True)
    (x * (1 + 2j)).abs().sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.item() == pytest.approx(5**0.5)


def test_jvp_of_a_function_that_is_not_holomorphic():
    x, t = torch.tensor([1 + 2j]), torch.tensor([0.5 - 1j])
    value, tangent = torch.func.jvp(lambda z: z * z.conj(), (x,), (t,))
    assert value.tolist() == [5 + 0j]
    assert tangent.tolist() == [pytest.approx(2 * (0.5 - 2))]


def test_gradients_accumulate_and_hooks_see_them():
    x = torch.tensor([1 + 2j, 3j], requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.dtype))
    for _ in range(2):
        (x.abs() ** 2).sum().backward()
    assert x.grad.tolist() == pytest.approx([4 + 8j, 12j])
    assert seen == [torch.complex64, torch.complex64]
