"""Losses beside PyTorch's: values and gradients with every reduction, as functions and modules."""

import numpy as np
import pytest

from .side_by_side import expect_same, numbers

X, Y = numbers(4, 3), numbers(4, 3, seed=1)
POSITIVE = numbers(4, 3, seed=2, low=0.1, high=2.0)
PROBABILITY = numbers(4, 3, seed=3, low=0.01, high=0.99)
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
ONE_SIGN = np.array(-1.0)
ALL_SIGNS = np.where(numbers(4, 3, seed=4) > 0, 1.0, -1.0)
CLASSES = np.array([2, 0, 1, 2])
SOME = np.array([2, -100, 1, -100])
IMAGE, IMAGE_CLASSES = numbers(2, 3, 4, 2), numbers(2, 4, 2, low=0, high=3).astype("int64")
WEIGHT = np.array([0.2, 1.0, 3.0])
LOG_PROBABILITY = X - np.log(np.exp(X).sum(1, keepdims=True))
TARGET_PROBABILITY = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)

# function, module, inputs, keyword arguments (those of the module too)
LOSSES = [
    ("l1_loss", "L1Loss", (X, Y), {}),
    ("mse_loss", "MSELoss", (X, Y), {}),
    ("smooth_l1_loss", "SmoothL1Loss", (X, Y), {}),
    ("smooth_l1_loss", "SmoothL1Loss", (X, Y), {"beta": 0.3}),
    ("smooth_l1_loss", "SmoothL1Loss", (X, Y), {"beta": 0.0}),
    ("huber_loss", "HuberLoss", (X, Y), {"delta": 0.7}),
    ("nll_loss", "NLLLoss", (LOG_PROBABILITY, CLASSES), {}),
    ("nll_loss", "NLLLoss", (LOG_PROBABILITY, SOME), {"weight": WEIGHT}),
    ("nll_loss", "NLLLoss", (LOG_PROBABILITY, CLASSES), {"ignore_index": 2}),
    ("nll_loss", "NLLLoss", (X[0], np.array(1)), {}),
    ("nll_loss", "NLLLoss", (IMAGE, IMAGE_CLASSES), {"weight": WEIGHT}),
    ("cross_entropy", "CrossEntropyLoss", (X, CLASSES), {}),
    ("cross_entropy", "CrossEntropyLoss", (X * 300, CLASSES), {}),
    ("cross_entropy", "CrossEntropyLoss", (X, SOME), {}),
    ("cross_entropy", "CrossEntropyLoss", (X, SOME), {"weight": WEIGHT}),
    ("cross_entropy", "CrossEntropyLoss", (X, CLASSES), {"ignore_index": 2}),
    ("cross_entropy", "CrossEntropyLoss", (X, CLASSES), {"label_smoothing": 0.1}),
    ("cross_entropy", "CrossEntropyLoss", (X, SOME), {"label_smoothing": 0.3, "weight": WEIGHT}),
    ("cross_entropy", "CrossEntropyLoss", (X, SOME), {"label_smoothing": 0.3}),
    ("cross_entropy", "CrossEntropyLoss", (X[0], np.array(1)), {"label_smoothing": 0.3}),
    ("cross_entropy", "CrossEntropyLoss", (numbers(37, 10), np.arange(37) % 10), {}),
    ("cross_entropy", "CrossEntropyLoss", (numbers(17, 32), np.arange(17) % 32), {}),
    ("cross_entropy", "CrossEntropyLoss", (numbers(5, 33), np.arange(5) % 33), {}),
    ("cross_entropy", "CrossEntropyLoss", (IMAGE, IMAGE_CLASSES), {"label_smoothing": 0.1}),
    ("cross_entropy", "CrossEntropyLoss", (IMAGE, IMAGE_CLASSES), {"weight": WEIGHT}),
    ("cross_entropy", "CrossEntropyLoss", (X, TARGET_PROBABILITY), {}),
    ("cross_entropy", "CrossEntropyLoss", (X, TARGET_PROBABILITY), {"weight": WEIGHT}),
    (
        "cross_entropy",
        "CrossEntropyLoss",
        (X, TARGET_PROBABILITY),
        {"label_smoothing": 0.2, "weight": WEIGHT},
    ),
    ("cross_entropy", "CrossEntropyLoss", (X[0], TARGET_PROBABILITY[0]), {}),
    ("cross_entropy", "CrossEntropyLoss", (IMAGE, np.abs(IMAGE)), {"weight": WEIGHT}),
    ("binary_cross_entropy", "BCELoss", (PROBABILITY, TARGET_PROBABILITY), {}),
    ("binary_cross_entropy", "BCELoss", (PROBABILITY, TARGET_PROBABILITY), {"weight": WEIGHT}),
    ("binary_cross_entropy_with_logits", "BCEWithLogitsLoss", (X, TARGET_PROBABILITY), {}),
    ("binary_cross_entropy_with_logits", "BCEWithLogitsLoss", (X * 400, TARGET_PROBABILITY), {}),
    (
        "binary_cross_entropy_with_logits",
        "BCEWithLogitsLoss",
        (X, TARGET_PROBABILITY),
        {"weight": WEIGHT, "pos_weight": WEIGHT},
    ),
    ("kl_div", "KLDivLoss", (LOG_PROBABILITY, TARGET_PROBABILITY), {}),
    ("kl_div", "KLDivLoss", (LOG_PROBABILITY, LOG_PROBABILITY - 1), {"log_target": True}),
    ("poisson_nll_loss", "PoissonNLLLoss", (X, POSITIVE), {}),
    ("poisson_nll_loss", "PoissonNLLLoss", (POSITIVE, POSITIVE * 3), {"log_input": False}),
    ("poisson_nll_loss", "PoissonNLLLoss", (X, POSITIVE * 3), {"full": True}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, POSITIVE), {}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, POSITIVE), {"full": True, "eps": 0.5}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, POSITIVE[:, :1].copy()), {}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, POSITIVE[:, 0].copy()), {}),
    ("gaussian_nll_loss", "GaussianNLLLoss", (X, Y, 0.7), {}),
    ("cosine_embedding_loss", "CosineEmbeddingLoss", (X, Y, SIGNS), {"margin": -0.5}),
    (
        "cosine_embedding_loss",
        "CosineEmbeddingLoss",
        (X[0], Y[0], np.array(-1.0)),
        {"margin": -1.0},
    ),
    ("margin_ranking_loss", "MarginRankingLoss", (X, Y, ALL_SIGNS), {"margin": 0.5}),
    ("hinge_embedding_loss", "HingeEmbeddingLoss", (X, ALL_SIGNS), {"margin": 0.5}),
    ("soft_margin_loss", "SoftMarginLoss", (X, ALL_SIGNS), {}),
    ("multilabel_soft_margin_loss", "MultiLabelSoftMarginLoss", (X, TARGET_PROBABILITY), {}),
    (
        "multilabel_soft_margin_loss",
        "MultiLabelSoftMarginLoss",
        (X, TARGET_PROBABILITY),
        {"weight": WEIGHT},
    ),
    ("multi_margin_loss", "MultiMarginLoss", (X, CLASSES), {}),
    ("multi_margin_loss", "MultiMarginLoss", (X, CLASSES), {"p": 2, "margin": 0.6}),
    ("multi_margin_loss", "MultiMarginLoss", (X[0], np.array(1)), {}),
    ("triplet_margin_loss", "TripletMarginLoss", (X, Y, POSITIVE), {}),
    ("triplet_margin_loss", "TripletMarginLoss", (X, Y, POSITIVE), {"p": 1.0, "swap": True}),
    (
        "triplet_margin_with_distance_loss",
        "TripletMarginWithDistanceLoss",
        (X, Y, POSITIVE),
        {"margin": 2.0, "swap": True},
    ),
]
CONSTANT = ("weight", "pos_weight")
# PyTorch gives no gradient of these targets.
FIXED_TARGETS = ("soft_margin_loss", "cosine_embedding_loss", "hinge_embedding_loss")


