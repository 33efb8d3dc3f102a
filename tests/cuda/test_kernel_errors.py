"""What a kernel cannot use is told when the host waits, and the device works on."""

import linecache

import pytest
from library import torch

x = torch.arange(12.0).view(3, 4)


def device(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype, device="cuda")


CALLS = {
    "index": (lambda y: y[device(0, 7)], IndexError, "index 7 is out of bounds for dimension 0"),
    "pairs": (
        lambda y: y[device(0, 1), device(3, -5)],
        IndexError,
        "index -5 is out of bounds for dimension 1 with size 4",
    ),
    "select": (lambda y: y.index_select(1, device(4)), IndexError, "index 4 is out of bounds"),
    "put": (
        lambda y: y.index_put((device(0, 3),), torch.ones(2, 4, device="cuda"), accumulate=True),
        IndexError,
        "index 3 is out of bounds for dimension 0 with size 3",
    ),
    "embedding": (
        lambda y: torch.nn.functional.embedding(device(1, 5), y),
        IndexError,
        "index 5 is out of bounds|index out of range",
    ),
    "gather": (
        lambda y: y.gather(1, device(0, 9).view(1, 2)),
        RuntimeError,
        "index 9 is out of bounds for dimension 1 with size 4",
    ),
    "scatter": (
        lambda y: y.scatter_add(0, device(3).view(1, 1), y[:1, :1]),
        RuntimeError,
        "index 3 is out of bounds for dimension 0 with size 3",
    ),
    "masked_scatter": (
        lambda y: y.masked_scatter(y > 2, y[:1, :3]),
        RuntimeError,
        r"number of elements of source \(3\) < number of ones in mask",
    ),
    "bernoulli": (
        lambda y: torch.bernoulli(y),
        RuntimeError,
        r"expected all probabilities to be in \[0, 1\]",
    ),
    "poisson": (lambda y: torch.poisson(-y), RuntimeError, "expected rate to be non-negative"),
    "multinomial": (lambda y: torch.multinomial(y - 0.5, 2), RuntimeError, "either `inf`, `nan`"),
    "multinomial.zero": (
        lambda y: torch.multinomial(y * 0, 2, replacement=True),
        RuntimeError,
        "sum of probabilities <= 0",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_told_when_the_host_waits(name):
    call, kind, words = CALLS[name]
    y = x.cuda()
    with pytest.raises(kind, match=words):
        call(y)
        torch.cuda.synchronize()
    torch.cuda.synchronize()  # told once
    assert torch.equal((y * 2).cpu(), x * 2)  # and the device works on


@pytest.mark.parametrize("name", ["index", "gather"])
def test_told_by_every_way_of_waiting(name):
    call, kind, words = CALLS[name]
    y = x.cuda()
    event = torch.cuda.Event()

    def by_event():
        event.record()
        event.synchronize()

    for wait in (torch.cuda.current_stream().synchronize, by_event, y.cpu, y.tolist):
        call(y)
        with pytest.raises(kind, match=words):
            wait()
    torch.cuda.synchronize()


def test_good_indices_are_not_told():
    y = x.cuda()
    assert torch.equal(y[device(-1, 0)].cpu(), x[[-1, 0]])
    torch.cuda.synchronize()


@pytest.mark.parametrize("name", CALLS)
def test_the_line_of_the_program_is_told(name):
    call, kind, _ = CALLS[name]
    y = x.cuda()
    line = call.__code__.co_firstlineno
    with pytest.raises(kind, match=r"; launched at .*test_kernel_errors.py:\d+, in <lambda>$") as e:
        call(y)
        torch.cuda.synchronize()
    found = int(str(e.value).rsplit("test_kernel_errors.py:", 1)[1].split(",")[0])
    assert line <= found <= line + 2


def test_the_line_of_the_launch_and_not_of_the_wait():
    y = x.cuda()
    bad = device(9)
    many = [y[device(1)] for _ in range(5)]
    first = y[bad]  # this one
    many += [y[device(1)] for _ in range(5)]
    with pytest.raises(IndexError, match=r"index 9 .* with size 3; launched at .*:\d+, in") as e:
        first.sum().item()
    number = int(str(e.value).rsplit(":", 1)[1].split(",")[0])
    assert linecache.getline(__file__, number).endswith("# this one\n")
    assert [row.tolist() for row in many[:1]] == [[[4.0, 5.0, 6.0, 7.0]]]


def test_a_module_is_told_by_the_line_of_the_program():
    layer = torch.nn.Embedding(4, 2, device="cuda")
    tokens = device(1, 8)
    with pytest.raises(IndexError, match=r"test_kernel_errors.py:.*a_module_is_told"):
        layer(tokens).cpu()
