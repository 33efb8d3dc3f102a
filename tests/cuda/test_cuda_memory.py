"""The caching allocator: sizes, reuse, streams, statistics, the end of memory."""

import bisect
import gc
import os
import random
import re
import subprocess
import sys
import threading
from itertools import pairwise

import pytest
from library import IS_SANITIZED, torch

cuda = torch.cuda
MIB = 1 << 20


def fresh(nbytes, device="cuda"):
    return torch.empty(nbytes, dtype=torch.uint8, device=device)


def stats():
    return cuda.memory_stats()


# ---- sizes and reuse


@pytest.mark.parametrize(("nbytes", "size"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB)])
def test_sizes_are_rounded_to_512_bytes(nbytes, size):
    x = fresh(nbytes)
    assert cuda.memory_allocated() == size and stats()["requested_bytes.all.current"] == nbytes
    assert x.data_ptr() % 512 == 0
    del x
    assert cuda.memory_allocated() == 0


@pytest.mark.parametrize(
    ("nbytes", "segment", "pool"),
    [
        (1, 2 * MIB, "small"),
        (MIB, 2 * MIB, "small"),
        (MIB + 1, 20 * MIB, "large"),
        (10 * MIB - 512, 20 * MIB, "large"),
        (10 * MIB, 10 * MIB, "large"),
        (11 * MIB, 12 * MIB, "large"),
    ],
)
def test_segments(nbytes, segment, pool):
    x = fresh(nbytes)
    assert cuda.memory_reserved() == segment
    other = {"small": "large", "large": "small"}[pool]
    assert stats()[f"reserved_bytes.{pool}_pool.current"] == segment
    assert stats()[f"reserved_bytes.{other}_pool.current"] == 0
    assert stats()[f"segment.{pool}_pool.current"] == 1
    assert [s["segment_type"] for s in cuda.memory_snapshot()] == [pool]
    del x
    assert cuda.memory_reserved() == segment
    cuda.empty_cache()
    assert cuda.memory_reserved() == 0 and cuda.memory_snapshot() == []


def test_a_freed_block_is_used_at_once():
    x = fresh(1000)
    address = x.data_ptr()
    del x
    assert fresh(700).data_ptr() == address  # 1024 bytes as well
    assert stats()["num_device_alloc"] == 1


def test_zero_bytes():
    before = cuda.memory_reserved()
    x = torch.empty(0, 3, device="cuda")
    assert x.data_ptr() == 0 and cuda.memory_reserved() == before
    x.record_stream(cuda.Stream())
    assert torch._C._cuda_allocate(0, 0) == 0


def test_blocks_are_cut_and_joined_again():
    parts = [fresh(512 * 1024) for _ in range(4)]
    addresses = [x.data_ptr() for x in parts]
    assert [a - addresses[0] for a in addresses] == [i * 512 * 1024 for i in range(4)]
    assert stats()["segment.all.current"] == 1
    for i in (1, 3, 0, 2):  # beside live ones, then between free ones
        parts[i] = None
    (segment,) = cuda.memory_snapshot()
    assert [(b["size"], b["state"]) for b in segment["blocks"]] == [(2 * MIB, "inactive")]
    assert stats()["inactive_split.all.current"] == 0
    assert stats()["inactive_split_bytes.all.current"] == 0


def test_the_smallest_block_that_fits_is_taken():
    sizes = [4096, 512, 1024, 512, 2048, 512]
    parts = [fresh(size) for size in sizes]
    holes = {parts[i].nbytes: parts[i].data_ptr() for i in (0, 2, 4)}
    for i in (0, 2, 4):
        parts[i] = None
    for size in (2048, 1024, 4096):
        parts.append(fresh(size))
        assert parts[-1].data_ptr() == holes[size]


def test_the_smallest_large_block_that_fits_is_taken():
    parts = [fresh(size * MIB) for size in (30, 14, 22)]
    addresses = [x.data_ptr() for x in parts]
    parts.clear()
    x = fresh(12 * MIB)
    y = fresh(21 * MIB)
    assert [x.data_ptr(), y.data_ptr()] == [addresses[1], addresses[2]]


def test_what_is_left_of_a_large_block_is_used_from_1_mib_on():
    x = fresh(20 * MIB)
    del x
    y = fresh(19 * MIB)
    assert cuda.memory_allocated() == 20 * MIB  # a rest of 1 MiB is no block
    del y
    z = fresh(18 * MIB)
    assert cuda.memory_allocated() == z.nbytes


# ---- streams


