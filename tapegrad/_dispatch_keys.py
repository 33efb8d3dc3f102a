"""Classes of `torch._C` that packages name; nothing dispatches by keys here."""

import enum
from collections.abc import Iterator

from tapegrad import _C

__all__ = ["DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet"]

_NAMES = (
    "Undefined CPU CUDA XPU MPS Meta Dense Sparse SparseCPU SparseCUDA SparseCsrCPU SparseCsrCUDA "
    "QuantizedCPU BackendSelect Python PythonDispatcher Functionalize ADInplaceOrView Conjugate "
    "Negative ZeroTensor Tracer AutogradOther AutogradFunctionality AutogradCPU AutogradCUDA "
    "AutogradXPU AutogradMeta AutocastCPU AutocastCUDA AutocastXPU AutocastMPS FuncTorchBatched "
    "FuncTorchGradWrapper FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode PreDispatch "
    "PythonTLSSnapshot Autograd CompositeImplicitAutograd CompositeExplicitAutograd"
)
DispatchKey = enum.Enum("DispatchKey", _NAMES)  # type: ignore[misc]
DispatchKey.__doc__ = "A place in PyTorch's list of what may run in place of an op."


class DispatchKeySet:
    """A set of keys.

    Args:
        keys: one, or several.
    """

    def __init__(self, *keys: DispatchKey) -> None:
        self._keys = frozenset(keys)

    def __or__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(*self._keys | other._keys)

    def __and__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(*self._keys & other._keys)

    def __sub__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(*self._keys - other._keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(sorted(self._keys, key=lambda key: int(key.value)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def add(self, key: DispatchKey) -> "DispatchKeySet":
        """Return the set with one more key."""
        return self | DispatchKeySet(key)

    def remove(self, key: DispatchKey) -> "DispatchKeySet":
        """Return the set without a key."""
        return self - DispatchKeySet(key)

    def has(self, key: DispatchKey) -> bool:
        """Return whether a key is in it."""
        return key in self._keys

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


class DisableTorchFunctionSubclass:
    """A context in which no ``__torch_function__`` is called."""

    def __enter__(self) -> None:
        self._before = _C._ask_nobody(True)

    def __exit__(self, *error: object) -> None:
        _C._ask_nobody(self._before)
