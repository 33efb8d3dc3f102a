"""Values that are rounded as a quantized tensor would hold them, for training with it in mind."""

from functools import cache
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.registry import function

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]

_FLOATING = (_C.float16, _C.bfloat16, _C.float32, _C.float64)


@cache
def _rounding() -> Any:
    from tapegrad.autograd import Function

    class FakeQuantize(Function):
        """Rounds, and passes gradients to what lies between the limits."""

        generate_vmap_rule = True

        @staticmethod
        def forward(
            x: Tensor, scale: Tensor, zero_point: Tensor, is_whole: bool, least: int, most: int
        ) -> Any:
            wide = x if x.dtype == _C.float64 else x.float()
            place = wide * _C.reciprocal(scale)
            # A zero point between two integers is part of what is rounded.
            place = _C.round(place) + zero_point if is_whole else _C.round(place + zero_point)
            limits = [
                _C.scalar_tensor(n, dtype=place.dtype, device=x.device) for n in (least, most)
            ]
            inside = _C.fmin(_C.fmax(place, limits[0]), limits[1])  # NaN becomes the least
            return ((inside - zero_point) * scale).to(x.dtype), place == inside

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(output[1])
            ctx.save_for_forward(output[1])

        @staticmethod
        def backward(ctx: Any, g: Tensor, _: Any) -> Any:
            return g * ctx.saved_tensors[0], None, None, None, None, None

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Any:
            return tangent * ctx.saved_tensors[0], None

    return FakeQuantize


def _check(name: str, input: Tensor, quant_min: int, quant_max: int) -> None:
    if input.dtype not in _FLOATING:
        raise NotImplementedError(f"{name}: expected a floating dtype, got {input.dtype}")
    if quant_min > quant_max:
        raise RuntimeError(
            f"{name}: `quant_min` should be less than or equal to `quant_max`, got {quant_min} and "
            f"{quant_max}"
        )


def _check_constant(name: str, scale: Any) -> None:
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise RuntimeError(
            f"{name}: is not differentiable with respect to argument 'scale'. This input cannot "
            "have requires_grad True."
        )


@function
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Round a tensor to what integers times a scale can say; gradients pass as if it were not.

    Args:
        input: of a floating dtype.
        scale: the distance between two values, a number or a tensor with one.
        zero_point: the integer that stands for zero, a number or a tensor with one.
        quant_min: the least integer.
        quant_max: the largest one; gradients of what lies beyond the limits are zero.

    Returns:
        ``(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``.

    Example:
        >>> x = torch.tensor([-0.7, 0.04, 0.26, 3.0])
        >>> torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -5, 5)
        tensor([-0.5000,  0.0000,  0.3000,  0.5000])
    """
    name = "fake_quantize_per_tensor_affine"
    _check(name, input, quant_min, quant_max)
    if isinstance(scale, Tensor) and isinstance(zero_point, Tensor):
        _check_constant(name, scale)
        steps, zeros = scale.float(), zero_point.to(_C.int64).float()
        if steps.numel() != 1 or zeros.numel() != 1:
            raise RuntimeError(f"{name}: expected one scale and one zero_point")
        steps, zeros = steps.reshape(()), zeros.reshape(())
    else:
        zero = int(zero_point)
        if not quant_min <= zero <= quant_max:
            raise RuntimeError(f"{name}: `zero_point` must be between `quant_min` and `quant_max`.")
        steps = _C.scalar_tensor(float(scale), dtype=_C.float32, device=input.device)
        zeros = _C.scalar_tensor(zero, dtype=_C.float32, device=input.device)
    return _rounding().apply(input, steps, zeros, True, quant_min, quant_max)[0]  # type: ignore[no-any-return]


@function
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Round a tensor as `fake_quantize_per_tensor_affine`, with numbers of its own per channel.

    Args:
        input: of a floating dtype.
        scale: of each channel, a vector of float32 or bfloat16.
        zero_point: of each channel, a vector of int32, float32 or float16.
        axis: the dimension of channels.
        quant_min: the least integer.
        quant_max: the largest one.

    Returns:
        The rounded tensor, of the dtype and shape of `input`.

    Example:
        >>> x = torch.tensor([[0.26, 1.0], [0.26, 1.0]])
        >>> zeros = torch.zeros(2, dtype=torch.int32)
        >>> torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1, 0.5]), zeros, 0, -5, 5)
        tensor([[0.3000, 0.5000],
                [0.5000, 1.0000]])
    """
    name = "fake_quantize_per_channel_affine"
    if scale.dtype not in (_C.float32, _C.bfloat16):
        raise RuntimeError(f"{name}: Scale must be Float or BFloat16, found {scale.dtype}")
    if zero_point.dtype not in (_C.int32, _C.float32, _C.float16):
        raise RuntimeError(
            f"{name}: Zero-point must be Int32, Float or Half, found {zero_point.dtype}"
        )
    _check(name, input, quant_min, quant_max)
    _check_constant(name, scale)
    if axis >= input.dim():
        raise IndexError(
            f"{name}: Dimension out of range (expected to be in range of "
            f"[{-input.dim()}, {input.dim() - 1}], but got {axis})"
        )
    if axis < 0:
        raise RuntimeError(f"{name}: `axis` must be between 0 and number of dimensions of input")
    if scale.dim() != 1 or zero_point.dim() != 1 or scale.shape != zero_point.shape:
        raise RuntimeError(f"{name}: scale and zero-point need to be vectors of one length")
    if scale.numel() != input.shape[axis]:
        raise RuntimeError(
            f"{name}: dimensions of scale and zero-point are not consistent with input tensor"
        )
    is_whole = zero_point.dtype == _C.int32
    if is_whole:
        outside = (zero_point < quant_min) | (zero_point > quant_max)
        if outside.any():
            raise RuntimeError(f"{name}: `zero_point` must be between `quant_min` and `quant_max`.")
    shape = [1] * input.dim()
    shape[axis] = -1
    steps, zeros = scale.float().reshape(shape), zero_point.float().reshape(shape)
    return _rounding().apply(input, steps, zeros, is_whole, quant_min, quant_max)[0]  # type: ignore[no-any-return]
