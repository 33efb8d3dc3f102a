"""Making sparse tensors: arguments, checks, legacy classes, in-place changes of size."""

import copy
import io
import pickle

import numpy as np
import pytest
from library import IS_TORCH, torch

from .cases import IDS, PATTERNS, assert_alike, dense_of, needs_pytorch, outcome, pytorch

pytestmark = pytest.mark.filterwarnings("ignore:.*[Ss]parse")  # PyTorch's

CALLS = [
    lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0]),
    lambda L: L.sparse_coo_tensor([[0, 1]], [1, 2]),
    lambda L: L.sparse_coo_tensor([[0, 1]], [1, 2], dtype=L.float64),
    lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0], requires_grad=True),
    lambda L: L.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (4, 2)),
    lambda L: L.sparse_coo_tensor(L.tensor([[0, 2]], dtype=L.int32), L.ones(2), (4,)),
    lambda L: L.sparse_coo_tensor(size=(2, 3)),
    lambda L: L.sparse_coo_tensor((2, 3)),
    lambda L: L.sparse_coo_tensor((2, 3), dtype=L.int64),
    lambda L: L.sparse_coo_tensor(L.zeros(2, 0), [], (2, 3)),
    lambda L: L.sparse_coo_tensor(L.zeros(1, 0), L.zeros(0, 3), (2, 3)),
    lambda L: L.sparse_coo_tensor(L.zeros(0, 1), [5.0], ()),
    lambda L: L.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)).coalesce(),
    lambda L: L.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3)),
    lambda L: L.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0]),
    lambda L: L.sparse_csr_tensor([0, 1, 2], [2, 0], [3, 4], dtype=L.float64),
    lambda L: L.sparse_csc_tensor([0, 1, 1, 2], [1, 0], [4.0, 3.0], (2, 3)),
    lambda L: L.sparse_csc_tensor([0, 1, 1, 2], [1, 0], [4.0, 3.0]),
    lambda L: L.sparse_compressed_tensor([0, 1], [1], [2.0], (1, 3), layout=L.sparse_csr),
    lambda L: L.sparse.FloatTensor(L.tensor([[0, 1], [1, 0]]), L.ones(2), L.Size([2, 3])),
    lambda L: L.sparse.FloatTensor(L.tensor([[0, 1], [1, 0]]), L.ones(2)),
    lambda L: L.sparse.FloatTensor(2, 3),
    lambda L: L.sparse.FloatTensor(L.Size([2, 3])),
    lambda L: L.sparse.DoubleTensor(L.tensor([[1]]), L.ones(1).double()),
    lambda L: L.sparse.spdiags(L.arange(9.0).reshape(3, 3), L.tensor([0, -1, 2]), (3, 3)),
    lambda L: L.sparse.spdiags(L.ones(4), L.tensor(1), (3, 4), layout=L.sparse_csr),
    lambda L: L.eye(3).to_sparse(layout=L.sparse_csc),
    lambda L: L.ones(2, 3, 2).to_sparse(2),
]


@needs_pytorch
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_made_as_by_pytorch(number):
    ours, theirs = CALLS[number](torch), CALLS[number](pytorch)
    assert_alike(ours, theirs)
    assert repr(ours) == repr(theirs)
    assert ours.requires_grad == theirs.requires_grad
    assert ours._nnz() == theirs._nnz()


