"""einsum: reading the equation; `contraction` plans and runs what it says."""

import functools
from collections.abc import Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad._composed.arguments import expect_tensor
from tapegrad._composed.contraction import Label, Plan, make_plan
from tapegrad._composed.registry import function
from tapegrad._ops import runs

__all__ = ["einsum"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ELLIPSIS = "..."


@function
@runs("matmul")
@casts(cuda="lower", transparent=True)
def einsum(*args: Any) -> Tensor:
    """Sum products of tensor elements along labelled dimensions (Einstein summation).

    With more than two operands the cheapest order of pairwise products is chosen. Products run as
    matrix products on strided operands, without copies where the layout allows. The plan is made
    once for an equation and shapes and is then reused.

    Args:
        equation: one group of letters for each operand, separated by commas, one letter for each
            dimension; then optionally ``->`` and the letters of the result. Without ``->`` the
            result has the letters that occur once, in alphabetical order. ``...`` stands for any
            dimensions, which broadcast. A repeated letter within an operand takes the diagonal.
        operands: the tensors, as arguments or as one list. The equation can be left out by giving
            after each operand a list of numbers in [0, 52), and last, optionally, one for the
            result, with Ellipsis for ``...``.

    Returns:
        The contracted tensor.

    Example:
        >>> a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> b = torch.tensor([[5.0, 6.0], [7.0, 8.0]])
        >>> torch.einsum("ij,jk->ik", a, b)
        tensor([[19., 22.],
                [43., 50.]])
        >>> torch.einsum("ii", a)
        tensor(5.)
        >>> torch.einsum(a, [0, 1], b, [0, 1], [0])
        tensor([17., 53.])
    """
    equation, operands = _read_arguments(args)
    return _plan(equation, tuple([operand.shape for operand in operands])).run(operands)


def _read_arguments(args: tuple[Any, ...]) -> tuple[str, Sequence[Tensor]]:
    if len(args) < 2:
        raise ValueError(
            "einsum: expected an equation and at least one operand, or at least one operand and "
            f"its list of subscripts, got {len(args)} arguments"
        )
    equation = args[0]
    operands: Sequence[Any] = args[1:]
    if isinstance(equation, Tensor):
        equation, operands = _equation_of_sublists(args)
    elif not isinstance(equation, str):
        raise TypeError(f"einsum: expected the equation to be a str, got {type(equation).__name__}")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    for index, operand in enumerate(operands):
        expect_tensor("einsum", f"operand {index}", operand)
    return equation, operands


def _equation_of_sublists(args: tuple[Any, ...]) -> tuple[str, tuple[Tensor, ...]]:
    paired = len(args) // 2 * 2
    equation = ",".join(_letters_of(sublist) for sublist in args[1:paired:2])
    if len(args) > paired:
        equation += "->" + _letters_of(args[-1])
    return equation, args[0:paired:2]


def _letters_of(sublist: Sequence[Any]) -> str:
    letters = ""
    for subscript in sublist:
        if subscript is ...:
            letters += _ELLIPSIS
        elif 0 <= subscript < len(_LETTERS):
            letters += _LETTERS[subscript]
        else:
            raise ValueError(
                f"einsum: expected every subscript in a list to be within [0, {len(_LETTERS)}), "
                f"got {subscript}"
            )
    return letters


@functools.lru_cache(maxsize=1024)
def _plan(equation: str, shapes: tuple[tuple[int, ...], ...]) -> Plan:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise RuntimeError(
            f"einsum: expected one operand for each of the {len(terms)} terms of the equation "
            f"'{equation}', got {len(shapes)} operands"
        )
    parsed = [_parse_term(term, f"operand {index}") for index, term in enumerate(terms)]
    operands = [
        _label_dimensions(term, shape, index)
        for index, (term, shape) in enumerate(zip(parsed, shapes, strict=True))
    ]
    sizes = _label_sizes(operands, shapes)
    hidden = [label for label in sizes if isinstance(label, int)]
    # Dimensions under the ellipsis are numbered from the right, as they broadcast.
    ellipsis = tuple(sorted(hidden, reverse=True))
    if arrow:
        output = _expand(_parse_term(right, "the output"), ellipsis)
        _check_output(output, sizes)
    else:
        letters = "".join(terms)
        output = ellipsis + tuple(c for c in _LETTERS if letters.count(c) == 1)
    return make_plan(operands, shapes, sizes, output)


def _parse_term(term: str, where: str) -> list[str]:
    """Split one group of subscripts into letters and at most one ellipsis."""
    subscripts = []
    rest = term
    while rest:
        if rest.startswith(_ELLIPSIS) and _ELLIPSIS not in subscripts:
            subscripts.append(_ELLIPSIS)
            rest = rest[len(_ELLIPSIS) :]
        elif rest[0] in _LETTERS:
            subscripts.append(rest[0])
            rest = rest[1:]
        else:
            raise RuntimeError(
                f"einsum: expected letters [a-zA-Z] and at most one '...' in the subscripts of "
                f"{where}, got {rest[0]!r} in '{term}'"
            )
    return subscripts


def _expand(subscripts: list[str], ellipsis: tuple[Label, ...]) -> tuple[Label, ...]:
    if _ELLIPSIS not in subscripts:
        return tuple(subscripts)
    at = subscripts.index(_ELLIPSIS)
    return (*subscripts[:at], *ellipsis, *subscripts[at + 1 :])


def _label_dimensions(
    subscripts: list[str], shape: tuple[int, ...], index: int
) -> tuple[Label, ...]:
    has_ellipsis = _ELLIPSIS in subscripts
    named = len(subscripts) - has_ellipsis
    if named > len(shape) or (named < len(shape) and not has_ellipsis):
        hint = "" if has_ellipsis else " and no ellipsis"
        raise RuntimeError(
            f"einsum: expected a subscript for each of the {len(shape)} dimensions of operand "
            f"{index}, got {named} subscripts{hint}"
        )
    return _expand(subscripts, tuple(range(len(shape) - named, 0, -1)))


def _label_sizes(
    operands: Sequence[tuple[Label, ...]], shapes: Sequence[tuple[int, ...]]
) -> dict[Label, int]:
    sizes: dict[Label, int] = {}
    for index, (labels, shape) in enumerate(zip(operands, shapes, strict=True)):
        own: dict[Label, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum: expected the dimensions of the repeated subscript {label} of operand "
                    f"{index} to have one size, got {own[label]} and {size}"
                )
        for label, size in own.items():
            known = sizes.get(label, 1)
            if size != known and 1 not in (size, known):
                name = "under the ellipsis" if isinstance(label, int) else label
                raise RuntimeError(
                    f"einsum: expected subscript {name} to have size {known} (or 1) in operand "
                    f"{index}, as in earlier operands, got {size}"
                )
            sizes[label] = size if known == 1 else known
    return sizes


def _check_output(output: tuple[Label, ...], sizes: dict[Label, int]) -> None:
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(
                f"einsum: expected each subscript at most once in the output, got {label} "
                f"{output.count(label)} times"
            )
        if label not in sizes:
            raise RuntimeError(
                f"einsum: expected every subscript of the output in some operand, "
                f"but {label} is in none"
            )
