"""Settings of CUDA: how exact matrix products are, and which kernels attention may use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad import _C

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]


def is_built() -> bool:
    """Return True: every build has the CUDA back end. `torch.cuda.is_available` asks for a device.

    Example:
        >>> torch.backends.cuda.is_built()
        True
    """
    return True


class _Setting:
    """A setting of the native module, as an attribute."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else _C._cuda_matmul_settings()[self._name]

    def __set__(self, instance: Any, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"{self._name} expects a bool, but got {type(value)!r}")
        _set(self._name, value)


def _set(name: str, value: Any) -> None:
    _C._cuda_set_matmul_settings(**{**_C._cuda_matmul_settings(), name: value})


class _Matmul:
    """What matrix products on CUDA may do in exchange for speed."""

    __slots__ = ()

    allow_fp16_reduced_precision_reduction = _Setting(
        "Whether partial sums of products of float16 may be added in float16."
    )
    allow_bf16_reduced_precision_reduction = _Setting(
        "Whether partial sums of products of bfloat16 may be added in bfloat16."
    )
    allow_fp16_accumulation = _Setting("Whether products of float16 may be summed in float16.")

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be computed in TF32: 10 bits in place of 23."""
        return _C._cuda_matmul_settings()["float32_precision"] > 0

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        _set("float32_precision", int(bool(value)))

    @property
    def fp32_precision(self) -> str:
        """The same in words: ``"tf32"``, or ``"ieee"`` for products that are rounded once."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("tf32", "ieee", "none"):
            raise RuntimeError(
                f"fp32_precision: expected 'ieee', 'tf32' or 'none' for matmul, got {value!r}"
            )
        self.allow_tf32 = value == "tf32"


matmul = _Matmul()


# ---- attention: there is one kernel; the choice among PyTorch's is kept for programs that make it


_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """Return what `enable_flash_sdp` has set; nothing depends on it."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Note whether attention may use that kernel of PyTorch's; there is one here, which it uses."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return what `enable_mem_efficient_sdp` has set; nothing depends on it."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """See `enable_flash_sdp`."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Return what `enable_math_sdp` has set; nothing depends on it."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """See `enable_flash_sdp`."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Return what `enable_cudnn_sdp` has set; nothing depends on it."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """See `enable_flash_sdp`."""
    _attention["cudnn"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """Return False: attention has a kernel of its own.

    Example:
        >>> torch.backends.cuda.is_flash_attention_available()
        False
    """
    return False


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Set the choice among PyTorch's kernels of attention for a block; see `enable_flash_sdp`.

    Example:
        >>> with torch.backends.cuda.sdp_kernel(enable_flash=False):
        ...     torch.backends.cuda.flash_sdp_enabled()
        False
    """
    before = dict(_attention)
    enable_flash_sdp(enable_flash)
    enable_math_sdp(enable_math)
    enable_mem_efficient_sdp(enable_mem_efficient)
    enable_cudnn_sdp(enable_cudnn)
    try:
        yield
    finally:
        _attention.update(before)
