"""What only a fresh process can tell: memory, import, sizes, the build."""

from __future__ import annotations

from benchmarks.case import Benchmark, Probe


def memory(table: object) -> list[Benchmark]:
    units = {"total": "B", "beyond_data": "B", "live": "B"}
    return [Probe("memory", "tape_entry", "tape_memory.py", ("1000000",), units, estimate=8)]


def import_time(table: object) -> list[Benchmark]:
    return [Probe("import", "import", "import_time.py", rounds=15, quick_rounds=3, estimate=2)]


def size(table: object) -> list[Benchmark]:
    units = {"alone": "B", "with_dependencies": "B"}
    return [Probe("size", "install", "install_size.py", units=units, rounds=1, estimate=1)]


def build(table: object) -> list[Benchmark]:
    units = {"wheel": "B", "wheel_without_openblas": "B"}
    return [
        Probe(
            "build",
            "clean_build",
            "clean_build.py",
            units=units,
            rounds=1,
            only_a=True,
            estimate=240,
        )
    ]
