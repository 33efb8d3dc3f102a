"""Several ranks, on an engine of threads: ranks of groups, lists, layouts, dtypes, objects."""

from datetime import timedelta

import pytest

import tapegrad as torch
from tapegrad import distributed as dist

OPS = dist.ReduceOp
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8", "complex64")


def values(rank, dtype="float32", *shape):
    """Return numbers that tell the ranks apart."""
    shape = shape or (3,)
    count = torch.arange(int(torch.tensor(shape).prod()), dtype=torch.float32).reshape(shape)
    return (count + 1 + 10 * rank).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 3])
def test_every_collective_moves_every_dtype(ranks, size, dtype):
    def run(rank):
        x = values(rank, dtype)
        total = sum(values(r, dtype) for r in range(size))
        y = x.clone()
        dist.all_reduce(y)
        assert torch.equal(y, total)
        y = x.clone()
        dist.broadcast(y, src=1)
        assert torch.equal(y, values(1, dtype))
        y = x.clone()
        dist.reduce(y, dst=1)
        assert rank != 1 or torch.equal(y, total)
        parts = [torch.zeros_like(x) for _ in range(size)]
        dist.all_gather(parts, x)
        assert all(torch.equal(part, values(r, dtype)) for r, part in enumerate(parts))
        whole = torch.zeros(size * 3, dtype=x.dtype)
        dist.all_gather_into_tensor(whole, x)
        assert torch.equal(whole, torch.cat(parts))
        stack = torch.zeros(size, 3, dtype=x.dtype)
        dist.all_gather_into_tensor(stack, x)
        assert torch.equal(stack, torch.stack(parts))
        y = torch.zeros_like(x)
        dist.reduce_scatter(y, parts)
        assert torch.equal(y, parts[rank] * size)
        dist.reduce_scatter_tensor(y, whole)
        assert torch.equal(y, parts[rank] * size)
        gathered = [torch.zeros_like(x) for _ in range(size)] if rank == 1 else None
        dist.gather(x, gathered, dst=1)
        assert gathered is None or torch.equal(torch.stack(gathered), stack)
        dist.scatter(y, [values(r + 5, dtype) for r in range(size)] if rank == 0 else None, src=0)
        assert torch.equal(y, values(rank + 5, dtype))
        outputs = [torch.zeros_like(x) for _ in range(size)]
        dist.all_to_all(outputs, [x + r for r in range(size)])
        assert all(torch.equal(out, values(r, dtype) + rank) for r, out in enumerate(outputs))

    ranks(size, run)


@pytest.mark.parametrize(
    "op, dtype, expected",
    [
        (OPS.SUM, "float32", 1.0 + 2 + 3),
        (OPS.AVG, "float32", 2.0),
        (OPS.PRODUCT, "int64", 6),
        (OPS.MIN, "int64", 1),
        (OPS.MAX, "float32", 3.0),
        (OPS.BAND, "int64", 1 & 2 & 3),
        (OPS.BOR, "int64", 1 | 2 | 3),
        (OPS.BXOR, "int64", 1 ^ 2 ^ 3),
        (dist._make_nccl_premul_sum(0.5), "float32", 3.0),
    ],
    ids=str,
)
def test_reductions(ranks, op, dtype, expected):
    def run(rank):
        one = torch.full((2,), rank + 1, dtype=getattr(torch, dtype))
        y = one.clone()
        dist.all_reduce(y, op)
        z = one.clone()
        dist.reduce(z, 2, op)
        out = torch.zeros_like(one)
        inputs = [one.clone() for _ in range(3)]
        dist.reduce_scatter(out, inputs, op)
        whole = torch.cat(inputs)
        dist.reduce_scatter_tensor(out, whole, op)
        assert torch.equal(whole, torch.cat([one] * 3)), "inputs are not written"
        return y.tolist(), out.tolist(), z.tolist() if rank == 2 else y.tolist()

    assert ranks(3, run) == [([expected] * 2,) * 3] * 3


def test_an_average_of_complex_numbers(ranks):
    def run(rank):
        x = torch.tensor([complex(rank, 2 * rank)])
        dist.all_reduce(x, OPS.AVG)
        return x.item()

    assert ranks(3, run) == [1 + 2j] * 3


def test_bools_are_reduced(ranks):
    def run(rank):
        x = torch.tensor([rank == 1, False])
        dist.all_reduce(x)
        return x.tolist()

    assert ranks(2, run) == [[True, False]] * 2


