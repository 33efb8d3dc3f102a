"""The network: a decoder-only transformer, normalised before each part, as in GPT-2."""

import math

import tapegrad
from tapegrad import Tensor, nn
from tapegrad.nn import functional as F

__all__ = ["GPT"]


class Attention(nn.Module):
    """Each token looks at itself and at those before it, in several heads at once."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        batch, time, width = x.shape
        shape = (batch, time, 3, self.heads, width // self.heads)
        query, key, value = self.query_key_value(x).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.out(seen.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention, then a layer that treats each token alone; each adds to what flows through."""

    def __init__(self, width: int, heads: int, dropout: float, gelu: str) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.feed_norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(gelu), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, time, width) to the same shape."""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed(self.feed_norm(x)))


class GPT(nn.Module):
    """Scores of the next token at every place of a text.

    Args:
        vocabulary: how many tokens there are.
        context: how many of them the model sees at most.
        layers, width, heads: blocks, numbers per token, heads of attention.
        dropout: share of activations dropped in training.
        tie: whether the output matrix is the embedding.
        gelu: ``"none"`` for the exact function, ``"tanh"`` for GPT-2's approximation.

    Example:
        >>> from tapegrad.cli.model import GPT
        >>> model = GPT(vocabulary=10, context=8, layers=2, width=16, heads=2)
        >>> model(torch.zeros(3, 8, dtype=torch.int64)).shape
        torch.Size([3, 8, 10])
    """

    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        width: int,
        heads: int,
        dropout: float = 0.0,
        tie: bool = False,
        gelu: str = "none",
    ) -> None:
        super().__init__()
        self.context = context
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(width, heads, dropout, gelu) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)
        if tie:
            self.scores.weight = self.token.weight
        self._initialise(layers)

    def _initialise(self, layers: int) -> None:
        """Start small; what adds to the stream is smaller yet, the more layers add to it."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                adds = name.endswith(("attention.out.weight", "feed.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if adds else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (batch, time) of token numbers to (batch, time, vocabulary) of scores."""
        time = tokens.shape[1]
        if time > self.context:
            raise ValueError(f"GPT: expected at most {self.context} tokens, got {time}")
        places = tapegrad.arange(time, device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(places))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.scores(self.norm(x))
        return scores
