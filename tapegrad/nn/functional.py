"""Functions for neural networks: activations, softmax, linear."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, linear

__all__ = ["gelu", "linear", "log_softmax", "softmax", "softmin", "tanhshrink"]


def _activation(name: str) -> Any:
    """Make the function of a table line that PyTorch offers with an `inplace` switch."""
    native = getattr(_C, name)
    native_inplace = getattr(_C, name + "_", None)

    def activation(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if args and isinstance(args[-1], bool):
            args, inplace = args[:-1], args[-1]
        operation: Any = native_inplace if inplace else native
        return operation(input, *args, **kwargs)

    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = native.__doc__
    return activation


for _row in _C.pointwise_table():
    if _row["activation"] and not _row["internal"]:
        globals()[_row["name"]] = _activation(_row["name"])
        __all__.append(_row["name"])
for _name in ("relu", "selu", "celu", "sigmoid", "tanh"):
    globals()[_name] = _activation(_name)
    __all__.append(_name)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return ``x * P(X <= x)`` for a standard normal X, exactly or by the tanh approximation."""
    return _C.gelu(input, approximate)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the exponentials of the elements, scaled to sum to one along `dim`."""
    return _C.softmax(input, _implicit_dim("softmax", input, dim), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the logarithm of softmax along `dim`."""
    return _C.log_softmax(input, _implicit_dim("log_softmax", input, dim), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Return the softmax of the negated elements."""
    return softmax(-input, dim, dtype=dtype)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return the elements moved towards zero by `lambd`, and zero where that would pass it."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: expected lambd to be at least 0, got {lambd}")
    return _C.softshrink(input, lambd)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return the elements above `threshold`, and `value` in place of the others."""
    return (_C.threshold_ if inplace else _C.threshold)(input, threshold, value)


def tanhshrink(input: Tensor) -> Tensor:
    """Return ``x - tanh(x)``."""
    return input - input.tanh()


def _implicit_dim(name: str, input: Tensor, dim: int | None) -> int:
    """PyTorch's old choice of a dimension, kept for code that leaves it out."""
    if dim is not None:
        return dim
    return 0 if input.dim() in (0, 1, 3) else 1
