"""Operations of all processes of a group on tensors.

Each function checks what PyTorch checks, makes flat buffers, lets the group's engine do the work,
and hands the results out. Nothing is recorded: gradients go through `distributed.nn.functional`.
"""

import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.distributed import _watch
from tapegrad.distributed._buffers import (
    Landing,
    check_list,
    check_same_device,
    check_same_dtype,
    check_single,
    check_writable,
    fresh,
    hand_out,
    reading,
)
from tapegrad.distributed._groups import (
    ProcessGroup,
    canonical_rank,
    check_root,
    member,
    registered,
)
from tapegrad.distributed._reduce_op import RedOpType, ReduceOp, kind_of, supports_complex
from tapegrad.distributed._work import Work
from tapegrad.distributed.engine import Engine, Pending

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]

_BITWISE = frozenset((RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR))


class _OfMeta(Engine):
    """Serves tensors without memory, which nothing has to be moved between."""

    averages = True

    def __init__(self) -> None:
        """Belong to no group."""

    def __getattribute__(self, name: str) -> Any:
        return True if name == "averages" else _nothing


def _nothing(*args: Any) -> None:
    """Stand for every method of an engine."""


_of_meta = _OfMeta()


def engine_of(group: ProcessGroup, tensor: Tensor) -> Any:
    """Return the engine for the device of a tensor, which is watched if there are several."""
    kind = tensor.device.type
    if kind == "meta":
        return _of_meta
    if group.size() > 1 and _is_captured():
        raise RuntimeError(
            "torch.distributed: a collective of several processes cannot be captured: a trace or a "
            "program would go on without the other processes; leave it outside"
        )
    engine = group.engine_for(kind)
    return _watch.watched(engine, group, tensor.shape) if group.size() > 1 else engine


def _is_captured() -> bool:
    """Return whether calls of this thread go into a program."""
    probe = _C.Program()
    try:
        probe.__enter__()
    except RuntimeError:  # there is one already
        return True
    probe.__exit__()
    return False


def begin(
    pending: Pending | None,
    finish: Callable[[], Any] | None,
    result: Sequence[Tensor],
    async_op: bool,
) -> Work | None:
    """Return the work of an operation, or wait for its end."""
    work = Work(pending, finish, result)
    if async_op and work.exception() is None:
        return work
    work.wait()
    return None


