"""Values to TensorBoard's protocol buffers, which is all that an event file holds."""

import io
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.util.tensor_util import make_tensor_proto

import tapegrad
from tapegrad import Tensor
from tapegrad.utils.tensorboard.pictures import as_pixels

__all__ = ["as_array", "counted_histogram", "histogram", "image", "scalar", "tensor", "text"]


def as_array(values: Any) -> np.ndarray:
    """Return a NumPy array of a tensor, an array, a number or nested lists of numbers."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype is tapegrad.bfloat16 else values).numpy()
    return np.asarray(values)


def scalar(
    tag: str, value: Any, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """Return the summary of one number."""
    array = as_array(value).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            f"add_scalar: expected one number for {tag!r}, got shape {tuple(array.shape)}"
        )
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=float(array))])
    proto = make_tensor_proto(array.astype(np.float64 if double_precision else np.float32))
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    return Summary(value=[Summary.Value(tag=tag, tensor=proto, metadata=metadata)])


def tensor(tag: str, value: Any) -> Summary:
    """Return the summary of a whole tensor."""
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="tensor"))
    proto = make_tensor_proto(as_array(value))
    return Summary(value=[Summary.Value(tag=tag, tensor=proto, metadata=metadata)])


def text(tag: str, value: str) -> Summary:
    """Return the summary of a text."""
    plugin = SummaryMetadata.PluginData(
        plugin_name="text",
        content=b"",
    )
    one = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    proto = TensorProto(
        dtype="DT_STRING", string_val=[value.encode(errors="replace")], tensor_shape=one
    )
    metadata = SummaryMetadata(plugin_data=plugin)
    return Summary(
        value=[Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=proto)]
    )


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Summary:
    """Return the summary of a histogram of values."""
    array = as_array(values).astype(np.float64).reshape(-1)
    if array.size == 0:
        raise ValueError(f"add_histogram: expected values for {tag!r}, got none")
    if not np.isfinite(array).all():
        raise ValueError(f"add_histogram: expected finite values for {tag!r}, got nan or inf")
    counts, limits = np.histogram(array, bins=_growing_bins() if bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _coarser(counts, limits, max_bins)
    counts, limits = _without_empty_ends(counts, limits)
    return counted_histogram(
        tag,
        array.min(),
        array.max(),
        array.size,
        array.sum(),
        array.dot(array),
        limits,
        counts,
    )


def counted_histogram(
    tag: str,
    least: float,
    most: float,
    number: int,
    total: float,
    total_of_squares: float,
    limits: Any,
    counts: Any,
) -> Summary:
    """Return the summary of a histogram that is counted already."""
    proto = HistogramProto(
        min=float(least),
        max=float(most),
        num=int(number),
        sum=float(total),
        sum_squares=float(total_of_squares),
        bucket_limit=as_array(limits).tolist(),
        bucket=as_array(counts).tolist(),
    )
    return Summary(value=[Summary.Value(tag=tag, histo=proto)])


def image(tag: str, values: Any, dataformats: str) -> Summary:
    """Return the summary of a picture, compressed as PNG."""
    from PIL import Image  # a dependency of tensorboard

    array = as_array(values)
    scale = 1 if array.dtype == np.uint8 else 255
    pixels = as_pixels(array, dataformats)
    height, width, channels = pixels.shape
    content = (pixels.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    packed = io.BytesIO()
    Image.fromarray(content.squeeze(-1) if channels == 1 else content).save(packed, format="PNG")
    proto = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=packed.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=proto)])


def _growing_bins() -> list[float]:
    """Return limits that grow by a tenth from 1e-12 to 1e20, on both sides of zero."""
    limits = []
    limit = 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return [-limit for limit in reversed(limits)] + [0.0] + limits


def _coarser(counts: np.ndarray, limits: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a histogram with several bins drawn together, so that few enough are left."""
    size = -(-len(counts) // most)
    padded = np.concatenate([counts, np.zeros(-len(counts) % size, counts.dtype)])
    ends = limits[::size]
    if len(counts) % size:
        ends = np.append(ends, limits[-1])
    return padded.reshape(-1, size).sum(axis=1), ends


def _without_empty_ends(counts: np.ndarray, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return counts and right limits of the bins from the first that holds something to the last.

    An empty bin goes in front, for TensorBoard takes the left end of a bin from its neighbour.
    """
    full = np.flatnonzero(counts)
    if not len(full):
        raise ValueError("add_histogram: all values lie outside the bins; choose others")
    first, last = full[0], full[-1] + 1
    return np.concatenate([[0], counts[first:last]]), limits[first : last + 1]
