"""The profiler: what it sees, how events nest, its schedule, its table and its trace."""

import gzip
import itertools
import json
import threading
import time
import warnings

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("names of events are tapegrad's own", allow_module_level=True)

from tapegrad.autograd import profiler as old
from tapegrad.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def names(prof):
    return [event.name for event in prof.events()]


def test_sees_every_op_in_order():
    with profile() as prof:
        x = torch.ones(4)
        y = (x.exp() + 1).sum()
        y.item()
    assert names(prof) == ["fill", "exp", "add", "sum"]
    events = prof.events()
    for before, after in itertools.pairwise(events):
        assert before.time_range.end <= after.time_range.start
    assert all(event.cpu_time_total > 0 for event in events)
    assert {event.kind for event in events} == {"op"}
    assert len({event.thread for event in events}) == 1


def test_sees_nothing_before_and_after():
    x = torch.ones(4)
    x.exp()
    with profile() as prof:
        x.sin()
    x.cos()
    assert names(prof) == ["sin"]
    assert not torch._C._is_profiling()


def test_results_are_the_same():
    x = torch.linspace(0, 1, 100).requires_grad_()

    def compute():
        (grad,) = torch.autograd.grad((x.sin() * x).sum(), x)
        return grad

    plain = compute()
    with profile(record_shapes=True, profile_memory=True):
        profiled = compute()
    assert torch.equal(plain, profiled)


def test_backward_is_marked_and_nests():
    x = torch.ones(3, requires_grad=True)
    with profile() as prof:
        y = (x * x).sum()
        y.backward()
    events = prof.events()
    forward = [event for event in events if not event.is_backward]
    assert [event.name for event in forward if event.kind == "op"][:2] == ["mul", "sum"]
    entries = [event for event in events if event.kind == "backward"]
    assert [event.name for event in entries] == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert all(event.is_backward for event in entries)
    mul = entries[1]
    assert mul.cpu_children
    assert all(child.cpu_parent is mul and child.is_backward for child in mul.cpu_children)
    inside = sum(child.cpu_time_total for child in mul.cpu_children)
    assert mul.self_cpu_time_total == pytest.approx(mul.cpu_time_total - inside)


def test_ranges_nest_and_repeat():
    with profile() as prof:
        for _ in range(2):
            with record_function("outer"):
                x = torch.ones(2)
                with record_function("inner"):
                    x.exp()
    assert names(prof) == ["outer", "fill", "inner", "exp"] * 2
    outer, fill, inner, exp = prof.events()[:4]
    assert outer.cpu_parent is None
    assert fill.cpu_parent is outer
    assert inner.cpu_parent is outer
    assert exp.cpu_parent is inner
    assert outer.is_user_annotation
    average = {each.key: each for each in prof.key_averages()}
    assert average["outer"].count == average["exp"].count == 2
    assert average["outer"].cpu_time_total >= average["inner"].cpu_time_total
    assert average["outer"].cpu_time == pytest.approx(average["outer"].cpu_time_total / 2)


def test_a_range_inside_itself_counts_once():
    def nest(depth):
        with record_function("again"):
            time.sleep(0.002)
            if depth:
                nest(depth - 1)

    with profile() as prof:
        nest(2)
    (average,) = prof.key_averages()
    assert average.count == 3
    assert average.cpu_time_total == pytest.approx(prof.events()[0].cpu_time_total)
    assert average.self_cpu_time_total == pytest.approx(average.cpu_time_total, rel=1e-6)


def test_record_function_decorates():
    @record_function("twice")
    def twice(x, factor=2):
        """Return a multiple."""
        return x * factor

    assert twice.__name__ == "twice"
    assert twice(torch.ones(1), factor=3).tolist() == [3.0]
    with profile() as prof:
        twice(torch.ones(1))
    assert names(prof) == ["fill", "twice", "mul"]


def test_ranges_end_when_an_exception_passes():
    with profile() as prof:
        with pytest.raises(RuntimeError, match="boom"), record_function("failing"):
            raise RuntimeError("boom")
        torch.ones(2)
    failing, fill = prof.events()
    assert fill.cpu_parent is None
    assert failing.time_range.end <= fill.time_range.start


def test_an_op_that_fails_is_closed():
    with profile() as prof:
        with pytest.raises(RuntimeError):
            torch.nn.functional.max_unpool1d(torch.ones(1, 2), torch.full((1, 2), 99), 2)
        torch.ones(2)
    events = prof.events()
    assert events[-1].cpu_parent is None
    assert all(event.time_range.end > 0 for event in events)


