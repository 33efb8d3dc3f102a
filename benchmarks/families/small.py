"""Latency of ops on tensors so small that only overhead is left."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

# name -> statement on a, b (4 floats), m, n (4 x 4); timed with and without recording.
_STATEMENTS = {
    "add": "a + b",
    "mul_scalar": "a * 2.0",
    "sub": "a - b",
    "neg": "-a",
    "add_function": "torch.add(a, b)",
    "sin": "torch.sin(a)",
    "exp": "a.exp()",
    "relu": "torch.relu(a)",
    "where": "torch.where(condition, a, b)",
    "sum": "a.sum()",
    "mean": "a.mean()",
    "max": "a.max()",
    "softmax": "a.softmax(0)",
    "matmul": "m @ n",
    "view": "m.view(16)",
    "transpose": "m.t()",
    "select": "m[1]",
    "slice": "a[1:3]",
    "index": "m[rows]",
    "cat": "torch.cat((a, b))",
    "broadcast_add": "m + a",
    "chain_of_three": "(a * b + a).tanh()",
}

# Statements that make no sense recorded, or that record by themselves.
_UNRECORDED = {
    "add_": ("a.add_(zero)", "a"),
    "compare": ("a > b", None),
    "item": ("scalar.item()", None),
    "empty": ("torch.empty(4)", "1"),
    "tensor": ("torch.tensor([1.0, 2.0, 3.0, 4.0])", None),
    "zeros": ("torch.zeros(4)", None),
    "detach": ("a.detach()", None),
    "no_grad": ("with torch.no_grad():\n    a + b", "a + b"),
}

_SETUP = """
a, b, zero = uniform(4), uniform(4), torch.zeros(4)
m, n = uniform(4, 4), uniform(4, 4)
scalar = torch.tensor(1.5)
condition = a > 0
rows = torch.tensor([2, 0])
"""

_RECORDED = "for leaf in (a, b, m, n):\n    leaf.requires_grad_()\n"

_EXAMPLE = """\
x = torch.tensor(2.0, requires_grad=True)
y = x * x + torch.sin(x)
y.backward()"""


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []
    for name, statement in _STATEMENTS.items():
        found.append(Case("small", name, statement, _SETUP))
        found.append(Case("small", f"{name}.recorded", statement, _SETUP + _RECORDED))
    for name, (statement, check) in _UNRECORDED.items():
        found.append(Case("small", name, statement, _SETUP, check=check))
    found.append(Case("small", "requires_grad", "a.detach().requires_grad_()", _SETUP))
    found.append(Case("small", "example", _EXAMPLE, check="x.grad"))
    found.append(
        Case(
            "small",
            "example.leaf_made_before",
            "y = x * x + torch.sin(x)\ny.backward()",
            "x = torch.tensor(2.0, requires_grad=True)",
            check="x.grad",
        )
    )
    return found
