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
            update(averages, tensors(torch, row), count)
        results.append([average.numpy().copy() for average in averages])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


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


# ---- whole models


@pytest.fixture
def libraries(both):
    """Give both libraries, once there is nn.Module here to average."""
    missing = [name for name in ("Linear", "BatchNorm1d") if not hasattr(both[0].nn, name)]
    if missing:
        pytest.skip(f"tapegrad.nn has no {missing[0]} yet")
    return both


def model(torch):
    """Return a small model with the same weights in every library."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).double()
    generator = np.random.default_rng(2)
    with torch.no_grad():
        for param in net.parameters():
            param.copy_(torch.tensor(generator.normal(size=tuple(param.shape))))
    return net


def move(torch, net, seed):
    """Change the parameters, and the buffers by a pass over data."""
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        net(torch.tensor(generator.normal(size=(5, 3))))
        for param in net.parameters():
            param.add_(torch.tensor(generator.normal(size=tuple(param.shape))))


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("name", ["default", "ema", "own"])
def test_averaged_models_follow_pytorch(libraries, name, use_buffers):
    results = []
    for torch in libraries:
        options = {
            "default": {},
            "ema": {"multi_avg_fn": torch.optim.swa_utils.get_ema_multi_avg_fn(0.8)},
            "own": {"avg_fn": lambda old, new, count: old * 0.5 + new * 0.5},
        }[name]
        net = model(torch)
        averaged = torch.optim.swa_utils.AveragedModel(net, use_buffers=use_buffers, **options)
        for seed in range(4):
            move(torch, net, seed)
            averaged.update_parameters(net)
        assert int(averaged.n_averaged) == 4
        results.append({key: value.numpy() for key, value in averaged.state_dict().items()})
    assert list(results[0]) == list(results[1])
    for key, value in results[0].items():
        np.testing.assert_allclose(value, results[1][key], rtol=1e-6)


def test_statistics_of_batch_norm_are_computed_anew(libraries):
    results = []
    for torch in libraries:
        generator = np.random.default_rng(4)
        batches = [torch.tensor(generator.normal(size=(6, 3))) for _ in range(5)]
        net = model(torch).eval()
        torch.optim.swa_utils.update_bn([(batch, None) for batch in batches], net)
        assert not net.training
        assert net[1].momentum == 0.1
        results.append([net[1].running_mean.numpy(), net[1].running_var.numpy()])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_one_averaging_function_at_most(libraries):
    for torch in libraries:
        with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
            torch.optim.swa_utils.AveragedModel(
                torch.nn.Linear(1, 1), avg_fn=lambda *args: None, multi_avg_fn=lambda *args: None
            )
