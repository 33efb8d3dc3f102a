"""Time a training step of a GPT on a GPU, eager and by torch.compile.

    python -m benchmarks.cuda_compiled gpt2     124M parameters, 32 x 1,024 tokens, autocast
    python -m benchmarks.cuda_compiled small    4 layers of 128, one sequence of 64 tokens, float32

AdamW trains it (fused). Prints JSON: milliseconds of a step as medians of blocks, what the host
takes of that, seconds of the first three calls, memory that was reserved, and the losses of the
first eight steps, which must be the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import tapegrad as torch
from tapegrad import nn
from tapegrad.nn import functional


class Sizes(NamedTuple):
    layers: int
    heads: int
    width: int
    tokens: int
    vocabulary: int
    batch: int
    half: bool
    steps: int  # of a block


SIZES = {
    "gpt2": Sizes(12, 12, 768, 1024, 50304, 32, True, 5),
    "small": Sizes(4, 4, 128, 64, 256, 1, False, 50),
    "tiny": Sizes(1, 2, 16, 8, 32, 2, True, 1),
}


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        parts = self.mix(self.norm1(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.token = nn.Embedding(sizes.vocabulary, sizes.width)
        self.place = nn.Embedding(sizes.tokens, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes.width, sizes.heads) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, tokens: Any, places: Any) -> Any:
        x = self.token(tokens) + self.place(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def make_step(sizes: Sizes) -> Callable[[Any, Any], Any]:
    torch.manual_seed(0)
    model = GPT(sizes).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    places = torch.arange(sizes.tokens, device="cuda")
    vocabulary, half = sizes.vocabulary, sizes.half

    def step(tokens: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            scores = model(tokens, places).view(-1, vocabulary)
            loss = functional.cross_entropy(scores, targets.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def measure(name: str, kind: str, blocks: int) -> dict[str, Any]:
    """Return what is known of one kind of step."""
    sizes = SIZES[name]
    shape = sizes.batch, sizes.tokens
    step: Any = make_step(sizes)
    if kind == "compiled":
        step = torch.compile(step)
    text = torch.arange(shape[0] * (shape[1] + 1), device="cuda").view(shape[0], -1) * 7
    tokens = (text[:, :-1] % sizes.vocabulary).contiguous()
    targets = (text[:, 1:] % sizes.vocabulary).contiguous()
    start = time.perf_counter()
    losses = [step(tokens, targets) for _ in range(3)]
    torch.cuda.synchronize()
    found: dict[str, Any] = {"first_s": time.perf_counter() - start}
    losses += [step(tokens, targets) for _ in range(5)]
    found["losses"] = [each.item() for each in losses]
    whole, host = [], []
    for _ in range(blocks):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(sizes.steps):
            step(tokens, targets)
        host.append(time.perf_counter() - start)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - start)
    found["ms"] = 1e3 * statistics.median(whole) / sizes.steps
    found["host_ms"] = 1e3 * statistics.median(host) / sizes.steps
    found["reserved_mib"] = torch.cuda.memory_reserved() / 2**20
    if kind == "compiled":
        explained = torch.compiler.explain(step)
        found["traces"], found["reasons"] = len(explained.traces), explained.reasons
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("model", choices=tuple(SIZES))
    parser.add_argument("--blocks", type=int, default=7)
    options = parser.parse_args()
    found = {}
    for kind in ("eager", "compiled"):
        found[kind] = measure(options.model, kind, options.blocks)
        torch.cuda.empty_cache()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
