"""Checkpointing: the same values and gradients as without, and less kept."""

import contextlib
import gc
import weakref

import pytest

from .values import constant, leaf, near

both_ways = pytest.mark.parametrize("reentrant", [False, True], ids=["hooks", "reentrant"])


@pytest.fixture
def checkpointing(torch):
    """Give the library's torch.utils.checkpoint."""
    import importlib

    return importlib.import_module(f"{torch.__name__}.utils.checkpoint")


@pytest.fixture
def ours(torch):
    """Give tapegrad, for what it does better."""
    if torch.__name__ == "torch":
        pytest.skip("PyTorch does this differently")
    return torch


def gradients(torch, function, x):
    """Return the value of a function of one tensor, and its gradient."""
    x = x.detach().requires_grad_()
    y = function(x)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


# ---- the same as without


@both_ways
def test_values_and_gradients(torch, checkpointing, reentrant):
    weight = leaf(torch, [[1.0, -2.0], [0.5, 3.0]])

    def function(x):
        return torch.tanh(torch.exp(x * 0.1) @ weight) * x

    x = constant(torch, [[0.5, -1.0], [2.0, 0.25]])
    expected = gradients(torch, function, x)
    expected_weight = weight.grad.tolist()
    weight.grad = None
    counted = Counted(function)
    found = gradients(
        torch, lambda x: checkpointing.checkpoint(counted, x, use_reentrant=reentrant), x
    )
    assert found == expected
    assert weight.grad.tolist() == expected_weight
    assert counted.calls == 2


@both_ways
def test_several_inputs_and_outputs(torch, checkpointing, reentrant):
    def function(x, scale, y):
        return x * y * scale, (x + y).sin()

    def run(call):
        x, y = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0])
        a, b = call(x, 3, y)
        (a * b).sum().backward()
        return a.tolist(), b.tolist(), x.grad.tolist(), y.grad.tolist()

    found = run(lambda *args: checkpointing.checkpoint(function, *args, use_reentrant=reentrant))
    assert found == run(function)


def test_keywords_and_containers(torch, checkpointing):
    def function(inputs, *, scale, power=1):
        return {"out": [inputs["x"].exp() * scale**power]}

    x, scale = leaf(torch, [1.0, 2.0]), leaf(torch, 3.0)
    out = checkpointing.checkpoint(function, {"x": x}, scale=scale, power=2, use_reentrant=False)
    out["out"][0].sum().backward()
    assert torch.allclose(x.grad, x.detach().exp() * 9)
    assert torch.allclose(scale.grad, (x.detach().exp() * 6).sum())


@both_ways
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers(torch, checkpointing, reentrant, preserve):
    masks = []

    def function(x):
        masks.append((torch.rand(50) < 0.5).to(x.dtype))
        return (x * masks[-1]).exp()

    x = torch.zeros(50, requires_grad=True)
    y = checkpointing.checkpoint(function, x, use_reentrant=reentrant, preserve_rng_state=preserve)
    torch.manual_seed(99)
    before = torch.get_rng_state().tolist()
    y.sum().backward()
    assert (masks[0].tolist() == masks[1].tolist()) == preserve
    assert (torch.get_rng_state().tolist() == before) == preserve
    if preserve:
        assert x.grad.tolist() == masks[0].tolist()


def test_gradients_by_grad_and_to_chosen_inputs(torch, checkpointing):
    x, w = leaf(torch, 2.0), leaf(torch, 3.0)

    def run():
        return checkpointing.checkpoint(lambda x: (x * w).exp() * x, x, use_reentrant=False)

    expected = torch.autograd.grad((x * w).exp() * x, x)[0]
    assert torch.allclose(torch.autograd.grad(run(), x)[0], expected)
    run().backward(inputs=[x])
    assert torch.allclose(x.grad, expected)
    assert w.grad is None


def test_reentry_refuses_chosen_inputs(torch, checkpointing):
    x = leaf(torch, 2.0)
    y = checkpointing.checkpoint(torch.exp, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\) or passing"):
        torch.autograd.grad(y, x)
    y = checkpointing.checkpoint(torch.exp, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\) or passing"):
        y.backward(inputs=[x])


