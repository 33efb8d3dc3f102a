"""Every scheduler sets PyTorch's learning rates and momenta, and saves PyTorch's state."""

import copy
import math
import re
import warnings

import pytest

STEPS = 100


def optimizer_for(torch, kind="SGD", lr=0.5, **options):
    """Return an optimizer of two groups with different rates."""
    x, y = (torch.zeros(1, requires_grad=True) for _ in range(2))
    if kind == "SGD":
        options.setdefault("momentum", 0.9)
    groups = [{"params": [x]}, {"params": [y], "lr": lr / 5}]
    return getattr(torch.optim, kind)(groups, lr=lr, **options)


class Decay:
    """A factor that is an object with a state of its own."""

    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


def warm_then_cosine(torch, optimizer):
    schedulers = torch.optim.lr_scheduler
    first = schedulers.LinearLR(optimizer, 0.1, total_iters=10)
    second = schedulers.CosineAnnealingLR(optimizer, T_max=60)
    third = schedulers.ConstantLR(optimizer, 0.25, total_iters=7)
    return schedulers.SequentialLR(optimizer, [first, second, third], [10, 80])


def restarts_in_sequence(torch, optimizer):
    schedulers = torch.optim.lr_scheduler
    first = schedulers.ExponentialLR(optimizer, 0.9)
    second = schedulers.CosineAnnealingWarmRestarts(optimizer, 10, 2)
    third = schedulers.StepLR(optimizer, 4, 0.5)
    return schedulers.SequentialLR(optimizer, [first, second, third], [5, 70])


def chain(torch, optimizer):
    schedulers = torch.optim.lr_scheduler
    first = schedulers.ConstantLR(optimizer, 0.1, total_iters=20)
    second = schedulers.ExponentialLR(optimizer, 0.99)
    return schedulers.ChainedScheduler([first, second], optimizer)


def chain_in_sequence(torch, optimizer):
    schedulers = torch.optim.lr_scheduler
    constant = schedulers.ConstantLR(optimizer, 0.5, total_iters=3)
    exponential = schedulers.ExponentialLR(optimizer, 0.9)
    inner = schedulers.SequentialLR(optimizer, [constant, exponential], [6])
    optimizer.step()  # a sequence starts its first scheduler anew, which counts as a second step
    linear = schedulers.LinearLR(optimizer, 0.2, total_iters=9)
    return schedulers.SequentialLR(optimizer, [inner, linear], [30])


def made(name, /, kind="SGD", **options):
    """Return how a scheduler is made, as a function of library and optimizer."""

    def make(torch, optimizer):
        return getattr(torch.optim.lr_scheduler, name)(optimizer, **options)

    make.kind = kind
    make.name = "-".join([name, kind, *(f"{key}={value}" for key, value in options.items())])
    return make


def swalr(torch, optimizer):
    return torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=20)


def swalr_linear(torch, optimizer):
    return torch.optim.swa_utils.SWALR(
        optimizer, swa_lr=[0.05, 0.7], anneal_epochs=7, anneal_strategy="linear"
    )


def swalr_at_once(torch, optimizer):
    return torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=0)


