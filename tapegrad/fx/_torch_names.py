"""The names under which programs know functions, and the arguments that a graph shows for them.

Generated code calls functions by their public names. Functions of `nn.functional` appear with all
their arguments, those without a default by position and the others by name, so that whoever reads
``node.kwargs["p"]`` finds it however the program wrote the call; those that PyTorch has in C++
appear as they were called.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import FunctionType, MethodDescriptorType, ModuleType
from typing import Any

__all__ = ["arguments_of", "name_of", "native_functions", "own_functions", "short_name_of"]

# Functions of nn.functional whose calls are kept as they were written.
_AS_WRITTEN = frozenset(
    {
        *("adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear"),
        *("celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity"),
        *("elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid"),
        *("native_channel_shuffle", "one_hot", "pairwise_distance", "pdist", "pixel_shuffle"),
        *("pixel_unshuffle", "prelu", "relu_", "rrelu_", "scaled_dot_product_attention"),
        *("selu_", "softplus", "softshrink", "threshold_"),
    }
)
_TORCH_IN_FULL = ("cdist", "norm", "stft", "tensordot")

# Parameters of functions whose own signature does not tell them.
_SWITCH = ("relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "selu")
_PARAMETERS: dict[str, Callable[..., Any]] = {
    **{f"torch.nn.functional.{name}": lambda input, inplace=False: None for name in _SWITCH},
    "torch.nn.functional.celu": lambda input, alpha=1.0, inplace=False: None,
    "torch.nn.functional.elu": lambda input, alpha=1.0, inplace=False: None,
    "torch.nn.functional.leaky_relu": lambda input, negative_slope=0.01, inplace=False: None,
    "torch.split": lambda tensor, split_size_or_sections, dim=0: None,
}

# Functions that take what is no tensor, and are computed while a graph is made.
_NEVER_RECORDED = frozenset(
    {
        *("is_tensor", "is_storage", "typename", "vmap", "cond", "compile", "from_file"),
        *("get_default_device", "get_device_module", "init_num_threads", "printoptions"),
        *("assert_int_or_pair", "boolean_dispatch", "broadcast_shapes"),
    }
)

_RECORDED = ("_assert", "is_nonzero")


def _namespaces() -> Iterator[tuple[str, ModuleType]]:
    import tapegrad
    from tapegrad import fft, linalg, nn, special

    yield "torch", tapegrad
    yield "torch.nn.functional", nn.functional
    yield "torch.linalg", linalg
    yield "torch.fft", fft
    yield "torch.special", special


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type | ModuleType)


@lru_cache(1)
def _names() -> dict[int, str]:
    """Return the public name of each function of the package, by its id."""
    found: dict[int, str] = {}
    spaces = dict(_namespaces())
    for name, value in vars(spaces["torch.nn.functional"]).items():
        own = isinstance(value, FunctionType) and name not in _AS_WRITTEN
        if name == "linear" or (own and not name.startswith("_")):
            found.setdefault(id(value), f"torch.nn.functional.{name}")
    for space, module in spaces.items():
        for name, value in vars(module).items():
            if _is_function(value) and (name == "_assert" or not name.startswith("_")):
                known = found.setdefault(id(value), f"{space}.{name}")
                is_own_name = getattr(value, "__name__", "") == name
                if is_own_name and known.rpartition(".")[0] == space:
                    found[id(value)] = f"{space}.{name}"  # rather than an alias
    return found


def name_of(function: Any) -> str | None:
    """Return the public name of a function of the package, as "torch.relu", or None."""
    return _names().get(id(function))


def short_name_of(function: Any) -> str:
    """Return what nodes that call a function are named after."""
    name = name_of(function)
    if name is None:
        return str(getattr(function, "__name__", type(function).__name__))
    space, _, short = name.rpartition(".")
    prefix = space.removeprefix("torch.")
    return f"{prefix}_{short}" if prefix in ("linalg", "fft", "special") else short


def own_functions() -> Iterator[FunctionType]:
    """Yield the functions of the package that are written in Python and take tensors."""
    seen: set[int] = set()
    for _, module in _namespaces():
        for name, value in vars(module).items():
            public = name in _RECORDED or not name.startswith(("_", "set_", "is_", "use_", "are_"))
            never = name in _NEVER_RECORDED and module.__name__ == "tapegrad"
            if isinstance(value, FunctionType) and public and not never:
                inside = value.__module__.startswith("tapegrad.")
                if inside and id(value) not in seen:
                    seen.add(id(value))
                    yield value


@lru_cache(1)
def native_functions() -> dict[int, Any]:
    """Return native functions that do not know proxies of what they take, by their ids.

    Those of lists of tensors iterate a proxy of a list, and some are not known by their name.
    """
    spaces = dict(_namespaces())
    torch, special = spaces["torch"], spaces["torch.special"]
    found = [torch.cat, torch.concat, torch.concatenate, torch.stack]
    found += [f for f in vars(torch).values() if isinstance(f, MethodDescriptorType)]
    known = set(map(id, vars(torch).values()))
    found += [
        f
        for f in vars(special).values()
        if _is_function(f) and not isinstance(f, FunctionType) and id(f) not in known
    ]
    return {id(f): f for f in found if callable(f)}


@lru_cache(1024)
def _signature(name: str, function: Any) -> inspect.Signature | None:
    if name in _PARAMETERS:
        return inspect.signature(_PARAMETERS[name])
    space, _, short = name.rpartition(".")
    in_full = space == "torch.nn.functional" and short not in _AS_WRITTEN
    if not in_full and not (space == "torch" and short in _TORCH_IN_FULL):
        return None
    try:
        return inspect.signature(function)
    except ValueError:
        return None  # native, and as it was written


def arguments_of(
    function: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call as a graph shows them.

    Args:
        function: what was called.
        original: the function whose signature tells the parameters.
        args, kwargs: what it was called with.
    """
    name = name_of(function)
    signature = None if name is None else _signature(name, original)
    if signature is None:
        return args, kwargs
    parameters = signature.parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return args, kwargs
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    return (
        tuple(given[p.name] for p in parameters if p.default is p.empty),
        {p.name: given[p.name] for p in parameters if p.default is not p.empty},
    )
