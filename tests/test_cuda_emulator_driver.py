"""The emulator of CUDA's driver and of NVRTC, called as those are, with ctypes."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

import cuda_emulator
import numpy as np
import pytest
from cuda_emulator import driving
from cuda_emulator.driving import CompileError, arguments, machine_without_errors
from library import IS_SANITIZED, IS_TORCH

if IS_TORCH:
    pytest.skip("the emulator is tapegrad's own", allow_module_level=True)
if IS_SANITIZED:
    pytest.skip("fibers change stacks under the sanitizer", allow_module_level=True)
if cuda_emulator.why_unavailable():
    pytest.skip(cuda_emulator.why_unavailable(), allow_module_level=True)

from tapegrad.cuda import pointwise_source


@pytest.fixture
def machine():
    yield from machine_without_errors()


ADD_ONE = """
    struct Arguments { int* data; long long count; };
    TAPEGRAD_KERNEL(add_one, Arguments) {
      const long long i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < arguments.count) arguments.data[i] += 1;
    }
"""


@pytest.fixture
def add_one(machine):
    """Give a function that launches data += 1."""
    function = machine.load(ADD_ONE, "add_one")

    def launch(data, count, stream=None):
        given = arguments(data=data, count=count)
        assert machine.launch(function, (1,), (count,), given, 0, stream) == driving.SUCCESS

    return launch


class TestStreams:
    def test_work_waits_until_somebody_waits_for_it(self, machine, add_one):
        pinned, stream = machine.pinned(4, np.int32), machine.stream()
        data = machine.upload(np.arange(4, dtype=np.int32), stream)
        add_one(data, 4, stream)
        assert machine.copy(pinned.ctypes.data, data, 16, stream) == driving.SUCCESS
        assert set(pinned.view(np.uint32).tolist()) == {0xA5A5A5A5}
        assert machine.synchronize(stream) == driving.SUCCESS
        assert pinned.tolist() == [1, 2, 3, 4]
        machine.free(data)

    def test_streams_do_not_wait_for_each_other(self, machine, add_one):
        first, second, event = machine.stream(), machine.stream(), machine.event()
        data = machine.upload(np.zeros(4, np.int32), first)
        assert machine.synchronize(first) == driving.SUCCESS
        add_one(data, 4, first)
        assert machine.library.cuEventRecord(event, first) == driving.SUCCESS
        assert machine.download(data, 4, np.int32, second).tolist() == [0] * 4
        assert machine.library.cuStreamWaitEvent(second, event, 0) == driving.SUCCESS
        assert machine.download(data, 4, np.int32, second).tolist() == [1] * 4
        machine.free(data)

    def test_an_event_is_the_place_where_it_was_recorded_last(self, machine, add_one):
        first, second, event = machine.stream(), machine.stream(), machine.event()
        data = machine.upload(np.zeros(4, np.int32))
        assert machine.synchronize() == driving.SUCCESS
        assert machine.library.cuStreamWaitEvent(second, event, 0) == driving.SUCCESS
        for _ in range(2):
            add_one(data, 4, first)
            assert machine.library.cuEventRecord(event, first) == driving.SUCCESS
        add_one(data, 4, first)
        assert machine.download(data, 4, np.int32, second).tolist() == [0] * 4
        assert machine.library.cuStreamWaitEvent(second, event, 0) == driving.SUCCESS
        assert machine.library.cuEventRecord(event, first) == driving.SUCCESS
        assert machine.library.cuEventDestroy_v2(event) == driving.SUCCESS
        assert machine.download(data, 4, np.int32, second).tolist() == [2] * 4
        assert machine.synchronize() == driving.SUCCESS
        assert machine.download(data, 4, np.int32, second).tolist() == [3] * 4
        machine.free(data)

    @pytest.mark.parametrize("flags", [0, driving.NON_BLOCKING])
    def test_the_null_stream(self, machine, add_one, flags):
        """It waits for streams that were not made non-blocking, and they wait for it."""
        stream = machine.stream(flags)
        data = machine.upload(np.zeros(4, np.int32))
        assert machine.synchronize() == driving.SUCCESS
        is_waited_for = flags == 0
        add_one(data, 4, stream)
        assert machine.download(data, 4, np.int32).tolist() == [is_waited_for] * 4
        assert machine.synchronize() == driving.SUCCESS
        add_one(data, 4)
        expected = [1 + is_waited_for] * 4
        assert machine.download(data, 4, np.int32, stream).tolist() == expected
        machine.free(data)

    def test_many_launches_between_two_streams(self, machine, add_one):
        stream, data = machine.stream(0), machine.upload(np.zeros(2, np.int32))
        for _ in range(5000):
            add_one(data, 2)
            add_one(data, 2, stream)
        assert machine.download(data, 2, np.int32).tolist() == [10000, 10000]
        machine.free(data)

    def test_pageable_memory_is_read_at_the_call_and_pinned_memory_later(self, machine):
        stream = machine.stream()
        for source, seen in ((np.ones(4), 1), (machine.pinned(4, np.float64), 2)):
            source[:] = 1
            data = machine.upload(source, stream)
            source[:] = 2
            assert machine.download(data, 4, np.float64, stream).tolist() == [seen] * 4
            machine.free(data)

    def test_registered_memory_is_pinned(self, machine):
        stream, source = machine.stream(), np.ones(1000)
        address, library = c_void_p(source.ctypes.data), machine.library
        assert library.cuMemHostRegister_v2(address, c_size_t(source.nbytes), 0) == 0
        assert library.cuMemHostRegister_v2(address, c_size_t(8), 0) == 712
        data = machine.upload(source, stream)
        source[:] = 2
        assert library.cuMemHostUnregister(address) == 0, "waits for the copy"
        assert library.cuMemHostUnregister(address) == 713
        source[:] = 3
        assert set(machine.download(data, 1000, np.float64, stream).tolist()) == {2}
        machine.free(data)

    def test_queries(self, machine, add_one):
        """Not ready at first, so that both answers are seen; ready when asked again."""
        library, stream, event = machine.library, machine.stream(), machine.event()
        data = machine.upload(np.zeros(4, np.int32))
        assert library.cuStreamQuery(stream) == driving.SUCCESS
        assert library.cuEventQuery(event) == driving.SUCCESS
        add_one(data, 4, stream)
        assert library.cuEventRecord(event, stream) == driving.SUCCESS
        assert library.cuEventQuery(event) == driving.NOT_READY
        assert library.cuStreamQuery(stream) == driving.NOT_READY
        assert library.cuStreamQuery(stream) == driving.SUCCESS
        assert library.cuEventQuery(event) == driving.SUCCESS
        machine.free(data)

    def test_time_between_events(self, machine, add_one):
        library, events, span = machine.library, [machine.event(), machine.event()], c_float(-1)
        data = machine.upload(np.zeros(256, np.int32))
        assert library.cuEventElapsedTime(byref(span), *events) == driving.INVALID_HANDLE
        assert library.cuEventRecord(events[0], None) == driving.SUCCESS
        add_one(data, 256)
        assert library.cuEventRecord(events[1], None) == driving.SUCCESS
        assert library.cuEventElapsedTime(byref(span), *events) == driving.NOT_READY
        assert library.cuEventSynchronize(events[1]) == driving.SUCCESS
        assert library.cuEventElapsedTime(byref(span), *events) == driving.SUCCESS
        assert 0 < span.value < 10000
        without_time = machine.event(2)
        assert library.cuEventRecord(without_time, None) == driving.SUCCESS
        assert machine.synchronize() == driving.SUCCESS
        status = library.cuEventElapsedTime(byref(span), events[0], without_time)
        assert status == driving.INVALID_HANDLE
        machine.free(data)

    def test_fills(self, machine):
        data = machine.upload(np.zeros(8, np.uint8))
        fill = machine.library.cuMemsetD8Async
        assert fill(c_ulonglong(data + 2), 7, c_size_t(3), None) == driving.SUCCESS
        assert fill(c_ulonglong(data + 2), 7, c_size_t(7), None) == driving.INVALID_VALUE
        assert machine.download(data, 8, np.uint8).tolist() == [0, 0, 7, 7, 7, 0, 0, 0]
        machine.free(data)

    def test_threads_of_the_host(self, machine):
        function = machine.load(ADD_ONE, "add_one")
        data, failures = machine.upload(np.zeros(32, np.int32)), []
        assert machine.synchronize() == driving.SUCCESS

        def work():
            machine.use_device(0)
            for _ in range(100):
                given = arguments(data=data, count=32)
                failures.append(machine.launch(function, (1,), (32,), given))
                failures.append(machine.synchronize())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(failures) == {driving.SUCCESS}
        assert set(machine.download(data, 32, np.int32).tolist()) == {400}
        machine.free(data)


class TestMemory:
    def test_memory_begins_as_garbage_and_is_aligned(self, machine):
        pieces = [machine.allocate(nbytes) for nbytes in (1, 100, 512, 5000)]
        for data, nbytes in zip(pieces, (1, 100, 512, 5000), strict=True):
            assert data % 512 == 0
            assert set(machine.download(data, nbytes, np.uint8).tolist()) == {0xA5}
            machine.free(data)

    def test_out_of_memory(self, machine):
        free, total, data = c_size_t(), c_size_t(), c_ulonglong()
        assert machine.library.cuMemGetInfo_v2(byref(free), byref(total)) == driving.SUCCESS
        assert total.value >= free.value
        too_much = c_size_t(free.value + 1)
        assert machine.library.cuMemAlloc_v2(byref(data), too_much) == driving.OUT_OF_MEMORY
        first, before = machine.allocate(free.value // 2), free.value
        assert machine.library.cuMemAlloc_v2(byref(data), free) == driving.OUT_OF_MEMORY
        assert machine.library.cuMemGetInfo_v2(byref(free), byref(total)) == driving.SUCCESS
        assert before // 2 - 512 <= free.value <= before // 2
        machine.free(first)
        assert machine.library.cuMemGetInfo_v2(byref(free), byref(total)) == driving.SUCCESS
        assert free.value == before

    def test_attributes_of_pointers(self, machine):
        def attribute(data, number, kind=c_uint):
            value = kind()
            status = machine.library.cuPointerGetAttribute(byref(value), number, c_ulonglong(data))
            return value.value if status == driving.SUCCESS else -status

        machine.use_device(1)
        data, pinned = machine.allocate(1000), machine.pinned(16, np.uint8)
        machine.use_device(0)
        assert attribute(data + 5, 2) == 2
        assert attribute(data + 5, 9) == 1
        assert attribute(data + 5, 11, c_ulonglong) == data
        assert attribute(data + 5, 12, c_ulonglong) == 1000
        assert attribute(pinned.ctypes.data, 2) == 1
        assert attribute(np.ones(1).ctypes.data, 2) == -driving.INVALID_VALUE
        assert attribute(data + 1000, 2) == -driving.INVALID_VALUE
        machine.free(data)
        assert machine.library.cuMemFreeHost(c_void_p(pinned.ctypes.data)) == driving.SUCCESS

    def test_copies_stay_within_an_allocation(self, machine):
        data, host = machine.allocate(16), np.zeros(32, np.uint8)
        assert machine.copy(data, host.ctypes.data, 17) == driving.INVALID_VALUE
        assert machine.copy(host.ctypes.data, data + 8, 9) == driving.INVALID_VALUE
        assert machine.copy(data + 8, host.ctypes.data, 8) == driving.SUCCESS
        machine.free(data)

    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_the_host_cannot_reach_it(self, machine, moment):
        """Also after work has run there, for which it was open."""
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGSEGV
            return
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        data = machine.upload(np.arange(4, dtype=np.int32))
        if moment == "after":
            machine.download(data, 4, np.int32)
        ctypes.string_at(data, 4)
        os._exit(0)


class TestDevices:
    def test_they_are_described(self, machine):
        library, value = machine.library, c_int()
        assert library.cuDeviceGetCount(byref(value)) == driving.SUCCESS
        assert value.value == 2
        for attribute, expected in ((75, 9), (76, 0), (16, 132), (10, 32), (97, 232448)):
            status = library.cuDeviceGetAttribute(byref(value), attribute, 0)
            assert (status, value.value) == (driving.SUCCESS, expected)
        assert library.cuDeviceGet(byref(value), 2) == 101
        name = ctypes.create_string_buffer(100)
        assert library.cuDeviceGetName(name, 100, 1) == driving.SUCCESS
        assert name.value == b"Emulated GPU"
        uuids = [ctypes.create_string_buffer(16) for _ in range(2)]
        for device in range(2):
            assert library.cuDeviceGetUuid(uuids[device], device) == driving.SUCCESS
        assert uuids[0].raw != uuids[1].raw

    def test_handles_belong_to_a_device(self, machine):
        function, stream, event = (
            machine.load(ADD_ONE, "add_one"),
            machine.stream(),
            machine.event(),
        )
        machine.use_device(1)
        other = machine.stream()
        given = arguments(data=machine.allocate(4), count=1)
        assert machine.launch(function, (1,), (1,), given) == driving.INVALID_HANDLE
        assert machine.library.cuStreamSynchronize(stream) == driving.INVALID_HANDLE
        assert machine.library.cuEventRecord(event, other) == driving.INVALID_HANDLE
        assert machine.library.cuStreamWaitEvent(other, event, 0) == driving.SUCCESS

    def test_copies_between_devices(self, machine):
        first = machine.upload(np.arange(5.0))
        assert machine.synchronize() == driving.SUCCESS
        machine.use_device(1)
        second = machine.allocate(40)
        assert machine.copy(second, first, 40) == driving.SUCCESS
        assert machine.download(second, 5, np.float64).tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(("count", "status"), [("0", 100), ("5", 0)])
    def test_number_and_memory_are_chosen(self, count, status):
        program = (
            "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); n = ctypes.c_int()\n"
            "m = ctypes.c_size_t(); print(library.cuInit(0))\n"
            "library.cuDeviceGetCount(ctypes.byref(n)); print(n.value)\n"
            "library.cuDeviceTotalMem_v2(ctypes.byref(m), 0); print(m.value)"
        )
        variables = {"TAPEGRAD_EMULATED_DEVICES": count, "TAPEGRAD_EMULATED_MEMORY": "4096"}
        done = subprocess.run(
            [sys.executable, "-c", program, cuda_emulator.library()],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        memory = 4096 if count != "0" else 0
        assert [int(line) for line in done.stdout.split()] == [status, int(count), memory]

    def test_errors_have_names(self, machine):
        for function, expected in (
            (machine.library.cuGetErrorName, b"CUDA_ERROR_OUT_OF_MEMORY"),
            (machine.library.cuGetErrorString, b"out of memory"),
        ):
            text = ctypes.c_char_p()
            assert function(driving.OUT_OF_MEMORY, byref(text)) == driving.SUCCESS
            assert text.value == expected
            assert function(12345, byref(text)) == driving.INVALID_VALUE


class TestLaunches:
    @pytest.mark.parametrize(
        ("grid", "block", "shared"),
        [
            ((0,), (1,), 0),
            ((1,), (0,), 0),
            ((1,), (1025,), 0),
            ((1,), (32, 33), 0),
            ((1,), (1, 1, 65), 0),
            ((1, 65536), (1,), 0),
            ((1,), (1,), 49153),
        ],
    )
    def test_limits(self, machine, grid, block, shared):
        function = machine.load(ADD_ONE, "add_one")
        given = arguments(data=0, count=0)
        assert machine.launch(function, grid, block, given, shared) == driving.INVALID_VALUE

    def test_more_shared_memory_is_asked_for(self, machine):
        function, given = machine.load(ADD_ONE, "add_one"), arguments(data=0, count=0)
        set_attribute = machine.library.cuFuncSetAttribute
        assert set_attribute(function, 8, 232449) == driving.INVALID_VALUE
        assert set_attribute(function, 8, 232448) == driving.SUCCESS
        assert machine.launch(function, (1,), (1,), given, 232448) == driving.SUCCESS
        assert machine.launch(function, (1,), (1,), given, 232449) == driving.INVALID_VALUE

    def test_arguments_of_the_wrong_size(self, machine):
        function = machine.load(ADD_ONE, "add_one")
        assert machine.launch(function, (1,), (1,), arguments(data=0)) == driving.INVALID_VALUE
        too_many = arguments(a=0, b=0, c=0, d=0)
        assert machine.launch(function, (1,), (1,), too_many) == driving.INVALID_VALUE

    def test_parameters_one_by_one(self, machine):
        text = """
            extern "C" __global__ void fill(float* out, short count, double value, bool negate) {
              if (threadIdx.x < count) out[threadIdx.x] = negate ? -value : value;
            }
        """
        function, out = machine.load(text, "fill"), machine.upload(np.zeros(4, np.float32))
        values = [c_ulonglong(out), ctypes.c_short(3), ctypes.c_double(2.5), ctypes.c_bool(True)]
        addresses = (c_void_p * 4)(*(ctypes.addressof(value) for value in values))
        sizes = [c_uint(size) for size in (1, 1, 1, 8, 1, 1, 0)]
        status = machine.library.cuLaunchKernel(function, *sizes, None, addresses, None)
        for value in values:
            value.value = 0  # they were read by the launch
        assert status == driving.SUCCESS
        assert machine.download(out, 4, np.float32).tolist() == [-2.5, -2.5, -2.5, 0]
        given = arguments(
            out=out, count=ctypes.c_short(4), value=ctypes.c_double(1), negate=ctypes.c_bool(False)
        )
        assert machine.launch(function, (1,), (8,), given) == driving.SUCCESS
        assert machine.download(out, 4, np.float32).tolist() == [1, 1, 1, 1]
        machine.free(out)

    def test_what_is_not_there(self, machine):
        module, function = machine.module(machine.compile(ADD_ONE)), c_void_p()
        get = machine.library.cuModuleGetFunction
        assert get(byref(function), module, b"add_two") == driving.NOT_FOUND
        load = machine.library.cuModuleLoadData
        assert load(byref(module), b"no image") == driving.INVALID_IMAGE

    def test_modules_do_not_share_names(self, machine):
        text = "struct Arguments { int* out; };\n__device__ int answer = VALUE;\n" + (
            "TAPEGRAD_KERNEL(give, Arguments) { *arguments.out = answer++; }"
        )
        functions = [machine.load(text, "give", [f"-DVALUE={n}"]) for n in (10, 20)]
        out, seen = machine.upload(np.zeros(1, np.int32)), []
        for function in (*functions, *functions):
            assert machine.launch(function, (1,), (1,), arguments(out=out)) == driving.SUCCESS
            seen += machine.download(out, 1, np.int32).tolist()
        assert seen == [10, 20, 11, 21]
        machine.free(out)


class TestCompiler:
    def test_errors_are_in_the_log(self, machine):
        text = "struct A {};\nTAPEGRAD_KERNEL(bad, A) {\n  no_such_function(1);\n}\n"
        with pytest.raises(CompileError, match=r"test\.cu\(3\): error: .*no_such_function"):
            machine.compile(text)

    @pytest.mark.parametrize(
        "options",
        [["-DN=5"], ["-D", "N=5"], ["--define-macro=N=5"], ["--define-macro", "N=5", "-Q"]],
        ids=" ".join,
    )
    def test_macros(self, machine, options):
        text = "struct A { int* out; };\nTAPEGRAD_KERNEL(give, A) { *arguments.out = N; }"
        out = machine.upload(np.zeros(1, np.int32))
        function = machine.load(text, "give", [*options, "--gpu-architecture=sm_90"])
        assert machine.launch(function, (1,), (1,), arguments(out=out)) == driving.SUCCESS
        assert machine.download(out, 1, np.int32).tolist() == [5]
        machine.free(out)

    def test_results_are_kept(self, machine, tmp_path, monkeypatch):
        monkeypatch.setenv("TAPEGRAD_EMULATOR_CACHE", str(tmp_path))
        text = "struct A { int* out; };\nTAPEGRAD_KERNEL(give, A) { *arguments.out = N; }"
        first = machine.compile(text, ["-DN=1"])
        (kept,) = tmp_path.glob("*.so")
        written = kept.stat().st_mtime_ns
        assert machine.compile(text, ["-DN=1"]) == first
        assert kept.stat().st_mtime_ns == written
        machine.compile(text, ["-DN=2"])
        assert len(list(tmp_path.glob("*.so"))) == 2
        with pytest.raises(CompileError):
            machine.compile(text)
        assert len(list(tmp_path.glob("*.so"))) == 2
        assert not [path for path in tmp_path.iterdir() if path.is_dir()]

    def test_what_cuda_lacks_is_not_there(self, machine):
        for line in ("atomicAdd((long long*)0, 1ll);", "std::abs(1);", "int32_t x = 0;"):
            with pytest.raises(CompileError):
                machine.compile(f"struct A {{}};\nTAPEGRAD_KERNEL(bad, A) {{ {line} }}")

    def test_the_other_way_of_defining_a_kernel(self, machine):
        """The macro of the prelude gives way to the emulator's."""
        text = pointwise_source.prelude() + ADD_ONE
        assert machine.load(text, "add_one")


def test_the_library_is_built_once():
    path = cuda_emulator.library()
    built = path.stat().st_mtime_ns
    program = "import cuda_emulator; print(cuda_emulator.library(), end='')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == str(path)
    assert path.stat().st_mtime_ns == built
    assert cuda_emulator.environment() == {
        "TAPEGRAD_CUDA_DRIVER": str(path),
        "TAPEGRAD_NVRTC": str(path),
        "TAPEGRAD_CUPTI": str(path),
    }
