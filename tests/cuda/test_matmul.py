"""Matrix products on a CUDA device, by cuBLASLt and by kernels of our own, against the CPU's."""

import pytest
from library import torch

FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(params=["cublaslt", "own"], autouse=True)
def library(request):
    """Run each test with both, where both are there."""
    if request.param == "cublaslt" and not torch._C._cuda_blas_version():
        pytest.skip("there is no cuBLASLt")
    before = torch._C._cuda_use_blas(request.param == "cublaslt")
    yield
    torch._C._cuda_use_blas(before)


def random(*sizes, dtype=torch.float32):
    if dtype.is_floating_point:
        return torch.randn(sizes).to(dtype)
    info = torch.iinfo(dtype)
    return torch.randint(max(info.min, -1000), min(info.max, 1000), sizes).to(dtype)


def assert_close(found, wanted, depth=1):
    """Check a result against the CPU's, whose sums are in another order."""
    assert found.device.type == "cuda"
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if not wanted.dtype.is_floating_point:
        assert torch.equal(found.cpu(), wanted)
        return
    a, b = found.cpu().double(), wanted.double()
    scale = max(1.0, b.abs().max().item()) if b.numel() else 1.0
    allowed = (4 + depth**0.5) * torch.finfo(wanted.dtype).eps * scale
    assert not a.numel() or (a - b).abs().max().item() <= allowed


def check(function, *operands, depth=1):
    assert_close(function(*(x.cuda() for x in operands)), function(*operands), depth)


@pytest.mark.parametrize("dtype", FLOATING + INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (17, 33, 16), (1, 40, 19), (40, 1, 19), (2, 2, 70)]
)
def test_sizes(m, n, k, dtype):
    check(torch.mm, random(m, k, dtype=dtype), random(k, n, dtype=dtype), depth=k)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_nothing_to_multiply(m, n, k, dtype):
    check(torch.mm, random(m, k, dtype=dtype), random(k, n, dtype=dtype))


def test_vectors():
    a, x, y = random(9, 30), random(30), random(30)
    check(torch.mv, a, x, depth=30)
    check(torch.dot, x, y, depth=30)
    check(lambda a, x: x @ a.t(), a, x, depth=30)
    check(lambda a, x: a[:, ::2] @ x[::2], a, x, depth=15)


@pytest.mark.parametrize("dtype", [*FLOATING, torch.int8, torch.int64], ids=str)
@pytest.mark.parametrize(("outputs", "depth"), [(1, 5000), (2, 700), (16, 64), (300, 8), (33, 129)])
def test_matrix_and_vector(outputs, depth, dtype):
    """By rows and by columns, aligned or not, with sums that are divided among blocks."""
    by_rows, by_columns = random(outputs, depth, dtype=dtype), random(depth, outputs, dtype=dtype)
    x = random(depth, dtype=dtype)
    for matrix in (by_rows, by_columns.t()):
        wanted = matrix @ x
        assert_close(on_device(matrix) @ x.cuda(), wanted, depth)
        assert_close(x.cuda() @ on_device(matrix).t(), wanted, depth)
        strided = x.repeat_interleave(3).cuda()[::3]
        assert_close(on_device(matrix) @ strided, wanted, depth)
    if dtype.is_floating_point:
        start = random(outputs, dtype=dtype)
        check(
            lambda y, a, x: torch.addmv(y, a, x, beta=0.5, alpha=2), start, by_rows, x, depth=depth
        )


def test_batches_of_vectors():
    check(torch.bmm, random(3, 40, 20), random(3, 20, 1), depth=20)
    check(torch.bmm, random(3, 1, 20), random(3, 20, 40), depth=20)
    check(torch.bmm, random(3, 1, 600), random(3, 600, 1), depth=600)
    check(torch.matmul, random(4, 1, 5, 6), random(4, 3, 6, 1), depth=6)


def test_bias_of_one_row_and_of_one_column():
    check(torch.addmm, random(7), random(1, 9), random(9, 7), depth=9)
    check(torch.addmm, random(1), random(7, 9), random(9, 1), depth=9)


