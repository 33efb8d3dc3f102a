"""The tests of tests/autograd/test_grad_and_backward.py, with tensors on a CUDA device."""

from autograd.test_grad_and_backward import *  # noqa: F403
