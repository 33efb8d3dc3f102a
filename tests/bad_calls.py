"""Makes bad calls by the thousand and reports those that do worse than raise.

    python tests/bad_calls.py --count 600000        the long form, about ten minutes on one core
    python tests/bad_calls.py --seed 7 --count 1000 --start 500
    python tests/bad_calls.py --call "torch.hsplit(torch.ones(2, 3), 2**40)"

The calls run in a process of their own with little memory, which writes each call down before it
is made; the kernel ends it when one call takes more than two seconds of processor time. Whoever
watches notes the call and starts the next process behind it. Findings are: the end of the process
(a crash, a hang), an exception that no user should see (SystemError, texts of the C++ runtime,
names that are missing in the library), and memory out of proportion to what was asked for.
"""

import argparse
import contextlib
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from bad_call_writer import Raised, Writer, all_targets, namespace
from library import torch

SECONDS_PER_CALL = 2.0  # of processor time
SECONDS_ASLEEP = 30.0
MEMORY_BEYOND_START = 1 << 30
MEMORY_PER_CALL = 400 << 10  # in KiB, as the kernel counts
CALLS_PER_PROCESS = 20_000
READABLE = 1 << 12
# Texts that come from below the library.
INTERNAL = ("std::", "nanobind", "C++ ", "_M_", "basic_string", "internal error", "libstdc")
BUGS = (SystemError, NameError, AssertionError, GeneratorExit, KeyboardInterrupt, SystemExit)
SIGNALS = {
    signal.SIGPROF: f"takes more than {SECONDS_PER_CALL:g} s",
    signal.SIGALRM: "never returns",
    signal.SIGSEGV: "SIGSEGV",
    signal.SIGABRT: "SIGABRT",
    signal.SIGFPE: "SIGFPE",
    signal.SIGBUS: "SIGBUS",
    signal.SIGILL: "SIGILL",
    signal.SIGKILL: "was killed",
}


# ---- the process that makes the calls ----------------------------------------------------------


def use(answer, depth=0):
    """Read an answer through, and use what wants to be used."""
    if isinstance(answer, torch.Tensor):
        if answer.numel() <= READABLE:
            answer.detach().clone()
            repr(answer)
        if answer.requires_grad and answer.numel() <= READABLE:
            answer.sum().backward()
    elif isinstance(answer, torch.nn.Module):
        answer(torch.ones(2, 3))
    elif isinstance(answer, torch.optim.Optimizer):
        answer.step()
    elif isinstance(answer, tuple | list) and depth < 2:
        for item in answer[:8]:
            use(item, depth + 1)
    elif hasattr(type(answer), "__enter__"):
        with answer:
            torch.ones(2, requires_grad=True).exp()
    elif type(answer).__name__ == "function" and depth == 0:
        use(answer(torch.ones(3)), 1)


def reset():
    """Undo what calls may have switched."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    torch.autograd.set_detect_anomaly(False)


def complaint(error):
    """Return what is wrong with an exception, or nothing."""
    if isinstance(error, Raised | MemoryError):
        return None
    try:
        text = str(error)
    except Raised:
        return None
    said = isinstance(error, AssertionError) and text  # PyTorch's type for some refusals
    if isinstance(error, BUGS) and not said:
        return f"{type(error).__name__}: {text[:200]}"
    if any(mark in text for mark in INTERNAL):
        return f"text of the C++ side: {text[:200]}"
    return None


def attempt(source):
    """Make one call; return what is wrong with how it ended, or None."""
    try:
        use(eval(source, dict(namespace())))
    except BaseException as error:
        return complaint(error)
    finally:
        reset()
    return None


def limit_memory():
    """Leave the process little more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BEYOND_START
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def work(seed, start, stop, log, findings):
    """Make calls, each written down first."""
    warnings.simplefilter("ignore")
    writer = Writer(all_targets(), seed)
    reset()
    limit_memory()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    with Path(findings).open("a", encoding="utf-8") as found:
        for number in range(start, stop):
            source = writer.call(number)
            os.pwrite(descriptor, f"{number} {source}\0".encode(errors="backslashreplace"), 0)
            before = peak_memory()
            signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CALL)
            signal.setitimer(signal.ITIMER_REAL, SECONDS_ASLEEP)
            problem = attempt(source)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if not problem and peak_memory() - before > MEMORY_PER_CALL:
                problem = f"takes {(peak_memory() - before) >> 10} MiB"
            if problem:
                found.write(json.dumps([number, problem, source]) + "\n")
                found.flush()
            if number % 500 == 0:
                gc.collect()
        os.pwrite(descriptor, f"{stop} done\0".encode(), 0)


# ---- the process that watches ------------------------------------------------------------------


def last_call(log):
    number, _, source = log.read_text(encoding="utf-8").split("\0")[0].partition(" ")
    return int(number), source


def run_calls(seed, start, count):
    """Yield a finding (number, what is wrong, call) for each bad end."""
    with tempfile.TemporaryDirectory() as folder:
        log, findings = Path(folder) / "last_call", Path(folder) / "findings"
        findings.touch()
        number, end = start, start + count
        while number < end:
            stop = min(end, number + CALLS_PER_PROCESS)
            log.write_text(f"{number} importing\0", encoding="utf-8")
            place = [str(seed), str(number), str(stop), str(log), str(findings)]
            done = subprocess.run(
                [sys.executable, __file__, "--work", *place],
                cwd=folder,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for line in findings.read_text(encoding="utf-8").splitlines():
                yield tuple(json.loads(line))
            findings.write_text("", encoding="utf-8")
            last, source = last_call(log)
            if source == "done":
                number = last
                continue
            if source == "importing":
                raise RuntimeError(f"cannot start: {done.stderr.decode(errors='replace')[-2000:]}")
            yield last, ending(done), source
            number = last + 1


def ending(done):
    """Say how a process ended."""
    if done.returncode < 0:
        name = SIGNALS.get(-done.returncode, f"signal {-done.returncode}")
    else:
        name = f"exit code {done.returncode}"
    last_line = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"{name} {last_line[0][:200] if last_line else ''}".strip()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--call", help="make this call, with the limits, and say how it ends")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.work:
        seed, start, stop, log, findings = options.work
        work(int(seed), int(start), int(stop), log, findings)
        return 0
    if options.call:
        reset()
        limit_memory()
        signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CALL)
        print(attempt(options.call) or "fine")
        return 0
    begin = time.monotonic()
    seen = Counter()
    for number, problem, source in run_calls(options.seed, options.start, options.count):
        key = (
            source.split("(", 1)[0] if source.startswith("torch.") else source[-40:],
            problem[:40],
        )
        seen[key] += 1
        if seen[key] <= 2:
            print(f"{number}: {problem}\n    {source}", flush=True)
    with contextlib.suppress(BrokenPipeError):
        print(f"{options.count} calls, {seen.total()} findings, {time.monotonic() - begin:.0f} s")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
