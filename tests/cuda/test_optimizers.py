"""Steps of optimizers on CUDA: the parameters and states that the CPU's steps give."""

import pytest
from library import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd with decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1}),
    "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01}),
    "rmsprop with momentum": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9}),
    "rmsprop centered": (torch.optim.RMSprop, {"lr": 0.01, "centered": True}),
    "rmsprop both": (torch.optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.5}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01}),
    "adadelta": (torch.optim.Adadelta, {"lr": 1.0}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01}),
    "radam": (torch.optim.RAdam, {"lr": 0.01}),
    "asgd": (torch.optim.ASGD, {"lr": 0.1, "t0": 1}),
    "rprop": (torch.optim.Rprop, {"lr": 0.01}),
}
each_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)

# Nothing, less than a thread block, several pieces with a rest.
SHAPES = ((0,), (1,), (7, 5), (2048,), (3, 1701))


def leaves(device, dtype, shapes=SHAPES):
    torch.manual_seed(3)
    made = [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]
    return [each.to(device).requires_grad_() for each in made]


def train(name, device, dtype, steps=7, shapes=SHAPES, change=None, **further):
    """Take steps with gradients that are the same on all devices; return parameters and states."""
    cls, options = OPTIMIZERS[name]
    params = leaves(device, dtype, shapes)
    optimizer = cls(params, **{**options, **further})
    torch.manual_seed(4)
    for step in range(steps):
        for param in params:
            grad = torch.randn(param.shape, dtype=torch.float64).to(dtype)
            param.grad = grad.to(device)
        if change is not None:
            change(step, params)
        optimizer.step()
    return params, [optimizer.state[param] for param in params]


def assert_close(found, wanted, context, units=16):
    assert found.dtype == wanted.dtype
    a, b = found.detach().cpu().double(), wanted.detach().double()
    bound = units * torch.finfo(wanted.dtype).eps * b.abs().clamp(min=1.0)
    assert torch.all((a - b).abs() <= bound), f"{context}: {(a - b).abs().max()}"


def check(name, dtype, on_cuda=None, **how):
    """Compare with the CPU; `on_cuda` are options for CUDA alone."""
    found = train(name, "cuda", dtype, **how, **(on_cuda or {}))
    wanted = train(name, "cpu", dtype, **how)
    for i, (param, other) in enumerate(zip(found[0], wanted[0], strict=True)):
        assert param.device.type == "cuda"
        assert_close(param, other, f"{name}: parameter {i}")
    for i, (state, other) in enumerate(zip(found[1], wanted[1], strict=True)):
        assert state.keys() == other.keys()
        for key, value in other.items():
            assert_close(state[key], value, f"{name}: {key} of parameter {i}")
    return found


@each_optimizer
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_steps(name, dtype):
    check(name, dtype)


def test_states_lie_on_the_device_and_counts_on_the_host():
    _, states = train("adam", "cuda", torch.float32, steps=1)
    for state in states:
        assert state["exp_avg"].device.type == "cuda"
        assert state["step"].device.type == "cpu" and state["step"].item() == 1


@pytest.mark.parametrize("count", (8, 9, 33, 150))
def test_many_parameters(count):
    """More than the arguments of one launch have room for."""
    check("adam", torch.float32, steps=2, shapes=[(3 + i % 5,) for i in range(count)])


def test_mixed_dtypes_and_steps():
    """Parameters that are not launched together: other dtypes, and fewer steps behind them."""

    def run(device):
        torch.manual_seed(3)
        dtypes = [torch.float32, torch.float16, torch.float32, torch.float64, torch.float16]
        params = [torch.randn(40).to(dtype).to(device).requires_grad_() for dtype in dtypes]
        optimizer = torch.optim.Adam(params, lr=0.1)
        for step in range(5):
            for i, param in enumerate(params):
                skipped = step == 2 and i % 2
                param.grad = None if skipped else torch.full((40,), 0.5 + i).to(param)
            optimizer.step()
        return params

    for found, wanted in zip(run("cuda"), run("cpu"), strict=True):
        assert_close(found, wanted, "mixed")


@each_optimizer
def test_other_layouts(name):
    """A transposed gradient is composed of other ops; a transposed parameter is dense."""

    def turn(step, params):
        for param in params:
            if param.dim() == 2:
                param.grad = param.grad.t().contiguous().t()

    check(name, torch.float32, steps=2, change=turn)


