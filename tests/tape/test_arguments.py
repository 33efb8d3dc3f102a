"""Wrong arguments are refused with the reason, before anything has happened."""

import gc

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import _C, tape
from tapegrad.tape import recording
from tapegrad.tape.revolve_plan import _betas, places_on_disk, repetitions
from tapegrad.utils._units import parse_bytes

NAN = float("nan")
CONSTANT = torch.ones(3)


def a_tape():
    x = torch.ones(4, requires_grad=True)
    return tape.of((x * x).exp().sum())


def a_step(state, i):
    return state * 2


def revolve(*args, **kwargs):
    x = torch.ones(2, requires_grad=True)
    return tape.revolve(*(x if arg is ... else arg for arg in args), **kwargs)


WRONG_TYPES = {
    "of nothing": (lambda t: tape.of(None), "tape.of: expected tensors, got NoneType"),
    "of a number": (lambda t: tape.of(3), "tape.of: expected tensors, got int"),
    "of with a model": (lambda t: tape.of(CONSTANT, model=3), "model to be a Module, got int"),
    "live with a model": (lambda t: tape.live("m"), "tape.live: expected model to be a Module"),
    "record": (lambda t: tape.record(3), "tape.record: expected model to be a Module, got int"),
    "inputs": (lambda t: tape.record(replay=True, inputs=3), "inputs to be tensors, got int"),
    "an input": (lambda t: tape.record(replay=True, inputs=[3]), "input 0 to be a tensor"),
    "filter op": (lambda t: t.filter(op=3), "filter: expected op to be a name or several, got int"),
    "filter module": (lambda t: t.filter(module=3), "filter: expected module to be a path"),
    "filter line": (lambda t: t.filter(line=1.5), "expected line to be a line number or a file"),
    "filter dtype": (lambda t: t.filter(dtype="float32"), "expected dtype to be a dtype, got str"),
    "filter bytes": (lambda t: t.filter(min_bytes=NAN), "min_bytes: expected a number of bytes"),
    "search": (lambda t: t.search(3), "search: expected text to be a string, got int"),
    "behind": (lambda t: t.behind(3), "behind: expected tensors, got int"),
    "table": (lambda t: t.table(rows=2.5), "table: expected rows to be an int, got float"),
    "depth": (lambda t: t.summary("module", depth="a"), "expected depth to be an int, got str"),
    "dead outputs": (lambda t: t.dead(outputs=3), "dead: expected tensors, got int"),
    "dead inputs": (lambda t: t.dead(inputs=[None]), "dead: expected tensors, got NoneType"),
    "diff": (lambda t: t.diff(None), "diff: expected other to be a Tape, got NoneType"),
    "vjp": (lambda t: t.vjp(3), "vjp: expected g to be a tensor or several, got int"),
    "vjp of one": (lambda t: t.vjp([1.0]), "vjp: expected each gradient to be a tensor or None"),
    "vjp until": (lambda t: t.vjp(until="exp"), "until to be an entry or its place, got str"),
    "vjp until bool": (lambda t: t.vjp(until=True), "until to be an entry or its place, got bool"),
    "rewind": (lambda t: t.rewind("a"), "rewind: expected each gradient to be a tensor or None"),
    "run": (lambda t: t.rewind().run(until=3), "run: expected until to be an entry, got int"),
    "adjoint": (lambda t: t.rewind().adjoint(3), "adjoint: expected entry to be an Entry"),
    "set_adjoint": (lambda t: t.rewind().set_adjoint(t[1], 3), "a gradient to be a tensor or None"),
    "a step's": (
        lambda t: next(t.rewind()).set_adjoint(t[1], "a"),
        "a gradient to be a tensor or None",
    ),
    "compress inputs": (lambda t: tape.compress(inputs=None), "expected inputs to be a bool"),
    "round_trip": (lambda t: tape.compress().round_trip(3), "round_trip: expected a tensor"),
    "revolve step": (lambda t: revolve(3, ..., 3, 2), "expected step to be a function, got int"),
    "revolve until": (lambda t: revolve(a_step, ..., 3, 2, until=3), "until to be a function"),
    "revolve args": (lambda t: revolve(a_step, ..., 3, 2, args=CONSTANT), "args to be a tuple"),
    "disk_slots": (lambda t: revolve(a_step, ..., 3, 2, disk_slots=1.5), "disk_slots to be an int"),
}
WRONG_VALUES = {
    "table": (lambda t: t.table(rows=-1), ValueError, "rows to be at least 0, got -1"),
    "depth": (lambda t: t.summary("module", depth=0), ValueError, "depth to be at least 1, got 0"),
    "behind": (lambda t: t.behind(CONSTANT), RuntimeError, "behind: expected a tensor that requir"),
    "dead": (lambda t: t.dead(outputs=CONSTANT), RuntimeError, "dead: expected a tensor that req"),
    "inputs": (lambda t: t.dead(inputs=[CONSTANT]), RuntimeError, "dead: expected a tensor that"),
    "until": (lambda t: t.vjp(until=99), IndexError, "until to be a place among 4, got 99"),
    "output": (lambda t: t.rewind().adjoint(t[0], 7), IndexError, "one of the 1 outputs of <0"),
    "minus": (lambda t: t.rewind().adjoint(t[0], -1), ValueError, "output_number to be at least 0"),
    "shape": (
        lambda t: t.rewind().set_adjoint(t[1], torch.ones(99)),
        RuntimeError,
        r"set_adjoint: expected a gradient of shape \(4,\) for output 0 of <1.* \(99,\)",
    ),
    "min_bytes": (lambda t: t.filter(min_bytes="much"), ValueError, "min_bytes: expected a size"),
    "size": (lambda t: parse_bytes("1e400", "budget"), ValueError, "a size that there can be"),
    "disk": (
        lambda t: revolve(a_step, ..., 3, 2, disk_slots=-1),
        ValueError,
        "disk_slots to be at",
    ),
    "no name": (lambda t: tape.offload(""), ValueError, "expected a folder, a file or 'cpu'"),
    "zero byte": (lambda t: tape.offload("a\0b"), ValueError, "expected a folder, a file or 'cpu'"),
    "leave": (lambda t: tape.offload(".").__exit__(), RuntimeError, "that this thread has entered"),
    "left": (lambda t: tape.compress().__exit__(), RuntimeError, "that this thread has entered"),
}


