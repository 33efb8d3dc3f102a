"""Triangular masks of attention that are told apart by a name, not by their elements."""

import warnings
from enum import IntEnum, auto
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Where the diagonal of a mask that is not square ends.

    UPPER_LEFT: query i sees keys 0 to i, as with ``is_causal=True``.
    LOWER_RIGHT: the last query sees all keys, and each one before it one less.
    """

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A triangular mask for `scaled_dot_product_attention`, of any device.

    Args:
        variant: a `CausalVariant`.
        seq_len_q: how many queries there are.
        seq_len_kv: how many keys.

    Example:
        >>> from tapegrad.nn.attention.bias import causal_lower_right
        >>> causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> "CausalBias":
        return _C.empty(0).as_subclass(cls)  # type: ignore[return-value]

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias leaves no key to the first queries when seq_len_q > "
                "seq_len_kv: PyTorch gives them NaN, and tapegrad zeros",
                stacklevel=2,
            )

    def _materialize(self, device: Any = None) -> Tensor:
        """Return the mask as a tensor of bools."""
        lower = self.variant == CausalVariant.LOWER_RIGHT
        whole = _C.ones((self.seq_len_q, self.seq_len_kv), dtype=_C.bool, device=device)
        return whole.tril(self.seq_len_kv - self.seq_len_q if lower else 0)

    def attention(
        self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool, **options: Any
    ) -> Tensor:
        """Return `scaled_dot_product_attention` with this mask."""
        from tapegrad.nn.functional import scaled_dot_product_attention

        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        if self.seq_len_q == self.seq_len_kv or self.variant == CausalVariant.UPPER_LEFT:
            return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
        mask = self._materialize(query.device)
        return scaled_dot_product_attention(query, key, value, mask, **options)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """Return the mask of ``is_causal=True``.

    Args:
        size: how many queries and how many keys there are.
    """
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return the mask with which the last query sees all keys.

    Args:
        size: how many queries and how many keys there are.
    """
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
