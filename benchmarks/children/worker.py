"""The worker process: imports one library as `torch` and times the statements it is sent.

Usage: worker.py MODULE. One JSON request per line on stdin, one JSON reply per line on stdout.
Between requests it blocks on the pipe, so it costs nothing while its peer is measured. It imports
nothing from the rest of the package: whatever it loads would weigh on what it measures.
"""

from __future__ import annotations

import ast
import gc
import importlib
import itertools
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

MAX_ITERATIONS = 1_000_000
FINGERPRINT_SIZE = 100_000
LONGEST_PREEMPTION = 0.1  # a loop longer than this is slow by itself
WARM_UP_LIMIT = 5e-3  # a statement slower than this warms itself up within its own sample


class Inputs:
    """Input arrays, equal on both sides: a function of shape, range and dtype, and of order.

    Arrays are kept between cases, because drawing 16M numbers costs more than timing one op on
    them. Each call clones, so every library holds its inputs in memory from its own allocator.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._arrays: dict[tuple[Any, ...], np.ndarray] = {}
        self._drawn = 0

    def start_case(self) -> None:
        self._drawn = 0
        if sum(array.nbytes for array in self._arrays.values()) > 1 << 30:
            self._arrays.clear()

    def uniform(
        self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32"
    ) -> Any:
        key = ("uniform", shape, low, high, dtype, self._next())
        return self._tensor(key, lambda rng: rng.uniform(low, high, shape).astype(dtype))

    def integers(self, *shape: int, low: int = 0, high: int = 2, dtype: str = "int64") -> Any:
        key = ("integers", shape, low, high, dtype, self._next())
        return self._tensor(key, lambda rng: rng.integers(low, high, shape).astype(dtype))

    def _next(self) -> int:
        self._drawn += 1
        return self._drawn

    def _tensor(
        self, key: tuple[Any, ...], draw: Callable[[np.random.Generator], np.ndarray]
    ) -> Any:
        if key not in self._arrays:
            self._arrays[key] = draw(np.random.default_rng(key[-1]))
        return self._torch.from_numpy(self._arrays[key]).clone()


def find(torch: Any, name: str) -> Callable[..., Any]:
    """The op called `name`, as function of the module, of nn.functional, or as Tensor method."""
    functional = getattr(getattr(torch, "nn", None), "functional", None)
    special = getattr(torch, "special", None)
    for owner in (torch, functional, special, torch.Tensor):
        function = getattr(owner, name, None)
        if callable(function):
            return function  # type: ignore[no-any-return]
    raise AttributeError(f"{torch.__name__} has no op named {name}")


def fingerprint(value: Any) -> list[Any]:
    """Enough of a result to tell whether two libraries computed the same thing."""
    if isinstance(value, (tuple, list)):
        return [fingerprint(item) for item in value]
    if value is None:
        return []
    array = np.asarray(value.detach().numpy()) if hasattr(value, "detach") else np.asarray(value)
    step = max(1, array.size // FINGERPRINT_SIZE)
    numbers = array.reshape(-1)[::step].astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    mean, scale = (finite.mean(), np.abs(finite).mean()) if finite.size else (0.0, 0.0)
    return [
        str(array.dtype),
        list(array.shape),
        float(mean),
        float(scale),
        int(numbers.size - finite.size),
    ]


def compile_sampler(statements: list[str], namespace: dict[str, Any]) -> Callable[..., Any]:
    """A function that runs the statements in a tight loop and returns the seconds of each.

    The names a statement uses become parameters, hence locals: the loop pays the cheapest lookup
    Python has, and both sides pay the same.
    """
    nodes = itertools.chain.from_iterable(ast.walk(ast.parse(text)) for text in statements)
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    parameters = ", ".join(["_repeats", "_clock", *sorted(used & namespace.keys())])
    lines = [f"def sample({parameters}):"]
    for index, text in enumerate(statements):
        lines.append(f"    _t{index} = _clock()")
        lines.append(f"    for _round in _repeats[{index}]:")
        lines.extend("        " + line for line in text.splitlines())
    lines.append(f"    _t{len(statements)} = _clock()")
    differences = ", ".join(f"_t{i + 1} - _t{i}" for i in range(len(statements)))
    lines.append(f"    return [{differences}]")
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    function = scope["sample"]
    arguments = {name: namespace[name] for name in used & namespace.keys()}

    def sample(iterations: int) -> list[float]:
        repeats = [itertools.repeat(None, iterations) for _ in statements]
        return [t / iterations for t in function(repeats, time.perf_counter, **arguments)]

    return sample


def waited_seconds() -> float:
    """How long this process's threads have stood in the run queue, ready but without a core."""
    waited = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/schedstat") as schedstat:
                waited += int(schedstat.read().split()[1])
        except OSError:  # the thread ended, or the kernel keeps no such statistics
            continue
    return waited * 1e-9


