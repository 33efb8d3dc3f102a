"""Optimizers and schedulers beside PyTorch: the same numbers, states, errors and warnings."""
