"""linear_cross_entropy and its module, beside PyTorch."""

import numpy as np
import pytest

from .side_by_side import copy_state, expect_near, expect_same, numbers

CLASSES = np.array([0, 4, 2, -100, 1, 2])


def loss(**kwargs):
    def of(library):
        options = kwargs.get("options")
        own = {**kwargs}
        if isinstance(options, dict):
            own["options"] = library.nn.LinearCrossEntropyOptions(**options)

        def call(x, weight, target, bias=None, classes=None):
            return library.nn.functional.linear_cross_entropy(
                x, weight, target, linear_bias=bias, weight=classes, **own
            )

        return call

    return of


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "kwargs", [{}, {"label_smoothing": 0.2}, {"ignore_index": 2}, {"label_smoothing": 1.0}]
)
def test_classes(both, reduction, kwargs):
    target = CLASSES if "ignore_index" not in kwargs else np.abs(CLASSES) % 5
    args = [numbers(6, 3), numbers(5, 3, seed=1), target, numbers(5)]
    expect_same(both, loss(reduction=reduction, **kwargs), args)
    classes = np.abs(numbers(5, seed=3))
    for options in ({"batch_chunk_size": 2}, {"batch_chunk_size": 4}, {}):
        ours = both[0].nn.LinearCrossEntropyOptions(**options)
        results = []
        for given in (None, ours):
            tensors = [both[0].tensor(a.tolist()) for a in (*args, classes)]
            for place in (0, 1, 3):
                tensors[place] = tensors[place].double().requires_grad_()
            tensors[4] = tensors[4].double()
            value = loss(reduction=reduction, options=given, **kwargs)(both[0])(*tensors)
            grads = both[0].autograd.grad(value.sin().sum(), [tensors[i] for i in (0, 1, 3)])
            results.append((value, *grads))
        for plain, chunked in zip(*results, strict=True):
            expect_near(chunked, plain, str(options))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_probabilities_single_samples_and_more_dimensions(both, reduction):
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), 6)
    function = loss(reduction=reduction)
    expect_same(both, function, [numbers(6, 3), numbers(5, 3), probabilities])
    expect_same(both, function, [numbers(3), numbers(5, 3), np.array(2)])
    target = np.array([[0, 1], [2, 3], [4, 0], [1, 1]])
    expect_same(both, function, [numbers(4, 3), numbers(5, 2, 3), target, numbers(5, 2)])
    chunked = loss(reduction=reduction, options=both[0].nn.LinearCrossEntropyOptions())
    args = [numbers(6, 3), numbers(5, 3), probabilities]
    tensors = [both[0].tensor(a.tolist(), dtype=both[0].float64) for a in args]
    expect_near(chunked(both[0])(*tensors), function(both[0])(*tensors), "chunked")


ERRORS = [
    ((2, 4, 3), (5, 3), (4,), {}, "dimensionality 1 or 2"),
    ((4, 3), (3,), (4,), {}, "dimensionality at least 2"),
    ((4, 3), (5, 2), (4,), {}, "last dimensions"),
    ((4, 3), (5, 3), (4,), {"linear_bias": (4,)}, "expected linear_bias shape"),
    ((3,), (5, 2, 3), (2,), {}, "requires batched input"),
]


@pytest.mark.parametrize(("x", "weight", "target", "tensors", "text"), ERRORS)
def test_errors(torch, x, weight, target, tensors, text):
    named = {name: torch.ones(shape) for name, shape in tensors.items()}
    with pytest.raises(RuntimeError, match=text):
        torch.nn.functional.linear_cross_entropy(
            torch.ones(x), torch.ones(weight), torch.zeros(target).long(), **named
        )


def test_options(torch):
    options = torch.nn.LinearCrossEntropyOptions
    for bad in ({"acc_policy": "x"}, {"chunking_method": "x"}, {"batch_chunk_size": 0}):
        with pytest.raises(ValueError):
            options(**bad)
    with pytest.raises(ValueError):
        options(chunking_method="aspect_ratio:0")
    assert options(chunking_method="aspect_ratio:3") == options(chunking_method="aspect_ratio:3")
    with pytest.raises(RuntimeError, match="ignore_index"):
        torch.nn.functional.linear_cross_entropy(
            torch.ones(4, 3), torch.ones(5, 3), torch.ones(4, 5) / 5, ignore_index=3
        )


@pytest.mark.parametrize(
    "kwargs", [{}, {"bias": True, "out_features": (2,)}, {"label_smoothing": 0.1, "bias": True}]
)
def test_module(both, kwargs):
    modules = [
        library.nn.LinearCrossEntropyLoss(3, 5, dtype=library.float64, **kwargs) for library in both
    ]
    assert repr(modules[0]) == repr(modules[1])
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    copy_state(modules[1], modules[0], both[0])
    target = np.array([[0, 1], [2, 3]]) if "out_features" in kwargs else np.array([1, 4])
    own = dict(zip(both, modules, strict=True))
    expect_same(both, own.__getitem__, [numbers(2, 3), target])
    for library in both:
        with pytest.raises(RuntimeError, match="weight shape"):
            library.nn.LinearCrossEntropyLoss(3, 5, weight=library.ones(4))
        with pytest.raises(RuntimeError, match="label_smoothing"):
            library.nn.LinearCrossEntropyLoss(3, 5, label_smoothing=2.0)


def test_less_memory(both):
    """The scores of all samples are never there together."""
    torch = both[0]
    x = torch.ones(512, 8, requires_grad=True)
    weight = torch.ones(4096, 8, requires_grad=True)
    target = torch.zeros(512, dtype=torch.int64)
    peaks = []
    for options in (None, torch.nn.LinearCrossEntropyOptions(batch_chunk_size=16)):
        torch.reset_peak_memory_stats()
        before = torch.memory_stats()["peak_bytes"]
        torch.nn.functional.linear_cross_entropy(x, weight, target, options=options).backward()
        peaks.append(torch.memory_stats()["peak_bytes"] - before)
    assert peaks[1] < peaks[0] / 4