def test_unaligned_memory():
    def run(device):
        memory = torch.arange(5001.0).to(device) / 100
        param = memory[1:].detach().requires_grad_()
        param.grad = torch.ones(5000).to(device)
        optimizer = torch.optim.SGD([param], lr=0.5, momentum=0.9)
        for _ in range(3):
            optimizer.step()
        return param

    assert_close(run("cuda"), run("cpu"), "unaligned")


def test_versions_move_on():
    """A saved value that a step overwrites is found out, as on the CPU."""
    weight = torch.ones(3, device="cuda", requires_grad=True)
    loss = weight * weight
    weight.grad = torch.ones(3, device="cuda")
    torch.optim.SGD([weight], lr=0.1).step()
    with pytest.raises(RuntimeError, match="sgd_step"):
        loss.backward(torch.ones(3, device="cuda"))


# ---- counts and options on the device, which no step looks at

SWITCHES = {
    name: "capturable" if "capturable" in cls([torch.ones(1)], **options).defaults else "fused"
    for name, (cls, options) in OPTIMIZERS.items()
}


@each_optimizer
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_counts_on_the_device(name, dtype):
    _, states = check(name, dtype, on_cuda={SWITCHES[name]: True})
    for state in states:
        for key in ("step", "mu_product", "eta", "mu"):
            if key in state:
                assert state[key].device.type == "cuda"


def test_counts_of_many_parameters_on_the_device():
    shapes = [(3 + i % 5,) for i in range(150)]
    check("nadam", torch.float32, steps=2, shapes=shapes, on_cuda={"capturable": True})


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "nesterov"])
@pytest.mark.parametrize("wide", [torch.float32, torch.float64], ids=str)
def test_learning_rate_on_the_device(name, wide):
    """A schedule changes it in place."""
    rate = torch.tensor(0.05, dtype=wide)
    moved = rate.cuda()

    def change(step, params):
        factor = 0.5 if step == 2 else 1.0
        (moved if params[0].is_cuda else rate).mul_(factor)

    how = {"capturable": True} if name.startswith("adam") else {}
    found = train(name, "cuda", torch.float32, change=change, lr=moved, **how)
    wanted = train(name, "cpu", torch.float32, change=change, lr=rate)
    for param, other in zip(found[0], wanted[0], strict=True):
        assert_close(param, other, name)


def test_learning_rate_on_the_device_and_counts_on_the_host():
    rate = torch.tensor(0.05, device="cuda")
    found = train("adam", "cuda", torch.float32, lr=rate)
    wanted = train("adam", "cpu", torch.float32, lr=0.05)
    for param, other in zip(found[0], wanted[0], strict=True):
        assert_close(param, other, "adam")


def test_loaded_counts_are_used():
    """Counts that a state dict has on the device take the way of the device."""
    params, _ = train("adam", "cuda", torch.float32, steps=1)
    first = torch.optim.Adam(params, lr=0.01, fused=True)
    for param in params:
        param.grad = torch.ones_like(param)
    first.step()
    second = torch.optim.Adam(params, lr=0.01, fused=True)
    second.load_state_dict(first.state_dict())
    second.step()
    assert all(state["step"].item() == 2 for state in second.state.values())
    assert all(state["step"].is_cuda for state in second.state.values())


@each_optimizer
@pytest.mark.parametrize("on_device", [False, True])
def test_steps_do_not_wait(name, on_device, emulator):
    """Work that was there before a step is still to be done after it."""
    cls, options = OPTIMIZERS[name]
    options = {**options, SWITCHES[name]: True} if on_device else options
    params = leaves("cuda", torch.float32)
    optimizer = cls(params, **options)
    if on_device and name != "asgd" and name != "rprop":
        optimizer.param_groups[0]["lr"] = torch.tensor(0.1, device="cuda")
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()  # which makes the states
    torch.cuda.synchronize()
    event = torch.cuda.current_stream().record_event()
    optimizer.step()
    assert not event.query()


def test_a_step_that_must_look_waits(emulator):
    """The rate is on the device, and the count of steps on the host."""
    params = leaves("cuda", torch.float32)
    optimizer = torch.optim.Adam(params, lr=torch.tensor(0.1, device="cuda"))
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    event = torch.cuda.current_stream().record_event()
    optimizer.step()
    assert event.query()
