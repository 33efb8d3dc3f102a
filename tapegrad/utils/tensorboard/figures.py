"""Figures of matplotlib as pixels."""

from typing import Any

import numpy as np

__all__ = ["pixels", "pixels_of_all"]


def pixels(figure: Any, close: bool) -> np.ndarray:
    """Return a figure as bytes of shape (3, height, width)."""
    try:
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise ImportError(
            "add_figure: expected the package matplotlib, which is not installed; "
            "pip install matplotlib"
        ) from error
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    data = np.asarray(canvas.buffer_rgba(), dtype=np.uint8)
    if close:
        pyplot.close(figure)
    return data[:, :, :3].transpose(2, 0, 1).copy()


def pixels_of_all(figures: list[Any], close: bool) -> np.ndarray:
    """Return several figures of one size as (N, 3, height, width)."""
    return np.stack([pixels(figure, close) for figure in figures])
