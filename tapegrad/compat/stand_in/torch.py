"""What ``import torch`` finds where this folder is on the path: see tapegrad/compat/torch.py."""

from tapegrad.compat.torch import install

install()
