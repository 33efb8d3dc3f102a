"""Borders around the last dimensions of a tensor."""

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.autograd.function import Function
from tapegrad.nn.functional._arrays import refuse_arrays
from tapegrad.nn.functional._formats import channels_to_end, channels_to_front

__all__ = ["pad"]

_FEW = 1 << 14  # Elements that are picked faster than a function of its own is called.
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
    if not isinstance(input, Tensor):
        refuse_arrays("pad", input=input)
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
        fill = 0 if value is None else value
        return _in_format(lambda x, pairs: _constant(x, pairs, fill), input, pairs)
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
    for number, (before, after) in enumerate(pairs):
        _expect_widths(input, input.dim() - 1 - number, before, after, mode)
    if mode == "circular":
        return _surrounded(input, pairs, mode)
    surround = _surrounded if mode == "reflect" and len(pairs) == 3 else _cast_surrounded
    return _in_format(lambda x, pairs: surround(x, pairs, mode), input, pairs)


def _in_format(
    padded: Callable[[Tensor, "_Pairs"], Tensor], input: Tensor, pairs: "_Pairs"
) -> Tensor:
    """Pad a tensor whose channels lie last as one whose last dimension they are."""
    if not _C._is_channels_last(input):
        return padded(input, pairs)
    *spatial, channels, batch = pairs + [(0, 0)] * (input.dim() - len(pairs))
    return channels_to_front(padded(channels_to_end(input), [channels, *spatial, batch]))


@casts()
def _surrounded(input: Tensor, pairs: list[tuple[int, int]], mode: str) -> Tensor:
    widths = [width for pair in pairs for width in pair]
    if any(width < 0 for width in widths) or not any(widths):
        return _chosen(input, pairs, mode)
    if not input.requires_grad:
        return _bordered(input, pairs, mode)
    if input.numel() < _FEW:  # Fewer calls, more work.
        return _chosen(input, pairs, mode)
    return _Bordered.apply(input, pairs, mode)


# The paddings that autocast knows on the CPU, as PyTorch has them.
_cast_surrounded = casts(cpu="float32", of="pad")(_surrounded)


def _chosen(input: Tensor, pairs: list[tuple[int, int]], mode: str) -> Tensor:
    """Pad and crop: pick elements along each dimension."""
    chosen = {}
    for number, (before, after) in enumerate(pairs):
        dim = input.dim() - 1 - number
        if before or after:
            chosen[dim] = _PLACES[mode](input.shape[dim], before, after)
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
    kept = size + min(before, 0) + min(after, 0)
    wanted = size + before + after
    if mode == "circular" and (wanted < 0 or (kept <= 0 and wanted > 0)):
        raise RuntimeError(
            f"pad: Negative padding value is resulting in an empty dimension: {where}"
        )
    if wanted < 0:
        raise RuntimeError(f"pad: expected a result of non-negative size, got {where}")
    if mode == "reflect" and kept < 0:
        raise RuntimeError(f"pad: cannot crop more than there is: {where}")


def _reflected(size: int, before: int, after: int) -> Tensor:
    places = _C.arange(-before, size + after)
    return size - 1 - (size - 1 - places.abs()).abs()


def _replicated(size: int, before: int, after: int) -> Tensor:
    return _C.arange(-before, size + after).clamp(0, size - 1)


def _wrapped(size: int, before: int, after: int) -> Tensor:
    """Crop first: what is cropped does not come back on the other side."""
    start = max(-before, 0)
    length = size - start - max(-after, 0)
    places = _C.arange(-max(before, 0), length + max(after, 0))
    return start + places % length if places.numel() else places


_PLACES = {"reflect": _reflected, "replicate": _replicated, "circular": _wrapped}


# ---- borders without crops: copies of strips, whose gradients are added back

_Pairs = list[tuple[int, int]]


def _centre_and_strips(
    whole: Tensor, pairs: _Pairs, mode: str
) -> tuple[Tensor, list[tuple[Tensor, Tensor, int]]]:
    """Return views of a padded tensor: its centre; each strip of border, its source, its dimension.

    The strips of the last dimension run along the centre alone, those of the dimension before it
    along that and its borders: where two borders cross, a strip is a copy of strips.
    """
    view = whole
    strips: list[tuple[Tensor, Tensor, int]] = []
    for number in range(len(pairs) - 1, -1, -1):
        dim = whole.dim() - 1 - number
        before, after = pairs[number]
        end = whole.shape[dim] - after
        if after:
            start = {"reflect": end - 1 - after, "replicate": end - 1, "circular": before}[mode]
            source = view.narrow(dim, start, 1 if mode == "replicate" else after)
            strips.append((view.narrow(dim, end, after), source, dim))
        if before:
            start = {"reflect": before + 1, "replicate": before, "circular": end - before}[mode]
            source = view.narrow(dim, start, 1 if mode == "replicate" else before)
            strips.append((view.narrow(dim, 0, before), source, dim))
        view = view.narrow(dim, before, end - before)
    return view, strips[::-1]


def _apart(strip: Tensor, dim: int, mode: str) -> Tensor:
    """Return what is written elsewhere; under vmap no op reads the storage that it writes to."""
    if mode == "reflect":
        return strip.flip(dim)
    return strip.clone() if _C._running_vmaps() else strip


def _bordered(input: Tensor, pairs: _Pairs, mode: str) -> Tensor:
    shape = list(input.shape)
    for number, (before, after) in enumerate(pairs):
        shape[-1 - number] += before + after
    result = input.new_empty(shape)
    centre, strips = _centre_and_strips(result, pairs, mode)
    centre.copy_(input)
    for strip, source, dim in strips:
        strip.copy_(_apart(source, dim, mode))
    return result


class _Bordered(Function):
    """Its backward is _Unbordered, whose backward it is: neither records its steps."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, pairs: _Pairs, mode: str) -> Tensor:
        ctx.arguments = pairs, mode
        return _bordered(input, pairs, mode)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, None, None]:
        return _Unbordered.apply(grad, *ctx.arguments), None, None


class _Unbordered(Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, pairs: _Pairs, mode: str) -> Tensor:
        ctx.arguments = pairs, mode
        centre, strips = _centre_and_strips(input.clone(), pairs, mode)
        for strip, source, dim in reversed(strips):
            if mode == "replicate":
                strip = strip.sum(dim, keepdim=True)
            source.add_(_apart(strip, dim, mode))
        return centre.contiguous()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, None, None]:
        return _Bordered.apply(grad, *ctx.arguments), None, None
