"""Backends by name: which there are, which devices they serve, which engines they stand for."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from tapegrad._types import device as _device
from tapegrad.distributed import _mpi
from tapegrad.distributed._local import LocalEngine
from tapegrad.distributed.engine import Engine, EngineOptions

__all__ = ["Backend", "config_text", "devices_of", "make_engine", "parse_config"]


class _Plugin(NamedTuple):
    make: Callable[..., Engine]
    extended_api: bool


class Backend(str):
    """The name of a backend, in lower case.

    Args:
        name: the name.

    Example:
        >>> torch.distributed.Backend("GLOO") == torch.distributed.Backend.GLOO
        True
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, MPI]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        GLOO: ["cpu", "cuda"],
        NCCL: ["cuda"],
        MPI: ["cpu", "cuda"],
    }
    _plugins: ClassVar[dict[str, _Plugin]] = {}

    def __new__(cls, name: str) -> "Backend":
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Engine],
        extended_api: bool = False,
        devices: str | Sequence[str] | None = None,
    ) -> None:
        """Make an engine known under a name.

        Args:
            name: the name, for `init_process_group` and `new_group`.
            func: returns a `tapegrad.distributed.engine.Engine` for a group. It is called as
                ``func(store, rank, size, timeout)``, or as ``func(options, pg_options)``.
            extended_api: whether func takes an `EngineOptions` and the user's ``pg_options``.
            devices: the device types it serves; "cpu" and "cuda" if left out.
        """
        name = name.lower()
        assert name not in cls.backend_list, f"{name} c10d backend creator function already exist"
        served = [devices] if isinstance(devices, str) else list(devices or ("cpu", "cuda"))
        setattr(cls, name.upper(), name)
        cls.backend_list = [*cls.backend_list, name]
        cls.backend_capability = {**cls.backend_capability, name: served}
        cls._plugins[name] = _Plugin(func, extended_api)


def _has_cuda() -> bool:
    from tapegrad import cuda

    return cuda.is_available()


def is_available() -> bool:
    """Return True: the package is there.

    Example:
        >>> torch.distributed.is_available()
        True
    """
    return True


def is_gloo_available() -> bool:
    """Return True: one process needs no gloo."""
    return True


def is_nccl_available() -> bool:
    """Return whether there is a GPU; one process needs no NCCL."""
    return _has_cuda()


def is_mpi_available() -> bool:
    """Return whether mpi4py is installed. One process may name MPI also without it."""
    return _mpi.is_there()


def is_ucc_available() -> bool:
    """Return False."""
    return False


def is_xccl_available() -> bool:
    """Return False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return whether a backend is there.

    Args:
        backend: its name.

    Example:
        >>> torch.distributed.is_backend_available("gloo")
        True
    """
    known = {"gloo": True, "nccl": _has_cuda(), "mpi": is_mpi_available()}
    name = backend.lower()
    return known.get(name, name in Backend._plugins)


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that a group of which none is named uses for a device.

    Args:
        device: the device, or its name.

    Example:
        >>> torch.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = _device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.default_device_backend_map[kind]


def devices_of(backend: str) -> list[str]:
    """Return the device types that a backend serves."""
    assert backend in Backend.backend_capability, f"Unknown backend type {backend}"
    return Backend.backend_capability[backend]


def parse_config(backend: str | None) -> dict[str, str]:
    """Return the backend for each device type that a name or ``cpu:gloo,cuda:nccl`` gives."""
    if backend is None or backend == Backend.UNDEFINED:
        chosen = dict(Backend.default_device_backend_map)
        return chosen if _has_cuda() else {"cpu": chosen["cpu"]}
    name = Backend(backend)
    if ":" not in name:
        return dict.fromkeys(devices_of(name), str(name))
    chosen = {}
    for pair in name.split(","):
        kind, colon, part = pair.partition(":")
        if not colon:
            raise ValueError(
                f"Invalid device:backend pairing: {pair}; the backend string {name} must be of the "
                "form device:backend,device:backend"
            )
        if _device(kind).type in chosen:
            raise ValueError(f"Duplicate device type {kind} in backend string: {name}")
        assert part in Backend.backend_capability, f"Unknown c10d backend type {part.upper()}"
        chosen[_device(kind).type] = part
    return chosen


def config_text(config: dict[str, str]) -> str:
    """Return the backends of device types as one string."""
    return ",".join(f"{kind}:{name}" for kind, name in config.items())


def check_backends(config: dict[str, str], world_size: int) -> None:
    """Refuse what cannot be served: several processes without an engine, NCCL without a GPU."""
    for name in config.values():
        if name in Backend._plugins:
            continue
        if world_size > 1 and name == Backend.NCCL:
            raise RuntimeError(
                f"init_process_group: got a world of {world_size} processes, and several processes "
                "on GPUs are not supported yet: there is no engine for 'nccl'. Start one process, "
                "or use 'gloo' or 'mpi' on CPUs"
            )
        if world_size > 1 and not _mpi.is_there():
            raise RuntimeError(
                f"init_process_group: got a world of {world_size} processes, which needs MPI, and "
                "mpi4py is not installed; pip install 'tapegrad[distributed]', and start the "
                "processes by mpiexec"
            )
        if name == Backend.NCCL and not _has_cuda():
            raise RuntimeError("init_process_group: nccl needs a GPU, and none was found")


def make_engine(name: str, options: EngineOptions, pg_options: Any) -> Engine:
    """Return the engine of a group."""
    plugin = Backend._plugins.get(name)
    if plugin is None:
        return LocalEngine(options) if options.group_size == 1 else _mpi.MpiEngine(options)
    if plugin.extended_api:
        return plugin.make(options, pg_options)
    return plugin.make(options.store, options.group_rank, options.group_size, options.timeout)
