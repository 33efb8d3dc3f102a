"""Every algorithm takes PyTorch's steps, with PyTorch's state, and takes over in mid-run."""

import copy

import numpy as np
import pytest

from .algorithms import CASES, name_of
from .problems import converted, layout, leaves, train, values

STEPS = 50

each_case = pytest.mark.parametrize("case", CASES, ids=name_of)


def optimizer_for(torch, case, params):
    kind, options = case
    return getattr(torch.optim, kind)(params, **options)


def assert_near(ours, theirs):
    """Check that tensors agree to 1e-10 of their largest elements.

    Small elements of Adam's kin oscillate about zero, with the rounding of the large ones.
    """
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10 * np.abs(y).max())


def steps_of(case):
    """LBFGS converges to where rounding decides, in far fewer steps than the others."""
    return 8 if case[0] == "LBFGS" else STEPS


@each_case
def test_parameters_follow_pytorch(both, case):
    results = []
    for torch in both:
        params = leaves(torch)
        loss = train(torch, optimizer_for(torch, case, params), params, steps_of(case))
        results.append([*values(params), np.array(loss)])
    assert_near(*results)
    start = values(leaves(both[0]))
    assert not np.allclose(results[0][0], start[0], rtol=1e-6)


@each_case
def test_state_has_pytorchs_layout_and_values(both, case):
    states = []
    for torch in both:
        params = leaves(torch)
        optimizer = optimizer_for(torch, case, params)
        train(torch, optimizer, params, 5)
        states.append(optimizer.state_dict())
    ours, theirs = states
    assert ours["param_groups"] == theirs["param_groups"]
    without_numbers = ("t", "prev_loss")  # LBFGS: a number or a 0-d tensor
    for entry in (*ours["state"].values(), *theirs["state"].values()):
        for key in without_numbers:
            if key in entry:
                entry[key] = float(entry[key])
        if "prev_loss" in entry:
            entry["prev_loss"] = round(entry["prev_loss"], 9)
            entry["t"] = round(entry["t"], 9)
    assert layout(ours["state"]) == layout(theirs["state"])
    for key, entry in ours["state"].items():
        for name, value in entry.items():
            if hasattr(value, "numpy"):
                np.testing.assert_allclose(
                    value.numpy(), theirs["state"][key][name].numpy(), rtol=1e-6, atol=1e-9
                )


@each_case
def test_state_saved_in_mid_run_gives_the_same_continuation(tapegrad, case):
    """To the bit, where PyTorch converts the float32 scalars of NAdam and ASGD on loading."""
    torch = tapegrad
    params = leaves(torch)
    optimizer = optimizer_for(torch, case, params)
    train(torch, optimizer, params, 4)
    saved = copy.deepcopy(optimizer.state_dict())
    resumed = [param.detach().clone().requires_grad_() for param in params]
    train(torch, optimizer, params, 4)
    again = optimizer_for(torch, case, resumed)
    again.load_state_dict(saved)
    train(torch, again, resumed, 4)
    for x, y in zip(values(params), values(resumed), strict=True):
        np.testing.assert_array_equal(x, y)


@each_case
def test_continues_from_the_state_of_pytorch(both, case):
    tapegrad, torch = both
    theirs = leaves(torch)
    optimizer = optimizer_for(torch, case, theirs)
    train(torch, optimizer, theirs, 4)
    saved = converted(tapegrad, optimizer.state_dict())
    ours = [tapegrad.from_numpy(array).requires_grad_() for array in values(theirs)]
    train(torch, optimizer, theirs, 4)
    resumed = optimizer_for(tapegrad, (case[0], {}), ours)
    resumed.load_state_dict(saved)
    train(tapegrad, resumed, ours, 4)
    assert_near(values(ours), values(theirs))


def test_groups_have_their_own_options(both):
    results = []
    for torch in both:
        params = leaves(torch)
        groups = [
            {"params": params[:2], "lr": 0.2},
            {"params": [params[2]], "momentum": 0.5},
            {"params": params[3], "weight_decay": 0.1},
        ]
        optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
        train(torch, optimizer, params, STEPS)
        results.append(values(params))
    assert_near(*results)


def test_a_parameter_without_gradient_is_skipped(torch):
    used, unused = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.Adam([used, unused])
    used.sum().backward()
    optimizer.step()
    assert list(optimizer.state) == [used]
    assert unused.tolist() == [1.0, 1.0]
    assert used.tolist() != [1.0, 1.0]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "ASGD", "Rprop", "LBFGS"])
