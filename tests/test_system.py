"""Memory statistics, threads, default dtype, devices, build facts, import."""

import subprocess
import sys

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

own = pytest.mark.skipif(IS_TORCH, reason="tapegrad's own interface")


without_sanitizers = pytest.mark.skipif(
    IS_SANITIZED, reason="a sanitized build keeps no blocks, and its children need the runtime"
)


CORES = """
import os, time
import tapegrad as torch

def work():
    for _ in range(20):
        time.sleep(0.002)
        x.exp()
    time.sleep(0.05)

def said(wanted):
    # A worker that was woken last may still wait for its turn to put its set back.
    for _ in range(100):
        if os.sched_getaffinity(int(worker)) == wanted:
            break
        time.sleep(0.05)
    print("same" if os.sched_getaffinity(int(worker)) == wanted else "other")

before = set(os.listdir("/proc/self/task"))
x = torch.zeros(1 << 20)
torch.set_num_threads(2)
work()
(worker,) = set(os.listdir("/proc/self/task")) - before
said(os.sched_getaffinity(0))
one = {min(os.sched_getaffinity(0))}
os.sched_setaffinity(int(worker), one)
work()
said(one)
"""


@own
class TestMemory:
    def test_live_bytes_follow_a_tensor(self):
        before = torch.memory_stats()["live_bytes"]
        x = torch.zeros(1 << 18)
        assert torch.memory_stats()["live_bytes"] - before >= 4 << 18
        del x
        assert torch.memory_stats()["live_bytes"] == before

    def test_peak_is_kept_and_reset(self):
        torch.reset_peak_memory_stats()
        start = torch.memory_stats()["peak_bytes"]
        torch.zeros(1 << 18)
        assert torch.memory_stats()["peak_bytes"] - start >= 4 << 18
        torch.reset_peak_memory_stats()
        stats = torch.memory_stats()
        assert stats["peak_bytes"] == stats["live_bytes"]

    @without_sanitizers
    def test_a_freed_block_is_reused(self):
        torch.zeros(1 << 18)
        before = torch.memory_stats()["system_allocations"]
        torch.zeros(1 << 18)
        assert torch.memory_stats()["system_allocations"] == before

    @without_sanitizers
    def test_empty_cache(self):
        torch.zeros(1 << 18)
        assert torch.memory_stats()["cached_bytes"] >= 4 << 18
        torch.empty_cache()
        # Small blocks share slabs, which stay while one of their blocks is in use.
        assert torch.memory_stats()["cached_bytes"] < 1 << 20

    def test_alignment(self):
        for size in (1, 3, 17, 1000, 5000, 1 << 19):
            assert torch.empty(size).data_ptr() % 64 == 0

    def test_an_impossible_allocation_names_its_size_and_the_live_bytes(self):
        with pytest.raises(RuntimeError, match=r"could not get \d+ bytes.*bytes are live"):
            torch.empty(1 << 50)
        assert torch.ones(3).sum().item() == 3


class TestThreads:
    def test_set_and_get(self):
        count = torch.get_num_threads()
        try:
            torch.set_num_threads(1)
            assert torch.get_num_threads() == 1
        finally:
            torch.set_num_threads(count)

    @pytest.mark.parametrize("count", [0, -1])
    def test_refuses(self, count):
        with pytest.raises((ValueError, RuntimeError)):
            torch.set_num_threads(count)

    def test_results_do_not_depend_on_the_number_of_threads(self):
        x = torch.randn(300_000)
        count = torch.get_num_threads()
        results = []
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                results.append(torch.tanh(x) * x.exp())
        finally:
            torch.set_num_threads(count)
        assert torch.equal(*results)

    @own
    @without_sanitizers
    @pytest.mark.skipif(sys.platform != "linux", reason="reads the sets of cores of Linux")
    def test_workers_keep_their_cores(self):
        """A sleeping worker is woken on another core than the caller's: its set is put back."""
        output = subprocess.run(
            [sys.executable, "-c", CORES], capture_output=True, text=True, check=True
        ).stdout
        assert output.split() == ["same", "same"]


class TestDefaultDtype:
    def test_new_tensors_follow(self):
        try:
            torch.set_default_dtype(torch.float64)
            assert torch.tensor(1.0).dtype is torch.float64
            assert torch.ones(2).dtype is torch.float64
            assert (torch.arange(2) / 2).dtype is torch.float64
        finally:
            torch.set_default_dtype(torch.float32)

    def test_refuses_integers(self):
        with pytest.raises(TypeError, match="floating"):
            torch.set_default_dtype(torch.int64)


class TestDevice:
    def test_cpu(self):
        assert torch.ones(2).device == torch.device("cpu")
        assert str(torch.device("cuda:1")) == "cuda:1" and torch.device("cuda", 1).index == 1

    def test_unknown(self):
        with pytest.raises(RuntimeError, match="device"):
            torch.device("toaster")


@own
class TestPackage:
    def test_config(self):
        text = torch.__config__.show().lower()
        for word in ("tapegrad", "compiler", "instruction set", "blas", "threads"):
            assert word in text

    def test_import_is_lean(self, tmp_path):
        """Importing loads neither NumPy nor the BLAS library; both come when first needed."""
        script = (
            "import sys, tapegrad\n"
            "assert 'numpy' not in sys.modules\n"
            "assert 'openblas' not in open('/proc/self/maps').read()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr

    @without_sanitizers
    @pytest.mark.parametrize("isa", ["v2", "v3"])
    def test_every_instruction_set_gives_the_same_answers(self, isa, tmp_path):
        script = (
            "import tapegrad as torch\n"
            "x = torch.linspace(-3, 3, 1001)\n"
            "print((torch.tanh(x) * torch.erf(x) + torch.exp(-x * x)).sum().item(),\n"
            "      torch.softmax(x, 0).max().item(),\n"
            "      (x.view(7, 143) @ x.view(143, 7)).sum().item())\n"
        )
        outputs = []
        for cpu in (isa, "v4"):
            done = subprocess.run(
                [sys.executable, "-c", script],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={"TAPEGRAD_CPU": cpu, "PYTHONPATH": ":".join(sys.path)},
            )
            assert done.returncode == 0, done.stderr
            outputs.append([float(word) for word in done.stdout.split()])
        assert outputs[0] == pytest.approx(outputs[1], rel=1e-5)
