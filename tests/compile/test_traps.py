"""Everything that a compiled function could miss: each trap gives what the eager function gives."""

import pytest
from library import IS_TORCH, torch

from compile.pairs import Pair, batch, make_training, no_grad, step_of

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

nn, functional = torch.nn, torch.nn.functional
SCALE = 2.0
FLAGS = {"double": False}
HELPERS = []


# ---- state of modules


def test_eval_and_train():
    def make():
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 2))
        return torch.no_grad()(lambda x: model(x)), {"model": model}

    pair = Pair(make)
    for i in range(14):
        pair.call(torch.randn(3, 4))
        if i in (4, 9):
            pair.both(lambda world, i=i: world["model"].train(i == 9))
    assert pair.traces == 2


def test_dropout_draws_what_eager_draws():
    def make():
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return step_of(model, optimizer), {"model": model}

    pair = Pair(make)
    for i in range(8):
        if i == 6:
            torch.manual_seed(77)
        pair.call(*batch())
    assert pair.traces == 1


def replace_weight(world):
    world["model"].weight = nn.Parameter(torch.full((2, 4), 0.25))


@pytest.mark.parametrize(
    "change",
    [
        replace_weight,
        lambda world: world["model"].weight.data.fill_(0.5),
        lambda world: setattr(world["model"].weight, "data", torch.full((2, 4), 0.75)),
        lambda world: world["model"].weight.requires_grad_(False),
        lambda world: world["model"].bias.register_hook(lambda grad: grad * 3),
        lambda world: world["model"].register_forward_hook(lambda m, a, out: out * 2),
        lambda world: world["model"].register_forward_pre_hook(lambda m, a: (a[0] * 2,)),
        lambda world: world["model"].register_full_backward_hook(lambda m, i, o: None),
        lambda world: setattr(world["model"], "forward", lambda x: x[:, :2] * world["model"].bias),
        lambda world: world["model"].load_state_dict(
            {"weight": torch.ones(2, 4), "bias": torch.ones(2)}
        ),
        lambda world: world["model"].load_state_dict(
            {"weight": torch.ones(2, 4), "bias": torch.ones(2)}, assign=True
        ),
        lambda world: setattr(world["model"], "bias", None),
        lambda world: nn.utils.parametrizations.weight_norm(world["model"]),
        lambda world: world["model"].double().float(),
        lambda world: world["model"].zero_grad(),
        lambda world: setattr(world["model"].weight, "grad", torch.ones(2, 4)),
    ],
    ids=lambda change: "_".join(change.__code__.co_names),
)
def test_a_model_that_changes(change):
    def make():
        model = nn.Linear(4, 2)

        def step(x, y):
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        return step, {"model": model}

    pair = Pair(make)
    for i in range(9):
        pair.call(*batch())
        if i == 5:
            assert pair.traces >= 1
            pair.both(change)


def test_hooks_of_all_modules():
    pair = Pair(make_training())
    for i in range(8):
        if i == 6:
            handle = torch.nn.modules.module.register_module_forward_hook(
                lambda m, a, out: out * 0.5
            )
        pair.call(*batch())
    handle.remove()
    pair.call(*batch())


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.factor = 3.0
        self.sizes = [1, 2]

    def forward(self, x):
        for size in self.sizes:
            x = x + size
        return x * self.factor


def test_attributes_lists_and_buffers():
    def make():
        model = Counting()
        return torch.no_grad()(lambda x: model(x)), {"model": model}

    pair = Pair(make)
    for i in range(16):
        pair.call(torch.ones(2))
        if i == 3:
            pair.both(lambda world: setattr(world["model"], "factor", 5.0))
        if i == 7:
            pair.both(lambda world: world["model"].sizes.append(4))
        if i == 11:
            pair.both(lambda world: world["model"].sizes.__setitem__(0, 9))
    assert pair.traces == 4


def test_a_method_that_is_replaced(monkeypatch):
    def make():
        model = Counting()
        return torch.no_grad()(lambda x: model(x)), {"model": model}

    pair = Pair(make)
    for i in range(8):
        pair.call(torch.ones(2))
        if i == 4:
            monkeypatch.setattr(Counting, "forward", lambda self, x: x - 1)


