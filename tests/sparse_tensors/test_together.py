"""Sparse tensors with the rest of the library: modules, compile, tape, threads, leaks."""

import gc
import threading

import numpy as np
import pytest
from library import IS_TORCH, torch

from .cases import random_array

if IS_TORCH:
    pytest.skip("features of this library", allow_module_level=True)

tape = torch.tape


def ring(n=6, dtype=torch.float64):
    rows = torch.arange(n)
    return torch.sparse_coo_tensor(
        torch.stack([rows, (rows + 1) % n]), torch.ones(n, dtype=dtype), (n, n)
    )


class Graph(torch.nn.Module):
    """A layer over a graph whose edges have weights."""

    def __init__(self):
        super().__init__()
        self.register_buffer("graph", ring())
        self.weights = torch.nn.Parameter(torch.ones(6, dtype=torch.float64))
        self.linear = torch.nn.Linear(3, 2).double()

    def forward(self, x):
        edges = torch.sparse_coo_tensor(self.graph._indices(), self.weights, self.graph.shape)
        return torch.spmm(self.graph, self.linear(x)) + edges @ self.linear(x)


def inputs():
    return torch.tensor(random_array(6, 3))


def test_modules_have_sparse_buffers(tmp_path):
    module = Graph()
    assert module.state_dict()["graph"].layout is torch.sparse_coo
    torch.save(module.state_dict(), tmp_path / "graph.pt")
    loaded = torch.load(tmp_path / "graph.pt")
    other = Graph()
    other.load_state_dict(loaded)
    torch.testing.assert_close(other(inputs()), module(inputs()))
    assert module.float().graph.dtype is torch.float32
    with pytest.raises(NotImplementedError, match="on the CPU alone"):
        module.to("meta")
    with pytest.raises((TypeError, NotImplementedError)):
        torch.nn.Parameter(ring())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_take_sparse_arguments(reentrant):
    graph, x = ring().requires_grad_(), inputs().requires_grad_()
    y = torch.utils.checkpoint.checkpoint(
        lambda g, x: (g @ x).square(), graph, x, use_reentrant=reentrant
    )
    y.sum().backward()
    found = graph.grad.to_dense(), x.grad
    graph.grad = x.grad = None
    (graph @ x).square().sum().backward()
    assert torch.equal(found[0], graph.grad.to_dense()) and torch.equal(found[1], x.grad)


def gradients(run):
    torch.manual_seed(0)
    module, x = Graph(), inputs().requires_grad_()
    run(module, x)
    return [x.grad, *(p.grad for p in module.parameters())]


def plain(module, x):
    module(x).square().sum().backward()


def test_checkpoints():
    def checkpointed(module, x):
        y = torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
        y.square().sum().backward()

    for a, b in zip(gradients(plain), gradients(checkpointed), strict=True):
        assert torch.equal(a, b)


