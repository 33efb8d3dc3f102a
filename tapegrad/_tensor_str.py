"""How a tensor prints: character for character as PyTorch prints it.

A repr is made in three steps, one function family each:

1. `_gather` turns the tensor into nested lists of Python numbers. A tensor above the threshold is
   summarised *before* it is converted, so printing a gigabyte costs as much as printing a line;
   what was left out is marked by `...` (Ellipsis) in the lists.
2. `_number_formatter` looks at all gathered numbers and picks one notation (integer, fixed or
   scientific) and one width for the whole tensor.
3. `_layout` writes the brackets, breaking lines at the line width; `tensor_str` then appends the
   suffixes (size, dtype, grad_fn).
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

from tapegrad import _C

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions", "tensor_str"]


_PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

# What set_printoptions sets, under the names of its arguments.
_options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}


class _PrinterOptions:
    """The options as attributes, which packages read and set."""

    def __getattr__(self, name: str) -> Any:
        if name not in _options:
            raise AttributeError(f"PRINT_OPTS has no option {name!r}")
        return _options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        _options[name] = value


PRINT_OPTS = _PrinterOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print. An option left at None keeps its value, except `sci_mode`.

    Args:
        precision: digits after the decimal point.
        threshold: a tensor with more elements than this is summarised.
        edgeitems: how many items a summary shows at each end of each dimension.
        linewidth: characters per line.
        profile: ``"default"``, ``"short"`` or ``"full"``, applied before the other options.
        sci_mode: True always prints floats in scientific notation, False never; None (which is
            also what a call without it sets) decides tensor by tensor.

    Example:
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.12345])
        tensor([1.12])
        >>> torch.set_printoptions(profile="default")
        >>> torch.tensor([1.12345])
        tensor([1.1235])
    """
    changes: dict[str, Any] = {}
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: expected profile to be one of {sorted(_PROFILES)}, "
                f"got {profile!r}"
            )
        changes.update(_PROFILES[profile])
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is None:
            continue
        if name in ("precision", "edgeitems") and not isinstance(value, int):
            raise TypeError(f"set_printoptions: expected {name} to be an integer, got {value!r}")
        if not isinstance(value, (int, float)) or not value >= 0:
            raise ValueError(
                f"set_printoptions: expected {name} to be a number >= 0, got {value!r}"
            )
        changes[name] = value
    _options.update(changes, sci_mode=sci_mode)


