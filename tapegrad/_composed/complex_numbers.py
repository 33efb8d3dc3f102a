"""Complex numbers made of real ones, and questions about them."""

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_tensor
from tapegrad._composed.registry import function, method
from tapegrad._composed.shape import broadcast_tensors
from tapegrad._ops import runs

__all__ = ["complex", "isreal", "polar"]


def _into_out(name: str, result: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return result
    if out.dtype != result.dtype:
        raise RuntimeError(
            f"{name}: expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead"
        )
    if _C.is_grad_enabled() and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            f"{name}: functions with out=... arguments don't support automatic differentiation"
        )
    return out.resize_(result.shape).copy_(result)


def _join(real: Tensor, imag: Tensor) -> Tensor:
    return _C.view_as_complex(_C.stack(broadcast_tensors(real, imag), -1))


def _expect_parts(name: str, first: tuple[str, Tensor], second: tuple[str, Tensor]) -> None:
    for argument, tensor in (first, second):
        expect_tensor(name, argument, tensor)
    dtype, other = first[1].dtype, second[1].dtype
    if dtype not in (_C.float32, _C.float64) or other not in (_C.float32, _C.float64):
        raise RuntimeError(
            f"{name}: expected both inputs to be float32 or float64, got {dtype} and {other}"
        )
    if dtype != other:
        raise RuntimeError(
            f"{name}: expected both inputs to have one dtype, got {dtype} and {other}"
        )


@function
@runs("cat")
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers of their real and imaginary parts.

    Args:
        real: the real parts, float32 or float64.
        imag: the imaginary parts, of the same dtype.
        out: where to write the result.

    Returns:
        A complex64 or complex128 tensor of the shape both broadcast to.

    Example:
        >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
        tensor([1.+2.j])
    """
    _expect_parts("complex", ("real", real), ("imag", imag))
    return _into_out("complex", _join(real, imag), out)


@function
@runs("cat")
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers of their magnitudes and angles.

    Args:
        abs: the magnitudes, float32 or float64.
        angle: the angles, of the same dtype.
        out: where to write the result.

    Returns:
        A complex64 or complex128 tensor of the shape both broadcast to.

    Example:
        >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
        tensor([2.+0.j])
    """
    _expect_parts("polar", ("abs", abs), ("angle", angle))
    return _into_out("polar", _join(abs * angle.cos(), abs * angle.sin()), out)


@function
@method
def isreal(input: Tensor) -> Tensor:
    """Return which elements are real: all of a real tensor, and those without an imaginary part.

    Args:
        input: a tensor.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.isreal(torch.tensor([1 + 0j, 1j]))
        tensor([ True, False])
    """
    expect_tensor("isreal", "input", input)
    if input.is_complex():
        return _C.imag(input).eq(0)
    return _C.ones_like(input, dtype=_C.bool)
