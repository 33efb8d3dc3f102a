"""What distributions share: broadcasting, properties that wait, logits and probabilities."""

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from numbers import Number
from typing import Any

import tapegrad as torch
from tapegrad import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return tensors and numbers as tensors of one shape.

    Numbers take dtype and device of the first tensor, or the default dtype where there is none.

    Example:
        >>> [x.shape for x in torch.distributions.utils.broadcast_all(torch.ones(2, 1), 3.0)]
        [torch.Size([2, 1]), torch.Size([2, 1])]
    """
    if not all(isinstance(value, (Tensor, Number)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    if not values:
        return ()
    options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
    for value in values:
        if isinstance(value, Tensor):
            options = {"dtype": value.dtype, "device": value.device}
            break
    tensors = [
        value if isinstance(value, Tensor) else torch.tensor(value, **options) for value in values
    ]
    return tuple(torch.broadcast_tensors(*tensors))


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return torch.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape((*value.shape[:-dim], -1)).sum(-1)


def _inf_where(condition: Tensor, value: Tensor) -> Tensor:
    return torch.where(condition, math.inf, value)


def _multigammaln(a: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`."""
    steps = 0.5 * torch.arange(p, dtype=a.dtype, device=a.device)
    return torch.lgamma(a.unsqueeze(-1) - steps).sum(-1) + 0.25 * p * (p - 1) * math.log(math.pi)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: by the sigmoid function if `is_binary`, else by softmax.

    Example:
        >>> torch.distributions.utils.logits_to_probs(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    if is_binary:
        return torch.sigmoid(logits)
    return torch.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Keep probabilities off 0 and 1 by the precision of their dtype.

    Example:
        >>> torch.distributions.utils.clamp_probs(torch.tensor([0.5, 0.0])) > 0
        tensor([True, True])
    """
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return logits: log odds if `is_binary`, else logarithms.

    Example:
        >>> torch.distributions.utils.probs_to_logits(torch.tensor([0.5]), is_binary=True)
        tensor([0.])
    """
    clamped = clamp_probs(probs)
    if is_binary:
        return torch.log(clamped) - torch.log1p(-clamped)
    return torch.log(clamped)


class lazy_property:
    """A property that is worked out when first asked for and kept from then on.

    Gradients are recorded also if it is asked for within `no_grad`.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows of a lazy property: documentation reads it as a property."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the entries of a matrix on and below a diagonal, row by row.

    Example:
        >>> torch.distributions.utils.tril_matrix_to_vec(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 3, 4])
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = torch.tril_indices(n, n, offset=diag, device=mat.device)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the matrix with these entries on and below a diagonal: the inverse of the former.

    Example:
        >>> torch.distributions.utils.vec_to_tril_matrix(torch.tensor([1, 3, 4]))
        tensor([[1, 0],
                [3, 4]])
    """
    # the positive root of D (D + 1) / 2 = length, shifted by the diagonal
    length = vec.shape[-1]
    n = (
        -(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5
    ) / 2
    eps = torch.finfo(torch.float32).eps
    if not round(n) - eps <= n <= round(n) + eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    size = round(n)
    rows, columns = torch.tril_indices(size, size, offset=diag, device=vec.device)
    flat = vec.new_zeros((*vec.shape[:-1], size * size))
    places = (rows * size + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape((*vec.shape[:-1], size, size))
