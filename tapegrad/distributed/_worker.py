"""Runs one process of a job that `_launcher` has started by mpiexec. Imports nothing of tapegrad.

The process of the program is a child of this one, so that the launcher learns how it ended, and
mpiexec does not: it would end the others at once, which shall say what they have waited for.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time

NAP = 0.05


def surroundings(folder: str) -> dict[str, str]:
    """Return the environment of the program, with the names that torchrun gives."""
    rank, size = os.environ["PMI_RANK"], os.environ["PMI_SIZE"]
    names = ("RANK", "LOCAL_RANK", "ROLE_RANK")
    sizes = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE")
    found = {**os.environ, **dict.fromkeys(names, rank), **dict.fromkeys(sizes, size)}
    return {**found, "GROUP_RANK": "0", "TAPEGRAD_LAUNCH": folder}


def write(folder: str, name: str, value: object) -> None:
    """Write a file whole, or not at all."""
    path = os.path.join(folder, name)
    with open(path + ".part", "w") as file:
        json.dump(value, file)
    os.replace(path + ".part", path)


def main(folder: str, command: list[str]) -> None:
    """Run the program, write how it ended, and stay until the launcher is done."""
    rank, parent, begin = os.environ["PMI_RANK"], os.getppid(), time.monotonic()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    streams = [os.open(os.path.join(folder, f"rank{rank}.{name}"), os.O_WRONLY) for name in "12"]
    program = subprocess.Popen(
        command,
        env=surroundings(folder),
        stdin=None if rank == "0" else subprocess.DEVNULL,
        stdout=streams[0],
        stderr=streams[1],
        close_fds=False,  # what MPI was given
    )
    for stream in streams:
        os.close(stream)
    write(folder, f"rank{rank}.pid", program.pid)
    while program.poll() is None:
        if os.getppid() != parent:
            program.kill()
        time.sleep(NAP)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    status = {
        "code": program.returncode,
        "seconds": time.monotonic() - begin,
        "cpu": used.ru_utime + used.ru_stime,
        "memory": used.ru_maxrss * 1024,
    }
    with contextlib.suppress(FileNotFoundError):  # the launcher has gone
        write(folder, f"rank{rank}.status", status)
    while program.returncode and os.getppid() == parent and os.path.isdir(folder):
        if os.path.exists(os.path.join(folder, "done")):
            break
        time.sleep(NAP)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
