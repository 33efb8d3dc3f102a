"""Autocast and the scaling of losses on a CUDA device.

What autocast does with each function there is compared with PyTorch's own dispatch on tensors that
have a device and no memory, which needs no GPU.
"""

import contextlib
import ctypes
import os

import pytest
from amp.calls import CALLS, SPECTRA, Maker
from library import pytorch_for_parity, torch

nn, functional = torch.nn, torch.nn.functional
pytorch, REASON = pytorch_for_parity()
FULL, HALF, LOWER = torch.float32, torch.float16, torch.bfloat16
INFINITY = float("inf")


# ---- which dtype each function gets


def fake_outcome(call, kind, lower):
    """Return the dtypes of a call in PyTorch, or the exception."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    class FakeMaker(Maker):
        def __call__(self, *sizes):
            dtype = self.dtypes[len(self.made) % len(self.dtypes)]
            self.made.append(pytorch.empty(sizes, dtype=getattr(pytorch, dtype), device="cuda"))
            return self.made[-1]

        def of(self, numbers):
            known = pytorch.tensor(numbers)
            return pytorch.empty(known.shape, dtype=known.dtype, device="cuda")

    with FakeTensorMode(allow_non_fake_inputs=True), pytorch.no_grad(), forced_autocast(lower):
        return outcome(call, pytorch, FakeMaker(pytorch, kind, lower))


@contextlib.contextmanager
def forced_autocast(lower):
    """Turn PyTorch's autocast for CUDA on, which a build without CUDA does not do by itself."""
    pytorch.set_autocast_enabled("cuda", True)
    pytorch.set_autocast_dtype("cuda", getattr(pytorch, lower))
    pytorch.autocast_increment_nesting()
    try:
        yield
    finally:
        pytorch.autocast_decrement_nesting()
        pytorch.clear_autocast_cache()
        pytorch.set_autocast_dtype("cuda", pytorch.float16)
        pytorch.set_autocast_enabled("cuda", False)


def outcome(call, library, x):
    try:
        answer = call(library, x)
    except Exception as error:  # of any kind: fake tensors have their own
        return error
    several = answer if isinstance(answer, (tuple, list)) else [answer]
    return [str(each.dtype) for each in several]


# What fake tensors do not run: the answers are those of PyTorch's documented lists.
WITHOUT_FAKE = {
    "grid_sample": {"float32": "float32", "lower": "lower", "mixed": "float32"},  # the widest
    "gru_cell": {"float32": "lower", "lower": "lower", "mixed": "lower"},
    "affine_grid": {"float32": "lower", "lower": "lower", "mixed": "lower"},  # made of bmm
    "cov": {"float32": "lower", "lower": "lower", "mixed": "lower"},  # made of mm
    "gaussian_nll_loss": {"float32": "float32", "lower": "float32", "mixed": "float32"},  # of log
    "ctc_loss": {"float32": "float32", "lower": "float32", "mixed": "float32"},  # of log_softmax
}
# What PyTorch refuses, or would with a kernel behind the call.
REFUSED = {("index_copy", "mixed"), ("quantile", "lower"), ("nanquantile", "lower")}
REFUSED |= {("view_as_complex", "lower"), ("view_as_complex", "mixed")}  # there is no complex32


