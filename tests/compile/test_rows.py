"""Every row of the op database, compiled: values and gradients are the eager ones to the bit."""

import pytest
from cases import each_op, first_dtype
from checks import leaves_of
from library import IS_TORCH, torch
from op_db.row import lift, results
from op_db.sampler import draw
from test_op_gradients import gradient_samples

from compile.pairs import same

if IS_TORCH:
    pytest.skip("traces are tapegrad's own", allow_module_level=True)

from tapegrad.compiler.passes import tiles

CALLS = 4  # two are captured, two are replayed
_replayed = {"values": 0, "gradients": 0, "eager": 0}


@pytest.fixture(params=["whole", "tiles"], autouse=True)
def tile(request, monkeypatch):
    """Run calls as they are, or on tiles of a few elements, each of them by itself if need be."""
    if request.param == "tiles":
        monkeypatch.setattr(tiles, "_LEAST", 2)
        monkeypatch.setattr(tiles, "_TILE", 4)
        monkeypatch.setattr(tiles, "_FEWEST", 1)


def listed(answer):
    return [each for each in results(answer) if isinstance(each, torch.Tensor)]


@each_op("test_values", having=lambda op: not op.name.startswith("empty"))  # which has no values
def test_values(op):
    run = op.function()

    def function(args, kwargs):
        return listed(run(*args, **kwargs))

    for sample in draw(op, first_dtype(op)[0])[:6]:
        compiled = torch.compile(torch.no_grad()(function))
        eager = torch.no_grad()(function)
        for seed in range(CALLS):
            torch.manual_seed(seed)
            args, kwargs = lift((sample.args, sample.kwargs))
            expected = eager(args, kwargs), args, kwargs
            torch.manual_seed(seed)
            args, kwargs = lift((sample.args, sample.kwargs))
            found = compiled(args, kwargs), args, kwargs
            assert same(expected, found), f"{op.name}{sample}"
        count("values", compiled)


@each_op("test_gradients", having=lambda op: op.gradient_order >= 1)
def test_gradients(op):
    run = op.function()

    def function(args, kwargs):
        outputs = [y.sin() for y in listed(run(*args, **kwargs)) if y.requires_grad]
        if outputs:
            sum((y.sum() for y in outputs[1:]), outputs[0].sum()).backward()

    for sample in gradient_samples(op)[:4]:
        compiled = torch.compile(function)
        for seed in range(CALLS):
            found = []
            for each in (function, compiled):
                torch.manual_seed(seed)
                leaves, rebuild = leaves_of(sample)
                each(*rebuild(leaves))
                found.append([leaf.grad for leaf in leaves])
            assert same(*found), f"{op.name}{sample}"
        count("gradients", compiled)


def count(kind, compiled):
    told = torch.compiler.explain(compiled)
    _replayed[kind if told.traces else "eager"] += 1


def test_most_rows_are_replayed():
    """What runs eagerly are views of arguments and the like; run after the rows."""
    replayed = _replayed["values"] + _replayed["gradients"]
    if replayed:
        assert replayed > 3 * _replayed["eager"], _replayed
