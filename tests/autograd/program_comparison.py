"""Random programs in two places side by side: what is compared, and what may differ.

The places are tapegrad and PyTorch, or two devices of tapegrad's, between which nothing may differ
but rounding. Reports say "here" and "there".
"""

import re
from dataclasses import dataclass

import numpy as np
from library import torch

from autograd.program_machine import (
    Machine,
    ends_when_refused,
    has_history,
    is_sweep,
    pytorch,
    writes,
)
from autograd.program_terms import NAME, address

NOTHING = 1e-6
RELATIVE = {"double": 1e-7, "single": 5e-3}
INPUT = re.compile(r"v\d+ = torch\.tensor\(.*dtype=torch\.float\d+\)(\.requires_grad_\(\))?")
EXCUSES = (
    "modified by an inplace operation",
    "backward through the graph a second time",
    "has been detached in-place",
    "modified inplace. This view is the output of a function that returns multiple views",
)


@dataclass
class Outcome:
    """What became of a program.

    Attributes:
        mismatch: the first difference in words, or None.
        step: the number of the statement that showed it.
        excused: whether it ended where PyTorch alone refused a stale value, with equal gradients.
        measured: whether it ended there, and finite differences gave the same gradients.
        unverified: whether it ended there, and nothing could give the gradients otherwise.
        unsteady: whether it ended where float32 results differ, and PyTorch's own differ as much
            when its inputs are off by a rounding.
        refused: how many statements both places refused.
        sweeps: how many sweeps both places ran.
    """

    mismatch: str | None = None
    step: int = 0
    excused: bool = False
    measured: bool = False
    unverified: bool = False
    unsteady: bool = False
    refused: int = 0
    sweeps: int = 0


