"""Sparse tensors: ops beside PyTorch, gradients, what is refused, and other features with them."""
