"""The tests of tests/autograd/test_better_than_torch.py, with tensors on a CUDA device."""

from autograd.test_better_than_torch import *  # noqa: F403
