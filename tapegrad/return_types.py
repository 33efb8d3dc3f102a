"""The named tuples that operations return, as torch.return_types.

Example:
    >>> torch.max(torch.tensor([1.0, 3.0]), dim=0)
    torch.return_types.max(
    values=tensor(3.),
    indices=tensor(1))
"""

from tapegrad._C import _return_types

globals().update(vars(_return_types))

__all__ = sorted(vars(_return_types))
