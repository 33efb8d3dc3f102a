"""Running a recorded block again on new inputs, without its Python.

The block's op calls are captured below autograd (``_C.Program``): a call names the memory it reads
and writes. Run again, they read what is in the inputs' memory now and write to where the first run
wrote. That memory is also what the tape saved, so that a sweep afterwards gives the gradients at
the new inputs. Versions do not change: to the tape, nothing was overwritten.

Where the program read a value (an ``if``, ``item()``, the number of nonzeros), what follows
holds for that value only: the same bytes must be found there again. Each such guard is given the
line that it belongs to.

What the tape saved outside the block of memory that is written has no version to tell: it is marked
as overwritten. Everything by which running the code again would find other memory than the calls
name is refused: see `Assumptions`.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn.modules.module import Module
from tapegrad.tape._arguments import expect_type
from tapegrad.tape._assumptions import Assumptions
from tapegrad.tape._memory import check_agreement, content_of, put, restore
from tapegrad.tape._program_names import named_inputs, named_outputs
from tapegrad.tape.program import Program

__all__ = ["Replay"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The methods by which Python reads a tensor's elements.
_READS = (
    *("item", "tolist", "numpy", "nonzero", "equal", "masked_select", "unique"),
    *("__bool__", "__float__", "__int__", "__index__", "__array__", "__dlpack__", "__getitem__"),
    *("__reduce_ex__", "data_ptr", "__repr__", "__format__"),
)
# Those that change a tensor itself, shape or memory, rather than its elements.
_METADATA_CHANGES = (
    *("t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "as_strided_"),
    *("resize_", "resize_as_", "set_"),
)


class Replay:
    """The captured calls of a block, and what they need to run again."""

    def __init__(self, inputs: Tensor | Iterable[Tensor]) -> None:
        expect_type("tape.record", "inputs", inputs, (Tensor, Iterable), "tensors")
        self._inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        self._places: list[Tensor] = []  # of the inputs
        self._changed: list[tuple[Tensor, Tensor, str]] = []  # tensor, what it was, who changed it
        for number, each in enumerate(self._inputs):
            expect_type("tape.record", f"input {number}", each, Tensor, "a tensor")
        self._program = _C.Program()
        self._thread = 0
        self._read: dict[int, Tensor] = {}  # by storage: what the block took from outside
        self._written: dict[int, Tensor] = {}
        self._memory: list[Tensor] = []  # what a replay writes, apart from inputs
        self._result: Tensor | None = None
        self._refusal = ""
        self._assumptions = Assumptions()
        self._sequences = (0, 0)  # of the block's entries
        self.modules: list[Module] = []  # whose paths name tensors

    # ---- capturing

    def start(self) -> None:
        """Begin to capture."""
        self._places = [each.detach() for each in self._inputs]
        self._program.__enter__()  # refused while another one captures on this thread
        self._thread = get_ident()
        self._sequences = (_C._next_sequence(), 0)
        self._assumptions.start()
        _watch(self)

    def stop(self) -> None:
        """End capturing, and find out what the block reads and writes."""
        _end_watch(self)
        self._assumptions.stop()
        self._program.__exit__()
        self._sequences = (self._sequences[0], _C._next_sequence())
        self._result = self._program.result()
        self._program.drop_temporaries()
        self._find_memory()
        used = self._program.used()
        self._refusal = self._find_refusal(used)
        self._changed.clear()
        inputs = zip(self._inputs, self._places, strict=True)
        used += [each for each in inputs if _C._memory_id(each[1]) in self._read]
        self._assumptions.settle(self._read, self._written, used)

    def note_change(self, name: str, tensor: Tensor) -> None:
        """Note that a tensor's shape or memory is about to change."""
        self._changed.append((tensor, tensor.detach(), f"{name} at {_line_outside()}"))

    def note_read(self, name: str, run: Callable[[], Any]) -> Any:
        """Run what reads a tensor's elements, and note at which line."""
        count = len(self._program)
        result = run()
        if len(self._program) > count:
            self._program.place_guards(count, _line_outside())
        return result

    def _find_memory(self) -> None:
        """Find out what is read and what is written, of memory that is still there."""
        for memory, _, _, _, is_read, is_written, _ in self._program.values():
            if memory is None:
                continue
            storage = _C._memory_id(memory)
            if is_read:
                self._read[storage] = memory
            if is_written:
                self._written[storage] = memory
        self._memory = list(self._written.values())

    def _find_refusal(self, used: list[tuple[Tensor, Tensor]]) -> str:
        """Return why the block can never run again, or an empty string."""
        first_used = {id(tensor): alias for tensor, alias in used}
        for tensor, before, who in self._changed:
            storage = _C._memory_id(before)
            if storage in self._written and storage not in self._read:
                continue  # the block's own
            if _C._find_moved([tensor], [before]) < 0:
                continue  # it is what it was
            alias = first_used.get(id(tensor))
            is_used = alias is not None and _C._find_moved([alias], [before]) < 0
            if tensor._base is None or is_used:  # or else a view that the block has just made
                return (
                    f"{who} gave a tensor that the block found outside another shape or other "
                    "memory, where code that runs again would begin with that"
                )
        if self._program.refusal:
            return self._program.refusal
        for tensor, is_written in self._program.foreign():
            storage = _C._memory_id(tensor)
            if storage in self._written or storage in self._read:
                what = "wrote to" if is_written else "used"
                return (
                    f"while the block ran, another thread {what} a tensor of shape "
                    f"{tuple(tensor.shape)} that the block uses, too, and what it did is not "
                    "recorded"
                )
        return ""

    def program(self, outputs: Any, names: Any) -> Program:
        """Return the captured calls as a value."""
        reason = self._refusal or self._assumptions.refusal
        if reason:
            raise RuntimeError(f"program: {reason}, so that the ops cannot run again")
        expect_type("program", "names", names, (Mapping, type(None)), "a dict")
        found = named_inputs(
            self._program, names or {}, self._inputs, self.modules, self._assumptions.optimizers()
        )
        return Program(self._program, found, named_outputs(self._program, outputs, self._result))

    # ---- running again

    def run(self, inputs: Sequence[Any], outputs: Any) -> Any:
        """Run the calls on new inputs; return copies of the outputs."""
        if _capturing.get(get_ident()) is not None:
            raise RuntimeError(
                "replay: a replay inside a block that is recorded with replay=True would be no "
                "part of it; replay outside, or run the code"
            )
        if self._refusal:
            raise RuntimeError(f"replay: {self._refusal}, so that the ops cannot run again")
        pairs = self._pairs(inputs)
        wanted = self._wanted(outputs)
        self._assumptions.check()
        before = [(old, content_of(old)) for old, _ in pairs] if self._program.has_guards else []
        memory = self._memory + [old for old, _ in pairs]
        try:
            for old, new in pairs:
                put(old, new)
            self._program.replay()
        except BaseException as error:
            raise self._undo(error, before) from None
        _C._tape_overwritten(*self._sequences, memory, False)
        self._assumptions.restore_grads()
        results = [tensor.detach().clone() for tensor in wanted]
        return results if isinstance(outputs, Sequence) else results[0]

    def _undo(self, error: BaseException, before: Sequence[tuple[Tensor, Tensor]]) -> BaseException:
        """Put the inputs back; return the error with what follows from it."""
        for tensor, content in before:
            restore(tensor, content)
        text = str(error)
        if isinstance(error, RuntimeError) and text.startswith("replay: a guard does not hold"):
            return RuntimeError(f"{text}; nothing was changed")
        _C._tape_overwritten(*self._sequences, self._memory, True)
        if not isinstance(error, Exception):  # such as KeyboardInterrupt
            return error
        return RuntimeError(
            f"replay: an op failed with the new inputs: {text}; what the block computed has "
            "neither its old values nor new ones until a replay succeeds"
        )

    def _pairs(self, inputs: Sequence[Any]) -> list[tuple[Tensor, Tensor]]:
        """Return (recorded, new) tensors, after the checks that need no run."""
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            pairs = list(inputs[0].items())
        elif inputs and len(inputs) != len(self._inputs):
            raise ValueError(
                f"replay: expected {len(self._inputs)} inputs, those of record(inputs=...), got "
                f"{len(inputs)}; or pass a dict from recorded to new tensors"
            )
        else:
            pairs = list(zip(self._inputs, inputs, strict=False))
        for number, (old, new) in enumerate(pairs):
            if not isinstance(old, Tensor) or not isinstance(new, Tensor):
                raise TypeError(
                    f"replay: expected tensors, got {type(old).__name__} and {type(new).__name__} "
                    f"for input {number}"
                )
            self._check(number, old, new)
        check_agreement(pairs)
        # New contents that lie in what is overwritten, as when two inputs change places.
        written = {_C._memory_id(old) for old, _ in pairs}
        return [
            (old, new.detach().clone() if _C._memory_id(new) in written else new)
            for old, new in pairs
        ]

    def _check(self, number: int, old: Tensor, new: Tensor) -> None:
        if _C._memory_id(old) not in self._read:
            raise ValueError(
                f"replay: input {number}, of shape {tuple(old.shape)}, was not read by the block; "
                "expected a tensor that existed before it and went into an op"
            )
        for what in ("shape", "dtype", "device"):
            expected, given = getattr(old, what), getattr(new, what)
            if expected != given:
                expected, given = (
                    tuple(each) if what == "shape" else each for each in (expected, given)
                )
                raise RuntimeError(
                    f"replay: a guard does not hold: input {number} was recorded with {what} "
                    f"{expected}, got {given}; record the block again with such inputs"
                )

    def _wanted(self, outputs: Any) -> list[Tensor]:
        if outputs is None:
            if self._result is None:
                raise RuntimeError(
                    "replay: the block computed nothing, or its last op ran in a vmap; pass "
                    "outputs="
                )
            return [self._result]
        wanted = list(outputs) if isinstance(outputs, Sequence) else [outputs]
        for number, tensor in enumerate(wanted):
            if not isinstance(tensor, Tensor) or _C._memory_id(tensor) not in self._written:
                raise ValueError(
                    f"replay: expected output {number} to be a tensor that the block computed"
                )
        return wanted


