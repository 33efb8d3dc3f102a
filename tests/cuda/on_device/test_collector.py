"""The tests of tests/autograd/test_collector.py, with tensors on a CUDA device."""

from autograd.test_collector import *  # noqa: F403
