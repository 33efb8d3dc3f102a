"""Recurrent layers on a CUDA device, against the CPU."""

import copy

import pytest
from library import torch

from .comparing import assert_close

KINDS = {
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
    "tanh": torch.nn.RNN,
    "relu": lambda *args, **kwargs: torch.nn.RNN(*args, nonlinearity="relu", **kwargs),
}


def run(layer, x, device, state=()):
    """Return results and gradients of a layer's parameters, input and first state."""
    layer = copy.deepcopy(layer).to(device)
    x = x.detach().to(device).requires_grad_()
    state = [s.detach().to(device).requires_grad_() for s in state]
    given = tuple(state) if len(state) > 1 else state[0] if state else None
    out, last = layer(x, given)
    last = list(last) if isinstance(last, tuple) else [last]
    torch.manual_seed(3)
    weights = [torch.randn(y.shape).to(y.dtype).to(device) for y in (out, *last)]
    torch.autograd.backward([out, *last], weights)
    grads = [p.grad for p in layer.parameters()] + [x.grad] + [s.grad for s in state]
    return [out, *last], grads


def check(layer, x, state=(), units=64):
    wanted, found = run(layer, x, "cpu", state), run(layer, x, "cuda", state)
    for a, b in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        assert_close(a, b, units)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"bidirectional": True, "num_layers": 2}], ids=str
)
def test_layers(kind, options):
    torch.manual_seed(0)
    check(KINDS[kind](5, 7, **options), torch.randn(6, 3, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_given_state(kind):
    torch.manual_seed(0)
    states = [torch.randn(1, 3, 7) for _ in range(2 if kind == "lstm" else 1)]
    check(KINDS[kind](5, 7), torch.randn(4, 3, 5), states)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences(kind, bidirectional):
    torch.manual_seed(0)
    layer = KINDS[kind](5, 7, bidirectional=bidirectional)
    x = torch.randn(6, 3, 5)
    lengths = torch.tensor([6, 4, 1])
    outcomes = []
    for device in ("cpu", "cuda"):
        own = copy.deepcopy(layer).to(device)
        leaf = x.detach().clone().to(device).requires_grad_()
        packed = torch.nn.utils.rnn.pack_padded_sequence(leaf, lengths)
        out, last = own(packed)
        last = list(last) if isinstance(last, tuple) else [last]
        torch.manual_seed(3)
        results = [out.data, *last]
        weights = [torch.randn(y.shape).to(device) for y in results]
        torch.autograd.backward(results, weights)
        outcomes.append(results + [p.grad for p in own.parameters()] + [leaf.grad])
    for a, b in zip(outcomes[1], outcomes[0], strict=True):
        assert_close(a, b, 64)


def test_float64():
    torch.manual_seed(0)
    check(torch.nn.LSTM(3, 4).double(), torch.randn(5, 2, 3, dtype=torch.float64))


def test_many_units():
    """More than one block of them, and more than one tile of the products."""
    torch.manual_seed(0)
    check(torch.nn.GRU(20, 40), torch.randn(2, 9, 20))
