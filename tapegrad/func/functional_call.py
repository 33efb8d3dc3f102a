"""Calling a module with other parameters than its own."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["functional_call", "stack_module_state"]

_ABSENT: Any = object()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with some of its parameters and buffers replaced, for this call only.

    Args:
        module: the module.
        parameter_and_buffer_dicts: tensors by their dotted names, or several such mappings. If the
            module puts other tensors in their places, as running statistics may, a single mapping
            is given those; the module gets back its own. A name the module does not have becomes
            an attribute during the call.
        args: the positional arguments, a tuple, or a single one.
        kwargs: the keyword arguments.
        tie_weights: whether replacing one name of a shared parameter replaces all of its names.
        strict: whether names that are missing or unknown are an error.

    Returns:
        What the module returns.
    """
    mappings = (
        (parameter_and_buffer_dicts,)
        if isinstance(parameter_and_buffer_dicts, Mapping)
        else tuple(parameter_and_buffer_dicts)
    )
    replacements: dict[str, Tensor] = {}
    for mapping in mappings:
        for name in mapping:
            if name in replacements:
                raise ValueError(
                    f"functional_call: '{name}' appears in multiple dictionaries; behaviour of "
                    "functional call is ambiguous"
                )
        replacements.update(mapping)
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    changed = (
        parameter_and_buffer_dicts if isinstance(parameter_and_buffer_dicts, MutableMapping) else {}
    )
    with replaced(module, replacements, changed, tie_weights=tie_weights, strict=strict):
        return module(*positional, **(kwargs or {}))


@contextmanager
def replaced(
    module: Any,
    replacements: Mapping[str, Tensor],
    changed: MutableMapping[str, Tensor],
    *,
    tie_weights: bool,
    strict: bool,
) -> Iterator[None]:
    """Have a module use other parameters and buffers for a while.

    Args:
        module: the module.
        replacements: what it uses, by dotted names.
        changed: is given what the module put in the places of those that it has names of.
        tie_weights: whether replacing one name of a shared parameter replaces all of its names.
        strict: whether names that are missing or unknown are an error.
    """
    own = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    unknown = [name for name in replacements if name not in own]
    missing = [name for name in own if name not in replacements]
    if strict and (unknown or missing):
        raise RuntimeError(
            f"functional_call: unexpected names {unknown} and missing names {missing} with "
            "strict=True"
        )
    if tie_weights:
        replacements = _with_ties(own, replacements)
    own_values: list[tuple[str, Any]] = []
    try:
        for name, value in replacements.items():
            own_values.append((name, _swap(module, name, value)))
        yield
    finally:
        final = {name: _swap(module, name, value) for name, value in reversed(own_values)}
        _write_back(changed, final)


def _write_back(mapping: MutableMapping[str, Tensor], final: Mapping[str, Any]) -> None:
    for name, value in final.items():
        if name in mapping and value is not _ABSENT and mapping[name] is not value:
            mapping[name] = value


def _with_ties(own: Mapping[str, Any], replacements: Mapping[str, Tensor]) -> dict[str, Tensor]:
    by_identity: dict[int, Tensor] = {}
    for name, value in replacements.items():
        if name in own and by_identity.setdefault(id(own[name]), value) is not value:
            names = [other for other in replacements if own.get(other) is own[name]]
            raise ValueError(
                f"functional_call: got several values for {names}, which are tied; give them one "
                "value, or pass tie_weights=False"
            )
    tied = dict(replacements)
    for name, tensor in own.items():
        if name not in tied and id(tensor) in by_identity:
            tied[name] = by_identity[id(tensor)]
    return tied


def _swap(module: Any, name: str, value: Any) -> Any:
    """Put a tensor in the place a dotted name says, and return what was there."""
    if value is not _ABSENT and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"functional_call: '{name}': {value!r} is not an instance of torch.Tensor")
    *path, last = name.split(".")
    for part in path:
        if not hasattr(module, part):
            raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
        module = getattr(module, part)
    for table in (module._parameters, module._buffers):
        if last in table:
            previous = table[last]
            table[last] = value
            return previous
    return _swap_attribute(module, last, value)


def _swap_attribute(module: Any, name: str, value: Any) -> Any:
    """Do the same for a name that is no parameter and no buffer."""
    previous = getattr(module, name, _ABSENT)
    if not (previous is _ABSENT or previous is None or isinstance(previous, Tensor)):
        raise TypeError(
            f"functional_call: attribute `{name}`: {previous!r} is not an instance of torch.Tensor"
        )
    if value is not _ABSENT:
        setattr(module, name, value)
    elif previous is not _ABSENT:
        delattr(module, name)
    return previous


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters and the buffers of modules of one kind, for an ensemble under vmap.

    Args:
        models: the modules, all of one class and in one mode.

    Returns:
        The stacked parameters and the stacked buffers by name. The parameters are new leaves.

    Example:
        >>> models = [torch.nn.Linear(2, 3) for _ in range(5)]
        >>> parameters, buffers = torch.func.stack_module_state(models)
        >>> parameters["weight"].shape
        torch.Size([5, 3, 2])
        >>> def call(parameters, buffers, x):
        ...     return torch.func.functional_call(models[0], (parameters, buffers), (x,))
        >>> torch.vmap(call, (0, 0, None))(parameters, buffers, torch.ones(4, 2)).shape
        torch.Size([5, 4, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(model.training for model in models) or not any(m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    buffers = _stacked([dict(model.named_buffers()) for model in models])
    return parameters, buffers


def _stacked(states: list[dict[str, Any]]) -> dict[str, Tensor]:
    found = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        requires_grad = [tensor.requires_grad for tensor in tensors]
        if any(requires_grad) and not all(requires_grad):
            raise RuntimeError(
                f"stack_module_state: Expected '{name}' from each model to have the same "
                "requires_grad"
            )
        stacked = _C.stack([tensor.detach() for tensor in tensors])
        found[name] = stacked.requires_grad_(requires_grad[0])
    return found
