"""Samples into batches, the same in both libraries."""

from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple

import numpy as np
import pytest

Point = namedtuple("Point", ["x", "y"])


def shown(value):
    """Return a value with its types, tensors as dtype and numbers."""
    if hasattr(value, "tolist"):
        return (type(value).__name__, str(value.dtype), value.tolist())
    if isinstance(value, (dict, UserDict)):
        return (type(value).__name__, {key: shown(each) for key, each in value.items()})
    if isinstance(value, (list, tuple, UserList)):
        return (type(value).__name__, [shown(each) for each in value])
    return value


def tensor(dtype, numbers):
    return ("Tensor", f"torch.{dtype}", numbers)


class Note(dict):
    """A dict with something else in it."""


CASES = {
    "ints": ([1, 2], tensor("int64", [1, 2])),
    "floats": ([1.0, 2.5], tensor("float64", [1.0, 2.5])),
    "bools": ([True, False], tensor("bool", [True, False])),
    "strings": (["a", "b"], ("list", ["a", "b"])),
    "bytes": ([b"a", b"b"], ("list", [b"a", b"b"])),
    "arrays": (
        [np.array([1, 2], np.int32), np.array([3, 4], np.int32)],
        tensor("int32", [[1, 2], [3, 4]]),
    ),
    "0-d arrays": ([np.array(1.5), np.array(2.5)], tensor("float64", [1.5, 2.5])),
    "float32 scalars": ([np.float32(1), np.float32(2)], tensor("float32", [1.0, 2.0])),
    "int64 scalars": ([np.int64(1), np.int64(2)], tensor("int64", [1, 2])),
    "bool scalars": ([np.bool_(True), np.bool_(False)], tensor("bool", [True, False])),
    "tuples": ([(1, "a"), (2, "b")], ("list", [tensor("int64", [1, 2]), ("tuple", ["a", "b"])])),
    "lists": ([[1, 2.0], [3, 4.0]], ("list", [tensor("int64", [1, 3]), tensor("float64", [2, 4])])),
    "namedtuples": (
        [Point(1, 2.0), Point(3, 4.0)],
        ("Point", [tensor("int64", [1, 3]), tensor("float64", [2.0, 4.0])]),
    ),
    "dicts": ([{"a": 1}, {"a": 2}], ("dict", {"a": tensor("int64", [1, 2])})),
    "ordered dicts": (
        [OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)],
        ("OrderedDict", {"b": tensor("int64", [1, 3]), "a": tensor("int64", [2, 4])}),
    ),
    "user dicts": ([UserDict(a=1), UserDict(a=2)], ("UserDict", {"a": tensor("int64", [1, 2])})),
    "user lists": ([UserList([1]), UserList([2])], ("UserList", [tensor("int64", [1, 2])])),
    "nested": (
        [{"a": (1, [2.0])}, {"a": (3, [4.0])}],
        (
            "dict",
            {"a": ("list", [tensor("int64", [1, 3]), ("list", [tensor("float64", [2.0, 4.0])])])},
        ),
    ),
    "one sample": ([(1,)], ("list", [tensor("int64", [1])])),
    "ranges": ([range(2), range(2)], ("list", [tensor("int64", [0, 0]), tensor("int64", [1, 1])])),
}


@pytest.mark.parametrize("case", CASES)
def test_collate(data, case):
    samples, expected = CASES[case]
    assert shown(data.default_collate(samples)) == expected


def test_collate_tensors(torch, data):
    batch = data.default_collate([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])])
    assert shown(batch) == tensor("float32", [[1.0, 2.0], [3.0, 4.0]])
    x, y = data.default_collate([(torch.tensor(1), {"k": torch.ones(1)})] * 2)
    assert x.tolist() == [1, 1]
    assert y["k"].shape == (2, 1)


def test_collate_keeps_the_gradient(torch, data):
    x = torch.ones(2, requires_grad=True)
    data.default_collate([x, x * 2]).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_collate_keeps_what_a_subclass_holds(data):
    note = Note(a=1)
    note.origin = "here"
    batch = data.default_collate([note, Note(a=2)])
    assert isinstance(batch, Note)
    assert batch.origin == "here"
    assert batch["a"].tolist() == [1, 2]
    assert note["a"] == 1
    counts = defaultdict(list, a=1)
    assert data.default_collate([counts, counts]).default_factory is list


def test_collate_refuses(torch, data):
    for sample in (None, object(), {1, 2}):
        with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
            data.default_collate([sample, sample])
    with pytest.raises(TypeError, match=r"found .*U1"):
        data.default_collate([np.array(["a"])])
    with pytest.raises(TypeError, match="found object"):
        data.default_collate([np.array([None])])
    with pytest.raises(RuntimeError, match="should be of equal size"):
        data.default_collate([[1, 2], [1]])
    with pytest.raises(RuntimeError):
        data.default_collate([torch.ones(2), torch.ones(3)])
    with pytest.raises(KeyError):
        data.default_collate([{"a": 1}, {"b": 1}])


def test_convert(torch, data):
    x = torch.ones(2)
    assert data.default_convert(x) is x
    same = [1, "a", b"b", None, 2.5, object()]
    assert data.default_convert(same) == same
    assert shown(data.default_convert(np.array([1, 2]))) == tensor("int64", [1, 2])
    assert shown(data.default_convert(np.float32(2))) == tensor("float32", 2.0)
    assert shown(data.default_convert((np.array(1), "a"))) == ("list", [tensor("int64", 1), "a"])
    assert shown(data.default_convert(Point(np.array(1), 2))) == ("Point", [tensor("int64", 1), 2])
    assert shown(data.default_convert({"a": [np.array(1.0)]})) == (
        "dict",
        {"a": ("list", [tensor("float64", 1.0)])},
    )


def test_convert_leaves_arrays_of_text(data):
    words = np.array(["a", "b"])
    assert data.default_convert(words) is words
    word = np.str_("a")
    assert data.default_convert(word) is word


def test_convert_does_not_write_to_the_sample(data):
    sample = {"a": np.array([1]), "b": [np.array([2])]}
    data.default_convert(sample)
    assert isinstance(sample["a"], np.ndarray)
    assert isinstance(sample["b"][0], np.ndarray)
