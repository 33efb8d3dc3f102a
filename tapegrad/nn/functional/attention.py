"""Scaled dot product attention."""

import math
from typing import Any

from tapegrad import _C, _attention_backends
from tapegrad._attention_backends import SDPBackend
from tapegrad._C import Tensor
from tapegrad._casts import casts
from tapegrad.nn.functional.dropouts import dropout as _dropout

__all__ = ["scaled_dot_product_attention"]

_HALVES = (_C.float16, _C.bfloat16)
_INFINITY = float("inf")


@casts(cpu="lower", cuda="lower")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return the mean of the values, weighted by how well their keys match each query.

    The weights are ``softmax(query @ key.T * scale + mask)``. A query that no key is left for gets
    zeros.

    Args:
        query: of shape ``(..., heads, L, E)``.
        key: of shape ``(..., heads, S, E)``.
        value: of shape ``(..., heads, S, Ev)``.
        attn_mask: broadcast to ``(..., heads, L, S)``. A bool mask is True where a query may see a
            key; a floating one is added to the scores.
        dropout_p: the probability with which a weight is dropped; 0 in evaluation.
        is_causal: whether query i sees the keys 0 to i only. With a mask, this is refused.
        scale: multiplied with the scores; ``1 / sqrt(E)`` if None.
        enable_gqa: whether keys and values may have fewer heads, each for a group of queries'.

    Returns:
        A tensor of shape ``(..., heads, L, Ev)``.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        tensor([[1.0000, 0.0000],
                [0.3302, 0.6698]])
    """
    if (
        query.__class__ is key.__class__ is value.__class__ is Tensor
        and (attn_mask is None or attn_mask.__class__ is Tensor)
        and query.dim() == 4
    ):
        fused = _C._attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        if fused is not None:
            return fused
    if getattr(query, "is_nested", False):
        nested: Any = query
        return nested.scaled_dot_product_attention(
            key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if attn_mask is not None and attn_mask.__class__ is not Tensor:
        from tapegrad.nn.attention.bias import CausalBias

        if isinstance(attn_mask, CausalBias):
            return attn_mask.attention(
                query, key, value, is_causal, dropout_p=dropout_p, scale=scale,
                enable_gqa=enable_gqa,
            )  # fmt: skip
    _check_inputs(query, key, value, attn_mask, dropout_p, is_causal)
    if scale is None:
        scale = 1 / math.sqrt(max(query.shape[-1], 1))
    choice = (attn_mask, dropout_p, is_causal, scale, enable_gqa)
    fused = _fused_attention(query, key, value, *choice)
    if fused is not None:
        return fused
    if not _attention_backends.is_allowed(SDPBackend.MATH):
        _refuse(query, key, value, *choice)
    if enable_gqa:
        key, value = _repeat_heads(query, key, value)
    return _composed_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)


def _with_heads(*tensors: Tensor) -> list[Tensor]:
    """Give tensors of fewer dimensions a batch, and heads."""
    return [
        tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))
        if tensor.dim() < 4
        else tensor
        for tensor in tensors
    ]


def _fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> Tensor | None:
    """Attention that never holds the matrix of scores; None where that is not to be done."""
    rank = query.dim()
    if not rank == key.dim() == value.dim() or rank > 4 or (enable_gqa and rank < 3):
        return None
    if attn_mask is not None:
        if attn_mask.dim() > rank:
            return None
        batch, heads, length, _ = (1, 1, *query.shape)[-4:]
        _check_mask_shape((batch, heads, length, key.shape[-2]), attn_mask)
        if attn_mask.dtype not in (_C.bool, _C.float32) and attn_mask.dtype != query.dtype:
            attn_mask = attn_mask.to(query.dtype)
    query, key, value = _with_heads(query, key, value)
    result = _C._attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if result is None or rank == 4:
        return result
    return result.reshape(result.shape[4 - rank :])


def _refuse(query: Tensor, key: Tensor, value: Tensor, *choice: Any) -> None:
    """Say why none of the backends that are allowed computes it."""
    reasons = [
        f"{backend.name}: {_C._attention_refusal(int(backend), query, key, value, *choice)}"
        for backend in _attention_backends.allowed()
    ]
    raise RuntimeError(
        "scaled_dot_product_attention: No available kernel. No viable backend was found"
        + "".join(f"; {reason}" for reason in reasons)
        + "; allow another by sdpa_kernel()"
    )


def _composed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
) -> Tensor:
    """Attention made of public ops: every mask, dtype and derivative.

    Half precision is computed in float32 from the first product to the last.
    """
    dtype = query.dtype
    if dtype in _HALVES:
        query, key, value = query.float(), key.float(), value.float()
    scores = _C.matmul(query * scale, key.transpose(-2, -1))
    bias, unseen = _bias_of(scores, attn_mask, is_causal)
    if bias is not None:
        scores = scores + bias
    weights = _C.softmax(scores, -1)
    if dropout_p > 0:
        weights = _dropout(weights, dropout_p)
    output = _C.matmul(weights, value)
    if unseen is not None:
        output = output.masked_fill(unseen, 0.0)
    return output.to(dtype)


def _bias_of(
    scores: Tensor, attn_mask: Tensor | None, is_causal: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return what is added to the scores, and the queries whose keys are all masked.

    These would divide zero by zero. They get no mask, and their output is replaced by zeros, so
    that they contribute no gradient either.
    """
    bias: Tensor
    if is_causal:
        future = _C.ones(scores.shape[-2:], dtype=_C.bool, device=scores.device).triu(1)
        bias = _C.zeros(future.shape, dtype=scores.dtype, device=scores.device)
        return bias.masked_fill_(future, -_INFINITY), None
    if attn_mask is None:
        return None, None
    _check_mask_shape(tuple(scores.shape), attn_mask)
    rows = attn_mask if attn_mask.dim() else attn_mask.reshape(1)
    if attn_mask.dtype == _C.bool:
        hidden = ~rows
        unseen = hidden.all(-1, keepdim=True)
        bias = _C.zeros(hidden.shape, dtype=scores.dtype, device=scores.device)
        return bias.masked_fill_(hidden & ~unseen, -_INFINITY), unseen
    unseen = (rows.detach() == -_INFINITY).all(-1, keepdim=True)
    return rows.masked_fill(unseen, 0.0).to(scores.dtype), unseen


