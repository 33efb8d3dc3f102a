"""Fourier transforms with everything else: vmap, forward mode, programs, policies, out=."""

import io
import threading

import numpy as np
import pytest
from library import torch

fft = torch.fft
COMPLEX, REAL = "complex128", "float64"
CALLS = {
    "fft": (fft.fft, COMPLEX),
    "fft.real": (fft.fft, REAL),
    "fft.padded": (lambda x: fft.fft(x, 7), COMPLEX),
    "ifft.cut": (lambda x: fft.ifft(x, 3, norm="ortho"), COMPLEX),
    "fft2": (fft.fft2, COMPLEX),
    "fft2.real": (fft.fft2, REAL),
    "ifftn": (lambda x: fft.ifftn(x, dim=(-1, -2)), COMPLEX),
    "rfft": (fft.rfft, REAL),
    "rfft.odd": (lambda x: fft.rfft(x, 5), REAL),
    "rfft2": (lambda x: fft.rfft2(x, norm="forward"), REAL),
    "irfft": (fft.irfft, COMPLEX),
    "irfft.odd": (lambda x: fft.irfft(x, 5, norm="ortho"), COMPLEX),
    "irfft2": (fft.irfft2, COMPLEX),
    "hfft": (fft.hfft, COMPLEX),
    "ihfft": (fft.ihfft, REAL),
    "hfft2": (fft.hfft2, COMPLEX),
    "ihfft2": (fft.ihfft2, REAL),
    "prime": (lambda x: fft.fft(x, 67), COMPLEX),
    "shift": (lambda x: fft.fftshift(fft.fft(x)), COMPLEX),
}
each_call = pytest.mark.parametrize("name", CALLS)


def draw(name, *shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if CALLS[name][1] == COMPLEX:
        x = x + 1j * rng.standard_normal(shape)
    return torch.from_numpy(x)


def expect_equal(ours, theirs):
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert torch.allclose(torch.view_as_real(ours + 0j), torch.view_as_real(theirs + 0j), atol=1e-9)


def energy(x):
    return (x * x.conj()).real.sum()


@each_call
def test_derivatives(name):
    """Backward, forward, and backward of backward, against differences; both of them in batches."""
    x = draw(name, 3, 4).requires_grad_()
    function = CALLS[name][0]
    assert torch.autograd.gradcheck(
        function,
        (x,),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert torch.autograd.gradgradcheck(function, (x,), check_fwd_over_rev=True)


@each_call
def test_gradients_are_those_of_pytorch(name, pytorch):
    found = []
    for library in (torch, pytorch):
        x = library.from_numpy(draw(name, 2, 3, 4).numpy()).requires_grad_()
        call = getattr(library.fft, name.split(".")[0], library.fft.fft)
        y = call(x)
        (y * y.conj()).real.pow(1.5).sum().backward()
        found.append(x.grad.resolve_conj().numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9)


@each_call
def test_vmap(name):
    function = CALLS[name][0]
    x = draw(name, 5, 3, 4)
    expected = torch.stack([function(each) for each in x])
    expect_equal(torch.vmap(function)(x), expected)
    expect_equal(torch.vmap(function, in_dims=1)(x.movedim(0, 1)), expected)
    expect_equal(torch.vmap(function, in_dims=-1)(x.movedim(0, -1).contiguous()), expected)
    nested = torch.vmap(torch.vmap(function))(torch.stack([x, x]))
    expect_equal(nested, torch.stack([expected, expected]))


@each_call
def test_vmap_of_gradients(name):
    x = draw(name, 5, 3, 4)

    def loss(x):
        return energy(CALLS[name][0](x) ** 2)

    per_sample = torch.func.vmap(torch.func.grad(loss))(x)
    expect_equal(per_sample, torch.stack([torch.func.grad(loss)(each) for each in x]))


@each_call
def test_meta(name):
    x = draw(name, 2, 3, 4)
    found, real = CALLS[name][0](x.to("meta")), CALLS[name][0](x)
    assert found.device.type == "meta"
    assert (found.shape, found.dtype) == (real.shape, real.dtype)


@each_call
def test_out(name):
    if name == "shift":
        pytest.skip("fftshift has no out=")
    function, dtype = getattr(fft, name.split(".")[0], fft.fft), CALLS[name][1]
    x = draw(name, 3, 4)
    expected = function(x)
    out = torch.empty(0, dtype=expected.dtype)
    assert function(x, out=out) is out
    expect_equal(out, expected)
    laid_out = torch.empty(*expected.shape, 2, dtype=expected.dtype)[..., 1]
    function(x, out=laid_out)
    expect_equal(laid_out, expected)
    narrow = x.to(torch.complex64 if dtype == COMPLEX else torch.float32)
    wide = torch.empty_like(expected)
    assert function(narrow, out=wide) is wide
    assert torch.allclose(wide.abs(), expected.abs(), atol=1e-4)


def test_out_over_the_input():
    x = draw("fft", 4, 4)
    expected = fft.fft(x)
    fft.fft(x, out=x)
    expect_equal(x, expected)


@each_call
def test_saved_values_are_none(name):
    """A transform is linear: its derivative reads nothing."""
    x = draw(name, 3, 4).requires_grad_()
    y = CALLS[name][0](x)
    with torch.no_grad():
        x.mul_(2)
    assert torch.autograd.grad(energy(y.detach() + y - y.detach()), x)[0].shape == x.shape


@each_call
def test_checkpoint(name):
    x = draw(name, 3, 4).requires_grad_()

    def loss(x):
        return energy(CALLS[name][0](x * x))

    (direct,) = torch.autograd.grad(loss(x), x)
    again = torch.utils.checkpoint.checkpoint(loss, x, use_reentrant=False)
    expect_equal(torch.autograd.grad(again, x)[0], direct)


@pytest.mark.filterwarnings("ignore:(budget|offload)")  # of values that the test itself holds
@pytest.mark.parametrize("policy", ["budget", "compress", "offload"])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "fft2.real"])
def test_policies(name, policy, tmp_path):
    x = draw(name, 40, 64).requires_grad_()

    def loss(x):
        y = x
        for _ in range(8):
            y = y / (1 + CALLS[name][0](y).abs().mean())
        return energy(y * 1e6)

    (direct,) = torch.autograd.grad(loss(x), x)
    scope = {
        "budget": lambda: torch.tape.budget("400 KiB"),
        "compress": lambda: torch.tape.compress("int8"),
        "offload": lambda: torch.tape.offload(str(tmp_path), memory="300 KiB"),
    }[policy]
    with scope():
        (found,) = torch.autograd.grad(loss(x), x)
    assert torch.isfinite(direct.abs()).all()
    if policy == "compress" and CALLS[name][1] == REAL:
        assert (found - direct).abs().max() < 0.3 * direct.abs().max()
    else:
        expect_equal(found, direct)


