"""What a compiled function returns: objects of classes that hold tensors."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import pytest
from library import IS_TORCH, torch

from compile.pairs import Pair, no_grad

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

Point = namedtuple("Point", "x y")


class Labelled(Point):
    """A named tuple with attributes of its own."""


@dataclasses.dataclass
class Output:
    logits: object
    loss: object = None

    def __post_init__(self):
        self.loss = self.logits.sum()


@dataclasses.dataclass(frozen=True)
class Frozen:
    parts: tuple
    name: str


class Ordered(OrderedDict):
    """A dict whose attributes are its items, as libraries of models return."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


@dataclasses.dataclass
class ModelOutput(Ordered):
    logits: object = None
    hidden: object = None
    cache: object = None


@dataclasses.dataclass
class Slotted:
    __slots__ = ("x",)
    x: object


class Opaque:
    def __init__(self, x):
        self.x = x


def shown(value):
    """Return an object as plain containers, with its class."""
    if isinstance(value, torch.Tensor) or value is None or isinstance(value, (int, str)):
        return value
    kind = type(value).__name__
    if isinstance(value, tuple):
        return kind, [shown(each) for each in value]
    items = [(key, shown(each)) for key, each in value.items()] if isinstance(value, dict) else []
    attributes = getattr(value, "__dict__", {})
    return kind, items, [(name, shown(each)) for name, each in attributes.items()]


def pair_of(function):
    """Compile a function, and compare what it returns as plain containers."""
    pair = Pair(no_grad(function))
    eager, compiled = pair.eager, pair.compiled
    pair.eager = lambda x: shown(eager(x))
    found = []

    def call(x):
        found.append(compiled(x))
        return shown(found[-1])

    pair.compiled = call
    for _ in range(4):
        pair.call(torch.randn(3, 3))
    pair.compiled = compiled
    assert len({id(each) for each in found}) == 4
    return pair, found


@pytest.mark.parametrize(
    "function",
    [
        lambda x: Point(x + 1, 3),
        lambda x: (x + 1).topk(2),
        lambda x: (x.shape, x + 1),
        lambda x: OrderedDict(b=x + 1, a=[x * 2]),
        lambda x: Output(x * 2),
        lambda x: {"nested": [Frozen((x + 1, Point(x * 2, None)), "a")]},
        lambda x: ModelOutput(logits=x + 1, cache=(x * 2, x * 3)),
    ],
    ids=["namedtuple", "return type", "size", "ordered", "dataclass", "nested", "model output"],
)
def test_objects_that_hold_tensors(function):
    pair, _ = pair_of(function)
    assert pair.traces == 1, pair.reasons


def test_attributes_and_items_are_one_tensor():
    _, found = pair_of(lambda x: ModelOutput(logits=x + 1))
    assert type(found[-1]) is ModelOutput
    assert found[-1].logits is found[-1]["logits"]
    assert found[-1].hidden is None


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: Labelled(x + 1, 3), "returns a Labelled, which a trace cannot make"),
        (lambda x: Slotted(x + 1), "Slotted, whose state is not visible"),
        (lambda x: Opaque(x + 1), "returns a Opaque, which a trace cannot make"),
        (lambda x: defaultdict(list, a=x + 1), "returns a defaultdict, which a trace cannot make"),
    ],
    ids=["subclass", "slots", "any class", "defaultdict"],
)
def test_other_objects_run_eagerly(function, reason):
    pair, _ = pair_of(function)
    assert pair.traces == 0
    assert reason in pair.reasons


def test_an_object_that_is_returned_twice():
    def function(x):
        output = Output(x + 1)
        return output, output

    pair, found = pair_of(function)
    assert pair.traces == 0
    assert found[-1][0] is found[-1][1]


def test_what_an_object_is_made_by_is_followed(monkeypatch):
    pair, _ = pair_of(lambda x: Output(x * 2))

    def doubled(self):
        self.loss = self.logits.sum() * 2

    monkeypatch.setattr(Output, "__post_init__", doubled)
    x = torch.ones(3, 3)
    for _ in range(4):
        assert pair.compiled(x).loss == 36


def test_objects_are_differentiated_outside():
    def function(x):
        return ModelOutput(logits=(x * x).sin(), hidden=x.exp())

    compiled = torch.compile(function)
    for _ in range(4):
        grads = []
        for each in (function, compiled):
            x = torch.ones(3, requires_grad=True)
            output = each(x)
            (output.logits * output["hidden"]).sum().backward()
            grads.append(x.grad)
        assert torch.equal(*grads)
    assert len(torch.compiler.explain(compiled).traces) == 1
    assert output.logits.grad_fn.name() == "CompiledBackward"
