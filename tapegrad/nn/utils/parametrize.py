"""Tensors of a module as functions of other tensors.

A parametrized tensor is a property of a class of the module's own, `Parametrized...`, which
computes it from what it was made of each time it is read. A class is never changed once made: a
module gets a new one when its set of parametrized tensors changes, so copies that share a class
stay right.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.modules.container import ModuleDict, ModuleList
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_caching_depth = 0
_cache: dict[tuple[int, str], tuple[Any, Any]] = {}  # with the module, whose id is its own then


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrized tensor once at most while the block runs.

    Example:
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
        >>> with torch.nn.utils.parametrize.cached():
        ...     layer.weight is layer.weight
        True
    """
    global _caching_depth
    _caching_depth += 1
    try:
        yield
    finally:
        _caching_depth -= 1
        if not _caching_depth:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, and what they compute it from.

    That is `original`, or `original0`, `original1`, ... where the first one takes several tensors.

    Args:
        modules: the parametrizations.
        original: the tensor; it goes backwards through every `right_inverse` there is.
        unsafe: whether shape and dtype may change, which is not checked then.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            value: Any = original
            for module in reversed(modules):
                value = _inverted(module, value)
        if not isinstance(value, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = len(value) if isinstance(value, Sequence) else 1
        if isinstance(value, Tensor):
            if value.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {value.dtype}"
                )
            original.data = value.detach()
            _register(self, "original", original)
        else:
            for place, part in enumerate(value):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {place} of the sequence with type "
                        f"{type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, requires_grad=original.requires_grad)
                _register(self, f"original{place}", part)
        if not unsafe:
            _expect_alike(self(), shape, dtype)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{place}") for place in range(self.ntensors)]

    def forward(self) -> Any:
        """Compute the tensor."""
        value = self[0](*self._originals())
        for place in range(1, len(self)):
            value = self[place](value)
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Change what the tensor is computed from, so that it becomes a given value.

        Args:
            value: the tensor to be.
        """
        with no_grad():
            parts: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                parts = module.right_inverse(parts)
            if self.is_tensor:
                if not isinstance(parts, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(parts).__name__}"
                    )
                parts = [parts]
            elif not isinstance(parts, Sequence) or len(parts) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of {self.ntensors} tensors. Got "
                    f"{type(parts).__name__}."
                )
            for place, (own, part) in enumerate(zip(self._originals(), parts, strict=True)):
                if own.dtype != part.dtype:
                    raise ValueError(
                        f"Tensor {place} returned by `right_inverse` has dtype {part.dtype} while "
                        f"the original has dtype {own.dtype}"
                    )
                own.data = part.detach()


def _inverted(module: Module, value: Any) -> Any:
    """Apply a right inverse where there is one."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _expect_alike(value: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    if value.dtype != dtype:
        raise ValueError(
            "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` "
            f"flag is enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: {value.dtype}"
        )
    if value.shape != shape:
        raise ValueError(
            "Registering a parametrization may not change the shape of the tensor, unless `unsafe` "
            f"flag is enabled.\nunparametrized shape: {shape}\nparametrized shape: {value.shape}"
        )


# ---- classes


