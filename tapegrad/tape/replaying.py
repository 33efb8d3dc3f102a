"""Running a recorded block again on new inputs, without its Python.

The block's op calls are captured below autograd (``_C.Program``): a call names the memory it reads
and writes. Run again, they read what is in the inputs' memory now and write to where the first run
wrote. That memory is also what the tape saved, so that a sweep afterwards gives the gradients at
the new inputs. Versions do not change: to the tape, nothing was overwritten.

Where the program looked at a value (an ``if``, ``item()``, the number of nonzeros), what follows
holds for that value only: the same bytes must be found there again. The capture is cut at such
a look, so that it is known which line a guard that fails belongs to.

What the tape saved outside the block of memory that is written has no version to tell: it is marked
as overwritten. Everything by which running the code again would find other memory than the calls
name is refused: see `Assumptions`.
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
from tapegrad.tape._assumptions import Assumptions

__all__ = ["Replay"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The methods by which Python gets at a tensor's elements.
_LOOKS = (
    *("item", "tolist", "numpy", "nonzero", "equal", "masked_select", "unique"),
    *("__bool__", "__float__", "__int__", "__index__", "__array__", "__dlpack__", "__getitem__"),
    *("__reduce_ex__", "data_ptr", "__repr__", "__format__"),
)
# Those of them that tell an address: the memory can be read and written unseen from then on.
_SHARING = ("numpy", "__array__", "__dlpack__", "data_ptr")
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
        self._places: list[Tensor] = []  # of the inputs
        self._turned: list[tuple[Tensor, Tensor, str]] = []  # tensor, what it was, who changed it
        for number, each in enumerate(self._inputs):
            expect_type("tape.record", f"input {number}", each, Tensor, "a tensor")
        self._segments: list[tuple[Any, str, int]] = []  # a program, who looked, from which call on
        self._program = _C.Program()
        self._thread = 0
        self._is_sharing = False
        self._read: dict[int, Tensor] = {}  # by storage: what the block took from outside
        self._written: dict[int, Tensor] = {}
        self._at_risk: dict[int, Tensor] = {}  # what is written before the last look
        self._memory: list[Tensor] = []  # what a replay writes, apart from inputs
        self._result: Tensor | None = None
        self._refusal = ""
        self._assumptions = Assumptions()
        self._sequences = (0, 0)  # of the block's entries

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
        self._segments.append((self._program, "", 0))
        used = self._find_memory()
        self._refusal = self._find_refusal(used)
        self._turned.clear()
        inputs = zip(self._inputs, self._places, strict=True)
        used += [each for each in inputs if _C._storage_id(each[1]) in self._read]
        self._assumptions.settle(self._read, self._written, used)

    def turn(self, name: str, tensor: Tensor) -> None:
        """Note that a tensor's shape or memory is about to change."""
        self._turned.append((tensor, tensor.detach(), f"{name} at {_line_outside()}"))

    def look(self, name: str, run: Callable[[], Any]) -> Any:
        """Run what looks at a tensor's elements."""
        program, count = self._program, len(self._program)
        result = run()
        if name in _SHARING:
            self._is_sharing = True  # the program that knows of it must see what follows
        if program is self._program and len(program) > count and not self._is_sharing:
            self._cut(count)
        return result

    def _cut(self, start: int) -> None:
        """End a segment after a look at a value, which began with call `start`."""
        self._program.__exit__()
        self._segments.append((self._program, _line_outside(), start))
        self._program = _C.Program()
        self._program.__enter__()

    def _find_memory(self) -> list[tuple[Tensor, Tensor]]:
        """Find out what is read and written; return tensors from outside, each with an alias."""
        looks = False
        whole: set[int] = set()  # storages that the block has filled: what they held is gone
        used: dict[int, tuple[Tensor, Tensor]] = {}
        for number, (program, _, start) in enumerate(self._segments):
            for place, (op, inputs, _, outputs, tensors) in enumerate(program.steps()):
                for alias, tensor in zip(inputs, tensors, strict=True):
                    storage = _C._storage_id(alias)
                    if storage not in whole:
                        self._read.setdefault(storage, alias)
                        used.setdefault(id(tensor), (tensor, alias))
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
                    if op != "constant":
                        self._result = outputs[0]
        if looks:
            self._at_risk.update({_C._storage_id(each): each for each in self._read.values()})
        self._memory = list(self._written.values())
        return list(used.values())

    def _find_refusal(self, used: list[tuple[Tensor, Tensor]]) -> str:
        """Return why the block can never run again, or an empty string."""
        first_used = {id(tensor): alias for tensor, alias in used}
        for tensor, before, who in self._turned:
            storage = _C._storage_id(before)
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
        for program, _, _ in self._segments:
            if program.refusal:
                return program.refusal
            for tensor, is_written in program.foreign():
                storage = _C._storage_id(tensor)
                if storage in self._written or storage in self._read:
                    what = "wrote to" if is_written else "used"
                    return (
                        f"while the block ran, another thread {what} a tensor of shape "
                        f"{tuple(tensor.shape)} that the block uses, too, and what it did is not "
                        "recorded"
                    )
        return ""

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
        before = {storage: _bytes_of(tensor) for storage, tensor in self._at_risk.items()}
        memory = self._memory + [old for old, _ in pairs]
        where = ""
        try:
            for old, new in pairs:
                _put(old, new)
            for program, where, _ in self._segments:  # noqa: B007  the handler tells where it was
                program.replay()
        except BaseException as error:
            raise self._undo(error, before, where) from None
        _C._tape_overwritten(*self._sequences, memory, False)
        self._assumptions.restore_grads()
        results = [tensor.detach().clone() for tensor in wanted]
        return results if isinstance(outputs, Sequence) else results[0]

    def _undo(self, error: BaseException, before: Mapping[int, bytes], where: str) -> BaseException:
        """Put back what there is to put back; return the error with what follows from it."""
        for storage, content in before.items():
            _restore(self._at_risk[storage], content)
        text = str(error)
        if isinstance(error, RuntimeError) and text.startswith("replay: a guard does not hold"):
            if where:
                text = text.replace("the program looked", f"at {where}, the program looked", 1)
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
        _check_agreement(pairs)
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
        return replay.look(name, lambda: original(tensor, *args, **kwargs))

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
    return ctypes.string_at(storage._address(), storage.nbytes())


