"""The named tuples that operations return, as torch.return_types.

Example:
    >>> torch.max(torch.tensor([1.0, 3.0]), dim=0)
    torch.return_types.max(
    values=tensor(3.),
    indices=tensor(1))
"""

import sys
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
    """Load those of composed ops and of linear algebra when they are first asked for."""
    from tapegrad._composed import return_types as composed
    from tapegrad.linalg import _results

    if name in _results.__all__:
        return getattr(_results, name)
    if name in composed.__all__:
        return getattr(composed, name)
    if name.endswith("_out") and name != "_out":  # of calls with `out`, which return the same type
        return getattr(sys.modules[__name__], name.removesuffix("_out"))
    raise AttributeError(f"module 'tapegrad.return_types' has no attribute {name!r}")
