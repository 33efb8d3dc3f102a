"""Which object is which: what a function can tell apart, a trace does, too."""

import enum
import sys
import types

import pytest
from library import IS_TORCH, torch

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tapegrad.utils import _pytree

nn = torch.nn
GLOBAL = {"value": 1.0}


def matrix():
    return torch.arange(4.0).reshape(2, 2) + 1


def check(function, first, then, change=None, traces=1):
    """Compare a function with its compiled self: five calls, then five with other arguments."""
    compiled = torch.compile(function)
    try:
        for call in range(10):
            if call == 5:
                assert len(torch.compiler.explain(compiled).traces) == traces
                if change:
                    change()
            make = first if call < 5 else then
            assert same(function(*make()), compiled(*make())), call
    finally:
        GLOBAL["value"] = 1.0


def set_value():
    GLOBAL["value"] = 5.0


def fresh():
    return (matrix(),)


# ---- tensors


@pytest.mark.parametrize(
    "is_known",
    [
        lambda x, known: x is known[0],
        lambda x, known: any(x is each for each in known),
        lambda x, known: dict.fromkeys(known, True).get(x, False),
    ],
)
def test_an_argument_that_the_function_finds_by_itself_as_well(is_known):
    known = [matrix()]
    check(lambda x: x * (2 if is_known(x, known) else 3), fresh, lambda: (known[0],))


def test_a_key_of_a_dict():
    key = matrix()
    table = {key: 7.0}
    check(lambda x: x * table.get(x, 3.0), fresh, lambda: (key,))


def test_an_argument_that_is_a_gradient():
    parameter = nn.Parameter(matrix())
    parameter.grad = matrix()
    check(
        lambda x: x * (2 if x is parameter.grad else 3),
        fresh,
        lambda: (parameter.grad,),
    )


def test_a_known_tensor_that_becomes_a_gradient():
    parameter, known = nn.Parameter(matrix()), matrix()
    parameter.grad = matrix()
    check(
        lambda x: x * (2 if parameter.grad is known else 3),
        fresh,
        fresh,
        lambda: setattr(parameter, "grad", known),
    )


def test_bases_of_views():
    bases = [torch.ones(4, 2) for _ in range(2)]
    check(
        lambda x, y: x * (2 if x._base is y else 3),
        lambda: (bases[0][:2], bases[1]),
        lambda: (bases[0][:2], bases[0]),
        traces=0,
    )


def test_tensors_that_show_the_same():
    base = matrix()
    check(
        lambda x, y: x * (2 if x.is_set_to(y) else 3),
        lambda: (base.view(2, 2), matrix().view(2, 2)),
        lambda: (base.view(2, 2), base.view(2, 2)),
        traces=0,
    )


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
def test_hooks_of_the_entry_that_accumulates(kind):
    kept, found = [], []

    def function(parameter, x):
        parameter.grad = None
        (parameter * x).sum().backward()

    for each in (function, torch.compile(function)):
        parameter = nn.Parameter(matrix())
        for call in range(8):
            if call == 5:
                entry = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                kept.append(entry)

                def double(given, *_, parameter=parameter):
                    if kind == "register_prehook":
                        return (given[0] * 2,)
                    parameter.grad.mul_(2)
                    return None

                getattr(entry, kind)(double)
            each(parameter, matrix())
            found.append(parameter.grad)
    assert same(found[:8], found[8:])
    assert torch.equal(found[5], 2 * found[4])


# ---- lists, dicts and tuples


@pytest.mark.parametrize("make", [list, lambda parts: dict(enumerate(parts)), tuple])
@pytest.mark.parametrize("parts", [1, 0])
def test_a_container_that_is_given_twice(make, parts):
    def given():
        return make([matrix() for _ in range(parts)])

    def twice():
        one = given()
        return one, one

    check(lambda x, y: torch.ones(2) * (2 if x is y else 3), lambda: (given(), given()), twice)


def test_many_containers():
    def given(same_place):
        parts = [[matrix()] for _ in range(40)]
        if same_place:
            parts[same_place[0]] = parts[same_place[1]]
        return (parts,)

    def function(parts):
        count = sum(parts[0] is each or parts[30] is each for each in parts)
        return parts[0][0] * count

    check(function, lambda: given(None), lambda: given((3, 0)))
    check(function, lambda: given(None), lambda: given((39, 30)))


def test_a_container_that_the_function_finds_by_itself_as_well():
    known = [matrix()]

    def function(x):
        return x[0] * (2 if x is known else 3)

    check(function, lambda: ([matrix()],), lambda: (known,))
    check(function, lambda: (known,), lambda: ([matrix()],))
    scaled = {"x": nn.Parameter(matrix()), "scale": 2.0}

    def whole(given):
        return given["x"] * given["scale"] * scaled["scale"]

    check(whole, lambda: (scaled,), lambda: (scaled,), lambda: scaled.update(scale=5.0))


def test_keys_that_are_objects():
    class Key:
        scale = 2.0

    key = Key()

    def function(given):
        return [x * each.scale for each, x in given.items()]

    def make():
        return ({key: matrix()},)

    check(function, make, make, lambda: setattr(key, "scale", 9.0))