def _repeat_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Give every query head its key and value head."""
    if min(query.dim(), key.dim(), value.dim()) < 3:
        raise IndexError(
            "scaled_dot_product_attention: Dimension out of range: with enable_gqa, expected "
            f"query, key and value with a dimension of heads, got {query.dim()}, {key.dim()} and "
            f"{value.dim()} dimensions"
        )
    heads = query.shape[-3]
    repeated = []
    for tensor in (key, value):
        own = tensor.shape[-3]
        if own == 0 or heads % own:
            raise RuntimeError(
                "scaled_dot_product_attention: Number of heads in key and value must divide the "
                f"number of heads in query, got {key.shape[-3]} and {value.shape[-3]} for {heads}"
            )
        repeated.append(tensor if own == heads else tensor.repeat_interleave(heads // own, -3))
    return repeated[0], repeated[1]


def _check_inputs(
    query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool
) -> None:
    name = "scaled_dot_product_attention"
    for label, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name}(): argument '{label}' must be Tensor, not {type(tensor).__name__}"
            )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"{name}: Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if not query.is_floating_point():
        raise RuntimeError(f"{name}: expected a floating dtype, got {query.dtype}")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            f"{name}: Expected query, key, and value to all be at least 2 dimensional, but got "
            f"query.dim: {query.dim()} key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if dropout_p > 1:
        raise RuntimeError(
            f"{name}: dropout probability has to be between 0 and 1, but got {dropout_p}"
        )
    if attn_mask is None:
        return
    if not isinstance(attn_mask, Tensor):
        raise TypeError(
            f"{name}(): argument 'attn_mask' must be Tensor, not {type(attn_mask).__name__}"
        )
    if is_causal:
        raise RuntimeError(
            f"{name}: Explicit attn_mask should not be set when is_causal=True; add the causal "
            "mask to attn_mask"
        )
    if attn_mask.dtype not in (_C.bool, _C.float32, query.dtype):
        raise RuntimeError(
            f"{name}: Expected attn_mask dtype to be bool or float or to match query dtype, but "
            f"got attn_mask.dtype: {attn_mask.dtype} and query.dtype: {query.dtype} instead."
        )


def _check_mask_shape(wanted: tuple[int, ...], attn_mask: Tensor) -> None:
    shape = tuple(attn_mask.shape)
    fits = len(shape) <= len(wanted) and all(
        own in (1, size) for own, size in zip(reversed(shape), reversed(wanted), strict=False)
    )
    if not fits:
        raise RuntimeError(
            "scaled_dot_product_attention: expected an attn_mask that broadcasts to the scores, "
            f"of shape {list(wanted)}, got {list(shape)}; the sizes must match or be 1"
        )
