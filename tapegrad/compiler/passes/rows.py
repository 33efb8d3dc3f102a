"""What a step does with rows: which part of each operand belongs to some rows of its result.

All steps of a group work on the same grid: so many rows of so many elements, one after the other in
memory. A rule tells of a step whether it can be run for some rows at a time, giving what it gives
for all of them at once, and how its operands are cut. What a kernel does by the number of rows it
is given (few rows of many elements, many rows of few) bounds the grids that a rule accepts.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import NamedTuple

from tapegrad import _C
from tapegrad.compiler.passes.text import Operand, Step, Text

__all__ = [
    "FULL",
    "ROW",
    "Cut",
    "Grid",
    "Shown",
    "fit",
    "is_in_order",
    "may_fail",
    "numel",
    "sums_of",
]

# Kinds of operands: every element of the grid, in order; one number for each row, in order; sums
# over the rows of a part; what is only read, and cut in another way; what each tile sees as it is.
FULL, ROW, PARTS, OTHER, WHOLE = "full", "row", "parts", "other", "whole"

# Kernels take rows of up to 32 elements several at a time, and share few or very long ones among
# threads, of which groups use 64 at most.
_SHORTEST, _LONGEST = 33, 8192
_LEAST_ROWS = 256

_RANDOM = (
    *("random_uniform", "random_normal", "random_log_normal", "random_exponential"),
    *("random_cauchy", "random_geometric", "random_integers", "random_bernoulli"),
    *("random_bernoulli_each", "random_poisson"),
)
_CHECKED = ("random_bernoulli_each", "random_poisson")  # they look at the values that they get
_CERTAIN = ("matmul", "add_parts", "attention", "attention_backward")
_REDUCTIONS = (
    *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all"),
    *("count_nonzero", "logsumexp", "var", "norm"),
)


class Grid(NamedTuple):
    """So many elements; in rows, once a step has told how long they are.

    Attributes:
        numel: how many elements there are.
        length: of a row.
        part: rows whose sums belong together, where there are such.
    """

    numel: int
    length: int | None = None
    part: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.numel // (self.length or 1)


class Cut(NamedTuple):
    """How an operand is shown to a tile of some rows.

    Its shape is `lead` ones, then rows * multiple, then `sizes`. Without a stride all rows see the
    same, and there is a one in place of the rows; and so there is where `part` rows have a line
    together.
    """

    stride: int  # elements from one row to the next
    multiple: int
    lead: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    part: int = 1


class Shown(NamedTuple):
    """An operand of a step of a group."""

    kind: str
    cut: Cut | None = None  # None: as it is


Fit = tuple[Grid, list[Shown]]


def fit(step: Step, grid: Grid | None) -> Fit | None:
    """Return how a step runs on rows of a grid, or None if it does not.

    Args:
        step: the step.
        grid: that of the group so far, or None for its first step.

    Returns:
        The grid, in which rows may have a length now, and how inputs and outputs are shown.
    """
    if step.name in ("read", "constant") or step.lift or not step.outputs:
        return None
    rule = _rules().get(step.name)
    if rule is None:
        return None
    if grid is None:
        operands = [each for each in (*step.inputs, *step.outputs) if isinstance(each, tuple)]
        grid = Grid(max(map(numel, operands)))
    return rule(step, grid)


@cache
def _rules() -> dict[str, Callable[[Step, Grid], Fit | None]]:
    rules: dict[str, Callable[[Step, Grid], Fit | None]] = {
        name: _elementwise
        for name, _, traits, _ in _C._ops()
        if "elementwise" in traits and "contracts" not in traits
    }
    rules |= dict.fromkeys(_RANDOM, _random)
    rules |= dict.fromkeys(_REDUCTIONS, _reduction)
    softmax = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
    rules |= dict.fromkeys(softmax, _softmax)
    rules["layer_norm"] = _layer_norm
    rules["layer_norm_backward"] = _layer_norm_backward
    rules["cross_entropy_backward"] = _cross_entropy_backward
    return rules


def may_fail(step: Step) -> bool:
    """Whether a call may refuse the values of its operands, as far as that is known."""
    if step.name in _CERTAIN:
        return False
    # Integers: negative powers, quotients by zero.
    dtypes = [out[4] for out in step.outputs]
    is_plain = all(dtype.is_floating_point or dtype is _C.bool for dtype in dtypes)
    return step.name not in _rules() or step.name in _CHECKED or not is_plain


# ---- element by element


def _elementwise(step: Step, grid: Grid) -> Fit | None:
    if len(step.outputs) != 1 or not is_in_order(step.outputs[0]):
        return None
    size = numel(step.outputs[0])
    if size == grid.numel:
        return _flat(step, grid, FULL) or _broadcast(step, grid)
    if grid.length and size == grid.rows > 1:
        return _flat(step, grid, ROW)
    return None


def _flat(step: Step, grid: Grid, kind: str) -> Fit | None:
    """Return how a step runs whose operands have as many elements as the result, or one."""
    size = grid.numel if kind == FULL else grid.rows
    shown = []
    for each in step.inputs:
        if not isinstance(each, tuple) or numel(each) == 1:
            shown.append(Shown(WHOLE))
        elif numel(each) == size and is_in_order(each):
            shown.append(_in_line(grid, kind))
        elif not any(each[3]):  # a number, expanded
            shown.append(Shown(OTHER, Cut(0, 1, 0, (), ())))
        else:
            return None
    return grid, [*shown, *(_in_line(grid, kind) for _ in step.outputs)]


def _in_line(grid: Grid, kind: str) -> Shown:
    multiple = (grid.length or 1) if kind == FULL else 1
    return Shown(kind, Cut(multiple, multiple, 0, (), ()))


def _broadcast(step: Step, grid: Grid) -> Fit | None:
    """Return how a step runs some of whose inputs are the same for all rows, or all of a row."""
    out = step.outputs[0]
    shape = out[2]
    for split in range(len(shape) - 1, 0, -1):
        length = prod(shape[split:])
        if length > _LONGEST or grid.length not in (None, length):
            continue
        rows = grid._replace(length=length)
        shown = [_cut(each, shape, split, rows) for each in (*step.inputs, out)]
        found = [each for each in shown if each is not None]
        if length > 1 and len(found) == len(shown):
            return rows, found
    return None


def _cut(operand: Operand, shape: tuple[int, ...], split: int, grid: Grid) -> Shown | None:
    """Return how an operand is cut that is broadcast to a shape, whose first sizes are the rows."""
    if not isinstance(operand, tuple) or numel(operand) == 1:
        return Shown(WHOLE)
    missing = len(shape) - len(operand[2])
    strides = (*(0,) * missing, *operand[3])
    sizes = (*(1,) * missing, *operand[2])
    # What is expanded has one element.
    sizes = tuple(1 if stride == 0 else n for n, stride in zip(sizes, strides, strict=True))
    if any(n not in (1, full) for n, full in zip(sizes[split:], shape[split:], strict=True)):
        return None
    inner = [stride for n, stride in zip(sizes[split:], strides[split:], strict=True) if n != 1]
    if inner and inner[-1] != 1:
        return None  # one element of each cache line at a time
    if all(n == 1 for n in sizes[:split]):
        stride = 0
    elif sizes[:split] == shape[:split]:
        stride = _row_stride(sizes[:split], strides[:split])
    else:
        return None
    if stride < 0:
        return None
    kind = OTHER
    if stride == 1 and not inner:
        kind = ROW
    elif stride == grid.length and sizes[split:] == shape[split:] and is_in_order(operand):
        kind = FULL
    return Shown(kind, Cut(stride, 1, split - 1, sizes[split:], strides[split:]))


def _row_stride(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Return how far rows are apart that several dimensions number, or -1."""
    first = expected = -1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size == 1:
            continue
        if expected >= 0 and stride != expected:
            return -1
        first = stride if expected < 0 else first
        expected = stride * size
    return first


