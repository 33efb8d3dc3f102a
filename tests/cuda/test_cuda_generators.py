"""The generators of devices."""

import os
import subprocess
import sys

import pytest
from library import torch

cuda = torch.cuda


def states():
    return [state.tolist() for state in cuda.get_rng_state_all()]


def test_manual_seed_seeds_all():
    torch.manual_seed(5)
    assert cuda.initial_seed() == 5
    cpu = torch.get_rng_state().tolist()
    assert states() == [cpu] * cuda.device_count()  # the same stream of numbers
    cuda.manual_seed_all(6)
    assert cuda.initial_seed() == 6 and torch.initial_seed() == 5
    assert torch.manual_seed(7) is torch.default_generator


def test_manual_seed_of_one(two_devices):
    torch.manual_seed(5)
    with cuda.device(1):
        cuda.manual_seed(8)
        assert cuda.initial_seed() == 8
    assert cuda.initial_seed() == 5


def test_seeds_from_the_system():
    torch.manual_seed(5)
    cuda.seed()
    first = cuda.initial_seed()
    cuda.seed_all()
    assert len({5, first, cuda.initial_seed()}) == 3 and torch.initial_seed() == 5
    assert torch.seed() == cuda.initial_seed() == torch.initial_seed()


def test_states():
    cuda.manual_seed(3)
    state = cuda.get_rng_state()
    assert state.device.type == "cpu" and state.dtype is torch.uint8
    cuda.manual_seed(4)
    assert cuda.get_rng_state("cuda:0").tolist() != state.tolist()
    cuda.set_rng_state(state)
    assert cuda.get_rng_state(0).tolist() == state.tolist() and cuda.initial_seed() == 3
    every = cuda.get_rng_state_all()
    cuda.manual_seed_all(9)
    cuda.set_rng_state_all(every)
    assert cuda.initial_seed() == 3
    with pytest.raises(RuntimeError, match="expected a state of 16 bytes"):
        cuda.set_rng_state(state[:3])


def test_a_generator_of_ones_own():
    generator = torch.Generator(device="cuda")
    assert generator.device == torch.device("cuda:0")
    assert generator.manual_seed(3) is generator and generator.initial_seed() == 3
    assert torch.Generator().device == torch.device("cpu")
    with pytest.raises(RuntimeError, match="expected device 'cpu' or 'cuda'"):
        torch.Generator("meta")


def test_a_generator_of_another_device():
    with pytest.raises(
        RuntimeError, match=r"Expected a 'cpu' device for generator but found 'cuda:0'"
    ):
        torch.rand(3, generator=torch.Generator("cuda"))
    with pytest.raises(RuntimeError, match=r"Expected a 'cuda:0' device.*found 'cpu'"):
        torch.empty(3, device="cuda").normal_(generator=torch.Generator())


def test_a_seed_is_kept_for_devices_that_are_used_later():
    script = """if True:
        import tapegrad as torch
        torch.manual_seed(11)
        assert not torch.cuda.is_initialized()
        print(torch.cuda.initial_seed())
    """
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.stdout, done.stderr) == ("11\n", "")