def test_a_counter_in_the_function_runs_eagerly():
    def make():
        model = Counting()

        def function(x):
            model.calls += 1
            return x * model.calls

        return torch.no_grad()(function), {"calls": [model]}

    pair = Pair(make)
    models = [world.pop("calls")[0] for world in (pair.world, pair.other)]
    for i in range(15):
        pair.call(torch.ones(2))
        assert [model.calls for model in models] == [i + 1, i + 1]
    assert pair.traces == 0 and "changes" in pair.reasons


# ---- closures, globals, defaults


def test_a_global_number(monkeypatch):
    pair = Pair(no_grad(lambda x: x * SCALE))
    for i in range(8):
        pair.call(torch.ones(2))
        if i == 4:
            monkeypatch.setattr("compile.test_traps.SCALE", 7.0)
    assert pair.traces == 2


def test_a_global_dict_and_list():
    def function(x):
        for helper in HELPERS:
            x = helper(x)
        return x * 2 if FLAGS["double"] else x + 0

    pair = Pair(no_grad(function))
    for i in range(14):
        pair.call(torch.ones(2))
        if i == 4:
            FLAGS["double"] = True
        if i == 8:
            HELPERS.append(lambda x: x - 5)
    FLAGS["double"] = False
    HELPERS.clear()
    pair.call(torch.ones(2))
    assert pair.traces == 3


def test_a_closure_variable():
    def make():
        factor = 2.0

        def set_factor(value):
            nonlocal factor
            factor = value

        return torch.no_grad()(lambda x: x * factor), {"set": set_factor}

    pair = Pair(make)
    setters = [world.pop("set") for world in (pair.world, pair.other)]
    for i in range(8):
        pair.call(torch.ones(2))
        if i == 4:
            for setter in setters:
                setter(5.0)
    assert pair.traces == 2


def test_default_arguments_that_change():
    def make():
        def function(x, factor=2.0, *, shift=1.0):
            return x * factor + shift

        inner = function
        return torch.no_grad()(lambda x: inner(x)), {"inner": inner}

    pair = Pair(make)
    inners = [world.pop("inner") for world in (pair.world, pair.other)]
    for i in range(12):
        pair.call(torch.ones(2))
        for inner in inners:
            if i == 4:
                inner.__defaults__ = (9.0,)
            if i == 8:
                inner.__kwdefaults__ = {"shift": 4.0}
    assert pair.traces == 3


def test_code_that_is_replaced():
    def make():
        def inner(x):
            return x * 2

        return torch.no_grad()(lambda x: inner(x)), {"inner": inner}

    pair = Pair(make)
    inners = [world.pop("inner") for world in (pair.world, pair.other)]
    for i in range(8):
        pair.call(torch.ones(2))
        if i == 4:
            for inner in inners:
                inner.__code__ = (lambda x: x - 3).__code__


def test_a_tensor_of_the_closure_is_read_each_time():
    def make():
        weight = torch.ones(3)
        return torch.no_grad()(lambda x: x * weight), {"weight": weight}

    pair = Pair(make)
    for i in range(7):
        pair.call(torch.ones(3))
        pair.both(lambda world, i=i: world["weight"].fill_(float(i)))
    assert pair.traces == 1


# ---- modes


def test_grad_mode():
    pair = Pair(lambda: (lambda x: x * 2, {}))
    x = torch.ones(3, requires_grad=True)
    for i in range(10):
        with torch.set_grad_enabled(i % 2 == 0):
            pair.call(x)


def test_inference_mode():
    pair = Pair(lambda: (lambda x: x * 2, {}))
    for i in range(12):
        with torch.inference_mode(i % 2 == 0):
            expected = pair.call(torch.ones(3))[0]
            got = pair.compiled(torch.ones(3))
            assert got.is_inference() == expected.is_inference() == (i % 2 == 0)


def test_the_default_dtype():
    pair = Pair(no_grad(lambda x: x + torch.ones(3)))
    for i in range(8):
        torch.set_default_dtype(torch.float64 if i > 3 else torch.float32)
        try:
            pair.call(torch.ones(3, dtype=torch.float32))
        finally:
            torch.set_default_dtype(torch.float32)
    assert pair.traces == 2


def test_the_number_of_threads():
    pair = Pair(make_training())
    before = torch.get_num_threads()
    for i in range(8):
        torch.set_num_threads(1 + i % 2)
        pair.call(*batch())
    torch.set_num_threads(before)


