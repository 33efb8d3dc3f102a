"""Memory of CUDA tensors in other libraries, and theirs in tensors: DLPack, the array interface."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from library import torch

cuda = torch.cuda
CPU, CUDA, CUDA_HOST, ROCM, MANAGED = 1, 2, 3, 10, 13
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def values(dtype=torch.float32):
    return (torch.arange(24, device="cuda") % 5).to(dtype).reshape(2, 3, 4)


# ---- a library that is not this one


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DlTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    ]


KEPT = []  # what a library in C has for ever: its deleter may be called late


class Producer:
    """Memory of a tensor as another library would export it: floats in one dimension."""

    def __init__(self, tensor, device=(CUDA, 0), is_versioned=True, address=None, flags=0):
        self.tensor, self.device, self.is_versioned = tensor, device, is_versioned
        self.address = tensor.data_ptr() if address is None else address
        self.flags = flags
        self.calls, self.deletions = [], []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.calls.append(options)
        if not self.is_versioned and "max_version" in options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.capsule()

    @property
    def deleted(self):
        return len(self.deletions)

    def capsule(self):
        shape = (ctypes.c_int64 * 1)(self.tensor.numel())
        content = DlTensor(self.address, *self.device, 1, 2, 32, 1, shape, None, 0)
        deleter = DELETER(self.deletions.append)
        if self.is_versioned:
            managed, name = (
                Versioned(1, 0, None, deleter, self.flags, content),
                "dltensor_versioned",
            )
        else:
            managed, name = Managed(content, None, deleter), "dltensor"
        name = ctypes.create_string_buffer(name.encode())
        KEPT.extend((shape, deleter, managed, name))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(managed), ctypes.cast(name, ctypes.c_char_p), None)


class Described:
    """An object with the array interface of a tensor, changed in places."""

    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changes}


# ---- DLPack out


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (2, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_round_trip(dtype, version):
    x = values(dtype)
    for view in (x, x.transpose(0, 2), x[:, 1:, ::2], x[0, 0, 0], x[:0]):
        y = torch.from_dlpack(view.__dlpack__(max_version=version))
        assert y.device == x.device and y.dtype is dtype and y.shape == view.shape
        assert torch.equal(y.cpu(), view.cpu())
        assert view.numel() == 0 or y.data_ptr() == view.data_ptr()
    assert tuple(x.__dlpack_device__()) == (CUDA, 0)


def test_both_tensors_show_the_same_memory():
    x = values()
    y = torch.from_dlpack(x)
    y.mul_(2)
    assert torch.equal(x.cpu(), values().cpu() * 2)
    copied = torch.from_dlpack(x, copy=True)
    copied.zero_()
    assert copied.is_cuda and x.sum().item() > 0


def test_devices_of_dlpack(two_devices):
    x = torch.ones(3, device="cuda:1")
    assert tuple(x.__dlpack_device__()) == (CUDA, 1)
    assert torch.from_dlpack(x).device == torch.device("cuda:1")
    assert torch.from_dlpack(x, device="cuda:0").tolist() == [1.0] * 3
    with pytest.raises(ValueError, match=r"cannot move memory from 'cuda:1' to 'cuda:0'"):
        torch.from_dlpack(x, device="cuda:0", copy=False)


def test_dlpack_of_the_meta_device():
    with pytest.raises(ValueError, match="Unknown device type meta"):
        torch.ones(2, device="meta").__dlpack_device__()


def test_dlpack_to_another_device():
    x = values()
    assert torch.equal(torch.from_dlpack(x.__dlpack__(dl_device=(CPU, 0))), x.cpu())
    assert torch.equal(torch.from_dlpack(x, device="cpu"), x.cpu())
    assert torch.from_dlpack(torch.ones(2), device="cuda").device == x.device
    assert torch.from_dlpack(torch.ones(2).__dlpack__(dl_device=(CUDA, 0), stream=1)).is_cuda
    assert torch.from_dlpack(x, device="cuda:0", copy=False).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="another dl_device needs a copy"):
        x.__dlpack__(dl_device=(CPU, 0), copy=False)
    with pytest.raises(ValueError, match=r"cannot move memory from 'cuda:0' to 'cpu'"):
        torch.from_dlpack(x, device="cpu", copy=False)
    with pytest.raises(BufferError, match=r"expected dl_device to be .*got \(10, 0\)"):
        x.__dlpack__(dl_device=(ROCM, 0))


def test_numpy_takes_only_a_copy():
    x = values()
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(x)
    for refused in (x.numpy, lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy"):
            refused()
    with pytest.raises(TypeError, match=r"can't convert cuda:0"):  # before what else is wrong
        torch.ones(2, device="cuda", requires_grad=True).numpy()
    with pytest.raises(TypeError):
        memoryview(x)
    assert np.array_equal(x.numpy(force=True), x.cpu().numpy())


def test_gradients_are_not_exported():
    x = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(BufferError, match="require gradient"):
        x.__dlpack__()
    with pytest.raises(RuntimeError, match="on Variable that requires grad"):
        _ = x.__cuda_array_interface__
    assert torch.from_dlpack(torch.to_dlpack(x)).data_ptr() == x.data_ptr()


def test_the_names_of_utils_dlpack():
    from tapegrad.utils import dlpack

    x = values()
    assert dlpack.from_dlpack(dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLCUDA


# ---- streams


def busy(stream):
    """Return a tensor whose last value a stream has yet to write."""
    x = torch.zeros(64, device="cuda")
    cuda.synchronize()
    stream.wait_stream(cuda.current_stream())
    with cuda.stream(stream):
        x.add_(7)
    return x


@pytest.mark.parametrize("number", [None, 1, 2, "handle"])
def test_the_consumers_stream_waits(number, emulator):
    """The event is on the consumer's stream: waiting for that stream alone is enough."""
    producer, consumer = cuda.Stream(), cuda.Stream()
    number = consumer.cuda_stream if number == "handle" else number
    x = busy(producer)
    with cuda.stream(producer):
        capsule = x.__dlpack__(stream=number)
    reader = cuda.ExternalStream(0 if number in (None, 1) else number)
    assert not producer.query()  # nothing has run so far
    with cuda.stream(reader):
        assert torch.from_dlpack(capsule)[3].item() == 7


