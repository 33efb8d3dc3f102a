"""Anomaly mode: how it is switched, and what it finds."""

import threading
import warnings

import pytest

from .values import constant, leaf

# PyTorch announces anomaly mode, and prints the forward traceback, as warnings.
pytestmark = pytest.mark.filterwarnings("ignore")


def make_failing(torch, error):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise error

    return Fails.apply


def make_nan(torch):
    class GivesNan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * float("nan")

    return GivesNan.apply


def test_anomaly_mode_is_off_by_default(torch):
    assert not torch.is_anomaly_enabled()


def test_detect_anomaly_is_a_context(torch):
    with torch.autograd.detect_anomaly():
        assert torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
    assert not torch.is_anomaly_enabled()


def test_detect_anomaly_without_the_nan_check(torch):
    with torch.autograd.detect_anomaly(check_nan=False):
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()


def test_detect_anomaly_ends_after_an_exception(torch):
    with pytest.raises(KeyError), torch.autograd.detect_anomaly():
        raise KeyError
    assert not torch.is_anomaly_enabled()


def test_set_detect_anomaly_as_a_function(torch):
    torch.autograd.set_detect_anomaly(True)
    on = torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(False)
    assert on and not torch.is_anomaly_enabled()


def test_set_detect_anomaly_as_a_context(torch):
    with torch.autograd.set_detect_anomaly(True):
        with torch.autograd.set_detect_anomaly(False):
            assert not torch.is_anomaly_enabled()
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()


def test_a_nan_gradient_is_found(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.detect_anomaly():
        y = make_nan(torch)(x)
        with pytest.raises(RuntimeError, match="returned nan values"):
            y.sum().backward()


def test_the_error_names_the_function(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.detect_anomaly():
        y = make_nan(torch)(x)
        with pytest.raises(RuntimeError, match="GivesNan"):
            y.sum().backward()


def test_a_nan_gradient_passes_without_anomaly_mode(torch):
    x = leaf(torch, [2.0])
    make_nan(torch)(x).sum().backward()
    assert x.grad.isnan().all()


def test_a_nan_gradient_passes_without_the_nan_check(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.detect_anomaly(check_nan=False):
        make_nan(torch)(x).sum().backward()
    assert x.grad.isnan().all()


def test_an_infinite_gradient_is_no_anomaly(torch):
    x = leaf(torch, [0.0])
    with torch.autograd.detect_anomaly():
        x.sqrt().sum().backward()
    assert x.grad.isinf().all()


def test_a_nan_gradient_of_a_plain_op_is_found(torch):
    x = leaf(torch, [0.0])
    with torch.autograd.detect_anomaly():
        y = (x.sqrt() * 0).sum()  # 0 * inf on the way back.
        with pytest.raises(RuntimeError, match="SqrtBackward0"):
            y.backward()


def test_an_error_in_backward_keeps_its_type(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.detect_anomaly():
        y = make_failing(torch, ValueError("inside"))(x)
        with pytest.raises(ValueError, match="inside"):
            y.sum().backward()


def test_gradients_are_the_same_in_anomaly_mode(torch):
    x = leaf(torch, [2.0, 3.0])
    with torch.autograd.detect_anomaly():
        (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_double_backward_in_anomaly_mode(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.detect_anomaly():
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [12.0]


def test_a_graph_made_outside_is_checked_inside(torch):
    x = leaf(torch, [2.0])
    y = make_nan(torch)(x).sum()
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        y.backward()


def test_hooks_run_in_anomaly_mode(torch):
    seen = []
    x = leaf(torch, [2.0])
    x.register_hook(lambda grad: seen.append(grad.item()))
    with torch.autograd.detect_anomaly():
        (x * 3).sum().backward()
    assert seen == [3.0]


def test_no_warning_comes_without_anomaly_mode(torch):
    x = leaf(torch, [2.0])
    y = make_failing(torch, ValueError("inside"))(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="inside"):
            y.sum().backward()


def test_a_stale_value_raises_in_anomaly_mode_too(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    with torch.autograd.detect_anomaly():
        y = x * factor
        factor.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_anomaly_mode_reaches_every_thread(torch):
    seen = []
    with torch.autograd.detect_anomaly():
        thread = threading.Thread(target=lambda: seen.append(torch.is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]
