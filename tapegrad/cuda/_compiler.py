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
import tempfile
from functools import cache
from pathlib import Path

from tapegrad import __version__

__all__ = ["cache_folder", "compiled", "find_nvrtc", "nvrtc_version"]


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
def _library() -> ctypes.CDLL:
    path = find_nvrtc()
    if path is None:
        raise RuntimeError(
            "cuda: NVRTC, which compiles kernels, was not found; pip install tapegrad[cuda], or "
            "install the CUDA toolkit"
        )
    library = ctypes.CDLL(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


@cache
def nvrtc_version() -> tuple[int, int]:
    """Return the version of CUDA that NVRTC belongs to."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _check(status: int) -> None:
    if status:
        reason = _library().nvrtcGetErrorString(status).decode()
        raise RuntimeError(f"cuda: NVRTC failed: {reason}")


def cache_folder() -> Path:
    """Return the folder that compiled kernels are kept in."""
    if chosen := os.environ.get("TAPEGRAD_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tapegrad"


def compiled(text: str, architecture: str, options: tuple[str, ...]) -> bytes:
    """Return the image of a program, from the disk or from the compiler.

    Args:
        text: the program.
        architecture: such as ``"sm_90"``.
        options: of NVRTC, besides the architecture.
    """
    parts = (__version__, find_nvrtc(), nvrtc_version(), architecture, options, text)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    path = cache_folder() / "kernels" / digest[:2] / f"{digest[2:]}.cubin"
    try:
        return path.read_bytes()
    except OSError:
        image = _compile(text, (f"--gpu-architecture={architecture}", *options))
    _write(path, image)
    return image


def _write(path: Path, image: bytes) -> None:
    """Put a file in its place whole; where nothing can be written there is no cache."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(image)
        os.replace(file.name, path)
    except OSError:
        return


def _compile(text: str, options: tuple[str, ...]) -> bytes:
    library = _library()
    program = ctypes.c_void_p()
    handle = ctypes.byref(program)
    _check(library.nvrtcCreateProgram(handle, text.encode(), b"tapegrad.cu", 0, None, None))
    try:
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library.nvrtcCompileProgram(program, len(options), array):
            raise RuntimeError(f"cuda: a kernel does not compile:\n{_log(program)}")
        size = ctypes.c_size_t()
        _check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        _check(library.nvrtcGetCUBIN(program, image))
        return image.raw
    finally:
        library.nvrtcDestroyProgram(handle)


def _log(program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _check(_library().nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    _check(_library().nvrtcGetProgramLog(program, log))
    return log.value.decode(errors="replace")
