"""Clipping of gradients in two native calls, with the results of the composed functions."""

import math

import numpy as np
import pytest

from .side_by_side import expect_near, numbers

SHAPES = ((), (3,), (0,), (70, 3), (9001,), (4096,), (2, 3, 4))


def with_grads(library, dtype, scale=1.0, shapes=SHAPES):
    params = []
    for k, shape in enumerate(shapes):
        param = library.zeros(shape, dtype=dtype, requires_grad=True)
        param.grad = library.tensor(numbers(*shape, seed=k) * scale, dtype=dtype)
        params.append(param)
    return params


@pytest.fixture
def calls(both, monkeypatch):
    """Count what the native functions took and what they left."""
    native, counts = both[0]._C, {"norm": [], "scale": []}
    norm, scale = native._total_norm, native._scale_tensors

    def counted_norm(*args):
        result = norm(*args)
        counts["norm"].append(result is not None)
        return result

    def counted_scale(*args):
        counts["scale"].append(scale(*args))
        return counts["scale"][-1]

    monkeypatch.setattr(native, "_total_norm", counted_norm)
    monkeypatch.setattr(native, "_scale_tensors", counted_scale)
    return counts


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("norm_type", [2.0, 1, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_clips_as_pytorch(both, calls, dtype, norm_type, max_norm):
    results, shapes = [], [shape for shape in SHAPES if 0 not in shape or norm_type != math.inf]
    for library in both:
        params = with_grads(library, getattr(library, dtype), shapes=shapes)
        total = library.nn.utils.clip_grad_norm_(params, max_norm, norm_type)
        results.append([total, *(param.grad for param in params)])
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, "clipped", 1e-5 if dtype == "float32" else 1e-12)
    assert calls == {"norm": [True], "scale": [True]}


@pytest.mark.parametrize("norm_type", [2.0, 1.0, math.inf])
def test_nan_and_infinity(both, norm_type):
    for value in (math.nan, math.inf, -math.inf):
        totals = []
        for library in both:
            params = with_grads(library, library.float32, shapes=((3,), (9001,)))
            params[1].grad[4321] = value
            totals.append(library.nn.utils.clip_grad_norm_(params, 1.0, norm_type).item())
        np.testing.assert_equal(*totals)


def test_the_largest_of_nothing_is_refused(both):
    for library in both:
        params = with_grads(library, library.float32)
        with pytest.raises(RuntimeError, match="infinity norm"):
            library.nn.utils.clip_grad_norm_(params, 1.0, math.inf)


def test_squares_neither_overflow_nor_vanish(both, calls):
    torch = both[0]
    for size in (1e25, 1e-30):
        params = with_grads(torch, torch.float32, scale=size)
        total = torch.nn.utils.get_total_norm([param.grad for param in params])
        wanted = size * math.sqrt(
            sum((numbers(*shape, seed=k) ** 2).sum() for k, shape in enumerate(SHAPES))
        )
        assert total.item() == pytest.approx(wanted, rel=1e-5)
    assert calls["norm"] == [True, True]


def test_what_is_unusual_is_composed(both, calls):
    results = []
    for library in both:
        odd = library.zeros(4, 3, requires_grad=True)
        odd.grad = library.tensor(numbers(3, 4), dtype=library.float32).t()
        wide = library.zeros(5, dtype=library.float64, requires_grad=True)
        wide.grad = library.tensor(numbers(5), dtype=library.float64)
        plain = with_grads(library, library.float32, shapes=((7,),))
        groups = [[odd, *plain], [wide]]
        totals = [library.nn.utils.clip_grad_norm_(group, 0.5) for group in groups]
        totals.append(library.nn.utils.clip_grad_norm_(groups[0], 0.25, norm_type=3.0))
        results.append([*totals, odd.grad, wide.grad, plain[0].grad])
    for ours, theirs in zip(*results, strict=True):
        expect_near(ours, theirs, "clipped", 1e-5)
    assert calls == {"norm": [False, True, False], "scale": [False, True, False]}


def test_a_gradient_shared_by_two_is_scaled_as_by_pytorch(both, calls):
    results = []
    for library in both:
        params = with_grads(library, library.float64, shapes=((4,), (4,)))
        params[1].grad = params[0].grad
        library.nn.utils.clip_grad_norm_(params, 1.0)
        results.append(params[0].grad)
    expect_near(*results, "clipped", 1e-12)
    assert calls["scale"] == [False]


def test_scaling_is_a_write(both):
    torch = both[0]
    (param,) = with_grads(torch, torch.float32, shapes=((4,),))
    before = param.grad._version
    torch.nn.utils.clip_grad_norm_([param], 0.1)
    assert param.grad._version == before + 1


def test_the_result_does_not_depend_on_the_number_of_threads(both):
    torch, threads, totals = both[0], both[0].get_num_threads(), set()
    grads = [torch.tensor(numbers(50_001), dtype=torch.float32), torch.ones(33)]
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            totals.add(torch.nn.utils.get_total_norm(grads).item())
    finally:
        torch.set_num_threads(threads)
    assert len(totals) == 1
