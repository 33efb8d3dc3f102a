"""Arrays of any order of dimensions to one picture of height, width and channels."""

import numpy as np

__all__ = ["as_pixels"]

_COLUMNS = 8


def as_pixels(array: np.ndarray, dataformats: str) -> np.ndarray:
    """Return a picture of shape (height, width, 3 or 4 channels).

    Args:
        array: one picture or, with an N among the formats, several, which go into a grid.
        dataformats: a letter for each dimension: N, C, H and W in any order; N and C may miss.
    """
    formats = dataformats.upper()
    if len(set(formats)) != len(formats) or not {"H", "W"} <= set(formats) <= set("NCHW"):
        raise AssertionError(
            f"add_image: expected dataformats of the letters N, C, H, W, got {dataformats!r}"
        )
    if len(formats) != array.ndim:
        raise AssertionError(
            f"add_image: expected {len(formats)} dimensions for dataformats {dataformats!r}, "
            f"got shape {array.shape}"
        )
    for letter in "NC":  # those that miss become dimensions of size 1 in front
        if letter not in formats:
            formats, array = letter + formats, array[None]
    pictures = array.transpose([formats.index(letter) for letter in "NHWC"])
    pixels = _grid(pictures)
    return np.concatenate([pixels] * 3, axis=2) if pixels.shape[2] == 1 else pixels


def _grid(pictures: np.ndarray) -> np.ndarray:
    """Return pictures (N, H, W, C) side by side, in rows of up to eight; gaps are black."""
    count, height, width, channels = pictures.shape
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    out = np.zeros((rows * height, columns * width, channels), pictures.dtype)
    for index, picture in enumerate(pictures):
        y, x = index // columns * height, index % columns * width
        out[y : y + height, x : x + width] = picture
    return out
