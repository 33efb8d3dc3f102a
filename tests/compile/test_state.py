"""State of many kinds that changes between two calls: the compiled function sees each change."""

import collections
import dataclasses
import enum
import functools
import itertools
import sys
import threading
import types
import weakref

import numpy as np
import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

import tapegrad.nn.utils.prune

nn, functional = torch.nn, torch.nn.functional
GLOBAL = {"value": 1.0}
NUMBER = 1.0


class Mode(enum.Enum):
    ONE = 1
    TWO = 2

    def scale(self):
        return GLOBAL["value"]


class Loaded(enum.Enum):
    VALUES = [1.0]  # noqa: RUF012


class Scale(float):
    def applied(self):
        return self * GLOBAL["value"]


class Names(set):
    pass


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    names: list = dataclasses.field(default_factory=list)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Base:
    offset = 1.0

    def shift(self, x):
        return x + self.offset


class Thing(Base):
    factor = 2.0

    def __init__(self):
        self.kind = "double"

    @property
    def scale(self):
        return GLOBAL["value"]

    def __getattr__(self, name):
        if name == "computed":
            return GLOBAL["value"] + 1
        raise AttributeError(name)

    def double(self, x):
        return x * 2

    def triple(self, x):
        return x * 3

    def __mul__(self, x):
        return x * GLOBAL["value"]

    def __str__(self):
        return "x" * int(GLOBAL["value"])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class Checked(nn.BatchNorm1d):
    def _check_input_dim(self, x):
        if GLOBAL["value"] > 1:
            raise ValueError("checked")


class Doubled:
    def __get__(self, instance, owner):
        return GLOBAL["value"] * 2


class Described:
    value = Doubled()


SETTINGS = types.ModuleType("compile_settings")
SETTINGS.scale = 1.0
sys.modules["compile_settings"] = SETTINGS


def check(function, change, *, undo=None, replayed=True, x=None):
    """Call a function eagerly and compiled, before and after a change."""
    x = torch.arange(4.0).reshape(2, 2) + 1 if x is None else x
    compiled = torch.compile(function)
    try:
        for call in range(10):
            if call == 5:
                told = torch.compiler.explain(compiled)
                assert bool(told.traces) == replayed, told
                change()
            results = []
            for each in (function, compiled):
                try:
                    results.append(each(x))
                except ValueError as error:
                    results.append(str(error))
            assert same(*results), (call, results)
    finally:
        GLOBAL["value"] = 1.0
        if undo:
            undo()


def set_value():
    GLOBAL["value"] = 5.0


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (lambda x, t=Thing(): x * t.scale, set_value),  # noqa: B008
        (lambda x, t=Thing(): x * t.computed, set_value),  # noqa: B008
        (lambda x, t=Thing(): t * x, set_value),  # noqa: B008
        (lambda x, d=Described(): x * d.value, set_value),  # noqa: B008
        (torch.no_grad()(lambda x: Checked(2)(x)), set_value),
        (lambda x, t=Thing(): x * len(f"{t}"), set_value),  # noqa: B008
        (lambda x, t=Thing(): x * type(t).__dict__["triple"](t, x), set_value),  # noqa: B008
        (lambda x: x * max(GLOBAL.values()), set_value),
        (lambda x: x * sum(v for k, v in GLOBAL.items() if k != "other"), set_value),
        (lambda x: [x * n for n in GLOBAL.values()], set_value),
        (lambda x, mode=Mode.ONE: x * mode.scale(), set_value),
        (lambda x, scale=Scale(2.0): x * scale.applied(), set_value),  # noqa: B008
        (lambda x, t=Thing(): x * float("{0.scale}".format(t)), set_value),  # noqa: B008, UP030, UP032
    ],
)
def test_a_global_that_is_reached_in_many_ways(function, change):
    check(function, change)


def test_a_class_and_its_base(monkeypatch):
    thing = Thing()
    check(
        lambda x: thing.shift(x) * thing.factor, lambda: monkeypatch.setattr(Thing, "factor", 9.0)
    )
    check(lambda x: thing.shift(x), lambda: monkeypatch.setattr(Base, "offset", 9.0))
    check(lambda x: thing.shift(x), lambda: setattr(thing, "offset", 7.0))


def test_a_method_by_a_name_that_changes():
    thing = Thing()
    check(lambda x: getattr(thing, thing.kind)(x), lambda: setattr(thing, "kind", "triple"))


