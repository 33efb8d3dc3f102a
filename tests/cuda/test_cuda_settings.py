"""torch.backends, torch.version, the precision of products, profiler marks."""

import subprocess
import sys

import pytest
from library import torch

matmul = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def settings():
    before = torch._C._cuda_matmul_settings()
    yield
    torch._C._cuda_set_matmul_settings(**before)


def test_precision_of_float32_products():
    assert torch.get_float32_matmul_precision() == "highest" and matmul.allow_tf32 is False
    for precision in ("high", "medium"):
        torch.set_float32_matmul_precision(precision)
        assert torch.get_float32_matmul_precision() == precision and matmul.allow_tf32 is True
    matmul.allow_tf32 = False
    assert torch.get_float32_matmul_precision() == "highest"
    matmul.allow_tf32 = True
    assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(RuntimeError, match=r"expected 'highest', 'high' or 'medium', got 'best'"):
        torch.set_float32_matmul_precision("best")


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("allow_fp16_reduced_precision_reduction", True),
        ("allow_bf16_reduced_precision_reduction", True),
        ("allow_fp16_accumulation", False),
    ],
)
def test_reductions_of_halves(name, default):
    assert getattr(matmul, name) is default
    setattr(matmul, name, not default)
    assert getattr(matmul, name) is not default
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(TypeError, match=f"{name} expects a bool"):
        setattr(matmul, name, 3)


def test_deterministic_algorithms():
    def state():
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_deterministic_debug_mode(),
        )

    assert state() == (False, False, 0)
    try:
        torch.use_deterministic_algorithms(True)
        assert state() == (True, False, 2)
        for mode, expected in (("warn", (True, True, 1)), (2, (True, False, 2))):
            torch.set_deterministic_debug_mode(mode)
            assert state() == expected
        for wrong, error in ((3, RuntimeError), ("all", RuntimeError), (True, TypeError)):
            with pytest.raises(error, match="set_deterministic_debug_mode: "):
                torch.set_deterministic_debug_mode(wrong)
        with pytest.raises(TypeError, match="expected mode to be a bool, got int"):
            torch.use_deterministic_algorithms(1)
    finally:
        torch.use_deterministic_algorithms(False)
    assert state() == (False, False, 0)


def test_precision_in_words():
    assert matmul.fp32_precision == "ieee"
    matmul.fp32_precision = "tf32"
    assert matmul.allow_tf32 and torch.get_float32_matmul_precision() == "high"
    matmul.fp32_precision = "none"
    assert not matmul.allow_tf32
    with pytest.raises(RuntimeError, match="expected 'ieee', 'tf32' or 'none' for matmul"):
        matmul.fp32_precision = "bf16"


@pytest.mark.parametrize("name", ["flash", "mem_efficient", "math", "cudnn"])
def test_kernels_of_attention(name):
    """What a program chooses is kept, given back, and changes nothing."""
    cuda = torch.backends.cuda
    is_enabled, enable = getattr(cuda, f"{name}_sdp_enabled"), getattr(cuda, f"enable_{name}_sdp")
    x = torch.linspace(-1, 1, 24).view(1, 1, 6, 4)
    attend = torch.nn.functional.scaled_dot_product_attention
    wanted = attend(x, x, x)
    assert is_enabled()
    with cuda.sdp_kernel(**{f"enable_{name}": False}):
        assert not is_enabled()
        assert torch.equal(attend(x, x, x), wanted)
    assert is_enabled()
    enable(False)
    assert not is_enabled()
    enable(True)


def test_an_unknown_setting():
    with pytest.raises(AttributeError):
        matmul.allow_everything = True


def test_backends():
    assert torch.backends.cuda.is_built()
    assert not torch.backends.mps.is_available() and not torch.backends.mps.is_built()


def test_cudnn():
    cudnn = torch.backends.cudnn
    assert cudnn.is_available() == (cudnn.version() is not None)
    assert not cudnn.is_acceptable(torch.ones(2))
    assert cudnn.is_acceptable(torch.ones(2).cuda()) == cudnn.is_available()
    cudnn.benchmark = True
    with cudnn.flags(enabled=False, deterministic=True):
        assert cudnn.deterministic and not cudnn.enabled and not cudnn.benchmark
        assert cudnn.allow_tf32 and cudnn.fp32_precision == "tf32" and cudnn.benchmark_limit == 10
    assert cudnn.enabled and cudnn.benchmark and not cudnn.deterministic
    assert cudnn.set_flags(_benchmark=False)[1] is True
    assert cudnn.benchmark is False
    cudnn.fp32_precision = "ieee"
    assert cudnn.allow_tf32 is False
    with pytest.raises(TypeError, match="expected a bool, got int"):
        cudnn.benchmark = 1
    with pytest.raises(RuntimeError, match="fp32_precision: expected"):
        cudnn.fp32_precision = "half"


def test_cudnn_to_begin_with():
    """As PyTorch has them; asked in a process that has changed nothing."""
    names = "enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"
    text = "import tapegrad as t; c = t.backends.cudnn; print({})".format(
        ", ".join(f"c.{name}" for name in names)
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout == "True False 10 False True\n", done.stderr


def test_versions():
    version = torch.version
    assert version.__version__ == torch.__version__ and version.hip is None
    assert version.cuda is None or len(version.cuda.split(".")) == 2
    with pytest.raises(AttributeError, match="no attribute 'cudnn'"):
        version.cudnn  # noqa: B018


def test_profiler_range(monkeypatch):
    """The driver is told where it begins and ends, also when the block fails."""
    profiler = torch.cuda.profiler
    profiler.start(), profiler.stop()  # nothing happens where no profiler listens
    told = []
    monkeypatch.setattr(profiler, "_tell", told.append)
    with pytest.raises(KeyError), profiler.profile():
        raise KeyError
    assert told == ["cuProfilerStart", "cuProfilerStop"]


def test_profiler_marks():
    """They do nothing where the library is not installed, and nothing else where it is."""
    nvtx = torch.cuda.nvtx
    nvtx.mark("here")
    depth = nvtx.range_push("outer")
    with nvtx.range("step {}", 3):
        assert nvtx.range_push("inner") >= depth
        nvtx.range_pop()
    nvtx.range_pop()
    nvtx.range_end(nvtx.range_start("apart"))

    @nvtx.range("decorated")
    def function():
        return 5

    assert function() == 5
