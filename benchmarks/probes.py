"""Measurements whose every sample is a fresh process: import, memory, stack depth, sizes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable

from benchmarks.case import Probe, Row
from benchmarks.harness import CHILDREN, Plan, child_environment

PROBE_TIMEOUT = 600.0


class ProbeError(RuntimeError):
    """The script failed; the message is the last line it wrote."""


def _stack_limiter(kib: int | None) -> Callable[[], None] | None:
    if kib is None:
        return None
    limit = kib * 1024
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    return lambda: resource.setrlimit(resource.RLIMIT_STACK, (limit, hard))


def run_once(probe: Probe, module: str, plan: Plan) -> dict[str, float]:
    """One fresh process, one set of metrics."""
    try:
        result = subprocess.run(
            [sys.executable, str(CHILDREN / probe.script), module, *probe.arguments],
            capture_output=True,
            text=True,
            env=child_environment(plan.threads),
            timeout=PROBE_TIMEOUT,
            preexec_fn=_stack_limiter(probe.stack_kib),
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{module}: no result within {PROBE_TIMEOUT:.0f} s") from None
    if result.returncode != 0:
        message = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise ProbeError(f"{module}: exit status {result.returncode}: {message}")
    metrics: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return metrics


def measure(probe: Probe, module_a: str, module_b: str, plan: Plan) -> list[Row]:
    """Alternate fresh processes of both sides, the order swapped each round."""
    rows: dict[str, Row] = {}
    errors: dict[bool, str] = {}
    sides = [(True, module_a)] if probe.only_a else [(True, module_a), (False, module_b)]
    for index in range(probe.quick_rounds if plan.quick else probe.rounds):
        for is_a, module in sides if index % 2 == 0 else reversed(sides):
            if is_a in errors:
                continue
            try:
                metrics = run_once(probe, module, plan)
            except ProbeError as error:
                errors[is_a] = str(error)
                continue
            for metric, value in metrics.items():
                name = f"{probe.name}.{metric}" if metric else probe.name
                row = rows.setdefault(metric, Row(probe.family, name, probe.units.get(metric, "s")))
                (row.a if is_a else row.b).append(value)
    if errors and not rows:
        rows[""] = Row(probe.family, probe.name)
    for row in rows.values():
        row.note = "; ".join(errors.values())
    return list(rows.values())
