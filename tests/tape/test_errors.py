"""Errors that carry the tape: who keeps the memory, when there is none left."""

import gc

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import _C, tape
from tapegrad.tape import errors

from .models import GPT

ABSURD = 1 << 45


def ask_for_too_much():
    with pytest.raises(RuntimeError) as error:
        torch.empty(ABSURD)
    return str(error.value)


@pytest.fixture(autouse=True)
def without_garbage():
    gc.collect()


def test_op_line_and_module_of_the_largest_entries():
    model = torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
    loss = model(torch.ones(100, 8)).sum()  # noqa: F841  its graph lives
    text = ask_for_too_much()
    assert "could not get" in text and "the tape keeps" in text
    tanh = next(line for line in text.splitlines() if "TanhBackward0" in line)
    assert tanh.startswith("  TanhBackward0 saved 117 KiB at ")
    assert "test_errors.py:" in tanh
    assert "in test_op_line_and_module_of_the_largest_entries" in tanh
    addmm = next(line for line in text.splitlines() if "AddmmBackward0" in line)
    assert "saved 3.12 KiB" in addmm and addmm.endswith("module 0")


def test_the_largest_come_first_and_are_few():
    x = torch.ones(100, requires_grad=True)
    kept = [x.repeat(n).exp() for n in range(1, 10)]
    text = errors.largest_entries("cpu")
    total = sum(each.numel() * 4 for each in kept)
    assert f"the tape keeps {total / 1024:.1f} KiB" in text
    lines = text.splitlines()[1:]
    assert len(lines) == 5 and "3.52 KiB" in lines[0] and "1.95 KiB" in lines[-1]


def test_modules_of_entries_without_parameters():
    model = GPT()
    logits = model(torch.randint(17, (2, 8)))  # noqa: F841
    text = ask_for_too_much()
    attention = next(line for line in text.splitlines() if "Attention" in line)
    assert attention.endswith("module blocks.0")


def test_in_a_recorded_block():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
    with tape.record():
        y = model(torch.ones(64, 4))  # noqa: F841
        text = ask_for_too_much()
    sigmoid = next(line for line in text.splitlines() if "SigmoidBackward0" in line)
    assert sigmoid.endswith("module 1")


def test_without_a_graph_nothing_is_said_of_the_tape():
    text = ask_for_too_much()
    assert "could not get" in text and "tape" not in text


def test_no_tensor_is_made():
    model = torch.nn.Linear(4, 4)
    y = model(torch.ones(2, 4)).exp()  # noqa: F841
    gc.collect()
    allocations, counts = _C.memory_stats()["allocations"], _C.live_counts()
    assert errors.largest_entries("cpu")
    assert _C.memory_stats()["allocations"] == allocations
    assert _C.live_counts() == counts


def test_it_never_raises(monkeypatch):
    y = torch.ones(2, requires_grad=True).exp()  # noqa: F841

    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(errors, "assign_modules", fail)
    assert "ExpBackward0" in errors.largest_entries("cpu"), "without modules, then"
    monkeypatch.setattr(errors, "list_entries", fail)
    assert errors.largest_entries("cpu") == ""
    assert "could not get" in ask_for_too_much()


def test_the_module_of_an_entry():
    model = GPT()
    logits = model(torch.randint(17, (2, 8)))
    attention = tape.of(logits).filter(op="scaled_dot_product_attention")[1]
    assert errors.module_of(attention.node) == "blocks.1"
    assert errors.module_of(torch.ones(2, requires_grad=True).exp().grad_fn) == ""
    assert errors.module_of("nonsense") == ""


def test_a_failing_backward_names_op_and_line():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError) as error:
        y.sum().backward()
    (note,) = error.value.__notes__
    assert "ExpBackward0" in note and "test_errors.py" in note