def get_printoptions() -> dict[str, Any]:
    """Return the print options in force, as keyword arguments for `set_printoptions`.

    Returns:
        A dict with the keys precision, threshold, edgeitems, linewidth and sci_mode.

    Example:
        >>> get_printoptions()["precision"]
        4
    """
    return dict(_options)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Set print options for the length of a with block.

    Args:
        **options: the keyword arguments of `set_printoptions`.

    Example:
        >>> with printoptions(precision=1):
        ...     print(torch.tensor([0.25, 1.5]))
        tensor([0.2, 1.5])
    """
    saved = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**saved)


def tensor_str(tensor: Any) -> str:
    """Return what ``repr(tensor)`` shows.

    Args:
        tensor: the tensor to print, of any shape and dtype.

    Returns:
        The text, for example ``tensor([1., 2.], grad_fn=<MulBackward0>)``.
    """
    # Reading elements must not record slices on the tape of the tensor being looked at.
    values = tensor.detach() if tensor.requires_grad else tensor
    prefix = _prefix(tensor)
    body = "..." if tensor.is_meta else _body(values, len(prefix))
    return _with_suffixes(prefix + body, _suffixes(tensor), len(prefix)) + ")"


def _prefix(tensor: Any) -> str:
    name = type(tensor).__name__
    # A Parameter announces itself in its own repr and prints its value as a plain tensor.
    return "tensor(" if name in ("Tensor", "Parameter") else f"{name}("


def _body(tensor: Any, indent: int) -> str:
    if tensor.numel() == 0:
        return "[]"
    summarise = tensor.numel() > _options["threshold"]
    if summarise and _options["edgeitems"] == 0 and tensor.dim() > 0:
        return "[...]"
    data = _gather(tensor) if summarise else tensor.tolist()
    numbers = list(_leaves(data))
    if tensor.is_complex():
        write, width = _complex_formatter(numbers)
    else:
        write, width = _padded(*_number_formatter(numbers, tensor.dtype.is_floating_point))
    return _layout(data, tensor.dim(), indent, write, width)


_tensor_str = _body  # PyTorch's name, which packages import


def _gather(tensor: Any) -> Any:
    """Return the edges of a tensor as nested lists, with Ellipsis where items were left out."""
    if tensor.dim() == 0:
        return tensor.tolist()
    edge, length = _options["edgeitems"], tensor.shape[0]
    cut = length > 2 * edge
    if tensor.dim() == 1:
        if not cut:
            return tensor.tolist()
        return [*tensor[:edge].tolist(), ..., *tensor[length - edge :].tolist()]
    if not cut:
        return [_gather(tensor[i]) for i in range(length)]
    first = [_gather(tensor[i]) for i in range(edge)]
    last = [_gather(tensor[i]) for i in range(length - edge, length)]
    return [*first, ..., *last]


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, list):
        for item in data:
            yield from _leaves(item)
    elif data is not ...:
        yield data


def _number_formatter(
    numbers: list[Any], is_floating_point: bool
) -> tuple[Callable[[Any], str], int]:
    """Choose the notation for all numbers of a tensor; return the writer and the common width."""
    if not is_floating_point:
        return str, max(len(str(number)) for number in numbers)
    # Zeros and non-finite values say nothing about scale, so they have no part in the choice.
    telling = [number for number in numbers if number != 0 and math.isfinite(number)]
    if not telling:
        return _write_whole, 1
    write = _float_notation(telling)
    return write, max(len(write(number)) for number in telling)


def _padded(write: Callable[[Any], str], width: int) -> tuple[Callable[[Any], str], int]:
    return lambda number: write(number).rjust(width), width


def _complex_formatter(numbers: list[complex]) -> tuple[Callable[[Any], str], int]:
    """Choose notations for the real and the imaginary parts, each by themselves."""
    write_real, real_width = _padded(*_number_formatter([z.real for z in numbers], True))
    write_imag, imag_width = _number_formatter([z.imag for z in numbers], True)

    def write(number: complex) -> str:
        imag = write_imag(number.imag)
        return f"{write_real(number.real)}{'' if imag[0] == '-' else '+'}{imag}j"

    return write, real_width + imag_width + 1


def _float_notation(telling: list[float]) -> Callable[[float], str]:
    smallest = min(abs(number) for number in telling)
    largest = max(abs(number) for number in telling)
    whole = all(number.is_integer() for number in telling)
    scientific = _options["sci_mode"]
    if scientific is None:
        wide_range = largest / smallest > 1000.0 or largest > 1.0e8
        scientific = wide_range or (not whole and smallest < 1.0e-4)
    if scientific:
        return f"{{:.{_options['precision']}e}}".format
    if whole:
        return _write_whole
    return f"{{:.{_options['precision']}f}}".format


def _write_whole(number: float) -> str:
    return f"{number:.0f}." if math.isfinite(number) else str(number)


def _layout(data: Any, dim: int, indent: int, write: Callable[[Any], str], width: int) -> str:
    if dim == 0:
        return write(data)
    if dim == 1:
        return _layout_vector(data, indent, write, width)
    rows = [
        "..." if item is ... else _layout(item, dim - 1, indent + 1, write, width) for item in data
    ]
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(rows) + "]"


def _layout_vector(data: list[Any], indent: int, write: Callable[[Any], str], width: int) -> str:
    items = [" ..." if item is ... else write(item) for item in data]
    per_line = max(1, (_options["linewidth"] - indent) // (width + 2))
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _suffixes(tensor: Any) -> list[str]:
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    empty = tensor.numel() == 0
    # The brackets show the shape, except where there is nothing between them.
    hidden = (empty and tensor.dim() != 1) or (not empty and _options["edgeitems"] == 0)
    if hidden or tensor.is_meta:
        suffixes.append(f"size={tuple(tensor.shape)}")
    # int64 and bool show in the elements; where there are none, the dtype must be printed.
    default = _C.get_default_dtype()
    default_complex = _C.complex128 if default is _C.float64 else _C.complex64
    evident = [default] if empty else [default, default_complex, _C.int64, _C.bool]
    if tensor.dtype not in evident:
        suffixes.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return suffixes


def _with_suffixes(text: str, suffixes: list[str], indent: int, column: int | None = None) -> str:
    if column is None:
        # Two more than the last line holds: the breaks must fall where PyTorch's count puts them.
        column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options["linewidth"]:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """Return a printed tensor with what follows its elements, closed: PyTorch's name and form.

    Args:
        tensor_str: what was printed up to there.
        suffixes: what follows, such as ``"dtype=torch.int8"``.
        indent: of lines that are begun.
        force_newline: whether the first begins one in any case.
    """
    if force_newline and suffixes:
        tensor_str += ",\n" + " " * indent + suffixes[0]
        column = indent + len(suffixes[0])
        return _with_suffixes(tensor_str, suffixes[1:], indent, column) + ")"
    return _with_suffixes(tensor_str, suffixes, indent) + ")"
