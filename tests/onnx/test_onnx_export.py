"""`torch.onnx.export`: names, files, modes, dynamic axes, and what is refused."""

import inspect
import io
import os
import re
import subprocess
import sys
import threading
import types

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

if IS_TORCH:
    pytest.skip("PyTorch's exporter is its own", allow_module_level=True)
pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")

import numpy as np
import onnx
import onnxruntime
from onnx_comparing import Calls, assert_agrees, checked, exported

from tapegrad.onnx import OperatorExportTypes, TrainingMode, _proto
from tapegrad.onnx.errors import (
    OnnxExporterError,
    OnnxExporterWarning,
    SymbolicValueError,
    UnsupportedOperatorError,
)

nn = torch.nn
HERE = re.escape(__file__)


def small():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def names_of(values):
    return [value.name for value in values]


def shape_of(value):
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


# ---- names


def test_signature_is_that_of_pytorch():
    pytorch, reason = pytorch_for_parity()
    if pytorch is None:
        pytest.skip(reason)
    pytest.importorskip("torch.onnx")
    ours = inspect.signature(torch.onnx.export).parameters
    theirs = inspect.signature(pytorch.onnx.export).parameters
    assert list(ours) == list(theirs)
    for name, parameter in theirs.items():
        default = ours[name].default
        if name not in ("training", "operator_export_type"):
            assert (default, ours[name].kind) == (parameter.default, parameter.kind), name


def test_parameters_have_the_names_of_the_state_dict():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LSTM(4, 3))
    model = nn.ModuleDict({"first": model[:2], "last": nn.Linear(2, 3)})

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return self.parts["last"](self.parts["first"](x).mean((2, 3)))

    program = exported(Whole(), (torch.randn(2, 1, 5, 5),))
    proto = program.model_proto
    state = Whole().state_dict()
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    counters = {"parts.first.1.num_batches_tracked"}
    assert state.keys() - stored.keys() == counters
    for name, tensor in model.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            assert np.array_equal(stored[f"parts.{name}"], tensor.numpy()), name


def test_tied_parameters_are_in_the_file_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.token.weight

        def forward(self, x):
            return self.head(self.token(x))

    program = exported(Tied(), (torch.tensor([1, 3]),))
    large = [each for each in program.model_proto.graph.initializer if list(each.dims) == [5, 4]]
    assert names_of(large) == ["token.weight"]


def test_names_of_inputs_and_outputs():
    class Two(nn.Module):
        def forward(self, first, pair, *, scale, flag=True):
            assert flag
            return {"sum": first + pair[0], "rest": (pair[1] * scale, None)}

    args = (torch.randn(2), [torch.randn(2), torch.randn(3)])
    program = checked(torch.onnx.export(Two(), args, kwargs={"scale": torch.tensor(2.0)}))
    graph = program.model_proto.graph
    assert names_of(graph.input) == ["first", "pair_0", "pair_1", "scale"]
    assert names_of(graph.output) == ["output_0", "output_1"]
    program = torch.onnx.export(
        Two(),
        args,
        kwargs={"scale": torch.tensor(2.0)},
        input_names=["a", "b"],
        output_names=["y"],
    )
    graph = program.model_proto.graph
    assert names_of(graph.input) == ["a", "b", "pair_1", "scale"]
    assert names_of(graph.output) == ["y", "output_1"]


def test_names_that_meet():
    model = nn.Linear(3, 2)
    program = exported(model, (torch.randn(2, 3),), input_names=["weight"], output_names=["bias"])
    graph = program.model_proto.graph
    assert names_of(graph.input) == ["weight"] and len(set(names_of(graph.initializer))) == 2


def test_outputs_that_are_inputs_parameters_or_equal():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3))
            self.plain = torch.ones(2)

        def forward(self, x):
            y = x * 2
            return x, y, y, self.weight, self.weight.t(), self.plain, x.t(), torch.tensor([1, 2])

    exported(Odd(), (torch.randn(2, 3),))


