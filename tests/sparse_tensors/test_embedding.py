"""Sparse gradients of tables, and what optimizers make of them."""

import numpy as np
import pytest
from library import torch

from .cases import assert_alike, dense_of, needs_pytorch, pytorch

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch's
INDEX = [[1, 1, 3], [0, 4, 1]]


def table(library, rows=5, width=3):
    values = np.arange(rows * width, dtype=np.float64).reshape(rows, width) * 0.1 - 0.3
    return library.nn.Parameter(library.tensor(values.tolist(), dtype=library.float64))


def run(library, weight, index=INDEX, **options):
    rows = library.nn.functional.embedding(library.tensor(index), weight, sparse=True, **options)
    return (rows * rows).sum()


@needs_pytorch
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"max_norm": 0.5}])
def test_gradients_are_those_of_pytorch(options):
    found = []
    for L in (torch, pytorch):
        weight = table(L)
        run(L, weight, **options).backward()
        found.append((weight.grad, weight))
    (ours, w), (theirs, v) = found
    assert_alike(ours, theirs)
    assert ours._indices().tolist() == theirs._indices().tolist()
    np.testing.assert_allclose(ours._values().numpy(), theirs._values().numpy())
    assert_alike(w, v)


@needs_pytorch
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bags(mode, weighted):
    if weighted and mode == "mean":
        pytest.skip("weights are for sums")
    found = []
    for L in (torch, pytorch):
        weight = table(L)
        options = {"per_sample_weights": L.tensor([[1.0, 2, 3], [4, 5, 6]]).double()}
        bags = L.nn.functional.embedding_bag(
            L.tensor(INDEX), weight, mode=mode, sparse=True, **(options if weighted else {})
        )
        (bags * bags).sum().backward()
        found.append(weight.grad)
    assert_alike(*found)


def test_modules():
    for module, index in (
        (torch.nn.Embedding(5, 2, sparse=True), torch.tensor([1, 1])),
        (torch.nn.EmbeddingBag(5, 2, sparse=True), torch.tensor([[1, 1]])),
    ):
        module(index).sum().backward()
        assert module.weight.grad.layout is torch.sparse_coo
        assert module.sparse
        module.zero_grad()
        assert module.weight.grad is None
    assert "sparse=True" in repr(torch.nn.Embedding(3, 2, sparse=True))


def test_scale_grad_by_freq_is_refused_as_in_pytorch():
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        run(torch, table(torch), scale_grad_by_freq=True).backward()


def test_accumulation():
    weight = table(torch)
    index = torch.tensor([1, 1, 3])
    rows = lambda: torch.nn.functional.embedding(index, weight, sparse=True).sum()  # noqa: E731
    rows().backward()
    first = weight.grad
    rows().backward()
    assert weight.grad is first and first.layout is torch.sparse_coo
    assert first.to_dense()[:, 0].tolist() == [0, 4, 0, 2, 0]
    weight.sum().backward()
    assert weight.grad.layout is torch.strided
    assert weight.grad[:, 0].tolist() == [1, 5, 1, 3, 1]
    dense = weight.grad
    rows().backward()
    assert weight.grad is dense
    assert dense[:, 0].tolist() == [1, 7, 1, 4, 1]


def test_sparse_and_dense_gradients_in_one_sweep():
    weight = table(torch)
    embedding = torch.nn.functional.embedding
    index = torch.tensor([1, 1, 3])
    (embedding(index, weight, sparse=True).sum() + (weight * 2).sum()).backward()
    assert weight.grad[:, 0].tolist() == [2, 4, 2, 3, 2]
    weight.grad = None
    (embedding(index, weight, sparse=True).sum() + embedding(index, weight, sparse=True).sum()
     ).backward()  # fmt: skip
    assert weight.grad.layout is torch.sparse_coo
    assert weight.grad.to_dense()[:, 0].tolist() == [0, 4, 0, 2, 0]


def test_an_op_between_makes_the_gradient_dense():
    weight = table(torch)
    run(torch, weight * 2).backward()
    sparse = weight.grad
    weight.grad = None
    rows = torch.nn.functional.embedding(torch.tensor(INDEX), weight * 2)
    (rows * rows).sum().backward()
    assert sparse.layout is torch.strided
    np.testing.assert_allclose(sparse.numpy(), weight.grad.numpy())


def test_higher_order():
    index = torch.tensor([1, 1, 3])

    def function(weight):
        return torch.nn.functional.embedding(index, weight, sparse=True).pow(3).sum()

    weight = table(torch)
    (grad,) = torch.autograd.grad(function(weight), weight, create_graph=True)
    assert grad.layout is torch.sparse_coo and grad.requires_grad
    (second,) = torch.autograd.grad(grad.to_dense().sum(), weight)
    expected = torch.zeros(5, 3).double()
    expected[1] = 12 * weight[1].detach()
    expected[3] = 6 * weight[3].detach()
    np.testing.assert_allclose(dense_of(second), expected.numpy())


