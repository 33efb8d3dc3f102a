"""repr of tensors: fixed examples, and PyTorch's own text where PyTorch is installed."""

import math
import random

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    set_printoptions = torch.set_printoptions
else:
    from tapegrad._tensor_str import get_printoptions, printoptions, set_printoptions

# The prefix that dtypes print with, the module's name.
PREFIX = str(torch.float32).rpartition(".")[0]


@pytest.fixture(autouse=True)
def default_options():
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


NAN, INF = math.nan, math.inf

EXAMPLES = [
    (2.0, "tensor(2.)"),
    (3.58385, "tensor(3.5838)"),
    (7, "tensor(7)"),
    (True, "tensor(True)"),
    ([], "tensor([])"),
    ([1.0, 2.0], "tensor([1., 2.])"),
    ([0.0, -0.0], "tensor([0., -0.])"),
    ([1.5, -20.25], "tensor([  1.5000, -20.2500])"),
    ([1.0, 10000.0], "tensor([1.0000e+00, 1.0000e+04])"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
    ([0.5, 123456789.0], "tensor([5.0000e-01, 1.2346e+08])"),
    ([NAN, INF, -INF, 1.0], "tensor([nan, inf, -inf, 1.])"),
    ([NAN, 0.25], "tensor([   nan, 0.2500])"),
    ([True, False], "tensor([ True, False])"),
    ([1, -10, 100], "tensor([  1, -10, 100])"),
    ([[1.0, 2.0], [3.0, 4.5]], "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])"),
    (
        [[[1], [2]], [[3], [4]]],
        "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])",
    ),
]


@pytest.mark.parametrize(("value", "text"), EXAMPLES, ids=[text for _, text in EXAMPLES])
def test_examples(value, text):
    assert repr(torch.tensor(value)) == text
    assert str(torch.tensor(value)) == text


def test_long_vectors_wrap_and_are_summarised():
    assert repr(torch.arange(30)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )
    assert repr(torch.arange(2000.0)) == (
        "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n"
        "        1.9990e+03])"
    )
    assert repr(torch.zeros(1000, 1000)) == (
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        ...,\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.]])"
    )


def test_empty_tensors_show_their_size():
    assert repr(torch.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(torch.zeros(2, 0, dtype=torch.int64)) == (
        f"tensor([], size=(2, 0), dtype={PREFIX}.int64)"
    )
    assert repr(torch.zeros(0, dtype=torch.bool)) == f"tensor([], dtype={PREFIX}.bool)"


@pytest.mark.parametrize("name", ["float64", "float16", "bfloat16", "int32", "uint8"])
def test_dtypes_that_the_elements_do_not_tell_are_named(name):
    text = repr(torch.ones(2, dtype=getattr(torch, name)))
    numbers = "1., 1." if "float" in name else "1, 1"
    assert text == f"tensor([{numbers}], dtype={PREFIX}.{name})"


def test_default_dtype_is_not_named():
    torch.set_default_dtype(torch.float64)
    try:
        assert repr(torch.tensor([1.0])) == "tensor([1.])"
        single = torch.ones(1, dtype=torch.float32)
        assert repr(single) == f"tensor([1.], dtype={PREFIX}.float32)"
    finally:
        torch.set_default_dtype(torch.float32)


def test_autograd_suffixes():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x + 1) == "tensor([2., 3.], grad_fn=<AddBackward0>)"
    assert repr((x * 2).detach()) == "tensor([2., 4.])"
    # A line that a suffix would overfill is broken before the suffix.
    assert repr(torch.linspace(0, 1, 8).requires_grad_()) == (
        "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000],\n"
        "       requires_grad=True)"
    )


def test_printing_records_nothing():
    x = torch.arange(3000.0).requires_grad_()
    y = x * 2
    before = y.grad_fn
    repr(y)
    assert y.grad_fn is before
    assert y.requires_grad


def test_options():
    set_printoptions(precision=2)
    assert repr(torch.tensor([1.12345])) == "tensor([1.12])"
    set_printoptions(profile="default", sci_mode=True)
    assert repr(torch.tensor([1.5])) == "tensor([1.5000e+00])"
    set_printoptions(sci_mode=False)
    assert repr(torch.tensor([1e-9, 1.0])) == "tensor([0.0000, 1.0000])"
    set_printoptions(threshold=4, edgeitems=1)
    assert repr(torch.arange(5)) == "tensor([0,  ..., 4])"
    set_printoptions(edgeitems=0)
    assert repr(torch.arange(5)) == "tensor([...], size=(5,))"
    set_printoptions(profile="full")
    assert "..." not in repr(torch.zeros(2000))
    set_printoptions(profile="short", linewidth=20)
    assert repr(torch.tensor([1.5, 2.5, 3.5])) == "tensor([1.50, 2.50,\n        3.50])"


