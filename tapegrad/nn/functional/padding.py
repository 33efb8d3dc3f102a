"""Borders around the last dimensions of a tensor."""

from collections.abc import Sequence

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["pad"]

_COMBINATIONS = """
Supported combinations for non-constant padding:
  - 2D or 3D input: padding size = 2 (pads last dimension)
  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)
  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"""


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Put borders around the last dimensions.

    Args:
        input: a tensor.
        pad: the widths of the borders, last dimension first: ``(left, right, top, bottom, ...)``.
            A negative width crops.
        mode: what the borders hold: ``"constant"``, or the values ``"reflect"``-ed at the edge,
            ``"replicate"``-d from the edge, or those of the opposite side, ``"circular"``.
        value: the constant, 0 if None.

    Returns:
        A tensor of its own memory, larger by the borders.

    Example:
        >>> x = torch.tensor([[1, 2, 3]])
        >>> torch.nn.functional.pad(x, (1, 2), value=9)
        tensor([[9, 1, 2, 3, 9, 9]])
        >>> torch.nn.functional.pad(x, (1, 2), mode="reflect")
        tensor([[2, 1, 2, 3, 2, 1]])
    """
    widths = tuple(pad)
    if len(widths) % 2:
        raise RuntimeError(f"pad: Padding length must be divisible by 2, got {len(widths)}")
    if len(widths) > 2 * input.dim():
        raise RuntimeError(
            "pad: Padding length should be less than or equal to two times the input dimension "
            f"but got padding length {len(widths)} and input of dimension {input.dim()}"
        )
    pairs = [(widths[place], widths[place + 1]) for place in range(0, len(widths), 2)]
    if mode == "constant":
        return _constant(input, pairs, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'pad: Padding mode "{mode}" doesn\'t take in value argument')
    if len(pairs) not in (1, 2, 3) or input.dim() - len(pairs) not in (1, 2):
        raise NotImplementedError(
            f"pad: Padding size {len(widths)} is not supported for {input.dim()}D input tensor."
            + _COMBINATIONS
        )
    if mode not in _PLACES:
        raise NotImplementedError(f"pad: Unrecognised padding mode {mode}")
    _expect_elements(input, pairs, mode)
    chosen = {}
    for number, (before, after) in enumerate(pairs):
        dim = input.dim() - 1 - number
        _expect_widths(input, dim, before, after, mode)
        if before or after:
            chosen[dim] = _C.tensor(
                _PLACES[mode](input.shape[dim], before, after), device=input.device
            )
    result = input
    for dim in sorted(chosen, key=lambda dim: chosen[dim].numel() / input.shape[dim]):
        result = result.index_select(dim, chosen[dim])
    return result if chosen else input.clone()


def _constant(input: Tensor, pairs: list[tuple[int, int]], value: float) -> Tensor:
    shape = list(input.shape)
    source, target = input, []
    for number, (before, after) in enumerate(pairs):
        dim = input.dim() - 1 - number
        size = shape[dim] + before + after
        if size < 0:
            raise RuntimeError(
                f"pad: expected a result of non-negative size, but the padding {(before, after)} "
                f"of dimension {dim} leaves {size} of {shape[dim]} elements"
            )
        start = max(-before, 0)
        length = shape[dim] - start - max(-after, 0)
        if length < 0:
            raise RuntimeError(
                "pad: narrow(): length must be non-negative, but the crop "
                f"{(before, after)} takes more than the {shape[dim]} elements of dimension {dim}"
            )
        if length != shape[dim]:
            source = source.narrow(dim, start, length)
        if length != size:
            target.append((dim, max(before, 0), length))
        shape[dim] = size
    if not target:
        return source.clone()
    result = input.new_full(shape, value) if value else input.new_zeros(shape)
    window = result
    for dim, start, length in target:
        window = window.narrow(dim, start, length)
    window.copy_(source)
    return result


def _expect_elements(input: Tensor, pairs: list[tuple[int, int]], mode: str) -> None:
    """Allow an empty batch, and nothing else that is empty."""
    has_batch = input.dim() == len(pairs) + 2
    if mode != "circular" and 0 in input.shape[1 if has_batch else 0 :]:
        raise RuntimeError(
            f"pad: Expected {len(pairs) + 1}D or {len(pairs) + 2}D (batch mode) tensor with "
            "possibly 0 batch size and other non-zero dimensions for input, but got: "
            f"{list(input.shape)}"
        )


def _expect_widths(input: Tensor, dim: int, before: int, after: int, mode: str) -> None:
    size = input.shape[dim]
    where = f"padding ({before}, {after}) at dimension {dim} of input {list(input.shape)}"
    if mode == "reflect" and max(before, after) >= size:
        raise RuntimeError(
            "pad: Padding size should be less than the corresponding input dimension, but got: "
            + where
        )
    if mode == "circular" and max(before, after) > size:
        raise RuntimeError(f"pad: Padding value causes wrapping around more than once: {where}")
    if mode == "circular" and size + before + after <= 0:
        raise RuntimeError(
            f"pad: Negative padding value is resulting in an empty dimension: {where}"
        )
    if size + before + after < 1:
        raise RuntimeError(f"pad: expected a result that is not empty, got {where}")
    if before < -size or after < -size:
        raise RuntimeError(f"pad: cannot crop more than there is: {where}")


def _reflected(size: int, before: int, after: int) -> list[int]:
    return [size - 1 - abs(size - 1 - abs(place)) for place in range(-before, size + after)]


def _replicated(size: int, before: int, after: int) -> list[int]:
    return [min(max(place, 0), size - 1) for place in range(-before, size + after)]


def _wrapped(size: int, before: int, after: int) -> list[int]:
    """Crop first: what is cropped does not come back on the other side."""
    start = max(-before, 0)
    length = size - start - max(-after, 0)
    places = range(-max(before, 0), length + max(after, 0))
    return [start + place % length for place in places]


_PLACES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}
