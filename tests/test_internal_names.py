"""Names of PyTorch's that programs call although they are not documented, and `from_file`."""

import importlib

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)


def test_assert():
    torch._assert(True, "nothing")
    torch._assert(torch.ones(1) == 1, "nothing")
    with pytest.raises(AssertionError, match="three"):
        torch._assert(torch.tensor(False), "three")


def test_shape_as_tensor():
    assert torch._shape_as_tensor(torch.zeros(2, 0, 3)).tolist() == [2, 0, 3]
    assert torch._shape_as_tensor(torch.zeros(())).shape == (0,)


@beside_pytorch
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_backward_data(name, dim):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 3, 4))
    results = []
    for library in (torch, pytorch):
        y = getattr(library, name)(library.from_numpy(x), dim)
        call = getattr(library, f"_{name}_backward_data")
        results.append(call(library.from_numpy(g), y, dim, library.float64).numpy())
    np.testing.assert_allclose(*results, atol=1e-12)
    leaf = torch.from_numpy(x).requires_grad_()
    getattr(torch, name)(leaf, dim).backward(torch.from_numpy(g))
    np.testing.assert_allclose(leaf.grad.numpy(), results[0], atol=1e-12)


@beside_pytorch
def test_from_file(tmp_path):
    path = str(tmp_path / "elements")
    for library in (torch, pytorch):
        x = library.from_file(path, shared=True, size=4, dtype=library.float64)
        x.copy_(library.arange(4.0))
        del x
        assert np.fromfile(path).tolist() == [0, 1, 2, 3]
        own = library.from_file(path, shared=False, size=2, dtype=library.float64)
        own[0] = 7
        assert own.tolist() == [7, 1] and np.fromfile(path)[0] == 0
        assert library.from_file(path, size=3, dtype=library.int64).dtype is library.int64
        with pytest.raises(RuntimeError):
            library.from_file(str(tmp_path / "missing"), size=2)
        (tmp_path / "elements").write_bytes(b"")
    assert torch.from_file(path, size=0).tolist() == []
    (tmp_path / "short").write_bytes(b"1234567")
    with pytest.raises(RuntimeError, match="7 bytes"):
        torch.from_file(str(tmp_path / "short"), size=2)
    with pytest.raises(RuntimeError, match="size"):
        torch.from_file(path, size=-1)
    assert torch.from_file(path, True, 2, requires_grad=True).requires_grad


def test_device_index():
    index = torch._utils._get_device_index
    assert index(3) == 3 and index("cuda:1") == 1 and index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="non cpu"):
        index("cpu")
    with pytest.raises(ValueError, match="specified index"):
        index("cuda")
    with pytest.raises(ValueError, match="specified index"):
        index(None)


def test_rebuild_tensor():
    storage = torch.arange(6.0).storage()
    x = torch._utils._rebuild_tensor_v2(storage, 1, (2, 2), (2, 1), True, None)
    assert x.tolist() == [[1, 2], [3, 4]] and x.requires_grad and x.is_leaf
    assert x.data_ptr() == storage.data_ptr() + 4
    with pytest.raises(NotImplementedError, match="hooks"):
        torch._utils._rebuild_tensor_v2(storage, 0, (1,), (1,), False, {1: 2})


def test_opt_einsum():
    settings = torch.backends.opt_einsum
    assert not settings.is_available() and settings.get_opt_einsum() is None
    assert settings.enabled is False and settings.strategy is None
    assert settings.set_flags(False) == (False, None)
    for flags in ((True,), (False, "optimal")):
        with pytest.raises(ValueError, match="left to the right"):
            settings.set_flags(*flags)


@beside_pytorch
def test_groups_of_tensors():
    results = []
    for library in (torch, pytorch):
        a, b, c = library.ones(1), library.ones(2, dtype=library.float64), library.ones(3)
        group = library.optim.Optimizer._group_tensors_by_device_and_dtype
        found = group([[a, b, c], [c, None, a]], with_indices=True)
        results.append(
            {
                str(dtype): ([[None if t is None else t.shape[0] for t in one] for one in lists], i)
                for (_, dtype), (lists, i) in found.items()
            }
        )
    assert results[0] == results[1]


