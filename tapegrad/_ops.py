"""What ops there are: the records that dispatch, the tape and saved programs share."""

from typing import NamedTuple

from tapegrad import _C

__all__ = ["OpRecord", "ops"]


class OpRecord(NamedTuple):
    """What is known of an op below autograd.

    Attributes:
        name: its name, unique and stable.
        attributes: the names of the numbers that a call has besides its tensors. One with a star
            stands for as many as any other with one: the stride of every dimension.
        traits: ``elementwise`` (each element by itself), ``random``, ``overwrites`` (the result may
            take the place of the first operand), ``contracts`` (sums products).
        devices: where it has a kernel.
    """

    name: str
    attributes: tuple[str, ...]
    traits: tuple[str, ...]
    devices: tuple[str, ...]


def ops() -> list[OpRecord]:
    """Return the record of every op, by name.

    These are what a captured program is made of: kernels, forward and backward. Many functions are
    one of them, others are several, and views are none.

    Example:
        >>> [op for op in torch.ops() if op.name == "softmax"]
        [OpRecord(name='softmax', attributes=('dim',), traits=(), devices=('cpu',))]
    """
    return [OpRecord(*record) for record in _C._ops()]
