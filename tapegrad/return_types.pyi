"""The named tuples that operations return; the native ones are classes of the native module."""

from typing import NamedTuple

from tapegrad._C import Tensor
from tapegrad._composed.return_types import aminmax as aminmax
from tapegrad._composed.return_types import frexp as frexp
from tapegrad._composed.return_types import histogram as histogram
from tapegrad._composed.return_types import histogramdd as histogramdd
from tapegrad._composed.return_types import nanmedian as nanmedian
from tapegrad.linalg._results import geqrf as geqrf
from tapegrad.linalg._results import linalg_cholesky_ex as linalg_cholesky_ex
from tapegrad.linalg._results import linalg_eig as linalg_eig
from tapegrad.linalg._results import linalg_eigh as linalg_eigh
from tapegrad.linalg._results import linalg_inv_ex as linalg_inv_ex
from tapegrad.linalg._results import linalg_ldl_factor as linalg_ldl_factor
from tapegrad.linalg._results import linalg_ldl_factor_ex as linalg_ldl_factor_ex
from tapegrad.linalg._results import linalg_lstsq as linalg_lstsq
from tapegrad.linalg._results import linalg_lu as linalg_lu
from tapegrad.linalg._results import linalg_lu_factor as linalg_lu_factor
from tapegrad.linalg._results import linalg_lu_factor_ex as linalg_lu_factor_ex
from tapegrad.linalg._results import linalg_qr as linalg_qr
from tapegrad.linalg._results import linalg_slogdet as linalg_slogdet
from tapegrad.linalg._results import linalg_solve_ex as linalg_solve_ex
from tapegrad.linalg._results import linalg_svd as linalg_svd
from tapegrad.linalg._results import lu_unpack as lu_unpack
from tapegrad.linalg._results import qr as qr
from tapegrad.linalg._results import slogdet as slogdet
from tapegrad.linalg._results import svd as svd
from tapegrad.linalg._results import triangular_solve as triangular_solve

class cummax(NamedTuple):
    values: Tensor
    indices: Tensor

class cummin(NamedTuple):
    values: Tensor
    indices: Tensor

class kthvalue(NamedTuple):
    values: Tensor
    indices: Tensor

class max(NamedTuple):
    values: Tensor
    indices: Tensor

class median(NamedTuple):
    values: Tensor
    indices: Tensor

class min(NamedTuple):
    values: Tensor
    indices: Tensor

class mode(NamedTuple):
    values: Tensor
    indices: Tensor

class sort(NamedTuple):
    values: Tensor
    indices: Tensor

class topk(NamedTuple):
    values: Tensor
    indices: Tensor