def test_sizes_slices_and_named_tuples_are_compared_by_value():
    function = torch.no_grad()(lambda x, size, part, pair: x.expand(size)[part] * pair.a)
    compiled = torch.compile(function)
    for i in range(8):
        x = torch.ones(1, 3)
        given = torch.ones(4, 3).shape, slice(0, 2 + i // 4), Pair(2.0, 3.0)
        assert same(function(x, *given), compiled(x, *given))
    assert len(torch.compiler.explain(compiled).traces) == 2


def test_the_class_of_an_object():
    class Other(Thing):
        def double(self, x):
            return x - 1

    thing = Thing()
    check(lambda x: thing.double(x), lambda: setattr(thing, "__class__", Other))


def test_configurations():
    config = Config()
    check(lambda x: x * config.scale, lambda: setattr(config, "scale", 3.0))
    check(lambda x: x + len(config.names), lambda: config.names.append("a"))
    holder = {"mode": Mode.ONE, "pair": Pair(1.0, 2.0), "text": "a"}
    check(lambda x: x * holder["mode"].value, lambda: holder.update(mode=Mode.TWO))
    check(lambda x: x * holder["pair"].b, lambda: holder.update(pair=Pair(1.0, 5.0)))
    check(lambda x: x * len(holder["text"]), lambda: holder.update(text="abc"))


def test_the_order_of_dicts_and_sets():
    table = {"a": 1.0, "b": 2.0}
    check(lambda x: x * next(iter(table.values())), lambda: table.update(a=table.pop("a")))
    ordered = collections.OrderedDict(a=1.0, b=2.0)
    check(lambda x: x * next(iter(ordered.values())), lambda: ordered.move_to_end("a"))
    names = {"a"}
    check(lambda x: x * (2 if "b" in names else 3), lambda: names.add("b"))
    check(lambda x: x * (2 if "b" in names else 3), lambda: (names.discard("b"), names.add("c")))
    counts = collections.Counter("aab")
    check(lambda x: x * counts["a"], lambda: counts.update("a"))


def test_sets_have_an_order_and_members_have_types():
    names, one, order = Names(), {1}, {0, 8}
    check(lambda x: x * (2 if "b" in names else 3), lambda: names.add("b"))
    check(lambda x: x.int() * next(iter(one)), lambda: (one.clear(), one.add(1.0)))
    check(
        lambda x: x * next(iter(order)), lambda: (order.clear(), order.update((8,)), order.add(0))
    )


def test_what_members_of_enumerations_hold(monkeypatch):
    check(
        lambda x, each=Loaded.VALUES: x * each.value[0],
        lambda: Loaded.VALUES.value.__setitem__(0, 9.0),
    )
    mode = Mode.TWO
    mode.extra = 2.0
    check(lambda x: x * mode.extra, lambda: monkeypatch.setattr(mode, "extra", 7.0))


def test_attributes_of_partials_and_factories():
    partial = functools.partial(torch.mul)
    partial.scale = 2.0
    check(lambda x: partial(x, partial.scale), lambda: setattr(partial, "scale", 8.0))
    counts = collections.defaultdict(lambda: GLOBAL["value"])
    check(lambda x: x * counts.copy()["new"], set_value)


def test_print_options():
    x = torch.full((2,), 1.23456)
    check(
        lambda x: (x * 2, str(x), f"{x}"),
        lambda: torch.set_printoptions(precision=2),
        undo=lambda: torch.set_printoptions(profile="default"),
        x=x,
    )


def slices():
    base = torch.arange(32.0)
    return [base[place : place + 8] for place in (4, 0)]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.storage_offset(),
        lambda x: x.as_strided((2,), (1,), 6) * 1,
        lambda x: torch.as_strided(x, (2,), (1,), 6) * 1,
        lambda x: x.as_strided_scatter(torch.zeros(2), (2,), (1,), 6),
    ],
)
def test_where_a_slice_begins(function):
    compiled = torch.compile(function)
    first, other = slices()
    for x in (*(first,) * 5, *(other,) * 5, first):
        assert same(function(x), compiled(x))
    assert len(torch.compiler.explain(compiled).traces) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [(0.0, -0.0), (1, True), (1, 1.0), (1.0, 1), (2, 3), (float("nan"), 1.0), (2**40, 2**41)],
)
def test_numbers_that_look_alike(before, after):
    holder = [before]

    def function(x):
        value = holder[0]
        return (
            x.clone(),
            torch.tensor(float(value)).copysign(torch.tensor(1.0)),
            str(type(value)),
            1 / (x * value),
        )

    check(function, lambda: holder.__setitem__(0, after))


