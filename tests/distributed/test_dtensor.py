"""DTensor: what is computed with parts is what is computed with the whole."""

import copy

import pytest

import tapegrad as torch
from tapegrad import distributed as dist
from tapegrad.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from tapegrad.distributed.tensor import ones as ones_on
from tapegrad.distributed.tensor import rand as rand_on
from tapegrad.distributed.tensor import randn as randn_on
from tapegrad.distributed.tensor import zeros as zeros_on

F = torch.nn.functional
WAYS = Replicate(), Shard(0), Shard(1)


def numbers(*shape, seed=0):
    """Return the same numbers in every process."""
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randn(shape, generator=generator)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def one_row(size=3):
    return dist.init_device_mesh("cpu", (size,))


def pairs(ndim=2):
    ways = [Replicate(), *(Shard(dim) for dim in range(ndim))]
    return [(a, b) for a in ways for b in ways]


# ---- ways to lie


@pytest.mark.parametrize("shape", [(6, 3), (7, 5), (2, 4), (1, 1), (0, 3)])
def test_redistribute_and_back(ranks, shape):
    def run(rank):
        mesh, whole = one_row(), numbers(*shape)
        for source in WAYS:
            for target in WAYS:
                x = distribute_tensor(whole, mesh, [source])
                assert tuple(x.shape) == shape
                assert tuple(x.to_local().shape) == x._layout.local_shape()
                y = x.redistribute(placements=[target])
                assert y.placements == (target,)
                assert torch.equal(y.full_tensor(), whole)
                assert torch.equal(
                    x.to_local(), distribute_tensor(whole, mesh, [source])._local_tensor
                )

    ranks(3, run)


def test_two_dimensions_of_a_mesh(ranks):
    def run(rank):
        mesh, whole = dist.init_device_mesh("cpu", (2, 2)), numbers(7, 6)
        for source in pairs():
            for target in pairs():
                x = distribute_tensor(whole, mesh, source).redistribute(placements=target)
                assert torch.equal(x.full_tensor(), whole)
                fresh = distribute_tensor(whole, mesh, target)
                assert torch.equal(x.to_local(), fresh.to_local())

    ranks(4, run)


@pytest.mark.parametrize("target", WAYS)
def test_partial_is_reduced(ranks, target):
    def run(rank):
        mesh = one_row()
        parts = [numbers(4, 5, seed=r) for r in range(3)]
        for how, whole in (
            ("sum", sum(parts)),
            ("avg", sum(parts) / 3),
            ("max", torch.stack(parts).amax(0)),
        ):
            x = DTensor.from_local(parts[rank], mesh, [Partial(how)])
            close(x.redistribute(placements=[target]).full_tensor(), whole)

    ranks(3, run)


def test_gradients_through_ways_to_lie(ranks):
    def run(rank):
        mesh, weight = one_row(), numbers(4, 5, seed=9)
        for source in (*WAYS, Partial(), Partial("avg")):
            for target in WAYS:
                x = distribute_tensor(numbers(4, 5), mesh, [target])
                local_shape = x._layout._replace(placements=(source,)).local_shape()
                local = numbers(*local_shape, seed=rank).requires_grad_()
                y = DTensor.from_local(local, mesh, [source], shape=(4, 5))
                z = y.redistribute(placements=[target]) * distribute_tensor(weight, mesh, [target])
                z.sum().backward()
                lies = Replicate() if source.is_partial() else source
                expected = weight / 3 if source == Partial("avg") else weight
                close(local.grad, distribute_tensor(expected, mesh, [lies]).to_local())

    ranks(3, run)


def test_gradient_of_copies_that_differ(ranks):
    def run(rank):
        x = distribute_tensor(torch.ones(2), one_row(), [Replicate()]).requires_grad_()
        local = x.to_local(grad_placements=[Partial()])
        (local * (rank + 1)).sum().backward()
        assert x.grad.to_local().tolist() == [6.0, 6.0]
        y = distribute_tensor(torch.ones(3), one_row(), [Shard(0)]).requires_grad_()
        whole = y.full_tensor(grad_placements=[Partial()])
        (whole * (rank + 1)).sum().backward()
        assert y.grad.full_tensor().tolist() == [6.0] * 3

    ranks(3, run)


