"""Operations composed of native ones, in Python, at no cost to the user's time.

Every gradient comes from the native operations inside, so nothing here knows about the tape.
`FUNCTIONS` and `METHODS` map public names to operations; importing this package fills them.
"""

from tapegrad._composed import (
    calculus,
    compare,
    complex_numbers,
    distances,
    einsum,
    embedding_views,
    histograms,
    linear_algebra,
    matrices,
    pointwise,
    quantize,
    scaling,
    segments,
    selection,
    shape,
    spectral,
    split_and_join,
    statistics,
)
from tapegrad._composed.registry import FUNCTIONS, METHODS

__all__ = [
    "FUNCTIONS",
    "METHODS",
    "calculus",
    "compare",
    "complex_numbers",
    "distances",
    "einsum",
    "embedding_views",
    "histograms",
    "linear_algebra",
    "matrices",
    "pointwise",
    "quantize",
    "scaling",
    "segments",
    "selection",
    "shape",
    "spectral",
    "split_and_join",
    "statistics",
]
