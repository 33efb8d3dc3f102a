"""Meshes, wrappers of modules, policies, launchers, and what is refused in words."""

import copy
import os
import subprocess
import sys

import pytest

import tapegrad as torch
from tapegrad import distributed as dist
from tapegrad.distributed import fsdp, rpc, tensor
from tapegrad.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from tapegrad.distributed.fsdp import wrap

Linear, Sequential = torch.nn.Linear, torch.nn.Sequential

LAUNCHERS = {
    "torchrun": {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
    "Open MPI": {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "1",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    },
    "MPICH": {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0"},
    "Slurm": {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"},
}


@pytest.fixture
def launched(monkeypatch):
    """Give a function that sets what a launcher does, and nothing else."""
    for name in {name for names in LAUNCHERS.values() for name in names} | {"MASTER_ADDR"}:
        monkeypatch.delenv(name, raising=False)

    # What is set here is no word of a launcher that waits for this process.
    monkeypatch.setattr(dist._mpi, "is_there", lambda: False)

    def launch(names):
        for name, value in names.items():
            monkeypatch.setenv(name, value)

    yield launch
    if dist.is_initialized():
        dist.destroy_process_group()


class TestLaunchers:
    @pytest.mark.parametrize("launcher", LAUNCHERS)
    def test_one_process(self, launched, launcher):
        launched(LAUNCHERS[launcher])
        dist.init_process_group("gloo")
        assert (dist.get_rank(), dist.get_world_size(), dist.get_node_local_rank()) == (0, 1, 0)

    @pytest.mark.parametrize("launcher", LAUNCHERS)
    @pytest.mark.parametrize("backend", [None, "gloo", "mpi", "cpu:gloo"])
    def test_several_are_refused(self, launched, launcher, backend):
        names = dict(LAUNCHERS[launcher])
        names[list(names)[1]] = "4"
        launched(names)
        text = "got a world of 4 processes, which needs MPI, and mpi4py is not installed"
        with pytest.raises(RuntimeError, match=text):
            dist.init_process_group(backend)
        assert not dist.is_initialized()

    def test_torchruns_names_count_first(self, launched):
        launched({**LAUNCHERS["Slurm"], "SLURM_NTASKS": "8", **LAUNCHERS["torchrun"]})
        dist.init_process_group("gloo")
        assert dist.get_world_size() == 1

    def test_one_process_may_name_mpi(self, launched):
        launched(LAUNCHERS["MPICH"])
        dist.init_process_group("mpi")
        x = torch.ones(2)
        dist.all_reduce(x)
        assert dist.get_backend() == "mpi" and x.tolist() == [1, 1]

    def test_several_on_gpus_are_refused(self, launched, monkeypatch):
        monkeypatch.setattr(dist._mpi, "is_there", lambda: True)
        with pytest.raises(RuntimeError, match="several processes on GPUs are not supported yet"):
            dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=2)

    def test_nccl_needs_a_gpu(self, launched):
        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        launched(LAUNCHERS["torchrun"])
        with pytest.raises(RuntimeError, match="nccl needs a GPU"):
            dist.init_process_group("nccl")

    def test_a_store_elsewhere_is_refused(self):
        with pytest.raises(RuntimeError, match="processes of a world of 2"):
            dist.TCPStore("localhost", 1234, 2, True)
        with pytest.raises(RuntimeError, match="served by another process"):
            dist.TCPStore("localhost", 1234, 1, False)
        store = dist.TCPStore("localhost", 1234, 1, True)
        store.set("a", "b")
        assert store.get("a") == b"b" and store.port == 1234

    def test_a_file_is_shared_by_processes(self, tmp_path):
        path = str(tmp_path / "store")
        store = dist.FileStore(path)
        program = (
            "import sys, tapegrad.distributed as d\n"
            "store = d.FileStore(sys.argv[1])\n"
            "[store.add('count', 1) for _ in range(50)]\n"
            "store.set('there', b'yes')\n"
        )
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", program, path]
        others = [subprocess.Popen(command, env=environment) for _ in range(2)]
        for _ in range(50):
            store.add("count", 1)
        assert [other.wait(timeout=120) for other in others] == [0, 0]
        assert store.get("count") == b"150" and store.get("there") == b"yes"

    def test_the_file_of_one_process_is_removed(self, tmp_path):
        path = tmp_path / "store"
        store = dist.FileStore(str(path), 1)
        store.set("a", "b")
        assert path.exists()
        del store
        assert not path.exists()

    def test_handlers_of_programs(self, monkeypatch):
        monkeypatch.setattr(dist._environment, "_handlers", {})
        store = dist.HashStore()
        dist.register_rendezvous_handler("mine", lambda url, *args: iter([(store, 0, 1)]))
        with pytest.raises(RuntimeError, match="already registered"):
            dist.register_rendezvous_handler("mine", None)
        dist.init_process_group("gloo", init_method="mine://anything")
        assert dist.get_world_size() == 1
        dist.destroy_process_group()


def test_importing_the_library_leaves_it_alone():
    program = (
        "import sys, tapegrad as torch\n"
        "assert not any('distributed' in n or 'futures' in n for n in sys.modules), sys.modules\n"
        "torch.distributed.is_available(), torch.Future\n"
        "torch.nn.parallel.DistributedDataParallel\n"
        "torch.distributed.checkpoint.state_dict, torch.distributed.tensor.parallel\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


mesh = dist.init_device_mesh


class TestMesh:
    def test_one_process(self, world):
        mesh = dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        assert mesh.shape == (1, 1) and mesh.ndim == 2 and mesh.size() == mesh.size(0) == 1
        assert mesh["dp"].get_group().size() == 1 and mesh.get_local_rank("tp") == 0
        assert mesh.get_coordinate() == [0, 0] and mesh == copy.copy(mesh)
        one = dist.init_device_mesh("cpu", (1,))
        assert one.get_group() is dist.group.WORLD and one.mesh.tolist() == [0]
        assert dist.DeviceMesh.from_group(dist.group.WORLD, "cpu").mesh.tolist() == [0]
        model = torch.nn.parallel.DistributedDataParallel(Linear(2, 1), device_mesh=one)
        assert model.process_group is dist.group.WORLD

    @pytest.mark.parametrize(
        "call, error, text",
        [
            (lambda: mesh("cpu", (2,)), RuntimeError, "not be bigger than"),
            (lambda: mesh("cuda:0", (1,)), RuntimeError, "with index"),
            (lambda: mesh("cpu", (1,), mesh_dim_names="ab"), RuntimeError, "length"),
            (lambda: mesh("cpu", (1, 1), mesh_dim_names="aa"), RuntimeError, "unique"),
            (lambda: mesh("cpu", (1,))["a"], RuntimeError, "without mesh"),
            (lambda: mesh("cpu", (1,), mesh_dim_names="a")["b"], KeyError, "not exist"),
            (lambda: mesh("cpu", (1, 1)).get_group(), RuntimeError, "to be specified"),
        ],
    )  # fmt: skip
    def test_what_is_refused(self, world, call, error, text):
        with pytest.raises(error, match=text):
            call()

    def test_rows_and_columns_of_ranks(self, ranks):
        def run(rank):
            mesh = dist.init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
            row, column = divmod(rank, 3)
            assert mesh.get_coordinate() == [row, column]
            assert (mesh.get_local_rank("dp"), mesh.get_local_rank(1)) == (row, column)
            assert mesh["tp"].mesh.tolist() == [3 * row, 3 * row + 1, 3 * row + 2]
            assert mesh["dp"].mesh.tolist() == [column, column + 3]
            assert dist.get_process_group_ranks(mesh.get_group("dp")) == [column, column + 3]
            x = torch.tensor([float(rank)])
            dist.all_reduce(x, group=mesh["tp"].get_group())
            return x.item()

        assert ranks(6, run) == [3, 3, 3, 12, 12, 12]


class TestCheckpointWrapper:
    def model(self):
        torch.manual_seed(0)
        return Sequential(Linear(3, 3), Sequential(Linear(3, 3), torch.nn.Tanh()), Linear(3, 1))

    @pytest.mark.parametrize("impl", list(wrappers.CheckpointImpl))
    def test_gradients_and_names_stay(self, impl):
        plain, model, x = self.model(), self.model(), torch.randn(2, 3, requires_grad=True)

        def wrapper(module):
            return wrappers.checkpoint_wrapper(module, checkpoint_impl=impl)

        wrappers.apply_activation_checkpointing(model, wrapper, lambda m: isinstance(m, Linear))
        assert isinstance(model[0], wrappers.CheckpointWrapper)
        assert isinstance(model[1][0], wrappers.CheckpointWrapper)
        assert list(model.state_dict()) == list(plain.state_dict())
        assert list(copy.deepcopy(model).state_dict()) == list(plain.state_dict())
        assert [n for n, _ in model[0].named_parameters()] == ["weight", "bias"]
        assert model[0].in_features == 3
        plain(x).sum().backward()
        model(x).sum().backward()
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(ours.grad, theirs.grad)
        model.load_state_dict(plain.state_dict())
        plain.load_state_dict(model.state_dict())

    def test_the_forward_runs_again(self):
        class Counted(torch.nn.Module):
            calls = 0

            def forward(self, x, scale=1.0):
                self.calls += 1
                return torch.sin(x * scale)

        for impl in wrappers.CheckpointImpl:
            inner = Counted()
            model = wrappers.checkpoint_wrapper(inner, impl)
            x = torch.ones(2, requires_grad=True)
            model(x, scale=2.0).sum().backward()
            assert inner.calls == 2
            torch.testing.assert_close(x.grad, 2 * torch.cos(2 * x.detach()))

    def test_policies_and_offloading(self):
        model, x = self.model(), torch.randn(2, 3)
        policy = wrap.ModuleWrapPolicy({Linear})
        wrappers.apply_activation_checkpointing(model, auto_wrap_policy=policy)
        assert isinstance(model[2], wrappers.CheckpointWrapper)
        assert not isinstance(model[1], wrappers.CheckpointWrapper)
        off = wrappers.offload_wrapper(self.model())
        off(x).sum().backward()
        plain = self.model()
        plain(x).sum().backward()
        assert torch.equal(off._checkpoint_wrapped_module[0].weight.grad, plain[0].weight.grad)

    def test_inside_of_a_parallel_model(self, world):
        model = self.model()
        wrappers.apply_activation_checkpointing(model)
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        wrapped(torch.randn(2, 3)).sum().backward()
        assert next(iter(wrapped.state_dict())) == "module.0.weight"


class TestPolicies:
    def test_sizes(self):
        policy = wrap.size_based_auto_wrap_policy
        assert policy(Linear(2, 2), True, 10, min_num_params=5)
        assert not policy(Linear(2, 2), False, 4, min_num_params=5)
        assert not policy(torch.nn.ModuleList(), False, 10, min_num_params=5)
        assert not policy(torch.nn.MultiheadAttention(2, 1), True, 100, min_num_params=5)
        assert wrap.transformer_auto_wrap_policy(Linear(1, 1), False, 1, {Linear})
        assert wrap.lambda_auto_wrap_policy(Linear(1, 1), False, 1, lambda m: True)

    def test_wrap_is_nothing_outside_of_a_block(self):
        module = Linear(1, 1)
        assert wrap.wrap(module) is module
        with wrap.enable_wrap(wrapper_cls=wrappers.CheckpointWrapper):
            assert isinstance(wrap.wrap(module), wrappers.CheckpointWrapper)

    def test_a_choice_may_have_arguments(self):
        model = Sequential(Linear(2, 2), torch.nn.Tanh())
        chosen = wrap.CustomPolicy(
            lambda m: (
                {"checkpoint_impl": wrappers.CheckpointImpl.REENTRANT}
                if isinstance(m, Linear)
                else False
            )
        )
        wrap.apply_policy(model, chosen, wrappers.checkpoint_wrapper)
        assert model[0].checkpoint_impl is wrappers.CheckpointImpl.REENTRANT


REFUSALS = [
    (lambda: rpc.init_rpc("worker"), "remote procedure calls are not supported"),
    (lambda: rpc.RRef(1), "remote procedure calls are not supported"),
    (lambda: rpc.functions.async_execution(print), "remote procedure calls"),
    (lambda: dist.autograd.backward(1, []), "remote procedure calls"),
    (lambda: dist.autograd.context(), "remote procedure calls"),
    (lambda: dist.nn.RemoteModule("worker", Linear), "remote procedure calls"),
    (lambda: dist.optim.DistributedOptimizer(torch.optim.SGD, []), "remote procedure calls"),
    (lambda: dist.checkpoint.optimizer.load_sharded_optimizer_state_dict({}), "divided between"),
]


@pytest.mark.parametrize("call, text", REFUSALS, ids=range(len(REFUSALS)))
def test_refused_in_words(call, text):
    with pytest.raises(NotImplementedError, match=text):
        call()


def test_questions_about_what_is_refused_have_answers():
    assert not isinstance(Linear(1, 1), fsdp.FullyShardedDataParallel)
    assert not isinstance(torch.ones(1), tensor.DTensor)
    assert not rpc.is_available()
    assert tensor.Shard(0) == tensor.Shard(0) != tensor.Shard(1) and tensor.Shard(1).is_shard(1)
    assert tensor.Replicate().is_replicate() and tensor.Partial().is_partial("sum")
    settings = fsdp.MixedPrecision(param_dtype=torch.bfloat16)
    assert settings.param_dtype is torch.bfloat16 and settings.cast_root_forward_inputs
    assert fsdp.fully_sharded_data_parallel.ShardingStrategy is fsdp.ShardingStrategy


def test_sharded_scaler_is_the_scaler_of_one_process(world):
    scaler = fsdp.sharded_grad_scaler.ShardedGradScaler("cpu", init_scale=4.0)
    assert scaler.scale(torch.ones(1)).item() == 4.0
