"""Sobol sequences: the points, the state between draws, scrambling; beside PyTorch's to the bit."""

import subprocess
import sys

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

Engine = torch.quasirandom.SobolEngine
PEER = pytorch_for_parity()[0]
needs_peer = pytest.mark.skipif(IS_TORCH or PEER is None, reason="compares with PyTorch")


def test_first_points():
    expected = [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert Engine(3).draw(4).tolist() == expected


@pytest.mark.parametrize("scramble", [False, True])
def test_draws_continue_each_other(scramble):
    whole = Engine(7, scramble=scramble, seed=3).draw(64)
    engine = Engine(7, scramble=scramble, seed=3)
    parts = [engine.draw(), engine.draw(2), engine.draw_base2(0), engine.draw(60)]
    assert torch.equal(torch.cat(parts), whole)
    assert engine.num_generated == 64
    assert torch.equal(engine.reset().draw(5), whole[:5])
    for skipped in (0, 1, 2, 7, 33):
        ahead = engine.reset().fast_forward(skipped)
        assert torch.equal(ahead.draw(3), whole[skipped : skipped + 3])
        assert torch.equal(ahead.fast_forward(4).draw(1), whole[skipped + 7 : skipped + 8])


def test_dtype_and_out():
    assert Engine(2).draw(3).dtype == torch.float32
    assert Engine(2).draw(3, dtype=torch.float64).dtype == torch.float64
    out = torch.empty(0)
    assert Engine(2).draw(3, out=out) is out
    assert torch.equal(out, Engine(2).draw(3))
    with pytest.raises(NotImplementedError, match="not implemented for"):
        Engine(2).draw(3, dtype=torch.float16)


def test_scrambling():
    points = Engine(4, scramble=True, seed=1).draw(1024, dtype=torch.float64)
    assert torch.equal(points, Engine(4, scramble=True, seed=1).draw(1024, dtype=torch.float64))
    assert not torch.equal(points, Engine(4, scramble=True, seed=2).draw(1024, dtype=torch.float64))
    assert bool((points >= 0).all()) and bool((points < 1).all())
    # A scrambled net is a net: each of 1,024 intervals of each dimension has one point.
    for column in (points * 1024).long().unbind(1):
        assert torch.equal(column.sort().values, torch.arange(1024))


def test_repr_and_bounds():
    assert repr(Engine(3)) == "SobolEngine(dimension=3)"
    described = "SobolEngine(dimension=3, scramble=True, seed=5)"
    assert repr(Engine(3, scramble=True, seed=5)) == described
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match=r"\[1, 21201\]"):
            Engine(dimension)
    with pytest.raises(ValueError, match="balance properties"):
        Engine(3).fast_forward(3).draw_base2(2)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch starts the sequence anew, or goes back")
def test_refusals():
    with pytest.raises(RuntimeError, match=r"has 2\*\*30 points"):
        Engine(1).fast_forward(2**30 - 1).draw(2)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        Engine(1).fast_forward(-1)
    with pytest.raises(RuntimeError, match="at least 0, got -1"):
        Engine(1).draw(-1)
    assert Engine(2).draw(0).shape == (0, 2)


@needs_peer
def test_points_are_those_of_pytorch():
    ours, theirs = Engine(21201), PEER.quasirandom.SobolEngine(21201)
    assert np.array_equal(ours.sobolstate.numpy(), theirs.sobolstate.numpy())
    assert np.array_equal(ours.draw(9).numpy(), theirs.draw(9).numpy())


@needs_peer
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_sequences_are_those_of_pytorch(dtype):
    ours, theirs = Engine(5), PEER.quasirandom.SobolEngine(5)
    for step in (1, 1000, 7, 100_003, 2**29 + 11):
        ours.fast_forward(step)
        theirs.fast_forward(step)
        drawn = ours.draw(33, dtype=getattr(torch, dtype)).numpy()
        assert np.array_equal(drawn, theirs.draw(33, dtype=getattr(PEER, dtype)).numpy())


@needs_peer
def test_scrambling_is_that_of_pytorch(monkeypatch):
    """Of the same random numbers, the same points: those of the generators differ."""
    import tapegrad

    randint = PEER.randint

    def same(high, size, *, device, generator):
        peer = PEER.Generator().manual_seed(generator.initial_seed())
        return torch.from_numpy(randint(high, size, generator=peer).numpy())

    monkeypatch.setattr(tapegrad._C, "randint", same)
    monkeypatch.setattr(
        PEER, "randint", lambda high, size, device, generator: randint(
            high, size, generator=PEER.Generator().manual_seed(generator.initial_seed())
        )
    )  # fmt: skip
    for dtype in ("float32", "float64"):
        ours = Engine(40, scramble=True, seed=9).draw(100, dtype=getattr(torch, dtype))
        theirs = PEER.quasirandom.SobolEngine(40, scramble=True, seed=9).draw(
            100, dtype=getattr(PEER, dtype)
        )
        assert np.array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.skipif(IS_TORCH, reason="about tapegrad's own import")
def test_importing_the_library_does_not_load_it():
    code = "import sys, tapegrad; sys.exit('tapegrad.quasirandom' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
