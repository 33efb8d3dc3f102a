"""torch.jit.save and load: other processes, other sizes, other devices, damaged files."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from library import IS_TORCH, torch

from .models import NAMES, case

if IS_TORCH:
    pytest.skip("PyTorch's files are others", allow_module_level=True)

nn = torch.nn


def through_file(traced, **arguments):
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    return torch.jit.load(file, **arguments)


def flat(result):
    from tapegrad.utils._pytree import tree_flatten

    return tree_flatten(result)[0]


def agree(found, expected):
    for x, y in zip(flat(found), flat(expected), strict=True):
        assert x.shape == y.shape
        assert torch.allclose(x, y, 1e-5, 1e-6)


def rows_of(model, example, rows):
    """Return an example with so many rows."""
    from tapegrad.utils._pytree import tree_map

    first = flat(list(example))[0].shape[0]
    return tree_map(
        lambda x: x[torch.arange(rows) % first] if x.dim() and x.shape[0] == first else x, example
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [1, 2, 4, 17])
def test_a_file_has_any_number_of_rows(name, rows):
    model, example = case(name)
    loaded = through_file(torch.jit.trace(model, example, strict=False))
    assert list(loaded.state_dict()) == list(model.state_dict())
    arguments = rows_of(model, example, rows)
    with torch.no_grad():
        agree(loaded(*arguments), model(*arguments))


SCRIPT = """
import sys
import tapegrad as torch
model = torch.jit.load(sys.argv[1])
x = torch.load(sys.argv[2])
with torch.no_grad():
    torch.save(model(x), sys.argv[3])