@pytest.mark.parametrize("async_op", [False, True])
def test_layouts_that_are_not_contiguous(ranks, async_op):
    def run(rank):
        x = values(rank, "float32", 3, 4)[:, ::2]
        works = []
        y = torch.zeros(3, 4)
        view = y[:, 1::2]
        view.copy_(x)
        works.append(dist.all_reduce(view, async_op=async_op))
        parts = [torch.zeros(2, 3).t() for _ in range(2)]
        works.append(dist.all_gather(parts, x, async_op=async_op))
        whole = torch.zeros(2, 6).t()
        works.append(dist.all_gather_into_tensor(whole, x, async_op=async_op))
        for work in works:
            assert (work is None) == (not async_op)
            if async_op:
                assert work.wait() and work.is_success()
        expected = [values(r, "float32", 3, 4)[:, ::2] for r in range(2)]
        assert torch.equal(view, expected[0] + expected[1])
        assert torch.equal(y[:, ::2], torch.zeros(3, 2)), "what lies between is not touched"
        assert all(map(torch.equal, parts, expected))
        assert torch.equal(whole, torch.cat(expected))

    ranks(2, run)


def test_no_elements_and_no_dimensions(ranks):
    def run(rank):
        empty, parts = torch.zeros(0, 3), [torch.zeros(0, 3)] * 2
        dist.all_reduce(empty)
        dist.all_gather(parts, empty)
        dist.all_to_all_single(torch.zeros(0), torch.zeros(0))
        x = torch.tensor(float(rank))
        dist.all_reduce(x)
        assert x.item() == 1
        found = torch.zeros(2)
        dist.all_gather_into_tensor(found, torch.tensor(float(rank)))
        assert found.tolist() == [0, 1]

    ranks(2, run)


def test_rows_of_uneven_number(ranks):
    def run(rank):
        rows = torch.full((3, 2), float(rank))
        sizes = [[1, 2, 0], [0, 1, 2], [2, 0, 1]]
        out_sizes = [sizes[r][rank] for r in range(3)]
        out = torch.zeros(sum(out_sizes), 2)
        dist.all_to_all_single(out, rows, out_sizes, sizes[rank])
        return out[:, 0].tolist()

    assert ranks(3, run) == [[0, 2, 2], [0, 0, 1], [1, 1, 2]]


def test_polling_finds_the_end(ranks):
    def run(rank):
        parts = [torch.zeros(1), torch.zeros(1)]
        work = dist.all_gather(parts, torch.tensor([float(rank)]), async_op=True)
        future = work.get_future().then(lambda done: [x.item() for x in done.value()])
        assert not work.is_completed()
        assert future.wait() == [0, 1]
        assert work.is_completed() and torch.cat(parts).tolist() == [0, 1]

    ranks(2, run)


# ---- groups


def test_ranks_in_groups_and_in_the_world(ranks):
    def run(rank):
        odd = dist.new_group([3, 1])
        every = dist.new_group()
        kept = dist.new_group([2, 0], sort_ranks=False)
        assert every.size() == 4 and dist.get_rank(every) == rank
        if rank % 2:
            assert dist.get_process_group_ranks(odd) == [1, 3]
            assert dist.get_rank(odd) == rank // 2 == dist.get_group_rank(odd, rank)
            assert dist.get_global_rank(odd, 1) == 3
            with pytest.raises(ValueError, match="Global rank 0 is not part of group"):
                dist.get_group_rank(odd, 0)
            x = torch.tensor([float(rank)])
            dist.broadcast(x, src=3, group=odd)
            assert x.item() == 3
            dist.broadcast(x.fill_(rank), group_src=0, group=odd)
            assert x.item() == 1
            found = [torch.zeros(1), torch.zeros(1)] if rank == 3 else None
            dist.gather(torch.tensor([float(rank)]), found, dst=3, group=odd)
            assert found is None or [y.item() for y in found] == [1, 3]
            assert kept is dist.GroupMember.NON_GROUP_MEMBER
        else:
            assert odd is dist.GroupMember.NON_GROUP_MEMBER
            assert dist.get_rank(odd) == dist.get_world_size(odd) == -1
            with pytest.warns(UserWarning, match="does not belong to the given group"):
                assert dist.all_reduce(torch.ones(1), group=odd) is None
            assert dist.get_rank(kept) == (1 if rank == 0 else 0)
            names = [None, None]
            dist.all_gather_object(names, rank, group=kept)
            assert names == [2, 0]
        mine, groups = dist.new_subgroups(2)
        assert len(groups) == 4 // 2 and dist.get_process_group_ranks(mine)[0] == rank // 2 * 2
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=mine)
        assert x.item() == (1 if rank < 2 else 5)
        dist.destroy_process_group(mine)
        with pytest.raises(ValueError, match="not registered"):
            dist.get_rank(mine)
        dist.barrier()

    ranks(4, lambda rank: run(rank))


def test_roots_outside_of_a_group_are_refused(ranks):
    def run(rank):
        with pytest.raises(RuntimeError, match="broadcast: invalid root rank: 2"):
            dist.broadcast(torch.ones(1), 2)
        with pytest.raises(RuntimeError, match="scatter: invalid root rank: -1"):
            dist.scatter(torch.ones(1), src=-1)
        with pytest.raises(ValueError, match="must be specified on source rank"):
            dist.scatter(torch.ones(1), src=rank)
        with pytest.raises(ValueError, match="must NOT be specified on non-destination"):
            dist.gather(torch.ones(1), [torch.ones(1)] * 2, dst=1 - rank)
        with pytest.raises(RuntimeError, match=r"incorrect output tensor list size 1.*be 2"):
            dist.all_gather([torch.ones(1)], torch.ones(1))
        with pytest.raises(RuntimeError, match="must have shape"):
            dist.reduce_scatter_tensor(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="does not divide equally"):
            dist.all_to_all_single(torch.ones(3), torch.ones(3))

    ranks(2, run)


