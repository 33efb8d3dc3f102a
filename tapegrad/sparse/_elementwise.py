"""Element by element: what leaves zeros zero, sums, products."""

from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import sparse_coo
from tapegrad.sparse._convert import coalesce, coalesced_parts, to_dense, to_layout
from tapegrad.sparse._errors import layout_name
from tapegrad.sparse._history import build, is_sparse, parts_of, values_of
from tapegrad.sparse._order import flat_places, places_among
from tapegrad.sparse._parts import Parts
from tapegrad.sparse._table import RULES, rule

__all__ = ["add", "mul", "write"]

# f(0) = 0: only stored elements change. Those of the first line are linear, so terms stay apart.
LINEAR = ("neg", "negative", "deg2rad", "rad2deg")
UNARY = (
    "abs", "absolute", "sqrt", "square", "sin", "sinh", "asin", "arcsin", "asinh", "arcsinh",
    "atan", "arctan", "atanh", "arctanh", "tan", "tanh", "ceil", "floor", "round", "trunc", "fix",
    "frac", "sign", "sgn", "signbit", "expm1", "log1p", "erf", "erfinv", "relu", "isnan", "isinf",
    "isposinf", "isneginf", "nan_to_num", "angle", "conj_physical",
)  # fmt: skip


def map_values(x: Tensor, function: Callable[[Tensor], Tensor], is_linear: bool = False) -> Tensor:
    """Return the tensor with a function applied to its values."""
    parts, values = (parts_of(x), values_of(x)) if is_linear else coalesced_parts(x)
    return build(parts, function(values), x.shape)


