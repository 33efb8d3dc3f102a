"""multilabel_margin_loss, pdist, the adaptive softmax, and norms of channels, beside PyTorch."""

import numpy as np
import pytest

from .side_by_side import copy_state, expect_near, expect_same, numbers, tensor_of


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "target",
    [
        [[3, 0, -1, 1], [-1, 2, 2, 2], [0, 1, 2, 3]],
        [[2, 2, -1, 0], [1, -1, -1, 1], [3, -1, 3, 0]],
        [1, 3, -1, 0],
    ],
)
def test_multilabel_margin_loss(both, target, reduction):
    target = np.array(target)

    def function(library):
        return lambda x, y: library.nn.functional.multilabel_margin_loss(x, y, reduction=reduction)

    expect_same(both, function, [numbers(*target.shape), target])
    expect_same(
        both,
        lambda library: library.nn.MultiLabelMarginLoss(reduction=reduction),
        [numbers(*target.shape), target],
    )


ERRORS = [
    (lambda f, t: f(t.ones(1, 4), t.zeros(4).long()), RuntimeError, "inconsistent target size"),
    (lambda f, t: f(t.ones(1, 4), t.full((1, 4), 4)), RuntimeError, "out of range"),
    (lambda f, t: f(t.ones(1, 4), t.full((1, 4), -2)), RuntimeError, "out of range"),
    (lambda f, t: f(t.ones(1, 4), t.zeros(1, 4)), RuntimeError, "Long"),
    (lambda f, t: f(t.ones(2, 0), t.zeros(2, 0).long()), RuntimeError, "non-empty"),
    (lambda f, t: f(t.ones(1, 1, 3), t.zeros(1, 1, 3).long()), RuntimeError, "non-empty"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_multilabel_errors(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch.nn.functional.multilabel_margin_loss, torch)


@pytest.mark.parametrize("p", [0, 1, 1.5, 2, 3, float("inf")])
def test_pdist(both, p):
    values = numbers(5, 3)
    values[3] = values[1]
    expect_same(both, lambda lib: lambda x: lib.nn.functional.pdist(x, p), [values])


def test_pdist_of_little_and_errors(torch):
    pdist = torch.nn.functional.pdist
    assert pdist(torch.ones(1, 2)).tolist() == [] and pdist(torch.ones(0, 2)).tolist() == []
    assert pdist(torch.ones(3, 0)).tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="2D tensors"):
        pdist(torch.ones(3))
    with pytest.raises(RuntimeError, match="non-negative p"):
        pdist(torch.ones(3, 2), -1)
    with pytest.raises(RuntimeError, match="floating-point"):
        pdist(torch.ones(3, 2).long())


def adaptive_pair(both, head_bias):
    modules = [
        library.nn.AdaptiveLogSoftmaxWithLoss(
            8, 20, [5, 10], div_value=2.0, head_bias=head_bias, dtype=library.float64
        )
        for library in both
    ]
    copy_state(modules[1], modules[0], both[0])
    return modules


@pytest.mark.parametrize("head_bias", [False, True])
def test_adaptive_log_softmax(both, head_bias):
    modules = adaptive_pair(both, head_bias)
    assert repr(modules[0]) == repr(modules[1])
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    for target in ([0, 4, 7, 19, 10, 5], [1, 2, 3, 0, 1, 4], [12] * 6):
        results = []
        for library, module in zip(both, modules, strict=True):
            x = tensor_of(library, numbers(6, 8))
            output, loss = module(x, library.tensor(target))
            grads = library.autograd.grad(
                loss, [x, *module.parameters()], allow_unused=True, retain_graph=True
            )
            (later,) = library.autograd.grad(output.sin().sum(), x)
            results.append((output, loss, later, *grads))
        for ours, theirs in zip(*results, strict=True):
            # PyTorch gives a cluster without samples no gradient, as does tapegrad.
            expect_near(ours, theirs, str(target))
    results = [
        (
            module.log_prob(tensor_of(lib, numbers(6, 8))),
            module.predict(tensor_of(lib, numbers(6, 8))),
        )
        for lib, module in zip(both, modules, strict=True)
    ]
    expect_near(results[0][0], results[1][0], "log_prob")
    assert results[0][1].tolist() == results[1][1].tolist()


def test_adaptive_predictions_in_all_clusters(both):
    modules = adaptive_pair(both, True)
    values = numbers(40, 8, low=-9.0, high=9.0)
    ours, theirs = (
        module.predict(tensor_of(library, values))
        for library, module in zip(both, modules, strict=True)
    )
    assert ours.tolist() == theirs.tolist()
    assert max(ours.tolist()) >= 5


def test_adaptive_single_samples_and_errors(torch):
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
    result = module(torch.ones(8), torch.tensor(7))
    assert result.output.shape == () and result.loss.shape == ()
    assert result.loss.item() == pytest.approx(-result.output.item())
    for cutoffs in ([5, 5], [5, 20], [10, 5], [0, 3], []):
        with pytest.raises(ValueError, match="cutoffs should be"):
            torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)
    for x, target, text in (
        (torch.ones(2, 8), torch.tensor([1, 20]), "Target values"),
        (torch.ones(2, 8), torch.tensor([1]), "same size in the batch"),
        (torch.ones(2, 8), torch.tensor([[1, 2]]), "multi-target"),
    ):
        with pytest.raises(RuntimeError, match=text):
            module(x, target)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map_norm(both, size):
    """The values alone: the gradients of PyTorch are not those of its values here."""
    values = numbers(2, 6, 3, 2)
    modules = [library.nn.CrossMapLRN2d(size, 0.3, 0.6, 1.5) for library in both]
    results = [
        module(tensor_of(library, values)) for module, library in zip(modules, both, strict=True)
    ]
    expect_near(*results, "result")
    assert both[0].autograd.gradcheck(modules[0], tensor_of(both[0], values))
    ours, theirs = (library.nn.CrossMapLRN2d(size) for library in both)
    assert repr(ours) == repr(theirs)
    for library in both:
        with pytest.raises(ValueError, match="Expected input to be 4D"):
            library.nn.CrossMapLRN2d(size)(library.ones(4, 2, 2))