@pytest.mark.parametrize(("call", "words"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_wrong_types(call, words):
    with pytest.raises(TypeError, match=words):
        call(a_tape())


@pytest.mark.parametrize(("call", "error", "words"), WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_wrong_values(call, error, words):
    with pytest.raises(error, match=words):
        call(a_tape())


def test_refusals_leave_nothing_behind():
    gc.collect()
    before = _C.live_counts()
    backward = torch.Tensor.backward
    for call, *_ in (*WRONG_TYPES.values(), *WRONG_VALUES.values()):
        with pytest.raises((TypeError, ValueError, RuntimeError, IndexError)):
            call(a_tape())
    gc.collect()
    assert _C.live_counts() == before
    assert torch.Tensor.backward is backward and not recording._running
    assert _C.is_grad_enabled() and _C._set_coding(None) is None


def test_sizes_beyond_all_memory():
    assert tape.compress(min_bytes=2**80).saved_bytes == 0
    assert "PiB" in repr(tape.offload(".", memory=10**30))
    assert len(a_tape().filter(min_bytes="16 B")) == 1


def test_plans_of_absurd_sizes():
    assert tape.revolve_cost(10**30, 1) == (10**30 - 1) * 10**30 // 2
    assert tape.revolve_cost(10**30, 2) > tape.revolve_cost(10**30, 3) > 10**30
    assert tape.revolve_cost(10**6, 10**30) == 10**6 - 1
    for n in (10**6, 10**6 + 1, 10**12):
        times = repetitions(n, 2)
        assert (times + 1) * (times + 2) // 2 >= n > times * (times + 1) // 2
    assert len(_betas(1)) <= 1000, "what is known of a plan stays small"
    assert places_on_disk(5, 10**9, 10**9 - 3) == places_on_disk(5, 5, 2)
    assert len(places_on_disk(5, 5, 2)) == 2 and places_on_disk(5, 10**9, 3) == set()
    x = torch.ones(2, requires_grad=True)
    tape.revolve(a_step, x, 3, 2, disk_slots=10**9).sum().backward()
    assert x.grad.tolist() == [8, 8]
