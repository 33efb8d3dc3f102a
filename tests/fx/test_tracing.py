"""What can be traced, what cannot, and what the errors say."""

import collections
import math
import threading

import pytest
from library import IS_TORCH, torch

from fx.programs import take_length

nn = torch.nn
functional = torch.nn.functional
fx = torch.fx
fx.wrap("len")
fx.wrap("marked")

Pair = collections.namedtuple("Pair", "first second")
CONTROL = "symbolically traced variables cannot be used as inputs to control flow"
ITERATED = "Proxy object cannot be iterated"


def marked(x, n=1):
    return x * 2 if n == 1 and x.sum() > 0 else x


def ops(graph):
    return [node.op for node in graph.nodes]


def names(graph):
    return [node.name for node in graph.nodes]


def loop(x):
    return sum(i for i in x)


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: x if x.sum() > 0 else -x, "TraceError", CONTROL),
        (lambda x: x and 1, "TraceError", CONTROL),
        (lambda x: not x, "TraceError", CONTROL),
        (lambda x: 1 in x, "TraceError", ITERATED),
        (lambda x: x in [1], "TraceError", CONTROL),
        (loop, "TraceError", ITERATED),
        (lambda x: list(x), "TraceError", ITERATED),
        (lambda x: dict(**x), "TraceError", ITERATED),
        (lambda x: int(x), TypeError, "int"),
        (lambda x: float(x), TypeError, "float"),
        (lambda x: range(x), TypeError, "integer"),
        (lambda x: x + (lambda: 1), NotImplementedError, "argument of type: <class 'function'>"),
        (lambda x: ({1}, x), NotImplementedError, "argument of type: <class 'set'>"),
        (lambda x: {x: 1}, RuntimeError, "cannot contain a Node. Got key: x"),
        (lambda x: nn.Linear(1, 1)(x), NameError, "module is not installed as a submodule"),
        (lambda x: x * nn.Parameter(torch.ones(1)), NameError, "parameter is not a member"),
    ],
)
def test_what_cannot_be_traced(function, error, words):
    kind = fx.proxy.TraceError if error == "TraceError" else error
    with pytest.raises(kind, match=words):
        fx.symbolic_trace(function)
    assert torch.ones(2)[0] == 1 and functional.dropout(torch.ones(2), 0.0).sum() == 2
    assert nn.Linear(2, 1)(torch.ones(2)).shape == (1,)


def test_len_of_a_proxy_says_how():
    proxy = fx.Proxy(fx.Graph().placeholder("x"))
    with pytest.raises(RuntimeError, match=r"please call torch\.fx\.wrap\('len'\)"):
        proxy.__len__()


def test_unpacking_takes_parts():
    def function(x):
        (a, b), *_ = x.chunk(2), 1
        return a - b

    assert torch.equal(fx.symbolic_trace(function)(torch.tensor([1.0, 4.0])), torch.tensor([-3.0]))


def test_marked_functions_are_one_node():
    def function(x):
        return marked(x, n=1) + len(x)

    traced = fx.symbolic_trace(function)
    assert names(traced.graph) == ["x", "marked", "len_1", "add", "output"]
    assert 'torch.fx._symbolic_trace.wrap("len")' in traced.code
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(traced(x), x * 2 + 2)
    assert len(x) == 2 and marked(x).sum() == 6  # they are as they were
    again = fx.symbolic_trace(traced)  # the code marks its functions itself
    assert names(again.graph) == names(traced.graph) and torch.equal(again(x), traced(x))


def test_wrap_refuses():
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level"):
        fx.wrap("sum")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


