"""Settings of the libraries and devices that ops run on, as PyTorch has them."""

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
