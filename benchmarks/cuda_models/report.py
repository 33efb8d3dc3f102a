"""The table of a run, and what it says about the targets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from benchmarks.cuda_models import curves
from benchmarks.cuda_models.cases import Case

Results = dict[str, dict[str, dict[str, Any]]]  # by row, then by column

COLUMNS = ("torch", "torch.compile", "tapegrad")
HEAD = (
    "| case | PyTorch | +- | compiled | tapegrad | +- | ratio | limit | memory: PyTorch "
    "| compiled | tapegrad | values differ by |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}" if seconds else ""
    return ""


def shown(result: dict[str, Any] | None) -> str:
    if result is None:
        return "-"
    return "error" if "error" in result else duration(result["seconds"])


def spread(result: dict[str, Any] | None) -> str:
    return f"{result['spread']:.0%}" if result and result.get("spread") else ""


def memory(result: dict[str, Any] | None) -> str:
    return f"{result['memory'] / 1e9:.2f} GB" if result and result.get("memory") else ""


def ratio(found: dict[str, dict[str, Any]], what: str = "seconds") -> float | None:
    """Return PyTorch's time, or memory, as a multiple of ours."""
    ours, theirs = (found.get(name, {}).get(what) for name in ("tapegrad", "torch"))
    return theirs / ours if ours and theirs else None


def difference(found: dict[str, dict[str, Any]]) -> float | None:
    """Return how far the values of the libraries are apart, as a part of the larger."""
    ours, theirs = (found.get(name, {}).get("values") for name in ("tapegrad", "torch"))
    if not ours or not theirs:
        return None
    if len(ours) != len(theirs) or not all(map(math.isfinite, [*ours, *theirs])):
        return float("inf")
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) / max(abs(a), abs(b), 1e-12) if a != b else 0.0 for a, b in pairs)


def agreement(found: dict[str, dict[str, Any]], case: Case) -> str:
    apart = difference(found)
    if apart is None:
        return ""
    return f"{apart:.1e}" if apart <= case.tolerance else f"{apart:.1e} TOO FAR"


def line(name: str, found: dict[str, dict[str, Any]], case: Case) -> str:
    theirs, compiled, ours = (found.get(column) for column in COLUMNS)
    limits = [each["limit"] for each in (ours, theirs) if each and each.get("limit")]
    times = ratio(found)
    cells = [
        name, shown(theirs), spread(theirs), shown(compiled), shown(ours), spread(ours),
        f"{times:.2f}x" if times else "", duration(limits[0]) if limits else "",
        memory(theirs), memory(compiled), memory(ours), agreement(found, case),
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def notes(name: str, found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield what a row has to say beside its figures."""
    for column, result in found.items():
        if "error" in result:
            yield f"{name}, {column}: {result['error']}"
        elif "note" in result:
            yield f"{name}: {result['note']}"
    both = [found.get(column, {}).get("curves") for column in ("tapegrad", "torch")]
    if all(both):
        part, words = curves.compared(*both)
        yield f"{name}: {part:.2f} of PyTorch's own spread: {words}"


# ---- targets


def targets(results: Results) -> Iterator[tuple[str, str, bool]]:
    """Yield what was promised, what was found, and whether it holds, where it was measured."""
    ours = {row: found["tapegrad"] for row, found in results.items() if "tapegrad" in found}
    good = {row: result for row, result in ours.items() if "error" not in result}
    for row, most in (("gpt2/autocast", 61e-3), ("small_gpt/float32", 3e-3)):
        if row in good:
            seconds = good[row]["seconds"]
            yield f"{row}: at most {duration(most)}", duration(seconds), seconds <= most
    if compiled := results.get("gpt2/autocast", {}).get("torch.compile", {}).get("seconds"):
        part = compiled / good.get("gpt2/autocast", {"seconds": float("inf")})["seconds"]
        yield "gpt2/autocast: faster than torch.compile", f"{part:.2f}x", part > 1
    if "gpt2/autocast" in good:
        held = good["gpt2/autocast"]["memory"]
        yield "gpt2/autocast: at most 20 GB", memory(good["gpt2/autocast"]), held <= 20e9
    yield from ratios(results)
    small = [good.get(f"small_gpt/{mode}", {}).get("seconds") for mode in ("autocast", "bfloat16")]
    if all(small):
        part = small[0] / small[1]
        yield "autocast on a small GPT: at most 10 % more", f"{part:.2f} times", part <= 1.1
    for row, most in (("tape/budget_40_percent", 1.25), ("tape/offload_40_percent", 1.3)):
        if row in good:
            part, same = good[row]["ratio"], good[row]["is_same"]
            words = f"{part:.2f}, {'equal' if same else 'NOT EQUAL'}"
            yield f"{row}: at most {most} times, gradients equal", words, part <= most and same
    for row, found in results.items():
        both = [found.get(column, {}).get("curves") for column in ("tapegrad", "torch")]
        if all(both):
            part, _ = curves.compared(*both)
            yield f"{row}: within PyTorch's own spread", f"{part:.2f} of it", part <= 1


def ratios(results: Results) -> Iterator[tuple[str, str, bool]]:
    """Yield the targets that are ratios beside PyTorch eager."""
    for row, found in results.items():
        least = least_ratio(row)
        if least is None or "tapegrad" not in found or (times := ratio(found)) is None:
            continue
        yield f"{row}: at least {least} times PyTorch's speed", f"{times:.2f}x", times >= least
        if row.startswith("resnet50") and (held := ratio(found, "memory")):
            yield f"{row}: at most PyTorch's memory", f"{held:.2f}x smaller", held >= 1


def least_ratio(row: str) -> float | None:
    if row.startswith("linear_gelu"):
        return 1.2 if row.endswith(".forward") else 1.15
    return 1.0 if row.split("/")[0] in ("resnet50", "conv", "block") else None


def verdicts(results: Results) -> str:
    rows = [
        f"| {promise} | {found} | {'met' if holds else 'NOT MET'} |"
        for promise, found, holds in targets(results)
    ]
    return "\n".join(["| target | found | |", "|---|---:|---|", *rows]) if rows else ""


def text(results: Results, cases: dict[str, Case]) -> str:
    rows = [line(row, found, cases[row]) for row, found in results.items()]
    told = [f"- {words}" for row, found in results.items() for words in notes(row, found)]
    parts = ["\n".join([HEAD, *rows]), "\n".join(told), verdicts(results)]
    return "\n\n".join(part for part in parts if part) + "\n"
