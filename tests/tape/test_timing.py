"""Times of entries: which of the ops that a profile saw are whose."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.tape.last_backward import LastBackward
from tapegrad.tape.timing import Times

nn = torch.nn


@pytest.fixture
def seen(monkeypatch):
    """Return the events that profiles saw, filled as they are read."""
    events = []
    read = Times._read

    def note(self, found):
        events.extend(found)
        read(self, found)

    monkeypatch.setattr(Times, "_read", note)
    return events


def durations(seen, *names):
    """Return the microseconds of the forward ops of these names, in order."""
    return [(e[4] - e[3]) / 1000 for e in seen if e[1] == "op" and not e[2] and e[0] in names]


def test_what_ran_before_the_model_is_nobodys(seen):
    model = nn.Sequential(nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters())
    with tape.record(profile=True) as t:
        for _ in range(2):
            x = torch.randn(1, 4).requires_grad_()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
    assert len(durations(seen, "random_normal")) == len(durations(seen, "adam_step")) == 2
    forward = [e for e in t if not e.is_leaf]
    assert [e.op for e in forward] == ["tanh", "transpose", "addmm", "transpose", "addmm", "sum"]
    tanh, matmul, total = (durations(seen, op) for op in ("tanh", "matmul", "sum"))
    expected = [tanh[1], 0, matmul[2], 0, matmul[3], total[1]]
    assert [e.forward_us for e in forward] == expected


def test_what_ran_before_the_end_of_a_step_is_nobodys(seen):
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([w])
    with tape.record(profile=True) as t:
        for _ in range(2):
            loss = w.exp().sum()
            loss.backward()
            optimizer.step()
    assert [e.forward_us for e in t.filter(op="exp")] == durations(seen, "exp")[1:]


def test_a_new_leaf_passes_time_to_its_own_op_alone(seen):
    w = torch.ones(6, 6, requires_grad=True)
    with tape.record(profile=True) as t:
        (w @ w).sum().backward()  # the first use: an entry for the leaf, then one for the product
        loss = w.exp().sum()
        loss.backward()
    assert [e.op for e in t if not e.is_leaf] == ["exp", "sum"]
    assert t[0].is_leaf and t[0].forward_us == 0
    assert [t[1].forward_us] == durations(seen, "exp")


def test_a_backward_counts_once(seen):
    x = torch.ones(3, requires_grad=True)
    with LastBackward(profile=True) as last:
        y = x.exp().sum()
        y.backward(retain_graph=True)
        y.backward()
    sweeps = [(e[4] - e[3]) / 1000 for e in seen if e[0] == "ExpBackward0"]
    assert len(sweeps) == 2
    assert [e["backward_us"] for e in last.document["entries"] if e["op"] == "exp"] == sweeps[1:]


def test_times_of_other_threads_are_not_taken():
    times = Times()
    times.start()
    try:
        times._thread = 0
        assert not times.read()
        times.mark_boundary()
        assert not times._boundaries
    finally:
        times.stop()
    assert not torch._C._is_profiling() and not nn.modules._hooks.GLOBAL.any
