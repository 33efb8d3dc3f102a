"""Rules of layers and losses, and functions that are made of others."""

from collections import defaultdict
from contextvars import ContextVar
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.distributed.tensor._dispatch import (
    Call,
    adjusts,
    dispatch,
    is_dtensor,
    rule,
    special,
)
from tapegrad.distributed.tensor._layout import Layout
from tapegrad.distributed.tensor._rules import dims_of, largest_shard
from tapegrad.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["losses_of_divided_classes", "random_part"]


@special("mean")
def mean(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None
) -> Any:
    """Return a sum, divided by the number of elements of the whole."""
    dims = dims_of(axis if dim is None else dim, input.ndim)
    count = 1
    for each in dims:
        count *= input.shape[each] if input.ndim else 1
    return input.sum(sorted(dims), keepdim=keepdim, dtype=dtype) / count


@special("norm", "vector_norm", "linalg_vector_norm")
def norm(
    input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    ord: Any = None, axis: Any = None,
) -> Any:  # fmt: skip
    """Return a norm of vectors: the norm of the norms of parts."""
    p = 2.0 if p in (None, "fro") else float(p if ord is None else ord)
    x = (input if dtype is None else input.to(dtype)).abs()
    dims = sorted(dims_of(axis if dim is None else dim, input.ndim))
    if p == float("inf"):
        return _whole(x.amax(dims, keepdim))
    if p == float("-inf"):
        return _whole(x.amin(dims, keepdim))
    if p == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim=keepdim)
    if p == 1:
        return _whole(x.sum(dims, keepdim=keepdim))
    if p == 2 and all(not each.is_shard() for each in input.placements):
        return _local_norm(_whole(input), dims, keepdim)
    return _whole(x.pow(p).sum(dims, keepdim=keepdim)).pow(1 / p)


def _local_norm(whole: Any, dims: list[int], keepdim: bool) -> Any:
    local = tapegrad.linalg.vector_norm(whole._local_tensor, 2, dims or None, keepdim)
    return type(whole)._of(local, whole._layout._replace(shape=tuple(local.shape)))


def _whole(x: Any) -> Any:
    """Return the tensor with its reductions taken."""
    placements = [Replicate() if each.is_partial() else each for each in x.placements]
    return x.redistribute(placements=placements)


@special("_total_norm")
def total_norm(tensors: Any, norm_type: float) -> Any:
    """Leave it to the general way, norm by norm."""
    return None


@special("_scale_tensors", "_drop_gradients")
def general_way(*args: Any) -> bool:
    """Leave it to the general way."""
    return False


@special("equal")
def equal(input: Any, other: Any) -> bool:
    """Return whether two tensors are equal, on all processes alike."""
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())


@special("allclose")
def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Return whether two tensors are close, on all processes alike."""
    return bool(tapegrad.isclose(input, other, rtol, atol, equal_nan).all())


@special("to", "cpu", "cuda")
def to(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Convert the parts; a reduction is taken first, so that it is rounded once."""
    args = tuple(_part(each) for each in args)
    local = x._local_tensor.to(*args, **kwargs)
    if local.dtype != x.dtype and any(each.is_partial() for each in x.placements):
        x = _whole(x)
        local = x._local_tensor.to(*args, **kwargs)
    return x if local is x._local_tensor else type(x)._of(local, x._layout)


# ---- numbers at random


def random_part(layout: Layout, fill: Any, dtype: Any, device: Any) -> Tensor:
    """Return this process's part of a tensor of numbers at random.

    All processes draw the whole from one seed, which the first process of the mesh takes from its
    generator, so that parts fit together and whole copies agree.

    Args:
        layout: how the tensor lies.
        fill: fills a tensor with a generator.
        dtype, device: of the tensor.
    """
    from tapegrad import distributed

    seed = tapegrad.randint(0, 2**31, (1,))
    for axis in reversed(range(layout.mesh.ndim)):
        distributed.broadcast(seed, group=layout.mesh.get_group(axis), group_src=0)
    generator = tapegrad.Generator(device=device).manual_seed(int(seed))
    whole = tapegrad.empty(layout.shape, dtype=dtype, device=device)
    fill(whole, generator)
    for dim, (start, size) in enumerate(zip(layout.offsets(), layout.local_shape(), strict=True)):
        whole = whole.narrow(dim, min(start, whole.shape[dim]), size)
    return whole.clone()


def _at_random(like: Any, fill: Any, dtype: Any = None) -> Any:
    placements = tuple(Replicate() if each.is_partial() else each for each in like.placements)
    layout = like._layout._replace(placements=placements)
    return type(like)._of(random_part(layout, fill, dtype or like.dtype, like.device), layout)


def _uniform(x: Tensor, generator: Any) -> None:
    x.uniform_(generator=generator)


def _normal(x: Tensor, generator: Any) -> None:
    x.normal_(generator=generator)


