"""Tables of measurements."""

from collections.abc import Iterable

from tapegrad.utils.benchmark.measurement import Measurement, select_unit, trim_sigfig

__all__ = ["Compare"]


class Compare:
    """Prints measurements side by side: cases as rows, variants as columns.

    Args:
        results: the measurements.

    Example:
        >>> timer = torch.utils.benchmark.Timer("1", label="one", sub_label="int", description="a")
        >>> print("one" in str(torch.utils.benchmark.Compare([timer.timeit(10)])))
        True
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trimmed = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)}.")
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Show the figures alone that the spread of the times leaves."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted; tables have no colours."""

    def highlight_warnings(self) -> None:
        """Accepted; what is spread wide says so in its own repr."""

    def print(self) -> None:
        """Print the tables, one for each label."""
        print(str(self))

    def __str__(self) -> str:
        labels: dict[str, list[Measurement]] = {}
        for result in Measurement.merge(self._results):
            labels.setdefault(result.task_spec.label or "", []).append(result)
        return "\n\n".join(self._table(label, group) for label, group in labels.items())

    def _table(self, label: str, group: list[Measurement]) -> str:
        unit, length = select_unit(min(result.median for result in group))
        columns = list(dict.fromkeys(result.task_spec.description or "" for result in group))
        cells: dict[int, dict[str, dict[str, str]]] = {}
        for result in group:
            row = cells.setdefault(result.task_spec.num_threads, {}).setdefault(
                result.as_row_name, {}
            )
            time = result.median / length
            if self._trimmed:
                time = trim_sigfig(time, result.significant_figures)
            row[result.task_spec.description or ""] = f"{time:.1f}"
        lines = [["", *columns]]
        for threads in sorted(cells):
            lines.append([f"{threads} threads:"] + [""] * len(columns))
            for name, row in cells[threads].items():
                lines.append([f"  {name}", *(row.get(column, "") for column in columns)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns) + 1)]
        body = [_row(line, widths) for line in lines]
        rule = "-" * max(map(len, body))
        return "\n".join([f"[ {label} ]".center(len(rule), "-"), body[0], rule, *body[1:], rule,
                          f"Times are in {unit}."])  # fmt: skip


def _row(cells: list[str], widths: list[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  |  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)])
