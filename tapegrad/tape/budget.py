"""Keep the tape under a number of bytes: evict what is cheap to compute, compute it on demand.

The work is done natively (csrc/graph/budget.h); this file is the context manager around it.
"""

import functools
import warnings
from types import TracebackType
from typing import Any

from tapegrad import _C
from tapegrad.utils._units import human_bytes, parse_bytes

__all__ = ["BudgetWarning", "budget"]


class BudgetWarning(UserWarning):
    """A budget could not be met: what is left cannot be evicted."""


class budget:
    """Keep what the tape saves under a limit, with no change to the model.

    When a value is about to be saved and the limit would be passed, others are evicted: those that
    are cheap to compute again, large, and not used for long. A gradient that needs one of them has
    it computed again, by the calls that made it, with the same random numbers: the gradients are
    the same, bit for bit. A value that the program still holds stays.

    What is counted is the memory that saved values show, once each, without parameters:
    ``torch.memory_stats()["saved_bytes"]``. Each device has memory of its own, and the limit holds
    on each of them: a model on ``"cuda"`` has its tape there, and its budget is one of the GPU's
    memory; what little the same model saves on the CPU counts there. On a GPU what is evicted goes
    back to the caching allocator in the order of its stream, and is computed again on the stream
    that it was computed on, so that nothing waits. Memory that is used on several streams
    (``record_stream``) stays.

    Values that cannot be computed again stay, such as those made
    outside the block. If they alone are more than the limit, the limit gives way to what they need,
    and to no more; a `BudgetWarning` at the end of the block names the largest, with op and line,
    and says why. It also gives way, by a quarter at a time, once computing again has cost eight
    times what the calls themselves cost: a step takes longer under a small limit, but not without
    bound. The same program evicts the same values each time it runs.

    The limit is one for all threads: what others record meanwhile counts, and is evicted, too.

    Args:
        limit: bytes, a size such as "300 MiB", or a fraction between 0 and 1 of what the tape
            needs without a budget. For a fraction the same object must be entered for every step:
            the first step runs without a limit and measures.
        strict: raise `OutOfMemoryError` where the limit cannot be kept, instead of a warning; then
            it never gives way, however often something is computed again.

    Attributes:
        limit: the bytes in force, None while a first step measures.
        peak: the most bytes that were saved at a time in the last block, on the device where that
            was most.
        evictions: how many values were evicted in it.
        recomputed: how many calls were made again.
        recompute_seconds: how long that took; on a GPU, how long it took to launch.
        shortfall: by how many bytes the limit was passed, 0 if it was kept.

    Example:
        >>> from tapegrad import tape
        >>> model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
        >>> x = torch.randn(128, 64)
        >>> with tape.budget("160 KiB") as b:
        ...     model(x).relu().sum().backward()
        >>> b.peak <= 160 * 1024, b.recomputed > 0
        (True, True)
    """

    def __init__(self, limit: str | int | float, *, strict: bool = False) -> None:
        self._fraction: float | None = None
        self.limit: int | None = None
        if isinstance(limit, float):
            if not 0 < limit <= 1:
                raise ValueError(
                    f"budget: expected a fraction between 0 and 1 or a number of bytes, got {limit}"
                )
            self._fraction = limit
        else:
            self.limit = parse_bytes(limit, "budget")
            if self.limit <= 0:
                raise ValueError(f"budget: expected more than 0 bytes, got {limit!r}")
        self._strict = strict
        self._entered = False
        self.peak = self.evictions = self.recomputed = self.shortfall = 0
        self.recompute_seconds = 0.0

    def __enter__(self) -> "budget":
        if self._entered:
            raise RuntimeError("budget: this budget is active already; make another one")
        self._entered = True
        self._before = _C._budget_stats()
        limit = self.limit if self.limit is not None else 1 << 62
        self._number = _C._budget_start(limit, self._strict)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered = False
        now = _C._budget_stats()
        self.peak, shortfall, irreducible, device = _C._budget_stop(self._number)
        for name in ("evictions", "recomputed", "recompute_seconds"):
            setattr(self, name, now[name] - self._before[name])
        self.shortfall = shortfall if self.limit is not None else 0
        if self._fraction is not None and self.limit is None and kind is None and self.peak > 0:
            self.limit = max(1, int(self._fraction * self.peak))
        if self.shortfall and kind is None:
            self._warn(irreducible, device)

    def _warn(self, irreducible: str, device: str) -> None:
        assert self.limit is not None
        where = "" if device == "cpu" else f" on {device}"
        warnings.warn(
            f"budget: the tape needed {human_bytes(self.limit + self.shortfall)}{where}, "
            f"{human_bytes(self.shortfall)} more than the budget of {human_bytes(self.limit)}; "
            f"the rest cannot be evicted{':' if irreducible else ''}{irreducible}",
            BudgetWarning,
            stacklevel=3,
        )

    def __repr__(self) -> str:
        limit = "measuring" if self.limit is None else human_bytes(self.limit)
        return (
            f"budget({limit}, peak={human_bytes(self.peak)}, evictions={self.evictions}, "
            f"recomputed={self.recomputed})"
        )

    def __call__(self, function: Any) -> Any:
        """Run every call of a function under this budget: the object as a decorator."""

        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return limited