class Comparison:
    """Two machines in step, and which variables float32 went into.

    Args:
        lines: the program.
        device: that tapegrad is to run it on, beside tapegrad's CPU; if None, beside PyTorch.
    """

    def __init__(self, lines, device=None):
        self.lines = lines
        self.reference = torch if device else pytorch
        self.ours, self.theirs = Machine(torch, device), Machine(self.reference)
        self.rough = set()
        self.rough_grads = False
        self.families = {}, {}
        self.outcome = Outcome()
        self.refused_sweeps = set()

    def run(self):
        """Run the program until it ends or shows a difference; return the outcome."""
        try:
            return self.run_in_step()
        finally:
            self.ours.clear()
            self.theirs.clear()

    def run_in_step(self):
        for step, line in enumerate(self.lines):
            self.outcome.step = step
            their_error, our_error = self.theirs.run(line), self.ours.run(line)
            if their_error is None and our_error is None:
                self.outcome.sweeps += is_sweep(line)
                try:
                    problem = self.differences(line)
                except RuntimeError as error:  # PyTorch looked at every tensor while generating.
                    problem = f"looking at a tensor gives {shown(error)} here"
            elif their_error is None or our_error is None:
                if our_error is None and self.is_excused(their_error):
                    self.compare_leniently(step)
                    return self.outcome
                problem = f"{shown(our_error)} here, {shown(their_error)} there"
            elif type(our_error).__name__ != type(their_error).__name__:
                problem = f"{shown(our_error)} here, {shown(their_error)} there"
            elif type(our_error) is AttributeError or isinstance(our_error, NameError):
                problem = f"{shown(our_error)} here and there: not a program"
            else:
                self.outcome.refused += 1
                if ends_when_refused(line):
                    return self.outcome
                if is_sweep(line):  # Hooks may have run before it was refused.
                    self.refused_sweeps.add(step)
                    self.ours.variables["log"].clear()
                    self.theirs.variables["log"].clear()
                problem = self.flag_differences()
            if problem:
                both_ran = their_error is None and our_error is None
                self.outcome.unsteady = both_ran and bool(self.rough) and self.is_unsteady(step)
                self.outcome.mismatch = None if self.outcome.unsteady else problem
                return self.outcome
        self.outcome.mismatch = self.value_differences(list(self.theirs.variables))
        return self.outcome

    def is_excused(self, error):
        """Whether PyTorch refuses what tapegrad need not."""
        return self.reference is pytorch and any(excuse in str(error) for excuse in EXCUSES)

    def differences(self, line):
        self.spread_roughness(line)
        names = NAME.findall(line)
        if writes(line) and not is_sweep(line):
            names += self.relatives(names)
        return (
            self.value_differences(names)
            or self.flag_differences(None if writes(line) else set(names))
            or (is_sweep(line) and self.gradient_differences())
            or self.log_differences()
        )

    def relatives(self, names):
        """Return the variables that share memory with some others."""
        tensors = self.theirs.tensors()
        memory = {address(tensors[name]) for name in names if name in tensors}
        return [name for name, tensor in tensors.items() if address(tensor) in memory]

    def value_differences(self, names):
        for name in names:
            if not NAME.fullmatch(name) or name not in self.theirs.variables:
                continue
            mine, other = self.ours.variables[name], self.theirs.variables[name]
            problem = compare(mine, other, rough=name in self.rough)
            if problem:
                return f"{name}: {problem}"
        return None

    def log_differences(self):
        """Compare what hooks saw, apart from zeros: whether those are passed on is no promise.

        A gradient that cancels is zero in one library and the last bit of something in the other.
        """
        mine, other = (
            [grad for grad in machine.variables["log"] if bool((grad.abs() > NOTHING).any())]
            for machine in (self.ours, self.theirs)
        )
        for log in (mine, other):  # Which of two leaves is reached first is no promise either.
            log.sort(key=lambda grad: (grad.dim(), tuple(grad.shape), round(float(grad.sum()), 4)))
        problem = compare(mine, other, rough=bool(self.rough))
        return f"seen by hooks: {problem}" if problem else None

    def flag_differences(self, names=None):
        """Compare what can be seen of tensors besides values: of all, or of those just made."""
        ours, theirs = self.ours.tensors(), self.theirs.tensors()
        if names is None:  # A tensor may be gone, and another one be where it was.
            self.families = {}, {}
        for name, other in theirs.items():
            if (names is not None and name not in names) or not has_history(other):
                continue
            mine = flags(name, ours[name], self.families[0])
            wanted = flags(name, other, self.families[1])
            if mine != wanted:
                pairs = [
                    f"{flag} is {a} here, {b} there"
                    for flag, a, b in zip(FLAGS, mine, wanted, strict=True)
                    if a != b
                ]
                return f"{name}: {'; '.join(pairs)}"
        return None

    def gradient_differences(self):
        for name, other in self.theirs.tensors().items():
            if has_history(other) and (other.is_leaf or other.retains_grad):
                rough = self.rough_grads
                problem = compare(self.ours.variables[name].grad, other.grad, rough=rough)
                if problem:
                    return f"{name}.grad: {problem}"
        return None

    def spread_roughness(self, line):
        """Mark what a statement made of float32: float64 results of that are rough as well."""
        tensors = self.theirs.tensors()
        named = [name for name in NAME.findall(line) if name in self.theirs.variables]
        single = "float32" in line or any(
            name in self.rough
            or (name in tensors and tensors[name].dtype == self.reference.float32)
            for name in named
        )
        if not single:
            return
        self.rough_grads |= is_sweep(line)
        self.rough |= {*named, *self.relatives(named)}

    def is_unsteady(self, step):
        """Whether the answers there change when inputs are off by a rounding of float32."""
        reference = self.reference
        for seed in range(8):
            machine, random = Machine(reference), np.random.default_rng(seed)
            for line in self.lines[: step + 1]:
                machine.run(line)
                if INPUT.match(line):
                    leaf = machine.variables[NAME.match(line).group()]
                    signs = random.choice([-1.0, 1.0], tuple(leaf.shape))
                    eps = reference.finfo(reference.float32).eps
                    leaf.data.mul_(1 + eps * reference.tensor(signs))
            moved = any(
                compare(machine.variables.get(name), self.theirs.variables[name], rough=True)
                for name in NAME.findall(" ".join(self.lines[: step + 1]))
                if name in self.theirs.variables
            )
            machine.clear()
            if moved:
                return True
        return False

    def compare_leniently(self, step):
        """Compare a sweep that only PyTorch refuses with PyTorch's answer to a lenient program."""
        line = lenient(self.lines[step])
        # Not allow_mutation_on_saved_tensors(): it misses writes to a saved view through its base.
        with pytorch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
            machine = Machine(pytorch)
            for number, earlier in enumerate(self.lines[:step]):
                if number not in self.refused_sweeps:
                    machine.run(lenient(earlier))
            if machine.run(line) is not None:
                self.compare_with_differences(step)
                return
            self.theirs = machine
            self.spread_roughness(line)
            result = NAME.match(line)
            problem = result and compare(
                self.ours.variables[result.group()],
                machine.variables[result.group()],
                rough=result.group() in self.rough,
            )
            # What a refused sweep has left in .grad, a lenient one does not tell.
            problem = problem or (not self.refused_sweeps and self.gradient_differences())
        if problem:
            self.outcome.mismatch = f"a sweep that PyTorch refuses, run leniently there: {problem}"
        self.outcome.excused = not problem

    def compare_with_differences(self, step):
        """Compare a sweep that PyTorch cannot run at all with finite differences of the program."""
        slopes = Slopes(self.lines, step)
        if self.rough_grads or self.rough or not slopes.apply():
            self.outcome.unverified = True
            return
        found = self.ours.variables[NAME.match(self.lines[step]).group()]
        problem = slopes.difference(found)
        if problem:
            self.outcome.mismatch = f"a sweep that PyTorch refuses: {problem}"
        self.outcome.measured = not problem


