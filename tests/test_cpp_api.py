"""Saved programs in C++: examples/cpp is built against the library without Python, and run.

The library is linked from objects that a build of the module has left behind (build/...), so that
the core is not compiled a second time; without such a build there is nothing to test.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

if IS_TORCH or IS_SANITIZED:
    pytest.skip("about tapegrad's own library, built plainly", allow_module_level=True)

from tape.models import GPT, ResNet18
from tape.program_files import parts, written

ROOT = Path(__file__).parents[1]
CMAKE = shutil.which("cmake")
nn = torch.nn


def build_folder():
    """Return the latest build of this source that has objects of the module, or None."""
    found = []
    for cache in ROOT.glob("build/*/CMakeCache.txt"):
        is_ours = f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" in cache.read_text(encoding="utf-8")
        objects = cache.parent / "CMakeFiles" / "_C.dir" / "csrc" / "core" / "op.cpp.o"
        if is_ours and objects.exists():
            found.append((objects.stat().st_mtime, cache.parent))
    return max(found)[1] if found else None


def built(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def build_library(folder):
    """Link the library, unless the build has done so: see TAPEGRAD_CPP in CMakeLists.txt.

    What pip has built may not be continued: the packages that it was built with are gone.
    """
    library = folder / "libtapegrad.so"
    objects = folder / "CMakeFiles" / "_C.dir" / "csrc" / "core" / "op.cpp.o"
    if library.exists() and library.stat().st_mtime >= objects.stat().st_mtime:
        return
    command = [CMAKE, "--build", folder, "--target", "tapegrad"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode and "nanobind" in run.stdout + run.stderr:
        pytest.skip("the build is pip's; with CMAKE_ARGS=-DTAPEGRAD_CPP=ON it has the library")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="module")
def program():
    """Return a function that runs examples/cpp on files."""
    folder = build_folder()
    if folder is None or CMAKE is None:
        pytest.skip("no build of the module is left in build/, or there is no cmake")
    target = folder / "cpp_example"
    with open(folder / "cpp_example.lock", "w") as lock:  # two workers may come at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_library(folder)
        settings = [f"-DTAPEGRAD_BUILD={folder}", f"-DTAPEGRAD_SOURCE={ROOT}"]
        built([CMAKE, "-S", ROOT / "examples" / "cpp", "-B", target, *settings])
        built([CMAKE, "--build", target])

    def run(*arguments):
        environment = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
        return subprocess.run(
            [target / "run_program", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )

    yield run


def saved(folder, model, inputs):
    """Save the program of a model's forward pass, its weights and inputs; return the paths."""
    model.eval()
    with torch.no_grad(), torch.tape.record(model, replay=True) as t:
        result = model(*inputs.values())
    paths = [str(folder / name) for name in ("model.program", "weights", "inputs")]
    t.program(names=inputs, outputs={"y": result}).save(paths[0])
    torch.save({name: each.contiguous() for name, each in model.state_dict().items()}, paths[1])
    torch.save(inputs, paths[2])
    return paths, result


def elements(text, name):
    (line,) = (each for each in text.splitlines() if each.startswith(f"{name} "))
    return torch.tensor([float(each) for each in line.partition("=")[2].split()])


class Embeds(nn.Module):
    """Integers, a buffer, attention, views."""

    def __init__(self):
        super().__init__()
        self.gpt = GPT()
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, tokens):
        """Return scores of the last token."""
        return self.gpt(tokens)[:, -1].t() * self.scale


MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), torch.randn(2, 4)),
    "resnet18": lambda: (ResNet18(), torch.randn(2, 3, 32, 32)),
    "gpt": lambda: (Embeds(), torch.randint(17, (2, 8))),
    "lstm": lambda: (nn.Sequential(nn.LSTM(4, 5), Last()), torch.randn(6, 2, 4)),
}


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def forward(self, outputs):
        """Pick it."""
        return outputs[0][-1]


@pytest.mark.parametrize("name", MODELS)
def test_model(program, tmp_path, name):
    model, x = MODELS[name]()
    paths, result = saved(tmp_path, model, {"x": x})
    run = program(*paths)
    assert run.returncode == 0, run.stderr
    found = elements(run.stdout, "y")
    assert torch.equal(found, result.flatten())  # the same kernels, the same bits


def test_in_place_and_shared_memory(program, tmp_path):
    whole, total = torch.arange(12.0).view(3, 4), torch.zeros(4)
    left, right = whole[:, :2], whole[:, 2:].t()
    with torch.tape.record(replay=True) as t:
        total += left.sum() + right.exp().sum(1).repeat(2)
    names = {"left": left, "right": right, "total": total}
    recorded = t.program(names=names, outputs={"total": total})
    recorded.save(tmp_path / "program")
    torch.save({"left": left.clone(), "total": torch.ones(4)}, tmp_path / "weights")
    torch.save({"right": right.contiguous()}, tmp_path / "inputs")
    run = program(*(str(tmp_path / each) for each in ("program", "weights", "inputs")))
    assert run.returncode == 0, run.stderr
    once = left.sum() + right.exp().sum(1).repeat(2)
    assert torch.allclose(elements(run.stdout, "total"), 1 + 2 * once)  # it runs twice


