"""What the library promised, as data: each promise is judged from the rows of one run.

A promise about many rows is judged by its worst row. A median on the wrong side of its bound whose
99% interval still reaches the bound is "within noise": neither claimed as met nor called a failure.
It must also lie within 10% of the bound, lest one wild sample among few excuse a real miss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from benchmarks.case import Row
from benchmarks.stats import Summary, median
from benchmarks.units import show

NEAR = 0.1
MET, WITHIN_NOISE, NOT_MET, NOT_MEASURED = "met", "within noise", "NOT MET", "not measured"


@dataclass(frozen=True)
class Verdict:
    state: str
    measured: str


@dataclass(frozen=True)
class Target:
    claim: str
    bound: str
    judge: Callable[[Sequence[Row]], Verdict]


def _matching(rows: Sequence[Row], patterns: Sequence[str]) -> list[Row]:
    return [row for row in rows if any(fnmatchcase(row.key, pattern) for pattern in patterns)]


def _unmeasured(rows: Sequence[Row]) -> Verdict:
    failed = [row for row in rows if row.note]
    return Verdict(NOT_MEASURED, f"{failed[0].name}: {failed[0].note}" if failed else "")


def each_ratio(claim: str, bound: float, *patterns: str) -> Target:
    """Every matching row is at least `bound` times as fast as the peer."""

    def judge(rows: Sequence[Row]) -> Verdict:
        chosen = _matching(rows, patterns)
        summaries = [(Summary.of(row.ratios), row.name) for row in chosen if row.ratios]
        if not summaries:
            return _unmeasured(chosen)
        below = [(summary, name) for summary, name in summaries if summary.median < bound]
        surely = [
            name
            for summary, name in below
            if summary.high < bound or summary.median < (1 - NEAR) * bound
        ]
        worst, name = min(summaries, key=lambda pair: pair[0].median)
        text = f"worst {worst.median:.2f}x ({name})"
        if below:
            text += f"; {len(below)} of {len(summaries)} below, {len(below) - len(surely)} in noise"
        silent = len(chosen) - len(summaries)
        if silent:
            return Verdict(NOT_MET, f"{text}; {silent} without a valid comparison")
        return Verdict(NOT_MET if surely else WITHIN_NOISE if below else MET, text)

    return Target(claim, f">= {bound:g}x each", judge)


def median_ratio(claim: str, bound: float, *patterns: str) -> Target:
    """The median over the matching rows is at least `bound` times as fast as the peer."""

    def judge(rows: Sequence[Row]) -> Verdict:
        chosen = _matching(rows, patterns)
        ratios = [median(row.ratios) for row in chosen if row.ratios]
        if not ratios:
            return _unmeasured(chosen)
        middle = median(ratios)
        state = MET if middle >= bound else NOT_MET
        return Verdict(state, f"median {middle:.2f}x over {len(ratios)} rows")

    return Target(claim, f">= {bound:g}x median", judge)


def at_most(claim: str, bound: float, unit: str, *patterns: str) -> Target:
    """Every matching row's own value is at most `bound`, whatever the peer does."""

    def judge(rows: Sequence[Row]) -> Verdict:
        chosen = _matching(rows, patterns)
        summaries = [(Summary.of(row.a), row.name) for row in chosen if row.a]
        if not summaries:
            return _unmeasured(chosen)
        worst, name = max(summaries, key=lambda pair: pair[0].median)
        state = MET if worst.median <= bound else NOT_MET
        if state == NOT_MET and worst.low <= bound and worst.median <= (1 + NEAR) * bound:
            state = WITHIN_NOISE
        return Verdict(state, f"{show(worst.median, unit)} ({name})")

    return Target(claim, f"<= {show(bound, unit)}", judge)


def growth(claim: str, bound: float, short: str, long: str, phases: Sequence[str]) -> Target:
    """Time per entry grows at most by `bound` from the short chain to the long one."""

    def judge(rows: Sequence[Row]) -> Verdict:
        found = {row.key: median(row.a) for row in rows if row.a}
        pairs = [(f"{short}.{phase}", f"{long}.{phase}", phase) for phase in phases]
        grown = [(found[q] / found[p], phase) for p, q, phase in pairs if p in found and q in found]
        if len(grown) < len(pairs):
            return Verdict(NOT_MEASURED, "")
        worst, phase = max(grown)
        return Verdict(MET if worst <= bound else NOT_MET, f"{worst:.2f}x per entry ({phase})")

    return Target(claim, f"<= {bound:g}x", judge)