def write(x: Tensor, result: Tensor, name: str) -> Tensor:
    """Replace the parts of a tensor by those of a result: every in-place op ends here."""
    if _C.is_grad_enabled() and (x.requires_grad or result.requires_grad):
        raise NotImplementedError(
            f"{name}: in-place ops on sparse tensors are not recorded; use the form that returns a "
            "new tensor, or torch.no_grad()"
        )
    if result.shape != x.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(x.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    parts = parts_of(result)
    if result.dtype is not x.dtype:
        if not _can_cast(result.dtype, x.dtype):
            raise RuntimeError(
                f"{name}: result type {result.dtype} can't be cast to the desired output type "
                f"{x.dtype}"
            )
        parts = parts.with_values(parts.values.to(x.dtype))
    parts_of(x).replace(parts)
    _C._sparse_wrote(name, x)
    return x


def _can_cast(source: Any, target: Any) -> bool:
    from tapegrad._composed.scaling import can_cast

    return can_cast(source, target)


def _unary(name: str) -> None:
    method = getattr(Tensor, name, None)
    function = method if callable(method) else getattr(_C, name)
    is_linear = name in LINEAR

    def of_sparse(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return map_values(input, lambda values: function(values, *args, **kwargs), is_linear)

    def inplace(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not is_linear and not parts_of(input).coalesced:
            raise RuntimeError(f"{name}_ requires coalesced input")
        return write(input, of_sparse(input, *args, **kwargs), name + "_")

    of_sparse.__name__ = name
    RULES[name] = of_sparse
    if hasattr(Tensor, name + "_"):
        inplace.__name__ = name + "_"
        RULES[name + "_"] = inplace


for _name in (*LINEAR, *UNARY):
    _unary(_name)


@rule("positive")
def positive(input: Tensor) -> Tensor:
    return input


@rule("conj", "resolve_conj")
def conj(input: Tensor) -> Tensor:
    return map_values(input, lambda v: v.conj(), True) if input.dtype.is_complex else input


@rule("resolve_neg")
def resolve_neg(input: Tensor) -> Tensor:
    return input


@rule("pow")
def pow(input: Any, exponent: Any) -> Tensor:
    if not is_sparse(input) or is_sparse(exponent) or not _is_number(exponent):
        raise NotImplementedError(
            "pow: expected a sparse tensor to the power of a number; call .to_dense() first"
        )
    power = exponent.item() if isinstance(exponent, Tensor) else exponent
    if not power > 0:
        raise NotImplementedError(
            f"pow: zeros to the power of {power} are not zero; call .to_dense() first"
        )
    return map_values(input, lambda values: values.pow(power))


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | complex) or (
        isinstance(x, Tensor) and not is_sparse(x) and x.dim() == 0
    )


def _same_layout(name: str, a: Tensor, b: Tensor) -> Any:
    if a.layout is not b.layout:
        raise RuntimeError(
            f"{name}: expected operands of one layout, got {layout_name(a.layout)} and "
            f"{layout_name(b.layout)}; convert one of them"
        )
    return a.layout


def _in_layout(x: Tensor, layout: Any) -> Tensor:
    return x if layout is sparse_coo else to_layout(x, layout)


def _coo(x: Tensor) -> Tensor:
    return x if x.layout is sparse_coo else x.to_sparse()


# ---- sums


@rule("add")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return the sum: sparse of two sparse tensors, dense of a dense one and a sparse one."""
    if not is_sparse(other) or (is_sparse(input) and not is_sparse(other)):
        if isinstance(other, Tensor) and input.layout is not sparse_coo:
            return add(other if alpha == 1 else other * alpha, input)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not is_sparse(input):
        return _dense_plus_sparse(input, other, alpha)
    if input.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(input.shape)} != "
            f"{list(other.shape)}"
        )
    layout = _same_layout("add", input, other)
    ours, theirs = parts_of(input), parts_of(other)
    dtype = _C.promote_types(input.dtype, other.dtype)
    _check_alpha(alpha, dtype)
    a, b = values_of(input).to(dtype), values_of(other).to(dtype)
    b = b if alpha == 1 else b * alpha
    if ours.same_places(theirs):
        return build(ours, a + b, input.shape)
    if layout is not sparse_coo:
        return to_layout(add(_coo(input), _coo(other), alpha=alpha), layout)
    assert ours.indices is not None and theirs.indices is not None
    if ours.indices.shape[0] != theirs.indices.shape[0]:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same number of sparse dimensions, but "
            f"{ours.indices.shape[0]} != {theirs.indices.shape[0]}"
        )
    indices = _C.cat([ours.indices, theirs.indices], 1)
    joined = Parts(sparse_coo, a.detach(), indices, coalesced=False)
    result = build(joined, _C.cat([a, b]), input.shape)
    return coalesce(result) if ours.coalesced and theirs.coalesced else result


def _check_alpha(alpha: Any, dtype: Any) -> None:
    if isinstance(alpha, float) and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            "add: for integral input tensors, argument alpha must not be a floating point number"
        )


def _dense_plus_sparse(dense: Any, x: Tensor, alpha: Any) -> Tensor:
    if not isinstance(dense, Tensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if dense.shape != x.shape:
        raise RuntimeError(
            f"add: expected 'other' to have same size as self, but {list(x.shape)} != "
            f"{list(dense.shape)}"
        )
    dtype = _C.promote_types(dense.dtype, x.dtype)
    _check_alpha(alpha, dtype)
    return _scattered(dense.to(dtype), x, alpha)


def _scattered(dense: Tensor, x: Tensor, alpha: Any) -> Tensor:
    parts, values = parts_of(x), values_of(x).to(dense.dtype)
    indices = parts.coordinates(x.shape)
    count = indices.shape[0]
    rows = 1
    for size in x.shape[:count]:
        rows *= size
    flat = dense.reshape(rows, *x.shape[count:])
    return flat.index_add(0, flat_places(indices, x.shape), values, alpha=alpha).reshape(x.shape)


@rule("add_")
def add_(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    if is_sparse(input):
        return write(input, add(input, other, alpha=alpha), "add_")
    if input.shape != other.shape:
        raise RuntimeError(
            f"add_: expected 'other' to have same size as self, but {list(other.shape)} != "
            f"{list(input.shape)}"
        )
    if _C.is_grad_enabled() and (input.requires_grad or other.requires_grad):
        return input.copy_(add(input.clone(), other, alpha=alpha))
    parts = parts_of(other)
    indices = parts.coordinates(other.shape)
    count = indices.shape[0]
    if not input.is_contiguous():
        return input.copy_(add(input, other, alpha=alpha))
    rows = 1
    for size in input.shape[:count]:
        rows *= size
    flat = input.detach().view(rows, *input.shape[count:])
    if not _can_cast(parts.values.dtype, input.dtype):
        raise RuntimeError(
            f"add_: result type {parts.values.dtype} can't be cast to the desired output type "
            f"{input.dtype}"
        )
    flat.index_add_(0, flat_places(indices, other.shape), parts.values.to(input.dtype), alpha=alpha)
    return input


@rule("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return add(input, other, alpha=-alpha)


@rule("sub_", "subtract_")
def sub_(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return add_(input, other, alpha=-alpha)


@rule("rsub")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return add(other, input, alpha=-alpha)


# ---- products


@rule("mul", "multiply")
def mul(input: Any, other: Any) -> Tensor:
    """Return the product, which is sparse."""
    if is_sparse(input) and is_sparse(other):
        return _product_of_sparse(input, other)
    x, factor = (input, other) if is_sparse(input) else (other, input)
    if _is_number(factor):
        return map_values(x, lambda values: values * factor, True)
    if not isinstance(factor, Tensor):
        raise TypeError(
            f"mul(): argument 'other' must be Tensor or Number, not {type(factor).__name__}"
        )
    if factor.dim() > x.dim():
        raise NotImplementedError(
            f"mul: a product of shape {list(factor.shape)} is larger than the sparse operand of "
            f"shape {list(x.shape)}; call .to_dense() first"
        )
    try:
        wide = factor.broadcast_to(x.shape)
    except RuntimeError:
        raise RuntimeError(
            f"mul(sparse, dense): the shape {list(factor.shape)} of the dense operand does not "
            f"broadcast to that of the sparse one, {list(x.shape)}"
        ) from None
    parts, values = parts_of(x), values_of(x)
    return build(parts, values * _elements(wide, parts, x.shape), x.shape)


def _elements(wide: Tensor, parts: Parts, shape: Any) -> Tensor:
    """Return elements of a tensor that may be expanded, without laying it out."""
    indices = parts.coordinates(shape)
    count = indices.shape[0]
    return wide[tuple(indices.unbind(0))] if count else wide.unsqueeze(0)


def _product_of_sparse(a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:
        raise RuntimeError(
            f"mul operands have incompatible sizes: {list(a.shape)} and {list(b.shape)}"
        )
    layout = _same_layout("mul", a, b)
    dtype = _C.promote_types(a.dtype, b.dtype)
    ours, x = coalesced_parts(_coo(a))
    theirs, y = coalesced_parts(_coo(b))
    assert ours.indices is not None and theirs.indices is not None
    if ours.indices.shape[0] != theirs.indices.shape[0]:
        raise NotImplementedError(
            "mul: expected as many sparse dimensions in both operands, got "
            f"{ours.indices.shape[0]} and {theirs.indices.shape[0]}"
        )
    found, place = places_among(
        flat_places(theirs.indices, a.shape), flat_places(ours.indices, a.shape)
    )
    kept = found.nonzero().squeeze(1)
    place = place.index_select(0, kept)
    values = x.index_select(0, kept).to(dtype) * y.index_select(0, place).to(dtype)
    parts = Parts(sparse_coo, values.detach(), ours.indices.index_select(1, kept))
    return _in_layout(build(parts, values, a.shape), layout)


@rule("mul_", "multiply_")
def mul_(input: Any, other: Any) -> Tensor:
    result = mul(input, other)
    if is_sparse(input):
        return write(input, result, "mul_")
    return input.copy_(to_dense(result))


def _divisor(name: str, input: Any, other: Any) -> None:
    if not is_sparse(input) or not _is_number(other):
        shape = list(other.shape) if isinstance(other, Tensor) else other
        raise RuntimeError(
            f"{name}: Sparse division requires a scalar or zero-dim dense tensor divisor (got "
            f"shape {shape} for divisor)"
        )


@rule("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: Any = None) -> Tensor:
    _divisor("div", input, other)
    return map_values(
        input,
        lambda values: values.div(other, rounding_mode=rounding_mode),
        rounding_mode is None,
    )


@rule("div_", "divide_", "true_divide_")
def div_(input: Any, other: Any, *, rounding_mode: Any = None) -> Tensor:
    return write(input, div(input, other, rounding_mode=rounding_mode), "div_")


@rule("floor_divide")
def floor_divide(input: Any, other: Any) -> Tensor:
    _divisor("floor_divide", input, other)
    return map_values(input, lambda values: values.floor_divide(other))


@rule("floor_divide_")
def floor_divide_(input: Any, other: Any) -> Tensor:
    return write(input, floor_divide(input, other), "floor_divide_")


# ---- gradients


def add_gradients(a: Tensor, b: Tensor, recorded: bool = False) -> Tensor:
    """Return the sum of two gradients of one tensor, of which at least one is sparse."""
    if is_sparse(a) and is_sparse(b):
        if a.layout is b.layout and (
            parts_of(a).coordinates(a.shape).shape[0] == parts_of(b).coordinates(b.shape).shape[0]
        ):
            return add(a, b)
        return add(_coo(a), _coo(b)) if _fits(a, b) else add(to_dense(a), b)
    return add(b, a) if is_sparse(a) else add(a, b)


def _fits(a: Tensor, b: Tensor) -> bool:
    return parts_of(a).coordinates(a.shape).shape[0] == parts_of(b).coordinates(b.shape).shape[0]


def accumulate(grad: Tensor | None, new: Tensor, create_graph: bool) -> Tensor:
    """Return what a leaf's gradient becomes when another one arrives."""
    if grad is None:
        if create_graph and new.requires_grad:
            return new
        # The values may be memory of somebody else's.
        parts = parts_of(new)
        return build(parts, parts.values.clone(), new.shape)
    if create_graph or grad.requires_grad or is_sparse(grad) is not is_sparse(new):
        if not create_graph and not grad.requires_grad and not is_sparse(grad):
            return add_(grad, new)
        return add_gradients(grad, new)
    return write(grad, add_gradients(grad, new), "add_")
