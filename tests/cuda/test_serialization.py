"""What is saved, pickled or copied of a device comes back there, or where it is told to."""

import copy
import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from library import IS_SANITIZED, pytorch_for_parity, torch

cuda = torch.cuda
nn = torch.nn
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]


def saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def reload(state, **options):
    return torch.load(saved(state), **options)


# ---- save and load


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_come_back_where_they_were(dtype):
    x = (torch.arange(24, device="cuda") % 3).to(dtype).reshape(2, 3, 4)
    state = {"x": x, "t": (x + 0).transpose(0, 2), "part": (x + 0)[:, 1:, ::2], "none": x[:0],
             "one": x[1, 2, 3].clone(), "host": torch.ones(2)}  # fmt: skip
    back = reload(state)
    for name, tensor in state.items():
        assert back[name].device == tensor.device and back[name].dtype is tensor.dtype
        assert torch.equal(back[name].cpu(), tensor.cpu()), name
    assert back["t"].stride() == state["t"].stride()


def test_a_file_on_the_disk(tmp_path):
    x = torch.randn(5, 7, device="cuda", requires_grad=True)
    path = tmp_path / "x.safetensors"
    torch.save({"x": x, "w": nn.Parameter(x.detach())}, path)
    for mmap in (False, True):
        back = torch.load(path, mmap=mmap)
        assert back["x"].is_cuda and back["x"].requires_grad and torch.equal(back["x"], x)
        assert type(back["w"]) is nn.Parameter and back["w"].is_cuda
        assert torch.load(path, mmap=mmap, map_location="cpu")["x"].device.type == "cpu"


def test_shared_memory_stays_shared():
    base = torch.arange(12.0, device="cuda")
    state = {"base": base, "row": base[2:6], "matrix": base.view(3, 4).t(), "alone": base.clone()}
    for back in (reload(state), reload(state, map_location="cpu")):
        back["base"][3] = 100
        assert back["row"][1].item() == 100 and back["matrix"][3, 0].item() == 100
        assert back["alone"][3].item() == 3
    state = {"left": base[:6], "right": base[4:]}  # neither has all of it
    back = reload(state)
    back["left"][5] = 50
    assert back["right"].tolist() == [4, 50, 6, 7, 8, 9, 10, 11] and back["right"].is_cuda


def test_map_location():
    x = torch.arange(3.0, device="cuda")
    for place in ("cpu", b"cpu", torch.device("cpu"), {"cuda:0": "cpu"},
                  lambda storage, location: storage,
                  lambda storage, location: storage.cpu()):  # fmt: skip
        back = reload([x, x[:0]], map_location=place)
        assert [each.device.type for each in back] == ["cpu", "cpu"]
        assert back[0].tolist() == [0, 1, 2]
    for place in (None, "cuda", "cuda:0", torch.device("cuda"), {"cpu": "cuda:0"},
                  {"cuda:7": "cpu"}, lambda storage, location: None,
                  lambda storage, location: storage.cuda()):  # fmt: skip
        back = reload([x, x[:0]], map_location=place)
        assert [each.device for each in back] == [x.device, x.device]
        assert back[0].tolist() == [0, 1, 2]
    host = reload(torch.ones(3), map_location="cuda")
    assert host.is_cuda and host.tolist() == [1.0] * 3


def test_what_a_function_is_given():
    seen = []

    def function(storage, location):
        seen.append((storage.device.type, storage.nbytes(), location))
        return storage.cuda() if location == "cpu" else storage

    state = {"x": torch.ones(3, device="cuda"), "y": torch.ones(2, dtype=torch.int16)}
    back = reload(state, map_location=function)
    assert sorted(seen) == [("cpu", 4, "cpu"), ("cpu", 12, "cuda:0")]
    assert back["x"].device.type == "cpu" and back["y"].is_cuda
    assert back["x"].tolist() == [1.0] * 3 and back["y"].tolist() == [1, 1]
    with pytest.raises(TypeError, match="expected map_location to return the storage"):
        reload(state, map_location=lambda storage, location: torch.ones(5).untyped_storage())


