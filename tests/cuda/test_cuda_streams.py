"""Streams and events."""

import threading

import pytest
from library import torch

cuda = torch.cuda


def test_the_default_stream():
    stream = cuda.current_stream()
    assert stream == cuda.default_stream() and stream.cuda_stream == 0
    assert stream.device == torch.device("cuda:0") and stream.device_index == 0
    assert stream.priority == 0
    stream.synchronize()
    assert stream.query() and not cuda.is_current_stream_capturing()


def test_a_stream_for_a_block():
    s, t = cuda.Stream(), cuda.Stream("cuda:0")
    assert s != t and s.cuda_stream != 0
    with cuda.stream(s):
        assert cuda.current_stream() == s
        with t:
            assert cuda.current_stream() == t
            with s:
                assert cuda.current_stream() == s
            assert cuda.current_stream() == t
        with cuda.stream(None):
            assert cuda.current_stream() == s
    with pytest.raises(KeyError), s:
        raise KeyError
    assert cuda.current_stream() == cuda.default_stream()


def test_set_stream():
    s = cuda.Stream()
    cuda.set_stream(s)
    try:
        assert cuda.current_stream() == s
        cuda.set_stream(None)
        assert cuda.current_stream() == s
    finally:
        cuda.set_stream(cuda.default_stream())


def test_streams_of_another_device(two_devices):
    s = cuda.Stream("cuda:1")
    assert s.device == torch.device("cuda:1")
    assert s != cuda.ExternalStream(s.cuda_stream, device=0)
    with cuda.stream(s):
        assert cuda.current_device() == 1 and cuda.current_stream() == s
        assert cuda.current_stream(0) == cuda.default_stream(0)
    assert cuda.current_device() == 0
    assert cuda.current_stream("cuda:1") == cuda.default_stream("cuda:1")


def test_equality_and_hash():
    s = cuda.Stream()
    same = cuda.ExternalStream(s.cuda_stream)
    assert s == same and hash(s) == hash(same) and len({s, same}) == 1
    assert s != 3 and s != "stream"
    assert repr(s) == f"<torch.cuda.Stream device=cuda:0 cuda_stream={s.cuda_stream:#x}>"
    assert s.__cuda_stream__() == (0, s.cuda_stream)
    assert cuda.get_stream_from_external(s.cuda_stream) == s
    assert torch.Stream is cuda.Stream and torch.Event is cuda.Event


def test_streams_are_pooled():
    """32 of each priority, handed out in turn, so that handles stay good for ever."""
    handles = [cuda.Stream().cuda_stream for _ in range(64)]
    assert len(set(handles)) == 32 and handles[:32] == handles[32:]
    high = {cuda.Stream(priority=-1).cuda_stream for _ in range(40)}
    assert len(high) == 32 and not high & set(handles)


def test_priorities():
    least, greatest = cuda.Stream.priority_range()
    assert least == 0 >= greatest
    assert cuda.Stream(priority=100).priority == least
    assert cuda.Stream(priority=-100).priority == greatest
    assert cuda.Stream(priority=greatest).priority == greatest
    assert cuda.default_stream().priority == 0


def test_every_thread_has_its_stream():
    s, seen = cuda.Stream(), []

    def other():
        seen.append(cuda.current_stream() == cuda.default_stream())
        with s:
            inside.set()
            go_on.wait(10)
            seen.append(cuda.current_stream() == s)
        seen.append(cuda.current_stream() == cuda.default_stream())

    inside, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    with s:  # the same object, on two threads at once
        go_on.set()
        thread.join()
        assert cuda.current_stream() == s
    assert cuda.current_stream() == cuda.default_stream()
    assert seen == [True, True, True]


def test_events():
    event = cuda.Event()
    assert event.query() and event.cuda_event == 0 and event.device is None
    assert repr(event) == "<torch.cuda.Event uninitialized>"
    event.synchronize()
    event.wait()
    event.record()
    event.synchronize()
    assert event.query() and event.cuda_event != 0 and event.device == torch.device("cuda:0")
    assert repr(event) == f"<torch.cuda.Event {event.cuda_event:#x}>"


def test_an_event_is_done_when_its_stream_is(emulator):
    s = cuda.Stream()
    event = s.record_event()
    assert not event.query()  # the emulator is asked once before it does something
    s.synchronize()
    assert event.query()


def test_waiting_for_streams_and_events():
    s, t = cuda.Stream(), cuda.Stream()
    event = s.record_event()
    t.wait_event(event)
    t.wait_stream(s)
    given = cuda.Event(blocking=True)
    assert t.record_event(given) is given
    t.synchronize()
    assert event.query() and given.query() and t.query() and s.query()


def test_timing():
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 10_000


def test_timing_is_refused():
    timed, recorded = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    plain = cuda.Event()
    recorded.record()
    plain.record()
    cuda.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        recorded.elapsed_time(plain)
    with pytest.raises(ValueError, match="must be recorded"):
        recorded.elapsed_time(timed)
    with pytest.raises(NotImplementedError, match="interprocess"):
        cuda.Event(interprocess=True)


def test_timing_of_what_is_not_done(emulator):
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    end.record()
    with pytest.raises(ValueError, match="must be completed"):
        start.elapsed_time(end)


def test_an_event_belongs_to_a_device(two_devices):
    event = cuda.Event()
    event.record(cuda.default_stream(1))
    assert event.device == torch.device("cuda:1")
    event.wait(cuda.default_stream(0))
    with pytest.raises(RuntimeError, match=r"belongs to device 1.*device 0"):
        event.record(cuda.default_stream(0))
    cuda.synchronize(0)
    assert event.query()


def test_events_are_dropped_while_streams_wait(emulator):
    s, t = cuda.Stream(), cuda.Stream()
    for _ in range(100):
        t.wait_stream(s)
    t.synchronize()
    assert t.query()
