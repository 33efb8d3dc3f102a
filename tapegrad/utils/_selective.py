"""Selective checkpointing: results of chosen ops are kept, the rest is computed again.

The choice is made at the dispatch point, below autograd, where an op has one of the names that the
profiler shows. The core keeps the results of chosen calls while the function runs for the first
time, and puts them in place of the calls when it runs again (intercept/call_cache.h).

A list of ops is asked once for each op. A policy function is asked at every call, after it ran, in
the first run only: when the function runs again, the i-th call of an op has the answer of the i-th
one. So a policy may count, draw or look at values, and cannot contradict itself.

Calls that are made on behalf of a recomputation are no calls of the function, and are not counted:
a sweep inside of the function makes some in the first call that the second one does not.
"""

import contextlib
import difflib
import enum
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from tapegrad import _C
from tapegrad._ops import ops, ops_run_by

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
    "ops_of",
    "unseen_calls",
]


class CheckpointPolicy(enum.Enum):
    """What becomes of the results of an op inside `checkpoint`.

    ``MUST_SAVE`` and ``PREFER_SAVE`` keep them, ``MUST_RECOMPUTE`` and ``PREFER_RECOMPUTE`` compute
    them again; eagerly, must and prefer are the same. ``MUST_CPU_OFFLOAD`` and
    ``PREFER_CPU_OFFLOAD`` keep them in the memory of the CPU, where tensors are now.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


# Made in place and often written to, and the same when they run again.
SAC_IGNORED_OPS = {"fill"} | {op.name for op in ops() if "random" in op.traits}
_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class SelectiveCheckpointContext:
    """What a policy function is told besides the op and what it reads.

    Attributes:
        is_recompute: False: a policy is asked the first time only.
        op_output: the result of the call, a tensor, or a tuple where the op has several.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Op(str):
    """The name of an op, equal to each function that runs this op."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if callable(other):
            try:
                return str(self) in ops_of(other)
            except (TypeError, ValueError):
                return False
        return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _Recording:
    """The context of the first call: results are kept."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.is_running = False
        self.is_used = False

    def __enter__(self) -> None:
        if self.is_used:
            raise RuntimeError(
                "create_selective_checkpoint_contexts: these contexts hold the results of another "
                "call; context_fn must return new ones each time, as functools.partial("
                "create_selective_checkpoint_contexts, ...) does"
            )
        self.is_used = True
        self.cache._enter(False)
        self.is_running = True

    def __exit__(self, *exception: object) -> None:
        self.is_running = False
        self.cache._leave()


@contextlib.contextmanager
def unseen_calls() -> Iterator[None]:
    """Hide calls from the selective checkpoint around them: they are not among those it counts."""
    cache = _C.CallCache(lambda op: False)
    cache._hide()
    try:
        yield
    finally:
        cache._show()


class _Replaying:
    """The context of later calls: results are used."""

    def __init__(self, recording: _Recording) -> None:
        self.recording = recording
        self.entered: list[Any] = []

    def __enter__(self) -> None:
        # A sweep inside of the first call runs the function again before all results are there:
        # then everything is computed.
        early = self.recording.is_running
        cache = _C.CallCache(lambda op: False) if early else self.recording.cache
        cache._enter(not early)
        self.entered.append(cache)

    def __exit__(self, *exception: object) -> None:
        self.entered.pop()._leave()


def _choosers(chosen: Any) -> tuple[Callable[[str], bool], Any]:
    """Return what is asked once for each op, and what is asked at each call, if anything."""
    if isinstance(chosen, list | tuple | set | frozenset):
        names = {op for each in chosen for op in ops_of(each)} - SAC_IGNORED_OPS
        return names.__contains__, None
    if callable(chosen):
        return _may_be_kept, functools.partial(_ask, chosen)
    raise TypeError(
        "create_selective_checkpoint_contexts: policy_fn_or_list must be either a function or a "
        f"list of ops, got {type(chosen).__name__}"
    )


def _may_be_kept(name: str) -> bool:
    return name not in SAC_IGNORED_OPS


