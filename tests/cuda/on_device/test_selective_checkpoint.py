"""The tests of tests/autograd/test_selective_checkpoint.py, with tensors on a CUDA device."""

from autograd.test_selective_checkpoint import *  # noqa: F403