@special("rand_like")
def rand_like(input: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Return uniform numbers that lie as a tensor does."""
    return _at_random(input, _uniform, dtype)


@special("randn_like")
def randn_like(input: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Return normal numbers that lie as a tensor does."""
    return _at_random(input, _normal, dtype)


def _filled(x: Any, fill: Any) -> Any:
    with tapegrad.no_grad():
        x._local_tensor.copy_(random_part(x._layout, fill, x.dtype, x.device))
    return x


@special("normal_")
def normal_(x: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
    """Fill with normal numbers."""
    return _filled(x, lambda whole, g: whole.normal_(mean, std, generator=g))


@special("uniform_")
def uniform_(x: Any, a: float = 0.0, b: float = 1.0, *, generator: Any = None) -> Any:
    """Fill with uniform numbers."""
    return _filled(x, lambda whole, g: whole.uniform_(a, b, generator=g))


@special("bernoulli_")
def bernoulli_(x: Any, p: float = 0.5, *, generator: Any = None) -> Any:
    """Fill with zeros and ones."""
    return _filled(x, lambda whole, g: whole.bernoulli_(p, generator=g))


# ---- layers


@rule("_layer_norm")
def layer_norm(call: Call, given: list[Placement]) -> Any:
    """What is before the normalized dimensions may be divided; weights are whole."""
    rest = [Replicate()] * (len(given) - 1)
    placement = given[0]
    if isinstance(placement, Shard) and placement.dim < len(call.shapes[0]) - call.args[1]:
        return [placement, *rest], placement
    return [Replicate(), *rest], Replicate()


@rule("index_select")
def index_select(call: Call, given: list[Placement]) -> Any:
    """Rows are found by divided indices, or in a divided table, where the result is Partial."""
    (dim,) = dims_of(call.get(1, "dim"), len(call.shapes[0]))
    if len(given) == 1:  # the index is no DTensor
        raise call.refusal()
    table, index = given
    if not all(call.shapes):
        return [Replicate(), Replicate()], Replicate()
    if isinstance(index, Shard) and not isinstance(table, Shard):
        return [Replicate(), index], Shard(dim)
    if isinstance(table, Shard):
        if table.dim != dim:
            return [table, Replicate()], table
        if len(call.shapes[0]) == 2 and dim == 0:
            return [table, Replicate()], Partial()
    return [Replicate(), Replicate()], Replicate()


@adjusts("index_select")
def rows_that_are_here(call: Call, layout: Layout) -> Any:
    """Take those rows of a divided table that this process has, and zeros for others."""
    table = call.tensors[0]
    if any(each.is_partial() for each in layout.placements) and table.placements != (
        layout.placements
    ):
        start, _ = table._layout.offsets()[:2]
        call.func = lambda local, dim, index: _known_rows(local, index - start)
    return call.args, call.kwargs


def _known_rows(table: Tensor, index: Tensor) -> Tensor:
    known = (index >= 0) & (index < table.shape[0])
    if not table.shape[0]:
        return table.sum() + table.new_zeros((*index.shape, *table.shape[1:]))
    rows = table.index_select(0, index * known)
    return rows.masked_fill(~known.unsqueeze(-1), 0.0)


@rule("_convolution")
def convolution(call: Call, given: list[Placement]) -> Any:
    """Samples may be divided."""
    rest = [Replicate()] * (len(given) - 1)
    batched = len(call.shapes[0]) == len(call.shapes[1])
    if batched and given[0] == Shard(0) and call.shapes[0][0]:
        return [Shard(0), *rest], Shard(0)
    return [Replicate(), *rest], Replicate()


@special("_attention")
def fused_attention(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, *rest: Any
) -> Any:
    """Compute attention part by part."""
    if dropout_p:
        raise NotImplementedError(
            "scaled_dot_product_attention: dropout_p is not supported with DTensors; use 0.0"
        )
    options = {"is_causal": is_causal, "scale": rest[0], "enable_gqa": rest[1]}
    masks = (query, key, value) if mask is None else (query, key, value, mask)
    return dispatch(tapegrad.nn.functional.scaled_dot_product_attention, masks, options)


@rule("scaled_dot_product_attention")
def attention(call: Call, given: list[Placement]) -> Any:
    """Samples and heads may be divided, where there is no mask."""
    whole = [Replicate()] * len(given), Replicate()
    for number in largest_shard(call, given):
        placement = given[number]
        assert isinstance(placement, Shard)
        if len(given) == 3 and placement.dim < len(call.shapes[0]) - 2:
            sizes = {shape[placement.dim] for shape in call.shapes}
            if len(sizes) == 1 and not call.leaves_some_empty(number, placement.dim):
                return [placement] * 3, placement
    return whole


@special("_in_usual_order", "_in_format_of")
def in_usual_order(x: Any, like: Any = None) -> Any:
    """Return the tensor: parts have no other order."""
    return x


# ---- losses


def _beside_classes(placement: Placement, class_dim: int) -> Placement:
    """Return how the losses of samples lie: there are no classes any more."""
    if isinstance(placement, Shard):
        return Shard(placement.dim - (placement.dim > class_dim))
    return Replicate()


@special("_cross_entropy")
def cross_entropy(
    input: Any, target: Any, weight: Any, reduction: int, ignore_index: int, smoothing: float
) -> Any:
    """Compute the losses of samples part by part, and their mean over the whole."""
    class_dim = min(input.ndim - 1, 1)
    if not is_dtensor(target):
        layout = Layout(input.device_mesh, input._whole(), tuple(target.shape))
        target = type(input)._of(target, layout)
    placements = tuple(
        each if each.is_shard() and not each.is_shard(class_dim) else Replicate()
        for each in input.placements
    )
    divided = any(each.is_shard(class_dim) for each in input.placements)
    if divided and losses_of_divided_classes.get():
        if weight is not None or smoothing or input.ndim != 2:
            raise NotImplementedError(
                "loss_parallel: expected scores of two dimensions, and neither weight nor "
                "label_smoothing; redistribute the scores to Replicate() first"
            )
        losses, target = of_divided_classes(input, target, ignore_index)
    else:
        beside = tuple(_beside_classes(each, class_dim) for each in placements)
        shape = tuple(target.shape)
        x, y = input.redistribute(placements=placements), target.redistribute(placements=beside)
        if weight is not None and is_dtensor(weight):
            weight = weight.full_tensor()
        local = _C._cross_entropy(
            x._local_tensor, y._local_tensor, weight, 0, ignore_index, smoothing
        )
        losses, target = type(input)._of(local, Layout(input.device_mesh, beside, shape)), y
    if reduction == 0:
        return losses
    total = losses.sum()
    if reduction == 2:
        return total
    counted = target._local_tensor != ignore_index
    if weight is not None:
        counted = weight[target._local_tensor * counted] * counted
    count = type(input)._of(counted.to(losses.dtype), losses._layout).sum()
    return _whole(total) / _whole(count)


# Whether `loss_parallel` is on.
losses_of_divided_classes = ContextVar("losses_of_divided_classes", default=False)


def of_divided_classes(input: Any, target: Any, ignore_index: int) -> tuple[Any, Any]:
    """Return the losses of samples whose scores are divided by class, and their targets."""
    (axis,) = (i for i, each in enumerate(input.placements) if each.is_shard(1))
    start = input._layout.offsets()[1]
    scores = input._local_tensor
    rows = tuple(Replicate() if i == axis else each for i, each in enumerate(input.placements))
    layout = Layout(input.device_mesh, rows, tuple(target.shape))
    cls = type(input)

    def reduced(local: Tensor, how: str) -> Any:
        placements = list(rows)
        placements[axis] = Partial(how)
        return cls._of(local, layout._replace(placements=tuple(placements))).redistribute(
            placements=rows
        )

    target = target.redistribute(placements=rows)
    local_target = target._local_tensor
    ignored = local_target == ignore_index
    with tapegrad.no_grad():
        lowest = scores.new_full((scores.shape[0],), float("-inf"))
        most = reduced(scores.amax(1) if scores.shape[1] else lowest, "max")._local_tensor
    shifted = scores - most.unsqueeze(1)
    index = local_target - start
    here = (index >= 0) & (index < scores.shape[1]) & ~ignored
    if scores.shape[1]:
        picked = shifted.gather(1, (index * here).unsqueeze(1)).squeeze(1)
    else:
        picked = shifted.sum(1)
    normal = reduced(shifted.exp().sum(1), "sum")._local_tensor.log()
    own = reduced(picked * here, "sum")._local_tensor
    return cls._of((normal - own).masked_fill(ignored, 0.0), layout), target


@special("_amp_foreach_non_finite_check_and_unscale_")
def unscale(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    """Unscale gradients part by part; what one process finds all have found."""
    from tapegrad import distributed

    _C._amp_foreach_non_finite_check_and_unscale_(list(map(_part, grads)), found_inf, inv_scale)
    mesh = next(each.device_mesh for each in grads if is_dtensor(each))
    for axis in range(mesh.ndim):
        distributed.all_reduce(found_inf, distributed.ReduceOp.MAX, mesh.get_group(axis))


# ---- steps of optimizers, which work element by element


@special("_optimizer_step")
def optimizer_step(native: int, params: Any, state: Any, group: Any, found: Any) -> bool:
    """Take the step of the parts."""
    for param in params:
        if is_dtensor(param) and any(each.is_partial() for each in param.placements):
            raise RuntimeError("step: a parameter that is Partial cannot be updated")
    locals_ = [_part(param) for param in params]
    entries = {}
    for param, local in zip(params, locals_, strict=True):
        if param in state:
            entries[local] = {key: _part(value) for key, value in state[param].items()}
    done = _C._optimizer_step(
        native, locals_, defaultdict(dict, entries), {**group, "params": locals_}, _part(found)
    )
    if done:
        for param, local in zip(params, locals_, strict=True):
            _take_back(param, state, entries.get(local))
    return done


def _take_back(param: Any, state: Any, entry: Any) -> None:
    """Keep what a step has put into the state of a part."""
    for key, value in (entry or {}).items():
        if _part(state[param].get(key)) is not value:
            fits = is_dtensor(param) and isinstance(value, Tensor) and value.dim()
            state[param][key] = type(param)._of(value, param._layout) if fits else value


def _part(value: Any) -> Any:
    return value._local_tensor if is_dtensor(value) else value
