"""The tests of tests/autograd/test_threads_and_memory.py, with tensors on a CUDA device."""

from autograd.test_threads_and_memory import *  # noqa: F403
