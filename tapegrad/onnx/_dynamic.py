"""Dynamic axes: which they are, what they are called, and with which sizes a model is run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.onnx.errors import SymbolicValueError

__all__ = ["Inputs", "axes_of_shapes", "dynamic_axes", "runs_of"]


class Inputs(NamedTuple):
    """The arguments of a model, flat.

    Attributes:
        leaves: tensors and others.
        names: of the leaves that are tensors, by their place.
        axes: the names of dynamic axes, by place and axis.
    """

    leaves: list[Any]
    names: dict[int, str]
    axes: dict[int, dict[int, str]]


def _symbol(entry: Any, automatic: str) -> str | None:
    """Return the name that a dynamic axis is given, or None for a static one."""
    if entry is None or isinstance(entry, int):
        return None
    if isinstance(entry, str):
        return entry
    return getattr(entry, "__name__", None) or automatic


def dynamic_axes(
    given: Mapping[str, Any], names: Sequence[str], outputs: Sequence[str]
) -> dict[str, dict[int, str]]:
    """Return the axes of `dynamic_axes=` by the names of inputs and outputs."""
    found = {}
    for name, axes in given.items():
        known = (*names, *outputs)
        if name not in known:
            raise ValueError(
                f"export: dynamic_axes names '{name}', expected one of {', '.join(known)}"
            )
        if isinstance(axes, Mapping):
            found[name] = {int(axis): str(symbol) for axis, symbol in axes.items()}
        else:
            found[name] = {
                int(axis): f"{name}_dynamic_axes_{number}" for number, axis in enumerate(axes, 1)
            }
    return found


def axes_of_shapes(given: Any, leaves: Sequence[Any], tree: Any, names: Sequence[str]) -> Any:
    """Return the axes of `dynamic_shapes=` by the places of leaves.

    Args:
        given: for each argument None, or what its axes are, in the structure of the arguments.
        leaves: the arguments, flat.
        tree: the arguments, in a dict by their names.
        names: of the parameters of the model's forward.
    """
    if isinstance(given, Sequence):
        given = dict(zip(names, given, strict=False))
    unknown = [name for name in given if name not in tree]
    if unknown:
        raise ValueError(
            f"export: dynamic_shapes names '{unknown[0]}', expected one of {', '.join(tree)}"
        )
    found: dict[int, dict[int, str]] = {}
    places = iter(range(len(leaves)))
    for name, argument in tree.items():
        _match(given.get(name), argument, name, places, found)
    return found


def _match(
    entry: Any, argument: Any, name: str, places: Iterator[int], found: dict[int, dict[int, str]]
) -> None:
    if isinstance(argument, Mapping):
        for key, each in argument.items():
            inner = entry.get(key) if isinstance(entry, Mapping) else None
            _match(inner, each, f"{name}_{key}", places, found)
    elif isinstance(argument, Sequence) and not isinstance(argument, str):
        for number, each in enumerate(argument):
            inner = entry[number] if isinstance(entry, Sequence) else None
            _match(inner, each, f"{name}_{number}", places, found)
    else:
        place = next(places)
        if entry is None:
            return
        if not isinstance(argument, Tensor):
            raise ValueError(f"export: dynamic_shapes of '{name}', which is no tensor")
        pairs = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
        axes = {int(axis): _symbol(each, f"{name}_dim_{axis}") for axis, each in pairs}
        found[place] = {axis: symbol for axis, symbol in axes.items() if symbol is not None}


# ---- sizes


def runs_of(inputs: Inputs, run: Callable[[list[Any]], Any]) -> tuple[list[Any], list[list[Any]]]:
    """Run a model with several sizes of its dynamic axes; return results and arguments.

    Each axis takes two other sizes by itself, and all of them take others once together. Sizes of
    one are avoided: they would hide what is repeated.
    """
    given = _given_sizes(inputs)
    base = {name: size if size > 1 else 2 for name, size in given.items()}
    first = _sized(inputs, base)
    results, arguments = [run(first)], [first]
    others: dict[str, list[int]] = {}
    for name in given:
        errors = []
        others[name] = []
        for size in _candidates(base[name]):
            if len(others[name]) == 2:
                break
            leaves = _sized(inputs, base | {name: size})
            try:
                results.append(run(leaves))
            except SymbolicValueError:
                raise
            except Exception as error:
                errors.append(f"with {size}: {type(error).__name__}: {error}")
                continue
            arguments.append(leaves)
            others[name].append(size)
        if len(others[name]) < 2:
            raise SymbolicValueError(
                f"export: the axis '{name}' cannot be dynamic: the model runs with its size "
                f"{base[name]} and not with others ({errors[0]}); make this axis static"
            )
    if len(given) > 1:
        leaves = _sized(inputs, {name: sizes[0] for name, sizes in others.items()})
        results.append(run(leaves))
        arguments.append(leaves)
    return results, arguments


def _candidates(size: int) -> list[int]:
    wanted = [size + 3, size + 1, size + 8, size + 2, 2 * size, 3 * size, 4 * size]
    wanted += [size - 1, size - 2, size - 3, size // 2, size // 4]
    return [each for each in dict.fromkeys(wanted) if each > 1 and each != size]


def _given_sizes(inputs: Inputs) -> dict[str, int]:
    """Return the sizes of dynamic axes in the example by their names."""
    sizes: dict[str, int] = {}
    for place, axes in inputs.axes.items():
        tensor, name = inputs.leaves[place], inputs.names[place]
        for axis, symbol in axes.items():
            if not -tensor.dim() <= axis < tensor.dim():
                raise ValueError(
                    f"export: axis {axis} of '{name}' is dynamic, and it has {tensor.dim()}"
                )
            size = tensor.shape[axis]
            if size == 0:
                raise ValueError(f"export: the dynamic axis {axis} of '{name}' has size zero")
            if sizes.setdefault(symbol, size) != size:
                raise ValueError(
                    f"export: the dynamic axis '{symbol}' has size {sizes[symbol]} in one input "
                    f"and {size} in '{name}'"
                )
    return sizes


def _sized(inputs: Inputs, sizes: Mapping[str, int]) -> list[Any]:
    """Return arguments with other sizes, made of the elements of the example."""
    leaves = list(inputs.leaves)
    for place, axes in inputs.axes.items():
        x = leaves[place].detach()
        for axis, symbol in axes.items():
            size = sizes[symbol]
            if x.shape[axis] != size:
                x = x.index_select(axis, _C.arange(size, device=x.device) % x.shape[axis])
        leaves[place] = x
    return leaves
