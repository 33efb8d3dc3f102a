"""torch.amp.GradScaler: against PyTorch's step by step, and its rules."""

import copy
import pickle

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
OptState = torch.amp.grad_scaler.OptState
INFINITY = float("inf")


def parameter(*values):
    return torch.tensor(values or (1.0,), requires_grad=True)


def scaler_of(**options):
    return torch.amp.GradScaler("cpu", **options)


# ---- beside PyTorch


def train(library, optimizer, steps=200):
    """Return scale, growth tracker and parameters after each step; some gradients overflow."""
    rng = np.random.default_rng(3)
    weights = [library.tensor(rng.standard_normal(size).tolist()) for size in ((4, 3), (4,))]
    weights = [each.requires_grad_() for each in weights]
    optimizers = [
        getattr(library.optim, optimizer)([each], lr=0.01, **options)
        for each, options in zip(weights, ({}, {"weight_decay": 0.1}), strict=True)
    ]
    scaler = library.amp.GradScaler(
        "cpu", init_scale=2.0**10, growth_factor=1.7, backoff_factor=0.3, growth_interval=7
    )
    for step in range(steps):
        x, y = (library.tensor(rng.standard_normal(size).tolist()) for size in ((5, 3), (5, 4)))
        for each in optimizers:
            each.zero_grad()
        loss = (library.nn.functional.linear(x, *weights) - y).square().mean()
        scaler.scale(loss).backward()
        if rng.random() < 0.15:
            chosen = weights[int(rng.integers(2))].grad
            with library.no_grad():
                chosen[0] = [INFINITY, -INFINITY, float("nan")][int(rng.integers(3))]
        if step % 3 == 0:
            scaler.unscale_(optimizers[0])
            library.nn.utils.clip_grad_norm_(weights[:1], 1.0)
        for each in optimizers:
            scaler.step(each)
        scaler.update(*([64.0] if step == 100 else []))
        yield (
            scaler.get_scale(),
            scaler._get_growth_tracker(),
            [w.detach().clone().numpy() for w in weights],
        )


@pytest.mark.skipif(pytorch is None or IS_TORCH, reason=REASON or "PyTorch is under test")
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_200_steps_beside_pytorch(optimizer):
    skipped, last = 0, None
    pairs = zip(train(torch, optimizer), train(pytorch, optimizer), strict=True)
    for step, (ours, theirs) in enumerate(pairs):
        assert ours[:2] == theirs[:2], f"scale and growth tracker after step {step}"
        for mine, other in zip(ours[2], theirs[2], strict=True):
            np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-6)
        skipped += last is not None and any(map(np.array_equal, last, ours[2]))
        last = ours[2]
    assert skipped > 5, "no gradient overflowed"


# ---- scale