def test_a_function_that_leaves_a_mode_changed():
    def function(x):
        torch.set_grad_enabled(False)
        return x * 2

    compiled = torch.compile(function)
    for _ in range(4):
        torch.set_grad_enabled(True)
        compiled(torch.ones(2))
        assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert "mode" in str(torch.compiler.explain(compiled))
    assert torch.compiler.explain(compiled).traces == []


# ---- arguments


def test_arguments_written_in_place():
    def function(x, y):
        x.mul_(2)
        y[1:].add_(x[1:])
        return y

    pair = Pair(no_grad(function))
    for i in range(6):
        pair.call(torch.full((3,), float(i)), torch.ones(3))
    assert pair.traces == 1
    x, y = torch.ones(3), torch.ones(3)
    version = x._version
    assert pair.compiled(x, y) is y, "the argument itself is returned"
    assert x._version > version


def test_a_write_is_seen_by_the_tape():
    def function(x):
        x.mul_(2)

    pair = Pair(no_grad(function))
    for _ in range(4):
        pair.call(torch.ones(3))
    weight = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    y = (weight * x).sum()
    pair.compiled(x)
    with pytest.raises(RuntimeError, match="compiled function"):
        y.backward()


def test_the_same_tensor_twice():
    def function(x, y):
        x.add_(1)
        return x * y

    pair = Pair(no_grad(function))
    for i in range(9):
        x, y = torch.ones(3), torch.ones(3)
        expected = pair.eager(x, x) if i % 2 else pair.eager(x, y)
        x, y = torch.ones(3), torch.ones(3)
        got = pair.compiled(x, x) if i % 2 else pair.compiled(x, y)
        assert torch.equal(expected, got)
    assert pair.traces == 2


def test_overlapping_arguments():
    def function(x, y):
        x.add_(1)
        return x * y

    compiled = torch.compile(torch.no_grad()(function))
    for i in range(12):
        results = []
        for each in (torch.no_grad()(function), compiled):
            memory = torch.arange(8.0)
            first, second = memory[0:4], memory[i % 3 : i % 3 + 4]
            if i % 4 == 0:
                second = torch.arange(4.0)
            results.append((each(first, second), memory))
        assert torch.equal(results[0][0], results[1][0])
        assert torch.equal(results[0][1], results[1][1])


def test_an_argument_that_is_a_parameter():
    def make():
        model = nn.Linear(3, 3, bias=False)

        def function(x):
            with torch.no_grad():
                model.weight.add_(1)
                return x * 2

        return function, {"model": model}

    pair = Pair(make)
    for i in range(8):
        results = []
        for function, world in ((pair.eager, pair.world), (pair.compiled, pair.other)):
            x = world["model"].weight if i > 4 else torch.ones(3, 3)
            results.append(function(x))
        assert torch.equal(*results)
        pair.check()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4, 3).t(),
        lambda: torch.ones(3, 8)[:, ::2],
        lambda: torch.ones(1, 4).expand(3, 4),
        lambda: torch.ones(()),
        lambda: torch.ones(0, 4),
        lambda: torch.ones(3, 4, dtype=torch.float64),
        lambda: torch.ones(3, 4, dtype=torch.bfloat16),
        lambda: torch.ones(3, 4, dtype=torch.int64),
        lambda: torch.ones(5, 4)[2:],
        lambda: torch.ones(3, 4, requires_grad=True),
    ],
)
def test_other_kinds_of_arguments(make):
    x = make()
    function = torch.no_grad()(lambda x: (x * 2 + 1, x.sum(), x.shape[0] if x.dim() else None))
    compiled = torch.compile(function)
    for each in (torch.ones(3, 4), x) * 4:
        expected, got = function(each), compiled(each)
        assert all(torch.equal(a, b) for a, b in zip(expected[:2], got[:2], strict=True))
        assert expected[2] == got[2] and expected[0].stride() == got[0].stride()
    assert len(torch.compiler.explain(compiled).traces) == 2


def test_slices_of_one_tensor_share_a_trace():
    data = torch.randn(20, 4)
    compiled = torch.compile(torch.no_grad()(lambda x: x.exp()))
    for i in range(10):
        assert torch.equal(compiled(data[2 * i : 2 * i + 2]), data[2 * i : 2 * i + 2].exp())
    assert len(torch.compiler.explain(compiled).traces) == 1


