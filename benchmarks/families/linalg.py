"""Linear algebra: square matrices of many sizes, and batches of small ones."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_BATCHES = ((1000, 4, 4), (1000, 8, 8), (200, 16, 16))

# name -> statement on `a`, which is regular, `p`, which is positive-definite, and `b`
_STATEMENTS = {
    "det": "torch.linalg.det(a)",
    "inv": "torch.linalg.inv(a)",
    "solve": "torch.linalg.solve(a, b)",
    "cholesky": "torch.linalg.cholesky(p)",
    "qr": "torch.linalg.qr(a)",
    "eigh": "torch.linalg.eigh(p)",
    "svd": "torch.linalg.svd(a)",
}

# What both sides agree on, where vectors are free in their sign.
_CHECKS = {
    "qr": "torch.linalg.qr(a).R.abs()",
    "eigh": "torch.linalg.eigh(p).eigenvalues",
    "svd": "torch.linalg.svd(a).S",
}


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []
    shapes = [(f"{n}", (n, n)) for n in _SIZES]
    shapes += [(f"{count}x{n}x{n}", (count, n, n)) for count, n, _ in _BATCHES]
    for name, statement in _STATEMENTS.items():
        for size, shape in shapes:
            n = shape[-1]
            setup = (
                f"a = uniform(*{shape}, dtype='float32') + {n} ** 0.5 * torch.eye({n})\n"
                f"b = uniform(*{(*shape[:-1], 2)}, dtype='float32')\n"
                f"p = a @ a.mT + torch.eye({n})\n"
            )
            check = _CHECKS.get(name)
            found.append(Case("linalg", f"{name}.{size}", statement, setup, check, quick=n <= 128))
    return found