class Slopes:
    """Finite differences of what a program sweeps back from, along a random direction.

    They are the gradient only where the program does nothing to gradients behind the values' back,
    and where every value that the sweep crosses is float64.
    """

    SWEEP = re.compile(
        r"g\d+ = torch\.autograd\.grad\((.+), \[(.+)\], allow_unused=True, \w+=True\)"
    )
    UNFIT = re.compile(r"no_grad|detach|register_hook|requires_grad_?\(False|float32|int64\)|del ")
    STEP = 1e-5

    def __init__(self, lines, step):
        self.lines = lines[:step]
        self.sweep = self.SWEEP.fullmatch(lines[step])
        self.directions = {}

    def apply(self):
        return self.sweep and not any(self.UNFIT.search(line) for line in self.lines)

    def loss(self, scale):
        """Return what the sweep starts from when the leaves are moved along the direction."""
        machine = Machine(torch)
        leaves = self.sweep.group(2).split(", ")
        random = np.random.default_rng(0)
        for line in self.lines:
            if is_sweep(line):
                continue
            machine.run(line)
            name = NAME.match(line)
            if name and name.group() in leaves:
                leaf = machine.variables[name.group()]
                direction = self.directions.setdefault(
                    name.group(), random.standard_normal(tuple(leaf.shape))
                )
                with torch.no_grad():
                    leaf.add_(torch.tensor(direction, dtype=leaf.dtype) * scale)
        value = eval(self.sweep.group(1), machine.variables).item()
        machine.clear()
        return value

    def difference(self, found):
        slope = (self.loss(self.STEP) - self.loss(-self.STEP)) / (2 * self.STEP)
        along = sum(
            float((grad.detach().clone().numpy() * self.directions[name]).sum())
            for grad, name in zip(found, self.sweep.group(2).split(", "), strict=True)
            if grad is not None
        )
        if abs(slope - along) <= 1e-5 * max(1.0, abs(slope)):
            return None
        return f"{along} along a direction here, {slope} by finite differences"


def lenient(line):
    """Return a statement with every graph retained and nothing detached in place."""
    line = re.sub(r"(v\d+)\.detach_\(\)", r"\1 = \1.detach()", line)
    if is_sweep(line) and "_graph=True" not in line:
        line = line.replace(".backward()", ".backward(retain_graph=True)")
        line = line.replace("allow_unused=True, )", "allow_unused=True, retain_graph=True)")
    return line


FLAGS = ("dtype", "shape", "stride", "requires_grad", "is_leaf", "_version", "base")


def flags(name, tensor, families):
    """Return what can be seen of a tensor besides its values.

    Instead of its base it gives the first variable with the same base, so that it makes no
    difference whether an op returns a view of a tensor that nobody can name.
    """
    shape = tuple(tensor.shape)
    stride = tensor.stride() if tensor.numel() else ()
    base = tensor._base
    return (
        str(tensor.dtype),
        shape,
        # The stride of a dimension of size 1 moves nothing, and is nobody's promise.
        tuple(step for step, size in zip(stride, shape, strict=False) if size != 1),
        tensor.requires_grad,
        tensor.is_leaf,
        tensor._version,
        families.setdefault(id(tensor if base is None else base), name),
    )


def shown(error):
    return "nothing is refused" if error is None else f"{type(error).__name__}({str(error)[:300]})"


def compare(mine, other, *, rough):
    """Return what differs between two values; ``rough`` ones have float32's precision."""
    if isinstance(other, (tuple, list)):
        if len(mine) != len(other):
            return f"{len(mine)} values here, {len(other)} there"
        problems = (compare(a, b, rough=rough) for a, b in zip(mine, other, strict=True))
        return next((problem for problem in problems if problem), None)
    if mine is None or other is None:
        return None if mine is other else f"{mine} here, {other} there"
    if not hasattr(other, "numpy"):
        return None
    if str(mine.dtype) != str(other.dtype) or tuple(mine.shape) != tuple(other.shape):
        return f"{mine.dtype} {tuple(mine.shape)} here, {other.dtype} {tuple(other.shape)} there"
    a, b = mine.detach().clone().numpy(force=True), other.detach().clone().numpy(force=True)
    if np.array_equal(a, b):
        return None
    if b.dtype.kind == "f":
        relative = RELATIVE["single" if rough or b.dtype == np.float32 else "double"]
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        if np.allclose(a, b, rtol=relative, atol=relative * scale, equal_nan=True):
            return None
    return f"{a.reshape(-1)[:6].tolist()} here, {b.reshape(-1)[:6].tolist()} there"
