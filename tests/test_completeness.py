"""Every public op has a row, a docstring, samples of every kind; exceptions are data, and few."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import dtypes as dt
import pytest
from cases import each_op
from library import IS_TORCH, torch
from op_db import OPS
from op_db.row import Value
from op_db.sampler import draw

HERE = Path(__file__).parent
PACKAGE = Path(torch.__file__).parent

# A skip for one library only asks more than PyTorch delivers; a skip for all is a gap in the tests.
MOST_SKIPS = 25
MOST_PYTORCH_SKIPS = 16

AUTOCAST = [name for name in dir(torch) if "autocast_" in name]
# Public callables that are not ops on tensors, with the reason.
NOT_OPS = {
    **dict.fromkeys(AUTOCAST, "the state of autocast; amp/test_autocast.py"),
    "has_torch_function": "a question; test_overrides.py",
    "has_torch_function_unary": "a question; test_overrides.py",
    "has_torch_function_variadic": "a question; test_overrides.py",
    "from_file": "shows a file; test_internal_names.py",
    "manual_seed": "seeds the generator; test_random.py",
    "seed": "seeds the generator; test_random.py",
    "initial_seed": "state of the generator; test_random.py",
    "get_rng_state": "state of the generator; test_random.py",
    "set_rng_state": "state of the generator; test_random.py",
    "ops": "a list; test_op_records.py",
    "set_default_dtype": "a setting",
    "get_default_device": "a setting; test_meta.py",
    "set_default_device": "a setting; test_meta.py",
    "get_default_dtype": "a setting",
    "are_deterministic_algorithms_enabled": "a setting; cuda/test_cuda_settings.py",
    "get_deterministic_debug_mode": "a setting; cuda/test_cuda_settings.py",
    "is_deterministic_algorithms_warn_only_enabled": "a setting; cuda/test_cuda_settings.py",
    "set_deterministic_debug_mode": "a setting; cuda/test_cuda_settings.py",
    "use_deterministic_algorithms": "a setting; cuda/test_cuda_settings.py",
    "get_float32_matmul_precision": "a setting; cuda/test_cuda_settings.py",
    "set_float32_matmul_precision": "a setting; cuda/test_cuda_settings.py",
    "set_grad_enabled": "a grad mode",
    "is_grad_enabled": "a grad mode",
    "vmap": "a transform; autograd/test_vmap.py",
    "is_anomaly_enabled": "a mode; autograd/test_anomaly.py",
    "is_anomaly_check_nan_enabled": "a mode; autograd/test_anomaly.py",
    "set_num_threads": "a setting",
    "get_num_threads": "a setting",
    "set_printoptions": "a setting of printing",
    "get_printoptions": "a setting of printing",
    "printoptions": "a setting of printing",
    "is_inference_mode_enabled": "a grad mode",
    "is_signed": "a question about a dtype",
    "imag": "of complex tensors alone; complex/test_values.py",
    "view_as_real": "of complex tensors alone; complex/test_values.py",
    "view_as_complex": "gives complex tensors; complex/test_values.py",
    "is_conj": "a question about how a tensor is kept",
    "is_neg": "a question about how a tensor is kept",
    "memory_stats": "statistics of the allocator",
    "reset_peak_memory_stats": "statistics of the allocator",
    "empty_cache": "returns cached memory to the system",
    "is_tensor": "a question about a Python object",
    "is_floating_point": "a question about a dtype",
    "promote_types": "a question about dtypes; covered by test_promotion",
    "result_type": "a question about dtypes; covered by test_promotion",
    "can_cast": "a question about dtypes",
    "from_dlpack": "an exchange protocol",
    "to_dlpack": "an exchange protocol",
    "numel": "a question about a shape",
    "broadcast_shapes": "a question about shapes",
}
MOST_NOT_OPS = 50 + len(AUTOCAST)

LAST_NAMES = {(op.path or op.name).rsplit(".", maxsplit=1)[-1] for op in OPS}
VARIANTS = {name for op in OPS for name in (op.method, op.inplace)} - {None, "kwarg"}
# nn.functional's in-place switch has a second form with an underscore.
ROW_NAMES = LAST_NAMES | VARIANTS | {f"{op.name}_" for op in OPS if op.inplace == "kwarg"}


def public_functions(module):
    """Return the names of a module's public functions, leaving out classes and submodules."""
    return [
        name
        for name in dir(module)
        if not name.startswith("_")
        and callable(getattr(module, name))
        and not inspect.isclass(getattr(module, name))
    ]


