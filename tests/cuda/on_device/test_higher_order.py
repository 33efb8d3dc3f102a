"""The tests of tests/autograd/test_higher_order.py, with tensors on a CUDA device."""

from autograd.test_higher_order import *  # noqa: F403
