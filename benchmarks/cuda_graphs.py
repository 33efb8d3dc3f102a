"""Time a step of a small GPT on a GPU, eager and as a CUDA graph, where launches take the time.

    python -m benchmarks.cuda_graphs tapegrad
    python -m benchmarks.cuda_graphs torch

One library in a process. The model has 4 layers of width 128 with 4 heads, reads one sequence of 64
tokens of 256 kinds, in float32, and AdamW trains it (fused). A step is zero_grad, forward, loss,
backward and the optimizer's step. Times are medians, in milliseconds, of blocks of steps with one
synchronisation each. The last line is JSON:

    eager_ms, graph_ms      a step
    graph_host_ms           what the host takes for a replay, without waiting
    capture_ms, nodes       how long the capture takes, and how much it holds (tapegrad)
    plain_order_ms          a graph in which no kernel starts early (tapegrad)
    difference              the largest difference of a parameter, after 20 steps of each kind
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

LAYERS, WIDTH, HEADS, TOKENS, VOCABULARY = 4, 128, 4, 64, 256
BLOCKS, STEPS = 31, 50


def make_model(torch: Any) -> Any:
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.feed = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            parts = self.mix(self.norms[0](x)).chunk(3, dim=-1)
            q, k, v = (p.view(batch, tokens, HEADS, -1).transpose(1, 2) for p in parts)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, WIDTH))
            return x + self.feed(self.norms[1](x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens: Any, places: Any) -> Any:
            return self.head(self.norm(self.blocks(self.token(tokens) + self.place(places))))

    torch.manual_seed(0)
    return Model().cuda()


class Training:
    """A model and what a step of it needs."""

    def __init__(self, torch: Any, capturable: bool) -> None:
        self.torch = torch
        self.model = make_model(torch)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-3, fused=True, capturable=capturable
        )
        self.places = torch.arange(TOKENS, device="cuda")[None]
        self.tokens = self.places * 7 % VOCABULARY
        self.targets = self.places * 11 % VOCABULARY

    def step(self) -> Any:
        functional = self.torch.nn.functional
        self.optimizer.zero_grad(set_to_none=True)
        scores = self.model(self.tokens, self.places)
        loss = functional.cross_entropy(scores.view(-1, VOCABULARY), self.targets.view(-1))
        loss.backward()
        self.optimizer.step()
        return loss

    def capture(self) -> tuple[Any, Any, float]:
        """Return a graph of a step, the loss that it writes, and the seconds it took."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        start = time.perf_counter()
        with torch.cuda.graph(graph):
            loss = self.step()
        return graph, loss, time.perf_counter() - start


def time_steps(torch: Any, step: Callable[[], Any], blocks: int = BLOCKS) -> tuple[float, float]:
    """Return the milliseconds of a step, and those that the host takes to ask for it."""
    for _ in range(10):
        step()
    whole, host = [], []
    for _ in range(blocks):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        host.append(time.perf_counter() - start)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - start)
    return tuple(1e3 * statistics.median(each) / STEPS for each in (whole, host))  # type: ignore[return-value]


def compare(torch: Any, steps: int = 20) -> float:
    """Return how far parameters are apart that plain steps and replays have made."""
    plain, captured = Training(torch, True), Training(torch, True)
    graph, _, _ = captured.capture()
    for _ in range(3):  # those before the capture
        plain.step()
    for _ in range(steps):
        plain.step()
        graph.replay()
    pairs = zip(plain.model.parameters(), captured.model.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("library", choices=("tapegrad", "torch"))
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    found: dict[str, Any] = {
        "library": options.library,
        "version": str(torch.__version__),
        "device": torch.cuda.get_device_name(),
    }
    eager = Training(torch, False)
    found["eager_ms"], found["eager_host_ms"] = time_steps(torch, eager.step, options.blocks)
    if options.library == "tapegrad":
        before = torch._C._cuda_start_early_in_graphs(False)
        graph, _, _ = Training(torch, True).capture()
        found["plain_order_ms"], _ = time_steps(torch, graph.replay, options.blocks)
        torch._C._cuda_start_early_in_graphs(before)
    training = Training(torch, True)
    graph, loss, seconds = training.capture()
    found["capture_ms"] = 1e3 * seconds
    found["graph_ms"], found["graph_host_ms"] = time_steps(torch, graph.replay, options.blocks)
    found["loss"] = loss.item()
    if options.library == "tapegrad":
        found["nodes"] = graph._node_count
    found["difference"] = compare(torch)
    found["reserved_mib"] = torch.cuda.memory_reserved() / 2**20
    print(json.dumps(found))


if __name__ == "__main__":
    main()
