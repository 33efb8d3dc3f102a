"""What tests of a CUDA device's kernels share: the same call on the CPU."""

from library import torch


def assert_close(found, wanted, units=16):
    """Check a device's tensor against the CPU's, within some units of rounding of the largest."""
    assert found.device.type == "cuda"
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    a, b = found.detach().cpu(), wanted.detach()
    if not wanted.dtype.is_floating_point:
        assert torch.equal(a, b)
        return
    a, b = a.double(), b.double()
    if not b.numel():
        return
    assert torch.equal(a.isnan(), b.isnan())
    a, b = a.nan_to_num(), b.nan_to_num()
    allowed = units * torch.finfo(wanted.dtype).eps * max(1.0, b.abs().max().item())
    worst = (a - b).abs().max().item()
    assert worst <= allowed, f"differ by {worst}, and {allowed} is allowed"


def compare(function, *operands, units=16):
    """Run a function of tensors on both, and check its results and its operands' gradients.

    Gradients are those of the floating results, each multiplied with random numbers.
    """
    torch.manual_seed(0)
    outcomes = []
    weights = []
    for device in ("cpu", "cuda"):
        leaves = [
            x.detach().to(device).requires_grad_(x.is_floating_point()) if x is not None else None
            for x in operands
        ]
        results = function(*leaves)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        smooth = [y for y in results if y.requires_grad]
        if not weights:
            weights = [torch.randn(y.shape).to(y.dtype) for y in smooth]
        if smooth:
            torch.autograd.backward(smooth, [w.to(device) for w in weights])
        grads = [x.grad for x in leaves if x is not None and x.is_floating_point()]
        outcomes.append((results, grads))
    (wanted, wanted_grads), (found, found_grads) = outcomes
    assert len(found) == len(wanted)
    for a, b in zip(found + found_grads, wanted + wanted_grads, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert_close(a, b, units)
