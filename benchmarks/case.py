"""What a benchmark is: cases go in, rows of samples come out.

A case is text, not a closure. The parent builds the list once and sends the same text to both
workers, so the two sides cannot drift apart; the text is also what the report shows a reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """A statement timed inside the two long-lived workers.

    `setup` runs once with these names in scope: `torch` (the module under test), `uniform`,
    `integers` (the same values on both sides) and `find` (an op by name, wherever it lives).
    """

    family: str
    name: str
    statement: str
    setup: str = ""
    check: str | None = None  # expression both sides must agree on; default: the statement itself
    phases: tuple[tuple[str, str], ...] = ()  # statements timed one after the other, instead
    per: int = 1  # tape entries (or calls) in one execution: times are divided by it
    budget: float = 0.6  # seconds of sampling, both sides together
    least_rounds: int = 7
    quick: bool = True  # whether --quick includes it


@dataclass(frozen=True)
class Probe:
    """A script of `children/` whose every sample is a fresh process; it prints metrics as JSON."""

    family: str
    name: str
    script: str
    arguments: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)  # metric -> unit; others are seconds
    rounds: int = 3
    quick_rounds: int = 1
    stack_kib: int | None = None  # the process's stack limit, as `ulimit -s` sets it
    only_a: bool = False  # meaningful for the library under test, not for its peer
    estimate: float = 3.0  # seconds one round takes, for the ETA
    quick: bool = True


Benchmark = Case | Probe


@dataclass
class Row:
    """One line of the report: the samples of both sides, index by index from the same round."""

    family: str
    name: str
    unit: str = "s"
    a: list[float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    note: str = ""  # why a side has no samples, or why they must not be trusted
    statement: str = ""

    @property
    def key(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def comparable(self) -> bool:
        return bool(self.a) and bool(self.b) and not self.note

    @property
    def ratios(self) -> list[float]:
        """Peer over ours, round by round: above 1 we are faster (or smaller)."""
        if not self.comparable:
            return []
        return [b / a for a, b in zip(self.a, self.b, strict=False) if a > 0]
