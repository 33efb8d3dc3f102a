"""`torch.Size`, `torch.device` and dtypes as values: what makes them, and what they refuse."""
# ruff: noqa: RUF005

import pytest
from library import torch

Size = torch.Size


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: Size([1, 2]) + (3,), (1, 2, 3)),
        (lambda: (0,) + Size([1, 2]), (0, 1, 2)),
        (lambda: Size([1]) + Size([2]), (1, 2)),
        (lambda: 2 * Size([1]), (1, 1)),
        (lambda: Size([1, 2, 3])[1:], (2, 3)),
        (lambda: Size(torch.tensor([2, 3])), (2, 3)),
        (lambda: Size([torch.tensor(2), torch.tensor([3])]), (2, 3)),
        (lambda: Size(), ()),
    ],
)
def test_sizes(made, expected):
    size = made()
    assert type(size) is Size
    assert size == expected
    assert all(type(each) is int for each in size)


@pytest.mark.parametrize(
    "made",
    [
        lambda: Size([1.5]), lambda: Size(["a"]), lambda: Size(3), lambda: Size(torch.ones(2)),
        lambda: Size([1]) + [2], lambda: (1.5,) + Size([1]), lambda: Size([1]) + ("a",),
        lambda: [0] + Size([1]),
    ],
)  # fmt: skip
def test_what_are_no_sizes(made):
    with pytest.raises(TypeError):
        made()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("cpu:-1",), RuntimeError, "Invalid device string: 'cpu:-1'"),
        (("cpu:1:2",), RuntimeError, "Invalid device string"),
        (("cpu:01",), RuntimeError, "Invalid device string"),
        (("cuda:",), RuntimeError, "Invalid device string"),
        (("cuda:a",), RuntimeError, "Invalid device string"),
        (("cpu ",), RuntimeError, "Invalid device string"),
        (("",), RuntimeError, "Device string must not be empty"),
        (("other",), RuntimeError, "Expected one of cpu, cuda"),
        (("cuda", -1), RuntimeError, "Device index must not be negative"),
        (("cuda:0", 1), RuntimeError, "must not include an index because index was passed"),
        (("cuda", 1.5), TypeError, "must be int, not float"),
        (("cuda", "1"), TypeError, "must be int, not str"),
    ],
)
def test_what_are_no_devices(arguments, error, words):
    with pytest.raises(error, match=words):
        torch.device(*arguments)


def test_devices():
    assert torch.device("cpu:1").index == torch.device("cpu", 1).index == 1
    assert torch.device("cuda:0") == torch.device("cuda", 0) != torch.device("cuda")


def test_complex_and_real_dtypes():
    pairs = {torch.float32: torch.complex64, torch.float64: torch.complex128}
    for real, both in pairs.items():
        assert real.to_complex() is both.to_complex() is both
        assert both.to_real() is real.to_real() is real
    assert torch.int8.to_real() is torch.int8
    with pytest.raises(RuntimeError):
        torch.int64.to_complex()


def test_warnings_of_what_is_on_its_way_out():
    x = torch.ones(2, 3)
    for call, words in {
        lambda: x[torch.tensor([1, 0], dtype=torch.uint8)]: "indexing with dtype torch.uint8",
        lambda: torch.ones(1).var(): "degrees of freedom is <= 0",
        lambda: torch.std_mean(torch.ones(2, 1), 1): "degrees of freedom is <= 0",
        lambda: torch.nn.functional.softmax(x): "Implicit dimension choice for softmax",
        lambda: torch.nn.Softmax()(x): "Implicit dimension choice for softmax",
        lambda: torch.nn.utils.clip_grad_norm_((p for p in ()), 1.0): "is an empty generator",
        lambda: torch.nn.InstanceNorm1d(4)(torch.ones(2, 3, 4)): "does not match num_features",
    }.items():
        with pytest.warns(UserWarning, match=words):
            call()