def test_bounds_of_slices():
    class Bound:
        value = 1

        def __index__(self):
            return self.value

    bound = Bound()

    def make():
        return matrix(), slice(0, bound)

    check(lambda x, part: x[part] * 2, make, make, lambda: setattr(bound, "value", 2))


# ---- names that stand nowhere in the code


class Scaled:
    __match_args__ = ("scale",)

    @property
    def scale(self):
        return GLOBAL["value"]

    def __bytes__(self):
        return b"a" * int(GLOBAL["value"])

    def __rdivmod__(self, other):
        return GLOBAL["value"], 2

    def __class_getitem__(cls, key):
        return GLOBAL["value"]


class Checks:
    def _check_input_dim(self, x):
        if GLOBAL["value"] > 1:
            raise ValueError("checked")


class Checked(Checks, nn.BatchNorm1d):
    pass


class Kind(enum.Enum):
    ONE = 1
    TWO = 2

    @classmethod
    def _missing_(cls, value):
        return cls.ONE if GLOBAL["value"] == 1 else cls.TWO


class Table:
    def keys(self):
        return ["a", "b", "c", "d", "e"][: int(GLOBAL["value"])]

    def __getitem__(self, key):
        return GLOBAL["value"]


class Node:
    def __init__(self, x):
        self.x = x


def checked(x, thing):
    try:
        return Checked(2).eval()(x).detach()
    except ValueError:
        return x


def mapped(x, thing):
    return _pytree.tree_map(lambda each: each * 2, Node(x)).x


TEMPLATE = "{0.scale}"


def matched(x, thing):
    match thing:
        case Scaled(scale):
            return x * scale


@pytest.mark.parametrize(
    "function",
    [
        matched,
        lambda x, thing: x * len(bytes(thing)),
        lambda x, thing: x * divmod(5, thing)[0],
        lambda x, thing: x * type(thing)[0],
        lambda x, thing: x * float(TEMPLATE.format(thing)),
        lambda x, thing: x * float("".join(("{0.sc", "ale}")).format(thing)),
        lambda x, thing: x * float("{a.scale}".format_map({"a": thing})),
        lambda x, thing: x * Kind(7).value,
        lambda x, thing: x * len(dict(**Table())),
        checked,
        mapped,
    ],
)
def test_what_python_or_the_library_looks_up(function):
    if Node not in _pytree.SUPPORTED_NODES:
        _pytree.register_pytree_node(
            Node, lambda node: ([node.x * GLOBAL["value"]], None), lambda parts, _: Node(*parts)
        )
    thing = Scaled()
    check(function, lambda: (matrix(), thing), lambda: (matrix(), thing), set_value)


def test_modules_that_are_imported_by_the_place_of_a_file(monkeypatch):
    package, part, other = (
        types.ModuleType(name) for name in ("some_package", "some_package.part", "part")
    )
    package.part, package.__path__ = part, []
    part.scale = other.scale = 2.0
    for each in (package, part, other):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    source = "def one(x):\n from .part import scale\n return x * scale\n"
    source += "def two(x):\n from . import part\n return x * part.scale\n"
    inside = types.ModuleType("some_package.inside")
    inside.__package__ = "some_package"
    exec(source, vars(inside))
    for number, function in enumerate((inside.one, inside.two)):
        check(function, fresh, fresh, lambda number=number: setattr(part, "scale", 5.0 + number))


def test_a_module_that_takes_the_place_of_another(monkeypatch):
    for scale in (2.0, 5.0):
        module = types.ModuleType("some_settings")
        module.scale = scale
        monkeypatch.setitem(sys.modules, "some_settings", module)
        if scale == 2.0:
            first = module

    def function(x):
        import some_settings

        return x * some_settings.scale

    check(function, fresh, fresh, lambda: monkeypatch.setitem(sys.modules, "some_settings", first))


def test_options_that_are_found_among_all_attributes():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        lists = [each for each in optimizer.__dict__.values() if isinstance(each, list)]
        return x * lists[0][0]["lr"]

    check(step, fresh, fresh, lambda: optimizer.param_groups[0].update(lr=0.25))


# ---- errors that a function goes on after


def catches(count, weight, index):
    count.add_(1)
    try:
        return weight.index_select(0, index)
    except IndexError:
        return weight * 2


def does_at_the_end(count, weight, index):
    try:
        count.add_(1)
        return weight.index_select(0, index)
    finally:
        count.mul_(2)


def suppresses(count, weight, index):
    import contextlib

    count.add_(1)
    with contextlib.suppress(IndexError):
        weight = weight.index_select(0, index)
    return weight * 2


class Caught:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is IndexError


def exits(count, weight, index):
    with Caught():
        count.add_(1)
        weight = weight.index_select(0, index)
    return weight * 2


@pytest.mark.parametrize("function", [catches, does_at_the_end, suppresses, exits])
def test_errors_that_the_function_catches(function):
    found = []
    for each in (function, torch.compile(function)):
        count, weight = torch.zeros(1), torch.arange(4.0)
        for call in range(8):
            try:
                result = each(count, weight, torch.tensor([9 if call == 5 else 2]))
            except IndexError as error:
                result = str(error)
            found.append((result, count.clone()))
    assert same(found[:8], found[8:])
    assert len(torch.compiler.explain(each).traces) == 1