@pytest.mark.filterwarnings("ignore:budget")
def test_budgets_and_compression():
    def budgeted(module, x):
        with tape.budget(1):
            plain(module, x)

    def compressed(module, x):
        with tape.compress("int8"):
            plain(module, x)

    wanted = gradients(plain)
    for a, b in zip(wanted, gradients(budgeted), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(wanted, gradients(compressed), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=0.2 * float(a.abs().max()))


@pytest.mark.filterwarnings("ignore")
def test_compiled_functions_run_as_they_are():
    graph = ring()
    step = torch.compile(lambda x: graph @ x + x)
    for scale in (1, 2, 3):
        x = inputs() * scale
        torch.testing.assert_close(step(x), graph.to_dense() @ x + x)
    graph.mul_(5)
    torch.testing.assert_close(step(inputs()), graph.to_dense() @ inputs() + inputs())
    made = torch.compile(lambda v: torch.sparse_coo_tensor([[0, 1]], v, (2,)).to_dense() * 2)
    given = torch.compile(lambda g, x: g @ x)
    for scale in (1.0, 2.0, 3.0):
        assert made(torch.ones(2) * scale).tolist() == [2 * scale, 2 * scale]
        torch.testing.assert_close(given(graph * scale, inputs()), (graph * scale) @ inputs())


@pytest.mark.filterwarnings("ignore")
def test_compiled_training_steps_with_sparse_gradients():
    torch.manual_seed(0)
    results = []
    for wrap in (lambda f: f, torch.compile):
        table = torch.nn.Parameter(torch.arange(8.0).reshape(4, 2))
        optimizer = torch.optim.SGD([table], lr=0.1)

        def step(index, table=table, optimizer=optimizer):
            optimizer.zero_grad()
            rows = torch.nn.functional.embedding(index, table, sparse=True)
            rows.square().sum().backward()
            optimizer.step()
            return rows.detach()

        run = wrap(step)
        for number in range(4):
            run(torch.tensor([number, 1]))
        results.append(table.detach().clone())
    assert torch.equal(*results)


def test_recorded_programs_say_why_they_cannot_be_replayed():
    graph, x = ring(), inputs()
    with tape.record(replay=True) as recording:
        y = graph @ x
    with pytest.raises(Exception, match="sparse"):
        recording.program(names={"x": x}, outputs={"y": y})


def test_classes_make_no_instances():
    for make in (torch._C._SparseBase, type(ring()), lambda: object.__new__(type(ring()))):
        with pytest.raises(TypeError):
            make()
    for bad in ([None], [3]):
        with pytest.raises(TypeError):
            torch._C.run_backward(bad, [None], False, False, None, True)


def test_looking_at_the_tape():
    module, x = Graph(), inputs().requires_grad_()
    loss = module(x).square().sum()
    ops = [entry.name for entry in tape.of(loss)]
    assert "SparseMmBackward" in ops and "SparseBuildBackward" in ops
    loss.backward()


@pytest.mark.filterwarnings("ignore:Anomaly")
def test_anomaly_mode():
    with torch.autograd.detect_anomaly(check_nan=True):
        table = torch.nn.Parameter(torch.ones(3, 2))
        torch.nn.functional.embedding(torch.tensor([1]), table, sparse=True).sum().backward()
    assert table.grad.layout is torch.sparse_coo


def test_inference_mode():
    with torch.inference_mode():
        x = ring()
        y = x @ inputs()
        assert (x + x).to_dense().shape == (6, 6)
    assert y.shape == (6, 3)


def test_dispatch_leaves_the_long_way_when_no_sparse_tensor_lives():
    x = ring()
    assert torch.exp(torch.zeros(2)).tolist() == [1, 1]
    del x
    gc.collect()
    assert torch.exp(torch.zeros(2)).tolist() == [1, 1]


def test_nothing_outlives_its_users():
    gc.collect()
    before = torch._C.live_counts()

    def use():
        x = ring().requires_grad_()
        y = (x * 2).coalesce()
        z = y @ inputs()
        z.sum().backward()
        x.register_hook(lambda g: g * x.detach().sum())
        x.own = x  # a cycle

        class Keeps(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                result = x * 2
                ctx.save_for_backward(x, result)
                return result

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        Keeps.apply(x)

    use()
    gc.collect()
    gc.collect()
    assert torch._C.live_counts() == before


def test_a_saved_sparse_tensor_that_was_written_is_noticed():
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, graph, x):
            ctx.save_for_backward(graph)
            return graph @ x

        @staticmethod
        def backward(ctx, grad):
            return None, ctx.saved_tensors[0].t() @ grad

    for write in (lambda graph: graph.mul_(2), lambda graph: graph._values().mul_(2)):
        graph, x = ring(), inputs().requires_grad_()
        y = Saves.apply(graph, x).sum()
        write(graph)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_writes_to_indices_before_backward_are_noticed():
    values = torch.ones(6, dtype=torch.float64, requires_grad=True)
    indices = ring()._indices()
    for use in (lambda x: x @ inputs(), lambda x: x.to_dense(), lambda x: (x * 2).sum(0)):
        result = use(torch.sparse_coo_tensor(indices, values, (6, 6)))
        result = result if result.layout is torch.strided else result.to_dense()
        indices += 0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_threads():
    graph, results = ring(), []

    def work(seed):
        x = torch.tensor(random_array(6, 3, seed=seed), requires_grad=True)
        for _ in range(20):
            x.grad = None
            (graph @ x).square().sum().backward()
        results.append((seed, x.grad.clone()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dense = graph.to_dense()
    for seed, found in results:
        x = torch.tensor(random_array(6, 3, seed=seed))
        torch.testing.assert_close(found, 2 * dense.t() @ (dense @ x))
    assert len(results) == 4


def test_onnx_and_traces_refuse():
    module = Graph()
    with pytest.raises(Exception, match=r"[Ss]parse"):
        torch.onnx.export(module, (inputs(),), "/dev/null")
    with pytest.raises(Exception, match=r"[Ss]parse"):
        torch.jit.trace(module, inputs())
