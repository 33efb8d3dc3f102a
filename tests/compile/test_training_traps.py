"""Training steps that a compiled function could miss something of."""

import pytest
from library import IS_TORCH, torch

from compile.pairs import Pair, batch, make_training, no_grad, step_of

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn, functional = torch.nn, torch.nn.functional


def test_steps_are_replayed_and_bitwise_the_same():
    pair = Pair(make_training())
    for _ in range(8):
        pair.call(*batch())
    assert pair.traces == 1


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
        lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
        lambda p: torch.optim.Adagrad(p),
        lambda p: torch.optim.NAdam(p),
        lambda p: torch.optim.RAdam(p),
        lambda p: torch.optim.Rprop(p),
        lambda p: torch.optim.ASGD(p),
        lambda p: torch.optim.Adadelta(p),
        lambda p: torch.optim.Adamax(p),
        lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
        lambda p: torch.optim.Adafactor(p),
        lambda p: torch.optim.LBFGS(p, max_iter=2),
    ],
    ids=lambda make: make.__code__.co_names[1] if len(make.__code__.co_names) > 1 else "optimizer",
)
def test_every_optimizer(optimizer):
    def make():
        model = nn.Linear(4, 2)
        optim = optimizer(model.parameters())
        if isinstance(optim, torch.optim.LBFGS):

            def step(x, y):
                def closure():
                    optim.zero_grad()
                    loss = functional.mse_loss(model(x), y)
                    loss.backward()
                    return loss

                return optim.step(closure).detach()

            return step, {"model": model}
        return step_of(model, optim), {"model": model, "optimizer": optim}

    pair = Pair(make)
    for _ in range(6):
        pair.call(*batch())


def test_a_changed_learning_rate():
    pair = Pair(make_training())
    for i in range(8):
        pair.call(*batch())
        pair.both(lambda world, i=i: world["optimizer"].param_groups[0].update(lr=0.01 * (i + 1)))
    assert pair.traces == 1, "the rate is read anew"


def test_a_schedule():
    def make():
        function, world = make_training()()
        world["schedule"] = torch.optim.lr_scheduler.CosineAnnealingLR(world["optimizer"], 5)
        return function, {k: v for k, v in world.items() if k != "schedule"} | {
            "lr": [world["schedule"]]
        }

    pair = Pair(make)
    schedules = [world.pop("lr")[0] for world in (pair.world, pair.other)]
    for _ in range(8):
        pair.call(*batch())
        for schedule in schedules:
            schedule.step()
    assert pair.traces == 1


def test_a_rate_that_the_function_reads_is_guarded():
    def make():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = step_of(model, optimizer)

        def guarded(x, y):
            loss = step(x, y)
            return loss.detach() * optimizer.param_groups[0]["lr"]

        return guarded, {"model": model, "optimizer": optimizer}

    pair = Pair(make)
    for i in range(9):
        pair.call(*batch())
        if i == 5:
            pair.both(lambda world: world["optimizer"].param_groups[0].update(lr=0.5))
    assert pair.traces == 2


@pytest.mark.parametrize(
    "look",
    [
        lambda optimizer, schedule, group: optimizer.state_dict()["param_groups"][0].copy(),
        lambda optimizer, schedule, group: str(optimizer),
        lambda optimizer, schedule, group: f"{optimizer}",
        lambda optimizer, schedule, group: schedule.get_lr(),
        lambda optimizer, schedule, group: list(group.values())[1:],
        lambda optimizer, schedule, group: [len(each) for each in schedule.optimizer.param_groups],
    ],
)
@pytest.mark.filterwarnings("ignore:To get the last learning rate")
def test_options_that_are_looked_at_without_being_named(look):
    def make():
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
        held = {"optimizer": optimizer, "group": optimizer.param_groups[0]}
        train = step_of(model, optimizer)

        def step(x, y):
            return train(x, y), look(held["optimizer"], schedule, held["group"])

        return step, {"model": model, "optimizer": optimizer}

    pair = Pair(make)
    for rate in (0.1, 0.3):
        pair.both(lambda world, rate=rate: world["optimizer"].param_groups[0].update(lr=rate))
        for _ in range(5):
            pair.call(*batch())


