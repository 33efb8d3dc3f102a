"""Graphs of the emulator of CUDA: what a capture holds, and what ends it, as on a GPU."""

import threading
from ctypes import byref, c_int, c_size_t, c_ulonglong, c_void_p

import cuda_emulator
import numpy as np
import pytest
from cuda_emulator.driving import SUCCESS, arguments, machine_without_errors
from library import IS_SANITIZED, IS_TORCH

if IS_TORCH:
    pytest.skip("the emulator is tapegrad's own", allow_module_level=True)
if IS_SANITIZED:
    pytest.skip("fibers change stacks under the sanitizer", allow_module_level=True)
if cuda_emulator.why_unavailable():
    pytest.skip(cuda_emulator.why_unavailable(), allow_module_level=True)

GLOBAL, THREAD_LOCAL, RELAXED = range(3)
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT = range(900, 907)
CAPTURED_EVENT, WRONG_THREAD, ILLEGAL_STATE = 907, 908, 401
BLOCKING = 0

TIMES_PLUS = """
    struct Arguments { int* data; long long factor, more; };
    TAPEGRAD_KERNEL(times_plus, Arguments) {
      arguments.data[0] = arguments.data[0] * (int)arguments.factor + (int)arguments.more;
    }
"""


@pytest.fixture
def machine():
    yield from machine_without_errors()


class Work:
    """A number on the device, and streams that change it."""

    def __init__(self, machine):
        self.machine, self.library = machine, machine.library
        self.function = machine.load(TIMES_PLUS, "times_plus")
        self.number = machine.upload(np.zeros(1, np.int32))
        self.stream = machine.stream()

    def change(self, factor, more, stream=None, number=None):
        given = arguments(data=number or self.number, factor=factor, more=more)
        stream = self.stream if stream is None else stream
        return self.machine.launch(self.function, (1,), (1,), given, 0, stream)

    def begin(self, mode=GLOBAL, stream=None):
        return self.library.cuStreamBeginCapture_v2(stream or self.stream, mode)

    def end(self, stream=None):
        graph = c_void_p()
        status = self.library.cuStreamEndCapture(stream or self.stream, byref(graph))
        return graph if status == SUCCESS else status

    def instance(self, graph):
        exec_ = c_void_p()
        status = self.library.cuGraphInstantiateWithFlags(byref(exec_), graph, c_ulonglong(0))
        assert status == SUCCESS
        return exec_

    def replay(self, exec_, stream=None):
        return self.library.cuGraphLaunch(exec_, stream or self.stream)

    def order(self, earlier, later):
        event = self.machine.event()
        status = self.library.cuEventRecord(event, earlier)
        return status or self.library.cuStreamWaitEvent(later, event, 0)

    def value(self):
        assert self.machine.synchronize() == SUCCESS
        return self.machine.download(self.number, 1, np.int32)[0]

    def status(self, stream=None):
        status = c_int()
        assert self.library.cuStreamIsCapturing(stream or self.stream, byref(status)) == SUCCESS
        return status.value


@pytest.fixture
def work(machine):
    made = Work(machine)
    yield made
    machine.free(made.number)


def test_captured_work_runs_when_the_graph_does(work):
    assert work.begin() == SUCCESS and work.status() == 1
    assert work.change(2, 1) == SUCCESS and work.change(3, 0) == SUCCESS
    graph = work.end()
    assert work.status() == 0 and work.value() == 0
    count = c_size_t()
    assert work.library.cuGraphGetNodes(graph, None, byref(count)) == SUCCESS and count.value == 2
    exec_ = work.instance(graph)
    assert work.library.cuGraphDestroy(graph) == SUCCESS
    for expected in (3, 21, 129):
        assert work.replay(exec_) == SUCCESS
        assert work.value() == expected
    assert work.library.cuGraphExecDestroy(exec_) == SUCCESS


def test_copies_and_fills(work):
    source, target = (work.machine.pinned(1, np.int32) for _ in range(2))
    assert work.begin() == SUCCESS
    assert work.machine.copy(work.number, source.ctypes.data, 4, work.stream) == SUCCESS
    assert work.change(2, 0) == SUCCESS
    assert work.machine.copy(target.ctypes.data, work.number, 4, work.stream) == SUCCESS
    exec_ = work.instance(work.end())
    for number in (5, 8):
        source[0] = number
        assert work.replay(exec_) == SUCCESS
        assert work.value() == target[0] == 2 * number


def test_streams_that_are_forked_and_joined(work):
    """The branches depend on one another only where events say so."""
    other = work.machine.stream()
    assert work.begin() == SUCCESS
    assert work.change(1, 1) == SUCCESS
    assert work.order(work.stream, other) == SUCCESS and work.status(other) == 1
    assert work.change(10, 0, other) == SUCCESS
    assert work.order(other, work.stream) == SUCCESS
    assert work.change(1, 5) == SUCCESS
    exec_ = work.instance(work.end())
    assert work.status(other) == 0
    assert work.replay(exec_) == SUCCESS
    assert work.value() == 15


