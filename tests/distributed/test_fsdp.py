"""fully_shard and FullyShardedDataParallel: what one process would do, in parts."""

import copy
import gc
import weakref

import pytest

import tapegrad as torch
from distributed.models import MODELS, data, loss_of, mlp, parts_of
from tapegrad import distributed as dist
from tapegrad.distributed import fsdp
from tapegrad.distributed.fsdp import FullyShardedDataParallel as FSDP
from tapegrad.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from tapegrad.distributed.tensor import DTensor, Replicate, Shard

nn = torch.nn
SAMPLES = 12


def close(a, b, tolerance=2e-5):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def pieces(rank, size, *values):
    return [value.chunk(size)[rank] for value in values]


def made(name, **options):
    """Return a model, and one with the same weights that is divided."""
    torch.manual_seed(5)
    plain = MODELS[name]()
    model = copy.deepcopy(plain)
    for part in parts_of(name, model):
        fully_shard(part, **options)
    return plain, fully_shard(model, **options)


def same_state(model, plain, tolerance=2e-5):
    expected = plain.state_dict()
    got = model.state_dict()
    assert list(got) == list(expected)
    for name, value in got.items():
        value = value.full_tensor() if isinstance(value, DTensor) else value
        close(value, expected[name], tolerance)


def train(name, model, plain, rank, size, steps, clip=None):
    """Train both, one with a part of each batch; return both curves.

    With a small eps Adam would divide rounding errors by each other where gradients are zero, as
    those of the biases of keys are.
    """
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2, eps=1e-3) for m in (plain, model)]
    curves = [], []
    for step in range(steps):
        x, y = data(name, step, SAMPLES)
        mine = pieces(rank, size, x, y)
        for m, optimizer, batch, curve in zip(
            (plain, model), optimizers, ((x, y), mine), curves, strict=True
        ):
            loss = loss_of(m, *batch)
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(m.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            value = loss.detach().clone()
            if m is model:
                dist.all_reduce(value, dist.ReduceOp.AVG)
            curve.append(value.item())
    return curves


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_one_process(ranks, name, size):
    def run(rank):
        plain, model = made(name)
        assert all(isinstance(p, DTensor) for p in model.parameters())
        alone, together = train(name, model, plain, rank, size, 4, clip=0.5)
        close(torch.tensor(together), torch.tensor(alone))
        same_state(model, plain, 2e-4)

    ranks(size, run)


@pytest.mark.parametrize("reshard", [True, False, None])
def test_when_parameters_are_freed(ranks, reshard):
    def run(rank):
        plain, model = made("mlp", reshard_after_forward=reshard)
        x, y = data("mlp", 0, SAMPLES)
        inner = model[0]._fsdp_state.group
        seen = []
        model[0].register_forward_hook(lambda *a: seen.append(inner._wholes is not None))
        loss = loss_of(model, *pieces(rank, 2, x, y))
        assert (inner._wholes is not None) == (reshard is False)
        outer = model._fsdp_state.group
        assert (outer._wholes is not None) == (reshard is not True)
        loss.backward()
        assert inner._wholes is None and outer._wholes is None
        assert all(isinstance(p, DTensor) and p.grad is not None for p in model.parameters())
        loss_of(plain, x, y).backward()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert q.grad.placements == (Shard(0),)
            close(q.grad.full_tensor(), p.grad)

    ranks(2, run)


def test_whole_parameters_do_not_outlive_forward(ranks):
    class Looks(nn.Linear):
        def forward(self, x):
            kept.append(weakref.ref(self.weight))
            return super().forward(x).tanh()

    kept = []

    def run(rank):
        layer = fully_shard(Looks(4, 4), reshard_after_forward=True)
        y = layer(torch.ones(2, 4, requires_grad=True))
        gc.collect()
        assert all(each() is None for each in kept)
        y.sum().backward()
        assert layer.weight.grad is not None

    ranks(1, run)


def test_two_forwards_and_shared_use(ranks):
    def run(rank):
        torch.manual_seed(0)
        plain = nn.Linear(3, 3)
        layer = fully_shard(copy.deepcopy(plain))
        x = torch.arange(12.0).view(4, 3) / 10
        mine = x.chunk(2)[rank]
        for separately in (False, True):
            for m, v in ((plain, x), (layer, mine)):
                m.zero_grad()
                first, second = m(v).tanh().mean(), m(m(v)).mean()
                if separately:
                    first.backward()
                    second.backward()
                else:
                    (first + second).backward()
            close(layer.weight.grad.full_tensor(), plain.weight.grad)

    ranks(2, run)


def test_gradients_are_accumulated_without_communication(ranks):
    def run(rank):
        plain, model = made("mlp")
        for step in range(3):
            x, y = data("mlp", step, SAMPLES)
            loss_of(plain, x, y).backward()
            model.set_requires_gradient_sync(step == 2)
            loss_of(model, *pieces(rank, 2, x, y)).backward()
            assert all((p.grad is None) == (step < 2) for p in model.parameters())
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            close(q.grad.full_tensor(), p.grad)

    ranks(2, run)


@pytest.mark.parametrize("all_reduce", [True, False])
def test_copies_of_groups(ranks, all_reduce):
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "parts"))
        plain, model = made("mlp", mesh=mesh)
        assert model[0].weight.placements == (Replicate(), Shard(0))
        for step in range(2):
            x, y = data("mlp", step, SAMPLES)
            loss_of(plain, x, y).backward()
            model.set_requires_all_reduce(all_reduce or step == 1)
            loss_of(model, *pieces(rank, 4, x, y)).backward()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            close(q.grad.full_tensor(), p.grad)

    ranks(4, run)