@pytest.mark.skipif(IS_TORCH, reason="PyTorch keeps these names in a private module")
def test_options_can_be_read_and_scoped():
    with printoptions(precision=1):
        assert get_printoptions()["precision"] == 1
        assert repr(torch.tensor([0.25])) == "tensor([0.2])"
    assert get_printoptions() == {
        "precision": 4,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": None,
    }


@pytest.mark.skipif(IS_TORCH, reason="PyTorch fails later, when it prints")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"profile": "tiny"}, ValueError, "expected profile to be one of .* got 'tiny'"),
        ({"precision": -1}, ValueError, "expected precision to be a number >= 0, got -1"),
        ({"threshold": "many"}, ValueError, "expected threshold to be a number >= 0, got 'many'"),
        ({"edgeitems": "many"}, TypeError, "expected edgeitems to be an integer, got 'many'"),
    ],
)
def test_bad_options_change_nothing(options, error, message):
    with pytest.raises(error, match=message):
        set_printoptions(linewidth=10, **options)
    assert get_printoptions()["linewidth"] == 80


FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


def random_values(draw, count, dtype):
    if dtype == "bool":
        return [draw.random() < 0.5 for _ in range(count)]
    if dtype in INTEGERS:
        low = 0 if dtype == "uint8" else -100
        return [draw.randint(low, draw.choice([1, 9, 100])) for _ in range(count)]
    scale = 10.0 ** draw.choice([0, 0, 0, 1, 3, -2, -4, -7])
    values = [draw.gauss(0, scale) for _ in range(count)]
    if draw.random() < 0.3:
        values = [float(round(value)) for value in values]
    if draw.random() < 0.3:
        special = [NAN, INF, -INF, 0.0, -0.0]
        values = [draw.choice(special) if draw.random() < 0.3 else value for value in values]
    return values


def random_options(draw):
    return {
        "precision": draw.choice([4, 4, 2, 0, 8]),
        "threshold": draw.choice([1000, 10, 50, math.inf]),
        "edgeitems": draw.choice([3, 1, 2, 0]),
        "linewidth": draw.choice([80, 80, 40, 20]),
        "sci_mode": draw.choice([None, None, None, True, False]),
    }


@pytest.mark.skipif(IS_TORCH, reason="compares with PyTorch")
@pytest.mark.parametrize("seed", range(10))
def test_same_text_as_pytorch(seed):
    reference = pytest.importorskip("torch")
    draw = random.Random(seed)
    for _ in range(100):
        options = random_options(draw) if draw.random() < 0.6 else {"profile": "default"}
        shape = [draw.choice([0, 1, 2, 3, 5, 8, 30]) for _ in range(draw.randint(0, 3))]
        dtype = draw.choice(FLOATS * 3 + INTEGERS + ["bool"])
        values = random_values(draw, math.prod(shape), dtype)
        set_printoptions(**options)
        reference.set_printoptions(**options)
        recorded = dtype in FLOATS and draw.random() < 0.3
        ours = torch.tensor(values, dtype=getattr(torch, dtype)).reshape(shape)
        theirs = reference.tensor(values, dtype=getattr(reference, dtype)).reshape(shape)
        if recorded:
            ours, theirs = ours.requires_grad_() * 1, theirs.requires_grad_() * 1
        wanted = repr(theirs).replace("torch.", f"{PREFIX}.")
        try:
            assert repr(ours) == wanted, f"{options} {shape} {dtype}"
        finally:
            reference.set_printoptions(profile="default")


@pytest.mark.skipif(IS_TORCH, reason="PyTorch fails later, when a tensor is printed")
@pytest.mark.parametrize("name", ["precision", "edgeitems"])
def test_numbers_of_digits_and_items_are_integers(name):
    with pytest.raises(TypeError, match=f"expected {name} to be an integer, got 0.5"):
        set_printoptions(**{name: 0.5})
