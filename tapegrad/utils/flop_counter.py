"""Counts of floating-point operations: `FlopCounterMode`.

What is counted, and how, is PyTorch's: products of matrices, convolutions and attention, forward
and backward, two operations for each multiplication; element by element nothing. The calls are
those that pass the dispatch point of one thread, by the shapes of their operands: products with
vectors count here, which PyTorch leaves out, and so do attention and LSTMs on the CPU.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tapegrad import _C
from tapegrad._op_namespaces import Packet
from tapegrad.nn.modules.module import Module
from tapegrad.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode"]

Shapes = Sequence[Sequence[int]]
_SUFFIXES = ("", "K", "M", "B", "T")


# ---- formulas


def _matmul(inputs: Shapes, outputs: Shapes) -> int:
    return 2 * prod(outputs[0]) * inputs[0][-1]


def _convolution(inputs: Shapes, outputs: Shapes) -> int:
    return 2 * outputs[0][0] * prod(outputs[0][2:]) * prod(inputs[1])


def _convolution_of_grads(inputs: Shapes, outputs: Shapes) -> int:
    return 2 * inputs[0][0] * prod(inputs[0][2:]) * prod(inputs[1])


def _convolution_for_weights(inputs: Shapes, outputs: Shapes) -> int:
    (batch, channels, *_), (_, others, *places) = inputs[0], inputs[1]
    return 2 * batch * channels * others * prod(places) * prod(outputs[0][2:])


def _attention(inputs: Shapes, outputs: Shapes) -> int:
    query, key, value = inputs[:3]
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_backward(inputs: Shapes, outputs: Shapes) -> int:
    query, key, value = inputs[1:4]  # behind the gradient; scores are computed anew
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


def _recurrent(inputs: Shapes, outputs: Shapes) -> int:
    return 2 * inputs[0][0] * prod(inputs[1])


def _recurrent_backward(inputs: Shapes, outputs: Shapes) -> int:
    return 4 * outputs[0][0] * prod(outputs[1])


_FORMULAS: dict[str, Callable[[Shapes, Shapes], int]] = {
    "attention": _attention,
    "attention_backward": _attention_backward,
    "attention_dropout": _attention,
    "attention_dropout_backward": _attention_backward,
    "conv": _convolution,
    "conv_grad_input": _convolution_of_grads,
    "conv_grad_weight": _convolution_for_weights,
    "matmul": _matmul,
    "recurrent": _recurrent,
    "recurrent_backward": _recurrent_backward,
}


def _aten_name(op: str, inputs: Shapes, in_backward: bool) -> str:
    """Return PyTorch's name of a call."""
    if op == "matmul":
        name = "bmm" if len(inputs[0]) > 2 or len(inputs[1]) > 2 else "mm"
        return name if len(inputs) == 2 else {"mm": "addmm", "bmm": "baddbmm"}[name]
    if op.startswith("conv"):
        return "convolution_backward" if in_backward else "convolution"
    if op.startswith("attention"):
        suffix = "_backward" if op.endswith("backward") else ""
        return f"_scaled_dot_product_flash_attention{suffix}"
    return "mm"


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("this name of an op is one of counts, and not to be called")


def _packet(name: str) -> Any:
    from tapegrad import ops

    return getattr(ops.aten, name, None) or Packet("aten", name, _refuse)


class _Tracker(ModuleTracker):
    """Notes when other modules run."""

    def __init__(self, counter: "FlopCounterMode") -> None:
        super().__init__()
        self._counter = counter

    def _changed(self) -> None:
        self._counter._modules_change()


