"""How a custom function with a vmap rule of its own runs under vmap."""

from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["VmapInfo", "apply_vmap_rule"]


class VmapInfo(NamedTuple):
    """What a vmap rule is told about the vmap around it."""

    batch_size: int
    randomness: str


def apply_vmap_rule(function: Any, number: int, args: tuple[Any, ...]) -> Any:
    """Call ``function.vmap`` on arguments with their batch as dimension 0."""
    size = dict(_C._running_vmaps())[number]
    in_dims = tuple(
        0 if isinstance(arg, Tensor) and _C._is_batched_at(arg, number) else None for arg in args
    )
    shown = tuple(
        arg if dim is None else _C._reveal_batch(arg, 0, number, size)
        for arg, dim in zip(args, in_dims, strict=True)
    )
    result = function.vmap(VmapInfo(size, "error"), in_dims, *shown)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{function.__name__}: expected the vmap staticmethod to return two elements, "
            "(outputs, out_dims)"
        )
    outputs, out_dims = result

    def hide(output: Any, dim: int | None) -> Any:
        if dim is None or not isinstance(output, Tensor):
            return output
        return _C._hide_batch(output, dim % output.dim(), number)

    if not isinstance(outputs, tuple):
        return hide(outputs, out_dims[0] if isinstance(out_dims, tuple) else out_dims)
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
    return tuple(hide(output, dim) for output, dim in zip(outputs, dims, strict=True))
