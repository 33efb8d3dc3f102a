"""Every family of benchmarks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.case import Benchmark
from benchmarks.families import (
    compiled,
    complex,
    fourier,
    indexing,
    linalg,
    matmul,
    models,
    optimizer,
    pointwise,
    pooling,
    process,
    reductions,
    small,
    sparse,
    statistics,
    tape,
)

Table = Sequence[dict[str, Any]] | None

FAMILIES: dict[str, Callable[[Table], list[Benchmark]]] = {
    "small": small.cases,
    "tape": tape.cases,
    "scaling": tape.scaling,
    "pointwise": pointwise.cases,
    "reductions": reductions.cases,
    "matmul": matmul.cases,
    "complex": complex.cases,
    "linalg": linalg.cases,
    "fourier": fourier.cases,
    "indexing": indexing.cases,
    "statistics": statistics.cases,
    "sparse": sparse.cases,
    "pooling": pooling.cases,
    "optimizer": optimizer.cases,
    "models": models.cases,
    "compiled": compiled.cases,
    "model_memory": models.memory,
    "memory": process.memory,
    "import": process.import_time,
    "size": process.size,
    "build": process.build,
}

# Takes minutes and a compiler; runs only when named.
ON_REQUEST = frozenset({"build"})
