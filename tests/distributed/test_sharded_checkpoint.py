"""Checkpoints of several processes: they load on other numbers, and are whole or not there."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

import tapegrad as torch
from distributed.models import MODELS, data, loss_of, parts_of
from distributed.processes import UNDER_MPI, MpiRanks
from distributed.test_checkpoint import same
from tapegrad import distributed as dist
from tapegrad.distributed import checkpoint as dcp
from tapegrad.distributed.checkpoint import state_dict as sd
from tapegrad.distributed.fsdp import FullyShardedDataParallel, fully_shard
from tapegrad.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor


@pytest.fixture
def folder():
    """Give a folder that is the same for all ranks."""
    first = not UNDER_MPI or MpiRanks.number() == 0
    made = tempfile.mkdtemp() if first else None
    shared = Path(MpiRanks.from_first(made) if UNDER_MPI else made)
    yield shared
    if UNDER_MPI:
        MpiRanks.meet()
    if first:
        shutil.rmtree(shared)


def trained(name, seed=5, size=1, rank=0, steps=2):
    torch.manual_seed(seed)
    model = MODELS[name]()
    for part in parts_of(name, model):
        fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
    for step in range(steps):
        one_step(name, model, optimizer, step, size, rank)
    return model, optimizer


def one_step(name, model, optimizer, step, size, rank):
    x, y = (each.chunk(size)[rank] for each in data(name, step, 12))
    optimizer.zero_grad()
    loss_of(model, x, y).backward()
    optimizer.step()


def state_of(model, optimizer, **more):
    found, optim = sd.get_state_dict(model, optimizer)
    return {"model": found, "optim": optim, **more}


def wholes(value):
    """Return nested state with whole tensors."""
    if isinstance(value, dict):
        return {key: wholes(each) for key, each in value.items()}
    if isinstance(value, list):
        return [wholes(each) for each in value]
    value = value.full_tensor() if isinstance(value, DTensor) else value
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", MODELS)
def test_four_ranks_load_on_one_two_and_three(ranks, folder, name):
    def save(rank):
        model, optimizer = trained(name, size=4, rank=rank)
        state = state_of(model, optimizer, step=2, names=["a"])
        dcp.save(state, checkpoint_id=folder)
        return wholes(state)

    expected = ranks(4, save)[0]

    def load(size):
        def run(rank):
            model, optimizer = trained(name, seed=6, size=size, rank=rank, steps=1)
            state = state_of(model, optimizer, step=0, names=None)
            dcp.load(state, checkpoint_id=folder)
            assert same(wholes(state), expected)
            sd.set_state_dict(
                model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"]
            )
            one_step(name, model, optimizer, 2, size, rank)
            return wholes(model.state_dict())

        return ranks(size, run)[0]

    results = [load(size) for size in (1, 2, 3, 4)]
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-4, atol=1e-5)


def test_meshes_of_two_dimensions_and_copies(ranks, folder):
    whole = torch.arange(35.0).view(7, 5)

    def save(rank):
        mesh = dist.init_device_mesh("cpu", (2, 2))
        ways = {
            "rows": (Replicate(), Shard(0)),
            "columns": (Shard(1), Replicate()),
            "both": (Shard(0), Shard(1)),
            "twice": (Shard(0), Shard(0)),
            "copies": (Replicate(), Replicate()),
        }
        state = {key: distribute_tensor(whole, mesh, way) for key, way in ways.items()}
        dcp.save({**state, "plain": whole * 2, f"own{rank}": rank}, checkpoint_id=folder)
        facts = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        assert facts["both"] == (torch.Size([7, 5]), torch.float32) and facts["own3"] is int

    ranks(4, save)
    names = "rows", "columns", "both", "twice", "copies"

    def load(rank):
        mesh = dist.init_device_mesh("cpu", (3,))
        for way in (Shard(0), Shard(1), Replicate()):
            state = {name: distribute_tensor(whole * 0, mesh, [way]) for name in names}
            state |= {"plain": torch.zeros(7, 5), "own2": None}
            dcp.load(state, checkpoint_id=folder)
            for name in names:
                assert torch.equal(state[name].full_tensor(), whole)
            assert torch.equal(state["plain"], whole * 2) and state["own2"] == 2

    ranks(3, load)
    alone = {"both": torch.zeros(7, 5)}
    dcp.load(alone, checkpoint_id=folder, no_dist=True)
    assert torch.equal(alone["both"], whole)


def test_one_process_and_several_replace_each_other(ranks, folder):
    def several(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        x = distribute_tensor(torch.ones(3), mesh, [Shard(0)])
        dcp.save({"x": x}, checkpoint_id=folder)
        dist.barrier()
        assert len(os.listdir(folder)) == 2 and "index.json" in os.listdir(folder)
        dist.barrier()
        dcp.save({"x": x * 2}, checkpoint_id=folder)
        assert len(os.listdir(folder)) == 2

    def alone(rank):
        dcp.save({"x": torch.full((3,), 5.0)}, checkpoint_id=folder)
        assert os.listdir(folder) == ["state.safetensors"]
        mesh = dist.init_device_mesh("cpu", (1,))
        x = distribute_tensor(torch.zeros(3), mesh, [Shard(0)])
        dcp.load({"x": x}, checkpoint_id=folder)
        assert x.full_tensor().tolist() == [5.0] * 3

    ranks(2, several)
    ranks(1, alone)
    ranks(2, several)


def test_whole_state_of_divided_models(ranks):
    def run(rank):
        model, optimizer = trained("mlp", size=2, rank=rank)
        options = sd.StateDictOptions(full_state_dict=True)
        whole, optim = sd.get_state_dict(model, optimizer, options=options)
        assert not any(isinstance(value, DTensor) for value in whole.values())
        first = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)
        assert bool(sd.get_model_state_dict(model, options=first)) == (rank == 0)
        other, other_optimizer = trained("mlp", seed=9, size=2, rank=rank, steps=1)
        given = (whole, optim) if rank == 0 else ({}, {})
        sd.set_state_dict(
            other, other_optimizer, model_state_dict=given[0], optim_state_dict=given[1],
            options=sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
        )  # fmt: skip
        for m, o in ((model, optimizer), (other, other_optimizer)):
            one_step("mlp", m, o, 3, 2, rank)
        torch.testing.assert_close(wholes(other.state_dict()), wholes(model.state_dict()))
        wrapper = FullyShardedDataParallel(torch.nn.Linear(3, 3))
        state = sd.get_model_state_dict(wrapper)
        assert list(state) == ["weight", "bias"] and isinstance(state["bias"], DTensor)
        sd.set_model_state_dict(wrapper, {"weight": torch.ones(3, 3), "bias": torch.ones(3)})
        assert wrapper.state_dict()["bias"].tolist() == [1.0] * 3

    ranks(2, run)


def test_all_raise_if_one_fails(ranks, folder):
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        x = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
        dcp.save({"x": x, "n": 1}, checkpoint_id=folder)
        unfit = x * 3 if rank == 0 else DTensor.from_local(torch.ones(4), mesh, [Partial()])
        with pytest.raises(dcp.CheckpointException, match="Partial cannot be saved"):
            dcp.save({"x": unfit}, checkpoint_id=folder)
        with pytest.raises(dcp.CheckpointException, match="x has shape"):
            dcp.save({"x": torch.ones(2 + rank)}, checkpoint_id=folder)
        with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
            writer = dcp.FileSystemWriter(folder, overwrite=False)
            dcp.save({"x": x}, storage_writer=writer)
        target = x * 0
        with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint"):
            dcp.load({"x": target} if rank else {"y": target}, checkpoint_id=folder)
        assert target.sum().item() == 0
        with pytest.raises(dcp.CheckpointException, match="n is Tensor in the state and int in"):
            dcp.load({"n": torch.ones(1)}, checkpoint_id=folder)
        dcp.load({"x": target}, checkpoint_id=folder)
        assert target.sum().item() == 4

    ranks(2, run)


def test_what_is_damaged_is_refused(ranks, folder):
    def run(rank):
        mesh = dist.init_device_mesh("cpu", (2,))
        dcp.save({"x": distribute_tensor(torch.ones(4), mesh, [Shard(0)])}, checkpoint_id=folder)

    ranks(2, run)
    if UNDER_MPI and MpiRanks.number():
        return  # the folder is damaged once
    (parts,) = (name for name in os.listdir(folder) if name.startswith("parts"))
    index = json.loads((folder / "index.json").read_text())
    assert index["entries"]["x"]["parts"][1] == {"file": 1, "start": [2], "size": [2]}
    target = {"x": torch.zeros(4)}
    os.unlink(folder / parts / "1.safetensors")
    with pytest.raises(dcp.CheckpointException, match=r"1\.safetensors"):
        dcp.load(target, checkpoint_id=folder)
    del index["entries"]["x"]["parts"][1]
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(dcp.CheckpointException, match="parts of x are missing"):
        dcp.load(target, checkpoint_id=folder)
    (folder / "index.json").write_text("{")
    with pytest.raises(dcp.CheckpointException, match="cannot be read"):
        dcp.load(target, checkpoint_id=folder)
    (folder / "index.json").write_text("{}")
    with pytest.raises(dcp.CheckpointException, match="no index"):
        dcp.load(target, checkpoint_id=folder)
    assert target["x"].tolist() == [0.0] * 4
