"""The tests of tests/autograd/test_inplace_and_views.py, with tensors on a CUDA device."""

from autograd.test_inplace_and_views import *  # noqa: F403
