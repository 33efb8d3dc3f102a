"""Models and checks for the tests of `tape.offload`."""

import os
import subprocess
import sys
import textwrap
import threading
import time

from library import torch

WIDTH, ROWS = 64, 128  # a layer's result takes 32 KiB
VALUE = WIDTH * ROWS * 4


def network(layers=12, seed=3):
    """Return a model that saves several results of each layer."""
    torch.manual_seed(seed)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.LayerNorm(WIDTH)]
    return torch.nn.Sequential(*parts)


def batch(seed=5):
    torch.manual_seed(seed)
    return torch.randn(ROWS, WIDTH)


def chain(x, steps=40):
    """Return x after steps that save a result each."""
    for _ in range(steps):
        x = torch.tanh(x)
    return x


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def plain_gradients(layers=12):
    model = network(layers)
    model(batch()).square().mean().backward()
    return gradients(model)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def memory_left(block):
    """Return what a block has in memory once its threads have let go of what they were moving."""
    for _ in range(1000):
        if block.memory_now == 0:
            break
        time.sleep(0.01)
    return block.memory_now


def offload_threads():
    return [t for t in threading.enumerate() if t.name.startswith("tapegrad-offload")]


def plain_chain_gradient(x, steps):
    y = x.detach().clone().requires_grad_()
    chain(y, steps).sum().backward()
    return y.grad


def run_program(text, tmp_path, **options):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(text))
    root = os.path.dirname(os.path.dirname(torch.__file__))
    result = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