class FlopCounterMode:
    """Counts the floating-point operations of a block, backward passes included.

    Args:
        mods: not needed; modules are found as they run.
        depth: how deep modules are shown in the table.
        display: whether the table is printed at the end of the block.
        custom_mapping: refused: prices follow the ops that run here.

    Example:
        >>> from tapegrad.utils.flop_counter import FlopCounterMode
        >>> net = torch.nn.Linear(3, 4)
        >>> with FlopCounterMode(display=False) as counter:
        ...     net(torch.ones(2, 3)).sum().backward()
        >>> counter.get_total_flops()
        96
        >>> print(counter.get_table())
        Module           FLOP    % Total
        -------------  ------  ---------
        Linear             96    100.00%
         - aten.addmm      48     50.00%
         - aten.mm         48     50.00%
    """

    def __init__(
        self,
        mods: Module | list[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode: custom_mapping is not supported: prices follow the ops that run "
                "here, which are not called by PyTorch's names"
            )
        self.depth = depth
        self.display = display
        self.mod_tracker = _Tracker(self)
        self._profile: Any = None
        self._known: dict[str, dict[Any, int]] = {"Global": {}}
        self._changes: list[tuple[int, frozenset[str]]] = []

    def __enter__(self) -> "FlopCounterMode":
        if _C._is_profiling():
            raise RuntimeError(
                "FlopCounterMode: a profiler or another counter is running on this thread already"
            )
        self._profile = _C._Profile(True)
        self._changes = [(0, frozenset({"Global"}))]
        self._profile.start()
        self.mod_tracker.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._profile.stop()
        self._known = self.flop_counts
        self._profile = None
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table(self.depth))

    def _modules_change(self) -> None:
        if self._profile is not None:
            parents = frozenset(self.mod_tracker.parents)
            self._changes.append((self._profile.count(), parents))

    @property
    def flop_counts(self) -> dict[str, dict[Any, int]]:
        if self._profile is None:
            return self._known
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        backward = [event[2] for event in self._profile.events()]
        changes = iter([*self._changes[1:], (len(backward) + 1, frozenset[str]())])
        parents, (end, following) = self._changes[0][1], next(changes)
        for number, op, inputs, outputs in self._profile.calls():
            while number >= end:
                parents, (end, following) = following, next(changes)
            if op in _FORMULAS:
                name = _aten_name(op, inputs, backward[number])
                for parent in parents:
                    counts[parent][name] += _FORMULAS[op](inputs, outputs)
        packets = {name: _packet(name) for each in counts.values() for name in each}
        return {"Global": {}} | {
            parent: {packets[name]: count for name, count in each.items()}
            for parent, each in counts.items()
        }

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the counts by module, ``"Global"`` among them, and by op."""
        return {parent: dict(each) for parent, each in self.flop_counts.items()}

    def get_total_flops(self) -> int:
        """Return the count of the block."""
        return sum(self.flop_counts["Global"].values())

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table, module by module.

        Args:
            depth: how deep modules are shown.
        """
        depth = depth or self.depth or 999999
        counts = self.flop_counts
        total = self.get_total_flops()
        suffix = _SUFFIXES[max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))]

        def rows_of(name: str, indent: int) -> list[list[str]]:
            each = counts[name]
            lines = [(name, sum(each.values())), *((f" - {op}", n) for op, n in each.items())]
            return [[" " * indent + text, *_shown(n, total, suffix)] for text, n in lines]

        rows, is_all_of_one = [], False
        for name in sorted(counts):
            level = name.count(".") + 1
            if name != "Global" and level <= depth:
                rows += rows_of(name, level - 1)
                is_all_of_one |= sum(counts[name].values()) >= total
        if counts["Global"] and not is_all_of_one:
            rows = rows_of("Global", 0) + [[" " + row[0], *row[1:]] for row in rows]
        return _table(rows or [["Global", "0", "0%"]])


def _shown(count: int, total: int, suffix: str) -> tuple[str, str]:
    size = 1000 ** _SUFFIXES.index(suffix)
    number = f"{count / size:.3f}{suffix}" if suffix else str(count)
    return number, f"{count / total:.2%}" if total else "0%"


def _table(rows: list[list[str]]) -> str:
    rows = [["Module", "FLOP", "% Total"], *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    widths = [
        width if i == 0 else max(width, len(rows[0][i]) + 2) for i, width in enumerate(widths)
    ]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip()
        for row in rows
    )
