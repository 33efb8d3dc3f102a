"""Whole training steps beside PyTorch's, layers that weigh in them, and the memory of a step."""

from __future__ import annotations

from benchmarks.case import Benchmark, Case, Probe

# name in `children/models.py` -> what the report calls it
_MODELS = {
    "mlp": "mlp_64x3_batch_32_adam",
    "cnn": "cnn_32x32_batch_32",
    "resnet18": "resnet18_64x64_batch_8",
    "resnet18_last": "resnet18_64x64_batch_8_channels_last",
    "lstm": "lstm_128_64_steps_batch_16",
    "gpt_64": "gpt_4x128_64_tokens_batch_8",
    "gpt_128": "gpt_4x128_128_tokens_batch_8",
    "gpt_256": "gpt_4x128_256_tokens_batch_8",
}

_STEP = """\
optimizer.zero_grad()
loss = loss_of()
loss.backward()
optimizer.step()"""

# name -> (shape of input, shape of weight, arguments): forward and backward of one convolution.
_CONVOLUTIONS = {
    "conv_3x3_64": ((8, 64, 32, 32), (64, 64, 3, 3), "padding=1"),
    "conv_3x3_64_stride_2": ((8, 64, 32, 32), (128, 64, 3, 3), "padding=1, stride=2"),
    "conv_1x1_64_256": ((8, 64, 28, 28), (256, 64, 1, 1), ""),
    "conv_1x1_256_64": ((8, 256, 28, 28), (64, 256, 1, 1), ""),
    "conv_depthwise_3x3": ((8, 128, 28, 28), (128, 1, 3, 3), "padding=1, groups=128"),
    "conv_depthwise_3x3_stride_2": (
        (8, 128, 28, 28),
        (128, 1, 3, 3),
        "padding=1, stride=2, groups=128",
    ),
}


def cases(table: object) -> list[Benchmark]:
    found: list[Benchmark] = [
        Case(
            "models",
            label,
            _STEP,
            f"from models import MODELS\noptimizer, loss_of = MODELS[{name!r}](torch)",
            check="loss",
            budget=4.0,
        )
        for name, label in _MODELS.items()
    ]
    for name, (x, weight, arguments) in _CONVOLUTIONS.items():
        setup = (
            f"x, w = uniform(*{x}).requires_grad_(), uniform(*{weight}).requires_grad_()\n"
            f"g = torch.ones_like(torch.conv2d(x, w, None, {arguments}))"
        )
        statement = f"torch.autograd.grad(torch.conv2d(x, w, None, {arguments}), (x, w), g)"
        found.append(Case("models", name, statement, setup, budget=1.5))
        last = "contiguous(memory_format=torch.channels_last).requires_grad_()"
        setup = (
            f"x, w = uniform(*{x}).{last}, uniform(*{weight}).{last}\n"
            f"g = torch.ones_like(torch.conv2d(x, w, None, {arguments}))"
        )
        found.append(Case("models", f"{name}_channels_last", statement, setup, budget=1.5))
    found.append(
        Case(
            "models",
            "attention_1024_tokens",
            "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
            "grads = torch.autograd.grad(y, (q, k, v), g)",
            "q, k, v = (uniform(2, 4, 1024, 64).requires_grad_() for _ in range(3))\n"
            "g = uniform(2, 4, 1024, 64)",
            check="(y, *grads)",
            budget=3.0,
        )
    )
    return found


def memory(table: object) -> list[Benchmark]:
    units = {"peak": "B", "allocator": "B"}
    return [
        Probe("model_memory", label, "model_memory.py", (name,), units, estimate=6)
        for name, label in _MODELS.items()
    ]