def test_the_rate_may_be_a_tensor(both, kind):
    results = []
    for torch in both:
        params = leaves(torch)
        optimizer = getattr(torch.optim, kind)(params, lr=torch.tensor(0.125, dtype=torch.float64))
        train(torch, optimizer, params, 1 if kind == "LBFGS" else 5)
        results.append(values(params))
    assert_near(*results)


def test_betas_of_adam_may_be_tensors(both):
    results = []
    for torch in both:
        params = leaves(torch)
        betas = torch.tensor(0.75), torch.tensor(0.875)
        train(torch, torch.optim.Adam(params, betas=betas), params, 10)
        results.append(values(params))
    for x, y in zip(*results, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RAdam", "Adafactor"])
def test_float32_stays_float32(torch, kind):
    param = torch.ones(3, 2, requires_grad=True)
    optimizer = getattr(torch.optim, kind)([param])
    (param * param).sum().backward()
    optimizer.step()
    assert param.dtype is torch.float32
    for value in optimizer.state[param].values():
        assert value.dtype is torch.float32


def test_steps_count_in_float64_where_that_is_the_default(torch):
    torch.set_default_dtype(torch.float64)
    try:
        param = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.Adam([param])
        param.sum().backward()
        optimizer.step()
        assert optimizer.state[param]["step"].dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# ---- Muon computes in bfloat16: velocities are PyTorch's, directions are to bfloat16's precision


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.1, "nesterov": False, "momentum": 0.5},
        {"lr": 0.1, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"},
        {"lr": 0.1, "adjust_lr_fn": "original", "ns_steps": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5), (4, 4)])
def test_muon_follows_pytorch(both, options, shape):
    generator = np.random.default_rng(3)
    start = generator.normal(size=shape)
    grads = generator.normal(size=(10, *shape))
    results, buffers, lr = [], [], options.get("lr", 1e-3)
    for torch in both:
        param = torch.tensor(start, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Muon([param], **options)
        for grad in grads:
            param.grad = torch.tensor(grad, dtype=torch.float64)
            optimizer.step()
        results.append(param.detach().numpy().copy())
        assert list(optimizer.state[param]) == ["momentum_buffer"]
        buffers.append(optimizer.state[param]["momentum_buffer"].numpy().copy())
    np.testing.assert_allclose(*buffers, rtol=1e-12)
    np.testing.assert_allclose(*results, atol=10 * lr * 0.02)
    assert np.abs(results[0] - start).max() > lr


def test_muon_takes_matrices_only(torch):
    with pytest.raises(ValueError, match="only supports 2D parameters"):
        torch.optim.Muon([torch.zeros(3, requires_grad=True)])


# ---- LBFGS


def test_lbfgs_finds_rosenbrocks_minimum(torch):
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [x], max_iter=100, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss.detach()

    first = optimizer.step(closure)
    assert float(first) == pytest.approx(24.2)
    assert x.tolist() == pytest.approx([1.0, 1.0], abs=1e-6)


def test_line_searches_call_the_closure_as_often_as_pytorchs(both):
    counts = []
    for torch in both:
        x = torch.tensor([-1.2, 1.0, 0.7], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], lr=2.0, max_iter=15, line_search_fn="strong_wolfe")

        def closure(torch=torch, optimizer=optimizer, x=x):
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2 + torch.sin(3 * x[2]) ** 2
            loss.backward()
            return loss.detach()

        optimizer.step(closure)
        state = optimizer.state[x]
        counts.append((state["func_evals"], state["n_iter"], [round(v, 7) for v in x.tolist()]))
    assert counts[0] == counts[1]
    assert counts[0][0] > 15


def test_lbfgs_stops_at_once_at_a_minimum(torch):
    x = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([x])

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss.detach()

    assert float(optimizer.step(closure)) == 0.0
    assert optimizer.state[x]["func_evals"] == 1
    assert optimizer.state[x]["n_iter"] == 0


def test_lbfgs_refuses_groups_and_other_line_searches(torch):
    x, y = (torch.ones(1, requires_grad=True) for _ in range(2))
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        torch.optim.LBFGS([{"params": [x]}, {"params": [y]}])
    optimizer = torch.optim.LBFGS([x], line_search_fn="bisection")

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss.detach()

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure)
