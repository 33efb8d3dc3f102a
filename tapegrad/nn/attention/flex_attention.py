"""Attention with functions of scores: refused in words. Masks are tensors, or ``is_causal``.

Packages import these names and ask whether a mask is a `BlockMask`: none is.
"""

from typing import NamedTuple

from tapegrad._refused import Refused, refused

__all__ = ["AuxRequest", "BlockMask", "create_block_mask", "create_mask", "flex_attention"]

_WHY = (
    "attention with functions of scores is not supported; give scaled_dot_product_attention a mask "
    "that is a tensor, or is_causal"
)
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What `flex_attention` is asked to return besides the output."""

    lse: bool = False
    max_scores: bool = False


class BlockMask(Refused):
    """Refuses to be made. No mask is one, so that ``isinstance`` answers."""

    _why = _WHY


create_block_mask = refused("create_block_mask", _WHY)
create_mask = refused("create_mask", _WHY)
flex_attention = refused("flex_attention", _WHY)