def test_other_options_of_a_group():
    pair = Pair(make_training())
    for i in range(10):
        pair.call(*batch())
        if i == 4:
            pair.both(lambda world: world["optimizer"].param_groups[0].update(maximize=True))
        if i == 6:
            pair.both(
                lambda world: (
                    world["optimizer"].param_groups[0].update(weight_decay=0.1, betas=(0.5, 0.6))
                )
            )


def test_an_optimizer_whose_state_is_loaded():
    pair = Pair(make_training())
    for i in range(9):
        pair.call(*batch())
        if i == 5:
            pair.both(
                lambda world: world["optimizer"].load_state_dict(world["optimizer"].state_dict())
            )


def test_a_group_that_is_added():
    def make():
        first, second = nn.Linear(4, 2), nn.Linear(4, 2)
        optimizer = torch.optim.SGD(first.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            functional.mse_loss(first(x) + second(x), y).backward()
            optimizer.step()

        return step, {"first": first, "second": second, "optimizer": optimizer}

    pair = Pair(make)
    for i in range(9):
        pair.call(*batch())
        if i == 5:
            pair.both(
                lambda world: world["optimizer"].add_param_group(
                    {"params": list(world["second"].parameters())}
                )
            )


def test_gradients_that_add_up():
    def make():
        model = nn.Linear(4, 2)

        def step(x, y):
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        return step, {"model": model}

    pair = Pair(make)
    for i in range(10):
        pair.call(*batch())
        if i == 5:
            pair.both(lambda world: world["model"].zero_grad())
        if i == 7:
            pair.both(lambda world: world["model"].zero_grad(set_to_none=False))
    assert pair.traces >= 1


def test_zeros_instead_of_none():
    pair = Pair(make_training(set_to_none=False))
    for _ in range(6):
        pair.call(*batch())
    assert pair.traces >= 1


def test_gradients_that_are_held_are_left_alone():
    pair = Pair(make_training())
    held = []
    for _ in range(6):
        pair.call(*batch())
        held.append([(p.grad, p.grad.clone()) for p in pair.other["model"].parameters()])
    assert pair.traces == 1
    assert all(torch.equal(grad, was) for step in held for grad, was in step)


def test_results_are_fresh():
    pair = Pair(no_grad(lambda x: x * 2))
    for _ in range(3):
        pair.call(torch.ones(3))
    x = torch.ones(3)
    first, second = pair.compiled(x), pair.compiled(x)
    assert pair.traces == 1
    first.zero_()
    assert second.tolist() == [2.0, 2.0, 2.0]


def test_clipping():
    def make():
        _, world = make_training()()
        model, optimizer = world["model"], world["optimizer"]

        def step(x, y):
            optimizer.zero_grad()
            functional.mse_loss(model(x), y).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            return norm

        return step, world

    pair = Pair(make)
    for _ in range(6):
        pair.call(*batch())
    assert pair.traces == 1


def test_a_shape_that_comes_back():
    pair = Pair(make_training())
    for n in (3, 3, 3, 3, 5, 5, 5, 3, 5, 1, 1, 1, 3):
        pair.call(*batch(n))
    assert pair.traces == 3


def test_a_spent_result_cannot_be_swept_again():
    pair = Pair(make_training())
    for _ in range(5):
        pair.call(*batch())
    loss = pair.compiled(*batch())
    assert loss.requires_grad and pair.traces == 1
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.filterwarnings("ignore:.*overwritten through")
def test_writes_through_data_that_become_errors():
    weight = nn.Parameter(torch.ones(2))

    def step(x):
        weight.grad = None
        y = (weight * weight * x).sum()
        weight.data.mul_(0.5)
        y.backward()
        return weight.grad.clone()

    compiled = torch.compile(step)
    for _ in range(5):
        before = weight.detach().clone()
        assert torch.equal(compiled(torch.ones(2)), before)
    assert len(torch.compiler.explain(compiled).traces) == 1
    with torch.autograd.set_data_writes("error"), pytest.raises(RuntimeError, match="overwritten"):
        compiled(torch.ones(2))
    compiled(torch.ones(2))
