"""Where a run computes: on the CPU or on a GPU."""

import tapegrad
from tapegrad import _C
from tapegrad.cli.errors import UserError
from tapegrad.cuda import _compiler
from tapegrad.utils._units import human_bytes
from tapegrad.utils.progress import memory_in_use

__all__ = ["chosen_device", "described", "get_chance", "memory", "set_chance"]

_INSTALL = "pip install 'tapegrad[cuda]'"


def chosen_device(name: str) -> tapegrad.device:
    """Return the device that ``--device`` names, or say why it cannot be used."""
    try:
        device = tapegrad.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UserError(f"--device: expected cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cpu":
        return device
    try:
        tapegrad.cuda.set_device(device)  # which asks the driver
    except RuntimeError as error:
        raise UserError(f"--device {name}: {error}") from error
    if _compiler.find_nvrtc() is None:
        raise UserError(
            f"--device {name}: NVRTC, which compiles kernels, was not found; {_INSTALL}"
        )
    return tapegrad.device("cuda", tapegrad.cuda.current_device())


def described(device: tapegrad.device) -> str:
    """Return a device in words: what it is, and how large."""
    if device.type == "cpu":
        return f"cpu, {tapegrad.get_num_threads()} threads"
    properties = tapegrad.cuda.get_device_properties(device)
    version = _C._cuda_driver_version()
    return (
        f"{device}, {properties.name}, {human_bytes(properties.total_memory)}, "
        f"CUDA {version // 1000}.{version % 1000 // 10}"
    )


def memory(device: tapegrad.device) -> int:
    """Return the bytes that the run holds: of this process, or at most so far of the GPU."""
    if device.type == "cpu":
        return memory_in_use()
    return tapegrad.cuda.max_memory_allocated(device)


def get_chance(device: tapegrad.device) -> tapegrad.Tensor:
    """Return the state of the generator that dropout draws from."""
    if device.type == "cpu":
        return tapegrad.get_rng_state()
    return tapegrad.cuda.get_rng_state(device)


def set_chance(state: tapegrad.Tensor, device: tapegrad.device) -> None:
    """Let dropout go on from a state, be it of another device: they draw the same numbers."""
    if device.type == "cpu":
        tapegrad.set_rng_state(state)
    else:
        tapegrad.cuda.set_rng_state(state, device)
