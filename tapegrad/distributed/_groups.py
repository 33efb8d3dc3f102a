"""The world of this process, and groups of its processes.

A group knows the ranks of its members in the world, in order, and has one engine for each backend
that serves it. Users name processes by their rank in the world, engines by their rank in the group;
the functions here translate, and nothing below them knows of the world.
"""

import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tapegrad._types import device as _device
from tapegrad.distributed import _mpi, _watch
from tapegrad.distributed._backends import (
    Backend,
    check_backends,
    config_text,
    make_engine,
    parse_config,
)
from tapegrad.distributed._environment import rendezvous
from tapegrad.distributed._stores import PrefixStore, Store
from tapegrad.distributed.engine import Engine, EngineOptions

__all__ = ["GroupMember", "ProcessGroup", "destroy_process_group", "group", "init_process_group"]

default_pg_timeout = timedelta(minutes=30)

_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


class ProcessGroup:
    """Some processes of the world, which operate together. Made by `init_process_group`,
    `new_group` and their relatives."""

    def __init__(
        self, ranks: list[int], rank: int, config: dict[str, str], options: EngineOptions
    ) -> None:
        self._ranks = ranks
        self._rank = rank
        self._config = config
        self._options = options
        self._engines: dict[str, Engine] = {}  # by device type
        self._backend = Backend.UNDEFINED
        self._is_world = False
        self.group_desc = "undefined"

    def rank(self) -> int:
        """Return the rank of this process in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of processes in the group."""
        return len(self._ranks)

    def name(self) -> str:
        """Return the name of the backend."""
        return self._backend

    @property
    def group_name(self) -> str:
        """The name of the group, the same in all its processes."""
        return self._options.group_id

    @property
    def bound_device_id(self) -> Any:
        """The device that this process has bound itself to, or None."""
        return self._options.device_id

    def get_group_store(self) -> Store:
        """Return the store of the group."""
        return self._options.store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long an operation of the group may take."""
        self._options = self._options._replace(timeout=_checked_timeout(timeout))
        for engine in self._engines.values():
            engine.options = engine.options._replace(timeout=timeout)

    def __reduce__(self) -> Any:
        raise TypeError("ProcessGroup: a group cannot be pickled: it belongs to its process")

    def engine_for(self, kind: str) -> Engine:
        """Return the engine that serves a device type."""
        if kind not in self._engines:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self._engines[kind]

    def _make_engines(self, pg_options: Any) -> None:
        made: dict[str, Engine] = {}
        for kind, name in self._config.items():
            if name not in made:
                made[name] = make_engine(name, self._options, pg_options)
            self._engines[kind] = made[name]

    def _close(self) -> None:
        for engine in dict.fromkeys(self._engines.values()):
            engine.close()
        self._engines = {}


class World:
    """The groups that this process is in."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.made = 0


_world = World()


def world() -> World:
    """Return the world of this process. Everything else asks here."""
    return _world


