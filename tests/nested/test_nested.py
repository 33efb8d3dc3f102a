"""NestedTensor beside PyTorch's of layout jagged: values, attention, gradients, refusals."""

import copy
import pickle

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
LENGTHS = (2, 5, 1, 3)


def arrays(size=(8,), lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((length, *size)) for length in lengths]


def nested(library, size=(8,), lengths=LENGTHS, seed=0, **options):
    sequences = [library.from_numpy(each.copy()) for each in arrays(size, lengths, seed)]
    return library.nested.nested_tensor(sequences, layout=library.jagged, **options)


def assert_same(ours, theirs, tolerance=1e-12):
    if getattr(theirs, "is_nested", False):
        assert ours.is_nested and ours.offsets().tolist() == theirs.offsets().tolist()
        sizes = [each if isinstance(each, int) else "j" for each in ours.shape]
        assert sizes == [each if type(each) is int else "j" for each in theirs.shape]
        assert str(ours.dtype) == str(theirs.dtype) and ours.ndim == theirs.ndim
        for mine, other in zip(ours.unbind(), theirs.unbind(), strict=True):
            assert_same(mine, other, tolerance)
        assert_same(ours.values(), theirs.values(), tolerance)
        return
    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(
        ours.detach().double().numpy(),
        theirs.detach().double().numpy(),
        rtol=tolerance,
        atol=tolerance,
    )


def filled(library, *shape, seed=5):
    return library.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def calls(library):
    functional = library.nn.functional

    def heads(x):
        return x.unflatten(-1, [2, 4]).transpose(1, 2)

    return {
        "clone": lambda x: x.clone(),
        "detach": lambda x: x.detach(),
        "float": lambda x: x.float(),
        "to": lambda x: x.to(library.float16),
        "add": lambda x: x + x,
        "add number": lambda x: x + 1,
        "from number": lambda x: 1 - x,
        "over number": lambda x: 2 / x,
        "mul vector": lambda x: x * filled(library, 8),
        "mul one": lambda x: x * filled(library, 1, 1, 8),
        "mul each": lambda x: x * filled(library, 4, 1, 8),
        "div": lambda x: x / 3,
        "pow": lambda x: x**2,
        "neg": lambda x: -x,
        "abs": lambda x: x.abs(),
        "gt": lambda x: x > 0,
        "eq": lambda x: x == x,
        "exp": lambda x: x.exp(),
        "sin": lambda x: x.sin(),
        "relu": lambda x: x.relu(),
        "sigmoid": lambda x: x.sigmoid(),
        "clamp": lambda x: x.clamp(-1, 1),
        "softmax": lambda x: x.softmax(-1),
        "functional softmax": lambda x: functional.softmax(x, -1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "matmul": lambda x: x @ filled(library, 8, 3),
        "layer_norm": lambda x: functional.layer_norm(x, (8,)),
        "layer_norm affine": lambda x: functional.layer_norm(
            x, (8,), filled(library, 8), filled(library, 8, seed=6), 1e-3
        ),
        "sum": lambda x: x.sum(),
        "sum over sequences": lambda x: x.sum(1),
        "sum keepdim": lambda x: x.sum(1, keepdim=True),
        "sum of features": lambda x: x.sum(-1),
        "sum of features keepdim": lambda x: x.sum(-1, keepdim=True),
        "mean": lambda x: x.mean(1),
        "mean keepdim": lambda x: x.mean(1, keepdim=True),
        "transpose": lambda x: x.transpose(1, 2),
        "heads": heads,
        "heads and back": lambda x: heads(x).transpose(1, 2).flatten(-2),
        "heads twice": lambda x: heads(x).transpose(2, 3),
        "heads outside": lambda x: heads(x).transpose(1, 3),
        "on heads": lambda x: heads(x) * 2 + heads(x),
        "view": lambda x: x.view(4, -1, 2, 4),
        "reshape": lambda x: x.reshape(4, -1, 4, 2),
        "chunk": lambda x: x.chunk(2, -1)[1],
        "split": lambda x: x.split([3, 5], -1)[0],
        "unsqueeze": lambda x: x.unsqueeze(-1),
        "squeeze": lambda x: x.unsqueeze(2).squeeze(2),
        "padded": lambda x: x.to_padded_tensor(-1.5),
        "padded further": lambda x: x.to_padded_tensor(0.0, (4, 7, 8)),
        "padded heads": lambda x: heads(x).to_padded_tensor(0.0),
        "function padded": lambda x: library.nested.to_padded_tensor(x, 2.0),
        "index": lambda x: x[1],
        "index from the end": lambda x: x[-1],
        "values": lambda x: x.values(),
        "attention": lambda x: functional.scaled_dot_product_attention(
            heads(x), heads(x * 2), heads(x + 1)
        ).transpose(1, 2),
        "causal attention": lambda x: (
            functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True)
            .transpose(1, 2)
            .flatten(-2)
        ),
        "scaled attention": lambda x: functional.scaled_dot_product_attention(
            heads(x), heads(x), heads(x), scale=0.3
        ).transpose(1, 2),
    }


