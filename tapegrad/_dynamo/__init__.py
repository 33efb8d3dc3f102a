"""The few names of PyTorch's `torch._dynamo` that programs use."""

from tapegrad.compiler import disable, is_compiling, list_backends, reset

__all__ = ["disable", "is_compiling", "list_backends", "reset"]
