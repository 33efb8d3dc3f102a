"""Transformers: encoder and decoder layers, stacks of them, and both together."""

import copy
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_count
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.functional.multi_head_attention import canonical_mask
from tapegrad.nn.modules.activation import GELU, ReLU
from tapegrad.nn.modules.attention import MultiheadAttention
from tapegrad.nn.modules.container import ModuleList
from tapegrad.nn.modules.dropout import Dropout
from tapegrad.nn.modules.linear import Linear
from tapegrad.nn.modules.module import Module
from tapegrad.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

_Activation = str | Callable[[Tensor], Tensor]


class Transformer(Module):
    """An encoder of one sequence and a decoder of another, which looks at the encoded first.

    Args:
        d_model: the number of features of both sequences.
        nhead: the number of heads of each attention.
        num_encoder_layers: the number of layers of the encoder.
        num_decoder_layers: the number of layers of the decoder.
        dim_feedforward: the number of hidden features between two attentions.
        dropout: the probability of a zero while training.
        activation: ``"relu"``, ``"gelu"`` or a function of a tensor.
        custom_encoder: a module in place of the encoder.
        custom_decoder: a module in place of the decoder.
        layer_norm_eps: the eps of the layer norms.
        batch_first: whether sequences are ``(batch, time, features)``.
        norm_first: whether norms come before attentions and feed-forward parts, not after.
        bias: whether linear layers and norms have biases.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> model = torch.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
        >>> model(torch.ones(10, 3, 8), torch.ones(7, 3, 8)).shape
        torch.Size([7, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        switches = (batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(*options, *switches)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*options, *switches)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        """Draw all matrices as Xavier Glorot does."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode `src`, decode `tgt` beside it, and return what the last layer returns.

        Args:
            src: the sequence to encode.
            tgt: the sequence to decode.
            src_mask: which elements of `src` see each other; masks are MultiheadAttention's.
            tgt_mask: which elements of `tgt` see each other.
            memory_mask: which elements of `tgt` see which of the encoded ones.
            src_key_padding_mask: elements of `src` to leave out, for each sequence.
            tgt_key_padding_mask: elements of `tgt` to leave out, for each sequence.
            memory_key_padding_mask: encoded elements to leave out, for each sequence.
            src_is_causal: a hint that `src_mask` is causal; None looks at the mask.
            tgt_is_causal: a hint that `tgt_mask` is causal; None looks at the mask.
            memory_is_causal: a hint that `memory_mask` is causal.
        """
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise RuntimeError(
                "Transformer: the batch number of src and tgt must be equal, got "
                f"{src.shape[batch_dim]} and {tgt.shape[batch_dim]}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                "Transformer: the feature number of src and tgt must be equal to d_model, "
                f"{self.d_model}, got {src.shape[-1]} and {tgt.shape[-1]}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask: minus infinity above the diagonal, zeros elsewhere.

        Example:
            >>> torch.nn.Transformer.generate_square_subsequent_mask(2)
            tensor([[0., -inf],
                    [0., 0.]])
        """
        return _C.full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)


