"""Run a task with PyTorch itself: ``python with_torch.py tasks/task_einops.py``.

torchvision's compiled part loads only beside the build of PyTorch that it was made for. Where it
does not, torchvision refuses to be imported unless the ops are there of which it says more: they
are defined here, with nothing behind them. No task calls one.
"""

import importlib.util
import runpy
import sys
from pathlib import Path

import torch


def define_missing_ops():
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    try:
        torch.ops.load_library(str(Path(found.origin).with_name("_C.so")))
    except OSError:
        for op in ("nms", "qnms"):
            torch.library.define(f"torchvision::{op}", "(Tensor a, Tensor b, float c) -> Tensor")


if __name__ == "__main__":
    script = sys.argv[1]
    sys.path[0] = str(Path(script).parent)
    define_missing_ops()
    sys.argv = sys.argv[1:]
    runpy.run_path(script, run_name="__main__")