def test_training_step(program, tmp_path):
    """Gradients and the state of an optimizer are inputs that are written to."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, target = torch.randn(6, 4), torch.randn(6, 1)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step()
    with torch.tape.record(model, replay=True) as t:
        loss = step()
    recorded = t.program(names={"x": x, "target": target}, outputs={"loss": loss})
    recorded.save(tmp_path / "program")
    state = {name: each.clone() for name, each in recorded.tensors.items()}
    inputs = {name: state.pop(name) for name in ("x", "target")}
    torch.save(state, tmp_path / "weights")
    torch.save(inputs, tmp_path / "inputs")
    run = program(*(str(tmp_path / each) for each in ("program", "weights", "inputs")))
    assert run.returncode == 0, run.stderr
    recorded.run({**state, **inputs})
    second = recorded.run({**state, **inputs})["loss"]
    assert second < loss and elements(run.stdout, "loss").item() == second.item()


def test_wrong_calls(program, tmp_path):
    model, x = MODELS["mlp"]()
    (path, weights, inputs), _ = saved(tmp_path, model, {"x": x})
    other = str(tmp_path / "other")

    def refuses(text, *arguments):
        run = program(*arguments)
        assert run.returncode == 1 and text in run.stderr, run.stderr

    refuses("No such file", str(tmp_path / "nothing"), weights, inputs)
    torch.save({"x": x}, other)
    refuses("Program::run: expected input '0.weight', got none", path, other, inputs)
    torch.save({"x": x, "z": x.clone()}, other)
    refuses("Program::run: the program has no input 'z'", path, weights, other)
    torch.save({"x": x.double()}, other)
    refuses("expected input 'x' of float32 [2, 4], got float64 [2, 4]", path, weights, other)
    torch.save({"x": x.t().contiguous()}, other)
    refuses("expected input 'x' of float32 [2, 4], got float32 [4, 2]", path, weights, other)
    assert program().returncode == 2


def test_guards_hold_in_cpp(program, tmp_path):
    x = torch.tensor([1.0, 2.0])
    with torch.tape.record(replay=True) as t:
        y = x * 2 if x.sum() > 0 else -x
    t.program(names={"x": x}, outputs={"y": y}).save(tmp_path / "program")
    torch.save({}, tmp_path / "weights")
    for sign, wanted in ((1, 0), (-1, 1)):
        torch.save({"x": x * sign}, tmp_path / "inputs")
        run = program(*(str(tmp_path / each) for each in ("program", "weights", "inputs")))
        assert run.returncode == wanted
    assert "a guard does not hold" in run.stderr


def test_damaged_files(program, tmp_path):
    model, x = MODELS["mlp"]()
    (path, weights, inputs), _ = saved(tmp_path, model, {"x": x})
    content = Path(path).read_bytes()
    bad = tmp_path / "bad"

    def refuses(text):
        run = program(str(bad), weights, inputs)
        assert run.returncode == 1 and text in run.stderr, (run.returncode, run.stderr)

    for length in (0, 5, 8, 40, len(content) // 2, len(content) - 1):
        bad.write_bytes(content[:length])
        refuses("cut short" if length < 41 else "")
    for place in range(0, len(content), 211):
        damaged = bytearray(content)
        damaged[place] ^= 1
        bad.write_bytes(damaged)
        refuses("")
    header, data = parts(content)

    def changed(**changes):
        written(bad, header | changes, data)

    steps = header["steps"]
    for changes, text in (
        ({"format": "other"}, "got another file"),
        ({"version": 2}, "expected a program of version 1, got version 2"),
        ({"steps": [steps[0] | {"op": "no_such_op"}]}, "there is no op 'no_such_op'"),
        ({"steps": [steps[0] | {"attributes": []}]}, "attributes, got 0"),
        (
            {"values": [[nbytes // 2, *rest] for nbytes, *rest in header["values"]]},
            "not lie within",
        ),
        ({"values": [[-1, "cpu", True]]}, "a value has -1 bytes"),
        ({"values": [[4, "cuda:0", True]]}, "runs on device 'cuda:0'"),
        ({"inputs": []}, "is read and is no input"),
        ({"inputs": header["inputs"] * 2}, "two inputs or outputs are"),
        ({"outputs": [["y", [99, 0, [1], [1], "float32"], True, True]]}, "values, got 99"),
        ({"values": 3}, "expected a list"),
    ):
        changed(**changes)
        refuses(text)
    for text in (b"[" * 100000, b"{", b'{"format": 1e999}', b'"\\ud800', b"nul", b"[1,]"):
        written(bad, text)
        refuses("expected JSON")
    Path(weights).write_bytes(struct.pack("<Q", 2**60) + b"{}")
    run = program(path, weights, inputs)
    assert run.returncode == 1 and "cut short" in run.stderr
    torn = b'{"x":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4]}}'
    Path(weights).write_bytes(struct.pack("<Q", len(torn)) + torn + bytes(4))
    run = program(path, weights, inputs)
    assert run.returncode == 1, run.stderr
