"""Objects of any class: saved as PyTorch saves them, loaded where the program trusts the file."""

import argparse
import collections
import enum
import io
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest


class Color(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


class Settings:
    def __init__(self, torch):
        self.rate = 0.1
        self.weights = torch.arange(6.0)
        self.part = self.weights[2:]
        self.kinds = [torch.float16, torch.device("cpu"), torch.Size([2, 3])]
        self.again = self.kinds


def saved(torch, value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def trusted(torch, value):
    return torch.load(saved(torch, value), weights_only=False)


def test_an_object_of_the_programs(torch):
    back = trusted(torch, {"settings": Settings(torch), "epoch": 3})["settings"]
    assert type(back) is Settings and back.rate == 0.1
    assert back.kinds == [torch.float16, torch.device("cpu"), torch.Size([2, 3])]
    assert back.again is back.kinds
    back.part.fill_(7)
    assert back.weights.tolist() == [0, 1, 7, 7, 7, 7]


@pytest.mark.parametrize(
    "value",
    [
        Color.RED,
        Point(1, (2, 3)),
        range(3),
        pathlib.PurePosixPath("a/b"),
        argparse.Namespace(lr=0.1),
        collections.deque([1, 2], 3),
        slice(1, 2),
        np.array(["text"]),
        print,
    ],
    ids=repr,
)
def test_what_a_document_cannot_hold(torch, value):
    back = trusted(torch, [value, torch.ones(2)])
    assert type(back[0]) is type(value) and repr(back[0]) == repr(value)
    assert back[1].tolist() == [1, 1]


def test_a_whole_module(torch):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
    model = torch.nn.ModuleDict({"layers": layers, "lstm": torch.nn.LSTM(4, 2, batch_first=True)})
    model["tied"] = layers[0]
    model.eval()
    back = trusted(torch, model)
    x = torch.randn(2, 5, 3)
    assert torch.equal(back["layers"](x[0]), layers(x[0]))
    hidden = layers[0](x)
    assert torch.equal(back["lstm"](hidden)[0], model["lstm"](hidden)[0])
    assert back["tied"] is back["layers"][0] and not back.training
    assert repr(back) == repr(model)
    back["lstm"](hidden)[0].sum().backward()
    assert back["lstm"].weight_ih_l0.grad is not None


def test_parameters_subclasses_and_attributes(torch):
    weight = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    weight.group = "slow"
    plain = torch.ones(2)
    plain.name_of_it = "x"
    mine = torch.ones(3).as_subclass(Mine_of(torch))
    mine.mark = 1
    a, b, c, again, _ = trusted(torch, [weight, plain, mine, weight, range(2)])
    assert type(a) is torch.nn.Parameter and not a.requires_grad and a.group == "slow"
    assert b.name_of_it == "x" and again is a
    assert type(c) is type(mine) and c.mark == 1


def Mine_of(torch):
    """Return a class of tensors of this module, under a name of its own for each library."""
    name = f"Mine_{torch.__name__}"
    if name not in globals():
        globals()[name] = type(name, (torch.Tensor,), {"__module__": __name__})
    return globals()[name]


@pytest.mark.parametrize("kind", ["uint16", "float8_e5m2", "bfloat16", "complex64", "bool", "int8"])
def test_every_kind_of_elements(torch, kind):
    x = torch.tensor([0, 1, 2]).to(getattr(torch, kind))
    back, empty, scalar, turned, _ = trusted(torch, [x, x[:0], x[1], x.expand(2, 3).t(), range(1)])
    for one, other in ((back, x), (empty, x[:0]), (scalar, x[1]), (turned, x.expand(2, 3).t())):
        assert one.dtype is x.dtype and one.stride() == other.stride()
        assert one.shape == other.shape and one.tolist() == other.tolist()
    assert scalar.storage_offset() == 1


def test_by_default_only_what_is_allowed_is_made(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    with pytest.raises(pickle.UnpicklingError, match="Sequential"):
        torch.load(saved(torch, model))
    with torch.serialization.safe_globals([torch.nn.Sequential, torch.nn.Linear]):
        back = torch.load(saved(torch, model))
    assert back(torch.ones(2)).tolist() == model(torch.ones(2)).tolist()


def test_map_location(torch):
    back = torch.load(saved(torch, Settings(torch)), map_location="cpu", weights_only=False)
    assert back.weights.device.type == "cpu"


def test_an_optimizer_and_a_schedule(torch):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    back = trusted(torch, [model, optimizer])
    (first,) = (group["params"] for group in back[1].param_groups)
    assert first[0] is back[0].weight and back[1].param_groups[0]["lr"] == 0.5
    before = back[0].weight.detach().clone()
    back[0](torch.ones(2)).sum().backward()
    back[1].step()
    assert not torch.equal(before, back[0].weight)


def test_mapped(torch, tmp_path):
    torch.save(Settings(torch), tmp_path / "file")
    back = torch.load(tmp_path / "file", mmap=True, weights_only=False)
    assert back.part.tolist() == [2, 3, 4, 5]


def test_equal_states_are_equal_files(torch):
    assert saved(torch, [Settings(torch)]).read() == saved(torch, [Settings(torch)]).read()


def test_the_archive_is_sound(ours):
    archive = zipfile.ZipFile(saved(ours, Settings(ours)))
    assert archive.testzip() is None
    assert archive.namelist()[0] == "archive/data.pkl"
    for each in archive.infolist():
        assert each.compress_type == zipfile.ZIP_STORED
    assert archive.read("archive/version") == b"3\n"


def test_a_missing_name_is_told(ours):
    from .test_torch_files import with_pickle

    data = b"\x80\x02ctorch.nn.modules.nothing\nNothing\n."
    with pytest.raises(RuntimeError, match=r"torch.nn.modules.nothing.Nothing, which is not in"):
        ours.load(with_pickle(data), weights_only=False)


PYTORCH = """
import sys, torch
x, back = torch.load(sys.argv[1], weights_only=False)
assert type(back).__name__ == "Namespace" and x.tolist() == [0.0, 1.0, 2.0]
assert back.part.tolist() == [1.0, 2.0] and back.kind is torch.float16
assert back.part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
assert type(back.weight) is torch.nn.Parameter and back.weight.requires_grad
assert back.size == torch.Size([1]) and back.device == torch.device("cpu")
"""


def test_pytorch_reads_it(ours, tmp_path):
    pytest.importorskip("torch")
    x = ours.arange(3.0)
    state = argparse.Namespace(
        part=x[1:],
        kind=ours.float16,
        weight=ours.nn.Parameter(ours.ones(1)),
        size=ours.Size([1]),
        device=ours.device("cpu"),
    )
    ours.save([x, state], tmp_path / "file")
    command = [sys.executable, "-c", PYTORCH, str(tmp_path / "file")]
    subprocess.run(command, check=True, cwd=tmp_path)


def test_modules_of_pytorchs(ours):
    pytorch = pytest.importorskip("torch")
    theirs = pytorch.nn.Sequential(
        pytorch.nn.Conv1d(2, 4, 3),
        pytorch.nn.Flatten(),
        pytorch.nn.LayerNorm(12),
        pytorch.nn.TransformerEncoderLayer(12, 2, 8, batch_first=True),
        pytorch.nn.Linear(12, 2),
    ).eval()
    file = io.BytesIO()
    pytorch.save(theirs, file)
    file.seek(0)
    back = ours.load(file, weights_only=False)
    x = pytorch.randn(3, 2, 5)
    wanted = np.array(theirs(x).tolist())
    assert np.allclose(back(ours.tensor(x.tolist())).tolist(), wanted, atol=1e-5)