def test_a_range_left_open_ends_with_the_profile():
    ranged = record_function("open")
    with profile() as prof:
        ranged.__enter__()
        torch.ones(2)
    ranged.__exit__(None, None, None)
    assert names(prof) == ["open", "fill"]
    assert prof.events()[1].cpu_parent is prof.events()[0]


def test_shapes():
    with profile(record_shapes=True) as prof:
        for n in (2, 3, 3):
            torch.ones(n, 4) @ torch.ones(4, 5)
    groups = {
        str(each.input_shapes): each.count
        for each in prof.key_averages(group_by_input_shape=True)
        if each.key == "matmul"
    }
    assert groups == {"[[2, 4], [4, 5]]": 1, "[[3, 4], [4, 5]]": 2}
    assert "Input Shapes" in prof.key_averages(group_by_input_shape=True).table()
    with profile() as prof:
        torch.ones(2)
    assert prof.events()[0].input_shapes == []


def test_memory():
    with profile(profile_memory=True) as prof, record_function("block"):
        x = torch.ones(1000, 100)
        y = x + 1
        y.add_(1)
    by_name = {event.name: event for event in prof.events()}
    size = 400_000
    assert size <= by_name["fill"].self_cpu_memory_usage < 1.2 * size
    assert by_name["block"].self_cpu_memory_usage == 0
    assert 2 * size <= by_name["block"].cpu_memory_usage < 2.4 * size
    adds = [event.self_cpu_memory_usage for event in prof.events() if event.name == "add"]
    assert adds[0] >= size
    assert sum(adds[1:]) < size / 100  # in place, but for the number as a tensor
    assert "CPU Mem" in prof.key_averages().table()
    assert "CPU Mem" not in profile_of_one_op().key_averages().table()


def profile_of_one_op():
    with profile() as prof:
        torch.ones(2)
    return prof


def test_table():
    with profile() as prof:
        for _ in range(3):
            torch.ones(2000).exp()
        torch.ones(2).sin()
    averages = prof.key_averages()
    text = averages.table(sort_by="count", row_limit=2)
    lines = text.splitlines()
    assert lines[1].split()[0] == "Name"
    assert lines[3].split()[0] == "fill"
    assert lines[3].split()[-1] == "4"
    assert lines[4].split()[0] == "exp"
    assert "sin" not in text
    assert "Self CPU time total:" in lines[-1]
    assert len({len(line) for line in lines[:5]}) == 1
    assert "sin" in averages.table(row_limit=-1)
    assert averages.table(header="All of it").startswith("All of it\n")
    assert str(averages) == averages.table()
    for key in ("cpu_time_total", "self_cpu_time_total", "cpu_time", "self_cpu_memory_usage"):
        times = [getattr(each, key) for each in averages]
        first = averages.table(sort_by=key).splitlines()[3].split()[0]
        assert getattr(next(a for a in averages if a.key == first), key) == max(times)
    with pytest.raises(ValueError, match="sort_by"):
        averages.table(sort_by="mood")
    shares = [line.split()[1] for line in averages.table().splitlines()[3:6]]
    assert sum(float(share.rstrip("%")) for share in shares) == pytest.approx(100, abs=0.1)


def test_long_names_are_cut():
    with profile() as prof, record_function("n" * 200):
        torch.ones(2)
    assert "n" * 52 + "..." in prof.key_averages().table()
    assert "n" * 200 in prof.key_averages().table(max_name_column_width=300)


def test_total_average():
    with profile() as prof, record_function("range"):
        torch.ones(3).exp()
    total = prof.events().total_average()
    assert total.count == 3
    assert total.cpu_time_total == pytest.approx(prof.events()[0].cpu_time_total)


def check_trace(content):
    spans = [event for event in content["traceEvents"] if event["ph"] == "X"]
    for event in spans:
        assert {"name", "cat", "pid", "tid", "ts", "dur", "args"} <= event.keys()
        assert event["dur"] >= 0
    return spans


