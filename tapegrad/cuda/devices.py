"""Which CUDA devices there are, and which of them is used."""

from itertools import pairwise
from typing import Any

from tapegrad import _C
from tapegrad._types import device as _device

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_sync_debug_mode",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "set_device",
    "set_sync_debug_mode",
    "synchronize",
]


def device_index(device: Any, function: str) -> int:
    """Return the number of a device given as number, name or object; None is the current one."""
    if device is None:
        return _C._cuda_current_device()
    if isinstance(device, int):
        index: int | None = device
    else:
        named = _device(device)
        if named.type != "cuda":
            raise ValueError(f"cuda.{function}: expected a cuda device, got '{named}'")
        index = named.index
    if index is None:
        return _C._cuda_current_device()
    _C._cuda_check_device(index)
    return index


def is_available() -> bool:
    """Return whether a CUDA device can be used.

    Where the answer is False, every function that needs one says what is missing.

    Example:
        >>> device = "cuda" if torch.cuda.is_available() else "cpu"
    """
    return not _C._cuda_why_unavailable()


def is_initialized() -> bool:
    """Return whether a CUDA device has been used in this process."""
    return _C._cuda_is_initialized()


def init() -> None:
    """Start to use the current device, which the first op on it does otherwise."""
    _C._cuda_set_device(_C._cuda_current_device())


def device_count() -> int:
    """Return the number of CUDA devices that can be used."""
    return _C._cuda_device_count()


def current_device() -> int:
    """Return the number of the device that ``"cuda"`` means on this thread."""
    return _C._cuda_current_device()


def set_device(device: Any) -> None:
    """Choose the device that ``"cuda"`` means on this thread.

    Args:
        device: its number, name or object; a negative number changes nothing.
    """
    if not (isinstance(device, int) and device < 0):
        _C._cuda_set_device(device_index(device, "set_device"))


class device:
    """Choose the current device for a block.

    Args:
        device: its number, name or object; None or a negative number changes nothing.
    """

    def __init__(self, device: Any) -> None:
        is_none = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if is_none else device_index(device, "device")
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _C._cuda_current_device()
            _C._cuda_set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx >= 0:
            _C._cuda_set_device(self.prev_idx)


class device_of(device):
    """Choose the device of a tensor for a block; one that is not on a CUDA device changes nothing.

    Args:
        obj: the tensor.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _CudaDeviceProperties:
    """What a device is and has."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    max_blocks_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: int
    is_multi_gpu_board: int
    pci_domain_id: int
    pci_bus_id: int
    pci_device_id: int
    uuid: str

    def __init__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)
        digits = facts["uuid"].hex()
        cuts = (0, 8, 12, 16, 20, 32)
        self.uuid = "-".join(digits[a:b] for a, b in pairwise(cuts))

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, "
            f"pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size >> 20}MB)"
        )


def get_device_properties(device: Any = None) -> _CudaDeviceProperties:
    """Return what a device is and has: name, compute capability, memory, multiprocessors, limits.

    Args:
        device: its number, name or object; the current one if left out.
    """
    return _CudaDeviceProperties(_C._cuda_properties(device_index(device, "get_device_properties")))


def get_device_name(device: Any = None) -> str:
    """Return the name of a device; see `get_device_properties`."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability of a device, as major and minor number."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_arch_list() -> list[str]:
    """Return the architectures that kernels are made for: those of the devices that are here.

    Kernels are compiled when they are first used, so there is no list of others.
    """
    capabilities = {get_device_capability(index) for index in range(device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(capabilities)]


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Return whether a device can read the memory of another."""
    function = "can_device_access_peer"
    return _C._cuda_can_access_peer(
        device_index(device, function), device_index(peer_device, function)
    )


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current device computes with bfloat16.

    Args:
        including_emulation: whether conversions to and from float32 count; if not, the device must
            have instructions for it, as from compute capability 8.0 on.
    """
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Return whether the current device multiplies in TF32: from compute capability 8.0 on."""
    return is_available() and get_device_capability()[0] >= 8


def synchronize(device: Any = None) -> None:
    """Wait until everything that was started on a device is done.

    Args:
        device: its number, name or object; the current one if left out.
    """
    _C._cuda_synchronize(device_index(device, "synchronize"))


_SYNC_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set what happens when this process waits for a device without being asked to by name.

    Reading an element does so, and an allocation when memory runs out.

    Args:
        debug_mode: ``"default"`` or 0 for nothing, ``"warn"`` or 1, ``"error"`` or 2.
    """
    modes = dict(zip((*_SYNC_MODES, 0, 1, 2), (0, 1, 2) * 2, strict=True))
    if debug_mode not in modes:
        raise RuntimeError(
            "cuda.set_sync_debug_mode: expected 'default', 'warn' or 'error', or 0, 1 or 2, "
            f"got {debug_mode!r}"
        )
    _C._cuda_set_sync_debug_mode(modes[debug_mode])


def get_sync_debug_mode() -> int:
    """Return what `set_sync_debug_mode` has set, as a number."""
    return _C._cuda_sync_debug_mode()


def ipc_collect() -> None:
    """Free memory that was shared with processes that have ended: none is shared."""
