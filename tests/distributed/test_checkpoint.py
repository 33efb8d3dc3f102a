"""Checkpoints in folders, and state by names of parameters."""

import copy
import json

import pytest
from library import pytorch_for_parity

import tapegrad as torch
from tapegrad.distributed import checkpoint as dcp
from tapegrad.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from tapegrad.distributed.checkpoint import state_dict as sd

Linear = torch.nn.Linear


def trained(model, optimizer):
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    optimizer.zero_grad()


def same(ours, theirs):
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs) and ours.dtype == theirs.dtype
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return ours == theirs


def state():
    return {
        "model": {"w": torch.randn(2, 3).t(), "none": torch.zeros(0, 2), "int": torch.tensor(3)},
        "list": [torch.ones(2), {"deep": torch.ones(1, dtype=torch.float64)}],
        "step": 7,
        "names": ["a", "b"],
        "empty": {},
        "complex": torch.tensor([1 + 2j]),
    }


def blank(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: blank(each) for key, each in value.items()}
    if isinstance(value, list):
        return [blank(each) for each in value]
    return None


class TestFolders:
    def test_round_trip_in_place(self, tmp_path):
        saved, loaded = state(), None
        loaded = blank(saved)
        weight, inner = loaded["model"]["w"], loaded["list"][1]["deep"]
        facts = dcp.save(saved, checkpoint_id=tmp_path / "new" / "folder")
        assert facts.state_dict_metadata["model.w"] == (torch.Size([3, 2]), torch.float32)
        loaded["empty"] = {}
        dcp.load(loaded, checkpoint_id=str(tmp_path / "new" / "folder"))
        assert same(loaded, saved)
        assert loaded["model"]["w"] is weight and loaded["list"][1]["deep"] is inner

    def test_a_part_and_into_other_dtypes(self, tmp_path):
        dcp.save({"a": torch.tensor([1.5]), "b": torch.ones(1)}, checkpoint_id=tmp_path)
        part = {"a": torch.zeros(1, dtype=torch.float64)}
        dcp.load(part, checkpoint_id=tmp_path)
        assert part["a"].tolist() == [1.5] and part["a"].dtype is torch.float64

    def test_parameters_are_filled(self, tmp_path):
        first, second = Linear(3, 2), Linear(3, 2)
        dcp.save({"model": first.state_dict()}, checkpoint_id=tmp_path)
        dcp.load({"model": second.state_dict()}, checkpoint_id=tmp_path)
        assert same(dict(first.state_dict()), dict(second.state_dict()))

    def test_objects_with_a_state(self, tmp_path):
        first, second = Linear(3, 2), Linear(3, 2)
        adam = torch.optim.Adam(first.parameters(), lr=0.1)
        trained(first, adam)
        again = torch.optim.Adam(second.parameters(), lr=0.2)
        trained(second, again)
        assert isinstance(adam, dcp.Stateful)
        dcp.save({"model": first, "optimizer": adam}, checkpoint_id=tmp_path)
        dcp.load({"model": second, "optimizer": again}, checkpoint_id=tmp_path)
        assert same(adam.state_dict(), again.state_dict())
        assert same(dict(first.state_dict()), dict(second.state_dict()))

    def test_old_names_and_readers(self, tmp_path):
        writer = dcp.FileSystemWriter(tmp_path, overwrite=False)
        dcp.save_state_dict({"a": torch.ones(1), "n": 2}, writer, planner=dcp.DefaultSavePlanner())
        with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
            dcp.save({"a": torch.ones(1)}, storage_writer=writer)
        found = {"a": torch.zeros(1), "n": 0}
        reader = dcp.FileSystemReader(str(tmp_path))
        dcp.load_state_dict(found, reader, planner=dcp.DefaultLoadPlanner())
        assert found["a"].item() == 1 and found["n"] == 2
        assert set(reader.read_metadata().state_dict_metadata) == {"a", "n"}
        assert dcp.async_save({"a": torch.ones(1)}, checkpoint_id=tmp_path).done()

    def test_nothing_is_written_if_something_does_not_fit(self, tmp_path):
        dcp.save({"a": torch.ones(1), "b": torch.ones(2), "c": 3}, checkpoint_id=tmp_path)
        a = torch.zeros(1)
        for other, text in (
            ({"b": torch.zeros(3)}, "Size mismatch"),
            ({"missing": torch.zeros(1)}, "Missing key in checkpoint state_dict: missing"),
            ({"c": torch.zeros(1)}, "c is Tensor in the state and int in"),
        ):
            with pytest.raises(dcp.CheckpointException, match=text):
                dcp.load({"a": a, **other}, checkpoint_id=tmp_path)
        assert a.item() == 0
        partly = {"a": a, "missing": torch.full((1,), 9.0)}
        dcp.load(
            partly, checkpoint_id=tmp_path, planner=dcp.DefaultLoadPlanner(allow_partial_load=True)
        )
        assert a.item() == 1 and partly["missing"].item() == 9

    def test_what_is_refused(self, tmp_path):
        with pytest.raises(dcp.CheckpointException, match="holds no checkpoint"):
            dcp.load({}, checkpoint_id=tmp_path)
        (tmp_path / ".metadata").write_bytes(b"pickle")
        with pytest.raises(dcp.CheckpointException, match="was written by PyTorch"):
            dcp.load({}, checkpoint_id=tmp_path)
        with pytest.raises(RuntimeError, match="give checkpoint_id"):
            dcp.save({})
        with pytest.raises(NotImplementedError, match="expected a FileSystemWriter"):
            dcp.save({}, storage_writer=3)
        with pytest.raises(dcp.CheckpointException, match=r"two values .* 'a.b'"):
            dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)

    def test_the_file_is_for_other_readers(self, tmp_path):
        safetensors = pytest.importorskip("safetensors.numpy")
        dcp.save({"model": {"w": torch.ones(2)}}, checkpoint_id=tmp_path)
        found = safetensors.load_file(tmp_path / "state.safetensors")
        assert found["model.w"].tolist() == [1, 1]


