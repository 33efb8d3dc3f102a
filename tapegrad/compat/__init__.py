"""How much of PyTorch is there: `python -m tapegrad.compat.coverage`."""
