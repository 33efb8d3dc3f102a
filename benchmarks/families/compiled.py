"""Compiled functions beside PyTorch's eager ones: what is left when Python is left out.

On the side of PyTorch the function is not compiled: its compiler takes half a minute for each, and
calls of that size are bound by what surrounds them there as well.
"""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_COMPILE = """
compiled = torch.compile(run) if torch.__name__ == "tapegrad" else run
for _ in range(5):
    compiled()
"""

_STEP = """
from models import MODELS
optimizer, loss_of = MODELS[{name!r}](torch)
def run():
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward()
    optimizer.step()
    return loss
"""

_FUNCTIONS = {
    "square_and_sine_with_gradient": """
x = torch.tensor(2.0, requires_grad=True)
def run():
    return torch.autograd.grad(x * x + torch.sin(x), x)[0]
""",
    "chain_of_20_on_16M_floats": """
x = uniform(1 << 24)
def run():
    y = x
    for _ in range(10):
        y = (y * 1.01 + 0.5) * x
    return y
""",
    "chain_of_40_on_16_floats": """
x = uniform(16)
def run():
    y = x
    for _ in range(20):
        y = (y * 1.01).tanh()
    return y
""",
}

# Draws differ from library to library.
_BLOCK = """
functional = torch.nn.functional
x, grad = uniform(8, 1024, 768).requires_grad_(), uniform(8, 1024, 768)
weight, bias = (uniform(768).requires_grad_() for _ in range(2))
def block():
    y = functional.gelu(functional.layer_norm(x, (768,), weight, bias))
    return x + functional.dropout(y, 0.1)
"""

_BLOCKS = {
    "norm_gelu_dropout_residual": """
def run():
    with torch.no_grad():
        return block()
""",
    "norm_gelu_dropout_residual_with_gradient": """
def run():
    x.grad = weight.grad = bias.grad = None
    y = block()
    y.backward(grad)
    return y.detach()
""",
}

_FUNCTIONS |= {
    "log_softmax_and_its_loss_with_gradient": """
x, y = uniform(8192, 1024).requires_grad_(), uniform(8192, 1024).softmax(-1)
def run():
    x.grad = None
    loss = -(y * (x / 2).log_softmax(-1)).sum(-1).mean()
    loss.backward()
    return x.grad
""",
    "rms_norm_and_swiglu": """
x, weight = uniform(8192, 2048), uniform(2048)
def run():
    with torch.no_grad():
        a, b = torch.nn.functional.rms_norm(x, (2048,), weight).chunk(2, -1)
        return torch.nn.functional.silu(a) * b
""",
}


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = [
        Case(
            "compiled", f"{name}_step", "loss = compiled()", _STEP.format(name=name) + _COMPILE, "1"
        )
        for name in ("mlp", "lstm", "gpt_64", "gpt_128")
    ]
    for name, setup in _BLOCKS.items():
        found.append(Case("compiled", name, "compiled()", _BLOCK + setup + _COMPILE, "1"))
    for name, setup in _FUNCTIONS.items():
        found.append(Case("compiled", name, "compiled()", setup + _COMPILE))
    return found