def test_mixed_precision(ranks):
    def run(rank):
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
        model = fully_shard(mlp(), mp_policy=policy)
        seen = []
        model[0].register_forward_hook(lambda m, i, o: seen.append((m.weight.dtype, o.dtype)))
        x, _ = data("mlp", 0, SAMPLES)
        scores = model(x)
        assert scores.dtype is torch.float32 and seen == [(torch.bfloat16, torch.bfloat16)]
        scores.sum().backward()
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        assert {p.grad.dtype for p in model.parameters()} == {torch.float32}

    ranks(2, run)


def test_parameters_that_not_all_processes_use(ranks):
    class Chooses(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(3, 3) for _ in range(3))

        def forward(self, x, choice):
            return self.a(x) if choice else self.b(x)

    def run(rank):
        torch.manual_seed(1)
        plain = Chooses()
        model = fully_shard(copy.deepcopy(plain))
        x = torch.ones(2, 3)
        model(x, rank == 0).sum().backward()
        ((plain(x, True).sum() + plain(x, False).sum()) / 2).backward()
        for layer, other in ((model.a, plain.a), (model.b, plain.b)):
            close(layer.weight.grad.full_tensor(), other.weight.grad)
        assert model.c.weight.grad is None

    ranks(2, run)


def test_frozen_parameters(ranks):
    def run(rank):
        plain, model = made("mlp")
        for m in (plain, model):
            m[0].requires_grad_(False)
            m[2].bias.requires_grad_(False)
        x, y = data("mlp", 0, SAMPLES)
        x.requires_grad_()
        loss_of(plain, x, y).backward()
        mine, target = pieces(rank, 2, x.detach(), y)
        mine = mine.clone().requires_grad_()
        loss_of(model, mine, target).backward()
        assert model[0]._fsdp_state.group._wholes is None
        close(mine.grad / 2, x.grad.chunk(2)[rank])
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                close(q.grad.full_tensor(), p.grad)

    ranks(2, run)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_activation_checkpointing(ranks, reentrant, inside):
    from tapegrad.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    def run(rank):
        torch.manual_seed(2)
        plain = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
        inner = copy.deepcopy(plain)
        if inside:
            model = fully_shard(Checkpointed(inner))
        else:
            model = fully_shard(Checkpointed(fully_shard(inner)))
        x = torch.arange(16.0).view(4, 4).requires_grad_()
        plain(x).square().mean().backward()
        mine = x.detach().chunk(2)[rank].clone().requires_grad_()
        model(mine).square().mean().backward()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            close(q.grad.full_tensor(), p.grad)

    ranks(2, run)


def test_by_hand(ranks):
    def run(rank):
        plain, model = made("mlp")
        model[0].unshard()
        assert not isinstance(model[0].weight, DTensor)
        assert isinstance(model[0].weight, nn.Parameter)
        assert torch.equal(model[0].weight, plain[0].weight)
        model[0].reshard()
        assert isinstance(model[0].weight, DTensor)
        handle = model.unshard(async_op=True)
        handle.wait()
        assert torch.equal(model[4].weight, plain[4].weight) and isinstance(
            model[0].weight, DTensor
        )
        assert all(isinstance(v, DTensor) for v in model.state_dict().values())
        model[0].set_modules_to_forward_prefetch([model[2]])
        model[2].set_modules_to_backward_prefetch([model[0]])
        model.set_reshard_after_forward(False)
        model.set_reshard_after_backward(False)
        x, y = data("mlp", 0, SAMPLES)
        loss_of(model, *pieces(rank, 2, x, y)).backward()
        assert model[0]._fsdp_state.group._wholes is not None
        loss_of(plain, x, y).backward()
        close(model[0].weight.grad.full_tensor(), plain[0].weight.grad)
        model[0].set_gradient_divide_factor(1.0)
        loss_of(model, *pieces(rank, 2, x, y)).backward()
        close(model[0].weight.grad.full_tensor(), 3 * plain[0].weight.grad)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(2)
            for p in plain.parameters():
                p.mul_(2)
        close(model(x), plain(x))
        model.reshard()

    ranks(2, run)


