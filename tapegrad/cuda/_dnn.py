"""Where cuDNN lies, NVIDIA's library of convolutions and attention."""

import ctypes
import importlib.util
import os
import warnings
from pathlib import Path

__all__ = ["find_cudnn", "warn"]

_NAME = "libcudnn.so.9"


def find_cudnn() -> list[str]:
    """Return the paths or names of libraries that may be loaded, the best one first.

    ``$TAPEGRAD_CUDNN`` is the only one where it is set; else there are NVIDIA's wheels, then the
    system's library. With a library that stands in for the driver there is none.
    """
    if chosen := os.environ.get("TAPEGRAD_CUDNN"):
        return [chosen]
    if os.environ.get("TAPEGRAD_CUDA_DRIVER"):
        return []
    found = _wheels()
    if found:
        return [*found, _NAME]  # which are loaded one after the other until one can be used
    if _is_loadable(_NAME):
        return [_NAME]
    warn("it was not found")
    return []


def warn(reason: str) -> None:
    """Say that cuDNN is not used, and what that means."""
    warnings.warn(
        f"cuda: cuDNN cannot be used, and convolutions are slower by far without it: {reason}; "
        "pip install --upgrade tapegrad[cuda]",
        stacklevel=2,
    )


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    found: list[Path] = []
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for place in ("cudnn/lib", "cu13/lib"):
            found += (Path(folder) / place).glob(_NAME)
    return [str(path) for path in found]


def _is_loadable(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
