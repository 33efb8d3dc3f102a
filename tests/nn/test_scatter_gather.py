"""Tensors cut for several devices, and put together again: `nn.parallel.scatter_gather`."""

from collections import namedtuple

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch scatters to GPUs only", allow_module_level=True)

from tapegrad.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

CPUS = ["cpu", "cpu"]
Pair = namedtuple("Pair", "first second")


def test_tensors_are_cut():
    parts = scatter(torch.arange(5), CPUS)
    assert isinstance(parts, tuple) and [p.tolist() for p in parts] == [[0, 1, 2], [3, 4]]
    x = torch.arange(6).reshape(2, 3)
    assert [p.shape for p in scatter(x, CPUS, dim=1)] == [(2, 2), (2, 1)]
    assert len(scatter(torch.arange(1), CPUS)) == 1


def test_containers_are_cut():
    x = torch.arange(4.0)
    dicts = scatter({"x": x, ("a", 1): "text"}, CPUS)
    assert [list(d) for d in dicts] == [["x", ("a", 1)]] * 2
    assert dicts[1]["x"].tolist() == [2.0, 3.0] and dicts[1]["a", 1] == "text"
    pairs = scatter(Pair(x, None), CPUS)
    assert isinstance(pairs[0], Pair) and pairs[1].first.tolist() == [2.0, 3.0]
    assert [len(part) for part in scatter([x, 3], CPUS)] == [2, 2]
    assert scatter((x, x), CPUS)[0][1].tolist() == [0.0, 1.0]
    assert scatter([], CPUS) == [[], []] and scatter(None, CPUS) == [None, None]


def test_arguments_of_a_call():
    x = torch.arange(4.0)
    places, names = scatter_kwargs((x,), None, CPUS)
    assert len(places) == 2 and names == ({}, {})
    places, names = scatter_kwargs((), {"x": x}, CPUS)
    assert places == ((), ()) and names[1]["x"].tolist() == [2.0, 3.0]


def test_what_was_cut_is_put_together():
    x = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(gather(scatter(x, CPUS), "cpu"), x)
    assert torch.equal(gather(scatter(x, CPUS, 1), -1, 1), x)
    tree = {"x": x, "pair": Pair(x, x + 1), "list": [x]}
    got = gather(scatter(tree, CPUS), "cpu")
    assert isinstance(got["pair"], Pair) and torch.equal(got["pair"].second, x + 1)
    assert torch.equal(got["list"][0], x) and gather([None, None], "cpu") is None
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        assert gather([torch.tensor(1), torch.tensor(2)], "cpu").tolist() == [1, 2]
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"a": x}, {}], "cpu")


def test_gradients_pass():
    x = torch.arange(5.0, requires_grad=True)
    gather([p * (i + 1) for i, p in enumerate(scatter(x, CPUS))], "cpu").sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]
