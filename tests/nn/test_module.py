"""Module: its parts, going through them, modes, dtypes, state, copies, printing."""

import copy
import pickle
import subprocess
import sys

import pytest
from library import IS_SANITIZED


class Block:
    """Makes the same small model in either library; the class is made anew for each."""

    def __new__(cls, torch):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Linear(2, 3)
                self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
                self.scale = torch.nn.Parameter(torch.ones(1))
                self.register_buffer("count", torch.zeros(1))
                self.register_buffer("scratch", torch.zeros(2), persistent=False)

            def forward(self, x):
                return self.inner(self.first(x)) * self.scale

        return Model()


NAMES = ["scale", "first.weight", "first.bias", "inner.0.weight", "inner.0.bias"]


def test_parameters_and_buffers_by_name(torch):
    model = Block(torch)
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert [name for name, _ in model.named_parameters(prefix="m", recurse=False)] == ["m.scale"]
    assert [name for name, _ in model.named_buffers()] == ["count", "scratch"]
    assert len(list(model.parameters())) == 5
    assert len(list(model.parameters(recurse=False))) == 1
    assert [b.numel() for b in model.buffers()] == [1, 2]


def test_modules_by_name(torch):
    model = Block(torch)
    assert [name for name, _ in model.named_modules()] == [
        "",
        "first",
        "inner",
        "inner.0",
        "inner.1",
    ]
    assert [name for name, _ in model.named_children()] == ["first", "inner"]
    assert [type(module).__name__ for module in model.children()] == ["Linear", "Sequential"]
    assert len(list(model.modules())) == 5


def test_shared_parts_come_once(torch):
    layer = torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(layer, torch.nn.ReLU(), layer)
    assert len(list(model.parameters())) == 2
    assert len(list(model.children())) == 2
    assert len(list(model.modules())) == 3 and len(list(model.modules(False))) == 4
    assert [n for n, _ in model.named_modules(remove_duplicate=False)] == ["", "0", "1", "2"]
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_getters(torch):
    model = Block(torch)
    assert model.get_submodule("inner.0") is model.inner[0]
    assert model.get_submodule("") is model
    assert model.get_parameter("inner.0.weight") is model.inner[0].weight
    assert model.get_buffer("count") is model.count
    model.set_submodule("inner.0", torch.nn.Identity())
    assert isinstance(model.inner[0], torch.nn.Identity)
    for call in (
        lambda: model.get_submodule("inner.7"),
        lambda: model.get_submodule("scale"),
        lambda: model.get_parameter("inner"),
        lambda: model.get_buffer("scale"),
        lambda: model.nothing,
    ):
        with pytest.raises(AttributeError):
            call()


def test_assignment_moves_names_between_tables(torch):
    module = torch.nn.Module()
    module.x = 3
    module.x = torch.nn.Parameter(torch.ones(1))
    assert "x" not in module.__dict__ and list(module._parameters) == ["x"]
    with pytest.raises(TypeError, match=r"cannot assign '.*Linear' as parameter 'x'"):
        module.x = torch.nn.Linear(1, 1)
    del module.x
    module.x = torch.nn.Linear(1, 1)
    assert list(module._parameters) == [] and list(module._modules) == ["x"]
    module.x = torch.nn.Parameter(torch.ones(1))
    assert list(module._modules) == [] and list(module._parameters) == ["x"]
    del module.x
    module.x = torch.nn.Buffer(torch.zeros(2), persistent=False)
    assert list(module._buffers) == ["x"] and list(module.state_dict()) == []
    module.x = torch.ones(2)
    assert list(module.state_dict()) == []
    assert module._buffers["x"].tolist() == [1.0, 1.0]
    module.x = None
    assert module._buffers["x"] is None
    del module.x
    assert not hasattr(module, "x")


def test_none_keeps_the_place_of_a_parameter(torch):
    layer = torch.nn.Linear(2, 2)
    layer.bias = None
    assert list(layer.state_dict()) == ["weight"] and layer._parameters["bias"] is None
    layer.bias = torch.nn.Parameter(torch.ones(2))
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_dir_shows_parts(torch):
    names = dir(Block(torch))
    assert {"first", "scale", "count", "forward", "training"} <= set(names)
    assert "0" not in dir(torch.nn.Sequential(torch.nn.ReLU()))


def test_modes_reach_all_below(torch):
    model = Block(torch)
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())
    model.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_zero_grad(torch):
    model = Block(torch)
    model(torch.ones(1, 2)).sum().backward()
    assert model.scale.grad is not None
    model.zero_grad(set_to_none=False)
    assert model.scale.grad.tolist() == [0.0]
    model.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_apply_goes_from_the_leaves_up(torch):
    seen = []
    model = Block(torch)
    assert model.apply(lambda module: seen.append(type(module).__name__)) is model
    assert seen == ["Linear", "Linear", "ReLU", "Sequential", "Model"]


@pytest.mark.parametrize("name", ["half", "bfloat16", "double", "float"])
def test_dtypes(torch, name):
    model = Block(torch)
    model.register_buffer("steps", torch.tensor(3))
    before = list(model.parameters())
    assert getattr(model, name)() is model
    dtype = getattr(torch, name)
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert model.count.dtype == dtype and model.steps.dtype == torch.int64
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))


