"""What a model would take on many processes: memory of each, time of a step, communication.

    python -m tapegrad.distributed.plan gpt:layers=12,width=768 --ranks 1024 --bandwidth 25e9
    python -m tapegrad.distributed.plan train.py:make --ranks 64 --batch 8 --memory 80e9

The model is built on the meta device and run there once, forward and backward, which gives its
parameters, the work and what the tape saves. The rest is arithmetic: docs/distributed.md has the
formulas. ``file.py:function`` names a function that takes the number of samples of one process and
returns a model and a function of no arguments that computes its loss.
"""

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import tapegrad
from tapegrad import _C

__all__ = ["Machine", "Plan", "Profile", "main", "plans", "profile"]


@dataclass
class Profile:
    """What a step of one process takes, without any other.

    Attributes:
        parameters: bytes of the parameters.
        unit: bytes of the largest part that `fully_shard` gathers at a time.
        outer: bytes of the parameters outside of these parts.
        state: bytes of an optimizer's state.
        saved: bytes that the tape saves for backward.
        largest: bytes of the largest saved value.
        flops: floating-point operations, forward and backward.
        rows: bytes of the outputs of every second linear layer, which tensor parallelism sums.
        cut: bytes of what goes from one part to the next.
        layers: the number of parts.
        samples: of one process.
    """

    parameters: int
    unit: int
    outer: int
    state: int
    saved: int
    largest: int
    flops: int
    rows: int
    cut: int
    layers: int
    samples: int


@dataclass
class Machine:
    """What processes run on.

    Attributes:
        flops: floating-point operations per second of a process.
        bandwidth: bytes per second that a process sends, while it receives as many.
        latency: seconds that a message takes at least.
        overlap: the part of backward's time behind which communication hides, 0 to 1.
    """

    flops: float
    bandwidth: float
    latency: float = 5e-6
    overlap: float = 0.0


@dataclass
class Plan:
    """A way to divide the work, with its price.

    Attributes:
        name: the way.
        memory: bytes of each process at the worst moment.
        compute: seconds of arithmetic in a step.
        communication: seconds of communication in a step, hidden or not.
        step: seconds of a step.
        sent: bytes that a process sends in a step.
        samples_per_second: of all processes together.
    """

    name: str
    memory: int
    compute: float
    communication: float
    step: float
    sent: int
    samples_per_second: float


# ---- what the model takes


def _nbytes(values: Any) -> int:
    return sum(value.numel() * value.element_size() for value in values)


def _units(model: Any) -> list[Any]:
    """Return the parts of a model that are gathered at a time: what its longest list holds."""
    lists: list[Any] = [m for m in model.modules() if isinstance(m, tapegrad.nn.ModuleList)]
    if lists:
        longest: Any = max(lists, key=lambda each: _nbytes(each.parameters()))
        return list(longest)
    children: list[Any] = list(model.children())
    return [child for child in children if any(True for _ in child.parameters())]


class _Watch:
    """Adds up what the tape saves and what layers return."""

    def __init__(self, model: Any) -> None:
        self.saved: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no storage takes another's number
        self.linear: list[int] = []
        self.cuts: list[int] = [0]
        self.own = {_C._storage_id(p) for p in (*model.parameters(), *model.buffers())}
        units = set(_units(model))
        for module in model.modules():
            if isinstance(module, tapegrad.nn.Linear):
                module.register_forward_hook(self._note(self.linear))
            if module in units:
                module.register_forward_hook(self._note(self.cuts))

    @staticmethod
    def _note(sizes: list[int]) -> Callable[..., None]:
        def note(module: Any, inputs: Any, output: Any) -> None:
            sizes.append(_nbytes([output]) if isinstance(output, tapegrad.Tensor) else 0)

        return note

    def pack(self, value: Any) -> Any:
        """Take note of a saved value."""
        number = _C._storage_id(value)
        if number not in self.own and number not in self.saved:
            self.saved[number] = value.untyped_storage().nbytes()
            self.kept.append(value.detach())
        return value


def profile(make: Callable[[int], Any], samples: int, state_bytes: int = 8) -> Profile:
    """Run a model once on the meta device, and return what it takes.

    Args:
        make: called with the number of samples; returns a model and a function that computes its
            loss.
        samples: of one process.
        state_bytes: bytes of an optimizer's state for each parameter; Adam's in float32 are 8.

    Example:
        >>> from tapegrad.distributed import plan
        >>> found = plan.profile(plan.model_of("mlp:width=64,layers=2"), samples=4)
        >>> found.parameters, found.layers
        (33280, 2)
    """
    from tapegrad.utils.flop_counter import FlopCounterMode

    with tapegrad.device("meta"):
        model, loss = make(samples)
        params = [p for p in model.parameters() if p.requires_grad]
        watch = _Watch(model)
        with FlopCounterMode(display=False) as counter:
            with tapegrad.autograd.graph.saved_tensors_hooks(watch.pack, lambda value: value):
                result = loss()
            result.backward()
    units = [_nbytes(unit.parameters()) for unit in _units(model)] or [0]
    total = _nbytes(model.parameters())
    return Profile(
        parameters=total,
        unit=max(units),
        outer=max(total - sum(units), 0),
        state=state_bytes * sum(p.numel() for p in params),
        saved=sum(watch.saved.values()),
        largest=max(watch.saved.values(), default=0),
        flops=counter.get_total_flops(),
        rows=sum(watch.linear[1::2]),
        cut=max(watch.cuts),
        layers=len(units),
        samples=samples,
    )


