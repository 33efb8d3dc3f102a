"""ctc_loss and CTCLoss, beside PyTorch."""

import itertools
import math

import numpy as np
import pytest

from .side_by_side import expect_near, expect_same, numbers, tensor_of


def loss(*lengths, targets, **kwargs):
    """Return the loss of logits: their gradients are those of log_softmax and the loss together."""

    def of(library):
        labels = library.tensor(targets, dtype=library.int64)

        def call(logits):
            log_probs = logits.log_softmax(-1)
            return library.nn.functional.ctc_loss(log_probs, labels, *lengths, **kwargs)

        return call

    return of


CASES = [
    ([[1, 2, 3], [3, 3, 1]], (6, 6), (3, 3)),
    ([[1, 2, 3], [3, 3, 1]], (6, 4), (3, 2)),
    ([[1, 2, 3], [3, 3, 1]], (6, 5), (1, 0)),
    ([1, 2, 3, 3, 1], (6, 5), (3, 2)),
    ([2, 2], (6, 3), (2, 0)),
    ([[1, 1], [2, 2]], (3, 6), (2, 2)),
]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("targets", "steps", "labels"), CASES)
def test_losses_and_gradients(both, targets, steps, labels, reduction):
    function = loss(steps, labels, targets=targets, reduction=reduction)
    expect_same(both, function, [numbers(6, 2, 4)])


@pytest.mark.parametrize(("targets", "steps", "labels"), CASES)
def test_gradients_of_log_probabilities(both, targets, steps, labels):
    """PyTorch's convention: log_probs are taken for the result of log_softmax."""
    results = []
    for library in both:
        log_probs = tensor_of(library, numbers(6, 2, 4)).log_softmax(2).detach().requires_grad_()
        value = library.nn.functional.ctc_loss(log_probs, library.tensor(targets), steps, labels)
        results.append((value, *library.autograd.grad(value * 3, log_probs)))
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, "gradient")


@pytest.mark.parametrize("blank", [1, 3])
def test_other_blanks(both, blank):
    function = loss((6, 5), (2, 1), targets=[[0, 2], [2, 0]], blank=blank)
    expect_same(both, function, [numbers(6, 2, 4)])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_sequence(both, reduction):
    function = loss((5,), (2,), targets=[1, 2], reduction=reduction)
    expect_same(both, function, [numbers(6, 4)])


def test_targets_that_are_too_long(both):
    targets = [[1, 2], [3, 3]]
    expect_same(
        both,
        loss((6, 2), (2, 2), targets=targets, reduction="none", zero_infinity=True),
        [numbers(6, 2, 4)],
    )
    for library in both:
        logits = tensor_of(library, numbers(6, 2, 4))
        values = loss((6, 2), (2, 2), targets=targets, reduction="none")(library)(logits)
        assert values[1].item() == math.inf and math.isfinite(values[0].item())
        (grad,) = library.autograd.grad(values.sum(), logits)
        assert not math.isfinite(grad[0, 1].sum().item())
        assert math.isfinite(grad[:, 0].sum().item()) and grad[2:, 1].tolist() == [[0.0] * 4] * 4


def test_no_steps(torch):
    log_probs = torch.zeros(3, 2, 4).log_softmax(2)
    values = torch.nn.functional.ctc_loss(
        log_probs, torch.tensor([[1], [2]]), (0, 0), (1, 0), reduction="none"
    )
    assert values.tolist() == [math.inf, 0]


def test_zero_probabilities(both):
    """Classes that cannot be: their log-probability is minus infinity."""
    for library in both:
        log_probs = library.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]]).log().unsqueeze(1)
        value = library.nn.functional.ctc_loss(log_probs, library.tensor([[1]]), (2,), (1,))
        assert value.item() == pytest.approx(-math.log(1 - 0.5 * 0.25), abs=1e-6)
        value = library.nn.functional.ctc_loss(log_probs, library.tensor([[2]]), (2,), (1,))
        assert value.item() == math.inf


