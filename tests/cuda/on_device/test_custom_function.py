"""The tests of tests/autograd/test_custom_function.py, with tensors on a CUDA device."""

from autograd.test_custom_function import *  # noqa: F403