def test_sync_batch_norm_in_one_process(both):
    def module(library):
        return library.nn.SyncBatchNorm(3, dtype=library.float64)

    expect_same(both, module, [numbers(2, 3, 4)])
    ours, theirs = (module(library) for library in both)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())


def test_convert_sync_batchnorm(torch):
    model = torch.nn.Sequential(
        torch.nn.BatchNorm2d(3, affine=False), torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    ).eval()
    inner = model[1][0]
    converted = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model and isinstance(model[0], torch.nn.SyncBatchNorm)
    assert model[1][0].weight is inner.weight
    assert model[1][0].running_var is inner.running_var
    assert not model[0].training and model[0].weight is None
    with pytest.raises(ValueError, match="at least 2D"):
        model[1][0](torch.ones(2))


def test_older_name(torch):
    with pytest.warns(FutureWarning, match="deprecated"):
        criterion = torch.nn.NLLLoss2d()
    assert criterion(torch.zeros(1, 2, 3, 3), torch.zeros(1, 3, 3).long()).item() == 0


def test_gradients(both):
    torch = both[0]
    functional = torch.nn.functional
    target = torch.tensor([[3, 0, -1, 1], [1, -1, 2, 2]])
    x = tensor_of(torch, numbers(2, 4))
    assert torch.autograd.gradcheck(lambda x: functional.multilabel_margin_loss(x, target), x)
    rows = tensor_of(torch, numbers(4, 3))
    assert torch.autograd.gradcheck(functional.pdist, rows)
    assert torch.autograd.gradgradcheck(functional.pdist, rows)
    image = tensor_of(torch, numbers(1, 4, 2, 2))
    assert torch.autograd.gradgradcheck(torch.nn.CrossMapLRN2d(3, 0.5), image)
