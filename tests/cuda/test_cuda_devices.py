"""torch.cuda's devices, and torch.accelerator."""

import threading

import pytest
from library import torch

cuda = torch.cuda


def test_there_is_a_device():
    assert cuda.is_available() and cuda.device_count() >= 1
    assert cuda.current_device() == 0
    cuda.init()
    assert cuda.is_initialized()


def test_tensors_are_on_it():
    x = torch.empty(2, 3, device="cuda")
    assert x.is_cuda and not x.is_meta and x.get_device() == 0
    assert x.device == torch.device("cuda:0") and str(x.device) == "cuda:0"
    assert torch.empty(2).get_device() == -1
    assert torch.empty_like(x).device == x.device and x.new_empty(2).device == x.device
    assert torch.empty(2, device=0).device == torch.device("cuda", 0)
    with torch.device("cuda"):
        assert torch.empty(1).is_cuda
        assert torch.empty(1, device="cpu").device.type == "cpu"
    assert not torch.empty(1).is_cuda


@pytest.mark.parametrize("index", [99, 255, 256, 10**6])
def test_a_device_that_is_not_there(index):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.empty(2, device=f"cuda:{index}")
    for function in (cuda.set_device, cuda.device, cuda.get_device_name, cuda.synchronize):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            function(index)


def test_what_is_no_cuda_device():
    with pytest.raises(ValueError, match="expected a cuda device, got 'cpu'"):
        cuda.synchronize("cpu")
    with pytest.raises(RuntimeError, match="device"):
        cuda.set_device("toaster")


def test_properties():
    properties = cuda.get_device_properties("cuda")
    assert properties.name == cuda.get_device_name() == cuda.get_device_name(0)
    assert (properties.major, properties.minor) == cuda.get_device_capability(torch.device("cuda"))
    assert properties.warp_size == 32 and properties.max_threads_per_block == 1024
    assert properties.multi_processor_count > 0 and properties.L2_cache_size > 0
    assert properties.max_threads_per_multi_processor >= 1024
    assert (
        properties.shared_memory_per_block_optin >= properties.shared_memory_per_block >= 48 << 10
    )
    assert properties.total_memory > 0 and properties.regs_per_multiprocessor >= 32768
    assert [len(part) for part in properties.uuid.split("-")] == [8, 4, 4, 4, 12]
    assert f"sm_{properties.major}{properties.minor}" in cuda.get_arch_list()
    text = repr(properties)
    assert text.startswith(f"_CudaDeviceProperties(name='{properties.name}', major=")
    assert f"total_memory={properties.total_memory >> 20}MB" in text


def test_support_by_capability():
    major, _ = cuda.get_device_capability()
    assert cuda.is_bf16_supported()
    assert cuda.is_bf16_supported(including_emulation=False) == cuda.is_tf32_supported()
    assert cuda.is_tf32_supported() == (major >= 8)


def test_free_memory():
    free, total = cuda.mem_get_info()
    assert 0 < free <= total
    x = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    assert cuda.mem_get_info("cuda:0")[0] <= total - x.nbytes


def test_synchronize():
    for device in (None, 0, "cuda", torch.device("cuda:0")):
        cuda.synchronize(device)
    cuda.ipc_collect()


def test_set_device(two_devices):
    try:
        cuda.set_device(1)
        assert cuda.current_device() == 1
        assert torch.empty(1, device="cuda").device == torch.device("cuda:1")
        cuda.set_device(-1)
        assert cuda.current_device() == 1
    finally:
        cuda.set_device("cuda:0")
    assert cuda.current_device() == 0


def test_device_for_a_block(two_devices):
    with cuda.device(1):
        assert cuda.current_device() == 1
        with cuda.device(0):
            assert cuda.current_device() == 0
        assert torch.empty(1, device="cuda").get_device() == 1
    with cuda.device(None), cuda.device(-1):
        assert cuda.current_device() == 0
    x = torch.empty(1, device="cuda:1")
    with cuda.device_of(x):
        assert cuda.current_device() == 1
    with cuda.device_of(torch.empty(1)):
        assert cuda.current_device() == 0
    with pytest.raises(KeyError), cuda.device(1):
        raise KeyError
    assert cuda.current_device() == 0


def test_every_thread_chooses(two_devices):
    seen = []

    def other():
        seen.append(cuda.current_device())
        cuda.set_device(1)
        seen.append(torch.empty(1, device="cuda").get_device())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, 1] and cuda.current_device() == 0


def test_peers(two_devices):
    assert cuda.can_device_access_peer(0, 1) in (True, False)
    assert not cuda.can_device_access_peer(0, 0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cuda.can_device_access_peer(0, 99)


def test_accelerator():
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.device_count() == cuda.device_count()
    assert accelerator.current_accelerator() == torch.device("cuda")
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(0)
    accelerator.synchronize()
    assert accelerator.current_stream() == cuda.current_stream()
    with accelerator.device_index(0):
        assert accelerator.current_device_idx() == 0
    assert accelerator.get_memory_info()[1] == cuda.mem_get_info()[1]
    x = torch.empty(1000, device=accelerator.current_accelerator())
    assert accelerator.memory_allocated() == cuda.memory_allocated() >= x.nbytes


def test_another_tensor_of_another_device_is_refused(two_devices):
    a, b = torch.empty(2, device="cuda:0"), torch.empty(2, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"same device.*cuda:0.*cuda:1"):
        a + b
