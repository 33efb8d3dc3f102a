"""What packages ask of torch: ops by name, libraries of ops, records of files, old names."""

import importlib
import pickle

import numpy as np
import pytest
from library import IS_TORCH, NAME, pytorch_for_parity, torch

pytorch, REASON = pytorch_for_parity()
beside_pytorch = pytest.mark.skipif(
    pytorch is None or IS_TORCH, reason=REASON or "nothing to compare with"
)


def module(path):
    return importlib.import_module(f"{NAME}.{path}")


@beside_pytorch
@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("alias", (), {}),
        ("_to_copy", (), {"dtype": "float64"}),
        ("_to_copy", (), {}),
        ("_unsafe_view", ([6, 4],), {}),
        ("constant_pad_nd", ([1, 0, 2, -1], 0.5), {}),
        ("constant_pad_nd", ([1, 1],), {}),
        ("slice", (), {}),
        ("slice", (-1, 1, None, 2), {}),
        ("slice", (1, -2, 9), {}),
        ("index", ([None, [2, 0]],), {}),
        ("index", ([[1, 0, 1]],), {}),
        ("index", ([[0, 1], None, [1, 3]],), {}),
    ],
)
def test_ops_by_name(name, arguments, options):
    numbers = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    results = []
    for library in (torch, pytorch):
        leaf = library.from_numpy(numbers).requires_grad_()
        given = [
            [each if each is None else library.tensor(each) for each in argument]
            if name == "index"
            else argument
            for argument in arguments
        ]
        named = {key: getattr(library, value) for key, value in options.items()}
        y = getattr(library.ops.aten, name)(leaf, *given, **named)
        (y * y).sum().backward()
        version = str(y.dtype), tuple(y.stride()), y._is_view() if name == "alias" else None
        results.append((y.detach().numpy(), leaf.grad.numpy(), version))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


def test_ops_by_name_of_other_kinds():
    aten = torch.ops.aten
    assert aten._local_scalar_dense(torch.tensor(3)) == 3
    x = torch.ones(2, 2)
    y = aten._to_copy.default(x, memory_format=torch.contiguous_format)
    assert y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
    assert aten.alias.default(x).data_ptr() == x.data_ptr()
    with pytest.raises(IndexError, match="Dimension out of range"):
        aten.slice.Tensor(x, 2)
    sparse = torch.eye(2).to_sparse()
    assert aten._sparse_addmm(x, sparse, x, beta=2.0).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.skipif(IS_TORCH, reason="what is refused here")
def test_refused_ops_say_what_to_do():
    aten = torch.ops.aten
    with pytest.raises(NotImplementedError, match="use to_sparse or to_dense"):
        aten._to_copy(torch.ones(2), layout=torch.sparse_coo)
    with pytest.raises(NotImplementedError, match=r"use torch\.sparse\.mm"):
        aten._sparse_mm_reduce_impl(torch.eye(2).to_sparse_csr(), torch.ones(2, 2), "sum")


@pytest.mark.skipif(IS_TORCH, reason="what is refused here")
def test_tensors_without_memory_of_their_own_are_refused():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_wrapper_subclass(cls, data.size(), dtype=data.dtype)

    with pytest.raises(NotImplementedError, match="compute by __torch_dispatch__ are not support"):
        Wrapper(torch.ones(2))


@pytest.mark.skipif(IS_TORCH, reason="PyTorch loads libraries that are made for it")
def test_libraries_of_ops_are_refused():
    with pytest.raises(OSError, match=r"load_library: /x/_C\.so has ops that were compiled for"):
        torch.ops.load_library("/x/_C.so")
    assert torch.ops.loaded_libraries == set()


