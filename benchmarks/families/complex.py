"""Complex numbers: pointwise ops on a million and on four, sums, products."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case

_SIZES = {"1M": 1 << 20, "4": 4}
_POINTWISE = {
    "add": "z + w",
    "mul": "z * w",
    "mul_real": "z * x",
    "div": "z / w",
    "conj_mul": "z.conj() * w",
    "abs": "torch.abs(z)",
    "angle": "torch.angle(z)",
    "reciprocal": "torch.reciprocal(z)",
    "sqrt": "torch.sqrt(z)",
    "exp": "torch.exp(z)",
    "log": "torch.log(z)",
    "sin": "torch.sin(z)",
    "tanh": "torch.tanh(z)",
    "pow_number": "z ** 2",
    "polar": "torch.polar(x, y)",
    "complex": "torch.complex(x, y)",
    "sum": "z.sum()",
    "mean": "z.mean()",
}
_PRODUCTS = {
    "64": ((64, 64), (64, 64)),
    "256": ((256, 256), (256, 256)),
    "512": ((512, 512), (512, 512)),
    "batch_64_of_32": ((64, 32, 32), (64, 32, 32)),
    "matrix_vector": ((1024, 1024), (1024,)),
}
_REAL = {"complex64": "float32", "complex128": "float64"}


def _drawn(name: str, shape: tuple[int, ...], dtype: str) -> str:
    part = f"uniform(*{shape}, dtype='{_REAL[dtype]}')"
    return f"{name} = torch.complex({part}, {part})\n"


def _checked(statement: str) -> str:
    """Parts of the result: the workers compare real numbers."""
    real = statement.startswith(("torch.abs", "torch.angle"))
    return statement if real else f"torch.view_as_real(({statement}).resolve_conj())"


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = []
    for dtype, real in _REAL.items():
        for size, n in _SIZES.items():
            setup = _drawn("z", (n,), dtype) + _drawn("w", (n,), dtype)
            setup += f"x = uniform({n}, dtype='{real}')\ny = uniform({n}, dtype='{real}')\n"
            for name, statement in _POINTWISE.items():
                label = f"{name}.{size}.{dtype}"
                quick = dtype == "complex64" and size == "1M"
                check = _checked(statement)
                found.append(Case("complex", label, statement, setup, check, quick=quick))
        for size, (left, right) in _PRODUCTS.items():
            setup = _drawn("z", left, dtype) + _drawn("w", right, dtype)
            label = f"matmul.{size}.{dtype}"
            found.append(Case("complex", label, "z @ w", setup, _checked("z @ w")))
    return found
