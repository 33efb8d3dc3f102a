"""Which modules inside of a model are wrapped."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from tapegrad.nn.modules.attention import MultiheadAttention
from tapegrad.nn.modules.container import ModuleDict, ModuleList
from tapegrad.nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "apply_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


_EXCLUDED: set[type[Module]] = {ModuleList, ModuleDict}
_LEAVES: set[type[Module]] = {MultiheadAttention}


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: every module is wrapped."""
    return True


class ModuleWrapPolicy:
    """Modules of some classes are wrapped.

    Args:
        module_classes: the classes.

    Example:
        >>> policy = torch.distributed.fsdp.wrap.ModuleWrapPolicy({torch.nn.Linear})
        >>> policy(torch.nn.Linear(2, 1), recurse=False)
        True
    """

    def __init__(self, module_classes: Any) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Return whether a module, or something inside of it, is wrapped."""
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """Modules that a function chooses are wrapped.

    Args:
        lambda_fn: called with a module; returns a bool, or arguments for the wrapper.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        """Return whether a module, or something inside of it, is wrapped."""
        return True if recurse else self._lambda_fn(module)


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Return whether a function chooses a module.

    Args:
        module: the module.
        recurse: whether the question is about what is inside of it.
        nonwrapped_numel: the number of parameters that are not wrapped yet.
        lambda_fn: the function.
    """
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Return whether a module is a layer of a transformer.

    Args:
        module: the module.
        recurse: whether the question is about what is inside of it.
        nonwrapped_numel: the number of parameters that are not wrapped yet.
        transformer_layer_cls: the classes of layers.
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether a module has enough parameters.

    Args:
        module: the module.
        recurse: whether the question is about what is inside of it.
        nonwrapped_numel: the number of parameters that are not wrapped yet.
        min_num_params: how many are enough.
        force_leaf_modules: classes whose inside is left alone.
        exclude_wrap_modules: classes that are not wrapped.
    """
    leaves = _LEAVES if force_leaf_modules is None else force_leaf_modules
    excluded = _EXCLUDED if exclude_wrap_modules is None else exclude_wrap_modules
    is_large = nonwrapped_numel >= min_num_params
    if recurse:
        return is_large and not isinstance(module, tuple(leaves))
    return is_large and not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = _EXCLUDED  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = _LEAVES  # type: ignore[attr-defined]

_wrapper: list[tuple[Callable[..., Module], dict[str, Any]]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let `wrap` wrap modules, inside a block.

    Args:
        wrapper_cls: the wrapper.
        **wrapper_kwargs: its arguments.
    """
    _wrapper.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapper.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return a module wrapped inside of `enable_wrap`, and as it is elsewhere.

    Args:
        module: the module.
        **wrap_overrides: further arguments of the wrapper.
    """
    if not _wrapper:
        return module
    wrapper, kwargs = _wrapper[-1]
    return wrapper(module, **{**kwargs, **wrap_overrides})


def apply_policy(model: Module, policy: Callable[..., Any], wrapper: Callable[..., Module]) -> None:
    """Wrap what a policy chooses inside of a model, from the inside out."""
    done: dict[Module, Module] = {}

    def visit(module: Module) -> int:
        """Return how many parameters of a module have been wrapped."""
        wrapped = 0
        for name, child in list(module.named_children()):
            if child in done:
                setattr(module, name, done[child])
                continue
            total = sum(p.numel() for p in child.parameters())
            inside = visit(child) if policy(child, recurse=True, nonwrapped_numel=total) else 0
            choice = policy(child, recurse=False, nonwrapped_numel=total - inside)
            if choice:
                make = functools.partial(wrapper, **choice) if isinstance(choice, dict) else wrapper
                done[child] = make(child)
                setattr(module, name, done[child])
                inside = total
            wrapped += inside
        return wrapped

    visit(model)
