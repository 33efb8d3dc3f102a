"""Models and their training steps, for either library: each function takes it as `torch`.

A function returns the model's optimizer and a function without arguments that returns the loss of
one batch. Weights and data are the same on both sides: drawn by NumPy, not by the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Training = tuple[Any, Callable[[], Any]]


class Numbers:
    """Draws tensors that are equal in both libraries."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._random = np.random.default_rng(0)

    def normal(self, *shape: int) -> Any:
        return self._torch.from_numpy(self._random.standard_normal(shape, np.float32)).clone()

    def below(self, limit: int, *shape: int) -> Any:
        return self._torch.from_numpy(self._random.integers(0, limit, shape)).clone()

    def fill(self, model: Any) -> Any:
        """Give a model's weights values of the usual size; vectors stay as they begin."""
        with self._torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    scale = 1 / math.sqrt(math.prod(parameter.shape[1:]))
                    parameter.copy_(self.normal(*parameter.shape) * scale)
                elif parameter.abs().max().item() not in (0.0, 1.0):  # no norm's weight or bias
                    parameter.zero_()
        return model


def mlp(torch: Any) -> Training:
    """A multilayer perceptron 64-64-64-10 on a batch of 32: nothing but overhead."""
    nn, numbers = torch.nn, Numbers(torch)
    model = numbers.fill(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    )
    x, labels = numbers.normal(32, 64), numbers.below(10, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return optimizer, lambda: nn.functional.cross_entropy(model(x), labels)


def cnn(torch: Any) -> Training:
    """3 x 3 convolutions of 16 to 64 channels with batch norms; 32 images of 32 x 32."""
    nn, numbers = torch.nn, Numbers(torch)

    def unit(near: int, far: int, stride: int = 1) -> Any:
        convolution = nn.Conv2d(near, far, 3, stride=stride, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(far), nn.ReLU())

    layers = [unit(3, 16), unit(16, 16), unit(16, 32, 2), unit(32, 32), unit(32, 64, 2)]
    body = nn.Sequential(*layers, unit(64, 64))
    model = numbers.fill(nn.ModuleList([body, nn.Linear(64, 10)]))
    x, labels = numbers.normal(32, 3, 32, 32), numbers.below(10, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return optimizer, lambda: nn.functional.cross_entropy(model[1](body(x).mean((2, 3))), labels)


def resnet18(torch: Any, *, channels_last: bool = False) -> Training:
    """ResNet-18 on 8 images of 64 x 64."""
    nn, numbers = torch.nn, Numbers(torch)

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self, near: int, far: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(near, far, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(far)
            self.conv2 = nn.Conv2d(far, far, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(far)
            self.relu = nn.ReLU()
            self.shortcut = nn.Identity()
            if stride != 1 or near != far:
                convolution = nn.Conv2d(near, far, 1, stride, bias=False)
                self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(far))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    def stages() -> Iterator[Any]:
        near = 64
        for far in (64, 128, 256, 512):
            for place in range(2):
                yield Block(near, far, 2 if far > 64 and place == 0 else 1)
                near = far

    convolution = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
    first = nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU())
    body, last = nn.Sequential(*stages()), nn.Linear(512, 10)
    model = numbers.fill(nn.ModuleList([first, body, last]))
    x, labels = numbers.normal(8, 3, 64, 64), numbers.below(10, 8)
    if channels_last:
        model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def loss() -> Any:
        pooled = nn.functional.max_pool2d(first(x), 3, 2, 1)
        return nn.functional.cross_entropy(last(body(pooled).mean((2, 3))), labels)

    return optimizer, loss


def lstm(torch: Any) -> Training:
    """An LSTM of 128 hidden features over 64 steps of 16 sequences."""
    nn, numbers = torch.nn, Numbers(torch)
    body, last = nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 10)
    model = numbers.fill(nn.ModuleList([body, last]))
    x, labels = numbers.normal(16, 64, 128), numbers.below(10, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return optimizer, lambda: nn.functional.cross_entropy(last(body(x)[0][:, -1]), labels)


def gpt(torch: Any, tokens: int) -> Training:
    """A GPT of 4 layers, 128 wide, with 4 heads, on 8 texts."""
    nn, numbers = torch.nn, Numbers(torch)
    width, heads, letters = 128, 4, 256

    class Block(nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).view(batch, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norm2(x))

    table, places = nn.Embedding(letters, width), nn.Embedding(tokens, width)
    body = nn.Sequential(*(Block() for _ in range(4)), nn.LayerNorm(width))
    head = nn.Linear(width, letters, bias=False)
    model = numbers.fill(nn.ModuleList([table, places, body, head]))
    text = numbers.below(letters, 8, tokens + 1)
    x, labels, order = text[:, :-1].clone(), text[:, 1:].flatten(), torch.arange(tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss() -> Any:
        scores = head(body(table(x) + places(order)))
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels)

    return optimizer, loss


MODELS: dict[str, Callable[[Any], Training]] = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet18": resnet18,
    "resnet18_last": lambda torch: resnet18(torch, channels_last=True),
    "lstm": lstm,
    "gpt_64": lambda torch: gpt(torch, 64),
    "gpt_128": lambda torch: gpt(torch, 128),
    "gpt_256": lambda torch: gpt(torch, 256),
}
