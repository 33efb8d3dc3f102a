"""Kernels that the emulator of CUDA runs: threads, warps, shared memory, atomics, mathematics."""

import shutil
from ctypes import c_ulonglong

import cuda_emulator
import numpy as np
import pytest
from cuda_emulator import driving
from cuda_emulator.driving import arguments, machine_without_errors, run_kernel
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


class TestThreads:
    def test_indices(self, machine):
        text = """
            struct Arguments { int* out; };
            TAPEGRAD_KERNEL(indices, Arguments) {
              const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
              const int thread =
                  (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
              const int threads = blockDim.x * blockDim.y * blockDim.z;
              int* row = arguments.out + 6 * (block * threads + thread);
              row[0] = threadIdx.x; row[1] = threadIdx.y; row[2] = threadIdx.z;
              row[3] = blockIdx.x; row[4] = blockIdx.y; row[5] = blockIdx.z;
            }
        """
        grid, block = (2, 3, 4), (5, 2, 7)
        count = np.prod(grid) * np.prod(block)
        out = machine.upload(np.zeros(6 * count, np.int32))
        function = machine.load(text, "indices")
        assert machine.launch(function, grid, block, arguments(out=out)) == driving.SUCCESS
        rows = machine.download(out, 6 * count, np.int32).reshape(-1, 6)
        expected = [
            (x, y, z, bx, by, bz)
            for bz in range(4)
            for by in range(3)
            for bx in range(2)
            for z in range(7)
            for y in range(2)
            for x in range(5)
        ]
        assert rows.tolist() == [list(row) for row in expected]
        machine.free(out)

    @pytest.mark.parametrize("order", ["ascending", "descending", "1", "77"])
    @pytest.mark.parametrize("threads", [1, 32, 100, 1024])
    def test_sum_over_a_block_in_any_order(self, machine, monkeypatch, order, threads):
        monkeypatch.setenv("TAPEGRAD_EMULATOR_ORDER", order)
        body = """
            __shared__ int part[1024];
            part[threadIdx.x] = in[i];
            __syncthreads();
            for (int size = blockDim.x; size > 1; size = (size + 1) / 2) {
              const int half = (size + 1) / 2;
              if (threadIdx.x < size / 2) part[threadIdx.x] += part[threadIdx.x + half];
              __syncthreads();
            }
            if (threadIdx.x == 0) out[blockIdx.x] = part[0];
        """
        values = np.arange(5 * threads)
        sums = run_kernel(machine, body, 5, "int32", (5,), (threads,), data=values)
        assert sums.tolist() == values.reshape(5, -1).sum(1).tolist()

    def test_the_order_shows_races(self, machine, monkeypatch):
        body = "__shared__ int last; last = i; __syncthreads(); out[i] = last;"
        seen = set()
        for order in ("ascending", "descending", "5"):
            monkeypatch.setenv("TAPEGRAD_EMULATOR_ORDER", order)
            (value,) = set(run_kernel(machine, body, 96, "int32", block=(96,)).tolist())
            seen.add(value)
        assert {0, 95} < seen

    def test_shared_memory_begins_as_garbage_in_every_block(self, machine):
        body = """
            TAPEGRAD_SHARED_BYTES(bytes);
            __shared__ int fixed[4];
            int* dynamic = reinterpret_cast<int*>(bytes);
            out[2 * blockIdx.x] = fixed[3];
            out[2 * blockIdx.x + 1] = dynamic[1];
            fixed[3] = dynamic[1] = 1;
        """
        seen = run_kernel(machine, body, 6, "int32", (3,), (1,), shared=8)
        assert set(seen.view(np.uint32).tolist()) == {0xCBCBCBCB}

    def test_static_shared_memory_of_templates_and_inline_functions(self, machine):
        text = """
            template <class T> __device__ inline T rotate(T value) {
              __shared__ T slots[64];
              slots[threadIdx.x] = value;
              __syncthreads();
              return slots[(threadIdx.x + 1) % blockDim.x];
            }
            struct Arguments { int* out; };
            TAPEGRAD_KERNEL(rotate_both, Arguments) {
              const int i = threadIdx.x;
              const int whole = rotate(i);
              __syncthreads();
              arguments.out[i] = whole + static_cast<int>(rotate(0.5f * i) * 200);
            }
        """
        out = machine.upload(np.zeros(64, np.int32))
        function = machine.load(text, "rotate_both")
        assert machine.launch(function, (1,), (64,), arguments(out=out)) == driving.SUCCESS
        expected = 101 * ((np.arange(64) + 1) % 64)
        assert machine.download(out, 64, np.int32).tolist() == expected.tolist()
        machine.free(out)

    def test_votes_of_a_block(self, machine):
        body = """
            out[i] = __syncthreads_count(i % 3 == 0) * 100 + __syncthreads_or(i == 5) * 10 +
                     __syncthreads_and(i < 40);
        """
        assert set(run_kernel(machine, body, 40, "int32", block=(40,)).tolist()) == {1411}
        assert set(run_kernel(machine, body, 41, "int32", block=(41,)).tolist()) == {1410}

    def test_threads_that_have_ended_are_not_waited_for(self, machine):
        body = "if (i >= 40) return; __syncthreads(); out[i] = __syncthreads_count(1);"
        assert run_kernel(machine, body, 64, "int32", block=(64,)).tolist() == [40] * 40 + [0] * 24

    def test_every_thread_has_its_stack(self, machine):
        body = """
            volatile int local[2048];
            for (int k = 0; k < 2048; ++k) local[k] = i + k;
            __syncthreads();
            int sum = 0;
            for (int k = 0; k < 2048; ++k) sum += local[k] - k;
            out[i] = sum;
        """
        sums = run_kernel(machine, body, 256, "int32", block=(256,))
        assert sums.tolist() == (2048 * np.arange(256)).tolist()


