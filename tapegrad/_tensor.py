# mypy: disable-error-code="method-assign, assignment"
"""What the Tensor class has in Python: printing, iteration, the legacy constructor."""

from collections.abc import Iterator
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._tensor_str import tensor_str
from tapegrad._typed import legacy_tensor, new
from tapegrad.storage import storage, tensor_storage_type

__all__ = ["construct"]


def construct(cls: type, *args: Any, **kwargs: Any) -> Tensor:
    """Make a tensor of a class from PyTorch's legacy constructor arguments.

    ``Tensor(2, 3)`` is uninitialised, ``Tensor([1, 2])`` holds the data as the default dtype.
    """
    if cls is not Tensor and args and isinstance(args[0], Tensor):
        data = args[0]
    else:
        data = legacy_tensor(
            args, kwargs, _C.get_default_dtype(), _C._get_default_device(), any_dtype=True
        )
    return data if cls is Tensor else _C._make_subclass(cls, data, False)


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    return tensor_str(self)


def _format(self: Tensor, spec: str) -> str:
    if self.dim() == 0:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def _contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, (Tensor, int, float, bool, complex)):
        return bool((self == element).any())
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


def _reversed(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def _dir(self: Tensor) -> list[str]:
    return sorted({*dir(type(self)), *getattr(self, "__dict__", {})})


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    from tapegrad.compat import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(
            f"__array_namespace__: expected an api_version up to {array_api.__array_api_version__}"
            f", got {api_version!r}"
        )
    return array_api


def _make_wrapper_subclass(*args: Any, **kwargs: Any) -> Tensor:
    """Refuse: a tensor without memory of its own computes by ``__torch_dispatch__``."""
    raise NotImplementedError(
        "_make_wrapper_subclass: subclasses that compute by __torch_dispatch__ are not supported; "
        "keep the tensors in an object of your own, or in a class with __torch_function__"
    )


def install() -> None:
    """Give the native class its Python methods."""
    Tensor.__iter__ = _iterate
    Tensor.__repr__ = _repr
    Tensor.__format__ = _format
    Tensor.__contains__ = _contains
    Tensor.__reversed__ = _reversed
    Tensor.__dir__ = _dir
    Tensor.__array_namespace__ = _array_namespace
    Tensor._make_subclass = staticmethod(_C._make_subclass)
    Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
    Tensor.new = new
    Tensor.storage = storage
    Tensor._typed_storage = storage
    Tensor.storage_type = tensor_storage_type
    Tensor.__module__ = "tapegrad"
