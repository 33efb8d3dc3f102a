"""What runs on a device, in profiles: kernels, whose they are, times, traces; CUPTI and events."""

import json
import threading
import warnings

import pytest
from library import torch

from tapegrad import _C
from tapegrad.autograd import profiler as old
from tapegrad.profiler import (
    DeviceType,
    ProfilerActivity,
    devices,
    profile,
    record_function,
    schedule,
)

BOTH = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
ON_DEVICE = ("kernel", "copy", "fill")


@pytest.fixture(params=["cupti", "events"])
def way(request, monkeypatch):
    """By what devices are watched; a GPU may have no CUPTI."""
    if request.param == "events":
        start = _C._Profile.start

        class Profile(_C._Profile):
            def start(self, watch=""):
                start(self, "events" if watch else "")

        monkeypatch.setattr(_C, "_Profile", Profile)
    else:
        native = _C._Profile(False)
        native.start("cupti")
        native.stop()
        if native.problem:
            pytest.skip(f"no CUPTI: {native.problem}")
    return request.param


def kernels(prof):
    return [event for event in prof.events() if event.kind in ON_DEVICE]


def ops(prof):
    return [event for event in prof.events() if event.kind == "op"]


def model():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)]
    return torch.nn.Sequential(*layers).to("cuda"), torch.randn(5, 8).to("cuda")


def step(net, x):
    net(x).square().mean().backward()


def test_ops_have_the_times_of_their_kernels(way):
    net, x = model()
    with profile(activities=BOTH, record_shapes=True) as prof:
        step(net, x)
    on_device = [event for event in ops(prof) if event.kernels]
    assert {"matmul", "gelu", "mul", "mean"} & {event.name for event in on_device}
    for event in on_device:
        assert event.self_device_time_total > 0
        assert event.device_time_total >= event.self_device_time_total
        assert event.cuda_time_total == event.device_time_total
        assert all(kernel.event is event and kernel.device == 0 for kernel in event.kernels)
        assert event.kind == "op" and event.device_type is DeviceType.CPU
    total = prof.events().self_device_time_total
    assert total == pytest.approx(sum(event.self_device_time_total for event in ops(prof)))
    assert bool(kernels(prof)) == (way == "cupti")


def test_an_entry_has_the_time_of_what_it_ran(way):
    net, x = model()
    with profile(activities=BOTH) as prof:
        step(net, x)
    entries = [e for e in prof.events() if e.kind == "backward" and e.cpu_children]
    assert entries
    for entry in entries:
        assert entry.self_device_time_total == 0
        inside = sum(child.device_time_total for child in entry.cpu_children)
        assert entry.device_time_total == pytest.approx(inside)
    assert any(entry.device_time_total > 0 for entry in entries)


def test_a_range_has_the_time_of_what_is_inside(way):
    x = torch.ones(64, device="cuda")
    with profile(activities=BOTH) as prof:
        with record_function("part"):
            y = x.exp()
        y.sin()
    part = next(event for event in prof.events() if event.name == "part")
    exp, sin = (next(e for e in ops(prof) if e.name == name) for name in ("exp", "sin"))
    assert part.device_time_total == pytest.approx(exp.device_time_total) and sin.kernels


def test_averages_and_table(way):
    x = torch.ones(64, device="cuda")
    with profile(activities=BOTH) as prof:
        for _ in range(3):
            x.exp()
    averages = prof.key_averages()
    exp = next(each for each in averages if each.key == "exp")
    assert exp.count == 3
    assert exp.device_time == pytest.approx(exp.device_time_total / 3) == exp.cuda_time
    single = [event for event in ops(prof) if event.name == "exp"]
    assert exp.self_cuda_time_total == pytest.approx(
        sum(event.self_device_time_total for event in single)
    )
    for key in ("cuda_time_total", "self_cuda_time_total", "cuda_time", "device_time_total"):
        text = averages.table(sort_by=key)
        assert {"Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"} <= {
            *(cell.strip() for cell in text.splitlines()[1].split("  "))
        }
        assert "exp" in text.splitlines()[3]
        assert "Self CUDA time total:" in text
    assert prof.events().total_average().device_time_total == pytest.approx(
        prof.events().self_device_time_total
    )


def test_without_a_device_tables_are_as_ever():
    with profile(activities=BOTH) as prof:
        torch.ones(4).exp()
    assert "CUDA" not in prof.key_averages().table()
    assert [event.name for event in prof.events()] == ["fill", "exp"]
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        torch.ones(4, device="cuda").exp()
    assert prof.events().self_device_time_total == 0
    assert all(not event.stack for event in prof.events())


