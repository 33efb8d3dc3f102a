"""Attention of several heads."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn import init
from tapegrad.nn.functional.multi_head_attention import Projections, attend
from tapegrad.nn.modules.linear import NonDynamicallyQuantizableLinear
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attends with several heads at once: each sees a projection of the inputs of its own.

    Args:
        embed_dim: the number of features of the queries and of the result.
        num_heads: the number of heads, which divides `embed_dim`.
        dropout: the probability with which a weight is dropped while training.
        bias: whether projections have biases.
        add_bias_kv: whether one more key and value are learned.
        add_zero_attn: whether one more key and value are zeros.
        kdim: the number of features of the keys; `embed_dim` if None.
        vdim: the number of features of the values; `embed_dim` if None.
        batch_first: whether sequences are ``(batch, time, features)``.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.ones(3, 5, 8)
        >>> output, weights = attention(x, x, x)
        >>> output.shape, weights.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                "embed_dim must be divisible by num_heads, got "
                f"embed_dim={embed_dim} and num_heads={num_heads}"
            )

        def make(*shape: int) -> Parameter:
            return Parameter(_C.empty(shape, device=device, dtype=dtype))

        separate = {
            "q_proj_weight": (embed_dim, embed_dim),
            "k_proj_weight": (embed_dim, self.kdim),
            "v_proj_weight": (embed_dim, self.vdim),
        }
        one = {"in_proj_weight": (3 * embed_dim, embed_dim)}
        used, unused = (one, separate) if self._qkv_same_embed_dim else (separate, one)
        for name, shape in used.items():
            self.register_parameter(name, make(*shape))
        for name in unused:
            self.register_parameter(name, None)
        self.register_parameter("in_proj_bias", make(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.bias_k = make(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = make(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the weights as Xavier Glorot does; biases of projections are zeros."""
        weights = [self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        for weight in weights:
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the result of the attention, and the weights if they are needed.

        Args:
            query: of shape ``(L, batch, embed_dim)``, or ``(L, embed_dim)``.
            key: of shape ``(S, batch, kdim)``, or ``(S, kdim)``.
            value: of shape ``(S, batch, vdim)``, or ``(S, vdim)``.
            key_padding_mask: of shape ``(batch, S)``; True for keys to leave out, or numbers to
                add.
            need_weights: whether the weights are returned. Without them it is faster.
            attn_mask: of shape ``(L, S)`` or ``(batch * num_heads, L, S)``; True where a query may
                not see a key, or numbers to add.
            average_attn_weights: whether the weights are the means over the heads.
            is_causal: a hint that `attn_mask` is the causal mask.
        """
        projections = Projections(
            self.in_proj_weight,
            self.in_proj_bias,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.out_proj.weight,
            self.out_proj.bias,
        )
        return attend(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            projections,
            self.dropout if self.training else 0.0,
            key_padding_mask,
            need_weights,
            attn_mask,
            average_attn_weights,
            is_causal,
            batch_first=self.batch_first,
        )

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Return two masks to add as one, and its kind: 1 for a padding mask alone, otherwise 2."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[0], query.shape[1]
        heads = 1 if attn_mask.dim() == 2 else self.num_heads
        merged = attn_mask.reshape(-1, heads, length, length)
        merged = merged.expand(batch, self.num_heads, length, length)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.reshape(batch, 1, 1, length)
        return merged, 2
