"""Names of PyTorch's op registry: `torch.ops.aten.add.Tensor` is a function of the library.

An op is there if the library has a function or a Tensor method of its name, or `_aten` has one.
All overloads of an op are that function, which tells its arguments apart itself; overloads that
write into ``out`` take it by name.
"""

import contextlib
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._aten import ATEN
from tapegrad._C import Tensor
from tapegrad._composed import FUNCTIONS
from tapegrad._foreach import foreach
from tapegrad.nn import functional
from tapegrad.nn.functional import _by_torch_order

__all__ = ["CUSTOM_OPS", "Namespace"]

# The names that overloads have.
# fmt: off
_OVERLOADS = frozenset((
    "IntList", "IntList_out", "List", "List_out", "Scalar", "ScalarList", "ScalarList_out",
    "Scalar_Scalar", "Scalar_Tensor", "Scalar_Tensor_out", "Scalar_mode", "Scalar_mode_out",
    "Scalar_out", "Tensor", "TensorList", "Tensor_Scalar", "Tensor_Scalar_out", "Tensor_Tensor",
    "Tensor_Tensor_out", "Tensor_float", "Tensor_mode", "Tensor_out", "all_out", "bool",
    "correction", "correction_out", "decimals", "decimals_out", "default", "dim", "dim_IntList",
    "dim_IntList_out", "dim_int", "dim_max", "dim_min", "dim_values", "dims", "dims_out",
    "dtype", "dtype_out", "dx", "float", "float_Tensor", "float_float", "float_int",
    "generator", "generator_out", "indexing", "indices", "input", "int", "int_Scalar",
    "int_Tensor", "int_float", "int_out", "low", "other", "out", "out_mode", "padding",
    "padding_idx", "reduce", "reduce_out", "scalar", "sections", "self", "self_Tensor",
    "self_int", "sizes", "src", "src_out", "stable", "stable_out", "start", "start_out",
    "start_step", "two", "value", "value_out", "value_reduce", "value_reduce_out", "values",
    "values_stable", "x",
))
# fmt: on
# What is no op although it is a function: settings, generators, questions about the library.
_SETTINGS = ("set_", "get_", "is_autocast", "autocast_", "_cuda", "live_", "install_")


# What torch.library.custom_op made, by names such as "namespace::name".
CUSTOM_OPS: dict[str, Callable[..., Any]] = {}


class Namespace:
    """The ops of one registry, such as `torch.ops.aten`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, op_name: str) -> "Packet":
        found = None if op_name.startswith("__") else self._find(op_name)
        if found is None:
            raise AttributeError(
                f"'_OpNamespace' '{self.name}' object has no attribute '{op_name}'"
            )
        packet = Packet(self.name, op_name, found)
        if self.name == "aten":  # others may be defined anew
            setattr(self, op_name, packet)
        return packet

    def _find(self, op_name: str) -> Callable[..., Any] | None:
        if self.name != "aten":
            return CUSTOM_OPS.get(f"{self.name}::{op_name}")
        if op_name.startswith(_SETTINGS):
            return None
        for holder in (ATEN, _by_torch_order, _C, FUNCTIONS, functional, Tensor):
            found = (
                holder.get(op_name) if isinstance(holder, dict) else getattr(holder, op_name, None)
            )
            if callable(found) and not isinstance(found, type):
                return found  # type: ignore[no-any-return]
        if op_name.startswith("_foreach_"):
            with contextlib.suppress(AttributeError):
                return foreach(op_name.removeprefix("_foreach_"))
        return None

    def __repr__(self) -> str:
        return f"<namespace torch.ops.{self.name}>"


class Packet:
    """An op with all its overloads."""

    def __init__(self, namespace: str, name: str, function: Callable[..., Any]) -> None:
        self._qualified_op_name = f"{namespace}::{name}"
        self.__name__ = name
        self.__doc__ = function.__doc__
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> "Overload":
        if overload not in _OVERLOADS:
            raise AttributeError(
                f"The underlying op of '{self!r}' has no overload name '{overload}'"
            )
        found = Overload(self, overload, self._function)
        setattr(self, overload, found)
        return found

    def __repr__(self) -> str:
        return self._qualified_op_name.replace("::", ".")


class Overload:
    """An op for one kind of arguments."""

    def __init__(self, packet: Packet, overload: str, function: Callable[..., Any]) -> None:
        self.overloadpacket = packet
        self._overloadname = overload
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__doc__ = packet.__doc__
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def name(self) -> str:
        """Return the name with namespace and overload, such as ``aten::add.Tensor``."""
        name = self.overloadpacket._qualified_op_name
        return name if self._overloadname == "default" else f"{name}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"{self.overloadpacket!r}.{self._overloadname}"