class TestWarps:
    @pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
    def test_shuffles(self, machine, dtype):
        body = """
            out[i] = __shfl_sync(0xffffffffu, in[i], 5);
            out[64 + i] = __shfl_up_sync(0xffffffffu, in[i], 3);
            out[128 + i] = __shfl_down_sync(0xffffffffu, in[i], 3, 8);
            out[192 + i] = __shfl_xor_sync(0xffffffffu, in[i], 4);
            out[256 + i] = __shfl_sync(0xffffffffu, in[i], 9, 8);
        """
        values = np.arange(64) * 3 - 50
        got = run_kernel(machine, body, 320, dtype, block=(64,), data=values).reshape(5, 64)
        lane, start = np.arange(64) % 32, np.arange(64) // 32 * 32
        sources = [
            np.full(64, 5),
            np.where(lane < 3, lane, lane - 3),
            np.where(lane % 8 + 3 < 8, lane + 3, lane),
            lane ^ 4,
            lane // 8 * 8 + 1,
        ]
        for row, source in zip(got, sources, strict=True):
            assert row.tolist() == values[start + source].tolist()

    def test_sum_of_a_warp(self, machine):
        body = """
            float sum = in[i];
            for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
            out[i] = sum;
        """
        values = np.random.default_rng(0).integers(-9, 9, 128)
        sums = run_kernel(machine, body, 128, "float32", (2,), (64,), data=values)
        assert sums.tolist() == values.reshape(4, 32).sum(1).repeat(32).tolist()

    def test_votes_matches_and_reductions(self, machine):
        body = """
            out[i] = __ballot_sync(~0u, i % 2);
            out[32 + i] = __any_sync(~0u, i == 7) * 10 + __all_sync(~0u, i < 31);
            out[64 + i] = __match_any_sync(~0u, in[i]);
            out[96 + i] = __reduce_add_sync(~0u, in[i]);
            out[128 + i] = __reduce_min_sync(~0u, in[i]) * 100 + __reduce_max_sync(~0u, in[i]);
        """
        values = np.arange(32) % 5 - 2
        got = run_kernel(machine, body, 160, "int32", data=values).view(np.uint32).reshape(5, 32)
        assert set(got[0].tolist()) == {0xAAAAAAAA}
        assert set(got[1].tolist()) == {10}
        equal = [sum(1 << j for j in range(32) if values[j] == value) for value in values]
        assert got[2].tolist() == equal
        assert got[3].view(np.int32).tolist() == [values.sum()] * 32
        assert got[4].view(np.int32).tolist() == [-198] * 32

    def test_parts_of_a_warp(self, machine):
        """Lanes that branch differently have operations of their own, at the same time."""
        body = """
            if (i < 8) out[i] = __shfl_sync(0xffu, i, 3);
            else if (i < 20) out[i] = __ballot_sync(0xfff00u, i % 4 == 0);
            else { __syncwarp(0xfff00000u); out[i] = __popc(__activemask()); }
            __syncwarp();
            out[i] += 1000000 * (__ballot_sync(~0u, 1) == ~0u);
        """
        got = run_kernel(machine, body, 32, "int32") - 1000000
        assert got.tolist() == [3] * 8 + [0x11100] * 12 + [1] * 12

    def test_reading_from_a_lane_that_takes_no_part_gives_garbage(self, machine):
        body = "if (i >= 8) return; out[i] = __shfl_sync(~0u, i, 20);"
        got = run_kernel(machine, body, 32, "int32").view(np.uint32)
        assert got.tolist() == [0xCBCBCBCB] * 8 + [0] * 24


