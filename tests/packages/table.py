"""The tasks: what each package is asked to do, and how near its numbers must be to PyTorch's.

A task is a script in `tasks`, which prints rows of numbers; `expected` has those that PyTorch gave.
``python scripts/package_stage.py record`` writes them anew.
"""

import json
import math
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"


class Task(NamedTuple):
    """A script that uses one package.

    Attributes:
        package: its name in the registry.
        module: what is imported; the script is ``tasks/task_MODULE.py``.
        tolerance: how far a number may be off, as a share of the largest of its row.
    """

    package: str
    module: str
    tolerance: float = 2e-5

    @property
    def script(self) -> Path:
        return HERE / "tasks" / f"task_{self.module}.py"

    @property
    def expected(self) -> Path:
        return HERE / "expected" / f"{self.module}.json"

    @property
    def what(self) -> str:
        """What the script does, in its own words."""
        first = self.script.read_text("utf-8").split('"""')[1].partition("\n")[0]
        return first.partition(": ")[2].removesuffix(".")


# Several steps of training, or of an adaptive method, make small differences larger.
TASKS = (
    Task("transformers", "transformers"),
    Task("timm", "timm", 2e-4),
    Task("torchmetrics", "torchmetrics"),
    Task("einops", "einops"),
    Task("lightning", "lightning"),
    Task("pytorch-lightning", "pytorch_lightning"),
    Task("accelerate", "accelerate"),
    Task("safetensors", "safetensors"),
    Task("torchdiffeq", "torchdiffeq", 1e-4),
    Task("torchsde", "torchsde"),
    Task("lion-pytorch", "lion_pytorch"),
    Task("torch-optimizer", "torch_optimizer"),
    Task("entmax", "entmax", 1e-4),
    Task("x-transformers", "x_transformers"),
    Task("vit-pytorch", "vit_pytorch"),
    Task("higher", "higher"),
    Task("backpack-for-pytorch", "backpack"),
    Task("captum", "captum", 1e-4),
    Task("gpytorch", "gpytorch"),
    Task("pyro-ppl", "pyro"),
    Task("torch-geometric", "torch_geometric"),
    Task("stable-baselines3", "stable_baselines3"),
    Task("skorch", "skorch"),
)


def pins() -> dict[str, str]:
    """Return the version of each package that the numbers belong to."""
    lines = REQUIREMENTS.read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {normal(name): version for name, version in pairs}


def normal(name: str) -> str:
    """Return the name of a package as it is compared."""
    return name.strip().lower().replace("_", "-")


def rows_of(output: str) -> dict[str, list[float]]:
    """Return the rows of numbers that a script printed."""
    rows: dict[str, list[float]] = {}
    for line in output.splitlines():
        if line.startswith('{"'):
            for name, values in json.loads(line).items():
                assert name not in rows, f"two rows are called {name!r}"
                rows[name] = values
    return rows


def differences(
    rows: dict[str, list[float]], expected: dict[str, list[float]], tolerance: float
) -> list[str]:
    """Return what of the rows is not as expected, in words."""
    found = [f"{name}: only on one side" for name in rows.keys() ^ expected.keys()]
    for name in rows.keys() & expected.keys():
        ours, theirs = rows[name], expected[name]
        if len(ours) != len(theirs):
            found.append(f"{name}: {len(ours)} numbers, not {len(theirs)}")
            continue
        largest = max((abs(each) for each in theirs if math.isfinite(each)), default=0.0)
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same = a == b or (math.isnan(a) and math.isnan(b))
            if not same and not abs(a - b) <= tolerance * largest:
                found.append(f"{name}[{i}]: {a!r}, not {b!r}")
                break
    return found
