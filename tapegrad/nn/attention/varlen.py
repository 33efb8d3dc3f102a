"""Attention of sequences of different lengths, which lie one behind the other without padding.

Sequences of similar lengths are gathered into batches of a multiple of some tokens, so that a few
calls of `scaled_dot_product_attention` compute them all, by whatever backend it chooses. Memory is
linear in the tokens.
"""

import itertools
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.functional.attention import scaled_dot_product_attention

__all__ = ["AuxRequest", "varlen_attn"]

_NAME = "varlen_attn"


class AuxRequest(NamedTuple):
    """What `varlen_attn` returns beside its result.

    Attributes:
        lse: the logarithms of the sums of rows, which are not offered.
    """

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
) -> Tensor:
    """Return `scaled_dot_product_attention` within each of several sequences.

    The CPU waits for the places where sequences begin.

    Args:
        query: the tokens of all sequences, of shape ``(tokens, heads, E)``.
        key: of shape ``(tokens of keys, heads, E)``.
        value: of shape ``(tokens of keys, heads, Ev)``.
        cu_seq_q: the places where sequences of queries begin, and where the last ends: integers of
            shape ``(sequences + 1,)``.
        cu_seq_k: the same of keys; that of queries if None.
        max_q: at least the length of the longest sequence of queries.
        max_k: the same of keys.
        is_causal: whether a query sees no later keys. The last query sees the last key, also where
            there are fewer queries than keys.
        return_aux: what to return beside the result: nothing.
        scale: multiplied with the scores; ``1 / sqrt(E)`` if None.
        window_size: ``(-1, -1)``, or ``(-1, 0)`` for is_causal.
        enable_gqa: whether keys and values may have fewer heads, each for a group of queries'.

    Returns:
        A tensor of shape ``(tokens, heads, Ev)``.

    Example:
        >>> from tapegrad.nn.attention.varlen import varlen_attn
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).view(5, 1, 1)
        >>> places = torch.tensor([0, 2, 5])  # two tokens, and three
        >>> varlen_attn(0 * x, 0 * x, x, places, places, 3, 3).flatten().tolist()
        [1.5, 1.5, 4.0, 4.0, 4.0]
    """
    is_causal = is_causal or tuple(window_size) == (-1, 0)
    _check(query, key, value, window_size, return_aux, enable_gqa)
    queries = _places("cu_seq_q", cu_seq_q, query.shape[0], max_q)
    keys = _places("cu_seq_k", cu_seq_q if cu_seq_k is None else cu_seq_k, key.shape[0], max_k)
    if len(queries) != len(keys):
        raise RuntimeError(
            f"{_NAME}: expected as many sequences of queries as of keys, got {len(queries)} and "
            f"{len(keys)}"
        )
    if not query.shape[0] or not key.shape[0]:
        return query.new_zeros(*query.shape[:2], value.shape[2])
    groups = _alike(queries, keys, 64 if query.is_cuda else 16)
    results, places = [], []
    for (length, key_length), members in groups.items():
        of_queries = _Gathered([queries[i] for i in members], length, query)
        of_keys = _Gathered([keys[i] for i in members], key_length, key)
        mask, masks_itself = _mask(of_queries, of_keys, is_causal)
        seen = scaled_dot_product_attention(
            of_queries.take(query),
            of_keys.take(key),
            of_keys.take(value),
            attn_mask=mask,
            is_causal=masks_itself,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        results.append(of_queries.give_back(seen))
        places.append(of_queries.places)
    order = _C.cat(places).argsort().to(query.device)
    return _C.cat(results).index_select(0, order)


class _Gathered:
    """Sequences, each a start and an end, as rows of a batch of one length."""

    def __init__(self, sequences: list[tuple[int, int]], length: int, tokens: Tensor) -> None:
        starts = _C.tensor([start for start, _ in sequences])
        self.counts = _C.tensor([end - start for start, end in sequences])
        self.length = length
        self.device = tokens.device
        self.is_full = bool((self.counts == length).all())
        steps = _C.arange(length)
        inside = steps < self.counts.unsqueeze(1)
        rows = starts.unsqueeze(1) + steps.minimum(
            (self.counts - 1).clamp(min=0).unsqueeze(1)
        )  # padded with the last token
        rows = rows.clamp(max=tokens.shape[0] - 1)
        self.rows = rows.flatten().to(self.device)
        self.places = rows[inside]
        self.kept = inside.flatten().nonzero().flatten().to(self.device)

    def take(self, tokens: Tensor) -> Tensor:
        gathered = tokens.index_select(0, self.rows)
        return gathered.view(len(self.counts), self.length, *tokens.shape[1:]).transpose(1, 2)

    def give_back(self, seen: Tensor) -> Tensor:
        flat = seen.transpose(1, 2).reshape(-1, seen.shape[1], seen.shape[3])
        return flat if self.is_full else flat.index_select(0, self.kept)


def _mask(queries: _Gathered, keys: _Gathered, is_causal: bool) -> tuple[Tensor | None, bool]:
    """Return what hides padding and later keys, and whether is_causal does all of it."""
    if is_causal and bool((queries.counts == keys.counts).all()):
        return None, True
    columns = _C.arange(keys.length)
    counts = keys.counts.view(-1, 1, 1, 1)
    if not is_causal:
        return (None if keys.is_full else (columns < counts).to(queries.device)), False
    shift = (keys.counts - queries.counts).view(-1, 1, 1, 1)
    rows = _C.arange(queries.length).view(-1, 1)
    return ((columns <= rows + shift) & (columns < counts)).to(queries.device), False


def _alike(
    queries: list[tuple[int, int]], keys: list[tuple[int, int]], unit: int
) -> dict[tuple[int, int], list[int]]:
    """Return which sequences have the same lengths, rounded up; those without queries are none."""
    groups: dict[tuple[int, int], list[int]] = {}
    for number, ((start, end), (key_start, key_end)) in enumerate(zip(queries, keys, strict=True)):
        if end > start:
            lengths = (end - start, max(key_end - key_start, 1))
            rounded = tuple((length + unit - 1) // unit * unit for length in lengths)
            groups.setdefault((rounded[0], rounded[1]), []).append(number)
    return groups


def _places(name: str, cu_seq: Any, tokens: int, longest: int) -> list[tuple[int, int]]:
    if not isinstance(cu_seq, Tensor):
        raise TypeError(f"{_NAME}(): argument '{name}' must be Tensor, not {type(cu_seq).__name__}")
    if cu_seq.dim() != 1 or not cu_seq.numel() or cu_seq.dtype not in (_C.int32, _C.int64):
        raise RuntimeError(
            f"{_NAME}: expected {name} of one dimension and int32 or int64, got {cu_seq.dtype} of "
            f"shape {list(cu_seq.shape)}"
        )
    places = cu_seq.tolist()
    sequences = list(itertools.pairwise(places))
    if places[0] != 0 or places[-1] != tokens or any(end < start for start, end in sequences):
        raise RuntimeError(
            f"{_NAME}: expected {name} to rise from 0 to the number of tokens, {tokens}, got "
            f"{places}"
        )
    if any(end - start > longest for start, end in sequences):
        raise RuntimeError(
            f"{_NAME}: expected sequences of {name} of at most {longest} tokens, got {places}"
        )
    return sequences


def _check(
    query: Any, key: Any, value: Any, window_size: Any, return_aux: Any, enable_gqa: bool
) -> None:
    for label, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{_NAME}(): argument '{label}' must be Tensor, not {type(tensor).__name__}"
            )
        if tensor.dim() != 3:
            raise RuntimeError(
                f"{_NAME}: expected {label} of shape (tokens, heads, width), got "
                f"{list(tensor.shape)}"
            )
    heads, groups = query.shape[1], key.shape[1]
    if not enable_gqa and heads != groups:
        raise ValueError(
            f"{_NAME}: Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={groups}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and (groups == 0 or heads % groups):
        raise ValueError(
            f"{_NAME}: Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={groups}."
        )
    if tuple(window_size) not in ((-1, -1), (-1, 0)):
        raise NotImplementedError(
            f"{_NAME}: expected a window_size of (-1, -1) or (-1, 0), got {tuple(window_size)}; "
            "call scaled_dot_product_attention with a mask"
        )
    if return_aux is not None and return_aux.lse:
        raise NotImplementedError(f"{_NAME}: the logarithms of sums of rows are not returned")
