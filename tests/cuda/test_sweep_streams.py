"""A sweep runs entries on the streams that they were recorded on, in the right order.

The emulator runs work of a stream as late as it may, so that what does not wait reads old values.
"""

import random

import pytest
from library import torch

from .comparing import assert_close

cuda = torch.cuda


def on(stream, function, *inputs):
    """Call a function on a stream, as a program does that takes care of its inputs."""
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        for x in inputs:
            x.record_stream(stream)
        return function(*inputs)


def branches(a, b, s=None, t=None):
    """Return a value of two branches, which may run on streams of their own."""
    if s is None:
        return (a.sin() * a.exp()).sum() + (b * b * a.cos()).sum()
    u = on(s, lambda a: (a.sin() * a.exp()).sum(), a)
    v = on(t, lambda a, b: (b * b * a.cos()).sum(), a, b)
    for stream, x in ((s, u), (t, v)):
        cuda.current_stream().wait_stream(stream)
        x.record_stream(cuda.current_stream())
    return u + v


def leaves(count=2, device="cuda"):
    generator = torch.Generator().manual_seed(3)
    return [torch.rand(5, 7, generator=generator).to(device).requires_grad_() for _ in range(count)]


def test_gradients_of_two_branches():
    s, t = cuda.Stream(), cuda.Stream()
    expected, got = leaves(), leaves()
    for _ in range(3):  # gradients add up, and memory is used again
        branches(*expected).backward()
        branches(*got, s, t).backward()
        assert [x.grad.tolist() for x in got] == [x.grad.tolist() for x in expected]


def test_gradients_that_are_returned():
    s, t = cuda.Stream(), cuda.Stream()
    expected, got = leaves(), leaves()
    for streams, x in (((), expected), ((s, t), got)):
        y = branches(*x, *streams)
        first = torch.autograd.grad(y, x, create_graph=True)
        x.append(torch.autograd.grad(sum((g * g).sum() for g in first), x))
    assert [g.tolist() for g in got[2]] == [g.tolist() for g in expected[2]]


def test_entries_run_where_they_were_recorded():
    s, seen = cuda.Stream(), []
    (a,) = leaves(1)
    b = a * 2
    c = on(s, lambda b: b.sin(), b)
    b.register_hook(lambda g: seen.append(("b", cuda.current_stream())))
    c.register_hook(lambda g: seen.append(("c", cuda.current_stream())))
    cuda.current_stream().wait_stream(s)
    c.sum().backward()
    assert seen == [("c", s), ("b", cuda.default_stream())]
    assert cuda.current_stream() == cuda.default_stream()


def test_backward_on_another_stream():
    s = cuda.Stream()
    expected, got = leaves(), leaves()
    branches(*expected).backward()
    y = branches(*got)
    s.wait_stream(cuda.current_stream())
    with cuda.stream(s):
        y.backward()
        values = [x.grad * 1 for x in got]
        assert [v.tolist() for v in values] == [x.grad.tolist() for x in expected]


def test_an_error_leaves_the_stream():
    s = cuda.Stream()
    (a,) = leaves(1)
    y = on(s, lambda a: a.sin(), a)

    def refuse(grad):
        raise ValueError("no")

    y.register_hook(refuse)
    cuda.current_stream().wait_stream(s)
    with pytest.raises(ValueError, match="no"):
        y.sum().backward()
    assert cuda.current_stream() == cuda.default_stream()


def test_a_checkpoint_runs_again_on_its_stream():
    s, seen = cuda.Stream(), []
    (a,), (b,) = leaves(1), leaves(1)

    def inside(x):
        seen.append(cuda.current_stream())
        return x.sin().exp()

    y = on(s, lambda a: torch.utils.checkpoint.checkpoint(inside, a, use_reentrant=False), a)
    cuda.current_stream().wait_stream(s)
    y.sum().backward()
    b.sin().exp().sum().backward()
    assert seen == [s, s]
    assert a.grad.tolist() == b.grad.tolist()


def test_a_sweep_that_is_stepped_through():
    """Between the steps gradients are read and replaced on the stream of the program."""
    s, t = cuda.Stream(), cuda.Stream()
    outcomes = []
    for streams in ((), (s, t)):
        x = leaves()
        sweep = torch.tape.of(branches(*x, *streams)).rewind()
        seen = []
        for step in sweep:
            seen += [g * 1 for g in step.grads]
            step.grads[:] = [g * 1.5 for g in step.grads]
            seen += [g * 1 for g in step.grad_inputs if g is not None]
        outcomes.append([*seen, *(sweep.gradients[leaf] for leaf in x)])
    plain, side = outcomes
    assert len(plain) == len(side) > 20
    for got, expected in zip(side, plain, strict=True):
        assert_close(got, expected.cpu(), units=64)


OPS = {
    "sin": (1, lambda x: x.sin()),
    "mul": (2, lambda x, y: x * y),
    "add": (2, lambda x, y: x + y),
    "matmul": (2, lambda x, y: x @ y.t() @ x * 0.1),
    "softmax": (1, lambda x: x.softmax(-1)),
    "exp": (1, lambda x: (x * 0.1).exp()),
}


def random_value(seed, streams):
    """Return the leaves of a random program, after backward; its ops run on some of the streams."""
    choose = random.Random(seed)
    given = leaves(3)
    home = cuda.current_stream()
    values = [(x, home) for x in given]
    for _ in range(12):
        count, op = OPS[choose.choice(sorted(OPS))]
        inputs = [values[choose.randrange(len(values))] for _ in range(count)]
        number = choose.randrange(4)
        stream = streams[number - 1] if streams and number else home
        for x, made_on in inputs:
            stream.wait_stream(made_on)
            x.record_stream(stream)
        with cuda.stream(stream):
            values.append((op(*(x for x, _ in inputs)), stream))
    for x, made_on in values[-4:]:
        home.wait_stream(made_on)
        x.record_stream(home)
    loss = sum(x.sum() for x, _ in values[-4:])
    del values, inputs, x
    loss.backward()
    return [x.grad for x in given if x.grad is not None]


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block):
    streams = [cuda.Stream() for _ in range(3)]
    for seed in range(block * 10, block * 10 + 10):
        for got, expected in zip(random_value(seed, streams), random_value(seed, []), strict=True):
            # What crosses streams is dense, and cuBLASLt may round products of it otherwise.
            assert_close(got, expected.cpu(), units=64)
