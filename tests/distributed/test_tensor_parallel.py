"""parallelize_module: divided layers compute what whole ones do."""

import copy

import pytest

import tapegrad as torch
from distributed.models import GPT
from tapegrad import distributed as dist
from tapegrad.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from tapegrad.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

nn = torch.nn
F = torch.nn.functional


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def agree(plain, model, inputs, run=lambda model, x: model(x)):
    """Compare outputs and gradients of parameters."""
    expected, got = run(plain, inputs), run(model, inputs)
    close(whole(got).detach(), expected.detach())
    expected.square().sum().backward()
    whole(got).square().sum().backward()
    for (name, p), q in zip(plain.named_parameters(), model.parameters(), strict=True):
        assert q.grad is not None, name
        scale = p.grad.abs().max().clamp(min=1.0)
        close(whole(q.grad) / scale, p.grad / scale)


class Feed(nn.Module):
    """Two layers with a normalization before."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 10)
        self.down = nn.Linear(10, 6)

    def forward(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_columns_then_rows(ranks, size):
    def run(rank):
        torch.manual_seed(0)
        plain = Feed()
        # Ten columns have no equal parts for three processes: DTensors say how long they are.
        plan = {"up": ColwiseParallel(use_local_output=size != 3), "down": RowwiseParallel()}
        mesh = dist.init_device_mesh("cpu", (size,))
        model = parallelize_module(copy.deepcopy(plain), mesh, plan)
        assert model.up.weight.placements == (Shard(0),)
        assert model.down.weight.placements == (Shard(1),)
        assert model.down.bias.placements == (Replicate(),)
        assert isinstance(model.up.weight, nn.Parameter)
        agree(plain, model, torch.arange(24.0).view(2, 2, 6) / 10)

    ranks(size, run)


def test_sequences_are_divided_between_layers(ranks):
    def run(rank):
        torch.manual_seed(0)
        plain = Feed()
        mesh = dist.init_device_mesh("cpu", (2,))
        plan = {
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        }
        model = parallelize_module(copy.deepcopy(plain), mesh, plan)
        x = torch.arange(48.0).view(2, 4, 6) / 10

        def forward(m, x):
            return m(x if m is plain else distribute_tensor(x, mesh, [Shard(1)]))

        assert forward(model, x).placements == (Shard(1),)
        agree(plain, model, x, forward)

    ranks(2, run)


def test_a_gpt(ranks):
    def run(rank):
        torch.manual_seed(0)
        plain = GPT(words=31, width=16, layers=2, length=8)
        plain.head.weight = nn.Parameter(plain.head.weight.detach().clone())
        for block in plain.blocks:  # queries, keys and values apart, so that heads are divided
            block.heads = 2
        model = copy.deepcopy(plain)
        mesh = dist.init_device_mesh("cpu", (2,))
        plan = {
            "embed": RowwiseParallel(input_layouts=Replicate()),
            "blocks.*.qkv": ColwiseParallel(output_layouts=Replicate()),
            "blocks.*.out": RowwiseParallel(input_layouts=Replicate()),
            "blocks.*.up": ColwiseParallel(),
            "blocks.*.down": RowwiseParallel(),
            "head": ColwiseParallel(output_layouts=Replicate()),
        }
        parallelize_module(model, mesh, plan)
        assert model.blocks[1].up.weight.placements == (Shard(0),)
        index = (torch.arange(16).view(2, 8) * 7) % 31
        agree(plain, model, index)

    ranks(2, run)


def test_divided_scores_and_their_loss(ranks):
    target = torch.tensor([0, 6, 3, -100])

    def run(rank):
        torch.manual_seed(0)
        plain = nn.Linear(5, 7)
        style = ColwiseParallel(use_local_output=False)
        model = parallelize_module(copy.deepcopy(plain), dist.init_device_mesh("cpu", (3,)), style)
        x = torch.arange(20.0).view(4, 5) / 10
        for reduction in ("mean", "sum"):
            plain.zero_grad()
            model.zero_grad()
            expected = F.cross_entropy(plain(x), target, reduction=reduction)
            expected.backward()
            with loss_parallel():
                scores = model(x)
                assert scores.placements == (Shard(1),)
                loss = F.cross_entropy(scores, target, reduction=reduction)
                loss.backward()
                if reduction == "mean":
                    with pytest.raises(NotImplementedError, match="loss_parallel: expected scores"):
                        F.cross_entropy(scores, target, label_smoothing=0.1)
            close(whole(loss).detach(), expected.detach())
            close(whole(model.weight.grad), plain.weight.grad)

    ranks(3, run)


def test_inputs_and_outputs_are_prepared(ranks):
    class Adds(nn.Module):
        def forward(self, x, *, y):
            seen.append((type(x), type(y)))
            return x + y, x

    seen = []

    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        given = torch.ones(3, 4) * (rank + 1)
        module = parallelize_module(Adds(), mesh, PrepareModuleInput(
            input_layouts=Shard(0), desired_input_layouts=Replicate(),
            input_kwarg_layouts={"y": Shard(0)}, desired_input_kwarg_layouts={"y": Replicate()},
        ))  # fmt: skip
        total, x = module(given, y=given)
        assert total.placements == (Replicate(),) and x.shape == (6, 4)
        module = parallelize_module(Adds(), mesh, PrepareModuleOutput(
            output_layouts=(Shard(0), None), desired_output_layouts=(Replicate(), None),
        ))  # fmt: skip
        total, x = module(given, y=given)
        assert total.tolist() == [[2.0] * 4] * 3 + [[4.0] * 4] * 3 and x is given
        module = parallelize_module(Adds(), mesh, PrepareModuleInputOutput(
            input_layouts=Shard(0), desired_input_layouts=Shard(1), use_local_input=True,
            output_layouts=(Replicate(), None), desired_output_layouts=(Shard(0), None),
        ))  # fmt: skip
        _, x = module(given, y=torch.ones(6, 2))
        assert x.shape == (6, 2)

    ranks(2, run)
    seen.clear()


def test_refusals(ranks):
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (1,))
        with pytest.raises(NotImplementedError, match=r"only support nn\.Linear"):
            parallelize_module(nn.Conv2d(1, 1, 1), mesh, ColwiseParallel())
        with pytest.warns(UserWarning, match="could not be resolved"):
            parallelize_module(Feed(), mesh, {"no.*": ColwiseParallel()})
        with pytest.warns(UserWarning, match="No parallelize_plan"):
            parallelize_module(Feed(), mesh)
        with pytest.raises(TypeError, match="ParallelStyle"):
            parallelize_module(Feed(), mesh, 3)
        with pytest.raises(AssertionError, match="same length"):
            PrepareModuleInput(input_layouts=Shard(0))
        with pytest.raises(AssertionError, match="same length"):
            PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=None)
        with pytest.raises(ValueError, match="one dimension"):
            parallelize_module(Feed(), dist.init_device_mesh("cpu", (1, 1)), {})

    ranks(1, run)
