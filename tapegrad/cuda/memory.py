"""The memory of CUDA devices: what tensors hold, what is kept for reuse, and who has the rest."""

from collections import OrderedDict
from typing import Any

from tapegrad import _C
from tapegrad._C import OutOfMemoryError
from tapegrad.cuda.devices import device_index

__all__ = [
    "OutOfMemoryError",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_stats(device: Any = None) -> "OrderedDict[str, int]":
    """Return the statistics of a device's allocator, by names as PyTorch has them.

    A name is ``quantity.pool.value``, such as ``"allocated_bytes.all.peak"``. Quantities are
    ``allocation``, ``segment``, ``active`` and ``inactive_split``, each also in bytes, and
    ``reserved_bytes`` and ``requested_bytes``; pools are ``all``, ``small_pool`` (tensors of up to
    1 MiB) and ``large_pool``; values are ``current``, ``peak``, and ``allocated`` and ``freed``,
    which are sums since the start. ``num_alloc_retries``, ``num_ooms``, ``num_device_alloc`` and
    ``num_device_free`` are counts. Empty before a device was used.

    Args:
        device: its number, name or object; the current one if left out.
    """
    flat: list[tuple[str, int]] = []

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{prefix}.{name}" if prefix else name, inner)
        else:
            flat.append((prefix, value))

    walk("", memory_stats_as_nested_dict(device))
    return OrderedDict(sorted(flat))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return what `memory_stats` does, as dicts of dicts."""
    if not _C._cuda_is_initialized():
        return {}
    return _C._cuda_memory_stats(device_index(device, "memory_stats"))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks of `memory_stats` start again at what is there now."""
    _C._cuda_reset_peaks(device_index(device, "reset_peak_memory_stats"))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the sums and counts of `memory_stats` start again at zero."""
    _C._cuda_reset_sums(device_index(device, "reset_accumulated_memory_stats"))


def reset_max_memory_allocated(device: Any = None) -> None:
    """Call `reset_peak_memory_stats`, its newer name."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Call `reset_peak_memory_stats`, its newer name."""
    reset_peak_memory_stats(device)


def memory_allocated(device: Any = None) -> int:
    """Return the bytes that tensors on a device hold.

    Args:
        device: its number, name or object; the current one if left out.
    """
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that tensors on a device held since the start or the last reset."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Return the bytes taken from the driver: those of tensors, and those kept for reuse."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes taken from the driver since the start or the last reset."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_cached(device: Any = None) -> int:
    """Return what `memory_reserved` does, by its old name."""
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Return what `max_memory_reserved` does, by its old name."""
    return max_memory_reserved(device)


def memory_snapshot() -> list[dict[str, Any]]:
    """Return the segments of all devices' allocators, and the blocks that they are cut into."""
    return _C._cuda_snapshot()


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the driver, for other programs to use.

    Tensors get no more memory by it: where none is left, this is done before an error is raised.
    """
    if _C._cuda_is_initialized():
        _C._cuda_empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total bytes of a device, whoever uses the rest.

    Args:
        device: its number, name or object; the current one if left out.
    """
    return _C._cuda_memory_info(device_index(device, "mem_get_info"))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process take at most a part of a device's memory.

    Args:
        fraction: the part, from 0 to 1.
        device: its number, name or object; the current one if left out.
    """
    index = device_index(device, "set_per_process_memory_fraction")
    _C._cuda_set_memory_fraction(index, fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the part of a device's memory that this process may take."""
    return _C._cuda_memory_fraction(device_index(device, "get_per_process_memory_fraction"))


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Return the address of fresh memory, for another library.

    Args:
        size: how many bytes.
        device: its number, name or object; the current one if left out.
        stream: the stream that will use it; the current one if left out.
    """
    index = device_index(device, "caching_allocator_alloc")
    outer = _C._cuda_current_stream(index)
    handle = getattr(stream, "cuda_stream", stream)
    _C._cuda_set_stream(index, outer if handle is None else handle)
    try:
        return _C._cuda_allocate(index, size)
    finally:
        _C._cuda_set_stream(index, outer)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Take back what `caching_allocator_alloc` gave.

    Args:
        mem_ptr: the address.
    """
    for index in range(_C._cuda_device_count()):  # addresses of devices are all different
        _C._cuda_deallocate(index, mem_ptr)


_ROWS = [  # title, quantity, whether it is in bytes
    ("Tensors", "allocated_bytes", True),
    ("Asked for by tensors", "requested_bytes", True),
    ("In use on a stream", "active_bytes", True),
    ("From the driver", "reserved_bytes", True),
    ("Free between tensors", "inactive_split_bytes", True),
    ("Allocations", "allocation", False),
    ("Blocks in use", "active", False),
    ("Segments", "segment", False),
    ("Free blocks between tensors", "inactive_split", False),
]
_VALUES = ("current", "peak", "allocated", "freed")


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return a table of `memory_stats` to print.

    Args:
        device: its number, name or object; the current one if left out.
        abbreviated: whether to leave out the rows of the two pools.
    """
    index = device_index(device, "memory_summary")
    stats = _C._cuda_memory_stats(index)
    pools = ("all",) if abbreviated else ("all", "small_pool", "large_pool")
    head = f"{'':<29}" + "".join(f"{title:>13}" for title in ("now", "peak", "allocated", "freed"))
    rule = "-" * len(head)
    lines = [
        f"CUDA memory of device {index}: {stats['num_ooms']} times out of memory, "
        f"{stats['num_alloc_retries']} times cache given back",
        rule,
        head,
    ]
    for title, quantity, is_bytes in _ROWS:
        if quantity in ("allocated_bytes", "allocation"):
            lines.append(rule)
        for pool in pools:
            name = title if pool == "all" else f"  {pool.replace('_', ' ')}"
            numbers = [stats[quantity][pool][value] for value in _VALUES]
            texts = map(_readable, numbers) if is_bytes else map(str, numbers)
            lines.append(f"{name:<29}" + "".join(f"{text:>13}" for text in texts))
    return "\n".join([*lines, rule, ""])


def _readable(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
