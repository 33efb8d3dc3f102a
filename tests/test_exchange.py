"""Tensors in and out: Python numbers, NumPy arrays, DLPack, pickle, deepcopy."""

import copy
import gc
import math
import operator
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
from library import IS_TORCH, NAME, torch

ARRAY_DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
ALL_DTYPES = (*ARRAY_DTYPES, "bfloat16")


def sample(name, shape=(2, 3)):
    return torch.arange(6).reshape(shape).to(getattr(torch, name))


def other_library():
    """Return PyTorch when tapegrad is tested and PyTorch is there."""
    if IS_TORCH:
        pytest.skip("PyTorch is the library under test")
    return pytest.importorskip("torch")


# ---- Python numbers


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_item_and_tolist(name):
    x = sample(name)
    wanted = np.arange(6).reshape(2, 3).astype("float64" if "float" in name else name)
    assert x.tolist() == wanted.tolist()
    assert x.t().tolist() == wanted.T.tolist()
    assert x[1, 2].item() == wanted[1, 2]
    kind = bool if name == "bool" else float if "float" in name else int
    assert type(x[0, 1].item()) is kind
    assert type(x.tolist()[0][0]) is kind


def test_tolist_of_odd_shapes():
    assert torch.tensor(1.5).tolist() == 1.5
    assert torch.zeros(0, 3).tolist() == []
    assert torch.zeros(3, 0).tolist() == [[], [], []]
    assert torch.ones(1).expand(2, 2).tolist() == [[1, 1], [1, 1]]


def test_item_needs_one_element():
    assert torch.ones(1, 1).item() == 1
    for shape, count in (((2,), 2), ((0,), 0)):
        with pytest.raises(RuntimeError, match=f"{count} elements cannot be converted to Scalar"):
            torch.ones(shape).item()


def test_conversions():
    assert int(torch.tensor(2.7)) == 2
    assert int(torch.tensor(-2.7)) == -2
    assert int(torch.tensor(1e30, dtype=torch.float64)) == int(1e30)
    assert float(torch.tensor([3])) == 3.0
    assert float(torch.tensor(True)) == 1.0
    assert bool(torch.tensor([[0.5]])) is True
    assert bool(torch.tensor(0)) is False
    assert bool(torch.tensor(math.nan)) is True
    assert operator.index(torch.tensor([2])) == 2
    assert operator.index(torch.tensor(True)) == 1
    assert ["a", "b", "c"][torch.tensor(1)] == "b"
    assert list(range(torch.tensor(2))) == [0, 1]


REFUSED = [
    (lambda: bool(torch.ones(2)), RuntimeError, "more than one value is ambiguous"),
    (lambda: bool(torch.ones(0)), RuntimeError, "no values is ambiguous"),
    (lambda: int(torch.ones(2)), ValueError, "only one element tensors"),
    (lambda: float(torch.ones(2)), ValueError, "only one element tensors"),
    (lambda: operator.index(torch.tensor(2.0)), TypeError, "only integer tensors of a single"),
    (lambda: operator.index(torch.tensor([1, 2])), TypeError, "only integer tensors of a single"),
    (lambda: int(torch.tensor(math.inf)), OverflowError, "infinity"),
    (lambda: int(torch.tensor(math.nan)), ValueError, "NaN"),
]


@pytest.mark.parametrize(("convert", "error", "text"), REFUSED)
def test_conversions_refused(convert, error, text):
    with pytest.raises(error, match=text):
        convert()


@pytest.mark.parametrize("method", ["item", "tolist", "numpy", "__deepcopy__", "__reduce_ex__"])
def test_methods_refuse_strangers(method):
    with pytest.raises((TypeError, AttributeError)):
        getattr(torch.Tensor, method)(3, {})


def test_geometry_facts():
    x = torch.zeros(3, 4, dtype=torch.float64)
    view = x[1:]
    assert (x.element_size(), x.nbytes, x.storage_offset(), view.storage_offset()) == (8, 96, 0, 4)
    assert view.data_ptr() == x.data_ptr() + 32
    storage = view.untyped_storage()
    assert (storage.nbytes(), storage.size(), len(storage)) == (96, 96, 96)
    assert storage.data_ptr() == x.data_ptr()
    assert torch.empty(0).data_ptr() == 0


# ---- NumPy


@pytest.mark.parametrize("name", ARRAY_DTYPES)
def test_numpy_shares_memory(name):
    x = sample(name)
    array = x.numpy()
    assert array.dtype == np.dtype(name)
    assert array.tolist() == x.tolist()
    array[0, 1] = 0
    assert x[0, 1].item() == 0
    x[1, 1] = 1
    assert array[1, 1] == 1


