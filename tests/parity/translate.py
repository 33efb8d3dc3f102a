"""Arguments and functions of PyTorch, made into those of the library under test.

Samples of PyTorch's op database hold PyTorch's tensors and name its functions. A tensor becomes one
with the same elements, strides and offset; a function becomes the one at the same path; a function
that the database itself defines is run with the other library in place of `torch`.
"""

import builtins
import types
from functools import cache, partial

import numpy as np
from library import torch

from parity.pytorch_ops import pytorch


class MissingName(Exception):
    """The library under test has no function of this name."""


def dtype_here(dtype):
    """Return the library's dtype of the name that PyTorch's has."""
    name = str(dtype).rpartition(".")[2]
    try:
        return getattr(torch, name)
    except AttributeError:
        raise MissingName(name) from None


MOST_DIMENSIONS = 64
# What NumPy has no dtype for goes through integers of the same size.
BITS = {"bfloat16": "int16", "complex32": "int32"}


def elements(flat):
    """Return a vector of the library with the elements of one of PyTorch's."""
    name = str(flat.dtype).rpartition(".")[2]
    if name in BITS:
        bits = flat.view(getattr(pytorch, BITS[name])).numpy().copy()
        return torch.from_numpy(bits).view(dtype_here(flat.dtype))
    dtype_here(flat.dtype)
    return torch.from_numpy(flat.numpy().copy())


def tensor_here(tensor):
    """Return a tensor with the elements and the geometry of one of PyTorch's."""
    if tensor.layout is not pytorch.strided or tensor.is_quantized or tensor.is_nested:
        raise MissingName(str(tensor.layout))
    if tensor.ndim > MOST_DIMENSIONS:
        raise MissingName(f"{tensor.ndim} dimensions")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if tensor.device.type == "meta":
        return torch.empty_strided(plain.shape, plain.stride(), dtype=dtype_here(plain.dtype),
                                   device="meta")  # fmt: skip
    # The whole storage, so that what lies beside the elements may be asked for, too.
    whole = plain.untyped_storage().nbytes() // plain.itemsize
    made = elements(plain.as_strided((whole,), (1,), 0))
    made = made.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
    return made.requires_grad_() if tensor.requires_grad else made


def here(value):
    """Return a value, containers included, with what is PyTorch's made the library's."""
    if isinstance(value, pytorch.Tensor):
        return tensor_here(value)
    if isinstance(value, pytorch.dtype):
        return dtype_here(value)
    if isinstance(value, pytorch.device):
        return torch.device(str(value))
    if isinstance(value, pytorch.Size):
        return torch.Size(value)
    if isinstance(value, pytorch.Generator):
        return torch.Generator().manual_seed(value.initial_seed())
    if isinstance(value, pytorch.memory_format | pytorch.layout):
        name = str(value).rpartition(".")[2]
        if not hasattr(torch, name):
            raise MissingName(name)
        return getattr(torch, name)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(map(here, value))
    if isinstance(value, list | tuple):
        return type(value)(map(here, value))
    if isinstance(value, dict):
        return {key: here(one) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(here(value.start), here(value.stop), here(value.step))
    if callable(value) and not isinstance(value, type):
        return function_here(value)
    return value


@cache
def paths():
    """Return the path of each function of PyTorch by its identity: names before methods."""
    found = {}
    modules = ("", "Tensor", "nn.functional", "linalg", "special", "fft", "masked", "ops.aten",
               "_C._nn", "_VF", "nn.init", "random", "signal.windows")  # fmt: skip
    for module in modules:
        owner = pytorch
        for part in module.split(".") if module else ():
            owner = getattr(owner, part)
        for name in dir(owner):
            value = getattr(owner, name, None)
            if callable(value):
                found.setdefault(id(value), f"{module}.{name}" if module else name)
    return found


def resolve_here(path):
    """Return the object at a path in the library."""
    found = torch
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except (AttributeError, ModuleNotFoundError) as error:
            raise MissingName(path) from error
    return found


def function_here(function):
    """Return the library's function for one of PyTorch, or of its op database."""
    if id(function) in paths():
        return resolve_here(paths()[id(function)])
    if isinstance(function, pytorch._ops.OpOverload | pytorch._ops.OpOverloadPacket):
        return resolve_here(f"ops.{function}")
    if isinstance(function, partial):
        return partial(
            function_here(function.func), *here(function.args), **here(function.keywords)
        )
    if isinstance(function, types.FunctionType):
        return rebuilt(function)
    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return function
    raise MissingName(repr(function))


_rebuilt = {}


def rebuilt(function):
    """Return a Python function whose globals name the library where they named PyTorch."""
    if id(function) in _rebuilt:
        return _rebuilt[id(function)][0]
    module = function.__module__ or ""
    if module.startswith("torch.") and not module.startswith("torch.testing._internal"):
        raise MissingName(f"{module}.{function.__qualname__}")
    names = {"__builtins__": builtins}
    closure = tuple(types.CellType(translated(c.cell_contents)) for c in function.__closure__ or ())
    made = types.FunctionType(function.__code__, names, function.__name__,
                              translated(function.__defaults__), closure or None)  # fmt: skip
    made.__kwdefaults__ = translated(function.__kwdefaults__)
    _rebuilt[id(function)] = made, function
    for name in all_names(function.__code__):
        if name in function.__globals__:
            names[name] = translated(function.__globals__[name])
    return made


def all_names(code):
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= all_names(constant)
    return names


def translated(value):
    """Return what stands for a value in a function of the database."""
    if value is pytorch:
        return torch
    if isinstance(value, types.ModuleType):
        if value.__name__.startswith("torch."):
            return resolve_here(value.__name__.removeprefix("torch."))
        return value
    try:
        return here(value)
    except MissingName:
        return value


def array_of(tensor):
    """Return the values of a tensor of either library as an array."""
    plain = tensor.detach().clone()
    name = str(plain.dtype).rpartition(".")[2]
    if name == "bfloat16":
        plain = plain.float()
    if name == "complex32":
        plain = plain.to(
            pytorch.complex64 if isinstance(plain, pytorch.Tensor) else torch.complex64
        )
    if isinstance(plain, pytorch.Tensor):
        plain = plain.resolve_conj().resolve_neg()
    return np.asarray(plain.numpy(force=True))
