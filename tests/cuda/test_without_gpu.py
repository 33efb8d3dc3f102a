"""What is said where no device can be used, and that nothing is loaded before it is asked for."""

import os
import subprocess
import sys

import pytest
from library import IS_SANITIZED, torch

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="its children need the sanitizer's runtime")
CALLS = [
    "torch.cuda.current_device()",
    "torch.cuda.set_device(0)",
    "torch.cuda.synchronize()",
    "torch.cuda.get_device_name()",
    "torch.cuda.get_device_properties(0)",
    "torch.cuda.init()",
    "torch.cuda.Stream()",
    "torch.cuda.current_stream()",
    "torch.cuda.Event().record()",
    "torch.cuda.mem_get_info()",
    "torch.cuda.memory_summary()",
    "torch.cuda.initial_seed()",
    "torch.cuda.get_rng_state()",
    "torch.cuda.device(0).__enter__()",
    "torch.accelerator.current_device_index()",
    "torch.accelerator.synchronize()",
    "torch.empty(2, device='cuda')",
    "torch.empty(2, device='cuda:1')",
    "torch.ones(2).to('cuda')",
    "torch.ones(2).cuda()",
    "torch.nn.Linear(2, 2).cuda()",
    "torch.Generator('cuda')",
    "torch.set_default_device('cuda')",
    "torch.ones(2).pin_memory()",
    "torch.ones(2, pin_memory=True)",
]
QUIET = """
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
assert not torch.cuda.is_initialized() and torch.cuda.get_arch_list() == []
assert torch.cuda.memory_allocated() == torch.cuda.max_memory_reserved() == 0
assert torch.cuda.memory_stats() == {} and torch.cuda.memory_snapshot() == []
assert not torch.cuda.is_bf16_supported() and not torch.cuda.is_tf32_supported()
torch.cuda.manual_seed(1), torch.cuda.manual_seed_all(1), torch.cuda.seed()
torch.cuda.empty_cache()
assert torch.cuda.get_rng_state_all() == [] and not torch.ones(2).is_pinned()
assert torch.accelerator.current_accelerator() is None and not torch.accelerator.is_available()
assert torch.rand(2).sum() > 0
"""


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", "import tapegrad as torch\n" + script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def messages(**environment):
    """Return what each call says where there is no device."""
    script = "".join(
        f"try:\n    {call}\n    print('none')\nexcept RuntimeError as e:\n    print(e)\n"
        for call in CALLS
    )
    return run(script, **environment).splitlines()


def test_no_driver():
    said = messages(TAPEGRAD_CUDA_DRIVER="/nonexistent/libcuda.so.1")
    assert len(said) == len(CALLS)
    for call, text in zip(CALLS, said, strict=True):
        assert "NVIDIA's driver was not found (/nonexistent/libcuda.so.1" in text, call
        assert text.endswith("install the driver of the GPU, or use device='cpu'"), call
    assert said[-1].startswith(
        "pin_memory: Cannot access accelerator device when none is available: "
    )


def test_a_driver_that_is_too_old():
    said = messages(TAPEGRAD_CUDA_DRIVER="libm.so.6")
    assert all("has no function cuInit; update it to CUDA 12 or newer" in text for text in said)


def test_a_driver_without_a_device():
    if "TAPEGRAD_CUDA_DRIVER" not in os.environ:
        pytest.skip("runs on the emulator, and there is a GPU")
    said = messages(TAPEGRAD_EMULATED_DEVICES="0")
    assert all("no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)" in s for s in said)


def test_what_needs_no_device():
    run(QUIET, TAPEGRAD_CUDA_DRIVER="/nonexistent")


def test_nothing_is_loaded_before_it_is_asked_for():
    script = """if True:
        import sys
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()
        torch.manual_seed(0)
        later = ["accelerator", "backends", "cuda", "cuda.memory", "version"]
        print([name for name in later if f"tapegrad.{name}" in sys.modules])
        maps = open("/proc/self/maps").read()
        print("libcuda" in maps or "libemulator" in maps)
    """
    assert run(script) == "[]\nFalse\n"


def test_the_version_of_cuda():
    said = run("print(torch.version.cuda)", TAPEGRAD_CUDA_DRIVER="/nonexistent").strip()
    assert said == "None" or said.split(".")[0] in ("12", "13")


def test_index_of_a_device_is_parsed():
    for bad in ("cuda:-1", "cuda:x", "cuda:"):
        with pytest.raises(RuntimeError, match="invalid device string"):
            torch.empty(1, device=bad)