BAD = [
    (lambda L: L.sparse_coo_tensor([[0, 1]], [1.0], (3,)), "must have same nnz"),
    (lambda L: L.sparse_coo_tensor([0, 1], [1.0, 2.0], (3,)), "is not satisfied"),
    (lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 3)), "is not satisfied"),
    (lambda L: L.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), "found negative index -1 for dim 0"),
    (lambda L: L.sparse_coo_tensor([[0, 1]], [[1.0], [2.0]], (3, 3)), "values has incorrect size"),
    (
        lambda L: L.sparse_coo_tensor(
            [[0, 0]], [1.0, 2.0], (3,), is_coalesced=True, check_invariants=True
        ),
        "cannot set is_coalesced to true",
    ),
    (
        lambda L: L.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True),
        "size is inconsistent with indices: for dim 0, size is 3 but found index 5",
    ),
    (lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,)).values(), "please call .coalesce"),
    (lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,)).indices(), "please call .coalesce"),
    (
        lambda L: L.eye(2).indices(),
        "indices expected sparse coordinate tensor layout but got Strid",
    ),
    (lambda L: L.eye(2).coalesce(), "coalesce expected sparse coordinate tensor layout but got"),
    (lambda L: L.eye(2).values(), "values expected sparse tensor layout but got Strided"),
    (lambda L: L.eye(2).crow_indices(), "crow_indices expected sparse row compressed tensor"),
    (lambda L: L.eye(2).to_sparse().crow_indices(), "row compressed tensor layout but got Sparse"),
    (lambda L: L.eye(2).to_sparse_csr().indices(), "coordinate tensor layout but got SparseCsr"),
    (lambda L: L.eye(2).to_sparse_csr().ccol_indices(), "column compressed tensor layout but got"),
    (lambda L: L.eye(2).to_sparse() + L.eye(2), "add\\(sparse, dense\\) is not supported"),
    (lambda L: L.eye(2).to_sparse() + 1, "add\\(sparse, dense\\) is not supported"),
    (lambda L: L.eye(2).to_sparse() / L.eye(2), "requires a scalar or zero-dim dense tensor"),
    (lambda L: L.cat([L.eye(2).to_sparse(), L.eye(2)]), "a dense tensor was found at position 1"),
    (lambda L: L.eye(2).to_sparse() @ L.ones(3, 2), "cannot be multiplied|Expected dim 0 size"),
    (lambda L: L.eye(2).sparse_mask(L.eye(3).to_sparse()), "operands have incompatible sizes"),
    (
        lambda L: L.eye(3).copy_(L.eye(3).to_sparse()),
        "between dense and sparse Tensors is not impl",
    ),
    (lambda L: L.eye(3).to_sparse().sparse_resize_((1, 1), 2, 0), "shrinking the size of sparse"),
    (
        lambda L: L.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)).sqrt_(),
        "sqrt_ requires coalesced input",
    ),
]


@pytest.mark.parametrize("number", range(len(BAD)))
@pytest.mark.parametrize("name", ["ours", "theirs"])
def test_refused_in_the_words_of_pytorch(number, name):
    library = torch if name == "ours" else pytorch
    if library is None or (IS_TORCH and name == "theirs"):
        pytest.skip("nothing to compare with")
    call, text = BAD[number]
    with pytest.raises((RuntimeError, TypeError, ValueError), match=text):
        call(library)


def test_indices_out_of_range_are_always_refused():
    if IS_TORCH:
        pytest.skip("PyTorch checks on request")
    for indices in ([[0, 3]], [[-1, 0]]):
        with pytest.raises(RuntimeError, match="index"):
            torch.sparse_coo_tensor(indices, [1.0, 2.0], (3,))
    x = torch.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0], (2, 2))
    x._indices()[1, 0] = 7
    with pytest.raises(IndexError, match="out of range"):
        x @ torch.ones(2, 2)


def test_what_is_not_there_names_what_is():
    if IS_TORCH:
        pytest.skip("PyTorch has it")
    for call, text in (
        (lambda: torch.eye(2).to_sparse(layout=torch.sparse_bsr), "use torch.sparse_csr"),
        (
            lambda: torch.sparse_compressed_tensor(
                [0, 1], [0], [[[1.0]]], (1, 1), layout=torch.sparse_bsc
            ),
            "use torch.sparse_csc",
        ),
        (lambda: torch.sparse_coo_tensor([[0]], [1.0], (1,), device="meta"), "on the CPU alone"),
        (lambda: torch.sparse_csr_tensor([[0, 1]], [[0]], [[1.0]]), "batches"),
        (lambda: torch.sparse.mm(torch.eye(2).to_sparse_csr(), torch.eye(2), "amax"), "reduce"),
        (lambda: torch.sparse.as_sparse_gradcheck(None), "function of the values"),
    ):
        with pytest.raises(NotImplementedError, match=text):
            call()


def test_invariants_can_be_asked_for():
    invariants = torch.sparse.check_sparse_tensor_invariants
    assert not invariants.is_enabled()
    unsorted = lambda **k: torch.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2), **k)  # noqa: E731
    assert unsorted().to_dense().tolist() == [[2, 1]]
    with invariants():
        assert invariants.is_enabled()
        with pytest.raises(RuntimeError):
            unsorted()
        unsorted(check_invariants=False)
    assert not invariants.is_enabled()
    with pytest.raises(RuntimeError):
        invariants()(unsorted)()


def test_instances():
    x = torch.eye(2).to_sparse()
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x)
    assert isinstance(x, torch.sparse.FloatTensor)
    assert not isinstance(x, torch.sparse.DoubleTensor)
    assert not isinstance(torch.eye(2), torch.sparse.FloatTensor)
    assert not isinstance(x, torch.FloatTensor) and isinstance(torch.eye(2), torch.FloatTensor)
    assert x.type() == "torch.sparse.FloatTensor"
    assert x.device == torch.device("cpu") and x.is_leaf and x.grad_fn is None