assert not any(name.startswith(("jit.models", "tests")) for name in sys.modules)
"""


def test_another_process_needs_no_source(tmp_path):
    model, (x,) = case("net")
    paths = [str(tmp_path / each) for each in ("model.tg", "x", "y")]
    torch.jit.trace(model, x).save(paths[0])
    torch.save(x, paths[1])
    root = str(Path(torch.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths], check=True, cwd=tmp_path, env={"PYTHONPATH": root}
    )
    agree(torch.load(paths[2]), model(x).detach())


def test_several_axes_by_name():
    model, (tokens,) = case("attention")
    traced = torch.jit.trace(model, tokens, dynamic_axes={"tokens": {0: "batch", 1: "time"}})
    loaded = through_file(traced)
    with torch.no_grad():
        for shape in ((1, 1), (3, 12), (2, 7), (5, 20)):
            x = torch.randint(0, 11, shape)
            agree(loaded(x), model(x))


def test_axes_that_cannot_vary():
    def f(x):
        return x.sum() / len(x.tolist()) if x.shape[0] > 4 else x.sum()

    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(f, torch.ones(6), dynamic_axes={"x": {0: "n"}})
    with pytest.raises(RuntimeError, match=r"cannot be saved for other sizes of n: "):
        through_file(traced)
    stack = torch.jit.trace(lambda x: torch.stack([row * 2 for row in x]), torch.ones(3, 2))
    loaded = through_file(stack)
    agree(loaded(torch.ones(3, 2)), torch.full((3, 2), 2.0))
    with pytest.raises(
        RuntimeError,
        match=r"traced for float32\[3, 2\].*got float32\[4, 2\].*other sizes did not do: there are",
    ):
        loaded(torch.ones(4, 2))
    four = through_file(torch.jit.trace(lambda x: x[:4] * 2, torch.ones(4, 2)))
    agree(four(torch.ones(4, 2)), torch.full((4, 2), 2.0))
    with pytest.raises(RuntimeError, match="with sizes 2 the calls would not fit"):
        four(torch.ones(3, 2))
    static = torch.jit.trace(lambda x: x + 1, torch.ones(3), dynamic_axes={})
    with pytest.raises(RuntimeError, match=r"got float32\[4\]"):
        through_file(static)(torch.ones(4))
    with pytest.raises(ValueError, match="dynamic_axes names 'y', expected one of x"):
        through_file(torch.jit.trace(lambda x: x, torch.ones(3), dynamic_axes={"y": {0: "n"}}))


def test_guards_are_in_the_file():
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(f, torch.ones(2))
    loaded = through_file(traced)
    agree(loaded(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="a guard does not hold"):
        loaded(-torch.ones(2))


def test_dropout_in_a_file_draws_anew():
    with pytest.warns(torch.jit.TracerWarning, match="nondeterministic"):
        traced = torch.jit.trace(nn.Dropout(0.5), torch.ones(8, 64))
    loaded = through_file(traced)
    x = torch.ones(5, 64)
    torch.manual_seed(1)
    found = [loaded(x), loaded(x)]
    torch.manual_seed(1)
    expected = [nn.functional.dropout(x), nn.functional.dropout(x)]
    assert not torch.equal(*found)
    agree(found, expected)


def test_which_programs_take_rows_of_several_requests_together():
    def batches(function, *example):
        traced = torch.jit.trace(function, example)
        return through_file(traced)._loaded_methods()["forward"].template.is_batch

    x = torch.randn(3, 4)
    assert batches(lambda x: x.softmax(1), x)
    assert batches(lambda x, y: x * y, x, x)
    assert not batches(lambda x: x.softmax(0), x)
    assert not batches(lambda x: x - x.mean(0), x)
    assert not batches(lambda x: x.sum(0), x)
    assert not batches(lambda x, y: x * y, x, torch.randn(4))
    assert not batches(lambda x: x.add_(1), x)
    assert batches(case("net")[0], case("net")[1][0])
    assert batches(case("attention")[0], case("attention")[1][0])


def test_state_moves_and_loads():
    model = nn.Linear(3, 2)
    loaded = through_file(torch.jit.trace(model, torch.ones(1, 3)))
    other = nn.Linear(3, 2)
    loaded.load_state_dict(other.state_dict())
    x = torch.randn(4, 3)
    with torch.no_grad():
        agree(loaded(x), other(x))
    assert all(each.requires_grad for each in loaded.parameters())
    again = through_file(loaded)
    with torch.no_grad():
        agree(again(x), other(x))
    meta = loaded.to("meta")
    assert meta(x.to("meta")).shape == (4, 2)
    with pytest.raises(RuntimeError, match="all tensors on one device"):
        meta(x)


def test_a_backward_is_refused_in_words():
    loaded = through_file(torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3)))
    with pytest.raises(RuntimeError, match="a program from a file has no backward"):
        loaded(torch.ones(1, 3)).sum().backward()
    function = through_file(torch.jit.trace(lambda x: x * 2, torch.ones(3)))
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a program from a file has no backward"):
        function(x).sum().backward()
    assert not function(x.detach()).requires_grad


def test_transforms_do_not_pass_silently():
    loaded = through_file(torch.jit.trace(lambda x: x * 2, torch.ones(3)))
    x = torch.arange(6.0).reshape(2, 3)
    agree(torch.vmap(loaded)(x), x * 2)
    with pytest.raises(RuntimeError, match="carries a tangent"):
        torch.func.jvp(loaded, (torch.ones(3),), (torch.ones(3),))


def test_shared_parameters_stay_shared():
    model, (tokens,) = case("attention")
    loaded = through_file(torch.jit.trace(model, tokens))
    state = loaded.state_dict()
    assert state["head.weight"].data_ptr() == state["embed.weight"].data_ptr()


def test_frozen_modules_are_saved_without_parameters():
    model = nn.Linear(3, 2).eval()
    frozen = torch.jit.freeze(torch.jit.trace(model, torch.ones(1, 3)).eval())
    loaded = through_file(frozen)
    assert list(loaded.state_dict()) == []
    agree(loaded(torch.ones(4, 3)), model(torch.ones(4, 3)).detach())


def test_methods_and_extra_files(tmp_path):
    class Two(nn.Module):
        def forward(self, x):
            return x

        def twice(self, x):
            return x * 2

    traced = torch.jit.trace_module(Two(), {"forward": torch.ones(2), "twice": torch.ones(2)})
    path = tmp_path / "two.tg"
    traced.save(path, _extra_files={"labels": "a,b"})
    found = {"labels": ""}
    loaded = torch.jit.load(path, _extra_files=found)
    assert found == {"labels": b"a,b"}
    agree(loaded.twice(torch.ones(5)), torch.full((5,), 2.0))


def test_the_file_is_a_safetensors_file(tmp_path):
    from tapegrad.jit._file import FORMAT

    path = tmp_path / "model.tg"
    torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3)).save(path)
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert {"parameters.weight", "parameters.bias"} <= header.keys()
    assert torch.load(path)["format"] == FORMAT


def test_what_is_no_traced_module(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(path)
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(RuntimeError, match=r"expected what torch.jit.save wrote"):
        torch.jit.load(path)
    path.write_bytes(b"")
    with pytest.raises(RuntimeError, match="the file is empty"):
        torch.jit.load(path)
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/code/__torch__.py", "x")
    with pytest.raises(RuntimeError, match="TorchScript archive"):
        torch.jit.load(path)
    with pytest.raises(AttributeError, match="no attribute 'save'"):
        torch.jit.save(nn.Linear(1, 1), path)


def document():
    file = io.BytesIO()
    torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3)).save(file)
    file.seek(0)
    return torch.load(file)


def loaded_with(changed):
    from tapegrad.jit._file import _digest

    changed["sha256"] = _digest(changed["program"], changed["data"])
    file = io.BytesIO()
    torch.save(changed, file)
    file.seek(0)
    return torch.jit.load(file)


CHANGES = {
    "no such op": lambda part: part["calls"]["steps"][0].update(op="nothing"),
    "no such value": lambda part: part["calls"]["steps"][0]["inputs"][0].__setitem__(0, 99),
    "no such input": lambda part: part["calls"]["inputs"][0].__setitem__(0, "input.7"),
    "too far": lambda part: part["calls"]["steps"][0]["inputs"][0].__setitem__(1, 1 << 40),
    "small memory": lambda part: part["calls"]["values"][0].__setitem__(0, 1),
    "zero division": lambda part: part["calls"]["values"][0].__setitem__(
        0, {"size": [[1, 0, [1]]]}
    ),
    "huge power": lambda part: part["calls"]["values"][0].__setitem__(
        0, {"size": [[1, 1, [10**9]]]}
    ),
    "no axes": lambda part: part.update(axes=[]),
    "deep structure": lambda part: part.update(structure={"tuple": [{"what": []}]}),
    "other results": lambda part: part["calls"].update(result={"tuple": [None, None]}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_no_trace_gives_are_refused(change):
    found = document()
    program = json.loads(found["program"])
    CHANGES[change](program["forward"])
    found["program"] = json.dumps(program).encode()
    with pytest.raises(RuntimeError, match="load: "):
        loaded_with(found)


def test_damage_and_other_versions_are_refused():
    found = document()
    found["version"] = 2
    with pytest.raises(RuntimeError, match="expected version 1, got version 2"):
        loaded_with(found)
    found = document()
    found["program"] = found["program"].replace(b"matmul", b"matmux")
    file = io.BytesIO()
    torch.save(found, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="the file is damaged"):
        torch.jit.load(file)