def names(case):
    return "-".join([case[0], *case[3]])


def prepared(library, case):
    """Return the keyword arguments with tensors that require no grad."""
    kwargs = dict(case[3])
    for name in CONSTANT:
        if name in kwargs:
            kwargs[name] = library.tensor(kwargs[name].tolist(), dtype=library.float64)
    return kwargs


def with_fixed_target(function, name):
    def call(*args):
        args = list(args)
        if name in FIXED_TARGETS:
            args[-1] = args[-1].detach()
        return function(*args)

    return call


@pytest.mark.parametrize("reduction", ["mean", "sum", "none", "batchmean"])
@pytest.mark.parametrize("case", LOSSES, ids=names)
def test_function(both, case, reduction):
    if reduction == "batchmean" and case[0] != "kl_div":
        reduction = "mean"  # Only kl_div has it.

    def function_of(library):
        function = getattr(library.nn.functional, case[0])
        kwargs = prepared(library, case)
        return with_fixed_target(
            lambda *args: function(*args, **kwargs, reduction=reduction), case[0]
        )

    expect_same(both, function_of, case[2])


@pytest.mark.parametrize("case", LOSSES, ids=names)
def test_module(both, case):
    modules = [
        getattr(library.nn, case[1])(**prepared(library, case), reduction="sum") for library in both
    ]
    assert repr(modules[0]) == repr(modules[1])
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())

    def function_of(library):
        return with_fixed_target(modules[list(both).index(library)], case[0])

    expect_same(both, function_of, case[2])


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "huber_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_elements(both, name, reduction):
    def function_of(library):
        function = getattr(library.nn.functional, name)
        return lambda x, y, weight: function(x, y, reduction=reduction, weight=weight.detach())

    expect_same(both, function_of, (X, Y, POSITIVE))


