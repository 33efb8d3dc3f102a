"""Time tapegrad beside PyTorch on a CUDA device.

    python -m benchmarks.cuda                       all cases, both libraries in turn
    python -m benchmarks.cuda --case softmax        those with this word in their names
    python -m benchmarks.cuda --only tapegrad       one library, for a quick look
    python -m benchmarks.cuda --out FILE.md         where the table goes

Each library runs in a process of its own. Short calls are timed by the host's clock over many of
them, with one synchronisation at the end, those of a few elements in turn with the bare launch of
an empty kernel; long ones by events of the device around each. Every
figure is a median, with half the distance between the quartiles as its spread. Figures in TB/s
count the bytes that must be read and written once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import cuda_first_step

REPEATS = 15
LIBRARIES = ("tapegrad", "torch")


@dataclass
class Measured:
    """Seconds per call, and what they are worth."""

    seconds: float
    spread: float
    bytes: float = 0.0
    flops: float = 0.0


def summary(samples: list[float]) -> tuple[float, float]:
    low, middle, high = statistics.quantiles(samples, n=4)
    return middle, (high - low) / 2 / middle


class Bench:
    """Cases of one library; a case is a method that returns what to call, by name."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.cuda = torch.device("cuda")
        self.started: dict[str, float] = {}
        self.taken: dict[str, Measured] = {}

    def short(self, call: Callable[[], Any], count: int = 1000) -> tuple[float, float]:
        """Time calls that the host takes longer to make than the device to run."""
        self.sample(call, 50)
        return summary([self.sample(call, count) for _ in range(REPEATS)])

    def sample(self, call: Callable[[], Any], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    def long(self, call: Callable[[], Any]) -> tuple[float, float]:
        """Time calls that keep the device busy.

        A product before the first event keeps it busy until the call has been launched: on an idle
        device the host's time would count.
        """
        event, occupy = self.torch.cuda.Event, self.product(1024)
        for _ in range(3):
            call()
        self.torch.cuda.synchronize()
        samples = []
        for _ in range(REPEATS):
            start, end = event(enable_timing=True), event(enable_timing=True)
            occupy()
            start.record()
            kept = call()  # results that are gone need not be computed
            end.record()
            self.torch.cuda.synchronize()
            del kept
            samples.append(start.elapsed_time(end) / 1000)
        return summary(samples)

    def normal(self, *sizes: int) -> Any:
        return self.torch.randn(*sizes).to(self.cuda)

    def integers(self, high: int, count: int) -> Any:
        return self.torch.randint(high, (count,)).to(self.cuda)

    # ---- what the host takes

    def small(self) -> dict[str, Callable[[], Measured]]:
        torch = self.torch
        x = torch.ones(4, device=self.cuda)
        y = torch.ones(4, device=self.cuda)
        w = torch.ones(4, device=self.cuda, requires_grad=True)
        calls = {
            "add": lambda: x + y,
            "add.recorded": lambda: w + y,
            "mul_number.recorded": lambda: w * 2.0,
            "sin.recorded": lambda: w.sin(),
            "sum.recorded": lambda: w.sum(),
            "matmul_4x4": self.product(4),
        }
        samplers = {name: lambda c=c: self.sample(c, 1000) for name, c in calls.items()}
        if torch.__name__ == "tapegrad":
            for name, early in (("bare launch", False), ("bare launch that starts early", True)):
                samplers[name] = lambda e=early: torch._C._cuda_time_launches(0, 1000, e)
        found = {f"small/{name}": lambda n=name: self.in_turn(samplers)[n] for name in samplers}
        found["small/chain_100.per_op"] = lambda: self.chain(w)
        return found

    def in_turn(self, samplers: dict[str, Callable[[], float]]) -> dict[str, Measured]:
        """Take samples of all in turn, so that what slows the machine down slows all of them."""
        if not self.taken:
            samples: dict[str, list[float]] = {name: [] for name in samplers}
            for _ in range(REPEATS + 1):
                for name, take in samplers.items():
                    samples[name].append(take())
            # The first of each warms up.
            self.taken = {name: Measured(*summary(all[1:])) for name, all in samples.items()}
        return self.taken

    def product(self, size: int, dtype: str = "float32") -> Callable[[], Any]:
        a = self.normal(size, size).to(getattr(self.torch, dtype))
        return lambda: a @ a

    def chain(self, w: Any) -> Measured:
        def run() -> None:
            y = w
            for _ in range(100):
                y = y * 1.01
            y.sum().backward()
            w.grad = None

        seconds, spread = self.short(run, 20)
        return Measured(seconds / 100, spread)

    def steps(self) -> dict[str, Callable[[], Measured]]:
        return {"models/mlp_64x3_batch_32_adam": self.mlp}

    def mlp(self) -> Measured:
        nn, optim = self.torch.nn, self.torch.optim
        layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
        model = nn.Sequential(*layers).to(self.cuda)
        optimizer = optim.Adam(model.parameters())
        x = self.normal(32, 64)
        target = self.integers(10, 32)

        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), target).backward()
            optimizer.step()

        return Measured(*self.short(step, 50))

    def starts(self) -> dict[str, Callable[[], Measured]]:
        """The first training step of a process, with an empty cache of kernels and a full one."""
        name = self.torch.__name__

        def measure() -> dict[str, float]:
            if not self.started:
                found = cuda_first_step.cold_and_warm(name)
                self.started = {when: parts["process"] for when, parts in found.items()}
            return self.started

        return {
            f"start/first_step_of_gpt.{when}": lambda w=when: Measured(measure()[w], 0.0)
            for when in ("cold", "warm")
        }

    # ---- what the device takes

    def bandwidth(self) -> dict[str, Callable[[], Measured]]:
        torch, functional = self.torch, self.torch.nn.functional
        count = 1 << 28
        x, y = self.normal(count), self.normal(count)
        rows = x[: 1 << 27].view(32768, 4096)
        square = x.view(16384, 16384)
        target = self.integers(4096, 32768)
        item = 4.0
        found = {
            "pointwise/add": (lambda: x + y, 3 * count * item),
            "pointwise/relu": (lambda: x.relu(), 2 * count * item),
            "pointwise/gelu": (lambda: functional.gelu(x), 2 * count * item),
            "pointwise/bias": (lambda: rows + y[:4096], 2 * rows.numel() * item),
            "copy/transposed": (lambda: square.t().contiguous(), 2 * count * item),
            "sum/rows": (lambda: square.sum(1), count * item),
            "sum/columns": (lambda: square.sum(0), count * item),
            "sum/all": (lambda: x.sum(), count * item),
            "var/rows": (lambda: square.var(1), count * item),
            "softmax/forward": (lambda: torch.softmax(rows, 1), 2 * rows.numel() * item),
            "layer_norm/forward": (
                lambda: functional.layer_norm(rows, (4096,)),
                2 * rows.numel() * item,
            ),
            "cross_entropy/forward": (
                lambda: functional.cross_entropy(rows, target),
                rows.numel() * item,
            ),
        }
        return {k: lambda c=c, b=b: self.moved(c, b) for k, (c, b) in found.items()}

    def moved(self, call: Callable[[], Any], bytes: float) -> Measured:
        return Measured(*self.long(call), bytes=bytes)

    def backward(self) -> dict[str, Callable[[], Measured]]:
        functional = self.torch.nn.functional

        def sweep(forward: Callable[[Any], Any], passes: int) -> Measured:
            x = self.normal(32768, 4096).requires_grad_()
            y = forward(x)
            g = self.torch.ones_like(y)

            def run() -> None:
                self.torch.autograd.grad(y, x, g, retain_graph=True)

            return self.moved(run, passes * x.numel() * 4.0)

        target = self.integers(4096, 32768)
        return {
            "softmax/backward": lambda: sweep(lambda x: self.torch.softmax(x, 1), 3),
            "layer_norm/backward": lambda: sweep(lambda x: functional.layer_norm(x, (4096,)), 3),
            "cross_entropy/backward": lambda: sweep(
                lambda x: functional.cross_entropy(x, target), 2
            ),
        }

    def elements(self) -> dict[str, Callable[[], Measured]]:
        torch = self.torch
        count = 1 << 24
        x, index = self.normal(count), self.integers(count, count)
        zeros = torch.zeros(count, device=self.cuda)
        table = self.normal(50304, 768).requires_grad_()
        tokens = self.integers(50304, 32768)

        def embedding() -> None:
            torch.nn.functional.embedding(tokens, table).sum().backward()
            table.grad = None

        calls = {
            "sort": lambda: x.sort(),
            "topk": lambda: x.topk(100),
            "cumsum": lambda: x.cumsum(0),
            "gather": lambda: x.gather(0, index),
            "scatter_add": lambda: zeros.scatter_add(0, index, x),
            "index_put": lambda: zeros.index_put((index,), x, accumulate=True),
            "nonzero": lambda: (x > 0).nonzero(),
            "embedding": embedding,
        }
        return {f"16M/{k}": lambda c=c: Measured(*self.long(c)) for k, c in calls.items()}

    def products(self) -> dict[str, Callable[[], Measured]]:
        def timed(size: int, dtype: str, call: Callable[[], Any]) -> Measured:
            clock = self.short if size <= 512 else self.long
            return Measured(*clock(call), flops=2.0 * size**3)

        found = {}
        for size, dtype in ((256, "float32"), (512, "float32"), (1024, "bfloat16")):
            found[f"matmul/{size}.{dtype}"] = lambda s=size, d=dtype: timed(
                s, d, self.product(s, d)
            )
        for name, (a, b) in self.shapes().items():
            flops = 2.0 * a.numel() * b.size(-1)
            found[f"matmul/{name}"] = lambda a=a, b=b, f=flops: Measured(
                *self.short(lambda: a @ b, 200), flops=f
            )
        found["matmul/8192.bfloat16"] = lambda: timed(8192, "", self.product(8192, "bfloat16"))
        found["matmul/8192.tf32"] = self.tf32
        return found

    def shapes(self) -> dict[str, tuple[Any, Any]]:
        """Batches of small products, and products with one short side."""
        half = self.torch.bfloat16
        return {
            "batch_64_of_32.float32": (self.normal(64, 32, 32), self.normal(64, 32, 32)),
            "batch_128_of_128.bfloat16": (
                self.normal(128, 128, 128).to(half),
                self.normal(128, 128, 128).to(half),
            ),
            "vector_by_4096.bfloat16": (
                self.normal(1, 4096).to(half),
                self.normal(4096, 4096).to(half),
            ),
            "16_by_4096.bfloat16": (
                self.normal(16, 4096).to(half),
                self.normal(4096, 4096).to(half),
            ),
            "65536_by_64_by_64.float32": (self.normal(65536, 64), self.normal(64, 64)),
        }

    def tf32(self) -> Measured:
        flags = self.torch.backends.cuda.matmul
        flags.allow_tf32 = True
        try:
            return Measured(*self.long(self.product(8192)), flops=2.0 * 8192**3)
        finally:
            flags.allow_tf32 = False

    def groups(self) -> list[Callable[[], dict[str, Callable[[], Measured]]]]:
        return [
            self.starts, self.small, self.steps, self.bandwidth, self.backward, self.elements,
            self.products,
        ]  # fmt: skip