def test_blocks_belong_to_streams():
    s = cuda.Stream()
    x = fresh(1000)
    address = x.data_ptr()
    del x
    with s:
        y = fresh(1000)
    assert y.data_ptr() != address
    own = y.data_ptr()
    del y  # freed while another stream is current: it is still that stream's
    assert fresh(1000).data_ptr() == address
    with s:
        assert fresh(1000).data_ptr() == own
    assert {g["stream"] for g in cuda.memory_snapshot()} == {0, s.cuda_stream}


def states():
    return [b["state"] for s in cuda.memory_snapshot() for b in s["blocks"]]


def test_memory_that_another_stream_uses(emulator):
    s = cuda.Stream()
    x = fresh(2 * MIB)
    address = x.data_ptr()
    x.record_stream(s)
    x.record_stream(s)
    del x
    assert states()[0] == "active_pending_free"
    assert cuda.memory_allocated() == 0 and stats()["active_bytes.all.current"] == 2 * MIB
    y = fresh(2 * MIB)
    assert y.data_ptr() != address  # the event has not passed
    s.synchronize()
    z = fresh(2 * MIB)
    assert z.data_ptr() == address
    del y, z
    assert stats()["active_bytes.all.current"] == 0


def test_memory_that_two_other_streams_use(emulator):
    s, t = cuda.Stream(), cuda.Stream()
    x = fresh(1000)
    address = x.data_ptr()
    x.record_stream(s)
    x.record_stream(t)
    del x
    s.synchronize()
    assert fresh(1000).data_ptr() != address
    t.synchronize()
    assert fresh(1000).data_ptr() == address


def test_recording_the_own_stream_changes_nothing():
    x = fresh(1000)
    address = x.data_ptr()
    x.record_stream(cuda.current_stream())
    del x
    assert fresh(1000).data_ptr() == address


def test_a_view_records_for_its_memory(emulator):
    s = cuda.Stream()
    x = torch.empty(10, device="cuda")
    address = x.data_ptr()
    x[4:].record_stream(s)
    del x
    assert torch.empty(10, device="cuda").data_ptr() != address
    s.synchronize()
    assert torch.empty(10, device="cuda").data_ptr() == address


def test_record_stream_is_about_cuda():
    with pytest.raises(RuntimeError, match=r"record_stream: expected a tensor on a CUDA device"):
        torch.ones(2).record_stream(cuda.current_stream())


def test_waiting_blocks_are_not_given_back(emulator):
    s = cuda.Stream()
    x = fresh(12 * MIB)
    x.record_stream(s)
    del x
    cuda.empty_cache()
    assert cuda.memory_reserved() == 12 * MIB
    s.synchronize()
    cuda.empty_cache()
    assert cuda.memory_reserved() == 0


def test_devices_have_memory_of_their_own(two_devices):
    x = fresh(1000, "cuda:1")
    assert cuda.memory_allocated(0) == 0 and cuda.memory_allocated("cuda:1") == 1024
    assert [s["device"] for s in cuda.memory_snapshot()] == [1]
    with cuda.device(1):
        assert cuda.memory_allocated() == x.nbytes + 24


# ---- statistics

# Of torch.cuda.memory_stats() in PyTorch.
QUANTITIES = [
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
]


def test_the_names_of_statistics():
    fresh(1)
    names = list(stats())
    expected = {
        f"{quantity}.{pool}.{value}"
        for quantity in QUANTITIES
        for pool in ("all", "small_pool", "large_pool")
        for value in ("current", "peak", "allocated", "freed")
    }
    counts = {"num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free"}
    assert set(names) == expected | counts and names == sorted(names)


def test_peaks_and_sums():
    x, y = fresh(3 * MIB), fresh(1000)
    del x
    assert cuda.max_memory_allocated() == 3 * MIB + 1024 and cuda.memory_allocated() == 1024
    assert cuda.max_memory_reserved() == cuda.memory_reserved() == 22 * MIB
    assert stats()["allocated_bytes.large_pool.allocated"] == 3 * MIB
    assert stats()["allocated_bytes.large_pool.freed"] == 3 * MIB
    assert stats()["allocation.all.allocated"] == 2 and stats()["allocation.all.freed"] == 1
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == 1024
    cuda.reset_accumulated_memory_stats()
    assert stats()["allocation.all.allocated"] == 0 and stats()["allocation.all.current"] == 1
    del y
    assert stats()["allocation.all.freed"] == 1


