"""The tests of tests/autograd/test_stale_values.py, with tensors on a CUDA device."""

from autograd.test_stale_values import *  # noqa: F403
