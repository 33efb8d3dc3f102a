"""Rows of the op database that lack a kernel on CUDA."""

ROWS_WITHOUT_KERNELS: set[str] = set()
