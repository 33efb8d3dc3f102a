"""The tests of tests/autograd/test_func_transforms.py, with tensors on a CUDA device."""

from autograd.test_func_transforms import *  # noqa: F403
