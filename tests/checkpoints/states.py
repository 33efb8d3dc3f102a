"""States to save, and the comparison of what came back, to the bit."""

import collections
import io
import math
import struct
from pathlib import Path

FILES = Path(__file__).parent / "files"
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64")  # fmt: skip


def through_bytes(library, state, **options):
    """Save to memory and load from it."""
    file = io.BytesIO()
    library.save(state, file)
    file.seek(0)
    return library.load(file, **options)


def through_file(library, state, path, **options):
    """Save to a path and load from it."""
    library.save(state, path)
    return library.load(path, **options)


def bits_of(tensor):
    """Return the elements of a tensor as integers that tell every NaN from every other."""
    name = str(tensor.dtype).removeprefix("torch.")
    flat = tensor.detach().contiguous().reshape(-1)
    if name in ("float16", "bfloat16"):
        return flat.view(type_of(flat, "int16")).tolist()
    if name in ("float32", "float64"):
        return flat.view(type_of(flat, "int32" if name == "float32" else "int64")).tolist()
    return flat.tolist()


def type_of(tensor, name):
    """Return a dtype by name, of the library that a tensor belongs to."""
    from importlib import import_module

    root = type(tensor).__module__.split(".")[0]
    return getattr(import_module(root), name)


def expect_same_tensor(actual, expected, what="tensor"):
    """Fail where two tensors, perhaps of two libraries, differ in anything that is kept."""
    assert type(actual).__name__ == type(expected).__name__, what
    assert str(actual.dtype) == str(expected.dtype), what
    assert tuple(actual.shape) == tuple(expected.shape), what
    assert actual.requires_grad == expected.requires_grad, what
    assert actual.is_leaf, what
    assert bits_of(actual) == bits_of(expected), what


def expect_same(actual, expected, what="state"):
    """Fail where two states differ: in types, keys, the order of keys, or any bit."""
    if hasattr(expected, "untyped_storage"):
        expect_same_tensor(actual, expected, what)
    elif isinstance(expected, dict):
        assert type(actual) is type(expected), what
        assert [repr(key) for key in actual] == [repr(key) for key in expected], what
        for mine, key in zip(actual, expected, strict=True):
            assert type(mine) is type(key), f"{what}: key {key!r}"
            expect_same(actual[mine], expected[key], f"{what}[{key!r}]")
        if isinstance(expected, collections.OrderedDict):
            assert getattr(actual, "_metadata", None) == getattr(expected, "_metadata", None), what
    elif isinstance(expected, (list, tuple)):
        assert type(actual).__name__ == type(expected).__name__, what
        assert len(actual) == len(expected), what
        for place, (one, two) in enumerate(zip(actual, expected, strict=True)):
            expect_same(one, two, f"{what}[{place}]")
    elif isinstance(expected, float):
        assert type(actual) is float, what
        assert struct.pack(">d", actual) == struct.pack(">d", expected), what
    else:
        assert str(type(actual).__name__) == str(type(expected).__name__), what
        assert actual == expected or str(actual) == str(expected), what


def numbers():
    """Return numbers of every kind that files tend to lose."""
    return [0, -1, 2**31, -(2**63), 2**63, 2**64, -(2**200), True, False, None, 0.1, -0.0, 5e-324,
            1.7976931348623157e308, math.inf, -math.inf, math.nan,
            struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0],
            1 - 2j, complex(math.nan, -0.0)]  # fmt: skip


def model_of(library, seed=0):
    """Return a network with parameters, buffers, and a table."""
    library.manual_seed(seed)
    nn = library.nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 4)
            # A bias before the norm has no gradient but rounding, which optimizers blow up.
            self.first = nn.Linear(4, 6, bias=False)
            self.norm = nn.BatchNorm1d(6)
            self.last = nn.Linear(6, 3)

        def forward(self, x):
            return self.last(self.norm(self.first(self.table(x))).relu())

    return Network()


OPTIMIZERS = {
    "SGD": lambda library, parameters: library.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda library, parameters: library.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "AdamW": lambda library, parameters: library.optim.AdamW(parameters, lr=0.01),
    "RMSprop": lambda library, parameters: library.optim.RMSprop(parameters, lr=0.01, momentum=0.5),
}
SCHEDULERS = {
    "StepLR": lambda lr, optimizer: lr.StepLR(optimizer, 2, gamma=0.5),
    "MultiStepLR": lambda lr, optimizer: lr.MultiStepLR(optimizer, [1, 3, 3]),
    "CosineAnnealingLR": lambda lr, optimizer: lr.CosineAnnealingLR(optimizer, 7),
    "OneCycleLR": lambda lr, optimizer: lr.OneCycleLR(optimizer, 0.1, total_steps=30),
    "ReduceLROnPlateau": lambda lr, optimizer: lr.ReduceLROnPlateau(optimizer, patience=0),
}


def train(library, model, optimizer, scheduler, steps):
    """Take some steps; return the losses."""
    losses = []
    for step in range(steps):
        x = library.tensor([step % 5, (step + 1) % 5, 3, 4])
        loss = library.nn.functional.cross_entropy(model(x), library.tensor([0, 1, 2, step % 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "Plateau" in type(scheduler).__name__:
            scheduler.step(loss.item())
        else:
            scheduler.step()
        losses.append(loss.item())
    return losses
