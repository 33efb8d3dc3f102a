"""Every distribution beside PyTorch's: names, shapes, values and gradients."""

import inspect
import warnings

import numpy as np
import pytest
from library import pytorch_for_parity, torch

from distributions.families import BATCHES, COUNT, IDS, families

pytorch, REASON = pytorch_for_parity()
if pytorch is None:
    pytest.skip(REASON, allow_module_level=True)

d = torch.distributions

# Where PyTorch computes in float32 what is asked for in float64, or by a short polynomial.
TOLERANCE = {"Multinomial": 1e-6, "VonMises": 1e-6, "InverseGamma": 1e-6}


def outcome(function):
    """Return a result, or the exception."""
    try:
        return function()
    except Exception as error:
        return error


def assert_same(ours, theirs, context, tolerance=1e-8):
    """Check that results, or exceptions and their texts, are the same."""
    if str(theirs) == "Double did not match Float":
        return  # PyTorch's own mistake: GeneralizedPareto takes no float64; SciPy is the judge here
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"{context}: {ours!r}, in PyTorch {theirs!r}"
        if "<class" not in str(theirs):
            assert str(ours) == str(theirs), context
        return
    if isinstance(ours, Exception):
        raise ours
    if not isinstance(theirs, pytorch.Tensor):
        assert repr(ours) == repr(theirs), context
        return
    assert tuple(ours.shape) == tuple(theirs.shape), context
    assert str(ours.dtype) == str(theirs.dtype), context
    np.testing.assert_allclose(
        ours.detach().numpy(),
        theirs.detach().numpy(),
        rtol=tolerance,
        atol=tolerance,
        err_msg=context,
    )


def pair(index, batches, grad=False):
    """Return a distribution of both libraries with their parameters."""
    made = []
    for library in (torch, pytorch):
        name, arguments = families(library, *batches)[index]
        if grad:
            for key, value in arguments.items():
                if isinstance(value, library.Tensor) and key != "total_count":
                    arguments[key] = value.requires_grad_()
        made.append((getattr(library.distributions, name)(**arguments), arguments))
    return name, *made


def ours_of(theirs):
    return torch.tensor(theirs.detach().numpy().copy())


def drawn(distribution, shape=()):
    """Draw a value that is given to both libraries, off the ends of the support."""
    pytorch.manual_seed(3)
    with warnings.catch_warnings():  # PyTorch takes every Wishart sample for a singular one
        warnings.simplefilter("ignore")
        return distribution.sample(shape)


@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("index", range(COUNT), ids=IDS)
def test_facts(index, batches):
    _, (ours, _), (theirs, _) = pair(index, batches)
    assert repr(ours) == repr(theirs)
    names = ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support")
    for name in names:
        assert_same(getattr(ours, name), getattr(theirs, name), name)
    assert ours.arg_constraints.keys() == theirs.arg_constraints.keys()
    if not hasattr(theirs.support, "upper_bound"):
        assert repr(ours.support) == repr(theirs.support)
    for expand in (True, False):
        results = [outcome(lambda x=x, e=expand: x.enumerate_support(e)) for x in (ours, theirs)]
        assert_same(*results, "enumerate_support")


@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("index", range(COUNT), ids=IDS)
def test_values(index, batches):
    name, (ours, _), (theirs, _) = pair(index, batches)
    tolerance = TOLERANCE.get(name, 1e-8)
    wide = (5, *theirs.batch_shape)
    for mine, other in ((ours, theirs), (ours.expand(wide), theirs.expand(wide))):
        if name == "Multinomial" and other is not theirs:
            other = pytorch.distributions.Multinomial(4, probs=other.probs)
        for fact in ("mean", "mode", "variance", "stddev", "batch_shape", "event_shape"):
            if (name, fact) == ("Kumaraswamy", "mode"):
                continue  # not a number in PyTorch, also where there is one
            results = [outcome(lambda x=x, fact=fact: getattr(x, fact)) for x in (mine, other)]
            assert_same(*results, f"{name} {fact}", tolerance)
        for method in ("entropy", "perplexity"):
            results = [outcome(getattr(x, method)) for x in (mine, other)]
            assert_same(*results, f"{name} {method}", tolerance)
        for shape in ((), (2,)):
            value = drawn(other, shape)
            sample = mine.sample(shape)
            assert (tuple(sample.shape), str(sample.dtype)) == (
                tuple(value.shape),
                str(value.dtype),
            )
            assert mine.support.check(sample).all()
            level = 0.05 + 0.9 * pytorch.rand(value.shape, dtype=pytorch.float64)
            for method, argument in (("log_prob", value), ("cdf", value), ("icdf", level)):
                results = [
                    outcome(lambda: getattr(mine, method)(ours_of(argument))),  # noqa: B023
                    outcome(lambda: getattr(other, method)(argument)),  # noqa: B023
                ]
                assert_same(*results, f"{name} {method}", tolerance)


