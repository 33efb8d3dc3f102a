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


def test_debug_shows_lines(torch, checkpointing):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch shows its own dispatch")

    def first(x):
        return x.exp().sin()

    def then(x):
        return x.exp()

    for inside in (True, False):
        with checkpointing.set_checkpoint_debug_enabled(True if inside else None):
            y = checkpointing.checkpoint(
                changing(first, then), leaf(torch, 1.0), use_reentrant=False, debug=not inside
            )
        with pytest.raises(checkpointing.CheckpointError) as caught:
            y.backward()
        text = str(caught.value)
        assert text.count("in first") == 2
        assert text.count("in then") == 1
        assert "test_checkpoint.py" in text