def test_lines_of_the_program(way):
    x = torch.ones(64, device="cuda", requires_grad=True)
    with profile(activities=BOTH) as prof:
        y = x.exp()  # the line of the forward
        loss = y.sum()
        loss.backward()
    lines = test_lines_of_the_program.__code__.co_firstlineno
    exp = next(event for event in ops(prof) if event.name == "exp")
    assert exp.stack == [f"{__file__}:{lines + 3}, in test_lines_of_the_program"]
    backward = next(event for event in ops(prof) if event.name == "exp_backward")
    assert backward.is_backward and backward.stack == exp.stack
    averages = prof.key_averages(group_by_stack_n=1)
    assert any(each.key == "exp" and each.stack == exp.stack for each in averages)
    text = averages.table(max_src_column_width=40)
    assert "Source Location" in text and f"{lines + 3}, in test_lines" in text
    if way == "cupti":
        assert {tuple(event.stack) for event in kernels(prof)} >= {tuple(exp.stack)}


def test_times_lie_where_the_host_asked_for_them(way):
    x = torch.ones(1000, device="cuda")
    torch.cuda.synchronize()
    with profile(activities=BOTH) as prof:
        for _ in range(5):
            x.exp()
        torch.cuda.synchronize()
        x.sin()
        torch.cuda.synchronize()
    found = [event.kernels[0] for event in ops(prof) if event.kernels]
    slack = 200.0  # microseconds: clocks of two kinds
    for kernel in found:
        assert kernel.start >= kernel.event.time_range.start - slack
        assert kernel.end >= kernel.start
    starts = [kernel.start for kernel in found]
    assert starts == sorted(starts)
    sin = next(event for event in ops(prof) if event.name == "sin")
    assert max(kernel.end for kernel in found[:-1]) <= sin.time_range.start + slack


def spans(content, category):
    return [each for each in content["traceEvents"] if each.get("cat") == category]


def test_trace(way, tmp_path):
    net, x = model()
    stream = torch.cuda.Stream()
    with profile(activities=BOTH) as prof:
        step(net, x)
        with torch.cuda.stream(stream):
            x.exp()
        torch.cuda.synchronize()
    prof.export_chrome_trace(tmp_path / "trace.json")
    content = json.loads((tmp_path / "trace.json").read_text())
    on_device = spans(content, "kernel")
    assert len(on_device) >= 8
    named = {(e["pid"], e["tid"]) for e in content["traceEvents"] if e["name"] == "thread_name"}
    assert {(each["pid"], each["tid"]) for each in on_device} <= named and len(named) == 2
    host = spans(content, "cpu_op")
    assert not {each["pid"] for each in host} & {each["pid"] for each in on_device}
    by_id = {each["args"]["External id"]: each for each in host}
    for each in on_device:
        assert each["args"]["Op"] == by_id[each["args"]["External id"]]["name"]
        assert "test_profiler.py" in each["args"]["Source"]
    check_arrows(content, host, on_device, spans(content, "cuda_driver"))


def check_arrows(content, host, on_device, launches):
    """Each kernel has an arrow, which begins at a launch inside its op, or at the op."""
    starts = {e["id"]: e for e in content["traceEvents"] if e["ph"] == "s"}
    ends = {(e["pid"], e["tid"], e["ts"]): e for e in content["traceEvents"] if e["ph"] == "f"}
    by_id = {each["args"]["External id"]: each for each in host}
    for each in on_device:
        end = ends[each["pid"], each["tid"], each["ts"]]
        start = starts[end["id"]]
        op = by_id[each["args"]["External id"]]
        assert (start["pid"], start["tid"]) == (op["pid"], op["tid"])
        assert op["ts"] - 200 <= start["ts"] <= op["ts"] + op["dur"] + 200
        if launches and each["args"]["Op"] != "matmul":  # libraries may launch by other calls
            assert any(launch["args"]["correlation"] == end["id"] for launch in launches)


def test_kernels_have_names_and_copies_sizes():
    with profile(activities=BOTH) as prof:
        x = torch.ones(1000).to("cuda")
        y = x.exp() @ x
        x.sum()
        value = y.item()
    assert value > 0
    if not kernels(prof):
        pytest.skip("no CUPTI")
    found = {event.name: event for event in kernels(prof)}
    assert {"pointwise exp float32", "Memcpy HtoD", "Memcpy DtoH"} <= set(found)
    assert any("reduce" in name for name in found)
    assert found["Memcpy HtoD"].kind == "copy"
    assert found["pointwise exp float32"].device_type is DeviceType.CUDA
    copy = next(each for event in ops(prof) for each in event.kernels if each.kind == "copy")
    assert copy.nbytes == 4000


