"""Results must not depend on what fresh memory holds.

With ``TAPEGRAD_FILL_FRESH`` set, the allocator fills every block it hands out with that byte. Each
op of the database runs forward and backward in two processes with different bytes; a kernel that
reads what nobody wrote shows itself by the difference.

``TAPEGRAD_FILL_FRESH=0xff python tests/test_fresh_memory.py [--all]`` prints one process's digests.
"""

import hashlib
import json
import os
import subprocess
import sys
from functools import partial

import pytest
from checks import to_numpy
from library import IS_TORCH, torch
from op_db import OPS
from op_db.row import LAYOUTS, call, lift, results
from op_db.sampler import draw

pytestmark = pytest.mark.skipif(IS_TORCH, reason="a switch of tapegrad's")

BYTES = ("0xff", "0x3d")  # NaN and -1, and a small number
UNSPECIFIED = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
}
SAMPLES_IN_SHORT = 2


def tensors_of(answer):
    return [result for result in results(answer) if isinstance(result, torch.Tensor)]


def gradients(op, sample):
    """Return the gradients of one call by its inputs."""
    args, kwargs = lift((sample.args, sample.kwargs))
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
    for x in inputs:
        x.requires_grad_()
    answers = [t for t in tensors_of(op.function()(*args, **kwargs)) if t.requires_grad]
    if not answers:
        return []
    seeds = [torch.ones_like(answer) for answer in answers]
    found = torch.autograd.grad(answers, inputs, seeds, allow_unused=True)
    return [grad for grad in found if grad is not None]


def digest(tensors):
    text = hashlib.sha256()
    for tensor in tensors:
        text.update(str(tuple(tensor.shape)).encode())
        text.update(to_numpy(tensor.detach().clone()).tobytes())
    return text.hexdigest()[:16]


def outcome(run):
    """Return a digest of the tensors that a function returns, or the text with which it refuses."""
    try:
        return digest(tensors_of(run()))
    except RuntimeError as error:  # a layout that has no such view, src larger than index
        return str(error)


def digests(everything):
    """Return a digest of what each sample of each op gives, forward and backward."""
    found = {}
    for op in OPS:
        if op.name.split(".")[0] in UNSPECIFIED:
            continue
        for dtype in op.dtypes if everything else op.dtypes[:1]:
            samples = draw(op, dtype)
            for number, sample in enumerate(samples if everything else samples[:SAMPLES_IN_SHORT]):
                torch.manual_seed(number)
                key = f"{op.name} {dtype} {number}"
                for layout in LAYOUTS if everything else LAYOUTS[:1]:
                    found[f"{key} {layout}"] = outcome(partial(call, op, sample, layout=layout))
                if op.gradient_order:
                    found[f"{key} gradient"] = outcome(partial(gradients, op, sample))
    return found


def run_with(byte):
    done = subprocess.run(
        [sys.executable, __file__],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TAPEGRAD_FILL_FRESH": byte, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_results_do_not_depend_on_fresh_memory():
    first, second = map(run_with, BYTES)
    assert len(first) > 500
    assert [key for key in first if first[key] != second[key]] == []


@pytest.mark.parametrize("byte", BYTES)
def test_fresh_memory_is_filled(byte):
    """The switch does what it says; otherwise the test above would prove nothing."""
    script = (
        "import tapegrad as torch; x = torch.empty(1000, dtype=torch.uint8); print(set(x.tolist()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TAPEGRAD_FILL_FRESH": byte, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == f"{{{int(byte, 0)}}}"


if __name__ == "__main__":
    json.dump(digests("--all" in sys.argv), sys.stdout)