def _restore(tensor: Tensor, content: bytes) -> None:
    ctypes.memmove(tensor.untyped_storage()._address(), content, len(content))


def _put(old: Tensor, new: Tensor) -> None:
    """Write the elements of a tensor over those of another, unseen by its version."""
    _write(old, new, old.untyped_storage()._address())


def _write(old: Tensor, new: Tensor, address: int) -> None:
    """Write elements to where those of `old` would be if its memory began at the address."""
    if old.numel() == 0:
        return
    if old.is_meta or new.is_meta:
        raise RuntimeError("replay: expected tensors with elements, got one on the meta device")
    size = old.element_size()
    if old.is_contiguous():
        source = new.detach().contiguous()
        start = address + old.storage_offset() * size
        ctypes.memmove(start, source.data_ptr(), source.numel() * size)
        return
    whole, shape, new = _elements(old, address), list(old.shape), new.detach()
    for dim, stride in enumerate(old.stride()):
        if stride == 0:  # one element stands for all of them
            shape[dim], new = 1, new.narrow(dim, 0, 1)
    whole.as_strided(shape, old.stride(), old.storage_offset()).copy_(new)
    ctypes.memmove(address, whole.data_ptr(), whole.numel() * size)


def _elements(old: Tensor, address: int) -> Tensor:
    """Return a copy of as many elements as the memory of `old` has, from an address on."""
    size = old.element_size()
    whole = _C.empty(old.untyped_storage().nbytes() // size, dtype=old.dtype, device="cpu")
    ctypes.memmove(whole.data_ptr(), address, whole.numel() * size)
    return whole


def _dense_bytes(tensor: Tensor) -> bytes:
    return _bytes_of(tensor.detach().contiguous().clone())


def _check_agreement(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Refuse new contents that contradict each other where recorded inputs share elements."""
    by_storage: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for pair in pairs:
        by_storage.setdefault(_C._storage_id(pair[0]), []).append(pair)
    for group in by_storage.values():
        if len(group) == 1 and (group[0][0].is_contiguous() or 0 not in group[0][0].stride()):
            continue
        scratch = ctypes.create_string_buffer(_bytes_of(group[0][0]))
        address = ctypes.addressof(scratch)
        for old, new in group:
            _write(old, new, address)
        for old, new in group:
            found = _elements(old, address)
            found = found.as_strided(old.shape, old.stride(), old.storage_offset())
            if _dense_bytes(found) != _dense_bytes(new):
                raise ValueError(
                    "replay: recorded inputs share memory, and the new ones differ there: no "
                    f"tensor of shape {tuple(old.shape)} can hold what is given for it; pass one "
                    "of them, or record the block with inputs of their own"
                )
