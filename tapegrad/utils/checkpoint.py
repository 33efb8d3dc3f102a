"""Activation checkpointing: backward computes again what forward did not keep.

Without reentry, a block of `saved_tensors_hooks` replaces every value that the function saves by a
`_Place`: its number in the order of saving. When a backward first asks for one of them, the
function runs again with the same inputs and random numbers, and what it saves is put into the
places, by number, each taken out once. The function's inputs are themselves saved on the tape, by
an entry of their own outside the block: so they are guarded against writes, freed with the graph,
and packed by an outer checkpoint in turn, which is all that nesting needs.

With reentry, an op of its own runs the function without recording it, and its backward runs the
function again with recording and sweeps through that record.

Both see again what the first call saw: random numbers, default dtype, modes of modules (`_replay`).
"""

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd import backward as run_backward
from tapegrad.autograd._vmap_numbers import VmapNumbers
from tapegrad.autograd.forward_ad import _outside_levels
from tapegrad.autograd.function import Function
from tapegrad.autograd.graph import saved_tensors_hooks
from tapegrad.cuda import random as cuda_random
from tapegrad.utils._kept import Kept
from tapegrad.utils._pytree import tree_leaves
from tapegrad.utils._replay import Surroundings, behind, has_tangents, lasting
from tapegrad.utils._selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
    unseen_calls,
)
from tapegrad.utils._sites import Site, here

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

_early_stop = True
_debug: bool | None = None


class CheckpointError(RuntimeError):
    """A function did not save the same values when it ran again."""


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that do nothing: the default of ``context_fn``.

    Example:
        >>> with torch.utils.checkpoint.noop_context_fn()[0]:
        ...     pass
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the GPUs that tensors among the arguments are on, and the states of their generators.

    Args:
        *args: objects, and containers of them.
    """
    tensors = (x for x in tree_leaves(args) if isinstance(x, Tensor) and x.is_cuda)
    devices = [x.get_device() for x in tensors]
    return devices, [cuda_random.get_rng_state(index) for index in devices]


def set_device_states(
    devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None
) -> None:
    """Set the states of generators that `get_device_states` returned.

    Args:
        devices: numbers of GPUs.
        states: one for each.
        device_type: ``"cuda"``, also if left out; with ``"meta"`` nothing is done.
    """
    if device_type not in (None, "cuda", "meta"):
        raise RuntimeError(f"set_device_states: there are no devices of type {device_type!r}")
    if device_type == "meta":
        return
    for index, state in zip(devices, states, strict=False):
        cuda_random.set_rng_state(state, index)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Decide, inside a block, whether a function runs again only up to the last value needed.

    Args:
        enable: False runs functions to their end.

    Example:
        >>> with torch.utils.checkpoint.set_checkpoint_early_stop(False):
        ...     pass
    """
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


class _Group(threading.local):
    current: Any = None


_group = _Group()


