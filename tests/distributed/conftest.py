"""Fixtures of this folder."""

import pytest
from library import IS_TORCH, torch

from distributed.processes import UNDER_MPI, MpiRanks
from distributed.threads import Ranks

collect_ignore_glob = ["test_*.py"] if IS_TORCH else []  # about tapegrad's own package


@pytest.fixture
def ranks(monkeypatch):
    """Give a function that runs another as several ranks: threads, or processes of mpiexec."""
    return MpiRanks() if UNDER_MPI else Ranks(monkeypatch)


@pytest.fixture
def world():
    """Give `torch.distributed` in a world of one process."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    if distributed.is_initialized():
        distributed.destroy_process_group()