@pytest.mark.parametrize("name", ARRAY_DTYPES)
def test_from_numpy_shares_memory(name):
    array = np.arange(6).reshape(2, 3).astype(name)
    x = torch.from_numpy(array)
    assert str(x.dtype) == f"torch.{name}"
    assert x.tolist() == array.tolist()
    array[0, 1] = 0
    assert x[0, 1].item() == 0


def test_numpy_of_views():
    x = torch.arange(24).reshape(2, 3, 4)
    for view in (x.permute(2, 0, 1), x[:, 1:], x[..., ::2], x[1], torch.ones(1).expand(3, 2)):
        array = view.numpy()
        assert array.shape == tuple(view.shape)
        assert array.tolist() == view.tolist()
    assert torch.tensor(2.5).numpy().shape == ()
    assert torch.zeros(0, 3).numpy().shape == (0, 3)
    x[0].numpy()[:] = -1
    assert (x[0] == -1).all()


def test_from_numpy_of_views():
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (array.T, array[:, 1:], array[..., ::2], array[1], np.asfortranarray(array[0])):
        x = torch.from_numpy(view)
        assert x.tolist() == view.tolist()
        assert x.stride() == tuple(stride // 8 for stride in view.strides)
    assert torch.from_numpy(np.array(1.5)).item() == 1.5
    assert tuple(torch.from_numpy(np.zeros((0, 3))).shape) == (0, 3)
    assert torch.from_numpy(np.empty((1, 0))[::-1]).tolist() == [[]]


def test_memory_outlives_its_first_owner():
    array = torch.full((1000,), 3.0).numpy()
    gc.collect()
    torch.full((1000,), 4.0)
    assert (array == 3).all()
    x = torch.from_numpy(np.full(1000, 5.0))
    gc.collect()
    np.full(1000, 6.0)
    assert (x == 5).all()


def test_array_is_released_with_the_tensor():
    array = np.ones(3)
    alive = weakref.ref(array)
    x = torch.from_numpy(array)
    view = x[1:]
    del array, x
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


@pytest.mark.skipif(IS_TORCH, reason="PyTorch refuses to resize memory that NumPy has seen")
def test_array_keeps_its_memory_when_the_tensor_moves():
    x = torch.ones(4)
    array = x.numpy()
    x.resize_(1000)
    torch.full((4,), 9.0)
    assert array.tolist() == [1, 1, 1, 1]


def test_numpy_refuses_gradients():
    leaf = torch.ones(2, requires_grad=True)
    for x in (leaf, leaf * 2):
        with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
            x.numpy()
        with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy\(\)"):
            np.asarray(x)
        assert x.numpy(force=True).shape == (2,)
    with torch.no_grad():
        assert (leaf * 2).numpy().tolist() == [2, 2]


def test_numpy_has_no_bfloat16():
    with pytest.raises(TypeError, match=r"(?i)bfloat16"):
        torch.ones(2, dtype=torch.bfloat16).numpy()


@pytest.mark.skipif(IS_TORCH, reason="PyTorch's __array__ knows no copy=, which NumPy warns about")
def test_array_protocol():
    x = torch.arange(3)
    assert np.asarray(x).tolist() == [0, 1, 2]
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x, copy=True), x.numpy())
    assert x.__array__().dtype == np.int64
    assert x.__array__(dtype=np.float32).dtype == np.float32
    assert np.add(x, 1).tolist() == [1, 2, 3]


@pytest.mark.skipif(IS_TORCH, reason="NumPy warns about the signature of PyTorch's __array_wrap__")
def test_arrays_and_tensors_mix():
    for result in (torch.ones(2) + np.ones(2), np.add(torch.ones(2), 1), np.sin(torch.zeros(2))):
        assert type(result) is torch.Tensor
    assert (torch.ones(2) + np.ones(2)).dtype is torch.float64


BAD_ARRAYS = [
    (lambda: [1], TypeError, r"expected np\.ndarray \(got list\)"),
    (lambda: np.float32(3), TypeError, r"expected np\.ndarray \(got numpy\.float32\)"),
    (lambda: np.array([1, 2], dtype=">i4"), ValueError, "byte order"),
    (lambda: np.arange(4)[::-1], ValueError, "negative"),
    (lambda: np.array(["a"]), TypeError, "can't convert np.ndarray of type numpy.str_"),
    (lambda: np.array([None]), TypeError, "can't convert np.ndarray of type numpy.object_"),
    (lambda: np.array(["2020-01-01"], dtype="M8[D]"), TypeError, "datetime64"),
    (
        lambda: np.zeros(3, dtype=[("a", "i4"), ("b", "i2")])["a"],
        ValueError,
        "multiple of the element byte size",
    ),
]


