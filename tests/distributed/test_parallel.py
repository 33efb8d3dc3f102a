"""`DistributedDataParallel` and what goes with it, and gradients of collectives."""

import copy
import gc
import pickle
import warnings

import pytest

import tapegrad as torch
from tapegrad import distributed as dist
from tapegrad.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook
from tapegrad.distributed.algorithms.join import Join, Joinable, JoinHook
from tapegrad.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from tapegrad.distributed.nn import functional as F
from tapegrad.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from tapegrad.nn.parallel import DistributedDataParallel

DDP = DistributedDataParallel


class Net(torch.nn.Module):
    """A model with a buffer, and a part that not every step uses."""

    def __init__(self, size=4):
        super().__init__()
        self.first = torch.nn.Linear(size, size)
        self.norm = torch.nn.BatchNorm1d(size)
        self.last = torch.nn.Linear(size, 1)
        self.spare = torch.nn.Linear(size, 1)

    def forward(self, x, spare=False):
        hidden = self.norm(torch.tanh(self.first(x)))
        return self.spare(hidden) if spare else self.last(hidden)


def grads(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def all_equal(ours, theirs):
    return all(
        (a is None) == (b is None) and (a is None or torch.equal(a, b))
        for a, b in zip(ours, theirs, strict=True)
    )


class TestOneProcess:
    def test_gradients_are_those_of_the_module_to_the_bit(self, world):
        plain = Net()
        wrapped = DDP(copy.deepcopy(plain))
        x = torch.randn(5, 4)
        plain(x).sum().backward()
        wrapped(x).sum().backward()
        assert all_equal(grads(plain), grads(wrapped.module))
        wrapped(x, spare=True).sum().backward()  # other parameters than before

    def test_names_and_settings(self, world):
        model = DDP(Net(), find_unused_parameters=True, broadcast_buffers=False)
        assert all(name.startswith("module.") for name in model.state_dict())
        assert "norm.running_mean" in model.module.state_dict()
        assert model.device == torch.device("cpu") and model.device_type == "cpu"
        assert model.process_group is dist.group.WORLD and model.device_ids is None
        assert not model.broadcast_buffers and model.require_backward_grad_sync
        with model.no_sync():
            assert not model.require_backward_grad_sync
            model(torch.randn(3, 4)).sum().backward()
        with model.join():
            model(torch.randn(3, 4)).sum().backward()
        assert str(model.load_state_dict(model.state_dict())) == "<All keys matched successfully>"

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_copies(self, world, copied):
        model = DDP(Net())
        again = copied(model)
        assert again.process_group is dist.group.WORLD
        assert all_equal(list(model.state_dict().values()), list(again.state_dict().values()))
        again(torch.randn(3, 4)).sum().backward()

    def test_it_does_nothing_more_than_the_module(self, world):
        model = DDP(Net())
        assert model._reducer is None

    @pytest.mark.parametrize(
        "kwargs, error, text",
        [
            ({"device_ids": [0, 1]}, ValueError, "can only be None or contain a single element"),
            ({"device_ids": [0]}, ValueError, "only work with single-device"),
            ({"process_group": 3}, TypeError, "expected a ProcessGroup"),
            ({"process_group": -100}, TypeError, "expected a ProcessGroup"),
            ({"mixed_precision": 1}, NotImplementedError, "mixed_precision is not supported"),
            ({"delay_all_reduce_named_params": []}, NotImplementedError, "is not supported"),
        ],
    )
    def test_what_is_refused(self, world, kwargs, error, text):
        with pytest.raises(error, match=text):
            DDP(Net(), **kwargs)

    def test_a_module_without_parameters_is_refused(self, world):
        with pytest.raises(RuntimeError, match="doesn't have any parameter"):
            DDP(torch.nn.ReLU())

    def test_without_a_world(self):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            DDP(Net())

    def test_communication_hooks_run(self, world):
        plain = Net()
        model = DDP(copy.deepcopy(plain), bucket_cap_mb=1e-5)
        seen = []

        def hook(state, bucket):
            seen.append((state, bucket.index(), bucket.is_last(), len(bucket.parameters())))
            assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
            future = torch.futures.Future()
            future.set_result(bucket.buffer() * 2)
            return future

        model.register_comm_hook("state", hook)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook("state", hook)
        x = torch.randn(5, 4)
        plain(x).sum().backward()
        model(x).sum().backward()
        assert all_equal([None if g is None else g * 2 for g in grads(plain)], grads(model))
        assert seen[0][:2] == ("state", 0) and len(seen) > 1
        assert [s[2] for s in seen] == [False] * (len(seen) - 1) + [True]
        assert sum(s[3] for s in seen) == 8, "the two of the spare layer count as zero"
        seen.clear()
        with model.no_sync():
            model(x).sum().backward()
        assert not seen

    @pytest.mark.parametrize("reentrant", [False, True])
    def test_hooks_and_checkpoints(self, world, reentrant):
        plain = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        model = DDP(copy.deepcopy(plain))
        model.register_comm_hook(None, default_hooks.allreduce_hook)
        x = torch.randn(2, 3, requires_grad=True)

        def run(module):
            hidden = torch.utils.checkpoint.checkpoint(module[0], x, use_reentrant=reentrant)
            module[1](hidden).sum().backward()

        run(plain)
        run(model.module)
        assert all_equal(grads(plain), grads(model))

    @pytest.mark.parametrize("hook", ["fp16_compress_hook", "bf16_compress_hook"])
    def test_compressed_gradients(self, world, hook):
        plain = torch.nn.Linear(3, 3)
        model = DDP(copy.deepcopy(plain))
        model.register_comm_hook(None, getattr(default_hooks, hook))
        x = torch.randn(2, 3)
        plain(x).sum().backward()
        model(x).sum().backward()
        dtype = torch.float16 if hook.startswith("fp16") else torch.bfloat16
        expected = [g.to(dtype).float() for g in grads(plain)]
        assert all_equal(expected, grads(model))

    def test_what_a_hook_returns_is_checked(self, world):
        model = DDP(torch.nn.Linear(3, 3))
        model.register_comm_hook(None, lambda state, bucket: bucket.buffer())
        with pytest.raises(RuntimeError, match=r"return a torch\.futures\.Future, got Tensor"):
            model(torch.ones(1, 3)).sum().backward()

    def test_nothing_is_left_alive(self, world):
        gc.collect()
        before = torch._C.live_counts()
        model = DDP(torch.nn.Linear(3, 3))
        model.register_comm_hook(None, default_hooks.allreduce_hook)
        model(torch.ones(1, 3)).sum().backward()
        del model
        gc.collect()
        assert torch._C.live_counts() == before

    def test_zero_steps_as_the_optimizer_does(self, world):
        plain, shared = Net(), None
        shared = copy.deepcopy(plain)
        adam = torch.optim.AdamW(plain.parameters(), lr=0.1)
        zero = ZeroRedundancyOptimizer(shared.parameters(), torch.optim.AdamW, lr=0.1)
        schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in (adam, zero)]
        for _ in range(3):
            x = torch.randn(5, 4)
            for model, optimizer in ((plain, adam), (shared, zero)):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            for scheduler in schedulers:
                scheduler.step()
        assert all_equal(list(plain.parameters()), list(shared.parameters()))
        with pytest.raises(RuntimeError, match="has not been consolidated"):
            zero.state_dict()
        zero.consolidate_state_dict()
        ours, theirs = zero.state_dict(), adam.state_dict()
        assert ours["state"].keys() == theirs["state"].keys()
        assert all(
            torch.equal(ours["state"][i]["exp_avg"], theirs["state"][i]["exp_avg"])
            for i in ours["state"]
        )
        assert ours["param_groups"][0]["params"] == theirs["param_groups"][0]["params"]
        fresh = ZeroRedundancyOptimizer(shared.parameters(), torch.optim.AdamW, lr=0.3)
        fresh.load_state_dict(theirs)
        assert fresh.param_groups[0]["lr"] == fresh.optim.param_groups[0]["lr"] == 0.0125
        assert len(fresh.optim.state) == len(theirs["state"])

    def test_samplers_and_batch_norms_of_a_world_of_one(self, world):
        assert sorted(torch.utils.data.DistributedSampler(range(5))) == list(range(5))
        plain = torch.nn.BatchNorm1d(3)
        for group in (None, dist.group.WORLD):
            model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(3), group)
            x = torch.randn(4, 3)
            assert torch.equal(DDP(model)(x), plain(x))
            copy.deepcopy(model)

    def test_zero_refuses(self, world):
        with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
            ZeroRedundancyOptimizer(Net().parameters(), torch.optim.SGD, overlap_with_ddp=True)
        with pytest.raises(TypeError, match="iterable of Tensors"):
            ZeroRedundancyOptimizer(torch.ones(1), torch.optim.SGD)
        with pytest.raises(TypeError, match="iterable of Tensors or dicts"):
            ZeroRedundancyOptimizer(3, torch.optim.SGD)
        with pytest.raises(ValueError, match="empty parameter list"):
            ZeroRedundancyOptimizer([], torch.optim.SGD)

    @pytest.mark.parametrize("order", ["grad", "gradgrad"])
    def test_gradients_of_collectives(self, world, order):
        def through(x):
            (y,) = F.all_gather(F.all_reduce(F.broadcast(x, 0)))
            (z,) = F.gather(F.reduce(y, 0))
            z = F.reduce_scatter(torch.empty_like(z), [F.scatter([z], 0)])
            (w,) = F.all_to_all([torch.empty_like(z)], [z])
            return F.all_to_all_single(torch.empty_like(w), w) ** 2

        x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
        check = getattr(torch.autograd, f"{order}check")
        assert check(through, (x,))
        _, tangent = torch.func.jvp(through, (x.detach(),), (torch.ones_like(x),))
        torch.testing.assert_close(tangent, 2 * x.detach())
        mapped = torch.func.vmap(lambda row: F.all_reduce(row) * 2)(x.detach())
        torch.testing.assert_close(mapped, 2 * x.detach())