def _random(step: Step, grid: Grid) -> Fit | None:
    """Random calls draw by the number of an element, of which a tile is told the first."""
    if any(numel(each) != grid.numel for each in (*step.inputs, *step.outputs)):
        return None
    if not all(is_in_order(each) for each in (*step.inputs, *step.outputs)):
        return None
    return _flat(step, grid, FULL)


# ---- row by row


def _of_kinds(
    step: Step, grid: Grid, length: int, kinds: Sequence[str], ranked: int | None = None
) -> Fit | None:
    """Return how a step runs whose operands are of these kinds.

    Args:
        step: the step.
        grid: the grid so far.
        length: of a row.
        kinds: of inputs and outputs.
        ranked: how many dimensions number the rows, where the kernel looks at dimensions.
    """
    if not _SHORTEST <= length <= _LONGEST or grid.length not in (None, length):
        return None
    grid = grid._replace(length=length)
    if grid.rows < max(_LEAST_ROWS, 4 * _C.get_num_threads()) or ranked == 0:
        return None
    shown = []
    for operand, kind in zip((*step.inputs, *step.outputs), kinds, strict=True):
        if kind == WHOLE:
            shown.append(Shown(WHOLE))
            continue
        if numel(operand) != (grid.numel if kind == FULL else grid.rows):
            return None
        if not is_in_order(operand):
            return None
        if ranked is None or kind == ROW:
            shown.append(_in_line(grid, kind))
        else:
            sizes = operand[2][ranked:]
            shown.append(Shown(FULL, Cut(length, 1, ranked - 1, sizes, _strides(sizes))))
    return grid, shown