MADE = [
    made("LambdaLR", lr_lambda=lambda epoch: 0.95**epoch),
    made("LambdaLR", lr_lambda=[Decay(0.9), Decay(0.8)]),
    made("MultiplicativeLR", lr_lambda=lambda epoch: 1 - 1 / (epoch + 2)),
    made("StepLR", step_size=7),
    made("StepLR", step_size=30, gamma=0.5),
    made("MultiStepLR", milestones=[5, 20, 20, 60]),
    made("MultiStepLR", milestones=[30, 10], gamma=0.7),
    made("ConstantLR"),
    made("ConstantLR", factor=0.75, total_iters=40),
    made("LinearLR"),
    made("LinearLR", start_factor=0.9, end_factor=0.2, total_iters=60),
    made("ExponentialLR", gamma=0.97),
    made("PolynomialLR"),
    made("PolynomialLR", total_iters=70, power=2.5),
    made("CosineAnnealingLR", T_max=100),
    made("CosineAnnealingLR", T_max=13, eta_min=0.01),
    made("CosineAnnealingWarmRestarts", T_0=10),
    made("CosineAnnealingWarmRestarts", T_0=5, T_mult=2, eta_min=0.02),
    made("CyclicLR", base_lr=0.1, max_lr=0.9, step_size_up=10),
    made("CyclicLR", base_lr=[0.1, 0.2], max_lr=[0.9, 0.8], step_size_up=10, step_size_down=5),
    made("CyclicLR", base_lr=0.1, max_lr=0.9, step_size_up=10, mode="triangular2"),
    made("CyclicLR", base_lr=0.1, max_lr=0.9, step_size_up=9, mode="exp_range", gamma=0.98),
    made("CyclicLR", base_lr=0.1, max_lr=0.9, step_size_up=9, scale_fn=lambda x: 1 / x),
    made(
        "CyclicLR",
        base_lr=0.1,
        max_lr=0.9,
        step_size_up=9,
        scale_fn=Decay(0.97),
        scale_mode="iterations",
    ),
    made("CyclicLR", kind="Adam", base_lr=0.1, max_lr=0.9, step_size_up=10),
    made("CyclicLR", kind="Adagrad", base_lr=0.1, max_lr=0.9, cycle_momentum=False),
    made("OneCycleLR", max_lr=0.9, total_steps=120),
    made("OneCycleLR", max_lr=[0.9, 0.3], epochs=4, steps_per_epoch=25),
    made("OneCycleLR", max_lr=0.9, total_steps=101, anneal_strategy="linear", pct_start=0.4),
    made("OneCycleLR", max_lr=0.9, total_steps=110, three_phase=True),
    made("OneCycleLR", kind="Adam", max_lr=0.9, total_steps=110, div_factor=10.0),
    made("OneCycleLR", kind="Adagrad", max_lr=0.9, total_steps=110, cycle_momentum=False),
    warm_then_cosine,
    restarts_in_sequence,
    chain,
    chain_in_sequence,
    swalr,
    swalr_linear,
    swalr_at_once,
]


def name_of(make):
    # Without addresses: all test processes must give a test the same name.
    return re.sub(r" at 0x\w+", "", getattr(make, "name", make.__name__))


each_scheduler = pytest.mark.parametrize("make", MADE, ids=name_of)


def pair_for(torch, make):
    optimizer = optimizer_for(torch, getattr(make, "kind", "SGD"))
    return optimizer, make(torch, optimizer)


def settings(optimizer):
    """Return the rates and momenta of an optimizer."""
    found = []
    for group in optimizer.param_groups:
        found += [float(group["lr"]), group.get("momentum", 0.0), *group.get("betas", ())]
    return found


def followed(optimizer, scheduler, steps):
    """Return the settings before and after each of some steps."""
    history = [settings(optimizer)]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        history.append(settings(optimizer))
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return history


def assert_same(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-12, abs=1e-15)


@each_scheduler
def test_rates_follow_pytorch(both, make):
    histories = [followed(*pair_for(torch, make), STEPS) for torch in both]
    assert_same(*histories)
    unscheduled = settings(optimizer_for(both[0], getattr(make, "kind", "SGD")))
    assert any(found != unscheduled for found in histories[0])


@each_scheduler
def test_state_has_pytorchs_keys(both, make):
    states = []
    for torch in both:
        optimizer, scheduler = pair_for(torch, make)
        followed(optimizer, scheduler, 12)
        states.append(scheduler.state_dict())
    assert set(states[0]) == set(states[1]) - {"_scale_fn_ref"}
    for key in ("last_epoch", "_step_count", "T_cur", "T_i", "total_steps"):
        assert states[0].get(key) == states[1].get(key)


