"""What a backward is about to sweep is described before the sweep, and nothing more is kept."""

import gc

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad.tape.last_backward import LastBackward


def ops(document):
    return [entry["op"] for entry in document["entries"] if entry["leaf"] is None]


@pytest.fixture
def x():
    return torch.ones(3, requires_grad=True)


def test_the_last_one_is_kept(x):
    with LastBackward() as last:
        x.exp().sum().backward()
        torch.autograd.backward([x.sin().sum(), x.tanh().sum()])
        torch.autograd.backward(tensors=x.cos().sum())
    assert (last.count, last.number) == (3, 3)
    assert ops(last.document) == ["cos", "sum"]
    assert last.place.rpartition(":")[0] == __file__
    assert torch.allclose(x.grad, x.exp() + x.cos() + 1 - x.tanh() ** 2 - x.sin())


def test_several_roots(x):
    with LastBackward() as last:
        torch.autograd.backward([x.sin().sum(), x.tanh().sum()])
    assert sorted(ops(last.document)) == ["sin", "sum", "sum", "tanh"]


def test_one_alone_is_described(x):
    with LastBackward(only=2) as last:
        for op in (torch.exp, torch.sin, torch.cos):
            op(x).sum().backward()
    assert (last.count, last.number) == (3, 2)
    assert ops(last.document) == ["sin", "sum"]


def test_it_sees_what_is_saved_and_keeps_no_graph(x):
    gc.collect()
    before = torch._C.live_counts()
    with LastBackward() as last:
        x.exp().sum().backward()
    assert last.document["total_bytes"] == 12
    x.grad = None
    assert torch._C.live_counts() == before


def test_a_backward_inside_another_belongs_to_it(x):
    def inner(grad):
        with torch.enable_grad():
            torch.ones(2, requires_grad=True).tanh().sum().backward()

    y = x.exp()
    y.register_hook(inner)
    with LastBackward() as last:
        y.sum().backward()
    assert last.count == 1 and ops(last.document) == ["exp", "sum"]


def test_errors_are_the_backwards_own(x):
    with LastBackward() as last:
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(1).backward()
        with pytest.raises(RuntimeError):
            x.exp().backward()
        with pytest.raises(TypeError):
            torch.autograd.backward(3)
        x.sum().backward()
    assert ops(last.document) == ["sum"]


def test_everything_is_put_back(x):
    originals = (torch.Tensor.backward, torch.autograd.backward)
    with pytest.raises(ZeroDivisionError), LastBackward():
        assert torch.Tensor.backward is not originals[0]
        raise ZeroDivisionError
    assert (torch.Tensor.backward, torch.autograd.backward) == originals
