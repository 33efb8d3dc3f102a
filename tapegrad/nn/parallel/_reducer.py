"""How `DistributedDataParallel` combines gradients while a backward runs.

A hook of each parameter hears that its gradient is there. When all gradients of a bucket are that
the backward was expected to bring, the bucket is given to the communication hook, which begins to
average it, and the backward goes on. Buckets are begun in their order, which is the same in all
processes, and all of them in each backward; what a process has no gradient for counts as zero.

A `_Round` is what is known of one backward, with those that run inside it. At its end the buckets
that are left are begun, the processes tell each other which parameters they have used, and results
are put into ``.grad``. A gradient that comes when its bucket is under way (of a checkpoint with
reentry, of which nothing is known before it runs) is late: all late ones are averaged once more,
and added. The next backward waits for what was late in the last. Design note 0037 has the reasons.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.parallel._buckets import Bucket, GradBucket, divide, pieces

__all__ = ["GradBucket", "Reducer"]

Hook = Callable[[Any, "GradBucket"], Any]


class _End:
    """What the engine calls at the end of a backward. It is dropped where the backward fails."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self.finish = finish

    def __call__(self) -> None:
        self.finish()


class _Round:
    """A backward: which gradients have come, and which buckets are under way."""

    def __init__(self, buckets: Sequence[Bucket], expected: Sequence[bool]) -> None:
        self.expected = expected
        self.waiting = [sum(expected[i] for i in bucket.indices) for bucket in buckets]
        self.arrived: list[int] = []
        self.late: dict[int, Tensor | None] = {}  # what came when a bucket was under way
        self.begun: list[Any] = []  # futures, in the order of buckets
        self.kept: dict[int, Tensor | None] = {}  # what was in .grad when a bucket was begun

    def progress(self, bucket: int, i: int) -> bool:
        """Note a gradient; return whether its bucket waits for nothing else."""
        if bucket < len(self.begun):
            self.late[i] = None
            return False
        if i not in self.arrived:
            self.arrived.append(i)
            self.waiting[bucket] -= self.expected[i]
        return self.waiting[bucket] == 0


