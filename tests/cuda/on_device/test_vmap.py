"""The tests of tests/autograd/test_vmap.py, with tensors on a CUDA device."""

from autograd.test_vmap import *  # noqa: F403
