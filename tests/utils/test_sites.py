"""Where an op was called, and its name."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("tapegrad's own", allow_module_level=True)

from tapegrad.autograd.graph import saved_tensors_hooks
from tapegrad.utils._sites import here


def sites(function):
    """Return the sites of the ops in a function, once for each value that they save."""
    found = []

    def pack(tensor):
        found.append(here(1))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(torch.rand(3, 3, requires_grad=True))
    return found


def in_place(x):
    y = x * 1
    y *= x
    return y


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: x.exp().sin().cos(), ["exp", "sin", "cos"]),
        (lambda x: (x * x) / x, ["mul", "mul", "div", "div"]),
        (lambda x: x @ x, ["mm", "mm"]),
        (lambda x: torch.exp(-(x**2)), ["pow", "exp"]),
        (in_place, ["mul", "mul", "mul"]),
        (lambda x: x[torch.tensor([0, 1])], ["index"]),
        (lambda x: torch.matmul(*[x, x]), ["mm", "mm"]),
        (lambda x: torch.nn.functional.gelu(x), ["gelu"]),
        (lambda x: torch.nn.Linear(3, 3)(x), ["addmm"]),
        (lambda x: torch.nn.LayerNorm(3)(x), ["native_layer_norm"]),
        (lambda x: Own.apply(x), ["own"]),
    ],
)
def test_ops_are_named(function, names):
    assert list(dict.fromkeys(site.op for site in sites(function))) == list(dict.fromkeys(names))


def test_lines_are_those_outside_of_the_library():
    layer = torch.nn.Linear(3, 3)

    def function(x):
        x = x.exp()
        return layer(x)

    first = function.__code__.co_firstlineno
    texts = [str(site) for site in sites(function)]
    assert texts[0] == f"exp at {__file__}:{first + 1} in function"
    assert texts[1] == f"addmm at {__file__}:{first + 2} in function"


def test_without_source():
    names = {}
    exec("def function(x):\n  return x.tanh().sin()", names)
    assert [site.op for site in sites(names["function"])] == ["tanh", "sin"]