class _WorldNames(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes, or None."""
        return world().default


class group(metaclass=_WorldNames):
    """Where the group of all processes is found: ``group.WORLD``."""


class GroupMember(metaclass=_WorldNames):
    """What `new_group` returns to processes that are not in the group."""

    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Return whether `init_process_group` was called.

    Example:
        >>> torch.distributed.is_initialized()
        False
    """
    return world().default is not None


def _get_default_group() -> ProcessGroup:
    """Return the group of all processes."""
    default = world().default
    if default is None:
        raise ValueError(_NOT_INITIALIZED)
    return default


def resolve(group: Any) -> ProcessGroup | None:
    """Return the group that an argument means; None if this process is not in it."""
    if group is None:
        return _get_default_group()
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(group, ProcessGroup):
        raise ValueError(
            f"Process group {group} is not initialized in the world group map. Please initialize "
            "the group first."
        )
    if group not in world().groups:
        raise ValueError(
            f"Group {group} is not registered, please create group with "
            "torch.distributed.new_group API"
        )
    return group


def member(group: Any, name: str) -> ProcessGroup | None:
    """Return the group that an argument means; warn and return None if this is not in it."""
    found = resolve(group)
    if found is None:
        rank = _get_default_group().rank()
        warnings.warn(
            f"Running {name} on global rank {rank} which does not belong to the given group.",
            stacklevel=3,
        )
    return found


def registered(group: Any) -> ProcessGroup:
    """Return the group that an argument means, in which this process must be."""
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found


# ---- ranks


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank of this process.

    Args:
        group: in which group; the world if left out.

    Returns:
        The rank, or -1 in a group that this process is not in.
    """
    found = resolve(group)
    return -1 if found is None else found.rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of processes.

    Args:
        group: of which group; the world if left out.

    Returns:
        The number, or -1 for a group that this process is not in.
    """
    found = resolve(group)
    return -1 if found is None else found.size()


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group of a process of the world.

    Args:
        group: the group.
        global_rank: the rank in the world.
    """
    found = registered(group)
    if found._is_world:
        return global_rank
    if global_rank not in found._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return found._ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the rank in the world of a process of a group.

    Args:
        group: the group.
        group_rank: the rank in the group.
    """
    found = registered(group)
    if found._is_world:
        return group_rank
    if not 0 <= group_rank < found.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return found._ranks[group_rank]


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the ranks in the world of a group's processes.

    Args:
        group: the group; the world if None.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        raise KeyError(group)
    return list(registered(group)._ranks)


def canonical_rank(
    group: ProcessGroup, global_rank: int | None, group_rank: int | None, name: str
) -> int:
    """Return the rank in a group of a root or peer that is given in one of two ways."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        rank = group_rank
    elif global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    else:
        rank = get_group_rank(group, global_rank)
    if isinstance(rank, bool) or not isinstance(rank, int):
        raise TypeError(f"{name}: expected a rank, got {rank!r} of type {type(rank).__name__}")
    return rank


def check_root(group: ProcessGroup, root: int, name: str) -> None:
    """Refuse a root or peer outside of the group."""
    if not 0 <= root < group.size():
        raise RuntimeError(
            f"{name}: invalid root rank: {root}; the group has ranks 0 to {group.size() - 1}"
        )


def get_backend(group: ProcessGroup | None = None) -> Backend:
    """Return the name of a group's backend.

    Args:
        group: the group; the world if left out.
    """
    return Backend(registered(group)._backend)


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Return the backend of each device type of a group.

    Args:
        group: the group; the world if left out.
    """
    return config_text(registered(group)._config)


def get_pg_count() -> int:
    """Return the number of groups that were made."""
    return len(world().groups)


# ---- making and ending groups


def _checked_timeout(timeout: Any) -> timedelta:
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    return timeout


def _bound_device(place: Any) -> Any:
    if place is None:
        return None
    found = _device("cuda", place) if isinstance(place, int) else _device(place)
    if found.type != "cuda" or found.index is None:
        raise ValueError(
            "init_process_group device_id parameter must be an accelerator with an index, got "
            f"{found}"
        )
    return found


def _make(
    ranks: list[int],
    backend: str | None,
    config: dict[str, str],
    options: EngineOptions,
    pg_options: Any,
) -> ProcessGroup:
    made = ProcessGroup(ranks, options.group_rank, config, options)
    made._backend = Backend.UNDEFINED if backend is None else Backend(backend)
    made._make_engines(pg_options)
    world().groups.append(made)
    return made


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Begin: make the group of all processes.

    Args:
        backend: "gloo", "nccl", "mpi", one for each device type as in "cpu:gloo,cuda:nccl", or the
            name of an engine that was registered.
        init_method: where rank and number of processes come from: ``env://``, which is the default
            and reads what torchrun, Open MPI, MPICH or Slurm have set, ``file:///path`` or
            ``tcp://host:port``.
        timeout: how long an operation may take; 30 minutes if left out.
        world_size: the number of processes. Several need MPI, or an engine that is registered.
        rank: the rank of this process.
        store: a store, in place of init_method.
        group_name: accepted.
        pg_options: for an engine that was registered.
        device_id: the GPU of this process.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> torch.distributed.get_world_size()
        1
        >>> torch.distributed.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    assert store is None or init_method is None, "Cannot specify both init_method and store."
    config = parse_config(backend)
    limit = default_pg_timeout if timeout is None else _checked_timeout(timeout)
    place = _bound_device(device_id)
    if store is not None:
        assert world_size > 0, "world_size must be positive if using store"
        assert rank >= 0, "rank must be non-negative if using store"
    else:
        if backend == Backend.MPI and init_method is None and max(rank, world_size) < 0:
            rank, world_size = _mpi.world() if _mpi.is_there() else (rank, world_size)
        method = "env://" if init_method is None else init_method
        store, rank, world_size = next(iter(rendezvous(method, rank, world_size)))
    check_backends(config, world_size)
    if not 0 <= rank < world_size:
        raise RuntimeError(
            f"init_process_group: expected a rank from 0 to {world_size - 1}, got {rank}"
        )
    state = world()
    prefixed = PrefixStore(f"group-{state.made}", store)
    ranks = list(range(world_size))
    options = EngineOptions(prefixed, rank, world_size, limit, str(state.made), ranks, place)
    made = _make(ranks, backend, config, options, pg_options)
    made._is_world, made.group_desc = True, "default_pg"
    state.made += 1
    state.default = made
    if world_size > 1:
        engines = [each for each in made._engines.values() if isinstance(each, _mpi.MpiEngine)]
        if engines:
            _watch.start(made, engines[0].exchange)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group, or all of them.

    Args:
        group: the group; with the world, or if left out, all groups are ended.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    state = world()
    ended = state.default if group is None else group
    assert ended is not None, "Process group cannot be None"
    if ended not in state.groups:
        raise ValueError("Invalid process group specified")
    if ended is not state.default:
        state.groups.remove(ended)
        ended._close()
        return
    groups, state.groups, state.default = state.groups, [], None
    _watch.stop()
    for each in reversed(groups):
        each._close()


def _checked_ranks(ranks: Sequence[int] | None, size: int, sort: bool) -> list[int]:
    if ranks is None:
        return list(range(size))
    chosen = sorted(ranks) if sort else list(ranks)
    if len(chosen) > size:
        raise ValueError(
            f"the new group's world size {len(chosen)} should be less than or equal to the world "
            f"size set by init_process_group, {size}"
        )
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"ranks list must not contain duplicate entries, got {chosen}")
    for rank in chosen:
        if rank < 0 or rank >= size:
            raise ValueError(
                f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})"
            )
    return chosen


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some processes. All processes of the world call this, in the same order.

    Args:
        ranks: their ranks in the world; all if left out.
        timeout: how long an operation may take; that of the world if left out.
        backend: the backend; that of the world if left out.
        pg_options: for an engine that was registered.
        use_local_synchronization: accepted: whether members alone call this.
        group_desc: a description.
        device_id: the GPU of this process.
        sort_ranks: whether ranks in the group follow those in the world.

    Returns:
        The group, or `GroupMember.NON_GROUP_MEMBER` where this process is not in it.
    """
    default = _get_default_group()
    state = world()
    limit = default._options.timeout if timeout is None else _checked_timeout(timeout)
    chosen = _checked_ranks(ranks, default.size(), sort_ranks)
    if not chosen:
        raise ValueError("new_group: expected at least one rank")
    config = dict(default._config) if backend is None else parse_config(backend)
    check_backends(config, len(chosen))
    number, state.made = state.made, state.made + 1
    name = "-".join(map(str, chosen)) if use_local_synchronization else str(number)
    if default.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    place = default.bound_device_id if device_id is None else _bound_device(device_id)
    store = PrefixStore(f"group-{name}", default._options.store)
    rank = chosen.index(default.rank())
    options = EngineOptions(store, rank, len(chosen), limit, name, chosen, place)
    named = default._backend if backend is None else backend
    made = _make(chosen, named, config, options, pg_options)
    made.group_desc = "undefined" if group_desc is None else group_desc
    return made


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Divide the world into groups of the same size, in order of rank.

    Args:
        group_size: the size; the number of GPUs if left out.
        group: accepted.
        timeout: see `new_group`.
        backend: see `new_group`.
        pg_options: see `new_group`.
        group_desc: see `new_group`.

    Returns:
        The group of this process, and all groups.
    """
    if group_size is None:
        from tapegrad import cuda

        if not cuda.is_available():
            raise ValueError(
                "new_subgroups: the default of group_size is the number of GPUs, and there are "
                "none; pass group_size"
            )
        group_size = cuda.device_count()
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size()
    if size < group_size:
        raise ValueError(
            f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})"
        )
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by '{group_size=}'")
    starts = range(0, size, group_size)
    listed = [list(range(start, start + group_size)) for start in starts]
    return new_subgroups_by_enumeration(listed, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make several groups without common members.

    Args:
        ranks_per_subgroup_list: the ranks of each.
        timeout: see `new_group`.
        backend: see `new_group`.
        pg_options: see `new_group`.
        group_desc: see `new_group`.

    Returns:
        The group of this process, or None, and all groups.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    owner: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in owner:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {owner[rank]} and {ranks}"
                )
            owner[rank] = ranks
    groups = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    mine = [each for each in groups if each is not GroupMember.NON_GROUP_MEMBER]
    return (mine[0] if mine else None), groups
