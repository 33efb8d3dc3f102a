"""Settings of CUDA: how exact matrix products are, and which kernels attention may use."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tapegrad import _C, _attention_backends
from tapegrad._attention_backends import SDPBackend
from tapegrad._C import Tensor

__all__ = [
    "SDPAParams",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "enable_merged_calls",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "merged_calls_enabled",
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


# ---- calls that one kernel runs: Note [Held calls] in csrc/cuda/held_calls.h


def merged_calls_enabled() -> bool:
    """Return whether one kernel may run several calls, such as a linear layer and its GELU."""
    return _C._cuda_merges_calls()


def enable_merged_calls(enabled: bool) -> None:
    """Say whether one kernel may run several calls. It may, unless TAPEGRAD_MERGE_CALLS=0 is set.

    Sums, norms and casts give the same bits either way; products with GELU are rounded once less.
    """
    _C._cuda_set_merges_calls(bool(enabled))


# ---- attention: which backends may be chosen, the same state as torch.nn.attention.sdpa_kernel


def _allow(backend: SDPBackend, enabled: bool) -> None:
    others = [other for other in _attention_backends.allowed() if other is not backend]
    _attention_backends.allow([*others, backend] if enabled else others)


def flash_sdp_enabled() -> bool:
    """Return whether attention may use FLASH_ATTENTION, the kernels of this library."""
    return _attention_backends.is_allowed(SDPBackend.FLASH_ATTENTION)


def enable_flash_sdp(enabled: bool) -> None:
    """Say whether attention may use FLASH_ATTENTION; see `torch.nn.attention`."""
    _allow(SDPBackend.FLASH_ATTENTION, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return whether attention may use EFFICIENT_ATTENTION, the kernels of this library."""
    return _attention_backends.is_allowed(SDPBackend.EFFICIENT_ATTENTION)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Say whether attention may use EFFICIENT_ATTENTION; see `torch.nn.attention`."""
    _allow(SDPBackend.EFFICIENT_ATTENTION, enabled)


def math_sdp_enabled() -> bool:
    """Return whether attention may be composed of public ops."""
    return _attention_backends.is_allowed(SDPBackend.MATH)


def enable_math_sdp(enabled: bool) -> None:
    """Say whether attention may be composed of public ops; see `torch.nn.attention`."""
    _allow(SDPBackend.MATH, enabled)


def cudnn_sdp_enabled() -> bool:
    """Return whether attention may use cuDNN."""
    return _attention_backends.is_allowed(SDPBackend.CUDNN_ATTENTION)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Say whether attention may use cuDNN; see `torch.nn.attention`."""
    _allow(SDPBackend.CUDNN_ATTENTION, enabled)


def is_flash_attention_available() -> bool:
    """Return False: attention has kernels of its own.

    Example:
        >>> torch.backends.cuda.is_flash_attention_available()
        False
    """
    return False


class SDPAParams(NamedTuple):
    """The arguments of `scaled_dot_product_attention`, to ask which backend takes them.

    Attributes:
        query, key, value: of four dimensions.
        attn_mask: a mask, or None.
        dropout: the probability with which a weight is dropped.
        is_causal: whether query i sees the keys 0 to i only.
        enable_gqa: whether keys and values may have fewer heads.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool


def _can_use(backend: SDPBackend, params: SDPAParams, debug: bool) -> bool:
    query, key, value, attn_mask, dropout, is_causal, enable_gqa = params
    reason = _C._attention_refusal(
        int(backend), query, key, value, attn_mask, dropout, is_causal, None, enable_gqa
    )
    if not reason and not _attention_backends.is_allowed(backend):
        reason = "it is not among those that sdpa_kernel() allows"
    if reason and debug:
        warnings.warn(f"attention: {backend.name} is not used: {reason}", stacklevel=3)
    return not reason


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether cuDNN computes attention of these arguments; with `debug`, warn why not.

    Example:
        >>> x = torch.ones(1, 2, 8, 16)
        >>> params = torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False)
        >>> torch.backends.cuda.can_use_cudnn_attention(params)  # only on CUDA
        False
    """
    return _can_use(SDPBackend.CUDNN_ATTENTION, params, debug)


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether FLASH_ATTENTION computes it; see `can_use_cudnn_attention`.

    Example:
        >>> x = torch.ones(1, 2, 8, 16)
        >>> params = torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False)
        >>> torch.backends.cuda.can_use_flash_attention(params)
        True
    """
    return _can_use(SDPBackend.FLASH_ATTENTION, params, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether EFFICIENT_ATTENTION computes it; see `can_use_cudnn_attention`."""
    return _can_use(SDPBackend.EFFICIENT_ATTENTION, params, debug)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Say for a block which backends attention may use; `torch.nn.attention.sdpa_kernel` is newer.

    Example:
        >>> with torch.backends.cuda.sdp_kernel(enable_flash=False):
        ...     torch.backends.cuda.flash_sdp_enabled()
        False
    """
    before = _attention_backends.allowed()
    enable_flash_sdp(enable_flash)
    enable_math_sdp(enable_math)
    enable_mem_efficient_sdp(enable_mem_efficient)
    enable_cudnn_sdp(enable_cudnn)
    try:
        yield
    finally:
        _attention_backends.allow(before)
