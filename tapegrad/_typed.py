"""Classes for one dtype, `FloatTensor` and its relatives, from before there were dtypes.

No tensor is an instance of them in Python's sense: each is a constructor, and `isinstance` asks
a tensor for its dtype and its device.
"""

import operator
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor, UntypedStorage
from tapegrad._devices import set_default_device
from tapegrad._types import Size, device, strided

__all__ = ["legacy_tensor", "new", "set_default_tensor_type", "tensor_type", "tensortype"]

DTYPES: dict[str, _C.dtype] = {
    "Half": _C.float16,
    "BFloat16": _C.bfloat16,
    "Float": _C.float32,
    "Double": _C.float64,
    "Byte": _C.uint8,
    "Char": _C.int8,
    "Short": _C.int16,
    "Int": _C.int32,
    "Long": _C.int64,
    "Bool": _C.bool,
}


class tensortype(type):
    """The class of `FloatTensor` and its relatives."""

    dtype: Any
    device_type: str
    layout = strided
    is_sparse = False

    @property
    def is_cuda(cls) -> bool:
        """Whether tensors of the type are on a GPU."""
        return cls.device_type == "cuda"

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.device.type == cls.device_type
            and instance.layout is strided
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of given sizes, or of data, of the dtype and device of the type."""
        if cls.is_cuda and not _cuda_is_available():
            raise TypeError(
                f"type {cls.__module__}.{cls.__name__} not available: there is no CUDA device"
            )
        return legacy_tensor(args, kwargs, cls.dtype, device(cls.device_type))


def _cuda_is_available() -> bool:
    from tapegrad.cuda.devices import is_available

    return is_available()


def tensor_type(name: str, device_type: str = "cpu") -> tensortype:
    """Return the class of a name such as ``FloatTensor``; there is one of each."""
    key = (name, device_type)
    if key not in _TYPES:
        module = "torch" if device_type == "cpu" else f"torch.{device_type}"
        facts = {"dtype": DTYPES[name.removesuffix("Tensor")], "device_type": device_type}
        _TYPES[key] = tensortype(name, (), {"__module__": module})
        for fact, value in facts.items():
            type.__setattr__(_TYPES[key], fact, value)
    return _TYPES[key]


_TYPES: dict[tuple[str, str], tensortype] = {}


def legacy_tensor(
    args: Sequence[Any], kwargs: dict[str, Any], dtype: Any, place: Any, any_dtype: bool = False
) -> Tensor:
    """Make a tensor from the arguments of a constructor from before `torch.tensor`.

    Args:
        args: sizes, or one tensor (which is shown, not copied), storage or sequence of data.
        kwargs: `device`, which must be of the type of the place, and `data` or `other`.
        dtype: the dtype of the result.
        place: the device of the result.
        any_dtype: whether a tensor of another dtype is shown as it is.
    """
    args = [*args, *(kwargs.pop(name) for name in ("data", "other") if name in kwargs)]
    given = kwargs.pop("device", None)
    if kwargs:
        raise TypeError(f"new() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if given is not None and device(given).type != place.type:
        raise RuntimeError(
            f"legacy constructor expects device type: {place.type} but device type: "
            f"{device(given).type} was passed"
        )
    place = place if given is None else device(given)
    sizes = _sizes(args)
    if sizes is not None:
        return _C.empty(sizes, dtype=dtype, device=place)
    if len(args) > 1:
        kinds = ", ".join(type(arg).__name__ for arg in args)
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({kinds}), expected ints, "
            "or one tensor, storage or sequence"
        )
    return _of_data(args[0], dtype, place, any_dtype)


def _sizes(args: Sequence[Any]) -> Sequence[int] | None:
    """Return sizes where the arguments are some: ``(2, 3)`` or one `Size`."""
    if not args:
        return (0,)
    if len(args) == 1 and isinstance(args[0], Size):
        return args[0]
    try:
        sizes = [operator.index(arg) for arg in args if not isinstance(arg, (bool, Tensor))]
    except TypeError:
        return None
    return sizes if len(sizes) == len(args) else None


def _of_data(data: Any, dtype: Any, place: Any, any_dtype: bool) -> Tensor:
    if isinstance(data, Tensor):
        if not any_dtype and (data.dtype is not dtype or data.device.type != place.type):
            raise TypeError(
                f"expected a tensor of dtype {dtype} on {place.type}, got {data.dtype} on "
                f"{data.device}"
            )
        return data.view_as(data)
    if isinstance(data, UntypedStorage):
        return data._elements(dtype)
    if hasattr(data, "_untyped_storage"):
        if data.dtype is not dtype:
            raise TypeError(f"expected a storage of dtype {dtype}, got {data.dtype}")
        return data._untyped_storage._elements(dtype)
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__") or isinstance(data, dict):
        raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    if isinstance(data, range):
        data = list(data)
    return _C.tensor(data, dtype=dtype, device=place)


def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Make a tensor of the dtype of this one, on its device, as its class's constructor does.

    Args:
        args: sizes, or one tensor, storage or sequence of data.
        kwargs: `device`, of the same type as this tensor's.

    Returns:
        A new tensor; one of given sizes is not initialised. `new_empty` and `new_tensor` say
        which of both is meant.

    Example:
        >>> torch.tensor([1, 2]).new([3.5, 4])
        tensor([3, 4])
    """
    return legacy_tensor(args, kwargs, self.dtype, self.device)


def set_default_tensor_type(t: Any) -> None:
    """Set the dtype of new floating-point tensors, and their device, by a class for one dtype.

    `set_default_dtype` and `set_default_device` say the same in two words.

    Args:
        t: a class such as `torch.DoubleTensor`, or its name.

    Example:
        >>> torch.set_default_tensor_type(torch.DoubleTensor)
        >>> torch.tensor(0.5).dtype
        torch.float64
        >>> torch.set_default_tensor_type("torch.FloatTensor")
    """
    global _moved
    kind = _named(t) if isinstance(t, str) else t
    if not isinstance(kind, tensortype):
        raise TypeError(f"invalid type object: expected a class for one dtype, got {t!r}")
    if not kind.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if kind.is_cuda and not _cuda_is_available():
        raise TypeError(f"type torch.cuda.{kind.__name__} not available: there is no CUDA device")
    _C.set_default_dtype(kind.dtype)
    if kind.is_cuda or _moved:
        set_default_device(kind.device_type)
        _moved = kind.is_cuda


_moved = False


def _named(name: str) -> tensortype:
    module, _, last = name.rpartition(".")
    places = {"torch": "cpu", "tapegrad": "cpu", "torch.cuda": "cuda", "tapegrad.cuda": "cuda"}
    if module not in places or last.removesuffix("Tensor") not in DTYPES:
        raise TypeError(f"invalid type: {name!r}; expected a name such as 'torch.FloatTensor'")
    return tensor_type(last, places[module])