class TestAtomics:
    def test_integers(self, machine):
        body = """
            atomicAdd(out, i); atomicMax(out + 1, i); atomicMin(out + 2, -i);
            atomicOr(out + 3, 1 << (i % 7)); atomicExch(out + 4, 8); atomicCAS(out + 5, 0, i + 9);
            atomicSub(out + 6, 1);
        """
        got = run_kernel(machine, body, 7, "int32", (4,), (64,))
        assert got.tolist() == [255 * 128, 255, -255, 127, 8, 9, -256]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_floats(self, machine, dtype):
        got = run_kernel(machine, "atomicAdd(out, in[i]);", 1, dtype, (2,), data=np.arange(64) / 4)
        assert got.tolist() == [504.0]

    def test_a_lock(self, machine):
        body = """
            while (atomicCAS(out, 0, 1) != 0) __nanosleep(100);
            const int before = out[1];
            __nanosleep(10);
            out[1] = before + 1;
            atomicExch(out, 0);
        """
        assert run_kernel(machine, body, 2, "int32", (2,), (64,)).tolist() == [0, 128]


def expect_failure(machine, capfd, status, error, *words):
    """See that a run failed with an error of CUDA, a message, and nothing after."""
    assert status == error
    message = capfd.readouterr().err
    assert message.startswith("CUDA emulator: kernel 'kernel'"), message
    for word in words:
        assert word in message
    assert machine.synchronize() == driving.SUCCESS, "an error is reported once"


class TestRaces:
    """Between threads that use shared memory, on request."""

    @pytest.fixture(autouse=True)
    def ask_for_races(self, monkeypatch):
        monkeypatch.setenv("TAPEGRAD_EMULATOR_RACES", "1")

    @pytest.mark.parametrize(
        "body",
        [
            "__shared__ int s[64]; s[i] = i; out[i] = s[63 - i];",
            "__shared__ int s[64]; s[i] = i; __syncwarp(); out[i] = s[i ^ 32];",
            # Read before it is written, and in ascending order of the threads with no other result.
            "__shared__ int s[64]; s[i] = i; __syncthreads(); out[i] = s[i / 2]; s[i] = 1;",
            "TAPEGRAD_SHARED_BYTES(s); s[i] = i; if (i == 40) out[i] = s[39];",
        ],
    )
    def test_they_are_reported(self, machine, capfd, body):
        status = run_kernel(machine, body, 64, "int32", block=(64,), shared=64)
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "a race: thread")

    def test_what_is_ordered_is_none(self, machine):
        body = """
            __shared__ int s[64], sum, same;
            const int t = threadIdx.x;
            if (t == 0) sum = 0;
            s[t] = t;
            same = 5;
            __syncwarp();
            const int neighbour = s[t ^ 1];
            __syncthreads();
            atomicAdd(&sum, s[63 - t]);
            __syncthreads();
            s[t] = sum + neighbour + same;
            out[i] = s[t];
        """
        got = run_kernel(machine, body, 128, "int32", (2,), (64,))
        assert got.tolist() == [2016 + 5 + (t ^ 1) for t in range(64)] * 2

    def test_they_are_not_looked_for_otherwise(self, machine, monkeypatch):
        monkeypatch.setenv("TAPEGRAD_EMULATOR_RACES", "0")
        body = "__shared__ int s[64]; s[i] = i; out[i] = s[i / 2];"
        assert run_kernel(machine, body, 64, "int32", block=(64,)).tolist()[:4] == [0, 0, 1, 1]


