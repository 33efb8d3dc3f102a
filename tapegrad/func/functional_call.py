"""Calling a module with other parameters than its own."""

from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad._C import Tensor

__all__ = ["functional_call"]


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
        parameter_and_buffer_dicts: tensors by their dotted names, or several such mappings.
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
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    restored = [(name, _swap(module, name, value)) for name, value in replacements.items()]
    try:
        return module(*positional, **(kwargs or {}))
    finally:
        for name, value in reversed(restored):
            _swap(module, name, value)


def _with_ties(own: Mapping[str, Any], replacements: Mapping[str, Tensor]) -> dict[str, Tensor]:
    by_identity = {id(own[name]): value for name, value in replacements.items() if name in own}
    tied = dict(replacements)
    for name, tensor in own.items():
        if name not in tied and id(tensor) in by_identity:
            tied[name] = by_identity[id(tensor)]
    return tied


def _swap(module: Any, name: str, value: Any) -> Any:
    """Put a tensor in the place a dotted name says, and return what was there."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    for table in (module._parameters, module._buffers):
        if last in table:
            previous = table[last]
            table[last] = value
            return previous
    raise RuntimeError(f"functional_call: the module has no parameter or buffer '{name}'")