def test_a_function_and_a_last_dict_of_keywords():
    exported(lambda x: x + 1, torch.ones(2))
    exported(torch.tanh, (torch.ones(2),))

    def scaled(x, factor=None):
        return x if factor is None else x * factor

    program = torch.onnx.export(scaled, (torch.ones(2), {"factor": torch.tensor(3.0)}))
    assert names_of(program.model_proto.graph.input) == ["x", "factor"]


def test_printing(capsys):
    program = torch.onnx.export(small(), (torch.zeros(2, 4),), verbose=True)
    text = capsys.readouterr().out
    assert text == f"{program}\n" and "Gemm" in text and "0.weight: float32[8, 4]" in text
    assert repr(program) == "<ONNXProgram of 3 nodes, 1 inputs and 1 outputs>"


# ---- files


def run_file(path, *arrays):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names_of(session.get_inputs()), arrays, strict=True)))


def test_one_file_and_two(tmp_path):
    model, x = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 2)).eval(), torch.randn(3, 32)
    wanted = model(x).detach().numpy()
    one, two = tmp_path / "one.onnx", tmp_path / "two.onnx"
    torch.onnx.export(model, (x,), one, external_data=False)
    assert torch.onnx.export(model, (x,), str(two)) is not None
    assert torch.onnx.export(model, (x,), tmp_path / "old.onnx", dynamo=False) is None
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        *("old.onnx", "one.onnx", "two.onnx", "two.onnx.data")
    ]
    assert (tmp_path / "two.onnx.data").stat().st_size >= 64 * 32 * 4 > two.stat().st_size
    for name in ("one.onnx", "two.onnx", "old.onnx"):
        onnx.checker.check_model(str(tmp_path / name), full_check=True)
        np.testing.assert_allclose(run_file(tmp_path / name, x.numpy())[0], wanted, atol=1e-5)


def test_file_objects():
    file = io.BytesIO()
    program = torch.onnx.export(small(), (torch.zeros(2, 4),), file)
    proto = onnx.load_model_from_string(file.getvalue())
    assert proto == program.model_proto and proto.producer_name == "tapegrad"
    with pytest.raises(TypeError, match="expected a path for external_data=True"):
        program.save(io.BytesIO(), external_data=True)


def test_parameters_outside_the_file():
    model, x = small(), torch.randn(2, 4)
    files = [io.BytesIO() for _ in range(3)]
    torch.onnx.export(model, (x,), files[0], export_params=False)
    torch.onnx.export(model, (x,), files[1], keep_initializers_as_inputs=True)
    torch.onnx.export(model, (x,), files[2])
    without, both, usual = (onnx.load_model_from_string(each.getvalue()).graph for each in files)
    own = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert names_of(without.input) == ["input", *own] and not without.initializer
    assert names_of(both.input) == ["input", *own] and names_of(both.initializer) == own
    assert names_of(usual.input) == ["input"] and names_of(usual.initializer) == own
    session = onnxruntime.InferenceSession(files[0].getvalue())
    weights = {name: each.detach().numpy() for name, each in model.named_parameters()}
    (found,) = session.run(None, weights | {"input": x.numpy()})
    np.testing.assert_allclose(found, model(x).detach().numpy(), atol=1e-5)


def test_every_dtype_is_written():
    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            for name in (
                "float16",
                "bfloat16",
                "float64",
                "int8",
                "int16",
                "int32",
                "uint8",
                "bool",
            ):
                value = torch.tensor([1, 0, 3]).to(getattr(torch, name))
                self.register_buffer(f"of_{name}", value)

        def forward(self, x):
            return [x + each.float() for each in self.buffers()]

    exported(Held(), (torch.randn(3),))


