"""The dispatch point's capture hook: a whole training step as a flat list of calls."""

import os

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("capture below autograd is tapegrad's own", allow_module_level=True)

from tapegrad import _C


def training_step(weights, x, target, rate):
    """Forward, backward and parameter update; returns the loss."""
    first, second = weights
    hidden = torch.tanh(x @ first)
    loss = ((hidden @ second - target) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for weight in weights:
            weight.sub_(weight.grad * rate)
            weight.grad.zero_()
    return loss


def make_state():
    torch.manual_seed(3)
    x, target = torch.randn(8, 5), torch.randn(8, 2)
    weights = [torch.randn(5, 7, requires_grad=True), torch.randn(7, 2, requires_grad=True)]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    return weights, x, target


def test_replay_continues_training_as_eager_does():
    eager_weights, x, target = make_state()
    eager_losses = [training_step(eager_weights, x, target, 0.1).item() for _ in range(6)]

    weights, x, target = make_state()
    program = _C.Program()
    with program:
        loss = training_step(weights, x, target, 0.1)
    losses = [loss.item()]
    for _ in range(5):
        program.replay()
        losses.append(loss.item())

    assert losses == eager_losses
    for replayed, eager in zip(weights, eager_weights, strict=True):
        assert torch.equal(replayed, eager)


def test_program_sees_forward_backward_and_update():
    weights, x, target = make_state()
    program = _C.Program()
    with program:
        training_step(weights, x, target, 0.1)
    names = [name for name, *_ in program.steps()]
    assert "tanh" in names and "matmul" in names
    assert "tanh_backward" in names, "the fused derivative passes the same point"
    assert "sub" in names, "so does the update in place"
    update = [step for step in program.steps() if step[0] == "sub"][-1]
    assert update[1][0] == update[3][0], "an in-place call's output is its input"


def test_bytes_are_out_of_reach_outside_of_kernels_in_checked_builds():
    """Sanitized builds are checked ones: there the whole suite shows that nothing else looks."""
    is_checked = bool(os.environ.get("TAPEGRAD_SANITIZED") or os.environ.get("TAPEGRAD_CHECKED"))
    assert _C._refuses_unseen_reads(torch.ones(2)) == is_checked
    assert torch.ones(2).sum().item() == 2


def test_capture_does_not_nest():
    outer = _C.Program()
    with outer, pytest.raises(RuntimeError, match="another capture is active"), _C.Program():
        pass
    torch.ones(2) + 1
    assert len(outer) == 0, "leaving the block ends the capture"
