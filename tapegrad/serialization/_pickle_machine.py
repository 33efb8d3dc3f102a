"""A machine for the pickles in PyTorch's checkpoints that cannot do anything else.

Python's unpickler finds classes by name and calls them. This one knows no classes: a name stands
for an entry of a table it is given, and a name that is not in the table ends the load; objects are
made of those classes alone that the program has allowed (`add_safe_globals`). Lengths are
compared with what is left of the pickle before anything is made of them, copies are paid for from a
budget in proportion to the pickle, and nothing recurses. So a pickle of n bytes takes time and
memory in proportion to n, whatever it says.
"""

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sized
from typing import Any

from tapegrad.serialization._errors import RefusedError
from tapegrad.serialization._keys import KeyGuard, is_harmless

__all__ = ["Function", "Machine"]

UNSIGNED = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"),
            8: struct.Struct("<Q")}  # fmt: skip
SIGNED = struct.Struct("<i")
DOUBLE = struct.Struct(">d")
MAPPINGS = (dict, OrderedDict, defaultdict, Counter)


class Function:
    """What a name in a pickle stands for: something that REDUCE may call.

    Args:
        name: the name.
        call: receives the machine and the arguments.
    """

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call


class Machine:
    """Runs one pickle.

    Args:
        data: the pickle.
        find: returns what a name stands for, or raises.
        find_persistent: returns what a persistent id stands for, or raises.
        allowed: classes and functions that may be called.
    """

    def __init__(
        self,
        data: bytes,
        find: Callable[[str], Any],
        find_persistent: Callable[[Any], Any],
        allowed: Iterable[Any] = (),
    ) -> None:
        self.allowed = {id(each): each for each in allowed}
        self.data = data
        self.place = 0
        self.find = find
        self.find_persistent = find_persistent
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []  # the stacks below each MARK
        self.memo: dict[int, Any] = {}
        self.attached: list[Any] = []  # values that became attributes of tensors
        self.budget = 2 * len(data) + 4096
        self._guards: dict[int, tuple[Any, KeyGuard]] = {}

    def run(self) -> Any:
        """Return the value that the pickle describes."""
        while True:
            (code,) = self.take(1)
            if code == 0x2E:  # STOP
                return self.stack.pop()
            operation = OPERATIONS.get(code)
            if operation is None:
                raise ValueError(f"operation {code:#04x} has no place in a checkpoint")
            operation(self)

    # ---- what operations are made of

    def take(self, count: int) -> bytes:
        """Return the next bytes of the pickle."""
        end = self.place + count
        if end > len(self.data):
            raise ValueError("the pickle is cut short")
        taken = self.data[self.place : end]
        self.place = end
        return taken

    def number(self, width: int) -> int:
        """Return the next unsigned number."""
        return UNSIGNED[width].unpack(self.take(width))[0]

    def line(self) -> str:
        """Return the text up to the end of the line."""
        end = self.data.find(b"\n", self.place, self.place + 1000)
        if end < 0:
            raise ValueError("a name that does not end")
        text = self.data[self.place : end].decode("utf-8")
        self.place = end + 1
        return text

    def pop_mark(self) -> list[Any]:
        """Return what was pushed since the last MARK."""
        items = self.stack
        self.stack = self.outer.pop()
        return items

    def pay(self, value: Any) -> Any:
        """Charge for a copy of a value, which pickles can ask for again and again."""
        self.budget -= 16 + (len(value) if isinstance(value, Sized) else 0)
        if self.budget < 0:
            raise ValueError("it copies the same values too often")
        return value

    def set_items(self, target: Any, items: list[Any]) -> None:
        """Put keys and values, in turn, into a dict."""
        if type(target) not in MAPPINGS or len(items) % 2:
            raise ValueError("items for something that is no dict")
        for key, value in zip(items[0::2], items[1::2], strict=True):
            if not is_harmless(key):
                self.guard(target).check(key)
            target[key] = value

    def add_members(self, target: set[Any], items: list[Any]) -> None:
        """Put members into a set."""
        for item in items:
            if not is_harmless(item):
                self.guard(target).check(item)
            target.add(item)

    def guard(self, target: Any) -> KeyGuard:
        """Return the guard of a container's keys."""
        if id(target) not in self._guards:
            self._guards[id(target)] = (target, KeyGuard())  # The target keeps its id.
        return self._guards[id(target)][1]

    # ---- operations

    def push_long(self, width: int) -> None:
        count = self.number(width)
        self.stack.append(int.from_bytes(self.take(count), "little", signed=True))

    def push_text(self, width: int) -> None:
        self.stack.append(self.take(self.number(width)).decode("utf-8", "surrogatepass"))

    def push_bytes(self, width: int) -> None:
        self.stack.append(self.take(self.number(width)))

    def push_tuple(self, count: int) -> None:
        if len(self.stack) < count:
            raise ValueError("a tuple of more than there is")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def push_marked(self, make: Callable[[list[Any]], Any]) -> None:
        items = self.pop_mark()
        self.stack.append(make(items))

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def append_all(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError("values for something that is no list")
        target.extend(items)

    def make_dict(self) -> None:
        items = self.pop_mark()
        made: dict[Any, Any] = {}
        self.set_items(made, items)
        self.stack.append(made)

    def make_frozenset(self) -> None:
        members: set[Any] = set()
        self.add_members(members, self.pop_mark())
        self.stack.append(frozenset(members))

    def add_items(self) -> None:
        items = self.pop_mark()
        if type(self.stack[-1]) is not set:
            raise ValueError("members for something that is no set")
        self.add_members(self.stack[-1], items)

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def mark(self) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError("a name that is no text")
        self.stack.append(self.find(f"{module}.{name}"))

    def reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        if type(args) is tuple and id(function) in self.allowed:
            self.stack.append(function(*args))
            return
        if type(args) is not tuple or type(function) is not Function:
            raise ValueError("a call of something that is no function")
        self.stack.append(function.call(self, *args))

    def new_object(self) -> None:
        """Make an object of a class that is allowed."""
        args, cls = self.stack.pop(), self.stack.pop()
        if type(args) is not tuple or id(cls) not in self.allowed or not isinstance(cls, type):
            raise ValueError("an object of something that is no class")
        self.stack.append(cls.__new__(cls, *args))

    def set_state(self, target: Any, state: Any) -> None:
        """Give an object of a class that is allowed its state."""
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
        for each in (attributes, slots):
            if each is not None and type(each) is not dict:
                raise ValueError("state of an unknown kind")
        if attributes:
            target.__dict__.update(attributes)
        for name, value in (slots or {}).items():
            setattr(target, name, value)

    def build(self) -> None:
        """Take the note that a module leaves on its state dict; what is allowed has state, too."""
        state, target = self.stack.pop(), self.stack[-1]
        if id(type(target)) in self.allowed:
            return self.set_state(target, state)
        if type(target) is not OrderedDict or type(state) is not dict:
            raise RefusedError(f"state for an object of type {type(target).__name__}")
        if state.keys() - {"_metadata"}:
            raise RefusedError(f"attributes {sorted(map(str, state))!s:.80} of an OrderedDict")
        if state:
            target._metadata = state["_metadata"]  # type: ignore[attr-defined]


def _set_item(machine: Machine) -> None:
    items = machine.stack[-2:]
    del machine.stack[-2:]
    machine.set_items(machine.stack[-1], items)


def _set_items(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.set_items(machine.stack[-1], items)


def _append(machine: Machine) -> None:
    item = machine.stack.pop()
    machine.append_all([item])


def _append_all(machine: Machine) -> None:
    items = machine.pop_mark()
    machine.append_all(items)


def _push(make: Callable[[], Any]) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(make())


def _check_protocol(machine: Machine) -> None:
    protocol = machine.number(1)
    if not 2 <= protocol <= 5:
        raise ValueError(f"protocol {protocol} of pickles; expected 2 to 5")


OPERATIONS: dict[int, Callable[[Machine], Any]] = {
    0x80: _check_protocol,
    0x95: lambda machine: machine.take(8),  # FRAME: a hint for readers of streams
    ord("("): Machine.mark,
    ord("0"): Machine.pop,
    ord("1"): Machine.pop_mark,
    ord("2"): lambda machine: machine.stack.append(machine.stack[-1]),
    ord("N"): _push(lambda: None),
    0x88: _push(lambda: True),
    0x89: _push(lambda: False),
    ord("J"): lambda machine: machine.stack.append(SIGNED.unpack(machine.take(4))[0]),
    ord("K"): lambda machine: machine.stack.append(machine.number(1)),
    ord("M"): lambda machine: machine.stack.append(machine.number(2)),
    0x8A: lambda machine: machine.push_long(1),
    0x8B: lambda machine: machine.push_long(4),
    ord("G"): lambda machine: machine.stack.append(DOUBLE.unpack(machine.take(8))[0]),
    0x8C: lambda machine: machine.push_text(1),
    ord("X"): lambda machine: machine.push_text(4),
    0x8D: lambda machine: machine.push_text(8),
    ord("C"): lambda machine: machine.push_bytes(1),
    ord("B"): lambda machine: machine.push_bytes(4),
    0x8E: lambda machine: machine.push_bytes(8),
    0x96: lambda machine: machine.stack.append(bytearray(machine.take(machine.number(8)))),
    ord("]"): _push(list),
    ord("}"): _push(dict),
    ord(")"): _push(tuple),
    0x8F: _push(set),
    ord("l"): lambda machine: machine.push_marked(list),
    ord("t"): lambda machine: machine.push_marked(tuple),
    ord("d"): Machine.make_dict,
    0x91: Machine.make_frozenset,
    0x85: lambda machine: machine.push_tuple(1),
    0x86: lambda machine: machine.push_tuple(2),
    0x87: lambda machine: machine.push_tuple(3),
    ord("a"): _append,
    ord("e"): _append_all,
    ord("s"): _set_item,
    ord("u"): _set_items,
    0x90: Machine.add_items,
    ord("q"): lambda machine: machine.put(machine.number(1)),
    ord("r"): lambda machine: machine.put(machine.number(4)),
    0x94: lambda machine: machine.put(len(machine.memo)),
    ord("h"): lambda machine: machine.stack.append(machine.memo[machine.number(1)]),
    ord("j"): lambda machine: machine.stack.append(machine.memo[machine.number(4)]),
    ord("c"): lambda machine: machine.stack.append(
        machine.find(f"{machine.line()}.{machine.line()}")
    ),
    0x93: Machine.stack_global,
    ord("R"): Machine.reduce,
    0x81: Machine.new_object,
    ord("b"): Machine.build,
    ord("Q"): lambda machine: machine.stack.append(machine.find_persistent(machine.stack.pop())),
}
