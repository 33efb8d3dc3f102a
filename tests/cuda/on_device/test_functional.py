"""The tests of tests/autograd/test_functional.py, with tensors on a CUDA device."""

from autograd.test_functional import *  # noqa: F403