def test_keywords_numbers_and_containers():
    def function(x, factor=1.0, *, parts=None, name="a"):
        result = x * factor
        for key, part in (parts or {}).items():
            result = result + part * len(key)
        return {"result": result, "name": name, "parts": [result, factor]}

    pair = Pair(no_grad(function))
    one = torch.ones(2)
    for _ in range(4):
        pair.call(one)
        pair.call(one, 2.0)
        pair.call(one, factor=2.0)
        pair.call(one, 2)
        pair.call(one, parts={"b": one, "cc": one})
        pair.call(one, parts={"cc": one, "b": one})
        pair.call(x=one, name="b")
    assert pair.traces == 7


def test_a_list_argument_that_is_changed():
    def function(xs):
        xs.append(xs[0] * 2)
        return xs[0] + 1

    pair = Pair(no_grad(function))
    for _ in range(5):
        pair.call([torch.ones(2)])
    assert pair.traces == 0


def test_gradients_of_arguments():
    def function(x):
        y = (x * x + x.sin()).sum()
        y.backward()
        return y

    pair = Pair(lambda: (function, {}))
    for _ in range(5):
        x = torch.randn(3, requires_grad=True)
        state = pair.call(x)
        assert state[1][0][0].grad is not None
    assert pair.traces == 1
    x = torch.randn(3, requires_grad=True)
    x.grad = torch.ones(3)
    for _ in range(4):
        pair.call(x)
    assert pair.traces == 2