# ---- watching
#
# The methods of tensors are all threads', and blocks of several threads end in any order: so there
# is one set of watched methods, while any block captures, and each asks for its thread's.

_lock = threading.Lock()
_capturing: dict[int, Replay] = {}  # by thread
_originals: dict[str, Any] = {}


def _watch(replay: Replay) -> None:
    with _lock:
        if not _capturing:
            for names, watched in ((_READS, _watched_read), (_METADATA_CHANGES, _watched_change)):
                for name in names:
                    original = vars(Tensor).get(name)
                    if original is not None:
                        _originals[name] = original
                        setattr(Tensor, name, watched(name, original))
            data = _originals["data"] = vars(Tensor)["data"]
            set_data = _watched_change("data =", data.__set__)
            Tensor.data = property(data.__get__, set_data)  # type: ignore[assignment,misc]
        _capturing[replay._thread] = replay


def _end_watch(replay: Replay) -> None:
    with _lock:
        _capturing.pop(replay._thread, None)
        if not _capturing:
            for name, original in _originals.items():
                setattr(Tensor, name, original)
            _originals.clear()


def _watched_read(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        replay = _capturing.get(get_ident())
        if replay is None:
            return original(tensor, *args, **kwargs)
        return replay.note_read(name, lambda: original(tensor, *args, **kwargs))

    return read


def _watched_change(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def change(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        replay = _capturing.get(get_ident())
        if replay is not None:
            replay.note_change(name, tensor)
        return original(tensor, *args, **kwargs)

    return change


def _line_outside() -> str:
    """Return the line that called into the library."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