@beside_pytorch
@pytest.mark.parametrize("name", [name for name in calls(torch) if name != "causal attention"])
def test_as_pytorch(name):
    results = [calls(library)[name](nested(library)) for library in (torch, pytorch)]
    assert_same(*results, tolerance=1e-6 if "padded" in name else 1e-10)


NOT_DIFFERENTIABLE = ("gt", "eq", "detach", "float", "to")


@pytest.mark.parametrize("name", [name for name in calls(torch) if name not in NOT_DIFFERENTIABLE])
def test_gradients(name):
    """By differences: PyTorch crashes on some of these."""
    sequences = [torch.from_numpy(each).requires_grad_() for each in arrays((8,), (2, 1, 1, 3))]

    def call(*sequences):
        result = calls(torch)[name](torch.nested.as_nested_tensor(list(sequences)))
        return result.values() if getattr(result, "is_nested", False) else result

    torch.autograd.gradcheck(call, sequences, fast_mode=True)


@beside_pytorch
def test_modules():
    results = []
    for library in (torch, pytorch):
        state = {"weight": filled(library, 3, 8), "bias": filled(library, 3, seed=7)}
        linear = library.nn.Linear(8, 3).double()
        linear.load_state_dict(state)
        norm = library.nn.LayerNorm(3).double()
        x = nested(library, requires_grad=True)
        y = norm(linear(x))
        y.values().square().mean().backward()
        results.append((y, x.grad, linear.weight.grad))
    for ours, theirs in zip(*results, strict=True):
        assert_same(ours, theirs, tolerance=1e-8)


def attention_block(library, x, weights):
    """Self-attention with packed projections, as PyTorch's tutorial writes it."""
    functional = library.nn.functional
    q, k, v = (x @ weights[0]).chunk(3, -1)
    q, k, v = (each.unflatten(-1, [2, 4]).transpose(1, 2) for each in (q, k, v))
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out.transpose(1, 2).flatten(-2) @ weights[1]


def test_attention_is_that_of_each_sequence():
    x = nested(torch)
    weights = filled(torch, 8, 24), filled(torch, 8, 8, seed=8)
    together = attention_block(torch, x, weights)
    for sequence, expected in zip(x.unbind(), together.unbind(), strict=True):
        alone = attention_block(torch, torch.nested.nested_tensor([sequence]), weights)
        assert torch.allclose(alone.values(), expected)


def test_gradcheck():
    sequences = [torch.from_numpy(each).requires_grad_() for each in arrays((8,), (2, 3))]
    weights = filled(torch, 8, 24), filled(torch, 8, 8, seed=8)

    def call(*sequences):
        x = torch.nested.as_nested_tensor(list(sequences))
        y = attention_block(torch, x, weights).layer_norm((8,)).softmax(-1)
        return y.values(), y.to_padded_tensor(1.0), y.mean(1)

    torch.autograd.gradcheck(call, sequences, check_forward_ad=True)
    torch.autograd.gradgradcheck(call, sequences, fast_mode=True)


