"""vmap: a function of one example becomes a function of a batch.

The function runs once. Each mapped argument loses its batch dimension on the way in, which is
hidden in the storage of the tensor; the dispatch point runs every kernel over the whole batch
(see csrc/intercept/batch.h); on the way out the dimension is put back. So there is no list of
supported ops: what has no answer for a batch, such as ``.item()``, refuses.
"""

import functools
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd._vmap_numbers import enter_vmap
from tapegrad.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

__all__ = ["vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that maps ``func`` over a dimension of its arguments.

    Args:
        func: a function of tensors, written for one example.
        in_dims: the dimension of each argument to map over, or None for one that is shared; an int
            for all, or a nested container like the arguments.
        out_dims: where the mapped dimension goes in the outputs.
        randomness: what ops that draw random numbers do: "error", "same" (one draw for the whole
            batch) or "different" (one for each example).
        chunk_size: how many examples to map at once; all by default.

    Returns:
        A function of batched arguments. Keyword arguments are shared.

    Example:
        >>> dot = torch.func.vmap(torch.dot)
        >>> dot(torch.ones(3, 2), torch.arange(6.0).view(3, 2))
        tensor([1., 5., 9.])
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(
            "vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten(args)
        dims = _input_dims(func, in_dims, args, leaves, structure)
        size = _batch_size(leaves, dims)
        if chunk_size is None or size <= chunk_size:
            return _run(func, leaves, dims, structure, out_dims, size, randomness, kwargs)
        return _run_in_chunks(
            func, leaves, dims, structure, out_dims, size, randomness, kwargs, chunk_size
        )

    return wrapper


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))


def _input_dims(
    func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...], leaves: list[Any], structure: Any
) -> list[int | None]:
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple | list):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims).__name__}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
            "are trying to vmap over a function with no inputs. The latter is unsupported."
        )
    prefix = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = _broadcast_to_and_flatten(prefix, structure)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has a "
            "structure that does not match the arguments."
        )
    checked: list[int | None] = []
    for dim, leaf in zip(dims, leaves, strict=True):
        if dim is None:
            checked.append(None)
            continue
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but in_dim must be either an integer "
                "dimension or None."
            )
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but the input is of type "
                f"{type(leaf).__name__}. We cannot vmap over non-Tensor arguments, please use None "
                "as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= "
                f"in_dim < {leaf.dim()}."
            )
        checked.append(dim % leaf.dim())
    return checked


def _batch_size(leaves: list[Any], dims: list[int | None]) -> int:
    sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: got no Tensors to vmap over; at least one in_dim must not be None")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _run(
    func: Callable[..., Any],
    leaves: list[Any],
    dims: list[int | None],
    structure: Any,
    out_dims: Any,
    size: int,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    number = enter_vmap(size, randomness)
    try:
        inputs = [
            leaf if dim is None else _C._hide_batch(leaf, dim, number)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        output = func(*tree_unflatten(inputs, structure), **kwargs)
        return _reveal(func, output, out_dims, number, size)
    finally:
        _C._exit_vmap()


def _reveal(func: Callable[..., Any], output: Any, out_dims: Any, number: int, size: int) -> Any:
    results, structure = tree_flatten(output)
    for result in results:
        if not isinstance(result, Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
                f"{type(result).__name__}. Did you mean to set out_dims= to None for output?"
            )
    if isinstance(out_dims, int) or out_dims is None:
        places: list[Any] | None = [out_dims] * len(results)
    elif structure.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        places = list(out_dims)
    else:
        places = _broadcast_to_and_flatten(out_dims, structure)
    if places is None or not all(place is None or isinstance(place, int) for place in places):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
            "with the structure of `outputs`."
        )
    shown = [
        _reveal_one(func, result, place, number, size)
        for result, place in zip(results, places, strict=True)
    ]
    return tree_unflatten(shown, structure)


def _reveal_one(
    func: Callable[..., Any], result: Tensor, place: int | None, number: int, size: int
) -> Tensor:
    if place is None:
        if _C._is_batched_at(result, number):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when "
                "out_dim is None"
            )
        return result
    rank = result.dim() + 1
    if not -rank <= place < rank:
        raise IndexError(
            f"vmap: expected out_dims to satisfy -{rank} <= out_dim < {rank}, got {place}"
        )
    return _C._reveal_batch(result, place % rank, number, size)


def _run_in_chunks(
    func: Callable[..., Any],
    leaves: list[Any],
    dims: list[int | None],
    structure: Any,
    out_dims: Any,
    size: int,
    randomness: str,
    kwargs: dict[str, Any],
    chunk_size: int,
) -> Any:
    pieces = []
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        part = [
            leaf if dim is None else leaf.narrow(dim, start, length)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        pieces.append(_run(func, part, dims, structure, out_dims, length, randomness, kwargs))
    flat = [tree_flatten(piece) for piece in pieces]
    result_structure = flat[0][1]
    single = isinstance(out_dims, int) or out_dims is None
    places = (
        [out_dims] * len(flat[0][0])
        if single
        else _broadcast_to_and_flatten(out_dims, result_structure)
    )
    joined = [
        parts[0] if place is None else _C.cat(list(parts), place)
        for place, parts in zip(
            places or [0] * len(flat[0][0]),
            zip(*(results for results, _ in flat), strict=True),
            strict=True,
        )
    ]
    return tree_unflatten(joined, result_structure)