def test_second_derivatives(torch, checkpointing):
    def function(x):
        return (x.sin() * x).exp()

    def second(call):
        x = leaf(torch, 0.7)
        (first,) = torch.autograd.grad(call(x), x, create_graph=True)
        (answer,) = torch.autograd.grad(first, x)
        return answer.item()

    found = second(lambda x: checkpointing.checkpoint(function, x, use_reentrant=False))
    assert found == pytest.approx(second(function), rel=1e-6)


def test_a_second_backward_computes_again(torch, checkpointing):
    counted = Counted(lambda x: x.exp().sin())
    x = leaf(torch, 0.5)
    y = checkpointing.checkpoint(counted, x, use_reentrant=False)
    y.backward(retain_graph=True)
    once = x.grad.item()
    y.backward()
    assert counted.calls == 3
    assert x.grad.item() == pytest.approx(2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")  # of PyTorch
@pytest.mark.parametrize("inner", [False, True], ids=["hooks", "reentrant"])
@both_ways
def test_nested(torch, checkpointing, reentrant, inner):
    counted = Counted(lambda x: x.exp().sin())

    def outer(x):
        y = checkpointing.checkpoint(counted, x * 2, use_reentrant=inner)
        return checkpointing.checkpoint(counted, y * 3, use_reentrant=inner).cos()

    def plain(x):
        return ((x * 2).exp().sin() * 3).exp().sin().cos()

    x = torch.tensor([0.1, 0.2])
    found = gradients(
        torch, lambda x: checkpointing.checkpoint(outer, x, use_reentrant=reentrant), x
    )
    expected = gradients(torch, plain, x)
    assert found[0] == pytest.approx(expected[0])
    assert found[1] == pytest.approx(expected[1], rel=1e-5)
    assert counted.calls >= 5


def test_a_sweep_inside_the_function(torch, checkpointing):
    def function(x):
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return slope.exp()

    x = leaf(torch, [0.1, 0.5])
    checkpointing.checkpoint(function, x, use_reentrant=False).sum().backward()
    y = leaf(torch, [0.1, 0.5])
    function(y).sum().backward()
    assert torch.allclose(x.grad, y.grad)


@both_ways
def test_without_recording(torch, checkpointing, reentrant):
    counted = Counted(torch.exp)
    with torch.no_grad():
        y = checkpointing.checkpoint(
            counted, torch.ones(2, requires_grad=True), use_reentrant=reentrant
        )
    assert not y.requires_grad
    assert counted.calls == 1


def test_inputs_that_need_no_gradient(torch, checkpointing):
    weight = leaf(torch, 2.0)

    def function(x):
        return (x * weight).exp()

    checkpointing.checkpoint(function, torch.tensor(1.0), use_reentrant=False).backward()
    assert weight.grad is not None
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = checkpointing.checkpoint(function, torch.tensor(1.0), use_reentrant=True)
    assert not y.requires_grad


# ---- what is kept


def test_values_are_not_kept(torch, checkpointing):
    kept = []

    def function(x):
        y = x.exp()
        kept.append(weakref.ref(y))
        z = y.sin()
        kept.append(weakref.ref(z))
        return z.cos()

    x = leaf(torch, [1.0, 2.0])
    y = checkpointing.checkpoint(function, x, use_reentrant=False)
    gc.collect()
    assert [each() for each in kept] == [None, None]
    y.sum().backward()
    gc.collect()
    assert [each() for each in kept] == [None] * 4


class Keeper:
    """A function that keeps what it computes."""

    def __init__(self):
        self.kept = []

    def inside(self, x):
        self.kept.append(x.exp())
        return self.kept[-1].sin()

    def fails(self, x):
        self.kept = {"deep": [x.exp()]}
        raise KeyError


@both_ways
@pytest.mark.parametrize("where", ["inside", "after", "argument", "closure", "failed"])
@pytest.mark.parametrize("backward", [False, True])
def test_a_function_that_keeps_its_results_can_be_collected(
    ours, checkpointing, where, backward, reentrant
):
    """They lead to the function, and it leads to them: only the collector can free such a ring."""

    def run():
        keeper, x = Keeper(), leaf(ours, [1.0, 2.0])
        call = lambda *args: checkpointing.checkpoint(*args, use_reentrant=reentrant)  # noqa: E731
        if where == "failed":
            with contextlib.suppress(KeyError):
                call(keeper.fails, x)
            return weakref.ref(keeper)
        if where == "argument":
            y = call(lambda x, keeper: keeper.inside(x), x, keeper)
        elif where == "closure":
            y = call(lambda x: keeper.inside(x), x)
        else:
            y = call(keeper.inside, x)
        if where == "after":
            keeper.kept = [y]
        if backward:
            y.sum().backward()
        return weakref.ref(keeper)

    gc.collect()
    before = ours._C.live_counts()
    keeper = run()
    gc.collect()
    assert keeper() is None
    assert ours._C.live_counts() == before


def test_a_module_that_remembers_its_results_can_be_collected(ours, checkpointing):
    class Remembers(ours.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = ours.nn.Linear(2, 2)
            self.part.register_forward_hook(self.note)

        def note(self, module, args, output):
            module.inside = {"last": [output]}

        def forward(self, x):
            self.part(x).tanh()
            self.outside = checkpointing.checkpoint(self.part, x, use_reentrant=False)
            return self.outside.sum()

    def run():
        module = Remembers()
        module(ours.ones(1, 2))
        return weakref.ref(module)

    gc.collect()
    before = ours._C.live_counts()
    module = run()
    gc.collect()
    assert module() is None
    assert ours._C.live_counts() == before


def test_early_stop(torch, checkpointing):
    ends = []

    def function(x):
        y = x.exp()
        ends.append("end")
        return y

    def run(**options):
        ends.clear()
        x = leaf(torch, 1.0)
        checkpointing.checkpoint(function, x, use_reentrant=False, **options).backward()
        return len(ends)

    assert run() == 1
    assert run(early_stop=False) == 2
    with checkpointing.set_checkpoint_early_stop(False):
        assert run() == 2
    assert run() == 1


def test_inputs_written_to_are_noticed(torch, checkpointing):
    x = leaf(torch, [1.0, 2.0])
    y = x * 2
    z = checkpointing.checkpoint(torch.exp, y, use_reentrant=False)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        z.sum().backward()


def test_contexts(torch, checkpointing):
    seen = []

    @contextlib.contextmanager
    def note(name):
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    def context_fn():
        return note("forward"), note("again")

    x = leaf(torch, 1.0)
    y = checkpointing.checkpoint(
        torch.exp, x, use_reentrant=False, context_fn=context_fn, early_stop=False
    )
    assert seen == ["forward begins", "forward ends"]
    y.backward()
    assert seen[2:] == ["again begins", "again ends"]


# ---- functions that do not do the same again


def changing(first, then):
    """Return a function that is another one from the second call on."""
    functions = iter([first])
    return lambda x: next(functions, then)(x)


@pytest.mark.parametrize(
    ("first", "then", "text"),
    [
        (lambda x: x.exp().sin(), lambda x: x.exp(), "A different number of tensors was saved"),
        (lambda x: x.exp(), lambda x: x.repeat(2).exp(), "have different metadata"),
        (lambda x: x.exp(), lambda x: x.float().exp(), "have different metadata"),
    ],
    ids=["fewer", "shape", "dtype"],
)
def test_a_function_that_changes(torch, checkpointing, first, then, text):
    x = leaf(torch, [1.0, 2.0])
    y = checkpointing.checkpoint(changing(first, then), x, use_reentrant=False)
    with pytest.raises(checkpointing.CheckpointError, match=text):
        y.sum().backward()


def test_a_function_that_saves_more(torch, checkpointing):
    def run(early_stop):
        function = changing(lambda x: x.exp(), lambda x: x.exp().sin())
        x = leaf(torch, [1.0, 2.0])
        y = checkpointing.checkpoint(function, x, use_reentrant=False, early_stop=early_stop)
        y.sum().backward()
        return x.grad

    assert near(run(True), constant(torch, [1.0, 2.0]).exp())
    with pytest.raises(checkpointing.CheckpointError, match="trying to save more tensors"):
        run(False)


def test_no_check(torch, checkpointing):
    function = changing(lambda x: x.exp(), lambda x: x.float().exp())
    x = leaf(torch, [1.0, 2.0])
    y = checkpointing.checkpoint(function, x, use_reentrant=False, determinism_check="none")
    y.sum().backward()
    assert near(x.grad, x.exp(), tolerance=1e-6)
    assert not near(x.grad, x.exp())
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpointing.checkpoint(function, x, use_reentrant=False, determinism_check="all")


def test_errors_of_the_function_come_through(torch, checkpointing):
    calls = []

    def function(x):
        calls.append(x)
        if len(calls) > 1:
            raise KeyError("the second time")
        return x.exp()

    y = checkpointing.checkpoint(function, leaf(torch, 1.0), use_reentrant=False)
    with pytest.raises(KeyError, match="the second time"):
        y.backward()
    with pytest.raises(KeyError, match="the second time"):
        checkpointing.checkpoint(function, leaf(torch, 1.0), use_reentrant=False)


# ---- arguments


def test_bad_arguments(torch, checkpointing):
    x = leaf(torch, 1.0)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpointing.checkpoint(torch.exp, x, use_reentrant=True, scale=2)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpointing.checkpoint(torch.exp, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpointing.checkpoint_sequential([torch.exp], 1, x, use_reentrant=False, scale=2)


def test_use_reentrant_should_be_given(torch, checkpointing):
    x = leaf(torch, 1.0)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        y = checkpointing.checkpoint(torch.exp, x)
    y.backward()
    assert x.grad.item() == pytest.approx(2.7182817)
    with pytest.warns(UserWarning, match=r"use_reentrant\s+parameter should be passed explicitly"):
        checkpointing.checkpoint_sequential([torch.exp], 1, x)


@both_ways
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(torch, checkpointing, reentrant, segments):
    layers = [Counted(f) for f in (torch.sin, torch.exp, torch.cos, torch.tanh, torch.sigmoid)]

    def plain(x):
        for layer in layers:
            x = layer(x)
        return x

    x = torch.tensor([0.3, -0.4])
    expected = gradients(torch, plain, x)
    for layer in layers:
        layer.calls = 0
    found = gradients(
        torch,
        lambda x: checkpointing.checkpoint_sequential(layers, segments, x, use_reentrant=reentrant),
        x,
    )
    assert found == expected
    again = 5 // segments * (segments - 1)
    assert [layer.calls for layer in layers] == [2] * again + [1] * (5 - again)


def test_sequential_segments(ours, checkpointing):
    for segments in (0, -1, 3):
        with pytest.raises(ValueError, match=f"expected 1 to 2 segments .* got {segments}"):
            checkpointing.checkpoint_sequential(
                [ours.exp, ours.sin], segments, leaf(ours, 1.0), use_reentrant=False
            )


def test_helpers(torch, checkpointing):
    x = leaf(torch, [1.0]) * 2
    found = checkpointing.detach_variable((x, x.detach(), "text"))
    assert [each.requires_grad for each in found[:2]] == [True, False]
    assert found[0].is_leaf and found[2] == "text"
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        checkpointing.detach_variable([x])
    checkpointing.check_backward_validity([1, x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpointing.check_backward_validity([1, x.detach()])


@pytest.mark.parametrize("grouped", [False, True])
def test_groups_of_backwards(torch, checkpointing, grouped):
    """Two sweeps through different parts of one call compute it again once, in a group."""
    counted = Counted(lambda x, y: (x.sin().exp(), y.sin().exp()))
    x, y = leaf(torch, [1.0, 2.0]), leaf(torch, [0.5, 3.0])
    a, b = checkpointing.checkpoint(counted, x, y, use_reentrant=False)
    group = checkpointing.GraphExecGroup() if grouped else contextlib.nullcontext()
    with group:
        a.sum().backward()
        b.sum().backward()
    assert counted.calls == (2 if grouped else 3)
    assert near(x.grad, x.cos() * x.sin().exp())
    assert near(y.grad, y.cos() * y.sin().exp())
    if grouped:
        with (
            pytest.raises(RuntimeError, match="GraphExecGroup contexts cannot be nested"),
            checkpointing.GraphExecGroup(),
            checkpointing.GraphExecGroup(),
        ):
            pass


# ---- what the function sees again


@both_ways
def test_random_numbers_of_an_own_generator(ours, checkpointing, reentrant):
    """PyTorch brings back the default generator alone."""
    draws = []
    own, passed = (ours.Generator(ours.get_default_device()).manual_seed(seed) for seed in (4, 5))

    def function(x, generator):
        draws.append(
            ours.rand(3, generator=own).tolist() + ours.rand(3, generator=generator).tolist()
        )
        return (x * ours.rand(3, generator=own)).exp()

    x = leaf(ours, [1.0, 2.0, 3.0])
    y = checkpointing.checkpoint(function, x, passed, use_reentrant=reentrant)
    after = own.get_state().tolist(), passed.get_state().tolist()
    y.sum().backward()
    assert len(draws) == 2 and draws[0] == draws[1]
    assert (own.get_state().tolist(), passed.get_state().tolist()) == after


@both_ways
@pytest.mark.parametrize("how", ["module", "method", "closure", "partial", "attribute"])
def test_modes_of_modules(ours, checkpointing, reentrant, how):
    """A model that was switched to evaluation before backward is in training mode again there."""
    import functools

    model = ours.nn.Sequential(ours.nn.Dropout(0.5), ours.nn.BatchNorm1d(3))

    class Holder:
        def __init__(self):
            self.model = model

        def run(self, x):
            return self.model(x)

    functions = {
        "module": model,
        "method": model.forward,
        "closure": lambda x: model(x),
        "partial": functools.partial(lambda model, x: model(x), model),
        "attribute": Holder().run,
    }
    x = leaf(ours, [[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]).float()
    ours.manual_seed(2)
    expected = ours.autograd.grad(model(x).square().sum(), x)[0].tolist()
    statistics = [each.tolist() for each in model[1].buffers()]
    model[1].reset_running_stats()
    ours.manual_seed(2)
    x = x.detach().requires_grad_()
    y = checkpointing.checkpoint(functions[how], x, use_reentrant=reentrant)
    model.eval()
    y.square().sum().backward()
    assert x.grad.tolist() == expected
    assert not any(module.training for module in model.modules())
    assert [each.tolist() for each in model[1].buffers()] == statistics, "a call counts once"


@both_ways
def test_default_dtype(ours, checkpointing, reentrant):
    def function(x):
        return (x * ours.full((2,), 2.0)).exp()

    x = leaf(ours, [1.0, 2.0])
    ours.set_default_dtype(ours.float64)
    try:
        y = checkpointing.checkpoint(function, x, use_reentrant=reentrant)
    finally:
        ours.set_default_dtype(ours.float32)
    y.sum().backward()
    assert ours.get_default_dtype() == ours.float32
    assert near(x.grad, 2 * (2 * x).exp())


def test_backward_in_inference_mode(ours, checkpointing):
    """PyTorch computes again without recording there, and fails."""
    x = leaf(ours, [1.0, 2.0])
    y = checkpointing.checkpoint(ours.exp, x, use_reentrant=False).sum()
    with ours.inference_mode():
        y.backward()
    assert near(x.grad, x.exp())


def test_grad_mode_inside(torch, checkpointing):
    def function(x):
        with torch.no_grad():
            held = x.exp()
        with torch.set_grad_enabled(True):
            return (x * held).sin()

    x = leaf(torch, [0.5, 1.0])
    with torch.no_grad():
        held = x.exp()
    expected = torch.autograd.grad((x * held).sin().sum(), x)[0]
    y = checkpointing.checkpoint(function, x, use_reentrant=False).sum()
    with torch.no_grad():
        y.backward()
    assert x.grad.tolist() == expected.tolist()


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.filterwarnings("ignore:Error detected in")  # of PyTorch
def test_anomaly_mode(torch, checkpointing):
    x = leaf(torch, [0.0, 1.0])
    y = checkpointing.checkpoint(lambda x: (x * 0).sqrt() * 0, x, use_reentrant=False)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan values"):
        y.sum().backward()


def test_forward_mode(torch, checkpointing):
    def function(x):
        return (x.sin() * x).exp()

    x, tangent = constant(torch, [0.3, 0.4]), constant(torch, [1.0, -2.0])

    def wrapped(x):
        return checkpointing.checkpoint(function, x, use_reentrant=False)

    found, expected = (torch.func.jvp(f, (x,), (tangent,)) for f in (wrapped, function))
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        primal = x.clone().requires_grad_()
        y = forward_ad.unpack_dual(wrapped(forward_ad.make_dual(primal, tangent)))
        (slope,) = torch.autograd.grad(y.primal.sum(), primal)
        assert y.tangent.tolist() == expected[1].tolist()
    (expected_slope,) = torch.autograd.grad(function(primal).sum(), primal)
    assert slope.tolist() == expected_slope.tolist()


@pytest.mark.parametrize("transform", ["grad", "jacrev", "hessian", "per sample"])
def test_transforms(ours, checkpointing, transform):
    """PyTorch refuses saved_tensors_hooks under its transforms."""
    func = ours.func

    def function(x):
        return (x.sin() * x).exp()

    def wrapped(x):
        return checkpointing.checkpoint(function, x, use_reentrant=False)

    def apply(f):
        if transform == "jacrev":
            return func.jacrev(f)
        total = lambda x: f(x).sum()  # noqa: E731
        if transform == "per sample":
            return func.vmap(func.grad(total))
        return getattr(func, transform)(total)

    x = constant(ours, [[0.3, 0.4], [1.0, -0.5]])
    assert near(apply(wrapped)(x), apply(function)(x))


def test_handlers_of_the_function_do_not_see_the_early_stop(torch, checkpointing):
    handled = []

    def function(x):
        try:
            return x.sin().exp()
        except Exception as error:
            handled.append(error)
            raise

    x = leaf(torch, [1.0, 2.0])
    checkpointing.checkpoint(function, x, use_reentrant=False).sum().backward()
    if torch.__name__ == "tapegrad":
        assert handled == []
    assert near(x.grad, x.cos() * x.sin().exp())


# ---- errors that name op and line


def error_of(checkpointing, torch, first, then, **options):
    y = checkpointing.checkpoint(
        changing(first, then), leaf(torch, [1.0, 2.0]), use_reentrant=False, **options
    )
    with pytest.raises(checkpointing.CheckpointError) as caught:
        y.sum().backward()
    return str(caught.value)


def line_of(function, offset=1):
    return f"{__file__}:{function.__code__.co_firstlineno + offset} in {function.__name__}"


def test_other_metadata_names_op_and_line(ours, checkpointing):
    def first(x):
        return x.exp() * 2

    def then(x):
        return x.float().exp() * 2

    text = error_of(checkpointing, ours, first, then)
    place = ours.ones(()).device
    assert "have different metadata than during the forward pass" in text
    assert f"saved (2,) torch.float64 on {place} by exp at {line_of(first)}" in text
    assert f"recomputed (2,) torch.float32 on {place} by exp at {line_of(then)}" in text


def test_another_number_names_op_and_line(ours, checkpointing):
    def first(x):
        y = x.exp()
        return y.sin().cos()

    def then(x):
        y = x.exp()
        return y.cos()

    text = error_of(checkpointing, ours, first, then)
    place = ours.ones(()).device
    assert "3 and 2. The first that differs is number 0" in text, "other lines"
    assert f"saved (2,) torch.float64 on {place} by exp at {line_of(first, 1)}" in text
    assert f"recomputed (2,) torch.float64 on {place} by exp at {line_of(then, 1)}" in text
    seen = []

    def shorter(x):
        x = x.exp()
        seen.append(len(seen))
        return x if len(seen) > 1 else x * x

    text = error_of(checkpointing, ours, shorter, shorter)
    assert f"by mul at {line_of(shorter, 3)}" in text
    assert "recomputed nothing" in text


def test_ops_of_layers_are_named_with_the_line_that_calls_the_layer(ours, checkpointing):
    layer = ours.nn.Linear(2, 2).double()
    norm = ours.nn.LayerNorm(2).double()

    def first(x):
        return norm(layer(x)).sum(0)

    def then(x):
        return norm(layer(x.repeat(2, 1))).sum(0)

    text = error_of(checkpointing, ours, first, then)
    assert f"by mm at {line_of(first)}" in text
    place = layer.weight.device
    wanted = f"recomputed (2, 2) torch.float64 on {place} by native_layer_norm at {line_of(then)}"
    assert wanted in text


def test_ops_of_custom_functions_and_operators_are_named(ours, checkpointing):
    class Double(ours.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 + 0 * ctx.saved_tensors[0]

    def first(x):
        return Double.apply(x) @ x

    def then(x):
        return Double.apply(x.repeat(2)) @ x.repeat(2)

    text = error_of(checkpointing, ours, first, then)
    assert f"by double at {line_of(first)}" in text
    assert f"by dot at {line_of(first)}" in text


def test_debug_shows_all_lines(ours, checkpointing):
    def first(x):
        return x.exp().sin()

    def then(x):
        return x.exp()

    for inside in (True, False):
        with checkpointing.set_checkpoint_debug_enabled(True if inside else None):
            text = error_of(checkpointing, ours, first, then, debug=not inside)
        forward, again = text.split("Saved in forward:")[1].split("Saved in recomputation:")
        assert forward.count("in first") == 2
        assert again.count("in then") == 1
        assert f"by sin at {line_of(first)}" in forward


# ---- transforms inside the function


def transformed(torch, name):
    """Return a function of a matrix that runs a transform, and the same without one."""
    forward_ad = torch.autograd.forward_ad

    def row(x):
        return (x.sin() * x).sum() * x.exp()[0]

    def derivative(x):
        return (x.cos() * x + x.sin()) * x.exp()[0] + torch.cat(
            [((x.sin() * x).sum() * x.exp()[0]).reshape(1), x[1:] * 0]
        )

    def dual(x):
        with forward_ad.dual_level():
            value, tangent = forward_ad.unpack_dual(row(forward_ad.make_dual(x, x * 2)))
            return (value + tangent).square()

    def rows(function):
        return lambda x: torch.stack([function(each) for each in x])

    vmap, grad = torch.func.vmap, torch.func.grad
    return {
        "vmap": (vmap(row), rows(row)),
        "two vmaps": (lambda x: vmap(row)(x) * vmap(row)(x.t()).sum(), None),
        "vmap of vmap": (vmap(vmap(torch.sin)), torch.sin),
        "vmap of grad": (vmap(grad(row)), rows(derivative)),
        "grad of vmap": (grad(lambda x: vmap(row)(x).sum()), rows(derivative)),
        "jacobian": (torch.func.jacrev(vmap(row)), None),
        "forward mode": (rows(dual), None),
        "vmap of forward mode": (vmap(lambda x: torch.func.jvp(row, (x,), (x * 2,))[1]), None),
    }[name]


@pytest.mark.parametrize("twice", [False, True], ids=["once", "in another"])
@pytest.mark.parametrize(
    "name",
    [
        *("vmap", "two vmaps", "vmap of vmap", "vmap of grad", "grad of vmap", "jacobian"),
        *("forward mode", "vmap of forward mode"),
    ],
)
def test_a_transform_inside(torch, checkpointing, name, twice):
    """What is computed again meets gradients of the first run: its batches must be the same."""
    if torch.__name__ == "torch" and name not in ("vmap", "two vmaps", "vmap of vmap"):
        pytest.skip("PyTorch's checkpoint fails inside its transforms")
    function, plain = transformed(torch, name)
    x = constant(torch, [[0.5, 1.0, -0.25], [2.0, -1.0, 0.75], [1.0, 0.5, 1.5]])

    def once(x):
        return checkpointing.checkpoint(function, x, use_reentrant=False)

    def within(x):
        return checkpointing.checkpoint(lambda x: once(x.cos()) + once(x), x, use_reentrant=False)

    expected = plain or function
    if twice:
        value, grad = gradients(torch, within, x)
        other_value, other_grad = gradients(torch, lambda x: expected(x.cos()) + expected(x), x)
    else:
        value, grad = gradients(torch, once, x)
        other_value, other_grad = gradients(torch, expected, x)
    assert near(constant(torch, value), other_value) and near(constant(torch, grad), other_grad)


def test_a_batched_sweep_inside(ours, checkpointing):
    def rows(x):
        y = x.sin() * x
        return ours.autograd.grad(y, x, ours.eye(3), is_grads_batched=True, create_graph=True)[0]

    x = leaf(ours, [0.5, 1.0, -0.25])
    expected = ours.autograd.grad(rows(x).square().sum(), x)[0]
    y = checkpointing.checkpoint(rows, x, use_reentrant=False)
    assert near(ours.autograd.grad(y.square().sum(), x)[0], expected)