LAYOUTS = {
    "rows": lambda x: x.clone(),
    "columns": lambda x: x.t().contiguous().t(),
    "part of rows": lambda x: torch.cat([x, x], 1)[:, 1 : 1 + x.shape[1]],
    "every other column": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "backwards": lambda x: x.flip(0).flip(0),
    "one row": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_layouts(left, right):
    a, b = random(6, 10), random(10, 7)
    wanted = LAYOUTS[left](a) @ LAYOUTS[right](b)
    # Laid out by the CPU: its views are made again over the same bytes on the device.
    found = [on_device(LAYOUTS[left](a)), on_device(LAYOUTS[right](b))]
    assert_close(found[0] @ found[1], wanted, depth=10)


def on_device(x):
    """Return a tensor of the device with the strides of one of the CPU."""
    extent = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride(), strict=True))
    memory = x.as_strided((extent,), (1,), x.storage_offset())
    return memory.cuda().as_strided(x.shape, x.stride(), 0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4, 5), (3, 5, 2)),
        ((3, 4, 5), (5, 2)),
        ((4, 5), (3, 5, 2)),
        ((2, 1, 4, 5), (1, 3, 5, 2)),
        ((2, 3, 4, 5), (2, 3, 5, 2)),
        ((2, 1, 3, 4, 5), (3, 5, 2)),
        ((3, 4, 5), (5,)),
        ((5,), (3, 5, 2)),
        ((0, 4, 5), (0, 5, 2)),
        ((3, 4, 0), (3, 0, 2)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_batches(left, right, dtype):
    check(torch.matmul, random(*left, dtype=dtype), random(*right, dtype=dtype), depth=5)


def test_batches_of_heads():
    """Batch and heads with other dimensions between them: two strides that are not one."""
    x, y = random(2, 6, 3, 4), random(2, 6, 3, 4)
    check(lambda a, b: a.transpose(1, 2) @ b.transpose(1, 2).mT, x, y, depth=4)
    check(lambda a, b: a.expand(2, 6, 3, 4).mT @ b, x[:, :1], y, depth=3)
    # So many that the operands are laid out anew.
    x, y = random(5, 6, 7, 4), random(5, 6, 7, 4)
    check(lambda a, b: a.transpose(1, 2) @ b.transpose(1, 2).mT, x, y, depth=4)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("shape", [(5,), (1,), (4, 5), (4, 1), (1, 5), ()], ids=str)
def test_addmm(shape, dtype):
    x, a, b = random(*shape, dtype=dtype), random(4, 6, dtype=dtype), random(6, 5, dtype=dtype)
    check(torch.addmm, x, a, b, depth=6)
    check(lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=-2), x, a, b, depth=6)
    # Where beta is zero, what x holds does not count.
    check(lambda x, a, b: torch.addmm(x * float("nan"), a, b, beta=0), x, a, b, depth=6)


def test_addmm_of_integers():
    operands = [random(*s, dtype=torch.int32) for s in ((4, 5), (4, 6), (6, 5))]
    check(lambda x, a, b: torch.addmm(x, a, b, beta=3, alpha=-2), *operands)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_linear(dtype):
    x, w, b = (random(*s, dtype=dtype) for s in ((3, 4, 6), (5, 6), (5,)))
    check(torch.nn.functional.linear, x, w, b, depth=6)
    check(lambda x, w: torch.nn.functional.linear(x, w), x, w, depth=6)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("features", [(6, 5), (8, 8), (8, 16), (3, 1), (1, 4)], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 24])
def test_gradients_of_linear(rows, features, dtype):
    """The bias's is computed with the weight's."""
    before, after = features
    operands = [random(*s, dtype=dtype) for s in ((rows, before), (after, before), (after,))]
    grad = random(rows, after, dtype=dtype)
    wanted = [x.clone().requires_grad_() for x in operands]
    found = [x.cuda().requires_grad_() for x in operands]
    torch.nn.functional.linear(*wanted).backward(grad)
    torch.nn.functional.linear(*found).backward(grad.cuda())
    for x, y in zip(found, wanted, strict=True):
        assert_close(x.grad, y.grad, depth=24)


def test_baddbmm():
    operands = [random(*s) for s in ((3, 4, 5), (3, 4, 6), (3, 6, 5))]
    check(lambda x, a, b: torch.baddbmm(x, a, b, beta=0.25, alpha=3), *operands, depth=6)


def test_gradients():
    a, b = random(3, 4, 5), random(5, 2)
    wanted = [x.clone().requires_grad_() for x in (a, b)]
    found = [x.cuda().requires_grad_() for x in (a, b)]
    grad = random(3, 4, 2)
    (wanted[0] @ wanted[1]).backward(grad)
    (found[0] @ found[1]).backward(grad.cuda())
    for x, y in zip(found, wanted, strict=True):
        assert_close(x.grad, y.grad, depth=12)


def test_many_tiles():
    """More than one tile in every direction, and more than fit one block's depth."""
    check(torch.mm, random(70, 50), random(50, 90), depth=50)
    check(torch.bmm, random(65, 3, 4), random(65, 4, 3), depth=4)


def test_same_kind_again():
    """A plan that was found for one product serves the next of its kind, with other addresses."""
    bias = random(8)
    for _ in range(3):
        check(torch.addmm, bias + 1, random(8, 8), random(8, 8), depth=8)
