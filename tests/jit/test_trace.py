"""torch.jit.trace and its relatives: values, warnings, errors, what is frozen and what is not."""

import warnings

import pytest
from library import IS_TORCH, torch

from .models import NAMES, Net, case

if IS_TORCH:
    pytest.skip("PyTorch compiles; its own tests cover it", allow_module_level=True)

nn = torch.nn


def flat(result):
    from tapegrad.utils._pytree import tree_flatten

    return tree_flatten(result)[0]


def agree(found, expected):
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        assert torch.allclose(x, y, 1e-5, 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_traced_module_gives_what_the_module_gives(name):
    model, example = case(name)
    traced = torch.jit.trace(model, example, strict=False)
    with torch.no_grad():
        agree(traced(*example), model(*example))


@pytest.mark.parametrize("name", NAMES)
def test_a_traced_module_has_the_gradients_of_the_module(name):
    model, example = case(name)
    traced = torch.jit.trace(model, example, strict=False)
    grads = []
    for each in (traced, model):
        model.zero_grad()
        floats = [x for x in flat(each(*example)) if x.requires_grad]
        if floats:
            sum(x.square().sum() for x in floats).backward()
        grads.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
    for x, y in zip(*grads, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert torch.equal(x, y)


def test_no_python_runs_where_the_trace_holds():
    calls = []

    def f(x):
        calls.append(x.shape)
        return x * 2

    traced = torch.jit.trace(f, torch.ones(2))
    before = len(calls)
    assert torch.equal(traced(torch.full((2,), 3.0)), torch.full((2,), 6.0))
    assert len(calls) == before
    assert traced(torch.ones(5)).shape == (5,)
    assert len(calls) == before + 1
    traced(torch.zeros(5))
    assert len(calls) == before + 1


def test_training_after_the_trace_is_seen():
    model = nn.Linear(3, 1)
    traced = torch.jit.trace(model, torch.ones(2, 3))
    optimizer = torch.optim.SGD(traced.parameters(), lr=0.1)
    traced(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert torch.equal(traced(torch.ones(2, 3)), model(torch.ones(2, 3)))


def test_modes_are_those_of_the_trace():
    model = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    expected = model(x).detach()
    traced = torch.jit.trace(model, x)
    model.train()
    assert torch.equal(traced(x).detach(), expected)  # the function, for gradients
    with torch.no_grad():
        assert torch.equal(traced(x), expected)
    traced.train()
    with torch.no_grad():
        assert torch.equal(traced(x), expected)
    assert all(each.training for each in model.modules())


def test_tracing_changes_neither_state_nor_random_numbers():
    model = Net()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, torch.randn(2, 3, 8, 8))
    torch.set_rng_state(state)
    for name, each in model.state_dict().items():
        assert torch.equal(each, before[name])
    with torch.no_grad():
        traced(torch.randn(2, 3, 8, 8))
    assert model.norm.num_batches_tracked == 1


def test_dropout_draws_anew():
    with pytest.warns(torch.jit.TracerWarning, match="nondeterministic nodes"):
        traced = torch.jit.trace(nn.Dropout(0.5), torch.ones(64))
    x = torch.ones(64)
    with torch.no_grad():
        torch.manual_seed(3)
        found = [traced(x), traced(x)]
        torch.manual_seed(3)
        expected = [nn.functional.dropout(x), nn.functional.dropout(x)]
    assert not torch.equal(found[0], found[1])
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def test_looks_at_values_warn_and_are_followed():
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.warns(torch.jit.TracerWarning, match=r"Python boolean .* looks at what gt gave"):
        traced = torch.jit.trace(f, torch.ones(2))
    assert torch.equal(traced(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(traced(-torch.ones(2)), torch.full((2,), -2.0))
    with pytest.warns(torch.jit.TracerWarning, match="Python number"):
        torch.jit.trace(lambda x: x * x.sum().item(), torch.ones(2))


def test_a_function_that_does_something_else_is_refused():
    calls = []

    def f(x):
        calls.append(1)
        return x + 1 if len(calls) % 2 else x * 2

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"):
        torch.jit.trace(f, torch.ones(2))
    calls.clear()
    traced = torch.jit.trace(f, torch.ones(2), check_trace=False)
    assert torch.equal(traced(torch.zeros(2)), torch.ones(2))


def test_a_first_call_may_do_more():
    table = {}

    def f(x):
        if x.shape[-1] not in table:
            table[x.shape[-1]] = torch.arange(x.shape[-1], dtype=torch.float32) ** 2
        return x + table[x.shape[-1]]

    traced = torch.jit.trace(f, torch.zeros(2, 3))
    assert torch.equal(traced(torch.zeros(2, 3))[0], torch.tensor([0.0, 1.0, 4.0]))


def test_check_inputs_are_compared():
    def f(x):
        return x + 1 if float(x[0]) > 0 else x * 3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(f, torch.ones(2), check_inputs=[(-torch.ones(2),)])
    assert torch.equal(traced(-torch.ones(2)), torch.full((2,), -3.0))


@pytest.mark.parametrize(
    ("function", "has_example", "error", "text"),
    [
        (lambda x: {"a": x + 1}, True, RuntimeError, "Encountering a dict at the output"),
        (lambda x: None, True, RuntimeError, "didn't return any values"),
        (lambda x: 3, True, RuntimeError, "Only tensors, lists, tuples"),
        (lambda x: (x, 3), True, RuntimeError, "Only tensors, lists, tuples"),
        (lambda x: x, False, RuntimeError, "example_kwarg_inputs should be a dict"),
        (nn.Identity()._get_name, True, AttributeError, "Please use trace_module"),
        ("x", True, RuntimeError, "expected a module or a function, got str"),
    ],
)
def test_what_is_refused(function, has_example, error, text):
    with pytest.raises(error, match=text):
        torch.jit.trace(function, torch.ones(2) if has_example else None)


def test_arguments_that_are_no_tensors_are_refused():
    with pytest.raises(RuntimeError, match=r"'Tuple.Tensor, int.' cannot be traced"):
        torch.jit.trace(lambda x, n: x, (torch.ones(2), 3))


def test_constants_that_require_grad_are_refused():
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad"):
        torch.jit.trace(lambda x: x * weight, torch.ones(3))


def test_a_list_as_result_warns():
    with pytest.warns(torch.jit.TracerWarning, match="Encountering a list at the output"):
        traced = torch.jit.trace(lambda x: [x, x + 1], torch.ones(2))
    assert isinstance(traced(torch.ones(2)), list)


def test_calls_that_do_not_fit():
    traced = torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3))
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'input'"):
        traced()
    with pytest.raises(RuntimeError, match="expected at most 1"):
        traced(torch.ones(1, 3), torch.ones(1, 3))
    with pytest.raises(RuntimeError, match="unexpected argument 'other'"):
        traced(torch.ones(1, 3), other=1)
    with pytest.raises(RuntimeError, match="expected tensors"):
        traced(3)
    with pytest.raises(RuntimeError, match="nested as in the trace"):
        traced([torch.ones(1, 3)])
    assert traced(input=torch.ones(4, 3)).shape == (4, 2)


def test_arguments_by_keyword_and_methods():
    class Two(nn.Module):
        def forward(self, x, y=None):
            return x if y is None else x - y

        def twice(self, x):
            return x * 2

    two = Two()
    x, y = torch.ones(2), torch.zeros(2)
    traced = torch.jit.trace(two, example_kwarg_inputs={"y": y, "x": x})
    assert torch.equal(traced(x=x, y=y), x)
    assert torch.equal(torch.jit.trace(two.forward, (x,))(y), y)
    traced = torch.jit.trace_module(two, {"forward": (x, y), "twice": x})
    assert torch.equal(traced.twice(x), x + x)
    assert torch.equal(traced(x, y), x)


def test_arguments_that_are_written_and_strides():
    def f(x, y):
        x.add_(1)
        return x * y

    traced = torch.jit.trace(f, (torch.zeros(2, 3), torch.ones(2, 3)))
    for _ in range(2):
        x = torch.zeros(3, 2).t()
        assert torch.equal(traced(x, torch.full((2, 3), 2.0)), torch.full((2, 3), 2.0))
        assert torch.equal(x, torch.ones(2, 3))


def test_results_of_a_file_that_would_be_arguments_are_copies(tmp_path):
    class Same(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.ones(2))

        def forward(self, x):
            return x, x[0], self.b, torch.zeros(2)

    same = Same()
    x = torch.ones(2, 2)
    torch.jit.trace(same, x).save(tmp_path / "same.tg")
    found = torch.jit.load(tmp_path / "same.tg")(x)
    agree(found, same(x))
    found[0].zero_()
    assert torch.equal(x, torch.ones(2, 2))


def test_inside_of_other_transforms():
    model = nn.Linear(3, 2).requires_grad_(False)
    x = torch.randn(4, 3)
    traced = torch.jit.trace(model, x)
    with torch.no_grad():
        expected = model(x)
        agree(torch.vmap(traced)(x), expected)
        compiled = torch.compile(lambda x: traced(x) * 2)
        for _ in range(3):
            agree(compiled(x), expected * 2)
        again = torch.jit.trace(lambda x: traced(x) * 2, x.clone())
        agree(again(x), expected * 2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert traced(x).dtype is torch.bfloat16
    _, tangent = torch.func.jvp(lambda x: traced(x), (x,), (torch.ones_like(x),))
    agree(tangent, (torch.ones_like(x) @ model.weight.t()).detach())


def test_traced_modules_are_modules():
    model = Net().eval()
    traced = torch.jit.trace(model, torch.randn(1, 3, 8, 8))
    assert isinstance(traced, torch.jit.ScriptModule)
    assert isinstance(traced, nn.Module)
    assert not isinstance(model, torch.jit.ScriptModule)
    assert list(traced.state_dict()) == list(model.state_dict())
    assert traced.conv.weight is model.conv.weight
    assert traced.original_name == "Net"
    assert "conv" in traced.code
    with pytest.warns(UserWarning, match="already a ScriptModule"):
        assert torch.jit.trace(traced, torch.randn(1, 3, 8, 8)) is traced
    import copy
    import pickle

    with pytest.raises(RuntimeError, match="cannot be pickled"):
        pickle.dumps(traced)
    copied = copy.deepcopy(traced)
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        model.head.weight.zero_()
        assert not torch.equal(copied(x), traced(x))


def test_frozen_modules_stay_what_they_are():
    model = nn.Linear(3, 2)
    traced = torch.jit.trace(model, torch.ones(1, 3))
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(traced)
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        torch.jit.freeze(model)
    frozen = torch.jit.optimize_for_inference(torch.jit.freeze(traced.eval()))
    x = torch.randn(5, 3)
    expected = model(x).detach()
    with torch.no_grad():
        model.weight.zero_()
    assert list(frozen.parameters()) == []
    found = frozen(x)
    assert torch.equal(found, expected)
    assert not found.requires_grad


def test_script_leaves_functions_as_they_are():
    @torch.jit.script
    def swish(x, beta: float = 1.0):
        if torch.jit.is_scripting():
            return x
        return x * torch.sigmoid(beta * x)

    x = torch.randn(4, requires_grad=True)
    agree(swish(x), x * torch.sigmoid(x))
    assert isinstance(swish, torch.jit.ScriptFunction)
    assert not isinstance(len, torch.jit.ScriptFunction)
    assert swish.__name__ == "swish"
    compiled = torch.compile(lambda x: swish(x))
    with torch.no_grad():
        for _ in range(3):
            agree(compiled(x), swish(x))
    with pytest.raises(RuntimeError, match=r"use torch\.jit.trace"):
        swish.save("nowhere")
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert isinstance(scripted, torch.jit.ScriptModule)
    assert list(scripted.state_dict()) == ["0.weight", "0.bias"]
    assert len(scripted) == 2
    assert scripted.eval()[0].training is False
    with pytest.raises(RuntimeError, match=r"use torch\.jit.trace"):
        scripted.save("nowhere")


def test_marks_leave_what_they_mark():
    class Model(nn.Module):
        width: torch.jit.Final[int]

        @torch.jit.ignore
        def one(self):
            return 1

        @torch.jit.unused
        def two(self):
            return 2

        @torch.jit.export
        def three(self):
            return 3

        @torch.jit.ignore(drop=True)
        def four(self):
            return 4

    model = Model()
    assert [model.one(), model.two(), model.three(), model.four()] == [1, 2, 3, 4]
    assert torch.jit.annotate(list, None) is None
    assert torch.jit.wait(torch.jit.fork(lambda x: x + 1, 1)) == 2
    seen = []
    torch.jit.trace(lambda x: (seen.append(torch.jit.is_tracing()), x + 1)[1], torch.ones(1))
    assert seen[:2] == [True, True]
    assert seen[2:] == [False]  # the run that it is compared with
    assert not torch.jit.is_tracing()
    assert torch.jit.isinstance({"a": [1]}, dict[str, list[int]])
    assert not torch.jit.isinstance({"a": ["b"]}, dict[str, list[int]])
    assert torch.jit.isinstance((1, "a"), tuple[int, str])
    assert torch.jit.isinstance(None, int | None)


def test_marks_of_the_compiler():
    import tapegrad._dynamo.config as config

    def f(x):
        return x

    assert torch._dynamo.allow_in_graph(f) is f
    assert torch.compiler.allow_in_graph(f) is f
    torch._dynamo.mark_static_address(torch.ones(1))
    torch._dynamo.mark_dynamic(torch.ones(1), 0)
    config.cache_size_limit = 64
    assert torch._dynamo.config.cache_size_limit == 64
    assert isinstance(torch.compile(nn.Linear(1, 1)), torch._dynamo.OptimizedModule)


def test_results_of_ops_that_return_several():
    traced = torch.jit.trace(lambda x: (x.topk(2, 1), x.max()), torch.randn(2, 5))
    x = torch.randn(2, 5)
    (values, places), largest = traced(x)
    assert torch.equal(values, x.topk(2, 1).values)
    assert torch.equal(places, x.topk(2, 1).indices)
    assert torch.equal(largest, x.max())


# What real programs do: (name, function of the library, shape of x). Checked with PyTorch as well.
def activation(library):
    @library.jit.script
    def swish(x):
        return x * library.sigmoid(x)

    return swish


def beside_pytorch(function):
    from library import pytorch_for_parity

    pytorch, reason = pytorch_for_parity()
    if pytorch is None:
        pytest.skip(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(torch), function(pytorch)


def messages(library, function, *example, **arguments):
    """Return (type of error or None, categories of warnings) of a trace."""
    example = tuple(library.ones(*shape) for shape in example)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            library.jit.trace(function, example, **arguments)
            error = None
        except Exception as raised:
            error = type(raised).__name__
    tracer = [each for each in caught if each.category is library.jit.TracerWarning]
    return error, bool(tracer)


PROGRAMS = {
    "plain": lambda t: lambda x: x + 1,
    "if": lambda t: lambda x: x if x.sum() > 0 else -x,
    "item": lambda t: lambda x: x * x.sum().item(),
    "float": lambda t: lambda x: x * float(x[0, 0]),
    "dict": lambda t: lambda x: {"a": x + 1},
    "nested dict": lambda t: lambda x: (x, {"a": x + 1}),
    "list": lambda t: lambda x: [x + 1],
    "nested list": lambda t: lambda x: (x + 1, (x + 2, [x])),
    "none": lambda t: lambda x: None,
    "number": lambda t: lambda x: 3,
    "random": lambda t: lambda x: t.nn.functional.dropout(x),
    "linear": lambda t: t.nn.Linear(3, 2),
    "dropout": lambda t: t.nn.Dropout(),
}
# Sizes are values of PyTorch's graph, and so cause warnings there; here a file says which may vary.
SIZES = {
    "size": lambda t: lambda x: x * int(x.shape[0]),
    "rows": lambda t: lambda x: t.stack(list(x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_and_warnings_are_pytorchs(name):
    ours, theirs = beside_pytorch(lambda t: messages(t, PROGRAMS[name](t), (2, 3)))
    assert ours == theirs


@pytest.mark.parametrize("name", SIZES)
def test_sizes_cause_no_warnings(name):
    ours, theirs = beside_pytorch(lambda t: messages(t, SIZES[name](t), (2, 3)))
    assert ours == (None, False)
    assert theirs == (None, True)


def test_scripted_activations_beside_pytorch():
    ours, theirs = beside_pytorch(
        lambda t: [
            activation(t)(t.ones(2)).tolist(),
            isinstance(activation(t), t.jit.ScriptFunction),
            t.jit.is_scripting(),
            t.jit.is_tracing(),
            isinstance(t.jit.script(t.nn.Linear(1, 1)), t.jit.ScriptModule),
            t.jit.isinstance([1], list[int]),
            t.jit.annotate(int, 3),
        ]
    )
    assert ours[0] == pytest.approx(theirs[0])
    assert ours[1:] == theirs[1:]


class Shows(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(2, 2))

    def forward(self, x):
        self.seen.add_(x[0])
        return x, x[1:], x.t(), self.weight, self.seen[0], x * self.weight


@pytest.mark.parametrize("layout", ["dense", "part", "transposed"])
def test_results_that_show_what_was_there_do_so(layout):
    found = []
    for trace in (False, True):
        model = Shows()
        function = torch.jit.trace(model, torch.ones(3, 2), check_trace=False) if trace else model
        model.seen.zero_()
        for _ in range(3):
            memory = torch.arange(12.0).reshape(6, 2)
            x = {"dense": memory[:3].clone(), "part": memory[2:5], "transposed": memory.view(2, 6)}
            x = x[layout] if layout != "transposed" else x[layout][:, :3].t()
            with torch.no_grad():
                results = function(x)
                assert results[0] is x and results[3] is model.weight
                results[1].mul_(10)
                results[2][0, 0] = -1
                results[4].add_(5)
            found.append([memory, x, model.seen, *results[:3], *results[4:]])
            found[-1] = [each.clone() for each in found[-1]]
    for expected, got in zip(found[:3], found[3:], strict=True):
        assert all(torch.equal(one, other) for one, other in zip(expected, got, strict=True))


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.scale = 2.0

    def forward(self, x):
        return self.norm(self.layer(x)) * self.scale


def test_state_of_python_that_changes_after_the_trace(tmp_path):
    model, x = Scales(), torch.randn(3, 2)
    traced = torch.jit.trace(model, x, check_trace=False)
    expected = model.eval()(x).detach()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    traced(x).sum().backward()
    optimizer.step()
    traced.eval()
    traced(torch.ones(4, 2))
    traced.double()
    traced(x.double())
    traced.float()
    traced.save(tmp_path / "model.tg")
    traced = torch.jit.trace(model.eval(), x)
    model.norm.reset_running_stats()
    model.scale = 3.0
    with torch.no_grad():
        assert torch.allclose(traced(x), expected, atol=1e-4)
    with pytest.warns(torch.jit.TracerWarning, match=r"attributes of Scales .*trace it again"):
        traced(x)
    traced(x)
    scale = 2.0
    traced = torch.jit.trace(lambda x: x * scale, x)
    scale = 3.0
    with pytest.warns(torch.jit.TracerWarning, match="the variable scale of "):
        traced.save(tmp_path / "model.tg")


def test_functions_that_change_what_they_read_are_not_warned_of():
    calls = []
    traced = torch.jit.trace(lambda x: (calls.append(1), x * 2)[1], torch.ones(2))
    for size in (2, 3, 4):
        assert traced(torch.ones(size)).tolist() == [2.0] * size
