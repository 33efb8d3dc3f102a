"""Planning and running a contraction of labelled tensors, the engine under `einsum`.

A contraction says, for every operand, which label each of its dimensions carries, and which
labels the result keeps. Everything that follows from labels and sizes alone is decided once, in
`make_plan`, and cached by the caller; running a plan is a short loop over native operations.

1. *Preparation* leaves every operand with distinct labels of size above 1: repeated labels become
   diagonals, labels that no other operand and not the result knows are summed away, and
   dimensions of size 1 are dropped (they broadcast, and the result gets its own back at the end).
2. *Order*: of all ways to contract pairs, the one with the fewest multiplications. Exhaustive
   over subsets for few operands, greedy above that.
3. *Pairs* become one native product each. Labels of a pair fall into four groups: `batch` (in both
   and kept), `contracted` (in both and dropped), and those of the left or right operand only.
   Matrix products read transposed operands in place, so a permutation costs nothing; merging
   several labels of a group into one dimension is where a copy could hide, and the order within a
   group follows the larger operand, which therefore is not copied when it is contiguous.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._casts import casts

__all__ = ["Label", "Plan", "make_plan"]

Label = str | int
Labels = tuple[Label, ...]

# Subsets of n operands split in 3^n ways: 2187 here, a few milliseconds once per plan.
_EXHAUSTIVE_ORDER_LIMIT = 7


class _Preparation(NamedTuple):
    """How one operand gets distinct labels of size above 1."""

    diagonals: tuple[tuple[int, int], ...]
    summed: tuple[int, ...]
    shape: tuple[int, ...] | None

    def run(self, tensor: Tensor, *, alone: bool) -> Tensor:
        for first, second in self.diagonals:
            tensor = tensor.diagonal(0, first, second)
        if self.summed:
            # Beside other operands the dtype stays; alone, this is a sum like any other, and sums
            # of integers are int64.
            tensor = tensor.sum(self.summed, dtype=None if alone else tensor.dtype)
        return tensor if self.shape is None else tensor.reshape(self.shape)


class _Layout(NamedTuple):
    """A permutation and a shape; None where the tensor has that form already."""

    order: tuple[int, ...] | None
    shape: tuple[int, ...] | None

    def run(self, tensor: Tensor) -> Tensor:
        if self.order is not None:
            tensor = tensor.permute(self.order)
        return tensor if self.shape is None else tensor.reshape(self.shape)


@casts(cpu="lower", of="einsum")
def _cast_factors(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of products are matrix products to autocast, whatever runs them."""
    return left, right


class _Pair(NamedTuple):
    """One product of two tensors, given by their positions among all tensors so far."""

    left: int
    right: int
    left_layout: _Layout
    right_layout: _Layout
    product: str
    sums: bool
    summed: tuple[int, ...]
    shape: tuple[int, ...] | None

    def run(self, tensors: list[Tensor]) -> Tensor:
        left = self.left_layout.run(tensors[self.left])
        right = self.right_layout.run(tensors[self.right])
        if self.sums:
            if _C._autocast_devices():
                left, right = _cast_factors(left, right)
            if left.dtype != right.dtype:
                raise RuntimeError(
                    f"einsum: expected operands of one dtype to sum products over, got "
                    f"{left.dtype} and {right.dtype}; convert one with .to()"
                )
        result = getattr(_C, self.product)(left, right)
        if self.summed:
            if result.dtype == _C.bool:
                raise NotImplementedError("einsum: expected a number dtype to sum over, got bool")
            result = result.sum(self.summed, dtype=result.dtype)
        return result if self.shape is None else result.reshape(self.shape)


class Plan(NamedTuple):
    """A contraction ready to run on tensors of the shapes it was made for."""

    preparations: tuple[_Preparation, ...]
    pairs: tuple[_Pair, ...]
    final: _Layout

    def run(self, operands: Sequence[Tensor]) -> Tensor:
        """Contract the operands."""
        tensors = [
            preparation.run(operand, alone=len(operands) == 1)
            for preparation, operand in zip(self.preparations, operands, strict=True)
        ]
        for pair in self.pairs:
            tensors.append(pair.run(tensors))
        return self.final.run(tensors[-1])


