"""The generators of CUDA devices: one for each, with the CPU's streams of numbers.

`torch.manual_seed` seeds them all, those of devices that are used later included.
"""

from collections.abc import Iterable
from typing import Any

from tapegrad import _C
from tapegrad._C import Generator, Tensor
from tapegrad.cuda.devices import device_count, device_index, is_available

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _generator(device: Any, function: str) -> Generator:
    return _C._cuda_generator(device_index(device, function))


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device. Does nothing where there is none.

    Args:
        seed: an integer of 64 bits.
    """
    if is_available():
        _generator(None, "manual_seed").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices. Does nothing where there is none.

    Args:
        seed: an integer of 64 bits.
    """
    _C._cuda_manual_seed_all(seed)


def seed() -> None:
    """Seed the generator of the current device from the system."""
    if is_available():
        _generator(None, "seed").seed()


def seed_all() -> None:
    """Seed the generators of all devices with one seed from the system."""
    if is_available():
        manual_seed_all(Generator().seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return _generator(None, "initial_seed").initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """Return the state of a device's generator, as a uint8 tensor on the CPU.

    Args:
        device: its number, name or object.
    """
    return _generator(device, "get_rng_state").get_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state that `get_rng_state` returned.

    Args:
        new_state: the state.
        device: the number, name or object of the device.
    """
    _generator(device, "set_rng_state").set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states that `get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
