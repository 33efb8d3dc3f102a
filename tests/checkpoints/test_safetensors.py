"""The files are safetensors files: other readers see the tensors, and theirs are read here."""

import io
import json
import struct

import numpy as np
import pytest

from .states import DTYPES, expect_same, model_of

safetensors = pytest.importorskip("safetensors.numpy")


def saved(library, state):
    file = io.BytesIO()
    library.save(state, file)
    return file.getvalue()


def header_of(data):
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length]), length


def test_the_layout_of_a_file(ours):
    data = saved(ours, {"w": ours.ones(2, 3), "b": ours.ones(3, dtype=ours.float64)})
    header, length = header_of(data)
    assert (8 + length) % 64 == 0
    assert header.pop("__metadata__").keys() == {"format", "tapegrad"}
    assert header == {
        "b": {"dtype": "F64", "shape": [3], "data_offsets": [0, 24]},
        "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [24, 48]},
    }
    assert len(data) == 8 + length + 48


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bfloat16"])
def test_safetensors_reads_ours(ours, name):
    x = ours.arange(6).reshape(2, 3).to(getattr(ours, name))
    found = safetensors.load(saved(ours, {"x": x, "zero_dim": x[1, 1].clone()}))
    assert found["x"].dtype == np.dtype(name)
    assert found["x"].tolist() == x.tolist()
    assert found["zero_dim"].shape == ()


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "bfloat16"])
def test_we_read_safetensors(ours, name):
    arrays = {"b": np.arange(6).reshape(2, 3).astype(name), "a": np.ones((), name),
              "none": np.ones((0, 2), name)}  # fmt: skip
    back = ours.load(io.BytesIO(safetensors.save(arrays, {"author": "somebody"})))
    assert back.keys() == arrays.keys()
    for key, array in arrays.items():
        assert str(back[key].dtype) == f"torch.{name}"
        assert tuple(back[key].shape) == array.shape
        assert back[key].tolist() == array.tolist()


def test_with_pytorch_on_the_other_side(ours, pytorch):
    from safetensors.torch import load, save

    model = model_of(ours)
    theirs = load(saved(ours, model.state_dict()))
    other = model_of(pytorch, 1)
    other.load_state_dict(theirs)
    expect_same(dict(other.state_dict()), dict(model.state_dict()))
    back = ours.load(io.BytesIO(save(model_of(pytorch, 2).state_dict())))
    model.load_state_dict(back)
    expect_same(dict(model.state_dict()), dict(model_of(pytorch, 2).state_dict()))
    half = pytorch.ones(3, dtype=pytorch.bfloat16)
    expect_same(ours.load(io.BytesIO(save({"h": half}))), {"h": half})
    expect_same(load(saved(ours, {"h": ours.ones(3, dtype=ours.bfloat16)})), {"h": half})


def test_a_file_on_the_disk(ours, tmp_path):
    ours.save({"x": ours.arange(3)}, tmp_path / "ours.safetensors")
    assert safetensors.load_file(tmp_path / "ours.safetensors")["x"].tolist() == [0, 1, 2]
    safetensors.save_file({"y": np.arange(3)}, tmp_path / "theirs.safetensors")
    for mapped in (False, True):
        back = ours.load(tmp_path / "theirs.safetensors", mmap=mapped)
        assert back["y"].tolist() == [0, 1, 2]


def test_names_of_nested_tensors(ours):
    state = {"model": {"w": ours.ones(2)}, "optimizer": {"state": {0: [ours.zeros(1)]}}}
    assert sorted(safetensors.load(saved(ours, state))) == ["model.w", "optimizer.state.0.0"]


def test_readers_see_values_in_row_major_order(ours):
    matrix = ours.arange(6.0).reshape(2, 3)
    found = safetensors.load(saved(ours, {"turned": matrix.t(), "steps": ours.arange(9)[::4]}))
    assert found["turned"].tolist() == matrix.t().tolist()
    assert found["steps"].tolist() == [0, 4, 8]


def test_of_tensors_that_overlap_readers_see_the_contiguous_ones(ours):
    base = ours.arange(12.0).reshape(3, 4)
    found = safetensors.load(saved(ours, {"row": base[1], "all": base, "turned": base.t()}))
    assert list(found) == ["all"]
    assert found["all"].tolist() == base.tolist()


def test_neighbours_in_one_storage_are_entries_of_their_own(ours):
    vector = ours.arange(10.0)
    found = safetensors.load(saved(ours, {"a": vector[:4].view(2, 2), "b": vector[5:]}))
    assert found["a"].tolist() == [[0, 1], [2, 3]]
    assert found["b"].tolist() == [5, 6, 7, 8, 9]
    assert sorted(found) == ["a", "a.storage", "b"]  # The fifth number lies between them.


def test_everything_we_write_is_valid(ours):
    state = {
        "names": {"a.b": ours.ones(1), "a": {"b": ours.zeros(1)}, "\ud800": ours.ones(1)},
        "__metadata__": ours.ones(1), "none": ours.zeros(0, 3), "bytes": bytes(5000),
        "wide": np.ones(3, "c16"), "unsigned": np.ones(3, "u2"), "expanded": ours.ones(1).expand(4),
        "odd": ours.ones(3, dtype=ours.uint8), "mask": ours.tensor([True]),
        "history": list(range(300_000)),
    }  # fmt: skip
    data = saved(ours, state)
    safetensors.load(data)
    header, length = header_of(data)
    sizes = {"F64": 8, "I64": 8, "F32": 4, "U16": 2, "U8": 1, "BOOL": 1}
    for name, entry in header.items():  # so that any of them can be mapped
        if name != "__metadata__":
            assert (8 + length + entry["data_offsets"][0]) % sizes[entry["dtype"]] == 0, name


def test_complex_numbers_have_an_encoding(ours):
    found = safetensors.load(saved(ours, {"wide": np.array([1 + 2j]), "c": np.ones(2, "c8")}))
    assert found["wide"].tolist() == [[1, 2]]
    header, _ = header_of(saved(ours, {"c": np.ones(2, "c8")}))
    assert header["c"]["dtype"] == "C64"


def test_element_types_that_we_lack_are_named(ours):
    data = safetensors.save({"x": np.ones(2, "u4")})
    four = data.replace(b'"U32"', b'"F4"').replace(b"[2]", b"[16]")
    (length,) = struct.unpack_from("<Q", data)
    four = struct.pack("<Q", length + len(four) - len(data)) + four[8:]
    with pytest.raises(ours.serialization.CheckpointError, match="'F4', which tensors lack"):
        ours.load(io.BytesIO(four))
