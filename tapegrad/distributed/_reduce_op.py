"""How values of several processes become one: `ReduceOp`."""

import enum
from typing import Any

from tapegrad._C import Tensor

__all__ = ["ReduceOp", "reduce_op", "supports_complex"]


class RedOpType(enum.IntEnum):
    """The kinds of reductions."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


_Kind = RedOpType


class ReduceOp:
    """A reduction: one of the kinds that are attributes of this class.

    Args:
        op: a kind.

    Example:
        >>> torch.distributed.ReduceOp.SUM
        <RedOpType.SUM: 0>
    """

    RedOpType: type[_Kind] = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM

    def __init__(self, op: "_Kind | ReduceOp", factor: "float | Tensor | None" = None) -> None:
        self.op = kind_of(op, "ReduceOp")
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReduceOp):
            return self.op == other.op
        return self.op == other if isinstance(other, RedOpType) else NotImplemented

    def __hash__(self) -> int:
        return int(self.op)

    def __repr__(self) -> str:
        return repr(self.op)


def _make_nccl_premul_sum(factor: float | Tensor) -> ReduceOp:
    """Return a sum of values that are multiplied by a factor first."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def kind_of(op: Any, name: str) -> RedOpType:
    """Return the kind of a reduction, given as a kind or a `ReduceOp`."""
    if isinstance(op, ReduceOp):
        return op.op
    if not isinstance(op, RedOpType):
        raise TypeError(f"{name}: expected op to be a ReduceOp, got {op!r} of {type(op).__name__}")
    return op


_NOT_OF_COMPLEX = frozenset(
    (RedOpType.MAX, RedOpType.MIN, RedOpType.PRODUCT, RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
)


def supports_complex(reduceOp: Any) -> bool:
    """Return whether a reduction treats the parts of complex numbers as it would real numbers.

    Args:
        reduceOp: a reduction.

    Example:
        >>> torch.distributed.supports_complex(torch.distributed.ReduceOp.MAX)
        False
    """
    return kind_of(reduceOp, "supports_complex") not in _NOT_OF_COMPLEX


class _OldNames:
    """The kinds under the name of old programs, with a warning."""

    def __getattribute__(self, name: str) -> Any:
        if name in RedOpType.__members__:
            import warnings

            warnings.warn(
                "`torch.distributed.reduce_op` is deprecated, please use "
                "`torch.distributed.ReduceOp` instead",
                FutureWarning,
                stacklevel=2,
            )
            return RedOpType[name]
        return object.__getattribute__(self, name)


reduce_op = _OldNames()