def test_chrome_trace(tmp_path):
    x = torch.ones(2, 3, requires_grad=True)
    with (
        profile(record_shapes=True, profile_memory=True) as prof,
        record_function('quoted "name"'),
    ):
        x.exp().sum().backward()
    prof.add_metadata("note", "one")
    prof.add_metadata_json("more", "[1, 2]")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    content = json.loads((tmp_path / "trace.json").read_text())
    spans = check_trace(content)
    assert content["note"] == "one"
    assert content["more"] == [1, 2]
    by_name = {event["name"]: event for event in spans}
    assert by_name['quoted "name"']["cat"] == "user_annotation"
    assert by_name["exp"]["cat"] == "cpu_op"
    assert by_name["exp"]["args"]["Input Dims"] == [[2, 3]]
    assert by_name["exp"]["args"]["Backward"] is False
    assert by_name["ExpBackward0"]["args"]["Backward"] is True
    outer, inner = by_name['quoted "name"'], by_name["exp"]
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    assert any(event["ph"] == "C" for event in content["traceEvents"])
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert len(check_trace(json.load(file))) == len(spans)


# ---- schedules


def test_schedule():
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    actions = [plan(step).name for step in range(11)]
    cycle = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    assert actions == ["NONE", *cycle, *cycle, "NONE", "NONE"]
    plan = schedule(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1)
    assert [plan(step).name for step in range(4)] == [
        "NONE", "WARMUP", "RECORD_AND_SAVE", "NONE",
    ]  # fmt: skip
    with pytest.raises(AssertionError):
        schedule(wait=0, warmup=1, active=0)
    with pytest.raises(AssertionError):
        schedule(wait=-1, warmup=1, active=1)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError):
        plan(-1)


def test_steps_follow_the_schedule():
    ready = []

    def on_trace_ready(prof):
        ready.append((prof.step_num, names(prof)))

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=on_trace_ready) as prof:
        for _ in range(10):
            torch.ones(2)
            prof.step()
    assert ready == [
        (4, ["ProfilerStep#2", "fill", "ProfilerStep#3", "fill"]),
        (8, ["ProfilerStep#6", "fill", "ProfilerStep#7", "fill"]),
    ]
    assert prof.current_action is ProfilerAction.NONE


def test_a_recording_that_is_cut_off_is_still_delivered():
    ready = []
    plan = schedule(wait=0, warmup=1, active=5)
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append(names(p))) as prof:
        prof.step()
        torch.ones(2)
    assert ready == [["ProfilerStep#1", "fill"]]


def test_without_schedule_everything_is_one_recording():
    ready = []
    with profile(on_trace_ready=lambda p: ready.append(names(p))) as prof:
        torch.ones(2)
        prof.step()
        torch.ones(2).exp()
    assert ready == [["fill", "fill", "exp"]]


def test_recordings_may_add_up():
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    for acc_events, count in ((True, 4), (False, 2)):
        with profile(schedule=plan, acc_events=acc_events) as prof:
            for _ in range(5):
                torch.ones(2)
                prof.step()
        assert len(prof.events()) == count


def test_tensorboard_handler(tmp_path):
    folder = tmp_path / "runs"
    with profile(on_trace_ready=tensorboard_trace_handler(str(folder), "worker")):
        torch.ones(2)
    with profile(on_trace_ready=tensorboard_trace_handler(str(folder), "worker", use_gzip=True)):
        torch.ones(2)
    plain, packed = sorted(folder.iterdir(), key=lambda path: path.name.endswith(".gz"))
    assert plain.name.startswith("worker.")
    assert plain.name.endswith(".pt.trace.json")
    assert packed.name.endswith(".pt.trace.json.gz")
    check_trace(json.loads(plain.read_text()))


# ---- limits


def test_one_profile_per_thread():
    with (
        profile() as prof,
        pytest.raises(RuntimeError, match="already running"),
        profile(),
    ):
        pass
    assert prof.events() == []
    assert not torch._C._is_profiling()


def test_other_threads_are_not_seen_but_may_profile_themselves():
    found = []

    def work():
        torch.ones(2).cos()
        with profile() as own:
            torch.ones(2).sin()
        found.extend(names(own))

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        torch.ones(2).exp()
    assert names(prof) == ["fill", "exp"]
    assert found == ["fill", "sin"]


def test_a_profile_that_is_never_stopped_goes_away():
    native = torch._C._Profile(False)
    native.start()
    torch.ones(2)
    del native
    assert not torch._C._is_profiling()
    assert torch.ones(2).tolist() == [1.0, 1.0]


def test_nothing_to_show_before_the_start():
    with pytest.raises(AssertionError, match="nothing has been recorded"):
        profile().events()


def test_activities():
    has_cuda = torch.cuda.is_available()
    devices = {ProfilerActivity.CUDA} if has_cuda else set()
    assert supported_activities() == {ProfilerActivity.CPU} | devices
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        torch.ones(2)
    assert len(prof.events()) == 1
    missing = ProfilerActivity.XPU if has_cuda else ProfilerActivity.CUDA
    with pytest.warns(UserWarning, match=f"{missing.name} is not available"):
        profile(activities=[ProfilerActivity.CPU, missing])
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=["cpu"])


