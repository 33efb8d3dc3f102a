"""What a limit on the tape costs: GPT-2 124M with 40 % of its tape, tapegrad alone."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Any

from benchmarks.cuda_models.training import gpt_parts
from benchmarks.cuda_models.work import Setting, median_ratio, peak_memory

SHARE = 0.4
REPEATS = 6


class Steps:
    """Training steps of a GPT that move nothing: at a learning rate of zero all are the same."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.model, self.tokens, self.targets = gpt_parts(setting, "autocast")
        self.parameters = list(self.model.parameters())
        self.optimizer = setting.torch.optim.AdamW(self.parameters, lr=0.0, fused=True)

    def take(self, block: Any) -> float:
        """Take a step inside a block; return its seconds."""
        self.setting.synchronize()
        start = time.perf_counter()
        self.optimizer.zero_grad()
        with block:
            with self.setting.autocast():
                loss = self.model(self.tokens, self.targets)
            loss.backward()
        self.optimizer.step()
        self.setting.synchronize()
        return time.perf_counter() - start

    def gradients(self) -> list[Any]:
        return [parameter.grad for parameter in self.parameters]

    def tape(self) -> int:
        """Return the bytes that the tape saves without a limit."""
        with self.setting.torch.tape.budget(1 << 60) as free:
            self.take(contextlib.nullcontext())
        return int(free.peak)


def compared(setting: Setting, block_for: Any, report: Any) -> dict[str, Any]:
    """Take steps with and without a block in turn."""
    with warnings.catch_warnings():
        # What cannot be met shows in the peak.
        warnings.simplefilter("ignore", setting.torch.tape.BudgetWarning)
        return in_turn(setting, block_for, report)


def has_same_gradients(torch: Any, steps: Steps, block: Any) -> bool:
    """Whether a block changes no bit, where sums of attention and embeddings keep their order."""
    torch.use_deterministic_algorithms(True)
    try:
        steps.take(contextlib.nullcontext())
        expected = steps.gradients()
        steps.take(block)
        found = zip(expected, steps.gradients(), strict=True)
        return all(torch.equal(a, b) for a, b in found)
    finally:
        torch.use_deterministic_algorithms(False)


def in_turn(setting: Setting, block_for: Any, report: Any) -> dict[str, Any]:
    torch, steps = setting.torch, Steps(setting)
    plain = contextlib.nullcontext
    for _ in range(2):
        steps.take(plain())
    whole = steps.tape()
    pairs, block = [], None
    for _ in range(2 if setting.is_tiny else REPEATS + 1):
        without = steps.take(plain())
        block = block_for(whole)
        pairs.append((steps.take(block), without))
    is_same = has_same_gradients(torch, steps, block_for(whole))
    memory = peak_memory(setting, lambda: steps.take(plain()))
    limited = peak_memory(setting, lambda: steps.take(block_for(whole)))
    ratio = median_ratio(pairs[1:])
    seconds = sorted(first for first, _ in pairs[1:])[len(pairs[1:]) // 2]
    same = "gradients bitwise equal" if is_same else "GRADIENTS DIFFER"
    return {
        "seconds": seconds,
        "spread": 0.0,
        "memory": limited,
        "values": [],
        "limit": 0.0,
        "ratio": ratio,
        "is_same": is_same,
        "note": f"{ratio:.2f} times the step without, {same}; tape {whole / 2**30:.2f} GiB, "
        f"memory without {memory / 2**30:.2f} GiB, {report(block, whole)}",
    }


def budget(setting: Setting) -> dict[str, Any]:
    def report(block: Any, whole: int) -> str:
        share = block.peak / whole if whole else 0.0
        return f"peak {share:.0%} of the tape, {block.evictions} evictions"

    def block_for(whole: int) -> Any:
        return setting.torch.tape.budget(int(whole * SHARE))

    return compared(setting, block_for, report)


def offload(setting: Setting) -> dict[str, Any]:
    def report(block: Any, whole: int) -> str:
        return f"{block.copied_bytes / 2**30:.2f} GiB copied to the host"

    def block_for(whole: int) -> Any:
        least = setting.choose("1 MiB", "1 KiB")
        if setting.device == "cpu":  # where nothing moves
            return setting.torch.tape.offload("cpu", min_bytes=least)
        # What is not in the host's memory stays on the device.
        return setting.torch.tape.offload("cpu", memory=int(whole * (1 - SHARE)), min_bytes=least)

    return compared(setting, block_for, report)