class Reducer:
    """Combines the gradients of parameters while backwards run.

    Args:
        named: the parameters, with their names.
        group: the processes.
        cap: the bytes from which on a bucket is full.
        is_on: returns whether gradients are combined now.
        as_views: whether gradients are views of buckets.
        is_static: whether each backward brings the same gradients as the first.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        group: Any,
        cap: int,
        is_on: Callable[[], bool],
        as_views: bool = False,
        is_static: bool = False,
    ) -> None:
        self.names = [name for name, _ in named]
        self.params = [param for _, param in named]
        self.group, self.cap, self.is_on = group, cap, is_on
        self.as_views, self.is_static = as_views, is_static
        self.hook: Hook = _average
        self.state: Any = group
        self.scale: float | None = None  # for gradients of processes that others have left
        self._round: _Round | None = None
        self._end: weakref.ref[_End] | None = None
        self._rounds = 0
        self._is_arranged = False
        self._unsynced: set[int] = set()  # what came while nothing was combined
        self._came_late: set[int] = set()
        self._always: set[int] | None = None  # what a static graph brings here
        self._used: set[int] = set()  # and in any process
        self._arrange(list(reversed(range(len(self.params)))))
        self._handles = [
            param.register_post_accumulate_grad_hook(self._noting(i))
            for i, param in enumerate(self.params)
        ]
        # Else gradients would wait for the end where a loop still holds its last loss.
        _C._want_early_leaves(True)
        weakref.finalize(self, _C._want_early_leaves, False)

    def remove(self) -> None:
        """Take the hooks off the parameters."""
        for handle in self._handles:
            handle.remove()

    def _arrange(self, order: list[int]) -> None:
        """Divide the parameters into buckets, in the order in which gradients come."""
        found = divide(self.params, order, self.cap)
        self._buckets = [Bucket(i, [self.params[j] for j in i], self.as_views) for i in found]
        self._bucket_of = {i: b for b, indices in enumerate(found) for i in indices}
        for bucket in self._buckets if self.as_views else ():
            assert bucket.views is not None
            for param, view in zip(bucket.params, bucket.views, strict=True):
                if param.grad is not None:
                    view.copy_(param.grad)
                    param.grad = view

    # ---- while a backward runs

    def _noting(self, index: int) -> Callable[[Tensor], None]:
        return lambda param: self._note(index)

    def _note(self, index: int) -> None:
        if not self.is_on():
            self._unsynced.add(index)
            return
        if self._end is None or self._end() is None:
            end = _End(self._finish)
            entries = [tapegrad.autograd.graph.get_gradient_edge(p).node for p in self.params]
            self._open(_C._will_reach(entries))
            _C._call_after_sweeps(end)
            self._end = weakref.ref(end)
        assert self._round is not None
        grad = self.params[index].grad
        if grad is not None and grad.is_sparse:
            raise NotImplementedError(
                f"DistributedDataParallel: the gradient of {self.names[index]} is sparse, which "
                "cannot be combined; use sparse=False"
            )
        with tapegrad.no_grad():
            if self._round.progress(self._bucket_of[index], index):
                self._begin_ready()
            else:
                self._move_on()

    def _open(self, reached: Sequence[bool]) -> None:
        if self._round is not None and self._round.begun:
            raise RuntimeError(
                "DistributedDataParallel: an error ended the backward before this one while "
                "gradients were being combined. The processes no longer agree; end them and start "
                "again from a checkpoint"
            )
        expected = [come or i in self._came_late for i, come in enumerate(reached)]
        if self._always is not None:
            expected = [i in self._always for i in range(len(expected))]
        self._round = _Round(self._buckets, expected)

    def _begin_ready(self) -> None:
        assert self._round is not None
        waiting, begun = self._round.waiting, self._round.begun
        while len(begun) < len(waiting) and waiting[len(begun)] == 0:
            self._begin(len(begun))

    def _begin(self, number: int) -> None:
        """Give a bucket to the communication hook."""
        assert self._round is not None
        bucket = self._buckets[number]
        grads = [param.grad for param in bucket.params]
        buffer = bucket.gather(grads)
        if self.scale is not None:
            buffer.mul_(self.scale)
        self._round.kept.update(zip(bucket.indices, grads, strict=True))
        for param in bucket.params:
            param.grad = None  # what comes from here on is late
        is_last = number + 1 == len(self._buckets)
        future = self.hook(self.state, GradBucket(number, buffer, bucket.params, is_last))
        if not isinstance(future, tapegrad.futures.Future):
            raise RuntimeError(
                "DistributedDataParallel: expected the communication hook to return a "
                f"torch.futures.Future, got {type(future).__name__}"
            )
        self._round.begun.append(future)

    def _move_on(self) -> None:
        """Let the engine make progress. Callbacks do not run: they may begin something."""
        if self._round is not None and self._round.begun:
            for engine in self.group._engines.values():
                engine.progress()

    # ---- at its end

    def reduce_nothing(self) -> None:
        """Take part in a backward of the others, without gradients."""
        with tapegrad.no_grad():
            held = [param.grad for param in self.params]
            for param in self.params:
                param.grad = None
            self._open([False] * len(self.params))
            self._finish()
            for param, grad in zip(self.params, held, strict=True):
                param.grad = grad

    def _finish(self) -> None:
        with tapegrad.no_grad():
            assert self._round is not None
            while len(self._round.begun) < len(self._buckets):
                self._begin(len(self._round.begun))
            used, late = self._exchange(self._round)
            for bucket, future in zip(self._buckets, self._round.begun, strict=True):
                self._deliver(bucket, future.wait(), used, self._round)
            if late:
                self._add_late(late)
            done, self._round, self._end = self._round, None, None
            self._learn(done, used, late)

    def _exchange(self, round: _Round) -> tuple[set[int], list[int]]:
        """Return which parameters any process has used, and which gradients were late."""
        if self._always is not None:
            self._check_static(round)
            return self._used, []
        used = {*round.arrived, *round.late}
        used |= {i for i in self._unsynced if round.kept[i] is not None}
        if self.group.size() == 1:
            return used, sorted(round.late)
        from tapegrad import distributed

        count = len(self.params)
        flags = tapegrad.zeros(2 * count, dtype=tapegrad.int32)
        flags[sorted(used)] = 1
        flags[[count + i for i in sorted(round.late)]] = 1
        flags = flags.to(self.params[0].device)
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, self.group)
        found = [i for i, flag in enumerate(flags.tolist()) if flag]
        return {i for i in found if i < count}, [i - count for i in found if i >= count]

    def _check_static(self, round: _Round) -> None:
        assert self._always is not None
        arrived = set(round.arrived)
        differ = (arrived ^ self._always if arrived else set()) | round.late.keys()
        if differ:
            for future in round.begun:  # nothing uses their memory afterwards
                future.wait()
            names = ", ".join(self.names[i] for i in sorted(differ))
            raise RuntimeError(
                "DistributedDataParallel: static_graph=True, and this backward did not bring the "
                f"gradients of the first; it differs in {names}. Leave static_graph out"
            )

    def _deliver(self, bucket: Bucket, result: Any, used: set[int], round: _Round) -> None:
        """Put a result into the gradients of a bucket."""
        result = result[0] if isinstance(result, (list, tuple)) else result
        if bucket.memory is not None and bucket.memory.data_ptr() != result.data_ptr():
            bucket.memory.copy_(result)
        views = bucket.views or pieces(result, bucket.params)
        for i, param, view in zip(bucket.indices, bucket.params, views, strict=True):
            kept = round.kept[i]
            if i in round.late:
                round.late[i] = param.grad
            if i not in used:
                param.grad = kept
            elif bucket.views is not None:
                param.grad = view
            elif kept is None:
                param.grad = view.to(param.dtype, copy=True)
            else:
                kept.detach().copy_(view)
                param.grad = kept

    def _add_late(self, late: list[int]) -> None:
        """Average the gradients that have come after their buckets, and add them."""
        assert self._round is not None
        for indices in divide(self.params, late, self.cap):
            bucket = Bucket(indices, [self.params[i] for i in indices], False)
            buffer = bucket.gather([self._round.late.get(i) for i in indices])
            if self.scale is not None:
                buffer.mul_(self.scale)
            _average(self.group, GradBucket(0, buffer, bucket.params, True)).wait()
            for param, piece in zip(bucket.params, pieces(buffer, bucket.params), strict=True):
                assert param.grad is not None
                param.grad.detach().add_(piece)

    def _learn(self, done: _Round, used: set[int], late: list[int]) -> None:
        """Expect what has come, and put parameters into the order in which gradients came."""
        self._unsynced.clear()
        self._came_late = set(done.late)
        self._rounds += 1
        if self.is_static and not late and self._always is None and done.arrived:
            self._always, self._used = set(done.arrived), used
        if self._is_arranged or (late and self._rounds == 1):
            return
        self._is_arranged = True
        rest = [i for i in reversed(range(len(self.params))) if i not in set(done.arrived)]
        order = tapegrad.tensor(done.arrived + rest).to(self.params[0].device)
        if self.group.size() > 1:
            from tapegrad import distributed

            distributed.broadcast(order, group=self.group, group_src=0)
        self._arrange(order.tolist())


def _average(group: Any, bucket: GradBucket) -> Any:
    """Begin to average a bucket over the group."""
    from tapegrad import distributed

    buffer = bucket.buffer()
    work = distributed.all_reduce(buffer, distributed.ReduceOp.AVG, group, async_op=True)
    assert work is not None
    return work.get_future()
