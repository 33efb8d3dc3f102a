"""What tests of tensor code need: comparing with tolerances, and tensors of random values.

Example:
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0000001]))
"""

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.compare import isclose
from tapegrad._types import Size, finfo, iinfo

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# The relative and the absolute tolerance of each dtype; of the others, 0.
_TOLERANCES = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
    _C.complex64: (1.3e-6, 1e-5),
    _C.complex128: (1e-7, 1e-7),
}
_OF_NUMBERS = {float: (1e-7, 1e-7), complex: (1e-7, 1e-7)}


class _Options:
    """The arguments of `assert_close` besides what is compared."""

    def __init__(self, **given: Any) -> None:
        self.rtol, self.atol = given["rtol"], given["atol"]
        if (self.rtol is None) != (self.atol is None):
            missing = "rtol" if self.rtol is None else "atol"
            raise ValueError(
                f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
            )
        self.equal_nan = given["equal_nan"]
        self.allow_subclasses = given["allow_subclasses"]
        self.attributes = [name for name in ("device", "dtype", "layout", "stride") if given[name]]

    def tolerances(self, *defaults: tuple[float, float]) -> tuple[float, float]:
        """Return those that were given, or the larger ones of the defaults."""
        if self.rtol is not None:
            return self.rtol, self.atol
        return max(rtol for rtol, _ in defaults), max(atol for _, atol in defaults)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Args:
        actual: a tensor, an array, a number, None, or sequences and mappings of these.
        expected: the same with the values that are right.
        allow_subclasses: whether the types of tensors and arrays may differ.
        rtol: the relative tolerance; with `atol`, of the dtype if left out: 1.3e-6 and 1e-5 for
            float32, 1e-7 and 1e-7 for float64, 0 for integers.
        atol: the absolute tolerance.
        equal_nan: whether nan equals nan.
        check_device: whether devices must be the same.
        check_dtype: whether dtypes must be the same.
        check_layout: whether layouts must be the same.
        check_stride: whether strides must be the same.
        msg: what the error says, or a function of what it would say.

    Raises:
        AssertionError: they differ; it tells where most.
        TypeError: things that cannot be compared.

    Example:
        >>> torch.testing.assert_close([torch.tensor(1.0), 2], [torch.tensor(1.0), 2])
        >>> torch.testing.assert_close(torch.tensor([1, 2]), torch.tensor([1, 3]))
        Traceback (most recent call last):
        ...
        AssertionError: Tensor-likes are not equal!
        ...
    """
    options = _Options(
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        allow_subclasses=allow_subclasses,
        device=check_device,
        dtype=check_dtype,
        layout=check_layout,
        stride=check_stride,
    )
    difference = _difference(actual, expected, options, "")
    if difference is None:
        return
    if msg is not None:
        difference = msg(difference) if callable(msg) else msg
    raise AssertionError(difference)


def _difference(actual: Any, expected: Any, options: _Options, place: str) -> str | None:
    """Return in words how two things differ, or None."""
    if _is_sequence(actual) and _is_sequence(expected):
        return _of_sequences(actual, expected, options, place)
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return _of_mappings(actual, expected, options, place)
    found = _of_leaves(actual, expected, options, place)
    return f"{found}\n\nThe failure occurred for item {place}" if found and place else found


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _of_sequences(actual: Any, expected: Any, options: _Options, place: str) -> str | None:
    if len(actual) != len(expected):
        text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        return text + (f"\n\nThe failure occurred for item {place}" if place else "")
    for index, pair in enumerate(zip(actual, expected, strict=True)):
        if found := _difference(*pair, options, f"{place}[{index}]"):
            return found
    return None


def _of_mappings(actual: Any, expected: Any, options: _Options, place: str) -> str | None:
    if actual.keys() != expected.keys():
        missing, more = (
            sorted(a.keys() - b.keys(), key=repr)
            for a, b in ((expected, actual), (actual, expected))
        )
        return (
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {missing}\n"
            f"Additional keys in the actual mapping: {more}"
        )
    for key in actual:
        if found := _difference(actual[key], expected[key], options, f"{place}[{key!r}]"):
            return found
    return None


def _of_leaves(actual: Any, expected: Any, options: _Options, place: str) -> str | None:
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}"
    if isinstance(actual, bool) and isinstance(expected, bool):
        return None if actual is expected else f"Booleans mismatch: {actual} is not {expected}"
    if _is_number(actual) and _is_number(expected):
        return _of_numbers(actual, expected, options)
    if _is_tensor_like(actual) and _is_tensor_like(expected):
        if not options.allow_subclasses and type(actual) is not type(expected):
            raise TypeError(f"assert_close: got a {type(actual)} and a {type(expected)}")
        return _of_tensors(_C.as_tensor(actual), _C.as_tensor(expected), options)
    where = f"\n\nThe failure occurred for item {place}" if place else ""
    raise TypeError(
        f"No comparison pair was able to handle inputs of type {type(actual)} and "
        f"{type(expected)}.{where}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__array__")


def _of_numbers(actual: Any, expected: Any, options: _Options) -> str | None:
    if "dtype" in options.attributes and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}."
    defaults = (_OF_NUMBERS.get(type(value), (0.0, 0.0)) for value in (actual, expected))
    rtol, atol = options.tolerances(*defaults)
    if actual == expected:
        return None
    if options.equal_nan and cmath.isnan(actual) and cmath.isnan(expected):
        return None
    distance = abs(actual - expected)
    if cmath.isfinite(distance) and distance <= atol + rtol * abs(expected):
        return None
    return _scalar_report(*_as_numbers(actual, expected), (rtol, atol))


def _as_numbers(actual: Any, expected: Any) -> tuple[Any, Any, Any, Any]:
    distance = abs(actual - expected)
    return actual, expected, distance, distance / abs(expected) if expected else math.inf


def _scalar_report(
    actual: Any, expected: Any, distance: Any, relative: Any, tolerances: tuple[float, float]
) -> str:
    rtol, atol = tolerances
    exact = not rtol and not atol
    within = ["" if exact else f" (up to {tolerance} allowed)" for tolerance in (atol, rtol)]
    return (
        f"Scalars are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {distance}{within[0]}\n"
        f"Relative difference: {relative}{within[1]}"
    )


def _of_tensors(actual: Tensor, expected: Tensor, options: _Options) -> str | None:
    pairs: dict[str, tuple[Any, Any]] = {"shape": (actual.shape, expected.shape)}
    for name in options.attributes:
        if name == "stride":
            pairs["stride()"] = (actual.stride(), expected.stride())
        else:
            pairs[name] = (getattr(actual, name), getattr(expected, name))
    for name in ("shape", "device", "dtype", "layout", "stride()"):
        first, second = pairs.get(name, (None, None))
        if first != second:
            return f"The values for attribute '{name}' do not match: {first} != {second}."
    defaults = (_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (actual, expected))
    rtol, atol = options.tolerances(*defaults)
    actual, expected = _comparable(actual.detach(), expected.detach())
    if actual.device.type == "meta":  # There are no values.
        return None
    if isinstance(actual, _C._SparseBase) or isinstance(expected, _C._SparseBase):
        return _of_sparse(actual, expected, (rtol, atol), options.equal_nan)
    return _of_elements("Tensor-likes", actual, expected, (rtol, atol), options.equal_nan)


def _of_elements(
    what: str, actual: Tensor, expected: Tensor, tolerances: tuple[float, float], equal_nan: bool
) -> str | None:
    matches = isclose(actual, expected, *tolerances, equal_nan)
    if bool(matches.all()):
        return None
    return _tensor_report(actual, expected, matches, tolerances, what)


def _of_sparse(
    actual: Any, expected: Any, tolerances: tuple[float, float], equal_nan: bool
) -> str | None:
    """Compare the parts of sparse tensors; all elements where their layouts differ."""
    if actual.layout != expected.layout:
        return _of_elements(
            "Tensor-likes", actual.to_dense(), expected.to_dense(), tolerances, equal_nan
        )
    if actual.is_sparse and actual.is_coalesced() != expected.is_coalesced():
        actual, expected = actual.coalesce(), expected.coalesce()
    name = str(actual.layout).removeprefix("torch.sparse_").upper()
    if actual._nnz() != expected._nnz():
        return (
            f"The number of specified values in sparse {name} tensors does not match: "
            f"{actual._nnz()} != {expected._nnz()}"
        )
    places = {
        "COO": ("_indices",),
        "CSR": ("crow_indices", "col_indices"),
        "CSC": ("ccol_indices", "row_indices"),
    }[name]
    for each in places:
        pair = getattr(actual, each)(), getattr(expected, each)()
        report = _of_elements(f"Sparse {name} {each.strip('_')}", *pair, (0.0, 0.0), False)
        if report:
            return report
    values = actual._values(), expected._values()
    return _of_elements(f"Sparse {name} values", *values, tolerances, equal_nan)


def _comparable(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    dtype = _C.promote_types(actual.dtype, expected.dtype)
    dtype = _C.int64 if dtype == _C.bool else dtype
    return actual.to(dtype), expected.to(dtype)


def _tensor_report(
    actual: Tensor,
    expected: Tensor,
    matches: Tensor,
    tolerances: tuple[float, float],
    what: str = "Tensor-likes",
) -> str:
    rtol, atol = tolerances
    distance = (actual - expected).abs().masked_fill(matches, 0)
    relative = (distance / expected.abs()).masked_fill(matches, 0)
    if actual.dim() == 0:
        return _scalar_report(*_as_numbers(actual.item(), expected.item()), tolerances)
    exact = not rtol and not atol
    total, wrong = matches.numel(), int(matches.logical_not().sum())
    lines = [
        f"{what} are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
    ]
    for measure, values, limit in (("absolute", distance, atol), ("relative", relative, rtol)):
        place = int(values.reshape(-1).argmax())
        position: list[int] = []
        for size in reversed(values.shape):
            place, last = divmod(place, size)
            position.append(last)
        allowed = "" if exact else f" (up to {limit} allowed)"
        index = tuple(reversed(position))
        lines.append(
            f"Greatest {measure} difference: {values[index].item()} at index {index}{allowed}"
        )
    return "\n".join(lines)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """As `assert_close`, with other defaults; kept for old code.

    Args:
        actual: as there, or what a tensor can be made of.
        expected: the same with the values that are right.
        rtol: the relative tolerance; 1e-4 for float32 if left out.
        atol: the absolute tolerance; 1e-5 for float32 if left out.
        equal_nan: whether nan equals nan.
        msg: what the error says.

    Example:
        >>> torch.testing.assert_allclose([1.0], [1.0])
    """
    first = actual if isinstance(actual, Tensor) else _C.tensor(actual)
    second = expected if isinstance(expected, Tensor) else _C.tensor(expected, dtype=first.dtype)
    if rtol is None and atol is None:
        old = {_C.float16: (1e-3, 1e-3), _C.float32: (1e-4, 1e-5), _C.float64: (1e-5, 1e-8)}
        pairs = [old.get(x.dtype, (0.0, 0.0)) for x in (first, second)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    assert_close(
        first,
        second,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Make a tensor of random values.

    Args:
        shape: the sizes.
        dtype: the dtype.
        device: the device.
        low: the smallest value; -9, for uint8 and bool 0.
        high: the limit that no value reaches; 10 for integers, 9 for floats, 2 for bool.
        requires_grad: whether the result is a leaf that requires grad.
        noncontiguous: whether elements lie apart in memory; those of fewer than two cannot.
        exclude_zero: whether zeros are replaced by the smallest positive number, integers by 1.
        memory_format: the order of dimensions in memory.

    Returns:
        A new tensor, drawn from the generator of the device.

    Example:
        >>> torch.testing.make_tensor(2, 3, dtype=torch.int8, device="cpu", low=1).shape
        torch.Size([2, 3])
    """
    sizes = _shape_of(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"dtype={dtype}"
        )
    lowest, highest = _bounds(dtype, low, high)
    apart = noncontiguous and math.prod(sizes) > 1
    doubled = [*sizes[:-1], 2 * sizes[-1]] if apart else sizes
    result = _random_values(doubled, dtype, device, lowest, highest)
    if apart:
        result = result[..., ::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = finfo(dtype).tiny if floating else 1
    return result.requires_grad_(requires_grad) if floating else result


def _shape_of(shape: tuple[Any, ...]) -> list[int]:
    if len(shape) == 1 and isinstance(shape[0], (list, tuple, Size)):
        return list(shape[0])
    return list(shape)


def _bounds(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    floating = dtype.is_floating_point or dtype.is_complex
    if dtype == _C.bool:
        usual, limits = (0.0, 2.0), (0.0, 2.0)
    elif floating:
        largest = finfo(dtype).max if dtype.is_floating_point else 0.0
        usual, limits = (-9.0, 9.0), (-largest, largest)
    else:
        usual = (0.0 if dtype == _C.uint8 else -9.0, 10.0)
        limits = (iinfo(dtype).min, iinfo(dtype).max + (dtype != _C.int64))
    lowest = usual[0] if low is None else low
    highest = usual[1] if high is None else high
    if math.isnan(lowest) or math.isnan(highest):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={lowest} and high={highest}")
    if lowest > highest or (lowest == highest and not floating):
        raise ValueError(f"`low` must be less than `high`, but got {lowest} >= {highest}")
    lowest, highest = max(lowest, limits[0]), min(highest, limits[1])
    return (lowest, highest) if floating else (math.ceil(lowest), math.ceil(highest))


def _random_values(
    shape: Sequence[int], dtype: Any, device: Any, low: float, high: float
) -> Tensor:
    if dtype.is_complex:
        raise RuntimeError("make_tensor: expected a real dtype, got " + str(dtype))
    if dtype == _C.bool:
        return _C.randint(int(low), int(high), shape, device=device).to(dtype)
    if not dtype.is_floating_point:
        return _C.randint(int(low), int(high), shape, device=device, dtype=dtype)
    wide = _C.float64 if dtype == _C.float64 else _C.float32
    values = _C.empty(shape, dtype=wide, device=device)
    return values.uniform_(low, high).to(dtype)