def test_no_stream_waits_for_minus_one(emulator):
    """Whoever asks for no order gets none: the emulator then reads the old value every time."""
    producer, consumer = cuda.Stream(), cuda.Stream()
    x = busy(producer)
    with cuda.stream(producer):
        capsule = x.__dlpack__(stream=-1)
    with cuda.stream(consumer):
        assert torch.from_dlpack(capsule)[3].item() == 0
    producer.synchronize()


def test_streams_that_are_refused():
    x = values()
    with pytest.raises(ValueError, match="unsupported stream on CUDA: 0"):
        x.__dlpack__(stream=0)
    with pytest.raises(TypeError, match="expected stream to be an int or None"):
        x.__dlpack__(stream="1")
    with pytest.raises(ValueError, match="stream should be None on the CPU"):
        torch.ones(2).__dlpack__(stream=1)
    with pytest.raises(ValueError, match="does not fit into 64 bits"):
        x.__dlpack__(stream=1 << 70)


def test_the_producer_is_told_our_stream():
    x = torch.ones(4, device="cuda")
    producer, stream = Producer(x), cuda.Stream()
    torch.from_dlpack(producer)
    with cuda.stream(stream):
        torch.from_dlpack(producer)
    assert producer.calls == [
        {"stream": 1, "max_version": (1, 0)},
        {"stream": stream.cuda_stream, "max_version": (1, 0)},
    ]
    old = Producer(x, is_versioned=False)
    assert torch.from_dlpack(old).tolist() == [1.0] * 4
    assert old.calls == [{"stream": 1, "max_version": (1, 0)}, {"stream": 1}]


# ---- DLPack in


@pytest.mark.parametrize("is_versioned", [True, False])
def test_memory_of_another_library(is_versioned):
    x = torch.arange(5.0, device="cuda")
    producer = Producer(x, is_versioned=is_versioned)
    y = torch.from_dlpack(producer)
    assert y.device == x.device and y.tolist() == [0, 1, 2, 3, 4]
    assert (y * 2 + x).tolist() == [0, 3, 6, 9, 12]
    view = y[1:]
    del y
    gc.collect()
    cuda.synchronize()
    assert producer.deleted == 0
    del view
    cuda.synchronize()
    assert producer.deleted == 1


def test_read_only_and_managed_memory_is_shared():
    x = torch.arange(5.0, device="cuda")
    read_only = torch.from_dlpack(Producer(x, flags=1))
    managed = torch.from_dlpack(Producer(x, device=(MANAGED, 0)))
    assert read_only.data_ptr() == managed.data_ptr() == x.data_ptr() and managed.is_cuda


