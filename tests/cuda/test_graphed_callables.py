"""make_graphed_callables: forward and backward of functions and modules as graphs."""

import pytest
from library import torch

cuda, nn, F = torch.cuda, torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def deterministic():
    """Sums in any order would round differently in each run; see Note [Any order]."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def layers(seed=0, dropout=0.25):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 6)).cuda()


def losses(model, steps=4):
    """Train, and return the losses and the parameters; the same numbers are drawn each time."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rng = torch.Generator().manual_seed(2)
    torch.manual_seed(3)
    found = []
    for _ in range(steps):
        x = torch.randn(5, 6, generator=rng).cuda()
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, [p.detach().cpu() for p in model.parameters()]


def assert_same(first, second):
    assert first[0] == second[0] and len(set(first[0])) == len(first[0])
    assert all(map(torch.equal, first[1], second[1]))


def test_a_module():
    model = layers()
    graphed = cuda.make_graphed_callables(model, (torch.zeros(5, 6, device="cuda"),))
    assert graphed is model
    assert_same(losses(graphed), losses(layers()))


def test_a_part_of_a_model():
    """The rest of the model runs as ever, and needs the gradient of the part's input."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = layers(1), layers(2), layers(3)

        def forward(self, x):
            return self.third(self.second(self.first(x)).sin())

    graphed = Model()
    sample = torch.zeros(5, 6, device="cuda", requires_grad=True)
    graphed.second = cuda.make_graphed_callables(graphed.second, (sample,))
    assert_same(losses(graphed), losses(Model()))


def test_several_that_share_a_pool():
    def make(graphed):
        parts = (layers(1), layers(2))
        if graphed:
            samples = tuple(
                (torch.zeros(5, 6, device="cuda", requires_grad=wanted),)
                for wanted in (False, True)
            )
            parts = cuda.make_graphed_callables(parts, samples)
            assert isinstance(parts, tuple)
        return nn.Sequential(*parts)

    assert_same(losses(make(True)), losses(make(False)))


def test_modes_of_a_module():
    """A module that is captured in training runs its own forward in evaluation."""
    model = layers()
    x = torch.ones(5, 6, device="cuda")
    cuda.make_graphed_callables(model, (x.clone(),))
    model.eval()
    assert torch.equal(model(x), model(x))
    assert model(x).grad_fn is not None
    model.train()
    assert not torch.equal(model(x).clone(), model(x))
    still = layers(dropout=0.5).eval()
    with torch.no_grad():
        expected = still(x).clone()
        cuda.make_graphed_callables(still, (torch.zeros_like(x),))
        assert torch.equal(still(x), expected)


def test_a_function_of_nested_arguments():
    def function(pair, scale):
        a, b = pair
        return {"sum": (a + b) * scale, "plain": a.detach() * 2}

    def inputs(value):
        a, b = (torch.full((3,), value + k, device="cuda", requires_grad=True) for k in (0, 1))
        return (a, b), torch.full((), 2.0, device="cuda")

    graphed = cuda.make_graphed_callables(function, inputs(0.0))
    for value in (1.0, 5.0):
        pair, scale = inputs(value)
        out = graphed(pair, scale)
        assert list(out) == ["sum", "plain"]
        assert out["sum"].tolist() == [(2 * value + 1) * 2] * 3
        assert out["plain"].tolist() == [2 * value] * 3 and not out["plain"].requires_grad
        out["sum"].square().sum().backward()
        assert pair[0].grad.tolist() == [2 * (2 * value + 1) * 2 * 2] * 3


def test_inputs_without_a_gradient():
    def function(a, b):
        return a * 2

    samples = [torch.ones(3, device="cuda", requires_grad=True) for _ in range(2)]
    with pytest.raises(RuntimeError, match=r"unused|not to have been used"):
        cuda.make_graphed_callables(function, tuple(samples))
    graphed = cuda.make_graphed_callables(function, tuple(samples), allow_unused_input=True)
    a, b = (torch.ones(3, device="cuda", requires_grad=True) for _ in range(2))
    graphed(a, b).sum().backward()
    assert a.grad.tolist() == [2.0] * 3 and b.grad is None


def test_second_derivatives_are_refused():
    graphed = cuda.make_graphed_callables(
        torch.sin, (torch.ones(3, device="cuda", requires_grad=True),)
    )
    x = torch.ones(3, device="cuda", requires_grad=True)
    (g,) = torch.autograd.grad(graphed(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_hooks_after_the_capture():
    model = layers()
    sample = torch.zeros(5, 6, device="cuda", requires_grad=True)
    cuda.make_graphed_callables(model, (sample,))
    seen = []
    model.register_forward_hook(lambda *_: seen.append("forward"))
    model.register_full_backward_hook(lambda *_: seen.append("backward"))
    model(torch.ones(5, 6, device="cuda", requires_grad=True)).sum().backward()
    assert seen == ["forward", "backward"]


def test_what_is_refused():
    x = torch.zeros(5, 6, device="cuda")
    model = layers()
    handle = model.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Modules must not have hooks"):
        cuda.make_graphed_callables(model, (x,))
    handle.remove()
    model.register_buffer("trained", torch.ones(1, device="cuda", requires_grad=True))
    with pytest.raises(RuntimeError, match="only parameters may be trainable"):
        cuda.make_graphed_callables(model, (x,))
    with pytest.raises(TypeError, match="must contain only Tensors"):
        cuda.make_graphed_callables(torch.mul, (x, 2.0))
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="autocast caching"):
        cuda.make_graphed_callables(layers(), (x,))
    graphed = cuda.make_graphed_callables(layers(), (x,))
    with pytest.raises(RuntimeError, match=r"expected a tensor of shape \(5, 6\)"):
        graphed(x[:2])
    with pytest.raises(RuntimeError, match="tensor 0 of the arguments requires grad"):
        graphed(torch.zeros(5, 6, device="cuda", requires_grad=True))
    with pytest.raises(TypeError, match="expected 1 tensors as when it was captured, got 2"):
        graphed(x, x)


def test_autocast_without_its_cache():
    x = torch.linspace(-1, 1, 30, device="cuda").view(5, 6)
    model = layers(dropout=0.0)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        expected = model(x).detach().clone()
        graphed = cuda.make_graphed_callables(model, (torch.zeros_like(x),))
        y = graphed(x)
    assert y.dtype is torch.bfloat16 and torch.equal(y, expected)
