"""Comparing tensors, and asking simple questions about them."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor, takes_out
from tapegrad._composed.registry import function, method, question

__all__ = [
    "allclose",
    "equal",
    "is_nonzero",
    "is_tensor",
    "isclose",
    "isin",
]


@question
def is_tensor(obj: Any) -> bool:
    """Return whether an object is a tensor.

    Args:
        obj: any object.

    Returns:
        True for tensors and instances of subclasses.

    Example:
        >>> torch.is_tensor(torch.tensor(1)), torch.is_tensor(1)
        (True, False)
    """
    return isinstance(obj, Tensor)


@question
def typename(obj: Any) -> str:
    """Return the name of the type of an object: of a tensor, that of the class for its dtype.

    Args:
        obj: any object.

    Returns:
        The name with the module, without it for what is built in.

    Example:
        >>> torch.typename(torch.tensor([1.0])), torch.typename(1)
        ('torch.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", "") or ""
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


@function
@method
def is_nonzero(input: Tensor) -> bool:
    """Return whether the single element of a tensor is not zero.

    Args:
        input: a tensor with one element.

    Returns:
        The truth value of the element.

    Example:
        >>> torch.is_nonzero(torch.tensor([1.5]))
        True
    """
    expect_tensor("is_nonzero", "input", input)
    if input.numel() != 1:
        raise RuntimeError(f"is_nonzero: expected one element, got shape {tuple(input.shape)}")
    return bool(input.item())


@function
@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and equal elements.

    Args:
        input: a tensor.
        other: another tensor.

    Returns:
        One bool for the whole comparison; nan equals nothing.

    Example:
        >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
        True
    """
    expect_tensor("equal", "input", input)
    expect_tensor("equal", "other", other)
    return input.shape == other.shape and bool(input.eq(other).all())


@function
@method
def isclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """Compare element by element: ``|input - other| <= atol + rtol * |other|``.

    Args:
        input: a tensor.
        other: a tensor of the same dtype, whose shape broadcasts.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether nan is close to nan.

    Returns:
        A tensor of bool. Infinite values are close to themselves only.

    Example:
        >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0000001, 2.1]))
        tensor([ True, False])
    """
    expect_tensor("isclose", "input", input)
    expect_tensor("isclose", "other", other)
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"isclose: expected two tensors of one dtype, got {input.dtype} and {other.dtype}"
        )
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"isclose: expected {name} to be at least 0, got {tolerance}")
    close = input.eq(other)
    if equal_nan and (input.is_floating_point() or input.is_complex()):
        close = close.logical_or(input.isnan().logical_and(other.isnan()))
    if rtol == 0 and atol == 0:
        return close
    if input.dtype in (_C.bool, _C.uint16, _C.uint32, _C.uint64):
        input, other = input.to(_C.get_default_dtype()), other.to(_C.get_default_dtype())
    distance = (input - other).abs()
    within = distance.le((other * rtol).abs() + atol)
    return close.logical_or(within.logical_and(distance.isfinite()))


@function
@method
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Return whether all elements are close in the sense of `isclose`.

    Args:
        input: a tensor.
        other: a tensor of the same dtype, whose shape broadcasts.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether nan is close to nan.

    Returns:
        One bool for the whole comparison.

    Example:
        >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0000001]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


# Comparing with every test element costs their product; above this many, sorting costs less.
_FEW_TEST_ELEMENTS = 8


@function
@takes_out(exact=True)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return which elements occur among the test elements.

    Args:
        elements: a tensor or a number.
        test_elements: a tensor or a number.
        assume_unique: a promise that neither has duplicates; it changes no result.
        invert: return which elements do not occur.

    Returns:
        A tensor of bool of the shape of `elements`.

    Example:
        >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 3, 5]))
        tensor([False,  True,  True])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(
            "isin: expected elements or test_elements to be a Tensor, got "
            f"{type(elements).__name__} and {type(test_elements).__name__}"
        )
    for value in (elements, test_elements):
        if isinstance(value, bool) or getattr(value, "dtype", None) is _C.bool:
            raise RuntimeError(
                "isin: expected numbers, got bool; compare with == or convert with .int() first"
            )
    if not isinstance(test_elements, Tensor):  # A number takes the dtype of the elements.
        return elements.ne(test_elements) if invert else elements.eq(test_elements)
    elements = elements if isinstance(elements, Tensor) else _C.tensor(elements)
    wanted = test_elements.reshape(-1)
    if wanted.numel() <= _FEW_TEST_ELEMENTS:
        found = _C.zeros(elements.shape, dtype=_C.bool, device=elements.device)
        for each in wanted.unbind():  # as few passes: a new last dimension would be a slow one
            found = found.logical_or(elements.eq(each))
    else:
        dtype = _C.promote_types(elements.dtype, wanted.dtype)
        ordered, values = wanted.to(dtype).sort()[0], elements.to(dtype).contiguous()
        place = _C.searchsorted(ordered, values).clamp(max=ordered.numel() - 1)
        found = ordered.take(place).eq(values)
    return found.logical_not() if invert else found
