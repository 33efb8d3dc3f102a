"""Saves again and again until it is killed; each checkpoint holds one number everywhere."""

import sys

import tapegrad as torch
from tapegrad import distributed as dist
from tapegrad.distributed import checkpoint as dcp
from tapegrad.distributed.tensor import Shard
from tapegrad.distributed.tensor import full as full_on


def main(folder):
    dist.init_process_group("mpi")
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for number in range(1, 10**6):
        state = {
            f"x{i}": full_on((67, 11), float(number), device_mesh=mesh, placements=[Shard(0)])
            for i in range(4)
        }
        dcp.save({**state, "number": number, "own": torch.tensor(number)}, checkpoint_id=folder)
        if number == 2 and dist.get_rank() == 0:
            print("SAVING", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
