"""Recording modes: no_grad, enable_grad, set_grad_enabled, inference_mode; inference tensors."""

import threading

import pytest

from .values import constant, leaf


def test_recording_is_on_by_default(torch):
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_no_grad_results_do_not_require_grad(torch):
    x = leaf(torch, [1.0])
    with torch.no_grad():
        y = x * 2
    assert not y.requires_grad and y.grad_fn is None and y.is_leaf


def test_no_grad_does_not_change_existing_tensors(torch):
    x = leaf(torch, [1.0])
    y = x * 2
    with torch.no_grad():
        assert x.requires_grad and y.requires_grad and y.grad_fn is not None


def test_factory_functions_ignore_no_grad(torch):
    with torch.no_grad():
        x = torch.zeros(2, requires_grad=True)
    assert x.requires_grad and x.is_leaf


def test_requires_grad_may_be_set_under_no_grad(torch):
    with torch.no_grad():
        x = constant(torch, [1.0]).requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_enable_grad_inside_no_grad(torch):
    x = leaf(torch, [1.0])
    with torch.no_grad(), torch.enable_grad():
        y = x * 2
    assert y.requires_grad


def test_enable_grad_does_nothing_outside(torch):
    with torch.enable_grad():
        assert torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_backward_may_run_under_no_grad(torch):
    x = leaf(torch, [3.0])
    y = (x * x).sum()
    with torch.no_grad():
        y.backward()
    assert x.grad.tolist() == [6.0]


def test_set_grad_enabled_as_a_function(torch):
    torch.set_grad_enabled(False)
    off = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert not off and torch.is_grad_enabled()


def test_set_grad_enabled_as_a_context(torch):
    x = leaf(torch, [1.0])
    for mode in (False, True):
        with torch.set_grad_enabled(mode):
            y = x * 2
        assert y.requires_grad is mode
        assert torch.is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_takes_effect_in_the_call_alone(torch):
    @torch.set_grad_enabled(False)
    def run():
        return torch.is_grad_enabled()

    assert torch.is_grad_enabled()
    assert run() is False
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
@pytest.mark.parametrize("parentheses", [True, False])
def test_a_mode_as_a_decorator(torch, name, parentheses):
    mode = getattr(torch, name)

    @(mode() if parentheses else mode)
    def run(value, *, extra):
        """Say hello."""
        return torch.is_grad_enabled(), value + extra

    with torch.no_grad():
        assert run(1, extra=2) == (name == "enable_grad", 3)
        assert not torch.is_grad_enabled()
    assert run.__name__ == "run" and run.__doc__ == "Say hello."


@pytest.mark.parametrize("name", ["no_grad", "inference_mode"])
def test_a_decorated_generator_keeps_its_mode_to_itself(torch, name):
    @getattr(torch, name)()
    def produce():
        for _ in range(3):
            yield torch.is_grad_enabled()

    seen = []
    for inside in produce():
        seen.append((inside, torch.is_grad_enabled()))
    assert seen == [(False, True)] * 3


def test_a_decorated_generator_can_be_sent_values_and_exceptions(torch):
    @torch.no_grad()
    def echo():
        received = yield "ready"
        try:
            yield received, torch.is_grad_enabled()
        except KeyError:
            yield "caught", torch.is_grad_enabled()

    generator = echo()
    assert next(generator) == "ready"
    assert generator.send(5) == (5, False)
    assert generator.throw(KeyError) == ("caught", False)
    generator.close()
    assert torch.is_grad_enabled()


def test_a_decorated_generator_returns_its_value(torch):
    @torch.no_grad()
    def produce():
        yield 1
        return "done"

    def collect():
        return (yield from produce())

    generator = collect()
    assert next(generator) == 1
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "done"


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
def test_a_mode_ends_with_an_exception(torch, name):
    with pytest.raises(KeyError), getattr(torch, name)():
        raise KeyError
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_an_exception_in_a_decorated_function_ends_the_mode(torch):
    @torch.no_grad()
    def fail():
        raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert torch.is_grad_enabled()


def test_a_mode_object_may_be_entered_again(torch):
    mode = torch.no_grad()
    for _ in range(2):
        with mode:
            assert not torch.is_grad_enabled()
        assert torch.is_grad_enabled()


def test_modes_nest_and_restore_in_order(torch):
    seen = []
    with torch.no_grad():
        with torch.enable_grad():
            with torch.set_grad_enabled(False):
                seen.append(torch.is_grad_enabled())
            seen.append(torch.is_grad_enabled())
        seen.append(torch.is_grad_enabled())
    assert seen == [False, True, False]


