"""Results of compiled functions, differentiated outside: as eager ones, to any order."""

import pytest
from cases import each_op
from checks import leaves_of
from library import IS_TORCH, torch
from op_db.row import results
from test_op_gradients import gradient_samples

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn, functional = torch.nn, torch.nn.functional


class Twins:
    """The same module twice: eager, and compiled."""

    def __init__(self, make):
        torch.manual_seed(5)
        self.eager = make()
        torch.manual_seed(5)
        self.model = make()
        self.compiled = torch.compile(self.model)

    def __iter__(self):
        yield self.eager, self.eager
        yield self.compiled, self.model

    def run(self, use, seed=0):
        """Use both, and compare what that returns and all gradients."""
        found = []
        for call, model in self:
            torch.manual_seed(seed)
            result = use(call, model)
            found.append((result, [p.grad for p in model.parameters()], torch.get_rng_state()))
        assert same(*found)

    @property
    def traces(self):
        return len(torch.compiler.explain(self.compiled).traces)

    @property
    def reasons(self):
        return str(torch.compiler.explain(self.compiled))


def perceptron():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 2))


def loop(call, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = call(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def test_a_usual_training_loop():
    twins = Twins(perceptron)
    twins.run(loop)
    assert twins.traces == 1
    x = torch.ones(3, 4)
    assert twins.compiled(x).grad_fn.name() == "CompiledBackward"


def warm(twins, x, times=4):
    for seed in range(times):
        twins.run(lambda call, model: call(x).sum().backward(), seed)
        for _, model in twins:
            model.zero_grad()
    assert twins.traces == 1, twins.reasons


def test_several_forwards_before_a_backward():
    twins = Twins(perceptron)
    warm(twins, torch.ones(3, 4))

    def use(call, model):
        first, second = call(torch.ones(3, 4)), call(torch.full((3, 4), 2.0))
        (first * second).sum().backward()
        return first.detach(), second.detach()

    twins.run(use)


def test_gradients_of_any_layout():
    twins = Twins(lambda: nn.Linear(4, 4))
    warm(twins, torch.ones(3, 4))
    for seed in (torch.randn(4, 3).t(), torch.ones(()).expand(3, 4), torch.randn(3, 8)[:, ::2]):
        twins.run(lambda call, model, seed=seed: call(torch.ones(3, 4)).backward(seed))


def test_backward_twice():
    twins = Twins(lambda: nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
    warm(twins, torch.ones(3, 4))

    def use(call, model):
        y = call(torch.ones(3, 4))
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()

    twins.run(use)


def test_a_weight_that_is_overwritten_before_the_backward():
    twins = Twins(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    warm(twins, torch.ones(3, 4))

    def use(call, model):
        y = call(torch.ones(3, 4))
        with torch.no_grad():
            model[2].weight.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    twins.run(use)


def test_a_result_that_is_overwritten():
    twins = Twins(lambda: nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
    warm(twins, torch.ones(3, 4))

    def use(call, model):
        y = call(torch.ones(3, 4))
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    twins.run(use)


def test_derivatives_of_derivatives():
    function = lambda x, w: (x**3 * w).sin().sum()  # noqa: E731
    compiled = torch.compile(function)
    for seed in range(5):
        found = []
        for each in (function, compiled):
            torch.manual_seed(seed)
            x = torch.randn(3, dtype=torch.float64, requires_grad=True)
            w = torch.randn(3, dtype=torch.float64, requires_grad=True)
            first = torch.autograd.grad(each(x, w), (x, w), create_graph=True)
            second = torch.autograd.grad(
                first[0].sum() + first[1].prod(), (x, w), create_graph=True
            )
            third = torch.autograd.grad(second[0].sum(), (x, w))
            found.append([each.detach() for each in (*first, *second, *third)])
        assert same(*found)
    assert len(torch.compiler.explain(compiled).traces) == 1


def test_a_gradient_penalty_with_dropout():
    """What the two parts of the loss give is added in another order than on one tape."""
    twins = Twins(lambda: perceptron().double())
    for seed in range(6):
        found = []
        for call, model in twins:
            torch.manual_seed(seed)
            x = torch.ones(3, 4, dtype=torch.float64, requires_grad=True)
            y = call(x).sum()
            (grad,) = torch.autograd.grad(y, x, create_graph=True)
            (y + grad.square().sum()).backward()
            found.append([grad.detach(), x.grad, *(p.grad for p in model.parameters())])
            model.zero_grad()
        for one, other in zip(*found, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)
    assert twins.traces == 1, twins.reasons


def test_a_second_derivative_after_a_change_is_an_error():
    weight = [2.0]
    compiled = torch.compile(lambda x: (x**3 * weight[0]).sum())
    x = torch.ones(2, requires_grad=True)
    for _ in range(4):
        compiled(x).backward()
        x.grad = None
    y = compiled(x)
    weight[0] = 3.0
    with pytest.raises(RuntimeError, match="has to run again for this derivative"):
        torch.autograd.grad(y, x, create_graph=True)
    (grad,) = torch.autograd.grad(compiled(x), x)
    assert grad.tolist() == [9.0, 9.0]


def test_results_that_are_not_used():
    def function(x):
        return x.sin(), [x.cos(), x.exp().detach()], 3

    compiled = torch.compile(function)
    for call in range(6):
        found = []
        for each in (function, compiled):
            x = torch.ones(2, requires_grad=True)
            a, (b, c), n = each(x)
            ((a if call % 2 else b).sum() + c.sum() * n).backward()
            found.append((a.detach(), b.detach(), c, x.grad))
        assert same(*found)
    assert len(torch.compiler.explain(compiled).traces) == 1


def test_some_inputs_alone():
    twins = Twins(perceptron)
    warm(twins, torch.ones(3, 4))

    def use(call, model):
        return torch.autograd.grad(call(torch.ones(3, 4)).sum(), model[3].bias)

    twins.run(use)


def test_hooks_observers_and_anomalies():
    twins = Twins(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    warm(twins, torch.ones(3, 4))

    def hooked(call, model):
        seen = []
        y = call(torch.ones(3, 4))
        y.register_hook(lambda grad: seen.append(grad.clone()))
        y.sum().backward()
        return seen

    def observed(call, model):
        y = call(torch.ones(3, 4))
        program = torch._C.Program()
        with program:
            y.sum().backward()
        return any(step[0] == "tanh_backward" for step in program.steps())

    def anomalous(call, model):
        with torch.autograd.set_detect_anomaly(True):
            call(torch.ones(3, 4)).sum().backward()

    for use in (hooked, observed, anomalous):
        twins.run(use)
        for _, model in twins:
            model.zero_grad()


def test_hooks_of_modules_run_once():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    calls = []
    model[0].register_full_backward_hook(lambda *_: calls.append(1))
    compiled = torch.compile(model)
    for count in range(1, 6):
        compiled(torch.ones(1, 2, requires_grad=True)).sum().backward()
        assert len(calls) == count


def test_custom_functions_run_once():
    calls = torch.zeros(())

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            calls.add_(1)
            return 3 * grad * ctx.saved_tensors[0] ** 2

    compiled = torch.compile(lambda x: Cube.apply(x) * 2)
    for count in range(1, 6):
        x = torch.ones(2, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [6.0, 6.0] and calls.item() == count


def test_batch_norm_in_training_runs_eagerly():
    twins = Twins(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    for seed in range(4):
        twins.run(lambda call, model: call(torch.randn(3, 4)).square().sum().backward(), seed)
    assert twins.traces == 0 and "compile the whole step" in twins.reasons


def test_an_argument_with_a_history():
    twins = Twins(lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh()))

    def use(call, model):
        x = torch.ones(2, 4, requires_grad=True)
        model.zero_grad()
        (call(x.exp()) * call(call(x * 2))).sum().backward()
        return x.grad

    for seed in range(6):
        twins.run(use, seed)
    assert twins.traces == 1, twins.reasons


def test_an_argument_whose_history_changes():
    """Sweeps inside go through what the argument was made of: they are not replayed."""
    weight = torch.ones(3, requires_grad=True)

    def function(h):
        h.sum().backward(retain_graph=True)

    compiled = torch.compile(function)
    for call in range(8):
        grads = []
        for each in (function, compiled):
            weight.grad = None
            each(weight * (2 if call < 5 else 3))
            grads.append(weight.grad)
        assert same(*grads)
    assert torch.compiler.explain(compiled).traces == []


def test_an_argument_that_gets_another_history():
    def function(h):
        h.mul_(2)

    compiled = torch.compile(function)
    for _ in range(5):
        grads = []
        for each in (function, compiled):
            x = torch.ones(3, requires_grad=True)
            h = x * 2
            each(h)
            (h * h.detach()).sum().backward()
            grads.append(x.grad)
        assert same(*grads)


def test_parts_of_a_model_that_are_compiled_one_by_one():
    def make():
        model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(3)))
        return model

    twins = Twins(make)
    parts = [torch.compile(part) for part in twins.model]
    twins.compiled = lambda x: parts[2](parts[1](parts[0](x)))
    for seed in range(6):
        twins.run(lambda call, model: call(torch.randn(2, 4)).square().sum().backward(), seed)
        for model in (twins.eager, twins.model):
            model.zero_grad()
    assert [len(torch.compiler.explain(part).traces) for part in parts] == [1, 1, 1]


def test_an_op_without_a_derivative_runs_eagerly():
    compiled = torch.compile(lambda x: x.relu().unique())
    x = torch.randn(30, requires_grad=True)
    for _ in range(4):
        assert compiled(x).grad_fn.name() == x.relu().unique().grad_fn.name()
    assert "the derivative for 'unique'" in str(torch.compiler.explain(compiled))


def test_small_calls_stay_eager(monkeypatch):
    from tapegrad.compiler import _differentiable

    monkeypatch.setattr(_differentiable, "LEAST_BYTES", 1 << 20)
    compiled = torch.compile(lambda x: x.exp() * 2)
    for numel in (10, 1 << 18):
        for _ in range(4):
            x = torch.ones(numel, requires_grad=True)
            compiled(x).sum().backward()
            assert same(x.grad, x.detach().exp() * 2)
    told = torch.compiler.explain(compiled)
    assert len(told.traces) == 1 and "compile the whole step" in str(told)


@each_op("test_differentiated", having=lambda op: op.gradient_order >= 1)
def test_differentiated(op):
    run = op.function()

    def function(args, kwargs):
        answer = results(run(*args, **kwargs))
        return [y.sin() for y in answer if isinstance(y, torch.Tensor) and y.requires_grad]

    for sample in gradient_samples(op)[:3]:
        compiled = torch.compile(function)
        for seed in range(4):
            found = []
            for each in (function, compiled):
                torch.manual_seed(seed)
                leaves, rebuild = leaves_of(sample)
                outputs = each(*rebuild(leaves))
                if outputs:
                    sum((y.sum() for y in outputs[1:]), outputs[0].sum()).backward()
                found.append([leaf.grad for leaf in leaves])
            assert same(*found), f"{op.name}{sample}"