def test_cross_attention():
    queries, keys = nested(torch, (2, 4)), nested(torch, (2, 4), (3, 1, 4, 2), seed=3)
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k = queries.transpose(1, 2), keys.transpose(1, 2)
    out = attend(q, k, k)
    for one, query, key in zip(out.unbind(), q.unbind(), k.unbind(), strict=True):
        assert torch.allclose(one, attend(query, key, key))
    with pytest.raises(RuntimeError, match="same lengths"):
        attend(q, k, q)
    with pytest.raises(NotImplementedError, match="attn_mask"):
        attend(q, k, k, torch.ones(1))
    with pytest.raises(NotImplementedError, match=r"transpose\(1, 2\)"):
        attend(queries, keys, keys)


@beside_pytorch
def test_made():
    ways = {
        "lists": lambda library: library.nested.nested_tensor(
            [[1.0, 2.0], [3.0]], layout=library.jagged
        ),
        "dtype": lambda library: library.nested.nested_tensor(
            [library.ones(2, 3), library.ones(1, 3)], dtype=library.float64, layout=library.jagged
        ),
        "tensor": lambda library: library.nested.as_nested_tensor(
            library.arange(24.0).reshape(2, 3, 4), layout=library.jagged
        ),
        "copied tensor": lambda library: library.nested.nested_tensor(
            library.arange(6.0).reshape(2, 3), layout=library.jagged
        ),
        "offsets": lambda library: library.nested.nested_tensor_from_jagged(
            library.arange(5.0), library.tensor([0, 2, 2, 5])
        ),
        "lengths": lambda library: library.nested.nested_tensor_from_jagged(
            library.arange(10.0).reshape(5, 2), lengths=library.tensor([2, 3])
        ),
    }
    for make in ways.values():
        assert_same(make(torch), make(pytorch))
    pieces = {
        "gaps": lambda library: library.nested.nested_tensor_from_jagged(
            library.arange(6.0), library.tensor([0, 2, 3, 6]), library.tensor([1, 1, 2])
        ),
        "narrow": lambda library: library.nested.narrow(
            library.arange(12.0).reshape(3, 4),
            1,
            library.tensor([0, 1, 2]),
            library.tensor([4, 2, 1]),
            layout=library.jagged,
        ),
        "masked_select": lambda library: library.nested.masked_select(
            library.arange(4.0).reshape(2, 2), library.tensor([[True, False], [True, True]])
        ),
    }
    for make in pieces.values():
        for ours, theirs in zip(make(torch).unbind(), make(pytorch).unbind(), strict=True):
            assert_same(ours, theirs)


def test_made_over_what_there_is():
    values = torch.arange(5.0, requires_grad=True)
    x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]))
    assert x.values() is values and x.requires_grad and x.is_leaf
    (x * 2).backward(x.detach())
    assert values.grad.tolist() == [0, 2, 4, 6, 8]
    copied = torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], requires_grad=True)
    copied.sum().backward()
    assert copied.grad.is_nested and copied.grad.values().tolist() == [1, 1, 1]
    y = torch.nested.as_nested_tensor(copied, dtype=torch.float64)
    assert y.dtype is torch.float64 and y.requires_grad
    cube = torch.arange(24.0).reshape(2, 3, 4)
    pieces = torch.nested.narrow(cube, 1, 1, 2, layout=torch.jagged)
    assert torch.equal(pieces.to_padded_tensor(0.0), cube[:, 1:])
    kept = torch.arange(6.0, requires_grad=True)
    narrow = torch.nested.narrow(kept.reshape(2, 3), 1, 1, torch.tensor([2, 1]))
    narrow.sum().backward()
    assert kept.grad.tolist() == [0, 1, 1, 0, 1, 0]


def test_what_it_is():
    x = nested(torch)
    assert x.is_nested and x.layout is torch.jagged and x.device.type == "cpu" and len(x) == 4
    assert x.size(0) == 4 and x.size(-1) == 8 and x.dim() == 3 and x.numel() == 88
    assert x.shape[1] == (x * 2).shape[1] != nested(torch).shape[1]
    assert x.lengths() is None and x.offsets().tolist() == [0, 2, 7, 8, 11]
    assert [len(each) for each in x] == list(LENGTHS)
    assert x.is_contiguous() and not x.transpose(1, 2).is_contiguous()
    assert repr(x) == (
        f"NestedTensor(size=(4, {x.shape[1]}, 8), offsets=tensor([ 0,  2,  7,  8, 11]), "
        "contiguous=True)"
    )
    for back in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert torch.equal(back.values(), x.values()) and torch.equal(back.offsets(), x.offsets())
    assert (x + nested(torch)).values().shape == (11, 8)  # the same lengths will do
    empty = torch.nested.nested_tensor([torch.ones(0, 2), torch.ones(0, 2)])
    assert empty.to_padded_tensor(0.0).shape == (2, 0, 2) and empty.sum(1).tolist() == [[0, 0]] * 2
    assert torch.nested.nested_tensor([torch.ones(1)]).to("meta").device.type == "meta"


