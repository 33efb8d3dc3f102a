"""The tests of tests/autograd/test_custom_jvp.py, with tensors on a CUDA device."""

from autograd.test_custom_jvp import *  # noqa: F403