@pytest.mark.skipif(IS_TORCH, reason="PyTorch refuses, unless the library is there")
def test_what_is_said_of_an_op_before_it_is_made():
    library = module("library")

    @library.register_fake("tests_packages::half_of")
    def fake(x):
        return x.new_empty(len(x) // 2)

    assert not hasattr(torch.ops.tests_packages, "half_of")

    @library.custom_op("tests_packages::half_of", mutates_args=())
    def half_of(x: torch.Tensor) -> torch.Tensor:
        return x[: len(x) // 2].clone()

    assert half_of(torch.ones(4, device="meta")).shape == (2,)
    with pytest.raises(RuntimeError, match="Could not find the operator"):
        library.register_fake("no name", fake)


def test_sets_of_dispatch_keys():
    key, keys = torch._C.DispatchKey, torch._C.DispatchKeySet
    both = keys(key.AutocastCPU) | keys(key.AutocastCUDA)
    assert both.has(key.AutocastCPU) and both.has(key.AutocastCUDA) and not both.has(key.Meta)
    assert not (both - keys(key.AutocastCPU)).has(key.AutocastCPU)
    assert (both & keys(key.AutocastCPU)).has(key.AutocastCPU)
    assert both.remove(key.AutocastCPU).has(key.AutocastCUDA) and both.add(key.Meta).has(key.Meta)
    assert both == keys(key.AutocastCUDA) | keys(key.AutocastCPU) and "AutocastCPU" in repr(both)


def test_no_class_is_asked_in_a_context():
    class Told:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "told"

    assert torch.exp(Told()) == "told"
    with torch._C.DisableTorchFunctionSubclass():
        with torch._C.DisableTorchFunctionSubclass():
            pass
        with pytest.raises(TypeError):
            torch.exp(Told())
    assert torch.exp(Told()) == "told"


@pytest.mark.parametrize("path_like", [False, True])
def test_records_of_a_file(tmp_path, path_like):
    path = tmp_path / "state.pt"
    saved = torch.nn.Identity()  # no state alone, which has a format of its own here
    saved.register_buffer("x", torch.arange(4.0))
    torch.save(saved, str(path))
    with path.open("rb") as file:
        reader = torch.PyTorchFileReader(str(path) if path_like else file)
        names = reader.get_all_records()
        assert reader.has_record("data.pkl") and not reader.has_record("nothing")
        (place,) = [name for name in names if name.startswith("data/")]
        assert np.frombuffer(reader.get_record(place), np.float32).tolist() == [0, 1, 2, 3]
        found = reader.get_storage_from_record(place, 16, torch.UntypedStorage)
        assert found._typed_storage()._untyped_storage.nbytes() == 16
        with pytest.raises(RuntimeError, match="failed locating file nothing"):
            reader.get_record("nothing")
        assert isinstance(reader.serialization_id(), str)
    broken = tmp_path / "broken"
    broken.write_bytes(b"no archive")
    with pytest.raises(RuntimeError, match=r"(?i)PyTorchStreamReader"):
        torch.PyTorchFileReader(str(broken))


@beside_pytorch
def test_records_of_a_file_of_pytorchs(tmp_path):
    path = str(tmp_path / "state.pt")
    pytorch.save({"x": pytorch.arange(4.0)}, path)
    for library in (torch, pytorch):
        reader = library.PyTorchFileReader(path)
        storage = reader.get_storage_from_record("data/0", 16, library.UntypedStorage)
        untyped = storage._typed_storage()._untyped_storage
        assert untyped.nbytes() == 16
        assert np.array(untyped.tolist(), np.uint8).view(np.float32).tolist() == [0, 1, 2, 3]
        assert reader.serialization_id() == pytorch.PyTorchFileReader(path).serialization_id()


def test_bars_of_downloads(monkeypatch):
    hub = module("hub")
    assert module("utils.model_zoo").load_url is hub.load_state_dict_from_url
    with hub.tqdm(total=2, disable=True) as bar:
        bar.update(1)
    if not IS_TORCH:
        monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
        with hub.tqdm([1, 2], total=2) as bar:
            assert list(bar) == [1, 2] and bar.n == 2
            bar.set_postfix(loss=1.0)
        with pytest.raises(AttributeError, match="nothing_there"):
            _ = hub.nothing_there


def test_models_that_may_be_quantized_or_exported():
    stubs = module("ao.quantization")
    x = torch.ones(2)
    for stub in (stubs.QuantStub(), stubs.DeQuantStub()):
        assert stub(x) is x and not hasattr(stub, "qconfig")
    assert stubs.QuantStub("how").qconfig == "how"
    assert not list(stubs.QuantStub().parameters())
    helper = module("onnx.symbolic_helper")
    module("onnx.symbolic_opset11")
    decorated = helper.parse_args("v", "i")(lambda g, x: x)
    assert callable(decorated)
    if not IS_TORCH:
        torch.onnx.register_custom_op_symbolic("tests::op", decorated, 11)
        with pytest.raises(torch.onnx.OnnxExporterError, match="domain::name"):
            torch.onnx.register_custom_op_symbolic("op", decorated, 11)


def test_names_of_graphs_and_scripts():
    fx = module("fx")
    for place, name in (("node", "Node"), ("proxy", "Proxy"), ("graph_module", "GraphModule")):
        assert getattr(module(f"fx.{place}"), name) is getattr(fx, name)
        assert getattr(fx, place) is module(f"fx.{place}")
    code = module("fx.graph_module")
    source, target = torch.nn.Sequential(torch.nn.Linear(1, 2)), torch.nn.Module()
    code._copy_attr(source, target, "0.weight")
    assert target.get_submodule("0").weight is source[0].weight
    annotations = module("jit.annotations")
    assert annotations.BroadcastingList2[int] is None and annotations.List is not None
    types = module("types")
    assert types._device is torch.device and types._dtype is torch.dtype and types._size is not None
    assert torch.ScriptModule.__name__ == "ScriptModule"
    assert pickle.loads(pickle.dumps(module("ao.quantization").QuantStub)) is not None


@pytest.mark.skipif(IS_TORCH, reason="what is refused here")
def test_no_code_is_compiled_or_written():
    assert module("_dynamo.utils").is_compile_supported("cpu") is False
