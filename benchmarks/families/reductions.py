"""Reductions and scans over rows, columns and everything."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

# op -> how a reduction over dimension {d} of x is written; "everything" flattens first where the
# op needs a dimension (softmax and its kin, scans) and drops the argument where it does not.
_OPS = {
    "sum": ("x.sum({d})", "x.sum()"),
    "mean": ("x.mean({d})", "x.mean()"),
    "max": ("x.max({d})", "x.max()"),
    "argmax": ("x.argmax({d})", "x.argmax()"),
    "var": ("x.var({d})", "x.var()"),
    "softmax": ("torch.softmax(x, {d})", "torch.softmax(x.view(-1), 0)"),
    "log_softmax": ("torch.log_softmax(x, {d})", "torch.log_softmax(x.view(-1), 0)"),
    "logsumexp": ("torch.logsumexp(x, {d})", "torch.logsumexp(x, (0, 1))"),
    "cumsum": ("torch.cumsum(x, {d})", "torch.cumsum(x.view(-1), 0)"),
}

_WITHOUT_DERIVATIVE = frozenset({"argmax"})
_SIZES = {"1M": 1024, "16M": 4096}


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []
    for op, (over_dim, over_all) in _OPS.items():
        statements = {
            "rows": over_dim.format(d=1),
            "columns": over_dim.format(d=0),
            "everything": over_all,
        }
        for label, side in _SIZES.items():
            setup = f"x = uniform({side}, {side}, low=-4.0, high=4.0)\n"
            for where, statement in statements.items():
                name = f"{op}.{where}.{label}"
                found.append(Case("reductions", name, statement, setup, quick=label == "1M"))
                if label == "1M" and op not in _WITHOUT_DERIVATIVE:
                    found.append(_derivative(name, statement, setup))
    return found


def _derivative(name: str, statement: str, setup: str) -> Case:
    setup += (
        "x.requires_grad_()\n"
        f"y = {statement}\n"
        "y = y[0] if isinstance(y, tuple) else y\n"
        "g = uniform(*y.shape)\n"
    )
    return Case(
        "reductions",
        f"{name}.grad",
        "torch.autograd.grad(y, x, g, retain_graph=True)",
        setup,
        quick=False,
    )
