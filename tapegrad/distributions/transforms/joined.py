"""Several transforms side by side."""

from collections.abc import Sequence
from typing import Any

import tapegrad as torch
from tapegrad import Tensor
from tapegrad.distributions import constraints
from tapegrad.distributions.transforms.base import Transform
from tapegrad.distributions.utils import _sum_rightmost, lazy_property


def _check_parts(tseq: Sequence[Transform]) -> None:
    assert all(isinstance(t, Transform) for t in tseq), (
        "All elements of tseq must be Transform instances"
    )


class CatTransform(Transform):
    """Transforms of parts of a dimension, joined as by `torch.cat`.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: how long their parts are, one by default.
        cache_size: 0 or 1.

    Example:
        >>> t = torch.distributions.transforms
        >>> both = t.CatTransform([t.ExpTransform(), t.AffineTransform(1.0, 1.0)], lengths=[2, 1])
        >>> both(torch.zeros(3))
        tensor([1., 1., 1.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        _check_parts(tseq)
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms), (
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
        )
        self.dim = dim

    @lazy_property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """How long the dimension is."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Tensor, name: str) -> list[Tensor]:
        assert -value.dim() <= self.dim < value.dim(), (
            f"dim {self.dim} out of range for tensor with {value.dim()} dimensions"
        )
        assert value.size(self.dim) == self.length, (
            f"{name}.size({self.dim}) = {value.size(self.dim)} must equal length {self.length}"
        )
        return list(torch.split(value, self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        parts = self._parts(x, "x")
        return torch.cat([t(p) for t, p in zip(self.transforms, parts, strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = self._parts(y, "y")
        return torch.cat([t.inv(p) for t, p in zip(self.transforms, parts, strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(x, "x"), self._parts(y, "y"), strict=True)
        terms = []
        for t, x_part, y_part in pairs:
            term = t.log_abs_det_jacobian(x_part, y_part)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        if dim < 0:
            return torch.cat(terms, dim=dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices of a dimension, joined as by `torch.stack`.

    Args:
        tseq: the transforms.
        dim: the dimension.
        cache_size: 0 or 1.

    Example:
        >>> t = torch.distributions.transforms
        >>> t.StackTransform([t.ExpTransform(), t.AffineTransform(2.0, 1.0)])(torch.zeros(2))
        tensor([1., 2.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        _check_parts(tseq)
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Tensor) -> list[Tensor]:
        return [z.select(self.dim, i) for i in range(z.size(self.dim))]

    def _slices(self, value: Tensor, name: str) -> list[Tensor]:
        assert -value.dim() <= self.dim < value.dim(), (
            f"dim {self.dim} out of range for tensor with {value.dim()} dimensions"
        )
        assert value.size(self.dim) == len(self.transforms), (
            f"{name}.size({self.dim}) = {value.size(self.dim)} must equal len(transforms) "
            f"{len(self.transforms)}"
        )
        return self._slice(value)

    def _call(self, x: Tensor) -> Tensor:
        slices = self._slices(x, "x")
        return torch.stack([t(s) for t, s in zip(self.transforms, slices, strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        slices = self._slices(y, "y")
        parts = [t.inv(s) for t, s in zip(self.transforms, slices, strict=True)]
        return torch.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._slices(x, "x"), self._slices(y, "y"), strict=True)
        terms = [t.log_abs_det_jacobian(x_slice, y_slice) for t, x_slice, y_slice in pairs]
        return torch.stack(terms, dim=self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
