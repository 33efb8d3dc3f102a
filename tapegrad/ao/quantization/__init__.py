"""Marks in models of where quantization begins and ends; nothing is quantized here."""

from tapegrad._C import Tensor
from tapegrad.nn import Module

__all__ = ["DeQuantStub", "QuantStub"]


class QuantStub(Module):
    """Gives back what it gets, as PyTorch's until a model is converted.

    Args:
        qconfig: how to quantize, kept for those who look.
    """

    def __init__(self, qconfig: object = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return the tensor."""
        return x


class DeQuantStub(QuantStub):
    """Gives back what it gets, as PyTorch's until a model is converted.

    Args:
        qconfig: how to quantize, kept for those who look.
    """
