"""embedding_bag and EmbeddingBag, beside PyTorch."""

import numpy as np
import pytest

from .side_by_side import copy_state, expect_near, expect_same, numbers, tensor_of

FLAT = np.array([0, 1, 2, 3, 1, 1, 5, 0])
OFFSETS = [[0], [0, 2, 2, 5], [0, 0, 8], [0, 3, 8, 8]]


def bags(**kwargs):
    def call(library):
        def run(indices, weight, offsets=None, factors=None):
            return library.nn.functional.embedding_bag(
                indices, weight, offsets, per_sample_weights=factors, **kwargs
            )

        return run

    return call


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 1, -6])
@pytest.mark.parametrize("offsets", OFFSETS)
def test_offsets(both, mode, padding_idx, offsets):
    args = [FLAT, numbers(6, 3), np.array(offsets)]
    expect_same(both, bags(mode=mode, padding_idx=padding_idx), args)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_rows(both, mode, padding_idx):
    indices = np.array([[0, 1, 2], [1, 1, 1], [5, 4, 5]])
    expect_same(both, bags(mode=mode, padding_idx=padding_idx), [indices, numbers(6, 3)])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_include_last_offset(both, mode):
    for offsets in ([0, 2, 8], [0, 0, 8], [0, 8, 8]):
        args = [FLAT, numbers(6, 3), np.array(offsets)]
        expect_same(both, bags(mode=mode, include_last_offset=True), args)


@pytest.mark.parametrize("padding_idx", [None, 1])
def test_per_sample_weights(both, padding_idx):
    function = bags(mode="sum", padding_idx=padding_idx)
    expect_same(both, function, [FLAT, numbers(6, 3), np.array([0, 3, 3]), numbers(8)])
    indices = np.array([[0, 1], [1, 5]])
    expect_same(both, function, [indices, numbers(6, 3), None, numbers(2, 2)])


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_scale_grad_by_freq(both, mode):
    """Beside plain gradients: PyTorch divides by counts of other rows here."""
    torch = both[0]
    weight = tensor_of(torch, numbers(6, 3))
    grads = []
    for is_scaled in (False, True):
        result = torch.nn.functional.embedding_bag(
            torch.tensor(FLAT.tolist()),
            weight,
            torch.tensor([0, 3]),
            mode=mode,
            scale_grad_by_freq=is_scaled,
        )
        grads += torch.autograd.grad(result.sin().sum(), weight)
    counts = torch.tensor([2, 3, 1, 1, 1, 1]).unsqueeze(1)
    expect_near(grads[1], grads[0] / counts, mode)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_max_norm(both, mode):
    results = []
    for library in both:
        weight = tensor_of(library, numbers(6, 3)).detach()
        indices = library.tensor(FLAT.tolist())
        result = library.nn.functional.embedding_bag(
            indices, weight, library.tensor([0, 3]), max_norm=1.0, norm_type=1.0, mode=mode
        )
        results.append((result, weight))
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, mode, 1e-6)


def test_int32_and_empty(torch):
    weight = torch.arange(6.0).reshape(3, 2)
    embedding_bag = torch.nn.functional.embedding_bag
    indices, offsets = torch.tensor([0, 2]).int(), torch.tensor([0, 1]).int()
    assert embedding_bag(indices, weight, offsets).tolist() == [[0, 1], [4, 5]]
    nothing = torch.tensor([], dtype=torch.int64)
    for mode in ("sum", "mean", "max"):
        result = embedding_bag(nothing, weight, torch.tensor([0, 0]), mode=mode)
        assert result.tolist() == [[0, 0], [0, 0]]
        assert embedding_bag(nothing, weight, nothing, mode=mode).shape == (0, 2)