@pytest.mark.filterwarnings("ignore")  # of PyTorch's
@pytest.mark.skipif(pytorch is None, reason=REASON or "-")
@pytest.mark.parametrize("lower", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes(name, lower):
    for kind in ("float32", "lower", "mixed"):
        with torch.no_grad(), torch.autocast("cuda", getattr(torch, lower)):
            found = outcome(CALLS[name], torch, Maker(torch, kind, lower, "cuda"))
        if name in SPECTRA:  # complex numbers, which have no kernels there yet
            assert isinstance(found, RuntimeError), f"{kind}: {found}"
            continue
        if name in WITHOUT_FAKE:
            wanted = WITHOUT_FAKE[name][kind]
            assert found == [f"torch.{lower if wanted == 'lower' else wanted}"], kind
            continue
        wanted = fake_outcome(CALLS[name], kind, lower)
        if isinstance(wanted, Exception) or (name, kind) in REFUSED:
            assert isinstance(found, Exception) or kind == "lower", f"{kind}: {found}, {wanted!r}"
        else:
            assert found == wanted, kind


def test_the_binary_cross_entropy_is_refused():
    x = torch.rand(3, device="cuda")
    words = "binary_cross_entropy.*are unsafe to autocast"
    with torch.autocast("cuda"):
        with pytest.raises(RuntimeError, match=words):
            functional.binary_cross_entropy(x, x)
        with pytest.raises(RuntimeError, match=words):
            nn.BCELoss()(x, x)
        with torch.autocast("cuda", enabled=False):
            functional.binary_cross_entropy(x, x)
        assert functional.binary_cross_entropy(x.cpu(), x.cpu()).dtype is FULL


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_cast_as_a_whole(kind):
    layer = getattr(nn, kind)(3, 4, bidirectional=True).cuda()
    x = torch.randn(5, 2, 3, device="cuda")
    with torch.autocast("cuda"):
        y, state = layer(x)
    states = state if isinstance(state, tuple) else (state,)
    assert y.dtype is HALF and all(each.dtype is HALF for each in states)
    y.float().sum().backward()
    assert all(each.grad.dtype is FULL for each in layer.parameters())
    assert torch.allclose(y.float(), layer(x)[0], atol=2**-8)


# ---- blocks


def test_tensors_of_other_devices_are_not_cast():
    x = torch.randn(2, 2)
    with torch.autocast("cuda"):
        assert (x @ x).dtype is FULL and (x.cuda() @ x.cuda()).dtype is HALF
        with torch.autocast("cpu"):
            assert (x @ x).dtype is LOWER and (x.cuda() @ x.cuda()).dtype is HALF
    with torch.autocast("cpu"):
        assert (x.cuda() @ x.cuda()).dtype is FULL


def test_any_dtype_is_taken_on_cuda():
    """As in PyTorch, which looks at the dtype on other devices only."""
    x = torch.randn(2, 2, device="cuda")
    with torch.autocast("cuda", FULL):
        assert (x.half() @ x).dtype is FULL


def test_old_names():
    x = torch.randn(2, 2, device="cuda")
    with pytest.warns(FutureWarning):
        block = torch.cuda.amp.autocast(dtype=LOWER)
    with block:
        assert (x @ x).dtype is LOWER
    with pytest.warns(FutureWarning):
        assert torch.cuda.amp.GradScaler().is_enabled()


# ---- values


@pytest.mark.parametrize("lower", [HALF, LOWER])
def test_a_model_under_autocast(lower):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).cuda()
    x, y = torch.randn(5, 6, device="cuda"), torch.arange(5, device="cuda") % 3

    def gradients(enabled):
        model.zero_grad()
        with torch.autocast("cuda", lower, enabled=enabled):
            scores = model(x)
            loss = functional.cross_entropy(scores, y)
        assert scores.dtype is (lower if enabled else FULL) and loss.dtype is FULL
        loss.backward()
        return [loss.detach(), *(each.grad.clone() for each in model.parameters())]

    for mine, exact in zip(gradients(True), gradients(False), strict=True):
        assert mine.dtype is FULL
        allowed = 8 * torch.finfo(lower).eps * float(exact.abs().max())
        assert torch.allclose(mine, exact, rtol=0, atol=allowed)


def test_checkpoints_on_the_device():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).cuda()
    x = torch.randn(3, 4, device="cuda", requires_grad=True)
    found = []
    for use_reentrant in (None, False, True):
        model.zero_grad()
        with torch.autocast("cuda"):
            y = (
                model(x)
                if use_reentrant is None
                else torch.utils.checkpoint.checkpoint(model, x, use_reentrant=use_reentrant)
            )
        assert y.dtype is HALF
        y.float().sum().backward()
        found.append([each.grad.clone() for each in model.parameters()])
    assert all(map(torch.equal, found[0], found[1])) and all(map(torch.equal, found[0], found[2]))


# ---- scaled losses


@pytest.mark.parametrize("dtype", [FULL, torch.float64, HALF, LOWER])
@pytest.mark.parametrize("place", [None, 0, 16383, 16384, 40001])
def test_unscale(dtype, place):
    """Pieces of 16384 elements, and a tensor that does not begin where vectors do."""
    whole = (torch.arange(40003) % 7).to(dtype)
    if place is not None:
        whole[place + 1] = INFINITY
    tensors = [
        whole.cuda()[1:],
        torch.ones((), dtype=dtype).cuda(),
        torch.ones(3, dtype=dtype).cuda(),
    ]
    wanted = [(each * 0.25).cpu() for each in tensors]
    found, factor = torch.zeros((), device="cuda"), torch.tensor(0.25, device="cuda")
    torch._amp_foreach_non_finite_check_and_unscale_(tensors, found, factor)
    assert all(torch.equal(mine.cpu(), other) for mine, other in zip(tensors, wanted, strict=True))
    assert found.item() == (place is not None)


