"""`tape.compress`: what is coded and what is not, and the rest of autograd."""

import gc

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)

from .compress_cases import codecs, hidden

nn, F = torch.nn, torch.nn.functional
compress = torch.tape.compress
LOSSY = {"int8": 0.03, "int4": 0.5, "bf16": 0.01}


def relative_error(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


# ---- gradients

SMOOTH = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "gelu": F.gelu,
    "silu": F.silu,
    "square": torch.square,
    "product": lambda x: x * x.flip(0),
    "matmul": lambda x: x @ x.t(),
    "softmax": lambda x: torch.softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "var": lambda x: x.var(1),
    "norm": lambda x: x.norm(2, 1),
    "conv": lambda x: F.conv1d(x.unsqueeze(1), x[:3, :5].unsqueeze(1)),
    "lerp": lambda x: torch.lerp(x, x.flip(0), x),
}
RATIO = {
    "log": lambda x: x.abs().add(0.01).log(),
    "division": lambda x: torch.ones_like(x) / (x.abs() + 0.01),
    "sqrt": lambda x: x.abs().add(1e-4).sqrt(),
    "pow": lambda x: (x.abs() + 0.1) ** 1.5,
    "abs": torch.abs,
    "log_softmax": lambda x: torch.log_softmax(3 * x, 1),
    "elu": F.elu,
    "norm 1": lambda x: x.norm(1, 1),
}


@pytest.mark.parametrize("codec", LOSSY)
@pytest.mark.parametrize("name", [*SMOOTH, *RATIO])
def test_gradients_are_near(name, codec):
    """Within a few percent of the true ones; derivatives that divide see no less than bfloat16."""
    function = {**SMOOTH, **RATIO}[name]
    leaf, _ = hidden(48, 64)
    results, used = [], None
    for each in (None, codec):
        with compress(each) as c:
            y = function(leaf + 0)
        used = codecs(c)
        weights = torch.cos(torch.arange(y.numel())).reshape(y.shape)
        results.append(torch.autograd.grad((y * weights).sum(), leaf)[0])
    limit = LOSSY["bf16" if name in RATIO else codec]
    assert relative_error(results[1], results[0]) < 3 * limit
    expected = "bf16" if name in RATIO else codec
    assert used.get(expected, 0) >= 1
    if name in RATIO and codec != "bf16":
        assert codec not in used


@pytest.mark.parametrize("codec", LOSSY)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_large_scores(causal, codec):
    """Weights add up to one whatever rounding does to the scores: gradients stay bounded."""
    leaf, _ = hidden(2, 4, 64, 16)
    results = []
    for each in (None, codec):
        with compress(each):
            x = leaf * 4
            y = F.scaled_dot_product_attention(x, x.flip(2), leaf + 0, is_causal=causal)
        results.append(torch.autograd.grad((y * torch.cos(y.detach())).sum(), leaf)[0])
    assert relative_error(results[1], results[0]) < 30 * LOSSY[codec]
    assert results[1].abs().max() < 3 * results[0].abs().max()


@pytest.mark.parametrize("codec", LOSSY)
def test_gradients_have_the_right_mean(codec):
    """Rounding at random: the mean over many sweeps comes near the true gradient."""
    torch.manual_seed(2)
    leaf, _ = hidden(64, 32)
    weight = torch.randn(32, 16, requires_grad=True)

    def sweep(each):
        with compress(each):
            y = ((leaf + 0) @ weight).sum()
        return torch.autograd.grad(y, weight)[0]

    true = sweep(None)
    found = [sweep(codec) for _ in range(200)]
    mean = torch.stack(found).mean(0)
    if codec == "bf16":
        assert all(torch.equal(each, found[0]) for each in found)
    else:
        one = relative_error(found[0], true)
        assert relative_error(mean, true) < one / 6


def test_backward_twice_gives_the_same():
    leaf, x = hidden(64, 64)
    with compress("int8"):
        y = (torch.tanh(x) @ torch.sigmoid(x)).sum()
    first = torch.autograd.grad(y, leaf, retain_graph=True)[0]
    second = torch.autograd.grad(y, leaf, retain_graph=True)[0]
    assert torch.equal(first, second)
    y.backward()
    assert torch.equal(leaf.grad, first)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize("codec", [*LOSSY, "exact"])
