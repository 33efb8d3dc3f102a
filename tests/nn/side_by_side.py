"""The same numbers in two libraries, and what came out of them compared."""

import warnings

import numpy as np


def numbers(*shape, seed=0, low=-2.0, high=2.0):
    """Return float64 numbers that are the same in every run."""
    return np.random.default_rng(seed + 17 * len(shape)).uniform(low, high, shape)


def tensor_of(library, value):
    """Turn an array into a tensor, one that requires grad if it is floating; leave the rest."""
    if not isinstance(value, np.ndarray):
        return value
    tensor = library.tensor(value.tolist(), dtype=getattr(library, str(value.dtype)))
    return tensor.requires_grad_() if value.dtype.kind == "f" else tensor


def array_of(value):
    """Turn a tensor into an array."""
    return None if value is None else np.array(value.detach().tolist())


def expect_near(actual, expected, what, tolerance=1e-9):
    """Fail where two tensors, of two libraries, differ in shape, dtype or, to rounding, value."""
    assert (actual is None) == (expected is None), f"{what}: {actual} beside {expected}"
    if actual is None:
        return
    assert tuple(actual.shape) == tuple(expected.shape), what
    assert str(actual.dtype) == str(expected.dtype), what
    np.testing.assert_allclose(
        array_of(actual), array_of(expected), rtol=tolerance, atol=tolerance, err_msg=what
    )


def run(function, library, args, kwargs):
    """Call a function and return its result and the gradients of all floating arguments."""
    tensors = [tensor_of(library, arg) for arg in args]
    named = {name: tensor_of(library, value) for name, value in kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*tensors, **named)
    leaves = [
        value
        for value in (*tensors, *named.values())
        if isinstance(value, library.Tensor) and value.requires_grad
    ]
    grads = []
    if result.requires_grad:
        cotangent = tensor_of(library, numbers(*result.shape, seed=5)).detach()
        grads = library.autograd.grad(result, leaves, cotangent, allow_unused=True)
    return result, grads


def expect_same(both, function_of, args, kwargs=None, tolerance=1e-9):
    """Compare what a function returns in two libraries, and its gradients."""
    ours, theirs = (run(function_of(library), library, args, kwargs or {}) for library in both)
    expect_near(ours[0], theirs[0], "result", tolerance)
    assert len(ours[1]) == len(theirs[1])
    for place, (own, their) in enumerate(zip(ours[1], theirs[1], strict=True)):
        expect_near(own, their, f"gradient {place}", tolerance)


def copy_state(source, target, library):
    """Load the state of one library's module into another's, through plain lists."""
    state = {
        name: library.tensor(value.tolist(), dtype=getattr(library, str(value.dtype).split(".")[1]))
        for name, value in source.state_dict().items()
    }
    assert str(target.load_state_dict(state)) == "<All keys matched successfully>"
