"""Files that PyTorch's own `load` reads with `weights_only=True`, and its files read here."""

import collections
import io
import warnings
import zipfile

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

if IS_TORCH:
    pytest.skip("both libraries are compared here", allow_module_level=True)

reference, missing = pytorch_for_parity()
needs_torch = pytest.mark.skipif(reference is None, reason=missing)

ALGORITHMS = {
    "ASGD": {"lr": 0.01},
    "Adadelta": {"lr": 0.1},
    "Adafactor": {"lr": 0.01},
    "Adagrad": {"lr": 0.1},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
    "LBFGS": {"lr": 0.1},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.01},
    "SGD": {"lr": 0.01, "momentum": 0.9, "nesterov": True},
}
DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2"),
]


def written(state, library=torch, **options):
    stream = io.BytesIO()
    library.save(state, stream, **options)
    stream.seek(0)
    return stream


def for_torch(state):
    return written(state, format="torch")


def model_of(library):
    nn = library.nn
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2)).double()


def train(library, model, optimizer, steps):
    x = library.arange(15, dtype=library.float64).reshape(5, 3) / 10
    target = library.arange(10, dtype=library.float64).reshape(5, 2) / 5

    def closure():
        optimizer.zero_grad()
        loss = library.nn.functional.mse_loss(model(x), target)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def arrays(model):
    return {name: value.numpy().copy() for name, value in model.state_dict().items()}


@needs_torch
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("way", ["to PyTorch", "from PyTorch"])
def test_training_goes_on_in_the_other_library(name, way):
    first, second = (torch, reference) if way == "to PyTorch" else (reference, torch)
    options = ALGORITHMS[name]
    model = model_of(first)
    optimizer = getattr(first.optim, name)(model.parameters(), **options)
    train(first, model, optimizer, 3)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    stream = for_torch(state) if first is torch else written(state, reference)
    loaded = second.load(stream, weights_only=True)

    other = model_of(second)
    other.load_state_dict(loaded["model"])
    other_optimizer = getattr(second.optim, name)(other.parameters(), **options)
    other_optimizer.load_state_dict(loaded["optimizer"])
    assert loaded["epoch"] == 3
    for key, value in arrays(model).items():
        np.testing.assert_array_equal(arrays(other)[key], value)

    train(first, model, optimizer, 3)
    train(second, other, other_optimizer, 3)
    for key, value in arrays(model).items():
        np.testing.assert_allclose(arrays(other)[key], value, rtol=1e-7, atol=1e-9)


@needs_torch
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_to_the_bit(name):
    values = torch.tensor([1, 0, 1, 1]).to(getattr(torch, name))
    state = {"values": values, "one": values[2], "none": values[:0].reshape(0, 3)}
    loaded = reference.load(for_torch(state), weights_only=True)
    assert str(loaded["values"].dtype) == str(values.dtype)
    raw = values.untyped_storage().tolist()
    assert loaded["values"].clone().untyped_storage().tolist() == raw
    assert loaded["one"].shape == () and loaded["none"].shape == (0, 3)


@needs_torch
def test_shared_memory_strides_and_classes():
    base = torch.arange(12.0)
    image = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
    fixed = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    state = [base, base[2:5], base.view(3, 4).T, image, torch.nn.Parameter(torch.ones(3)), fixed]
    loaded = reference.load(for_torch(state), weights_only=True)
    assert loaded[1].data_ptr() == loaded[0].data_ptr() + 8
    assert loaded[2].stride() == (1, 4)
    assert loaded[2].untyped_storage().data_ptr() == loaded[0].untyped_storage().data_ptr()
    assert loaded[3].is_contiguous(memory_format=reference.channels_last)
    np.testing.assert_array_equal(loaded[3].numpy(), image.numpy())
    assert type(loaded[4]) is reference.nn.Parameter and loaded[4].requires_grad
    assert type(loaded[5]) is reference.nn.Parameter and not loaded[5].requires_grad


@needs_torch
def test_containers_and_numbers():
    state = {
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "counter": collections.Counter("aab"),
        "values": [1, -(2**80), 0.5, 1 + 2j, True, None, "text", b"bytes", {1, 2}, (3, (4,))],
        5: torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "nested": {"a": [{"b": torch.ones(1)}]},
    }
    loaded = reference.load(for_torch(state), weights_only=True)
    assert list(loaded["ordered"].items()) == [("b", 1), ("a", 2)]
    assert loaded["counter"] == {"a": 2, "b": 1}
    assert loaded["values"] == state["values"]
    assert type(loaded[5]) is reference.Size and loaded[5] == (2, 3)
    assert loaded["dtype"] is reference.bfloat16
    assert loaded["device"] == reference.device("cpu")
    assert loaded["nested"]["a"][0]["b"].item() == 1


@needs_torch
def test_schedulers_and_scalers():
    parameter = [torch.nn.Parameter(torch.ones(1))]
    optimizer = torch.optim.SGD(parameter, lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    scheduler.step()
    loaded = reference.load(for_torch(scheduler.state_dict()), weights_only=True)
    other = reference.optim.SGD([reference.nn.Parameter(reference.ones(1))], lr=1.0)
    other_scheduler = reference.optim.lr_scheduler.StepLR(other, 2)
    other_scheduler.load_state_dict(loaded)
    other.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other_scheduler.step()
    optimizer.step()
    scheduler.step()
    assert other_scheduler.get_last_lr() == scheduler.get_last_lr()


def test_file_is_read_here_as_well():
    weight = torch.arange(6.0).reshape(2, 3)
    stream = for_torch({"weight": weight, "tied": weight})
    assert zipfile.is_zipfile(stream)
    stream.seek(0)
    loaded = torch.load(stream)
    assert torch.equal(loaded["weight"], weight)
    assert loaded["weight"] is loaded["tied"]


def test_formats_can_be_asked_for(tmp_path):
    layer = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="expected format 'safetensors' or 'torch', got 'zip'"):
        torch.save({}, tmp_path / "a", format="zip")
    with pytest.raises(torch.serialization.UnsupportedObjectError, match=r"obj\['layer'\]"):
        torch.save({"layer": layer}, tmp_path / "a", format="safetensors")
    with pytest.raises(TypeError, match=r"obj\['f'\] is a function"):
        torch.save({"f": lambda: 3}, tmp_path / "a", format="torch")
    with pytest.raises(TypeError, match="meta"):
        torch.save({"m": torch.empty(2, device="meta")}, tmp_path / "a", format="torch")
    assert not (tmp_path / "a").exists()
    torch.save(layer.state_dict(), tmp_path / "a", format="safetensors")
    assert not zipfile.is_zipfile(tmp_path / "a")
    torch.save(layer.state_dict(), tmp_path / "a", format="torch")
    assert zipfile.is_zipfile(tmp_path / "a")
    assert layer.load_state_dict(torch.load(tmp_path / "a")).missing_keys == []