@each_call
def test_a_program_runs_again(name):
    x, other = draw(name, 3, 4), draw(name, 3, 4, seed=1)
    with torch.tape.record(replay=True) as recorded:
        y = CALLS[name][0](x)
    program = recorded.program(names={"x": x}, outputs={"y": y})
    assert any(step.op.startswith("fft_") for step in program.steps)
    expect_equal(program.run({"x": other})["y"], CALLS[name][0](other))


@each_call
def test_compiled(name):
    function = CALLS[name][0]
    compiled = torch.compile(function)
    for seed in range(3):
        x = draw(name, 3, 4, seed=seed)
        expect_equal(compiled(x), function(x))


def test_functions_pickle_by_name():
    import pickle

    assert pickle.loads(pickle.dumps(torch.fft.fftshift)) is torch.fft.fftshift


def test_a_spectrum_is_saved(tmp_path):
    y = fft.fft(torch.arange(5.0))
    buffer = io.BytesIO()
    torch.save({"y": y}, buffer)
    buffer.seek(0)
    expect_equal(torch.load(buffer)["y"], y)


def test_autocast(pytorch):
    """Transforms that autocast knows run in float32, others refuse 16-bit floats, as in PyTorch."""
    names = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
    names += [f"{name}{end}" for name in names for end in ("2", "n")]
    for name in names:
        found = []
        for library in (torch, pytorch):
            x = library.ones(4, 4, dtype=library.bfloat16)
            with library.autocast("cpu", dtype=library.bfloat16):
                try:
                    found.append(str(getattr(library.fft, name)(x).dtype))
                except RuntimeError:
                    found.append("refused")
        assert found[0] == found[1], name


def test_threads():
    """Several at once, each of which releases the lock and shares the plans."""
    lines = [draw("fft", 20, n) for n in (300, 509, 1024, 4096)]
    expected = [fft.fft(x) for x in lines]
    wrong = []

    def work():
        for _ in range(5):
            wrong.extend(
                1 for x, y in zip(lines, expected, strict=True) if not torch.equal(fft.fft(x), y)
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("shape", [(1, 70000), (3, 40000), (700, 300), (70, 1009), (3000, 40)])
def test_results_do_not_depend_on_threads(shape):
    z = draw("fft", *shape)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append([fft.fft(z), fft.rfft(z.real.contiguous()), fft.fft(z.real), fft.irfft(z)])
            found[-1] += [fft.fft(z.t(), dim=0), fft.fft2(z)]
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert torch.equal(one, other)


def test_onnx_refuses_it_by_name(tmp_path):
    class Spectrum(torch.nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x).abs()

    with pytest.raises(torch.onnx.errors.OnnxExporterError, match="no form for tensors of"):
        torch.onnx.export(Spectrum(), (torch.ones(4),), str(tmp_path / "spectrum.onnx"))


def test_the_tape_names_the_ops():
    x = torch.ones(4, requires_grad=True)
    names = [type(fft.fft(x).grad_fn).__name__, type(fft.rfft(x).grad_fn).__name__]
    assert names == ["FftC2CBackward0", "FftR2CBackward0"]
    assert type(fft.irfft(fft.rfft(x)).grad_fn).__name__ == "FftC2RBackward0"
    records = {record.name: record for record in torch.ops()}
    for name in ("fft_c2c", "fft_r2c", "fft_c2r"):
        assert "leading_dims" in records[name].traits
        assert records[name].devices == ("cpu",)
