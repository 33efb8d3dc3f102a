"""Tensors that a module owns: parameters, which it trains, and buffers, which it only keeps."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


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
        as_parameter = getattr(type(data), "_as_parameter", None)
        if as_parameter is not None:  # a DTensor
            return as_parameter(data, requires_grad)
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
        made = _rebuild_parameter, (type(self), self.detach(), self.requires_grad)
        return (*made, self.__dict__) if self.__dict__ else made


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


# What may be asked of a tensor that has no shape yet.
_ALLOWED = {
    *("bfloat16", "cpu", "cuda", "detach", "double", "float", "half", "is_complex"),
    *("is_floating_point", "materialize", "requires_grad_", "to"),
}
_OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul"),
    *("iadd", "isub", "imul", "itruediv", "neg", "abs", "getitem", "setitem", "len", "iter"),
)


class UninitializedTensorMixin:
    """A tensor whose shape is settled by the first input of a lazy module.

    It has a dtype and a device. Its methods and operators raise; a function that is handed one
    sees an empty tensor.
    """

    cls_to_become: type = Tensor
    data: Any
    dtype: Any
    device: Any
    requires_grad: bool

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in _ALLOWED:
            if name == "shape":
                raise RuntimeError(
                    "Can't access the shape of an uninitialized parameter or buffer. This error "
                    "usually happens in `load_state_dict` when trying to load an uninitialized "
                    "parameter into an initialized one. Call `forward` to initialize the "
                    "parameters before accessing their attributes."
                )
            if callable(getattr(Tensor, name, None)):
                _refuse_uninitialized(name)
        return super().__getattribute__(name)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary tensor of a shape, with unspecified values.

        Args:
            shape: the shape.
            device: where it is; where this one is if None.
            dtype: its dtype; that of this one if None.

        Example:
            >>> weight = torch.nn.UninitializedParameter()
            >>> weight.materialize((2, 3))
            >>> type(weight).__name__, weight.shape
            ('Parameter', torch.Size([2, 3]))
        """
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.data = _C.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Change dtype or device in place, so that the module keeps the same object."""
        self.data = self.data.to(*args, **kwargs)
        return self

    def detach(self) -> Any:
        """Return itself: there is nothing to detach."""
        return self

    def half(self) -> Any:
        """As to(float16)."""
        return self.to(_C.float16)

    def float(self) -> Any:
        """As to(float32)."""
        return self.to(_C.float32)

    def double(self) -> Any:
        """As to(float64)."""
        return self.to(_C.float64)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            made: Any = type(self)
            memo[id(self)] = made(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.device, self.dtype)


def _refuse_uninitialized(name: str) -> Any:
    raise ValueError(
        f"Attempted to use an uninitialized parameter in {name}. This error happens when you are "
        "using a `LazyModule` or explicitly manipulating `torch.nn.parameter."
        "UninitializedParameter` objects. When using LazyModules Call `forward` with a dummy batch "
        "to initialize the parameters before calling torch functions"
    )


def _refusal(name: str) -> Any:
    return lambda self, *args: _refuse_uninitialized(name)


for _operator in _OPERATORS:
    setattr(UninitializedTensorMixin, f"__{_operator}__", _refusal(f"__{_operator}__"))


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is settled by the first input of a lazy module.

    Args:
        requires_grad: whether gradients are recorded.
        device: where it is to be.
        dtype: its dtype to be; the default dtype if None.

    Example:
        >>> torch.nn.UninitializedParameter()
        <UninitializedParameter>
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        """Make the parameter, without a shape."""
        return _C._make_subclass(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Nothing is left to do: the native class makes the tensor whole."""


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer whose shape is settled by the first input of a lazy module.

    Args:
        requires_grad: whether gradients are recorded.
        device: where it is to be.
        dtype: its dtype to be; the default dtype if None.
        persistent: whether it is part of the module's state_dict.

    Example:
        >>> torch.nn.UninitializedBuffer()
        <UninitializedBuffer>
    """

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        """Make the buffer, without a shape."""
        made = _C._make_subclass(cls, _C.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made

    def __init__(
        self,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> None:
        """Nothing is left to do: the native class makes the tensor whole."""


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)
