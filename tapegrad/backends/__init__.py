"""Settings of the libraries and devices that ops run on, as PyTorch has them."""

from tapegrad.backends import cuda, cudnn, mps, opt_einsum

__all__ = ["cuda", "cudnn", "mps", "opt_einsum"]