def test_page_locked_memory_is_the_cpus():
    x = torch.arange(5.0).pin_memory()
    producer = Producer(x, device=(CUDA_HOST, 0))
    y = torch.from_dlpack(producer)
    assert y.device.type == "cpu" and y.is_pinned() and y.tolist() == [0, 1, 2, 3, 4]
    assert producer.calls == [{"max_version": (1, 0)}]
    del y
    assert producer.deleted == 1


def test_memory_goes_back_when_streams_are_done_with_it(emulator):
    """Its owner would hand it out again while kernels still use it."""
    x = torch.arange(64.0, device="cuda")
    cuda.synchronize()
    producer, stream = Producer(x), cuda.Stream()
    with cuda.stream(stream):
        y = torch.from_dlpack(producer)
        z = y * 2
        del y
    assert producer.deleted == 0
    stream.synchronize()
    assert producer.deleted == 1 and z[3].item() == 6


def test_memory_that_another_stream_was_told_of(emulator):
    x = torch.arange(64.0, device="cuda")
    cuda.synchronize()
    producer, other = Producer(x), cuda.Stream()
    y = torch.from_dlpack(producer)
    y.record_stream(other)
    with cuda.stream(other):
        z = y + 1
    y = None
    cuda.default_stream().synchronize()
    cuda.default_stream().synchronize()
    assert z.device == x.device
    other.synchronize()
    assert producer.deleted == 1


def test_a_batch_over_imported_memory():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    y = torch.from_dlpack(Producer(x)).reshape(2, 3)
    assert torch.vmap(lambda row: row * 2 + row.sum())(y).tolist() == [[3, 5, 7], [18, 20, 22]]


def test_owners_are_told_when_more_comes_in():
    x = torch.arange(4.0, device="cuda")
    producers = [Producer(x) for _ in range(5)]
    for producer in producers:
        torch.from_dlpack(producer).add(1)
    cuda.synchronize()
    assert [producer.deleted for producer in producers] == [1] * 5


def test_memory_lent_to_the_default_stream_is_not_used_before_it_is_done(emulator):
    """A consumer on the default stream reads what the next tensor must not overwrite."""
    side = cuda.Stream()
    with cuda.stream(side):
        x = torch.full((1000,), 3.0, device="cuda")
        y = torch.from_dlpack(x.__dlpack__(stream=1))
    doubled = y * 2  # on the default stream, later
    address = x.data_ptr()
    del x, y
    with cuda.stream(side):
        again = torch.full((1000,), 5.0, device="cuda")
        side.synchronize()
    assert again.data_ptr() != address
    assert doubled[7].item() == 6


def test_addresses_that_are_no_memory_of_the_device(two_devices):
    x = torch.ones(4, device="cuda")
    host = torch.ones(4)
    with pytest.raises(ValueError, match="expected the address of memory on a CUDA device"):
        torch.from_dlpack(Producer(x, address=host.data_ptr()))
    with pytest.raises(ValueError, match=r"of 'cuda:1', got an address on 'cuda:0'"):
        torch.from_dlpack(Producer(x, device=(CUDA, 1)))
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.from_dlpack(Producer(x, device=(CUDA, 77)))
    with pytest.raises(RuntimeError, match="expected memory of the CPU or of a CUDA device"):
        torch.from_dlpack(Producer(x, device=(ROCM, 0)))
    with pytest.raises(ValueError, match="not aligned"):
        torch.from_dlpack(Producer(x, address=x.data_ptr() + 2))


def test_imported_memory_in_training():
    """It is written in place by an optimizer, saved by the tape, and refused as its own."""
    x = torch.ones(8, device="cuda")
    w = torch.from_dlpack(Producer(x)).requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    optimizer.step()
    assert x.tolist() == [0.0] * 8
    assert cuda.memory_allocated() >= x.nbytes


# ---- the array interface


def test_the_description():
    x = values()
    described = x.__cuda_array_interface__
    assert described == {
        "typestr": "<f4",
        "shape": (2, 3, 4),
        "strides": None,
        "data": (x.data_ptr(), False),
        "version": 3,
        "stream": 1,
    }
    assert x.transpose(0, 2).__cuda_array_interface__["strides"] == (4, 16, 48)
    assert x[:0].__cuda_array_interface__["data"] == (0, False)
    with cuda.stream(cuda.Stream()) as _, cuda.stream(stream := cuda.Stream()):
        assert x.__cuda_array_interface__["stream"] == stream.cuda_stream
    names = {"bool": "|b1", "bfloat16": "<V2", "uint8": "|u1", "int8": "|i1", "int64": "<i8"}
    for dtype, name in names.items():
        assert x.to(getattr(torch, dtype)).__cuda_array_interface__["typestr"] == name