@beside_pytorch
def test_fused_or_foreach():
    for library in (torch, pytorch):
        choose = importlib.import_module(f"{library.__name__}.optim.optimizer")
        choose = choose._default_to_fused_or_foreach
        x, integers = library.ones(1), library.ones(1, dtype=library.int64)
        assert choose([x], True, True) == (False, False)
        assert choose([x, None], False, True) == (True, False)
        assert choose([integers], False, True) == (False, False)
        assert choose([x], False) == (False, False)
    assert torch.optim.optimizer._get_capturable_supported_devices() == ["cuda"]


def test_use_grad_for_differentiable():
    class Recorded(torch.optim.Optimizer):
        @torch.optim.optimizer._use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    for wanted in (True, False):
        assert Recorded([torch.ones(1)], {"differentiable": wanted}).step() is wanted
    assert torch.is_grad_enabled()


def test_tracing_state():
    seen = []

    def call(x):
        seen.append(torch._C._get_tracing_state())
        return x * 2

    call(torch.ones(1))
    torch.jit.trace(call, torch.ones(1), check_trace=False)
    assert seen[0] is None and seen[1] and torch._C._get_tracing_state() is None


def test_no_tensor_is_nested():
    assert not torch.ones(1).is_nested


def test_names_that_packages_import():
    from importlib import import_module

    find = {
        "_C": "_TensorMeta",
        "_dynamo._trace_wrapped_higher_order_op": "TransformGetItemToIndex",
        "_dynamo.eval_frame": "OptimizedModule",
        "distributed._functional_collectives": "wait_tensor all_to_all_single_autograd",
        "distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
        "nn.attention.flex_attention": "AuxRequest BlockMask create_block_mask flex_attention",
        "distributed.constants": "default_pg_timeout default_pg_nccl_timeout",
        "distributed.tensor.placement_types": "Shard Replicate Partial Placement _StridedShard",
        "fx": "Graph GraphModule Interpreter Node Proxy Tracer Transformer",
        "serialization": "MAP_LOCATION",
        "utils._pytree": "_dict_flatten_with_keys",
        "utils.checkpoint": "get_device_states set_device_states",
    }
    for place, names in find.items():
        module = import_module(f"{torch.__name__}.{place}")
        assert all(hasattr(module, name) for name in names.split())
    assert not isinstance(torch.nn.Linear(1, 1), torch.fx.GraphModule)
    assert torch._C._log_api_usage_once("package.event") is None


def test_checkpoints_of_cpu_tensors_have_no_states_of_devices():
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint")
    assert checkpoint.get_device_states(torch.ones(2), 3, [torch.ones(1)]) == ([], [])
    checkpoint.set_device_states([], [])
    checkpoint.set_device_states([0], [None], device_type="meta")


def test_dsmm():
    a, b = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[3.0], [4.0]])
    assert torch.dsmm(a, b).tolist() == [[11.0], [4.0]]
    assert torch.dsmm(a.to_sparse(), b).tolist() == [[11.0], [4.0]]


@pytest.mark.parametrize("kind", ["ipu", "maia", "mkldnn", "mps", "mtia", "vulkan", "xla", "xpu"])
def test_tensors_are_on_no_other_device(kind):
    assert getattr(torch.ones(1), f"is_{kind}") is False
    assert getattr(torch.ones(1, 1).to_sparse(), f"is_{kind}") is False


