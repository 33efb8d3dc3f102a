"""Averages of weights."""

import numpy as np
import pytest


def arrays(count=6):
    generator = np.random.default_rng(5)
    return [[generator.normal(size=shape) for shape in ((3, 2), (4,))] for _ in range(count)]


def tensors(torch, row):
    return [torch.tensor(array, dtype=torch.float64) for array in row]


@pytest.mark.parametrize("name, options", [("ema", {}), ("ema", {"decay": 0.7}), ("swa", {})])
def test_averages_of_lists_follow_pytorch(both, name, options):
    results = []
    for torch in both:
        first, *rest = arrays()
        averages = tensors(torch, first)
        update = getattr(torch.optim.swa_utils, f"get_{name}_multi_avg_fn")(**options)
        for count, row in enumerate(rest, start=1):
            update(averages, tensors(torch, row), torch.tensor(count))
        results.append([average.numpy().copy() for average in averages])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)


@pytest.mark.parametrize("name, options", [("ema", {}), ("ema", {"decay": 0.7}), ("swa", {})])
def test_averages_of_one_tensor_follow_pytorch(both, name, options):
    results = []
    for torch in both:
        average, *rest = [tensors(torch, row)[0] for row in arrays()]
        update = getattr(torch.optim.swa_utils, f"get_{name}_avg_fn")(**options)
        for count, value in enumerate(rest, start=1):
            average = update(average, value, count)
        results.append(average.numpy().copy())
    np.testing.assert_allclose(*results, rtol=1e-12)


def test_whole_numbers_are_averaged_too(torch):
    average, value = torch.tensor([4]), torch.tensor([8])
    torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)([average], [value], 1)
    assert average.tolist() == [6]


@pytest.mark.parametrize("name", ["get_ema_avg_fn", "get_ema_multi_avg_fn"])
@pytest.mark.parametrize("decay", [-0.1, 1.5])
def test_decays_outside_of_0_to_1_are_refused(torch, name, decay):
    with pytest.raises(ValueError, match=f"Invalid decay value {decay} provided"):
        getattr(torch.optim.swa_utils, name)(decay)


def test_the_average_of_equal_weights_is_the_mean(tapegrad):
    update = tapegrad.optim.swa_utils.update_averages
    rows = arrays()
    averages = [tapegrad.zeros_like(tensor) for tensor in tensors(tapegrad, rows[0])]
    for count, row in enumerate(rows):
        update(averages, tensors(tapegrad, row), tapegrad.tensor(count))
    for index, average in enumerate(averages):
        mean = np.mean([row[index] for row in rows], axis=0)
        np.testing.assert_allclose(average.numpy(), mean, rtol=1e-12)


def test_averages_go_through_the_function_given(tapegrad):
    update = tapegrad.optim.swa_utils.update_averages
    average, value = tapegrad.tensor([1.0]), tapegrad.tensor([5.0])
    update([average], [value], 1, avg_fn=lambda old, new, count: old + new + count)
    assert average.tolist() == [7.0]
    calls = []
    whole = tapegrad.tensor([1])
    update(
        [average, whole],
        [value, whole],
        2,
        multi_avg_fn=lambda old, new, count: calls.append((len(old), len(new), count)),
    )
    assert calls == [(1, 1, 2), (1, 1, 2)]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"anneal_strategy": "x"}, "anneal_strategy must be one of 'cos' or 'linear'"),
        ({"anneal_epochs": -1}, "anneal_epochs must be equal or greater than 0, got -1"),
        ({"anneal_epochs": 1.5}, "anneal_epochs must be equal or greater than 0, got 1.5"),
        ({"swa_lr": [0.1, 0.2]}, "swa_lr must have the same length as optimizer.param_groups"),
    ],
)
def test_bad_options_of_swalr_are_refused(torch, options, message):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError) as caught:
        torch.optim.swa_utils.SWALR(optimizer, **{"swa_lr": 0.1, **options})
    assert message in str(caught.value)
