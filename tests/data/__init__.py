"""Datasets, samplers and the loader; what has no random numbers runs against PyTorch too."""
