"""Where the time of a row goes: on the device by op, by kernel, by shapes and by line.

The tables are narrow, so that they fit where output is cut; the full ones of the profiler and its
trace go to files.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any

from benchmarks.cuda_models import child
from benchmarks.cuda_models.cases import all_cases
from benchmarks.cuda_models.work import Setting

WIDTH = 110


def run(options: argparse.Namespace) -> int:
    column = options.only or "tapegrad"
    setting = child.setting_for(column, options.device, options.tiny)
    case = all_cases()[options.profile]
    if case.make is None:
        raise SystemExit(f"{options.profile} has no single step to profile")
    work = case.make(setting)
    work.check()
    seconds = plain(setting, work.call, options.steps)
    prof = profiled(setting, work.call, options.steps)
    tables = Tables(prof, setting, options.steps, options.rows)
    print(f"{options.profile}, {column}: {seconds * 1e3:.3f} ms a step without a profile")
    print(tables.counts())
    for text in tables.all():
        print(text + "\n")
    if options.out:
        options.out.write_text("\n".join(tables.full()), encoding="utf-8")
        prof.export_chrome_trace(str(options.out.with_suffix(".trace.json")))
    return 0


def plain(setting: Setting, call: Any, steps: int) -> float:
    for _ in range(3):
        call()
    setting.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        call()
    setting.synchronize()
    return (time.perf_counter() - start) / steps


def profiled(setting: Setting, call: Any, steps: int) -> Any:
    profiler = setting.torch.profiler
    kinds = profiler.ProfilerActivity
    activities = [kinds.CPU, *([kinds.CUDA] if setting.device == "cuda" else [])]
    options = {"activities": activities, "record_shapes": True, "with_stack": True}
    with profiler.profile(**options):  # what a first profile has to load
        call()
    setting.synchronize()
    with profiler.profile(**options) as prof:
        for _ in range(steps):
            call()
        setting.synchronize()
    return prof


class Tables:
    """The averages of a profile, per step."""

    def __init__(self, prof: Any, setting: Setting, steps: int, rows: int) -> None:
        self.prof, self.steps, self.rows = prof, steps, rows
        self.kind = "device" if setting.device == "cuda" else "cpu"
        self.whole = sum(self.time(event) for event in self.sums(prof.events())) or 1.0

    def time(self, event: Any) -> float:
        return float(getattr(event, f"self_{self.kind}_time_total")) / self.steps

    @staticmethod
    def is_kernel(event: Any) -> bool:
        return "cpu" not in str(event.device_type).lower()

    def sums(self, events: Iterable[Any]) -> list[Any]:
        """Return events whose own times add up to all: kernels, or ops where there are none."""
        found = list(events)
        return [event for event in found if self.is_kernel(event)] or found

    def counts(self) -> str:
        """Return how many events there are, and how long the host was inside of ops."""
        averages = self.prof.key_averages()
        kernels = sum(event.count for event in averages if self.is_kernel(event)) / self.steps
        host = sum(event.self_cpu_time_total for event in averages) / self.steps / 1e3
        ops = sum(event.count for event in averages) / self.steps - kernels
        return (
            f"a step: {ops:.0f} events of the host, {host:.3f} ms in them; {kernels:.0f} kernels\n"
        )

    def all(self) -> Iterable[str]:
        averages = self.prof.key_averages()
        busy = f"{self.whole / 1e3:.3f} ms of the {self.kind} a step"
        ops = [event for event in averages if not self.is_kernel(event)]
        yield self.table(f"by op: {busy}", ops)
        if kernels := [event for event in averages if self.is_kernel(event)]:
            yield self.table("by kernel", kernels)
        shapes = self.prof.key_averages(group_by_input_shape=True)
        yield self.table(
            "by op and shapes",
            [event for event in shapes if not self.is_kernel(event)],
            lambda event: str(event.input_shapes).replace(" ", ""),
        )
        lines = self.prof.key_averages(group_by_stack_n=1)
        yield self.table(
            "by op and line",
            [event for event in lines if not self.is_kernel(event)],
            lambda event: short(event.stack[0]) if event.stack else "",
        )

    def table(self, title: str, events: list[Any], more: Any = lambda event: "") -> str:
        events = sorted(events, key=self.time, reverse=True)[: self.rows]
        lines = [f"{title}\n{'us a step':>10} {'part':>6} {'calls':>6}  name"]
        for event in events:
            own = self.time(event)
            if own > 0:
                count = event.count / self.steps
                row = f"{own:10.1f} {own / self.whole:6.1%} {count:6.0f}  "
                lines.append(f"{row}{event.key[:60]} {more(event)}"[:WIDTH].rstrip())
        return "\n".join(lines)

    def full(self) -> Iterable[str]:
        key = f"self_{self.kind}_time_total"
        for grouping in ({}, {"group_by_input_shape": True}, {"group_by_stack_n": 1}):
            averages = self.prof.key_averages(**grouping)
            yield averages.table(sort_by=key, row_limit=300, max_name_column_width=120)


def short(line: str) -> str:
    """Return a line of the program without its folders."""
    return line.rpartition("/")[2]
