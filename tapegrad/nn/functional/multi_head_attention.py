"""Attention of several heads, with the projections around it.

Sequences are ``(time, batch, features)``, or ``(batch, time, features)`` for a module that is batch
first: projections take either as it lies in memory, and heads come out as ``(batch, heads, time,
features)``.
"""

import math
import warnings
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.functional.attention import scaled_dot_product_attention
from tapegrad.nn.functional.dropouts import dropout as _dropout

__all__ = ["multi_head_attention_forward"]


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Project queries, keys and values, attend with several heads, project the result.

    Args:
        query: of shape ``(L, batch, E)``, or ``(L, E)``.
        key: of shape ``(S, batch, Ek)``, or ``(S, Ek)``.
        value: of shape ``(S, batch, Ev)``, or ``(S, Ev)``.
        embed_dim_to_check: E.
        num_heads: the number of heads, which divides E.
        in_proj_weight: the weights of the three projections, of shape ``(3 * E, E)``.
        in_proj_bias: their biases, of shape ``(3 * E,)``.
        bias_k: one more key, of shape ``(1, 1, E)``.
        bias_v: its value.
        add_zero_attn: whether one more key and value are zeros.
        dropout_p: the probability with which a weight is dropped while training.
        out_proj_weight: of shape ``(E, E)``.
        out_proj_bias: of shape ``(E,)``.
        training: whether weights are dropped.
        key_padding_mask: of shape ``(batch, S)``; True, or minus infinity, for keys to leave out.
        need_weights: whether the weights are returned. Without them it is faster.
        attn_mask: of shape ``(L, S)`` or ``(batch * num_heads, L, S)``; True, or minus infinity,
            where a query may not see a key.
        use_separate_proj_weight: whether the three weights come one by one.
        q_proj_weight: of shape ``(E, E)``.
        k_proj_weight: of shape ``(E, Ek)``.
        v_proj_weight: of shape ``(E, Ev)``.
        static_k: keys in place of projected ones, ``(batch * num_heads, S, E / num_heads)``.
        static_v: values, likewise.
        average_attn_weights: whether the weights are the means over the heads.
        is_causal: a hint that `attn_mask` is the causal mask.

    Returns:
        The result, of the shape of `query`, and the weights or None.
    """
    projections = Projections(
        in_proj_weight,
        in_proj_bias,
        use_separate_proj_weight,
        q_proj_weight,
        k_proj_weight,
        v_proj_weight,
        bias_k,
        bias_v,
        add_zero_attn,
        out_proj_weight,
        out_proj_bias,
    )
    return attend(
        query,
        key,
        value,
        embed_dim_to_check,
        num_heads,
        projections,
        dropout_p if training else 0.0,
        key_padding_mask,
        need_weights,
        attn_mask,
        average_attn_weights,
        is_causal,
        static=(static_k, static_v),
    )


class Projections(NamedTuple):
    """The parameters around the attention."""

    in_weight: Tensor | None
    in_bias: Tensor | None
    separate: bool
    q_weight: Tensor | None
    k_weight: Tensor | None
    v_weight: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None
    add_zero: bool
    out_weight: Tensor
    out_bias: Tensor | None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_heads: int,
    projections: Projections,
    dropout_p: float,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    average_attn_weights: bool,
    is_causal: bool,
    *,
    batch_first: bool = False,
    static: tuple[Tensor | None, Tensor | None] = (None, None),
) -> tuple[Tensor, Tensor | None]:
    """Do what multi_head_attention_forward() does, in either layout."""
    is_batched = _check_dims(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        query, key, value = _with_batch(query, key, value)
        batch_first = False
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    _check_sizes(query, key, value, embed_dim, num_heads, projections.separate)
    dtype = _none_or_dtype(attn_mask)
    key_padding_mask = canonical_mask(
        key_padding_mask, "key_padding_mask", dtype, "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "multi_head_attention_forward: Need attn_mask if specifying the is_causal hint. "
            "Transformer.generate_square_subsequent_mask makes it."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # The hint says it all.
    else:
        attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        is_causal = is_causal and key_padding_mask is None
    q, k, v = _project(query, key, value, num_heads, projections, batch_first)
    attn_mask = _check_mask(attn_mask, q, key.shape[1 if batch_first else 0])
    k, v, added = _extend(k, v, projections, static, num_heads)
    mask = _merge(attn_mask, key_padding_mask, k, added)
    weights = None
    if need_weights:
        output, weights = _weighted(q, k, v, mask, dropout_p)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        output = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    # From (batch, heads, time, features) to the layout of the inputs.
    output = output.permute(0, 2, 1, 3) if batch_first else output.permute(2, 0, 1, 3)
    output = _C.linear(output.flatten(-2), projections.out_weight, projections.out_bias)
    if is_batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


def _weighted(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Attend and keep the weights. A query without keys has NaN here, as in PyTorch."""
    scores = _C.matmul(q * math.sqrt(1.0 / q.shape[-1]), k.transpose(-2, -1))
    weights = _C.softmax(scores if mask is None else scores + mask, -1)
    if dropout_p > 0.0:
        weights = _dropout(weights, dropout_p)
    return _C.matmul(weights, v), weights


# ---- projections


def _with_batch(*sequences: Tensor) -> tuple[Tensor, ...]:
    """Give sequences a batch dimension; what was one tensor stays one."""
    made: dict[int, Tensor] = {}
    for sequence in sequences:
        if id(sequence) not in made:
            made[id(sequence)] = sequence.unsqueeze(1)
    return tuple(made[id(sequence)] for sequence in sequences)


