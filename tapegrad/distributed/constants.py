"""How long a group waits unless it is told otherwise."""

from datetime import timedelta

from tapegrad.distributed import default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_nccl_timeout: timedelta | None = None  # there is no group of NCCL's
