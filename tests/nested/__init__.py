"""Batches of sequences of different lengths."""