def test_names_are_unique():
    names = [op.name for op in OPS]
    assert len(set(names)) == len(names)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch has more ops than the database")
@pytest.mark.parametrize("namespace", ["", "nn.functional"])
def test_every_public_function_has_a_row(namespace):
    module = torch.nn.functional if namespace else torch
    known = ROW_NAMES | NOT_OPS.keys() | composed_names()
    first_names = [getattr(module, name) for name in known if hasattr(module, name)]
    missing = [
        name
        for name in public_functions(module)
        if name not in known and not is_one_of(getattr(module, name), first_names)
    ]
    assert not missing, f"no row in op_db, and no reason in NOT_OPS: {missing}"


def is_one_of(function, functions):
    """Whether a function is a second name of another, which is the one that is tested."""
    return any(function is other for other in functions)


def composed_names():
    """Return the ops that tests call by name: ops made of other ops, without rows."""
    found = set()
    for path in (
        HERE / "test_composed.py",
        HERE / "test_parity_names.py",
        HERE / "test_settings.py",
        HERE / "test_small_names.py",
        *(HERE / "nn").glob("test_*.py"),
        *(HERE / "sparse_tensors").glob("test_*.py"),
    ):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        texts = [constant for constant in constants if isinstance(constant, str)]
        found |= {*texts, *(name for text in texts for name in re.findall(r"\.(\w+)\(", text))}
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        found |= {call.attr for call in calls if isinstance(call, ast.Attribute)}
    return found


@pytest.mark.skipif(IS_TORCH, reason="PyTorch has more methods than the database")
def test_every_inplace_method_has_a_row():
    """A method that ends in an underscore writes: it must be tested."""
    names = [n for n in dir(torch.Tensor) if n.endswith("_") and not n.startswith("_")]
    known = ROW_NAMES | composed_names()
    known |= {"requires_grad_", "retain_grad_", "detach_", "zero_", "fill_"}
    first_names = [getattr(torch.Tensor, name) for name in known if hasattr(torch.Tensor, name)]
    missing = [
        name
        for name in names
        if name not in known and not is_one_of(getattr(torch.Tensor, name), first_names)
    ]
    assert not missing, f"no row in op_db: {missing}"


@pytest.mark.skipif(IS_TORCH, reason="PyTorch documents some of its methods elsewhere")
@each_op("test_docstring")
def test_docstring(op):
    if not op.wrapper and "__" not in op.path:
        check_docstring(op.function(), op.name)
    for name in (op.method, op.inplace):
        if name not in (None, "kwarg"):
            check_docstring(getattr(torch.Tensor, name), f"Tensor.{name}")


def check_docstring(function, name):
    text = inspect.getdoc(function)
    assert text and len(text) > 20, f"{name} has no docstring"


def kinds(op):
    """Return which special kinds of input a row's samples contain."""
    found = set()
    for dtype in op.dtypes[:2]:
        for sample in draw(op, dtype):
            values = sample.values()
            found |= {"zero_size"} if any(v.array.size == 0 for v in values) else set()
            found |= {"zero_dim"} if values and values[0].array.ndim == 0 else set()
    return found


@each_op("test_samples_cover_every_kind")
def test_samples_cover_every_kind(op):
    present = kinds(op)
    for kind in ("zero_size", "zero_dim"):
        has_reason = len(op.missing.get(kind, "")) > 8
        assert (kind in present) != has_reason, (
            f"{op.name}: {kind} input needs a sample or a reason"
        )