def test_old_names():
    x = fresh(1000)
    assert cuda.memory_cached() == cuda.memory_reserved() > x.nbytes
    assert cuda.max_memory_cached() == cuda.max_memory_reserved()
    del x
    cuda.reset_max_memory_allocated()
    cuda.reset_max_memory_cached()
    assert cuda.max_memory_allocated() == 0


def test_summary():
    x = fresh(3 * MIB)
    text = cuda.memory_summary()
    lines = text.splitlines()
    assert lines[0] == ("CUDA memory of device 0: 0 times out of memory, 0 times cache given back")
    (tensors,) = [line.split() for line in lines if line.startswith("Tensors")]
    assert tensors == ["Tensors", "3.0", "MiB", "3.0", "MiB", "3.0", "MiB", "0", "B"]
    assert len({len(line) for line in lines[1:]}) == 1
    assert len(cuda.memory_summary(abbreviated=True).splitlines()) < len(lines) / 2
    del x


def test_snapshot():
    x = fresh(1000)
    (segment,) = cuda.memory_snapshot()
    assert segment["address"] == x.data_ptr() and segment["total_size"] == 2 * MIB
    assert segment["allocated_size"] == segment["active_size"] == 1024
    assert segment["requested_size"] == 1000 and segment["device"] == segment["stream"] == 0
    first, rest = segment["blocks"]
    assert first == {
        "address": x.data_ptr(),
        "size": 1024,
        "requested_size": 1000,
        "state": "active_allocated",
    }
    assert (rest["address"], rest["size"]) == (x.data_ptr() + 1024, 2 * MIB - 1024)
    assert (rest["state"], rest["requested_size"]) == ("inactive", 0)


def test_memory_for_other_libraries():
    s = cuda.Stream()
    address = cuda.caching_allocator_alloc(1000)
    other = cuda.caching_allocator_alloc(1000, "cuda", s)
    assert cuda.memory_allocated() == 2048 and cuda.current_stream() == cuda.default_stream()
    assert {g["stream"] for g in cuda.memory_snapshot()} == {0, s.cuda_stream}
    cuda.caching_allocator_delete(address)
    cuda.caching_allocator_delete(other)
    cuda.caching_allocator_delete(other + 512)  # nobody's
    assert cuda.memory_allocated() == 0


# ---- the end of memory


@pytest.fixture
def limited():
    """Let the process use 64 MiB and return them."""
    total = cuda.get_device_properties().total_memory
    cuda.set_per_process_memory_fraction(64 * MIB / total)
    yield 64 * MIB
    cuda.set_per_process_memory_fraction(1.0)


def test_out_of_memory_says_who_has_it(limited):
    x = fresh(40 * MIB)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        fresh(30 * MIB)
    text = str(caught.value)
    total = cuda.mem_get_info()[1] / 1024**3
    assert text.startswith("CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total ")
    assert f"capacity of {total:.2f} GiB of which " in text
    assert "64.00 MiB may be used by this process" in text
    assert "40.00 MiB is allocated by tapegrad, and 0 bytes is reserved by tapegrad" in text
    assert stats()["num_ooms"] == 1 and stats()["num_alloc_retries"] == 1
    assert (
        isinstance(caught.value, RuntimeError) and cuda.OutOfMemoryError is torch.OutOfMemoryError
    )
    del x
    assert fresh(50 * MIB).nbytes == 50 * MIB  # and life goes on


def test_kept_memory_is_given_back_before_an_error(limited):
    parts = [fresh(12 * MIB) for _ in range(5)]
    parts.clear()
    assert cuda.memory_reserved() == 60 * MIB
    x = fresh(40 * MIB)
    assert cuda.memory_reserved() == x.nbytes and stats()["num_alloc_retries"] == 1
    assert stats()["num_ooms"] == 0


def test_events_are_waited_for_before_an_error(limited, emulator):
    s = cuda.Stream()
    x = fresh(40 * MIB)
    address = x.data_ptr()
    x.record_stream(s)
    del x
    assert fresh(40 * MIB).data_ptr() == address


@pytest.fixture
def sync_debug_mode():
    yield cuda.set_sync_debug_mode
    cuda.set_sync_debug_mode("default")


def test_waiting_unasked_is_told(limited, emulator, sync_debug_mode):
    def wait():
        """Memory that another stream uses is asked for: its event has to be waited for."""
        x = fresh(40 * MIB)
        x.record_stream(s)
        del x
        fresh(40 * MIB)

    s = cuda.Stream()
    before = torch._C._cuda_unasked_waits()
    wait()
    assert torch._C._cuda_unasked_waits() == before + 1
    sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        wait()
    sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        wait()
    assert torch._C._cuda_unasked_waits() == before + 3


