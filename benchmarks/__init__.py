"""Benchmarks of tapegrad beside PyTorch: `python -m benchmarks --help`, method in README.md."""
