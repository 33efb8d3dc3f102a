"""Where time and memory go: what ops ran, how long they took, what they allocated.

Example:
    >>> from tapegrad.profiler import profile, record_function
    >>> with profile() as prof, record_function("forward"):
    ...     y = torch.ones(4).exp()
    >>> [event.key for event in prof.key_averages()]
    ['forward', 'fill', 'exp']
"""

from tapegrad.profiler.devices import DeviceType
from tapegrad.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from tapegrad.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