def test_a_module_of_settings():
    import compile_settings

    def imports(x):
        import compile_settings as inside

        return x * inside.scale

    for value, function in enumerate((lambda x: x * compile_settings.scale, imports)):
        check(function, lambda value=value: setattr(SETTINGS, "scale", 5.0 + value))
    SETTINGS.scale = 1.0


def test_functions_of_the_library_that_are_replaced(monkeypatch):
    check(
        lambda x: functional.relu(x - 2), lambda: monkeypatch.setattr(functional, "relu", torch.sin)
    )
    check(lambda x: torch.exp(x), lambda: monkeypatch.setattr(torch, "exp", torch.cos))


def test_a_builtin_that_is_shadowed(monkeypatch):
    check(
        lambda x: x * len([1, 2]),
        lambda: monkeypatch.setitem(globals(), "len", lambda value: 9),
    )


def test_partials_and_lists_of_functions():
    functions = [lambda x: x + 1, functools.partial(torch.add, alpha=3.0, other=torch.ones(()))]
    check(
        lambda x: functions[1](functions[0](x)), lambda: functions.__setitem__(0, lambda x: x * 4)
    )


# ---- modules


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU()).requires_grad_(False)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.append(nn.Sigmoid()),
        lambda model: model.__setitem__(1, nn.Tanh()),
        lambda model: model.__delitem__(1),
        lambda model: setattr(model[0], "bias", None),
        lambda model: model[0].weight.t_(),
        lambda model: model[0].weight.resize_(2, 2).fill_(3.0),
        lambda model: model[0].weight.set_(torch.full((2, 2), 7.0)),
        lambda model: setattr(model[0].weight, "data", torch.full((2, 2), 8.0)),
        lambda model: model[0].weight.requires_grad_(True),
        lambda model: model[0].register_forward_hook(lambda m, a, out: out + 1),
        lambda model: setattr(model[0], "forward", lambda x: x * 5),
        lambda model: tapegrad.nn.utils.prune.l1_unstructured(model[0], "weight", 0.5),
        lambda model: nn.utils.parametrizations.spectral_norm(model[0]),
        lambda model: model.load_state_dict(small().append(nn.Identity()).state_dict()),
    ],
)
def test_a_model(change):
    model = small()
    with torch.no_grad():
        check(torch.no_grad()(lambda x: model(x)), lambda: change(model))


def test_buffers():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x):
            return x * self.scale

    model = Scaled()
    check(model, lambda: setattr(model, "scale", torch.full((), 3.0)))
    check(model, lambda: model.scale.fill_(7.0))
    check(model, lambda: model.double())
    check(model, lambda: model.register_buffer("other", torch.ones(1)))


def test_attributes_of_tensors():
    weight = torch.ones(())

    def function(x):
        return x * (3 if getattr(weight, "tripled", False) else 2) * weight

    check(function, lambda: setattr(weight, "tripled", True))
    check(function, lambda: setattr(weight, "tripled", False))


def test_tensors_that_share_memory():
    memory = torch.arange(8.0)
    first, second = memory[:4].view(2, 2), memory[2:6].view(2, 2)

    def function(x):
        return x * first + second

    check(function, lambda: memory.mul_(2))


def test_what_is_put_into_classes_of_the_library(monkeypatch):
    def scaled(self):
        return self * GLOBAL["value"]

    monkeypatch.setattr(torch.Tensor, "scaled", scaled, raising=False)
    check(lambda x: x.scaled(), set_value)
    monkeypatch.setattr(nn.Linear, "scaled", lambda self, x: x * GLOBAL["value"], raising=False)
    layer = nn.Linear(2, 2)
    check(lambda x: layer.scaled(x), set_value)
    check(
        lambda x: layer.scaled(x),
        lambda: monkeypatch.setattr(nn.Linear, "scaled", lambda s, x: x - 1),
    )


def test_attributes_of_functions():
    def inner(x):
        return x * getattr(inner, "scale", 2.0)

    check(inner, lambda: setattr(inner, "scale", 6.0))
    check(inner, lambda: setattr(inner, "scale", 7.0))


def test_an_attribute_that_a_module_gets_later():
    check(lambda x: x * getattr(SETTINGS, "later", 2.0), lambda: setattr(SETTINGS, "later", 3.0))
    SETTINGS.chosen = "later"
    name = "".join(("la", "ter"))
    check(lambda x: x * getattr(SETTINGS, name), lambda: setattr(SETTINGS, "later", 4.0))
    del SETTINGS.later
    SETTINGS.__getattr__ = lambda name: GLOBAL["value"]
    check(lambda x: x * SETTINGS.computed, set_value)
    del SETTINGS.__getattr__


