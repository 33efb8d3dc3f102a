"""The tests of tests/autograd/test_operand_hook.py, with tensors on a CUDA device."""

from autograd.test_operand_hook import *  # noqa: F403
