"""Rows of the op database that lack a kernel on CUDA."""

from op_db import FAMILIES
from op_db.fft import TRANSFORMS

ROWS_WITHOUT_KERNELS: set[str] = {op.name for op in FAMILIES["linalg"]} | {*TRANSFORMS}
