"""What is divided between processes, on MPI: the tests of ranks again, training, and kills."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import tapegrad as torch
from distributed.test_mpi import HERE, MPIEXEC, run
from tapegrad.distributed import checkpoint as dcp

# Of test_a_kill_while_saving; for the long form, set to 50.
KILLS = int(os.environ.get("TAPEGRAD_KILLS", "3"))


def test_ranks_that_are_processes_divide_tensors_and_modules():
    names = "dtensor", "fsdp", "sharded_checkpoint", "tensor_parallel"
    files = [HERE / f"test_{name}.py" for name in names]
    # The functions one by one are tested on threads.
    options = "-p", "no:cacheprovider", "-x", "-k", "not functions_and_their_gradients"
    printed = run(4, "-m", "pytest", *options, *files)
    assert printed.count(" passed") == 4


def test_training_beside_one_process():
    # 200 steps with the argument 200.
    assert run(4, HERE / "sharded_program.py", 8).count("within rounding") == 3


def test_memory_is_what_the_planner_says():
    assert "AS PLANNED" in run(2, HERE / "plan_program.py")


def workers_of(folder):
    """Return the processes that save to a folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if words[0] == sys.executable and str(folder) in words:
            found.append(int(pid))
    return found


def kill_some(program, folder, seed):
    """Kill processes of a program at a moment by chance: one of them, or all."""
    choose = random.Random(seed)
    assert program.stdout.readline().strip() == "SAVING"
    time.sleep(choose.random() * 0.2)
    workers = workers_of(folder)
    assert len(workers) == 3
    for pid in workers if choose.random() < 0.5 else choose.sample(workers, 1):
        os.kill(pid, signal.SIGKILL)


def test_a_kill_while_saving_leaves_the_former_or_the_new(tmp_path):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPENBLAS_NUM_THREADS": "1",
    }
    for seed in range(KILLS):
        folder = tmp_path / f"kept-{seed % 3}"
        words = [MPIEXEC, "-n", "3", sys.executable, HERE / "saving_program.py", folder]
        program = subprocess.Popen(
            list(map(str, words)), env=environment, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            kill_some(program, folder, seed)
            program.wait(30)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
            program.stdout.close()
            program.wait()
        state = {f"x{i}": torch.zeros(67, 11) for i in range(4)} | {"number": 0}
        state["own"] = torch.tensor(0)
        dcp.load(state, checkpoint_id=folder)
        number = state["number"]
        assert number >= 1 and state["own"].item() == number
        assert all((state[f"x{i}"] == number).all() for i in range(4))
