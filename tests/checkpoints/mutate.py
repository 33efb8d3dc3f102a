"""Load thousands of damaged files in processes whose memory is limited.

    python tests/checkpoints/mutate.py --count 20000

Each file either loads into a state whose every tensor can be read, or raises CheckpointError. A
crash, another exception, a wait, or more memory than the limit is a failure, and its number gives
the same file again: --first NUMBER --count 1.
"""

import argparse
import collections
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

if __package__:
    from . import mutations
else:  # run as a program
    import mutations

HERE = Path(__file__).parent
LIMIT = 192 << 20  # bytes beyond what the process has before its first file
SECONDS = 10


# ---- one process


def sound_files(torch):
    """Return files of both formats: tapegrad's own, and those that PyTorch wrote."""
    import numpy

    matrix = torch.arange(12.0).reshape(3, 4)
    flat = torch.arange(10, dtype=torch.int32)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    states = {
        "nested": {
            "w": matrix, "tied": matrix, "row": matrix[1], "turned": matrix.t(),
            "order": torch.ones(2, 3, dtype=torch.float64).t(), "left": flat[:4], "right": flat[5:],
            "mask": torch.tensor([True, False]), "half": torch.ones(3, dtype=torch.bfloat16),
            "none": torch.zeros(0, 3), "wide": torch.ones(1).expand(5),
            "parameter": torch.nn.Parameter(torch.ones(2)), "bytes": bytes(5000),
            "array": numpy.arange(6).reshape(2, 3), "number": numpy.float32(2),
            "list": [1, 2.5, float("nan"), 1 << 80, None, "text", b"abc", 1j, (1, (2,))],
            "set": {1, 2}, (1, "a"): {"deep": [{"deeper": []}]}, "dtype": torch.float32,
            "device": torch.device("cpu"), "size": torch.Size([1, 2]),
            "counter": collections.Counter("aab"), "state": model.state_dict(),
        },
        "plain": {name: value.clone() for name, value in model.state_dict().items()},
    }  # fmt: skip
    files = {}
    for name, state in states.items():
        stream = io.BytesIO()
        torch.save(state, stream)
        files[f"{name}.safetensors"] = stream.getvalue()
    header = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    files["bare.safetensors"] = len(header).to_bytes(8, "little") + header + bytes(16)
    for name in ("state.pt", "protocol4.pt", "training.pt"):
        files[name] = (HERE / "files" / name).read_bytes()
    return files


def check_state(torch, root):
    """Read what was loaded: the first and the last byte of every tensor, every container."""
    seen, rest, read = set(), [root], 0.0
    while rest:
        value = rest.pop()
        if isinstance(value, torch.Tensor):
            whole = value.detach()
            if 0 < whole.numel() < 1 << 20:
                read += float(whole.double().nan_to_num().sum())
            elif whole.numel():
                read += float(whole[tuple(size - 1 for size in whole.shape)])
            repr(value) if value.numel() < 1000 else None
        elif isinstance(value, (dict, list, tuple, set, frozenset)) and id(value) not in seen:
            seen.add(id(value))
            rest.extend(value.values() if isinstance(value, dict) else value)
    return read


def mapped_bytes():
    """Return the size of this process's address space."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def work(first, count):
    """Load files, and print a line for each: a number, a class of result, a text."""
    import tapegrad as torch

    torch.set_num_threads(1)
    files = sound_files(torch)
    for data in files.values():
        check_state(torch, torch.load(io.BytesIO(data)))
    limit = mapped_bytes() + LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, raise_timeout)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            print(f"{seed} start", flush=True)  # The last one is to blame for a crash.
            name, data = mutations.mutate(files, seed)
            signal.alarm(SECONDS)
            result, text = load_one(torch, data, os.path.join(folder, "file"), seed)
            signal.alarm(0)
            print(json.dumps([seed, result, name, text]), flush=True)
    print(json.dumps(["peak", peak_memory()]), flush=True)


def peak_memory():
    """Return the peak in KiB. The one of getrusage counts the process that started this one."""
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:"))


def raise_timeout(*_):
    raise TimeoutError("it takes too long")


def load_one(torch, data, path, seed):
    from tapegrad.serialization import CheckpointError, RefusedError

    try:
        if seed % 3:
            loaded = torch.load(io.BytesIO(data))
        else:
            with open(path, "wb") as file:
                file.write(data)
            loaded = torch.load(path, mmap=bool(seed % 2))
    except RefusedError as error:
        return "refused", str(error)
    except CheckpointError as error:
        return "damaged", str(error)
    except BaseException as error:
        return "FAILURE", f"load: {type(error).__name__}: {error}"
    try:
        check_state(torch, loaded)
    except BaseException as error:
        return "FAILURE", f"use: {type(error).__name__}: {error}"
    return "loaded", ""


# ---- all of them


def run(first, count):
    """Run files in a process, and in another after each crash; return results and peak memory."""
    results, peak, end = [], 0, first + count
    while first < end:
        command = [sys.executable, __file__, "--work", str(first), str(end - first)]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True)
        lines = done.stdout.splitlines()
        found = [json.loads(line) for line in lines if line.startswith("[")]
        peak = max([peak, *(line[1] for line in found if line[0] == "peak")])
        results += [line for line in found if line[0] != "peak"]
        started = [int(line.split()[0]) for line in lines if line.endswith(" start")]
        if done.returncode == 0:
            break
        if not started:
            raise RuntimeError(f"the process did not start: exit status {done.returncode}")
        results.append([started[-1], "FAILURE", "", f"the process ended with {done.returncode}"])
        first = started[-1] + 1
    return results, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=int, nargs=2)
    parser.add_argument("--show", action="store_true", help="print every result")
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return 0
    results, peak = run(options.first, options.count)
    counts = collections.Counter(result for _, result, _, _ in results)
    for seed, result, name, text in results:
        if options.show or result == "FAILURE":
            print(f"{seed} {result}: {name}: {text[:300]}")
    summary = ", ".join(f"{counts[kind]} {kind}" for kind in ("loaded", "damaged", "refused"))
    print(f"{len(results)} files: {summary}, {counts['FAILURE']} failures; peak {peak} KiB")
    return 1 if counts["FAILURE"] or len(results) != options.count else 0


if __name__ == "__main__":
    sys.exit(main())
