"""The class of compiled modules, by the module that PyTorch defines it in."""

from tapegrad.compiler._compiled import OptimizedModule

__all__ = ["OptimizedModule"]
