"""The tests of tests/autograd/test_forward_mode.py, with tensors on a CUDA device."""

from autograd.test_forward_mode import *  # noqa: F403
