"""One process, beside PyTorch's gloo group of one; several ranks, on an engine of threads."""
