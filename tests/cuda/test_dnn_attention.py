"""Attention by a stand-in for cuDNN, which computes the graphs that it is given."""

import sys

from .test_dnn import HERE, run, stand_in  # noqa: F401 (a fixture)


def test_attention_is_described_as_it_lies(stand_in, emulator):  # noqa: F811
    command = (sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-p", "no:randomly")
    done = run(*command, str(HERE / "test_attention_cudnn.py"), library=stand_in)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("SKIPPED") == 1, done.stdout  # what takes minutes
