"""Several processes on MPI: the tests of ranks again, and a program, started by mpiexec."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distributed.processes import MPIEXEC, UNDER_MPI

HERE = Path(__file__).parent
SECONDS = 300
# What is about the engine of threads.
LEFT_OUT = "not polling and not bring_ranks and not without_a_method"

if importlib.util.find_spec("mpi4py") is None:
    pytest.skip("mpi4py is not installed: pip install '.[distributed]'", allow_module_level=True)
if MPIEXEC is None:
    pytest.skip("there is no mpiexec", allow_module_level=True)
if UNDER_MPI:
    pytest.skip("this is started by mpiexec itself", allow_module_level=True)


def run(processes, *words):
    """Run Python in several processes; return what they print."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TAPEGRAD_TEST_MPI": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [MPIEXEC, "-n", str(processes), sys.executable, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=HERE.parent.parent,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


def test_ranks_that_are_processes():
    processes = 4  # one has nothing to do in most tests
    files = (
        HERE / "test_ranks.py",
        HERE / "test_collectives.py",
        HERE / "test_ddp.py",
        f"{HERE / 'test_parallel.py'}::TestSeveralRanks",
    )
    options = "-p", "no:cacheprovider", "-x", "-k", LEFT_OUT
    printed = run(processes, "-m", "pytest", *options, *files)
    assert printed.count(" passed") == processes


@pytest.mark.parametrize("backend", ["mpi", "gloo", "none"])
def test_a_program(backend):
    if backend == "none":
        from tapegrad import cuda

        if cuda.is_available():
            pytest.skip("without a name it would use NCCL")
    names = {"mpi": "mpi", "gloo": "gloo", "none": "undefined"}
    assert f"DONE 3 {names[backend]}" in run(3, HERE / "mpi_program.py", backend)


def test_nccl_is_refused():
    program = (
        "import tapegrad.distributed as d\n"
        "try: d.init_process_group('nccl')\n"
        "except RuntimeError as error: assert 'several processes on GPUs' in str(error), error\n"
        "else: raise SystemExit('not refused')\n"
    )
    run(2, "-c", program)


def test_a_rank_that_does_not_come_is_an_error():
    program = (
        "import datetime, tapegrad as t, tapegrad.distributed as d\n"
        "d.init_process_group('mpi', timeout=datetime.timedelta(seconds=1))\n"
        "if d.get_rank() == 0:\n"
        "    try: d.recv(t.zeros(1), 1)\n"
        "    except d.DistBackendError as error: print('LATE', error, flush=True)\n"
        "    d.irecv(t.zeros(1), 1, tag=1).wait(datetime.timedelta(seconds=60))\n"
        "else:\n"
        "    import time; time.sleep(3)\n"
        "    d.send(t.ones(1), 0); d.send(t.ones(1), 0, tag=1)\n"
    )
    found = run(2, "-c", program)
    assert "LATE torch.distributed, rank 0 in recv of shape (1,) at <string>:4" in found
    assert "an operation did not end within 0:00:01" in found
