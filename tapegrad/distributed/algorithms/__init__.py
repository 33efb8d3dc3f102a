"""What training by several processes needs beside collectives."""

from tapegrad.distributed.algorithms import ddp_comm_hooks, join, model_averaging

__all__ = ["ddp_comm_hooks", "join", "model_averaging"]
