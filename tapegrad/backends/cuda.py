"""Settings of CUDA: how exact matrix products are."""

from typing import Any

from tapegrad import _C

__all__ = ["is_built", "matmul"]


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


matmul = _Matmul()