def test_waiting_when_asked_is_not_told(sync_debug_mode):
    sync_debug_mode(2)
    before = torch._C._cuda_unasked_waits()
    x = fresh(12 * MIB)
    del x
    cuda.synchronize()
    cuda.current_stream().synchronize()
    cuda.current_stream().record_event().synchronize()
    cuda.empty_cache()
    assert torch._C._cuda_unasked_waits() == before and cuda.memory_reserved() == 0
    assert cuda.get_sync_debug_mode() == 2
    for bad in (3, "loud", None):
        with pytest.raises(RuntimeError, match="expected 'default', 'warn' or 'error'"):
            sync_debug_mode(bad)


def test_what_a_device_cannot_have():
    for nbytes in (1 << 45, 1 << 55):
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
            fresh(nbytes)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        torch._C._cuda_allocate(0, (1 << 64) - 1)
    assert cuda.memory_allocated() == 0


def test_out_of_memory_names_entries_of_the_tape(limited):
    """With op, bytes, line and module; those of that device only, and after giving back."""
    elsewhere = torch.ones(1 << 20, requires_grad=True).exp()
    x = torch.ones(512, 512, device="cuda")
    model = torch.nn.Sequential(torch.nn.Linear(512, 512, device="cuda"), torch.nn.Tanh())
    y = model(x).exp()
    kept = fresh(30 * MIB)
    del kept
    with pytest.raises(torch.OutOfMemoryError) as caught:
        fresh(100 * MIB)
    text = str(caught.value)
    assert "; the tape keeps 3.00 MiB of cuda:0 in 3 entries; the largest:" in text
    line = (
        r"saved 1.00 MiB at .*test_cuda_memory.py:\d+, in test_out_of_memory_names_entries_of_the_"
    )
    assert re.search(f"ExpBackward0 {line}tape", text)
    assert re.search(f"AddmmBackward0 {line}tape, module 0", text)
    assert "saved 4.00 MiB" not in text and cuda.memory_reserved() < 30 * MIB
    del y, elsewhere


@pytest.mark.parametrize("fraction", [-0.1, 1.5])
def test_fraction_is_checked(fraction):
    with pytest.raises(ValueError, match="Invalid fraction"):
        cuda.set_per_process_memory_fraction(fraction)
    assert cuda.get_per_process_memory_fraction() == 1.0


# ---- stress


class Model:
    """What the allocator may do: live blocks never overlap, and sums are right."""

    def __init__(self):
        self.starts, self.live = [], {}

    def add(self, tensor, stream):
        start, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        at = bisect.bisect(self.starts, start)
        if at:
            before = self.starts[at - 1]
            assert before + self.live[before][0].nbytes <= start
        if at < len(self.starts):
            assert end <= self.starts[at]
        self.starts.insert(at, start)
        self.live[start] = (tensor, stream)

    def remove(self, at):
        return self.live.pop(self.starts.pop(at))[0]

    def check(self):
        now = stats()
        assert now["allocation.all.current"] == len(self.live)
        assert now["requested_bytes.all.current"] == sum(t.nbytes for t, _ in self.live.values())
        owners, sums = {}, dict.fromkeys(("active_allocated", "active_pending_free", "inactive"), 0)
        segments = cuda.memory_snapshot()
        for segment in segments:
            place = segment["address"]
            for before, block in zip([None, *segment["blocks"]], segment["blocks"], strict=False):
                assert block["address"] == place and block["size"] > 0
                is_pair = before and before["state"] == block["state"] == "inactive"
                assert not is_pair, "two free blocks side by side"
                place += block["size"]
                sums[block["state"]] += block["size"]
                owners[block["address"]] = (segment["stream"], block["state"])
            assert place == segment["address"] + segment["total_size"]
        for start, (_, stream) in self.live.items():
            assert owners[start] == (stream, "active_allocated")
        assert now["allocated_bytes.all.current"] == sums["active_allocated"]
        active = sums["active_allocated"] + sums["active_pending_free"]
        assert now["active_bytes.all.current"] == active
        assert now["reserved_bytes.all.current"] == sum(s["total_size"] for s in segments)
        assert now["reserved_bytes.all.current"] == active + sums["inactive"]
        for quantity in QUANTITIES:
            for value in ("current", "allocated", "freed"):
                pools = [now[f"{quantity}.{pool}_pool.{value}"] for pool in ("small", "large")]
                assert now[f"{quantity}.all.{value}"] == sum(pools)