# ---- what it costs on several processes


def _ring(size: float, ranks: int, rounds: int, machine: Machine) -> tuple[float, float]:
    """Return seconds and bytes sent of collectives in a ring, each of which sends all but a part.

    Args:
        size: bytes of the whole.
        ranks: the processes.
        rounds: 1 for a gather or a reduction to parts, 2 for a reduction to all.
        machine: the machine.
    """
    sent = rounds * size * (ranks - 1) / ranks
    return sent / machine.bandwidth + rounds * (ranks - 1) * machine.latency, sent


def _plan(
    name: str, memory: float, compute: float, costs: list[tuple[float, float]], hidden: float,
    samples: int, machine: Machine,
) -> Plan:  # fmt: skip
    seconds, sent = (sum(each) for each in zip(*costs, strict=True)) if costs else (0.0, 0.0)
    step = compute + max(0.0, seconds - machine.overlap * hidden)
    return Plan(name, round(memory), compute, seconds, step, round(sent), samples / step)


def plans(found: Profile, ranks: int, machine: Machine, microbatches: int = 8) -> Iterator[Plan]:
    """Return the ways to divide a model between processes, with their prices.

    Args:
        found: what the model takes.
        ranks: the processes.
        machine: what they run on.
        microbatches: into how many parts a pipeline divides a batch.
    """
    # The worst moment is the beginning of backward, with all that the tape saved, or its end, with
    # all gradients: what was saved goes as gradients come.
    p, s, work = found.parameters, found.state, found.saved + 2 * found.largest
    unit, outer = found.unit, found.outer
    compute = found.flops / machine.flops
    backward = compute * 2 / 3
    samples = found.samples * ranks
    reduce_all = _ring(p, ranks, 2, machine)
    part = _ring(p, ranks, 1, machine)
    # Gradients lie in buckets a second time while they are reduced.
    dense = p + max(work, 2 * p if ranks > 1 else p)
    yield _plan("ddp", dense + s, compute, [reduce_all], backward, samples, machine)
    yield _plan(
        "zero-1", dense + s / ranks, compute, [reduce_all, part], backward, samples, machine
    )
    # Of a unit: the parameters and the buffer that they come in, at the end also those of the next,
    # gradients, one that is being computed, and these twice as rows for all processes.
    parts, grads = (p + s) / ranks, p / ranks
    begins, ends = work + outer + 2 * unit, grads + max(outer + 7 * unit, 4 * outer)
    memory = parts + max(begins, ends)
    yield _plan("fsdp", memory, compute, [part] * 3, backward, samples, machine)
    memory = parts + p + max(work, grads + 4 * max(unit, outer))
    yield _plan("fsdp, kept after forward", memory, compute, [part] * 2, backward, samples, machine)
    for size in _powers(ranks, 8):
        yield _tensor_plan(found, ranks, size, machine)
    for stages in _powers(ranks, found.layers):
        yield _pipeline_plan(found, ranks, stages, machine, microbatches)


def _powers(ranks: int, most: int) -> list[int]:
    """Return the powers of two that divide the processes, from 2 to a limit."""
    powers = (2**k for k in range(1, ranks.bit_length()))
    return [size for size in powers if size <= most and ranks % size == 0]


def _tensor_plan(found: Profile, ranks: int, size: int, machine: Machine) -> Plan:
    """Price layers that are divided, with copies of the divided model."""
    copies = ranks // size
    compute = found.flops / machine.flops / size
    p = found.parameters / size
    # What layers return whole is saved by every process; that is what they sum.
    work = max(found.saved / size, found.rows) + 2 * found.largest
    memory = p + found.state / size + max(work, 2 * p if copies > 1 else p)
    costs = [_ring(2 * found.rows, size, 2, machine), _ring(p, copies, 2, machine)]
    name = f"tensor {size} x copies {copies}"
    return _plan(name, memory, compute, costs, 0.0, found.samples * copies, machine)


def _pipeline_plan(
    found: Profile, ranks: int, stages: int, machine: Machine, microbatches: int
) -> Plan:
    """Price a pipeline of one forward and one backward in turn, with copies of it."""
    copies = ranks // stages
    bubble = (microbatches + stages - 1) / microbatches
    compute = found.flops / machine.flops / stages * bubble
    p = found.parameters / stages
    under_way = min(stages, microbatches) / microbatches
    work = found.saved / stages * under_way + 2 * found.largest / microbatches
    # Gradients are there from the first part of a batch on, while others are under way.
    memory = 2 * p + found.state / stages + max(work, p if copies > 1 else 0)
    sent = 2 * found.cut
    between = sent / machine.bandwidth + 2 * microbatches * machine.latency, float(sent)
    costs = [between, _ring(p, copies, 2, machine)]
    name = f"pipeline {stages} x copies {copies}"
    return _plan(name, memory, compute, costs, 0.0, found.samples * copies, machine)


