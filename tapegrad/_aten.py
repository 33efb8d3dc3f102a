"""Ops of `torch.ops.aten` that are functions nowhere else; packages name and call them."""

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad._C import Tensor

__all__ = ["ATEN"]


def _alias(self: Tensor) -> Tensor:
    return self.view(self.shape)


def _to_copy(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    if layout is not None and layout is not self.layout:
        raise NotImplementedError(
            f"_to_copy: another layout is not supported, got {layout}; use to_sparse or to_dense"
        )
    options = {} if memory_format is None else {"memory_format": memory_format}
    made = self.to(
        device=self.device if device is None else device,
        dtype=self.dtype if dtype is None else dtype,
        non_blocking=non_blocking,
        copy=True,
        **options,
    )
    return made.pin_memory() if pin_memory else made


def _slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    if not -self.dim() <= dim < self.dim():
        raise IndexError(
            f"slice: Dimension out of range (expected to be in range of [{-self.dim()}, "
            f"{self.dim() - 1}], but got {dim})"
        )
    index: list[Any] = [slice(None)] * self.dim()
    index[dim] = slice(start, end, step)
    return self[tuple(index)]


def _index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return self[tuple(slice(None) if each is None else each for each in indices)]


def _constant_pad_nd(self: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    from tapegrad.nn.functional import pad as padded

    return padded(self, list(pad), "constant", value)


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    return self.pin_memory()


def _sparse_addmm(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    from tapegrad import sparse

    return sparse.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _sparse_mm_reduce_impl(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    raise NotImplementedError(
        "_sparse_mm_reduce_impl: its second result, the places that the reduction took, is not "
        "there; use torch.sparse.mm(a, b, reduce)"
    )


ATEN: dict[str, Callable[..., Any]] = {
    "_local_scalar_dense": Tensor.item,
    "_pin_memory": _pin_memory,
    "_sparse_addmm": _sparse_addmm,
    "_sparse_mm_reduce_impl": _sparse_mm_reduce_impl,
    "_to_copy": _to_copy,
    "_unsafe_view": Tensor.view,
    "alias": _alias,
    "constant_pad_nd": _constant_pad_nd,
    "index": _index,
    "slice": _slice,
}
