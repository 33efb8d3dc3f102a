"""The tests of tests/test_op_gradients.py, with tensors on a CUDA device."""

from test_op_gradients import *  # noqa: F403
