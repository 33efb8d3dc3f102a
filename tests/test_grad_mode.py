"""Recording modes, and the arguments of autograd.backward and autograd.grad."""

import threading

import pytest
from library import IS_TORCH, torch

MODES = [
    (torch.no_grad, False),
    (torch.enable_grad, True),
    (lambda: torch.set_grad_enabled(False), False),
    (lambda: torch.set_grad_enabled(True), True),
    (torch.inference_mode, False),
    (lambda: torch.inference_mode(False), True),
]
NAMES = ["no_grad", "enable_grad", "set_off", "set_on", "inference", "inference_off"]
all_modes = pytest.mark.parametrize(("mode", "inside"), MODES, ids=NAMES)


@pytest.fixture(params=[True, False], ids=["from_on", "from_off"])
def outside(request):
    """Run the test with recording on and with recording off around it."""
    with torch.set_grad_enabled(request.param):
        yield request.param


@all_modes
def test_context_manager(mode, inside, outside):
    with mode():
        assert torch.is_grad_enabled() is inside
    assert torch.is_grad_enabled() is outside


@all_modes
def test_context_manager_restores_after_an_error(mode, inside, outside):
    with pytest.raises(KeyError), mode():
        raise KeyError
    assert torch.is_grad_enabled() is outside


@all_modes
def test_decorator(mode, inside, outside):
    @mode()
    def countdown(n):
        """Recurse, so that one decorated function is active many times over."""
        assert torch.is_grad_enabled() is inside
        return [] if n == 0 else [n, *countdown(n - 1)]

    assert torch.is_grad_enabled() is outside
    assert countdown(3) == [3, 2, 1]
    assert torch.is_grad_enabled() is outside
    assert countdown.__name__ == "countdown"


@pytest.mark.parametrize(
    ("mode", "inside"),
    [(torch.no_grad, False), (torch.enable_grad, True), (torch.inference_mode, False)],
)
def test_decorator_without_parentheses(mode, inside, outside):
    @mode
    def enabled():
        return torch.is_grad_enabled()

    assert enabled() is inside
    assert torch.is_grad_enabled() is outside


@all_modes
def test_generator_runs_under_the_mode_and_suspends_without_it(mode, inside, outside):
    seen = []

    @mode()
    def generate():
        seen.append(torch.is_grad_enabled())
        received = yield 1
        seen.append(torch.is_grad_enabled())
        try:
            yield received
        except ValueError:
            seen.append(torch.is_grad_enabled())
            yield "caught"
        return "done"

    generator = generate()
    assert next(generator) == 1
    assert torch.is_grad_enabled() is outside
    assert generator.send("sent") == "sent"
    assert torch.is_grad_enabled() is outside
    assert generator.throw(ValueError()) == "caught"
    assert torch.is_grad_enabled() is outside
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "done"
    assert seen == [inside] * 3
    assert torch.is_grad_enabled() is outside


def test_closing_a_generator_runs_its_cleanup_under_the_mode():
    seen = []

    @torch.no_grad()
    def generate():
        try:
            yield
        finally:
            seen.append(torch.is_grad_enabled())

    generator = generate()
    next(generator)
    generator.close()
    assert seen == [False]
    assert torch.is_grad_enabled()


def test_set_grad_enabled_works_as_a_function():
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    assert torch.is_grad_enabled()


def test_set_grad_enabled_takes_a_bool():
    with pytest.raises(TypeError):
        torch.set_grad_enabled(1)
    assert torch.is_grad_enabled()


def test_modes_belong_to_one_thread():
    seen = []
    with torch.no_grad(), torch.inference_mode():
        thread = threading.Thread(
            target=lambda: seen.extend([torch.is_grad_enabled(), torch.is_inference_mode_enabled()])
        )
        thread.start()
        thread.join()
    assert seen == [True, False]


def test_inference_mode_nests():
    assert not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled()
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()