def _ask(
    policy: Callable[..., Any], name: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...]
) -> bool:
    """Return whether a policy function wants the results of a call to be kept."""
    output = outputs[0] if len(outputs) == 1 else outputs
    context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
    answer = policy(context, _Op(name), *inputs)
    if isinstance(answer, bool):
        return answer
    if not isinstance(answer, CheckpointPolicy):
        raise TypeError(
            "create_selective_checkpoint_contexts: expected the policy to return a "
            f"CheckpointPolicy or a bool for {name}, got {type(answer).__name__}"
        )
    return answer not in _RECOMPUTED


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return the two contexts of a `checkpoint` that keeps the results of some ops.

    Args:
        policy_fn_or_list: a list of the ops whose results to keep, each by name (``"matmul"``, as
            the profiler shows it) or as a function that runs one op (`torch.mm`, `F.linear` and
            others all run matmul). Or a function ``policy(context, op, *args, **kwargs)`` that
            returns a `CheckpointPolicy`, or True to keep. It is asked at every call whose result
            could be kept, when the function runs for the first time: with a
            `SelectiveCheckpointContext`, the op's name, which equals the functions that run the
            op, and the tensors that the op reads, detached; a number among the arguments is a
            tensor of no dimensions, and there are no kwargs. What the policy computes is neither
            recorded nor asked about. Ops that draw random numbers or fill memory always run again,
            to the same effect.
        allow_cache_entry_mutation: whether to go on with what a kept result has become if it was
            written in place; the default is an error.

    Returns:
        Two context managers, as ``context_fn`` of `checkpoint` gives them.

    Example:
        >>> import functools
        >>> from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> keep = functools.partial(create_selective_checkpoint_contexts, [torch.mm])
        >>> x = torch.ones(2, 2, requires_grad=True)
        >>> y = checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=keep)
        >>> y.sum().backward()
        >>> x.grad
        tensor([[-1.6646, -1.6646],
                [-1.6646, -1.6646]])
        >>> def small_products(context, op, *args, **kwargs):
        ...     return op == torch.mm and context.op_output.numel() < 1000
        >>> keep = functools.partial(create_selective_checkpoint_contexts, small_products)
        >>> y = checkpoint(lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=keep)
    """
    cache = _C.CallCache(*_choosers(policy_fn_or_list), allow_cache_entry_mutation)
    recording = _Recording(cache)
    return recording, _Replaying(recording)


# ---- which op a function runs


def ops_of(function: Any) -> tuple[str, ...]:
    """Return the names of the ops of which a function runs one; a string is such a name.

    Args:
        function: a function of the library or a method of Tensor.

    Example:
        >>> from tapegrad.utils._selective import ops_of
        >>> ops_of(torch.bmm), ops_of("matmul"), ops_of(torch.Tensor.exp)
        (('matmul',), ('matmul',), ('exp',))
    """
    if isinstance(function, str):
        return _ops_named(function)
    name = getattr(function, "__name__", None)
    ours = isinstance(function, types.FunctionType) and function.__module__.startswith("tapegrad.")
    native = callable(function) and name is not None and _is_native(function, name)
    if isinstance(function, type) or not (ours or native):
        raise ValueError(
            "create_selective_checkpoint_contexts: expected the name of an op or a function of the "
            f"library that runs one, got {function!r} of type {type(function).__name__}"
        )
    found = ops_run_by(function)
    if not found:
        raise ValueError(
            "create_selective_checkpoint_contexts: expected functions that run one op each, got "
            f"{name}, which runs several or none; give the names of the ops whose results to keep, "
            "as the profiler shows them"
        )
    return found


def _ops_named(name: str) -> tuple[str, ...]:
    known = {op.name for op in ops()}
    if name in known:
        return (str(name),)
    near = difflib.get_close_matches(name, known, 3, 0.7)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise ValueError(
        "create_selective_checkpoint_contexts: expected the name of an op, as the profiler shows "
        f"it, got {name!r}; {hint}torch.ops() lists all of them"
    )


def _is_native(function: Any, name: str) -> bool:
    return getattr(_C, name, None) is function or getattr(_C.Tensor, name, None) is function
