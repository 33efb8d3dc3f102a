"""Agreement with PyTorch over its own op database, and of signatures; docs/parity.md."""
