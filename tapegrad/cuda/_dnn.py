"""Where cuDNN lies, NVIDIA's library of convolutions and attention."""

import hashlib
import importlib.util
import os
import warnings
from contextlib import suppress
from pathlib import Path

from tapegrad.cuda._compiler import cache_folder
from tapegrad.cuda._nvrtc import write_whole

__all__ = ["find_cudnn", "keep_plan", "plans_folder", "read_plan", "warn"]

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


# ---- plans, kept as kernels are


def plans_folder() -> Path:
    """Return the folder that plans of cuDNN are kept in."""
    return cache_folder() / "plans"


def _path_of(name: str) -> Path:
    return plans_folder() / f"{hashlib.sha256(name.encode()).hexdigest()}.json"


def read_plan(name: str) -> bytes:
    """Return what was kept under a name, or nothing."""
    try:
        return _path_of(name).read_bytes()
    except OSError:
        return b""


def keep_plan(name: str, text: bytes) -> None:
    """Keep a plan for later processes; where nothing can be written there is no cache."""
    with suppress(OSError):
        write_whole(_path_of(name), text)


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    found: list[Path] = []
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for place in ("cudnn/lib", "cu13/lib"):
            found += (Path(folder) / place).glob(_NAME)
    return [str(path) for path in found]
