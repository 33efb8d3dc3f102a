"""What the CPU can do."""

from tapegrad import _C

__all__ = ["get_cpu_capability"]

_NAMES = {"x86-64-v3": "AVX2", "x86-64-v4": "AVX512"}


def get_cpu_capability() -> str:
    """Return the widest vectors that kernels use: "DEFAULT", "AVX2" or "AVX512".

    Example:
        >>> torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
        True
    """
    return _NAMES.get(_C.build_info()["instruction_set"].split()[0], "DEFAULT")
