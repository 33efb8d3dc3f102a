"""Distances between vectors and between tensors."""

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.arguments import expect_tensor
from tapegrad._composed.registry import function, method

__all__ = ["cdist", "dist"]


@function
@method
@casts(cuda="float32")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference of two tensors.

    Args:
        input: a tensor.
        other: a tensor whose shape broadcasts.
        p: the order of the norm.

    Returns:
        A 0-d tensor.

    Example:
        >>> torch.dist(torch.tensor([0.0, 3.0]), torch.tensor([4.0, 0.0]))
        tensor(5.)
    """
    expect_tensor("dist", "input", input)
    expect_tensor("dist", "other", other)
    return (input - other).norm(p)


_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)

# Above this many vectors on either side the matrix product is the faster way.
_FEW_VECTORS = 25


@function
@casts(cpu="float32", cuda="float32")
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The p-norm distance between every vector of one collection and every one of another.

    Args:
        x1: vectors as rows, of shape (B, P, M).
        x2: vectors as rows, of shape (B, R, M).
        p: the order of the norm, at least 0.
        compute_mode: whether Euclidean distances come from a matrix product, which is faster and
            less exact for vectors that are close: when there are more than 25 on a side (the
            default), always, or never.

    Returns:
        The distances, of shape (B, P, R).

    Example:
        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    _check_cdist(x1, x2, p, compute_mode)
    many = x1.shape[-2] > _FEW_VECTORS or x2.shape[-2] > _FEW_VECTORS
    by_product = compute_mode == _MODES[1] or (compute_mode == _MODES[0] and many)
    if p == 2 and by_product:
        return _euclidean_by_product(x1, x2)
    # Vectors without elements are at distance 0 in every norm; the 2-norm is defined for them.
    order = p if x1.shape[-1] else 2
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(order, dim=-1)


def _check_cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: str) -> None:
    for name, x in (("x1", x1), ("x2", x2)):
        expect_tensor("cdist", name, x)
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist: expected a floating dtype for {name}, got {x.dtype}; call .float() first"
            )
        if x.dim() < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name.upper()} got: {x.dim()}D"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            "cdist: X1 and X2 must have the same number of columns. "
            f"X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if not p >= 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    if compute_mode not in _MODES:
        raise ValueError(f"cdist: expected compute_mode to be one of {_MODES}, got {compute_mode}")


def _euclidean_by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """``|a - b|^2 = |a|^2 + |b|^2 - 2 a.b``, for all pairs in one matrix product."""
    # Appended columns let the product add the squares as well: no large intermediate beside it.
    square1, square2 = (x.square().sum(-1, keepdim=True) for x in (x1, x2))
    left = _C.cat([x1 * -2, square1, _C.ones_like(square1)], dim=-1)
    right = _C.cat([x2, _C.ones_like(square2), square2], dim=-1)
    squared = left.matmul(right.transpose(-2, -1))
    # The constant takes the place of what rounding left at or below 0: the root has an infinite
    # slope there, and the gradient at distance 0 is 0 by definition.
    return _C.where(squared <= 0, squared.new_zeros(()), squared).sqrt()