class TestMistakesOfKernels:
    def test_a_barrier_that_not_all_reach(self, machine, capfd):
        body = "if (i < 10) __syncthreads(); else __syncwarp(1 << (i % 32) | 1);"
        status = run_kernel(machine, body, 1, "int32", block=(32,))
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "10 of 32 at the barrier")

    def test_two_barriers_in_different_branches(self, machine, capfd):
        body = "if (i < 10) __syncthreads();\n else __syncthreads();"
        status = run_kernel(machine, body, 1, "int32", block=(64,))
        expect_failure(
            machine, capfd, status, driving.LAUNCH_FAILED, "10 of 64 at the barrier", "54 of 64"
        )

    def test_a_shuffle_to_which_lanes_never_come(self, machine, capfd):
        body = "if (i % 2) out[i] = __shfl_sync(~0u, i, 0); else __syncthreads();"
        status = run_kernel(machine, body, 32, "int32")
        expect_failure(
            machine, capfd, status, driving.LAUNCH_FAILED, "16 of 32 for the lanes 0xffffffff"
        )

    def test_a_mask_without_the_caller(self, machine, capfd):
        status = run_kernel(machine, "out[i] = __shfl_sync(0xffu, i, 0);", 32, "int32")
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "lane 8", "0x000000ff")

    @pytest.mark.parametrize(("index", "byte"), [(8, 32), (108, 432), (-1, -4), (1 << 20, 1 << 22)])
    def test_an_access_out_of_bounds(self, machine, capfd, index, byte):
        place = f"byte {byte} of an allocation of 32 bytes of device 0"
        status = run_kernel(machine, f"out[{index}] = 1;", 8, "int32", block=(1,))
        expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, "a write of 4 bytes", place)
        status = run_kernel(machine, f"out[0] = out[{index}];", 8, "int32", block=(1,))
        expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, "a read of 4 bytes", place)
        if shutil.which("addr2line"):
            status = run_kernel(machine, f"\n\n  out[{index}] = 2;", 8, "int32", block=(1,))
            expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, place, "; test.cu:9")
        status = run_kernel(machine, f"atomicAdd(out + {index}, 1);", 8, "int32", block=(1,))
        expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, "4 bytes", place)

    def test_a_write_out_of_bounds_by_a_function_of_the_c_library(self, machine, capfd):
        body = "memset(out, 1, 4 * arguments.count);"
        assert set(run_kernel(machine, body, 8, "int32", block=(1,), data=np.ones(8))) == {
            0x1010101
        }
        status = run_kernel(machine, body, 8, "int32", block=(1,), data=np.ones(9))
        expect_failure(
            machine, capfd, status, driving.ILLEGAL_ADDRESS, "of an allocation of 32 bytes"
        )

    def test_memory_of_the_host_and_of_another_device(self, machine, capfd):
        text = """
            struct Arguments { int* out; const int* in; };
            TAPEGRAD_KERNEL(kernel, Arguments) { *arguments.out = *arguments.in; }
        """
        function, out, host = machine.load(text, "kernel"), machine.allocate(4), np.ones(1, "i4")
        machine.use_device(1)
        other = machine.allocate(4)
        machine.use_device(0)
        pinned = machine.pinned(1, np.int32)
        for source, reason in (
            (0, "address (nil), which is no memory of a device"),
            (host.ctypes.data, "which is no memory of a device"),
            (other, "byte 0 of an allocation of 4 bytes of device 1"),
        ):
            given = arguments(out=out, source=source)
            assert machine.launch(function, (1,), (1,), given) == driving.SUCCESS
            status = machine.synchronize()
            expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, reason)
        pinned[0] = 7
        given = arguments(out=out, source=pinned.ctypes.data)
        assert machine.launch(function, (1,), (1,), given) == driving.SUCCESS
        assert machine.download(out, 1, np.int32).tolist() == [7]
        machine.free(out)
        machine.free(other)

    def test_dynamic_shared_memory_ends_where_it_ends(self, machine, capfd):
        body = "TAPEGRAD_SHARED_BYTES(bytes); bytes[i + arguments.count] = 1;"
        assert run_kernel(machine, body, 1, "int32", shared=64).tolist() == [0]
        status = run_kernel(machine, body, 1, "int32", shared=32)
        expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, "byte 32 of 32")

    def test_what_only_a_cpu_forgives(self, machine, capfd):
        body = "*reinterpret_cast<double*>(out + 1) = 1;"
        status = run_kernel(machine, body, 4, "float32", block=(1,))
        expect_failure(machine, capfd, status, driving.MISALIGNED_ADDRESS, "'double'", "of 8")
        body = "reinterpret_cast<float4*>(out)[0] = *reinterpret_cast<const float4*>(in + 2);"
        status = run_kernel(machine, body, 4, "float32", block=(1,), data=np.ones(8))
        expect_failure(machine, capfd, status, driving.MISALIGNED_ADDRESS, "float4", "of 16")
        body = "out[i] = 1 << (in[0] + i);"
        status = run_kernel(machine, body, 32, "int32", data=[1])
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "thread (31, 0, 0)", "shift")

    @pytest.mark.parametrize("memory", ["__shared__", ""], ids=["shared", "local"])
    def test_an_index_out_of_an_array(self, machine, capfd, memory):
        body = f"{memory} int values[20]; values[i] = in[0]; out[i] = values[in[0]];"
        status = run_kernel(machine, body, 32, "int32", data=[1])
        expect_failure(
            machine, capfd, status, driving.ILLEGAL_ADDRESS, "thread (20,", "index 20", "int [20]"
        )

    def test_recursion_without_end(self, machine, capfd):
        text = """
            struct Arguments { int* out; };
            __device__ __noinline__ int deep(volatile int* out, int n) {
              volatile int row[64];
              row[n % 64] = n;
              return n < 0 ? 0 : deep(out, n + 1) + row[(n + 1) % 64];
            }
            TAPEGRAD_KERNEL(kernel, Arguments) { *arguments.out = deep(arguments.out, 1); }
        """
        out = machine.allocate(4)
        function = machine.load(text, "kernel")
        assert machine.launch(function, (1,), (2,), arguments(out=out)) == driving.SUCCESS
        expect_failure(
            machine, capfd, machine.synchronize(), driving.LAUNCH_FAILED, "bytes of stack"
        )
        machine.free(out)

    def test_division_by_zero_trap_and_assert(self, machine, capfd):
        status = run_kernel(machine, "out[0] = 5 % in[0];", 1, "int32", block=(1,))
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "divided by zero")
        status = run_kernel(machine, "__trap();", 1, "int32", block=(1,))
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "__trap()")
        status = run_kernel(machine, "assert(i < 3);", 1, "int32")
        expect_failure(
            machine, capfd, status, driving.ASSERT, "thread (3, 0, 0)", "assertion failed: i < 3"
        )

    def test_a_thread_that_waits_for_ever(self, machine, capfd):
        body = "while (atomicAdd(out, 0) == 0) __nanosleep(1);"
        status = run_kernel(machine, body, 1, "int32", block=(1,))
        expect_failure(machine, capfd, status, driving.LAUNCH_FAILED, "yield for ever")

    def test_memory_that_was_freed(self, machine, capfd):
        text = """
            struct Arguments { int* out; };
            TAPEGRAD_KERNEL(kernel, Arguments) { *arguments.out = 1; }
        """
        function, out = machine.load(text, "kernel"), machine.allocate(64)
        machine.free(out)
        assert machine.launch(function, (1,), (1,), arguments(out=out)) == driving.SUCCESS
        status = machine.synchronize()
        expect_failure(machine, capfd, status, driving.ILLEGAL_ADDRESS, "memory that was freed")
        assert machine.copy(machine.pinned(8, "u1").ctypes.data, out, 8) == driving.INVALID_VALUE
        assert machine.library.cuMemFree_v2(c_ulonglong(out)) == driving.INVALID_VALUE


