"""Tensors of which some elements do not count."""
