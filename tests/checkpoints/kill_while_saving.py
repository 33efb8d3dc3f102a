"""Kill a process that saves in a loop, at random instants, and look at the file each time.

    python tests/checkpoints/kill_while_saving.py --count 200

The process says when it begins to save a step and when save() has returned. After each kill the
file must load, and hold to the bit the last step that was saved, or the one that was being saved;
the next process goes on from it, as training would.
"""

import argparse
import collections
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TENSORS = 24
NUMBERS = 20_000


def state_of(torch, step):
    """Return the state of a step: as different from its neighbours' as can be."""
    generator = torch.Generator().manual_seed(step)
    weights = {
        f"layer{number}.weight": torch.randn(NUMBERS, generator=generator)
        for number in range(TENSORS)
    }
    shared = weights["layer0.weight"]
    return {
        "step": step,
        "model": weights,
        "tied": shared[100:200],
        "optimizer": {"state": {0: {"step": torch.tensor(float(step))}}, "lr": 1 / (step + 1)},
        "generator": generator.get_state(),
    }


def save_forever(path, named):
    """Save one step after another, from the one in the file on."""
    import tapegrad as torch

    if named and hasattr(os, "O_TMPFILE"):
        del os.O_TMPFILE
    torch.set_num_threads(1)
    step = torch.load(path)["step"] if os.path.exists(path) else 0
    while True:
        step += 1
        state = state_of(torch, step)
        os.write(1, f"begin {step}\n".encode())
        torch.save(state, path)
        os.write(1, f"saved {step}\n".encode())


def expect_step(torch, loaded, step):
    """Fail where a loaded state is not that of a step, to the bit."""
    wanted = state_of(torch, step)
    assert list(loaded) == list(wanted), "other keys"
    assert list(loaded["model"]) == list(wanted["model"]), "other names"
    for name, tensor in wanted["model"].items():
        assert torch.equal(loaded["model"][name], tensor), f"{name} of step {step} differs"
    assert torch.equal(loaded["tied"], wanted["tied"]), "tied"
    assert loaded["tied"].data_ptr() == loaded["model"]["layer0.weight"].data_ptr() + 400, "apart"
    assert torch.equal(loaded["generator"], wanted["generator"]), "generator"
    assert loaded["optimizer"]["lr"] == wanted["optimizer"]["lr"], "lr"
    assert loaded["optimizer"]["state"][0]["step"].item() == step, "optimizer"


def read_until_first_save(process, deadline):
    """Return what the process says up to its first complete save."""
    text = b""
    while b"saved" not in text and time.monotonic() < deadline:
        if select.select([process.stdout], [], [], 1)[0]:
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                break
            text += piece
    if b"saved" not in text:
        process.kill()
        raise RuntimeError(f"the process did not save: {process.wait()}, {text!r}")
    return text


def one_round(path, delay, named):
    """Start a process, kill it after a delay, and return the last steps it began and saved."""
    command = [sys.executable, os.path.abspath(__file__), "--child", path]
    command += ["--named"] if named else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=os.path.dirname(path)) as process:
        text = read_until_first_save(process, time.monotonic() + 60)
        time.sleep(delay)
        process.kill()
        text += process.stdout.read()
        process.wait()
    said = collections.defaultdict(int)
    for line in text.decode().splitlines():
        word, number = line.split()
        said[word] = int(number)
    return said["begin"], said["saved"]


def run(count, seed=0, where=None, named=False):
    """Kill so many times; return how the rounds ended.

    Args:
        count: how many times.
        seed: of the instants.
        where: the folder to save in.
        named: whether temporaries have names, as on systems that know no others.
    """
    import tapegrad as torch

    rng = random.Random(seed)
    ends = collections.Counter()
    with tempfile.TemporaryDirectory(dir=where) as folder:
        path = os.path.join(folder, "checkpoint")
        for _ in range(count):
            begun, saved = one_round(path, rng.uniform(0, 0.05), named)
            loaded = torch.load(path)
            step = loaded["step"]
            assert step in (saved, begun), f"the file has step {step}, saved was {saved}"
            expect_step(torch, loaded, step)
            if begun == saved:
                ends["between saves"] += 1
            else:
                ends["while saving: former" if step == saved else "while saving: new"] += 1
            ends["left over"] += len(os.listdir(folder)) - 1
            for name in set(os.listdir(folder)) - {"checkpoint"}:
                os.unlink(Path(folder, name))
        ends["steps"] = step
    return ends


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--where", help="the folder to save in")
    parser.add_argument("--named", action="store_true", help="temporaries that have names")
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        save_forever(options.child, options.named)
        return 0
    ends = run(options.count, options.seed, options.where, options.named)
    print(f"{options.count} kills, every file whole:", dict(ends))
    return 0


if __name__ == "__main__":
    sys.exit(main())
