"""Settings of the libraries and devices that ops run on, as PyTorch has them."""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.backends import cpu, cuda, cudnn, mha, mkl, mps, nnpack, openmp, opt_einsum

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "mha",
    "mkl",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