# ---- models by name


def _gpt(layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257,
         length: int = 1024) -> Callable[[int], Any]:  # fmt: skip
    nn = tapegrad.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                each.unflatten(-1, (heads, -1)).transpose(1, 2)
                for each in self.qkv(self.norm(x)).chunk(3, -1)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.place = nn.Parameter(tapegrad.zeros(length, width))
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)

        def forward(self, index: Any) -> Any:
            x = self.embed(index) + self.place
            for block in self.blocks:
                x = block(x)
            return nn.functional.linear(self.norm(x), self.embed.weight)

    def make(samples: int) -> Any:
        model = GPT()
        index = tapegrad.zeros(samples, length, dtype=tapegrad.int64)

        def loss() -> Any:
            return nn.functional.cross_entropy(model(index).flatten(0, 1), index.flatten())

        return model, loss

    return make


def _mlp(layers: int = 4, width: int = 1024) -> Callable[[int], Any]:
    nn = tapegrad.nn

    def make(samples: int) -> Any:
        parts = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
        model = nn.Sequential(*parts)
        x = tapegrad.zeros(samples, width)
        return model, lambda: model(x).square().mean()

    return make


_MODELS = {"gpt": _gpt, "mlp": _mlp}


def model_of(text: str) -> Callable[[int], Any]:
    """Return the function that a name on the command line stands for.

    Args:
        text: ``gpt`` or ``mlp``, with numbers as in ``gpt:layers=12,width=768``, or
            ``file.py:function``.
    """
    name, _, rest = text.partition(":")
    if name in _MODELS:
        pairs = [each.partition("=") for each in rest.split(",") if each]
        try:
            return _MODELS[name](**{key: int(value) for key, _, value in pairs})
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"plan: expected numbers by name, as in {name}:layers=2: {error}"
            ) from (error)
    if not name.endswith(".py") or not rest:
        raise ValueError(f"plan: expected {', '.join(_MODELS)} or file.py:function, got {text!r}")
    spec = importlib.util.spec_from_file_location("planned", name)
    if spec is None or spec.loader is None:
        raise ValueError(f"plan: {name} cannot be read")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, rest)


# ---- the command


def _shown(number: float, units: str = " kMGTPE") -> str:
    power = min(int(math.log(number, 1000)), len(units) - 1) if number >= 1 else 0
    return f"{number / 1000**power:.3g}{units[power].strip()}"


def _table(found: list[Plan], most: float | None) -> str:
    rows = [("", "memory", "step", "computing", "communication", "sent", "samples/s")]
    for plan in sorted(found, key=lambda each: -each.samples_per_second):
        note = "  does not fit" if most is not None and plan.memory > most else ""
        rows.append((
            plan.name, _shown(plan.memory) + "B", f"{plan.step * 1e3:.3g} ms",
            f"{plan.compute * 1e3:.3g} ms", f"{plan.communication * 1e3:.3g} ms",
            _shown(plan.sent) + "B", _shown(plan.samples_per_second) + note,
        ))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def main(arguments: list[str] | None = None) -> int:
    """Print what a model would take.

    Args:
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m tapegrad.distributed.plan")
    parser.add_argument("model", help="gpt:layers=12,width=768, mlp:..., or file.py:function")
    parser.add_argument("--ranks", type=int, default=8, help="the number of processes")
    parser.add_argument("--batch", type=int, default=8, help="samples of each process")
    parser.add_argument("--flops", type=float, default=400e12, help="per second of a process")
    parser.add_argument("--bandwidth", type=float, default=25e9, help="bytes per second of each")
    parser.add_argument("--latency", type=float, default=5e-6, help="seconds of a message")
    parser.add_argument("--overlap", type=float, default=0.0, help="0 to 1, of backward")
    parser.add_argument("--state", type=int, default=8, help="optimizer's bytes per parameter")
    parser.add_argument("--microbatches", type=int, default=8, help="of a pipeline")
    parser.add_argument("--memory", type=float, help="bytes that a process has")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    if min(given.ranks, given.batch, given.microbatches) < 1:
        parser.error("--ranks, --batch and --microbatches must be positive")
    if min(given.flops, given.bandwidth) <= 0 or not 0 <= given.overlap <= 1:
        parser.error("--flops and --bandwidth must be positive, --overlap between 0 and 1")
    try:
        found = profile(model_of(given.model), given.batch, given.state)
    except ValueError as error:
        parser.error(str(error))
    machine = Machine(given.flops, given.bandwidth, given.latency, given.overlap)
    ways = list(plans(found, given.ranks, machine, given.microbatches))
    if given.json:
        print(json.dumps({"profile": asdict(found), "plans": [asdict(each) for each in ways]}))
        return 0
    print(
        f"{given.model}: {_shown(found.parameters)}B of parameters, {_shown(found.saved)}B saved "
        f"and {_shown(found.flops)} operations for {given.batch} samples; {given.ranks} processes"
    )
    print(_table(ways, given.memory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
