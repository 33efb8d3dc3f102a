"""Where cuBLASLt lies, NVIDIA's library of matrix products."""

import ctypes
import importlib.util
import os
import warnings
from pathlib import Path

__all__ = ["find_cublaslt"]

_VERSIONS = ("13", "12")


def find_cublaslt() -> list[str]:
    """Return the paths or names of libraries that may be loaded, the best one first.

    ``$TAPEGRAD_CUBLASLT`` is the only one where it is set; else there are NVIDIA's wheels, then the
    system's library. With a library that stands in for the driver there is none.
    """
    if chosen := os.environ.get("TAPEGRAD_CUBLASLT"):
        return [chosen]
    if os.environ.get("TAPEGRAD_CUDA_DRIVER"):
        return []
    found, names = _wheels(), [f"libcublasLt.so.{number}" for number in _VERSIONS]
    if found:
        return found + names  # which are loaded one after the other until one can be used
    found = [*filter(_is_loadable, names)]
    if not found:
        warnings.warn(
            "cuda: cuBLASLt was not found, and matrix products are slower by far without it; "
            "pip install tapegrad[cuda], or install the CUDA toolkit",
            stacklevel=2,
        )
    return found


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    found: list[Path] = []
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for place in ("cu13/lib", "cublas/lib"):
            found += (Path(folder) / place).glob("libcublasLt.so.*")
    return [str(path) for path in sorted(found, key=lambda path: path.name, reverse=True)]


def _is_loadable(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