def test_state_is_saved_and_loaded(ranks):
    def run(rank):
        plain, model = made("gpt")
        _, other = made("gpt")
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        other.load_state_dict(model.state_dict())
        same_state(other, plain)
        lazy = fully_shard(nn.Linear(5, 4, device="meta"))
        lazy.to_empty(device="cpu")
        lazy.reset_parameters()
        assert lazy.weight.placements == (Shard(0),) and lazy(torch.ones(1, 5)).shape == (1, 4)
        twin = copy.deepcopy(nn.Linear(2, 2)).double()
        assert fully_shard(twin).weight.dtype is torch.float64

    ranks(2, run)


def test_methods_beside_forward(ranks):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def encode(self, x):
            return self.inner(x)

    def run(rank):
        model = fully_shard(Two())
        fsdp.register_fsdp_forward_method(model, "encode")
        model.encode(torch.ones(1, 2)).sum().backward()
        assert model.inner.weight.grad.placements == (Shard(0),)

    ranks(2, run)


def test_refusals(ranks):
    def run(rank):
        model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
        model["b"].weight = model["a"].weight
        with pytest.raises(ValueError, match="containers"):
            fully_shard(model)
        fully_shard(model["a"])
        with pytest.raises(ValueError, match="shared with a module that was divided before"):
            fully_shard(model["b"])
        with pytest.raises(AssertionError, match="already"):
            fully_shard(model["a"])
        scalar = nn.Module()
        scalar.x = nn.Parameter(torch.tensor(1.0))
        with pytest.raises(ValueError, match=r"scalar parameters\. Change x"):
            fully_shard(scalar)
        with pytest.raises(NotImplementedError, match=r"expected None or Shard\(0\)"):
            fully_shard(nn.Linear(2, 2), shard_placement_fn=lambda p: Shard(1))
        layer = fully_shard(nn.Linear(2, 2), offload_policy=fsdp.CPUOffloadPolicy())
        loss = (layer(torch.ones(1, 2, requires_grad=True)) ** 2).sum()
        layer.reshard()
        with torch.no_grad():
            layer.weight.add_(1)
        with pytest.raises(RuntimeError, match="changed in place after forward"):
            loss.backward()
        x = torch.ones(1, 2)
        with pytest.raises(NotImplementedError, match="create_graph"):
            (layer(x) ** 2).sum().backward(create_graph=True)
        layer.reshard()
        with pytest.raises(AssertionError, match="does not support deepcopy"):
            copy.deepcopy(layer)

    ranks(2, run)


