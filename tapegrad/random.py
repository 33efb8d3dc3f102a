"""The default generators: seeds, states, and a block that leaves them as they were."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad import _C
from tapegrad._C import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Leave the default generators at the end of a block as they were at its beginning.

    Args:
        devices: numbers, names or objects of the CUDA devices whose generators are meant beside
            the CPU's; all of them if left out.
        enabled: False changes nothing.
        device_type: the type of these devices: "cuda", or "meta", which has no generators.

    Example:
        >>> torch.manual_seed(0).initial_seed()
        0
        >>> with torch.random.fork_rng():
        ...     inside = torch.rand(1)
        >>> bool(torch.rand(1) == inside)
        True
    """
    if device_type not in (None, "cuda", "meta"):
        raise RuntimeError(
            f"fork_rng: expected device_type to be 'cuda' or 'meta', got {device_type!r}"
        )
    if not enabled or device_type == "meta":
        yield
        return
    from tapegrad import cuda

    chosen = list(range(_C._cuda_device_count()) if devices is None else devices)
    cpu_state = get_rng_state()
    states = [cuda.get_rng_state(device) for device in chosen]
    try:
        yield
    finally:
        set_rng_state(cpu_state)
        for device, state in zip(chosen, states, strict=True):
            cuda.set_rng_state(state, device)
