"""Small public classes that carry no computation: `Size`, `device`, `layout`."""

import operator
from itertools import chain, starmap
from typing import Any, NamedTuple, SupportsIndex, overload

from tapegrad import _C

__all__ = ["Size", "device", "finfo", "iinfo", "layout", "memory_format"]


def _integer(position: int, size: Any) -> int:
    try:
        return operator.index(size)
    except (TypeError, ValueError):
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is '{type(size).__name__}')"
        ) from None


class Size(tuple[int, ...]):
    """The sizes of a tensor: a tuple that knows its product.

    Example:
        >>> torch.zeros(2, 3).shape
        torch.Size([2, 3])
        >>> torch.zeros(2, 3).shape.numel()
        6
    """

    __slots__ = ()

    def __new__(cls, sizes: Any = (), /) -> "Size":
        """Make one of numbers, each an int or a tensor with one integer."""
        return tuple.__new__(cls, starmap(_integer, enumerate(sizes)))

    def numel(self) -> int:
        """Return the number of elements of a tensor of these sizes."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(repr, self))}])"

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> "Size": ...

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return tuple.__new__(Size, item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> "Size":
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {_class_of(other)}) to torch.Size")
        return _joined(self, other)

    def __radd__(self, other: Any) -> "Size":
        # Python asks here first: this class derives from that of the other operand.
        if not isinstance(other, tuple):
            return NotImplemented
        return _joined(other, self)

    def __mul__(self, count: Any) -> "Size":
        return tuple.__new__(Size, tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)


def _joined(first: tuple[Any, ...], second: tuple[Any, ...]) -> Size:
    checked = (each if isinstance(each, Size) else Size(each) for each in (first, second))
    return tuple.__new__(Size, chain.from_iterable(checked))


def _class_of(value: Any) -> str:
    return value.__class__.__name__


class device:
    """Where a tensor's memory lies; as a context manager, where new tensors go.

    On the device ``"meta"`` they have a shape, strides and a dtype, and no memory.

    Args:
        type: ``"cpu"``, ``"meta"``, a name such as ``"cuda:0"``, or another device.
        index: the number of the device among those of its type.

    Example:
        >>> torch.device("cpu")
        device(type='cpu')
        >>> with torch.device("meta"):
        ...     layer = torch.nn.Linear(10**6, 10**6)
        >>> layer.weight.device
        device(type='meta')
    """

    __slots__ = ("index", "type")
    type: str
    index: int | None
    _KNOWN = ("cpu", "cuda", "meta", "mps", "xpu")

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {_class_of(type)}")
        name, colon, number = type.partition(":")
        if not type:
            raise RuntimeError("device: Device string must not be empty")
        if colon or not name.isidentifier():
            # One way to write a number: neither "+1" nor "01".
            if not (number.isascii() and number.isdecimal() and str(int(number)) == number):
                raise RuntimeError(f"device: Invalid device string: '{type}'")
            if index is not None:
                raise RuntimeError(
                    "device: type (string) must not include an index because index was passed "
                    f"explicitly: {type}"
                )
            index = int(number)
        if name not in self._KNOWN:
            raise RuntimeError(
                f"device: Expected one of {', '.join(self._KNOWN)} device type at start of device "
                f"string: {name}"
            )
        if index is not None:
            if isinstance(index, bool) or not isinstance(index, int):
                raise TypeError(f"device(): argument 'index' must be int, not {_class_of(index)}")
            if index < 0:
                raise RuntimeError("device: Device index must not be negative")
        self.type = name
        self.index = index

    def __enter__(self) -> "device":
        _C._enter_device(self)
        return self

    def __exit__(self, *_: object) -> None:
        _C._leave_device()

    def __repr__(self) -> str:
        suffix = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{suffix})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (str(self),)


class _Named:
    """A constant that prints its own name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):
    """How a tensor's elements are laid out.

    `strided`, one of the sparse layouts, or `jagged` in a nested tensor.
    """


class memory_format(_Named):
    """The order of dimensions in memory, accepted where PyTorch accepts it."""


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

# In the order of DeviceType in csrc/core/device.h.
_C._register_types(Size, [device("cpu"), device("cuda"), device("meta")], strided)


class _Float(NamedTuple):
    """A floating dtype: `eps` and `smallest` are exponents of two."""

    bits: int
    eps: int
    smallest: int
    max: float


def _ieee(bits: int, significand: int, exponent: int) -> _Float:
    """A dtype with infinities, by the bits of its significand and its largest exponent."""
    most = (2.0 - 2.0**-significand) * 2.0**exponent
    return _Float(bits, -significand, 1 - exponent, most)


_FLOATS = {
    "float16": _ieee(16, 10, 15),
    "bfloat16": _ieee(16, 7, 127),
    "float32": _ieee(32, 23, 127),
    "float64": _ieee(64, 52, 1023),
    "float8_e4m3fn": _Float(8, -3, -6, 448.0),
    "float8_e5m2": _ieee(8, 2, 15),
    "float8_e4m3fnuz": _Float(8, -3, -7, 240.0),
    "float8_e5m2fnuz": _Float(8, -3, -15, 57344.0),  # its epsilon is an eighth in PyTorch
    "float8_e8m0fnu": _Float(8, 0, -127, 2.0**127),
}
_INTEGERS = {
    "uint8": (8, False),
    "uint16": (16, False),
    "uint32": (32, False),
    "uint64": (64, False),
    "int8": (8, True),
    "int16": (16, True),
    "int32": (32, True),
    "int64": (64, True),
}


_PARTS = {"complex64": "float32", "complex128": "float64"}


class finfo:
    """The limits of a floating dtype, or of the parts of a complex one.

    Args:
        type: the dtype; the default dtype if left out.

    Example:
        >>> torch.finfo(torch.float16).max
        65504.0
    """

    def __init__(self, type: Any = None) -> None:
        name = str(_C.get_default_dtype() if type is None else type).removeprefix("torch.")
        name = _PARTS.get(name, name)
        if name not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type, got {name}")
        known = _FLOATS[name]
        self.bits = known.bits
        self.dtype = name
        self.eps = 2.0**known.eps
        self.max = known.max
        self.tiny = self.smallest_normal = 2.0**known.smallest
        # One of them has no signs.
        self.min = self.tiny if name == "float8_e8m0fnu" else -self.max
        self.resolution = 10.0 ** -int(-known.eps * 0.30103)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer dtype.

    Args:
        type: the dtype.

    Example:
        >>> torch.iinfo(torch.int8).min
        -128
    """

    def __init__(self, type: Any) -> None:
        name = str(type).removeprefix("torch.")
        if name not in _INTEGERS:
            raise TypeError(f"torch.iinfo() requires an integer input type, got {name}")
        self.bits, signed = _INTEGERS[name]
        self.dtype = name
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
