"""The base class of all layers and models.

A module keeps its parameters, buffers and submodules in three dicts; attribute access falls through
to them. How it is called is in `_calls`, what it saves and loads in `_state`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.modules._calls import Hooked
from tapegrad.nn.modules._hooks import (
    GLOBAL,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from tapegrad.nn.modules._state import _IncompatibleKeys as _IncompatibleKeys
from tapegrad.nn.parameter import Buffer, Parameter

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_Self = TypeVar("_Self", bound="Module")
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class Module(Hooked):
    """A part of a model: parameters, buffers, parts of its own, and a forward function.

    A subclass calls ``super().__init__()``, assigns its parts as attributes, and defines
    ``forward``.

    Example:
        >>> class Model(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.hidden = torch.nn.Linear(4, 8)
        ...         self.last = torch.nn.Linear(8, 2)
        ...
        ...     def forward(self, x):
        ...         return self.last(self.hidden(x).relu())
        >>> Model()(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    training: bool = True
    call_super_init: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make the empty module."""
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                    f"'{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but "
                    f"{len(args) + 1} were given"
                )
        attributes = self.__dict__
        attributes["training"] = True
        attributes["_parameters"] = {}
        attributes["_buffers"] = {}
        attributes["_non_persistent_buffers_set"] = set()
        attributes["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result of a call. Every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = cls.__init__
        # A constructor that classes share by a base without a public name is told as their own.
        if "__init__" not in cls.__dict__ and inherited.__qualname__.startswith("_"):
            own = FunctionType(
                inherited.__code__,
                inherited.__globals__,
                "__init__",
                inherited.__defaults__,
                inherited.__closure__,
            )
            update_wrapper(own, inherited)
            own.__kwdefaults__ = inherited.__kwdefaults__
            own.__qualname__ = f"{cls.__qualname__}.__init__"
            del own.__wrapped__  # type: ignore[attr-defined]
            cls.__init__ = own  # type: ignore[method-assign]

    # ---- parts

    def _expect_free_name(self, kind: str, name: Any, table: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def _expect_initialised(self, what: str) -> dict[str, Any]:
        attributes = self.__dict__
        if "_parameters" not in attributes:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        return attributes

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Give the module a buffer: state that is no parameter, such as a running mean.

        Args:
            name: the name, which is an attribute then.
            tensor: the buffer, or None for one that is absent.
            persistent: whether it is part of state_dict().
        """
        self._expect_initialised("buffer")
        self._expect_free_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (torch Tensor or "
                "None required)"
            )
        for hook in GLOBAL.buffer_registration.values():
            returned = hook(self, name, tensor)
            tensor = tensor if returned is None else returned
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Give the module a parameter.

        Args:
            name: the name, which is an attribute then.
            param: the parameter, or None for one that is absent.
        """
        self._expect_initialised("parameter")
        self._expect_free_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                "created explicitly; to express it as a function of another tensor, compute the "
                "value in forward()."
            )
        for hook in GLOBAL.parameter_registration.values():
            returned = hook(self, name, param)
            param = param if returned is None else returned
        self._parameters[name] = param

    def add_module(self, name: str, module: "Module | None") -> None:
        """Give the module a submodule.

        Args:
            name: the name, which is an attribute then.
            module: the submodule, or None for one that is absent.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._expect_free_name("module", name, self._modules)
        self._modules[name] = self._hooked_submodule(name, module)

    def register_module(self, name: str, module: "Module | None") -> None:
        """As add_module()."""
        self.add_module(name, module)

    def _hooked_submodule(self, name: str, module: "Module | None") -> "Module | None":
        for hook in GLOBAL.module_registration.values():
            returned = hook(self, name, module)
            module = module if returned is None else returned
        return module

    def get_submodule(self, target: str) -> "Module":
        """Return the submodule that a dotted name names; the module itself for ``""``."""
        module: Module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            found = getattr(module, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
            module = found
        return module

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put a module in the place that a dotted name names.

        Args:
            target: the dotted name.
            module: the module.
            strict: whether a module must be there already.
        """
        if target == "":
            raise ValueError("set_submodule: Cannot set the submodule without a target name")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter that a dotted name names."""
        found = self._get_attribute(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer that a dotted name names."""
        found = self._get_attribute(target)
        path, _, name = target.rpartition(".")
        if name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _get_attribute(self, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        return getattr(module, name)

    # ---- attributes

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        if "_parameters" in attributes:  # Not before __init__.
            if name in attributes["_parameters"]:
                return attributes["_parameters"][name]
            if name in attributes["_modules"]:
                return attributes["_modules"][name]
            if name in attributes["_buffers"]:
                return attributes["_buffers"][name]
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self
        )

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        is_tensor = isinstance(value, Tensor)
        if is_tensor and isinstance(value, Parameter):
            self._expect_initialised("parameters")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif name in attributes.get("_parameters", ()):
            _expect_none(value, f"parameter '{name}' (torch.nn.Parameter or None expected)")
            attributes["_parameters"][name] = None
        elif isinstance(value, Module):
            self._expect_initialised("module")
            self._forget(name, "_modules")
            attributes["_modules"][name] = self._hooked_submodule(name, value)
        elif name in attributes.get("_modules", ()):
            _expect_none(value, f"child module '{name}' (torch.nn.Module or None expected)")
            attributes["_modules"][name] = self._hooked_submodule(name, None)
        elif is_tensor and isinstance(value, Buffer):
            self._expect_initialised("buffer")
            self._forget(name, "_buffers")
            self.register_buffer(name, value, getattr(value, "persistent", True))
        elif name in attributes.get("_buffers", ()):
            if not is_tensor:
                expected = "torch.nn.Buffer, torch.Tensor or None expected"
                _expect_none(value, f"buffer '{name}' ({expected})")
            for hook in GLOBAL.buffer_registration.values():
                returned = hook(self, name, value)
                value = value if returned is None else returned
            attributes["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, kept: str) -> None:
        """Take a name out of all tables but one."""
        self.__dict__.pop(name, None)
        for table in ("_parameters", "_buffers", "_modules"):
            if table != kept:
                self.__dict__[table].pop(name, None)
        if kept != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names |= {*self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # ---- going through parts

    def _named_members(
        self,
        members: Callable[["Module"], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for module_prefix, module in modules:
            for name, member in members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{module_prefix}.{name}" if module_prefix else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Go through the parameters, each once; with recurse, those of all modules below too."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Go through the parameters with their dotted names.

        Args:
            prefix: put in front of every name.
            recurse: whether those of all modules below are among them.
            remove_duplicate: whether a shared parameter comes once only.
        """
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Go through the buffers, each once; with recurse, those of all modules below too."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Go through the buffers with their dotted names; arguments as of named_parameters()."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator["Module"]:
        """Go through the modules directly below, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """Go through the modules directly below with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator["Module"]:
        """Go through the module itself and all below it; by default each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set["Module"] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """Go through the module itself and all below it, with their dotted names.

        Args:
            memo: modules that are left out, and where those that come are added.
            prefix: the name of the module itself.
            remove_duplicate: whether a shared module comes once only.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def apply(self: _Self, fn: Callable[["Module"], None]) -> _Self:
        """Call a function with every module below and then with this one; return the module.

        Example:
            >>> def zero(module):
            ...     if isinstance(module, torch.nn.Linear):
            ...         torch.nn.init.zeros_(module.weight)
            >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2)).apply(zero)
            >>> model[0].weight.detach()
            tensor([[0., 0.],
                    [0., 0.]])
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes

    def train(self: _Self, mode: bool = True) -> _Self:
        """Switch the module and all below it to training, or with False to evaluation."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: _Self) -> _Self:
        """Switch the module and all below it to evaluation."""
        return self.train(False)

    def requires_grad_(self: _Self, requires_grad: bool = True) -> _Self:
        """Switch the recording of gradients of all parameters on or off."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or with set_to_none=False write zeros to them."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    # ---- dtypes and devices

    def _apply(self: _Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> _Self:
        """Put what a function returns in the place of every parameter, gradient and buffer."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            with no_grad():
                value = fn(parameter)
                grad = parameter.grad
                new_grad = None if grad is None else fn(grad)
            if value is parameter and new_grad is grad:
                continue
            requires_grad = grad is not None and grad.requires_grad
            if value is not parameter:
                parameter.grad = None
                parameter.data = value
            if new_grad is not None:
                parameter.grad = new_grad.detach().requires_grad_(requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def share_memory(self: _Self) -> _Self:
        """Move parameters, gradients and buffers to memory that processes share.

        Processes that are forked, or get the module as an argument or through a queue, then train
        the same parameters. See `torch.Tensor.share_memory_`.
        """
        return self._apply(lambda tensor: tensor.share_memory_())

    def _to_floating(self: _Self, dtype: Any) -> _Self:
        return self._apply(
            lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor
        )

    def float(self: _Self) -> _Self:
        """Convert all floating parameters and buffers to float32."""
        return self._to_floating(_C.float32)

    def double(self: _Self) -> _Self:
        """Convert all floating parameters and buffers to float64."""
        return self._to_floating(_C.float64)

    def half(self: _Self) -> _Self:
        """Convert all floating parameters and buffers to float16."""
        return self._to_floating(_C.float16)

    def bfloat16(self: _Self) -> _Self:
        """Convert all floating parameters and buffers to bfloat16."""
        return self._to_floating(_C.bfloat16)

    def type(self: _Self, dst_type: Any) -> _Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def cpu(self: _Self) -> _Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: _Self, device: Any = None) -> _Self:
        """Move all parameters and buffers to a CUDA device."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def to(self: _Self, *args: Any, **kwargs: Any) -> _Self:
        """Move the parameters and buffers to a device and convert those that are no integers.

        Called as ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(tensor)``. The module
        is changed in place.

        Args:
            device: where to.
            dtype: a floating or complex dtype.
            non_blocking: accepted; copies on the CPU are always blocking.
            memory_format: the order in memory of parameters and buffers of four dimensions, as
                `torch.channels_last`, or of five, as `torch.channels_last_3d`.

        Returns:
            The module.

        Example:
            >>> torch.nn.Linear(2, 2).to(torch.float64).weight.dtype
            torch.float64
        """
        device, dtype, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            wanted: dict[str, Any] = {}
            if device is not None:
                wanted["device"] = device
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                wanted["dtype"] = dtype
            if memory_format is not None and tensor.dim() in (4, 5):
                wanted["memory_format"] = memory_format
            return tensor.to(**wanted) if wanted else tensor

        return self._apply(convert)

    def to_empty(self: _Self, *, device: Any, recurse: bool = True) -> _Self:
        """Move the module to a device without its values."""
        return self._apply(lambda tensor: _C.empty_like(tensor, device=device), recurse)

    # ---- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what repr() shows of the module besides its parts. A subclass defines it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join([*extra_lines, *child_lines])
        return f"{self._get_name()}(\n  {body}\n)"


def _type_name(value: Any) -> str:
    """Return the name of a type; that of a tensor says its dtype, as PyTorch's legacy names do."""
    if isinstance(value, Tensor):
        return str(value.type())
    kind = type(value)
    prefix = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return prefix + kind.__qualname__


def _expect_none(value: Any, place: str) -> None:
    if value is not None:
        raise TypeError(f"cannot assign '{_type_name(value)}' as {place}")


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return device, dtype and memory format of the forms in which to() is called."""
    unknown = kwargs.keys() - {"device", "dtype", "tensor", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise TypeError(f"to() got an unexpected keyword argument '{unknown.pop()}'")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    tensor = kwargs.get("tensor")
    for arg in args:
        if isinstance(arg, Tensor):
            tensor = arg
        elif isinstance(arg, (_C.dtype, type)):
            dtype = arg
        elif isinstance(arg, bool) or arg is None:  # non_blocking, or left out
            continue
        else:
            device = arg
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if isinstance(dtype, type):  # float stands for float64, as everywhere.
        dtype = _C.empty(0, dtype=dtype).dtype  # type: ignore[arg-type]
    return device, dtype, kwargs.get("memory_format")


def _parse_to_call(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return device, dtype, whether not to wait, and memory format of a call of to()."""
    device, dtype, memory_format = _parse_to(args, kwargs)
    device = device if device is None else _C.empty(0, device=device).device
    waits_not = next((x for x in args if isinstance(x, bool)), kwargs.get("non_blocking", False))
    return device, dtype, waits_not, memory_format


# Where PyTorch has its parser, which packages call.
setattr(_C, "_nn", SimpleNamespace(_parse_to=_parse_to_call))  # noqa: B010
