"""The tests of tests/autograd/test_saved_tensor_hooks.py, with tensors on a CUDA device."""

from autograd.test_saved_tensor_hooks import *  # noqa: F403