class TestSeveralRanks:
    def test_gradients_are_averaged(self, ranks):
        data = torch.randn(3, 5, 4)
        whole = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        start = copy.deepcopy(whole.state_dict())
        torch.stack([whole(x).mean() for x in data]).mean().backward()

        def run(rank):
            model = torch.nn.Sequential(
                torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
            )
            if rank == 0:
                model.load_state_dict(start)
            wrapped = DDP(model, bucket_cap_mb=1e-5)
            with wrapped.no_sync():
                wrapped(data[rank]).mean().backward()
            alone = grads(model)
            wrapped.zero_grad()
            wrapped(data[rank]).mean().backward()
            return alone, grads(model)

        found = ranks(3, run)
        for alone, averaged in found:
            for ours, expected in zip(averaged, grads(whole), strict=True):
                torch.testing.assert_close(ours, expected)
            assert not torch.allclose(alone[0], grads(whole)[0])

    def test_ranks_that_use_different_parts(self, ranks):
        def run(rank):
            torch.manual_seed(0)
            model = DDP(Net(), broadcast_buffers=False)
            model(torch.full((2, 4), 1.0), spare=rank == 1).sum().backward()
            return grads(model)

        first, second = ranks(2, run)
        assert all(g is not None for g in first) and all_equal(first, second)

    def test_buffers_and_parameters_come_from_the_first(self, ranks):
        def run(rank):
            model = DDP(Net())
            model.module.norm.running_mean.fill_(rank)
            model(torch.randn(3, 4)).sum().backward()
            model(torch.randn(3, 4))
            state = model.module.state_dict()
            return state["first.weight"], [g for g in grads(model) if g is not None]

        found = ranks(2, run)
        assert torch.equal(found[0][0], found[1][0]) and all_equal(found[0][1], found[1][1])

    def test_models_that_differ_are_refused(self, ranks):
        def run(rank):
            with pytest.raises(RuntimeError, match="parameters of the processes differ"):
                DDP(Net(4 + rank))

        ranks(2, run)

    def test_samplers_divide_and_batch_norms_over_several_are_refused(self, ranks):
        def run(rank):
            alone, _ = dist.new_subgroups(1)
            for group in (None, alone):
                norm = torch.nn.SyncBatchNorm(3, process_group=group)
                if group is None:
                    with pytest.raises(NotImplementedError, match="over several processes"):
                        norm(torch.ones(2, 3))
                norm.train(group is not None)(torch.ones(2, 3))
            with pytest.raises(NotImplementedError, match="over several processes"):
                torch.nn.SyncBatchNorm(3, process_group=dist.group.WORLD)
            return list(torch.utils.data.DistributedSampler(range(4), shuffle=False))

        assert ranks(2, run) == [[0, 2], [1, 3]]

    def test_zero_shares_the_state(self, ranks):
        plain = Net()
        start = copy.deepcopy(plain.state_dict())
        x = torch.randn(5, 4)
        adam = torch.optim.Adam(plain.parameters(), lr=0.1)
        for _ in range(2):
            adam.zero_grad()
            plain(x).sum().backward()
            adam.step()

        def run(rank):
            model = Net()
            model.load_state_dict(start)
            zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
            for _ in range(2):
                zero.zero_grad()
                model(x).sum().backward()
                zero.step()
            own = len(zero.state)
            zero.consolidate_state_dict(to=1)
            if rank != 1:
                with pytest.raises(RuntimeError, match="has not been consolidated"):
                    zero.state_dict()
                return own, None, model.state_dict()
            fresh = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
            fresh.load_state_dict(zero.state_dict())
            assert fresh.state.keys() == zero.state.keys()
            return own, zero.state_dict(), model.state_dict()

        found = ranks(3, run)
        used = len(adam.state)
        assert sum(own for own, _, _ in found) == used and max(own for own, _, _ in found) < used
        for _, _, state in found:
            for name, value in plain.state_dict().items():
                if "norm" not in name:
                    torch.testing.assert_close(state[name], value)
        merged = found[1][1]["state"]
        assert merged.keys() == adam.state_dict()["state"].keys()
        for i, entry in adam.state_dict()["state"].items():
            torch.testing.assert_close(merged[i]["exp_avg"], entry["exp_avg"])

    def test_join_goes_on_for_the_others(self, ranks):
        class Counter(Joinable):
            def __init__(self):
                self.steps, self.shadows, self.was_last = 0, 0, None

            def step(self):
                Join.notify_join_context(self)
                self.exchange()
                self.steps += 1

            def exchange(self):
                dist.all_reduce(torch.ones(1))

            def join_hook(self, **kwargs):
                counter = self

                class Hook(JoinHook):
                    def main_hook(self):
                        counter.exchange()
                        counter.shadows += 1

                    def post_hook(self, is_last_joiner):
                        counter.was_last = is_last_joiner

                return Hook()

            @property
            def join_device(self):
                return torch.device("cpu")

            @property
            def join_process_group(self):
                return dist.group.WORLD

        def run(rank):
            counter = Counter()
            with Join([counter]):
                for _ in range(rank + 1):
                    counter.step()
            return counter.steps, counter.shadows, counter.was_last

        assert ranks(3, run) == [(1, 2, False), (2, 1, False), (3, 0, True)]

        def stop(rank):
            counter = Counter()
            early = Join([counter], throw_on_early_termination=True)
            with pytest.raises(RuntimeError, match="no inputs left"), early:
                for _ in range(rank + 1):
                    counter.step()

        ranks(2, stop)

    def test_parameters_are_averaged_from_time_to_time(self, ranks):
        def run(rank):
            weight = torch.nn.Parameter(torch.tensor([float(rank)]))
            averager = PeriodicModelAverager(period=2, warmup_steps=1)
            optimizer = PostLocalSGDOptimizer(torch.optim.SGD([weight], lr=1.0), averager)
            seen = []
            for _ in range(4):
                weight.grad = torch.full((1,), float(rank))
                optimizer.step()
                seen.append(weight.item())
            state = optimizer.state_dict()
            assert state["step"] == 4
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer.load_state_dict(state)
            return seen

        first, second = ranks(2, run)
        assert first[1] == second[1] and first[3] == second[3] and first[2] != second[2]

    def test_local_sgd_averages_over_all_and_then_over_a_subgroup(self, ranks):
        def run(rank):
            weight = torch.nn.Linear(1, 1, bias=False)
            model = DDP(weight)
            mine, _ = dist.new_subgroups(2)
            state = post_localSGD_hook.PostLocalSGDState(None, mine, start_localSGD_iter=1)
            model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
            seen = []
            for _ in range(2):
                model.zero_grad()
                model(torch.full((1, 1), float(rank))).sum().backward()
                seen.append(weight.weight.grad.item())
            return seen

        assert ranks(4, run) == [[1.5, 0.5], [1.5, 0.5], [1.5, 2.5], [1.5, 2.5]]

    def test_gradients_of_collectives_follow_from_the_sum_of_losses(self, ranks):
        """Each rank's gradient is compared with that of the same program written as one."""
        size = 3
        inputs = torch.randn(size, 4, dtype=torch.float64)
        weights = torch.randn(size, size, 4, dtype=torch.float64)

        def together():
            x = [each.clone().requires_grad_() for each in inputs]
            loss = sum((weights[r, 0] * x[1] ** 2).sum() for r in range(size))  # broadcast
            total = sum(x)
            loss = loss + sum((weights[r, 1] * total).sum() for r in range(size))  # all_reduce
            loss = loss + (weights[2, 2] * total / size).sum()  # reduce to 2, an average
            for r in range(size):
                loss = loss + sum((weights[r, i] * x[i] ** 3).sum() for i in range(size))  # gather
                loss = loss + (weights[r, 0] * sum((r + 1) * x[i] for i in range(size))).sum()
                loss = loss + sum((weights[r, i] * (r + 1) * x[i]).sum() for i in range(size))
            loss = loss + sum((weights[0, i] * x[i]).sum() for i in range(size))  # gather to 0
            loss = loss + sum((weights[r, 1] * x[2] * r).sum() for r in range(size))  # scatter
            return torch.autograd.grad(loss, x)

        def run(rank):
            x, w = inputs[rank].clone().requires_grad_(), weights[rank]
            loss = (w[0] * F.broadcast(x, 1) ** 2).sum() + (w[1] * F.all_reduce(x)).sum()
            mean = F.reduce(x, 2, dist.ReduceOp.AVG)
            loss = loss + ((w[2] * mean).sum() if rank == 2 else 0 * mean.sum())
            loss = loss + sum((w[i] * y**3).sum() for i, y in enumerate(F.all_gather(x)))
            parts = [(r + 1) * x for r in range(size)]
            loss = loss + (w[0] * F.reduce_scatter(torch.empty_like(x), parts)).sum()
            outputs = F.all_to_all([torch.empty_like(x)] * size, parts)
            loss = loss + sum((w[i] * y).sum() for i, y in enumerate(outputs))
            gathered = F.gather(x, 0)
            scale = 1 if rank == 0 else 0
            loss = loss + scale * sum((w[i] * y).sum() for i, y in enumerate(gathered))
            loss = loss + (w[1] * F.scatter([x * r for r in range(size)], 2)).sum()
            return torch.autograd.grad(loss, x)[0]

        for ours, expected in zip(ranks(size, run), together(), strict=True):
            torch.testing.assert_close(ours, expected)

    def test_gradients_of_other_reductions_are_refused(self, ranks):
        def run(rank):
            x = torch.ones(2, requires_grad=True)
            with pytest.raises(NotImplementedError, match="gradients are there for SUM and AVG"):
                F.all_reduce(x, dist.ReduceOp.MAX).sum().backward()

        ranks(2, run)


class TestCompiled:
    def test_a_step_of_a_wrapped_model_is_replayed(self, world):
        torch.manual_seed(0)
        plain = torch.nn.Linear(3, 3)
        model = DDP(copy.deepcopy(plain))

        def step_of(net):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

            def step(x):
                optimizer.zero_grad()
                loss = net(x).square().mean()
                loss.backward()
                optimizer.step()
                return loss.detach()

            return step

        x = torch.ones(2, 3)
        eager, compiled = step_of(plain), torch.compile(step_of(model))
        assert [eager(x).item() for _ in range(5)] == [compiled(x).item() for _ in range(5)]
        assert torch.compiler.explain(compiled).traces

    def test_collectives_run_eagerly_with_the_reason(self, world):
        @torch.compile
        def total(x):
            y = x + 1
            dist.all_reduce(y)
            return y

        for _ in range(3):
            assert total(torch.ones(2)).tolist() == [2, 2]
        assert "has effects that a trace does not repeat" in str(torch.compiler.explain(total))
