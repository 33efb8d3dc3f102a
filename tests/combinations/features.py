"""The features that are combined. Each is one object with a name; a new one is one more entry.

A computation is built in levels, from the outside:

- `call`: how the whole step is called (on another thread),
- `measure`: how the gradient is taken (in parts, by a replay, inside a block),
- `objective`: the function whose gradient is taken (its sum over a vmap),
- `chain`: how the stages of the model follow each other (revolve),
- `stage`: a stage of the model (a checkpoint around it).

A feature has a method for each level at which it can act, and `levels` names them, the usual one
first. In a combination the features nest: the level of each is the same as that of the feature
outside it or one further in, so that a budget may stand around a vmap or inside the function that
is mapped.

A feature that is `transparent` must not change a bit of the result. One that is not makes another
computation; `written_out` is the same computation without the feature, for comparison.
"""

import atexit
import contextlib
import functools
import shutil
import tempfile
import threading
import warnings
from typing import ClassVar

from library import torch

from tapegrad import tape
from tapegrad.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

LEVELS = ("call", "measure", "objective", "chain", "stage")
SEED = 5
forward_ad = torch.autograd.forward_ad


class Feature:
    """What a feature changes: by default nothing."""

    levels = ("measure",)
    transparent = True
    bound = 0.0  # how far results may be off, relative to their norm
    sensitivity = 0.0  # the same for a computation that is written out, which may round differently

    def __init__(self, name):
        self.name = name

    def call(self, step):
        return step

    def measure(self, measure):
        return measure

    def objective(self, objective):
        return objective

    def chain(self, compose):
        return compose

    def stage(self, stage):
        return stage

    def written_out(self):
        """Return a feature that makes the same computation by simpler means."""
        return Feature(f"no {self.name}")


# ---- blocks


class Around(Feature):
    """A context manager around the whole step, around the loss, or around each stage."""

    levels = ("measure", "objective", "stage")

    def __init__(self, name, manager, bound=0.0):
        super().__init__(name)
        self.manager, self.bound = manager, bound

    def _around(self, function):
        def inside(*args):
            with self.manager():
                return function(*args)

        return inside

    measure = objective = stage = _around


@contextlib.contextmanager
def budgeted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tape.BudgetWarning)  # the limit is below what is possible
        with tape.budget("1 KiB"):
            yield


@functools.cache
def folder():
    """Return a folder that outlives the blocks, since a backward may come after them."""
    path = tempfile.mkdtemp(prefix="tapegrad-combinations-")
    atexit.register(shutil.rmtree, path)
    return path


def offloaded():
    return tape.offload(folder(), min_bytes=1)


def cloned():
    return torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x.clone())


class Autocast(Feature):
    """The loss in float32, under autocast to bfloat16."""

    levels = ("objective",)
    transparent = False
    sensitivity = 0.1

    def objective(self, objective):
        def cast(parameters, x):
            narrow = {name: each.float() for name, each in parameters.items()}
            with torch.autocast("cpu"):
                return objective(narrow, x.float() if x.is_floating_point() else x).double()

        return cast

    def written_out(self):
        return self


# ---- the stages


class Checkpoint(Feature):
    """A checkpoint around each stage, or around the loss."""

    levels = ("stage", "objective")
    options: ClassVar[dict] = {}

    def stage(self, stage):
        return lambda state: checkpoint(stage, state, use_reentrant=False, **self.options)

    def objective(self, objective):
        def whole(parameters, x):
            def loss(x, *values):
                return objective(dict(zip(parameters, values, strict=True)), x)

            values = parameters.values()
            return checkpoint(loss, x, *values, use_reentrant=False, **self.options)

        return whole


def keep_products(context, op, *args, **kwargs):
    keep = "mm" in str(op) or "conv" in str(op)
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


class SelectiveCheckpoint(Checkpoint):
    """The same, keeping the results of products."""

    options: ClassVar[dict] = {
        "context_fn": lambda: create_selective_checkpoint_contexts(keep_products)
    }


class Revolve(Feature):
    """The stages are the steps of a loop that keeps two states."""

    levels = ("chain",)

    def chain(self, compose):
        def loop(stages):
            return lambda x: tape.revolve(lambda state, i: stages[i](state), x, len(stages), 2)

        return loop


class After(Feature):
    """A function of the result of each stage."""

    levels = ("stage",)
    transparent = False

    def __init__(self, name, function, plain):
        super().__init__(name)
        self.function, self.plain = function, plain

    def stage(self, stage):
        return lambda state: self.function(stage(state))

    def written_out(self):
        return After(f"plain {self.name}", self.plain, self.plain)