def test_messages_are_read_back():
    numbers = [0, 1, -1, 127, 128, 300, 2**31, 2**63 - 1, -(2**63)]
    for value in (*numbers, numbers, 1.5, [1.5, -2.0], "text", ["a", "b"], []):
        proto = onnx.AttributeProto.FromString(_proto.attribute("name", value))
        found = onnx.helper.get_attribute_value(proto)
        if isinstance(value, str):
            value = value.encode()
        elif isinstance(value, list) and value and isinstance(value[0], str):
            value = [each.encode() for each in value]
        assert (proto.name, found) == ("name", value)
    array = np.arange(6, dtype="int16").reshape(2, 3)
    proto = onnx.TensorProto.FromString(_proto.tensor("t", "int16", (2, 3), array.tobytes()))
    assert np.array_equal(onnx.numpy_helper.to_array(proto), array)
    info = onnx.ValueInfoProto.FromString(_proto.value_info("x", "float32", [2, "batch", 0]))
    assert shape_of(info) == [2, "batch", 0]


def test_export_needs_neither_onnx_nor_its_runtime(tmp_path):
    script = (
        "import sys\n"
        "sys.modules['onnx'] = sys.modules['onnxruntime'] = None\n"
        "import tapegrad as torch\n"
        "model = torch.nn.Linear(3, 2)\n"
        f"program = torch.onnx.export(model, (torch.ones(1, 3),), {str(tmp_path / 'm.onnx')!r})\n"
        "try:\n    program(torch.ones(1, 3))\n"
        "except ImportError as error:\n    print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "ONNXProgram: running a graph needs onnxruntime; pip install onnxruntime\n"
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


# ---- modes and state


def test_modes_and_state_are_put_back():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[0].eval()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    seen = []
    model.register_forward_hook(
        lambda m, *_: seen.append((m.training, torch.onnx.is_in_onnx_export()))
    )
    torch.onnx.export(model, (torch.randn(5, 4),))
    assert [module.training for module in model.modules()] == [True, False, True, True]
    with pytest.warns(OnnxExporterWarning, match=r"writes to .*0\.running_mean"):
        torch.onnx.export(model, (torch.randn(5, 4),), training=TrainingMode.TRAINING)
    assert [module.training for module in model.modules()] == [True, False, True, True]
    torch.onnx.export(model, (torch.randn(5, 4),), training=TrainingMode.PRESERVE)
    assert seen == [(False, True), (True, True), (True, True)]
    assert not torch.onnx.is_in_onnx_export()
    torch.manual_seed(3)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_arguments_are_not_written_to():
    x = torch.ones(3)
    exported(lambda x: x.mul_(2).add_(1), (x,))
    assert x.tolist() == [1, 1, 1]
    exported(lambda x, y: x.mul_(2) + y, (x, x))
    exported(lambda x: x.unsqueeze_(0).mul_(2), (x,))
    program = exported(lambda x: x.t_() + 1, (torch.ones(2, 3),))
    assert shape_of(program.model_proto.graph.input[0]) == [2, 3]


def test_dropout_in_training_is_random():
    model = nn.Dropout(0.5)
    program = checked(
        torch.onnx.export(model, (torch.ones(4, 100),), training=TrainingMode.TRAINING)
    )
    (found,) = program(torch.ones(4, 100))
    assert set(found.unique().tolist()) == {0.0, 2.0} and 0.3 < found.mean().item() / 2 < 0.7


def test_training_mode_of_batch_norm():
    model, x = nn.BatchNorm1d(4, momentum=0.3), torch.randn(5, 4)
    with pytest.warns(OnnxExporterWarning, match="running_mean, running_var"):
        program = checked(torch.onnx.export(model, (x,), training=TrainingMode.TRAINING))
    wanted = model.train()(x)
    assert torch.allclose(program(x)[0], wanted, atol=1e-5)
    assert not torch.allclose(model.eval()(x), wanted, atol=1e-2)


def test_a_buffer_that_counts():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return x + self.count

    model = Counts()
    with pytest.warns(OnnxExporterWarning, match="writes to count"):
        program = checked(torch.onnx.export(model, (torch.zeros(2),)))
    assert model.count.item() == 0 and program(torch.zeros(2))[0].tolist() == [1, 1]


def test_a_tensor_that_is_no_buffer_and_written():
    kept = torch.zeros(3)
    with pytest.raises(OnnxExporterError, match="register_buffer"):
        torch.onnx.export(lambda x: kept.add_(1) + x, (torch.ones(3),))


def test_autocast_and_half_models():
    model = small().to(torch.float16)
    exported(model, (torch.randn(2, 4).half(),), tolerance=2e-3)

    def cast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.nn.functional.linear(x, weight).float()

    weight = torch.randn(3, 4)
    exported(cast, (torch.randn(2, 4),), tolerance=2e-2)


def test_verify():
    torch.onnx.export(small(), (torch.randn(2, 4),), verify=True)
    torch.onnx.export(small(), (torch.randn(1, 4),), verify=True, dynamic_shapes=({0: "n"},))
    torch.onnx.export(lambda x: x.mul_(2), (torch.ones(3),), verify=True)
    with pytest.raises(
        OnnxExporterError, match="output 0 of the graph differs from the model's by"
    ):
        torch.onnx.export(lambda x: x + torch.rand(3), (torch.ones(3),), verify=True)


def test_constants_are_computed_once():
    """What depends on neither inputs nor parameters may be computed by any op."""

    def model(x):
        table = torch.lgamma(torch.arange(1.0, 5.0))
        picked = table[table > 0.5].nonzero().flatten()
        mask = torch.ones(4, 4).tril() == 0
        return (x * table).masked_fill(mask, -1) + picked.sum()

    program = exported(model, (torch.randn(4, 4),))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Mul", "Where", "Add"]


def test_constants_that_are_written_again():
    def model(x):
        base = torch.zeros(3)
        first = x + base
        base += 1
        second = x + base
        base[1] = 5
        return first, second, x * base, base

    exported(model, (torch.randn(3),))

    def large(x):
        row = torch.ones(3)
        many = torch.zeros(20000, 3) + row  # too large to be kept
        row += 1
        return x * row + many[:2]

    exported(large, (torch.randn(2, 3),))


def test_parameters_that_share_memory():
    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.randn(4, 3)
            self.top, self.rows = nn.Parameter(whole[:2]), nn.Parameter(whole[:2])
            self.register_buffer("turned", whole.t())
            self.rest = whole[2:]

        def forward(self, x):
            return x @ self.top.t() + x @ self.rest.t() + x @ self.turned[:, :2], self.rows.sum()

    exported(Shares(), (torch.randn(2, 3),))
    model = Shares()
    del model.turned
    model.turned = model.rest.t()
    exported(model, (torch.randn(2, 3),))


def test_models_that_compute_gradients():
    """Fused derivatives are lines of the table, too."""
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 1))

    def slope(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(model(x).sum(), x)[0]

    def curvature(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            return torch.autograd.grad(first[:, 0].sum(), x)[0]

    def forward_mode(x):
        return torch.func.jvp(model, (x,), (torch.ones_like(x),))[1]

    def by_func(x):
        return torch.func.vmap(torch.func.grad(lambda row: model(row).sum()))(x)

    for function in (slope, curvature, forward_mode, by_func):
        exported(function, (torch.randn(3, 2),))


def test_beside_other_features():
    model, x = small(), torch.randn(2, 4)
    with torch.profiler.profile() as profile:
        exported(model, (x,))
    assert profile.key_averages()
    with torch.inference_mode():
        exported(model, (x,))
    with torch.tape.budget("1 MiB"), torch.tape.compress("int8"):
        exported(model, (x,))
    with torch.tape.record() as t:
        loss = model(x).sum()
        exported(model, (x,))
    loss.backward()
    assert t is not None and all(each.grad is not None for each in model.parameters())
    with torch.tape.record(replay=True), pytest.raises(RuntimeError, match="another capture"):
        torch.onnx.export(model, (x,))
    exported(torch.func.functional_call, (model, dict(model.named_parameters()), (x,)))
    with pytest.raises(OnnxExporterError, match="meta device"):
        torch.onnx.export(nn.Linear(2, 3, device="meta"), (torch.zeros(1, 2, device="meta"),))


def test_threads_export_at_once():
    models = [small() for _ in range(4)]
    programs = [None] * 4

    def work(i):
        programs[i] = torch.onnx.export(models[i], (torch.randn(2, 4),))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model, program in zip(models, programs, strict=True):
        assert_agrees(program, model, (torch.randn(2, 4),))


def test_a_model_with_gradients_checkpoints_and_vmap():
    model = small()
    wrapped = Calls(lambda x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False))
    exported(wrapped, (torch.randn(2, 4),))
    exported(lambda x: torch.vmap(lambda row: row @ row)(x), (torch.randn(3, 4),))


# ---- dynamic axes


def test_dynamic_axes_by_name():
    program = checked(
        torch.onnx.export(
            small(),
            (torch.randn(2, 4),),
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "batch"}, "y": {0: "rows"}},
        )
    )
    graph = program.model_proto.graph
    assert shape_of(graph.input[0]) == ["batch", 4] and shape_of(graph.output[0]) == ["rows", 3]
    assert program(torch.zeros(7, 4))[0].shape == (7, 3)