def _project(
    query: Tensor, key: Tensor, value: Tensor, heads: int, own: Projections, batch_first: bool
) -> list[Tensor]:
    """Return queries, keys and values of all heads, by as few products as their identity allows."""
    if query is key and key is value and not own.separate:
        inputs, counts = [query], [3]
    elif key is value and not own.separate:
        inputs, counts = [query, key], [1, 2]
    else:
        inputs, counts = [query, key, value], [1, 1, 1]
    rows = [query.shape[-1] * count for count in counts]
    weights = _separate_weights(own) if own.separate else _rows_of(own.in_weight, rows)
    biases = [None] * len(rows) if own.in_bias is None else own.in_bias.split(rows)
    return [
        part
        for x, count, weight, bias in zip(inputs, counts, weights, biases, strict=True)
        for part in _split_heads(_C.linear(x, weight, bias), count, heads, batch_first)
    ]


def _rows_of(weight: Tensor | None, rows: list[int]) -> Any:
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    return weight.split(rows) if len(rows) > 1 else (weight,)


def _separate_weights(own: Projections) -> list[Tensor]:
    weights = []
    for name, weight in (("q", own.q_weight), ("k", own.k_weight), ("v", own.v_weight)):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        weights.append(weight)
    return weights


def _split_heads(x: Tensor, count: int, heads: int, batch_first: bool) -> Any:
    """Return `count` tensors (batch, heads, time, features) of one that holds them side by side."""
    parts = x.reshape(*x.shape[:2], count, heads, x.shape[2] // (count * heads))
    order = (2, 0, 3, 1, 4) if batch_first else (2, 1, 3, 0, 4)
    return parts.permute(order).unbind(0)


def _extend(
    k: Tensor,
    v: Tensor,
    own: Projections,
    static: tuple[Tensor | None, Tensor | None],
    heads: int,
) -> tuple[Tensor, Tensor, int]:
    """Put static keys and values in place, and add the ones that see every query."""
    added = 0
    batch, _, _, size = k.shape
    if (own.bias_k is None) != (own.bias_v is None):
        raise AssertionError("multi_head_attention_forward: bias_k and bias_v must be set together")
    if own.bias_k is not None and own.bias_v is not None:
        if static != (None, None):
            raise AssertionError("bias cannot be added to static key or value.")
        more = [
            b.reshape(1, heads, 1, size).expand(batch, -1, -1, -1) for b in (own.bias_k, own.bias_v)
        ]
        k, v = _C.cat([k, more[0]], 2), _C.cat([v, more[1]], 2)
        added += 1
    k = _static_or(k, static[0], "static_k", heads)
    v = _static_or(v, static[1], "static_v", heads)
    if own.add_zero:
        zeros = _C.zeros((batch, heads, 1, size), dtype=k.dtype, device=k.device)
        k, v = _C.cat([k, zeros], 2), _C.cat([v, zeros], 2)
        added += 1
    return k, v, added


def _static_or(projected: Tensor, static: Tensor | None, name: str, heads: int) -> Tensor:
    if static is None:
        return projected
    batch, size = projected.shape[0], projected.shape[3]
    for place, expected in ((0, batch * heads), (2, size)):
        if static.shape[place] != expected:
            raise AssertionError(
                f"expecting {name}.size({place}) of {expected}, but got {static.shape[place]}"
            )
    return static.reshape(batch, heads, static.shape[1], size)


# ---- masks


def canonical_mask(
    mask: Tensor | None,
    name: str,
    other_dtype: Any,
    other_name: str,
    dtype: Any,
    check_other: bool = True,
) -> Tensor | None:
    """Return a mask to add to the scores; a bool one has minus infinity where it was True."""
    if mask is None:
        return None
    if mask.dtype != _C.bool and not mask.is_floating_point():
        raise AssertionError(
            f"only bool and floating types of {name} are supported, got {mask.dtype}"
        )
    if check_other and other_dtype is not None and mask.dtype != other_dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return _C.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, float("-inf"))


def _none_or_dtype(mask: Tensor | None) -> Any:
    return None if mask is None else mask.dtype


def _check_mask(attn_mask: Tensor | None, q: Tensor, src_len: int) -> Tensor | None:
    """Return the mask in a shape that broadcasts to (batch, heads, L, S)."""
    if attn_mask is None:
        return None
    batch, heads, tgt_len, _ = q.shape
    leading = () if attn_mask.dim() == 2 else (batch * heads,)
    expected = (*leading, tgt_len, src_len)
    if tuple(attn_mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be "
            f"{expected}."
        )
    return attn_mask.reshape(batch, heads, tgt_len, src_len) if leading else attn_mask


def _merge(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, k: Tensor, added: int
) -> Tensor | None:
    """Return both masks as one, with the added keys seen by every query."""
    if key_padding_mask is not None:
        batch, src_len = k.shape[0], k.shape[2] - added
        if tuple(key_padding_mask.shape) != (batch, src_len):
            raise AssertionError(
                f"Expected key_padding_mask of shape {(batch, src_len)}, but got "
                f"{tuple(key_padding_mask.shape)}"
            )
        key_padding_mask = key_padding_mask.reshape(batch, 1, 1, src_len)
    if attn_mask is None:
        mask = key_padding_mask
    else:
        mask = attn_mask if key_padding_mask is None else attn_mask + key_padding_mask
    if mask is None or not added:
        return mask
    seen = _C.zeros((*mask.shape[:-1], added), dtype=mask.dtype, device=mask.device)
    return _C.cat([mask, seen], -1)


# ---- checks


def _check_dims(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Return whether the input is batched; refuse what does not go with that."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    dims = query.dim()
    kind = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {dims}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D but "
            f"found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.dim()}-D tensor instead"
        )
    if dims == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}"
            )
    return dims == 3


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, separate: bool
) -> None:
    if query.shape[-1] != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}"
        )
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if separate:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}"
            )
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
