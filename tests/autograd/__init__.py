"""The behaviour of autograd, one file per feature, run against tapegrad and against PyTorch."""
