"""Compiled functions on a device: replays of graphs do, to the bit, what the function does."""

import pytest
from compile.pairs import Pair, copied, same
from library import torch

nn, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def deterministic():
    """Gradients of embeddings and of attention are added up in any order otherwise."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class DevicePair(Pair):
    """The same, on the device: its generator is set back as well."""

    def __init__(self, make, **options):
        torch.zeros(1, device="cuda")
        super().__init__(make, **options)
        self.replays = 0

    def call(self, *args, **kwargs):
        state = torch.cuda.get_rng_state()
        given = [copied(each) for each in args]
        expected = self.eager(*given, **kwargs)
        after = torch.cuda.get_rng_state()
        torch.cuda.set_rng_state(state)
        other = [copied(each) for each in args]
        got = self._replay_or_run(other, kwargs)
        assert torch.equal(torch.cuda.get_rng_state(), after), "another count of random numbers"
        assert same(on_host(expected), on_host(got)), (expected, got)
        assert same(on_host(given), on_host(other))
        for key, mine in self.world.items():
            assert same(on_host(look_at(mine)), on_host(look_at(self.other[key]))), key
        return got

    def _replay_or_run(self, args, kwargs):
        """Call the compiled function; count the calls that a trace answers."""
        from tapegrad.compiler import _compiled

        native = _compiled._C._run_traces

        def counted(*given):
            result = native(*given)
            self.replays += not any(result is each for each in given[-2:])
            return result

        _compiled._C._run_traces = counted
        try:
            return self.compiled(*args, **kwargs)
        finally:
            _compiled._C._run_traces = native


def on_host(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, (list, tuple)):
        return [on_host(each) for each in value]
    if isinstance(value, dict):
        return {key: on_host(each) for key, each in value.items()}
    return value


def look_at(value):
    if isinstance(value, nn.Module):
        tensors = {**dict(value.named_parameters()), **dict(value.named_buffers())}
        return {key: (each.detach(), each.grad) for key, each in tensors.items()}
    if isinstance(value, torch.optim.Optimizer):
        return [list(state.values()) for state in value.state.values()]
    return value


def training(model, optimizer=None, *, clip=False, autocast=False, **options):
    """Make a world: a step, its model and its optimizer."""

    def make():
        net = model().cuda()
        optim = (optimizer or (lambda p: torch.optim.AdamW(p, lr=0.01)))(net.parameters())

        def step(x, y):
            optim.zero_grad(**options)
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                loss = F.mse_loss(net(x).float(), y)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optim.step()
            return loss

        return step, {"model": net, "optimizer": optim}

    return make


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 2))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
    )


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 2)

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).chunk(3, dim=-1)
        seen = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)
        return self.out(F.dropout(seen[:, 0] + x, 0.2, self.training))


def batch(*shape, out=2):
    return torch.randn(*shape).cuda(), torch.randn(*shape[:1], out).cuda()


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "capturable": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_are_those_of_the_function(optimizer):
    pair = DevicePair(training(mlp, OPTIMIZERS[optimizer]))
    for i in range(7):
        pair.call(*batch(3, 4))
        pair.both(lambda world, i=i: world["optimizer"].param_groups[0].update(lr=0.01 * (i + 1)))
    assert pair.traces == 1, pair.reasons
    assert pair.replays >= 3, "the first has no state of the optimizer, two are compared"


@pytest.mark.parametrize(
    "options",
    [{"clip": True}, {"set_to_none": False}, {"autocast": True}],
    ids=["clip", "zeros", "autocast"],
)
def test_ways_to_take_a_step(options):
    pair = DevicePair(training(mlp, **options))
    for _ in range(7):
        pair.call(*batch(3, 4))
    assert pair.traces >= 1, pair.reasons
    assert pair.replays >= 3


def test_a_convolution_with_statistics():
    pair = DevicePair(training(cnn))
    for _ in range(6):
        pair.call(torch.randn(3, 1, 4, 4).cuda(), torch.randn(3, 2).cuda())
    assert pair.traces == 1, pair.reasons


def test_attention_with_dropout():
    pair = DevicePair(training(Attention))
    for _ in range(6):
        pair.call(torch.randn(2, 4, 8).cuda(), torch.randn(2, 4, 2).cuda())
    assert pair.traces == 1, pair.reasons
    assert pair.replays >= 2


def test_two_shapes_and_a_changed_mode():
    pair = DevicePair(training(mlp))
    for i in range(14):
        pair.call(*batch(3 + i % 2, 4))
        if i == 8:
            pair.both(lambda world: world["model"].eval())
    assert pair.traces == 4, pair.reasons


def test_a_replaced_parameter():
    pair = DevicePair(training(mlp, OPTIMIZERS["sgd"]))
    for i in range(6):
        pair.call(*batch(3, 4))
        if i == 3:
            pair.both(lambda world: world["model"][3].weight.data.mul_(0.5))
        if i == 4:
            pair.both(
                lambda world: setattr(
                    world["model"][3].weight, "data", torch.ones(2, 8, device="cuda")
                )
            )
    assert pair.traces == 1


def test_results_and_gradients_that_are_kept():
    pair = DevicePair(training(mlp))
    results, gradients = [], []
    for i in range(8):
        loss = pair.call(*batch(3, 4))
        results.append((loss, loss.item()))
        if i > 4:
            grad = pair.other["model"][0].weight.grad
            gradients.append((grad, grad.tolist()))
    assert pair.replays >= 3
    assert all(loss.item() == value for loss, value in results)
    assert all(grad.tolist() == value for grad, value in gradients)


def test_inference():
    def make():
        net = mlp().cuda().eval()
        return torch.no_grad()(lambda x: {"y": net(x), "n": 3}), {}

    pair = DevicePair(make)
    kept = []
    for _ in range(5):
        y = pair.call(torch.randn(3, 4).cuda())["y"]
        kept.append((y, y.tolist()))
    assert pair.traces == 1, pair.reasons
    assert all(y.tolist() == values for y, values in kept)


def test_a_value_that_python_looked_at():
    def make():
        return torch.no_grad()(lambda x: x * 2 if x.sum() > 0 else x - 1), {}

    pair = DevicePair(make)
    for i in range(8):
        pair.call(torch.full((3,), 1.0 if i % 2 else -1.0).cuda())
    assert pair.traces == 2, pair.reasons


def test_an_argument_that_is_written():
    def make():
        return torch.no_grad()(lambda x: x.add_(1).sum()), {}

    pair = DevicePair(make)
    for _ in range(5):
        pair.call(torch.randn(3, 4).cuda())
    assert pair.traces == 1, pair.reasons


def test_a_differentiable_result_runs_eagerly():
    net = nn.Linear(4, 2).cuda()
    compiled = torch.compile(net)
    for _ in range(3):
        compiled(torch.ones(3, 4, device="cuda")).sum().backward()
    assert "compile the whole step" in " ".join(torch.compiler.explain(compiled).reasons)
