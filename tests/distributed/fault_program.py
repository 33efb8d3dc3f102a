"""A program that trains, saves, and fails in a way; `test_faults.py` launches it.

Usage: fault_program.py MODE RANK STEP STEPS FILE
"""

import os
import signal
import sys

import tapegrad as torch
from tapegrad import distributed as dist


def fail(mode, model):
    """Do what no other process does; return whether the step goes on."""
    if mode == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if mode == "shape":
        dist.all_reduce(torch.ones(4))
    if mode == "order":
        dist.broadcast(torch.ones(1), 0)
    if mode == "raise":
        raise ValueError("an error of the program")
    return mode != "number"


def main(mode, victim, at, steps, path):
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    is_fresh = os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0"
    for step in range(first, steps):
        if is_fresh and rank == victim and step == at and not fail(mode, model):
            continue
        inputs = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
        part = inputs[rank * 12 // size : (rank + 1) * 12 // size]
        optimizer.zero_grad()
        loss = (wrapped(part) - part[:, :1].sin()).square().mean()
        loss.backward()
        optimizer.step()
        total = loss.detach().double()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"STEP {step} {size} {total.item():.7f}", flush=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "step": step + 1}, path + ".part")
            os.replace(path + ".part", path)
    dist.barrier()
    print(f"DONE {rank} {os.environ['LOCAL_RANK']} {os.environ['MASTER_ADDR']}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