def _layer_norm(step: Step, grid: Grid) -> Fit | None:
    rows = max(numel(step.outputs[1]), 1)
    if numel(step.outputs[0]) != grid.numel:
        return None
    kinds = [FULL, *(WHOLE for _ in step.inputs[1:]), FULL, ROW, ROW]
    return _of_kinds(step, grid, grid.numel // rows, kinds)


def _layer_norm_backward(step: Step, grid: Grid) -> Fit | None:
    """The gradients of weight and bias are sums over the rows: those of parts (see `sums_of`)."""
    _, _, wants_input, *sums, adds = step.attributes
    if not wants_input or adds or numel(step.outputs[0]) != grid.numel:
        return None
    length = grid.numel // max(numel(step.inputs[2]), 1)
    part = _C._rows_of_part(grid.numel // length, length) if any(sums) else grid.part
    if grid.part not in (0, part) or part == 1:
        return None
    kinds = [FULL, FULL, ROW, ROW, *(WHOLE for _ in step.inputs[4:]), FULL, WHOLE, WHOLE]
    found = _of_kinds(step, grid._replace(part=part), length, kinds)
    if found is None or not any(sums):
        return found
    if any(len(out[2]) != 2 for out, wanted in zip(step.outputs[1:], sums, strict=True) if wanted):
        return None
    parts = [
        Shown(PARTS, Cut(length, 1, 0, (length,), (1,), part)) if wanted else Shown(WHOLE)
        for wanted in sums
    ]
    return found[0], [*found[1][:-2], *parts]


def sums_of(text: Text, step: Step) -> tuple[Step, list[Step]]:
    """Return a step and those after it that do the same; the first fits where the whole may not.

    A derivative of layer norm adds up rows in parts, and then the parts (csrc/spec/row_sums.h).
    """
    if step.name != "layer_norm_backward" or not any(step.attributes[3:5]):
        return step, []
    first, rest = step.copied(), []
    rows = max(numel(step.inputs[2]), 1)
    length = numel(step.inputs[0]) // rows
    parts = -(-rows // _C._rows_of_part(rows, length))
    outputs = [step.outputs[0]]
    for wanted, out in zip(step.attributes[3:5], step.outputs[1:], strict=True):
        if not wanted:
            outputs.append(out)
            continue
        value = text.add_value(out[0], parts * length * out[4].itemsize)
        outputs.append((value, 0, (parts, length), (length, 1), *out[4:]))
        rest.append(Step(("add_parts", (outputs[-1],), (), (out,), step.data, step.line)))
    first.outputs = tuple(outputs)
    return first, rest


def _softmax(step: Step, grid: Grid) -> Fit | None:
    shape, dim = step.outputs[0][2], step.attributes[0]
    if prod(shape[dim + 1 :]) != 1:
        return None
    kinds = [FULL] * (len(step.inputs) + 1)
    return _of_kinds(step, grid, shape[dim] if shape else 1, kinds, ranked=dim)


def _reduction(step: Step, grid: Grid) -> Fit | None:
    """Reductions over the last dimensions."""
    shape, mask = step.inputs[0][2], step.attributes[0]
    if numel(step.inputs[0]) != grid.numel:
        return None
    reduced = [n for d, n in enumerate(shape) if mask >> d & 1 and n != 1]
    split = len(shape)
    while split and (mask >> (split - 1) & 1 or shape[split - 1] == 1):
        split -= 1
    if prod(shape[split:]) != prod(reduced):
        return None
    kinds = [FULL, *(ROW for _ in step.outputs)]
    return _of_kinds(step, grid, prod(reduced), kinds, ranked=split)


def _cross_entropy_backward(step: Step, grid: Grid) -> Fit | None:
    grad, x = step.inputs[:2]
    if len(x[2]) != 2:
        return None
    of_grad = WHOLE if numel(grad) == 1 else ROW
    kinds = [of_grad, FULL, ROW, ROW, ROW, *(WHOLE for _ in step.inputs[5:]), FULL]
    return _of_kinds(step, grid, x[2][1], kinds, ranked=1)


# ---- geometry


def numel(operand: Operand) -> int:
    """Return how many elements an operand has."""
    return prod(operand[2])


def is_in_order(operand: Operand) -> bool:
    """Whether elements lie one after the other."""
    expected = 1
    for size, stride in zip(reversed(operand[2]), reversed(operand[3]), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _strides(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[place + 1 :]) for place in range(len(sizes)))