# ---- messages and objects


def test_messages(ranks):
    def run(rank):
        if rank == 0:
            dist.send(torch.tensor([1.0, 2.0]), 1)
            dist.send(torch.tensor([5.0]), 1, tag=7)
            x = torch.zeros(1)
            assert dist.recv(x) in (1, 2)
        elif rank == 1:
            tagged, x = torch.zeros(1), torch.zeros(2, 2).t()[0]
            assert dist.recv(tagged, 0, tag=7) == 0
            work = dist.irecv(x, src=0)
            assert work.wait() and work.source_rank() == 0
            assert tagged.item() == 5 and x.tolist() == [1, 2]
            dist.send(torch.zeros(1), 0)
        right, left = (rank + 1) % 3, (rank - 1) % 3
        came = torch.zeros(1)
        messages = [
            dist.P2POp(dist.isend, torch.tensor([float(rank)]), right, tag=1),
            dist.P2POp(dist.irecv, came, left, tag=1),
        ]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        assert came.item() == left
        pair = dist.new_group([2, 1])
        if rank == 1:
            dist.send(torch.ones(1), group=pair, group_dst=1)
            dist.send_object_list([{"a": rank}, "b" * 99], 2, group=pair)
        elif rank == 2:
            assert dist.recv(came, group=pair) == 1
            objects = [None, None]
            assert dist.recv_object_list(objects, group=pair) == 1
            assert objects == [{"a": 1}, "b" * 99]

    ranks(3, run)


def test_objects(ranks):
    def run(rank):
        mine = {"rank": rank, "text": "x" * (10 * rank), "tensor": torch.full((rank,), 1.0)}
        found = [None] * 3
        dist.all_gather_object(found, mine)
        assert [each["rank"] for each in found] == [0, 1, 2]
        assert [len(each["text"]) for each in found] == [0, 10, 20]
        assert [each["tensor"].numel() for each in found] == [0, 1, 2]
        gathered = [None] * 3 if rank == 2 else None
        dist.gather_object(rank, gathered, dst=2)
        assert gathered in (None, [0, 1, 2])
        sent = [rank, "name" * rank]
        dist.broadcast_object_list(sent, src=2)
        assert sent == [2, "namename"]
        given = [None]
        dist.scatter_object_list(given, ["a", "bb" * 50, 3] if rank == 1 else None, src=1)
        assert given == [["a", "bb" * 50, 3][rank]]
        pair = dist.new_group([2, 0])
        if rank != 1:
            given = [None]
            dist.scatter_object_list(given, ["first", "last"] if rank == 2 else None, 2, pair)
            assert given == ["first" if rank == 0 else "last"]

    ranks(3, run)


def test_stores_bring_ranks_together(ranks):
    def run(rank):
        store = dist.group.WORLD.get_group_store()
        if rank == 0:
            store.set("address", "here")
        assert store.get("address") == b"here"
        store.barrier("all", 3, timedelta(seconds=20))
        dist.barrier()
        dist.monitored_barrier(timeout=timedelta(seconds=20))
        return store.add("count", 1)

    assert sorted(ranks(3, run)) == [1, 2, 3]


def test_works_that_nobody_waits_for(ranks):
    def run(rank):
        dist.group.WORLD.set_timeout(timedelta(seconds=50))
        for number in range(40):
            if rank == 0:
                dist.isend(torch.full((1000,), float(number)), 1, tag=number)
        found = torch.zeros(1000)
        for number in reversed(range(40)):
            if rank == 1:
                dist.recv(found, 0, tag=number)
                assert found.tolist() == [number] * 1000
        dist.barrier()

    ranks(2, run)


def test_what_is_captured_may_not_need_other_processes(ranks):
    def run(rank):
        with pytest.raises(RuntimeError, match="several processes cannot be captured"):
            torch.jit.trace(lambda x: dist.all_reduce(x + 1), torch.ones(2))
        with torch.tape.record(replay=True):
            y = torch.ones(2) + 1
            with pytest.raises(RuntimeError, match="several processes cannot be captured"):
                dist.broadcast(y, 0)
        dist.all_reduce(y)
        return y.tolist()

    assert ranks(2, run) == [[4, 4]] * 2


def test_an_engine_without_a_method_says_so(ranks):
    class Poor(dist.engine.Engine):
        pass

    ranks.make = lambda options, pg_options: Poor(options)
    dist.Backend._plugins["threads"] = dist.Backend._plugins["threads"]._replace(make=ranks.make)

    def run(rank):
        with pytest.raises(NotImplementedError, match="all_reduce: Poor has no all_reduce"):
            dist.all_reduce(torch.ones(1))

    ranks(2, run)