@pytest.mark.parametrize(("make", "error", "text"), BAD_ARRAYS)
def test_from_numpy_refuses(make, error, text):
    with pytest.raises(error, match=text):
        torch.from_numpy(make())


def test_read_only_array_warns():
    array = np.arange(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = torch.from_numpy(array)
    assert x.tolist() == [0, 1, 2]


def test_import_leaves_numpy_alone(tmp_path):
    """NumPy is imported when an array is asked for, not before."""
    if IS_TORCH:
        pytest.skip("PyTorch imports NumPy")
    program = (
        f"import sys, {NAME} as torch\n"
        "x = torch.tensor([[1.0, 2.0]], requires_grad=True)\n"
        "(x * 2).sum().backward(); x.grad.tolist(); repr(x); torch.rand(3); torch.as_tensor([1])\n"
        "assert 'numpy' not in sys.modules, 'NumPy was imported'\n"
        "assert x.detach().numpy().tolist() == [[1.0, 2.0]]\n"
        "assert 'numpy' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=tmp_path)


# ---- DLPack


@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_dlpack_round_trip(name, version):
    x = sample(name)
    for view in (x, x.t(), x[:, 1:], x[1], x[0, 0]):
        capsule = view.__dlpack__(max_version=version)
        y = torch.from_dlpack(capsule)
        assert (y.dtype, y.shape, y.stride()) == (view.dtype, view.shape, view.stride())
        assert y.tolist() == view.tolist()
        assert y.data_ptr() == view.data_ptr()


@pytest.mark.parametrize("name", ARRAY_DTYPES)
def test_dlpack_with_numpy(name):
    x = sample(name)
    array = np.from_dlpack(x)
    assert array.tolist() == x.tolist()
    assert np.shares_memory(array, x.numpy())
    back = torch.from_dlpack(np.arange(6).astype(name))
    assert str(back.dtype) == f"torch.{name}"
    assert back.tolist() == np.arange(6).astype(name).tolist()


@pytest.mark.parametrize("name", ALL_DTYPES)
def test_dlpack_with_pytorch(name):
    other = other_library()
    x = sample(name).t()
    y = other.from_dlpack(x)
    assert (str(y.dtype), tuple(y.shape), y.stride()) == (str(x.dtype), tuple(x.shape), x.stride())
    assert y.tolist() == x.tolist()
    y.zero_()
    assert x.tolist() == y.tolist()
    z = torch.from_dlpack(other.arange(6).to(getattr(other, name)).reshape(2, 3).t())
    assert (str(z.dtype), z.tolist()) == (str(x.dtype), sample(name).t().tolist())


def test_dlpack_ownership():
    """Consumed or not, on either side, memory lives as long as somebody uses it and no longer."""
    array = np.ones(3)
    alive = weakref.ref(array)
    x = torch.from_dlpack(array)
    del array
    gc.collect()
    assert alive() is not None
    assert x.tolist() == [1, 1, 1]
    del x
    gc.collect()
    assert alive() is None
    unused = torch.full((1000,), 2.0).__dlpack__()
    del unused
    kept = np.from_dlpack(torch.full((1000,), 2.0))
    gc.collect()
    torch.full((1000,), 3.0)
    assert (kept == 2).all()


def test_dlpack_capsule_is_consumed_once():
    capsule = torch.ones(2).__dlpack__()
    assert torch.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="only once"):
        torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="capsule"):
        torch.from_dlpack(3)


def test_dlpack_options():
    x = torch.ones(2)
    assert tuple(x.__dlpack_device__()) == (1, 0)
    copied = torch.from_dlpack(x.__dlpack__(copy=True))
    x.zero_()
    assert copied.tolist() == [1, 1]
    assert torch.from_dlpack(np.ones(2), copy=True).tolist() == [1, 1]
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0), dl_device=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8), stream=-1))
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises((ValueError, AssertionError), match="stream"):
        x.__dlpack__(stream=1)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch aborts the process")
def test_dlpack_refuses_negative_strides():
    array = np.arange(4)[::-1]
    with pytest.raises(ValueError, match="negative strides"):
        torch.from_dlpack(array)
    assert array.tolist() == [3, 2, 1, 0]


# ---- pickle and deepcopy


@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(name, protocol):
    x = sample(name)
    for view in (x, x.t(), x[:, ::2], x[0, 0], x[:, :0]):
        y = pickle.loads(pickle.dumps(view, protocol=protocol))
        assert (y.dtype, y.shape) == (view.dtype, view.shape)
        assert y.tolist() == view.tolist()
        assert type(y) is torch.Tensor
    assert pickle.loads(pickle.dumps(x.t(), protocol=protocol)).stride() == x.t().stride()