@each_scheduler
def test_state_saved_in_mid_run_gives_the_same_continuation(torch, make):
    optimizer, scheduler = pair_for(torch, make)
    followed(optimizer, scheduler, 23)
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    rest = followed(optimizer, scheduler, 40)
    again, resumed = pair_for(torch, make)
    resumed.load_state_dict(saved[1])
    again.load_state_dict(saved[0])
    assert followed(again, resumed, 40) == rest


@each_scheduler
def test_continues_from_the_state_of_pytorch(both, make):
    tapegrad, torch = both
    theirs = pair_for(torch, make)
    followed(*theirs, 23)
    saved = copy.deepcopy((theirs[0].state_dict(), theirs[1].state_dict()))
    saved[1].pop("anneal_func", None)
    ours = pair_for(tapegrad, make)
    ours[1].load_state_dict(saved[1])
    for group, state in zip(ours[0].param_groups, saved[0]["param_groups"], strict=True):
        group |= {key: value for key, value in state.items() if key != "params"}
    assert_same(followed(*ours, 40), followed(*theirs, 40))


NOT_CLOSED = ("MultiplicativeLR", "CosineAnnealingWarmRestarts", "OneCycleLR")
CLOSED = [make for make in MADE if hasattr(make, "name") and not make.name.startswith(NOT_CLOSED)]


@pytest.mark.parametrize("make", CLOSED, ids=name_of)
def test_closed_forms_follow_pytorch(both, make):
    histories = []
    for torch in both:
        optimizer, scheduler = pair_for(torch, make)
        optimizer.step()
        history = []
        for epoch in (1, 5, 4, 30, 60, 99):
            with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
                scheduler.step(epoch)
            history.append(settings(optimizer))
        histories.append(history)
    assert_same(*histories)


@pytest.mark.parametrize("options", [{"T_0": 10}, {"T_0": 4, "T_mult": 3, "eta_min": 0.1}])
def test_restarts_take_fractions_of_epochs(both, options):
    histories = []
    for torch in both:
        optimizer, scheduler = pair_for(torch, made("CosineAnnealingWarmRestarts", **options))
        history = []
        for step in range(80):
            scheduler.step(step / 3)
            history.append([*settings(optimizer), scheduler.last_epoch])
        scheduler.step(2)
        scheduler.step()
        history.append(settings(optimizer))
        histories.append(history)
    assert_same(*histories)


# ---- plateaus

LOSSES = [10 / (1 + 0.3 * min(epoch, 20)) + 0.01 * math.sin(epoch) for epoch in range(STEPS)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"patience": 2},
        {"patience": 2, "cooldown": 4, "factor": 0.5},
        {"patience": 1, "threshold": 0.05, "threshold_mode": "abs"},
        {"patience": 1, "mode": "max"},
        {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.1},
        {"patience": 1, "min_lr": 0.02},
        {"patience": 1, "min_lr": [0.02, 0.001], "eps": 1e-3},
    ],
    ids=str,
)
def test_plateaus_follow_pytorch(both, options):
    histories, states = [], []
    for torch in both:
        optimizer = optimizer_for(torch)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        history = []
        for loss in LOSSES:
            scheduler.step(torch.tensor(loss, dtype=torch.float64))
            history.append([*scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.best])
        histories.append(history)
        states.append(scheduler.state_dict())
    assert_same(*histories)
    assert states[0] == states[1]
    assert histories[0][-1][0] < histories[0][0][0]


def test_a_plateau_continues_from_a_saved_state(torch):
    rates = []
    optimizer = optimizer_for(torch)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for loss in LOSSES[:50]:
        scheduler.step(loss)
    saved = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
    again = optimizer_for(torch)
    resumed = torch.optim.lr_scheduler.ReduceLROnPlateau(again)
    resumed.load_state_dict(saved[1])
    again.load_state_dict(saved[0])
    for loss in LOSSES[50:]:
        scheduler.step(loss)
        resumed.step(loss)
        rates.append(scheduler.get_last_lr())
        assert resumed.get_last_lr() == rates[-1]
    assert rates[0] != rates[-1]