def make_plan(
    operands: Sequence[Labels],
    shapes: Sequence[tuple[int, ...]],
    sizes: dict[Label, int],
    output: Labels,
) -> Plan:
    """Decide everything about a contraction that labels and sizes tell.

    Args:
        operands: for each operand, one label per dimension.
        shapes: for each operand, its shape.
        sizes: the size of each label; an operand has that size there, or 1.
        output: the labels of the result, without repetition.
    """
    preparations, labels = _prepare(operands, shapes, output)
    kept = tuple(label for label in output if sizes[label] != 1)
    pairs = []
    for left, right in _contraction_order(labels, sizes, kept):
        elsewhere = set(kept).union(
            *(labels[i] for i in range(len(labels)) if i not in (left, right) and labels[i])
        )
        pair, result = _plan_pair(left, right, labels, sizes, kept, elsewhere)
        pairs.append(pair)
        labels[left] = labels[right] = ()
        labels.append(result)
    shape = tuple(sizes[label] for label in output) if len(kept) < len(output) else None
    final = _Layout(_permutation(labels[-1], kept), shape)
    return Plan(tuple(preparations), tuple(pairs), final)


def _prepare(
    operands: Sequence[Labels], shapes: Sequence[tuple[int, ...]], output: Labels
) -> tuple[list[_Preparation], list[Labels]]:
    distinct = [_diagonals(labels, shape) for labels, shape in zip(operands, shapes, strict=True)]
    wide = [
        [label for label, size in zip(labels, shape, strict=True) if size != 1]
        for _, labels, shape in distinct
    ]
    preparations, prepared = [], []
    for index, (pairs, labels, shape) in enumerate(distinct):
        needed = set(output).union(*(wide[i] for i in range(len(wide)) if i != index))
        # Of a single operand dimensions of size 1 are summed too, as the sum decides the dtype.
        summed = tuple(
            d
            for d, label in enumerate(labels)
            if label not in needed and (shape[d] != 1 or len(operands) == 1)
        )
        remaining = [d for d in range(len(labels)) if d not in summed and shape[d] != 1]
        dropped_ones = len(remaining) + len(summed) < len(labels)
        new_shape = tuple(shape[d] for d in remaining) if dropped_ones else None
        preparations.append(_Preparation(pairs, summed, new_shape))
        prepared.append(tuple(labels[d] for d in remaining))
    return preparations, prepared


def _diagonals(
    labels: Labels, shape: tuple[int, ...]
) -> tuple[tuple[tuple[int, int], ...], list[Label], list[int]]:
    """Return the diagonals to take so that no label repeats, and what remains after them."""
    pairs = []
    remaining, sizes = list(labels), list(shape)
    while len(set(remaining)) < len(remaining):
        repeated = next(label for label in remaining if remaining.count(label) > 1)
        first = remaining.index(repeated)
        second = remaining.index(repeated, first + 1)
        pairs.append((first, second))
        size = sizes[first]
        for dim in (second, first):
            del remaining[dim], sizes[dim]
        # A diagonal becomes the last dimension.
        remaining.append(repeated)
        sizes.append(size)
    return tuple(pairs), remaining, sizes


def _plan_pair(
    left: int,
    right: int,
    labels: Sequence[Labels],
    sizes: dict[Label, int],
    kept: Labels,
    elsewhere: set[Label],
) -> tuple[_Pair, Labels]:
    if _prefers_swap(labels[left], labels[right], kept):
        left, right = right, left
    a, b = labels[left], labels[right]
    larger = a if _volume(a, sizes) >= _volume(b, sizes) else b
    shared = [label for label in larger if label in a and label in b]
    batch = tuple(label for label in shared if label in elsewhere)
    contracted = tuple(label for label in shared if label not in elsewhere)
    left_only = tuple(label for label in a if label not in b)
    right_only = tuple(label for label in b if label not in a)
    result = batch + left_only + right_only
    if not contracted or (batch and not left_only and not right_only):
        in_order = sorted(result, key=lambda label: _position(kept, label))
        pair = _elementwise_pair(left, right, (a, b), tuple(in_order), contracted, sizes)
        return pair, tuple(in_order)
    groups = (batch, left_only, contracted, right_only)
    return _matrix_pair(left, right, (a, b), groups, sizes), result


def _prefers_swap(left: Labels, right: Labels, kept: Labels) -> bool:
    """Whether the product comes out in the order of the result only with operands swapped."""
    left_first = min((_position(kept, x) for x in left if x not in right), default=0)
    right_first = min((_position(kept, x) for x in right if x not in left), default=len(kept))
    return right_first < left_first


def _position(kept: Labels, label: Label) -> int:
    return kept.index(label) if label in kept else len(kept)


def _elementwise_pair(
    left: int,
    right: int,
    operands: tuple[Labels, Labels],
    result: Labels,
    contracted: Labels,
    sizes: dict[Label, int],
) -> _Pair:
    """Multiply with broadcasting, then sum: no matrix product would do less work here."""
    joint = result + contracted
    layouts = []
    for labels in operands:
        order = _permutation(labels, tuple(label for label in joint if label in labels))
        aligned = tuple(sizes[label] if label in labels else 1 for label in joint)
        layouts.append(_Layout(order, aligned if len(labels) < len(joint) else None))
    summed = tuple(range(len(result), len(joint)))
    return _Pair(left, right, layouts[0], layouts[1], "mul", bool(contracted), summed, None)


