"""Tensors on a mapped file: lazy, private, and as good as any others."""

import gc
import io
import os
import struct
import sys
import zipfile

import numpy as np
import pytest

from .states import FILES, expect_same, model_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def memory_in_use():
    """Return the bytes of memory that this process holds, in pages that are its own or a file's."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def mappings_of(path):
    with open("/proc/self/maps") as file:
        return sum(str(path) in line for line in file)


def test_the_same_as_without(torch, tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    state = {"base": base, "row": base[1], "turned": base.t(), "none": torch.zeros(0, 2),
             "p": torch.nn.Parameter(torch.ones(3)), "n": [1, "a"], "mask": torch.tensor([True]),
             "half": torch.ones(3, dtype=torch.bfloat16)}  # fmt: skip
    torch.save(state, tmp_path / "file")
    back = torch.load(tmp_path / "file", mmap=True)
    expect_same(back, state)
    back["base"].mul_(2)
    assert back["row"].tolist() == back["turned"][:, 1].tolist() == [8, 10, 12, 14]


def test_writing_stays_in_this_process(torch, tmp_path):
    torch.save({"x": torch.ones(2000)}, tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    back = torch.load(tmp_path / "file", mmap=True)
    back["x"].zero_()
    assert back["x"].sum().item() == 0
    assert (tmp_path / "file").read_bytes() == before
    assert torch.load(tmp_path / "file", mmap=True)["x"].sum().item() == 2000


@linux
@pytest.mark.parametrize("kind", ["ours", "zip", "zip64"])
def test_nothing_is_read_until_it_is_touched(ours, tmp_path, kind):
    """A sparse gigabyte: to read it would take a second and a gigabyte."""
    path = tmp_path / "large"
    count = 1 << 28
    write_sparse(path, kind, count)
    assert os.path.getsize(path) > 1 << 30
    gc.collect()
    before = memory_in_use()
    live = ours.memory_stats()["live_bytes"]
    back = ours.load(path, mmap=True)
    assert back["x"].shape == (count,)
    assert memory_in_use() - before < 4 << 20
    assert ours.memory_stats()["live_bytes"] == live
    assert back["x"][count - 1].item() == 0
    back["x"][count // 2] = 5
    assert back["x"][count // 2].item() == 5
    assert memory_in_use() - before < 8 << 20


def write_sparse(path, kind, count):
    """Write a checkpoint of zeros that takes no space on the disk."""
    if kind == "ours":
        header = f'{{"x":{{"dtype":"F32","shape":[{count}],"data_offsets":[0,{4 * count}]}}}}'
        text = header.encode() + b" " * (-(8 + len(header)) % 64)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + 4 * count)
        return
    pickled = (
        b"\x80\x02}X\x01\x00\x00\x00xctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storage"
        b"ctorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ" + struct.pack("<i", count)
        + b"tQK\x00J" + struct.pack("<i", count) + b"\x85K\x01\x85\x89NtRs."
    )  # fmt: skip
    with open(path, "wb") as file:
        write_archive(file, pickled, 4 * count, wide=kind == "zip64")


def write_archive(file, pickled, nbytes, wide):
    """Write an archive with a pickle and a storage of zeros, perhaps with 64-bit numbers."""
    directory, most = b"", 0xFFFFFFFF
    members = [(b"a/data.pkl", 0, pickled, len(pickled)), (b"a/data/0", 1024, b"", nbytes)]
    for name, place, content, size in members:
        extra = -(place + 30 + len(name)) % 64  # The bytes begin at a multiple of 64.
        file.seek(place)
        local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 0, 0, size, size, len(name),
                            extra)  # fmt: skip
        file.write(local + name + bytes(extra) + content)
        numbers = struct.pack("<2H3Q", 1, 24, size, size, place) if wide else b""
        short = (most, most, most) if wide else (size, size, place)
        directory += struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, *short[:2],
                                 len(name), len(numbers), 0, 0, 0, 0, short[2])  # fmt: skip
        directory += name + numbers
    start = 2048 + nbytes
    file.seek(start)
    file.write(directory)
    end = file.tell()
    if wide:
        file.write(struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, len(directory),
                               start))  # fmt: skip
        file.write(struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1))
    totals = (0xFFFF, 0xFFFF, most, most) if wide else (2, 2, len(directory), start)
    file.write(struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, *totals, 0))


@linux
def test_the_mapping_lives_as_long_as_its_tensors(ours, tmp_path):
    path = tmp_path / "file"
    ours.save({"a": ours.ones(2000), "b": ours.ones(2000), "c": np.ones(2000)}, path)
    files = len(os.listdir("/proc/self/fd"))
    back = ours.load(path, mmap=True)
    assert mappings_of(path) == 1
    kept = back["b"][5:10].numpy()
    array = back["c"]
    del back
    gc.collect()
    assert mappings_of(path) == 1 and kept.sum() == 5
    del kept
    gc.collect()
    assert mappings_of(path) == 1 and array.sum() == 2000
    del array
    gc.collect()
    assert mappings_of(path) == 0
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize("name", ["state.pt", "protocol4.pt", "training.pt"])
def test_what_pytorch_writes_is_aligned(ours, name):
    live = ours.memory_stats()["live_bytes"]
    back = ours.load(FILES / name, mmap=True)
    back.pop("zero_size", None)  # which has no place in the file
    assert ours.memory_stats()["live_bytes"] == live, "a storage was copied"


def test_a_file_that_is_removed(ours, tmp_path):
    ours.save({"x": ours.arange(2000)}, tmp_path / "file")
    back = ours.load(tmp_path / "file", mmap=True)
    os.unlink(tmp_path / "file")
    assert back["x"].sum().item() == 1999 * 1000


def test_entries_that_are_not_aligned_are_copied(ours, tmp_path):
    header = (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
        b'"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}'
    )
    data = struct.pack("<Q", len(header)) + header + b"\x07" + np.array([1.5, 2.5]).tobytes()
    (tmp_path / "file").write_bytes(data)
    back = ours.load(tmp_path / "file", mmap=True)
    assert back["a"].tolist() == [7] and back["b"].tolist() == [1.5, 2.5]
    assert back["b"].data_ptr() % 8 == 0


def test_archives_that_are_not_aligned_are_copied(ours, tmp_path):
    with zipfile.ZipFile(FILES / "training.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    (tmp_path / "file").write_bytes(stream.getvalue())
    expect_same(ours.load(tmp_path / "file", mmap=True), ours.load(FILES / "training.pt"))


def test_training_on_mapped_parameters(ours, tmp_path):
    """load_state_dict(assign=True) puts the mapped tensors themselves into the module."""
    model, other = model_of(ours), model_of(ours, 1)
    ours.save(model.state_dict(), tmp_path / "file")
    other.load_state_dict(ours.load(tmp_path / "file", mmap=True), assign=True)
    x, y = ours.arange(5), ours.tensor([0, 1, 2, 0, 1])
    for each in (model, other):
        optimizer = ours.optim.SGD(each.parameters(), lr=0.1)
        ours.nn.functional.cross_entropy(each(x), y).backward()
        optimizer.step()
    expect_same(dict(other.state_dict()), dict(model.state_dict()))


def test_arrays_are_mapped_too(ours, tmp_path):
    ours.save({"a": np.arange(1000), "b": np.ones((0, 3))}, tmp_path / "file")
    back = ours.load(tmp_path / "file", mmap=True)
    back["a"][0] = 7
    assert back["a"].sum() == 999 * 500 + 7 and back["b"].shape == (0, 3)
    assert ours.load(tmp_path / "file")["a"][0] == 0