def test_pickle_keeps_requires_grad():
    assert pickle.loads(pickle.dumps(torch.ones(2, requires_grad=True))).requires_grad
    assert not pickle.loads(pickle.dumps(torch.ones(2))).requires_grad


@pytest.mark.skipif(IS_TORCH, reason="the stored form is our own")
def test_damaged_pickle_is_refused():
    rebuild, (cls, data, dtype, sizes, strides, grad) = torch.ones(2, 3).__reduce_ex__(2)[:2]
    for arguments in (
        (cls, data[:-1], dtype, sizes, strides, grad),
        (cls, data, dtype, (2, 2), strides, grad),
        (cls, data, dtype, sizes, (300, 1), grad),
        (cls, data, dtype, sizes, (-3, 1), grad),
        (cls, data, dtype, sizes, (1,), grad),
        (int, data, dtype, sizes, strides, grad),
        (cls, data, "float32", sizes, strides, grad),
    ):
        with pytest.raises(ValueError, match="_rebuild_tensor"):
            rebuild(*arguments)


def test_deepcopy():
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    x.grad = torch.ones(3, 2)
    x.note = ["attribute"]
    y = copy.deepcopy(x)
    assert y.tolist() == x.tolist()
    assert (y.requires_grad, y.is_leaf, y.stride()) == (True, True, x.stride())
    assert y.data_ptr() != x.data_ptr()
    assert y.grad.tolist() == x.grad.tolist()
    assert y.grad is not x.grad
    assert y.note == ["attribute"]
    assert y.note is not x.note


def test_deepcopy_keeps_identity():
    x = torch.ones(2)
    first, second = copy.deepcopy([x, x])
    assert first is second
    assert first is not x


def test_deepcopy_keeps_what_shares_memory():
    """Views, their bases and storages that are copied together share the copied memory."""
    x = torch.arange(6.0).reshape(2, 3)
    whole, row, steps, storage = copy.deepcopy([x, x[1], x.view(-1)[::2], x.untyped_storage()])
    whole[1, 0] = 7
    assert row.tolist() == [7, 4, 5]
    assert (steps.tolist(), steps.stride(), row.storage_offset()) == ([0, 2, 4], (2,), 3)
    assert storage.data_ptr() == whole.data_ptr()
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert copy.deepcopy(torch.ones(2).expand(3, 2)).stride() == (0, 1)


def test_deepcopy_refuses_history():
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(torch.ones(2, requires_grad=True) * 2)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch asks subclasses to implement new_empty")
def test_subclass_survives():
    class Named(torch.Tensor):
        pass

    x = Named([1.0, 1.0])
    x.label = "weights"
    y = copy.deepcopy(x)
    assert (type(y), y.label, y.tolist()) == (Named, "weights", [1, 1])


# ---- operators with arrays, shallow copies


def test_equality_with_an_array_is_elementwise():
    x, array = torch.tensor([1.0, 2.0]), np.array([1.0, 3.0])
    for result in (x == array, array == x):
        assert isinstance(result, torch.Tensor) and result.tolist() == [True, False]
    quotient = array / x
    assert isinstance(quotient, torch.Tensor) and quotient.tolist() == [1.0, 1.5]


@pytest.mark.skipif(IS_TORCH, reason="PyTorch's != with an array is one bool, always True")
def test_inequality_with_an_array_is_elementwise():
    x, array = torch.tensor([1.0, 2.0]), np.array([1.0, 3.0])
    for result in (x != array, array != x):
        assert isinstance(result, torch.Tensor) and result.tolist() == [False, True]


def test_copy_shares_memory():
    x = torch.arange(6.0).reshape(2, 3)[:, 1]
    twin = copy.copy(x)
    twin[0] = 9
    assert x.tolist() == [9.0, 4.0]
    assert (twin.stride(), twin.storage_offset()) == (x.stride(), x.storage_offset())
    leaf = torch.ones(2, requires_grad=True)
    leaf.note = [1]
    twin = copy.copy(leaf)
    assert twin.requires_grad and twin.is_leaf and twin.grad is None and twin.note is leaf.note
    product = leaf * 2
    twin = copy.copy(product)
    assert twin.requires_grad and twin.is_leaf and twin.data_ptr() == product.data_ptr()
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    twin = copy.copy(parameter)
    assert type(twin) is torch.nn.Parameter and not twin.requires_grad
    assert twin.data_ptr() == parameter.data_ptr() and twin is not parameter
