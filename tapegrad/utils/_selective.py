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
import enum
import functools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tapegrad import _C
from tapegrad.autograd.grad_mode import no_grad

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
    "op_of",
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
SAC_IGNORED_OPS = {"fill"} | {
    f"random_{name}"
    for name in (
        "bernoulli", "cauchy", "exponential", "geometric", "integers", "multinomial", "normal",
        "permutation", "poisson", "uniform",
    )
}  # fmt: skip
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
                return str.__eq__(self, op_of(other))
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
    cache._enter(False)
    try:
        yield
    finally:
        cache._leave()


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
        names = {op_of(each) for each in chosen} - SAC_IGNORED_OPS
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

_PLUMBING = {"copy", "fill"}  # how arguments are brought into shape


def op_of(function: Any) -> str:
    """Return the name of the op that a function of the library runs.

    It is called on small tensors to see: so this is never out of date.

    Args:
        function: a function or a method of Tensor; a string is returned as it is.

    Example:
        >>> from tapegrad.utils._selective import op_of
        >>> op_of(torch.bmm), op_of(torch.nn.functional.conv2d), op_of(torch.Tensor.exp)
        ('matmul', 'conv', 'exp')
    """
    if isinstance(function, str):
        return str(function)
    name = getattr(function, "__name__", None)
    ours = isinstance(function, types.FunctionType) and function.__module__.startswith("tapegrad.")
    native = callable(function) and name is not None and _is_native(function, name)
    if isinstance(function, type) or not (ours or native):
        raise ValueError(
            "create_selective_checkpoint_contexts: expected the name of an op or a function of the "
            f"library that runs one, got {function!r} of type {type(function).__name__}"
        )
    found = _ops_run_by(function)
    if len(found) == 1:
        return found[0]
    what = ", ".join(found) if found else "none that could be seen by trying"
    raise ValueError(
        "create_selective_checkpoint_contexts: expected functions that run one op each, got "
        f"{name}, which runs {what}; give the names of the ops whose results to keep"
    )


def _is_native(function: Any, name: str) -> bool:
    return getattr(_C, name, None) is function or getattr(_C.Tensor, name, None) is function


def _trials() -> Iterator[tuple[Any, ...]]:
    """Yield arguments to try a function on, the simplest first."""
    vector = _C.arange(3.0)
    matrix = _C.arange(1.0, 10.0).reshape(3, 3) / 10
    batch = _C.arange(1.0, 19.0).reshape(2, 3, 3) / 20
    image = _C.ones(1, 3, 4, 4)
    volume = _C.ones(1, 2, 3, 3, 3)
    places = _C.zeros(3, 3, dtype=_C.int64)
    yield (matrix,)
    yield matrix, matrix
    yield batch, batch
    yield matrix, vector
    yield vector, vector
    yield matrix, -1
    yield ([matrix, matrix],)
    yield image, image
    yield image, image.transpose(0, 1)
    yield "ij,jk->ik", matrix, matrix
    yield volume, volume
    yield batch, batch, batch
    yield matrix, matrix, matrix
    yield matrix, [3]
    yield image, 2
    yield batch, 2
    yield volume, 2
    yield image, 3
    yield places[0], matrix
    yield matrix, 0, places
    yield matrix, 0, places[0]
    yield matrix > 0, matrix, matrix
    yield image, None, None, None, None, True


@functools.cache
def _ops_run_by(function: Any) -> tuple[str, ...]:
    """Return the op of a function's own name if it runs that, else all that it runs."""
    first: tuple[str, ...] = ()
    name = function.__name__
    random = _C.get_rng_state()
    for args in _trials():
        program = _C.Program()
        try:
            with unseen_calls(), no_grad(), program, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(*args)
        except Exception:  # not with these arguments
            continue
        names = dict.fromkeys(step[0] for step in program.steps())
        found = tuple(each for each in names if each not in _PLUMBING)
        if name in found:
            first = (name,)
            break
        first = first or found
    _C.set_rng_state(random)
    return first