def test_second_derivatives(codec):
    """Decoded values stand at their place in the graph: derivatives of derivatives reach them."""
    torch.manual_seed(4)
    leaf, _ = hidden(32, 32)

    def twice(each):
        with compress(each):
            x = torch.relu(leaf * 1.5) + leaf
            y = (torch.tanh(x @ x) * x).sum()
            (grad,) = torch.autograd.grad(y, leaf, create_graph=True)
            z = (grad * grad).sum()
        return torch.autograd.grad(z, leaf)[0]

    true, found = twice(None), twice(codec)
    assert found.abs().max() > 0
    if codec == "exact":
        assert torch.equal(found, true)
    else:
        assert relative_error(found, true) < 6 * LOSSY[codec]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes(dtype):
    leaf, x = hidden(64, 64, dtype=dtype)
    with compress("int8") as c:
        y = torch.tanh(x).float().sum()
    assert codecs(c) == {"int8": 1}
    true = 1 - torch.tanh(leaf.detach().double()) ** 2
    (grad,) = torch.autograd.grad(y, leaf)
    assert grad.dtype is dtype
    assert relative_error(grad.double(), true) < 0.03


# ---- which values


def test_leaves_and_their_views_are_kept():
    weight = torch.randn(64, 64, requires_grad=True)
    x = torch.randn(64, 64, requires_grad=True)
    with compress("int8") as c:
        y = (x @ weight.t()) * weight[:]
    counts = codecs(c)
    assert counts == {"int8": 1}, "x @ w is a value; x, w and w's views are not the tape's"
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, weight.detach() @ weight.detach())


def test_frozen_weights_and_data_are_kept_unless_asked_for():
    data, frozen = torch.randn(64, 64), torch.randn(64, 64)
    x = torch.randn(64, 64, requires_grad=True)

    def run(**options):
        with compress("int8", **options) as c:
            y = (x * data).sum() + F.linear(x, frozen).sum()
        return torch.autograd.grad(y, x)[0], codecs(c)

    exact, kept = run()
    assert kept == {"whole": 2}
    assert relative_error(exact, data + frozen.sum(0)) < 1e-6
    _, coded = run(inputs=True)
    assert coded == {"int8": 2}


def test_small_values_are_kept():
    _, x = hidden(255)
    with compress("int8") as c:
        torch.tanh(x)
    assert codecs(c) == {"whole": 1}
    _, x = hidden(256)
    with compress("int8") as c:
        torch.tanh(x)
    assert codecs(c) == {"int8": 1}
    with compress("int8", min_bytes=2048) as c:
        torch.tanh(x)
    assert codecs(c) == {"whole": 1}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_values_of_no_or_one_element(shape):
    leaf, x = hidden(*shape)
    with compress("int8", min_bytes=0):
        y = torch.tanh(x) * torch.relu(x)
    y.sum().backward()
    assert leaf.grad.shape == leaf.shape


def test_statistics_of_norms_and_attention_are_kept():
    _, x = hidden(2, 4, 300, 16)
    with compress("int8", min_bytes=0) as c:
        y = F.layer_norm(F.scaled_dot_product_attention(x, x, x), (16,))
    y.sum().backward()
    # The sum of each row of attention; mean and deviation of each row of the norm.
    assert c.by_codec()["whole"] == {"values": 3, "saved_bytes": 3 * 2 * 4 * 300 * 4}


def test_values_of_python_functions_are_kept_unless_named():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    leaf, x = hidden(64, 64)
    true = 3 * leaf.detach() ** 2
    with compress("int8") as c:
        y = Cube.apply(x).sum()
    assert codecs(c) == {"whole": 1}
    assert torch.equal(torch.autograd.grad(y, leaf, retain_graph=True)[0], true)
    with compress("int8", ops={"Cube": "int8"}) as c:
        y = Cube.apply(leaf + 0).sum()
    assert codecs(c) == {"int8": 1}
    assert 0 < relative_error(torch.autograd.grad(y, leaf)[0], true) < 0.05