def functions_of_cuda():
    """Yield the functions that the C library lacks, arguments for them, and their values."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 40
    real = mpmath.mpf
    tails = [-38.0, -20.0, -8.3, -3.0, -1.0, -1e-5, 0.0, 0.3, 2.0, 5.0]
    inside = [-0.999999, -0.7, -0.5, -1e-3, -1e-12, 0.0, 1e-300, 0.25, 0.51, 1 - 2.0**-24]
    small = [1e-300, 1e-30, 1e-7, 0.1, 0.5, 0.7, 1.0, 1.4, 1.6, 1.9999999]
    positive = [1e-30, 0.1, 0.5, 2.0, 3.7, 1e30]
    yield "rsqrt", positive, lambda x: 1 / mpmath.sqrt(real(x))
    yield "rcbrt", positive, lambda x: 1 / mpmath.cbrt(real(x))
    yield "exp10", [-30.0, -2.5, 0.0, 1e-3, 3.0, 30.25], lambda x: mpmath.power(10, real(x))
    angles = [-1e6, -7.25, -1.0, -0.6, 1e-9, 0.25, 0.4999999, 0.75, 1.5, 123.456, 4e15]
    yield "sinpi", angles, lambda x: mpmath.sinpi(real(x))
    yield "cospi", angles, lambda x: mpmath.cospi(real(x))
    scaled = [-9.0, -3.0, -1e-5, 0.0, 0.3, 2.0, 9.7, 40.0, 99.0, 101.0, 1e6]
    yield "erfcx", scaled, lambda x: mpmath.exp(real(x) ** 2) * mpmath.erfc(real(x))
    yield "normcdf", tails, lambda x: mpmath.ncdf(real(x))
    yield "erfinv", inside, lambda x: mpmath.erfinv(real(x))

    def erfcinv(y):
        if y >= 0.5:
            return mpmath.erfinv(1 - real(y))
        start = mpmath.sqrt(-mpmath.log(real(y)))
        return mpmath.findroot(lambda t: mpmath.log(mpmath.erfc(t)) - mpmath.log(real(y)), start)

    yield "erfcinv", small, erfcinv
    probabilities = [value / 2 for value in small]
    yield "normcdfinv", probabilities, lambda p: -mpmath.sqrt(2) * erfcinv(2 * p)


class TestMath:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_functions_that_the_c_library_lacks(self, machine, dtype):
        suffix = "f" if dtype == "float32" else ""
        eps = np.finfo(dtype).eps
        for name, points, reference in functions_of_cuda():
            points = np.array(points, dtype)
            if dtype == "float32":
                points = points[np.abs(points) != 0]
            body = f"if (i < arguments.count) out[i] = {name}{suffix}(in[i]);"
            got = run_kernel(machine, body, points.size, dtype, data=points)
            for x, y in zip(points.tolist(), got.tolist(), strict=True):
                expected = reference(x)
                bound = (1 if dtype == "float32" else 8) * eps * abs(expected)
                tiny = np.finfo(dtype).smallest_normal
                assert abs(expected - y) <= max(float(bound), tiny), (name, x, y, expected)

    def test_bits(self, machine):
        body = """
            out[0] = __popc(0xf0f0u); out[1] = __clz(1); out[2] = __clz(0); out[3] = __ffs(8);
            out[4] = __brev(1u); out[5] = __umulhi(0x80000000u, 6); out[6] = __mulhi(-1, 1);
            out[7] = __umul64hi(1ull << 63, 4); out[8] = __float_as_int(1.0f);
            out[9] = __byte_perm(0x33221100, 0x77665544, 0x7410);
            out[10] = __funnelshift_l(0x80000000u, 1u, 1); out[11] = __float2int_rn(2.5f);
            out[12] = __float2int_rz(1e30f); out[13] = __double2int_rd(-0.5);
            out[14] = min(3u, 5u) + max(-1, -7); out[15] = max(0.0f / 0.0f, 4.0f);
            const float4 v = make_float4(1, 2, 3, 4);
            out[16] = sizeof(v) + alignof(float4) + alignof(float2) + v.w; out[17] = warpSize;
        """
        got = run_kernel(machine, body, 18, "int32", block=(1,))
        expected = [8, 31, 32, 4, -(2**31), 3, -1, 2, 0x3F800000, 0x77441100, 3, 2]
        expected += [2**31 - 1, -1, 2, 4, 44, 32]
        assert got.tolist() == expected


class TestPointwiseTable:
    @pytest.mark.parametrize("dtype", pointwise_source.DTYPES)
    def test_it_compiles(self, machine, dtype):
        module = machine.module(machine.compile(pointwise_source.program(dtype)))
        for line, role in pointwise_source.kernels(dtype):
            name = pointwise_source.kernel_name(line, dtype, role)
            assert machine.function(module, name)

    @pytest.mark.parametrize(
        "name",
        [
            *("exp", "sigmoid", "lgamma", "digamma", "erfinv", "neg", "i0", "logit", "airy_ai"),
            *("ndtri", "bessel_j1", "bessel_y0", "erfcx", "log_ndtr", "modified_bessel_k1"),
        ],
    )
    def test_it_computes(self, machine, name):
        import tapegrad

        x = tapegrad.linspace(-0.9, 0.95, 1000)
        function = machine.load(pointwise_source.program("float32"), f"{name}_float32")
        source, out = machine.upload(x.numpy()), machine.allocate(4000)
        given = arguments(count=1000, out=out, source=source)
        assert machine.launch(function, (3,), (128,), given) == driving.SUCCESS
        got = machine.download(out, 1000, np.float32)
        own = getattr(tapegrad, name, None) or getattr(tapegrad.special, name)
        np.testing.assert_allclose(got, own(x).numpy(), rtol=2e-6, atol=1e-7)
        machine.free(source)
        machine.free(out)