def test_placements_have_short_names():
    ways = Shard(1), Replicate(), Partial("max")
    assert [str(way) for way in ways] == ["S(1)", "R", "P(max)"]
    assert repr(ways) == "(Shard(dim=1), Replicate(), Partial(max))"


# ---- functions

CASES = {
    "add": (lambda x, y: x + y, (5, 4), (5, 4)),
    "broadcast": (lambda x, y: x * y - y, (5, 4), (4,)),
    "stretched": (lambda x, y: x / (y.exp() + 1), (5, 4), (5, 1)),
    "numbers": (lambda x: 2 - x / 3 + (x**2) * 0.5, (5, 4)),
    "functions": (lambda x: x.sigmoid() + F.gelu(x) + x.clamp(min=0) + x.tanh().abs(), (5, 4)),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), (5, 4), (5, 4)),
    "maximum": (lambda x, y: torch.maximum(x, y), (5, 4), (5, 4)),
    "matmul": (lambda x, y: x @ y, (5, 4), (4, 6)),
    "batched": (lambda x, y: torch.matmul(x, y), (2, 5, 4), (4, 6)),
    "bmm": (lambda x, y: torch.bmm(x, y), (2, 5, 4), (2, 4, 3)),
    "stretched batch": (lambda x, y: x @ y, (1, 5, 4), (3, 4, 2)),
    "vectors": (lambda x, y: x @ y, (5, 4), (4,)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (5, 4), (6, 4), (6,)),
    "linear of three": (lambda x, w: F.linear(x, w), (2, 5, 4), (6, 4)),
    "addmm": (lambda c, x, y: torch.addmm(c, x, y, beta=0.5), (6,), (5, 4), (4, 6)),
    "sum": (lambda x: x.sum() + x.sum(0) + x.sum(1, keepdim=True), (5, 4)),
    "mean": (lambda x: x.mean() + x.mean(0) + x.mean(-1, keepdim=True), (5, 4)),
    "sum of sum": (lambda x: (x.sum(0) * 2 + x.sum(0)).sum(), (5, 4)),
    "partial times whole": (lambda x, y: x.sum(0) * y.sum(), (5, 4), (4, 3)),
    "norms": (lambda x: x.norm() + x.norm(dim=1) .sum() + x.norm(p=3) + x.norm(p=1), (5, 4)),
    "extremes": (lambda x: x.amax(0).sum() + x.max(1).values.sum() + x.min(), (5, 4)),
    "variance": (lambda x: x.var(0).sum() + x.std(1).sum(), (5, 4)),
    "softmax": (lambda x: x.softmax(-1) * x.log_softmax(0), (5, 4)),
    "cumsum": (lambda x: x.cumsum(0) + x.cumsum(1), (5, 4)),
    "views": (lambda x: x.reshape(3, 2, 4).transpose(0, 2).flatten(1), (6, 4)),
    "join": (lambda x: x.view(24) * 2, (6, 4)),
    "unflatten": (lambda x: x.unflatten(1, (3, 2)).permute(2, 0, 1), (4, 6)),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(-1), (5, 4)),
    "expand": (lambda x: x.unsqueeze(0).expand(3, -1, -1) * 1, (5, 4)),
    "index": (lambda x: x[:, 1:3].sum() + x[2].sum() + x[..., None, 0].sum() + x[:, :9], (5, 4)),
    "split": (lambda x: sum(p.sum() for p in x.split(2, 1)) + x.chunk(2)[0].sum(), (5, 4)),
    "unbind": (lambda x: x.unbind(1)[0] + x.unbind(1)[1], (5, 4)),
    "cat": (lambda x, y: torch.cat([x, y], 1) * torch.stack([x, y], -1).flatten(1), (5, 4), (5, 4)),
    "transposed": (lambda x, y: x.t() + y.T, (5, 4), (5, 4)),
    "tril": (lambda x: x.tril() + x.triu(1), (5, 4)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (5, 4), (4,), (4,)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), (5, 4), (4,)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (3, 4, 5, 2), (3, 4, 5, 2), (3, 4, 5, 2),
    ),
    "mse": (lambda x, y: F.mse_loss(x, y), (5, 4), (5, 4)),
    "gather": (lambda x: x.gather(1, (x > 0).long()), (5, 4)),
    "in place": (lambda x: (x * 1).add_(x).mul_(2).clamp_(min=0), (5, 4)),
    "cast": (lambda x: x.double().float() + x.to(torch.float64).to(torch.float32), (5, 4)),
}  # fmt: skip