class Sine(torch.autograd.Function):
    """sin, with all that transforms ask of a custom function."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * torch.cos(x)


def changed_in_place(x):
    y = x * 1.0
    y.mul_(1.25).add_(0.1)
    y[..., :1].mul_(0.5)
    return y.sigmoid_()


def changed_out_of_place(x):
    y = x * 1.0 * 1.25 + 0.1
    return torch.cat([y[..., :1] * 0.5, y[..., 1:]], dim=-1).sigmoid()


# ---- the function whose gradient is taken


class Objective(Feature):
    """Makes another function of the loss."""

    levels = ("objective",)
    transparent = False

    def __init__(self, name, transform, plain=None):
        super().__init__(name)
        self.transform, self.plain = transform, plain or transform

    def objective(self, objective):
        return self.transform(objective)

    def written_out(self):
        return Objective(f"plain {self.name}", self.plain)


def mapped(objective):
    def total(parameters, x):
        one = torch.vmap(lambda row: objective(parameters, row.unsqueeze(0)), randomness="same")
        return one(x).sum()

    return total


def looped(objective):
    def total(parameters, x):
        state, found = torch.get_rng_state(), []
        for row in x:
            torch.set_rng_state(state)
            found.append(objective(parameters, row.unsqueeze(0)))
        return torch.stack(found).sum()

    return total


def directions_of(parameters):
    generator = torch.Generator().manual_seed(SEED)
    return [
        torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator)
        for parameter in parameters.values()
    ]


def with_penalty(objective):
    def penalized(parameters, x):
        loss = objective(parameters, x)
        values = list(parameters.values())
        grads = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)
        return loss + 0.1 * sum(grad.square().sum() for grad in grads if grad is not None)

    return penalized


def with_tangent(objective):
    """The loss and the square of its derivative along a direction, which forward mode computes."""

    def function(parameters, x):
        pairs = zip(parameters.items(), directions_of(parameters), strict=True)
        with forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(value, v) for (name, value), v in pairs}
            loss, tangent = forward_ad.unpack_dual(objective(duals, x))
            return loss + 0.1 * tangent.square()

    return function


def with_derivative(objective):
    """The same by reverse mode."""

    def function(parameters, x):
        loss = objective(parameters, x)
        values = list(parameters.values())
        grads = torch.autograd.grad(loss, values, create_graph=True, allow_unused=True)
        pairs = zip(grads, directions_of(parameters), strict=True)
        tangent = sum((grad * v).sum() for grad, v in pairs if grad is not None)
        return loss + 0.1 * tangent.square()

    return function


# ---- how the gradient is taken


class Accumulation(Feature):
    """Two backwards, of the halves of a batch, that add up."""

    transparent = False

    def measure(self, measure):
        def in_parts(objective, parameters, x):
            found = [measure(objective, parameters, part) for part in x.chunk(2)]
            return {**found[-1], "loss": found[0]["loss"] + found[1]["loss"]}

        return in_parts

    def written_out(self):
        return AddedUp(f"plain {self.name}")


class AddedUp(Feature):
    """The gradients of the halves of a batch, added by hand."""

    transparent = False

    def measure(self, measure):
        def in_parts(objective, parameters, x):
            found = []
            for part in x.chunk(2):
                for parameter in parameters.values():
                    parameter.grad = None
                found.append(measure(objective, parameters, part))
            first, second = found
            return {name: _added(first.get(name), second.get(name)) for name in {**first, **second}}

        return in_parts


def _added(a, b):
    return a if b is None else b if a is None else a + b


class Replay(Feature):
    """A step is recorded on another input; this and the next ones are replayed."""

    def measure(self, measure):
        tapes = {}

        def recorded(objective, parameters, x):
            others = [each for each in parameters.values() if each.grad is not None]
            before = [(each, each.grad.clone()) for each in others]
            other = moved(x)
            with tape.record(replay=True, inputs=other) as t:
                found = measure(objective, parameters, other)
            for parameter, grad in before:  # recording added to it
                parameter.grad.copy_(grad)
            return t, found

        def again(objective, parameters, x):
            # Where there were gradients, the recorded step adds to them, and to no others.
            adds = any(each.grad is not None for each in parameters.values())
            if adds or x.shape not in tapes:
                tapes[x.shape] = recorded(objective, parameters, x)
            t, found = tapes[x.shape]
            if adds:
                del tapes[x.shape]
            new = t.replay(x, outputs=list(found.values()))
            return dict(zip(found, new, strict=True))

        return again


class Threads(Feature):
    """The step runs on a thread while another one computes something else."""

    levels = ("call",)

    def call(self, step):
        return lambda: self._run(step)

    @staticmethod
    def _run(function):
        results, errors, done = [], [], threading.Event()

        def work():
            try:
                results.append(function())
            except BaseException as error:  # raised below
                errors.append(error)
            finally:
                done.set()

        def disturb():
            w = torch.ones(8, 8, requires_grad=True)
            while not done.is_set():
                (w @ w).tanh().sum().backward()
                w.grad = None

        threads = [threading.Thread(target=work), threading.Thread(target=disturb)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return results[0]


def moved(x):
    """Another input like this one."""
    return x.flip(0) if not x.is_floating_point() else x.flip(0) * 0.75


FEATURES = (
    Around("budget", budgeted),
    Around("compress", lambda: tape.compress("exact", min_bytes=1)),
    Around("compress int8", lambda: tape.compress("int8", min_bytes=1), bound=0.05),
    Around("offload", offloaded),
    Checkpoint("checkpoint"),
    SelectiveCheckpoint("selective checkpoint"),
    Around("record", tape.record),
    Replay("replay"),
    Revolve("revolve"),
    Objective("vmap", mapped, looped),
    Objective("forward mode", with_tangent, with_derivative),
    Objective("grad of grad", with_penalty),
    Threads("threads"),
    Around("saved-tensor hooks", cloned),
    After("custom Functions", Sine.apply, torch.sin),
    After("in-place nets", changed_in_place, changed_out_of_place),
    Accumulation("accumulation"),
    Around("profile", torch.profiler.profile),
    Autocast("autocast"),
)
