"""Ranks that are processes of MPI, for the tests that `test_mpi.py` runs under mpiexec."""

import os
import shutil
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tapegrad import distributed
from tapegrad.distributed import _groups

UNDER_MPI = "TAPEGRAD_TEST_MPI" in os.environ
# Beside this Python first: mpi4py and mpiexec must be of one MPI.
FOLDERS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MPIEXEC = shutil.which("mpiexec", path=FOLDERS)
LIMIT = timedelta(seconds=60)  # no rank waits longer for one that has failed


class MpiRanks:
    """Runs a function in the first processes of MPI's world; all get the results of all."""

    @staticmethod
    def number():
        """Return the rank of this process in MPI's world."""
        from mpi4py import MPI

        return MPI.COMM_WORLD.Get_rank()

    @staticmethod
    def from_first(value):
        """Return what the first process gives."""
        from mpi4py import MPI

        return MPI.COMM_WORLD.bcast(value)

    @staticmethod
    def meet():
        """Wait until all processes have come here."""
        from mpi4py import MPI

        MPI.COMM_WORLD.barrier()

    def __call__(self, size, function):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        rank = world.Get_rank()
        if size > world.Get_size():
            pytest.skip(f"needs {size} processes, there are {world.Get_size()}")
        result = error = None
        if rank < size:
            try:
                result = self.run(rank, size, function)
            except Exception as failure:
                error = f"rank {rank}: {type(failure).__name__}: {failure}"
        found = world.allgather((result, error))
        errors = [error for _, error in found if error is not None]
        assert not errors, "\n".join(errors)
        return [result for result, _ in found[:size]]

    def run(self, rank, size, function):
        """Return what the function returns in a world of its own."""
        _groups.world().made = 0  # groups have names by number, and some ranks may have made more
        distributed.init_process_group(
            "mpi", store=distributed.HashStore(), rank=rank, world_size=size, timeout=LIMIT
        )
        try:
            return function(rank)
        finally:
            distributed.destroy_process_group()
