"""The models, written once over a module `torch`, which is either library.

The forward of each takes a batch and returns the loss, so that a compiler sees both. Weights are
drawn by NumPy (`Numbers.fill`), so that both libraries begin with the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GPTSizes:
    """The sizes of a GPT."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int


GPT2 = GPTSizes(layers=12, heads=12, width=768, context=1024, vocabulary=50304)


def gpt(torch: Any, sizes: GPTSizes) -> Any:
    """A GPT: learned places, norms first, tanh GELU, the head tied to the table of tokens."""
    nn, functional = torch.nn, torch.nn.functional
    width, heads = sizes.width, sizes.heads

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.gelu = nn.GELU(approximate="tanh")

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (
                part.view(batch, tokens, heads, width // heads).transpose(1, 2)
                for part in (q, k, v)
            )
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).contiguous().view(batch, tokens, width))
            return x + self.narrow(self.gelu(self.wide(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(sizes.vocabulary, width)
            self.place = nn.Embedding(sizes.context, width)
            self.blocks = nn.ModuleList(Block() for _ in range(sizes.layers))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, sizes.vocabulary, bias=False)
            self.head.weight = self.token.weight

        def forward(self, tokens: Any, targets: Any) -> Any:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.token(tokens) + self.place(places)
            for block in self.blocks:
                x = block(x)
            scores = self.head(self.norm(x))
            return functional.cross_entropy(scores.view(-1, scores.shape[-1]), targets.reshape(-1))

    return GPT()


def resnet(torch: Any, depths: tuple[int, ...], width: int, classes: int) -> Any:
    """A residual network of bottlenecks; depths (3, 4, 6, 3) and width 64 are ResNet-50."""
    nn, functional = torch.nn, torch.nn.functional

    def convolution(near: int, far: int, size: int, stride: int = 1) -> Any:
        return nn.Conv2d(near, far, size, stride, size // 2, bias=False)

    class Bottleneck(nn.Module):
        def __init__(self, near: int, middle: int, stride: int) -> None:
            super().__init__()
            far = 4 * middle
            self.conv1, self.bn1 = convolution(near, middle, 1), nn.BatchNorm2d(middle)
            self.conv2, self.bn2 = convolution(middle, middle, 3, stride), nn.BatchNorm2d(middle)
            self.conv3, self.bn3 = convolution(middle, far, 1), nn.BatchNorm2d(far)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = None
            if stride != 1 or near != far:
                self.shortcut = nn.Sequential(
                    convolution(near, far, 1, stride), nn.BatchNorm2d(far)
                )

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))

    def blocks() -> Iterator[Any]:
        near = width
        for stage, depth in enumerate(depths):
            middle = width << stage
            for place in range(depth):
                yield Bottleneck(near, middle, 2 if stage and not place else 1)
                near = 4 * middle

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.bn1 = convolution(3, width, 7, 2), nn.BatchNorm2d(width)
            self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
            self.body = nn.Sequential(*blocks())
            self.mean = nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(4 * width << (len(depths) - 1), classes)

        def forward(self, x: Any, labels: Any) -> Any:
            x = self.body(self.pool(self.relu(self.bn1(self.conv1(x)))))
            return functional.cross_entropy(self.head(self.mean(x).flatten(1)), labels)

    return ResNet()


def unet(torch: Any, widths: tuple[int, ...]) -> Any:
    """A UNet: two convolutions with group norms at each size, on the way down and up again."""
    nn, functional = torch.nn, torch.nn.functional

    def unit(near: int, far: int) -> Any:
        parts = []
        for first in (near, far):
            parts += [nn.Conv2d(first, far, 3, padding=1), nn.GroupNorm(8, far), nn.SiLU()]
        return nn.Sequential(*parts)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(itertools.pairwise(widths))
            self.first = nn.Conv2d(3, widths[0], 3, padding=1)
            self.down = nn.ModuleList(unit(width, width) for width in widths[:-1])
            self.shrink = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairs)
            self.middle = unit(widths[-1], widths[-1])
            self.grow = nn.ModuleList(nn.Conv2d(b, a, 3, padding=1) for a, b in pairs)
            self.up = nn.ModuleList(unit(2 * width, width) for width in widths[:-1])
            self.last = nn.Conv2d(widths[0], 3, 1)

        def forward(self, x: Any, target: Any) -> Any:
            x, kept = self.first(x), []
            for unit_down, shrink in zip(self.down, self.shrink, strict=True):
                kept.append(unit_down(x))
                x = shrink(kept[-1])
            x = self.middle(x)
            for unit_up, grow in reversed(list(zip(self.up, self.grow, strict=True))):
                x = grow(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
                x = unit_up(torch.cat([x, kept.pop()], dim=1))
            return functional.mse_loss(self.last(x), target)

    return UNet()


def convnext(torch: Any, width: int, depth: int) -> Any:
    """ConvNeXt's blocks: 7 x 7 depthwise, layer norm over the channels, two linear layers."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.gelu = nn.GELU()
            self.scale = nn.Parameter(torch.ones(width))

        def forward(self, x: Any) -> Any:
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            y = self.narrow(self.gelu(self.wide(y))) * self.scale
            return x + y.permute(0, 3, 1, 2)

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))

        def forward(self, x: Any, target: Any) -> Any:
            return functional.mse_loss(self.blocks(x), target)

    return Blocks()
