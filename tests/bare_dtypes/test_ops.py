"""What bare dtypes compute: what PyTorch computes, and refusals by name where it has none."""

import numpy as np
import pytest
from library import torch

from bare_dtypes.cases import (
    BARE,
    FLOAT8,
    OTHERS,
    UNSIGNED,
    assert_same,
    beside_pytorch,
    both,
    dtype_of,
    each_dtype,
    each_float8,
    each_unsigned,
    pytorch,
)

ARRAY = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def ways(library):
    """Calls that have the same text in both libraries: by name, of a matrix."""
    index = library.tensor([1, 0])
    mask = library.tensor([[True, False, True], [False, True, False]])
    return {
        "clone": lambda x: x.clone(),
        "contiguous": lambda x: x.t().contiguous(),
        "expand": lambda x: x.expand(2, 2, 3).clone(),
        "repeat": lambda x: x.repeat(2, 2),
        "repeat_interleave": lambda x: x.repeat_interleave(2),
        "cat": lambda x: library.cat([x, x[:1]]),
        "stack": lambda x: library.stack([x, x], 1),
        "roll": lambda x: x.roll(1, 1),
        "flip": lambda x: x.flip(0),
        "unfold": lambda x: x.unfold(1, 2, 1),
        "diag": lambda x: x[0].diag(),
        "diag_embed": lambda x: x.diag_embed(),
        "index": lambda x: x[index],
        "index mask": lambda x: x[mask],
        "index_select": lambda x: x.index_select(0, index),
        "slice": lambda x: x[:, ::2],
        "where": lambda x: library.where(mask, x, x.flip(0)),
        "where number": lambda x: library.where(mask, x, library.tensor(2.0).to(x.dtype)),
        "zeros_like": library.zeros_like,
        "ones_like": library.ones_like,
        "full_like": lambda x: library.full_like(x, 2),
        "new_full": lambda x: x.new_full((2,), 3),
        "fill_": lambda x: x.clone().fill_(2),
        "zero_": lambda x: x.clone().zero_(),
        "assign": lambda x: assigned(x, x[1]),
        "assign number": lambda x: assigned(x, 1),
        "copy_": lambda x: x.clone().copy_(x.float()[0]),
        "eq": lambda x: x == x.flip(0),
        "ne": lambda x: x != x[0],
        "eq number": lambda x: x == 4,
        "mul": lambda x: x * x[:1],
        "any": lambda x: x.any(),
        "all": lambda x: x.all(1),
        "isnan": lambda x: x.isnan(),
        "float_power": lambda x: x.float_power(2),
        "cartesian_prod": lambda x: library.cartesian_prod(x[0], x[1]),
    }


def unsigned_ways(library):
    """The same, of unsigned integers alone."""
    return {
        "mul number": lambda x: x * 3,
        "mul float": lambda x: x * 1.5,
        "mul negative": lambda x: x * -1,
        "and": lambda x: x & 3,
        "or": lambda x: x | x.flip(0),
        "xor": lambda x: x ^ 5,
        "div": lambda x: x / 2,
        "reciprocal": lambda x: x.reciprocal(),
        "sqrt": lambda x: x.sqrt(),
        "floor": lambda x: x.floor(),
        "round": lambda x: x.round(),
        "isinf": lambda x: x.isinf(),
        "isfinite": lambda x: x.isfinite(),
        "sum": lambda x: x.sum(),
        "sum dim": lambda x: x.sum(1),
        "prod": lambda x: x.prod(1),
        "cumsum": lambda x: x.cumsum(1),
        "sort": lambda x: x.sort(1, descending=True).values,
        "argsort": lambda x: x.argsort(1),
        "unique": lambda x: x.unique(),
        "unique dim": lambda x: x.unique(dim=0),
        "unique_consecutive": lambda x: x.unique_consecutive(),
        "isclose": lambda x: x.isclose(x),
        "add float": lambda x: x + 1.5,
        "add float tensor": lambda x: x + x.float(),
        "add half tensor": lambda x: x + x.half(),
        "eq float tensor": lambda x: x == x.float(),
        "add to 0-d": lambda x: x.long() + x[0, 1],
        "copysign": lambda x: x.copysign(x),
    }


def float8_ways(library):
    """The same, of 8-bit floats alone."""
    return {
        "eye": lambda x: library.eye(3, dtype=x.dtype),
        "add to 0-d": lambda x: x.float() + x[0, 1],
    }


def assigned(x, value):
    x = x.clone()
    x[0] = value
    return x


@beside_pytorch
@each_dtype
@pytest.mark.parametrize("way", list(ways(torch)))
def test_as_pytorch(name, way):
    ours, theirs = both(ARRAY, name)
    assert_same(ways(torch)[way](ours), ways(pytorch)[way](theirs))


