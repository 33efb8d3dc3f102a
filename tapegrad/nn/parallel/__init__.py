"""A module on several devices or in several processes.

`DataParallel` is the module itself on one device, `DistributedDataParallel` that of one process.
"""
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tapegrad.nn.parallel.data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]

if TYPE_CHECKING:
    from tapegrad.nn.parallel import distributed
    from tapegrad.nn.parallel.distributed import DistributedDataParallel
else:

    def __getattr__(name):
        """Load what few programs need when it is first asked for."""
        from importlib import import_module

        if name == "distributed":
            return import_module("tapegrad.nn.parallel.distributed")
        if name == "DistributedDataParallel":
            return import_module("tapegrad.nn.parallel.distributed").DistributedDataParallel
        raise AttributeError(f"module 'tapegrad.nn.parallel' has no attribute {name!r}")
