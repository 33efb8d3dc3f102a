"""Functions that act element by element."""

from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.compat.array_api._dtypes import promoted


def _one(name: str, op: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor, /) -> Tensor:
        return op(x)

    return _named(function, name, f"Return {name} of each element of a tensor.")


def _two(name: str, op: Callable[..., Tensor]) -> Callable[[Any, Any], Tensor]:
    def function(x1: Any, x2: Any, /) -> Tensor:
        return op(*promoted(x1, x2))

    text = f"Return {name} of the elements of two tensors, or of a tensor and a Python number."
    return _named(function, name, text)


def _named(function: Any, name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def _of_floats(name: str, op: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    # Rounds: an integer is its own, a copy of which is returned.
    def function(x: Tensor, /) -> Tensor:
        return op(x) if x.dtype.is_floating_point else x.clone()

    return _named(function, name, f"Return {name} of each element of a tensor.")


def _sign(x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        return torch.sgn(x)
    if x.dtype.is_floating_point:
        return torch.where(torch.isnan(x), x, torch.sign(x))
    return torch.sign(x)


def _conj(x: Tensor) -> Tensor:
    return torch.conj(x).resolve_conj() if x.dtype.is_complex else x.clone()


def round(x: Tensor, /) -> Tensor:
    """Return the integers nearest to the elements of a tensor, even ones of two."""
    if x.dtype.is_complex:
        return torch.complex(torch.round(x.real), torch.round(x.imag))
    return torch.round(x) if x.dtype.is_floating_point else x.clone()


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Return a tensor whose elements are held between bounds; its dtype is that of ``x``.

    Args:
        x: the tensor.
        min: the lower bound, a number or a tensor.
        max: the upper bound, a number or a tensor.
    """
    given = [each for each in (min, max) if each is not None]
    if not given:
        return x.clone()
    bounds = [each for each in given if isinstance(each, Tensor)]
    shape = torch.broadcast_shapes(x.shape, *(each.shape for each in bounds))
    result = x.expand(shape)
    if min is not None:
        result = torch.maximum(result, _bound(min, x))
    if max is not None:
        result = torch.minimum(result, _bound(max, x))
    return result


def _bound(bound: Any, x: Tensor) -> Tensor:
    if isinstance(bound, Tensor):
        return bound.to(x.dtype)
    if not x.dtype.is_floating_point and isinstance(bound, (int, float)):
        limits = torch.iinfo(x.dtype)  # a bound beyond them bounds nothing
        bound = max(limits.min, min(limits.max, bound))
    return torch.tensor(bound, dtype=x.dtype, device=x.device)


abs = _one("abs", torch.abs)
acos = _one("acos", torch.acos)
acosh = _one("acosh", torch.acosh)
asin = _one("asin", torch.asin)
asinh = _one("asinh", torch.asinh)
atan = _one("atan", torch.atan)
atanh = _one("atanh", torch.atanh)
bitwise_invert = _one("bitwise_invert", torch.bitwise_not)
ceil = _of_floats("ceil", torch.ceil)
conj = _one("conj", _conj)
cos = _one("cos", torch.cos)
cosh = _one("cosh", torch.cosh)
exp = _one("exp", torch.exp)
expm1 = _one("expm1", torch.expm1)
floor = _of_floats("floor", torch.floor)
imag = _one("imag", torch.imag)
isfinite = _one("isfinite", torch.isfinite)
isinf = _one("isinf", torch.isinf)
isnan = _one("isnan", torch.isnan)
log = _one("log", torch.log)
log10 = _one("log10", torch.log10)
log1p = _one("log1p", torch.log1p)
log2 = _one("log2", torch.log2)
logical_not = _one("logical_not", torch.logical_not)
negative = _one("negative", torch.neg)
positive = _one("positive", torch.clone)
real = _one("real", torch.real)
reciprocal = _one("reciprocal", torch.reciprocal)
sign = _one("sign", _sign)
signbit = _one("signbit", torch.signbit)
sin = _one("sin", torch.sin)
sinh = _one("sinh", torch.sinh)
sqrt = _one("sqrt", torch.sqrt)
square = _one("square", torch.square)
tan = _one("tan", torch.tan)
tanh = _one("tanh", torch.tanh)
trunc = _of_floats("trunc", torch.trunc)

add = _two("add", torch.add)
atan2 = _two("atan2", torch.atan2)
bitwise_and = _two("bitwise_and", torch.bitwise_and)
bitwise_left_shift = _two("bitwise_left_shift", torch.bitwise_left_shift)
bitwise_or = _two("bitwise_or", torch.bitwise_or)
bitwise_right_shift = _two("bitwise_right_shift", torch.bitwise_right_shift)
bitwise_xor = _two("bitwise_xor", torch.bitwise_xor)
copysign = _two("copysign", torch.copysign)
divide = _two("divide", torch.divide)
equal = _two("equal", torch.eq)
floor_divide = _two("floor_divide", torch.floor_divide)
greater = _two("greater", torch.gt)
greater_equal = _two("greater_equal", torch.ge)
hypot = _two("hypot", torch.hypot)
less = _two("less", torch.lt)
less_equal = _two("less_equal", torch.le)
logaddexp = _two("logaddexp", torch.logaddexp)
logical_and = _two("logical_and", torch.logical_and)
logical_or = _two("logical_or", torch.logical_or)
logical_xor = _two("logical_xor", torch.logical_xor)
maximum = _two("maximum", torch.maximum)
minimum = _two("minimum", torch.minimum)
multiply = _two("multiply", torch.mul)
nextafter = _two("nextafter", torch.nextafter)
not_equal = _two("not_equal", torch.ne)
pow = _two("pow", torch.pow)
remainder = _two("remainder", torch.remainder)
subtract = _two("subtract", torch.sub)
