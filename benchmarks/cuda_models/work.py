"""What a case gives back to be measured, and how it is."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cuda import Bench, summary

BANDWIDTH = 4.3e12  # bytes in a second, of an H200
SPEED = 790e12  # floating-point operations in a second, of matrix products in bfloat16 there
SECONDS = 1.5  # for the samples of a row


@dataclass
class Setting:
    """The library, and where and how large it runs."""

    torch: Any
    device: str
    is_tiny: bool = False
    is_compiled: bool = False

    @property
    def is_ours(self) -> bool:
        return bool(self.torch.__name__ == "tapegrad")

    def choose(self, real: Any, tiny: Any) -> Any:
        return tiny if self.is_tiny else real

    def compile(self, module: Any) -> Any:
        return self.torch.compile(module) if self.is_compiled else module

    def autocast(self, enabled: bool = True) -> Any:
        return self.torch.autocast(self.device, dtype=self.torch.bfloat16, enabled=enabled)

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()


@dataclass
class Work:
    """One row of one library.

    Attributes:
        call: what is timed.
        check: returns numbers that must agree between the libraries; runs first, once.
        counted: the least time that the device needs; known after the check.
        is_short: whether events of the device time each call, rather than the host's clock a
            number of them.
    """

    call: Callable[[], Any]
    check: Callable[[], list[float]]
    counted: Counted = field(default_factory=lambda: Counted())
    is_short: bool = False


# ---- the least time


class Counted:
    """The least time that layers need: of each the time of its bytes or its operations.

    Bytes are those of inputs and outputs of products and convolutions in bfloat16, once forward,
    and backward once each of the gradient that comes in, the input and its gradient. What stands
    between them is taken to cost nothing, as if it were a part of them.
    """

    ITEM = 2.0

    def __init__(self) -> None:
        self.seconds = 0.0
        self.flops = 0.0

    def add(self, flops: float, nbytes: float) -> None:
        self.flops += flops
        self.seconds += max(flops / SPEED, nbytes / BANDWIDTH)

    def layer(self, x: Any, y: Any, flops: float, is_trained: bool = True) -> None:
        """Count a layer by its input, its output and the operations of its forward."""
        inner, outer = self.ITEM * x.numel(), self.ITEM * y.numel()
        self.add(flops, inner + outer)
        if is_trained:
            both = 1 + bool(x.requires_grad)
            self.add(flops * both, outer + inner * both)

    @contextmanager
    def watching(self, torch: Any, model: Any) -> Iterator[None]:
        """Count the layers of a model that run in the block."""

        def count(module: Any, inputs: Any, output: Any) -> None:
            weight = module.weight
            flops = 2.0 * output.numel() * weight.numel() / weight.shape[0]
            self.layer(inputs[0], output, flops)

        kinds = (torch.nn.Linear, torch.nn.Conv2d)
        layers = [each for each in model.modules() if isinstance(each, kinds)]
        handles = [layer.register_forward_hook(count) for layer in layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


# ---- what is measured


def measured(setting: Setting, work: Work) -> dict[str, Any]:
    """Check, warm up, take the peak of memory, then times."""
    values = work.check()
    for _ in range(1 if setting.is_tiny else 3):
        work.call()
    memory = peak_memory(setting, work.call)
    if setting.device == "cuda" and work.is_short and not setting.is_tiny:
        seconds, spread = Bench(setting.torch).long(work.call)
    else:
        seconds, spread = by_the_clock(setting, work.call)
    return {
        "seconds": seconds,
        "spread": spread,
        "memory": memory,
        "values": values,
        "limit": work.counted.seconds,
        "flops": work.counted.flops,
    }


def peak_memory(setting: Setting, call: Callable[[], Any]) -> int:
    """Return the most bytes that tensors held on the device during a call."""
    if setting.device != "cuda":
        return 0
    gc.collect()
    setting.synchronize()
    setting.torch.cuda.reset_peak_memory_stats()
    call()
    setting.synchronize()
    return int(setting.torch.cuda.max_memory_allocated())


def by_the_clock(setting: Setting, call: Callable[[], Any]) -> tuple[float, float]:
    """Time several calls at a time, waiting for the device at the end; median and spread."""

    def sample(count: int) -> float:
        setting.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        setting.synchronize()
        return (time.perf_counter() - start) / count

    if setting.is_tiny:
        return sample(1), 0.0
    once = sample(2)
    count = max(1, min(50, int(SECONDS / 10 / once)))
    repeats = max(3, min(10, int(SECONDS / (count * once))))
    return summary([sample(count) for _ in range(repeats)])


def median_ratio(pairs: list[tuple[float, float]]) -> float:
    return statistics.median(first / second for first, second in pairs)