def test_to(torch):
    model = Block(torch)
    model(torch.ones(1, 2)).sum().backward()
    weight = model.first.weight
    assert model.to("cpu", torch.float64) is model
    assert model.first.weight is weight and weight.dtype == torch.float64
    assert weight.grad.dtype == torch.float64 and weight.is_leaf and weight.requires_grad
    assert model.to(torch.ones(1)).first.weight.dtype == torch.float32
    assert model.to(device="cpu", dtype=torch.bfloat16).count.dtype == torch.bfloat16
    assert model.to(torch.device("cpu")).count.dtype == torch.bfloat16


def test_state_dict(torch):
    model = Block(torch)
    state = model.state_dict()
    assert list(state) == ["scale", "count", *NAMES[1:]]
    assert not state["scale"].requires_grad
    assert state["scale"].data_ptr() == model.scale.data_ptr()
    assert model.state_dict(keep_vars=True)["scale"] is model.scale
    assert next(iter(model.state_dict(prefix="m."))) == "m.scale"
    assert list(state._metadata) == ["", "first", "inner", "inner.0", "inner.1"]
    gathered = {}
    assert model.state_dict(destination=gathered, prefix="a.") is gathered and "a.count" in gathered


def test_load_state_dict_copies(torch):
    source, target = Block(torch), Block(torch)
    weight = target.first.weight
    keys = target.load_state_dict(source.state_dict())
    assert repr(keys) == "<All keys matched successfully>"
    assert target.first.weight is weight
    assert weight.equal(source.first.weight) and weight.requires_grad
    assert weight.data_ptr() != source.first.weight.data_ptr()


def test_load_state_dict_assigns(torch):
    layer = torch.nn.Linear(2, 1)
    layer.bias.requires_grad_(False)
    state = {
        "weight": torch.ones(1, 2, dtype=torch.float64),
        "bias": torch.nn.Parameter(torch.ones(1, dtype=torch.float64)),
    }
    layer.load_state_dict(state, assign=True)
    assert layer.weight.dtype == torch.float64 and layer.weight.requires_grad
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert layer.weight.data_ptr() == state["weight"].data_ptr()
    assert layer.bias is state["bias"] and not layer.bias.requires_grad


def test_load_state_dict_says_what_does_not_fit(torch):
    layer = torch.nn.Sequential(torch.nn.Linear(2, 3))
    state = {"0.weight": torch.ones(3), "1.weight": torch.ones(1), "other": torch.ones(1)}
    with pytest.raises(RuntimeError) as raised:
        layer.load_state_dict(state)
    assert str(raised.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "0.bias". \n'
        '\tUnexpected key(s) in state_dict: "1.weight", "other". \n'
        "\tsize mismatch for 0.weight: copying a param with shape torch.Size([3]) from "
        "checkpoint, the shape in current model is torch.Size([3, 2])."
    )


def test_load_state_dict_not_strict(torch):
    layer = torch.nn.Linear(2, 1)
    keys = layer.load_state_dict({"weight": torch.ones(1, 2), "x": torch.ones(1)}, strict=False)
    assert keys.missing_keys == ["bias"] and keys.unexpected_keys == ["x"]
    assert repr(keys) == "_IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['x'])"
    assert layer.weight.tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match="size mismatch"):
        layer.load_state_dict({"weight": torch.ones(5)}, strict=False)


def test_extra_state(torch):
    class Counting(torch.nn.Module):
        steps = 0

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    source, target = Counting(), Counting()
    source.steps = 5
    state = source.state_dict()
    assert list(state) == ["_extra_state"]
    target.load_state_dict(state)
    assert target.steps == 5
    with pytest.raises(RuntimeError, match="Missing key"):
        target.load_state_dict({})


def test_state_dict_hooks(torch):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    seen = []
    before = model.register_state_dict_pre_hook(
        lambda module, prefix, keep_vars: seen.append((prefix, keep_vars))
    )

    def after(module, state, prefix, metadata):
        state[prefix + "added"] = torch.ones(1)

    handle = model[0].register_state_dict_post_hook(after)
    assert list(model.state_dict()) == ["0.weight", "0.bias", "0.added"]
    assert seen == [("", False)]
    before.remove()
    handle.remove()
    assert list(model.state_dict()) == ["0.weight", "0.bias"] and len(seen) == 1


def test_load_state_dict_hooks(torch):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    layer = model[0]

    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        assert module is layer and prefix == "0."
        state[prefix + "weight"] = state.pop(prefix + "old")

    def forgive(module, keys):
        keys.missing_keys.clear()

    layer.register_load_state_dict_pre_hook(rename)
    model.register_load_state_dict_post_hook(forgive)
    state = {"0.old": torch.tensor([[7.0]])}
    model.load_state_dict(state)
    assert layer.weight.item() == 7 and list(state) == ["0.old"]


