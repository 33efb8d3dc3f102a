"""Trains by `fully_shard` beside one process, under mpiexec; prints how far apart they are.

    mpiexec -n 4 python tests/distributed/sharded_program.py 200

The losses are compared with those of the same model in float32 that sees whole batches, and, since
training amplifies rounding, with one whose batches are put together in the same order.
"""

import copy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tapegrad as torch
from distributed.models import MODELS, data, loss_of, parts_of
from tapegrad import distributed as dist
from tapegrad.distributed.fsdp import fully_shard


def step(model, optimizer, batches):
    """Take a step with the mean of the losses of batches; return it."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in batches:
        loss = loss_of(model, x, y) / len(batches)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def train(name, steps):
    """Return the largest relative differences of losses: from whole batches, and from parts."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    plain = MODELS[name]()
    parts, model = copy.deepcopy(plain), copy.deepcopy(plain)
    for part in parts_of(name, model):
        fully_shard(part)
    fully_shard(model)
    several = [
        (m, torch.optim.AdamW(m.parameters(), lr=3e-3, eps=1e-4)) for m in (plain, parts, model)
    ]
    worst, of_parts, last = 0.0, 0.0, 0.0
    for number in range(steps):
        x, y = data(name, number % 20, 8 * size)
        pieces = list(zip(x.chunk(size), y.chunk(size), strict=True))
        whole = step(*several[0], [(x, y)])
        divided = step(*several[1], pieces)
        mine = torch.tensor(step(*several[2], [pieces[rank]]))
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        last = mine.item()
        worst = max(worst, abs(last - whole) / abs(whole))
        of_parts = max(of_parts, abs(divided - whole) / abs(whole))
    return worst, of_parts, last


def main(steps):
    dist.init_process_group("mpi")
    for name in MODELS:
        worst, of_parts, last = train(name, steps)
        assert worst < 1e-6 + 4 * of_parts < 1e-5, (name, worst, of_parts)
        if dist.get_rank() == 0:
            print(
                f"{name} {steps} steps, loss {last:.4f}: sharded {worst:.2e} parts {of_parts:.2e}"
            )
            print("within rounding")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]))
