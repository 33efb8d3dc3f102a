"""The tests of tests/autograd/test_nested_transforms.py, with tensors on a CUDA device."""

from autograd.test_nested_transforms import *  # noqa: F403
