"""Remote procedure calls: refused in words."""

from tapegrad._refused import Refused, refused
from tapegrad.distributed.rpc import functions

__all__ = [
    "RRef",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "functions",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

_WHY = "remote procedure calls are not supported"

get_worker_info = refused("rpc.get_worker_info", _WHY)
init_rpc = refused("rpc.init_rpc", _WHY)
remote = refused("rpc.remote", _WHY)
rpc_async = refused("rpc.rpc_async", _WHY)
rpc_sync = refused("rpc.rpc_sync", _WHY)
shutdown = refused("rpc.shutdown", _WHY)


def is_available() -> bool:
    """Return False: there are no remote procedure calls.

    Example:
        >>> torch.distributed.rpc.is_available()
        False
    """
    return False


class RRef(Refused):
    """Refuses: there are no remote procedure calls."""

    _why = _WHY


class WorkerInfo(Refused):
    """Refuses: there are no remote procedure calls."""

    _why = _WHY


class TensorPipeRpcBackendOptions(Refused):
    """Refuses: there are no remote procedure calls."""

    _why = _WHY