def test_what_is_refused_says_what_to_use():
    with profile(with_stack=True, with_flops=True, with_modules=True) as prof:
        torch.ones(2)
    for call in (
        lambda: prof.export_stacks("x"),
        lambda: prof.export_memory_timeline("x"),
        lambda: old.emit_nvtx(),
        lambda: old.emit_itt(),
        lambda: old.load_nvprof("x"),
    ):
        with pytest.raises(NotImplementedError, match=r"use|record_function"):
            call()


def test_transforms_and_captures_are_profiled():
    with profile() as prof:
        torch.func.vmap(torch.sin)(torch.ones(3, 2))
        program = torch._C.Program()
        with program:
            torch.ones(2).cos()
        program.replay()
    assert names(prof).count("sin") >= 1
    assert names(prof).count("cos") == 2


# ---- the older interface


def test_older_interface(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with old.profile(record_shapes=True, profile_memory=True) as prof, old.record_function("all"):
        (x * 2).sum().backward()
    assert prof.function_events[0].name == "all"
    assert "MulBackward0" in prof.table(sort_by="cpu_time_total")
    assert prof.self_cpu_time_total > 0
    assert prof.total_average().count == len(prof.function_events)
    prof.export_chrome_trace(str(tmp_path / "old.json"))
    check_trace(json.loads((tmp_path / "old.json").read_text()))
    with pytest.raises(RuntimeError, match="not reentrant"), prof:
        pass


def test_older_interface_switched_off():
    with old.profile(enabled=False) as prof:
        torch.ones(2)
        assert not torch._C._is_profiling()
    assert str(prof) == "<unfinished profile>"
    with pytest.raises(RuntimeError, match="didn't finish"):
        prof.key_averages()


def test_an_optimizer_step_is_one_event():
    params = [torch.ones(3, requires_grad=True) for _ in range(4)]
    optimizer = torch.optim.Adam(params)
    for param in params:
        param.grad = torch.ones(3)
    optimizer.step()
    with profile() as prof:
        optimizer.step()
    assert names(prof) == ["adam_step"]


def test_many_events_are_kept():
    x = torch.ones(2)
    with profile() as prof:
        for _ in range(20_000):
            x.exp()
    assert len(prof.events()) == 20_000
    (average,) = prof.key_averages()
    assert average.count == 20_000


def test_warnings_do_not_come_from_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile_of_one_op()


# ---- where CUPTI is looked for


def test_places_of_cupti(tmp_path, monkeypatch):
    from tapegrad.profiler import devices

    for place in ("cu13/lib/libcupti.so.13", "cuda_cupti/lib/libcupti.so.12"):
        (tmp_path / "nvidia" / place).parent.mkdir(parents=True)
        (tmp_path / "nvidia" / place).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TAPEGRAD_CUPTI", raising=False)
    monkeypatch.delenv("TAPEGRAD_CUDA_DRIVER", raising=False)
    for version, first, left_out in (
        (13000, "libcupti.so.13", "no"),
        (12080, "libcupti.so.12", "13"),
    ):
        monkeypatch.setattr(torch._C, "_cuda_driver_version", lambda v=version: v)
        found = devices.find_cupti()
        assert found[0].startswith(str(tmp_path)) and found[0].endswith(first)
        assert first in found  # that of the system comes later
        assert not any(path.endswith(f".so.{left_out}") for path in found)
    monkeypatch.setenv("TAPEGRAD_CUDA_DRIVER", "emulator.so")
    assert devices.find_cupti() == []
    monkeypatch.setenv("TAPEGRAD_CUPTI", "mine.so")
    assert devices.find_cupti() == ["mine.so"]


def test_lines():
    x = torch.ones(2, requires_grad=True)
    with profile(with_stack=True) as prof:
        y = x.exp()
        y.sum().backward()
    line = test_lines.__code__.co_firstlineno + 3
    by_name = {event.name: event for event in prof.events()}
    assert by_name["exp"].stack == [f"{__file__}:{line}, in test_lines"]
    assert by_name["ExpBackward0"].stack == by_name["exp"].stack
    rows = {(each.key, *each.stack) for each in prof.key_averages(group_by_stack_n=1)}
    assert ("exp", *by_name["exp"].stack) in rows
    with profile(activities=[ProfilerActivity.CPU]) as prof:  # lines are kept beside a device
        x.exp()
    assert prof.events()[0].stack == []