def test_functions_and_modules_that_a_tracer_takes_as_one():
    class Own(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return module_qualified_name == "0"

    inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    graph = Own().trace(nn.Sequential(inner, nn.Sequential(nn.ReLU())))
    assert ops(graph) == ["placeholder", "call_module", "call_function", "output"]

    def function(x):
        return take_length(x) + math.sqrt(4.0)

    graph = fx.Tracer(autowrap_functions=(take_length,)).trace(function)
    assert names(graph) == ["x", "take_length", "add", "output"]


def test_math_of_sizes_is_recorded():
    def function(x):
        return x / math.sqrt(x.shape[-1])

    traced = fx.symbolic_trace(function)
    assert "math_sqrt" in traced.code
    assert torch.equal(traced(torch.ones(4)), torch.full((4,), 0.5))
    assert math.sqrt(9) == 3


def test_values_of_arguments():
    def function(x, flag, weights=None):
        y = x + 1 if flag else x - 1
        return y if weights is None else y * weights["a"] + weights["b"]

    x = torch.tensor([1.0, 2.0])
    traced = fx.symbolic_trace(function, concrete_args={"flag": True, "weights": None})
    assert torch.equal(traced(x, True), x + 1)
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(x, False)
    with pytest.raises(AssertionError, match="weights has been specialized to have value None"):
        traced(x, True, 3)
    if not IS_TORCH:  # whose code of it is no Python with a default in the middle
        given = {"flag": False, "weights": {"a": fx.PH, "b": 3.0}}
        traced = fx.symbolic_trace(function, concrete_args=given)
        assert torch.equal(traced(x, False, {"a": 2.0}), (x - 1) * 2 + 3)


def test_all_kinds_of_parameters():
    def function(x, y=2.0, *args, z, **kwargs):
        return x + y + args[0] + z + kwargs["w"]

    graph = fx.Tracer().trace(function)
    targets = [node.target for node in graph.nodes if node.op == "placeholder"]
    assert targets == ["x", "y", "z", "*args", "**kwargs"]


def test_constants_parameters_and_tuples_with_names():
    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.constant = torch.tensor([1.0, 2.0])

        def forward(self, x):
            return Pair(x + self.constant, x * torch.tensor(3.0))

    traced = fx.symbolic_trace(Program())
    result = traced(torch.ones(2))
    assert type(result) is Pair and result.first.tolist() == [2, 3]
    assert [n.target for n in traced.graph.nodes if n.op == "get_attr"] == [
        "constant",
        "_tensor_constant0",
    ]


def test_tensors_indexed_by_values_and_written_to():
    table = torch.arange(3.0)

    def function(i):
        return table[i] + 1

    traced = fx.symbolic_trace(function)
    assert [node.target for node in traced.graph.nodes if node.op == "call_method"] == [
        "__getitem__"
    ]
    assert traced(torch.tensor([2, 0])).tolist() == [3, 1]

    def writes(x):
        x.add_(1)
        torch.relu_(x)
        return x * 2

    x = torch.tensor([-3.0, 1.0])
    assert fx.symbolic_trace(writes)(x).tolist() == [0, 4] and x.tolist() == [0, 2]


def test_sizes_of_parameters_may_be_numbers():
    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            if self.weight.shape[0] == 2 and self.weight.ndim == 2:
                return x + self.weight.size()[1]
            return x

    graph = fx.Tracer(param_shapes_constant=True).trace(Program())
    assert names(graph) == ["x", "weight", "add", "output"]


def test_proxies_are_made_by_subclasses():
    class Noting(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
            proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr)
            proxy.node.meta["noted"] = True
            return proxy

    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * self.weight

    graph = Noting().trace(Program())
    assert [node.meta.get("noted") for node in graph.nodes] == [True, True, True, None]


def test_several_tracers_do_not_mix():
    one, other = (fx.Proxy(fx.Graph().placeholder("x")) for _ in range(2))
    with pytest.raises(RuntimeError, match="Found multiple different tracers"):
        torch.add(one, other)


def test_proxies_outside_of_a_tracer():
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = functional.dropout(functional.layer_norm(x, (2,)), 0.5, training=False)
    graph.output((y + 1).node)
    traced = fx.GraphModule(nn.Module(), graph)
    value = torch.tensor([[1.0, 3.0]])
    assert torch.equal(traced(value), functional.layer_norm(value, (2,)) + 1)
    assert names(graph) == ["x", "layer_norm", "dropout", "add", "output"]


def test_a_traced_module_traces_inside_another():
    inner = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    whole = nn.Sequential(inner, nn.Linear(2, 1))
    traced = fx.symbolic_trace(whole)
    x = torch.randn(3, 2)
    assert torch.equal(traced(x), whole(x))
    assert [n.target for n in traced.graph.nodes if n.op == "call_module"] == ["0.0", "0.1", "1"]


def test_other_threads_compute_while_one_traces():
    inside, done = threading.Event(), threading.Event()
    linear = nn.Linear(2, 2)
    results = []

    def compute():
        inside.wait(10)
        results.append(functional.dropout(linear(torch.ones(1, 2)), 0.0)[0])
        done.set()

    def slow(x):
        inside.set()
        assert done.wait(10)
        return functional.dropout(x, 0.0)

    thread = threading.Thread(target=compute)
    thread.start()
    if IS_TORCH:  # where other threads see a tracer's modules
        inside.set()
        thread.join()
    traced = fx.symbolic_trace(slow)
    thread.join()
    assert names(traced.graph) == ["x", "dropout", "output"]
    assert torch.equal(results[0], linear(torch.ones(2)))


@pytest.mark.skipif(IS_TORCH, reason="the package's own")
def test_nothing_is_left_in_other_places():
    from importlib import import_module

    interception = import_module(f"{fx.__name__}._interception").INTERCEPTION
    before = (nn.Module.__call__, nn.Module.__getattr__, torch.Tensor.__getitem__)
    code = functional.dropout.__code__

    def function(x):
        assert functional.dropout.__code__ is not code and interception.is_on
        return functional.dropout(x)

    fx.symbolic_trace(function)
    assert not interception.is_on and functional.dropout.__code__ is code
    assert before == (nn.Module.__call__, nn.Module.__getattr__, torch.Tensor.__getitem__)


def test_lists_of_tensors_and_functions_of_other_namespaces():
    def function(x):
        y = torch.cat(x.chunk(2), dim=0) + torch.stack(torch.split(x, 1)).sum(0)
        return torch.special.i1(y) + torch.special.ndtr(x) * torch.linalg.vector_norm(x)

    traced = fx.symbolic_trace(function)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.allclose(traced(x), function(x))
    assert "torch.cat(chunk, dim = 0)" in traced.code
    assert torch.cat([x, x]).shape == (4, 2)  # it is as it was


def test_is_tracing():
    seen = []

    def function(x):
        seen.append(fx._symbolic_trace.is_fx_tracing())
        return x

    fx.symbolic_trace(function)
    assert seen == [True] and not fx._symbolic_trace.is_fx_tracing()