class GraphExecGroup:
    """Let several backwards, inside a block, share what a checkpointed call computed again.

    What one of them has used is gone: they should go through different parts of the graph. A part
    that is needed once more is computed once more.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False)
        >>> with torch.utils.checkpoint.GraphExecGroup():
        ...     y.sum().backward()
    """

    def __enter__(self) -> "GraphExecGroup":
        if _group.current is not None:
            raise RuntimeError(
                "GraphExecGroup: GraphExecGroup contexts cannot be nested; leave the first one"
            )
        _group.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        _group.current = None


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Override the ``debug`` argument of `checkpoint` inside a block.

    Args:
        enabled: True or False for all calls; None leaves it to each.

    Example:
        >>> with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):
        ...     pass
    """
    global _debug
    previous, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = previous


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values with their tensors cut off from history, requiring grad as they did.

    Args:
        inputs: a tuple.

    Example:
        >>> x = torch.ones(2, requires_grad=True) * 2
        >>> detached, number = torch.utils.checkpoint.detach_variable((x, 3))
        >>> detached.is_leaf, detached.requires_grad, number
        (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "detach_variable: Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        each.detach().requires_grad_(each.requires_grad) if isinstance(each, Tensor) else each
        for each in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor among the inputs requires grad.

    Args:
        inputs: values.

    Example:
        >>> torch.utils.checkpoint.check_backward_validity([torch.ones(2, requires_grad=True)])
    """
    if not any(isinstance(each, Tensor) and each.requires_grad for each in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def _put_back(
    values: list[Any], places: list[int], tensors: tuple[Tensor, ...], need_grad: list[bool]
) -> None:
    """Put saved inputs among the other arguments, as leaves that need the gradients they did."""
    for place, tensor, need in zip(places, tensors, need_grad, strict=True):
        values[place] = tensor.detach().requires_grad_(need)


# ---- without reentry


class _Place:
    """Stands on the tape for a value that is not kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.taken_in: Any = None  # the sweep that took it last


class _Stop(BaseException):
    """All values are there. No Exception, so that the function's own handlers let it pass."""


class _SaveInputs(Function):
    """An entry that only saves tensors."""

    @staticmethod
    def forward(ctx: Any, marker: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return marker.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("checkpoint: no gradient flows through what saves the inputs")


class _Saved(NamedTuple):
    """What is noted of a value that the function saved."""

    shape: Any
    dtype: Any
    device: Any
    site: Site

    def is_like(self, other: "_Saved") -> bool:
        return self[:3] == other[:3]

    def __str__(self) -> str:
        return f"{tuple(self.shape)} {self.dtype} on {self.device} by {self.site}"


class _Frame:
    """One checkpointed call: what is needed to run it again, and the values of a sweep."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function = function
        values = [*args, *kwargs.values()]
        self.names = list(kwargs)
        self.others = [None if isinstance(value, Tensor) else value for value in values]
        self.tensor_places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        marker = _C.empty(0, requires_grad=True)
        saved = _SaveInputs.apply(marker, *(lasting(values[i]) for i in self.tensor_places))
        self.inputs = saved.grad_fn
        self.need_grad = [values[i].requires_grad for i in self.tensor_places]
        self.surroundings: Any = None
        self.vmap_numbers = VmapNumbers()
        self.context: Any = None
        self.check = True
        self.early_stop = True
        self.debug = False
        self.is_complete = False
        self.places: list[weakref.ref[_Place]] = []
        self.before: list[_Saved] = []
        self.after: list[_Saved] = []
        self.sweep: Any = None
        self.values: dict[int, Kept] = {}

    def show_to_collector(self, result: Any = None) -> None:
        """Let the collector look at the result, and at others that the function has put aside.

        They lead to this frame, the frame to the function, and that to what it keeps: a module that
        remembers its output, say. No tensor is looked at otherwise.
        """
        modules = {id(module): module for module, _ in self.surroundings.training}
        held = [result, *self.others]
        if id(self.function) not in modules:
            held += behind(self.function)
        for each in tuple(held):
            if each is not None and not isinstance(each, Tensor) and id(each) not in modules:
                held += behind(each)
        held += map(vars, modules.values())
        _C._track_referents(held)

    def pack(self, tensor: Tensor) -> _Place:
        """Note a value of the forward, and forget it."""
        place = _Place(len(self.places))
        self.places.append(weakref.ref(place))
        self.before.append(_Saved(tensor.shape, tensor.dtype, tensor.device, here(1)))
        return place

    def unpack(self, place: _Place) -> Tensor:
        """Return a value, after running the function again if it is not there."""
        sweep = _current_sweep()
        if sweep is None or sweep != self.sweep:
            self.values.clear()
            self.sweep = sweep
        if place.number not in self.values:
            self._run_again(place)
        place.taken_in = sweep
        return self.values.pop(place.number).get()

    def _run_again(self, wanted: _Place) -> None:
        with unseen_calls():
            self._run_function(wanted)
        self._compare()

    def _run_function(self, wanted: _Place) -> None:
        values = list(self.others)
        _put_back(values, self.tensor_places, self.inputs.saved_tensors, self.need_grad)
        count = len(values) - len(self.names)
        kwargs = dict(zip(self.names, values[count:], strict=True))
        self.after = []
        hooks = saved_tensors_hooks(lambda tensor: self._keep(tensor, wanted), Kept.get)
        context = self.context if self.context is not None else contextlib.nullcontext()
        with contextlib.suppress(_Stop), contextlib.ExitStack() as blocks:
            # No level of forward mode ran when the call was recorded.
            levels = _outside_levels(), self.vmap_numbers.used_again()
            for block in (*levels, self.surroundings, context, hooks):
                blocks.enter_context(block)
            self.function(*values[:count], **kwargs)

    def _keep(self, tensor: Tensor, wanted: _Place) -> Kept:
        """Put a value that was computed again into its place."""
        number = len(self.after)
        kept = Kept(tensor.detach())
        saved = _Saved(tensor.shape, tensor.dtype, tensor.device, here(2))
        # A sweep inside of the function runs it again before it has come to its end.
        stop = self.early_stop or not self.is_complete
        if number >= len(self.places):
            if stop:
                return kept
            self._fail(
                "trying to save more tensors during recomputation than during the original "
                f"forward pass: number {number} is new, {saved}"
            )
        self.after.append(saved)
        place = self.places[number]()
        if place is wanted or (place is not None and self._is_open(place)):
            self.values[number] = kept
        if stop and number + 1 == len(self.places):
            raise _Stop
        return kept

    def _is_open(self, place: _Place) -> bool:
        return self.sweep is None or place.taken_in != self.sweep

    def _compare(self) -> None:
        before, after = self.before, self.after
        if len(before) != len(after):
            pairs = enumerate(zip(before, after, strict=False))
            shorter = min(len(before), len(after))
            first = next((i for i, (old, new) in pairs if old != new), shorter)
            self._fail(
                "A different number of tensors was saved during the original forward and "
                f"recomputation: {len(before)} and {len(after)}. The first that differs is number "
                f"{first}:\n  saved {_show(before, first)}\n  recomputed {_show(after, first)}"
            )
        if not self.check:
            return
        different = [
            f"  number {i}:\n    saved {old}\n    recomputed {new}"
            for i, (old, new) in enumerate(zip(before, after, strict=True))
            if not old.is_like(new)
        ]
        if different:
            self._fail(
                "Recomputed values for the following tensors have different metadata than during "
                "the forward pass:\n" + "\n".join(different)
            )

    def _fail(self, text: str) -> None:
        if self.debug:
            before = "\n".join(f"  {each}" for each in self.before)
            after = "\n".join(f"  {each}" for each in self.after)
            text += f"\nSaved in forward:\n{before}\nSaved in recomputation:\n{after}"
        else:
            text += "\nThe function must do the same each time; debug=True shows all it saved."
        raise CheckpointError(f"checkpoint: {text}")


def _show(saved: list[_Saved], number: int) -> str:
    return str(saved[number]) if number < len(saved) else "nothing"


def _current_sweep() -> Any:
    if _group.current is not None:
        return _group.current
    try:
        return _C._current_sweep()
    except RuntimeError:  # a saved value is read outside of any backward
        return None


# ---- with reentry


class CheckpointFunction(Function):
    """The op of ``checkpoint(..., use_reentrant=True)``."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, run_function: Any, preserve_rng_state: bool, marker: Any, *args: Any
    ) -> Any:
        ctx.run_function = run_function
        ctx.surroundings = Surroundings(run_function, args, random=preserve_rng_state)
        ctx.marker = marker
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.tensor_places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.need_grad = [args[i].requires_grad for i in ctx.tensor_places]
        ctx.save_for_backward(*(lasting(args[i]) for i in ctx.tensor_places))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.marker is None or not _C._will_reach([_C._gradient_edge(ctx.marker)[0]])[0]:
            raise RuntimeError(
                "checkpoint: When use_reentrant=True, checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(); pass use_reentrant=False"
            )
        inputs = list(ctx.others)
        _put_back(inputs, ctx.tensor_places, ctx.saved_tensors, ctx.need_grad)
        with ctx.surroundings:
            outputs = ctx.run_function(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "checkpoint: none of output has requires_grad=True, this checkpoint() is not "
                "necessary"
            )
        run_backward([output for output, _ in pairs], [grad for _, grad in pairs])
        found = (each.grad if isinstance(each, Tensor) else None for each in inputs)
        return (None, None, None, *found)


def _run_with_reentry(function: Callable[..., Any], preserve: bool, args: tuple[Any, ...]) -> Any:
    marker = None
    if _C.is_grad_enabled():
        if any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            marker = _C.empty(0, requires_grad=True)  # reached by a backward to all leaves only
        else:
            warnings.warn(
                "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3
            )
    return CheckpointFunction.apply(function, preserve, marker, *args)


# ---- the public functions


def _reentrant_by_default(op: str) -> bool:
    warnings.warn(
        f"{op}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
        "recommended; it is taken as True now.",
        stacklevel=3,
    )
    return True


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping what it saves for backward, which computes it again.

    Args:
        function: the function. It must do the same each time, random numbers apart.
        *args: its arguments.
        use_reentrant: how. False is recommended: it takes keyword arguments and nested containers,
            and works with `autograd.grad`, ``inputs=`` and higher-order gradients. None warns and
            is True.
        context_fn: returns two contexts, for the call and for the call in backward.
        determinism_check: "default" compares shapes, dtypes and devices of what is computed again;
            "none" does not.
        debug: whether an error shows which lines saved what.
        early_stop: whether the call in backward ends once all values are there.
        preserve_rng_state: whether both calls see the same random numbers; True if not given.
        **kwargs: keyword arguments of the function, with use_reentrant=False.

    Returns:
        What the function returns.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> y = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False)
        >>> y.sum().backward()
        >>> x.grad
        tensor([2.7183, 7.3891])
    """
    if use_reentrant is None:
        use_reentrant = _reentrant_by_default("checkpoint")
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError(
                "checkpoint: Unexpected keyword arguments: " + ",".join(kwargs) + "; the function "
                "gets some with use_reentrant=False"
            )
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "checkpoint: Passing `context_fn` or `debug` is only supported when "
                "use_reentrant=False."
            )
        return _run_with_reentry(function, preserve, args)

    if determinism_check not in ("default", "none"):
        raise ValueError(
            "checkpoint: determinism_check should be one of ['default', 'none'], but got "
            f"{determinism_check}"
        )
    debug = debug if _debug is None else _debug
    if debug and context_fn is not noop_context_fn:
        raise ValueError("checkpoint: debug=True is incompatible with non-default context_fn")
    forward_context, again_context = context_fn()
    if not _C.is_grad_enabled() or has_tangents(args, kwargs):
        # Forward mode reads what an op saves at once, so there is nothing to leave out.
        with forward_context:
            return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs)
    frame.context = None if context_fn is noop_context_fn else again_context
    frame.surroundings = Surroundings(function, [*args, *kwargs.values()], random=preserve)
    frame.check = determinism_check == "default"
    frame.early_stop = early_stop and _early_stop
    frame.debug = debug
    try:
        hooks = saved_tensors_hooks(frame.pack, frame.unpack)
        with hooks, forward_context, frame.vmap_numbers.noted():
            result = function(*args, **kwargs)
        frame.show_to_collector(result)
    except BaseException:
        frame.show_to_collector()
        raise
    frame.is_complete = True
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Call functions one after another, in segments of which all but the last are checkpointed.

    Args:
        functions: an ``nn.Sequential`` or a list of functions of one argument.
        segments: how many segments to make.
        input: the argument of the first.
        use_reentrant: see `checkpoint`.
        preserve_rng_state: see `checkpoint`.

    Returns:
        What the last function returns.

    Example:
        >>> x = torch.tensor(0.5, requires_grad=True)
        >>> layers = [torch.sin, torch.exp, torch.cos]
        >>> y = torch.utils.checkpoint.checkpoint_sequential(layers, 2, x, use_reentrant=False)
        >>> y.backward()
        >>> x.grad
        tensor(-1.4160)
    """
    if use_reentrant is None:
        use_reentrant = _reentrant_by_default("checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("checkpoint_sequential: Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children() if hasattr(functions, "children") else functions)
    if not 1 <= segments <= max(1, len(functions)):
        raise ValueError(
            f"checkpoint_sequential: expected 1 to {max(1, len(functions))} segments for "
            f"{len(functions)} functions, got {segments}"
        )
    size = len(functions) // segments

    def chain(first: int, last: int) -> Callable[[Any], Any]:
        part = functions[first:last]

        def run(value: Any) -> Any:
            for function in part:
                value = function(value)
            return value

        return run

    start = 0
    for _ in range(segments - 1):
        input = checkpoint(
            chain(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
        start += size
    return chain(start, len(functions))(input)