class _Reduction:
    """What an engine is asked for in place of a reduction, and what is left to do here."""

    def __init__(self, name: str, op: Any, tensor: Tensor, engine: Engine, size: int) -> None:
        kind = kind_of(op, name)
        self.factor = op.factor if isinstance(op, ReduceOp) else None
        if kind is RedOpType.PREMUL_SUM and self.factor is None:
            raise TypeError(
                f"{name}: PREMUL_SUM needs a factor; make it with _make_nccl_premul_sum(factor)"
            )
        if tensor.is_complex() and not supports_complex(kind):
            raise ValueError(f"{name} does not support {kind} on complex tensors")
        is_whole = not (tensor.is_floating_point() or tensor.is_complex())
        if kind in _BITWISE and not is_whole:
            raise RuntimeError(
                f"{name}: Cannot use ReduceOp.{kind.name} with non-integral dtype, got "
                f"{tensor.dtype}"
            )
        if kind is RedOpType.AVG and is_whole:
            raise RuntimeError(
                f"{name}: an average of {tensor.dtype} cannot be written into it; use a floating "
                "dtype"
            )
        self.divisor = 0
        self.op = RedOpType.SUM if kind is RedOpType.PREMUL_SUM else kind
        if kind is RedOpType.AVG and not engine.averages:
            self.op, self.divisor = RedOpType.SUM, size

    def before(self, buffer: Tensor) -> None:
        if self.factor is not None:
            buffer.mul_(self.factor)

    def after(self, buffer: Tensor) -> None:
        if self.divisor:
            buffer.div_(self.divisor)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all processes the tensor of one.

    Args:
        tensor: what is sent by the source, and overwritten elsewhere.
        src: the rank of the source in the world.
        group: the group.
        async_op: whether to return a `Work` at once.
        group_src: the rank of the source in the group, in place of src.
    """
    check_single(tensor, "tensor")
    found = registered(group)
    root = canonical_rank(found, src, group_src, "broadcast")
    check_root(found, root, "broadcast")
    landing = Landing(tensor, keeps=True)
    pending = engine_of(found, tensor).broadcast(landing.buffer, root)
    return begin(pending, landing.finish, [tensor], async_op)


def all_reduce(
    tensor: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Overwrite a tensor with the reduction of those of all processes.

    Args:
        tensor: the tensor.
        op: a `ReduceOp`.
        group: the group.
        async_op: whether to return a `Work` at once.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> loss = torch.tensor(0.5)
        >>> torch.distributed.all_reduce(loss, op=torch.distributed.ReduceOp.AVG)
        >>> loss
        tensor(0.5000)
        >>> torch.distributed.destroy_process_group()
    """
    check_single(tensor, "tensor")
    found = member(group, "all_reduce")
    if found is None:
        return None
    engine = engine_of(found, tensor)
    reduction = _Reduction("all_reduce", op, tensor, engine, found.size())
    landing = Landing(tensor, keeps=True)
    reduction.before(landing.buffer)
    pending = engine.all_reduce(landing.buffer, reduction.op)

    def finish() -> None:
        reduction.after(landing.buffer)
        landing.finish()

    return begin(pending, finish, [tensor], async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give one process the reduction of the tensors of all; those of others keep no defined value.

    Args:
        tensor: the tensor.
        dst: the rank in the world of the process that gets the result.
        op: a `ReduceOp`.
        group: the group.
        async_op: whether to return a `Work` at once.
        group_dst: the rank in the group, in place of dst.
    """
    check_single(tensor, "tensor")
    found = member(group, "reduce")
    if found is None:
        return None
    root = canonical_rank(found, dst, group_dst, "reduce")
    check_root(found, root, "reduce")
    engine = engine_of(found, tensor)
    reduction = _Reduction("reduce", op, tensor, engine, found.size())
    landing = Landing(tensor, keeps=True)
    reduction.before(landing.buffer)
    pending = engine.reduce(landing.buffer, root, reduction.op)

    def finish() -> None:
        if found.rank() == root:
            reduction.after(landing.buffer)
        landing.finish()

    return begin(pending, finish, [tensor], async_op)


def _check_parts(name: str, parts: list[Tensor], like: Tensor, size: int, what: str) -> None:
    """Refuse a list that has not one tensor of a shape for each process."""
    if len(parts) != size:
        raise RuntimeError(
            f"{name}: incorrect {what} size {len(parts)}; it should be {size}, same as size of the "
            "process group"
        )
    for number, part in enumerate(parts):
        if part.shape != like.shape:
            raise RuntimeError(
                f"{name}: invalid tensor size at index {number} of the {what} (expected "
                f"{tuple(like.shape)}, got {tuple(part.shape)})"
            )
    check_same_device(name, like, *parts)


def all_gather(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Give all processes the tensors of all.

    Args:
        tensor_list: where they go, in order of rank; one of the tensor's shape for each process.
        tensor: what this process gives.
        group: the group.
        async_op: whether to return a `Work` at once.
    """
    check_list(tensor_list, "tensor_list")
    check_single(tensor, "tensor")
    check_same_dtype(*tensor_list, tensor)
    found = member(group, "all_gather")
    if found is None:
        return None
    _check_parts("all_gather", tensor_list, tensor, found.size(), "output tensor list")
    check_writable("all_gather", *tensor_list)
    buffer = fresh(found.size(), tensor)
    pending = engine_of(found, tensor).all_gather(buffer, reading(tensor))
    return begin(pending, lambda: hand_out(buffer, tensor_list), tensor_list, async_op)


def _check_whole(name: str, whole: Tensor, part: Tensor, size: int, word: str) -> None:
    """Refuse a tensor that is neither the concatenation nor the stack of one for each process."""
    if whole.dtype != part.dtype:
        raise RuntimeError(
            f"{name}: expected input and output of one dtype, got {whole.dtype} and {part.dtype}"
        )
    check_same_device(name, whole, part)
    stacked = (size, *part.shape)
    joined = (size * part.shape[0], *part.shape[1:]) if part.dim() else stacked
    if tuple(whole.shape) not in (joined, stacked):
        raise RuntimeError(
            f"{name}: invalid tensor size: for {size} tensors of shape {tuple(part.shape)} the "
            f"{word} must have shape {joined} or {stacked}, got {tuple(whole.shape)}"
        )


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Give all processes the tensors of all, in one tensor.

    Args:
        output_tensor: where they go, one behind the other along the first dimension, or stacked.
        input_tensor: what this process gives.
        group: the group.
        async_op: whether to return a `Work` at once.
    """
    check_single(input_tensor, "input_tensor")
    check_single(output_tensor, "output_tensor")
    found = member(group, "all_gather_into_tensor")
    if found is None:
        return None
    name = "all_gather_into_tensor"
    _check_whole(name, output_tensor, input_tensor, found.size(), "output")
    check_writable(name, output_tensor)
    landing = Landing(output_tensor)
    pending = engine_of(found, input_tensor).all_gather(landing.buffer, reading(input_tensor))
    return begin(pending, landing.finish, [output_tensor], async_op)


all_gather_single = _all_gather_base = all_gather_into_tensor


def _scattered(
    found: ProcessGroup, output: Tensor, buffer: Tensor, op: Any, name: str, async_op: bool
) -> Work | None:
    """Begin a reduce_scatter of a buffer that may be written."""
    engine = engine_of(found, output)
    reduction = _Reduction(name, op, output, engine, found.size())
    landing = Landing(output)
    reduction.before(buffer)
    pending = engine.reduce_scatter(landing.buffer, buffer, reduction.op)

    def finish() -> None:
        reduction.after(landing.buffer)
        landing.finish()

    return begin(pending, finish, [output], async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce lists of all processes, and give each process the result of its rank.

    Args:
        output: where it goes.
        input_list: one tensor of the output's shape for each process.
        op: a `ReduceOp`.
        group: the group.
        async_op: whether to return a `Work` at once.
    """
    check_single(output, "output")
    check_list(input_list, "input_list")
    check_same_dtype(output, *input_list)
    found = member(group, "reduce_scatter")
    if found is None:
        return None
    _check_parts("reduce_scatter", input_list, output, found.size(), "input tensor list")
    check_writable("reduce_scatter", output)
    buffer = tapegrad.cat([reading(tensor) for tensor in input_list])
    return _scattered(found, output, buffer, op, "reduce_scatter", async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce tensors of all processes, and give each process the part of its rank.

    Args:
        output: where it goes.
        input: parts of the output's shape, one behind the other along the first dimension, or
            stacked.
        op: a `ReduceOp`.
        group: the group.
        async_op: whether to return a `Work` at once.
    """
    check_single(output, "output")
    check_single(input, "input")
    found = member(group, "reduce_scatter_tensor")
    if found is None:
        return None
    _check_whole("reduce_scatter_tensor", input, output, found.size(), "input")
    check_writable("reduce_scatter_tensor", output)
    buffer = reading(input)
    if getattr(op, "factor", None) is not None:
        buffer = buffer.clone()
    return _scattered(found, output, buffer, op, "reduce_scatter_tensor", async_op)


reduce_scatter_single = _reduce_scatter_base = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send a tensor to each process, and receive one from each.

    Args:
        output_tensor_list: where tensors go that come, in order of rank.
        input_tensor_list: the tensors that are sent, in order of rank.
        group: the group.
        async_op: whether to return a `Work` at once.
    """
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    check_same_dtype(*output_tensor_list, *input_tensor_list)
    found = member(group, "all_to_all")
    if found is None:
        return None
    for tensors, word in ((output_tensor_list, "output"), (input_tensor_list, "input")):
        if len(tensors) != found.size():
            raise RuntimeError(
                f"all_to_all: incorrect {word} tensor list size {len(tensors)}; it should be "
                f"{found.size()}, same as size of the process group"
            )
    check_same_device("all_to_all", *output_tensor_list, *input_tensor_list)
    check_writable("all_to_all", *output_tensor_list)
    inputs = [reading(tensor) for tensor in input_tensor_list]
    parts = 2 if output_tensor_list[0].is_complex() else 1
    output_counts = [tensor.numel() * parts for tensor in output_tensor_list]
    like = inputs[0]
    buffer = tapegrad.empty(sum(output_counts), dtype=like.dtype, device=like.device)
    input_counts = [each.numel() for each in inputs]
    engine = engine_of(found, output_tensor_list[0])
    _check_own_part("all_to_all", found.rank(), output_counts, input_counts)
    pending = engine.all_to_all(buffer, output_counts, tapegrad.cat(inputs), input_counts)
    return begin(
        pending, lambda: hand_out(buffer, output_tensor_list), output_tensor_list, async_op
    )


def _check_own_part(name: str, rank: int, output: list[int], input: list[int]) -> None:
    if output[rank] != input[rank]:
        raise RuntimeError(
            f"{name}: this process sends itself {input[rank]} elements and expects {output[rank]}"
        )


def _splits(sizes: Any, tensor: Tensor, size: int) -> list[int]:
    """Return how many elements of a tensor belong to each process."""
    first = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if first % size:
            raise RuntimeError(
                f"all_to_all_single: Tensor's dim 0 of size {first} does not divide equally across "
                f"group size {size}"
            )
        sizes = [first // size] * size
    if len(sizes) != size:
        raise RuntimeError(
            f"all_to_all_single: Number of tensor splits not equal to group size: got {len(sizes)} "
            f"for {size}"
        )
    if sum(sizes) != first or min(sizes) < 0:
        raise RuntimeError(
            f"all_to_all_single: Split sizes doesn't match total dim 0 size: {list(sizes)} for "
            f"{first}"
        )
    row = tensor.numel() // first if first else 0
    return [count * row * (2 if tensor.is_complex() else 1) for count in sizes]


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send rows of a tensor to each process, and receive rows from each.

    Args:
        output: where rows go that come, in order of rank.
        input: the rows that are sent, in order of rank.
        output_split_sizes: how many come from each process; the same from all if left out.
        input_split_sizes: how many go to each process; the same to all if left out.
        group: the group.
        async_op: whether to return a `Work` at once.
    """
    check_single(output, "output")
    check_single(input, "input")
    check_same_dtype(output, input)
    found = member(group, "all_to_all_single")
    if found is None:
        return None
    check_same_device("all_to_all_single", output, input)
    output_counts = _splits(output_split_sizes, output, found.size())
    input_counts = _splits(input_split_sizes, input, found.size())
    _check_own_part("all_to_all_single", found.rank(), output_counts, input_counts)
    check_writable("all_to_all_single", output)
    landing = Landing(output)
    pending = engine_of(found, output).all_to_all(
        landing.buffer, output_counts, reading(input), input_counts
    )
    return begin(pending, landing.finish, [output], async_op)


def _check_only_on_root(
    name: str, parts: list[Tensor], is_root: bool, list_name: str, role: str
) -> None:
    if is_root and not parts:
        raise ValueError(f"Argument ``{list_name}`` must be specified on {role} rank.")
    if parts and not is_root:
        raise ValueError(f"Argument ``{list_name}`` must NOT be specified on non-{role} ranks.")


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give one process the tensors of all.

    Args:
        tensor: what this process gives.
        gather_list: where they go, in order of rank; on the destination only.
        dst: the rank of the destination in the world, 0 if left out.
        group: the group.
        async_op: whether to return a `Work` at once.
        group_dst: the rank of the destination in the group, in place of dst.
    """
    check_single(tensor, "tensor")
    outputs = gather_list or []
    if outputs:
        check_list(outputs, "gather_list")
    check_same_dtype(tensor, *outputs)
    found = member(group, "gather")
    if found is None:
        return None
    if dst is None and group_dst is None:
        dst = 0
    root = canonical_rank(found, dst, group_dst, "gather")
    is_root = found.rank() == root
    _check_only_on_root("gather", outputs, is_root, "gather_list", "destination")
    check_root(found, root, "gather")
    buffer = None
    if is_root:
        _check_parts("gather", outputs, tensor, found.size(), "output list")
        check_writable("gather", *outputs)
        buffer = fresh(found.size(), tensor)
    pending = engine_of(found, tensor).gather(buffer, reading(tensor), root)
    finish = None if buffer is None else lambda: hand_out(buffer, outputs)
    return begin(pending, finish, outputs, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each process a tensor of one.

    Args:
        tensor: where it goes.
        scatter_list: the tensors, in order of rank; on the source only.
        src: the rank of the source in the world, 0 if left out.
        group: the group.
        async_op: whether to return a `Work` at once.
        group_src: the rank of the source in the group, in place of src.
    """
    check_single(tensor, "tensor")
    inputs = scatter_list or []
    if inputs:
        check_list(inputs, "scatter_list")
    check_same_dtype(tensor, *inputs)
    found = member(group, "scatter")
    if found is None:
        return None
    if src is None and group_src is None:
        src = 0
    root = canonical_rank(found, src, group_src, "scatter")
    is_root = found.rank() == root
    _check_only_on_root("scatter", inputs, is_root, "scatter_list", "source")
    check_root(found, root, "scatter")
    buffer = None
    if is_root:
        _check_parts("scatter", inputs, tensor, found.size(), "input list")
        buffer = tapegrad.cat([reading(each) for each in inputs])
    check_writable("scatter", tensor)
    landing = Landing(tensor)
    pending = engine_of(found, tensor).scatter(landing.buffer, buffer, root)
    return begin(pending, landing.finish, [tensor], async_op)


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Wait until all processes have come here.

    Args:
        group: the group.
        async_op: whether to return a `Work` at once.
        device_ids: accepted.
        timeout: the most to wait; that of the group if left out.
    """
    found = member(group, "barrier")
    if found is None:
        return None
    engine = _watch.watched(next(iter(found._engines.values())), found, None)
    pending = engine.barrier(found._options.timeout if timeout is None else timeout)
    return begin(pending, None, [], async_op)


def monitored_barrier(
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Wait until all processes have come here, and raise an error if one does not.

    Args:
        group: the group.
        timeout: the most to wait; that of the group if left out.
        wait_all_ranks: accepted.
    """
    found = member(group, "monitored_barrier")
    if found is None:
        return
    if "nccl" in (found._backend, found._config.get("cpu")):
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    barrier(group, timeout=timeout)


@contextlib.contextmanager
def _coalescing_manager(
    group: ProcessGroup | None = None, device: Any = None, async_ops: bool = False
) -> Any:
    """Accept a block of operations that PyTorch would join; each runs by itself."""
    yield _Coalesced()


class _Coalesced:
    """What a block of joined operations gives: there is nothing left to wait for."""

    works: Sequence[Work] = ()

    def append(self, work: Work | None) -> None:
        """Take the work of an operation of the block."""
        if work is not None:
            self.works = [*self.works, work]

    def wait(self) -> None:
        """Wait for all that was taken."""
        for work in self.works:
            work.wait()