def test_modes_govern_recording():
    x = torch.tensor([1.0], requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def test_backward_accumulates_over_roots_and_calls():
    x = leaf(1.0, 2.0)
    torch.autograd.backward([(x * x).sum(), (3 * x).sum()])
    assert x.grad.tolist() == [5.0, 7.0]
    torch.autograd.backward(x * 2, torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [7.0, 27.0]


def test_backward_can_be_limited_to_inputs():
    x, z = leaf(1.0), leaf(2.0)
    torch.autograd.backward((x * z).sum(), inputs=[x])
    assert x.grad.tolist() == [2.0]
    assert z.grad is None


def test_grad_returns_and_does_not_accumulate():
    x = leaf(1.0, 2.0)
    y = x * x
    (found,) = torch.autograd.grad(y, x, torch.tensor([1.0, 10.0]))
    assert found.tolist() == [2.0, 40.0]
    assert x.grad is None


def test_grad_of_grad():
    x = leaf(2.0)
    (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert [first.item(), second.item(), third.item()] == [12.0, 12.0, 6.0]


def test_retain_graph_defaults_to_create_graph():
    x = leaf(2.0)
    y = (x * x).sum()
    torch.autograd.grad(y, x, create_graph=True)
    torch.autograd.grad(y, x)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(y, x)


def test_unused_inputs():
    x, z = leaf(1.0), leaf(2.0)
    y = (x * x).sum()
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.autograd.grad(y, [x, z], retain_graph=True)
    found = torch.autograd.grad(y, [x, z], allow_unused=True, retain_graph=True)
    assert found[0].tolist() == [2.0]
    assert found[1] is None
    found = torch.autograd.grad(y, [x, z], materialize_grads=True)
    assert found[1].tolist() == [0.0]
    with pytest.raises(ValueError, match="allow_unused"):
        torch.autograd.grad(y, x, allow_unused=False, materialize_grads=True)


def test_batched_gradients_are_rows_of_the_jacobian():
    x = leaf(1.0, 2.0)
    y = x * x
    (jacobian,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]]


BAD_CALLS = {
    "shape": (RuntimeError, lambda x, y: torch.autograd.grad(y, x, torch.ones(3))),
    "count": (RuntimeError, lambda x, y: torch.autograd.grad([y, y], x, [torch.ones(2)])),
    "gradient type": (TypeError, lambda x, y: torch.autograd.grad(y, x, [1.0])),
    "output type": (TypeError, lambda x, y: torch.autograd.grad(3.0, x)),
    "input type": (TypeError, lambda x, y: torch.autograd.grad(y, 3.0)),
    "no inputs": (RuntimeError, lambda x, y: torch.autograd.grad(y.sum(), [])),
    "no inputs to backward": (
        RuntimeError,
        lambda x, y: torch.autograd.backward(y.sum(), inputs=[]),
    ),
    "constant input": (RuntimeError, lambda x, y: torch.autograd.grad(y.sum(), torch.ones(2))),
    "constant output": (RuntimeError, lambda x, y: torch.autograd.grad(torch.ones(()), x)),
    "implicit gradient": (RuntimeError, lambda x, y: torch.autograd.grad(y, x)),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls(name):
    error, call = BAD_CALLS[name]
    x = leaf(1.0, 2.0)
    with pytest.raises(error):
        call(x, x * x)
    assert x.grad is None


@pytest.mark.skipif(IS_TORCH, reason="the wording is our own")
def test_a_wrong_gradient_shape_is_named():
    message = (
        r"grad: expected grad_outputs\[1\] to have the shape of outputs\[1\], \(2,\), got \(3,\)"
    )
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad([x * 2, x * 3], x, [torch.ones(2), torch.ones(3)])


@pytest.mark.skipif(IS_TORCH, reason="the wording is our own")
def test_an_unused_input_is_named():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"inputs\[1\] was not used"):
        torch.autograd.grad((x * x).sum(), [x, leaf(1.0)])