def test_scale_takes_tensors_in_lists_tuples_and_iterables():
    scaler = scaler_of(init_scale=8.0)
    one = torch.tensor([1.0])
    assert scaler.scale(one).item() == 8
    assert [each.item() for each in scaler.scale([one, one])] == [8, 8]
    first, (second,) = scaler.scale((one, [one]))
    assert first.item() == second.item() == 8
    assert [each.item() for each in scaler.scale(each for each in (one, one))] == [8, 8]
    assert isinstance(scaler.scale((one,)), tuple)
    with pytest.raises(ValueError, match="must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_a_scaler_that_is_not_enabled_does_nothing():
    scaler = scaler_of(enabled=False)
    x = parameter(2.0)
    optimizer = torch.optim.SGD([x], lr=1.0)
    assert scaler.scale(x) is x and scaler.get_scale() == 1.0
    x.grad = torch.tensor([INFINITY])
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert x.item() == -INFINITY
    assert not scaler.is_enabled() and scaler.state_dict() == {}
    scaler.load_state_dict({})
    assert pickle.loads(pickle.dumps(scaler)).is_enabled() is False


# ---- steps


def scaled(scaler, x, factor=1.0):
    optimizer = torch.optim.SGD([x], lr=1.0)
    scaler.scale((x * factor).sum()).backward()
    return optimizer


@pytest.mark.parametrize("found", [INFINITY, -INFINITY, float("nan")])
def test_a_step_with_infinities_is_left_out(found):
    scaler, x = scaler_of(init_scale=4.0, growth_interval=2), parameter(1.0, 2.0)
    optimizer = scaled(scaler, x)
    x.grad[1] = found
    assert scaler.step(optimizer) is None
    scaler.update()
    assert x.tolist() == [1.0, 2.0] and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    for expected in (2.0, 4.0):
        scaler.scale(x.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
        optimizer.zero_grad()


def test_a_scale_does_not_grow_to_infinity():
    scaler, x = scaler_of(init_scale=2.0**127, growth_interval=1), parameter(0.0)
    optimizer = scaled(scaler, x, 1e-30)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_unscale_once_before_each_step():
    scaler, x = scaler_of(), parameter()
    with pytest.raises(AssertionError, match="Attempted unscale_ but _scale is None"):
        scaler.unscale_(torch.optim.SGD([x], lr=1.0))
    optimizer = scaled(scaler, x)
    scaler.unscale_(optimizer)
    assert x.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert x.tolist() == [0.0]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()


def test_a_step_without_gradients_is_refused():
    scaler, x = scaler_of(), parameter()
    scaler.scale(torch.ones(1))
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(torch.optim.SGD([x], lr=1.0))


def test_closures_are_refused():
    scaler, x = scaler_of(), parameter()
    optimizer = scaled(scaler, x)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)


def test_float16_gradients_are_refused():
    scaler = scaler_of()
    x = torch.ones(1, dtype=torch.float16, requires_grad=True)
    scaler.scale(torch.ones(1))
    x.grad = torch.ones(1, dtype=torch.float16)
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(torch.optim.SGD([x], lr=1.0))


def test_what_an_optimizer_returns_is_returned():
    class Returning(torch.optim.SGD):
        def step(self, word, again=""):
            return word + again

    scaler, x = scaler_of(), parameter()
    optimizer = Returning([x], lr=1.0)
    scaler.scale(x.sum()).backward()
    assert scaler.step(optimizer, "step", again=" done") == "step done"


def test_gradients_of_several_dtypes_and_layouts():
    scaler = scaler_of(init_scale=2.0)
    layouts = [torch.ones(3, 2).t(), torch.ones(4, 4)[::2, ::2], torch.ones(0), torch.ones(())]
    params = [torch.zeros(each.shape, requires_grad=True) for each in layouts]
    for param, grad in zip(params, layouts, strict=True):
        param.grad = grad
    for dtype in (torch.float64, torch.bfloat16):
        params.append(torch.zeros(2, dtype=dtype, requires_grad=True))
        params[-1].grad = torch.ones(2, dtype=dtype)
    scaler.scale(torch.ones(1))
    optimizer = torch.optim.SGD(params, lr=1.0)
    scaler.unscale_(optimizer)
    for param in params:
        assert (param.grad == 0.5).all(), param.grad
    scaler.step(optimizer)
    scaler.update()
    assert (params[1] == -0.5).all()


def test_what_lies_between_the_elements_of_a_gradient_is_not_seen():
    scaler, x = scaler_of(), torch.zeros(2, requires_grad=True)
    whole = torch.tensor([1.0, INFINITY, 1.0, INFINITY])
    x.grad = whole[::2]
    scaler.scale(torch.ones(1))
    optimizer = torch.optim.SGD([x], lr=1.0)
    scaler.step(optimizer)
    scaler.update()
    assert (x != 0).all() and whole[1] == INFINITY and scaler.get_scale() == 2.0**16


# ---- optimizers that scale by themselves


def scaling_optimizer(**methods):
    return type("Scaling", (torch.optim.SGD,), {"_step_supports_amp_scaling": True, **methods})


def test_an_optimizer_that_is_given_the_scale():
    seen = []

    def step(self):
        seen.append((self.grad_scale, self.found_inf.item()))

    scaler, x = scaler_of(init_scale=4.0), parameter()
    optimizer = scaling_optimizer(step=step)([x], lr=1.0)
    scaler.scale(x.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert seen[0][0].item() == 4 and seen[0][1] == 0 and x.grad.item() == 4
    assert not hasattr(optimizer, "grad_scale") and not hasattr(optimizer, "found_inf")
    optimizer.zero_grad()
    scaler.scale(x.sum() * INFINITY).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert seen[1] == (None, 1) and scaler.get_scale() == 2


def test_an_optimizer_that_is_given_the_scaler():
    seen = []

    def step(self, grad_scaler=None):
        seen.append(grad_scaler)
        grad_scaler.unscale_(self)
        return grad_scaler._found_inf_per_device(self)

    scaler, x = scaler_of(init_scale=4.0), parameter()
    optimizer = scaling_optimizer(step=step)([x], lr=1.0)
    scaler.scale(x.sum()).backward()
    with pytest.warns(FutureWarning, match="going to stop passing itself"):
        found = scaler.step(optimizer)
    assert seen == [scaler] and x.grad.item() == 1
    assert [each.item() for each in found.values()] == [0]
    scaler.update()


# ---- settings and saving


def test_settings():
    scaler = scaler_of()
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    found = scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()
    assert found == (3.0, 0.25, 5) and scaler.get_scale() == 2.0**16
    with pytest.raises(AssertionError, match="growth factor must be > 1"):
        scaler_of(growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor must be < 1"):
        scaler_of(backoff_factor=1.0)


def test_a_new_scale():
    scaler, x = scaler_of(), parameter()
    with pytest.raises(AssertionError, match="Attempted update but _scale is None"):
        scaler.update(2.0)
    scaler.scale(x)
    scaler.update(32.0)
    assert scaler.get_scale() == 32
    new = torch.tensor(8.0)
    scaler.update(new)
    new.fill_(3.0)
    assert scaler.get_scale() == 8
    for wrong in (torch.ones(2), torch.ones((), requires_grad=True), torch.ones((), device="meta")):
        with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element"):
            scaler.update(wrong)


def test_saving_and_loading():
    scaler, x = scaler_of(init_scale=16.0, growth_interval=3), parameter()
    for _ in range(2):
        optimizer = scaled(scaler, x)
        scaler.step(optimizer)
        if scaler._per_optimizer_states:
            with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
                pickle.dumps(scaler)
        scaler.update()
        x.grad = None
    state = scaler.state_dict()
    assert state == {
        "scale": 16.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 3,
        "_growth_tracker": 2,
    }
    other = scaler_of()
    other.scale(x)
    other.load_state_dict(state)
    for each in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler), other):
        assert each.state_dict() == state
        optimizer = scaled(each, x)
        each.step(optimizer)
        each.update()
        x.grad = None
        assert each.get_scale() == 32.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_without_cuda_it_is_not_enabled():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        assert not torch.amp.GradScaler().is_enabled()
    with pytest.warns(UserWarning, match="CUDA is not available"):
        torch.autocast("cuda")


def test_stages():
    assert [each.name for each in OptState] == ["READY", "UNSCALED", "STEPPED"]


# ---- the two ops


def unscale(tensors, found, factor):
    torch._amp_foreach_non_finite_check_and_unscale_(tensors, found, torch.tensor(factor))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("numel", [1, 31, 5000, 100_000])
def test_unscale(dtype, numel):
    for place in (None, 0, numel - 1, numel // 2):
        tensors = [(torch.arange(numel) % 7).to(dtype), torch.ones(3, dtype=dtype)]
        if place is not None:
            tensors[0][place] = INFINITY
        wanted = [each * 0.25 for each in tensors]
        found = torch.zeros(())
        unscale(tensors, found, 0.25)
        assert all(map(torch.equal, tensors, wanted))
        assert found.item() == (place is not None)


def test_what_was_found_stays():
    found = torch.ones(())
    unscale([torch.ones(2)], found, 1.0)
    unscale([], found, 1.0)
    assert found.item() == 1


def test_a_tensor_is_unscaled_as_often_as_it_is_given():
    x = torch.ones(4)
    unscale([x, x[:2]], torch.zeros(()), 0.5)
    assert x.tolist() == [0.25, 0.25, 0.5, 0.5]


def test_bad_operands():
    x, found, factor = torch.ones(2), torch.zeros(()), torch.ones(())
    run = torch._amp_foreach_non_finite_check_and_unscale_
    for tensors, *others, error in (
        ([x], torch.zeros(2), factor, RuntimeError),
        ([x], found, torch.ones(2), RuntimeError),
        ([x], found.double(), factor, RuntimeError),
        ([x], found, factor.double(), RuntimeError),
        ([x.long()], found, factor, NotImplementedError),
    ):
        with pytest.raises(error):
            run(tensors, *others)
    update = torch._amp_update_scale_
    tracker = torch.zeros((), dtype=torch.int32)
    with pytest.raises(RuntimeError):
        update(factor, tracker.float(), found, 2.0, 0.5, 1)
    with pytest.raises(RuntimeError):
        update(torch.ones(2), tracker, found, 2.0, 0.5, 1)
    assert update(factor, tracker, found, 2.0, 0.5, 1) is factor and factor.item() == 2