def test_forward_mode_and_batches():
    index = torch.tensor([1, 1, 3])
    weight = table(torch)
    lookup = lambda w: torch.nn.functional.embedding(index, w, sparse=True)  # noqa: E731
    tangent = torch.ones(5, 3).double()
    rows, moved = torch.func.jvp(lookup, (weight.detach(),), (tangent,))
    assert rows.tolist() == weight.detach()[index].tolist()
    assert moved.tolist() == torch.ones(3, 3).tolist()
    batch = torch.tensor([[1, 2], [3, 4]])
    found = torch.vmap(lambda i: torch.nn.functional.embedding(i, weight, sparse=True))(batch)
    assert found.tolist() == weight.detach()[batch].tolist()


def test_meta_tables():
    weight = torch.nn.Parameter(torch.empty(5, 3, device="meta"))
    index = torch.zeros(2, dtype=torch.int64, device="meta")
    rows = torch.nn.functional.embedding(index, weight, sparse=True)
    assert rows.shape == (2, 3)
    with pytest.raises(NotImplementedError, match="on the CPU alone"):
        rows.sum().backward()


def test_hooks():
    weight = table(torch)
    weight.register_hook(lambda grad: grad * 2)
    seen = []
    weight.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.layout))
    torch.nn.functional.embedding(torch.tensor([2]), weight, sparse=True).sum().backward()
    assert weight.grad.to_dense()[2].tolist() == [2, 2, 2]
    assert seen == [torch.sparse_coo]


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "maximize": True, "initial_accumulator_value": 0.5}),
    ("SparseAdam", {"lr": 0.1}),
    ("SparseAdam", {"lr": 0.01, "betas": (0.5, 0.7), "eps": 1e-3, "maximize": True}),
]


@needs_pytorch
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_optimizers_take_the_steps_of_pytorch(name, options):
    found = []
    for L in (torch, pytorch):
        weight = table(L)
        optimizer = getattr(L.optim, name)([weight], **options)
        for step in range(4):
            optimizer.zero_grad()
            run(L, weight, index=[step, 1, 1, 4 - step]).backward()
            optimizer.step()
        found.append(weight.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-14)


def test_optimizers_go_on_from_their_state():
    weight = table(torch)
    optimizer = torch.optim.SparseAdam([weight], lr=0.1)
    run(torch, weight).backward()
    optimizer.step()
    other = torch.nn.Parameter(weight.detach().clone())
    resumed = torch.optim.SparseAdam([other], lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    for w, each in ((weight, optimizer), (other, resumed)):
        w.grad = None
        run(torch, w).backward()
        each.step()
    assert torch.equal(weight, other)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (name, f"{name} does not support sparse gradients")
        for name in [
            "RMSprop",
            "Adadelta",
            "Adamax",
            "NAdam",
            "RAdam",
            "ASGD",
            "Rprop",
            "Adafactor",
            "Muon",
        ]
    ]
    + [
        (name, "Adam does not support sparse gradients, please consider SparseAdam instead")
        for name in ("Adam", "AdamW")
    ],
)
def test_other_optimizers_refuse(name, text):
    weight = table(torch)
    optimizer = getattr(torch.optim, name)([weight])
    run(torch, weight).backward()
    before = weight.detach().clone()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text):
            optimizer.step()
    assert torch.equal(weight, before)


def test_what_optimizers_refuse_of_sparse_gradients():
    weight = table(torch)
    run(torch, weight).backward()
    with pytest.raises(RuntimeError, match="Use add\\(dense, sparse\\) instead"):
        torch.optim.SGD([weight], lr=0.1, weight_decay=0.1).step()
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse"):
        torch.optim.Adagrad([weight], weight_decay=0.1).step()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        torch.optim.SGD([weight], fused=True).step()
    weight.grad = weight.grad.to_dense()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        torch.optim.SparseAdam([weight]).step()
    with pytest.raises(ValueError, match="SparseAdam requires dense parameter tensors"):
        torch.optim.SparseAdam([torch.eye(2).to_sparse().requires_grad_()])


def test_lbfgs_reads_sparse_gradients():
    weight = table(torch)
    optimizer = torch.optim.LBFGS([weight], max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = run(torch, weight)
        loss.backward()
        return loss

    before = float(closure())
    optimizer.step(closure)
    assert float(closure()) < before


def test_zero_grad_and_clipping():
    weight = table(torch)
    run(torch, weight).backward()
    dense = weight.grad.to_dense()
    total = torch.nn.utils.clip_grad_norm_([weight], 0.5)
    np.testing.assert_allclose(float(total), float(dense.norm()))
    np.testing.assert_allclose(dense_of(weight.grad), dense_of(dense * (0.5 / (total + 1e-6))))
    with pytest.raises(NotImplementedError, match="clamp_: sparse tensors are not supported"):
        torch.nn.utils.clip_grad_value_([weight], 0.1)
    torch.optim.SGD([weight]).zero_grad(set_to_none=False)
    assert weight.grad._nnz() == 0 and weight.grad.layout is torch.sparse_coo


def test_loss_scaling():
    weight = torch.nn.Parameter(torch.ones(5, 3))
    run(torch, weight).backward()
    found = torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_([weight.grad], found, torch.tensor([0.5]))
    assert float(found) == 0
    assert weight.grad.to_dense()[1].tolist() == [3, 3, 3]