@each_op("test_row_is_sound")
def test_row_is_sound(op):
    assert set(op.dtypes) <= set(dt.ALL)
    assert len(set(op.dtypes)) == len(op.dtypes)
    assert op.gradient_order in (0, 1, 2)
    assert not op.gradient_order or "float64" in op.dtypes, "gradients are checked in float64"
    for dtype in op.dtypes:
        samples = draw(op, dtype)
        assert samples, f"{op.name} has no samples in {dtype}"
        again = draw(op, dtype)
        assert repr(samples) == repr(again), f"{op.name}: samples must be the same in every run"
    assert op.bad or op.path or op.family == "random", f"{op.name} states no call that it refuses"


def defined_tests():
    """Return the names of all test functions, read from their source."""
    names = set()
    for path in HERE.glob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return names


def test_skips_are_few_and_reasoned():
    skips = [(op, skip) for op in OPS for skip in op.skips]
    tests = defined_tests()
    for op, skip in skips:
        assert skip.test in tests, f"{op.name} skips {skip.test}, which does not exist"
        assert len(skip.reason) > 8, f"{op.name} skips {skip.test} without a reason"
        assert skip.library in ("", "torch")
    everywhere = [skip for _, skip in skips if not skip.library]
    assert len(everywhere) <= MOST_SKIPS
    assert len(skips) - len(everywhere) <= MOST_PYTORCH_SKIPS


def test_exclusions_are_few_and_reasoned():
    assert len(NOT_OPS) <= MOST_NOT_OPS
    assert all(len(reason) > 8 for reason in NOT_OPS.values())
    overlap = NOT_OPS.keys() & LAST_NAMES
    assert not overlap, f"both an op and not an op: {overlap}"


def test_values_are_of_their_dtype():
    """A sample's array holds only values that its dtype can hold."""
    for op in OPS:
        for dtype in op.dtypes:
            for value in (v for sample in draw(op, dtype) for v in sample.values()):
                assert isinstance(value, Value)
                assert value.array.dtype == dt.storage(value.dtype), f"{op.name} {value}"


@pytest.mark.skipif(IS_TORCH, reason="about tapegrad's own files")
@pytest.mark.parametrize(
    "script", ["make_names.py", "make_ops_page.py", "make_package_stub.py", "make_stubs.py"]
)
def test_generated_files_are_up_to_date(script):
    command = [sys.executable, HERE.parent / "scripts" / script, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(IS_TORCH, reason="reads tapegrad's own files")
def test_public_names_can_be_found_by_grep():
    files = [
        PACKAGE / name
        for name in ("__init__.py", "_aliases.py", "_method_functions.py", "_names.py")
    ]
    words = {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}
    public = {name for name, value in vars(torch).items() if not inspect.ismodule(value)}
    assert not {name for name in public - words if not name.startswith("_")}


@pytest.mark.skipif(IS_TORCH, reason="reads tapegrad's own files")
def test_methods_that_python_adds_can_be_found_by_grep():
    sources = [file.read_text("utf-8") for file in PACKAGE.rglob("*.py")]
    assigned = {name for text in sources for name in re.findall(r"\bTensor\.(\w+) = ", text)}
    added = {name for name, value in vars(torch.Tensor).items() if inspect.isfunction(value)}
    assert added and not added - assigned


@pytest.mark.skipif(IS_TORCH, reason="looks into our native module")
def test_every_activation_of_the_table_is_in_nn_functional():
    table = torch._C.pointwise_table()
    names = {row["name"] for row in table if row["activation"] and not row["internal"]}
    assert names and not names - set(torch.nn.functional.__all__)


@pytest.mark.skipif(IS_TORCH, reason="looks into our native module")
def test_every_native_return_type_is_public():
    assert torch.return_types.__all__ == sorted(vars(torch._C._return_types))
