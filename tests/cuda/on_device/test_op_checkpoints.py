"""The tests of tests/test_op_checkpoints.py, with tensors on a CUDA device."""

from test_op_checkpoints import *  # noqa: F403