def test_parts_of_a_package_that_several_functions_use():
    package, part = types.ModuleType("package"), types.ModuleType("package.part")
    package.part, part.one, part.two = part, 2.0, 3.0

    def first(x):
        return x * package.part.one

    def second(x):
        return x * package.part.two

    check(lambda x: first(x) + second(x), lambda: setattr(part, "two", 9.0))
    check(lambda x: second(x) + first(x), lambda: setattr(part, "one", 9.0))


def test_a_class_that_has_instances_and_makes_more():
    class Made:
        def __init__(self):
            self.value = GLOBAL["value"]

    instance = Made()
    check(lambda x: x * (instance.value + Made().value), set_value)


# ---- what cannot be followed


def test_generators_of_python_that_are_made_inside():
    import datetime
    import random

    def branches(x):
        return x * 2 if random.Random().random() < 0.5 else x * 3

    def counts(x):
        return x * datetime.datetime.now().microsecond

    for function in (branches, counts):
        compiled = torch.compile(function)
        assert len({compiled(torch.ones(())).item() for _ in range(40)}) > 1
        assert torch.compiler.explain(compiled).traces == []


def test_objects_whose_state_is_hidden_run_eagerly():
    slotted, local, queue = Slotted(1.0), threading.local(), collections.deque([1.0])
    local.value = 1.0
    array, counter = np.ones(1), itertools.count()
    check(lambda x: x * slotted.value, lambda: setattr(slotted, "value", 4.0), replayed=False)
    check(lambda x: x * local.value, lambda: setattr(local, "value", 4.0), replayed=False)
    check(lambda x: x * queue[0], lambda: queue.__setitem__(0, 4.0), replayed=False)
    check(lambda x: x * float(array[0]), lambda: array.fill(4.0), replayed=False)
    compiled = torch.compile(lambda x: x * next(counter))
    assert [compiled(torch.ones(())).item() for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    cache = functools.lru_cache(lambda: GLOBAL["value"])
    check(lambda x: x * cache(), lambda: (cache.cache_clear(), set_value()), replayed=False)


def test_a_weak_reference():
    class Held:
        value = 2.0

    held = [Held()]
    reference = weakref.ref(held[0])
    check(lambda x: x * reference().value, lambda: setattr(held[0], "value", 6.0))


def test_effects_of_the_library_run_eagerly(tmp_path):
    path = tmp_path / "x.pt"

    def saves(x):
        torch.save(x, path)
        return x * 2

    compiled = torch.compile(saves)
    for _ in range(5):
        compiled(torch.ones(2))
        path.unlink()
    threads = torch.get_num_threads()

    def sets(x):
        torch.set_num_threads(1)
        return x * 2

    compiled = torch.compile(sets)
    for _ in range(5):
        torch.set_num_threads(2)
        compiled(torch.ones(2))
        assert torch.get_num_threads() == 1
    torch.set_num_threads(threads)


def test_numbers_of_the_process_run_eagerly():
    compiled = torch.compile(lambda x: x * torch.memory_stats()["allocations"])
    values = {compiled(torch.ones((), dtype=torch.float64)).item() for _ in range(5)}
    assert len(values) == 5


def test_the_place_of_a_tensor_is_not_baked():
    compiled = torch.compile(lambda x: x.data_ptr())
    kept = [torch.ones(2) for _ in range(5)]
    assert [compiled(x) for x in kept] == [x.data_ptr() for x in kept]


def test_subclasses_of_tensors_run_eagerly():
    class Named(nn.Parameter):
        pass

    compiled = torch.compile(lambda x: x * 2)
    for _ in range(4):
        assert compiled(Named(torch.ones(2))).grad_fn.name() == "MulBackward0"
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
        assert compiled(nn.Parameter(torch.ones(2), requires_grad=False)).tolist() == [2.0, 2.0]
    assert "subclass" in str(torch.compiler.explain(compiled))


def test_memory_shared_with_an_array():
    array = np.ones(4, dtype=np.float32)
    weight = torch.from_numpy(array)

    def function(x):
        weight.add_(1)
        return x * weight

    compiled = torch.compile(function)
    expected = 1.0
    for call in range(8):
        expected += 1
        shared = torch.from_numpy(array) if call % 2 else torch.full((4,), 2.0)
        assert compiled(shared).tolist() == [(expected if call % 2 else 2.0) * expected] * 4
        array -= 0  # the same memory, seen from outside
