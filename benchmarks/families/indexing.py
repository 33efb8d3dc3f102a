"""Indexing, gather and scatter, joins and transposing copies, sorting."""

from __future__ import annotations

import re

from benchmarks.case import Benchmark, Case

# name -> how it is made; a case makes only what its statement names.
_INPUTS = {
    "x": "uniform(1024, 1024)",
    "z": "uniform(1024, 1024)",
    "long": "uniform(1 << 20)",
    "pieces": "list(uniform(1 << 20).split(4096))",
    "cube": "uniform(64, 32, 16, 32)",
    "rows": "integers(1024, high=1024)",
    "columns": "integers(1024, high=1024)",
    "places": "integers(1024, 1024, high=1024)",
    "flat_places": "integers(1 << 20, high=1 << 20)",
    "mask": "uniform(1024, 1024) > 0",
    "words": "integers(4096, high=10000)",
    "vectors": "uniform(10000, 128)",
}

# name -> (statement, check where the statement is no expression)
_STATEMENTS: dict[str, tuple[str, str | None]] = {
    "index.rows": ("x[rows]", None),
    "index.columns": ("x[:, columns]", None),
    "index.pairs": ("x[rows, columns]", None),
    "index.embedding": ("vectors[words]", None),
    "index.mask": ("x[mask]", None),
    "index.assign_rows": ("x[rows] = 1.0", "x"),
    "index.assign_mask": ("x[mask] = 1.0", "x"),
    "index.assign_slice": ("x[::2] = z[::2]", "x"),
    "index_select.rows": ("torch.index_select(x, 0, rows)", None),
    "index_select.columns": ("torch.index_select(x, 1, columns)", None),
    "index_add.rows": ("torch.index_add(x, 0, rows, z)", None),
    "gather.rows": ("torch.gather(x, 1, places)", None),
    "gather.columns": ("torch.gather(x, 0, places)", None),
    "gather.flat": ("torch.gather(long, 0, flat_places)", None),
    "scatter_add.rows": ("torch.scatter_add(x, 1, places, z)", None),
    "scatter_add.columns": ("torch.scatter_add(x, 0, places, z)", None),
    "scatter_add.flat": ("torch.scatter_add(long, 0, flat_places, z.view(-1))", None),
    "cat.rows": ("torch.cat((x, z))", None),
    "cat.columns": ("torch.cat((x, z), 1)", None),
    "cat.many": ("torch.cat(pieces)", None),
    "stack": ("torch.stack((x, z), 2)", None),
    "transpose_copy.matrix": ("x.t().contiguous()", None),
    "transpose_copy.heads": ("cube.permute(0, 2, 1, 3).contiguous()", None),
    "transpose_copy.last_first": ("cube.permute(3, 0, 1, 2).contiguous()", None),
    "strided_copy": ("x[:, ::2].contiguous()", None),
    "masked_select": ("torch.masked_select(x, mask)", None),
    "nonzero": ("torch.nonzero(mask)", None),
    "sort.rows": ("torch.sort(x, 1)[0]", None),
    "sort.flat": ("torch.sort(long)[0]", None),
    "topk.rows": ("torch.topk(x, 8, 1)[0]", None),
    "topk.flat": ("torch.topk(long, 100)[0]", None),
}

# Backward of the two that training spends its time in: a scatter of the gradient.
_DERIVATIVES = {"index.embedding": "vectors", "gather.rows": "x"}


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = [
        Case("indexing", name, statement, _setup(statement), check=check)
        for name, (statement, check) in _STATEMENTS.items()
    ]
    for name, leaf in _DERIVATIVES.items():
        statement = _STATEMENTS[name][0]
        recorded = f"{leaf}.requires_grad_()\ny = {statement}\ng = uniform(*y.shape)\n"
        found.append(
            Case(
                "indexing",
                f"{name}.grad",
                f"torch.autograd.grad(y, {leaf}, g, retain_graph=True)",
                _setup(statement) + recorded,
            )
        )
    return found


def _setup(statement: str) -> str:
    words = re.findall(r"\w+", statement)
    return "".join(f"{name} = {how}\n" for name, how in _INPUTS.items() if name in words)