def test_an_edge_that_is_missing_shows(work):
    """Of two branches the one that was captured last runs first."""
    other = work.machine.stream()
    assert work.begin() == SUCCESS
    assert work.order(work.stream, other) == SUCCESS
    assert work.change(1, 1) == SUCCESS
    assert work.change(10, 0, other) == SUCCESS
    assert work.order(other, work.stream) == SUCCESS
    exec_ = work.instance(work.end())
    assert work.replay(exec_) == SUCCESS
    assert work.value() == 1


def test_a_stream_that_is_not_joined(work):
    other = work.machine.stream()
    assert work.begin() == SUCCESS
    assert work.order(work.stream, other) == SUCCESS
    assert work.change(1, 1, other) == SUCCESS
    assert work.end(other) == UNMATCHED
    assert work.end() in (UNJOINED, INVALIDATED)
    assert work.status() == work.status(other) == 0


@pytest.mark.parametrize(
    "call",
    ["stream", "query", "context", "pageable", "allocate", "free", "pin", "load", "event"],
)
def test_what_ends_a_capture(work, call):
    library, machine = work.library, work.machine
    data, event, ordinary = c_ulonglong(), machine.event(), np.zeros(1, np.int32)
    memory = machine.allocate(64)
    cubin = machine.compile(TIMES_PLUS)
    assert library.cuEventRecord(event, machine.stream()) == SUCCESS
    calls = {
        "stream": lambda: library.cuStreamSynchronize(work.stream),
        "query": lambda: library.cuStreamQuery(work.stream),
        "context": library.cuCtxSynchronize,
        "pageable": lambda: machine.copy(work.number, ordinary.ctypes.data, 4, work.stream),
        "allocate": lambda: library.cuMemAlloc_v2(byref(data), c_size_t(64)),
        "free": lambda: library.cuMemFree_v2(c_ulonglong(memory)),
        "pin": lambda: library.cuMemHostAlloc(byref(c_void_p()), c_size_t(64), 0),
        "load": lambda: library.cuModuleLoadData(byref(c_void_p()), cubin),
        "event": lambda: library.cuEventQuery(event),
    }
    assert work.begin() == SUCCESS
    assert work.change(1, 1) == SUCCESS
    assert calls[call]() == UNSUPPORTED
    assert work.status() == 2
    assert work.change(1, 1) == INVALIDATED
    assert work.end() == INVALIDATED
    assert work.status() == 0 and work.value() == 0
    machine.free(memory)


def test_a_relaxed_thread_may_ask_for_memory(work):
    mode, data = c_int(RELAXED), c_ulonglong()
    assert work.begin() == SUCCESS
    assert work.library.cuThreadExchangeStreamCaptureMode(byref(mode)) == SUCCESS
    assert mode.value == GLOBAL
    assert work.library.cuMemAlloc_v2(byref(data), c_size_t(64)) == SUCCESS
    assert work.library.cuThreadExchangeStreamCaptureMode(byref(mode)) == SUCCESS
    assert mode.value == RELAXED
    assert work.change(1, 1) == SUCCESS
    work.instance(work.end())
    work.machine.free(data.value)


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_other_threads(work, mode):
    found = []

    def other():
        work.machine.use_device(0)
        data = c_ulonglong()
        found.append(work.library.cuMemAlloc_v2(byref(data), c_size_t(64)))
        found.append(work.end())

    assert work.begin(mode) == SUCCESS
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found[0] == (UNSUPPORTED if mode == GLOBAL else SUCCESS)
    if mode == RELAXED:
        assert isinstance(found[1], c_void_p)
    else:
        assert found[1] == WRONG_THREAD
        ended = work.end()
        assert ended == INVALIDATED if mode == GLOBAL else isinstance(ended, c_void_p)


def test_events_and_the_default_stream(work):
    machine, library, event = work.machine, work.library, work.machine.event()
    assert library.cuStreamBeginCapture_v2(None, GLOBAL) == UNSUPPORTED
    outside = machine.stream()
    assert work.change(1, 1, outside) == SUCCESS
    assert work.begin() == SUCCESS and work.begin() == ILLEGAL_STATE
    assert library.cuEventRecord(event, work.stream) == SUCCESS
    assert library.cuEventQuery(event) == CAPTURED_EVENT
    assert library.cuEventSynchronize(event) == CAPTURED_EVENT
    assert work.change(1, 1) == SUCCESS  # that did not end it
    assert work.order(outside, work.stream) == ISOLATION
    assert work.end() == INVALIDATED
    assert work.begin() == SUCCESS
    assert work.order(work.stream, None) == IMPLICIT
    assert work.end() == INVALIDATED
    blocking = machine.stream(BLOCKING)
    assert work.begin(stream=blocking) == SUCCESS
    given = arguments(data=work.number, factor=1, more=1)
    assert machine.launch(work.function, (1,), (1,), given) == IMPLICIT
    assert work.end(blocking) == INVALIDATED
    assert work.end(blocking) == ILLEGAL_STATE


def test_two_captures_do_not_merge(work):
    other = work.machine.stream()
    assert work.begin() == SUCCESS and work.begin(stream=other) == SUCCESS
    assert work.order(work.stream, other) == MERGE
    assert work.end() == INVALIDATED and work.end(other) == INVALIDATED
