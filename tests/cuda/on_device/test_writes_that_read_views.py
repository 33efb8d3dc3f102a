"""The tests of tests/autograd/test_writes_that_read_views.py, with tensors on a CUDA device."""

from autograd.test_writes_that_read_views import *  # noqa: F403
