"""The tests of tests/autograd/test_compositions.py, with tensors on a CUDA device."""

from autograd.test_compositions import *  # noqa: F403
