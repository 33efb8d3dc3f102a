"""The profilers that a program uses: `profile`, its schedule, and ranges of its own."""

import enum
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tapegrad import _C
from tapegrad.profiler.devices import Activity, warn_of_events
from tapegrad.profiler.events import EventList, nested
from tapegrad.profiler.trace import write_trace

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ProfilerActivity(enum.Enum):
    """What PyTorch can profile; here it is the CPU and, where there are any, CUDA devices."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profiler does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be profiled here."""
    has_cuda = _C._cuda_device_count() > 0
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if has_cuda else [])}


def kineto_available() -> bool:
    """Return whether the profiler can be used; it always can."""
    return True


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a schedule for `profile`: cycles of waiting, warming up and recording.

    Args:
        wait: steps at the start of a cycle during which nothing happens.
        warmup: steps after these which are not recorded either.
        active: steps after these which are recorded; then the trace is ready.
        repeat: how many cycles; 0 for no end.
        skip_first: steps before the first cycle.
        skip_first_wait: anything but 0 leaves the waiting out of the first cycle.

    Example:
        >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active <= 0:
        raise AssertionError(
            "schedule: expected active to be positive and the others not to be negative, got "
            f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}, skip_first_wait={skip_first_wait}"
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule: Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        cycle, place = divmod(step, length)
        if (repeat > 0 and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[["profile"], None]:
    """Return an ``on_trace_ready`` that writes each trace to a file of its own.

    Args:
        dir_name: the folder, made if there is none.
        worker_name: how files begin; host and process if None.
        use_gzip: whether to compress.
    """

    def handler(prof: "profile") -> None:
        import socket

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class record_function:
    """A range with a name in the profile, as a context manager or as a decorator.

    Where nothing is being profiled it does nothing.

    Args:
        name: of the range.
        args: accepted for PyTorch's sake.

    Example:
        >>> @torch.profiler.record_function("twice")
        ... def twice(x):
        ...     return x + x
        >>> with torch.profiler.profile() as prof:
        ...     y = twice(torch.ones(2))
        >>> prof.key_averages()[1].key
        'twice'
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[int] = []

    def __enter__(self) -> "record_function":
        self._open.append(_C._open_range(self.name))
        return self

    def __exit__(self, *exception: Any) -> None:
        _C._close_range(self._open.pop())

    def __call__(self, function: _Function) -> _Function:
        name = self.name

        @functools.wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            depth = _C._open_range(name)
            try:
                return function(*args, **kwargs)
            finally:
                _C._close_range(depth)

        return ranged  # type: ignore[return-value]


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Record every step."""
    return ProfilerAction.RECORD


class _Recorder:
    """Native profiles, and the events that they have recorded."""

    def __init__(
        self, record_shapes: bool, profile_memory: bool, with_lines: bool, watches_cuda: bool
    ) -> None:
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_lines = with_lines
        self.watches_cuda = watches_cuda
        self.native: Any = None
        self.records: list[tuple[int, tuple[Any, ...]]] = []
        self.activities: list[Activity] = []
        self.found: EventList | None = None

    def start(self) -> None:
        self.native = _C._Profile(self.record_shapes, self.with_lines)
        self.native.start("cupti" if self.watches_cuda else "")

    def stop(self) -> None:
        native, self.native = self.native, None
        native.stop()
        before = len(self.records)
        self.records += [(native.thread, record) for record in native.events()]
        for fields in native.activities():
            activity = Activity(fields, native.sees_kernels)
            activity.call += before if activity.call >= 0 else 0
            self.activities.append(activity)
        if self.activities and native.problem:
            warn_of_events(native.problem)
        self.found = None

    def events(self) -> EventList:
        if self.found is None:
            self.found = EventList(
                nested(self.records, self.activities),
                profile_memory=self.profile_memory,
                with_shapes=self.record_shapes,
                activities=self.activities,
            )
        return self.found


class profile:
    """Records the ops of a block: times, memory, shapes, and what lies inside what.

    The thread that starts it is profiled, its backward passes included.

    Args:
        activities: of `ProfilerActivity`; the CPU, and CUDA devices where there are any.
        schedule: from the number of a step to a `ProfilerAction`, for programs that call `step`;
            everything is recorded if None.
        on_trace_ready: called with this profiler whenever a recording has ended.
        record_shapes: whether to note the sizes of inputs.
        profile_memory: whether tables show what was allocated.
        with_stack: whether to note the line of the program that made a call.
        with_flops, with_modules: accepted; not recorded.
        experimental_config, execution_trace_observer, use_cuda, custom_trace_id_callback,
            post_processing_timeout_s: accepted for PyTorch's sake.
        acc_events: whether events of several recordings add up, instead of the last alone.

    Example:
        >>> with torch.profiler.profile(record_shapes=True) as prof:
        ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> prof.key_averages(group_by_input_shape=True)[-1]
        <FunctionEventAvg key=matmul count=1 ... input_shapes=[[2, 3], [3, 4]]>
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[["profile"], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities else supported_activities()
        for missing in self.activities - supported_activities():
            if not isinstance(missing, ProfilerActivity):
                raise TypeError(
                    f"profile: expected activities to be ProfilerActivity, got {missing!r}"
                )
            warnings.warn(
                f"profile: {missing.name} is not available, disabling {missing.name} profiling",
                stacklevel=2,
            )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.acc_events = acc_events
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._metadata: dict[str, Any] = {}
        self._recorder: _Recorder | None = None
        self._step_range: record_function | None = None

    # ---- steps over time

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self.current_action = self.schedule(self.step_num)
        if self.current_action in _RECORDING:
            self._record()
        self._open_step()

    def stop(self) -> None:
        """End the recording, if one is running."""
        self._close_step()
        if self.current_action in _RECORDING:
            self._finish()
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """Go on to the next step of the schedule."""
        self._close_step()
        last = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if last in _RECORDING and (
            last is ProfilerAction.RECORD_AND_SAVE or self.current_action not in _RECORDING
        ):
            self._finish()
            last = ProfilerAction.NONE
        if last not in _RECORDING and self.current_action in _RECORDING:
            self._record()
        self._open_step()

    def _record(self) -> None:
        if self._recorder is None or not self.acc_events:
            watches_cuda = ProfilerActivity.CUDA in self.activities & supported_activities()
            self._recorder = _Recorder(
                self.record_shapes,
                self.profile_memory,
                self.with_stack or watches_cuda,
                watches_cuda,
            )
        self._recorder.start()

    def _finish(self) -> None:
        self._finished().stop()
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _open_step(self) -> None:
        if self.record_steps:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}")
            self._step_range.__enter__()

    def _close_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__()
            self._step_range = None

    # ---- what was found

    def _finished(self) -> _Recorder:
        if self._recorder is None:
            raise AssertionError(
                "profile: Profiler must be initialized before getting its events: nothing has "
                "been recorded"
            )
        return self._recorder

    def events(self) -> EventList:
        """Return the events of the last recording."""
        return self._finished().events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """Return the events grouped by name.

        Args:
            group_by_input_shape: whether calls on other shapes are another group.
            group_by_stack_n: anything but 0: calls from another line are another group, if lines
                were recorded.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Args:
            path: the file; one whose name ends in ``.gz`` is compressed.
        """
        activities = self._finished().activities
        write_trace(self.events(), activities, path, self.profile_memory, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Refuse: stacks are not recorded."""
        raise NotImplementedError(
            "profile.export_stacks: Python stacks are not recorded; export_chrome_trace shows what "
            "lies inside what, and record_function names parts of the program"
        )

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Refuse: allocations are known by op, not by tensor."""
        raise NotImplementedError(
            "profile.export_memory_timeline: allocations are not recorded one by one; use "
            "profile_memory=True, whose trace has the bytes held after each op"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Put a string into the trace.

        Args:
            key: its name.
            value: the string.
        """
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value into the trace.

        Args:
            key: its name.
            value: JSON.
        """
        import json

        self._metadata[key] = json.loads(value)