def test_only_cuda_tensors_have_a_description():
    for x in (torch.ones(2), torch.ones(2, device="meta")):
        assert not hasattr(x, "__cuda_array_interface__")
        with pytest.raises(AttributeError, match="on non-CUDA tensor"):
            _ = x.__cuda_array_interface__


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_become_tensors(dtype):
    x = values(dtype)
    for view in (x, x.transpose(0, 2), x[:, 1:, ::2], x[0, 0, 0]):
        array = Described(view)
        shared = torch.as_tensor(array, device="cuda")
        assert shared.data_ptr() == view.data_ptr() and shared.dtype is dtype
        assert shared.stride() == view.stride() and torch.equal(shared.cpu(), view.cpu())
        assert torch.asarray(array).data_ptr() == view.data_ptr()
        copied = torch.tensor(array, device="cuda")
        assert copied.data_ptr() != view.data_ptr() and torch.equal(copied.cpu(), view.cpu())
    assert torch.as_tensor(Described(x[:0]), device="cuda").shape == (0, 3, 4)


def test_where_arrays_go():
    """As in PyTorch they stay where they are, unless a device is named or a default is chosen."""
    array = Described(values())
    assert torch.as_tensor(array).data_ptr() == array.tensor.data_ptr()
    assert torch.tensor(array).device == array.tensor.device
    assert torch.as_tensor(array, device="cpu").tolist() == values().tolist()
    with torch.device("meta"):
        assert torch.as_tensor(array).is_meta and torch.asarray(array).is_meta
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        assert torch.tensor(array.tensor).device == array.tensor.device
    with torch.device("cuda"):
        assert torch.as_tensor(array).data_ptr() == array.tensor.data_ptr()
    assert torch.as_tensor(array, dtype=torch.float64, device="cuda").dtype is torch.float64


def test_an_array_is_kept_alive():
    array = Described(torch.arange(4.0, device="cuda"))
    alive = weakref.ref(array)
    x = torch.as_tensor(array, device="cuda")
    del array
    gc.collect()
    assert alive() is not None and x.tolist() == [0, 1, 2, 3]
    del x
    cuda.synchronize()
    assert alive() is None


def test_we_wait_for_the_arrays_stream(emulator):
    producer = cuda.Stream()
    x = busy(producer)
    with cuda.stream(producer):
        array = Described(x)
    assert torch.as_tensor(array, device="cuda")[3].item() == 7
    y = busy(producer)
    array = Described(y, stream=None)
    assert torch.as_tensor(array, device="cuda")[3].item() == 0  # nobody said that there is work
    producer.synchronize()


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"mask": object()}, ValueError, "masked arrays are not supported"),
        ({"stream": 0}, ValueError, "unsupported stream on CUDA: 0"),
        ({"stream": "1"}, TypeError, "has no usable 'stream'"),
        ({"typestr": ">f4"}, ValueError, "byte order"),
        ({"typestr": "<U4"}, TypeError, "no dtype for elements of type '<U4'"),
        ({"typestr": "<c8"}, (TypeError, NotImplementedError), "complex"),
        ({"typestr": 4}, TypeError, "has no usable 'typestr'"),
        ({"shape": None}, TypeError, "has no usable 'shape'"),
        ({"shape": (-1,)}, (RuntimeError, ValueError), "negative"),
        ({"data": 5}, TypeError, r"2-tuple of \(int, bool\)"),
        ({"data": (12, False)}, ValueError, "expected the address of memory on a CUDA device"),
        ({"strides": (1,)}, TypeError, "as many numbers as in its shape"),
        ({"strides": (-4,) * 3}, ValueError, "negative strides"),
        ({"strides": (2,) * 3}, ValueError, "multiple of the element byte size"),
    ],
)
def test_descriptions_that_are_refused(changes, error, match):
    array = Described(values(), **changes)
    for function in (torch.as_tensor, torch.tensor, torch.asarray):
        with pytest.raises(error, match=match):
            function(array, device="cuda")


def test_a_read_only_array_is_copied_or_refused():
    x = values()
    array = Described(x, data=(x.data_ptr(), True))
    with pytest.raises(TypeError, match="the read only flag is not supported"):
        torch.as_tensor(array, device="cuda")
    assert torch.equal(torch.tensor(array, device="cuda").cpu(), x.cpu())
    array.__cuda_array_interface__ = 5
    with pytest.raises(TypeError, match="to be a dict, got int"):
        torch.as_tensor(array, device="cuda")