def completes(claim: str, *patterns: str) -> Target:
    """Every matching row has a value of ours: the process lived to report it."""

    def judge(rows: Sequence[Row]) -> Verdict:
        chosen = _matching(rows, patterns)
        if not chosen:
            return Verdict(NOT_MEASURED, "")
        failed = [row for row in chosen if not row.a]
        if failed:
            return Verdict(NOT_MET, f"{failed[0].name}: {failed[0].note}")
        return Verdict(MET, ", ".join(f"{row.name} {show(median(row.a), 's')}" for row in chosen))

    return Target(claim, "completes", judge)


_SMALL = ("small/add", "small/add.recorded", "small/mul_scalar", "small/mul_scalar.recorded")
_SMALL_SQUARES = ("matmul/square_64.*", "matmul/square_128.*")

TARGETS: tuple[Target, ...] = (
    each_ratio("a + b and a * 2.0 on 4 floats, recorded and not", 6, *_SMALL),
    each_ratio("chain of 100 multiplications, forward + backward, per entry", 10, "tape/chain"),
    each_ratio("x*x + sin(x), backward", 10, "small/example", "small/example.*"),
    each_ratio("large pointwise: not slower for any op", 1, "pointwise/*.value"),
    median_ratio("large pointwise: median over the table", 1.5, "pointwise/*.value"),
    each_ratio("derivative kernels: not slower for any op", 1, "pointwise/*.grad"),
    median_ratio("derivative kernels: median over the table", 1.5, "pointwise/*.grad"),
    each_ratio(
        "reductions over rows, columns and everything", 1, "reductions/*.1M", "reductions/*.16M"
    ),
    each_ratio("matmul, every shape", 0.95, "matmul/*"),
    each_ratio("matmul, square at 128 and below: faster", 1, *_SMALL_SQUARES),
    each_ratio(
        "indexing, gather, scatter_add, cat, transpose copies",
        1,
        "indexing/index*",
        "indexing/gather*",
        "indexing/scatter_add*",
        "indexing/cat*",
        "indexing/transpose_copy*",
    ),
    each_ratio("training step of an MLP 64-64-64-10, batch 32, Adam", 4, "models/mlp_*"),
    each_ratio("training step of a CNN with batch norms", 1, "models/cnn_*"),
    each_ratio("training step of ResNet-18", 1, "models/resnet18_*"),
    each_ratio("training step of an LSTM", 1.5, "models/lstm_*"),
    each_ratio("training step of a GPT, 64 to 256 tokens", 1.3, "models/gpt_*"),
    each_ratio("convolutions, depthwise and 1 x 1 among them", 1, "models/conv_*"),
    each_ratio("attention over 1,024 tokens, forward and backward", 1, "models/attention_*"),
    each_ratio("optimizer step over 200 tensors of 10,000 elements", 3, "optimizer/*.200x10k"),
    each_ratio("memory of a training step: at most PyTorch's", 1, "model_memory/*.peak"),
    at_most(
        "tape entry of a binary op on 4 floats, beyond its data",
        300,
        "B",
        "memory/tape_entry.beyond_data",
    ),
    completes("chain of 1,000,000 with an 8 MB stack", "scaling/chain_1e6_stack_8192_KiB*"),
    completes("chain of 1,000,000 with `ulimit -s 512`", "scaling/chain_1e6_stack_512_KiB*"),
    growth(
        "time per entry from 10^4 to 10^6 (quadratic would be 100x)",
        2,
        "scaling/chain_1e4",
        "scaling/chain_1e6",
        ("build", "sweep", "free"),
    ),
    at_most("import", 0.1, "s", "import/import"),
    at_most("wheel with OpenBLAS", 20e6, "B", "build/clean_build.wheel"),
    at_most("wheel without OpenBLAS", 12e6, "B", "build/clean_build.wheel_without_openblas"),
    at_most("clean build", 300, "s", "build/clean_build.time"),
)