def test_dynamic_axes_as_lists():
    program = torch.onnx.export(
        lambda x: x.mean(1), (torch.randn(2, 4),), input_names=["x"], dynamic_axes={"x": [0, 1]}
    )
    graph = program.model_proto.graph
    assert shape_of(graph.input[0]) == ["x_dynamic_axes_1", "x_dynamic_axes_2"]
    assert shape_of(graph.output[0]) == ["x_dynamic_axes_1"]


def test_dynamic_shapes_in_all_forms():
    class Dim:
        def __init__(self, name):
            self.__name__ = name

    model, args = (lambda a, b: a @ b), (torch.randn(2, 3), torch.randn(3, 5))
    forms = (
        ({0: "rows"}, {1: "columns"}),
        [("rows", None), (None, "columns")],
        {"a": {0: Dim("rows")}, "b": {1: Dim("columns")}},
        {"b": {1: "columns"}, "a": {-2: "rows"}},
    )
    for shapes in forms:
        program = checked(torch.onnx.export(model, args, dynamic_shapes=shapes))
        assert shape_of(program.model_proto.graph.output[0]) == ["rows", "columns"]
        assert_agrees(program, model, (torch.randn(4, 3), torch.randn(3, 1)))


def test_an_example_of_size_one():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(18, 3))
    program = torch.onnx.export(model, (torch.randn(1, 1, 5, 5),), dynamic_shapes=({0: "n"},))
    for size in (1, 2, 6):
        assert_agrees(program, model, (torch.randn(size, 1, 5, 5),))


