"""Training steps of the models, and forward and backward of blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from benchmarks.children.models import Numbers
from benchmarks.cuda_models import networks
from benchmarks.cuda_models.work import Counted, Setting, Work

TINY = networks.GPTSizes(layers=2, heads=2, width=16, context=8, vocabulary=64)
SMALL = networks.GPTSizes(layers=4, heads=4, width=128, context=64, vocabulary=256)


def training(
    setting: Setting, model: Any, optimizer: Any, loss_of: Callable[[Any], Any]
) -> tuple[Callable[[], Any], Callable[[], list[float]], Counted]:
    """Return a step, a check of three steps, and the least time, from a model and its loss."""
    counted = Counted()
    compiled = setting.compile(model)

    def step(what: Any = compiled) -> Any:
        optimizer.zero_grad()
        loss = loss_of(what)
        loss.backward()
        optimizer.step()
        return loss

    def check() -> list[float]:
        watching = counted.watching(setting.torch, model)
        with contextlib.nullcontext() if setting.is_compiled else watching:
            losses = [step()]
        losses += [step() for _ in range(2)]
        return [loss.float().item() for loss in losses]

    return step, check, counted


def gpt_parts(setting: Setting, mode: str, is_small: bool = False) -> tuple[Any, Any, Any]:
    """Return a GPT on the device, its tokens and its targets."""
    torch, numbers = setting.torch, Numbers(setting.torch)
    sizes = setting.choose(SMALL if is_small else networks.GPT2, TINY)
    batch = 1 if is_small else setting.choose(32, 2)
    model = numbers.fill(networks.gpt(torch, sizes))
    dtype = torch.bfloat16 if mode == "bfloat16" else torch.float32
    model = model.to(setting.device, dtype)
    text = numbers.below(sizes.vocabulary, batch, sizes.context + 1).to(setting.device)
    return model, text[:, :-1].contiguous(), text[:, 1:].contiguous()


def count_attention(counted: Counted, sizes: networks.GPTSizes, batch: int) -> None:
    """Count causal attention of a GPT: two products over half of the pairs, backward five."""
    pairs = sizes.context * sizes.context / 2
    flops = 2 * 2 * pairs * sizes.width * batch * sizes.layers
    counted.add(3.5 * flops, 0.0)


def gpt_training(setting: Setting, mode: str, is_small: bool = False) -> Work:
    """A training step of GPT-2 124M, 32 x 1,024 tokens; or of a small one, 64 tokens."""
    model, tokens, targets = gpt_parts(setting, mode, is_small)
    optimizer = setting.torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(model: Any) -> Any:
        with setting.autocast(enabled=mode == "autocast"):
            return model(tokens, targets)

    step, check, counted = training(setting, model, optimizer, loss_of)
    if not setting.is_tiny and not is_small:
        count_attention(counted, networks.GPT2, tokens.shape[0])
    return Work(step, check, counted)


def resnet_training(setting: Setting) -> Work:
    """A training step of ResNet-50 on 128 images of 224 x 224."""
    torch, numbers = setting.torch, Numbers(setting.torch)
    depths, width, classes, batch, image = setting.choose(
        ((3, 4, 6, 3), 64, 1000, 128, 224), ((1, 1), 8, 10, 4, 32)
    )
    last = {"memory_format": torch.channels_last}
    model = numbers.fill(networks.resnet(torch, depths, width, classes))
    model = model.to(setting.device).to(**last)
    x = numbers.normal(batch, 3, image, image).to(setting.device).to(**last)
    labels = numbers.below(classes, batch).to(setting.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)

    def loss_of(model: Any) -> Any:
        with setting.autocast():
            return model(x, labels)

    return Work(*training(setting, model, optimizer, loss_of))


def with_gradients(
    setting: Setting,
    call: Any,
    inputs: list[Any],
    wanted: list[Any],
    is_short: bool = False,
    counts: Any = None,
) -> Work:
    """Forward and backward of a module or a function; a result that is no loss gets a gradient.

    The values to agree on are means of the result and of all gradients.
    """
    torch = setting.torch
    counted, compiled = Counted(), setting.compile(call)
    gradient: list[Any] = []

    def step() -> Any:
        y = compiled(*inputs)
        if not gradient and y.dim():
            gradient.append(torch.ones_like(y).mul_(1 / 16))
        return y, torch.autograd.grad(y, wanted, *gradient)

    def check() -> list[float]:
        watching = counted.watching(torch, counts or call)
        with contextlib.nullcontext() if setting.is_compiled else watching:
            y, gradients = step()
        return [each.detach().float().abs().mean().item() for each in (y, *gradients)]

    return Work(step, check, counted, is_short)