def test_unscale_takes_many_tensors_and_odd_layouts():
    tensors = [torch.ones(3, device="cuda") for _ in range(150)]
    tensors += [torch.ones(4, 4, device="cuda")[::2, ::2], torch.ones(2, 3, device="cuda").t()]
    tensors += [torch.ones(0, device="cuda")]
    found = torch.zeros((), device="cuda")
    torch._amp_foreach_non_finite_check_and_unscale_(
        tensors, found, torch.tensor(0.5, device="cuda")
    )
    assert all((each == 0.5).all().item() for each in tensors) and found.item() == 0


def train(device, steps=25):
    rng = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 3, generator=rng).to(device).requires_grad_()
    bias = torch.zeros(4, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight, bias], lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=3)
    for step in range(steps):
        x, y = (torch.randn(size, generator=rng).to(device) for size in ((5, 3), (5, 4)))
        optimizer.zero_grad()
        scaler.scale((functional.linear(x, weight, bias) - y).square().mean()).backward()
        if step % 5 == 4:
            bias.grad[1] = (INFINITY, float("nan"))[step % 2]
        if step % 3 == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([weight, bias], 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield scaler.get_scale(), scaler._get_growth_tracker(), weight.detach().cpu()


def test_scaled_steps_are_those_of_the_cpu():
    for step, (mine, other) in enumerate(zip(train("cuda"), train("cpu"), strict=True)):
        assert mine[:2] == other[:2], f"scale and growth tracker after step {step}"
        assert torch.allclose(mine[2], other[2], rtol=1e-4, atol=1e-5)


def test_gradients_on_two_devices(two_devices):
    params = [torch.ones(2, device=f"cuda:{k}", requires_grad=True) for k in (0, 1)]
    optimizer = torch.optim.SGD(params, lr=1.0)
    scaler = torch.amp.GradScaler(init_scale=4.0)
    losses = scaler.scale([each.sum() for each in params])
    for each in losses:
        each.backward()
    params[1].grad[0] = INFINITY
    scaler.step(optimizer)
    assert {str(each) for each in scaler._found_inf_per_device(optimizer)} == {"cuda:0", "cuda:1"}
    scaler.update()
    assert scaler.get_scale() == 2.0 and all((each == 1).all().item() for each in params)


# ---- waiting


@pytest.fixture
def refusing():
    """Return a function after which a wait that nobody asked for raises."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


def driver_waits():
    """Return how often the host has waited as the driver saw it; 0 on a GPU."""
    emulator = os.environ.get("TAPEGRAD_CUDA_DRIVER")
    return ctypes.CDLL(emulator).tapegradEmulatorWaits() if emulator else 0


def test_a_scaled_step_waits_for_what_was_found_alone(refusing):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 5)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler(init_scale=16.0, growth_interval=1)
    x, y = torch.randn(6, 8).cuda(), (torch.arange(6) % 5).cuda()

    def sweep():
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)

    for _ in range(2):
        sweep()
        scaler.step(optimizer)
        scaler.update()
    before = driver_waits()
    scaler.get_scale()
    of_one_look = driver_waits() - before
    for _ in range(2):
        refusing()
        before = driver_waits()
        sweep()
        assert driver_waits() == before
        torch.cuda.set_sync_debug_mode("default")
        scaler.step(optimizer)
        assert driver_waits() <= before + of_one_look
        refusing()
        before = driver_waits()
        scaler.update()
        assert driver_waits() == before
        torch.cuda.set_sync_debug_mode("default")
    assert scaler.get_scale() == 256.0


@pytest.mark.parametrize("place", ["inv_scale", "found_inf"])
def test_numbers_of_the_cpu_are_refused(place):
    """Kernels read and write these numbers where they lie."""
    numbers = {name: torch.ones((), device="cuda") for name in ("found_inf", "inv_scale")}
    numbers[place] = torch.ones(())
    grads = [torch.ones(8, device="cuda")]
    with pytest.raises(RuntimeError, match=f"{place} must be on cuda:0, got cpu"):
        torch._amp_foreach_non_finite_check_and_unscale_(grads, *numbers.values())
    tracker = torch.zeros((), dtype=torch.int32, device="cuda")
    with pytest.raises(RuntimeError, match="found_inf must be on cuda:0, got cpu"):
        torch._amp_update_scale_(torch.ones((), device="cuda"), tracker, torch.ones(()), 2, 0.5, 1)


def test_clipping_by_a_norm_on_the_cpu():
    weight = nn.Parameter(torch.ones(8, device="cuda"))
    weight.grad = torch.full((8,), 3.0, device="cuda")
    nn.utils.clip_grads_with_norm_([weight], 1.0, torch.tensor(5.0))
    assert torch.allclose(weight.grad.cpu(), torch.full((8,), 0.6))


def test_a_target_on_the_cpu_is_refused():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        functional.cross_entropy(torch.ones(3, device="cuda"), torch.tensor(1))