class TestStateByName:
    def wrapped(self, world, model):
        model = torch.nn.Sequential(checkpoint_wrapper(model[0]), model[1])
        return torch.nn.parallel.DistributedDataParallel(model)

    def test_wrappers_do_not_show(self, world):
        plain = torch.nn.Sequential(Linear(3, 3), Linear(3, 1))
        model = self.wrapped(world, copy.deepcopy(plain))
        assert list(sd.get_model_state_dict(model)) == list(plain.state_dict())
        other = torch.nn.Sequential(Linear(3, 3), Linear(3, 1))
        sd.set_model_state_dict(model, other.state_dict())
        assert same(dict(sd.get_model_state_dict(model)), dict(other.state_dict()))
        missing = dict(other.state_dict())
        del missing["0.bias"]
        with pytest.raises(RuntimeError, match="Missing key"):
            sd.set_model_state_dict(model, missing)
        keys = sd.set_model_state_dict(model, missing, options=sd.StateDictOptions(strict=False))
        assert len(keys.missing_keys) == 1

    @pytest.mark.parametrize("flatten", [False, True])
    def test_optimizers_go_by_names(self, world, flatten):
        options = sd.StateDictOptions(flatten_optimizer_state_dict=flatten)
        plain = torch.nn.Sequential(Linear(3, 3), Linear(3, 1))
        model = self.wrapped(world, copy.deepcopy(plain))
        adam = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.3)
        trained(model, adam)
        saved = sd.get_state_dict(model, adam, options=options)
        key = "state.1.weight.exp_avg" if flatten else "state"
        assert key in saved[1]
        groups = [{"params": plain[1].parameters(), "lr": 9.0}, {"params": plain[0].parameters()}]
        again = torch.optim.AdamW(groups, lr=0.5)
        sd.set_state_dict(
            plain, again, model_state_dict=saved[0], optim_state_dict=saved[1], options=options
        )
        assert [group["lr"] for group in again.param_groups] == [0.1, 0.1]
        assert again.param_groups[0]["weight_decay"] == 0.3
        expected = adam.state[model.module[1].weight]["exp_avg"]
        assert torch.equal(again.state[plain[1].weight]["exp_avg"], expected)
        x = torch.randn(4, 3)
        for net, optimizer in ((model, adam), (plain, again)):
            net(x).square().sum().backward()
            optimizer.step()
        assert same(dict(sd.get_model_state_dict(model)), dict(plain.state_dict()))

    def test_a_fresh_optimizer_makes_its_state(self):
        model = Linear(3, 1)
        before = copy.deepcopy(model.state_dict())
        adam = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.5)
        found = sd.get_optimizer_state_dict(model, adam)
        assert found["state"]["weight"]["exp_avg"].shape == (1, 3)
        assert adam.param_groups[0]["lr"] == 0.1 and model.weight.grad is None
        assert same(dict(model.state_dict()), dict(before))
        fresh = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        grad = model.weight.grad.clone()
        assert sd.get_optimizer_state_dict(model, fresh)["state"] == {}
        assert torch.equal(model.weight.grad, grad)

    def test_options(self):
        model = Linear(3, 1)
        model.bias.requires_grad_(False)
        options = sd.StateDictOptions(ignore_frozen_params=True, cpu_offload=True)
        state = sd.get_model_state_dict(model, options=options)
        assert list(state) == ["weight"]
        sd.set_model_state_dict(model, state, options=options)
        with pytest.raises(NotImplementedError, match="submodules is not supported"):
            sd.get_model_state_dict(model, submodules={model})
        other = torch.optim.SGD(Linear(1, 1).parameters(), momentum=0.5)
        with pytest.raises(RuntimeError, match="a parameter that the model has not"):
            sd.get_optimizer_state_dict(model, other)

    def test_names_are_those_of_pytorch(self):
        library, reason = pytorch_for_parity()
        if library is None:
            pytest.skip(reason)
        theirs_sd = pytest.importorskip("torch.distributed.checkpoint.state_dict")
        found = []
        for t, module in ((torch, sd), (library, theirs_sd)):
            model = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.BatchNorm1d(2))
            adam = t.optim.Adam(model.parameters(), lr=0.1)
            state, optim = module.get_state_dict(model, adam)
            flat = module.get_optimizer_state_dict(
                model, adam, options=module.StateDictOptions(flatten_optimizer_state_dict=True)
            )
            group = {k: str(v) for k, v in optim["param_groups"][0].items()}
            facts = list(state), {n: sorted(e) for n, e in optim["state"].items()}, group
            found.append(json.loads(json.dumps([facts, sorted(flat)])))
        assert found[0] == found[1]
