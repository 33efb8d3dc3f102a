"""torch.testing: what assert_close says, word by word, and the tensors that make_tensor makes."""

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "there is nothing to compare PyTorch with", allow_module_level=True)


def cases(torch):
    t = torch.tensor
    return [
        ((t([1.0, 2.0]), t([1.0, 2.1])), {}),
        ((t([1.0, 2.0, 3.0]), t([1.0, 2.1, 5.0])), {}),
        ((t([[1, 2], [3, 4]]), t([[1, 2], [3, 9]])), {}),
        ((t(1.0), t(2.0)), {}),
        ((1, 2), {}),
        ((1.0, 1.1), {}),
        ((t([1.0]), t([1])), {}),
        ((t([1.0]), t([[1.0]])), {}),
        (([t(1.0), t(2.0)], [t(1.0), t(3.0)]), {}),
        (({"a": t(1.0)}, {"a": t(2.0)}), {}),
        (({"a": 1}, {"b": 1}), {}),
        (([1], [1, 2]), {}),
        ((t([float("nan")]), t([float("nan")])), {}),
        ((t([float("nan")]), t([float("nan")])), {"equal_nan": True}),
        (("a", "b"), {}),
        ((None, None), {}),
        ((None, 1), {}),
        ((t([1.0]), t([1.1])), {"rtol": 0.2}),
        ((t([1.0]), t([1.1])), {"rtol": 0.2, "atol": 0}),
        ((t([1.0]), t([2.0])), {"msg": "hello"}),
        ((t([1.0]), t([2.0])), {"msg": lambda m: "X" + m}),
        ((t([True, False]), t([True, True])), {}),
        ((t([1.0]), t([1.0], dtype=torch.float64)), {"check_dtype": False}),
        (
            (t([[1.0, 2.0], [3.0, 4.0]]), t([[1.0, 2.0], [3.0, 4.0]]).t().contiguous().t()),
            {"check_stride": True},
        ),
        ((1, 1.0), {}),
        (((1, 2), [1, 2]), {}),
        ((t([]), t([])), {}),
        ((t([1.0]).half(), t([1.002]).half()), {}),
        (([[1, 2], [3, 4]], [[1, 2], [3, 5]]), {}),
        ((float("nan"), float("nan")), {}),
        ((t([1.0, 2.0]), t([1.0, 2.1])), {"rtol": 0.01, "atol": 0.001}),
        ((t([float("inf")]), t([1.0])), {}),
        ((t(1), t(2)), {}),
        ((t([1.0]), t([1.0]).to("meta")), {}),
        (({"a": [t(1.0), 2.0]}, {"a": [t(1.0), 3.0]}), {}),
        ((np.array([1.0, 2.0]), np.array([1.0, 3.0])), {}),
        ((t([3.0]), t([4.0])), {"allow_subclasses": False}),
        ((True, False), {}),
        ((t([1.0, 2.0]), t([1.0005, 2.0])), {"check_dtype": False}),
        ((float("inf"), 1.0), {}),
        ((0.0, 1e-8), {}),
        ((1.0, 0.0), {}),
        ((t([0.0, 1.0]), t([0.0, 0.0])), {}),
        ((t([1.0]), 1.0), {}),
        ((t([1, 2]), t([1, 3])), {"rtol": 0, "atol": 0}),
        ((t([1.0, 2.0]), t([1.0, 2.0]).double()), {}),
        (([t(1.0), [t([1.0])]], [t(1.0), [t([2.0])]]), {}),
    ]


def said(library, arguments, options):
    try:
        library.testing.assert_close(*arguments, **options)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error), str(error).replace("tapegrad.Tensor", "torch.Tensor")
    return None


@pytest.mark.parametrize("number", range(len(cases(torch))))
def test_assert_close(number):
    """Everything it says is what PyTorch says, to the letter."""
    assert said(torch, *cases(torch)[number]) == said(pytorch, *cases(pytorch)[number])


def test_assert_allclose():
    torch.testing.assert_allclose([1.0, float("nan")], [1.00001, float("nan")])
    with pytest.raises(AssertionError, match=r"up to 0\.0001 allowed"):
        torch.testing.assert_allclose(torch.tensor([1.0]), [1.001])


MADE = (
    {"dtype": "float32"}, {"dtype": "int64"}, {"dtype": "bool"}, {"dtype": "uint8"},
    {"dtype": "float16", "low": 2, "high": 3}, {"dtype": "float32", "noncontiguous": True},
    {"dtype": "float64", "exclude_zero": True, "requires_grad": True},
    {"dtype": "float32", "low": 3, "high": 2}, {"dtype": "float32", "low": float("nan")},
    {"dtype": "int64", "requires_grad": True}, {"dtype": "bool", "low": 0, "high": 5},
    {"dtype": "uint8", "low": -5, "high": 400}, {"dtype": "int8", "low": 1.5},
)  # fmt: skip


@pytest.mark.parametrize("options", MADE, ids=str)
def test_make_tensor(options):
    def facts(t):
        given = options | {"dtype": getattr(t, options["dtype"])}
        try:
            x = t.testing.make_tensor((40, 50), device="cpu", **given)
        except ValueError as error:
            return str(error)[:20]
        low, high = x.double().min().item(), x.double().max().item()
        return round(low), round(high), x.stride(), x.requires_grad, str(x.dtype)

    assert facts(torch) == facts(pytorch)


def test_timer_and_table():
    benchmark = torch.utils.benchmark
    seen = []
    timers = [
        benchmark.Timer("seen.append(x)", "x = 1", globals={"seen": seen}, label="append",
                        sub_label=case, description="list")
        for case in ("one", "two")
    ]  # fmt: skip
    found = [timers[0].timeit(200), timers[1].blocked_autorange(min_run_time=0.001)]
    assert found[0].number_per_run == 200 and len(seen) >= 202
    assert 0 < found[0].median < 1 and found[1].iqr >= 0 and found[0].title == "append: one"
    table = str(benchmark.Compare(found))
    assert "append" in table and "one" in table and "two" in table and "Times are in" in table
    assert "runs per measurement, 1 thread" in repr(found[1])
    assert len(benchmark.Measurement.merge([found[0], found[0]])[0].times) == 2
    threads = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        benchmark.Timer("1 / 0", num_threads=2).timeit(1)
    assert torch.get_num_threads() == threads
    with pytest.raises(NotImplementedError, match="expected language 'python'"):
        benchmark.Timer("1", language="c++")
    assert benchmark.select_unit(2e-5) == ("us", 1e-6) and benchmark.trim_sigfig(1234.5, 2) == 1200
