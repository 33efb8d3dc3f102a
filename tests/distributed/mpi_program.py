"""A program as users write it, which `test_mpi.py` starts by mpiexec: prints what it finds."""

import sys

import tapegrad as torch
from tapegrad import distributed as dist


def main(backend):
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(torch.full((2, 4), float(rank))).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = [None] * size
    dist.all_gather_object(weights, [p.tolist() for p in model.parameters()])
    assert all(other == weights[0] for other in weights)
    assert rank == 0 or losses[-1] < losses[0]
    dist.barrier()
    if rank == 0:
        print(f"DONE {size} {dist.get_backend()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(None if sys.argv[1] == "none" else sys.argv[1])