def test_results_are_the_same(way):
    net, x = model()

    def gradients():
        net.zero_grad()
        step(net, x)
        return [parameter.grad for parameter in net.parameters()]

    expected = gradients()
    with profile(activities=BOTH):
        found = gradients()
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_schedules_and_recordings_that_add_up(way):
    x = torch.ones(64, device="cuda")
    plan = schedule(wait=1, warmup=1, active=1, repeat=2)
    for acc_events, count in ((True, 2), (False, 1)):
        with profile(activities=BOTH, schedule=plan, acc_events=acc_events) as prof:
            for _ in range(7):
                x.exp()
                prof.step()
        exps = [event for event in ops(prof) if event.name == "exp"]
        assert len(exps) == count
        assert all(len(event.kernels) == 1 for event in exps)
        assert exps[-1].kernels[0].start >= exps[-1].time_range.start - 200


def test_an_op_that_fails_on_the_way(way):
    x = torch.ones(4, device="cuda")
    with profile(activities=BOTH) as prof:
        with pytest.raises(RuntimeError):
            x @ torch.ones(3, device="cuda")
        x.exp()
    exp = next(event for event in ops(prof) if event.name == "exp")
    assert len(exp.kernels) == 1


def test_profiles_of_two_threads_at_a_time(way):
    """CUPTI serves one; the other takes events."""
    x = torch.ones(64, device="cuda")
    found = []

    def work():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with profile(activities=BOTH) as own:
                x.cos()
        found.append([event.name for event in ops(own) if event.kernels])

    with profile(activities=BOTH) as prof:
        x.exp()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        x.sin()
    assert found == [["cos"]]
    assert [event.name for event in ops(prof) if event.kernels] == ["exp", "sin"]
    with profile(activities=BOTH) as again:
        x.tan()
    assert [event.name for event in ops(again) if event.kernels] == ["tan"]


def test_cupti_that_refuses(monkeypatch, emulator):
    """One warning in a process, which says why; then events."""
    monkeypatch.setenv("TAPEGRAD_EMULATED_CUPTI", "busy")
    monkeypatch.setattr(devices, "_has_warned", False)
    x = torch.ones(64, device="cuda")
    with (
        pytest.warns(UserWarning, match="MULTIPLE_SUBSCRIBERS.*by events"),
        profile(activities=BOTH) as prof,
    ):
        x.exp()
    (exp,) = ops(prof)
    assert exp.device_time_total > 0 and not kernels(prof)
    with profile(activities=BOTH) as prof:  # warnings are errors here
        x.exp()
    assert ops(prof)[0].kernels
    monkeypatch.delenv("TAPEGRAD_EMULATED_CUPTI")
    with profile(activities=BOTH) as prof:
        x.exp()
    assert kernels(prof)


def test_a_profile_that_is_never_stopped_goes_away():
    x = torch.ones(4, device="cuda")
    for watch in ("cupti", "events"):
        native = _C._Profile(False)
        native.start(watch)
        x.exp()
        del native
    assert not _C._is_profiling()
    with profile(activities=BOTH) as prof:
        x.exp()
    assert ops(prof)[0].kernels


def test_the_older_interface():
    x = torch.ones(64, device="cuda")
    with old.profile(use_device="cuda") as prof:
        x.exp()
    assert prof.function_events[0].device_time_total > 0
    with old.profile() as prof:
        x.exp()
    assert prof.function_events[0].device_time_total == 0


def test_waits_of_a_profile_are_asked_for(way):
    x = torch.ones(64, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        with profile(activities=BOTH) as prof:
            x.exp()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert ops(prof)[0].kernels


def test_with_a_budget_and_offloading(way):
    net, x = model()
    step(net, x)
    expected = [parameter.grad for parameter in net.parameters()]
    for block in (torch.tape.budget(512), torch.tape.offload("cpu", min_bytes=16)):
        net.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.tape.BudgetWarning)
            with profile(activities=BOTH) as prof, block:
                step(net, x)
        found = [parameter.grad for parameter in net.parameters()]
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
        assert prof.events().self_device_time_total > 0


def test_memory_of_the_device(way, tmp_path):
    size = 64 * 1024 * 4
    with profile(activities=BOTH, profile_memory=True) as prof:
        with record_function("block"):
            x = torch.ones(64, 1024, device="cuda")
            y = x.exp()
            y.add_(1)
        del x, y
        z = torch.ones(16, device="cuda")
    by_name = {event.name: event for event in prof.events()}
    assert by_name["exp"].self_device_memory_usage == size
    assert by_name["block"].device_memory_usage == 2 * size
    assert by_name["block"].self_device_memory_usage == 0
    assert by_name["block"].cpu_memory_usage < size
    assert ops(prof)[-1].device_freed == 2 * size and z.numel() == 16
    text = prof.key_averages().table(sort_by="self_cuda_memory_usage")
    assert "Self CUDA Mem" in text and "CPU Mem" in text
    prof.export_chrome_trace(tmp_path / "trace.json")
    counters = [
        event["args"]["bytes"]
        for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        if event["name"] == "memory of devices since start"
    ]
    assert max(counters) == 2 * size and counters[-1] == 512