# ---- elements from and to Python where the default device is a GPU


def test_python_data_under_a_default_device():
    with torch.device("cuda"):
        x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert x.is_cuda and x.tolist() == [[1, 2], [3, 4]]
        assert torch.tensor(3).is_cuda and torch.as_tensor(np.ones(2)).is_cuda
        assert x[[1, 0]].tolist() == [[3, 4], [1, 2]]
        assert x[[True, False]].tolist() == [[1, 2]] and x[True].shape == (1, 2, 2)
        x[[0, 1], [1, 0]] = torch.tensor([8.0, 9.0])
        x[1, 1] = 5
        assert x.tolist() == [[1, 8], [9, 5]] and x[0, 1].item() == 8
        x[[False, True]] = 7
        x[[True, False], 0] = 6
        assert x.tolist() == [[6, 8], [7, 7]]
        state = torch.get_rng_state()
        assert state.device.type == "cpu"
        torch.set_rng_state(state)
        cuda.set_rng_state(cuda.get_rng_state())
        assert x.new_tensor([1]).is_cuda and torch.tensor([x[0, 0], 2.0]).tolist() == [6, 2]
        assert repr(x[0]) == "tensor([6., 8.], device='cuda:0')"
        assert torch.from_numpy(np.ones(2)).device.type == "cpu"


def test_loaders_under_a_default_device():
    from tapegrad.utils import data

    samples = [(np.full(2, i, "f4"), i) for i in range(6)]
    with torch.device("cuda"):
        loader = data.DataLoader(samples, 2, shuffle=True)
        batches = list(loader)
        assert sorted(i for _, labels in batches for i in labels.tolist()) == list(range(6))
        generator = torch.Generator("cuda").manual_seed(1)  # which draws on its own device
        assert len(list(data.DataLoader(samples, 2, shuffle=True, generator=generator))) == 3
        assert sorted(data.SubsetRandomSampler([4, 5])) == [4, 5]
        assert len(list(data.WeightedRandomSampler([1.0, 2.0], 3))) == 3
        assert len(data.random_split(samples, [2, 4])[1]) == 4
        # Workers are forked, and leave the GPU alone.
        (first, _), *_ = data.DataLoader(samples, 2, num_workers=1)
        assert first.device.type == "cpu" and first.tolist() == [[0, 0], [1, 1]]


def test_tensors_of_a_device_do_not_cross_processes():
    from tapegrad.utils.data import transport

    with pytest.raises(RuntimeError, match="a batch holds a tensor on 'cuda:0'"):
        transport.pack([torch.ones(2, device="cuda")])


def test_packed_sequences_under_a_default_device():
    rnn = torch.nn.utils.rnn
    with torch.device("cuda"):
        packed = rnn.pack_padded_sequence(
            torch.arange(6.0).reshape(3, 2), [2, 3], enforce_sorted=False
        )
        assert packed.data.tolist() == [1, 0, 3, 2, 5]
        padded, lengths = rnn.pad_packed_sequence(packed)
        assert padded.is_cuda and padded.tolist() == [[0, 1], [2, 3], [0, 5]]
        assert lengths.tolist() == [2, 3]
        assert rnn.pad_sequence([torch.ones(2), torch.ones(1)]).tolist() == [[1, 1], [1, 0]]


def test_masks_of_the_cpu_index_the_device():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    assert x[mask].tolist() == [0, 2, 4] and x[mask.cuda()].tolist() == [0, 2, 4]
    x[mask] = torch.tensor(9.0)
    x[mask[:, 0]] += 1
    assert x.tolist() == [[10, 2, 10], [3, 9, 5]]
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same"):
        torch.arange(6)[torch.tensor([0], device="cuda")]


def test_the_bytes_of_a_tensor():
    x = torch.arange(4.0, device="cuda")
    storage = x[1:].untyped_storage()
    assert storage.device == x.device and storage.is_cuda and storage.nbytes() == 16
    assert storage.data_ptr() == x.data_ptr() == x[1:].data_ptr() - 4
    host = storage.cpu()
    assert host.device.type == "cpu" and not host.is_cuda and host.nbytes() == 16
    assert host._elements(torch.float32).tolist() == [0, 1, 2, 3]
    assert host.cuda().device == host.to("cuda:0").device == x.device
    with pytest.raises(RuntimeError, match="the host cannot read bytes on 'cuda:0'"):
        storage._address()
