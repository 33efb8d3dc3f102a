"""Versions, as PyTorch's module of this name has them.

``cuda`` is the version of CUDA that kernels are compiled with: that of NVRTC's wheel if it is
installed, else the newest that the driver knows; None where there is neither.
"""

from typing import TYPE_CHECKING

from tapegrad._version import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

debug = False
git_version: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None


def _cuda_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    for wheel in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12"):
        try:
            return ".".join(version(wheel).split(".")[:2])
        except PackageNotFoundError:
            continue
    from tapegrad import _C

    if _C._cuda_why_unavailable():
        return None
    number = _C._cuda_driver_version()
    return f"{number // 1000}.{number % 1000 // 10}"


if TYPE_CHECKING:
    cuda: str | None
else:

    def __getattr__(name):
        """Find out the version of CUDA when it is first asked for."""
        if name != "cuda":
            raise AttributeError(f"module 'tapegrad.version' has no attribute {name!r}")
        globals()["cuda"] = _cuda_version()
        return globals()["cuda"]
