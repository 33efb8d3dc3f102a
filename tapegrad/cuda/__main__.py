"""``python -m tapegrad.cuda``: what CUDA finds here, and kernels compiled ahead of time."""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from tapegrad import _C
from tapegrad.cuda import _compiler, _kernels, pointwise_source
from tapegrad.cuda.devices import device_count
from tapegrad.utils._units import human_bytes

__all__ = ["main"]

_COMMON = Path(__file__).parent / "common_kernels.txt"

_DESCRIPTION = "Look at what CUDA finds on this machine, and compile kernels ahead of time."
_ABOUT_WARM = """\
Kernels are compiled when a program first needs them, a tenth of a second or so each, and then
kept on disk. This compiles the common ones now, so that the first step of a training does not
wait: those of layers, losses and optimizers in float32, bfloat16 and float16. It needs NVRTC, and
no GPU: in the image of a container, name the architecture.

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


def common_kernels() -> list[str]:
    """Return the descriptions of the kernels that most programs use.

    The file has one in a block of lines; lines of the pointwise table stand there by name.
    """
    numbers = {line.name: str(k) for k, line in enumerate(pointwise_source.lines())}
    numbers |= {"copy": "-1", "fill": "-2"}
    found = []
    for block in _COMMON.read_text(encoding="utf-8").strip().split("\n\n"):
        family, name, rest = block.split(" ", 2) if block.startswith("pointwise") else ("", "", "")
        if not family:
            found.append(block)
        elif name in numbers:
            found.append(f"{family} {numbers[name]} {rest}")
    return found


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


def _compile(description: str, architecture: str) -> None:
    text = _kernels.source(description)
    _compiler.compiled(text, architecture, pointwise_source.COMPILE_OPTIONS)


def _warm(architectures: Iterable[str], jobs: int) -> None:
    descriptions = common_kernels()
    shows = sys.stdout.isatty()
    for architecture in architectures:
        with ThreadPoolExecutor(max(1, jobs)) as pool:
            work = pool.map(partial(_compile, architecture=architecture), descriptions)
            for done, _ in enumerate(work, start=1):
                if shows:
                    print(f"\r{architecture}: {done} of {len(descriptions)}", end="", flush=True)
        start = "\r" if shows else ""
        print(f"{start}{architecture}: {len(descriptions)} kernels are compiled")
    print(f"kept in {_compiler.cache_folder()}")


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


def _cache() -> str:
    folder = _compiler.cache_folder()
    sizes = []
    for path in (folder / "kernels").glob("*/*.cubin"):
        with suppress(OSError):  # another process may have removed it
            sizes.append(path.stat().st_size)
    return f"{folder}, {len(sizes)} kernels in {human_bytes(sum(sizes))}"


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
