"""Calls of both libraries on the same arguments, and what differs between the answers.

A difference is a text that starts with its kind: `values`, `dtype`, `shape`, `strides`, `accepts`
(PyTorch refuses), `refuses` (PyTorch does not), `error` (types differ), `grad` and `grad2`.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from library import torch

from parity.pytorch_ops import pytorch
from parity.translate import MissingName, array_of

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError, AttributeError,
            AssertionError, OverflowError, ArithmeticError, KeyError)  # fmt: skip

# Relative and absolute bounds: kernels of two libraries add in different orders.
BOUNDS = {
    "float64": (1e-7, 1e-8),
    "complex128": (1e-7, 1e-8),
    "float32": (2e-4, 2e-5),
    "complex64": (2e-4, 2e-5),
    "float16": (4e-3, 2e-3),
    "bfloat16": (3e-2, 1.6e-2),
    "complex32": (4e-3, 2e-3),
}


class Refused:
    """An exception that a call raised."""

    def __init__(self, error):
        self.error = error

    def __repr__(self):
        text = " ".join(str(self.error).split())
        return f"{type(self.error).__name__}: {text[:160]}"


def attempt(call):
    """Return what a call returns, or how it refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except REFUSALS as error:
            return Refused(error)


def is_tensor(value):
    return isinstance(value, pytorch.Tensor | torch.Tensor)


def flat(answer):
    """Return the tensors and values of an answer, in order."""
    if isinstance(answer, list | tuple):
        return [part for one in answer for part in flat(one)]
    if isinstance(answer, dict):
        return [part for one in answer.values() for part in flat(one)]
    return [answer]


def name_of(dtype):
    return str(dtype).rpartition(".")[2]


def related(ours, theirs):
    """Whether whoever catches one exception catches the other."""
    if ours is theirs or issubclass(ours, theirs) or issubclass(theirs, ours):
        return True
    return ours.__name__ == theirs.__name__.lstrip("_")


@dataclass(frozen=True)
class Rule:
    """What of two answers is compared, and how closely."""

    values: bool = True
    strides: bool = True
    factor: float = 1  # of the bounds
    spread: float = 0  # share of the largest element that every element may differ by
    infinities: bool = True  # whether a sum that overflows must do so in both
    dtype: str = ""  # whose bounds are taken, if the results' own are too close
    untied: bool = True  # whether indices are those of one element among equals


def difference(ours, theirs, rule=None):
    """Return how two answers differ, or an empty text."""
    rule = rule or Rule()
    if isinstance(ours, Refused) or isinstance(theirs, Refused):
        return difference_of_refusals(ours, theirs)
    mine, other = flat(ours), flat(theirs)
    if len(mine) != len(other):
        return f"shape: {len(mine)} results, PyTorch {len(other)}"
    for index, (a, b) in enumerate(zip(mine, other, strict=True)):
        tied = (
            not rule.untied
            and (index or len(mine) == 1)
            and is_tensor(a)
            and "int64" in str(a.dtype)
        )
        found = difference_of_one(a, b, replace(rule, values=False) if tied else rule)
        if found:
            return found + (f" [result {index}]" if len(mine) > 1 else "")
    return ""


def difference_of_refusals(ours, theirs):
    if not isinstance(theirs, Refused):
        return f"refuses: {ours!r}"
    if not isinstance(ours, Refused):
        return f"accepts: PyTorch {theirs!r}"
    if not related(type(ours.error), type(theirs.error)):
        return f"error: {ours!r}; PyTorch {theirs!r}"
    return ""


def difference_of_one(a, b, rule):
    if is_tensor(a) != is_tensor(b):
        return f"values: {type(a).__name__}, PyTorch {type(b).__name__}"
    if not is_tensor(a):
        return difference_of_objects(a, b)
    if name_of(a.dtype) != name_of(b.dtype):
        return f"dtype: {name_of(a.dtype)}, PyTorch {name_of(b.dtype)}"
    if tuple(a.shape) != tuple(b.shape):
        return f"shape: {tuple(a.shape)}, PyTorch {tuple(b.shape)}"
    if rule.values and a.device.type != "meta" and b.numel():
        found = difference_of_values(array_of(a), array_of(b), rule.dtype or name_of(b.dtype), rule)
        if found:
            return found
    if a.requires_grad != b.requires_grad:
        return f"grad: requires_grad {a.requires_grad}, PyTorch {b.requires_grad}"
    if rule.strides and a.numel() > 1 and b.layout is pytorch.strided:
        mine = [s for s, n in zip(a.stride(), a.shape, strict=True) if n > 1]
        other = [s for s, n in zip(b.stride(), b.shape, strict=True) if n > 1]
        if mine != other:
            return f"strides: {tuple(a.stride())}, PyTorch {tuple(b.stride())} of {tuple(b.shape)}"
    return ""


def difference_of_objects(a, b):
    if isinstance(b, float | complex) and isinstance(a, float | complex):
        same = bool(np.isclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True))
        return "" if same and type(a) is type(b) else f"values: {a!r}, PyTorch {b!r}"
    if isinstance(b, bool | int | str | type(None)):
        return "" if a == b and type(a) is type(b) else f"values: {a!r}, PyTorch {b!r}"
    mine, other = str(a).replace("tapegrad", "torch"), str(b)
    return "" if mine == other else f"values: {mine}, PyTorch {other}"


def difference_of_values(a, b, dtype, rule):
    if b.dtype.kind not in "fc":
        wrong = a != b
    else:
        relative, absolute = (rule.factor * bound for bound in BOUNDS.get(dtype, BOUNDS["float32"]))
        finite = np.abs(b[np.isfinite(b)])
        absolute += rule.spread * relative * (float(finite.max()) if finite.size else 0.0)
        if a.dtype.kind == "c":
            wrong = parts_differ(a.real, b.real, np.abs(b), relative, absolute)
            wrong |= parts_differ(a.imag, b.imag, np.abs(b), relative, absolute)
        else:
            wrong = parts_differ(a, b, np.abs(b), relative, absolute)
        if not rule.infinities:
            wrong &= np.isfinite(b) & (np.isfinite(a) if a.dtype.kind == "c" else True)
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return f"values: {count} of {wrong.size}, first {a[place]!r}, PyTorch {b[place]!r}"


def parts_differ(a, b, size, relative, absolute):
    with np.errstate(all="ignore"):
        a, b, size = (x.astype(np.float64) for x in (a, b, size))
        close = np.abs(a - b) <= absolute + relative * np.where(np.isfinite(size), size, 0)
    return ~(close | (a == b) | (np.isnan(a) & np.isnan(b)))


__all__ = [
    "MissingName",
    "Refused",
    "Rule",
    "attempt",
    "difference",
    "flat",
    "is_tensor",
    "name_of",
]
