"""Offload and compress in force together, one inside the other either way.

Values that hooks take are not coded, and `offload` is such hooks: so gradients are bit by bit those
of a run with neither.
"""

import contextlib

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("policies of the tape are tapegrad's own", allow_module_level=True)

from tape import models
from tapegrad import nn, tape

NAMES = [name for name in vars(models) if callable(getattr(models, name)) and name[0].islower()]
NAMES = [name for name in NAMES if getattr(models, name).__module__ == models.__name__]


def gradients(loss, *policies):
    """Return the gradients that one step leaves in the leaves of its graph."""
    torch.manual_seed(0)
    with contextlib.ExitStack() as stack:
        for policy in policies:
            stack.enter_context(policy)
        result = loss()
        leaves = [e.tensor for e in tape.of(result) if e.is_leaf and e.tensor.is_floating_point()]
        for leaf in leaves:
            leaf.grad = None
        result.backward()
    return [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves]


def check(loss, make_policies):
    expected = gradients(loss)
    assert any(grad is not None for grad in expected)
    for _ in range(3):  # whether memory is used again where it was is up to chance
        for ours, theirs in zip(gradients(loss, *make_policies()), expected, strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or torch.equal(ours, theirs)


def policies(order, codec, folder, **options):
    found = [tape.compress(codec, min_bytes=1), tape.offload(folder, **options)]
    return found if order == "offload inside" else found[::-1]


ORDERS = ["offload inside", "compress inside"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("codec", ["exact", "int8", "bf16"])
@pytest.mark.parametrize("memory", [None, "4 MiB"])
def test_linear_and_dropout(order, codec, memory, tmp_path):
    """Masks are coded gladly; a coded one let its memory, and its number, go to the next."""

    def loss():
        layers = [nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.5)) for _ in range(6)]
        return nn.Sequential(*layers)(torch.randn(1024, 256)).square().mean()

    check(loss, lambda: policies(order, codec, tmp_path, memory=memory))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", NAMES)
def test_models_of_many_kinds(name, order, tmp_path):
    loss = getattr(models, name)
    check(loss, lambda: policies(order, "int8", tmp_path, min_bytes=1, memory="64 KiB"))


@pytest.mark.filterwarnings("ignore:offload")
@pytest.mark.parametrize("order", ORDERS)
def test_ops_that_a_policy_names(order, tmp_path):
    """Not even the entry that keeps a value for offload is coded."""

    def loss():
        x = torch.randn(64, 1024, requires_grad=True)
        return (x.tanh() * x.exp()).tanh().sum()

    def make():
        found = [tape.compress("int4", ops=["mul", "tanh", "exp"]), tape.offload(tmp_path)]
        return found if order == ORDERS[0] else found[::-1]

    check(loss, make)