@beside_pytorch
@each_unsigned
@pytest.mark.parametrize("way", list(unsigned_ways(torch)))
def test_unsigned_as_pytorch(name, way):
    ours, theirs = both(ARRAY, name)
    ours, theirs = unsigned_ways(torch)[way](ours), unsigned_ways(pytorch)[way](theirs)
    if way in ("sqrt", "reciprocal", "div"):
        assert ours.dtype is torch.float32
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
    else:
        assert_same(ours, theirs)


@beside_pytorch
@each_float8
@pytest.mark.parametrize("way", list(float8_ways(torch)))
def test_float8_as_pytorch(name, way):
    ours, theirs = both(ARRAY, name)
    assert_same(float8_ways(torch)[way](ours), float8_ways(pytorch)[way](theirs))


@beside_pytorch
@pytest.mark.parametrize("name", FLOAT8[:-1])
def test_abs(name):
    ours, theirs = both(np.array([-3.0, 0.5, -0.0, np.nan]), name)
    assert_same(ours.abs(), theirs.abs())


REFUSED = {
    "add": lambda x: x + x,
    "add number": lambda x: x + 1,
    "sub": lambda x: x - x,
    "neg": lambda x: -x,
    "floor_divide": lambda x: x // x,
    "remainder": lambda x: x % x,
    "pow": lambda x: x**2,
    "lt": lambda x: x < x,
    "ge": lambda x: x >= 1,
    "bitwise_not": lambda x: ~x,
    "bitwise_left_shift": lambda x: x << 1,
    "logical_and": lambda x: x.logical_and(x),
    "logical_not": lambda x: x.logical_not(),
    "amax": lambda x: x.max(),
    "max": lambda x: x.max(0),
    "argmax": lambda x: x.argmax(),
    "maximum": lambda x: x.maximum(x),
    "clamp": lambda x: x.clamp(0, 1),
    "median": lambda x: x.median(),
    "mode": lambda x: x.mode(),
    "topk": lambda x: x.topk(1),
    "cummax": lambda x: x.cummax(0),
    "scatter_add": lambda x: x.scatter_add(0, torch.zeros(1, 3, dtype=torch.int64), x),
    "index_add": lambda x: x.index_add(0, torch.tensor([0]), x[:1]),
    "arange": lambda x: torch.arange(4, dtype=x.dtype),
    "linspace": lambda x: torch.linspace(0, 3, 4, dtype=x.dtype),
    "uniform": lambda x: torch.rand(2, dtype=x.dtype),
    "normal": lambda x: torch.randn(2, dtype=x.dtype),
    "randperm": lambda x: torch.randperm(3, dtype=x.dtype),
    "random_": lambda x: x.random_(),
    "bernoulli": lambda x: x.bernoulli(),
    "dot": lambda x: x[0].dot(x[0]),
    "relu": lambda x: x.relu(),
    "sign": lambda x: x.sign(),
    "softmax": lambda x: x.softmax(0),
    "gcd": lambda x: x.gcd(x),
    "searchsorted": lambda x: torch.searchsorted(x, x),
    "bincount": lambda x: x[0].bincount(),
    "add_": lambda x: x.add_(x),
}


@each_dtype
@pytest.mark.parametrize("what", list(REFUSED))
def test_refused_by_name(name, what):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(dtype_of(name))
    with pytest.raises((NotImplementedError, RuntimeError), match=name):
        REFUSED[what](x)


@each_float8
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x / x,
        lambda x: x * 2,
        lambda x: x.sum(),
        lambda x: x.mean(),
        lambda x: x.prod(),
        lambda x: x.cumsum(0),
        lambda x: x.sort(),
        lambda x: x.exp(),
        lambda x: x.floor(),
        lambda x: x @ x.t(),
        lambda x: x & x,
        lambda x: x.var(),
        lambda x: torch.randint(0, 3, (2,), dtype=x.dtype),
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
        lambda x: torch.nn.functional.gelu(x),
    ],
)
def test_arithmetic_of_float8_is_refused(name, call):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(dtype_of(name))
    with pytest.raises(NotImplementedError, match=name):
        call(x)


def test_scaled_mm():
    x = torch.arange(256.0).reshape(16, 16).remainder(7).to(torch.float8_e4m3fn)
    y = torch._scaled_mm(x, x.t(), torch.tensor(0.5), torch.tensor(4.0), out_dtype=torch.float32)
    assert y.equal(2 * x.float() @ x.float().t())


