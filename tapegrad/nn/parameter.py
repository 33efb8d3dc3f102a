"""Tensors that a module owns: parameters, which it trains, and buffers, which it only keeps."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


class _ParameterType(type):
    """Makes tensors of other subclasses parameters too, once they carry the mark."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False)
        )


class Parameter(Tensor, metaclass=_ParameterType):
    """A tensor that becomes one of a module's parameters when it is assigned to the module.

    Args:
        data: the values, whose memory is shared; None stands for an empty tensor.
        requires_grad: whether gradients are recorded.

    Example:
        >>> torch.nn.Parameter(torch.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        """Make the parameter over the memory of data."""
        if data is None:
            data = _C.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter: expected a tensor or None as data, got {type(data).__name__}; "
                "call torch.as_tensor() first"
            )
        if type(data) in (Tensor, Parameter):
            return _C._make_subclass(cls, data.detach(), requires_grad)
        marked = _C._make_subclass(type(data), data.detach(), requires_grad)
        marked._is_param = True
        return marked

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        """Nothing is left to do: the native class makes the tensor whole."""

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + repr(self.detach().requires_grad_(self.requires_grad))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild_parameter, (type(self), self.detach(), self.requires_grad)


def _rebuild_parameter(cls: type, data: Tensor, requires_grad: bool) -> Any:
    """Make a parameter from what a pickle holds."""
    return _C._make_subclass(cls, data, requires_grad)


class _BufferType(type):
    """A buffer is any tensor that carries the mark."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls is Buffer
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_buffer", False)
        )


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that becomes one of a module's buffers when it is assigned to the module.

    Args:
        data: the values, whose memory is shared; None stands for an empty tensor.
        persistent: whether the buffer is part of the module's state_dict.

    Example:
        >>> module = torch.nn.Module()
        >>> module.steps = torch.nn.Buffer(torch.zeros(2))
        >>> list(module.state_dict())
        ['steps']
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        """Mark a tensor over the memory of data as a buffer."""
        if data is None:
            data = _C.empty(0)
        marked: Any = data.detach().requires_grad_(data.requires_grad)
        marked.persistent = persistent
        marked._is_buffer = True
        return marked


class UninitializedParameter(Parameter):
    """Refused: a parameter whose shape is settled by the first input."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse, and say what to do instead."""
        raise NotImplementedError(
            f"{cls.__name__}: lazy modules are not supported; give the layer its input size"
        )


class UninitializedBuffer(Buffer):
    """Refused: a buffer whose shape is settled by the first input."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse, and say what to do instead."""
        raise NotImplementedError(
            f"{cls.__name__}: lazy modules are not supported; give the layer its input size"
        )
