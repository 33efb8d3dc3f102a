"""Running a recorded block again on new inputs, without its Python.

The block's op calls are captured below autograd (``_C.Program``): a call names the memory it reads
and writes. Run again, they read what is in the inputs' memory now and write to where the first run
wrote. That memory is also what the tape saved, so that a sweep afterwards gives the gradients at
the new inputs. Versions do not change: to the tape, nothing was overwritten.

Where the program looked at a value (an ``if``, ``item()``, the number of nonzeros), what follows
holds for that value only: the same bytes must be found there again. The capture is cut at such
a look, so that it is known which line a guard that fails belongs to.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import get_ident
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.tape._arguments import expect_type

__all__ = ["Replay"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The methods by which Python gets at a tensor's elements.
_LOOKS = (
    *("item", "tolist", "numpy", "nonzero", "equal", "masked_select", "unique"),
    *("__bool__", "__float__", "__int__", "__index__", "__array__", "__dlpack__", "__getitem__"),
)
# Those that change a tensor itself, shape or memory, rather than its elements.
_TURNS = (
    *("t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "as_strided_"),
    *("resize_", "resize_as_", "set_"),
)


class Replay:
    """The captured calls of a block, and what they need to run again."""

    def __init__(self, inputs: Tensor | Iterable[Tensor]) -> None:
        expect_type("tape.record", "inputs", inputs, (Tensor, Iterable), "tensors")
        self._inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        for number, each in enumerate(self._inputs):
            expect_type("tape.record", f"input {number}", each, Tensor, "a tensor")
        self._segments: list[tuple[Any, str, int]] = []  # a program, who looked, from which call on
        self._program = _C.Program()
        self._thread = 0
        self._read: dict[int, Tensor] = {}  # by storage: what the block took from outside
        self._written: dict[int, Tensor] = {}
        self._at_risk: dict[int, Tensor] = {}  # what is written before the last look
        self._result: Tensor | None = None
        self._refusal = ""

    # ---- capturing

    def start(self) -> None:
        """Begin to capture."""
        self._program.__enter__()  # refused while another one captures on this thread
        self._thread = get_ident()
        _watch(self)

    def stop(self) -> None:
        """End capturing, and find out what the block reads and writes."""
        _end_watch(self)
        self._program.__exit__()
        self._segments.append((self._program, "", 0))
        self._find_memory()

    def turn(self, name: str, tensor: Tensor) -> None:
        """Note that a tensor's shape or memory is about to change."""
        if self._knows(tensor):
            self._refusal = f"{name} at {_line_outside()} changed the shape or the memory"

    def _knows(self, tensor: Tensor) -> bool:
        """Whether a captured call names the tensor."""
        programs = [program for program, _, _ in self._segments] + [self._program]
        return any(
            each is tensor
            for program in programs
            for _, inputs, _, outputs in program.steps()
            for each in (*inputs, *outputs)
        )

    def look(self, run: Callable[[], Any]) -> Any:
        """Run what looks at a tensor's elements."""
        program, count = self._program, len(self._program)
        result = run()
        if program is self._program and len(program) > count:
            self._cut(count)
        return result

    def _cut(self, start: int) -> None:
        """End a segment after a look at a value, which began with call `start`."""
        self._program.__exit__()
        self._segments.append((self._program, _line_outside(), start))
        self._program = _C.Program()
        self._program.__enter__()

    def _find_memory(self) -> None:
        looks = False
        whole: set[int] = set()  # storages that the block has filled: what they held is gone
        for number, (program, _, start) in enumerate(self._segments):
            for place, (op, inputs, _, outputs) in enumerate(program.steps()):
                for tensor in inputs:
                    storage = _C._storage_id(tensor)
                    if storage not in whole:
                        self._read.setdefault(storage, tensor)
                if op == "read":
                    looks = True
                    if place < start:  # somebody else looked, too
                        self._segments[number] = (program, "", start)
                    self._at_risk = dict(self._written)
                for tensor in outputs:
                    storage = _C._storage_id(tensor)
                    self._written.setdefault(storage, tensor)
                    if tensor.numel() * tensor.element_size() >= tensor.untyped_storage().nbytes():
                        whole.add(storage)
                    self._result = outputs[0]
        if looks:
            self._at_risk.update({_C._storage_id(each): each for each in self._read.values()})

    # ---- running again

    def run(self, inputs: Sequence[Any], outputs: Any) -> Any:
        """Run the calls on new inputs; return copies of the outputs."""
        if self._refusal:
            raise RuntimeError(
                f"replay: {self._refusal} of a tensor that an op had used before, so that the ops "
                "cannot run again; use the op without the underscore there"
            )
        pairs = self._pairs(inputs)
        wanted = self._wanted(outputs)
        before = {storage: _bytes_of(tensor) for storage, tensor in self._at_risk.items()}
        where = ""
        try:
            for old, new in pairs:
                _put(old, new)
            for program, where, _ in self._segments:  # noqa: B007  the handler tells where it was
                program.replay()
        except BaseException as error:
            for storage, content in before.items():
                _restore(self._at_risk[storage], content)
            if not isinstance(error, RuntimeError):  # such as KeyboardInterrupt
                raise
            text = str(error)
            if where:
                text = text.replace("the program looked", f"at {where}, the program looked", 1)
            raise RuntimeError(f"{text}; nothing was changed") from None
        results = [tensor.detach().clone() for tensor in wanted]
        return results if isinstance(outputs, Sequence) else results[0]

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
        # New contents that lie in what is overwritten, as when two inputs change places.
        written = {_C._storage_id(old) for old, _ in pairs}
        return [
            (old, new.detach().clone() if _C._storage_id(new) in written else new)
            for old, new in pairs
        ]

    def _check(self, number: int, old: Tensor, new: Tensor) -> None:
        if _C._storage_id(old) not in self._read:
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
                raise RuntimeError("replay: the block computed nothing")
            return [self._result]
        wanted = list(outputs) if isinstance(outputs, Sequence) else [outputs]
        for number, tensor in enumerate(wanted):
            if not isinstance(tensor, Tensor) or _C._storage_id(tensor) not in self._written:
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
            for names, watched in ((_LOOKS, _watched_look), (_TURNS, _watched_turn)):
                for name in names:
                    original = vars(Tensor).get(name)
                    if original is not None:
                        _originals[name] = original
                        setattr(Tensor, name, watched(name, original))
            data = _originals["data"] = vars(Tensor)["data"]
            set_data = _watched_turn("data =", data.__set__)
            Tensor.data = property(data.__get__, set_data)  # type: ignore[assignment,misc]
        _capturing[replay._thread] = replay


