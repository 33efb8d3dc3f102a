"""Between the host and the device: every layout and dtype arrives, and gradients come back."""

import pytest
from library import torch

LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1),
    "sliced": lambda x: x[1:, ::2],
    "expanded": lambda x: x[:1].expand(3, *x.shape[1:]),
    "empty": lambda x: x[:0],
    "single": lambda x: x[0, 0, 0, 0],
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(layout):
    x = LAYOUTS[layout](torch.randn(4, 6, 3, 5))
    on_device = x.cuda()
    assert on_device.is_cuda and on_device.shape == x.shape
    assert torch.equal(on_device.cpu(), x)
    assert x.to("cuda:0").device == torch.device("cuda", 0)
    dense = layout != "expanded" and layout != "sliced"
    assert not dense or on_device.stride() == x.stride()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_are_read_back(layout):
    """The elements of a view on the device are put in order there."""
    x = torch.randn(4, 6, 3, 5)
    assert torch.equal(LAYOUTS[layout](x.cuda()).cpu(), LAYOUTS[layout](x))
    assert LAYOUTS[layout](x.cuda()).tolist() == LAYOUTS[layout](x).tolist()


@pytest.mark.parametrize(
    "to", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool]
)
@pytest.mark.parametrize("start", [torch.float32, torch.int64, torch.uint8, torch.float16])
def test_with_another_dtype(start, to):
    x = torch.tensor([0, 1, 2, 200, 3], dtype=start)
    assert torch.equal(x.to("cuda", to).cpu(), x.to(to))
    assert torch.equal(x.cuda().to("cpu", to), x.to(to))
    target = torch.zeros(2, 5, dtype=to, device="cuda")
    target.copy_(x)
    assert torch.equal(target.cpu(), x.to(to).expand(2, 5))


def test_into_a_view():
    target = torch.zeros(4, 6, device="cuda")
    x = torch.randn(6, 2)
    target[::2].copy_(x.t())
    wanted = torch.zeros(4, 6)
    wanted[::2] = x.t()
    assert torch.equal(target.cpu(), wanted)
    back = torch.zeros(6, 4)
    back.t().copy_(target)
    assert torch.equal(back.t(), wanted)


def test_gradients_find_their_way_back():
    x = torch.randn(3, 4, requires_grad=True)
    y = (x.cuda() * 2).cpu() * 3
    y.backward(torch.ones(3, 4))
    assert x.grad.device.type == "cpu" and torch.equal(x.grad, torch.full((3, 4), 6.0))
    w = torch.randn(4, device="cuda", requires_grad=True)
    (w.cpu() * 5).backward(torch.ones(4))
    assert w.grad.is_cuda and w.grad.tolist() == [5.0] * 4


def test_from_pinned_memory_without_waiting():
    x = torch.randn(1000).pin_memory()
    y = x.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), x)
    back = torch.empty(1000).pin_memory()
    back.copy_(y, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    assert torch.equal(back, x)


def test_ordinary_memory_may_be_written_at_once():
    x = torch.ones(1000)
    y = x.to("cuda", non_blocking=True)
    x.zero_()
    pinned = torch.ones(1000).pin_memory()
    z = pinned.cuda()
    pinned.zero_()
    assert y.tolist() == z.tolist() == [1.0] * 1000


def test_numbers_meet_any_device_and_tensors_do_not():
    x = torch.ones(3, device="cuda")
    assert (x + 1).tolist() == (x + torch.tensor(1.0)).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match=r"add: Expected all tensors to be on the same device"):
        x + torch.ones(3)


def test_numpy_is_told_to_ask_the_cpu():
    x = torch.ones(3, device="cuda")
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1.0] * 3


def test_printing():
    assert repr(torch.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1)])
def test_dimensions_are_exchanged(order, dtype):
    """In tiles, where both dimensions are long enough."""
    x = (torch.randn(3, 70, 33) * 50).to(dtype)
    assert torch.equal(x.cuda().permute(order).contiguous().cpu(), x.permute(order).contiguous())
    y = (torch.randn(65, 129) * 50).to(dtype)
    assert torch.equal(y.cuda().t().contiguous().cpu(), y.t().contiguous())
    assert torch.equal(y.cuda()[3:, 1:].t().contiguous().cpu(), y[3:, 1:].t().contiguous())
