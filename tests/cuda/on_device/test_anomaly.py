"""The tests of tests/autograd/test_anomaly.py, with tensors on a CUDA device."""

from autograd.test_anomaly import *  # noqa: F403