# ---- sharing


def test_a_value_that_another_entry_keeps_whole_stays_whole():
    _, x = hidden(64, 64)
    with compress("int8", ops={"sin": None}) as c:
        y = torch.sin(x) + torch.tanh(torch.cos(x))
    assert codecs(c) == {"whole": 2, "int8": 1}, "x by both of its readers; what tanh makes"
    assert c.saved_bytes == 64 * 64 * 4 + 64 * 64 + 16 * 4
    del y


def test_a_value_that_several_entries_save_is_coded_once():
    _, x = hidden(64, 64)
    weights = [torch.randn(64, 64, requires_grad=True) for _ in range(3)]
    with compress("int8") as c:
        outputs = [x @ w for w in weights]
        torch.tanh(outputs[0])
        x.reshape(32, 128) @ torch.randn(128, 8, requires_grad=True)
        x.t() @ weights[0]
    assert c.by_codec()["int8"] == {"values": 6, "saved_bytes": 2 * (64 * 64 + 16 * 4)}
    assert c.full_bytes == 2 * 64 * 64 * 4
    assert c.ratio == pytest.approx(0.25 + 1 / 256)


def test_a_value_that_was_written_in_between_is_coded_again():
    leaf = torch.full((512,), 2.0, requires_grad=True)
    with compress("bf16"):
        x = leaf * 1.0
        a = (x * x).sum()
        x.add_(1.0)
        b = (x * x).sum()
    assert torch.equal(torch.autograd.grad(a, leaf, retain_graph=True)[0], torch.full((512,), 4.0))
    assert torch.equal(torch.autograd.grad(b, leaf)[0], torch.full((512,), 6.0))


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitized build does not use memory again soon")
def test_memory_that_is_used_again_is_not_taken_for_the_old():
    """New values come to lie where dead ones did, of which codes still live."""
    leaf = torch.zeros(1024, requires_grad=True)
    with compress("bf16"):
        entries = [torch.tanh(leaf + 0.25 * i) for i in range(8)]
    places = {torch._C._storage_id(leaf + 0.0) for _ in range(8)}
    assert len(places) < 8
    for i, entry in enumerate(entries):
        value = torch.tanh(torch.tensor(0.25 * i)).to(torch.bfloat16).float()
        (grad,) = torch.autograd.grad(entry.sum(), leaf)
        assert torch.allclose(grad, 1 - value * value, atol=1e-6)


def test_different_codecs_do_not_share():
    _, x = hidden(64, 64)
    with compress("int8") as outer:
        y = torch.sin(x)
        with compress("int4") as inner:
            z = torch.sin(x)
        with compress("int8", block=128) as blocks:
            torch.sin(x)
        with compress("int8") as again:
            torch.sin(x)
    assert codecs(outer) == {"int8": 1}
    assert codecs(inner) == {"int4": 1}
    assert blocks.saved_bytes == 64 * 64 + 32 * 4
    assert again.saved_bytes == 0
    del y, z


# ---- memory


def test_bytes_are_the_allocators():
    def saved():
        return torch.memory_stats()["saved_bytes"]

    gc.collect()
    before = saved()
    _, x = hidden(256, 256)
    with compress("int8") as c:
        y = torch.relu(torch.tanh(x) @ torch.sin(x))
    assert saved() - before == c.saved_bytes
    assert c.by_codec()["int8"]["saved_bytes"] == 3 * (256 * 256 + 256 * 4)
    y.sum().backward()
    assert saved() == before
    del y


def test_the_original_is_freed():
    def live():
        return torch.memory_stats()["live_bytes"]

    leaf = torch.randn(1024, 256, requires_grad=True)
    size = leaf.numel() * 4

    def grown(codec):
        gc.collect()
        start = live()
        with compress(codec):
            y = torch.tanh(torch.tanh(torch.tanh(leaf + 0))).sum()
        result = live() - start
        del y
        return result

    assert grown(None) >= 3 * size
    assert grown("int8") < 0.8 * size