def test_a_plateau_notices_new_groups(torch):
    optimizer = optimizer_for(torch)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.1, 0.1])
    optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    scheduler.step(1.0)
    with pytest.raises(RuntimeError, match="The number of param groups in the `optimizer` "):
        scheduler.step(1.0)


# ---- orders, warnings and errors


def test_a_scheduler_before_the_optimizer_is_warned_of(torch):
    optimizer, scheduler = pair_for(torch, made("StepLR", step_size=2))
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        scheduler.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()
    assert scheduler.last_epoch == 2
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_a_step_before_the_scheduler_was_made_does_not_count(torch):
    optimizer = optimizer_for(torch)
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before `optimizer.step\\(\\)`"):
        scheduler.step()


def test_a_replaced_step_is_warned_of(torch):
    optimizer, scheduler = pair_for(torch, made("StepLR", step_size=2))
    optimizer.step = lambda: None
    optimizer.step()
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler"):
        scheduler.step()


def test_asking_for_rates_outside_of_a_step_is_warned_of(torch):
    _, scheduler = pair_for(torch, made("StepLR", step_size=2))
    with pytest.warns(UserWarning, match="please use `get_last_lr\\(\\)`"):
        rates = scheduler.get_lr()
    assert rates == [0.5, 0.1]


def test_resuming_needs_initial_rates(torch):
    optimizer = optimizer_for(torch)
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified"):
        torch.optim.lr_scheduler.StepLR(optimizer, 2, last_epoch=3)
    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, last_epoch=3)
    assert scheduler.last_epoch == 4
    assert scheduler.base_lrs == [1.0, 1.0]


@pytest.mark.parametrize("name", ["LambdaLR", "MultiplicativeLR"])
def test_functions_are_counted(torch, name):
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        getattr(torch.optim.lr_scheduler, name)(optimizer_for(torch), [lambda epoch: 1.0])


def test_factors_of_multiplicative_must_be_functions(torch):
    with pytest.raises(TypeError, match="lr_lambda should be a function, but got float"):
        torch.optim.lr_scheduler.MultiplicativeLR(optimizer_for(torch), 0.5)


BAD = [
    (
        "ConstantLR",
        {"factor": 1.5},
        "Constant multiplicative factor expected to be between 0 and 1",
    ),
    ("LinearLR", {"start_factor": 0}, "Starting multiplicative factor expected to be greater than"),
    ("LinearLR", {"end_factor": 1.5}, "Ending multiplicative factor expected to be between 0 and"),
    ("CosineAnnealingWarmRestarts", {"T_0": 0}, "Expected positive integer T_0, but got 0"),
    ("CosineAnnealingWarmRestarts", {"T_0": 1.5}, "Expected positive integer T_0, but got 1.5"),
    ("CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 0}, "Expected integer T_mult >= 1"),
    ("CosineAnnealingWarmRestarts", {"T_0": 1, "eta_min": "x"}, "Expected float or int eta_min"),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "mode": "x"}, "mode is invalid and scale_fn is"),
    ("CyclicLR", {"base_lr": [0.1], "max_lr": 1.0}, "base_lr must have the same length as"),
    ("OneCycleLR", {"max_lr": 1.0}, "You must define either total_steps OR"),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 0}, "Expected positive integer total_steps"),
    ("OneCycleLR", {"max_lr": 1.0, "epochs": 2, "steps_per_epoch": 0}, "integer steps_per_epoch"),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 9, "pct_start": 2.0}, "Expected float between 0"),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 9, "anneal_strategy": "x"}, "must be one of 'c"),
    ("ReduceLROnPlateau", {"factor": 1.0}, "Factor should be < 1.0"),
    ("ReduceLROnPlateau", {"mode": "x"}, "mode x is unknown!"),
    ("ReduceLROnPlateau", {"threshold_mode": "x"}, "threshold mode x is unknown!"),
    ("ReduceLROnPlateau", {"min_lr": [0.1]}, "expected 2 min_lrs, got 1"),
]