REFUSED = {
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(),
    "tolist": lambda x: x.tolist(),
    "permute": lambda x: x.permute(0, 2, 1),
    "softmax": lambda x: x.softmax(1),
    "matmul": lambda x: x @ x,
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(4, 5, 2, 4),
    "index": lambda x: x[:, 0],
    "add": lambda x: x + torch.ones(4, 5, 8, dtype=torch.float64),
    "pow": lambda x: x.pow(x),
    "chunk": lambda x: x.chunk(2, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "linear": lambda x: x.transpose(1, 2).linear(torch.ones(8, 8)),
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "masked_fill_": lambda x: x.masked_fill_(x, 0),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused_by_name(name):
    with pytest.raises(NotImplementedError, match=name):
        REFUSED[name](nested(torch))


def test_errors():
    x, other = nested(torch), nested(torch, lengths=(1, 2, 3, 4))
    with pytest.raises(RuntimeError, match="binary pointwise function mul"):
        x * other
    with pytest.raises(TypeError, match="add"):
        x + "1"
    with pytest.raises(IndexError):
        x[4]
    with pytest.raises(RuntimeError, match="dim=0"):
        x.unbind(1)
    with pytest.raises(ValueError, match="batch dimension"):
        x.transpose(0, 1)
    with pytest.raises(RuntimeError, match="invalid"):
        x.reshape(4, -1, 3)
    with pytest.raises(RuntimeError, match="less than"):
        x.to_padded_tensor(0.0, (4, 3, 8))
    with pytest.raises(RuntimeError, match="mean"):
        torch.nested.nested_tensor([[1, 2], [3]]).mean(1)
    with pytest.raises(TypeError, match="gradient"):
        nested(torch, requires_grad=True).backward(torch.ones(1))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        x.nothing  # noqa: B018
    for function in (torch.exp, torch.nn.functional.relu, torch.nn.functional.gelu):
        with pytest.raises(TypeError):
            function(x)
    make = torch.nested.nested_tensor
    for bad, error in (
        ([], RuntimeError),
        ([torch.tensor(1.0)], RuntimeError),
        ([torch.ones(2, 3), torch.ones(2, 4)], RuntimeError),
        ([torch.ones(2), torch.ones(2, 1)], RuntimeError),
        (3, TypeError),
    ):
        with pytest.raises(error, match="nested_tensor"):
            make(bad)
    with pytest.raises(NotImplementedError, match="pin_memory"):
        make([torch.ones(1)], pin_memory=True)
    packed = torch.nested.nested_tensor_from_jagged
    with pytest.raises(RuntimeError, match="At least one"):
        packed(torch.ones(3))
    with pytest.raises(NotImplementedError, match="jagged_dim"):
        packed(torch.ones(2, 3), torch.tensor([0, 3]), jagged_dim=2)
    for offsets in ([0, 4], [1, 3], [0, 2, 1, 3]):
        with pytest.raises(RuntimeError, match="offsets"):
            packed(torch.ones(3), torch.tensor(offsets))
    with pytest.raises(RuntimeError, match="outside"):
        packed(torch.ones(3), torch.tensor([0, 2, 3]), torch.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="exceeds"):
        torch.nested.narrow(torch.ones(2, 3), 1, 2, 2)
    with pytest.raises(TypeError, match="NestedTensor"):
        torch.nested.to_padded_tensor(torch.ones(2), 0.0)


def test_compiled():
    weights = filled(torch, 8, 24), filled(torch, 8, 8, seed=8)
    x = nested(torch)
    expected = attention_block(torch, x, weights).values()
    call = torch.compile(lambda x: attention_block(torch, x, weights).values())
    for _ in range(3):
        assert torch.allclose(call(x), expected)
