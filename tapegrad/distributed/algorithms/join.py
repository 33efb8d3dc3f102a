"""`Join`: processes that have different numbers of inputs.

A process that has no input left goes on to take part in the collectives of the others, which its
joinables know, until all are done.
"""

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import tapegrad
from tapegrad.distributed._collectives import all_reduce
from tapegrad.distributed._groups import get_rank

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs does in place of a step, and at the end."""

    def main_hook(self) -> None:
        """Take part in the collectives of a step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once all processes are done.

        Args:
            is_last_joiner: whether this process was among the last.
        """


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> "_JoinConfig":
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """What can be in a `Join`: a model or an optimizer with collectives of its own."""

    _join_config = _JoinConfig(False, False, False)

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what runs in place of steps.

        Args:
            **kwargs: those of the `Join`.
        """

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes."""


class Join:
    """A block in which processes may have different numbers of inputs.

    Args:
        joinables: models and optimizers.
        enable: whether they have.
        throw_on_early_termination: whether all raise an error once one is done.
        **kwargs: for the joinables.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> Join = torch.distributed.algorithms.join.Join
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        >>> with Join([model]):
        ...     for x in torch.ones(3, 1):
        ...         model(x).sum().backward()
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable
        self._throw_on_early_termination = throw_on_early_termination
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        groups = [joinable.join_process_group for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._group, self._device = groups[0], joinables[0].join_device
        self._rank = get_rank(self._group)

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._enable and type is None:
            self._take_part()
        for joinable in self._joinables:
            joinable._join_config = _JoinConfig.construct_disabled_join_config()

    def _take_part(self) -> None:
        is_last, steps = True, 0
        while True:
            still_there = tapegrad.zeros(1, device=self._device)
            all_reduce(still_there, group=self._group)
            if still_there.item() == 0:
                break
            if self._throw_on_early_termination:
                _announce_end(self._group, self._device, 1)
                _raise_end(self._rank)
            is_last, steps = False, steps + 1
            if steps == 1000:
                warnings.warn(
                    "Join: this process has been without inputs for 1000 steps of the others",
                    stacklevel=3,
                )
            for hook in self._join_hooks:
                hook.main_hook()
        for hook in self._join_hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell processes without inputs that a step begins; called by joinables before theirs.

        Args:
            joinable: the one that begins; all but the first of a `Join` tell nothing.

        Returns:
            A `Work`, or None.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = all_reduce(tapegrad.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            if work is not None:
                work.wait()
            if _announce_end(group, device, 0):
                _raise_end(get_rank(group))
        return work


def _announce_end(group: Any, device: Any, ended: int) -> bool:
    count = tapegrad.full((1,), float(ended), device=device)
    all_reduce(count, group=group)
    return bool(count.item())


def _raise_end(rank: int) -> None:
    raise RuntimeError(
        f"Join: detected that a process has no inputs left, on rank {rank}, and "
        "throw_on_early_termination=True was given"
    )
