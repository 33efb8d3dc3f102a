"""Compiled functions and modules: which trace runs, when a call is captured, when it stays eager.

A call runs the first trace that holds (csrc/python/trace.cpp). If none does, the function runs
itself and the call is recorded. A recording becomes a trace when a second one did exactly the same,
so that whatever the walk over Python's state (`_walk`) might not know of, such as a count that an
op takes as a number, is noticed before anything is replayed. Calls that cannot be replayed are
counted; after some in a row the function stays eager, in that grad mode, and `explain` says why.
"""

import functools
import threading
import types
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad.compiler._build import BuiltTrace, build
from tapegrad.compiler._differentiable import Differentiable
from tapegrad.compiler._facts import why_none_held
from tapegrad.compiler._recording import Recording, record_call
from tapegrad.compiler._stance import current
from tapegrad.compiler._walk import Change, Refusal, is_generator
from tapegrad.nn import Module

__all__ = ["CompiledFunction", "OptimizedModule", "all_compiled"]

_NONE_HOLDS = object()
_RUN_EAGERLY = object()
MOST_TRACES = 32
_MOST_WAITING = 8
_MOST_ATTEMPTS = 12  # captures in a row that gave no trace

_capturing = threading.Lock()
all_compiled: "weakref.WeakSet[CompiledFunction]" = weakref.WeakSet()


