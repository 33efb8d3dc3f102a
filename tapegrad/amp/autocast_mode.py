"""Blocks in which autocast is on, and what custom functions need to take part in them.

What autocast does with each function is said beside the function (csrc/graph/autocast.h and
tapegrad/_casts.py); the state is a thread's own and lies in the native core.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import device as _device

__all__ = [
    "autocast",
    "autocast_decorator",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]

_LOWER = (_C.bfloat16, _C.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a device type.

    Args:
        device_type: as a tensor's ``device.type`` has it.

    Returns:
        Whether ``torch.autocast(device_type)`` can be made.

    Example:
        >>> torch.amp.is_autocast_available("cpu"), torch.amp.is_autocast_available("meta")
        (True, False)
    """
    return _device(device_type).type in ("cpu", "cuda")


class autocast:
    """A context manager or decorator inside of which operations choose their dtypes themselves.

    Matrix products and convolutions cast their operands to `dtype`; what needs range or precision
    casts them to float32; the rest runs as it is called. Parameters stay as they are, and their
    gradients have their dtypes. Operations that write into given memory, in place or with ``out=``,
    are not cast, and neither is float64. Backward needs no such block.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``: whose tensors are meant.
        dtype: `torch.float16` or `torch.bfloat16`; None is `torch.get_autocast_dtype` of the device
            type: bfloat16 on the CPU and float16 on CUDA devices.
        enabled: whether autocast is on, or off, inside.
        cache_enabled: whether the cast of a parameter is kept until the outermost block is left.

    Example:
        >>> a = torch.ones(2, 2)
        >>> with torch.autocast("cpu"):
        ...     product = a @ a
        ...     with torch.autocast("cpu", enabled=False):
        ...         exact = product.float() @ a
        >>> product.dtype, exact.dtype
        (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = _C.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (
            _C.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = bool(enabled) and self._is_possible()

    def _is_possible(self) -> bool:
        """Whether autocast can be on; warns where it cannot."""
        if self.device == "cuda":
            from tapegrad import cuda

            if not cuda.is_available():
                _warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
                return False
            if self.fast_dtype is _C.bfloat16 and not cuda.is_bf16_supported():
                raise RuntimeError(
                    "Current CUDA Device does not support bfloat16. Please switch dtype to float16."
                )
            return True
        if self.fast_dtype in _LOWER:
            return True
        kind = self.device.upper()
        _warn(
            f"In {kind} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{kind} Autocast only supports dtypes of {', '.join(map(str, _LOWER))} currently."
        )
        return False

    def __enter__(self) -> "autocast":
        _C._enter_autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled)
        return self

    def __exit__(self, *exception: object) -> None:
        _C._leave_autocast()

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you "
                "mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n        output = model(input)"
            )

        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs inside of a block: what decorating with the block gives.

    Args:
        autocast_instance: the block.
        func: the function.
    """

    @functools.wraps(func)
    def call(*arguments: Any, **options: Any) -> Any:
        with autocast_instance:
            return func(*arguments, **options)

    return call


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


# ---- custom functions


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Cast the floating tensors of a device type in a value and the containers in it."""
    if isinstance(value, Tensor):
        cast = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not _C.float64
        )
        return value.to(dtype) if cast else value
    if isinstance(value, (str, bytes)) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, Mapping):
        return {
            _cast(key, device_type, dtype): _cast(item, device_type, dtype)
            for key, item in value.items()
        }
    if isinstance(value, Iterable):
        items = (_cast(each, device_type, dtype) for each in value)
        return type(value)(items) if isinstance(value, (list, tuple)) else items  # type: ignore[call-arg]
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Callable[..., Any]:
    """Decorate the ``forward`` of a `torch.autograd.Function` so that it takes part in autocast.

    Args:
        fwd: the method; without it, a decorator is returned.
        device_type: ``"cpu"`` or ``"cuda"``.
        cast_inputs: where autocast is on, floating tensors are cast to this dtype first, and the
            method runs with autocast off. None leaves tensors and autocast as they are.

    Returns:
        The decorated method.

    Example:
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     @torch.amp.custom_bwd(device_type="cpu")
        ...     def backward(ctx, g):
        ...         return 2 * g * ctx.saved_tensors[0]
        >>> with torch.autocast("cpu"):
        ...     Square.apply(torch.ones(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        context, is_on = args[0], _C.is_autocast_enabled(device_type)
        context._dtype = _C.get_autocast_dtype(device_type)
        context._fwd_used_autocast = is_on and cast_inputs is None
        if not is_on or cast_inputs is None:
            return forward(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return forward(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the ``backward`` of a `torch.autograd.Function`: it runs in the autocast of forward.

    Args:
        bwd: the method; without it, a decorator is returned. Its ``forward`` has `custom_fwd`.
        device_type: ``"cpu"`` or ``"cuda"``.

    Returns:
        The decorated method.
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, context._dtype, context._fwd_used_autocast):
            return backward(*args, **kwargs)

    return decorate_bwd


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
