"""Files that are cut, changed or made to harm: each is refused by type, and cheaply."""

import io
import json
import pickle
import struct

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the format is tapegrad's own", allow_module_level=True)

from tapegrad.serialization import CheckpointError

from . import mutate
from .states import FILES, expect_same


def saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def packed(header, data=b""):
    """Return a file with a header, given as text or as what JSON makes of a value."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def refused(data, text):
    with pytest.raises(CheckpointError, match=text):
        torch.load(io.BytesIO(data))


def entry(**changes):
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}


# ---- the container


HEADERS = {
    "empty": (b"", "the file is empty"),
    "short": (b"\x10\x00", "the length of the header"),
    "a huge header": (struct.pack("<Q", 2**63) + b"{}", "header would take 9223372036854775808"),
    "a large header": (struct.pack("<Q", 10**8) + b"{}", "the header should be 100000000 bytes"),
    "no header": (packed(b""), "not a checkpoint"),
    "text": (b"hello world, this is no checkpoint", "not a checkpoint"),
    "not JSON": (packed(b"{x}"), "the header is damaged"),
    "not UTF-8": (packed(b'{"\xff":1}'), "the header is damaged"),
    "deep": (packed(b'{"x":' + b"[" * 100_000), "the header is damaged"),
    "a long number": (packed(b'{"x":' + b"1" * 5000 + b"}"), "the header is damaged"),
    "NaN": (packed(b'{"x":NaN}'), "NaN is no JSON"),
    "a name twice": (packed(b'{"x":1,"x":1}'), "a name stands twice"),
    "metadata of numbers": (packed({"__metadata__": {"a": 1}}), "not a dict of strings"),
    "no entry": (packed({"x": 1}), "expected dtype, shape and data_offsets"),
    "a type": (packed(entry(dtype="F33"), bytes(8)), "'F33', which tensors lack"),
    "a type that is a list": (packed(entry(dtype=[]), bytes(8)), "expected a name as dtype"),
    "a negative size": (packed(entry(shape=[-2]), bytes(8)), "sizes as shape"),
    "a fractional size": (packed(entry(shape=[2.0]), bytes(8)), "sizes as shape"),
    "a true size": (packed(entry(shape=[True, 2]), bytes(8)), "sizes as shape"),
    "a wrong size": (packed(entry(shape=[3]), bytes(8)), "takes 12 bytes"),
    "an overflow": (packed(entry(shape=[2**40, 2**40]), bytes(8)), "too large"),
    "a gap": (packed(entry(data_offsets=[4, 12]), bytes(12)), "overlaps or leaves a gap"),
    "overlap": (packed(entry() | {"y": entry()["x"]}, bytes(8)), "overlaps or leaves a gap"),
    "backwards": (packed(entry(data_offsets=[8, 0]), bytes(8)), "not those of"),
    "cut": (packed(entry(), bytes(7)), "damaged or cut short"),
    "far": (packed(entry(shape=[2**50], data_offsets=[0, 2**52])), "damaged or cut short"),
    "bool": (packed(entry(dtype="BOOL", shape=[8]), b"\x02" * 8), "neither 0 nor 1"),
    "many dimensions": (packed(entry(shape=[1] * 65 + [2]), bytes(8)), "66 sizes"),
    "nothing, but huge": (packed(entry(shape=[2**61, 0, 2**61], data_offsets=[0, 0])), "large"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "text"), HEADERS.values(), ids=HEADERS)
def test_headers(data, text):
    refused(data, text)


def test_a_longer_file(tmp_path):
    (tmp_path / "file").write_bytes(packed(entry(), bytes(9)))
    with pytest.raises(CheckpointError, match=r"should take \d+ bytes, but the file has"):
        torch.load(tmp_path / "file")


def test_the_error_names_the_file(tmp_path):
    (tmp_path / "some file").write_bytes(b"nonsense" * 10)
    with pytest.raises(CheckpointError, match=r"^load: .*some file: not a checkpoint"):
        torch.load(tmp_path / "some file")


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing")


@pytest.mark.parametrize("make", [lambda: saved({"x": torch.ones(3), "l": [1, (2,)]}),
                                  lambda: (FILES / "protocol4.pt").read_bytes()],
                         ids=["ours", "zip"])  # fmt: skip
def test_every_shorter_file_is_refused(make, tmp_path):
    data = make()
    step = max(len(data) // 500, 1)
    for length in [*range(0, len(data), step), len(data) - 1]:
        with pytest.raises(CheckpointError):
            torch.load(io.BytesIO(data[:length]))
    (tmp_path / "file").write_bytes(data[:-1])
    with pytest.raises(CheckpointError):
        torch.load(tmp_path / "file", mmap=True)


def test_a_file_that_becomes_shorter_while_it_is_read():
    class Shrinking(io.BytesIO):
        def readinto(self, memory):
            self.truncate(len(self.getvalue()) - 1)
            return super().readinto(memory)

    with pytest.raises(CheckpointError, match="it was cut while it was read"):
        torch.load(Shrinking(saved({"x": torch.ones(100)})))


# ---- the document


def with_document(**changes):
    """Return a file whose document is changed, over an entry of eight floats named x."""
    document = {"version": 1, "root": {"@": 0}, "nodes": [{"list": [{"tensor": 0}]}],
                "tensors": [{"entry": "x"}]} | changes  # fmt: skip
    header = {"__metadata__": {"tapegrad": json.dumps(document)}}
    return packed(header | entry(shape=[8], data_offsets=[0, 32]), bytes(32))


def view(**changes):
    record = {"entry": "x", "shape": [2], "stride": [1], "offset": 0} | changes
    return {"tensors": [record]}


def root(value, **changes):
    return {"root": value, **changes}


DOCUMENTS = {
    "another version": ({"version": 2}, "version 2, expected 1"),
    "no root": ({"root": {"@": 5}}, "no node 5"),
    "a node that comes later": ({"nodes": [{"list": [{"@": 0}]}]}, "no node 0"),
    "a negative node": ({"root": {"@": -1}}, "no node -1"),
    "nodes of no kind": ({"nodes": [{"module": []}]}, "damaged"),
    "an empty node": ({"nodes": [{}]}, "damaged"),
    "nodes that are no list": ({"nodes": 3}, "nodes is not a list"),
    "a list outside a node": (root([1]), "a list outside of a node"),
    "two names": (root({"int": "0x1", "float": ""}), "expected one name"),
    "an unknown name": (root({"eval": "1"}), "damaged"),
    "no int": (root({"int": "zz"}), "damaged"),
    "no float": (root({"float": "00"}), "damaged"),
    "no bytes": (root({"bytes": "?"}), "damaged"),
    "no dtype": (root({"dtype": "float31"}), "damaged"),
    "no device": (root({"device": "moon"}), "damaged"),
    "no tensor": (root({"tensor": 7}), "damaged"),
    "no entry": ({"tensors": [{"entry": "y"}]}, "no entry 'y'"),
    "a bytearray of zeros": ({"nodes": [{"bytearray": 10**12}]}, "a bytearray is made of bytes"),
    "a list as a key": ({"nodes": [{"list": []}, {"dict": [[{"@": 0}, 1]]}]}, "a key of type list"),
    "a key twice": ({"nodes": [{"dict": [["a", 1], ["a", 2]]}]}, "a key stands twice"),
    "a key without a value": ({"nodes": [{"dict": [["a"]]}]}, "damaged"),
    "a size that is no int": ({"nodes": [{"Size": [1.5]}]}, "a Size holds ints"),
    "beyond the storage": (view(offset=7), "reach beyond its 32 bytes"),
    "strides beyond the storage": (view(stride=[8]), "reach beyond its 32 bytes"),
    "a negative offset": (view(offset=-1), "offset of -1"),
    "a negative stride": (view(stride=[-1]), "offset of -1"),
    "sizes that overflow": (view(shape=[2**61] * 2, stride=[0, 0]), "too large"),
    "another element type": (view(dtype="float64", shape=[5]), "reach beyond"),
    "bytes that are no bools": (view(dtype="nothing"), "damaged"),
    "grads of ints": (view(dtype="int32", requires_grad=True), "damaged|grad"),
    "an order with gaps": ({"tensors": [{"entry": "x", "memory_stride": [2**40]}]}, "leaves gaps"),
    "a storage of nothing": ({"storages": [[]]}, "a storage has no entries"),
    "a storage twice": ({"storages": [["x"], ["x"]]}, "part of two storages"),
    "an array of another type": ({"nodes": [{"ndarray": ["x", "int64"]}]}, "no array of int64"),
    "an array twice": ({"nodes": [{"ndarray": ["x", "float32"]}] * 2}, "used twice"),
    "bytes twice": ({"nodes": [{"list": [{"entry": "x"}] * 2}]}, "used twice"),
    "a number of no kind": (root({"numpy": ["object", "AAAA"]}), "no number of"),
    "an order twice": ({"tensors": [{"entry": "x", "memory_stride": [1]}] * 2,
                        "nodes": [{"list": [{"tensor": 0}, {"tensor": 1}]}]}, "used twice"),
    "keys that hash for ever": ({"nodes": [{"tuple": []}, *({"tuple": [{"@": n}] * 2} for n in
                                 range(60)), {"dict": [[{"@": 60}, 1]]}]}, "too large"),
    "colliding keys": ({"nodes": [{"dict": [[{"int": hex(n * (2**61 - 1))}, n] for n in
                        range(10**6, 10**6 + 1000)]}]}, "same hash"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents(changes, text):
    refused(with_document(**changes), text)


def test_a_sound_document_loads():
    expect_same(torch.load(io.BytesIO(with_document())), [torch.zeros(8)])
    assert torch.load(io.BytesIO(with_document(**view(stride=[0], shape=[2**40]))))[0].stride() == (
        0,
    )


# ---- thousands of them


@pytest.mark.skipif(IS_SANITIZED, reason="a limit of address space leaves sanitizers none")
def test_mutated_files():
    """The short form of mutate.py."""
    results, peak = mutate.run(100_000, 1000)
    failures = [result for result in results if result[1] == "FAILURE"]
    assert not failures
    kinds = {kind: sum(result[1] == kind for result in results) for kind in ("loaded", "damaged")}
    assert len(results) == 1000 and kinds["loaded"] > 50 and kinds["damaged"] > 500
    assert peak < 400 << 10


def test_the_check_of_mutations_sees_failures(monkeypatch, tmp_path):
    class Broken:
        Tensor = torch.Tensor

        def __init__(self, behave):
            self.load = behave

    def fails(*_, **__):
        raise KeyError("x")

    assert mutate.load_one(Broken(fails), b"", tmp_path / "file", 1)[0] == "FAILURE"
    assert mutate.load_one(Broken(lambda *_, **__: [1]), b"", tmp_path / "file", 1)[0] == "loaded"
    monkeypatch.setattr(mutate.sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="did not start"):
        mutate.run(0, 1)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<!DOCTYPE html><html><body>404</body></html>", "an HTML page, saved in place"),
        (b"\r\n  <HTML>\n<head></head></HTML>", "an HTML page, saved in place"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 3\n", "git lfs pull"),
        (b'{"error": "not found"}', "text in JSON"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "a gzip archive; unpack it first"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "an HDF5 file"),
    ],
)
def test_files_of_other_kinds_are_told_by_what_they_are(tmp_path, content, what):
    path = tmp_path / "weights.pt"
    path.write_bytes(content)
    with pytest.raises(torch.serialization.CheckpointError, match=what) as caught:
        torch.load(path)
    assert isinstance(caught.value, pickle.UnpicklingError)
    assert "not a checkpoint" in str(caught.value)
