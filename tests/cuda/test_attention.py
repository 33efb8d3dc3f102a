"""Attention on a CUDA device, against the CPU."""

import pytest
from library import torch

from tapegrad.nn.attention.varlen import varlen_attn

from .comparing import compare

attention = torch.nn.functional.scaled_dot_product_attention


def operands(batch, heads, queries, keys, width, value_width=None, shared=1, dtype=torch.float32):
    torch.manual_seed(1)
    query = torch.randn(batch, heads, queries, width).to(dtype)
    key = torch.randn(batch, heads // shared, keys, width).to(dtype)
    value = torch.randn(batch, heads // shared, keys, value_width or width).to(dtype)
    return query, key, value


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "width"),
    [(1, 1, 1), (5, 7, 4), (7, 5, 33), (16, 32, 8), (17, 33, 5), (40, 70, 16), (3, 2, 64)],
)
def test_sizes(queries, keys, width, is_causal):
    compare(
        lambda q, k, v: attention(q, k, v, is_causal=is_causal),
        *operands(2, 3, queries, keys, width),
        units=64,
    )


@pytest.mark.parametrize(
    ("width", "value_width"), [(8, 40), (40, 8), (130, 70), (20, 300), (300, 9)]
)
def test_widths(width, value_width):
    """Also those of which a thread cannot hold its part at once."""
    compare(attention, *operands(1, 2, 6, 9, width, value_width), units=64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    compare(
        lambda q, k, v: attention(q, k, v, is_causal=True),
        *operands(1, 2, 9, 9, 8, dtype=dtype),
        units=64,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves(dtype):
    """Masks of each kind, and widths of which a thread holds several elements."""
    seen = torch.rand(9, 40) > 0.3
    added = torch.randn(9, 40).masked_fill(~seen, -float("inf"))
    inputs = operands(2, 2, 9, 40, 70, 36, dtype=dtype)
    for mask in (seen, added, added.to(dtype)):
        compare(
            lambda q, k, v, mask=mask: attention(q, k, v, attn_mask=mask.to(q.device)),
            *inputs,
            units=8,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shared", [1, 2])
def test_dropout(dtype, shared):
    """Drops what the CPU drops."""

    def run(q, k, v):
        torch.manual_seed(3)
        return attention(q, k, v, dropout_p=0.3, is_causal=True, enable_gqa=shared > 1)

    compare(run, *operands(2, 4, 37, 70, 12, shared=shared, dtype=dtype), units=64)


@pytest.mark.parametrize("shape", [(9, 11), (2, 1, 9, 11), (1, 3, 1, 11), (2, 3, 9, 11)], ids=str)
def test_masks(shape):
    torch.manual_seed(0)
    seen, added = torch.rand(shape) > 0.3, torch.randn(shape)
    inputs = operands(2, 3, 9, 11, 8)
    for mask in (seen, added, added.masked_fill(~seen, -float("inf"))):
        compare(
            lambda q, k, v, mask=mask: attention(q, k, v, attn_mask=mask.to(q.device)),
            *inputs,
            units=64,
        )


def test_a_query_that_sees_nothing():
    seen = torch.ones(5, 6, dtype=torch.bool)
    seen[2] = False
    compare(
        lambda q, k, v: attention(q, k, v, attn_mask=seen.to(q.device)),
        *operands(1, 2, 5, 6, 4),
        units=64,
    )


def test_shared_keys():
    compare(
        lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True),
        *operands(2, 6, 10, 10, 8, shared=3),
        units=64,
    )


def test_other_strides():
    """Heads that were split off the last dimension."""
    x = torch.randn(2, 9, 3 * 4 * 8)

    def split(x):
        parts = x.view(2, 9, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return attention(parts[0], parts[1], parts[2], is_causal=True)

    compare(split, x, units=64)


def test_scale():
    compare(lambda q, k, v: attention(q, k, v, scale=0.3), *operands(1, 1, 4, 5, 6), units=64)


def test_large_scores():
    query, key, value = operands(1, 2, 9, 40, 8)
    compare(attention, query * 30, key * 30, value, units=256)


@pytest.mark.parametrize("empty", [(0, 2, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)], ids=str)
def test_nothing_there(empty):
    batch, heads, queries, keys = empty
    compare(attention, *operands(batch, heads, queries, keys, 8))


@pytest.mark.parametrize("is_causal", [False, True])
def test_sequences_of_different_lengths(is_causal):
    places = torch.tensor([0, 5, 5, 75, 80, 90], dtype=torch.int32)

    def run(q, k, v):
        there = places.to(q.device)
        return varlen_attn(q, k, v, there, there, 70, 70, is_causal)

    compare(run, *(torch.randn(90, 2, 8) for _ in range(3)), units=64)


def test_dropout_in_a_graph():
    """Replays draw the numbers that the program would draw."""
    x = torch.randn(1, 2, 40, 8, device="cuda", requires_grad=True)

    def run():
        result = attention(x, x, x, dropout_p=0.4)
        return result, torch.autograd.grad(result.sin().sum(), x)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    torch.manual_seed(9)
    wanted = [[y.clone() for y in run()] for _ in range(3)]
    assert not torch.equal(wanted[0][0], wanted[1][0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    torch.manual_seed(9)
    for step in wanted:
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(captured, step, strict=True))