@pytest.mark.parametrize("batches", BATCHES[1:3], ids=str)
@pytest.mark.parametrize("index", range(COUNT), ids=IDS)
@pytest.mark.parametrize("fact", ["log_prob", "cdf", "entropy", "mean", "variance"])
def test_gradients(index, batches, fact):
    name, (ours, our_arguments), (theirs, their_arguments) = pair(index, batches, grad=True)
    value = drawn(theirs)
    own_value = ours_of(value)
    if not theirs.support.is_discrete and name not in ("LKJCholesky", "Wishart"):
        value.requires_grad_()
        own_value.requires_grad_()

    def result(distribution, value):
        if fact in ("log_prob", "cdf"):
            return getattr(distribution, fact)(value)
        found = getattr(distribution, fact)
        return found() if fact == "entropy" else found

    def gradients(library, distribution, arguments, value):
        inputs = [
            each
            for each in (*arguments.values(), value)
            if isinstance(each, library.Tensor) and each.requires_grad
        ]
        y = result(distribution, value)
        # what was worked out when the distribution was made is shared
        found = library.autograd.grad(y.sum(), inputs, allow_unused=True, retain_graph=True)
        return [
            library.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)
        ]

    expected = outcome(lambda: gradients(pytorch, theirs, their_arguments, value))
    if isinstance(expected, Exception):
        return
    found = gradients(torch, ours, our_arguments, own_value)
    for mine, other in zip(found, expected, strict=True):
        if name == "Wishart" and "scale_tril" in our_arguments and mine.dim() > 1:
            mine, other = mine.tril(), other.tril()  # what is above the diagonal is not read
        assert_same(mine, other, f"{name} {fact}", max(TOLERANCE.get(name, 0), 1e-6))


# ---- names


def classes():
    return [n for n in pytorch.distributions.__all__ if inspect.isclass(getattr(d, n, None))]


def test_all_names_are_there():
    assert set(d.__all__) == set(pytorch.distributions.__all__)
    for module in ("constraints", "transforms", "utils", "constraint_registry", "kl"):
        theirs = getattr(pytorch.distributions, module)
        ours = getattr(d, module)
        assert set(theirs.__all__) == set(ours.__all__), module
        assert all(hasattr(ours, name) for name in theirs.__all__)
    modules = [n for n, m in vars(pytorch.distributions).items() if inspect.ismodule(m)]
    assert all(inspect.ismodule(getattr(d, name)) for name in modules)


@pytest.mark.parametrize("name", classes())
def test_signatures(name):
    ours, theirs = getattr(d, name), getattr(pytorch.distributions, name)
    assert [b.__name__ for b in ours.__mro__ if not b.__name__.startswith("_")] == [
        b.__name__ for b in theirs.__mro__ if b.__name__ != "Generic"
    ]
    for method, function in vars(theirs).items():
        if method.startswith("_") and method != "__init__":
            continue
        if inspect.isfunction(function):
            expected = inspect.signature(function).parameters.values()
            found = inspect.signature(getattr(ours, method)).parameters.values()
            names = [(p.name, p.kind, p.default == p.empty) for p in expected]
            assert [(p.name, p.kind, p.default == p.empty) for p in found] == names, method
        else:
            assert hasattr(ours, method), method


def test_divergences_are_there():
    theirs = pytorch.distributions.kl._KL_REGISTRY
    ours = d.kl._KL_REGISTRY
    named = [{(p.__name__, q.__name__) for p, q in pairs} for pairs in (ours, theirs)]
    assert named[0] == named[1]


def test_registries():
    for name in ("biject_to", "transform_to"):
        ours, theirs = getattr(d, name), getattr(pytorch.distributions, name)
        assert {c.__name__ for c in ours._registry} == {c.__name__ for c in theirs._registry}
