"""Tensors of bare dtypes: made, shown, printed, shared, saved."""

import copy
import io
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from library import torch

from bare_dtypes.cases import (
    BARE,
    FLOAT8,
    UNSIGNED,
    assert_same,
    beside_pytorch,
    bits_of,
    dtype_of,
    each_dtype,
    each_float8,
    each_unsigned,
    pytorch,
)


@each_dtype
def test_facts(name):
    dtype = dtype_of(name)
    assert repr(dtype) == f"torch.{name}" and pickle.loads(pickle.dumps(dtype)) is dtype
    assert dtype.is_floating_point == name.startswith("float8") and not dtype.is_complex
    assert dtype.is_signed == (name in FLOAT8[:-1])
    x = torch.zeros(2, dtype=dtype)
    assert (
        x.element_size() == dtype.itemsize == {"uint1": 2, "uint3": 4, "uint6": 8}.get(name[:5], 1)
    )
    assert x.type() == f"torch.{name.replace('uint', 'UInt').replace('float8', 'Float8')}Tensor"
    assert x.is_signed() == dtype.is_signed


@beside_pytorch
@each_dtype
def test_limits(name):
    info = torch.finfo if name in FLOAT8 else torch.iinfo
    theirs = (pytorch.finfo if name in FLOAT8 else pytorch.iinfo)(getattr(pytorch, name))
    ours = info(dtype_of(name))
    facts = ["bits", "max", "min", "dtype"]
    if name in FLOAT8:
        facts += ["eps", "tiny", "smallest_normal", "resolution"]
    for fact in facts:
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert repr(ours) == repr(theirs)
    with pytest.raises(TypeError):
        (torch.iinfo if name in FLOAT8 else torch.finfo)(dtype_of(name))


NUMBERS = {
    "uint16": ([1, -1, True], [70000], [1.7], [-1.2], [1e30], [-70000]),
    "uint32": ([1, -1], [2**32], [1.7], [-1.2], [-(2**33)]),
    "uint64": ([1, 2**64 - 1], [2**64], [-1]),
    **{
        name: ([1, 0.3, True], [1e6], [-1e6], [float("nan")], [float("inf")], [1e-9])
        for name in FLOAT8
    },
}


@beside_pytorch
@pytest.mark.parametrize(
    ("name", "numbers"), [(name, each) for name, lists in NUMBERS.items() for each in lists]
)
def test_made_of_numbers(name, numbers):
    try:
        theirs = pytorch.tensor(numbers, dtype=getattr(pytorch, name))
    except (RuntimeError, OverflowError) as error:
        with pytest.raises(type(error)):
            torch.tensor(numbers, dtype=dtype_of(name))
    else:
        assert_same(torch.tensor(numbers, dtype=dtype_of(name)), theirs)
        assert_same(torch.tensor(numbers[0], dtype=dtype_of(name)), theirs[0])


FILLS = (3, -1, 1.5, 500, 70000, -70000, 1e6, 1e30, float("inf"), float("nan"), 2**63, True)


@beside_pytorch
@each_dtype
@pytest.mark.parametrize("value", FILLS)
def test_full(name, value):
    if value == 2**63 and name != "uint64":
        return  # others take integers of 64 bits alone
    for shape in ((2, 3), (1,)):
        try:
            theirs = pytorch.full(shape, value, dtype=getattr(pytorch, name))
        except RuntimeError:
            with pytest.raises((RuntimeError, TypeError)):
                torch.full(shape, value, dtype=dtype_of(name))
        else:
            assert_same(torch.full(shape, value, dtype=dtype_of(name)), theirs)


@each_dtype
def test_made_of_nothing(name):
    dtype = dtype_of(name)
    assert torch.empty(2, 3, dtype=dtype).shape == (2, 3)
    assert torch.ones(2, dtype=dtype).tolist() == [1, 1]
    assert torch.zeros(0, dtype=dtype).tolist() == []
    assert torch.empty_strided((2, 2), (1, 2), dtype=dtype).stride() == (1, 2)
    assert torch.scalar_tensor(2, dtype=dtype).item() == 2
    assert torch.zeros(2, 3).new_ones(2, dtype=dtype).dtype is dtype
    with pytest.raises(TypeError, match="floating"):
        torch.set_default_dtype(dtype)