class CompiledFunction:
    """A function that is replayed where that does the same as running it."""

    def __init__(
        self,
        function: Callable[..., Any],
        fullgraph: bool = False,
        verify: bool = False,
        most_traces: int = MOST_TRACES,
    ) -> None:
        self._function = function
        self._fullgraph = fullgraph
        self._verify = verify
        self._most_traces = most_traces
        self._bound: weakref.WeakKeyDictionary[Any, CompiledFunction] = weakref.WeakKeyDictionary()
        self.reset()
        self.__name__ = type(function).__name__
        functools.update_wrapper(self, function, updated=())
        all_compiled.add(self)

    def reset(self) -> None:
        """Forget all traces."""
        self.traces: list[Any] = []
        self.built: list[BuiltTrace] = []
        self.refusals: list[str] = []  # the reasons, each once, in order
        self.misses: Counter[str] = Counter()  # why no trace held
        self._waiting: list[Recording] = []
        self._attempts = {False: 0, True: 0}  # by whether ops record
        self._eager: dict[bool, str] = {}
        self._known: list[Recording] = []
        if is_generator(self._function):
            self._stay_eager("it is a generator or a coroutine")
        self._bound.clear()

    def _stay_eager(self, reason: str) -> None:
        self._eager = {False: reason, True: reason}
        self._note(reason)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = _C._run_traces(self.traces, args, kwargs, _NONE_HOLDS, _RUN_EAGERLY)
        if result is _NONE_HOLDS:
            return self._run(args, kwargs)
        if result is _RUN_EAGERLY:
            return self._function(*args, **kwargs)
        if type(result) is tuple and result and type(result[0]) is Differentiable:
            return result[0].attach(result, args, kwargs)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self._function!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a compiled function cannot be pickled; pickle the function and compile it again"
        )

    def __deepcopy__(self, memo: Any) -> "CompiledFunction":
        import copy

        return CompiledFunction(copy.deepcopy(self._function, memo), *self._settings)

    @property
    def _settings(self) -> tuple[Any, ...]:
        return self._fullgraph, self._verify, self._most_traces

    # ---- capturing

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode, stance = _C.is_grad_enabled(), current()
        if stance == "fail_on_recompile" and self.traces:
            raise RuntimeError(
                f"compile: no trace of {self.__name__} holds, and the stance is "
                f"'fail_on_recompile': {self._miss() or why_none_held(self.built, None)}"
            )
        is_done = mode in self._eager or stance == "eager_on_recompile"
        if is_done or not _capturing.acquire(blocking=False):
            return self._function(*args, **kwargs)
        missed = self._miss() if self.traces else None
        try:
            result, recording = record_call(self._function, self.__name__, args, kwargs)
        finally:
            _capturing.release()
        if missed is not None:
            found = None if isinstance(recording, Refusal) else recording
            self.misses[missed or why_none_held(self.built, found)] += 1
        try:
            if isinstance(recording, Refusal):
                raise recording
            self._take(recording)
        except Refusal as refusal:
            self._note(str(refusal))
            is_first = isinstance(refusal, Change) and self._attempts[mode] == 0
            if self._fullgraph and not is_first:
                raise RuntimeError(
                    f"compile: {self.__name__} cannot be replayed, and fullgraph=True: {refusal}"
                ) from refusal
        self._attempts[mode] += 1
        if self._attempts[mode] >= _MOST_ATTEMPTS:
            last = self.refusals[-1] if self.refusals else "no two calls did the same"
            self._eager[mode] = last
            self._waiting = []
        return result

    def _miss(self) -> str:
        """Return what changed for all traces there are, or an empty string."""
        changes = [built.watch.find_change() for built in self.built]
        if all(change >= 0 for change in changes):
            return f"{self.built[-1].watched[changes[-1]]} is not what it was"
        return ""

    def _take(self, recording: Recording) -> None:
        """Make a trace of a recording if an earlier one did the same."""
        if self._verify and self._compare(recording):
            return
        for number, earlier in enumerate(self._waiting):
            if not earlier.is_same(recording):
                continue
            del self._waiting[number]
            if len(self.traces) >= self._most_traces:
                raise Refusal(f"it has {self._most_traces} traces already, and none of them held")
            built = build(recording)
            self.built.append(built)
            if self._verify:
                self._known.append(recording)
            else:
                self.traces.insert(0, built.trace)
            self._attempts = {False: 0, True: 0}
            return
        self._waiting = [*self._waiting[-_MOST_WAITING + 1 :], recording]

    def _compare(self, recording: Recording) -> bool:
        """Raise if a call did something else than the trace that would have been replayed.

        Returns:
            Whether there is such a trace.
        """
        if any(known.is_same(recording) for known in self._known):
            self._attempts = {False: 0, True: 0}
            return True
        for known in self._known:
            if known.walk.watch.find_change() >= 0:
                continue
            if [step[1:5] for step in known.guards()] != [step[1:5] for step in recording.guards()]:
                continue
            if known.argument_parts != recording.argument_parts:
                continue
            step, name = known.first_difference(recording)
            raise RuntimeError(
                f"compile: verify=True: {self.__name__} did something else than its trace from "
                f"step {step} on, {name}, though nothing that the trace depends on has changed"
            )
        return False

    def _note(self, reason: str) -> None:
        if reason not in self.refusals:
            self.refusals.append(reason)

    @property
    def eager_reason(self) -> str:
        """Why calls run eagerly from now on, or an empty string."""
        return self._eager.get(_C.is_grad_enabled(), "")


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's own."""

    def __init__(self, module: Module, call: Any) -> None:
        super().__init__()
        del self.__dict__["training"]
        self.__dict__["_orig_mod"] = module
        self._modules["_orig_mod"] = module
        self.__dict__["_call"] = call

    @property
    def training(self) -> bool:
        module: Module = self.__dict__["_orig_mod"]
        return module.training

    @training.setter
    def training(self, value: bool) -> None:
        self.__dict__["_orig_mod"].training = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled module."""
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_orig_mod"], name)

    def __len__(self) -> int:
        module = self.__dict__["_orig_mod"]
        if not hasattr(module, "__len__"):
            raise TypeError(f"{type(module).__name__} does not support len()")
        return len(module)

    def __bool__(self) -> bool:
        return bool(self.__dict__["_orig_mod"])

    def __reduce__(self) -> Any:
        call = self.__dict__["_call"]
        settings = call._settings if isinstance(call, CompiledFunction) else None
        return _compiled_again, (self.__dict__["_orig_mod"], settings)


def _compiled_again(module: Module, settings: tuple[Any, ...] | None) -> OptimizedModule:
    """Return what a copy or a pickle of a compiled module is: it has no traces yet."""
    return OptimizedModule(
        module, module if settings is None else CompiledFunction(module, *settings)
    )