@pytest.mark.parametrize("name, options, message", BAD)
def test_bad_options_are_refused(torch, name, options, message):
    with pytest.raises(ValueError) as caught:
        getattr(torch.optim.lr_scheduler, name)(optimizer_for(torch), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["StepLR", "CyclicLR", "OneCycleLR", "ReduceLROnPlateau"])
def test_what_is_no_optimizer_is_refused(torch, name):
    options = {
        "StepLR": {"step_size": 1},
        "CyclicLR": {"base_lr": 1.0, "max_lr": 2.0},
        "OneCycleLR": {"max_lr": 1.0, "total_steps": 9},
    }.get(name, {})
    with pytest.raises(TypeError, match="is not an Optimizer"):
        getattr(torch.optim.lr_scheduler, name)(3, **options)


@pytest.mark.parametrize("name", ["CyclicLR", "OneCycleLR"])
def test_momentum_is_cycled_only_where_there_is_some(torch, name):
    options = {"base_lr": 0.1} if name == "CyclicLR" else {"total_steps": 9}
    with pytest.raises(ValueError, match="optimizer must support momentum or beta1"):
        getattr(torch.optim.lr_scheduler, name)(
            optimizer_for(torch, "Adagrad"), max_lr=1.0, **options
        )


def test_one_cycle_ends(torch):
    optimizer, scheduler = pair_for(torch, made("OneCycleLR", max_lr=1.0, total_steps=3))
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        scheduler.step()


def test_what_cannot_be_composed_is_refused(torch):
    schedulers = torch.optim.lr_scheduler
    optimizer = optimizer_for(torch)
    step, other = schedulers.StepLR(optimizer, 2), schedulers.StepLR(optimizer_for(torch), 2)
    plateau = schedulers.ReduceLROnPlateau(optimizer)
    for make in (
        lambda parts: schedulers.ChainedScheduler(parts),
        lambda parts: schedulers.SequentialLR(optimizer, parts, [5] * (len(parts) - 1)),
    ):
        with pytest.raises(ValueError, match="expects at least one scheduler"):
            make([])
        with pytest.raises(ValueError, match="expects all schedulers to belong to the same"):
            make([step, other])
        with pytest.raises(ValueError, match="does not support `ReduceLROnPlateau`"):
            make([step, plateau])
        with pytest.raises((TypeError, AttributeError)):
            make([3])
    with pytest.raises(ValueError, match="one more than the number of milestone points"):
        schedulers.SequentialLR(optimizer, [step], [3])


def test_rates_that_are_tensors_are_written_to(both):
    histories = []
    for torch in both:
        rate = torch.tensor(0.5, dtype=torch.float64)
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        history = []
        for _ in range(30):
            optimizer.step()
            scheduler.step()
            assert optimizer.param_groups[0]["lr"] is rate
            (last,) = scheduler.get_last_lr()
            assert last is not rate
            history.append([last.item(), rate.item()])
        histories.append(history)
    assert_same(*histories)


def test_objects_keep_their_state_and_functions_theirs(torch):
    optimizer = optimizer_for(torch)
    make = torch.optim.lr_scheduler.LambdaLR
    saved = make(optimizer, [Decay(0.5), lambda epoch: 1.0]).state_dict()
    assert saved["lr_lambdas"] == [{"base": 0.5}, None]
    decay = Decay(0.9)
    make(optimizer_for(torch), [decay, lambda epoch: 2.0]).load_state_dict(saved)
    assert decay.base == 0.5


def test_the_base_class_has_no_rates(torch):
    with pytest.raises(NotImplementedError):
        torch.optim.lr_scheduler.LRScheduler(optimizer_for(torch))


def test_the_names_are_pytorchs(both):
    ours, theirs = (set(torch.optim.lr_scheduler.__all__) for torch in both)
    assert ours == theirs
    assert set(both[1].optim.__all__) - set(both[0].optim.__all__) == {
        "swap_in_optimizer_params_and_state"
    }