def test_nothing_stays_alive():
    gc.collect()
    before = torch._C.live_counts()
    leaf, x = hidden(64, 64)
    with compress("int8"):
        y = torch.tanh(x) * torch.relu(x)
    del leaf, x, y
    gc.collect()
    assert torch._C.live_counts() == before


def test_statistics():
    with compress("int8") as c:
        pass
    assert (c.full_bytes, c.saved_bytes, c.ratio, c.by_codec()) == (0, 0, 1.0, {})
    _, x = hidden(128, 128)
    with c:
        torch.tanh(x)
    assert c.full_bytes == 128 * 128 * 4
    assert c.saved_bytes == 128 * 128 + 64 * 4
    assert repr(c) == "compress('int8'): 64.0 KiB in 16.2 KiB, ratio 0.254"


# ---- other ways of keeping values


def test_hooks_of_the_user_go_first():
    leaf, x = hidden(64, 64)
    packed = []
    with (
        compress("int8") as c,
        torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t),
    ):
        y = torch.sin(x).sum()
    assert codecs(c) == {}
    assert torch.equal(packed[0], x)
    (grad,) = torch.autograd.grad(y, leaf)
    assert torch.equal(grad, torch.cos(leaf.detach()))


def test_hooks_registered_on_a_coded_value():
    leaf, x = hidden(64, 64)
    with compress("bf16"):
        y = torch.sin(x)
    seen = []
    y.grad_fn._raw_saved_self.register_hooks(lambda t: seen.append(t) or t.clone(), lambda t: t)
    assert torch.equal(seen[0], leaf.detach().bfloat16().float())
    assert torch.equal(y.grad_fn._saved_self, seen[0])
    (grad,) = torch.autograd.grad(y.sum(), leaf)
    assert torch.equal(grad, torch.cos(seen[0]))


def test_saved_attributes_show_the_decoded_value():
    leaf, x = hidden(64, 64)
    with compress("bf16"):
        y = torch.sin(x)
    assert torch.equal(y.grad_fn._saved_self, leaf.detach().bfloat16().float())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_inside(reentrant):
    leaf, x = hidden(64, 64)
    with compress("int8"):
        y = torch.utils.checkpoint.checkpoint(
            lambda t: torch.sin(torch.sin(t)), x, use_reentrant=reentrant
        )
    (y.sum()).backward()
    inner = torch.sin(leaf.detach())
    assert torch.allclose(leaf.grad, torch.cos(leaf.detach()) * torch.cos(inner), atol=1e-6)


def test_inside_a_checkpoint():
    leaf, x = hidden(64, 64)

    @compress("int8")
    def function(t):
        return torch.sin(torch.sin(t))

    y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    y.sum().backward()
    inner = torch.sin(leaf.detach())
    true = torch.cos(leaf.detach()) * torch.cos(inner)
    assert relative_error(leaf.grad, true) < 0.03


def test_forward_mode_and_vmap_are_left_alone():
    x, tangent = torch.randn(64, 64), torch.randn(64, 64)
    with compress("int8"):
        _, jvp = torch.func.jvp(lambda t: torch.tanh(t) * t, (x,), (tangent,))
        per_row = torch.func.vmap(torch.func.grad(lambda t: (torch.tanh(t) * t).sum()))(x)
    slope = torch.tanh(x) + x * (1 - torch.tanh(x) ** 2)
    assert torch.allclose(jvp, slope * tangent, atol=1e-5)
    assert torch.allclose(per_row, slope, atol=1e-5)


def test_func_grad_inside():
    x = torch.randn(64, 64)
    with compress("int8"):
        grad = torch.func.grad(lambda t: torch.tanh(t * 1.0).sum())(x)
    assert relative_error(grad, 1 - torch.tanh(x) ** 2) < 0.03


def test_a_write_after_the_value_was_coded_is_no_error():
    leaf, x = hidden(64, 64)
    with compress("bf16"):
        y = torch.sin(x).sum()
        x.zero_()
    (grad,) = torch.autograd.grad(y, leaf)
    assert torch.equal(grad, torch.cos(leaf.detach().bfloat16().float()))


def test_anomaly_mode():
    leaf, x = hidden(64, 64)
    with torch.autograd.set_detect_anomaly(True), compress("int8"):
        torch.tanh(x).sum().backward()
    assert leaf.grad.isfinite().all()


