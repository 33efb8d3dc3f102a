"""``python -m tapegrad.cuda``: what CUDA finds here, and kernels compiled ahead of time."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tapegrad import _C
from tapegrad.cuda import _compiler
from tapegrad.cuda._workers import Workers, common_kernels
from tapegrad.cuda.devices import device_count
from tapegrad.utils._units import human_bytes

__all__ = ["main"]

_DESCRIPTION = "Look at what CUDA finds on this machine, and compile kernels ahead of time."
_ABOUT_WARM = """\
Kernels are compiled when a program first needs them, a tenth of a second or so each, and then
kept on disk. This compiles the common ones now, on all cores, so that the first step of a
training does not wait: those of layers, losses and optimizers in float32, bfloat16 and float16.
It needs NVRTC, and no GPU: in the image of a container, name the architecture.

  python -m tapegrad.cuda warm                      for the GPUs of this machine
  python -m tapegrad.cuda warm --arch sm_90         for an H100 or H200, wherever this runs
  TAPEGRAD_CACHE=/opt/cache python -m tapegrad.cuda warm --arch sm_80 --arch sm_90
"""
_ABOUT_INFO = """\
Prints the driver, the devices, the libraries that were found, and the folder of compiled kernels
with what is in it. Where something is missing it says what to install.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tapegrad.cuda",
        description=_DESCRIPTION,
        epilog="`python -m tapegrad.cuda COMMAND --help` says more about a command.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    form = argparse.RawDescriptionHelpFormatter
    warm = commands.add_parser(
        "warm", help="compile common kernels now", description=_ABOUT_WARM, formatter_class=form
    )
    warm.add_argument(
        "--arch",
        action="append",
        metavar="SM",
        help="an architecture such as sm_90; again for more (the devices' of this machine)",
    )
    warm.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="kernels that are compiled at a time (%(default)s)",
    )
    commands.add_parser(
        "info", help="what CUDA finds here", description=_ABOUT_INFO, formatter_class=form
    )
    return parser


# ---- warm


def _architectures(given: list[str] | None) -> list[str]:
    if given:
        for each in given:
            if not (each.startswith("sm_") and each[3:].rstrip("af").isdigit()):
                raise ValueError(f"warm: expected an architecture such as sm_90, got {each!r}")
        return given
    if not device_count():
        raise ValueError(
            f"warm: no device to compile for ({_C._cuda_why_unavailable()}); "
            "name an architecture: --arch sm_90"
        )
    all_of = map(_C._cuda_properties, range(device_count()))
    return sorted({f"sm_{each['major']}{each['minor']}" for each in all_of})


def _warm(architectures: Iterable[str], jobs: int) -> None:
    _compiler.nvrtc_version()  # says so where there is none
    descriptions = common_kernels()
    for architecture in architectures:
        progress = _Progress(architecture, len(descriptions))
        Workers(descriptions, architecture, max(1, jobs), progress.tell).join()
        progress.end()
    print(f"kept in {_compiler.cache_folder()}")


class _Progress:
    """Says how many kernels are done, on a terminal as it goes on."""

    def __init__(self, architecture: str, total: int) -> None:
        self.architecture, self.total = architecture, total
        self.done, self.error = 0, ""
        self.is_shown = sys.stdout.isatty()

    def tell(self, error: str) -> None:
        self.done += 1
        self.error = self.error or error
        if self.is_shown:
            print(f"\r{self.architecture}: {self.done} of {self.total}", end="", flush=True)

    def end(self) -> None:
        if self.is_shown:
            print("\r", end="")
        if self.error:
            raise RuntimeError(f"warm: {self.error}")
        print(f"{self.architecture}: {self.total} kernels are compiled")


# ---- info


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _device(index: int) -> str:
    found = _C._cuda_properties(index)
    memory = human_bytes(found["total_memory"])
    capability = f"sm_{found['major']}{found['minor']}"
    return f"{found['name']}, {capability}, {found['multi_processor_count']} processors, {memory}"


def _nvrtc() -> str:
    path = _compiler.find_nvrtc()
    if path is None:
        return "none: pip install tapegrad[cuda], or install the CUDA toolkit"
    major, minor = _compiler.nvrtc_version()
    return f"{path}, version {major}.{minor}"


def _blas() -> str:
    from tapegrad.cuda._blas import find_cublaslt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the answer says it
        found = find_cublaslt()
    return found[0] if found else "none: matrix products are slower; pip install tapegrad[cuda]"


def _dnn() -> str:
    from tapegrad.cuda._dnn import find_cudnn

    found = find_cudnn()
    if not found:
        return "none beside a library that stands in for the driver"
    version = _C._cuda_dnn_version()
    if not version:
        return f"none of {', '.join(found)}: convolutions are slower; pip install tapegrad[cuda]"
    return f"{found[0]}, version {version // 10000}.{version // 100 % 100}.{version % 100}"


def _sizes(folder: Path, pattern: str) -> list[int]:
    sizes = []
    for path in folder.glob(pattern):
        with suppress(OSError):  # another process may have removed it
            sizes.append(path.stat().st_size)
    return sizes


def _cache() -> str:
    folder = _compiler.cache_folder()
    kernels = _sizes(folder, "kernels/*/*.cubin")
    plans = _sizes(folder, "plans/*.json")
    found = f"{folder}, {len(kernels)} kernels in {human_bytes(sum(kernels))}"
    return f"{found}, {len(plans)} plans of cuDNN" if plans else found


def _info() -> None:
    rows: list[tuple[str, str]] = []
    if reason := _C._cuda_why_unavailable():
        rows.append(("CUDA", f"not available: {reason}"))
    else:
        rows.append(("driver", f"for CUDA {_version(_C._cuda_driver_version())}"))
        rows += [(f"cuda:{i}", _device(i)) for i in range(device_count())]
    parts: tuple[tuple[str, Callable[[], str]], ...] = (
        ("NVRTC", _nvrtc),
        ("cuBLASLt", _blas),
        ("cuDNN", _dnn),
        ("kernels", _cache),
    )
    for name, tell in parts:
        try:
            rows.append((name, tell()))
        except (OSError, RuntimeError) as error:
            rows.append((name, f"cannot be used: {error}"))
    for name, text in rows:
        print(f"{name:<9} {text}")


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "info":
            _info()
        else:
            _warm(_architectures(arguments.arch), arguments.jobs)
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
