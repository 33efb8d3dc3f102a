"""The tests of tests/autograd/test_gradcheck.py, with tensors on a CUDA device."""

from autograd.test_gradcheck import *  # noqa: F403
