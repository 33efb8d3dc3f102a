"""Windows: every function beside PyTorch's, symmetric and periodic, in every dtype."""

import numpy as np
import pytest
from library import torch

LENGTHS = (0, 1, 2, 3, 4, 5, 8, 31, 64, 513)
IN_TORCH = [
    ("hann_window", {}),
    ("hamming_window", {}),
    ("hamming_window", {"alpha": 0.6, "beta": 0.3}),
    ("blackman_window", {}),
    ("bartlett_window", {}),
    ("kaiser_window", {}),
    ("kaiser_window", {"beta": 3.5}),
]
IN_SIGNAL = [
    ("bartlett", {}),
    ("blackman", {}),
    ("cosine", {}),
    ("exponential", {}),
    ("exponential", {"tau": 3.0}),
    ("gaussian", {}),
    ("gaussian", {"std": 2.5}),
    ("general_cosine", {"a": [0.4, 0.3, 0.2, 0.1]}),
    ("general_hamming", {}),
    ("general_hamming", {"alpha": 0.7}),
    ("hamming", {}),
    ("hann", {}),
    ("kaiser", {}),
    ("kaiser", {"beta": 2.0}),
    ("nuttall", {}),
]
# PyTorch computes in the dtype of the result, so that its own error is what is seen.
TOLERANCE = {"float64": 1e-12, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


def compare(ours, theirs, dtype):
    assert str(ours.dtype) == str(theirs.dtype)
    tolerance = TOLERANCE[dtype]
    ours, theirs = ours.double().numpy(), theirs.double().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "options"), IN_TORCH)
def test_windows_of_torch(name, options, dtype, pytorch):
    for n in LENGTHS:
        for periodic in (True, False):
            found = [
                getattr(library, name)(n, periodic, dtype=getattr(library, dtype), **options)
                for library in (torch, pytorch)
            ]
            compare(*found, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), IN_SIGNAL)
def test_windows_of_signal(name, options, dtype, pytorch):
    for n in LENGTHS:
        for sym in (True, False):
            found = [
                getattr(library.signal.windows, name)(
                    n, sym=sym, dtype=getattr(library, dtype), **options
                )
                for library in (torch, pytorch)
            ]
            compare(*found, dtype)


def test_all_names_are_there(pytorch):
    assert torch.signal.windows.__all__ == pytorch.signal.windows.__all__
    assert {name for name, _ in IN_SIGNAL} == set(torch.signal.windows.__all__)


def test_the_center_of_an_exponential_window(pytorch):
    for n in (1, 4, 9):
        found = [
            library.signal.windows.exponential(n, center=1.5, tau=2.0, sym=False)
            for library in (torch, pytorch)
        ]
        compare(*found, "float32")


def test_values_are_rounded_once():
    n = np.arange(1000)
    exact = (0.5 - 0.5 * np.cos(2 * np.pi * n.astype(np.longdouble) / 1000)).astype(np.float32)
    assert (torch.hann_window(1000).numpy() == exact).mean() > 0.99


def test_options():
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.hann_window(3).dtype == torch.float64
        assert torch.signal.windows.hann(3).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.hann_window(3, requires_grad=True).is_leaf
    assert torch.signal.windows.hann(3, requires_grad=True).requires_grad
    assert torch.hann_window(5, device="meta").shape == (5,)
    assert torch.signal.windows.kaiser(5, device="meta").device.type == "meta"
    assert torch.hann_window(window_length=3, periodic=False, pin_memory=False).tolist() == [
        0,
        1,
        0,
    ]


REFUSED = [
    ("hann_window(-1)", RuntimeError, "hann_window requires non-negative window_length"),
    ("hann_window(4, dtype=torch.int64)", RuntimeError, "expects floating point dtypes"),
    ("hann_window(4, dtype=torch.complex64)", NotImplementedError, "not implemented"),
    ("hann_window(2.5)", TypeError, "int"),
    ("hann_window(True)", TypeError, "int"),
    ("signal.windows.hann(-1)", ValueError, "requires non-negative window length, got M=-1"),
    ("signal.windows.hann(4, dtype=torch.float16)", ValueError, "expects float32 or float64"),
    ("signal.windows.hann(2.5)", TypeError, "int|linspace"),
    ("signal.windows.exponential(4, tau=0)", ValueError, "Tau must be positive"),
    ("signal.windows.exponential(4, center=1.0)", ValueError, "Center must be None"),
    ("signal.windows.gaussian(4, std=0)", ValueError, "Standard deviation must be positive"),
    ("signal.windows.kaiser(4, beta=-1)", ValueError, "beta must be non-negative"),
    ("signal.windows.general_cosine(4, a=3)", TypeError, "Coefficients must be"),
    ("signal.windows.general_cosine(4, a=[])", ValueError, "Coefficients cannot be empty"),
]


def test_other_layouts_are_refused():
    with pytest.raises(RuntimeError, match="kaiser_window is not implemented for sparse types"):
        torch.kaiser_window(4, layout="sparse")
    with pytest.raises(ValueError, match="hann is implemented for strided tensors only"):
        torch.signal.windows.hann(4, layout="sparse")


@pytest.mark.parametrize(("call", "raises", "text"), REFUSED)
def test_what_is_refused(call, raises, text, pytorch):
    for library in (torch, pytorch):
        with pytest.raises(raises, match=text):
            eval(f"torch.{call}", {"torch": library})
