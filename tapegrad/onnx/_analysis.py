"""What is known of a recording before it is translated: what depends on what, what is needed."""

from collections.abc import Iterable

from tapegrad._ops import ops
from tapegrad.onnx._capture import SMALL, Call, Operand, Recording, content
from tapegrad.onnx._memory import item_size
from tapegrad.onnx._paths import Place
from tapegrad.onnx.errors import UnsupportedOperatorError

__all__ = ["Analysis", "where"]

_CHECKS = ("has_zero",)  # ops whose result is looked at only to refuse bad input


def where(call: Call) -> str:
    """Return the line of a call, for messages."""
    return f", called at {call.line}" if call.line else ""


def _memory_of(operands: Iterable[object]) -> set[int]:
    return {each.memory for each in operands if isinstance(each, Operand)}


class Analysis:
    """Facts about a recording.

    Attributes:
        forms: the places by which calls see all of some memory, by its number.
        read: memory that is read for the outputs.
        folded: memory that holds constants, by number, with its bytes.
        needed: the places of calls that become nodes.
        masked: memory with the places of a mask's elements, which only writes of one number use.
    """

    def __init__(self, recording: Recording, inputs: set[int], parameters: set[int]) -> None:
        self._recording = recording
        self._calls = recording.calls
        self.forms = self._find_forms()
        self.masked, self._counts = self._find_masked()
        tainted = self._dependent(inputs, ())
        self._check_reads(tainted)
        random = {record.name for record in ops() if "random" in record.traits}
        self.folded = self._find_folded(self._dependent(inputs | parameters, random))
        self.read, self.needed = self._find_needed()

    def _find_forms(self) -> dict[int, list[Place]]:
        forms: dict[int, list[Place]] = {}
        operands = [each for each in self._recording.outputs if each is not None]
        for call in self._calls:
            both = (*call.inputs, *call.outputs)
            operands += [each for each in both if isinstance(each, Operand)]
        for memory, place in operands:
            nbytes = place.numel() * item_size(place.dtype)
            if nbytes == self._recording.sizes[memory] and place.is_dense():
                forms.setdefault(memory, []).append(place)
        return forms

    def _find_masked(self) -> tuple[set[int], set[int]]:
        """Find writes such as ``x[mask] = 0``: how many elements are true matters to nobody.

        Returns:
            Memory with the places of a mask's elements, and with their number.
        """
        places, counts = set(), set()
        for call in self._calls:
            if call.op != "nonzero":
                continue
            (found,), (mask, count) = call.outputs, call.inputs
            users = [each for each in self._calls if found.memory in _memory_of(each.inputs)]
            outputs = _memory_of(self._recording.outputs)
            if (
                users
                and found.memory not in outputs
                and all(_is_masked_write(each, found, mask) for each in users)
            ):
                places.add(found.memory)
                counts.add(count.memory)
        return places, counts

    def _dependent(self, sources: set[int], ops_too: Iterable[str]) -> set[int]:
        """Return the memory that depends on some, or on what some ops give."""
        found = set(sources)
        for call in self._calls:
            if call.op in ops_too or found & _memory_of(call.inputs):
                found |= _memory_of(call.outputs)
        return found

    def _check_reads(self, tainted: set[int]) -> None:
        """Refuse what Python looked at, if it may be another in other runs."""
        last: Call | None = None
        for call in self._calls:
            if call.op == "read" and tainted & _memory_of(call.inputs):
                if last is not None and last.op in _CHECKS:
                    continue
                if self._counts >= _memory_of(call.inputs):
                    continue
                maker = "an input" if last is None else f"what {last.op} gave"
                line = where(call) or (where(last) if last is not None else "")
                raise UnsupportedOperatorError(
                    f"export: the model looks at elements that depend on its inputs, {maker}{line}:"
                    " a branch, an item() or a size that depends on elements has no form in ONNX; "
                    "use torch.where and masks, or leave this part outside"
                )
            if call.op not in ("read", "constant"):
                last = call

    def _find_folded(self, changing: set[int]) -> dict[int, bytes]:
        """Find memory whose bytes are those of the recording in every run of the graph."""
        last_write: dict[int, int] = {}
        for number, call in enumerate(self._calls):
            last_write.update(dict.fromkeys(_memory_of(call.outputs), number))
        folded: dict[int, bytes] = {}
        for memory in last_write.keys() - changing:
            values = [run[memory] for run in self._recording.values]
            if not values[0][3] or any(each[0] is None or each[1] > SMALL for each in values):
                continue  # from outside, or large
            found = [content(each[0]) for each in values]
            if all(each == found[0] for each in found):
                folded[memory] = found[0]
        # What a node reads must not be written afterwards: the bytes are those of the end.
        while True:
            early = {
                memory
                for number, call in enumerate(self._calls)
                if _memory_of(call.outputs) - folded.keys()
                for memory in _memory_of(call.inputs) & folded.keys()
                if last_write[memory] > number
            }
            if not early:
                return folded
            folded = {memory: each for memory, each in folded.items() if memory not in early}

    def _find_needed(self) -> tuple[set[int], set[int]]:
        """Return the memory that is read for the outputs, and the places of calls that make it."""
        read = _memory_of(self._recording.outputs)
        needed = set()
        for number in reversed(range(len(self._calls))):
            call = self._calls[number]
            if (read - self.folded.keys()) & _memory_of(call.outputs):
                needed.add(number)
                is_mask = self.masked & _memory_of(call.outputs)
                read |= _memory_of(call.inputs[:1] if is_mask else call.inputs)
        return read, needed


def _is_masked_write(call: Call, found: Operand, mask: Operand) -> bool:
    """Return whether a call writes one number to all places of a mask."""
    if call.op != "index_put_" or call.attributes["accumulate"]:
        return False
    _, source, *columns = call.inputs
    rank, count = max(len(mask.place.sizes), 1), found.place.sizes[1]
    return (
        source.place.numel() == 1
        and len(columns) == rank
        and all(
            each.memory == found.memory
            and each.place.offset == found.place.offset + count * number
            and each.place.sizes == (count,)
            for number, each in enumerate(columns)
        )
    )
