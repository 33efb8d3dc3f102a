"""The tests of tests/test_ops.py, with tensors on a CUDA device."""

from test_ops import *  # noqa: F403