@pytest.mark.parametrize("kind", ["plain", "sharded"])
def test_a_scaler_leaves_out_a_step_in_all_processes(ranks, kind):
    def run(rank):
        torch.manual_seed(3)
        layer = fully_shard(nn.Linear(4, 2, bias=False))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        if kind == "plain":
            scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        else:
            scaler = fsdp.sharded_grad_scaler.ShardedGradScaler("cpu", init_scale=4.0)
        before = layer.weight.detach().full_tensor().clone()
        for factor in (1.0, float("inf")):
            optimizer.zero_grad()
            # Rows of the first process only become infinite.
            scale = torch.tensor([factor if rank == 0 else 1.0, 1.0])
            scaler.scale((layer(torch.ones(1, 4)) * scale).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            close(layer.weight.detach().full_tensor(), before - 0.1)
        assert scaler.get_scale() == 2.0

    ranks(2, run)


# ---- the older wrapper


STRATEGIES = [
    fsdp.ShardingStrategy.FULL_SHARD,
    fsdp.ShardingStrategy.SHARD_GRAD_OP,
    fsdp.ShardingStrategy.NO_SHARD,
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_the_wrapper_trains_as_one_process(ranks, name, strategy):
    def run(rank):
        torch.manual_seed(5)
        plain = MODELS[name]()
        chosen = {type(part) for part in parts_of(name, plain)}
        model = FSDP(
            copy.deepcopy(plain),
            sharding_strategy=strategy,
            auto_wrap_policy=fsdp.wrap.ModuleWrapPolicy(chosen),
            sync_module_states=True,
        )
        assert len(FSDP.fsdp_modules(model)) > 1
        assert FSDP.fsdp_modules(model, root_only=True) == [model]
        alone, together = train(name, model, plain, rank, 2, 3)
        close(torch.tensor(together), torch.tensor(alone))
        same_state(model, plain, 2e-4)

    ranks(2, run)


def test_state_of_the_wrapper(ranks):
    def run(rank):
        torch.manual_seed(5)
        plain = mlp()
        policy = fsdp.wrap.ModuleWrapPolicy({nn.Linear})
        model = FSDP(copy.deepcopy(plain), auto_wrap_policy=policy, use_orig_params=True)
        optim = torch.optim.Adam(model.parameters(), lr=0.1)
        other = FSDP(mlp(), auto_wrap_policy=policy)
        other_optim = torch.optim.Adam(other.parameters(), lr=0.2)
        x, y = data("mlp", 0, SAMPLES)
        loss_of(model, *pieces(rank, 2, x, y)).backward()
        norm = model.clip_grad_norm_(0.1)
        loss_of(plain, x, y).backward()
        close(norm, nn.utils.clip_grad_norm_(plain.parameters(), 0.1))
        optim.step()
        whole = model.state_dict()
        assert list(whole) == list(plain.state_dict())
        assert not any(isinstance(v, DTensor) for v in whole.values())
        other.load_state_dict(whole)
        state = FSDP.optim_state_dict(model, optim)
        assert set(state["state"]) == set(whole)
        other_optim.load_state_dict(FSDP.optim_state_dict_to_load(other, other_optim, state))
        assert other_optim.param_groups[0]["lr"] == 0.1
        for m, o in ((model, optim), (other, other_optim)):
            o.zero_grad()
            loss_of(m, *pieces(rank, 2, x, y)).backward()
            o.step()
        close(list(other.state_dict().values()), list(model.state_dict().values()))
        with FSDP.state_dict_type(model, fsdp.StateDictType.SHARDED_STATE_DICT):
            parts = model.state_dict()
            assert all(isinstance(v, DTensor) for v in parts.values())
            other.load_state_dict(parts)
        config = fsdp.FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
        with FSDP.state_dict_type(model, fsdp.StateDictType.FULL_STATE_DICT, config):
            assert bool(model.state_dict()) == (rank == 0)
        full = FSDP.full_optim_state_dict(model, optim)
        assert bool(full) == (rank == 0)
        loaded = FSDP.scatter_full_optim_state_dict(full or None, other, optim=other_optim)
        other_optim.load_state_dict(loaded)
        by_number = FSDP.rekey_optim_state_dict(
            FSDP.optim_state_dict(model, optim),
            fsdp.fully_sharded_data_parallel.OptimStateKeyType.PARAM_ID,
            model,
        )
        assert set(by_number["state"]) == set(range(6))

    ranks(2, run)


def test_whole_parameters_in_a_block(ranks):
    def run(rank):
        model = FSDP(nn.Linear(3, 5))
        before = model.state_dict()
        with FSDP.summon_full_params(model):
            assert isinstance(model.weight, nn.Parameter) and model.weight.shape == (5, 3)
            with torch.no_grad():
                model.weight.add_(1)
        close(model.state_dict()["weight"], before["weight"] + 1)
        with FSDP.summon_full_params(model, writeback=False), torch.no_grad():
            model.weight.zero_()
        close(model.state_dict()["weight"], before["weight"] + 1)
        x = torch.ones(2, 3)
        with model.no_sync():
            model(x).sum().backward()
        assert model.weight.grad is None
        model(x).sum().backward()
        close(model.weight.grad.full_tensor(), torch.full((5, 3), 4.0))

    ranks(2, run)


def test_what_the_wrapper_refuses(ranks):
    def run(rank):
        model = FSDP(nn.Linear(2, 2), cpu_offload=fsdp.CPUOffload(True))
        with pytest.raises(NotImplementedError, match="LOCAL_STATE_DICT"):
            FSDP.set_state_dict_type(model, fsdp.StateDictType.LOCAL_STATE_DICT)
        with pytest.raises(ValueError, match="two dimensions"):
            FSDP(nn.Linear(2, 2), sharding_strategy=fsdp.ShardingStrategy.HYBRID_SHARD)
        with pytest.raises(NotImplementedError, match="rank0_only"):
            FSDP.summon_full_params(model, rank0_only=True).__enter__()

    ranks(2, run)
