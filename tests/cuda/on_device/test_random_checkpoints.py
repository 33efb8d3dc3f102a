"""The tests of tests/autograd/test_random_checkpoints.py, with tensors on a CUDA device."""

from autograd.test_random_checkpoints import *  # noqa: F403