ERRORS = [
    (lambda f, t, i, w: f(i, w), ValueError, "1D Tensor"),
    (lambda f, t, i, w: f(i, w, t.tensor([[0]])), ValueError, "1D Tensor"),
    (lambda f, t, i, w: f(i.reshape(1, -1), w, t.tensor([0])), ValueError, "has to be None"),
    (lambda f, t, i, w: f(i.reshape(1, 1, -1), w), ValueError, "1D or 2D"),
    (lambda f, t, i, w: f(i, w, t.tensor([1, 2])), RuntimeError, "has to be 0"),
    (lambda f, t, i, w: f(i, w, t.tensor([0, 99])), RuntimeError, "can not be greater"),
    (lambda f, t, i, w: f(i, w, t.tensor([0]), mode="x"), ValueError, "one of sum, mean or max"),
    (
        lambda f, t, i, w: f(i, w, t.tensor([0]), per_sample_weights=t.ones(8)),
        NotImplementedError,
        "only supported",
    ),
    (
        lambda f, t, i, w: f(i, w, t.tensor([0]), per_sample_weights=t.ones(3), mode="sum"),
        ValueError,
        "same shape",
    ),
    (
        lambda f, t, i, w: f(
            i, w, t.tensor([0]), per_sample_weights=t.ones(8).double(), mode="sum"
        ),
        RuntimeError,
        "same type",
    ),
    (
        lambda f, t, i, w: f(i, w, t.tensor([0]), mode="max", scale_grad_by_freq=True),
        ValueError,
        "frequency",
    ),
    (lambda f, t, i, w: f(i.float(), w, t.tensor([0])), RuntimeError, "Long, Int"),
    (lambda f, t, i, w: f(i, w, t.tensor([0]), padding_idx=9), RuntimeError, "must be within"),
    (
        lambda f, t, i, w: f(i, w, t.tensor([]).long(), include_last_offset=True),
        RuntimeError,
        "at least 1",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(torch, call, error, text):
    indices, weight = torch.tensor(FLAT.tolist()), torch.ones(6, 3)
    with pytest.raises(error, match=text):
        call(torch.nn.functional.embedding_bag, torch, indices, weight)


def test_bad_indices(both):
    """PyTorch's error for an index is an internal one, and of another type."""
    torch = both[0]
    with pytest.raises(IndexError, match="out of range"):
        torch.nn.functional.embedding_bag(torch.tensor([[7]]), torch.ones(6, 3))
    with pytest.raises(RuntimeError, match="do not fall"):
        torch.nn.functional.embedding_bag(
            torch.tensor([1, 2, 3]), torch.ones(6, 3), torch.tensor([0, 2, 1])
        )


MODULES = [
    {},
    {"mode": "sum", "padding_idx": 2},
    {"max_norm": 1.0, "norm_type": 1.0, "scale_grad_by_freq": True, "mode": "sum"},
    {"mode": "max", "padding_idx": -1, "dtype": "float64"},
]


@pytest.mark.parametrize("kwargs", MODULES)
def test_module(both, kwargs):
    modules = []
    for library in both:
        own = {**kwargs, "dtype": library.float64}
        modules.append(library.nn.EmbeddingBag(6, 3, **own))
    ours, theirs = modules
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    if "padding_idx" in kwargs:
        assert ours.padding_idx == theirs.padding_idx
        assert ours.weight[kwargs["padding_idx"]].tolist() == [0, 0, 0]
    copy_state(theirs, ours, both[0])
    results = [
        module(library.tensor(FLAT.tolist()), library.tensor([0, 2, 5]))
        for module, library in zip(modules, both, strict=True)
    ]
    expect_near(*results, "module", 1e-6)


def test_from_pretrained(torch):
    table = torch.arange(6.0).reshape(3, 2)
    frozen = torch.nn.EmbeddingBag.from_pretrained(table, mode="sum")
    assert not frozen.weight.requires_grad
    assert frozen(torch.tensor([[0, 2]])).tolist() == [[4, 6]]
    assert torch.nn.EmbeddingBag.from_pretrained(table, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError):
        torch.nn.EmbeddingBag.from_pretrained(table[0])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients(both, mode):
    torch = both[0]
    indices, offsets = torch.tensor(FLAT.tolist()), torch.tensor([0, 2, 2, 5])

    def function(weight):
        return torch.nn.functional.embedding_bag(
            indices, weight.sin(), offsets, mode=mode, padding_idx=1
        )

    weight = tensor_of(torch, numbers(6, 3))
    assert torch.autograd.gradcheck(function, weight)
    assert torch.autograd.gradgradcheck(function, weight)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("offsets", [[0, 2, 2, 8], [0, 0, 5, 5], [0, 3], [0, 8, 8]])
@pytest.mark.parametrize("dtypes", [("int32", "int32"), ("int64", "int32"), ("int32", "int64")])
@pytest.mark.parametrize("padding_idx", [0, 1, -1])
def test_include_last_offset_with_padding_idx_keeps_every_bag(
    both, mode, offsets, dtypes, padding_idx
):
    """PyTorch lets the last bag run to the end here, whatever the last offset says."""
    options = {"mode": mode, "include_last_offset": True, "padding_idx": padding_idx}
    indices, starts = FLAT.astype(dtypes[0]), np.array(offsets, dtype=dtypes[1])
    expect_same(both, bags(**options), [indices, numbers(6, 3), starts])