class Worker:
    def __init__(self, module: str) -> None:
        self._torch = importlib.import_module(module)
        self._inputs = Inputs(self._torch)
        self._sample: Callable[[int], list[float]] | None = None
        self._iterations = 1
        self._warm_up = False
        self._cores = os.sched_getaffinity(0)

    def hello(self, threads: int) -> dict[str, Any]:
        self._torch.set_num_threads(threads)
        return {
            "version": str(getattr(self._torch, "__version__", "unknown")),
            "threads": self._torch.get_num_threads(),
        }

    def pointwise_table(self) -> dict[str, Any]:
        """The library's own table of pointwise ops, or None where it offers none."""
        reader = getattr(getattr(self._torch, "_C", None), "pointwise_table", None)
        return {"table": None if reader is None else [dict(entry) for entry in reader()]}

    def prepare(
        self, setup: str, statements: list[str], check: str | None, looped: bool, target: float
    ) -> dict[str, Any]:
        """Build the state of a case, run it once, and find how many runs fill a sample."""
        self.release()
        self._inputs.start_case()
        namespace = self._scope()
        exec(compile(setup, "<setup>", "exec"), namespace)
        agreed = self._evaluate(statements, check, namespace)

        if check is not None:  # the statement may have changed its state: start afresh
            self._inputs.start_case()
            namespace = self._scope()
            exec(compile(setup, "<setup>", "exec"), namespace)
        sample = compile_sampler(statements, namespace)
        self._sample = sample
        self._iterations = self._calibrate(sample, target) if looped else 1
        seconds = sum(sample(self._iterations))
        self._warm_up = looped and seconds < WARM_UP_LIMIT
        return {
            "fingerprint": agreed,
            "iterations": self._iterations,
            "seconds": seconds * self._iterations,
        }

    def sample(self, core: int, share: float) -> dict[str, Any]:
        """One timed loop of the calibrated length, or a share of it, pinned to the given core."""
        assert self._sample is not None, "sample: no case is prepared; send prepare first"
        iterations = max(1, int(self._iterations * share))
        os.sched_setaffinity(0, {core})
        try:
            if self._warm_up:
                self._sample(max(1, self._iterations // 10))
            before = waited_seconds()
            seconds = self._sample(iterations)
            waited = waited_seconds() - before
        finally:
            self._unpin()
        return {"seconds": seconds, "waited": waited / (sum(seconds) * iterations)}

    def _unpin(self) -> None:
        """Every thread, not only this one: a pool born during the sample inherited the pin."""
        for task in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(task), self._cores)

    def release(self) -> dict[str, Any]:
        self._sample = None
        gc.collect()
        return {}

    def _scope(self) -> dict[str, Any]:
        return {
            "torch": self._torch,
            "uniform": self._inputs.uniform,
            "integers": self._inputs.integers,
            "find": lambda name: find(self._torch, name),
        }

    @staticmethod
    def _evaluate(statements: list[str], check: str | None, namespace: dict[str, Any]) -> list[Any]:
        if check is None:
            try:
                code = compile(statements[0], "<statement>", "eval")
            except SyntaxError:
                raise ValueError(
                    f"case: a statement that is no expression needs a check: {statements[0]!r}"
                ) from None
            return fingerprint(eval(code, namespace))
        for text in statements:
            exec(compile(text, "<statement>", "exec"), namespace)
        return fingerprint(eval(check, namespace))

    @staticmethod
    def _calibrate(sample: Callable[[int], list[float]], target: float) -> int:
        """How many runs fill `target` seconds.

        The fastest of three decides: one preempted loop taken at its word would leave too few
        runs in a sample, and cold caches would then pass for a slow op.
        """
        iterations = 1
        while True:
            seconds = sample(iterations)[0] * iterations
            if seconds < LONGEST_PREEMPTION:
                seconds = min(seconds, *(sample(iterations)[0] * iterations for _ in range(2)))
            fitting = max(1, math.ceil(iterations * target / max(seconds, 1e-9)))
            if seconds >= target / 2 or iterations == MAX_ITERATIONS:
                return min(fitting, MAX_ITERATIONS)
            growth = min(max(2.0, fitting / iterations), 100.0)
            iterations = min(MAX_ITERATIONS, math.ceil(iterations * growth))


def serve(module: str) -> None:
    # Replies own the original stdout; whatever a library prints goes to stderr instead.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker = Worker(module)
    gc.disable()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            worker.release()
            reply = {
                "error": f"{type(error).__name__}: {error}".split("\n")[0],
                "traceback": traceback.format_exc(),
            }
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    serve(sys.argv[1])
