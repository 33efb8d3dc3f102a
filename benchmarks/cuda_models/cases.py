"""The rows: what each library runs, and what they must agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.children.models import Numbers
from benchmarks.cuda_models import curves, networks, tapes
from benchmarks.cuda_models.training import gpt_training, resnet_training, with_gradients
from benchmarks.cuda_models.work import Counted, Setting, Work, measured


@dataclass(frozen=True)
class Case:
    """A row.

    Attributes:
        run: measures it in the process of one library.
        limit: seconds after which a library is stopped.
        tolerance: how far the values of the libraries may be apart, as a part of the larger.
        is_ours: whether it is about tapegrad alone.
        can_compile: whether torch.compile has something to do.
        make: what is measured, for a profile.
    """

    run: Callable[[Setting], dict[str, Any]]
    limit: float = 20.0
    tolerance: float = 0.02
    is_ours: bool = False
    can_compile: bool = True
    make: Callable[[Setting], Work] | None = None


def timed(make: Callable[[Setting], Work], **more: Any) -> Case:
    return Case(lambda setting: measured(setting, make(setting)), make=make, **more)


# ---- blocks


def block(make: Callable[[Any, Setting], Any], shape: Any, tiny: Any) -> Case:
    """Forward and backward of a model in bfloat16, channels last, for an image and a target."""

    def work(setting: Setting) -> Work:
        torch, numbers = setting.torch, Numbers(setting.torch)
        last = {"memory_format": torch.channels_last}
        model = numbers.fill(make(torch, setting))
        model = model.to(setting.device, torch.bfloat16).to(**last)
        sizes = setting.choose(shape, tiny)
        x, target = (
            numbers.normal(*sizes).to(setting.device, torch.bfloat16).to(**last) for _ in range(2)
        )
        return with_gradients(setting, model, [x, target], list(model.parameters()))

    return timed(work)


def convolution(
    near: int, far: int, size: int, image: int, stride: int = 1, groups: int = 1
) -> Case:
    """One convolution of 128 images in bfloat16, channels last, forward and backward."""

    def work(setting: Setting) -> Work:
        torch, numbers = setting.torch, Numbers(setting.torch)
        last = {"memory_format": torch.channels_last}
        sizes = [setting.choose(channels, min(channels, 16)) for channels in (near, far, groups)]
        layer = torch.nn.Conv2d(*sizes[:2], size, stride, size // 2, groups=sizes[2], bias=False)
        layer = numbers.fill(layer).to(setting.device, torch.bfloat16).to(**last)
        batch, edge = setting.choose((128, image), (2, 8))
        x = numbers.normal(batch, sizes[0], edge, edge)
        x = x.to(setting.device, torch.bfloat16).to(**last)
        # An image has no gradient.
        wanted = [layer.weight] if near == 3 else [x.requires_grad_(), layer.weight]
        return with_gradients(setting, layer, [x], wanted, is_short=True)

    return timed(work, limit=15.0)


def linear_gelu(form: str, approximate: str, is_trained: bool) -> Case:
    """Linear 768-3072 and GELU over 32,768 rows, as layers or as functions."""

    def work(setting: Setting) -> Work:
        torch, numbers = setting.torch, Numbers(setting.torch)
        functional = torch.nn.functional
        rows, near, far = setting.choose((32768, 768, 3072), (16, 8, 32))
        linear = numbers.fill(torch.nn.Linear(near, far)).to(setting.device, torch.bfloat16)
        layers = torch.nn.Sequential(linear, torch.nn.GELU(approximate))
        x = numbers.normal(rows, near).to(setting.device, torch.bfloat16)

        def functions(x: Any) -> Any:
            y = functional.linear(x, linear.weight, linear.bias)
            return functional.gelu(y, approximate=approximate)

        call = layers if form == "layers" else functions
        if is_trained:
            wanted = [x.requires_grad_(), *linear.parameters()]
            return with_gradients(setting, call, [x], wanted, is_short=True, counts=linear)
        call, counted = setting.compile(call), Counted()

        def check() -> list[float]:
            y = call(x)
            counted.layer(x, y, 2.0 * rows * near * far, is_trained=False)
            return [y.float().mean().item(), y.float().abs().mean().item()]

        return Work(lambda: call(x), check, counted, is_short=True)

    return timed(work)


def cross_entropy(setting: Setting) -> Work:
    """Cross entropy of 32,768 rows of 50,304 scores in bfloat16 under autocast."""
    torch = setting.torch
    rows, words = setting.choose((32768, 50304), (8, 64))
    numbers = Numbers(torch)
    # Rows that repeat: drawing all of them would take longer than the whole row.
    some = numbers.normal(min(rows, 256), words).to(setting.device, torch.bfloat16)
    scores = some.repeat(rows // some.shape[0], 1).requires_grad_()
    targets = numbers.below(words, rows).to(setting.device)
    counted = Counted()
    counted.add(0.0, 2 * Counted.ITEM * rows * words)
    loss_of = setting.compile(torch.nn.functional.cross_entropy)

    def step() -> Any:
        scores.grad = None
        with setting.autocast():
            loss = loss_of(scores, targets)
        loss.backward()
        return loss

    def check() -> list[float]:
        loss = step().item()
        return [loss, scores.grad[: some.shape[0]].float().abs().sum().item()]

    return Work(step, check, counted, is_short=True)


def convnext(width: int) -> Callable[[Any, Setting], Any]:
    return lambda torch, setting: networks.convnext(torch, setting.choose(width, 8), 3)


def all_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for mode in ("autocast", "bfloat16"):
        found[f"gpt2/{mode}"] = timed(
            lambda setting, m=mode: gpt_training(setting, m), limit=60.0, tolerance=0.02
        )
    for mode in ("float32", "bfloat16", "autocast"):
        found[f"small_gpt/{mode}"] = timed(
            lambda setting, m=mode: gpt_training(setting, m, is_small=True), tolerance=0.03
        )
    found["resnet50/autocast_channels_last"] = timed(resnet_training, limit=60.0, tolerance=0.05)
    for name, sizes in CONVOLUTIONS.items():
        found[f"conv/{name}"] = convolution(*sizes)
    found["block/unet_64_128_256"] = block(
        lambda torch, s: networks.unet(torch, s.choose((64, 128, 256), (16, 32))),
        (16, 3, 128, 128),
        (1, 3, 8, 8),
    )
    for width, edge in ((96, 56), (384, 14)):
        found[f"block/convnext_{width}"] = block(
            convnext(width), (128, width, edge, edge), (1, 8, 8, 8)
        )
    for form in ("layers", "functions"):
        for approximate in ("tanh", "none"):
            for is_trained in (False, True):
                what = "forward_backward" if is_trained else "forward"
                which = "tanh" if approximate == "tanh" else "erf"
                found[f"linear_gelu/{form}.{which}.{what}"] = linear_gelu(
                    form, approximate, is_trained
                )
    found["cross_entropy/autocast"] = timed(cross_entropy)
    found["tape/budget_40_percent"] = Case(tapes.budget, 60.0, is_ours=True, can_compile=False)
    found["tape/offload_40_percent"] = Case(tapes.offload, 60.0, is_ours=True, can_compile=False)
    found["curves/500_steps"] = Case(curves.run, limit=90.0, can_compile=False)
    return found


# name -> channels in and out, size of the kernel, edge of the image, stride, groups
CONVOLUTIONS = {
    "7x7_3_64_stride_2": (3, 64, 7, 224, 2),
    "1x1_64_256": (64, 256, 1, 56),
    "1x1_256_64": (256, 64, 1, 56),
    "3x3_64": (64, 64, 3, 56),
    "3x3_128_stride_2": (128, 128, 3, 56, 2),
    "3x3_256": (256, 256, 3, 14),
    "3x3_512": (512, 512, 3, 7),
    "1x1_1024_2048_stride_2": (1024, 2048, 1, 14, 2),
    "1x1_2048_512": (2048, 512, 1, 7),
    "7x7_depthwise_96": (96, 96, 7, 56, 1, 96),
}