def test_modes_are_thread_local(torch):
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_mode_is_thread_local(torch):
    seen = []
    with torch.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(torch.is_inference_mode_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_inference_mode_switches_recording_off(torch):
    x = leaf(torch, [1.0])
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        y = x * 2
    assert not y.requires_grad


def test_inference_mode_false_does_nothing(torch):
    x = leaf(torch, [1.0])
    with torch.inference_mode(False):
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        y = x * 2
    assert y.requires_grad and not y.is_inference()


def test_inference_mode_false_inside_inference_mode_is_normal_mode(torch):
    x = leaf(torch, [1.0])
    with torch.inference_mode(), torch.inference_mode(False):
        assert not torch.is_inference_mode_enabled()
        y = x * 2
    assert not y.is_inference() and y.requires_grad


def test_tensors_made_in_inference_mode_are_inference_tensors(torch):
    with torch.inference_mode():
        x = torch.ones(2)
        y = x + 1
    assert x.is_inference() and y.is_inference()
    assert not torch.ones(2).is_inference()


def test_inputs_from_outside_are_not_turned_into_inference_tensors(torch):
    x = leaf(torch, [1.0])
    with torch.inference_mode():
        _ = x * 2
    assert not x.is_inference()


def test_a_view_of_a_normal_tensor_in_inference_mode_is_a_normal_tensor(torch):
    x = leaf(torch, [1.0, 2.0])
    with torch.inference_mode():
        view = x[:1]
    assert not view.is_inference() and view.grad_fn is None


def test_an_inference_tensor_refuses_to_be_saved_for_backward(torch):
    with torch.inference_mode():
        constant_outside = constant(torch, [2.0])
    x = leaf(torch, [1.0])
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        _ = x * constant_outside


def test_an_inference_tensor_may_take_part_when_it_is_not_saved(torch):
    with torch.inference_mode():
        term = constant(torch, [2.0])
    x = leaf(torch, [1.0])
    (x + term).sum().backward()
    assert x.grad.tolist() == [1.0]


def test_a_clone_of_an_inference_tensor_is_a_normal_tensor(torch):
    with torch.inference_mode():
        value = constant(torch, [2.0])
    x = leaf(torch, [1.0])
    usable = value.clone()
    assert not usable.is_inference()
    (x * usable).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_an_inference_tensor_refuses_to_require_grad(torch):
    with torch.inference_mode():
        value = constant(torch, [2.0])
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        value.requires_grad_()


def test_an_inference_tensor_refuses_in_place_ops_outside(torch):
    with torch.inference_mode():
        value = constant(torch, [2.0])
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        value.add_(1)


def test_an_inference_tensor_may_be_written_in_inference_mode(torch):
    with torch.inference_mode():
        value = constant(torch, [2.0])
        value.add_(1)
    assert value.tolist() == [3.0]


def test_an_inference_tensor_has_no_version(torch):
    with torch.inference_mode():
        value = constant(torch, [2.0])
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        _ = value._version


def test_a_normal_tensor_written_in_inference_mode_still_counts(torch):
    x = constant(torch, [2.0])
    before = x._version
    with torch.inference_mode():
        x.add_(1)
    assert x._version == before + 1 and x.tolist() == [3.0]


def test_in_place_on_a_saved_normal_tensor_in_inference_mode_is_seen(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    with torch.inference_mode():
        factor.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_ops_on_inference_tensors_outside_give_normal_tensors(torch):
    with torch.inference_mode():
        value = constant(torch, [2.0])
    result = value * 2
    assert not result.is_inference() and result.tolist() == [4.0]


def test_backward_inside_inference_mode_of_a_graph_made_there_raises(torch):
    x = leaf(torch, [2.0])
    with torch.inference_mode():
        y = (x * x).sum()
        with pytest.raises(RuntimeError, match="does not require grad"):
            y.backward()


def test_no_grad_decorates_every_call_of_a_recursive_function(torch):
    @torch.no_grad()
    def depth(n):
        assert not torch.is_grad_enabled()
        return 0 if n == 0 else 1 + depth(n - 1)

    assert depth(5) == 5 and torch.is_grad_enabled()


def test_a_lambda_may_be_decorated(torch):
    x = leaf(torch, [1.0])
    assert not torch.no_grad()(lambda: x * 2)().requires_grad


def test_detach_is_the_per_tensor_no_grad(torch):
    x = leaf(torch, [2.0])
    y = x * x.detach()
    y.sum().backward()
    assert x.grad.tolist() == [2.0]
