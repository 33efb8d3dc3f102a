"""Measures the memory of steps beside what the planner says, under mpiexec.

mpiexec -n 4 python tests/distributed/plan_program.py
"""

import gc
import sys

import tapegrad as torch
from tapegrad import _C
from tapegrad import distributed as dist
from tapegrad.distributed import plan
from tapegrad.distributed.fsdp import fully_shard

MODELS = {"gpt:layers=4,width=128,heads=4,words=500,length=64": 4, "mlp:layers=6,width=512": 16}


def ddp(model):
    model = torch.nn.parallel.DistributedDataParallel(model)
    return torch.optim.AdamW(model.parameters()), model


def zero(model):
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    return optimizer, model


def fsdp(model):
    for unit in plan._units(model):
        fully_shard(unit)
    fully_shard(model)
    return torch.optim.AdamW(model.parameters()), model


def kept(model):
    for unit in plan._units(model):
        fully_shard(unit, reshard_after_forward=False)
    fully_shard(model)
    return torch.optim.AdamW(model.parameters()), model


WAYS = {"ddp": ddp, "zero-1": zero, "fsdp": fsdp, "fsdp, kept after forward": kept}


class Called(torch.nn.Module):
    """Computes the loss in forward, so that a wrapper sees the step."""

    def __init__(self, model, loss):
        super().__init__()
        self.inner, self.loss = model, loss

    def forward(self):
        return self.loss()


def measured(text, samples, way):
    """Return the most bytes that a process had, beyond those before the model."""
    gc.collect()
    before = _C.memory_stats()["live_bytes"]
    model, loss = plan.model_of(text)(samples)
    if way in ("ddp", "zero-1"):
        optimizer, run = WAYS[way](Called(model, loss))
    else:
        optimizer, _ = WAYS[way](model)
        run = loss
    for _ in range(3):
        gc.collect()
        _C.reset_peak_memory_stats()
        run().backward()
        optimizer.step()
        optimizer.zero_grad()
    return _C.memory_stats()["peak_bytes"] - before


def main():
    dist.init_process_group("mpi")
    size = dist.get_world_size()
    machine = plan.Machine(1e10, 1e9)
    for text, samples in MODELS.items():
        found = plan.profile(plan.model_of(text), samples)
        said = {each.name: each for each in plan.plans(found, size, machine)}
        for way in WAYS:
            bytes_ = torch.tensor(measured(text, samples, way))
            dist.all_reduce(bytes_, dist.ReduceOp.MAX)
            if dist.get_rank() == 0:
                share = said[way].memory / bytes_.item()
                print(
                    f"{way} of {text}, {size} ranks: {bytes_.item() / 1e6:.2f} MB, said {share:.2f}"
                )
                assert 0.8 < share < 1.25, (way, text, share)
    if dist.get_rank() == 0:
        print("AS PLANNED")


if __name__ == "__main__":
    sys.exit(main())