def collapsed(path, blank):
    labels = [label for label, _ in itertools.groupby(path)]
    return [label for label in labels if label != blank]


def test_against_all_alignments(both):
    """The sum over every path that collapses to the target."""
    torch = both[0]
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    for target in ([1], [1, 1], [2, 1], [1, 2, 1], []):
        total = sum(
            math.prod(probabilities[t, label] for t, label in enumerate(path))
            for path in itertools.product(range(3), repeat=5)
            if collapsed(path, 0) == target
        )
        log_probs = torch.tensor(np.log(probabilities).tolist(), dtype=torch.float64)
        labels = torch.tensor(target, dtype=torch.int64)
        value = torch.nn.functional.ctc_loss(
            log_probs, labels, (5,), (len(target),), reduction="none"
        )
        assert value.item() == pytest.approx(-math.log(total), rel=1e-12)


def test_long_sequences_in_single_precision(both):
    values = numbers(300, 2, 20).astype("float32")
    targets = np.random.default_rng(1).integers(1, 20, (2, 80)).tolist()
    function = loss((300, 250), (80, 70), targets=targets)
    expect_same(both, function, [values], tolerance=2e-4)


ERRORS = [
    (lambda f, t, x, y: f(x, y, (7, 6), (2, 2)), RuntimeError, "at most 6"),
    (lambda f, t, x, y: f(x, y, (6, -1), (2, 2)), RuntimeError, "at least 0"),
    (lambda f, t, x, y: f(x, y, (6, 6), (3, 2)), RuntimeError, "at least 3 at dimension 1"),
    (lambda f, t, x, y: f(x, y, (6,), (2, 2)), RuntimeError, "must be of size batch_size"),
    (lambda f, t, x, y: f(x, y, (6, 6), (2,)), RuntimeError, "must be of size batch_size"),
    (lambda f, t, x, y: f(x, y, (6, 6), (2, 2), 9), RuntimeError, "blank must be in label"),
    (lambda f, t, x, y: f(x, y[:1], (6, 6), (2, 2)), RuntimeError, "size 2 at dimension 0"),
    (lambda f, t, x, y: f(x, y.flatten(), (6, 6), (2, 1)), RuntimeError, "size 3 at dimension 0"),
    (lambda f, t, x, y: f(x.half(), y, (6, 6), (2, 2)), NotImplementedError, "not implemented"),
    (lambda f, t, x, y: f(x, y, (6, 6), (2, 2), 0, "x"), ValueError, "not a valid value"),
    (
        lambda f, t, x, y: f(x, y, t.tensor([6.0, 6.0]), t.tensor([2.0, 2.0])),
        RuntimeError,
        "must be integral",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(torch, call, error, text):
    log_probs = torch.zeros(6, 2, 4).log_softmax(2)
    with pytest.raises(error, match=text):
        call(torch.nn.functional.ctc_loss, torch, log_probs, torch.tensor([[1, 2], [3, 1]]))


def test_labels_out_of_range_are_refused(both):
    """PyTorch reads beyond the classes."""
    torch = both[0]
    with pytest.raises(RuntimeError, match="from 0 to 3"):
        torch.nn.functional.ctc_loss(
            torch.zeros(6, 1, 4).log_softmax(2), torch.tensor([[4]]), (6,), (1,)
        )


def test_module(both):
    def module(library):
        criterion = library.nn.CTCLoss(blank=3, reduction="sum", zero_infinity=True)
        assert repr(criterion) == "CTCLoss()"
        lengths = library.tensor([6, 2]), library.tensor([2, 2])
        labels = library.tensor([[1, 2], [0, 0]])
        return lambda x: criterion(x.log_softmax(2), labels, *lengths)

    expect_same(both, module, [numbers(6, 2, 4)])


def test_gradients(both):
    torch = both[0]
    function = loss((5, 4), (2, 1), targets=[[1, 1], [2, 0]], reduction="none")(torch)
    logits = tensor_of(torch, numbers(5, 2, 3))
    assert torch.autograd.gradcheck(function, logits)
    assert torch.autograd.gradgradcheck(function, logits)
