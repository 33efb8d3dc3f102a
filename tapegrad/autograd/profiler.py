"""The older interface of the profiler: `profile` without schedule, and `record_function`."""

import os
from typing import Any, NoReturn

from tapegrad.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from tapegrad.profiler.profiler import (
    ProfilerActivity,
    _Recorder,
    record_function,
    supported_activities,
)

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "profile",
    "record_function",
]


class profile:
    """Records the ops of a block. `tapegrad.profiler.profile` does the same, with a schedule.

    Args:
        enabled: whether it does anything.
        use_cuda: whether to profile CUDA devices as well; so does ``use_device="cuda"``.
        use_device: see ``use_cuda``.
        use_kineto, use_cpu: accepted; the CPU is always profiled.
        record_shapes: whether to note the sizes of inputs.
        with_stack: whether to note the line of the program that made a call.
        with_flops, with_modules: accepted; not recorded.
        profile_memory: whether tables show what was allocated.
        experimental_config, acc_events, custom_trace_id_callback: accepted for PyTorch's sake.

    Example:
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(2).exp()
        >>> [event.name for event in prof.function_events]
        ['fill', 'exp']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.use_device = "cuda" if use_cuda else use_device
        self.entered = False
        self.function_events: EventList | None = None
        self._recorder: _Recorder | None = None

    def __enter__(self) -> "profile":
        if self.enabled:
            if self.entered:
                raise RuntimeError("profile: Profiler context manager is not reentrant")
            self.entered = True
            is_there = ProfilerActivity.CUDA in supported_activities()
            watches_cuda = self.use_device == "cuda" and is_there
            with_lines = self.with_stack or watches_cuda
            self._recorder = _Recorder(
                self.record_shapes, self.profile_memory, with_lines, watches_cuda
            )
            self._recorder.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop()
            self.function_events = self._recorder.events()

    def _found(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("profile: Profiler didn't finish running")
        return self.function_events

    def __repr__(self) -> str:
        events = self.function_events
        return "<unfinished profiler_legacy.profile>" if events is None else repr(events)

    def __str__(self) -> str:
        events = self.function_events
        return "<unfinished profile>" if events is None else str(events)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Return the events grouped by name.

        Args:
            group_by_input_shape: whether calls on other shapes are another group.
            group_by_stack_n: anything but 0: calls from another line are another group, if lines
                were recorded.
        """
        return self._found().key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return a table of the events as text.

        Args:
            sort_by: what to sort by, see `EventList.table`.
            row_limit: how many rows at most; -1 for all.
            options: those of `EventList.table`.
        """
        return self._found().table(sort_by, row_limit, **options)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for Perfetto or chrome://tracing.

        Args:
            path: the file.
        """
        self._found().export_chrome_trace(path)

    def total_average(self) -> FunctionEventAvg:
        """Return all events as one group."""
        return self._found().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The own times of all events added up, in microseconds."""
        return self._found().self_cpu_time_total


def _refuse(name: str, tool: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: there are no marks for {tool}; use tapegrad.profiler.profile, whose "
        "export_chrome_trace writes a trace for Perfetto"
    )


def emit_nvtx(enabled: bool = True, record_shapes: bool = False) -> NoReturn:
    """Refuse: nothing marks ranges for NVIDIA's tools."""
    _refuse("emit_nvtx", "NVIDIA's tools")


def emit_itt(enabled: bool = True, record_shapes: bool = False) -> NoReturn:
    """Refuse: nothing marks ranges for Intel's tools."""
    _refuse("emit_itt", "Intel's tools")


def load_nvprof(path: str) -> NoReturn:
    """Refuse: traces of nvprof are not read."""
    _refuse("load_nvprof", "nvprof")
