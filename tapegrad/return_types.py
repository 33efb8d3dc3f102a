"""The named tuples that operations return, as torch.return_types.

Example:
    >>> torch.max(torch.tensor([1.0, 3.0]), dim=0)
    torch.return_types.max(
    values=tensor(3.),
    indices=tensor(1))
"""

from typing import Any

from tapegrad._C import _return_types

__all__ = ["cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "sort", "topk"]

cummax = _return_types.cummax
cummin = _return_types.cummin
kthvalue = _return_types.kthvalue
max = _return_types.max
median = _return_types.median
min = _return_types.min
mode = _return_types.mode
sort = _return_types.sort
topk = _return_types.topk


def __getattr__(name: str) -> Any:
    """Load those of linear algebra when they are first asked for."""
    from tapegrad.linalg import _results

    if name in _results.__all__:
        return getattr(_results, name)
    raise AttributeError(f"module 'tapegrad.return_types' has no attribute {name!r}")