def test_what_cannot_be_dynamic():
    x = torch.randn(4, 6)

    def refuses(model, match, axis=0, kind=SymbolicValueError):
        with pytest.raises(kind, match=match):
            torch.onnx.export(model, (x,), dynamic_shapes=({axis: "n"},))

    refuses(lambda x: x.view(2, 12), "axis 'n' cannot be dynamic.*shape '\\[2, 12\\]' is invalid")
    refuses(lambda x: sum(row for row in x), "number of calls depends on the sizes")
    refuses(lambda x: x.exp() if len(x) > 4 else x.log(), "log in one run is exp in another")
    refuses(lambda x: x * (1 / len(x)), f"mul: a number in it depends .*0.25.*{HERE}:")
    refuses(lambda x: x * torch.tensor([[i] for i in range(len(x))]), "came from Python")


def test_bad_requests():
    model, x = small(), torch.zeros(2, 4)

    def refuses(kind, match, *args, **options):
        with pytest.raises(kind, match=match):
            torch.onnx.export(*args, **options)

    refuses(TypeError, "expected a module or a function, got int", 3, (x,))
    refuses(ValueError, "opset_version from 18 to 23, got 17", model, (x,), opset_version=17)
    refuses(ValueError, "opset_version from 18 to 23, got 99", model, (x,), opset_version=99)
    refuses(ValueError, "at most 1 input_names, got 2", model, (x,), input_names=["a", "b"])
    refuses(ValueError, "at most 1 output_names, got 2", model, (x,), output_names=["a", "b"])
    refuses(ValueError, "different names", lambda a, b: a, (x, x), input_names=["a", "a"])
    refuses(ValueError, "dynamic_axes names 'z', expected one of input", model, (x,),
            dynamic_axes={"z": [0]})  # fmt: skip
    refuses(ValueError, "dynamic_shapes names 'z'", model, (x,), dynamic_shapes={"z": {0: "n"}})
    refuses(ValueError, "axis 5 of 'input' is dynamic", model, (x,), dynamic_shapes=({5: "n"},))
    refuses(ValueError, "'n' has size 2 in one input and 4 in 'b'", lambda a, b: a,
            (x, x.t()), dynamic_shapes=({0: "n"}, {0: "n"}))  # fmt: skip
    refuses(ValueError, "size zero", lambda a: a, (torch.zeros(0, 2),), dynamic_shapes=({0: "n"},))
    refuses(
        ValueError,
        "'b', which is no tensor",
        lambda a, b: a,
        (x, 3),
        dynamic_shapes=(None, {0: "n"}),
    )
    refuses(NotImplementedError, "report=True is not supported", model, (x,), report=True)
    refuses(NotImplementedError, "ONNX", model, (x,),
            operator_export_type=OperatorExportTypes.ONNX_ATEN)  # fmt: skip
    batch = types.SimpleNamespace(x=x)
    refuses(TypeError, "in 'x' of a SimpleNamespace", lambda batch: model(batch.x), (batch,))
    refuses(OnnxExporterError, "return tensors, got int", lambda a: (a, 3), (x,))
    refuses(RuntimeError, "cannot be multiplied", model, (torch.zeros(2, 5),))


