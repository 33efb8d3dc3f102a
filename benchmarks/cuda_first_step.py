"""Time from the start of a process to the end of its first training step on a CUDA device.

    python -m benchmarks.cuda_first_step                  tapegrad cold and warm, and PyTorch
    python -m benchmarks.cuda_first_step --only tapegrad

The model is the small GPT of `tapegrad train`: 4 layers, 128 wide, AdamW, gradients clipped. Cold
is with an empty cache of kernels, as after an installation; warm is the same again. What is timed
is the whole process, with the start of Python and the import; its parts stand beside it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

LIBRARIES = ("tapegrad", "torch")
LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCABULARY = 4, 128, 4, 64, 12, 69


def model_of(torch: Any) -> Any:
    """Return the GPT, written with what both libraries have."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.joint, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.feed = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: Any) -> Any:
            shape = (BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS)
            parts = self.joint(self.norms[0](x)).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
            seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
            return x + self.feed(self.norms[1](x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(VOCABULARY, WIDTH)
            self.place = nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(CONTEXT, device=tokens.device)
            return self.scores(self.norm(self.blocks(self.token(tokens) + self.place(places))))

    return GPT()


def step(library: str) -> dict[str, float]:
    """Take the first step in this process; return its seconds and the kernels it asked for."""
    start = time.perf_counter()
    torch = importlib.import_module(library)
    imported = time.perf_counter()
    torch.manual_seed(0)
    model = model_of(torch).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1)).to("cuda")
    moved = time.perf_counter()
    scores = model(tokens[:, :-1])
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    value = loss.item()
    end = time.perf_counter()
    return {
        "import": imported - start,
        "start of CUDA": moved - imported,
        "step": end - moved,
        "loss": value,
    }


def measured(library: str, cache: str) -> dict[str, float]:
    """Run a process with a cache of kernels; return what it took."""
    command = [sys.executable, "-m", "benchmarks.cuda_first_step", "--child", library]
    start = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TAPEGRAD_CACHE": cache}
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return {"process": seconds, **json.loads(done.stdout.splitlines()[-1])}


def cold_and_warm(library: str) -> dict[str, dict[str, float]]:
    """Measure a first use, and the best of three afterwards."""
    with tempfile.TemporaryDirectory() as cache:
        cold = measured(library, cache)
        again = [measured(library, cache) for _ in range(3)]
    return {"cold": cold, "warm": min(again, key=lambda each: each["process"])}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=LIBRARIES)
    parser.add_argument("--child", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(step(options.child)))
        return 0
    for library in [options.only] if options.only else LIBRARIES:
        for name, parts in cold_and_warm(library).items():
            text = ", ".join(f"{part} {value:.2f}" for part, value in parts.items())
            print(f"{library} {name}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
