"""Rules of functions that show the same elements in another shape, or put tensors together."""

from typing import Any

from tapegrad._C import Tensor
from tapegrad.distributed.tensor._dispatch import Call, adjusts, rule
from tapegrad.distributed.tensor._layout import Layout
from tapegrad.distributed.tensor._rules import dims_of, largest_shard
from tapegrad.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__: list[str] = []


def _moved(call: Call, given: list[Placement], places: dict[int, int]) -> Any:
    """Return the plan of a view that takes some dimensions to others, and the rest apart."""
    (placement,) = given
    if isinstance(placement, Shard):
        if placement.dim not in places:
            return [Replicate()], Replicate()
        return given, Shard(places[placement.dim])
    return given, placement


def same_in_both(shape: tuple[int, ...], out: tuple[int, ...], parts: Any) -> dict[int, int]:
    """Return which dimensions of a shape may be divided when it is viewed as another.

    Args:
        shape: before.
        out: after.
        parts: returns into how many parts a dimension is divided.

    Returns:
        For each such dimension, the one of the result that is divided then: the first of those
        that the same elements make up, if its parts are whole ones.
    """
    found: dict[int, int] = {}
    i = j = 0
    while i < len(shape) and j < len(out):
        start, first, left, right = i, j, shape[i], out[j]
        while left != right:
            if left < right and i + 1 < len(shape):
                i += 1
                left *= shape[i]
            elif j + 1 < len(out):
                j += 1
                right *= out[j]
            else:
                return found
        if i == start and j == first:
            found[start] = first
        else:
            while start < i and shape[start] == 1:
                start += 1
            while first < j and out[first] == 1:
                first += 1
            count = parts(start)
            if shape[start] % count == 0 and out[first] % count == 0:
                found[start] = first
        i, j = i + 1, j + 1
    return found


@rule("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "ravel")
def view(call: Call, given: list[Placement]) -> Any:
    """A divided dimension stays one, or is the first of those that it is joined with."""
    if len(given) > 1:
        raise call.refusal()
    if 0 in call.shapes[0]:
        return _moved(call, given, {})
    places = same_in_both(call.shapes[0], call.outs[0], lambda dim: call.shards_on(0, dim))
    if call.name == "squeeze":  # dimensions of size 1 are gone
        kept = [dim for dim in places if call.shapes[0][dim] != 1]
        places = {dim: places[dim] for dim in kept}
    return _moved(call, given, places)


@adjusts("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as", "squeeze", "ravel")
def shape_of_the_part(call: Call, layout: Layout) -> Any:
    """Ask for the shape that this process's part has."""
    call.func = Tensor.reshape
    return (call.tensors[0], layout.local_shape()), {}


@rule("expand", "expand_as", "broadcast_to")
def expand(call: Call, given: list[Placement]) -> Any:
    """Dimensions are counted from the last; those of size 1 are not divided."""
    if len(given) > 1:
        raise call.refusal()
    more = len(call.outs[0]) - len(call.shapes[0])
    same = {
        dim: dim + more
        for dim, size in enumerate(call.shapes[0])
        if size == call.outs[0][dim + more]
    }
    return _moved(call, given, same)


@adjusts("expand", "expand_as", "broadcast_to")
def expanded_part(call: Call, layout: Layout) -> Any:
    """Ask for the shape that this process's part has."""
    call.func = Tensor.expand
    return (call.tensors[0], layout.local_shape()), {}


@rule("transpose", "swapaxes", "swapdims", "t", "permute", "movedim", "moveaxis", "unsqueeze",
      "adjoint", "numpy_T")  # fmt: skip
def permute(call: Call, given: list[Placement]) -> Any:
    """Dimensions change their places; the function shows where they go by their sizes."""
    import tapegrad

    ndim = len(call.shapes[0])
    # On a tensor whose dimensions have all different sizes.
    marked = tapegrad.empty(tuple(range(2, ndim + 2)), device="meta")
    out = call.func(marked, *call.args[1:], **call.kwargs).shape
    places = {size - 2: place for place, size in enumerate(out) if size > 1}
    return _moved(call, given, places)


@rule("select", "narrow", "unbind", "split", "chunk", "tensor_split", "split_with_sizes")
def parts(call: Call, given: list[Placement]) -> Any:
    """All but the dimension that is taken apart may be divided."""
    index = 2 if call.name in ("split", "chunk", "tensor_split", "split_with_sizes") else 1
    shape = call.shapes[0]
    if len(given) > 1:
        return [Replicate()] * len(given), Replicate()
    (dim,) = dims_of(call.get(index, "dim", 0), len(shape))
    gone = len(call.outs[0]) < len(shape)
    places = {d: d - (gone and d > dim) for d in range(len(shape)) if d != dim}
    inputs, out = _moved(call, given, places)
    return inputs, out


@rule("__getitem__")
def getitem(call: Call, given: list[Placement]) -> Any:
    """Dimensions that are taken whole may be divided."""
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    if len(given) > 1 or any(isinstance(each, list | Tensor) for each in index):
        return [Replicate()] * len(given), Replicate()
    shape = call.shapes[0]
    taken = sum(each is not None and each is not Ellipsis for each in index)
    places: dict[int, int] = {}
    dim = out = 0
    for each in (*index, *([] if Ellipsis in index else [Ellipsis])):
        if each is None:
            out += 1
        elif each is Ellipsis:
            for _ in range(len(shape) - taken):
                places[dim] = out
                dim, out = dim + 1, out + 1
        elif isinstance(each, slice):
            if each.indices(shape[dim]) == (0, shape[dim], 1):
                places[dim] = out
            dim, out = dim + 1, out + 1
        else:
            dim += 1
    return _moved(call, given, places)


@adjusts("__getitem__")
def whole_slices(call: Call, layout: Layout) -> Any:
    """Take all of a dimension where all was asked for: a part is shorter."""
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    shape = call.shapes[0]
    taken = sum(each is not None and each is not Ellipsis for each in index)
    dim, changed = 0, []
    for each in index:
        if isinstance(each, slice) and each.indices(shape[dim]) == (0, shape[dim], 1):
            each = slice(None)
        changed.append(each)
        dim += len(shape) - taken if each is Ellipsis else each is not None
    return (call.args[0], tuple(changed)), {}


@rule("cat", "concat", "concatenate", "stack")
def cat(call: Call, given: list[Placement]) -> Any:
    """Tensors are put together where they are not divided."""
    ndim = len(call.outs[0])
    (dim,) = dims_of(call.get(1, "dim", 0), ndim)
    new = call.name == "stack"
    if not new and any(len(shape) != ndim for shape in call.shapes):  # an empty one, as of old
        return [Replicate()] * len(given), Replicate()
    if all(isinstance(each, Partial) for each in given) and len(set(given)) == 1:
        return given, given[0]
    for number in largest_shard(call, given):
        placement = given[number]
        assert isinstance(placement, Shard)
        if new or placement.dim != dim:
            out = placement.dim + (new and placement.dim >= dim)
            return [placement] * len(given), Shard(out)
    return [Replicate()] * len(given), Replicate()