def test_refusals_name_op_line_and_remedy():
    def model(x):
        return torch.special.digamma(x.exp()) if hasattr(torch, "special") else x.exp().digamma()

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(UnsupportedOperatorError, match=rf"digamma: .*{HERE}:{line}, in model"):
        torch.onnx.export(model, (torch.ones(2),))

    def branches(x):
        return x if x.sum() > 0 else -x

    line = branches.__code__.co_firstlineno + 1
    expected = rf"depend on its inputs.*{HERE}:{line}, in branches.*use torch.where"
    with pytest.raises(UnsupportedOperatorError, match=expected):
        torch.onnx.export(branches, (torch.ones(2),))
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 2, 3), torch.tensor([4, 2]))
    layer = nn.LSTM(3, 2)
    with pytest.raises(UnsupportedOperatorError, match="recurrent: its sequences are packed"):
        torch.onnx.export(lambda x: layer(packed._replace(data=x))[0].data, (torch.randn(6, 3),))


def test_looks_at_constants_are_no_branches():
    limit = torch.tensor(3.0)
    exported(lambda x: x * 2 if limit.item() > 2 else x, (torch.ones(2),))
    exported(lambda x: x // torch.tensor([2, 3]), (torch.tensor([7, 8]),))


def test_old_helpers():
    assert torch.onnx.operators.shape_as_tensor(torch.zeros(2, 3)).tolist() == [2, 3]
    x = torch.onnx.operators.reshape_from_tensor_shape(torch.zeros(6), torch.tensor([2, 3]))
    assert x.shape == (2, 3)
