"""Who this process is in its world: from arguments, addresses and what launchers set."""

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tapegrad.distributed._stores import FileStore, Store, TCPStore

__all__ = ["get_node_local_rank", "is_torchelastic_launched", "local_rank", "rendezvous"]

Found = tuple[Store, int, int]  # the store, the rank, the number of processes

# Rank and number of processes, as torchrun, Open MPI, MPICH and Slurm call them.
_WORLD = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_LOCAL = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")

_handlers: dict[str, Callable[..., Any]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Any]) -> None:
    """Let ``init_method`` know another kind of address.

    Args:
        scheme: what stands before ``://``.
        handler: called as ``handler(url, ...)``; yields (store, rank, world_size).
    """
    if scheme in _handlers or scheme in _OWN:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Found]:
    """Yield the store, the rank and the number of processes that an address stands for.

    Args:
        url: ``env://``, ``file:///path`` or ``tcp://host:port``, with ``?rank=`` and
            ``world_size=`` where they are not given.
        rank: the rank of this process.
        world_size: the number of processes.
        **kwargs: for handlers of programs.
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if type(rank) is not int or type(world_size) is not int:
        raise RuntimeError(f"rank and world_size must be integers, got {rank!r} and {world_size!r}")
    parts = urlsplit(url)
    scheme = parts.scheme or "env"
    if scheme in _handlers:
        return iter(_handlers[scheme](url, rank, world_size, **kwargs))
    if scheme not in _OWN:
        raise RuntimeError(f"No rendezvous handler for {scheme}://")
    query = dict(parse_qsl(parts.query))
    rank = int(query.get("rank", rank)) if rank < 0 else rank
    world_size = int(query.get("world_size", world_size)) if world_size < 0 else world_size
    return iter([_OWN[scheme](parts, rank, world_size)])


def _fail(scheme: str, text: str) -> Exception:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _of_environment(parts: Any, rank: int, world_size: int) -> Found:
    names = next((pair for pair in _WORLD if any(os.environ.get(n) for n in pair)), _WORLD[0])
    given = [rank, world_size]
    for i, name in enumerate(names):
        if given[i] < 0:
            text = os.environ.get(name)
            if not text:
                raise _fail("env", f"environment variable {name} expected, but not set")
            given[i] = int(text)
    rank, world_size = given
    _check_ranks("env", rank, world_size)
    host = os.environ.get("MASTER_ADDR", "localhost")
    port = int(os.environ.get("MASTER_PORT", "0"))
    return _one_process(world_size, host, port), rank, world_size


def _of_address(parts: Any, rank: int, world_size: int) -> Found:
    if parts.port is None:
        raise _fail("tcp", "port number missing")
    _check_ranks("tcp", rank, world_size)
    return _one_process(world_size, parts.hostname or "localhost", parts.port), rank, world_size


def _of_file(parts: Any, rank: int, world_size: int) -> Found:
    if not parts.path:
        raise _fail("file", "path missing")
    _check_ranks("file", rank, world_size)
    return FileStore(parts.path, world_size), rank, world_size


_OWN = {"env": _of_environment, "tcp": _of_address, "file": _of_file}


def _check_ranks(scheme: str, rank: int, world_size: int) -> None:
    if rank < 0:
        raise _fail(scheme, "rank parameter missing")
    if world_size < 0:
        raise _fail(scheme, "world size parameter missing")


def _one_process(world_size: int, host: str, port: int) -> Store:
    """Return the store of an address; who uses it for several processes is told there."""
    return TCPStore(host, port, world_size, is_master=True) if world_size <= 1 else Store()


def local_rank() -> int | None:
    """Return the rank among the processes of this machine, if a launcher has set it."""
    found = next((os.environ[name] for name in _LOCAL if os.environ.get(name)), None)
    return None if found is None else int(found)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank of this process among those of its machine.

    Args:
        fallback_rank: what to return where no launcher has set it.

    Example:
        >>> torch.distributed.get_node_local_rank(fallback_rank=0)
        0
    """
    rank = local_rank()
    if rank is not None:
        return rank
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work where no launcher has set it."
    )


def is_torchelastic_launched() -> bool:
    """Return whether torchrun has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None
