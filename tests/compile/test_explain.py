"""What explain() tells: facts that are checked against the function, and text that shows them."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)


def test_guards_tell_the_value_and_the_line():
    compiled = torch.compile(lambda x: x * 2 if x.sum().item() > 0 else x)
    for _ in range(3):
        compiled(torch.ones(3))
    told = torch.compiler.explain(compiled)
    (guard,) = told.traces[0].guards
    assert guard.value == "3.0"
    assert f"guard: 3.0, at {guard.line}" in str(told)


def test_steps_tell_their_lines():
    """Derivatives tell the line of what they are derivatives of."""

    def step(x):
        y = x.sin()
        z = y * x
        z.sum().backward()
        return z.detach()

    first = step.__code__.co_firstlineno
    compiled = torch.compile(step)
    for _ in range(3):
        compiled(torch.ones(3, requires_grad=True))
    told = torch.compiler.explain(compiled)
    (trace,) = told.traces
    lines = {call.op: call.line for call in trace.after}
    assert lines["sin"] == f"{__file__}:{first + 1}, in step"
    assert lines["mul"] == f"{__file__}:{first + 2}, in step"
    assert lines["sin_backward"] == f"{__file__}:{first + 1}, in step, backward"
    assert f"test_explain.py:{first + 2}, in step: " in str(told)


def test_lines_of_models_are_those_that_call_them():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    compiled = torch.compile(torch.no_grad()(lambda x: model(x)))
    for _ in range(3):
        compiled(torch.ones(2, 3))
    (trace,) = torch.compiler.explain(compiled).traces
    assert {call.line for call in trace.after} == {trace.after[0].line}
    assert trace.after[0].line.startswith(__file__)


def test_guards_of_a_value_that_is_looked_at_tell_the_line():
    def branch(x):
        if x.sum() > 0:
            return x * 2
        return x * 3

    compiled = torch.compile(branch)
    for _ in range(3):
        compiled(torch.ones(3))
    (guard,) = torch.compiler.explain(compiled).traces[0].guards
    assert guard.line == f"{__file__}:{branch.__code__.co_firstlineno + 1}, in branch"


def test_groups_tell_their_lines():
    def chain(x):
        y = x.sin()
        return (y * x).exp()

    compiled = torch.compile(torch.no_grad()(chain))
    for _ in range(3):
        compiled(torch.ones(1 << 17))
    first = chain.__code__.co_firstlineno
    told = str(torch.compiler.explain(compiled))
    where = f"test_explain.py:{first + 1}, in chain; test_explain.py:{first + 2}, in chain"
    assert f"tile by tile: sin, mul, exp ({where})" in told


def test_memory_of_a_captured_call():
    compiled = torch.compile(lambda x: x.sin().cos().sum())
    for _ in range(3):
        compiled(torch.ones(1000))
    (trace,) = torch.compiler.explain(compiled).traces
    assert [call.op for call in trace.after] == ["sin", "cos", "sum"]
    assert trace.live_after == [trace.arena_bytes + 4] * 3
    assert trace.live_before[:2] == [4000, 8000]
    assert trace.peak_bytes == max(trace.live_before) == 8000 <= trace.made_bytes
    assert trace.after[0].inputs == ["float32[1000]"]


def test_groups_are_marked_on_calls():
    compiled = torch.compile(lambda x: x.sin().cos().exp().sum())
    for _ in range(3):
        compiled(torch.ones(1 << 17))
    (trace,) = torch.compiler.explain(compiled).traces
    assert [call.group for call in trace.after] == [0, 0, 0, -1]
    assert {call.group for call in trace.before} == {-1}


def test_why_it_was_captured_again():
    compiled = torch.compile(lambda x: x * 2 if x.sum().item() > 0 else x * 3)
    for x in (torch.ones(2), torch.ones(3), -torch.ones(3)):
        for _ in range(3):
            compiled(x)
    reasons = list(torch.compiler.explain(compiled).misses)
    assert any("argument 0 was float32[2]" in each and "float32[3]" in each for each in reasons)
    assert any("a value looked at was 3.0, is -3.0" in each for each in reasons)


def test_a_table_has_a_line_for_each_trace():
    compiled = torch.compile(lambda x: x * 2)
    for size in (2, 3):
        for _ in range(3):
            compiled(torch.ones(size))
    told = torch.compiler.explain(compiled)
    lines = str(told).splitlines()
    assert lines[1].split()[:3] == ["trace", "calls", "captured"]
    assert [line.split()[0] for line in lines[2:4]] == ["0", "1"]
    for trace in told.traces:
        assert trace.capture_seconds > 0 and trace.plan_seconds > 0 and trace.passes_seconds > 0


def test_steps_that_are_measured():
    compiled = torch.compile(lambda x: (x @ x).sin().sum())
    for _ in range(3):
        compiled(torch.ones(8, 8))
    told = torch.compiler.explain(compiled)
    times = told.measure()
    assert len(times) == len(told.traces[0].after)
    assert all(each is not None and each > 0 for each in times)


def test_nothing_captured_yet():
    told = torch.compiler.explain(torch.compile(lambda x: x))
    assert str(told) == "<lambda>: 0 traces"
