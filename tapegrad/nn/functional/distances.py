"""Distances and similarities along a dimension."""

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.distances import cdist
from tapegrad._composed.shape import broadcast_tensors
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.functional._arrays import refuse_arrays

__all__ = ["cosine_similarity", "normalize", "pairwise_distance", "pdist"]


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Return the input divided by its p-norms along a dimension.

    Args:
        input: a tensor.
        p: the p of the norm.
        dim: the dimension.
        eps: the least divisor.
        out: where the result is written to.

    Returns:
        The scaled input.

    Example:
        >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    divisor = input.norm(p, dim, True).clamp_min(eps).expand_as(input)
    return input / divisor if out is None else _C.div(input, divisor, out=out)


@casts(cuda="float32")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along a dimension.

    Args:
        x1: a tensor.
        x2: another that broadcasts with it.
        dim: the dimension of the vectors.
        eps: the least norm that is divided by.

    Returns:
        The cosines, without the dimension.

    Example:
        >>> torch.nn.functional.cosine_similarity(torch.ones(1, 2), torch.tensor([[2.0, 0.0]]))
        tensor([0.7071])
    """
    if not (isinstance(x1, Tensor) and isinstance(x2, Tensor)):
        refuse_arrays("cosine_similarity", x1=x1, x2=x2)
    if x1.is_complex() or x2.is_complex():
        raise RuntimeError(
            f"cosine_similarity: expected a floating dtype, got {x1.dtype} and {x2.dtype}"
        )
    x1, x2 = broadcast_tensors(x1, x2)
    norm1, norm2 = (x.norm(2, dim, True).clone() for x in (x1, x2))
    # The bound is no part of the derivative, as in PyTorch.
    with no_grad():
        norm1.clamp_min_(eps)
        norm2.clamp_min_(eps)
    return ((x1 / norm1) * (x2 / norm2)).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the p-norms of the differences along the last dimension.

    Args:
        x1: a tensor.
        x2: another that broadcasts with it.
        p: the p of the norm.
        eps: added to every difference.
        keepdim: whether the last dimension is kept with size 1.

    Returns:
        The distances.

    Example:
        >>> torch.nn.functional.pairwise_distance(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """
    if not (isinstance(x1, Tensor) and isinstance(x2, Tensor)):
        refuse_arrays("pairwise_distance", x1=x1, x2=x2)
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@casts(cuda="float32")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norms of the differences between all pairs of rows.

    Args:
        input: a tensor of shape ``(N, M)``.
        p: the p of the norm.

    Returns:
        The ``N * (N - 1) / 2`` distances: of row 0 and all behind it, of row 1 and so on.

    Example:
        >>> torch.nn.functional.pdist(torch.tensor([[0.0], [1.0], [3.0]]))
        tensor([1., 3., 2.])
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype}")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    rows = input.shape[0]
    all_pairs = cdist(input, input, p, compute_mode="donot_use_mm_for_euclid_dist")
    first, second = _C.ones((rows, rows), dtype=_C.bool).triu(1).nonzero().unbind(1)
    return all_pairs.reshape(-1).index_select(0, first * rows + second)
