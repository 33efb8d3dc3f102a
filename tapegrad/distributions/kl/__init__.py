"""Kullback-Leibler divergences."""

from tapegrad.distributions.kl import _between_families, _within_families  # noqa: F401
from tapegrad.distributions.kl._registry import (
    _KL_MEMOIZE,  # noqa: F401
    _KL_REGISTRY,  # noqa: F401
    kl_divergence,
    register_kl,
)

__all__ = ["kl_divergence", "register_kl"]