def test_gradients_that_are_returned():
    def function(x):
        (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(grad.sum(), x)
        return second

    pair = Pair(lambda: (function, {}))
    for _ in range(5):
        pair.call(torch.randn(3, requires_grad=True))
    assert pair.traces == 1


# ---- results


def test_views_containers_and_repeats():
    def function(x):
        y = x * 2
        return [y, y, (y.t(), y[0]), {"sum": y.sum()}, None, 3, "text", x]

    pair = Pair(no_grad(function))
    for _ in range(4):
        pair.call(torch.ones(2, 3))
    x = torch.ones(2, 3)
    result = pair.compiled(x)
    assert pair.traces == 1
    assert result[0] is result[1] and result[7] is x and result[2][0]._base is result[0]
    result[2][0].zero_()
    assert result[0].sum() == 0


def test_a_view_of_an_argument():
    pair = Pair(no_grad(lambda x: x.t()))
    for _ in range(4):
        pair.call(torch.ones(2, 3))
    x = torch.ones(2, 3)
    assert pair.compiled(x)._base is x


def test_parameters_and_modules_as_results():
    def make():
        model = nn.Linear(2, 2)
        return torch.no_grad()(lambda x: (model(x), model.weight, model)), {"model": model}

    torch.manual_seed(0)
    function, world = make()
    compiled = torch.compile(function)
    for _ in range(4):
        result = compiled(torch.ones(2))
        assert result[1] is world["model"].weight and result[2] is world["model"]
        assert torch.equal(result[0], function(torch.ones(2))[0])


# ---- what a trace cannot repeat


def test_print_runs_eagerly(capsys):
    def function(x):
        print("called")
        return x * 2

    compiled = torch.compile(function)
    for _ in range(5):
        compiled(torch.ones(2))
    assert capsys.readouterr().out == "called\n" * 5
    assert "print" in str(torch.compiler.explain(compiled))


def test_append_runs_eagerly():
    seen = []

    def function(x):
        seen.append(x.shape)
        return x * 2

    compiled = torch.compile(function)
    for _ in range(5):
        compiled(torch.ones(2))
    assert len(seen) == 5


def test_random_numbers_of_python_and_time():
    import random
    import time

    def function(x):
        return x * random.random()

    def timed(x):
        return x * time.perf_counter()

    for each in (function, timed):
        compiled = torch.compile(each)
        values = {compiled(torch.ones((), dtype=torch.float64)).item() for _ in range(6)}
        assert len(values) == 6
        assert torch.compiler.explain(compiled).traces == []


def test_an_iterator_of_the_closure():
    numbers = iter(range(100))
    compiled = torch.compile(lambda x: x * next(numbers))
    assert [compiled(torch.ones(())).item() for _ in range(6)] == [0, 1, 2, 3, 4, 5]


def test_a_generator_function():
    def function(x):
        yield x * 2

    compiled = torch.compile(function)
    for _ in range(4):
        assert [each.tolist() for each in compiled(torch.ones(1))] == [[2.0]]


def test_a_generator_of_its_own():
    generator = torch.Generator().manual_seed(0)
    compiled = torch.compile(lambda x: x + torch.rand(2, generator=generator))
    values = [tuple(compiled(torch.zeros(2)).tolist()) for _ in range(5)]
    assert len(set(values)) == 5


def test_a_function_that_seeds():
    def function(x):
        torch.manual_seed(3)
        return x + torch.rand(2)

    compiled = torch.compile(function)
    values = {tuple(compiled(torch.zeros(2)).tolist()) for _ in range(5)}
    assert len(values) == 1
    before = torch.initial_seed()
    assert before == 3


def test_a_tensor_kept_elsewhere():
    def make():
        class Cell:
            last = None

        def function(x):
            Cell.last = x * 2
            return x + 1

        return torch.no_grad()(function), {}

    pair = Pair(make)
    for _ in range(4):
        pair.call(torch.ones(2))
    assert pair.traces == 0


def test_exceptions_in_the_middle():
    def make():
        weight = torch.zeros(3)

        def function(x, fails):
            weight.add_(1)
            if fails:
                raise ValueError("in the middle")
            return x * weight

        return torch.no_grad()(function), {"weight": weight}

    pair = Pair(make)
    for i in range(9):
        pair.call(torch.ones(3), i in (1, 6))
    assert pair.traces == 1


def test_an_index_out_of_range_fails_as_eagerly():
    def make():
        model = nn.Embedding(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(i):
            optimizer.zero_grad()
            model(i).sum().backward()
            optimizer.step()

        return step, {"model": model}

    pair = Pair(make)
    for i in range(8):
        pair.call(torch.tensor([0, 9 if i == 5 else 1]))


def test_an_error_after_writes_leaves_what_the_function_would_leave():
    def make():
        weight = nn.Parameter(torch.ones(5))
        count = torch.zeros(5)

        def step(index):
            weight.grad = None
            mask = functional.dropout(torch.ones(5), 0.5)
            (weight * weight * mask * index[0]).sum().backward()
            count.add_(1)
            return count.index_select(0, index)

        return step, {"weight": weight, "count": count}

    pair = Pair(make)
    for last in (0, 1, 2, 3, 4, 10, 0, 1):
        pair.call(torch.tensor([2, 1, last]))
        versions = [world["count"]._version for world in (pair.world, pair.other)]
        assert versions[0] == versions[1]
    assert pair.traces == 1


def test_recursion():
    def function(x, n):
        return x if n == 0 else function(x * 2, n - 1)

    pair = Pair(no_grad(function))
    for _ in range(3):
        for n in (0, 2, 3):
            pair.call(torch.ones(2), n)


def test_compiled_functions_in_compiled_functions():
    inner = torch.compile(torch.no_grad()(lambda x: x * SCALE))

    def function(x):
        return inner(x) + inner(x + 1)

    pair = Pair(no_grad(function))
    for _ in range(5):
        pair.call(torch.ones(2))
    assert pair.traces == 1


def test_disabled_parts():
    @torch.compiler.disable
    def part(x):
        return x * 2

    compiled = torch.compile(lambda x: part(x) + 1)
    for _ in range(4):
        assert compiled(torch.ones(1)).item() == 3
    assert "disable" in str(torch.compiler.explain(compiled))


def test_an_object_that_leads_to_too_many_modules_runs_eagerly(monkeypatch):
    from tapegrad.compiler import _walk

    monkeypatch.setattr(_walk, "_MOST_NAMES", 2)

    class Holder:
        library = torch

        def double(self, x):
            return self.library.nn.functional.relu(x) + self.library.ones(2)

    holder = Holder()
    holder.held = torch
    compiled = torch.compile(torch.no_grad()(holder.double))
    for _ in range(4):
        assert compiled(torch.ones(2)).tolist() == [2, 2]
    explained = torch.compiler.explain(compiled)
    assert not explained.traces and "too many modules" in str(explained)