def test_elements():
    x = torch.tensor([2**64 - 1, 3], dtype=torch.uint64)
    assert x[0].item() == int(x[0]) == x.tolist()[0] == 2**64 - 1
    assert float(x[0]) == 2.0**64 and bool(x[0]) and [7, 8, 9, 10][x[1]] == 10
    x[1] = 2**63 + 1
    assert x[1].item() == 2**63 + 1
    assert torch.full_like(x, 2**63).tolist() == [2**63] * 2
    y = torch.tensor([0.3, 4.0]).to(torch.float8_e4m3fn)
    assert y[0].item() == 0.3125 and int(y[1]) == 4 and bool(y[1])
    with pytest.raises(TypeError):
        [1, 2][y[1]]


@beside_pytorch
@each_dtype
def test_printed(name):
    for values in ([1.0, 2.0], [[1.0, 300.0], [0.5, 7.0]], [], 2.0, list(range(2000))):
        ours = torch.tensor(values, dtype=torch.float64).to(dtype_of(name))
        theirs = pytorch.tensor(values, dtype=pytorch.float64).to(getattr(pytorch, name))
        assert repr(ours) == repr(theirs)
    if name == "uint64":
        assert repr(torch.tensor([2**64 - 1], dtype=torch.uint64)) == repr(
            pytorch.tensor([2**64 - 1], dtype=pytorch.uint64)
        )


