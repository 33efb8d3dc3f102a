"""Classes for one dtype, `torch.sparse.FloatTensor` and its relatives."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._typed import DTYPES
from tapegrad._types import sparse_coo
from tapegrad.sparse._construct import sparse_coo_tensor

__all__ = ["dtype_named", "tensor_type"]


class _sparsetype(type):
    """The class of `torch.sparse.FloatTensor` and its relatives."""

    dtype: Any
    layout = sparse_coo
    is_sparse = True
    is_cuda = False

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance.layout is sparse_coo
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a tensor of sizes, or of indices, values and perhaps a size."""
        if kwargs:
            raise TypeError(f"new() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if not args:
            args = ((0,),)
        if all(isinstance(arg, int) for arg in args):
            return sparse_coo_tensor(args, dtype=cls.dtype)
        if len(args) == 1 and isinstance(args[0], tuple | list):
            return sparse_coo_tensor(args[0], dtype=cls.dtype)
        if len(args) not in (2, 3) or not all(isinstance(arg, Tensor) for arg in args[:2]):
            raise TypeError(
                "new() received an invalid combination of arguments; expected indices, values and "
                "a size"
            )
        indices, values = args[:2]
        if indices.dtype is not _C.int64:
            raise TypeError(f"expected torch.LongTensor as the indices, got {indices.type()}")
        if values.dtype is not cls.dtype:
            raise TypeError(f"expected values of {cls.dtype}, got {values.dtype}")
        return sparse_coo_tensor(indices, values, args[2] if len(args) == 3 else None)


_TYPES: dict[str, Any] = {}


def tensor_type(name: str) -> Any:
    """Return the class of a name such as ``FloatTensor``; there is one of each."""
    if name not in _TYPES:
        _TYPES[name] = _sparsetype(name, (), {"__module__": "torch.sparse"})
        type.__setattr__(_TYPES[name], "dtype", DTYPES[name.removesuffix("Tensor")])
    return _TYPES[name]


def dtype_named(kind: Any) -> Any:
    """Return the dtype that a class or its name stands for."""
    if isinstance(kind, _sparsetype):
        return kind.dtype
    name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
    module, _, last = name.rpartition(".")
    if module not in ("torch.sparse", "torch") or last.removesuffix("Tensor") not in DTYPES:
        raise ValueError(f"type: invalid type: {name!r}; expected 'torch.sparse.FloatTensor'")
    return DTYPES[last.removesuffix("Tensor")]
