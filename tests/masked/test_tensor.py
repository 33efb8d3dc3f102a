"""MaskedTensor beside PyTorch's: results, what is refused, gradients."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)
DATA = np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]])
MASK = np.array([[True, False, True], [False, False, False]])


def masked(library, data=DATA, mask=MASK):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.masked.masked_tensor(
            library.from_numpy(data.copy()), library.from_numpy(mask.copy())
        )


def assert_same(ours, theirs):
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_array_equal(ours.get_mask().numpy(), theirs.get_mask().numpy())
    np.testing.assert_allclose(
        ours.to_tensor(0).detach().double().numpy(),
        theirs.to_tensor(0).detach().double().numpy(),
        rtol=1e-6,
    )


def calls(library):
    plain = library.from_numpy(DATA)
    return {
        "add": lambda x: x + x,
        "add number": lambda x: x + 1,
        "add tensor": lambda x: x + plain,
        "add to tensor": lambda x: plain + x,
        "broadcast": lambda x: x * library.ones(2, 2, 3, dtype=library.float64),
        "sub": lambda x: x - 2,
        "mul": lambda x: 2 * x,
        "div": lambda x: x / 2,
        "over": lambda x: 2 / x,
        "floor": lambda x: x // 2,
        "pow": lambda x: x**2,
        "neg": lambda x: -x,
        "abs": lambda x: abs(x),
        "eq": lambda x: x == plain,
        "lt": lambda x: x < 2,
        "exp": lambda x: x.exp(),
        "sqrt": lambda x: x.sqrt(),
        "clamp": lambda x: x.clamp(0, 1),
        "isnan": lambda x: x.isnan(),
        "maximum": lambda x: x.maximum(plain.flip(1)),
        "logaddexp": lambda x: x.logaddexp(x),
        "float_power": lambda x: x.float_power(2),
        "add_": lambda x: x.add_(1),
        "exp_": lambda x: x.exp_(),
        "sum": lambda x: x.sum(),
        "sum dim": lambda x: x.sum(1),
        "sum dims": lambda x: x.sum((0, 1)),
        "sum keepdim": lambda x: x.sum(dim=1, keepdim=True),
        "mean": lambda x: x.mean(1),
        "prod": lambda x: x.prod(),
        "amax": lambda x: x.amax(1),
        "amin": lambda x: x.amin(0),
        "argmax": lambda x: x.argmax(1),
        "argmin": lambda x: x.argmin(),
        "all": lambda x: x.all(),
        "all dim": lambda x: x.all(1),
        "var": lambda x: x.var(1),
        "std": lambda x: x.std(1),
        "softmax": lambda x: x.softmax(1),
        "index": lambda x: x[0],
        "element": lambda x: x[0, 0],
        "column": lambda x: x[:, 1],
        "new dim": lambda x: x[None],
        "by mask": lambda x: x[x.get_mask()],
        "reshape": lambda x: x.reshape(3, 2),
        "view": lambda x: x.view(6),
        "t": lambda x: x.t(),
        "transpose": lambda x: x.transpose(0, 1),
        "mT": lambda x: x.mT,
        "expand": lambda x: x.expand(2, 2, 3),
        "unsqueeze": lambda x: x.unsqueeze(0),
        "flatten": lambda x: x.flatten(),
        "narrow": lambda x: x.narrow(1, 0, 2),
        "split": lambda x: x.split(1)[1],
        "chunk": lambda x: x.chunk(2)[0],
        "unfold": lambda x: x.unfold(1, 2, 1),
        "reshape_as": lambda x: x.reshape_as(library.zeros(6)),
        "to": lambda x: x.to(library.float32),
        "int": lambda x: x.int(),
        "bool": lambda x: x.bool(),
        "type": lambda x: x.type(library.int64),
        "clone": lambda x: x.clone(),
        "detach": lambda x: x.detach(),
        "contiguous": lambda x: x.t().contiguous(),
        "copy_": lambda x: x.copy_(masked(library, DATA * 2)),
    }


@beside_pytorch
@pytest.mark.parametrize("name", list(calls(torch)))
def test_as_pytorch(name):
    assert_same(calls(torch)[name](masked(torch)), calls(pytorch)[name](masked(pytorch)))


@beside_pytorch
@pytest.mark.parametrize(
    ("data", "mask"),
    [
        (DATA, MASK),
        (DATA[0], MASK[0]),
        (DATA[None], MASK[None]),
        (DATA[0, 0], MASK[0, 0]),
        (DATA[0, 1], MASK[0, 1]),
        (DATA.astype(np.int64), MASK),
        (MASK, ~MASK),
        (DATA[:, :1], MASK[:, :1]),
    ],
)
def test_printed(data, mask):
    data, mask = np.asarray(data), np.asarray(mask)  # also of a single element
    assert repr(masked(torch, data, mask)) == repr(masked(pytorch, data, mask))


def test_what_it_is_made_of():
    x = masked(torch)
    assert x.shape == (2, 3) and x.ndim == x.dim() == 2 and x.numel() == 6 and len(x) == 2
    assert x.dtype is torch.float64 and x.device.type == "cpu" and x.stride() == (3, 1)
    assert x.get_data().tolist() == DATA.tolist() and x.get_mask().tolist() == MASK.tolist()
    assert x.to_tensor(-1).tolist() == [[0.5, -1, 2], [-1, -1, -1]]
    assert torch.masked.is_masked_tensor(x) and not torch.masked.is_masked_tensor(x.get_data())
    assert not x.is_sparse and x.layout is torch.strided and x.is_floating_point()
    assert float(x[0, 0]) == x[0, 0].item() == 0.5 and bool(x[0, 0]) and int(x[0, 2]) == 2
    with pytest.raises(ValueError, match="masked out"):
        x[0, 1].item()
    for back in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert repr(back) == repr(x)
    assert (1 - x).to_tensor(0).tolist() == [[0.5, 0, -1], [0, 0, 0]]


@beside_pytorch
@pytest.mark.parametrize(
    "arguments",
    [
        lambda library: ([1.0], library.tensor([True])),
        lambda library: (library.ones(1), [True]),
        lambda library: (library.ones(2), library.ones(2)),
        lambda library: (library.ones(2), library.tensor([[True, True]])),
        lambda library: (library.ones(2), library.tensor([True])),
    ],
)
def test_bad_members(arguments):
    with pytest.raises((TypeError, ValueError)) as theirs, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytorch.masked.masked_tensor(*arguments(pytorch))
    for make in (torch.masked.masked_tensor, torch.masked.as_masked_tensor):
        with pytest.raises(type(theirs.value)) as ours:
            make(*arguments(torch))
        assert str(ours.value) == str(theirs.value)


def test_refused():
    x = masked(torch)
    other = masked(torch, DATA, ~MASK)
    with pytest.raises(ValueError, match="masks must match"):
        x + other
    with pytest.raises(ValueError, match="masks must match"):
        x.copy_(other)
    with pytest.raises(TypeError, match="additional Tensor arguments"):
        x.pow(x)
    for name in ("cumsum", "max", "sort", "matmul", "nonzero", "fill_", "item_"):
        with pytest.raises((NotImplementedError, AttributeError), match=name):
            getattr(x, name)
    with pytest.raises(NotImplementedError, match=r"get_data\(\)"):
        x.masked_fill  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        x.nothing  # noqa: B018
    with pytest.raises(TypeError, match="assignment"):
        x[0] = 1
    with pytest.raises(TypeError):
        x + "1"
    with pytest.raises(TypeError):
        torch.exp(x)


def test_gradients():
    a = torch.tensor([1.0, math.nan, 3.0], requires_grad=True)
    mask = torch.tensor([True, False, True])
    x = torch.masked.as_masked_tensor(a, mask)
    y = (x * x).log().sum()
    assert y.requires_grad and not y.is_leaf and y.grad_fn is not None
    y.backward()
    assert a.grad.tolist() == [2, 0, pytest.approx(2 / 3)] and x.grad.to_tensor(0) is not None
    leaf = torch.masked.masked_tensor(a, mask, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad and leaf.grad is None
    (leaf * leaf).mean().backward()
    assert repr(leaf.grad) == repr(torch.masked.masked_tensor(torch.tensor([1.0, 0, 3]), mask))
    leaf.detach().requires_grad_()
    z = leaf * 2
    z.backward(torch.masked.masked_tensor(torch.ones(3), mask))
    assert leaf.grad.to_tensor(-1).tolist() == [3, -1, 5]
    with pytest.raises(ValueError, match="masks must match"):
        (leaf * 2).backward(torch.masked.masked_tensor(torch.ones(3), ~mask))


@beside_pytorch
def test_where():
    condition = np.array([[True, True, False], [False, True, True]])
    ours = masked(torch).where(torch.from_numpy(condition), masked(torch, DATA, ~MASK))
    theirs = pytorch.where(
        pytorch.from_numpy(condition), masked(pytorch), masked(pytorch, DATA, ~MASK)
    )
    assert_same(ours, theirs)


@beside_pytorch
@pytest.mark.parametrize("name", ["sum", "amax", "softmax", "normalize", "argmax", "median"])
def test_functions_take_it(name):
    arguments = (2.0, 1) if name == "normalize" else (1,)
    ours = getattr(torch.masked, name)(masked(torch), *arguments)
    theirs = getattr(pytorch.masked, name)(masked(pytorch), *arguments)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_functions_leave_out_what_its_mask_does():
    """PyTorch's mean divides by the number of all elements."""
    x = masked(torch)
    assert torch.masked.mean(x, 1).tolist()[0] == 1.25
    narrower = torch.tensor([[True, True, False]])
    assert torch.masked.sum(x, mask=narrower).item() == 0.5