@pytest.mark.filterwarnings("ignore::tapegrad.tape.budget.BudgetWarning")
def test_under_a_budget():
    """Codes are values that can be evicted and made again: to the same codes.

    What they are made of is larger than they are, so a limit may be passed meanwhile.
    """
    weights = [torch.randn(128, 128, requires_grad=True) for _ in range(6)]

    def run(limit):
        torch.manual_seed(3)
        x = torch.randn(256, 128, requires_grad=True)
        with torch.tape.budget(limit) as b:
            with compress("int8"):
                y = x
                for weight in weights:
                    y = torch.tanh(y @ weight)
            y.sum().backward()
        return x.grad, b

    free, unlimited = run("1 GiB")
    tight, limited = run(unlimited.peak // 2)
    assert limited.evictions > 0
    assert torch.equal(free, tight)


# ---- randomness


def test_the_programs_random_numbers_are_left_alone():
    found = []
    for codec in (None, "int8"):
        torch.manual_seed(1)
        _, x = hidden(64, 64)
        with compress(codec):
            torch.tanh(x)
        found.append(torch.rand(5))
    assert torch.equal(*found)


def test_a_seed_gives_the_same_codes():
    def run():
        leaf, x = hidden(64, 64)
        with compress("int8"):
            y = torch.tanh(x)
        return torch.autograd.grad(y.sum(), leaf)[0]

    torch.manual_seed(1)
    first, second = run(), run()
    torch.manual_seed(1)
    again = run()
    torch.manual_seed(2)
    x = torch.get_rng_state()
    other = run()
    torch.set_rng_state(x)
    other_again = run()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(other, other_again), "codes do not repeat with the program's numbers"


# ---- what listens to ops


def test_codes_pass_the_dispatch_point():
    leaf, x = hidden(64, 64)
    program = torch._C.Program()
    with program, compress("int8"):
        y = torch.sin(x)
        (grad,) = torch.autograd.grad(y.sum(), leaf)
    names = [name for name, *_ in program.steps()]
    assert names.index("quantize") < names.index("dequantize")
    before = grad.clone()
    grad.zero_()
    program.replay()
    assert torch.equal(grad, before)


def test_the_tapes_listing_shows_codes():
    _, x = hidden(64, 64)
    with compress("int8") as c:
        y = torch.sin(x)
    entry = torch.tape.of(y)[-1]
    assert [(value.name, value.state, value.shape) for value in entry.saved] == [
        ("self (int8)", "held", (64, 64)),  # codes
        ("self (int8)", "held", (64, 64)),  # scales
    ]
    assert entry.bytes == c.saved_bytes


def test_the_tapes_bytes_are_the_allocators():
    gc.collect()
    before = torch.memory_stats()["saved_bytes"]
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    with compress("int8"):
        y = layer(hidden(8, 32, 64)[1]).relu()
    kept = torch.memory_stats()["saved_bytes"] - before
    assert sum(entry.bytes for entry in torch.tape.of(y)) == kept > 0
    del y


# ---- models


def test_a_transformer_block_and_a_convolutional_block():
    """Saved bytes of the usual blocks, which the benchmarks measure for whole models."""
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    with compress("int8") as c:
        layer(hidden(8, 32, 64)[1]).sum().backward()
    assert c.ratio < 0.3
    block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    model = nn.Sequential(block, block, nn.MaxPool2d(2), block)
    with compress("int8") as c:
        model(hidden(8, 16, 16, 16)[1]).sum().backward()
    assert c.ratio < 0.3
    assert {"int8", "bits", "places"} <= set(codecs(c))


def test_training_comes_to_the_same_loss():
    """A small network fits the same function with and without."""
    losses = {}
    for codec in (None, "int8"):
        torch.manual_seed(0)
        layers = [nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
        model = nn.Sequential(*layers)
        x = torch.rand(256, 8)
        target = torch.sin(x.sum(1, keepdim=True))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(200):
            with compress(codec):
                loss = F.mse_loss(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[codec] = loss.item()
    assert losses[None] < 0.01
    assert losses["int8"] < 0.01
