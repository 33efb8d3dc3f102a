"""The tests of tests/autograd/test_hooks.py, with tensors on a CUDA device."""

from autograd.test_hooks import *  # noqa: F403