@pytest.mark.parametrize("seed", range(3))
def test_random_allocations_on_four_streams(seed, limited):
    draw = random.Random(seed)
    streams = [cuda.default_stream(), *(cuda.Stream() for _ in range(3))]
    model = Model()
    for step in range(4000):
        stream = draw.choice(streams)
        with stream:
            if model.live and draw.random() < 0.5:
                tensor = model.remove(draw.randrange(len(model.starts)))
                if draw.random() < 0.2:
                    tensor.record_stream(draw.choice(streams))
                del tensor
            else:
                limit = draw.choice([600, 5000, 100_000, MIB, 3 * MIB])
                try:
                    model.add(fresh(draw.randrange(1, limit)), stream.cuda_stream)
                except torch.OutOfMemoryError:
                    while len(model.live) > 5:
                        model.remove(draw.randrange(len(model.starts)))
        if draw.random() < 0.001:
            cuda.empty_cache()
        if step % 200 == 0:
            model.check()
    model.check()
    while model.live:
        model.remove(0)
    cuda.synchronize()
    cuda.empty_cache()
    model.check()
    assert cuda.memory_reserved() == 0


def test_threads():
    """Each allocates on its own stream; blocks of one never turn up at another."""
    failures = []

    def work(seed):
        draw, stream = random.Random(seed), cuda.Stream()
        with stream:
            mine = []
            for _ in range(500):
                mine.append(fresh(draw.randrange(1, 5000)))
                if len(mine) > 20:
                    mine.pop(draw.randrange(len(mine)))
            spans = sorted((x.data_ptr(), x.data_ptr() + x.nbytes) for x in mine)
            held.append(spans)
            done.wait(30)
            if any(end > start for (_, end), (start, _) in pairwise(spans)):
                failures.append(seed)

    held, done = [], threading.Barrier(4)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = sorted(span for spans in held for span in spans)
    assert not failures and len(held) == 4
    assert all(end <= start for (_, end), (start, _) in pairwise(together))


# ---- processes


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr
    return done.stdout


def test_without_a_cache():
    """Each tensor has an allocation of its exact size, which goes back at once."""
    script = """if True:
        import tapegrad as torch
        x = torch.empty(1000, dtype=torch.uint8, device="cuda")
        y = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
        print(torch.cuda.memory_reserved(), torch.cuda.memory_allocated())
        s = torch.cuda.Stream()
        x.record_stream(s)
        del x, y
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print(torch.cuda.memory_reserved(), torch.cuda.memory_stats()["num_device_free"])
    """
    total = 1000 + (3 << 20)
    assert run(script, TAPEGRAD_CUDA_CACHE="0").split() == [str(total), str(total), "0", "2"]


def test_fresh_memory_can_be_filled():
    script = """if True:
        import tapegrad as torch
        for _ in range(2):
            x = torch.empty(1000, dtype=torch.uint8, device="cuda")
            print(set(x.tolist()))
            x.fill_(5)
            del x
    """
    assert run(script, TAPEGRAD_FILL_FRESH="0x3d") == "{61}\n" * 2


def test_tensors_that_outlive_the_interpreter():
    script = """if True:
        import tapegrad as torch
        stream = torch.cuda.Stream()
        kept = [torch.empty(100, device="cuda"), torch.empty(3 << 20, device="cuda")]
        kept[0].record_stream(stream)
        pinned = torch.ones(10).pin_memory()
        torch._C._cuda_record_pinned(pinned, 0, stream.cuda_stream)
        event = torch.cuda.Event()
        event.record(stream)
        class Late:
            def __del__(self):
                del kept[0]
        torch.late = Late()
        print("end")
    """
    assert run(script) == "end\n"


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer's runtime does not like forks")
def test_a_forked_process_is_refused_and_can_free():
    script = """if True:
        import os, tapegrad as torch
        x = torch.empty(100, device="cuda")
        x.record_stream(torch.cuda.Stream())
        y = torch.empty(100, device="cuda")
        pid = os.fork()
        if pid == 0:
            del x, y
            assert not torch.ones(2).is_pinned()
            torch.manual_seed(1)
            try:
                torch.empty(2, device="cuda")
                torch.cuda.synchronize()
            except RuntimeError as error:
                os._exit(3 if "'spawn' start method" in str(error) else 4)
            os._exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert run(script) == "3\n"


def test_nothing_is_left():
    gc.collect()
    assert cuda.memory_allocated() == 0
