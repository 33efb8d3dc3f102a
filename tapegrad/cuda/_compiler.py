"""NVRTC, NVIDIA's compiler at run time: from the text of a kernel to an image for a device.

Images are kept on disk, under a name made of everything that they depend on, so that a kernel is
compiled once on a machine. The folder is ``$TAPEGRAD_CACHE``, or ``tapegrad`` in the user's cache.
A file is written under another name first and then renamed: several processes may write the same
one at a time.
"""

import ctypes
import hashlib
import importlib.util
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tapegrad._version import __version__
from tapegrad.cuda._nvrtc import Nvrtc, write_whole

__all__ = ["cache_folder", "compiled", "find_nvrtc", "nvrtc_version", "path_of"]


@cache
def find_nvrtc() -> str | None:
    """Return the path or the name of the NVRTC library, or None where there is none.

    ``$TAPEGRAD_NVRTC`` comes first, then NVIDIA's wheels, then the system's library.
    """
    if chosen := os.environ.get("TAPEGRAD_NVRTC"):
        return chosen
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for place in ("cuda_nvrtc/lib", "cu13/lib"):
            found = sorted((Path(folder) / place).glob("libnvrtc.so.*"))
            if found:
                return str(found[0])
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64" / "libnvrtc.so"
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", str(toolkit)):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    return None


@cache
def _library() -> Nvrtc:
    path = find_nvrtc()
    if path is None:
        raise RuntimeError(
            "cuda: NVRTC, which compiles kernels, was not found; pip install tapegrad[cuda], or "
            "install the CUDA toolkit"
        )
    return Nvrtc(path)


@cache
def nvrtc_version() -> tuple[int, int]:
    """Return the version of CUDA that NVRTC belongs to."""
    return _library().version()


def cache_folder() -> Path:
    """Return the folder that compiled kernels are kept in."""
    if chosen := os.environ.get("TAPEGRAD_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tapegrad"


@cache
def _identity() -> tuple[Any, ...]:
    """Return which NVRTC this is; one in a file is not loaded for that, which takes a while."""
    path = find_nvrtc()
    if path is None or not os.path.isfile(path):
        return path, nvrtc_version()
    facts = os.stat(path)
    return path, facts.st_size, facts.st_mtime_ns


def path_of(text: str, architecture: str, options: tuple[str, ...]) -> Path:
    """Return the file that keeps the image of a program."""
    parts = (__version__, _identity(), architecture, options, text)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return cache_folder() / "kernels" / digest[:2] / f"{digest[2:]}.cubin"


def compiled(text: str, architecture: str, options: tuple[str, ...]) -> bytes:
    """Return the image of a program, from the disk or from the compiler.

    Args:
        text: the program.
        architecture: such as ``"sm_90"``.
        options: of NVRTC, besides the architecture.
    """
    path = path_of(text, architecture, options)
    try:
        return path.read_bytes()
    except OSError:
        image = _compile(text, (f"--gpu-architecture={architecture}", *options))
    with suppress(OSError):  # where nothing can be written there is no cache
        write_whole(path, image)
    return image


def _compile(text: str, options: tuple[str, ...]) -> bytes:
    return _library().compile(text, options)