def _end_watch(replay: Replay) -> None:
    with _lock:
        _capturing.pop(replay._thread, None)
        if not _capturing:
            for name, original in _originals.items():
                setattr(Tensor, name, original)
            _originals.clear()


def _watched_look(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def look(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        replay = _capturing.get(get_ident())
        if replay is None:
            return original(tensor, *args, **kwargs)
        return replay.look(lambda: original(tensor, *args, **kwargs))

    return look


def _watched_turn(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def turn(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        replay = _capturing.get(get_ident())
        if replay is not None:
            replay.turn(name, tensor)
        return original(tensor, *args, **kwargs)

    return turn


def _line_outside() -> str:
    """Return the line that called into the library."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"


# ---- memory


def _bytes_of(tensor: Tensor) -> bytes:
    storage = tensor.untyped_storage()
    return ctypes.string_at(storage.data_ptr(), storage.nbytes())


def _restore(tensor: Tensor, content: bytes) -> None:
    ctypes.memmove(tensor.untyped_storage().data_ptr(), content, len(content))


def _put(old: Tensor, new: Tensor) -> None:
    """Write the elements of a tensor over those of another, unseen by its version."""
    if old.numel() == 0:
        return
    size = old.element_size()
    if old.is_contiguous():
        source = new.detach().contiguous()
        ctypes.memmove(old.data_ptr(), source.data_ptr(), source.numel() * size)
        return
    storage = old.untyped_storage()
    whole = _C.empty(storage.nbytes() // size, dtype=old.dtype)
    length = whole.numel() * size
    ctypes.memmove(whole.data_ptr(), storage.data_ptr(), length)
    part = whole.as_strided(old.shape, old.stride(), old.storage_offset())
    part.copy_(new.detach())
    ctypes.memmove(storage.data_ptr(), whole.data_ptr(), length)
