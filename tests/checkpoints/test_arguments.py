"""Arguments of save() and load(), and the objects that cannot be saved."""

import collections
import enum
import io
import pickle
import subprocess
import sys
import threading

import pytest

from .states import through_bytes


def saved(library, state):
    file = io.BytesIO()
    library.save(state, file)
    file.seek(0)
    return file


# ---- map_location


def test_map_location(torch):
    state = {"x": torch.ones(2)}
    seen = []

    def function(storage, location):
        seen.append((len(storage), location))

    for place in (None, "cpu", torch.device("cpu"), {"cpu": "cpu"}, {"cuda:0": "cpu"}, function):
        back = torch.load(saved(torch, state), map_location=place)
        assert back["x"].tolist() == [1, 1]
    assert seen == [(8, "cpu")]


@pytest.mark.parametrize("place", ["cuda", "cuda:0", {"cpu": "cuda:0"}, "nonsense"])
def test_map_location_to_a_device_that_there_is_not(torch, place):
    if torch.cuda.is_available():
        pytest.skip("there is such a device")
    with pytest.raises(RuntimeError):
        torch.load(saved(torch, {"x": torch.ones(2)}), map_location=place)


def test_a_function_that_fails_is_heard(torch):
    def function(storage, location):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        torch.load(saved(torch, {"x": torch.ones(2)}), map_location=function)


def test_a_function_must_return_what_it_was_given(ours):
    with pytest.raises(TypeError, match="expected map_location to return the storage"):
        ours.load(saved(ours, {"x": ours.ones(2)}), map_location=lambda storage, location: 3)
    with pytest.raises(TypeError, match="expected map_location to be"):
        ours.load(saved(ours, {"x": ours.ones(2)}), map_location=3)


# ---- other arguments


def test_arguments_that_pytorch_takes(torch):
    file = io.BytesIO()
    torch.save(obj={"x": 1}, f=file, pickle_module=pickle, pickle_protocol=2)
    for options in ({"weights_only": True}, {"weights_only": False}, {"mmap": False}, {}):
        file.seek(0)
        assert torch.load(f=file, **options) == {"x": 1}


def test_f_must_be_a_file(torch):
    with pytest.raises(AttributeError, match="write"):
        torch.save(1, 5)
    with pytest.raises(AttributeError, match=r"seek|read"):
        torch.load(5)


def test_files_in_text_mode(ours, tmp_path):
    (tmp_path / "file").write_text("text")
    with open(tmp_path / "file") as file, pytest.raises(TypeError, match="binary mode"):
        ours.load(file)


def test_mapping_needs_a_path(ours):
    with pytest.raises(ValueError, match="in order to use mmap"):
        ours.load(saved(ours, 1), mmap=True)


def test_unknown_arguments(ours):
    with pytest.raises(TypeError, match="unexpected argument 'wrong'"):
        ours.load(saved(ours, 1), wrong=1)


def test_checkpoints_are_loaded_on_first_use(ours, tmp_path):
    code = (
        "import sys, tapegrad; assert 'tapegrad.serialization' not in sys.modules; "
        "tapegrad.save; assert 'tapegrad.serialization' in sys.modules; "
        "assert tapegrad.load is tapegrad.serialization.load; "
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


# ---- what a checkpoint cannot hold


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


Point = collections.namedtuple("Point", "x y")


class Text(str):
    pass


REFUSED = [
    (lambda library: lambda: 0, "a function.*run code"),
    (lambda library: threading.Lock(), "a lock"),
    (lambda library: collections.defaultdict(lambda: 0), "a defaultdict.*default_factory"),
    (lambda library: (each for each in ()), "a generator"),
]


@pytest.mark.parametrize(("make", "text"), REFUSED)
def test_the_error_names_the_place(ours, make, text):
    state = {"model": {"w": ours.ones(1)}, "list": [0, (1, {"inner": make(ours)})]}
    file = io.BytesIO()
    with pytest.raises(
        TypeError, match=rf"^save: obj\['list'\]\[1\]\[1\]\['inner'\] is {text}"
    ) as caught:
        ours.save(state, file)
    assert isinstance(caught.value, pickle.PicklingError)
    assert isinstance(caught.value, ours.serialization.UnsupportedObjectError)
    assert file.getvalue() == b"", "nothing is written of what cannot be written whole"


def test_the_error_of_a_root(ours):
    with pytest.raises(TypeError, match=r"^save: obj is a function"):
        ours.save(lambda: 0, io.BytesIO())


def test_a_state_that_contains_itself(torch):
    state = {"a": []}
    state["a"].append([state])
    back = torch.load(saved(torch, state))
    assert back["a"][0][0] is back
    back["a"].clear()
    state["a"].clear()


def test_a_subclass_of_tensor(ours):
    class Mine(ours.Tensor):
        pass

    with pytest.raises(TypeError, match=r"obj\['x'\] is a Mine.*plain tensor"):
        ours.save({"x": Mine(ours.ones(2))}, io.BytesIO())


def test_a_batched_tensor(ours):
    def inside(x):
        ours.save({"x": x}, io.BytesIO())
        return x

    with pytest.raises(TypeError, match=r"obj\['x'\] is a Tensor.*batched by vmap"):
        ours.vmap(inside)(ours.ones(3))


def test_attributes_of_an_ordered_dict(ours):
    state = collections.OrderedDict(a=1)
    state._metadata = {"a": 1}
    assert through_bytes(ours, state)._metadata == {"a": 1}
    state.other = 3
    assert ours.load(saved(ours, state), weights_only=False).other == 3