@needs_pytorch
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sparse_resize_((6, 7), 2, 0),
        lambda x: x.sparse_resize_and_clear_((4, 5, 2), 2, 1),
        lambda x: x.zero_(),
        lambda x: x._coalesced_(True),
    ],
)
def test_changes_in_place(call):
    found = []
    for L in (torch, pytorch):
        x = PATTERNS[1].make(L)
        assert call(x) is x
        found.append(x)
    assert_alike(*found)
    assert repr(found[0]) == repr(found[1])


def test_detached_tensors_share_what_is_written_in_place():
    x = torch.eye(2).to_sparse()
    y, version = x.detach(), x._version
    indices = x.indices()
    x.mul_(3)
    assert y.to_dense().tolist() == [[3, 0], [0, 3]]
    assert x._version > version and indices.tolist() == [[0, 1], [0, 1]]
    assert x.clone().mul_(2).to_dense().tolist() == [[6, 0], [0, 6]]
    assert x.to_dense().tolist() == [[3, 0], [0, 3]]


def test_recorded_writes_are_refused():
    if IS_TORCH:
        pytest.skip("PyTorch records some")
    x = torch.eye(2).to_sparse().requires_grad_()
    with pytest.raises(
        NotImplementedError, match="in-place ops on sparse tensors are not recorded"
    ):
        x.mul_(2)
    with torch.no_grad():
        x.mul_(2)
    assert x.to_dense().tolist() == [[2, 0], [0, 2]]


def layouts(x):
    yield x
    if x.dim() == 2 and x.dense_dim() == 0:
        yield x.to_sparse_csr()
        yield x.to_sparse_csc()


@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
def test_copies_and_files(pattern):
    for x in layouts(pattern.make(torch)):
        x = x.detach().requires_grad_()
        file = io.BytesIO()
        torch.save({"x": x, "same": [x]}, file)
        file.seek(0)
        loaded = torch.load(file)
        assert loaded["same"][0] is loaded["x"]
        for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded["x"]):
            assert y.layout is x.layout and y.requires_grad and y.dtype is x.dtype
            assert repr(y) == repr(x)
            assert y._values().data_ptr() != x._values().data_ptr() or not x._nnz()


@needs_pytorch
@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
def test_files_of_pytorch(pattern):
    if pattern.shape[0] == 0:
        pytest.skip("PyTorch does not load it either")
    for x in layouts(pattern.make(pytorch)):
        file = io.BytesIO()
        pytorch.save({"x": x, "model": pytorch.ones(2)}, file)
        file.seek(0)
        loaded = torch.load(file)["x"]
        assert repr(loaded) == repr(x)
        np.testing.assert_equal(dense_of(loaded), dense_of(x))


def test_files_that_lie():
    if IS_TORCH:
        pytest.skip("another format")
    from tapegrad.sparse._files import made_of

    values, indices = torch.ones(2), torch.tensor([[0, 9]])
    for parts in (
        ("torch.sparse_coo", True, False, (3,), indices, values),
        ("torch.sparse_coo", True, False, (30,), torch.tensor([[9, 0]]), values),
        ("torch.sparse_coo", True, False, "no", indices, values),
        ("torch.sparse_coo", True, False, (30,), indices, 3),
        ("torch.sparse_bsr", True, False, (30,), indices, values),
        ("torch.sparse_csr", True, False, (1, 2), torch.tensor([0, 5]), indices[0], values),
    ):
        with pytest.raises(ValueError, match="sparse tensor"):
            made_of(*parts)


@needs_pytorch
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_assert_close(layout):
    for other in (
        lambda L, x: x * 2,
        lambda L, x: L.ones(2, 2).to_sparse(layout=getattr(L, layout)),
        lambda L, x: L.eye(2),
        lambda L, x: L.tensor([[0.0, 1], [1, 0]]).to_sparse(layout=getattr(L, layout)),
        lambda L, x: x.clone(),
    ):
        found = []
        for L in (torch, pytorch):
            x = L.eye(2).to_sparse(layout=getattr(L, layout))
            y = other(L, x)
            error = outcome(lambda L: L.testing.assert_close(x, y), L)  # noqa: B023
            found.append(None if error is None else str(error).split("\n")[0])
        assert found[0] == found[1]