def _matrix_pair(
    left: int,
    right: int,
    operands: tuple[Labels, Labels],
    groups: tuple[Labels, Labels, Labels, Labels],
    sizes: dict[Label, int],
) -> _Pair:
    batch, rows, contracted, columns = groups
    batch_shape = tuple(sizes[label] for label in batch)
    m, k, n = (_volume(group, sizes) for group in (rows, contracted, columns))
    if not batch and not rows and not columns:
        product = "dot"
        shapes: list[tuple[int, ...]] = [(k,), (k,)]
        merged = [len(contracted) > 1] * 2
    else:
        product = ("mm", "bmm", "matmul")[min(len(batch), 2)]
        shapes = [(*batch_shape, m, k), (*batch_shape, k, n)]
        merged = [len(rows) * len(contracted) != 1, len(contracted) * len(columns) != 1]
    orders = (batch + rows + contracted, batch + contracted + columns)
    left_layout, right_layout = (
        _Layout(_permutation(operands[i], orders[i]), shapes[i] if merged[i] else None)
        for i in range(2)
    )
    split = product != "dot" and len(rows) * len(columns) != 1
    shape = tuple(sizes[label] for label in batch + rows + columns) if split else None
    return _Pair(left, right, left_layout, right_layout, product, bool(contracted), (), shape)


def _permutation(source: Labels, target: Labels) -> tuple[int, ...] | None:
    if source == target:
        return None
    return tuple(source.index(label) for label in target)


def _volume(labels: Sequence[Label] | set[Label], sizes: dict[Label, int]) -> int:
    return math.prod(sizes[label] for label in labels)


def _contraction_order(
    labels: Sequence[Labels], sizes: dict[Label, int], kept: Labels
) -> list[tuple[int, int]]:
    """Return pairs of positions; the result of each pair takes the next free position."""
    if len(labels) <= 2:
        return [(0, 1)] if len(labels) == 2 else []
    if len(labels) <= _EXHAUSTIVE_ORDER_LIMIT:
        return _best_order(labels, sizes, kept)
    return _greedy_order(labels, sizes, kept)


def _best_order(
    labels: Sequence[Labels], sizes: dict[Label, int], kept: Labels
) -> list[tuple[int, int]]:
    """Search all trees of pairs, smallest subsets first, by number of multiplications."""
    count = len(labels)
    everything = (1 << count) - 1

    def union(subset: int) -> set[Label]:
        return set().union(*(labels[i] for i in range(count) if subset >> i & 1))

    # What remains of a subset once contracted: the labels that someone outside still asks for.
    remains = {
        subset: union(subset) & (union(everything ^ subset) | set(kept))
        for subset in range(1, everything + 1)
    }
    cost: dict[int, int] = {1 << i: 0 for i in range(count)}
    split: dict[int, int] = {}
    for subset in range(1, everything + 1):
        if subset in cost:
            continue
        part = (subset - 1) & subset
        while part > subset ^ part:
            other = subset ^ part
            multiplications = _volume(remains[part] | remains[other], sizes)
            total = cost[part] + cost[other] + multiplications
            if subset not in cost or total < cost[subset]:
                cost[subset], split[subset] = total, part
            part = (part - 1) & subset
    return _pairs_of_tree(split, everything, count)


def _pairs_of_tree(split: dict[int, int], everything: int, count: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []

    def visit(subset: int) -> int:
        if subset not in split:
            return subset.bit_length() - 1
        part = split[subset]
        first, second = sorted((visit(part), visit(subset ^ part)))
        pairs.append((first, second))
        return count + len(pairs) - 1

    visit(everything)
    return pairs


def _greedy_order(
    labels: Sequence[Labels], sizes: dict[Label, int], kept: Labels
) -> list[tuple[int, int]]:
    """Contract, again and again, the pair whose result grows memory least."""
    live = {index: set(own) for index, own in enumerate(labels)}
    pairs = []
    while len(live) > 1:
        candidates = []
        keys = sorted(live)
        for i, first in enumerate(keys):
            for second in keys[i + 1 :]:
                others = (live[k] for k in keys if k not in (first, second))
                result = (live[first] | live[second]) & set(kept).union(*others)
                growth = _volume(result, sizes)
                growth -= _volume(live[first], sizes) + _volume(live[second], sizes)
                work = _volume(live[first] | live[second], sizes)
                candidates.append((growth, work, first, second, result))
        # Positions differ from pair to pair, so that sets are never compared.
        _, _, first, second, result = min(candidates)
        pairs.append((first, second))
        del live[first], live[second]
        live[len(labels) + len(pairs) - 1] = result
    return pairs