def test_to_another_device(two_devices):
    x = torch.ones(3, device="cuda:1")
    assert reload(x).device == x.device
    assert reload(x, map_location={"cuda:1": "cuda:0"}).device == torch.device("cuda:0")
    with cuda.device(1):
        assert reload(torch.ones(3), map_location="cuda").device == x.device


def test_a_device_that_is_not_there():
    text = rf"object on CUDA device 40 but torch.cuda.device_count\(\) is {cuda.device_count()}"
    for options in ({"map_location": "cuda:40"}, {"map_location": {"cuda:0": "cuda:40"}}):
        with pytest.raises(RuntimeError, match=text):
            reload(torch.ones(3, device="cuda"), **options)


def test_values_are_those_at_the_time_of_saving(emulator):
    """Work that is queued on the current stream comes before the copy to the host."""
    with cuda.stream(cuda.Stream()):
        x = torch.zeros(1000, device="cuda")
        x += 3
        file = saved(x)
        x.zero_()
    assert torch.load(file, map_location="cpu").sum().item() == 3000


def test_others_read_what_was_saved(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    x = torch.randn(4, 5, device="cuda")
    torch.save({"x": x, "t": x.t().clone()}, path)
    found = safetensors.load_file(path)
    assert np.array_equal(found["x"], x.cpu().numpy())
    assert np.array_equal(found["t"], x.t().cpu().numpy())
    safetensors.save_file({"y": found["x"]}, path)
    assert torch.equal(torch.load(path, map_location="cuda")["y"], x)


# ---- PyTorch's files


@pytest.fixture
def pytorch():
    library, reason = pytorch_for_parity()
    if library is None:
        pytest.skip(reason)
    return library


def written_on_a_gpu(pytorch, state, monkeypatch, location="cuda:0"):
    """Return a file of PyTorch that says that its storages were on a GPU."""
    monkeypatch.setattr(pytorch.serialization, "location_tag", lambda storage: location)
    file = io.BytesIO()
    pytorch.save(state, file)
    monkeypatch.undo()
    file.seek(0)
    return file


def test_files_of_pytorch_from_a_gpu(pytorch, monkeypatch):
    base = pytorch.arange(12.0)
    state = {"base": base, "row": base[2:6], "flags": base > 3, "w": pytorch.nn.Parameter(base * 2)}
    file = written_on_a_gpu(pytorch, state, monkeypatch)
    back = torch.load(file)
    assert all(tensor.is_cuda for tensor in back.values())
    assert back["base"].tolist() == list(range(12)) and back["flags"].sum().item() == 8
    assert back["w"].requires_grad and back["w"].tolist() == [2.0 * i for i in range(12)]
    back["base"][3] = 100
    assert back["row"][1].item() == 100
    for place in ("cpu", {"cuda:0": "cpu"}, lambda storage, location: storage):
        file.seek(0)
        assert torch.load(file, map_location=place)["base"].device.type == "cpu"
    file = written_on_a_gpu(pytorch, state, monkeypatch, "cuda:40")
    with pytest.raises(RuntimeError, match="on CUDA device 40 but"):
        torch.load(file)


def test_a_checkpoint_of_a_model_on_a_gpu_from_pytorch(pytorch, monkeypatch):
    theirs = pytorch.nn.Linear(3, 2)
    optimizer = pytorch.optim.Adam(theirs.parameters(), lr=0.1)
    theirs(pytorch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {"model": theirs.state_dict(), "optimizer": optimizer.state_dict()}
    back = torch.load(written_on_a_gpu(pytorch, state, monkeypatch))
    model = nn.Linear(3, 2, device="cuda")
    model.load_state_dict(back["model"])
    ours = torch.optim.Adam(model.parameters(), lr=0.1)
    ours.load_state_dict(back["optimizer"])
    for library, net, step in ((pytorch, theirs, optimizer), (torch, model, ours)):
        step.zero_grad()
        device = {"device": "cuda"} if library is torch else {}
        net(library.ones(1, 3, **device)).sum().backward()
        step.step()
    np.testing.assert_allclose(
        model.weight.detach().cpu().numpy(), theirs.weight.detach().numpy(), rtol=1e-6
    )


# ---- models and optimizers


def train(model, optimizer, steps, device):
    torch.manual_seed(1)
    for _ in range(steps):
        x = torch.randn(4, 3).to(device)
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("fused", [False, True])
def test_training_goes_on_from_a_checkpoint(fused):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=fused)
    train(model, optimizer, 2, "cuda")
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    wanted = train(model, optimizer, 2, "cuda")
    for place in (None, "cpu", "cuda"):
        file.seek(0)
        back = torch.load(file, map_location=place)
        other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda()
        other.load_state_dict(back["model"])
        again = torch.optim.Adam(other.parameters(), fused=fused)
        again.load_state_dict(back["optimizer"])
        state = again.state[next(other.parameters())]
        assert state["exp_avg"].is_cuda and state["step"].is_cuda is fused
        for found, parameter in zip(train(other, again, 2, "cuda"), wanted, strict=True):
            assert torch.equal(found, parameter)


def test_from_the_device_to_a_model_of_the_cpu():
    model = nn.Linear(3, 2).cuda()
    other = nn.Linear(3, 2)
    other.load_state_dict(reload(model.state_dict()))
    assert other.weight.device.type == "cpu"
    assert torch.equal(other.weight, model.weight.cpu())


# ---- pickle and copy


@pytest.mark.parametrize("dtype", DTYPES)
def test_pickled_tensors(dtype):
    x = (torch.arange(24, device="cuda") % 3).to(dtype).reshape(2, 3, 4)
    for view in (x, x.transpose(0, 2), x[:, 1:, ::2], x[0, 0, 0], x[:0]):
        for protocol in (2, 5):
            back = pickle.loads(pickle.dumps(view, protocol))
            assert back.device == x.device and back.dtype is dtype
            assert torch.equal(back.cpu(), view.cpu())
    assert pickle.loads(pickle.dumps(x.transpose(0, 2))).stride() == (1, 4, 12)


def test_pickles_hold_class_attributes_and_requires_grad():
    x = torch.ones(2, device="cuda", requires_grad=True)
    x.note = "mine"
    back = pickle.loads(pickle.dumps(x))
    assert back.is_cuda and back.is_leaf and back.requires_grad and back.note == "mine"
    parameter = nn.Parameter(x.detach())
    parameter.note = "its own"
    parameter = pickle.loads(pickle.dumps(parameter))
    assert type(parameter) is nn.Parameter and parameter.requires_grad and parameter.is_cuda
    assert parameter.note == "its own"


def test_copies_stay_on_the_device():
    x = torch.ones(3, device="cuda", requires_grad=True)
    (x * 2).sum().backward()
    deep, shallow = copy.deepcopy(x), copy.copy(x)
    assert deep.device == deep.grad.device == x.device and deep.grad.tolist() == [2.0] * 3
    assert deep.data_ptr() != x.data_ptr() and shallow.data_ptr() == x.data_ptr()


def test_whole_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).cuda()
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert all(tensor.is_cuda for tensor in other.state_dict().values())
        for name, tensor in model.state_dict().items():
            assert torch.equal(other.state_dict()[name], tensor)


