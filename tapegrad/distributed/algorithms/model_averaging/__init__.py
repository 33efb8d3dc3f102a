"""Averages of parameters."""

from tapegrad.distributed.algorithms.model_averaging import averagers, utils

__all__ = ["averagers", "utils"]
