"""Objects in PyTorch's checkpoints of classes that the program allows."""

import argparse
import collections
import dataclasses
import enum

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
pytestmark = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)


@dataclasses.dataclass
class Settings:
    rate: float
    sizes: list


class Slotted:
    __slots__ = ("value",)

    def __getstate__(self):
        return None, {"value": self.value}


class WithState:
    def __getstate__(self):
        return {"hidden": self.value}

    def __setstate__(self, state):
        self.value = state["hidden"] + 1


class Color(enum.Enum):
    RED = 1


def slotted(value):
    made = Slotted()
    made.value = value
    return made


def with_state(value):
    made = WithState()
    made.value = value
    return made


Point = collections.namedtuple("Point", "x y")
OBJECTS = {
    "namespace": (argparse.Namespace(lr=0.1, name="a"), [argparse.Namespace]),
    "dataclass": (Settings(0.5, [1, 2]), [Settings]),
    "named tuple": (Point(1, (2, 3)), [Point]),
    "enum": (Color.RED, [Color]),
}


@pytest.mark.parametrize("name", list(OBJECTS))
def test_allowed(name, tmp_path):
    value, classes = OBJECTS[name]
    path = tmp_path / "state.pt"
    pytorch.save({"value": value, "weight": pytorch.ones(2)}, path)
    with pytest.raises(torch.serialization.RefusedError, match="add_safe_globals"):
        torch.load(path)
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    assert unsafe == pytorch.serialization.get_unsafe_globals_in_checkpoint(path)
    with torch.serialization.safe_globals(classes):
        back = torch.load(path)
        assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == []
    assert back["value"] == value and type(back["value"]) is type(value)
    assert back["weight"].tolist() == [1, 1]
    assert torch.serialization.get_safe_globals() == []


def test_state(tmp_path):
    pytorch.save([slotted(pytorch.ones(1)), with_state(3)], tmp_path / "state.pt")
    with torch.serialization.safe_globals([Slotted, WithState]):
        first, second = torch.load(tmp_path / "state.pt")
    assert isinstance(first.value, torch.Tensor) and second.value == 4


def test_other_names(tmp_path):
    """A file names PyTorch's class where ours is meant."""
    pytorch.save(pytorch.nn.Linear(2, 3).state_dict(), tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt")["weight"].shape == (3, 2)
    pytorch.save(pytorch.optim.lr_scheduler.StepLR, tmp_path / "class.pt")
    name = "torch.optim.lr_scheduler.StepLR"
    with torch.serialization.safe_globals([(torch.optim.lr_scheduler.StepLR, name)]):
        assert torch.load(tmp_path / "class.pt") is torch.optim.lr_scheduler.StepLR


def test_list_of_what_is_allowed():
    serialization = torch.serialization
    serialization.add_safe_globals([Settings])
    serialization.add_safe_globals([Settings, (Point, "elsewhere.Point")])
    assert serialization.get_safe_globals() == [Settings, (Point, "elsewhere.Point")]
    with serialization.safe_globals([Color]):
        assert len(serialization.get_safe_globals()) == 3
    assert len(serialization.get_safe_globals()) == 2
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    for bad, error in (([3], TypeError), ([(Point, 3)], ValueError), ([("a", "b")], ValueError)):
        with pytest.raises(error, match="safe_globals"):
            serialization.add_safe_globals(bad)


def test_what_is_not_allowed_is_still_refused(tmp_path):
    """An allowed class does not open the way for others."""
    pytorch.save([argparse.Namespace(a=1), Settings(1.0, [])], tmp_path / "state.pt")
    with (
        torch.serialization.safe_globals([Settings]),
        pytest.raises(torch.serialization.RefusedError, match=r"argparse\.Namespace"),
    ):
        torch.load(tmp_path / "state.pt")