def run(library: str, words: list[str]) -> dict[str, Any]:
    """Run the cases of one library in this process."""
    torch = importlib.import_module(library)
    bench = Bench(torch)
    results: dict[str, Any] = {}
    for group in bench.groups():
        try:
            cases = group()
        except Exception as error:  # the report names what a library cannot do
            results[f"{group.__name__} (setup)"] = {
                "error": f"{type(error).__name__}: {error}"[:200]
            }
            continue
        for name, case in cases.items():
            if words and not any(word in name for word in words):
                continue
            try:
                results[name] = vars(case())
            except Exception as error:
                results[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        del cases
        torch.cuda.empty_cache()
    return results


def shown(result: dict[str, Any] | None) -> str:
    if result is None:
        return "-"
    if "error" in result:
        return result["error"][:60]
    if result["bytes"]:
        return f"{result['bytes'] / result['seconds'] / 1e12:.2f} TB/s"
    if result["flops"] > 1e11:
        return f"{result['flops'] / result['seconds'] / 1e12:.0f} TFLOP/s"
    if result["seconds"] > 0.1:
        return f"{result['seconds']:.2f} s"
    return f"{result['seconds'] * 1e6:.2f} us"


def table(found: dict[str, dict[str, Any]]) -> str:
    rows = ["| case | tapegrad | +- | torch | +- | ratio |", "|---|---:|---:|---:|---:|---:|"]
    names = list(found.get("tapegrad", found.get("torch", {})))
    for name in names:
        ours, theirs = (found.get(each, {}).get(name) for each in LIBRARIES)
        ratio = ""
        if ours and theirs and "seconds" in ours and "seconds" in theirs:
            ratio = f"{theirs['seconds'] / ours['seconds']:.2f}x"
        spreads = [f"{r['spread']:.0%}" if r and "spread" in r else "" for r in (ours, theirs)]
        rows.append(
            f"| {name} | {shown(ours)} | {spreads[0]} | {shown(theirs)} | {spreads[1]} | {ratio} |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", default=[], help="a word in the name")
    parser.add_argument("--only", choices=LIBRARIES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run(options.child, options.case)))
        return 0
    found: dict[str, dict[str, Any]] = {}
    for library in [options.only] if options.only else LIBRARIES:
        words = [part for word in options.case for part in ("--case", word)]
        command = [sys.executable, "-m", "benchmarks.cuda", "--child", library, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            continue
        found[library] = json.loads(done.stdout.splitlines()[-1])
    text = table(found)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