@beside_pytorch
@each_dtype
@pytest.mark.parametrize("to", ["uint8", "int16", "float32", "complex128", *BARE])
def test_view_as_dtype(name, to):
    base = np.arange(2 * 3 * 16, dtype=np.uint8).reshape(2, 3, 16)
    ours = torch.from_numpy(base).view(dtype_of(name))
    theirs = pytorch.from_numpy(base).view(getattr(pytorch, name))
    for show in (
        lambda x: x,
        lambda x: x[:, ::2],
        lambda x: x[..., x.shape[-1] // 2 :],
        lambda x: x[..., 1:],
        lambda x: x.transpose(0, 2),
        lambda x: x[0, 0, 0],
        lambda x: x[:0],
        lambda x: x[..., ::2],
    ):
        try:
            expected = show(theirs).view(getattr(pytorch, to))
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as caught:
                show(ours).view(dtype_of(to))
            assert str(error).split(" to view")[0] in str(caught.value)
        else:
            got = show(ours).view(dtype_of(to))
            assert got.stride() == tuple(expected.stride())
            assert got.storage_offset() == expected.storage_offset()
            np.testing.assert_array_equal(bits_of(got), bits_of(expected))


def test_the_first_bare_tensor_may_be_a_view():
    """That there are any is known from then on."""
    program = (
        f"import {torch.__name__} as torch\n"
        "x = torch.zeros(4, dtype=torch.uint8).view(torch.float8_e4m3fn)\n"
        "for name in ('sort', 'sum', 'nonzero', 'median'):\n"
        "    try:\n"
        "        getattr(x, name)()\n"
        "    except NotImplementedError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    refused = done.stdout.decode().splitlines()
    assert [line.split(":")[0] for line in refused] == ["sort", "sum", "median"]


def test_views_of_memory_that_is_not_aligned():
    x = torch.frombuffer(bytearray(17), dtype=torch.uint8, offset=1)
    aligned = torch.frombuffer(bytearray(16), dtype=torch.uint8)
    assert aligned.view(torch.float32).shape == (4,)
    with pytest.raises(RuntimeError, match="not aligned"):
        x.view(torch.float32)
    assert x.clone().view(torch.float32).shape == (4,)


def test_view_as_dtype_shares_memory():
    x = torch.zeros(2, 2)
    x.view(torch.uint8)[0, 3] = 0x40
    assert x.tolist() == [[2.0, 0.0], [0.0, 0.0]]
    x.view(torch.float64).zero_()
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(NotImplementedError, match="vmap"):
        torch.vmap(lambda row: row.view(torch.uint8))(x)


@each_unsigned
def test_numpy(name):
    array = np.array([[0, 5], [7, np.iinfo(name).max]], dtype=name)
    x = torch.from_numpy(array)
    assert x.dtype is dtype_of(name) and x.numpy().dtype == array.dtype
    x[0, 0] = 9
    assert array[0, 0] == 9
    assert torch.tensor(array).dtype is torch.as_tensor(array[0, 1]).dtype is x.dtype
    assert np.asarray(x).tolist() == array.tolist()
    assert np.from_dlpack(x).tolist() == array.tolist()
    assert (
        torch.frombuffer(bytearray(array.tobytes()), dtype=x.dtype).tolist() == x.flatten().tolist()
    )


@each_float8
def test_numpy_has_no_float8(name):
    x = torch.ones(2, dtype=dtype_of(name))
    with pytest.raises(TypeError, match=f"NumPy has no {name}"):
        x.numpy()
    assert x.view(torch.uint8).numpy().dtype == np.uint8


@beside_pytorch
@each_dtype
def test_dlpack(name):
    x = torch.arange(6).reshape(2, 3).to(dtype_of(name)).t()
    there = pytorch.from_dlpack(x)
    assert_same(x, there)
    assert_same(torch.from_dlpack(there), there)
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


def examples(library):
    made = {name: library.arange(4.0).to(getattr(library, name)) for name in BARE}
    made["part"] = made["uint16"][1:3]
    made["turned"] = library.ones(2, 3).to(library.float8_e5m2).t()
    return made


@pytest.mark.parametrize("copied", ["save", "pickle", "deepcopy"])
def test_copies(copied):
    made = examples(torch)
    if copied == "save":
        file = io.BytesIO()
        torch.save(made, file)
        file.seek(0)
        back = torch.load(file)
        assert back["part"].data_ptr() == back["uint16"].data_ptr() + 2
    else:
        back = copy.deepcopy(made) if copied == "deepcopy" else pickle.loads(pickle.dumps(made))
    for name, x in made.items():
        assert back[name].dtype is x.dtype and back[name].stride() == x.stride()
        assert torch.equal(back[name], x)


@beside_pytorch
def test_files_of_pytorch(tmp_path):
    made = examples(pytorch)
    pytorch.save(made, tmp_path / "state.pt")
    back = torch.load(tmp_path / "state.pt")
    for name, x in made.items():
        assert_same(back[name], x)


@beside_pytorch
def test_safetensors(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    made = {name: pytorch.arange(4.0).to(getattr(pytorch, name)) for name in BARE}
    library.save_file(made, tmp_path / "theirs.safetensors")
    back = torch.load(tmp_path / "theirs.safetensors")
    for name, x in made.items():
        assert_same(back[name], x)
    torch.save({name: examples(torch)[name] for name in BARE}, tmp_path / "ours.safetensors")
    for name, x in library.load_file(tmp_path / "ours.safetensors").items():
        assert_same(examples(torch)[name], x)


def test_modules_keep_them():
    layer = torch.nn.Linear(3, 2).to(torch.float8_e4m3fn)
    assert layer.weight.dtype is torch.float8_e4m3fn and layer.weight.requires_grad
    with pytest.raises(NotImplementedError, match="float8_e4m3fn"):
        layer(torch.ones(1, 3, dtype=torch.float8_e4m3fn))
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight.float())
    loader = torch.utils.data.DataLoader([torch.ones(2).to(torch.float8_e5m2)] * 4, batch_size=2)
    assert [batch.dtype for batch in loader] == [torch.float8_e5m2] * 2


def test_casts_of_complex_warn():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.tensor([1j]).to(torch.uint16)
    assert len(seen) == 1 and len(UNSIGNED) == 3
