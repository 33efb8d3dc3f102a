"""The tests of tests/autograd/test_modes.py, with tensors on a CUDA device."""

from autograd.test_modes import *  # noqa: F403
