"""The tests of tests/autograd/test_checkpoint.py, with tensors on a CUDA device."""

from autograd.test_checkpoint import *  # noqa: F403