@pytest.mark.skipif(IS_TORCH, reason="PyTorch wants a mesh of several processes")
def test_parts_of_tensors(monkeypatch):
    from tapegrad.distributed.tensor import Replicate, Shard
    from tapegrad.distributed.tensor._utils import compute_local_shape_and_global_offset

    # What PyTorch's table in the docstring of the same function says, process by process.
    class Mesh:
        def get_coordinate(self):
            return self.place

        def size(self, dim):
            return 2

    mesh = Mesh()
    parts = []
    for mesh.place in ([0, 0], [0, 1], [1, 0], [1, 1]):
        parts.append(compute_local_shape_and_global_offset((2, 5), mesh, (Shard(1), Shard(1))))
    assert parts == [((2, 2), (0, 0)), ((2, 1), (0, 2)), ((2, 1), (0, 3)), ((2, 1), (0, 4))]
    mesh.place = [1, 0]
    whole = compute_local_shape_and_global_offset((2, 5), mesh, (Replicate(), Replicate()), True)
    assert whole == ((2, 5), ())
    assert [Shard.local_shard_size_and_offset(5, 4, i) for i in range(4)] == [
        (2, 0), (2, 2), (1, 4), (0, 5),
    ]  # fmt: skip


def test_indices_of_rows():
    rows, columns = torch.tensor([0, 1, 1, 3]), torch.tensor([5, 6, 7, 8])
    starts = torch._convert_indices_from_coo_to_csr(rows, 5)
    assert starts.tolist() == [0, 1, 3, 3, 4, 4] and starts.dtype is torch.int64
    assert torch._convert_indices_from_coo_to_csr(rows, 5, out_int32=True).dtype is torch.int32
    pair = torch._convert_indices_from_csr_to_coo(starts, columns)
    assert pair.tolist() == [rows.tolist(), columns.tolist()] and pair.dtype is torch.int64
    pair = torch._convert_indices_from_csr_to_coo(starts, columns, transpose=True, out_int32=True)
    assert pair.tolist() == [columns.tolist(), rows.tolist()] and pair.dtype is torch.int32


def test_arguments_of_to_are_parsed():
    parse, cpu = torch._C._nn._parse_to, torch.device("cpu")
    assert parse("cpu") == (cpu, None, False, None)
    assert parse("cpu", torch.float16, True) == (cpu, torch.float16, True, None)
    assert parse(torch.ones(1, dtype=torch.int8)) == (cpu, torch.int8, False, None)
    assert parse(torch.float64, non_blocking=True) == (None, torch.float64, True, None)
    expected = (None, torch.float32, False, torch.channels_last)
    assert parse(dtype=torch.float32, memory_format=torch.channels_last) == expected


def test_parts_of_printing():
    from importlib import import_module

    printing = import_module(f"{torch.__name__}._tensor_str")
    assert printing.PRINT_OPTS.threshold == 1000 and printing.PRINT_OPTS.linewidth == 80
    try:
        printing.PRINT_OPTS.precision = 2
        assert repr(torch.tensor([1.2345])) == "tensor([1.23])"
    finally:
        printing.PRINT_OPTS.precision = 4
    x = torch.arange(4.0).reshape(2, 2)
    assert printing._tensor_str(x, indent=0) == "[[0., 1.],\n [2., 3.]]"
    add = printing._add_suffixes
    assert add("x(1", ["a=1", "b=2"], 3, True) == "x(1,\n   a=1, b=2)"
    assert add("x(1", ["a=1", "b" * 76, "c"], 3, False) == f"x(1, a=1,\n   {'b' * 76},\n   c)"
    assert add("x(1", [], 3, True) == "x(1)"


def test_who_is_who_in_cpp():
    x = torch.ones(2)
    assert isinstance(x._cdata, int) and x._cdata == x._cdata != x.detach()._cdata
    assert torch.autograd._profiler_enabled() is False
    with torch.autograd.profiler.profile():
        assert torch.autograd._profiler_enabled() is True


@pytest.mark.skipif(IS_TORCH, reason="what is refused here")
def test_flexible_attention_is_refused_in_words():
    from tapegrad.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

    x = torch.ones(1, 1, 2, 2)
    with pytest.raises(NotImplementedError, match="flex_attention: attention with functions of"):
        flex_attention(x, x, x)
    with pytest.raises(NotImplementedError, match="BlockMask: attention with functions of"):
        BlockMask()
    assert not isinstance(x, BlockMask) and AuxRequest(lse=True) == (True, False)
