"""Collectives that are recorded: their gradients go the way back between the processes.

The loss that is differentiated is the sum of the losses of all processes, so that the gradient of a
broadcast is a sum, and that of a gather a scatter. All processes must run the backward.
"""

from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.autograd import Function
from tapegrad.distributed import _collectives as plain
from tapegrad.distributed._groups import (
    ProcessGroup,
    canonical_rank,
    registered,
)
from tapegrad.distributed._reduce_op import ReduceOp, kind_of

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

_LINEAR = (ReduceOp.SUM, ReduceOp.AVG)


def _check_linear(ctx: Any, name: str) -> None:
    """Refuse a gradient through a reduction that has none of this form."""
    if kind_of(ctx.op, name) not in _LINEAR and ctx.group.size() > 1:
        raise NotImplementedError(
            f"{name}: gradients are there for SUM and AVG, not for {ctx.op!r}"
        )


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.clone()
        plain.broadcast(result, group=group, group_src=src)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        is_source = ctx.group.rank() == ctx.src
        return None, None, total if is_source else tapegrad.zeros_like(total)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        result = tensor.clone()
        plain.reduce(result, op=op, group=group, group_dst=dst)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _check_linear(ctx, "reduce")
        is_destination = ctx.group.rank() == ctx.dst
        grad = grad if is_destination else tapegrad.zeros_like(grad)
        result = _Broadcast.apply(ctx.dst, ctx.group, grad)
        if ctx.op == ReduceOp.AVG:
            result = result / ctx.group.size()
        return None, None, None, result


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        plain.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _check_linear(ctx, "all_reduce")
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        parts = [tapegrad.zeros_like(tensor) for _ in range(group.size())]
        is_destination = group.rank() == dst
        plain.gather(tensor, parts if is_destination else None, group=group, group_dst=dst)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tapegrad.zeros_like(tensors[group.rank()])
        is_source = group.rank() == src
        plain.scatter(result, list(tensors) if is_source else None, group=group, group_src=src)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [tapegrad.empty_like(tensor) for _ in range(group.size())]
        plain.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tapegrad.empty_like(tensors[0])
        plain.reduce_scatter(result, list(tensors), op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        _check_linear(ctx, "reduce_scatter")
        parts = _AllGather.apply(ctx.group, grad)
        if ctx.op == ReduceOp.AVG:
            parts = [part / ctx.group.size() for part in parts]
        return None, None, *parts


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: list[Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        outputs = [tensors[0].new_empty(shape) for shape in shapes]
        plain.all_to_all(outputs, list(tensors), group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, group: Any, shape: Any, output_splits: Any, input_splits: Any, tensor: Tensor
    ) -> Tensor:
        ctx.group, ctx.shape = group, tensor.shape
        ctx.output_splits, ctx.input_splits = output_splits, input_splits
        result = tensor.new_empty(shape)
        plain.all_to_all_single(result, tensor, output_splits, input_splits, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _AllToAllSingle.apply(
            ctx.group, ctx.shape, ctx.input_splits, ctx.output_splits, grad.contiguous()
        )
        return None, None, None, None, back


def _rank(group: ProcessGroup, rank: int, name: str) -> int:
    return canonical_rank(group, rank, None, name)


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """Return the tensor of one process.

    Args:
        tensor: what the source sends; elsewhere one of its shape.
        src: the rank of the source in the world.
        group: the group.
    """
    found = registered(group)
    return _Broadcast.apply(_rank(found, src, "broadcast"), found, tensor)


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> Any:
    """Return the tensors of all processes to one, and zeros to the others.

    Args:
        tensor: what this process gives.
        dst: the rank of the destination in the world.
        group: the group.
    """
    found = registered(group)
    return _Gather.apply(_rank(found, dst, "gather"), found, tensor)


def scatter(tensors: Any, src: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """Return to each process a tensor of one.

    Args:
        tensors: the tensors of the source; elsewhere some of their shape.
        src: the rank of the source in the world.
        group: the group.
    """
    found = registered(group)
    return _Scatter.apply(_rank(found, src, "scatter"), found, *tensors)


def reduce(
    tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """Return the reduction of all tensors to one process; results of others are undefined.

    Args:
        tensor: what this process gives.
        dst: the rank of the destination in the world.
        op: a `ReduceOp`; there are gradients for SUM and AVG.
        group: the group.
    """
    found = registered(group)
    return _Reduce.apply(_rank(found, dst, "reduce"), op, found, tensor)


def reduce_scatter(
    output: Tensor, input_list: Any, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """Return to each process its part of the reduction of lists.

    Args:
        output: a tensor of the shape of the result; it is not written.
        input_list: a tensor for each process.
        op: a `ReduceOp`; there are gradients for SUM and AVG.
        group: the group.
    """
    return _ReduceScatter.apply(op, registered(group), *input_list)


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> Any:
    """Return the tensors of all processes as a tuple.

    Args:
        tensor: what this process gives.
        group: the group.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (y,) = torch.distributed.nn.functional.all_gather(x)
        >>> (y * y).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        >>> torch.distributed.destroy_process_group()
    """
    return _AllGather.apply(registered(group), tensor)


def _all_gather_base(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None
) -> Tensor:
    """Return the tensors of all processes as one, of the shape of the first argument."""
    parts = all_gather(input_tensor, group)
    return tapegrad.cat([part.reshape(-1) for part in parts]).view(output_tensor.shape)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: ProcessGroup | None = None
) -> Any:
    """Send a tensor to each process, and return those that come, as a tuple.

    Args:
        output_tensor_list: tensors of the shapes of those that come; they are not written.
        input_tensor_list: the tensors that are sent.
        group: the group.
    """
    shapes = [tensor.shape for tensor in output_tensor_list]
    return _AllToAll.apply(registered(group), shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Send rows to each process, and return those that come.

    Args:
        output: a tensor of the shape of the result; it is not written.
        input: the rows.
        output_split_sizes: how many come from each process.
        input_split_sizes: how many go to each process.
        group: the group.
    """
    return _AllToAllSingle.apply(
        registered(group), output.shape, output_split_sizes, input_split_sizes, input
    )


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """Return the reduction of the tensors of all processes.

    Args:
        tensor: what this process gives.
        op: a `ReduceOp`; there are gradients for SUM and AVG.
        group: the group.
    """
    return _AllReduce.apply(op, registered(group), tensor)