@beside_pytorch
@each_dtype
@pytest.mark.parametrize("other", OTHERS + BARE)
def test_promotion(name, other):
    try:
        expected = pytorch.promote_types(getattr(pytorch, name), getattr(pytorch, other))
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error).split(",")[0]):
            torch.promote_types(dtype_of(name), dtype_of(other))
        with pytest.raises(RuntimeError, match="Promotion for"):
            torch.ones(2).to(dtype_of(name)).eq(torch.ones(2).to(dtype_of(other)))
    else:
        assert str(torch.promote_types(dtype_of(name), dtype_of(other))) == str(expected)
        assert str(torch.promote_types(dtype_of(other), dtype_of(name))) == str(expected)
    for a, b in ((name, other), (other, name)):
        assert torch.can_cast(dtype_of(a), dtype_of(b)) == pytorch.can_cast(
            getattr(pytorch, a), getattr(pytorch, b)
        )


def test_integers_of_64_bits():
    x = torch.tensor([2**64 - 1, 3, 2**63], dtype=torch.uint64)
    assert x.sort().values.tolist() == [3, 2**63, 2**64 - 1]
    assert x.sort(descending=True).indices.tolist() == [0, 2, 1]
    values, inverse = torch.cat([x, x]).unique(return_inverse=True)
    assert values.tolist() == [3, 2**63, 2**64 - 1] and inverse.tolist() == [2, 0, 1, 2, 0, 1]
    assert (x == 2**63).tolist() == [False, False, True]
    assert (x != 2**64 - 1).tolist() == [False, True, True]
    assert (x & 2**63).tolist() == [2**63, 0, 2**63]
    assert (x * 2).tolist() == [2**64 - 2, 6, 0]
    assert x.sum().item() == 2**63 + 2 - 2**64
    assert x.bool().all() and x.float()[2].item() == 2.0**63
    with pytest.raises(OverflowError):
        assert x == 2**64


def test_out_and_in_place():
    x = torch.tensor([1, 70000], dtype=torch.uint32)
    assert torch.mul(x, x, out=torch.empty(2, dtype=torch.uint32)).tolist() == [1, 605032704]
    assert torch.add(torch.ones(2), 1, out=torch.empty(2, dtype=torch.float8_e5m2)).tolist() == [
        2,
        2,
    ]
    assert torch.ones(2).mul_(x).tolist() == [1, 70000]
    assert x.clone().mul_(2).tolist() == [2, 140000]
    with pytest.raises(RuntimeError, match=r"type Float can't be cast to .* UInt32"):
        x.mul_(1.5)


@beside_pytorch
@each_unsigned
def test_randint(name):
    x = torch.randint(3, 9, (1000,), dtype=dtype_of(name))
    assert x.dtype is dtype_of(name)
    assert sorted(set(x.tolist())) == [3, 4, 5, 6, 7, 8]
    if name == "uint16":
        with pytest.raises(RuntimeError, match="out of bounds"):
            torch.randint(0, 70000, (2,), dtype=torch.uint16)


@each_dtype
def test_transforms(name):
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(dtype_of(name))
    assert torch.equal(torch.vmap(lambda row: row.flip(0))(x), x.flip(1))
    assert torch.equal(torch.vmap(lambda row: row * row)(x), x * x)
    assert torch.equal(torch.vmap(lambda row: row.float() + 1)(x), x.float() + 1)
    compiled = torch.compile(lambda a: a.to(dtype_of(name)).float() * 2)
    for _ in range(3):
        assert compiled(torch.ones(3) * 4).tolist() == [8, 8, 8]
    assert torch.empty(2, dtype=dtype_of(name), device="meta").clone().shape == (2,)
    with pytest.raises(NotImplementedError, match=name):
        torch.empty(2, dtype=dtype_of(name), device="meta").add(1)
    with pytest.raises(NotImplementedError, match=f"programs with {name} tensors"):
        torch.jit.trace(lambda a: a.float() * 2, (x,))
    with pytest.raises(torch.onnx.OnnxExporterError, match=name):
        torch.onnx.export(torch.nn.Identity(), (x,), "model.onnx")


@pytest.mark.parametrize("name", FLOAT8[:-1])
def test_gradients_pass(name):
    """Through what moves elements; what would have to add them is refused."""
    dtype = dtype_of(name)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.cat([x.to(dtype), x.to(dtype)]).flip(0)[::4]
    (y.float() * torch.tensor([2.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [0, 4, 2]
    with pytest.raises(NotImplementedError, match=name):
        x.to(dtype)[torch.tensor([0, 0])].float().sum().backward()
    _, tangent = torch.func.jvp(lambda a: a.to(dtype).float(), (x.detach(),), (torch.ones(3),))
    assert tangent.tolist() == [1, 1, 1]
    x.grad = None
    torch.utils.checkpoint.checkpoint(
        lambda a: (a.to(dtype).float() * a).sum(), x, use_reentrant=False
    ).backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_names():
    assert UNSIGNED + FLOAT8 == BARE
