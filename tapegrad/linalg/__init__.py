"""Linear algebra, as torch.linalg: factorizations, systems of equations, spectra, norms.

All functions work on batches: dimensions before the last two are any number of matrices.
float32, float64, complex64 and complex128 on the CPU.

Example:
    >>> A = torch.tensor([[4.0, 2.0], [2.0, 3.0]])
    >>> torch.linalg.solve(A, torch.tensor([2.0, 1.0]))
    tensor([0.5000, 0.0000])
"""

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING

from tapegrad._C import _LinAlgError as LinAlgError
from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad._second_look import looks_again as _looks_again
from tapegrad.linalg._factor import (
    cholesky,
    cholesky_ex,
    householder_product,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
)
from tapegrad.linalg._norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from tapegrad.linalg._products import (
    cross,
    diagonal,
    matmul,
    matrix_exp,
    matrix_power,
    multi_dot,
    vander,
    vecdot,
)
from tapegrad.linalg._solve import (
    det,
    inv,
    inv_ex,
    lstsq,
    pinv,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from tapegrad.linalg._spectrum import eig, eigh, eigvals, eigvalsh, svd, svdvals

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

for _name, _function in list(globals().items()):
    if _name in __all__ and _isfunction(_function):
        globals()[_name] = _looks_again(_function, f"linalg_{_name}")

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
