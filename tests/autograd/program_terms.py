"""Names, numbers and geometry that the parts of the program writer share."""

import re

import numpy as np

NAME = re.compile(r"\b[vg]\d+\b")
NUMBERS = (2, 0.5, -1.5, 3)
MARGIN = 1e-3


class NoFit(LookupError):
    """Raised when a drawn statement has no operand that fits; the caller draws again."""


def require(condition):
    if not condition:
        raise NoFit


def base_of(target):
    """Return the variable that an expression such as ``v3[0].t()`` starts from."""
    return NAME.match(target).group()


def is_expanded(value):
    return any(
        step == 0 and size > 1 for step, size in zip(value.stride(), value.shape, strict=True)
    )


def is_dense(value):
    """Whether every element has a place of its own and there are no gaps, in whatever order."""
    expected = 1
    for step, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size < 2:
            continue
        if step != expected:
            return False
        expected *= size
    return True


def address(value):
    """Return what is the same for tensors that share memory."""
    return value.untyped_storage().data_ptr()


def places(value):
    """Return where in its storage each element of a tensor lies."""
    result = np.full((), value.storage_offset())
    for step, size in zip(value.stride(), value.shape, strict=True):
        result = result[..., None] + step * np.arange(size)
    return result
