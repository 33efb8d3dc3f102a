"""Comparing results and checking gradients, with NumPy and the plainest part of the public API.

The gradient check works along random directions. For ``y = f(x)``, a direction ``v`` and a
cotangent ``u``, the sweep's ``<grad(u), v>`` must equal the central difference of ``<u, f(x + h
v)>`` in ``h``. One comparison of two numbers sees every entry of the Jacobian at once, at the
price of two calls of f.
"""

import dtypes as dt
import numpy as np
from library import torch
from op_db.row import Unspecified, Value, lift, lift_value, results, walk


def to_numpy(tensor):
    """Return a copy of a tensor's values as an array; bfloat16 comes back as float32.

    Cloned, because a gradient may be a symbolic zero that has no memory to show.
    """
    tensor = tensor.detach().clone()
    if dt.name_of(tensor.dtype) == "bfloat16":
        tensor = tensor.float()
    return tensor.numpy(force=True)


def assert_close(actual, wanted, bounds=(0.0, 0.0), context=""):
    """Check an array: wanted shape, same NaNs, within ``(relative, absolute)`` of wanted values."""
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert actual.shape == wanted.shape, f"shape {actual.shape}, wanted {wanted.shape} {context}"
    if actual.dtype.kind != "f" and wanted.dtype.kind != "f":
        wrong = actual != wanted
    else:
        actual, wanted = actual.astype(np.float64), wanted.astype(np.float64)
        relative, absolute = bounds
        with np.errstate(invalid="ignore", over="ignore"):
            allowed = relative * np.abs(wanted) + absolute
            near = np.abs(actual - wanted) <= allowed
        same = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
        wrong = ~(same | (near & np.isfinite(wanted)))
    if np.any(wrong):
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} elements differ {context}; the first at {where}: "
            f"got {actual[where]!r}, wanted {wanted[where]!r}"
        )


def assert_result(result, wanted, tolerance, context=""):
    """Check one result tensor against a reference value computed in float64 or in integers."""
    if isinstance(wanted, Unspecified):
        assert tuple(result.shape) == wanted.shape, f"shape {tuple(result.shape)} {context}"
        return
    dtype = dt.name_of(result.dtype)
    assert_close(to_numpy(result), dt.cast(wanted, dtype), tolerance.bounds(dtype), context)


def leaves_of(sample, layout="contiguous"):
    """Lift a sample so that its differentiable tensors are leaves of a graph.

    Returns the leaves, and a function from a list of tensors in their place to the call's
    arguments.
    """
    leaves = []

    def collect(leaf):
        if isinstance(leaf, Value) and leaf.differentiable and dt.is_float(leaf.dtype):
            leaves.append(lift_value(leaf, layout=layout).detach().requires_grad_())

    walk((sample.args, sample.kwargs), collect)

    def rebuild(tensors):
        remaining = iter(tensors)

        def visit(leaf):
            if not isinstance(leaf, Value):
                return lift(leaf)
            if leaf.differentiable and dt.is_float(leaf.dtype):
                return next(remaining)
            return lift_value(leaf)

        return walk((sample.args, sample.kwargs), visit)

    return leaves, rebuild


def differentiable_results(answer):
    return [result for result in results(answer) if dt.is_float(dt.name_of(result.dtype))]


def as_function(op, sample):
    """Return the leaves of a sample and the op as a function from leaves to floating results."""
    leaves, rebuild = leaves_of(sample)
    function = op.function()

    def evaluate(*tensors):
        args, kwargs = rebuild(tensors)
        return differentiable_results(function(*args, **kwargs))

    return leaves, evaluate


def random_like(tensors, random):
    """Return float64 tensors of the same shapes, on the same devices, with normal entries."""
    arrays = (np.asarray(random.standard_normal(tuple(t.shape))) for t in tensors)
    return [torch.from_numpy(a).to(t.device) for a, t in zip(arrays, tensors, strict=True)]


def inner(tensors, others):
    """Return the sum of the inner products of two lists of tensors, as a float."""
    return float(
        sum(np.sum(to_numpy(a) * to_numpy(b)) for a, b in zip(tensors, others, strict=True))
    )


def shifted(leaves, directions, step):
    with torch.no_grad():
        moved = [
            leaf + direction * step for leaf, direction in zip(leaves, directions, strict=True)
        ]
    return [leaf.detach().requires_grad_() for leaf in moved]


def difference(evaluate, leaves, directions, cotangents, step=1e-3):
    """Return d/dh <cotangents, f(leaves + h directions)> at 0, by central differences.

    Richardson's combination of steps h and h/2 cancels the error of order h^2, so that a step large
    enough to escape rounding is still exact to about 1e-9.
    """

    def slope(h):
        ahead = inner(evaluate(*shifted(leaves, directions, h)), cotangents)
        behind = inner(evaluate(*shifted(leaves, directions, -h)), cotangents)
        return (ahead - behind) / (2 * h)

    return (4 * slope(step / 2) - slope(step)) / 3


def gradients(outputs, leaves, cotangents, *, create_graph=False):
    """Return the gradients by the leaves; a leaf that the outputs do not depend on has zeros."""
    pairs = [(y, u) for y, u in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(
        [y for y, _ in pairs],
        leaves,
        [u for _, u in pairs],
        create_graph=create_graph,
        allow_unused=True,
    )
    for leaf, grad in zip(leaves, found, strict=True):
        if grad is not None:
            assert tuple(grad.shape) == tuple(leaf.shape), "a gradient has its leaf's shape"
            assert grad.dtype == leaf.dtype, "a gradient has its leaf's dtype"
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, found, strict=True)
    ]


def check_gradient(evaluate, leaves, random, *, directions=2, tolerance=1e-6, context=""):
    """Check the gradient of ``evaluate`` at ``leaves`` along random directions, in float64."""
    outputs = evaluate(*leaves)
    for _ in range(directions):
        cotangents = random_like(outputs, random)
        along = random_like(leaves, random)
        swept = inner(gradients(evaluate(*leaves), leaves, cotangents), along)
        measured = difference(evaluate, leaves, along, cotangents)
        allowed = tolerance * (1 + abs(measured))
        assert abs(swept - measured) <= allowed, (
            f"gradient along a direction: the sweep gives {swept!r}, "
            f"finite differences give {measured!r} {context}"
        )


def check_second_gradient(evaluate, leaves, random, *, context=""):
    """Check the gradient of the gradient: of ``(x, u) -> grad of <u, f(x)>``, by both x and u."""
    cotangents = [u.requires_grad_() for u in random_like(evaluate(*leaves), random)]

    def first_gradient(*tensors):
        inputs, weights = tensors[: len(leaves)], tensors[len(leaves) :]
        outputs = evaluate(*inputs)
        return gradients(outputs, list(inputs), list(weights), create_graph=True)

    check_gradient(
        first_gradient, leaves + cotangents, random, directions=1, tolerance=1e-5, context=context
    )