def test_deepcopy(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(module))
    copied = copy.deepcopy(model)
    assert copied[0].weight is not model[0].weight
    assert copied[0].weight.equal(model[0].weight)
    assert isinstance(copied[0].weight, torch.nn.Parameter)
    copied(torch.ones(3, 2))
    assert seen == [copied[0]]
    assert copied[1].num_batches_tracked.item() == 1
    assert model[1].num_batches_tracked.item() == 0


def test_copies_keep_shared_parameters_shared(torch):
    layer = torch.nn.Linear(2, 2)
    other = torch.nn.Linear(2, 2)
    other.weight = layer.weight
    model = torch.nn.Sequential(layer, other)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied[0].weight is copied[1].weight
        assert copied[0].weight is not layer.weight


def test_pickling(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval()
    model[0].bias.requires_grad_(False)
    restored = pickle.loads(pickle.dumps(model))
    assert repr(restored) == repr(model) and not restored.training
    x = torch.ones(3, 2)
    assert restored(x).equal(model(x))
    assert not restored[0].bias.requires_grad and restored[0].weight.requires_grad


def test_repr(torch):
    model = Block(torch)
    assert repr(model) == (
        "Model(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (inner): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=3, bias=True)\n"
        "    (1): ReLU()\n"
        "  )\n"
        ")"
    )
    model.extra_repr = lambda: "a=1\nb=2"
    assert repr(model).startswith("Model(\n  a=1\n  b=2\n  (first): ")


def test_a_call_is_forward(torch):
    layer = torch.nn.Linear(2, 2)
    layer.forward = lambda x: x + 1
    assert layer(torch.ones(1)).tolist() == [2.0]


def test_parameter(torch):
    parameter = torch.nn.Parameter(torch.ones(2))
    assert parameter.requires_grad and parameter.is_leaf and isinstance(parameter, torch.Tensor)
    assert not isinstance(torch.ones(2), torch.nn.Parameter)
    assert type(parameter * 2) is torch.Tensor and type(parameter.data) is torch.Tensor
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert (
        repr(torch.nn.Parameter(torch.ones(2), False)) == "Parameter containing:\ntensor([1., 1.])"
    )
    assert torch.nn.Parameter().numel() == 0
    data = torch.zeros(2)
    assert torch.nn.Parameter(data).data_ptr() == data.data_ptr()
    assert not data.requires_grad


def test_parameter_of_a_subclass_keeps_its_class(torch):
    class Mine(torch.Tensor):
        pass

    parameter = torch.nn.Parameter(
        torch.ones(2).as_subclass(Mine)
        if hasattr(torch.Tensor, "as_subclass")
        else Mine(torch.ones(2))
    )
    assert type(parameter) is Mine and isinstance(parameter, torch.nn.Parameter)
    module = torch.nn.Module()
    module.weight = parameter
    assert list(module.state_dict()) == ["weight"]


def test_parameter_copies(torch):
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    for copied in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(copied) is torch.nn.Parameter and not copied.requires_grad
        assert copied.equal(parameter) and copied.data_ptr() != parameter.data_ptr()


def test_buffer(torch):
    buffer = torch.nn.Buffer(torch.ones(2))
    assert isinstance(buffer, torch.nn.Buffer) and buffer.persistent
    assert not isinstance(torch.ones(2), torch.nn.Buffer)
    module = torch.nn.Module()
    module.kept = buffer
    module.dropped = torch.nn.Buffer(torch.ones(2), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert len(list(module.buffers())) == 2 and list(module.parameters()) == []


NEST = """
import copy, pickle, sys
import {library} as torch

class Link(torch.nn.Module):
    def __init__(self, below=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        if below is not None:
            self.below = below

    def forward(self, x):
        return (self.below(x) if "below" in self._modules else x) + self.weight

nest = None
for _ in range(2000):
    nest = Link(nest)
x = torch.ones(1)
for act in (
    lambda: repr(nest), lambda: nest.state_dict(), lambda: list(nest.named_parameters()),
    lambda: list(nest.modules()), lambda: nest.apply(lambda module: None), lambda: nest.double(),
    lambda: nest.float(), lambda: nest.train(), lambda: nest.zero_grad(),
    lambda: nest.load_state_dict({{}}, strict=False), lambda: copy.deepcopy(nest),
    lambda: pickle.dumps(nest), lambda: copy.copy(nest), lambda: nest(x).sum().backward(),
    lambda: torch.func.functional_call(nest, {{"weight": x}}, (x,)), lambda: nest.children(),
):
    for limit in (1000, 100000):
        sys.setrecursionlimit(limit)
        try:
            act()
            print("done")
        except RecursionError:
            print("RecursionError")
"""


def test_a_nest_of_2000_modules_does_not_crash(both):
    """Beyond Python's own limit both libraries raise RecursionError, and in the same places."""
    said = [
        subprocess.run(
            [sys.executable, "-c", NEST.format(library=library.__name__)],
            capture_output=True,
            text=True,
            timeout=600 if IS_SANITIZED else 100,
        )
        for library in both
    ]
    assert said[0].returncode == 0, said[0].stderr
    assert said[0].stdout == said[1].stdout and said[0].stdout.count("done") >= 16
