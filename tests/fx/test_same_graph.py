"""Graphs, code, results and gradients are those of PyTorch."""

import pytest
from library import IS_TORCH, import_pytorch, torch

from fx.programs import expressions, graph_as_text, layers, with_our_names

pytest.importorskip("torch")
peer = import_pytorch()
pytestmark = pytest.mark.skipif(IS_TORCH, reason="compares with PyTorch")

NAMES = (
    *("mlp", "residual", "attention", "recurrent", "tied"),
    *("attributes", "operators", "indexing", "methods", "functions", "images"),
)


def made_by(library, name):
    return {**layers(library), **expressions(library)}[name]


def leaves(value):
    if isinstance(value, dict):
        return [leaf for key in value for leaf in leaves(value[key])]
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def numbers(value):
    return value.detach().double().numpy() if hasattr(value, "detach") else value


def assert_same(actual, expected):
    ours, theirs = leaves(actual), leaves(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert type(numbers(a)) is type(numbers(b))
        if hasattr(b, "detach"):
            assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
            assert numbers(a) == pytest.approx(numbers(b), rel=1e-4, abs=1e-5)
        else:
            assert a == b


@pytest.fixture
def pair(request):
    """The same program in both libraries, with the same state and arguments."""
    (ours, our_args), (theirs, args) = (made_by(lib, request.param) for lib in (torch, peer))
    state = {name: torch.tensor(value.numpy()) for name, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    our_args = tuple(torch.tensor(arg.numpy()) for arg in args)
    return ours, our_args, theirs, args


@pytest.mark.parametrize("pair", NAMES, indirect=True)
def test_graph_results_and_gradients(pair):
    ours, our_args, theirs, args = pair
    mine, other = torch.fx.symbolic_trace(ours), peer.fx.symbolic_trace(theirs)
    assert graph_as_text(mine.graph) == graph_as_text(other.graph)
    assert len(mine.graph.nodes) == len(other.graph.nodes)
    mine.graph.lint()
    result, expected = mine(*our_args), other(*args)
    assert_same(result, expected)
    wanted = [
        sum(part.sum().double() for part in leaves(value) if _has_gradient(part))
        for value in (result, expected)
    ]
    if hasattr(wanted[1], "backward") and wanted[1].requires_grad:
        for total in wanted:
            total.backward()
        theirs_by_name = dict(other.named_parameters())
        assert {n for n, _ in mine.named_parameters()} == theirs_by_name.keys()
        for name, param in mine.named_parameters():
            if theirs_by_name[name].grad is None:
                assert param.grad is None
            else:
                assert_same(param.grad, theirs_by_name[name].grad)


def _has_gradient(value):
    return hasattr(value, "detach") and value.requires_grad


@pytest.mark.parametrize("pair", NAMES, indirect=True)
def test_code(pair):
    ours, _, theirs, _ = pair
    code = torch.fx.symbolic_trace(ours).code
    expected = peer.fx.symbolic_trace(theirs).code
    assert code == with_our_names(expected)


@pytest.mark.parametrize("pair", NAMES, indirect=True)
def test_interpreter_transformer_copies(pair):
    import copy
    import pickle

    ours, args, _, _ = pair
    traced = torch.fx.symbolic_trace(ours)
    expected = traced(*args)
    assert_same(torch.fx.Interpreter(traced).run(*args), expected)
    again = torch.fx.Transformer(traced).transform()
    assert graph_as_text(again.graph) == graph_as_text(traced.graph)
    assert_same(again(*args), expected)
    for other in (copy.deepcopy(traced), copy.copy(traced), pickle.loads(pickle.dumps(traced))):
        assert other.code == traced.code
        assert_same(other(*args), expected)
        assert other.state_dict().keys() == traced.state_dict().keys()
    deep = copy.deepcopy(traced)
    for param in deep.parameters():
        param.data.zero_()
    assert_same(traced(*args), expected)
