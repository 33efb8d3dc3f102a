"""The parts of offloading, its arguments and what it reports."""

import os
import weakref

import numpy as np
import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.tape._spill_file import MARK_BYTES, SpillFile, checksum

from .offload_cases import ROWS, VALUE, WIDTH, chain, offload_threads, plain_chain_gradient

# ---- the host's memory, arguments, statistics


def test_cpu_keeps_values_where_they_are():
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload("cpu") as o:
        chain(x).sum().backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))
    assert o.written_bytes == 0
    assert o.packed == o.kept == o.reused


def test_cpu_checks_for_writes():
    x = torch.randn(3, requires_grad=True)
    with tape.offload("cpu"):
        y = x * 2
        z = torch.sin(y)
        y.add_(1)
    with pytest.raises(RuntimeError, match="was overwritten by add_ at"):
        z.sum().backward()


@pytest.mark.parametrize("where", ["cpu", "."])
def test_other_devices_are_refused(where):
    x = torch.ones(4, device="meta", requires_grad=True)
    with (
        tape.offload(where),
        pytest.raises(NotImplementedError, match="on the CPU or on a GPU, got one on meta"),
    ):
        x.exp()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"prefetch": -1}, ValueError, "expected prefetch to be an int of at least 0, got -1"),
        ({"prefetch": 1.5}, ValueError, "expected prefetch"),
        ({"memory": "much"}, ValueError, 'memory: expected a size such as "300 MiB", got'),
        ({"memory": 0}, ValueError, "memory: expected more than 0 bytes, got 0"),
        ({"memory": 0.5}, TypeError, "memory: expected a number of bytes"),
        ({"memory": True}, TypeError, "memory: expected"),
        ({"min_bytes": "-1"}, ValueError, "min_bytes: expected"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=f"offload: {text}"):
        tape.offload(".", **arguments)


def test_cpu_has_no_limit():
    if torch.cuda.is_available():
        pytest.skip("values of a GPU may have one")
    with pytest.raises(ValueError, match="expected memory=None with 'cpu'"):
        tape.offload("cpu", memory="1 MiB")


def test_summary(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE) as o:
        y = chain(x).sum()
        o.flush()
        y.backward()
    assert "written" in repr(o)
    assert "memory='256 KiB'" in repr(o)
    text = o.summary()
    assert f"saved      {o.packed} values" in text
    assert "of 256 KiB allowed" in text
    assert o.unpacked >= 40
    assert o.reused + o.read_bytes // VALUE == o.unpacked
    assert o.read_bytes == o.written_bytes


# ---- parts


def test_holders_counts_tensors_of_a_storage():
    x = torch.randn(5000)
    key = torch._C._storage_id(x)
    assert torch._C._storage_uses(key) == 1
    y = x[1:]
    assert torch._C._storage_uses(key) == 2
    z = torch.tensor(x.numpy())
    del y
    assert torch._C._storage_uses(key) == 1
    assert torch._C._storage_uses(torch._C._storage_id(z)) == 1


def test_places_in_the_file_are_used_again(tmp_path):
    file = SpillFile(str(tmp_path))
    a, b, c = (file.allocate(100) for _ in range(3))
    assert (a, b, c) == (0, 100, 200)
    file.free(b, 100)
    assert file.allocate(60) == 100
    assert file.allocate(40) == 160
    file.free(100, 60)
    file.free(a, 100)
    file.free(160, 40)  # between two free places: all three become one
    assert file.allocate(200) == 0
    file.free(c, 100)
    assert file.allocate(50) == 200
    assert file.used == 250
    assert file.size == 300
    file.close()


def test_the_file_in_pieces(tmp_path):
    """More buffers than one call takes."""
    file = SpillFile(str(tmp_path))
    buffers = [np.full(7, i % 251, dtype=np.uint8) for i in range(2000)]
    checksums = file.write(buffers, 3)
    back = np.empty(7, dtype=np.uint8)
    for i, buffer in enumerate(buffers):
        file.read(back, 3 + i * (7 + MARK_BYTES), checksums[i])
        assert (back == buffer).all()
    (nothing,) = file.write([np.empty(0)], 0)
    file.read(np.empty(0), 0, nothing)
    file.close()


@pytest.mark.parametrize("size", [1, 7, 8, 9, 4096, 2**17 - 8, 2**17, 2**17 + 13, 2**19 + 1])
def test_a_checksum_changes_with_any_byte(size):
    value = np.frombuffer(np.random.default_rng(size).bytes(size), np.uint8).copy()
    before = checksum(value)
    assert checksum(value.copy()) == before
    for place in {0, size // 2, max(0, size - 9), size - 1}:
        for bit in (1, 128):
            value[place] ^= bit
            assert checksum(value) != before
            value[place] ^= bit
    assert checksum(value) == before
    assert checksum(value[:-1]) != before


def test_a_checksum_detects_what_a_plain_sum_does_not():
    numbers = np.arange(1, 2**16, dtype=np.int64)
    for other in (numbers[::-1].copy(), np.roll(numbers, 2**14), np.zeros_like(numbers)):
        assert checksum(other) != checksum(numbers)
    pairs = np.tile(np.array([1, -1], dtype=np.int64), 5000)
    assert pairs.sum() == 0 and checksum(pairs) != checksum(np.zeros_like(pairs))


def test_a_file_that_was_cut_and_grew_again(tmp_path):
    """Where it was cut it reads as zeros, which must not pass for what was written."""
    path = tmp_path / "values"
    file = SpillFile(str(path))
    value = np.ones(1000, dtype=np.uint8)
    step = 1000 + MARK_BYTES
    found, _, _ = file.write([value, value, value], 0)
    os.truncate(path, step + 500)
    file.write([value], 3 * step)
    back = np.empty(1000, dtype=np.uint8)
    file.read(back, 0, found)
    file.read(back, 3 * step, found)
    for place in (step, 2 * step, 4 * step):
        with pytest.raises(EOFError, match="the file has been truncated or changed"):
            file.read(back, place, found)
    file.close()


def test_threads_end_with_the_values(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=32 * VALUE) as o:
        y = chain(x, 100).sum()
    assert offload_threads()
    store = weakref.ref(o._stores.host)
    y.backward()
    del o
    for thread in offload_threads():
        thread.join(10)
    assert store() is None


def test_what_a_budget_evicted_is_not_computed_to_be_moved(tmp_path):
    x = torch.ones(ROWS, WIDTH, requires_grad=True)
    with tape.budget(4 * VALUE), tape.offload(tmp_path, memory=100 * VALUE) as o:
        y = chain(x, 30).sum()
        before = torch._C._budget_stats()
        o.flush()
        after = torch._C._budget_stats()
        assert before["evicted"] > 0 and after["recomputed"] == before["recomputed"]
        y.backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 30))
