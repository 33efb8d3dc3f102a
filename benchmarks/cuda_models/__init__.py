"""Models and blocks on a CUDA device beside PyTorch: `python -m benchmarks.cuda_models`."""
