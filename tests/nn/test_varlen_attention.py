"""Attention of sequences of different lengths, against that of each by itself."""

import pytest

import tapegrad as torch
from tapegrad.nn.attention.varlen import AuxRequest, varlen_attn

attend = torch.nn.functional.scaled_dot_product_attention


def places_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def one_by_one(query, key, value, queries, keys, is_causal, scale=None):
    results = []
    pairs = zip(
        query.split(queries), key.split(keys), value.split(keys), queries, keys, strict=True
    )
    for q, k, v, rows, columns in pairs:
        mask = torch.ones(rows, columns, dtype=torch.bool)
        if is_causal:
            mask = mask.tril(columns - rows)
        parts = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        seen = attend(*parts, attn_mask=mask, scale=scale, enable_gqa=True)
        results.append(seen.squeeze(0).transpose(0, 1))
    return torch.cat(results)


def operands(queries, keys, shared=1, width=4, dtype=torch.float64):
    torch.manual_seed(0)
    shapes = [(sum(queries), 4, width), *[(sum(keys), 4 // shared, width)] * 2]
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]


LENGTHS = [
    ([3, 17, 1, 16], None),
    ([5], None),
    ([40, 40, 40], None),
    ([3, 0, 5], None),
    ([3, 9, 20], [7, 9, 31]),
    ([7, 9], [3, 20]),
    ([3, 4], [0, 6]),
]


@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), LENGTHS, ids=str)
def test_each_sequence_by_itself(queries, keys, is_causal, shared):
    same = keys is None
    keys = queries if same else keys
    tensors = operands(queries, keys, shared)
    found = varlen_attn(
        *tensors,
        places_of(queries),
        None if same else places_of(keys),
        max(queries),
        max(keys),
        is_causal,
        enable_gqa=shared > 1,
    )
    wanted = one_by_one(*tensors, queries, keys, is_causal)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, atol=1e-12)
    weights = torch.randn(found.shape, dtype=found.dtype)
    for ours, exact in zip(
        torch.autograd.grad((found * weights).sum(), tensors),
        torch.autograd.grad((wanted * weights).sum(), tensors),
        strict=True,
    ):
        assert torch.allclose(ours, exact, atol=1e-12)


def test_scale_and_window():
    tensors, places = operands([4, 7], [4, 7]), places_of([4, 7])
    found = varlen_attn(*tensors, places, places, 7, 7, scale=0.2, window_size=(-1, 0))
    wanted = one_by_one(*tensors, [4, 7], [4, 7], True, 0.2)
    assert torch.allclose(found, wanted, atol=1e-12)


def test_halves():
    tensors, places = operands([4, 7], [4, 7], dtype=torch.bfloat16), places_of([4, 7])
    found = varlen_attn(*tensors, places, places, 7, 7)
    wanted = one_by_one(*(x.double() for x in tensors), [4, 7], [4, 7], False)
    assert found.dtype == torch.bfloat16
    assert (found.double() - wanted).abs().max() < 0.03


def test_second_derivatives():
    tensors, places = operands([2, 3], [2, 3], width=2), places_of([2, 3])

    def run(*tensors):
        return varlen_attn(*tensors, places, places, 3, 3, True)

    assert torch.autograd.gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors)


def test_no_tokens():
    x, places = torch.ones(0, 2, 4), torch.tensor([0])
    assert varlen_attn(x, x, x, places, places, 0, 0).shape == (0, 2, 4)


X, PLACES = torch.ones(5, 2, 4), torch.tensor([0, 2, 5])
ERRORS = [
    (lambda: varlen_attn(X, X, X, [0, 5], PLACES, 5, 5), TypeError, "'cu_seq_q' must be Tensor"),
    (lambda: varlen_attn(3, X, X, PLACES, PLACES, 5, 5), TypeError, "'query' must be Tensor"),
    (
        lambda: varlen_attn(X[0], X, X, PLACES, PLACES, 5, 5),
        RuntimeError,
        "expected query of shape",
    ),
    (lambda: varlen_attn(X, X, X, PLACES.float(), None, 5, 5), RuntimeError, "int32 or int64"),
    (lambda: varlen_attn(X, X, X, PLACES + 1, None, 5, 5), RuntimeError, "rise from 0"),
    (lambda: varlen_attn(X, X, X, PLACES[:2], None, 5, 5), RuntimeError, "number of tokens, 5"),
    (lambda: varlen_attn(X, X, X, PLACES, None, 2, 5), RuntimeError, "of at most 2 tokens"),
    (
        lambda: varlen_attn(X, X, X, PLACES, PLACES[::2], 5, 5),
        RuntimeError,
        "as many sequences of queries as of keys, got 2 and 1",
    ),
    (lambda: varlen_attn(X, X[:, :1], X[:, :1], PLACES, None, 5, 5), ValueError, "enable_gqa=True"),
    (
        lambda: varlen_attn(X, X[:, :0], X[:, :0], PLACES, None, 5, 5, enable_gqa=True),
        ValueError,
        "a multiple of kv heads",
    ),
    (
        lambda: varlen_attn(X, X, X, PLACES, None, 5, 5, window_size=(2, 0)),
        NotImplementedError,
        "window_size",
    ),
    (
        lambda: varlen_attn(X, X, X, PLACES, None, 5, 5, return_aux=AuxRequest(lse=True)),
        NotImplementedError,
        "logarithms",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=range(len(ERRORS)))
def test_error(call, error, text):
    with pytest.raises(error, match=text):
        call()
