"""The modules of nn, run against tapegrad and against PyTorch."""
