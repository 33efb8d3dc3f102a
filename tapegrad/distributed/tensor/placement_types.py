"""The placements of `torch.distributed.tensor`, by the module that PyTorch defines them in."""

from tapegrad.distributed.tensor import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = ["Partial", "Placement", "Replicate", "Shard", "_StridedShard"]
