"""Operations over lists of tensors, `_foreach_add_` and its relatives, as optimizers call them.

Each is the operation of that name over the tensors one after the other. An operand beside the list
is one number or 0-d tensor for all, or a list with one number or one tensor for each.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["foreach"]

_UNARY = frozenset(
    (
        *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1"),
        *("floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal"),
        *("round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        "zero",
    )
)
_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "pow": "pow",
    "maximum": "maximum",
    "minimum": "minimum",
    "clamp_min": "maximum",
    "clamp_max": "minimum",
}
_PRODUCTS = frozenset(("addcmul", "addcdiv"))


def foreach(name: str) -> Callable[..., Any]:
    """Return the function that is called ``_foreach_NAME`` or ``_foreach_NAME_``.

    Raises:
        AttributeError: there is none.
    """
    base, inplace = name.removesuffix("_"), name.endswith("_")
    maker = _maker(base, inplace)
    if maker is None or (base == "zero" and not inplace):
        raise AttributeError(f"module 'tapegrad' has no attribute '_foreach_{name}'")
    maker.__name__ = maker.__qualname__ = f"_foreach_{name}"
    return maker


def _maker(base: str, inplace: bool) -> Callable[..., Any] | None:
    if base in _UNARY:
        return _unary(base, inplace)
    if base in _BINARY:
        return _binary(base, inplace)
    if base in _PRODUCTS:
        return _product(base, inplace)
    if base == "lerp":
        return _lerp(inplace)
    if base == "copy":
        return _copy_ if inplace else None
    return {"norm": _norm, "max": _max}.get(base) if not inplace else None


def _answer(results: list[Tensor], inplace: bool) -> Any:
    return results if inplace else tuple(results)


def _column(name: str, operand: Any, count: int) -> list[Any]:
    """Return one operand for each tensor."""
    if not isinstance(operand, (list, tuple)):
        return [operand] * count
    if len(operand) != count:
        raise RuntimeError(
            f"_foreach_{name}: Tensor lists must have the same number of tensors, got {count} and "
            f"{len(operand)}"
        )
    return list(operand)


def _method(name: str, inplace: bool) -> Callable[..., Tensor]:
    found: Callable[..., Tensor] = getattr(Tensor, name + "_" * inplace)
    return found


def _expect_tensors(name: str, tensors: Any) -> Sequence[Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(x, Tensor) for x in tensors):
        raise TypeError(f"_foreach_{name}: expected a list or tuple of Tensors first")
    if not tensors:
        raise RuntimeError(f"_foreach_{name}: Tensor list must have at least one tensor.")
    return tensors


def _unary(name: str, inplace: bool) -> Callable[..., Any]:
    method = _method(name, inplace)

    def run(self: Any) -> Any:
        """The operation on every tensor."""
        return _answer([method(x) for x in _expect_tensors(name, self)], inplace)

    return run


def _binary(name: str, inplace: bool) -> Callable[..., Any]:
    operation = getattr(_C, _BINARY[name])

    def run(self: Any, other: Any, *, alpha: Any = None) -> Any:
        """The operation on every tensor and its operand."""
        if name == "pow" and not isinstance(self, (list, tuple)):
            return tuple(_C.pow(self, x) for x in _expect_tensors(name, other))
        tensors = _expect_tensors(name, self)
        if alpha is not None and name not in ("add", "sub"):
            raise TypeError(f"_foreach_{name}() got an unexpected keyword argument 'alpha'")
        extra = {} if alpha is None else {"alpha": alpha}
        pairs = zip(tensors, _column(name, other, len(tensors)), strict=True)
        if name in ("maximum", "minimum", "clamp_min", "clamp_max"):
            results = [_limited(_BINARY[name], x, y) for x, y in pairs]
        elif inplace:
            results = [_method(name, True)(x, y, **extra) for x, y in pairs]
        else:
            results = [operation(x, y, **extra) for x, y in pairs]
            return tuple(results)
        if inplace and name in ("maximum", "minimum", "clamp_min", "clamp_max"):
            results = [x.copy_(result) for x, result in zip(tensors, results, strict=True)]
        return _answer(results, inplace)

    return run


def _limited(name: str, x: Tensor, limit: Any) -> Tensor:
    if isinstance(limit, Tensor):
        return getattr(_C, name)(x, limit)  # type: ignore[no-any-return]
    return x.clamp_min(limit) if name == "maximum" else x.clamp_max(limit)


def _product(name: str, inplace: bool) -> Callable[..., Any]:
    method = _method(name, inplace)

    def run(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        """Every tensor plus `value` times the product or quotient of its two operands."""
        tensors = _expect_tensors(name, self)
        factors = value if scalars is None else scalars
        if isinstance(factors, Tensor):
            factors = factors.tolist()
        columns = (_column(name, operand, len(tensors)) for operand in (tensor1, tensor2, factors))
        rows = zip(tensors, *columns, strict=True)
        return _answer([method(x, a, b, value=factor) for x, a, b, factor in rows], inplace)

    return run


def _lerp(inplace: bool) -> Callable[..., Any]:
    method = _method("lerp", inplace)

    def run(self: Any, tensors1: Any, weight: Any) -> Any:
        """Every tensor moved towards its operand by a weight."""
        tensors = _expect_tensors("lerp", self)
        ends, weights = (_column("lerp", operand, len(tensors)) for operand in (tensors1, weight))
        rows = zip(tensors, ends, weights, strict=True)
        return _answer([method(x, end, part) for x, end, part in rows], inplace)

    return run


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy every tensor into that of the other list."""
    tensors = _expect_tensors("copy_", self)
    pairs = zip(tensors, _column("copy_", src, len(tensors)), strict=True)
    return [x.copy_(source, non_blocking) for x, source in pairs]


def _norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    """The norm of every tensor."""
    tensors = _expect_tensors("norm", self)
    return tuple((x if dtype is None else x.to(dtype)).norm(ord) for x in tensors)


def _max(self: Any) -> Any:
    """The largest element of every tensor."""
    return tuple(x.max() for x in _expect_tensors("max", self))
