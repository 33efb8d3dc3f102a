"""The tests of tests/test_op_transforms.py, with tensors on a CUDA device."""

from test_op_transforms import *  # noqa: F403