def test_saturated_binary_cross_entropy(both):
    """At 0 and 1 the logarithm is bounded, and so is the gradient."""

    def function_of(library):
        target = library.tensor([0.0, 1.0, 1.0, 0.0], dtype=library.float64)
        return lambda x: library.nn.functional.binary_cross_entropy(x, target, reduction="none")

    # PyTorch's bound of the divisor is a float32 even in float64.
    expect_same(both, function_of, (np.array([0.0, 0.0, 1.0, 1.0]),), tolerance=1e-7)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_other_sizes_are_warned_of(torch, name):
    with pytest.warns(UserWarning, match="Using a target size"):
        loss = getattr(torch.nn.functional, name)(torch.ones(2, 3), torch.zeros(3))
    assert loss.item() > 0


def test_old_flags(torch):
    x, y = torch.tensor([1.0, 3.0]), torch.zeros(2)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert torch.nn.functional.l1_loss(x, y, size_average=False).item() == 4
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert torch.nn.L1Loss(reduce=False)(x, y).tolist() == [1.0, 3.0]


def test_mean_over_nothing_is_nan(torch):
    loss = torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([-100, -100]))
    assert loss.isnan().item()


def test_second_derivatives(torch):
    x = torch.tensor([[0.3, -1.2, 0.7], [0.1, 0.4, -0.5]], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 2])
    probability = torch.tensor([0.3, 0.6], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1.0, 0.0], dtype=torch.float64)
    functional = torch.nn.functional
    assert torch.autograd.gradgradcheck(lambda x: functional.cross_entropy(x, target), x)
    assert torch.autograd.gradgradcheck(
        lambda p: functional.binary_cross_entropy(p, labels), probability
    )


def test_forward_mode(torch):
    """The derivative along a direction is that of the gradient, of input and target both."""
    functional = torch.nn.functional
    x = torch.tensor([0.3, 0.6], dtype=torch.float64)
    y = torch.tensor([0.2, 0.9], dtype=torch.float64)
    ways = [torch.tensor(way, dtype=torch.float64) for way in ([1.0, 0.5], [-0.3, 2.0])]
    for loss in (functional.binary_cross_entropy, functional.mse_loss, functional.huber_loss):
        _, tangent = torch.func.jvp(loss, (x, y), tuple(ways))
        grads = torch.func.grad(loss, argnums=(0, 1))(x, y)
        expected = sum((grad * way).sum() for grad, way in zip(grads, ways, strict=True))
        assert abs(tangent.item()) > 1e-3 and torch.allclose(tangent, expected)