def agree(function, wholes, mesh, placements):
    """Compare the values and gradients of a function of parts with those of the whole."""
    plain = [x.clone().requires_grad_() for x in wholes]
    expected = function(*plain)
    g = numbers(*expected.shape, seed=77)
    (expected * g).sum().backward()
    spread = [
        distribute_tensor(x, mesh, p).requires_grad_()
        for x, p in zip(wholes, placements, strict=True)
    ]
    got = function(*spread)
    assert isinstance(got, DTensor)
    close(got.full_tensor(), expected.detach())
    (got * distribute_tensor(g, mesh, [Replicate()] * mesh.ndim)).sum().backward()
    for x, y in zip(plain, spread, strict=True):
        assert y.grad.placements == y.placements
        close(y.grad.full_tensor(), x.grad)


def combinations(wholes):
    found = [[]]
    for x in wholes:
        ways = [Replicate(), *(Shard(dim) for dim in range(x.dim()))]
        found = [[*each, way] for each in found for way in ways]
    # All of one and two tensors; of more those in which one or two are divided.
    return [f for f in found if len(wholes) < 3 or sum(not w.is_replicate() for w in f) < 2]


@pytest.mark.parametrize("name", CASES)
def test_functions_and_their_gradients(ranks, name):
    function, *shapes = CASES[name]
    wholes = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]

    def run(rank):
        mesh = one_row(2)
        for ways in combinations(wholes):
            agree(function, wholes, mesh, [[way] for way in ways])

    ranks(2, run)


FEW = {
    "sum": (lambda x: x.sum(0) + x.mean(0), (1, 4)),
    "softmax": (lambda x: x.softmax(-1), (2, 4)),
    "linear": (lambda x, w, b: F.linear(x, w, b), (1, 4), (2, 4), (2,)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w), (1, 4), (4,)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *[(1, 2, 3, 4)] * 3
    ),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (2, 1, 3, 3), (2, 1, 3, 3)),
    "views": (lambda x: x.t().reshape(2, 2, 1).flatten() * 2, (1, 4)),
    "norm": (lambda x: x.norm() + x.norm(float("inf")), (1, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", FEW)
def test_parts_without_elements(ranks, name):
    function, *shapes = FEW[name]
    wholes = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]

    def run(rank):
        mesh = one_row(3)
        for ways in combinations(wholes):
            agree(function, wholes, mesh, [[way] for way in ways])
        x = distribute_tensor(numbers(2, 3), mesh, [Shard(0)])
        close(x.amax(0).full_tensor(), numbers(2, 3).amax(0))
        scores = distribute_tensor(numbers(2, 4), mesh, [Shard(0)]).requires_grad_()
        target = distribute_tensor(torch.tensor([1, 3]), mesh, [Shard(0)])
        loss = F.cross_entropy(scores, target)
        close(loss.full_tensor().detach(), F.cross_entropy(numbers(2, 4), torch.tensor([1, 3])))
        loss.backward()

    ranks(3, run)


@pytest.mark.parametrize("name", ["broadcast", "matmul", "linear", "views", "mean", "softmax"])
def test_functions_on_two_dimensions(ranks, name):
    function, *shapes = CASES[name]
    wholes = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]

    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
        for ways in pairs():
            for other in ((Replicate(), Replicate()), (Replicate(), Shard(0))):
                rest = [other] * (len(wholes) - 1)
                agree(function, wholes, mesh, [ways, *rest])

    ranks(4, run)


@pytest.mark.parametrize("way", [Shard(0), Shard(1), Shard(2)], ids=str)
def test_functions_written_in_python_have_rules(ranks, way):
    """The number before the dimension of `renorm` is the kind of norm; `qr` gives a named tuple."""

    def run(rank):
        whole = numbers(4, 6, 5)
        x = distribute_tensor(whole, one_row(), [way])
        close(torch.renorm(x, 1, 2, 3.0).full_tensor(), torch.renorm(whole, 1, 2, 3.0))
        copies = x.redistribute(placements=[Replicate()])
        close(torch.linalg.qr(copies).Q.full_tensor(), torch.linalg.qr(whole).Q)

    ranks(3, run)


