"""The tape: graphs of many shapes, swept; and how cost grows with length."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case, Probe

_LEAVES = """
x = uniform(4, low=0.9, high=1.0).requires_grad_()
w = uniform(4, low=0.9, high=1.0).requires_grad_()
g = torch.ones(4)
"""

_CHAIN = "y = x\nfor _ in range(100):\n    y = y * w"
_SWEEP = "\ny.backward(g)"

# name -> (forward, recorded entries in it)
_GRAPHS = {
    "chain": (_CHAIN, 100),
    "chain_scalar": ("y = x\nfor _ in range(100):\n    y = y * 0.99", 100),
    "chain_sin": ("y = x\nfor _ in range(100):\n    y = y.sin()", 100),
    "diamonds": ("y = x\nfor _ in range(33):\n    y = (y * w) + (y * 0.1)", 99),
    "fan_out": ("y = x * w\nfor _ in range(50):\n    y = y + x * w", 101),
    "wide": ("branches = [x * w for _ in range(100)]\ny = torch.stack(branches).sum(0)", 102),
    "layers": ("y = x\nfor _ in range(25):\n    y = torch.tanh(m @ y + b) + y", 100),
}


def cases(table: object) -> list[Benchmark]:
    layers = "m = (uniform(4, 4) * 0.1).requires_grad_()\nb = uniform(4).requires_grad_()\n"
    setup = _LEAVES + layers
    found: list[Benchmark] = [
        Case("tape", name, forward + _SWEEP, setup, check="x.grad", per=entries)
        for name, (forward, entries) in _GRAPHS.items()
    ]
    found.append(Case("tape", "chain.forward_and_free", _CHAIN, setup, check="y", per=100))
    found.append(
        Case(
            "tape",
            "chain.sweep_only",
            "torch.autograd.grad(y, (x, w), g, retain_graph=True)",
            setup + _CHAIN,
            per=100,
        )
    )
    found.append(
        Case(
            "tape",
            "chain.second_order",
            "y = x\nfor _ in range(20):\n    y = y * w\n"
            "first, = torch.autograd.grad(y, x, g, create_graph=True)\n"
            "second, = torch.autograd.grad(first, w, g)",
            setup,
            check="second",
            per=20,
        )
    )
    return found


def scaling(table: object) -> list[Benchmark]:
    """Chains of 10^4 to 10^6 entries: a linear library shows the same time per entry in each."""
    setup = "w = torch.ones(4).requires_grad_()\ng = torch.ones(4)"
    found: list[Benchmark] = [
        Case(
            "scaling",
            f"chain_1e{exponent}",
            "",
            setup,
            check="w.grad",
            per=10**exponent,
            phases=(
                ("build", f"y = w\nfor _ in range({10**exponent}):\n    y = y * w"),
                ("sweep", "y.backward(g)"),
                ("free", "y = None"),
            ),
            budget=4.0,
            least_rounds=3,
            quick=exponent < 6,
        )
        for exponent in (4, 5, 6)
    ]
    found.extend(
        Probe(
            "scaling",
            f"chain_1e6_stack_{kib}_KiB",
            "long_chain.py",
            ("1000000",),
            rounds=1,
            stack_kib=kib,
            estimate=16,
            quick=False,
        )
        for kib in (8192, 512)
    )
    return found
