"""Optimizers of complex parameters, whose parts are real parameters to them; beside PyTorch."""

import copy

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)

CASES = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD_nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "Adam": ("Adam", {"lr": 0.1}),
    "Adam_amsgrad": ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    "Adam_maximize": ("Adam", {"lr": 0.1, "maximize": True}),
    "AdamW": ("AdamW", {"lr": 0.1, "weight_decay": 0.1}),
    "AdamW_amsgrad": ("AdamW", {"lr": 0.1, "amsgrad": True}),
    "RMSprop": ("RMSprop", {"lr": 0.1}),
    "RMSprop_all": (
        "RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.9, "weight_decay": 0.1}
    ),
    "Adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
    "Adagrad_start": ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    "Adadelta": ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    "NAdam": ("NAdam", {"lr": 0.1}),
    "NAdam_decay": ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    "Rprop": ("Rprop", {"lr": 0.1}),
    "ASGD": ("ASGD", {"lr": 0.1, "t0": 2, "weight_decay": 0.1}),
    "Adamax": ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    "LBFGS": ("LBFGS", {"lr": 0.5, "max_iter": 5}),
    "LBFGS_search": ("LBFGS", {"max_iter": 5, "line_search_fn": "strong_wolfe"}),
}  # fmt: skip


def start(library, dtype="complex128"):
    random = np.random.default_rng(0)
    z = (random.standard_normal((3, 2)) + 1j * random.standard_normal((3, 2))).astype(dtype)
    x = random.standard_normal(4)
    return [library.from_numpy(each.copy()).requires_grad_() for each in (z, x)]


def loss(library, z, x):
    """Return a loss that pulls the parts in different directions."""
    target = library.from_numpy(np.array([[1 + 2j, 3], [-1j, 0.5], [2, 2 - 1j]]))
    off = z - target
    return (off * off * (1 + 1j)).real.square().sum() + off.abs().square().sum() + (x**4).sum()


def steps(library, optimizer, params, count):
    def closure():
        optimizer.zero_grad()
        value = loss(library, *params)
        value.backward()
        return value

    for _ in range(count):
        optimizer.step(closure)


@beside_pytorch
@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_pytorch(name):
    kind, options = CASES[name]
    found = []
    for library in (torch, pytorch):
        params = start(library)
        optimizer = getattr(library.optim, kind)(params, **options)
        steps(library, optimizer, params, 5)
        state = optimizer.state_dict()["state"].get(0, {})
        found.append((params, state))
    (ours, our_state), (theirs, their_state) = found
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            mine.detach().numpy(), other.detach().numpy(), rtol=1e-10, atol=1e-12
        )
    assert set(our_state) == set(their_state)
    for key, other in their_state.items():
        if isinstance(other, pytorch.Tensor) and other.is_complex():
            mine = our_state[key].numpy()
            np.testing.assert_allclose(mine, other.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_parts_are_real_parameters(name):
    """A step is the one of a real parameter that holds the parts."""
    kind, options = CASES[name]
    z, x = start(torch)
    steps(torch, getattr(torch.optim, kind)([z, x], **options), [z, x], 4)
    first, y = start(torch)
    pairs = torch.view_as_real(first.detach()).clone().requires_grad_()
    optimizer = getattr(torch.optim, kind)([pairs, y], **options)

    def closure():
        optimizer.zero_grad()
        value = loss(torch, torch.view_as_complex(pairs), y)
        value.backward()
        return value

    for _ in range(4):
        optimizer.step(closure)
    assert torch.allclose(torch.view_as_real(z.detach()), pairs.detach(), rtol=1e-10)
    assert torch.allclose(x.detach(), y.detach(), rtol=1e-10)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("LBFGS")])
def test_a_saved_state_goes_on_to_the_same_bits(name):
    kind, options = CASES[name]
    params = start(torch)
    optimizer = getattr(torch.optim, kind)(params, **options)
    steps(torch, optimizer, params, 2)
    copies = [param.detach().clone().requires_grad_() for param in params]
    again = getattr(torch.optim, kind)(copies, **options)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(torch, optimizer, params, 2)
    steps(torch, again, copies, 2)
    for mine, other in zip(params, copies, strict=True):
        assert torch.equal(mine, other)


def test_a_subclass_and_a_compiled_step_take_them():
    class Mine(torch.optim.Adam):
        pass

    z, x = start(torch)
    optimizer = Mine([z, x], lr=0.1)
    plain = start(torch)
    steps(torch, torch.optim.Adam(plain, lr=0.1), plain, 4)

    def step():
        optimizer.zero_grad()
        loss(torch, z, x).backward()
        optimizer.step()

    run = step if IS_TORCH else torch.compile(step)
    for _ in range(4):
        run()
    assert torch.allclose(z, plain[0])


def test_single_precision_and_no_elements():
    z = torch.tensor([3 + 4j, 0], requires_grad=True)
    nothing = torch.zeros(0, dtype=torch.complex64, requires_grad=True)
    optimizer = torch.optim.Adam([z, nothing], lr=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        (z.abs().square().sum() + nothing.abs().sum()).backward()
        optimizer.step()
    assert z.dtype is torch.complex64
    assert z.abs().max() < 0.1


def test_what_is_refused():
    z = torch.ones(2, 2, dtype=torch.complex64, requires_grad=True)
    for name in ("Adafactor", "Muon"):
        with pytest.raises(RuntimeError, match="complex"):
            optimizer = getattr(torch.optim, name)([z])
            z.abs().sum().backward()
            optimizer.step()
    with pytest.raises(RuntimeError, match="floating point"):
        optimizer = torch.optim.Adam([z], fused=True)
        z.abs().sum().backward()
        optimizer.step()