def test_second_order(ranks):
    def run(rank):
        mesh = one_row(2)
        x, w = numbers(4, 3), numbers(3, 3, seed=1)

        def penalty(x, w, whole):
            y = ((x @ w).tanh() ** 2).sum()
            local = y.full_tensor() if isinstance(y, DTensor) else y
            inner = w._local_tensor if isinstance(w, DTensor) else w
            (g,) = torch.autograd.grad(local, inner, create_graph=True)
            return whole(g)

        plain = w.clone().requires_grad_()
        penalty(x, plain, lambda g: (g**2).sum()).backward()
        for ways in ((Replicate(), Shard(0)), (Shard(0), Replicate()), (Shard(0), Shard(1))):
            dx, dw = (distribute_tensor(v, mesh, [p]) for v, p in zip((x, w), ways, strict=True))
            dw.requires_grad_()

            def whole(g, dw=dw):
                g = DTensor.from_local(g, mesh, dw.placements, shape=(3, 3))
                return (g**2).sum().full_tensor()

            penalty(dx, dw, whole).backward()
            close(dw.grad.full_tensor(), plain.grad)

    ranks(2, run)


def test_an_embedding_that_is_divided(ranks):
    index = torch.tensor([[0, 6, 3], [2, 2, 5]])

    def run(rank):
        mesh, whole = one_row(), numbers(7, 4)
        plain = whole.clone().requires_grad_()
        expected = F.embedding(index, plain)
        (expected * expected).sum().backward()
        for way in (Replicate(), Shard(0), Shard(1)):
            for rows in (Replicate(), Shard(0), Shard(1)):
                table = distribute_tensor(whole, mesh, [way]).requires_grad_()
                got = F.embedding(distribute_tensor(index, mesh, [rows]), table)
                close(got.full_tensor(), expected.detach())
                (got * got).sum().backward()
                close(table.grad.full_tensor(), plain.grad)

    ranks(3, run)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(ranks, reduction, smoothing):
    target = torch.tensor([0, 3, -100, 2, 1])
    weight = torch.tensor([1.0, 2.0, 0.5, 1.5])

    def run(rank):
        mesh = one_row(2)
        for ways in ((Shard(0), Shard(0)), (Replicate(), Replicate()), (Shard(1), Replicate())):
            for given in (None, weight):
                plain = numbers(5, 4).requires_grad_()
                options = {"reduction": reduction, "label_smoothing": smoothing, "weight": given}
                expected = F.cross_entropy(plain, target, **options)
                expected.sum().backward()
                x = distribute_tensor(numbers(5, 4), mesh, [ways[0]]).requires_grad_()
                y = distribute_tensor(target, mesh, [ways[1]])
                loss = F.cross_entropy(x, y, **options)
                close(loss.full_tensor(), expected.detach())
                loss.sum().backward()
                close(x.grad.full_tensor(), plain.grad)

    ranks(2, run)


def test_numbers_at_random_do_not_depend_on_placements(ranks):
    def run(rank):
        mesh = one_row()
        torch.manual_seed(100 + rank)
        for way in WAYS:
            x = rand_on(7, 5, device_mesh=mesh, placements=[way])
            whole = x.full_tensor()
            parts = [torch.zeros(7, 5) for _ in range(3)]
            dist.all_gather(parts, whole)
            assert all(torch.equal(part, whole) for part in parts)
            assert len(set(whole.flatten().tolist())) > 20
            dropped = F.dropout(ones_on(40, 50, device_mesh=mesh, placements=[way]), 0.25)
            values = dropped.full_tensor()
            assert set(values.flatten().tolist()) == {0.0, 1 / 0.75} or torch.allclose(
                values[values > 0], torch.tensor(1 / 0.75)
            )
            assert 0.15 < (values == 0).float().mean() < 0.35
            y = torch.nn.init.normal_(zeros_on(40, 50, device_mesh=mesh, placements=[way]), 3.0)
            assert 2.9 < y.mean().item() < 3.1
        assert randn_on(3, device_mesh=mesh).placements == (Replicate(),)

    ranks(3, run)


