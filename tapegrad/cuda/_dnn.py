"""Where cuDNN lies, NVIDIA's library of convolutions and attention."""

import importlib.util
import os
import warnings
from pathlib import Path

__all__ = ["find_cudnn", "warn"]

_NAME = "libcudnn.so.9"


def find_cudnn() -> list[str]:
    """Return the paths or names of libraries to try, the best one first.

    ``$TAPEGRAD_CUDNN`` is the only one where it is set; else there are NVIDIA's wheels, then the
    system's library, which may be missing. With a library that stands in for the driver there is
    none.
    """
    if chosen := os.environ.get("TAPEGRAD_CUDNN"):
        return [chosen]
    if os.environ.get("TAPEGRAD_CUDA_DRIVER"):
        return []
    return [*_wheels(), _NAME]


def warn(reason: str) -> None:
    """Say that cuDNN is not used, and what that means."""
    warnings.warn(
        "cuda: cuDNN cannot be used, and convolutions and attention are slower by far without it; "
        f"pip install --upgrade tapegrad[cuda] ({reason})",
        stacklevel=2,
    )


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    found: list[Path] = []
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for place in ("cudnn/lib", "cu13/lib"):
            found += (Path(folder) / place).glob(_NAME)
    return [str(path) for path in found]
