"""Modules of PyTorch's database: the same constructors, state, results and gradients."""

import itertools
import warnings

import pytest
from library import IS_TORCH, pytorch_for_parity, torch

if IS_TORCH or pytorch_for_parity()[0] is None:
    pytest.skip(pytorch_for_parity()[1] or "nothing to compare", allow_module_level=True)

from parity.compare import Refused, Rule, attempt, difference, flat, is_tensor
from parity.pytorch_ops import module_infos, pytorch
from parity.rows import cotangents
from parity.samples import copied, spread
from parity.translate import MissingName, here
from tapegrad.compat import coverage

INPUTS = 3  # of a module, training or not
LEAST = 100
# Lazy modules become those of their other names with the first call, and have no state before.
ROWS = sorted(name for name in module_infos() if "Lazy" not in name)
# Modules whose results are drawn.
DRAWN = ("Dropout", "RReLU", "FractionalMaxPool", "Transformer", "MultiheadAttention")


def is_drawn(name):
    return any(word in name for word in DRAWN)


def inputs_of(info, dtype, training):
    """Return the inputs that a module's row has: arguments of the constructor and of the call."""
    pytorch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=True, training=training
        )
    return spread(list(itertools.islice(made, 50)), INPUTS)


def made_alike(info, sample, dtype, training):
    """Return the module of both libraries, with the same state."""
    args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
    theirs = info.module_cls(*args, **kwargs).to(dtype).train(training)
    path = f"{info.module_cls.__module__}.{info.module_cls.__name__}"
    try:
        kind = coverage.find(f"torch.nn.{info.module_cls.__name__}")
    except LookupError:
        raise MissingName(path) from None
    mine = kind(*here(args), **here(kwargs)).to(getattr(torch, str(dtype).split(".")[1]))
    mine.train(training)
    state = {name: here(value.detach()) for name, value in theirs.state_dict().items()}
    assert list(mine.state_dict()) == list(state), "the names of the state differ"
    mine.load_state_dict(state)
    return mine, theirs


def outcome(module, args, kwargs, library):
    """Return results, buffers and gradients of a call."""
    answer = attempt(lambda: module(*args, **kwargs))
    if isinstance(answer, Refused):
        return answer, answer, answer
    results = [y for y in flat(answer) if is_tensor(y) and y.requires_grad]
    leaves = [x for x in flat((args, kwargs)) if is_tensor(x) and x.requires_grad]
    leaves += list(module.parameters())
    grads = ()
    if results and leaves:
        weights = cotangents(results, library)
        grads = attempt(lambda: library.autograd.grad(results, leaves, weights, allow_unused=True))
    return answer, list(module.buffers()), grads


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", (True, False))
@pytest.mark.parametrize("name", ROWS)
def test_module(name, training):
    info = module_infos()[name]
    dtype = pytorch.float64
    for sample in inputs_of(info, dtype, training):
        try:
            mine, theirs = made_alike(info, sample, dtype, training)
            args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
            ours = outcome(mine, here(args), here(kwargs), torch)
        except MissingName as error:
            pytest.skip(f"not there: {error}")
        expected = outcome(theirs, copied(args), copied(kwargs), pytorch)
        rule = Rule(values=not is_drawn(name), strides=False, factor=10, spread=1)
        for part, a, b in zip(("results", "buffers", "gradients"), ours, expected, strict=True):
            found = difference(a, b, rule)
            assert not found, f"{name} {sample.desc}: {part}: {found}"


def test_modules_are_many():
    there = [name for name in module_infos() if coverage.is_there(f"torch.{name}")]
    assert len(there) >= LEAST
