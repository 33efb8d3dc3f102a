"""What offloading costs and saves: python benchmarks/tape_offload.py [--folder F] [--steps N].

For each model and share of the tape that may be in memory, a row: the time of a training step as a
multiple of a step without (median of interleaved steps), what is written and read in a step, the
most bytes of saved values in memory (as the block counts them and as the core does), how far the
process grows during a step, and whether the gradients are bitwise those without.

The growth of the process (VmHWM, reset before the step) is taken in processes of their own, one
with a block and one without.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import tape
from tapegrad.utils._units import human_bytes

SHARES = ("none", "1", "1/2", "1/4", "1/8")


def resident_peak() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def reset_resident_peak() -> int:
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    return resident_peak()


# ---- models: a function that makes (model, loss function)


def transformer() -> tuple[Any, Callable[[], Any]]:
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8)
    x = torch.randn(8, 256, 256)
    return model, lambda: model(x).square().mean()


def convolutions() -> tuple[Any, Callable[[], Any]]:
    parts: list[Any] = [torch.nn.Conv2d(3, 32, 3, padding=1)]
    for _ in range(12):
        parts += [torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU()]
    model = torch.nn.Sequential(*parts)
    x = torch.randn(16, 3, 32, 32)
    return model, lambda: model(x).square().mean()


def perceptron() -> tuple[Any, Callable[[], Any]]:
    parts: list[Any] = []
    for _ in range(24):
        parts += [torch.nn.Linear(512, 512), torch.nn.GELU()]
    model = torch.nn.Sequential(*parts)
    x = torch.randn(4096, 512)
    return model, lambda: model(x).square().mean()


MODELS = {"transformer": transformer, "convolutions": convolutions, "perceptron": perceptron}


def make(name: str) -> tuple[Any, Callable[[], Any]]:
    torch.manual_seed(0)
    return MODELS[name]()


def saved_bytes(loss_of: Callable[[], Any]) -> int:
    """Return what the plain tape saves."""
    before = torch.memory_stats()["saved_bytes"]
    loss = loss_of()
    saved = torch.memory_stats()["saved_bytes"] - before
    del loss
    return saved


def block_for(share: str, whole: int, folder: str) -> Any:
    """Return the block that a share stands for."""
    if share == "none":
        return contextlib.nullcontext()
    over = int(share.partition("/")[2] or 0)
    return tape.offload(folder, memory=whole // over if over else None)


def step(model: Any, loss_of: Callable[[], Any], block: Any) -> float:
    model.zero_grad()
    start = time.perf_counter()
    with block:
        loss_of().backward()
    return time.perf_counter() - start


def measure(name: str, share: str, folder: str, steps: int) -> dict[str, Any]:
    """Take times of interleaved steps."""
    model, loss_of = make(name)
    whole = saved_bytes(loss_of)
    plain, offloaded, blocks = [], [], []
    counted = 0
    equal = True
    for _ in range(steps + 1):
        plain.append(step(model, loss_of, contextlib.nullcontext()))
        expected = [p.grad for p in model.parameters()]
        torch.reset_peak_memory_stats()
        block = block_for(share, whole, folder)
        offloaded.append(step(model, loss_of, block))
        counted = max(counted, torch.memory_stats()["peak_saved_bytes"])
        found = [p.grad for p in model.parameters()]
        equal &= all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        blocks.append(block)
    ratios = [a / b for a, b in zip(offloaded[1:], plain[1:], strict=True)]
    return {
        "whole": whole,
        "plain": statistics.median(plain[1:]),
        "ratio": statistics.median(ratios),
        "written": statistics.median(b.written_bytes for b in blocks),
        "read": statistics.median(b.read_bytes for b in blocks),
        "peak": max(b.peak_memory for b in blocks),
        "counted": counted,
        "equal": equal,
    }


def grow(name: str, share: str, folder: str) -> dict[str, Any]:
    """Take the growth of the process over two steps."""
    model, loss_of = make(name)
    with torch.no_grad():
        loss_of()
    whole = saved_bytes(loss_of) if share not in ("none", "1") else 0
    torch.empty_cache()
    before = reset_resident_peak()
    for _ in range(2):
        step(model, loss_of, block_for(share, whole, folder))
    return {"growth": resident_peak() - before}


def in_child(*arguments: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    output = subprocess.run(
        [sys.executable, os.path.abspath(__file__), *arguments],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    result: dict[str, Any] = json.loads(output)
    return result


def table(folder: str, steps: int) -> None:
    print("| model | allowed | step | written | read | in memory | counted by the core | process |")
    print("|---|---|---|---|---|---|---|---|")
    for name in MODELS:
        for share in SHARES:
            common = ("--folder", folder, "--child", name, share)
            growth = in_child("--grow", *common)["growth"]
            if share == "none":
                model, loss_of = make(name)
                whole = saved_bytes(loss_of)
                seconds = statistics.median(
                    step(model, loss_of, contextlib.nullcontext()) for _ in range(3)
                )
                print(
                    f"| {name} | no block | {seconds * 1000:.0f} ms | | | {human_bytes(whole)} | "
                    f"{human_bytes(whole)} | +{human_bytes(growth)} |"
                )
                continue
            row = in_child("--steps", str(steps), *common)
            over = int(share.partition("/")[2] or 0)
            allowed = human_bytes(row["whole"] // over) + f" ({share})" if over else "no limit"
            print(
                f"| {name} | {allowed} | {row['ratio']:.2f} x | {human_bytes(row['written'])} | "
                f"{human_bytes(row['read'])} | {human_bytes(row['peak'])} | "
                f"{human_bytes(row['counted'])} | +{human_bytes(growth)} |"
                + ("" if row["equal"] else " gradients differ")
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "SHARE"))
    parser.add_argument("--grow", action="store_true")
    arguments = parser.parse_args()
    if not arguments.child:
        table(arguments.folder, arguments.steps)
    elif arguments.grow:
        print(json.dumps(grow(*arguments.child, arguments.folder)))
    else:
        print(json.dumps(measure(*arguments.child, arguments.folder, arguments.steps)))


if __name__ == "__main__":
    main()