def test_pickles_of_devices_that_are_not_there(two_devices):
    data = pickle.dumps(torch.ones(2, device="cuda:1"), 2)
    assert pickle.loads(data).device == torch.device("cuda:1")
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on CUDA device 9"):
        pickle.loads(data.replace(b"cuda:1", b"cuda:9"))
    with pytest.raises((RuntimeError, ValueError)):
        pickle.loads(data.replace(b"cuda:1", b"cuda:x"))


@pytest.mark.skipif(IS_SANITIZED, reason="its child needs the sanitizer's runtime")
def test_where_there_is_no_gpu(tmp_path):
    x = torch.arange(3.0, device="cuda")
    torch.save({"x": x}, tmp_path / "x.pt")
    (tmp_path / "x.pickle").write_bytes(pickle.dumps(x))
    (tmp_path / "generator.pickle").write_bytes(pickle.dumps(torch.Generator("cuda")))
    script = """if True:
        import pickle, sys
        import tapegrad as torch
        folder = sys.argv[1]
        assert not torch.cuda.is_available()
        for read in (lambda: torch.load(folder + "/x.pt"),
                     lambda: torch.load(folder + "/x.pt", map_location="cuda"),
                     lambda: torch.load(folder + "/x.pt", map_location=lambda *_: None),
                     lambda: pickle.load(open(folder + "/x.pickle", "rb"))):
            try:
                read()
            except RuntimeError as error:
                wanted = ("Attempting to deserialize object on a CUDA device but "
                          "torch.cuda.is_available() is False")
                assert wanted in str(error) and "map_location=torch.device('cpu')" in str(error)
            else:
                raise AssertionError("loaded")
        for place in ("cpu", {"cuda:0": "cpu"}, lambda storage, _: storage):
            assert torch.load(folder + "/x.pt", map_location=place)["x"].tolist() == [0, 1, 2]
        try:
            pickle.load(open(folder + "/generator.pickle", "rb"))
        except RuntimeError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TAPEGRAD_CUDA_DRIVER": "/nonexistent/libcuda.so",
        },
    )
    assert done.returncode == 0, done.stderr
    assert "cuda" in done.stdout.lower()


# ---- generators


def test_pickled_and_copied_generators():
    generator = torch.Generator("cuda").manual_seed(7)
    torch.rand(5, device="cuda", generator=generator)
    copies = [pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator), copy.copy(generator)]
    wanted = torch.rand(5, device="cuda", generator=generator).tolist()
    for other in copies:
        assert other.device == generator.device and other.initial_seed() == 7
        assert torch.rand(5, device="cuda", generator=other).tolist() == wanted
    host = pickle.loads(pickle.dumps(torch.Generator().manual_seed(3)))
    assert host.device.type == "cpu" and host.initial_seed() == 3
    old = torch.Generator.__new__(torch.Generator)
    old.__setstate__(torch.Generator().manual_seed(4).get_state())  # before they had a device
    assert old.initial_seed() == 4 and old.device.type == "cpu"
    with pytest.raises(TypeError, match="the pickled generator is damaged"):
        torch.Generator.__new__(torch.Generator).__setstate__(5)


def test_fork_rng():
    torch.manual_seed(5)
    with torch.random.fork_rng():
        inside = torch.rand(3).tolist(), torch.rand(3, device="cuda").tolist()
    assert (torch.rand(3).tolist(), torch.rand(3, device="cuda").tolist()) == inside
    torch.manual_seed(5)
    with torch.random.fork_rng(devices=[]):  # the CPU's alone
        torch.rand(3), torch.rand(3, device="cuda")
    assert torch.rand(3).tolist() == inside[0]
    assert torch.rand(3, device="cuda").tolist() != inside[1]
    torch.manual_seed(5)
    with torch.random.fork_rng(devices=iter(["cuda:0"]), device_type="cuda"):
        torch.rand(3, device="cuda")
    assert torch.rand(3, device="cuda").tolist() == inside[1]
    torch.manual_seed(5)
    for options in ({"enabled": False}, {"device_type": "meta"}):
        with torch.random.fork_rng(**options):
            torch.rand(3)
    assert torch.rand(3).tolist() != inside[0]
    with (
        pytest.raises(RuntimeError, match="expected device_type"),
        torch.random.fork_rng(device_type="xpu"),
    ):
        pass
    torch.manual_seed(5)
    with pytest.raises(KeyError), torch.random.fork_rng():
        torch.rand(3)
        raise KeyError
    assert torch.rand(3).tolist() == inside[0]
