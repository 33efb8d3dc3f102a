"""Containers: lists and dicts of modules and of parameters."""

from collections import OrderedDict

import pytest


def relus(torch, count):
    return [torch.nn.ReLU() for _ in range(count)]


def test_sequential_runs_in_order(torch):
    model = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.ReLU(), torch.nn.Identity())
    assert model(torch.tensor([[-1.0], [2.0]])).tolist() == [0.0, 2.0]
    assert len(model) == 3 and [type(m).__name__ for m in model][1] == "ReLU"


def test_sequential_by_name(torch):
    model = torch.nn.Sequential(OrderedDict(a=torch.nn.Linear(1, 2), b=torch.nn.ReLU()))
    assert list(model.state_dict()) == ["a.weight", "a.bias"]
    assert model[0] is model.a and model[-1] is model.b
    assert list(model[:1]._modules) == ["a"]


def test_sequential_as_a_list(torch):
    a, b, c, d = relus(torch, 4)
    model = torch.nn.Sequential(a, b)
    assert model.append(c) is model and list(model) == [a, b, c]
    assert list(model.insert(0, d)) == [d, a, b, c]
    assert model.pop(1) is a and list(model) == [d, b, c]
    model[0] = a
    del model[1]
    assert list(model) == [a, c] and list(model._modules) == ["0", "1"]
    assert list(model + torch.nn.Sequential(b)) == [a, c, b]
    model += torch.nn.Sequential(d)
    assert list(model) == [a, c, d]
    assert list(model[1:]) == [c, d] and isinstance(model[1:], torch.nn.Sequential)
    assert list(torch.nn.Sequential(a) * 3) == [a, a, a] == list(3 * torch.nn.Sequential(a))
    model *= 2
    assert list(model) == [a, c, d, a, c, d]
    del model[:4]
    assert list(model) == [c, d]
    model.extend([a, b])
    assert list(model._modules) == ["0", "1", "2", "3"]


def test_module_list(torch):
    a, b, c, d = relus(torch, 4)
    modules = torch.nn.ModuleList([a, b])
    assert modules.append(c) is modules and len(modules) == 3
    modules.insert(1, d)
    assert list(modules) == [a, d, b, c] and modules[-1] is c
    assert modules.pop(0) is a and list(modules._modules) == ["0", "1", "2"]
    modules += [a]
    joined = modules + torch.nn.ModuleList([b])
    assert isinstance(joined, torch.nn.ModuleList) and list(joined) == [d, b, c, a, b]
    assert isinstance(modules[1:3], torch.nn.ModuleList) and list(modules[1:3]) == [b, c]
    del modules[0]
    del modules[1:]
    assert list(modules) == [b]
    modules[0] = c
    assert list(modules) == [c] and c in modules


def test_module_list_repr_joins_what_looks_alike(torch):
    inner = torch.nn.Sequential(torch.nn.ReLU())
    modules = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU(), inner, torch.nn.ReLU()])
    assert repr(modules) == (
        "ModuleList(\n"
        "  (0-1): 2 x ReLU()\n"
        "  (2): Sequential(\n"
        "    (0): ReLU()\n"
        "  )\n"
        "  (3): ReLU()\n"
        ")"
    )
    assert repr(torch.nn.ModuleList()) == "ModuleList()"


def test_module_dict(torch):
    a, b, c = relus(torch, 3)
    modules = torch.nn.ModuleDict({"a": a, "b": b})
    modules["c"] = c
    assert list(modules) == ["a", "b", "c"] == list(modules.keys()) and len(modules) == 3
    assert modules["a"] is a and "b" in modules and "z" not in modules
    assert list(modules.items())[1] == ("b", b) and list(modules.values()) == [a, b, c]
    assert modules.pop("b") is b
    del modules["a"]
    modules.update([("x", a), ("y", b)])
    modules.update(torch.nn.ModuleDict({"z": c}))
    assert list(modules) == ["c", "x", "y", "z"]
    assert repr(torch.nn.ModuleDict({"a": a})) == "ModuleDict(\n  (a): ReLU()\n)"
    modules.clear()
    assert len(modules) == 0


def test_parameter_list(torch):
    values = torch.nn.ParameterList([torch.ones(2), 3])
    assert isinstance(values[0], torch.nn.Parameter) and values[1] == 3
    assert values.append(torch.zeros(2, 3)) is values and len(values) == 3
    values += [torch.ones(1)]
    assert [name for name, _ in values.named_parameters()] == ["0", "2", "3"]
    assert isinstance(values[1:], torch.nn.ParameterList) and len(values[-2:]) == 2
    values[1] = torch.zeros(4)
    assert values[1].shape == (4,) and isinstance(values[1], torch.nn.Parameter)
    assert [v.numel() for v in values] == [2, 4, 6, 1]
    assert sorted(values.state_dict()) == ["0", "1", "2", "3"]
    shown = torch.nn.ParameterList([torch.ones(2, 3), 3])
    assert repr(shown) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [torch.float32 of size 2x3]\n"
        "    (1): Object of type: int\n"
        ")"
    )


def test_parameter_dict_sorts_plain_dicts(torch):
    assert list(torch.nn.ParameterDict({"b": 1, "a": 2})) == ["a", "b"]
    assert list(torch.nn.ParameterDict([("b", 1), ("a", 2)])) == ["b", "a"]
    assert list(torch.nn.ParameterDict(OrderedDict(b=1, a=2))) == ["b", "a"]


def test_parameter_dict(torch):
    values = torch.nn.ParameterDict({"a": torch.ones(2), "b": 4})
    assert isinstance(values["a"], torch.nn.Parameter) and values["b"] == 4
    values["c"] = torch.zeros(1)
    assert list(values) == ["a", "b", "c"] == list(values.keys()) and len(values) == 3
    assert list(reversed(values)) == ["c", "b", "a"] and "a" in values
    assert values.get("z", 5) == 5 and values.get("b") == 4
    assert values.setdefault("d", torch.ones(3)).shape == (3,)
    assert values.pop("b") == 4 and values.popitem()[0] == "d"
    assert list(values.state_dict()) == ["a", "c"]
    joined = values | torch.nn.ParameterDict({"e": torch.ones(1)})
    assert list(joined) == ["a", "c", "e"] and list(values) == ["a", "c"]
    values |= {"f": torch.ones(1)}
    assert list(values.copy()) == ["a", "c", "f"]
    assert list(values.fromkeys(["p", "q"], 1.0).values()) == [1.0, 1.0]
    assert [key for key, _ in values.items()] == ["a", "c", "f"]
    shown = torch.nn.ParameterDict({"a": torch.ones(2), "b": 4})
    assert repr(shown) == (
        "ParameterDict(\n"
        "    (a): Parameter containing: [torch.FloatTensor of size 2]\n"
        "    (b): Object of type: int\n"
        ")"
    )
    values.clear()
    assert len(values) == 0 and list(values.parameters()) == []


@pytest.mark.parametrize("name", ["ParameterList", "ParameterDict"])
def test_parameters_are_not_called(torch, name):
    with pytest.raises(RuntimeError, match="should not be called"):
        getattr(torch.nn, name)()(1)
