"""NVIDIA's driver, NVRTC and CUPTI on the CPU, for tests of the CUDA back end without a GPU.

``library()`` gives the path of one shared library with the functions of all. The product loads it
in their place when three environment variables name it, which they have to do before CUDA is first
used in a process: ``os.environ | environment()``.

Kernel texts are compiled by the C++ compiler with ``device.h`` before them, and run one thread of
the host at a time. Work of streams runs as late as CUDA allows, memory begins as garbage, and
writes out of bounds, barriers that not all threads reach and the like are errors of CUDA at the
next synchronisation, with a message on stderr. ``TAPEGRAD_CUDA_CACHE=0``, which the product's
allocator reads, makes each tensor an allocation of its own, whose bounds are checked.

Environment variables, read by the library:
    TAPEGRAD_EMULATED_DEVICES: how many devices there are (2); read by cuInit.
    TAPEGRAD_EMULATED_MEMORY: bytes of memory of each (1 GiB); read by cuInit.
    TAPEGRAD_EMULATOR_ORDER: in which order the threads of a warp, the warps of a block and the
        blocks of a grid run: ``ascending``, ``descending``, or a number, the seed of a shuffle;
        read at each launch.
    TAPEGRAD_EMULATOR_RACES: 1: a thread that reads shared memory which another one writes, with
        nothing that orders the two, is an error; read at each launch.
    TAPEGRAD_EMULATED_CUPTI: ``busy``: CUPTI refuses, as if another profiler used it; read when a
        profile begins.
    TAPEGRAD_EMULATOR_CACHE: a folder that keeps what was compiled; one in the system's folder for
        temporary files otherwise.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["environment", "library", "why_unavailable"]

HERE = Path(__file__).parent
CSRC = HERE.parent.parent / "csrc"
MACHINES = ("x86_64", "aarch64")
OPTIONS = ("-std=c++20", "-O2", "-g1", "-fPIC", "-shared", "-pthread", "-U_FORTIFY_SOURCE")
LINK_OPTIONS = ("-Wl,-z,defs", "-ldl")


@cache
def _compiler() -> str | None:
    """Return the command of the C++ compiler, or None."""
    for command in (os.environ.get("CXX", ""), "g++", "clang++", "c++"):
        if command.strip() and shutil.which(command.split()[0]):
            return command
    return None


def why_unavailable() -> str:
    """Return why there is no emulator here, for a test to be skipped; empty if there is one."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return f"the emulator of CUDA runs on Linux on {' and '.join(MACHINES)}"
    if _compiler() is None:
        return "the emulator of CUDA needs a C++ compiler"
    return ""


def _cache_folder() -> Path:
    """Return the folder of what was compiled; nvrtc.cpp uses the same."""
    chosen = os.environ.get("TAPEGRAD_EMULATOR_CACHE")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    folder = Path(chosen or f"{temporary}/tapegrad-emulator-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _hash(compiler: str) -> str:
    """Return a hash of all that the library and the kernels compiled by it are made of."""
    version = subprocess.run([*compiler.split(), "--version"], capture_output=True, check=True)
    parts = [compiler.encode(), version.stdout, str(HERE).encode(), repr(OPTIONS).encode()]
    for path in (*sorted(HERE.glob("*.h")), *sorted(HERE.glob("*.cpp")), CSRC / "cuda/driver.h"):
        parts += [path.name.encode(), path.read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def _build(compiler: str, identity: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [
            *compiler.split(),
            *OPTIONS,
            f'-DEMULATOR_FOLDER="{HERE}"',
            f'-DEMULATOR_COMPILER="{compiler}"',
            f'-DEMULATOR_HASH="{identity}"',
            *("-I", str(CSRC), "-I", str(HERE)),
            *(str(path) for path in sorted(HERE.glob("*.cpp"))),
            *("-o", str(made)),
            *LINK_OPTIONS,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"cuda_emulator: it does not compile:\n{done.stderr}")
        made.replace(target)


@cache
def library() -> Path:
    """Return the path of the emulator, which is built if its source has changed."""
    reason = why_unavailable()
    if reason:
        raise RuntimeError(f"cuda_emulator: {reason}")
    compiler = _compiler()
    assert compiler is not None
    identity = _hash(compiler)
    target = _cache_folder() / f"libemulator-{identity}.so"
    if target.exists():
        return target
    # Processes of one test run arrive here together; the first builds.
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(compiler, identity, target)
    return target


def environment() -> dict[str, str]:
    """Return the environment variables with which a new process uses the emulator."""
    path = str(library())
    return {"TAPEGRAD_CUDA_DRIVER": path, "TAPEGRAD_NVRTC": path, "TAPEGRAD_CUPTI": path}
