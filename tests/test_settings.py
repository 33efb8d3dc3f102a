"""Switches of the process, questions about devices that are not there, and versions."""

import importlib
import sys
import warnings

import pytest
from library import IS_TORCH, torch


def small(count):
    """Return numbers below those that have all digits in float32."""
    return torch.full((count,), 1e-40)


@pytest.fixture
def no_flushing_later():
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("no_flushing_later")
def test_small_numbers_are_flushed_to_zero():
    x = small(3)
    assert torch.set_flush_denormal(True)
    assert (x * 1).tolist() == [0] * 3
    assert torch.set_flush_denormal(False)
    assert (x * 1).tolist() != [0] * 3
    with pytest.raises(RuntimeError, match="flush_denormal expects a bool, but got int"):
        torch.set_flush_denormal(1)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch's other threads keep them")
@pytest.mark.usefixtures("no_flushing_later")
def test_small_numbers_are_flushed_on_all_threads_that_help():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x = small(1 << 20)
        for _ in range(2):  # the other thread exists already the second time
            torch.set_flush_denormal(True)
            flushed = x * 1
            torch.set_flush_denormal(False)
            kept = x * 1
            assert int((flushed != 0).sum()) == 0
            assert int((kept != 0).sum()) == x.numel()
    finally:
        torch.set_num_threads(threads)


def test_threads_between_ops_are_a_number(monkeypatch):
    if not IS_TORCH:
        monkeypatch.setattr(sys.modules["tapegrad._settings"], "_interop_threads", None)
    assert torch.get_num_interop_threads() >= 1 and torch.init_num_threads() is None
    with pytest.raises(RuntimeError, match="expects a positive integer"):
        torch.set_num_interop_threads(0)
    with pytest.raises(RuntimeError, match="expects an int, but got float"):
        torch.set_num_interop_threads(2.5)
    torch.set_num_interop_threads(3)
    assert torch.get_num_interop_threads() == 3
    with pytest.raises(RuntimeError, match="cannot set number of interop threads after"):
        torch.set_num_interop_threads(4)


def test_warn_always():
    assert not torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        assert torch.is_warn_always_enabled()
    finally:
        torch.set_warn_always(False)
    with pytest.raises(RuntimeError, match="expects a bool, but got int"):
        torch.set_warn_always(1)


@pytest.mark.skipif(IS_TORCH, reason="the warning is tapegrad's own")
def test_what_is_said_once_is_said_each_time():
    from tapegrad.profiler.devices import warn_of_events

    def count():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_events("a test")
        return len(caught)

    count()
    assert count() == 0
    torch.set_warn_always(True)
    try:
        assert (count(), count()) == (1, 1)
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("name", ["mps", "mtia", "xpu"])
def test_other_devices_are_not_there(name):
    module = importlib.import_module(f"{torch.__name__}.{name}")
    assert not module.is_available() and module.device_count() == 0
    assert not getattr(torch.ones(1), f"is_{name}")


def test_tensors_are_on_no_other_device():
    x = torch.ones(1)
    kinds = ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu")
    assert not any(getattr(x, f"is_{kind}") for kind in kinds)
    assert x.const_data_ptr() == x.data_ptr()


def test_back_ends():
    backends = torch.backends
    assert backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    assert backends.mha.get_fastpath_enabled()
    backends.mha.set_fastpath_enabled(False)
    assert not backends.mha.get_fastpath_enabled()
    backends.mha.set_fastpath_enabled(True)
    with backends.nnpack.flags(False):
        assert backends.nnpack.set_flags(False) == (False,)
    assert backends.nnpack.set_flags(True) == (True,)
    assert (backends.mkl.VERBOSE_OFF, backends.mkl.VERBOSE_ON) == (0, 1)
    assert isinstance(backends.mkl.is_available(), bool)
    assert isinstance(backends.openmp.is_available(), bool)


def test_modules_of_devices():
    assert torch.get_device_module("cpu") is torch.cpu
    assert torch.get_device_module(torch.device("cuda", 0)) is torch.cuda
    here = torch.cuda if torch.cuda.is_available() else torch.cpu
    assert torch.get_device_module() is here
    with pytest.raises(RuntimeError, match="does not have a corresponding module"):
        torch.get_device_module("meta")
    with pytest.raises(RuntimeError, match="Invalid value of device '3'"):
        torch.get_device_module(3)


def test_streams_of_the_cpu():
    cpu = torch.cpu
    first, mine, event = cpu.current_stream(), cpu.Stream(), cpu.Event()
    with cpu.stream(mine):
        assert cpu.current_stream() is mine
        with cpu.stream(None):
            assert cpu.current_stream() is mine
        event.record(mine)
    assert cpu.current_stream() is first
    mine.wait_stream(first)
    mine.wait_event(event)
    assert event.query() and cpu.is_initialized()


VERSIONS = ("1.9.1", "1.10", "2.13.0a1", "2.13.0.dev5", "2.13.0rc1", "2.13", "2.13.0", "2.13.0+cpu")


def test_versions_are_ordered():
    make = torch.torch_version.TorchVersion
    for i, a in enumerate(VERSIONS):
        for j, b in enumerate(VERSIONS):
            if {a, b} in ({"2.13.0a1", "2.13.0.dev5"}, {"2.13", "2.13.0"}):
                continue
            assert (make(a) < b, make(a) == b, make(a) > make(b)) == (i < j, i == j, i > j)
    assert make("2.13.0.dev5") < "2.13.0a1" and make("2.13") == "2.13.0"
    assert make("2.13.0") >= (2, 13) and make("2.13.0") < (2, 14, 1)
    assert make("parrot") > "2.13.0" and make("2.13.0") < "parrot"
    assert make("1.0.post1") > "1.0" and make("1!1.0") > "2.0" and make("1.0+b") < "1.0+1"
    assert len({make("2.13"), "2.13"}) == 2 or hash(make("2.13")) == hash("2.13")
    assert isinstance(make("2.13"), str)


def test_generators_are_cloned():
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    other = generator.clone_state()
    assert torch.equal(torch.rand(4, generator=other), torch.rand(4, generator=generator))
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        generator.get_offset()
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        generator.set_offset(4)


def test_errors_of_accelerators():
    assert issubclass(torch.AcceleratorError, RuntimeError)
    if torch.cuda.is_available():
        with pytest.raises(torch.AcceleratorError, match="invalid device ordinal") as caught:
            torch.cuda.set_device(99)
        assert caught.value.error_code == 101