def _property(name: str) -> property:
    def get(module: Any) -> Any:
        parametrization = module.parametrizations[name]
        if not _caching_depth:
            return parametrization()
        key = (id(module), name)
        if key not in _cache:
            _cache[key] = module, parametrization()
        return _cache[key][1]

    def set_(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(get, set_)


def _deepcopy(module: Any, memo: dict[int, Any]) -> Any:
    """Copy the attributes, and share the class."""
    if id(module) in memo:
        return memo[id(module)]
    replica = module.__new__(type(module))
    memo[id(module)] = replica
    replica.__dict__.update(copy.deepcopy(module.__dict__, memo))
    return replica


def _refuse_pickling(module: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def _set_class(module: Module, names: Sequence[str]) -> None:
    """Give a module a class with properties of these names, or its own class back."""
    base = type_before_parametrizations(module)
    if not names:
        module.__class__ = base
        return
    members: dict[str, Any] = {name: _property(name) for name in names}
    members["__getstate__"] = _refuse_pickling
    members["_parametrized_base"] = base
    if not hasattr(base, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members)


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before any of its tensors was parametrized.

    Example:
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
        >>> torch.nn.utils.parametrize.type_before_parametrizations(layer).__name__
        'Linear'
    """
    return vars(type(module)).get("_parametrized_base", type(module))


# ---- registration


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module a function of another tensor.

    Args:
        module: the module.
        tensor_name: the name of the parameter or buffer.
        parametrization: a module that computes it. Its `right_inverse`, if there is one, says
            what to compute a given value from, which may be several tensors.
        unsafe: whether shape and dtype may change, which is not checked then.

    Returns:
        The module.

    Example:
        >>> class Symmetric(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = torch.nn.Linear(3, 3)
        >>> parametrize = torch.nn.utils.parametrize
        >>> _ = parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> torch.equal(layer.weight, layer.weight.T)
        True
        >>> list(layer.state_dict())
        ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        found: Any = module.parametrizations[tensor_name]
        if not unsafe:
            value = getattr(module, tensor_name)
            _check_next(parametrization, value)
        found.append(parametrization)
        found.unsafe = found.unsafe or unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    names = list(module.parametrizations) if is_parametrized(module) else []
    if not names:
        module.parametrizations = ModuleDict()
    _set_class(module, [*names, tensor_name])
    module.parametrizations[tensor_name] = made
    return module


def _check_next(parametrization: Module, value: Tensor) -> None:
    """Check one that follows others: from a tensor to a tensor like it, in both directions."""
    result = parametrization(value)
    _expect_alike(result, value.shape, value.dtype)
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    if back.dtype != value.dtype or back.shape != value.shape:
        raise ValueError(
            "The tensor returned by parametrization.right_inverse must have the same shape and "
            f"dtype as the tensor, unless `unsafe` flag is enabled.\nunparametrized: {value.shape} "
            f"{value.dtype}\nreturned: {back.shape} {back.dtype}"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module, or any, is parametrized.

    Args:
        module: the module.
        tensor_name: the name of the tensor; None asks for any.

    Example:
        >>> torch.nn.utils.parametrize.is_parametrized(torch.nn.Linear(2, 2))
        False
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor a plain one again.

    Args:
        module: the module.
        tensor_name: the name of the tensor.
        leave_parametrized: whether it keeps the value it has now; False goes back to `original`.

    Returns:
        The module.

    Example:
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
        >>> _ = torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        >>> list(layer.state_dict())
        ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found: Any = module.parametrizations[tensor_name]
    if not found.is_tensor and not leave_parametrized:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    first = found._originals()[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if found.is_tensor:
            first.data = value  # The parameter stays the object that optimizers know.
        else:
            is_trained = any(isinstance(own, Parameter) for own in found._originals())
            first = Parameter(value, first.requires_grad) if is_trained else value
    del module.parametrizations[tensor_name]
    names = list(module.parametrizations)
    if not names:
        del module.parametrizations
    _set_class(module, names)
    _register(module, tensor_name, first)
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another, and what they compute from.

    Args:
        from_module: the module whose tensors are parametrized.
        to_module: the other; a tensor that it has not is made.
        tensor_name: the name of one tensor; None takes all.

    Returns:
        The other module.
    """
    if not is_parametrized(from_module):
        return to_module
    if tensor_name is not None and not is_parametrized(from_module, tensor_name):
        raise ValueError(
            f"transfer_parametrizations_and_params: {from_module} does not have a parametrization "
            f"on {tensor_name}"
        )
    all_names = list(from_module.parametrizations)
    for name in all_names if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            value = getattr(from_module, name)
            setattr(to_module, name, Parameter(value.detach().clone(), value.requires_grad))
        source: Any = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target: Any = to_module.parametrizations[name]
        for place, own in enumerate(source._originals()):
            setattr(target, "original" if source.is_tensor else f"original{place}", own)
    return to_module