class TransformerEncoder(Module):
    """A stack of encoder layers, each a copy of one.

    Args:
        encoder_layer: the layer; its copies begin with its weights.
        num_layers: the number of layers.
        norm: a norm behind the last.
        enable_nested_tensor: whether, in evaluation without gradients, the elements that
            `src_key_padding_mask` leaves out come back as zeros in front of `norm`. There are no
            nested tensors here; this is what one sees of PyTorch's.
        mask_check: whether that asks for padding at the end of each sequence only.

    Example:
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
        >>> torch.nn.TransformerEncoder(layer, 2)(torch.ones(10, 3, 8)).shape
        torch.Size([10, 3, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and _could_nest(encoder_layer)
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Return what the last layer returns, normalised.

        Args:
            src: the sequence.
            mask: which elements see each other, as MultiheadAttention's `attn_mask`.
            src_key_padding_mask: elements to leave out, for each sequence.
            is_causal: a hint that `mask` is causal; None looks at the mask.
        """
        src_key_padding_mask, mask = _canonical_masks(
            src, src_key_padding_mask, "src_key_padding_mask", mask, "mask"
        )
        is_causal = _is_causal(mask, is_causal, _length(src, self.layers[0]))
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        if src_key_padding_mask is not None and mask is None:
            padding = src_key_padding_mask != 0
            if self._nests(src, padding):
                output = output.masked_fill(padding.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _nests(self, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch would run this call on a nested tensor, which forgets the padding."""
        first = self.layers[0]
        if not self.use_nested_tensor or first.training or src.dim() != 3:
            return False
        if _C.is_grad_enabled():
            leaves = [src, *(parameter for parameter in first.parameters())]
            if any(leaf.requires_grad for leaf in leaves):
                return False
        at_the_end = bool((padding[:, 1:] | ~padding[:, :-1]).all())
        return at_the_end or not self.mask_check


class TransformerDecoder(Module):
    """A stack of decoder layers, each a copy of one.

    Args:
        decoder_layer: the layer; its copies begin with its weights.
        num_layers: the number of layers.
        norm: a norm behind the last.

    Example:
        >>> layer = torch.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
        >>> decoder = torch.nn.TransformerDecoder(layer, 2)
        >>> decoder(torch.ones(7, 3, 8), torch.ones(10, 3, 8)).shape
        torch.Size([7, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return what the last layer returns, normalised.

        Args:
            tgt: the sequence.
            memory: the encoded sequence.
            tgt_mask: which elements of `tgt` see each other.
            memory_mask: which elements of `tgt` see which of `memory`.
            tgt_key_padding_mask: elements of `tgt` to leave out, for each sequence.
            memory_key_padding_mask: elements of `memory` to leave out, for each sequence.
            tgt_is_causal: a hint that `tgt_mask` is causal; None looks at the mask.
            memory_is_causal: a hint that `memory_mask` is causal.
        """
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, _length(tgt, self.layers[0]))
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, then two linear layers for each element, both added on.

    Args:
        d_model: the number of features.
        nhead: the number of heads.
        dim_feedforward: the number of hidden features between the two linear layers.
        dropout: the probability of a zero while training.
        activation: ``"relu"``, ``"gelu"`` or a function of a tensor.
        layer_norm_eps: the eps of the layer norms.
        batch_first: whether sequences are ``(batch, time, features)``.
        norm_first: whether norms come before the two parts, not after.
        bias: whether linear layers and norms have biases.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        >>> layer(torch.ones(3, 10, 8)).shape
        torch.Size([3, 10, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        function = _activation_of(activation)
        if function is F.relu or isinstance(function, ReLU):
            self.activation_relu_or_gelu = 1
        elif function is F.gelu or isinstance(function, GELU):
            self.activation_relu_or_gelu = 2
        else:
            self.activation_relu_or_gelu = 0
        self.activation = function

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Return the sequence after the attention and the linear layers.

        Args:
            src: the sequence.
            src_mask: which elements see each other, as MultiheadAttention's `attn_mask`.
            src_key_padding_mask: elements to leave out, for each sequence.
            is_causal: a hint that `src_mask` is causal.
        """
        padding, mask = _canonical_masks(
            src, src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask"
        )
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        attended = _attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        return self.dropout1(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)


class TransformerDecoderLayer(Module):
    """As TransformerEncoderLayer, with an attention to an encoded sequence between the two parts.

    Args:
        d_model: the number of features.
        nhead: the number of heads.
        dim_feedforward: the number of hidden features between the two linear layers.
        dropout: the probability of a zero while training.
        activation: ``"relu"``, ``"gelu"`` or a function of a tensor.
        layer_norm_eps: the eps of the layer norms.
        batch_first: whether sequences are ``(batch, time, features)``.
        norm_first: whether norms come before the three parts, not after.
        bias: whether linear layers and norms have biases.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> layer = torch.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
        >>> layer(torch.ones(7, 3, 8), torch.ones(10, 3, 8)).shape
        torch.Size([7, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn"):
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **place
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        for name in ("norm1", "norm2", "norm3"):
            self.add_module(name, LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation_of(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the sequence after both attentions and the linear layers.

        Args:
            tgt: the sequence.
            memory: the encoded sequence.
            tgt_mask: which elements of `tgt` see each other.
            memory_mask: which elements of `tgt` see which of `memory`.
            tgt_key_padding_mask: elements of `tgt` to leave out, for each sequence.
            memory_key_padding_mask: elements of `memory` to leave out, for each sequence.
            tgt_is_causal: a hint that `tgt_mask` is causal.
            memory_is_causal: a hint that `memory_mask` is causal.
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        attended = _attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        return self.dropout1(attended)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        attended = _attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal)
        return self.dropout2(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)


# ---- helpers


def _attend(
    attention: Module,
    x: Tensor,
    memory: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    """Return what an attention returns without its weights."""
    return attention(
        x,
        memory,
        memory,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        is_causal=is_causal,
    )[0]


def _copies(module: Module, count: int) -> ModuleList:
    expect_count("num_layers", count, "modules", bytes_each=1024)
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _activation_of(activation: _Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


_get_activation_fn = _activation_of  # as programs import it


def _canonical_masks(
    src: Tensor,
    padding: Tensor | None,
    padding_name: str,
    mask: Tensor | None,
    mask_name: str,
) -> tuple[Tensor | None, Tensor | None]:
    """Return both masks as numbers to add."""
    other = None if mask is None else mask.dtype
    padding = canonical_mask(padding, padding_name, other, mask_name, src.dtype)
    return padding, canonical_mask(mask, mask_name, None, "", src.dtype, False)


def _length(sequence: Tensor, layer: Module) -> int:
    if sequence.dim() == 2:
        return int(sequence.shape[0])
    return int(sequence.shape[1 if layer.self_attn.batch_first else 0])


def _is_causal(mask: Tensor | None, hint: bool | None, size: int) -> bool:
    """Whether a mask is causal: the hint if there is one, otherwise by its values."""
    if hint is not None or mask is None:
        return hint is True
    if tuple(mask.shape) != (size, size):
        return False
    causal = Transformer.generate_square_subsequent_mask(size, mask.device, mask.dtype)
    return bool((mask == causal).all())


def _could_nest(layer: Module) -> bool:
    """Whether PyTorch would use nested tensors in a stack of these layers."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first:
        return False
    attention = layer.self_attn
    return (
        attention.batch_first
        and attention._qkv_same_embed_dim
        and attention.in_proj_bias is not None
        and bool(layer.activation_relu_or_gelu)
        and layer.norm1.eps == layer.norm2.eps
        and attention.num_heads % 2 == 0
    )