# ---- training


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.05, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.05),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.05, momentum=0.5),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_as_on_the_whole(ranks, name):
    def run(rank):
        mesh = one_row(2)
        torch.manual_seed(0)
        plain = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
        model = copy.deepcopy(plain)

        def shard(name, module, mesh):
            for key, param in list(module.named_parameters(recurse=False)):
                setattr(module, key, torch.nn.Parameter(distribute_tensor(param, mesh, [Shard(0)])))

        distribute_module(model, mesh, shard)
        assert all(isinstance(p, torch.nn.Parameter) for p in model.parameters())
        assert [n for n, _ in model.named_parameters()] == [n for n, _ in plain.named_parameters()]
        both = [(m, OPTIMIZERS[name](m.parameters())) for m in (plain, model)]
        for step in range(4):
            x = numbers(6, 5, seed=step)
            norms = []
            for module, optimizer in both:
                optimizer.zero_grad()
                data = distribute_tensor(x, mesh, [Shard(0)]) if module is model else x
                module(data).square().mean().backward()
                norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 0.2)
                norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
                optimizer.step()
            close(*norms)
        for p, q in zip(plain.parameters(), model.parameters(), strict=True):
            close(q.full_tensor().detach(), p.detach())
        state = both[1][1].state_dict()
        again = OPTIMIZERS[name](model.parameters())
        again.load_state_dict(state)
        for entry, other in zip(
            state["state"].values(), again.state_dict()["state"].values(), strict=True
        ):
            for key, value in entry.items():
                if isinstance(value, DTensor):
                    assert isinstance(other[key], DTensor) and torch.equal(value, other[key])

    ranks(2, run)


def test_copies_and_state_dicts(ranks):
    def run(rank):
        mesh = one_row(2)
        layer = distribute_module(torch.nn.Linear(3, 3), mesh)
        other = copy.deepcopy(layer)
        with torch.no_grad():
            layer.weight.zero_()
        assert not torch.equal(layer.weight, other.weight)
        other.load_state_dict(layer.state_dict())
        assert torch.equal(layer.weight, other.weight) and other.weight.is_leaf
        assert isinstance(other.weight, torch.nn.Parameter) and "Replicate" in repr(other.weight)

    ranks(2, run)


# ---- what is refused


def test_refusals(ranks):
    def run(rank):
        mesh = one_row(2)
        x = distribute_tensor(numbers(4, 4), mesh, [Shard(0)])
        with pytest.raises(RuntimeError, match=r"__add__: got mixed torch.Tensor and DTensor"):
            x + torch.ones(4, 4)
        with pytest.raises(NotImplementedError, match=r"fft: .*Shard\(dim=0\).*redistribute"):
            torch.fft.fft(x)
        with pytest.raises(NotImplementedError, match=r"bincount: there is no rule"):
            torch.bincount(x.long().flatten())
        with pytest.raises(NotImplementedError, match=r"inv: there is no rule .*redistribute"):
            torch.linalg.inv(x)
        whole = x.redistribute(placements=[Replicate()])
        close(torch.linalg.inv(whole).to_local(), torch.linalg.inv(numbers(4, 4)))
        with pytest.raises(RuntimeError, match=r"add_: expected a tensor with placements"):
            x.sum(0).add_(1)
        with pytest.raises(RuntimeError, match="cannot be pickled"):
            copy.copy(x)
        with pytest.raises(ValueError, match="out of range"):
            x.redistribute(placements=[Shard(2)])
        with pytest.raises(RuntimeError, match="internal"):
            x.redistribute(placements=[Partial()])
        with pytest.raises(RuntimeError, match="expected to be made by"):
            DTensor()
        with pytest.raises(RuntimeError, match="scalar"):
            distribute_tensor(numbers(2), mesh).requires_grad_().backward()
        with pytest.raises(RuntimeError, match=r"shape|size|multipl"):
            x @ distribute_tensor(numbers(3, 3), mesh)

    ranks(2, run)
