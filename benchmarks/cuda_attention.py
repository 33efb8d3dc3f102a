"""Time attention in bfloat16 on a CUDA device.

    python -m benchmarks.cuda_attention tapegrad
    python -m benchmarks.cuda_attention torch --heads 16 --tokens 32768

One library in a process: 16 heads, causal, 32,768 tokens in batches of sequences of each length.
Figures are medians in TFLOP/s, where the products that a causal mask leaves count: 2 of the
forward, 5 more of the backward. The last line is JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

REPEATS = 15
SHAPES = [(length, width) for width in (64, 128) for length in (1024, 4096, 8192)]


def seconds(torch: Any, call: Callable[[], Any]) -> float:
    """Return the median time on the device of one call, which begins behind other work."""
    event = torch.cuda.Event
    busy = torch.ones(4096, 4096, device="cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    samples = []
    for _ in range(REPEATS):
        start, end = event(enable_timing=True), event(enable_timing=True)
        busy @ busy
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / 1000)
    return statistics.median(samples)


def host_microseconds(torch: Any, call: Callable[[], Any], count: int = 300) -> float:
    """Return what a call of a few elements takes the host."""
    for _ in range(20):
        call()
    samples = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        samples.append((time.perf_counter() - start) / count)
        torch.cuda.synchronize()
    return statistics.median(samples) * 1e6


def run(library: str, heads: int, tokens: int) -> dict[str, float]:
    torch = importlib.import_module(library)
    attend = torch.nn.functional.scaled_dot_product_attention
    found: dict[str, float] = {}
    for length, width in SHAPES:
        batch = max(1, tokens // length)
        sizes = (batch, length, heads, width)
        q, k, v = (
            torch.randn(sizes).to("cuda", torch.bfloat16).transpose(1, 2).requires_grad_()
            for _ in range(3)
        )
        grad = torch.randn(sizes).to("cuda", torch.bfloat16).transpose(1, 2)
        products = batch * heads * length * length * width * 2 / 2  # one, causal

        def forward(q: Any = q, k: Any = k, v: Any = v) -> Any:
            with torch.no_grad():
                return attend(q, k, v, is_causal=True)

        def both(q: Any = q, k: Any = k, v: Any = v, grad: Any = grad) -> Any:
            return torch.autograd.grad(attend(q, k, v, is_causal=True), (q, k, v), grad)

        for name, call, count in (("forward", forward, 2), ("both", both, 7)):
            rate = products * count / seconds(torch, call) / 1e12
            found[f"{length} x {width} {name} TFLOP/s"] = round(rate, 1)
            print(f"{library} {length} x {width} {name}: {rate:.1f} TFLOP/s", flush=True)
    x = torch.randn(1, 64, 2, 64).to("cuda", torch.bfloat16).transpose(1, 2).requires_grad_()
    found["host us, recorded"] = round(
        host_microseconds(torch, lambda: attend(x, x, x, is_causal=True)), 2
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=("tapegrad", "torch"))
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=32768)
    given = parser.parse_args()
    print(json.dumps(run(given.library, given.heads, given.tokens)))


if __name__ == "__main__":
    main()
