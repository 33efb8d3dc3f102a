"""Operations composed in Python: values against NumPy, gradients, errors, and their docstrings."""

import doctest
import importlib
import inspect
import math
import pkgutil
import random

import numpy as np
import pytest
from checks import assert_close, to_numpy
from library import IS_TORCH, torch

BOUNDS = (1e-10, 1e-10)
NAN = math.nan


def values(*shape, seed=0):
    """Return an array of reproducible normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def integers(*shape, seed=0, high=4):
    return np.random.default_rng(seed).integers(-high, high, shape)


def lift(argument):
    """Turn the arrays of an argument into tensors."""
    if isinstance(argument, np.ndarray):
        return torch.from_numpy(argument.copy())
    if isinstance(argument, list) and any(isinstance(item, np.ndarray) for item in argument):
        return [lift(item) for item in argument]
    return argument


def flat(result):
    """Return the arrays of a result, which may be a tensor or nested sequences of them."""
    if isinstance(result, (tuple, list)):
        return [array for item in result for array in flat(item)]
    return [to_numpy(result)] if torch.is_tensor(result) else [np.asarray(result)]


def holes(*shape):
    """Return an array with some nan."""
    array = values(*shape)
    array[values(*shape, seed=1) > 0.8] = NAN
    return array


WITH_HOLES = holes(4, 5)
A, B, C = values(3, 4), values(3, 4, seed=1), values(2, 3, 4, seed=2)
V, W = values(5), values(4, seed=3)


def flat_histogram(points, bins):
    counts, edges = np.histogramdd(points, bins)
    return [counts, *edges]


# name, arguments, keyword arguments, wanted value
CASES = [
    ("atleast_1d", (np.array(2.0),), {}, np.array([2.0])),
    ("atleast_2d", (V,), {}, V[None]),
    ("atleast_3d", (V,), {}, V[None, :, None]),
    ("atleast_3d", (A,), {}, A[:, :, None]),
    ("atleast_2d", ([V, A],), {}, [V[None], A]),
    ("broadcast_shapes", ((2, 1), 3, (1, 3)), {}, [2, 3]),
    ("broadcast_tensors", (A, W), {}, [A, np.broadcast_to(W, (3, 4))]),
    ("meshgrid", (V, W), {"indexing": "ij"}, np.meshgrid(V, W, indexing="ij")),
    ("meshgrid", (V, W, V), {"indexing": "xy"}, np.meshgrid(V, W, V, indexing="xy")),
    ("cartesian_prod", (V, W), {}, np.array([[v, w] for v in V for w in W])),
    ("combinations", (W,), {"r": 3}, W[[[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]]),
    (
        "combinations",
        (W[:2],),
        {"with_replacement": True},
        W[[[0, 0], [0, 1], [1, 1]]],
    ),
    ("combinations", (W[:2],), {"r": 3}, np.empty((0, 3))),
    ("ravel", (A.T,), {}, A.T.ravel()),
    ("swapaxes", (C, 0, -1), {}, C.swapaxes(0, -1)),
    ("swapdims", (C, 0, 1), {}, C.swapaxes(0, 1)),
    ("moveaxis", (C, 0, -1), {}, np.moveaxis(C, 0, -1)),
    ("unflatten", (A, 1, (2, -1)), {}, A.reshape(3, 2, 2)),
    *[("rot90", (C, k, (0, 2)), {}, np.rot90(C, k, (0, 2))) for k in range(-2, 5)],
    ("fliplr", (A,), {}, np.fliplr(A)),
    ("flipud", (A,), {}, np.flipud(A)),
    ("hstack", ([V, W],), {}, np.hstack([V, W])),
    ("hstack", ([A, B],), {}, np.hstack([A, B])),
    ("vstack", ([A, W],), {}, np.vstack([A, W])),
    ("row_stack", ([W, W],), {}, np.vstack([W, W])),
    ("dstack", ([A, B],), {}, np.dstack([A, B])),
    ("column_stack", ([W, B.T],), {}, np.column_stack([W, B.T])),
    ("concat", ([A, B], 1), {}, np.concatenate([A, B], 1)),
    ("hsplit", (A, 2), {}, np.hsplit(A, 2)),
    ("hsplit", (V, (1, 3)), {}, np.hsplit(V, (1, 3))),
    ("vsplit", (A, 3), {}, np.vsplit(A, 3)),
    ("dsplit", (C, (1, 2)), {}, np.dsplit(C, (1, 2))),
    *[
        ("tensor_split", (V, where), {}, np.array_split(V, where))
        for where in (1, 3, 7, (1, 3), (-2,), (9,), (3, 1))
    ],
    ("block_diag", (A, W), {}, np.block([[A, np.zeros((3, 4))], [np.zeros((1, 4)), W[None]]])),
    ("kron", (A, B), {}, np.kron(A, B)),
    ("kron", (V, A), {}, np.kron(V, A)),
    ("tensordot", (C, C, 3), {}, np.tensordot(C, C, 3)),
    ("tensordot", (C, A), {"dims": ([1, 2], [0, 1])}, np.tensordot(C, A, ([1, 2], [0, 1]))),
    ("tensordot", (A, V, 0), {}, np.tensordot(A, V, 0)),
    ("inner", (A, C), {}, np.inner(A, C)),
    ("cross", (A.T[:, :3], B.T[:, :3]), {"dim": 1}, np.cross(A.T[:, :3], B.T[:, :3])),
    ("cross", (A, B), {"dim": 0}, np.cross(A, B, axis=0)),
    ("vander", (V,), {}, np.vander(V)),
    ("vander", (integers(3), 5, True), {}, np.vander(integers(3), 5, True)),
    ("vander", (V, 0), {}, np.empty((5, 0))),
    ("chain_matmul", (A, B.T, A, W[:, None]), {}, A @ B.T @ A @ W[:, None]),
    ("addmv", (V[:3], A, W), {"beta": 0.5, "alpha": 2}, 0.5 * V[:3] + 2 * A @ W),
    ("addmv", (np.full(3, NAN), A, W), {"beta": 0}, A @ W),
    ("addr", (np.outer(V, W), V, W), {"alpha": 3}, 4 * np.outer(V, W)),
    ("addbmm", (A[:, :3], C, C.swapaxes(1, 2)), {}, A[:, :3] + (C @ C.swapaxes(1, 2)).sum(0)),
    ("trace", (A,), {}, np.trace(A)),
    *[("diagonal", (C, k, 2, 0), {}, np.diagonal(C, k, 2, 0)) for k in (-5, -1, 0, 1, 5)],
    *[("diag_embed", (V, k), {}, np.diag(V, k)) for k in (-2, 0, 3)],
    ("diag_embed", (np.array([math.inf, 1.0]),), {}, np.diag([math.inf, 1.0])),
    ("diagflat", (A, 1), {}, np.diag(A.ravel(), 1)),
    *[("diff", (A, n, dim), {}, np.diff(A, n, dim)) for n in (0, 1, 3) for dim in (0, 1)],
    ("diff", (V,), {"prepend": W, "append": W}, np.diff(V, prepend=W, append=W)),
    ("diff", (V > 0,), {}, np.diff(V > 0)),
    ("trapezoid", (A,), {}, (A[:, 1:] + A[:, :-1]).sum(1) / 2),
    ("trapz", (A,), {"dx": 0.5, "dim": 0}, (A[1:] + A[:-1]).sum(0) / 4),
    ("trapezoid", (A, W), {}, ((A[:, 1:] + A[:, :-1]) * np.diff(W)).sum(1) / 2),
    ("cumulative_trapezoid", (A, W), {}, ((A[:, 1:] + A[:, :-1]) * np.diff(W)).cumsum(1) / 2),
    ("cov", (A,), {}, np.cov(A)),
    ("cov", (V,), {"correction": 0}, np.cov(V, ddof=0)),
    ("cov", (A,), {"fweights": np.arange(4)}, np.cov(A, fweights=np.arange(4))),
    (
        "cov",
        (A,),
        {"aweights": np.abs(W), "fweights": np.arange(4)},
        np.cov(A, aweights=np.abs(W), fweights=np.arange(4)),
    ),
    ("corrcoef", (A,), {}, np.corrcoef(A)),
    ("nansum", (WITH_HOLES,), {}, np.nansum(WITH_HOLES)),
    ("nansum", (WITH_HOLES, 1, True), {}, np.nansum(WITH_HOLES, 1, keepdims=True)),
    ("nanmean", (WITH_HOLES, 0), {}, np.nanmean(WITH_HOLES, 0)),
    ("median", (V,), {}, np.median(V)),
    ("median", (np.array([1.0, 4.0, 2.0, 3.0]),), {}, 2.0),
    ("median", (np.array([1.0, NAN]),), {}, NAN),
    ("nanmedian", (WITH_HOLES,), {}, np.sort(WITH_HOLES.ravel())[:17][8]),
    ("quantile", (A, 0.3), {}, np.quantile(A, 0.3)),
    ("quantile", (A, np.array([0.1, 0.5]), 1), {}, np.quantile(A, [0.1, 0.5], axis=1)),
    *[
        (
            "quantile",
            (A, 0.6, 0, True),
            {"interpolation": way},
            np.quantile(A, 0.6, 0, method=way, keepdims=True),
        )
        for way in ("linear", "lower", "higher", "midpoint", "nearest")
    ],
    ("nanquantile", (WITH_HOLES, 0.4, 0), {}, np.nanquantile(WITH_HOLES, 0.4, 0)),
    ("kthvalue", (A, 2, 0), {}, [np.sort(A, 0)[1], np.argsort(A, 0)[1]]),
    ("std_mean", (A, 1), {"correction": 0}, [A.std(1), A.mean(1)]),
    ("aminmax", (A,), {"dim": 0}, [A.min(0), A.max(0)]),
    ("aminmax", (A,), {}, [A.min(), A.max()]),
    ("bucketize", (A, np.sort(V)), {}, np.searchsorted(np.sort(V), A)),
    ("bucketize", (A, np.sort(V)), {"right": True}, np.searchsorted(np.sort(V), A, "right")),
    ("histc", (A, 5, -1, 1), {}, np.histogram(A, 5, (-1, 1))[0].astype(float)),
    ("histc", (A, 6), {}, np.histogram(A, 6)[0].astype(float)),
    ("dist", (A, B, 3), {}, np.linalg.norm((A - B).ravel(), 3)),
    *[
        (
            "cdist",
            (A, C, p),
            {},
            np.linalg.norm(A[:, None] - C[:, None, :, :].swapaxes(1, 2).reshape(2, 1, 3, 4), p, -1),
        )
        for p in (1.0, 2.0, 3.0, math.inf)
    ],
    ("isclose", (A, A * (1 + 1e-6)), {}, np.isclose(A, A * (1 + 1e-6))),
    ("isclose", (WITH_HOLES, WITH_HOLES), {"equal_nan": True}, np.ones((4, 5), bool)),
    (
        "isclose",
        (np.array([math.inf, math.inf, 1.0]), np.array([math.inf, -math.inf, math.inf])),
        {},
        np.array([True, False, False]),
    ),
    ("allclose", (WITH_HOLES, WITH_HOLES), {}, False),
    ("allclose", (A, A + 1e-12), {}, True),
    ("equal", (A, A), {}, True),
    ("equal", (A, A[:1]), {}, False),
    ("isin", (integers(4, 4), np.array([1, 3])), {}, np.isin(integers(4, 4), [1, 3])),
    (
        "isin",
        (integers(50, high=40), integers(20, seed=1, high=40)),
        {"invert": True},
        np.isin(integers(50, high=40), integers(20, seed=1, high=40), invert=True),
    ),
    ("argwhere", (integers(3, 4),), {}, np.argwhere(integers(3, 4))),
    ("msort", (A,), {}, np.sort(A, 0)),
    ("tril_indices", (3, 4, 1), {}, np.stack(np.tril_indices(3, 1, 4))),
    ("triu_indices", (3, 4, -1), {}, np.stack(np.triu_indices(3, -1, 4))),
    (
        "unique_consecutive",
        (np.array([1, 1, 2, 2, 1]), True, True),
        {},
        [np.array([1, 2, 1]), np.array([0, 0, 1, 1, 2]), np.array([2, 2, 1])],
    ),
    (
        "unique_consecutive",
        (np.array([[1, 1], [1, 1], [1, 2]]),),
        {"dim": 0},
        np.array([[1, 1], [1, 2]]),
    ),
    ("logit", (np.array([0.1, 0.8]), 0.25), {}, np.log([1 / 3, 3.0])),
    ("clamp_min", (A, 0), {}, np.maximum(A, 0)),
    ("clamp_max", (A, 0), {}, np.minimum(A, 0)),
    ("clip", (A, -0.5, 0.5), {}, np.clip(A, -0.5, 0.5)),
    ("rsub", (A, 2), {"alpha": 3}, 2 - 3 * A),
    ("float_power", (integers(4), 2), {}, integers(4) ** 2.0),
    ("isposinf", (np.array([1.0, math.inf, -math.inf]),), {}, np.array([False, True, False])),
    ("isneginf", (np.array([1.0, math.inf, -math.inf]),), {}, np.array([False, False, True])),
    ("numel", (A,), {}, 12),
    ("is_tensor", (A,), {}, True),
    ("is_floating_point", (A,), {}, True),
    ("is_complex", (A,), {}, False),
    ("is_nonzero", (np.array([0.0]),), {}, False),
    ("is_same_size", (A, B), {}, True),
    ("positive", (A,), {}, A),
    ("select_scatter", (A, W, 0, 1), {}, np.stack([A[0], W, A[2]])),
    ("select_scatter", (A, V[:3], -1, -1), {}, np.column_stack([A[:, :3], V[:3]])),
    ("slice_scatter", (A, B[:2]), {"start": 1}, np.concatenate([A[:1], B[:2]])),
    ("slice_scatter", (A, B[:, :2], 1, 2, 4), {}, np.column_stack([A[:, :2], B[:, :2]])),
    ("diagonal_scatter", (np.ones((2, 2)), V[:2]), {}, np.array([[V[0], 1], [1, V[1]]])),
    ("diagonal_scatter", (np.ones((2, 2)), V[:1], 1), {}, np.array([[1, V[0]], [1, 1]])),
    (
        "as_strided_scatter",
        (np.ones((2, 2)), V[:2], (2,), (3,)),
        {},
        np.diag(V[:2]) + 1 - np.eye(2),
    ),
    ("histogram", (A, 5), {"range": (-1.0, 1.0)}, list(np.histogram(A, 5, (-1, 1)))),
    ("histogramdd", (A, 2), {}, flat_histogram(A, 2)),
    *[
        (
            "segment_reduce",
            (A, name),
            {"lengths": np.array([1, 2])},
            np.stack([A[0], step(A[1:], axis=0)]),
        )
        for name, step in (
            ("sum", np.sum),
            ("mean", np.mean),
            ("max", np.max),
            ("min", np.min),
            ("prod", np.prod),
        )
    ],
    ("unravel_index", (np.array([7, 1]), (3, 4)), {}, list(np.unravel_index([7, 1], (3, 4)))),
    ("nonzero_static", (np.array([0, 7]),), {"size": 2}, np.array([[1], [-1]])),
    ("fill", (A, 2.5), {}, np.full((3, 4), 2.5)),
    ("can_cast", (torch.float32, torch.float64), {}, True),
    ("can_cast", (torch.float32, torch.int64), {}, False),
    ("typename", (A,), {}, "torch.DoubleTensor"),
    ("isreal", (A,), {}, np.ones((3, 4), bool)),
    ("complex", (A, B), {}, A + 1j * B),
    ("polar", (A, np.zeros((3, 4))), {}, A + 0j),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_values(name, args, kwargs, wanted):
    lifted = [lift(argument) for argument in args]
    keywords = {key: lift(value) for key, value in kwargs.items()}
    results = flat(getattr(torch, name)(*lifted, **keywords))
    expected = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        assert_close(result, reference, BOUNDS, f"in {name}")


METHOD_NAMES = {case[0] for case in CASES if hasattr(torch.Tensor, case[0])}


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "wanted"),
    [case for case in CASES if case[0] in METHOD_NAMES and isinstance(case[1][0], np.ndarray)],
)
def test_methods_are_the_functions(name, args, kwargs, wanted):
    lifted = [lift(argument) for argument in args]
    keywords = {key: lift(value) for key, value in kwargs.items()}
    from_function = flat(getattr(torch, name)(*lifted, **keywords))
    from_method = flat(getattr(lifted[0], name)(*lifted[1:], **keywords))
    for one, other in zip(from_function, from_method, strict=True):
        assert_close(one, other, (0.0, 0.0), f"in {name}")


SMOOTH = {
    "addbmm",
    "addmv",
    "addr",
    "aminmax",
    "block_diag",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "combinations",
    "corrcoef",
    "cov",
    "cross",
    "cumulative_trapezoid",
    "diag_embed",
    "as_strided_scatter",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "dist",
    "hsplit",
    "inner",
    "kron",
    "kthvalue",
    "logit",
    "median",
    "meshgrid",
    "nanmean",
    "nansum",
    "quantile",
    "rot90",
    "segment_reduce",
    "select_scatter",
    "slice_scatter",
    "std_mean",
    "tensordot",
    "tensor_split",
    "trace",
    "trapezoid",
    "unflatten",
    "vander",
    "vstack",
}


def is_differentiable(case):
    """Whether a case has a finite real input and elements of the result that depend on it."""
    name, args, _, wanted = case
    source = args[0][0] if isinstance(args[0], list) else args[0]
    if name not in SMOOTH or source.dtype != np.float64 or not np.isfinite(source).all():
        return False
    parts = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    return any(np.size(part) and np.asarray(part).dtype == np.float64 for part in parts)


DIFFERENTIABLE = [case for case in CASES if is_differentiable(case)]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "wanted"), DIFFERENTIABLE, ids=[c[0] for c in DIFFERENTIABLE]
)
def test_gradients_along_a_direction(name, args, kwargs, wanted):
    """The sweep's derivative along a random direction is the central difference along it."""
    if IS_TORCH and name == "vander":
        pytest.skip("PyTorch's vander overwrites what its gradient needs")
    fixed = [lift(argument) for argument in args]
    keywords = {key: lift(value) for key, value in kwargs.items()}
    place = fixed[0] if isinstance(fixed[0], list) else fixed
    point = place[0]

    def along(tensor):
        place[0] = tensor
        results = getattr(torch, name)(*fixed, **keywords)
        parts = results if isinstance(results, (tuple, list)) else [results]
        total = 0.0
        for part in parts:
            if part.dtype == torch.float64 and part.numel():
                weight = torch.from_numpy(np.asarray(values(*part.shape, seed=7)))
                total = total + (part * weight).sum()
        return total

    direction = torch.from_numpy(values(*point.shape, seed=9))
    leaf = point.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(along(leaf), leaf)
    slope = (gradient * direction).sum().item()
    step = 1e-6
    ahead, behind = along(point + step * direction), along(point - step * direction)
    assert slope == pytest.approx(((ahead - behind) / (2 * step)).item(), rel=1e-6, abs=1e-7)


def test_gradients_where_the_distance_is_zero():
    x = lift(values(30, 4)).requires_grad_()
    torch.cdist(x, x).sum().backward()
    assert bool(x.grad.isfinite().all())
    y = torch.ones(3, dtype=torch.float64).requires_grad_()
    torch.std_mean(y)[0].backward()
    assert y.grad.tolist() == [0.0, 0.0, 0.0]


def test_elements_tied_for_the_median_share_its_gradient():
    x = torch.tensor([1.0, 2.0, 2.0, 3.0, 0.0], requires_grad=True)
    torch.median(x).backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0, 0.0]


def test_views_share_memory():
    x = torch.zeros(3, 4)
    for view in (
        torch.diagonal(x), torch.swapaxes(x, 0, 1), torch.unflatten(x, 1, (2, 2)),
        *torch.hsplit(x, 2), *torch.tensor_split(x, 2), torch.atleast_3d(x), torch.ravel(x),
    ):  # fmt: skip
        view.add_(1)
    assert x.sum().item() == 3 + 12 * 6
    grid, _ = torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")
    assert grid.stride() == (1, 0)


BAD_CALLS = [
    (RuntimeError, "broadcast_shapes", ((2,), (3,))),
    (RuntimeError, "meshgrid", ([],)),
    (RuntimeError, "cartesian_prod", (A, A)),
    (RuntimeError, "combinations", (A,)),
    (RuntimeError, "combinations", (V, -1)),
    (RuntimeError, "hstack", ([],)),
    (TypeError, "hstack", (3,)),
    (RuntimeError, "block_diag", (C,)),
    (RuntimeError, "hsplit", (A, 3)),
    (RuntimeError, "vsplit", (V, 1)),
    (RuntimeError, "tensor_split", (V, 0)),
    (IndexError, "tensor_split", (V, 2, 1)),
    (RuntimeError, "rot90", (A, 1, (0, 0))),
    (RuntimeError, "rot90", (V,)),
    (RuntimeError, "fliplr", (V,)),
    (RuntimeError, "flipud", (np.array(1.0),)),
    (RuntimeError, "unflatten", (A, 1, (3, -1))),
    (IndexError, "unflatten", (A, 2, (2, 2))),
    (RuntimeError, "tensordot", (A, B, 2 + 1)),
    (RuntimeError, "tensordot", (A, B, 1)),
    (RuntimeError, "cross", (A, B, 1)),
    (RuntimeError, "chain_matmul", (A, B)),
    (RuntimeError, "addbmm", (A, C, C)),
    (RuntimeError, "vander", (A,)),
    (IndexError, "diagonal", (V,)),
    (RuntimeError, "diagonal", (A, 0, 1, 1)),
    (RuntimeError, "trace", (V,)),
    (RuntimeError, "diff", (np.array(1.0),)),
    (RuntimeError, "diff", (V, -1)),
    (RuntimeError, "trapezoid", (A, V)),
    (RuntimeError, "cov", (C,)),
    (RuntimeError, "nanmean", (integers(3),)),
    (IndexError, "median", (np.empty((2, 0)), 1)),
    (IndexError, "median", (A, 2)),
    (RuntimeError, "kthvalue", (V, 6)),
    (RuntimeError, "quantile", (V, 1.5)),
    (RuntimeError, "quantile", (integers(3), 0.5)),
    (RuntimeError, "quantile", (np.empty(0), 0.5)),
    (RuntimeError, "aminmax", (np.empty(0),)),
    (RuntimeError, "bucketize", (V, A)),
    (RuntimeError, "histc", (V, 0)),
    (RuntimeError, "histc", (V, 5, 2, 1)),
    (RuntimeError, "histc", (np.array([NAN]), 5)),
    (RuntimeError, "cdist", (A, V)),
    (RuntimeError, "cdist", (A, A.T)),
    (RuntimeError, "cdist", (A, A, -1.0)),
    (RuntimeError, "isclose", (A, integers(3, 4))),
    (RuntimeError, "isclose", (A, A, -1.0)),
    (RuntimeError, "tril_indices", (-1, 2)),
    (RuntimeError, "is_nonzero", (A,)),
    (RuntimeError, "positive", (V > 0,)),
    (ValueError, "einsum", ("ij",)),
    (TypeError, "einsum", ("ij", 3)),
    (TypeError, "einsum", (3, A)),
    (RuntimeError, "einsum", ("ij,jk", A)),
    (RuntimeError, "einsum", ("ijk", A)),
    (RuntimeError, "einsum", ("i?", A)),
    (RuntimeError, "einsum", ("....i", A)),
    (RuntimeError, "einsum", ("ij->ijj", A)),
    (RuntimeError, "einsum", ("ij->k", A)),
    (RuntimeError, "einsum", ("ii", A)),
    (RuntimeError, "einsum", ("ij,jk", A, A)),
    (ValueError, "einsum", (A, [0, 52])),
]


@pytest.mark.parametrize(("error", "name", "args"), BAD_CALLS, ids=[c[1] for c in BAD_CALLS])
def test_bad_calls(error, name, args):
    with pytest.raises(error) as caught:
        getattr(torch, name)(*[lift(argument) for argument in args])
    if not IS_TORCH and caught.traceback[-1].path.parent.name == "_composed":
        assert name in str(caught.value) or "expected" in str(caught.value)


def random_equation(draw):
    """Return an equation and arrays that fit it: repeats, ellipses and broadcasts included."""
    letters = "abcdF"[: draw.choice([2, 3, 5])]
    sizes = {letter: draw.choice([1, 2, 3]) for letter in letters}
    ellipsis = draw.random() < 0.3
    terms, arrays = [], []
    for index in range(draw.choice([1, 2, 2, 2, 3, 4, 8])):
        term = [draw.choice(letters) for _ in range(draw.randint(0, 3))]
        shape = [sizes[letter] for letter in term]
        if ellipsis:
            at = draw.randint(0, len(term))
            term.insert(at, "...")
            shape[at:at] = [2, 3][2 - draw.randint(0, 2) :]
        terms.append("".join(term))
        arrays.append(values(*shape, seed=draw.randint(0, 99) + index))
    equation = ",".join(terms)
    if draw.random() < 0.7:
        kept = [letter for letter in letters if letter in equation and draw.random() < 0.5]
        draw.shuffle(kept)
        equation += "->" + "".join(kept[:1]) + "..." * ellipsis + "".join(kept[1:])
    return equation, arrays


@pytest.mark.parametrize("seed", range(8))
def test_einsum_against_numpy(seed):
    draw = random.Random(seed)
    for _ in range(50):
        equation, arrays = random_equation(draw)
        result = torch.einsum(equation, *[lift(array) for array in arrays])
        assert_close(to_numpy(result), np.einsum(equation, *arrays), (1e-9, 1e-9), equation)


EINSUM_GRADIENTS = ["ij,jk->ik", "ij,kj->ki", "ii->i", "ij,ij->", "bij,bjk->bik", "i,j,k->kji"]


@pytest.mark.parametrize("equation", EINSUM_GRADIENTS)
def test_einsum_gradients(equation):
    terms = equation.split("->")[0].split(",")
    operands = [lift(values(*[3] * len(t), seed=i)).requires_grad_() for i, t in enumerate(terms)]
    direction = [lift(values(*[3] * len(t), seed=i + 9)) for i, t in enumerate(terms)]
    grads = torch.autograd.grad(torch.einsum(equation, *operands).sum(), operands)
    slope = sum((g * d).sum().item() for g, d in zip(grads, direction, strict=True))
    sides = []
    for step in (1e-6, -1e-6):
        moved = [(x + step * d).detach() for x, d in zip(operands, direction, strict=True)]
        sides.append(torch.einsum(equation, *moved).sum().item())
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-6)


def test_einsum_takes_lists():
    a, b = lift(A), lift(B)
    wanted = A @ B.T
    assert_close(to_numpy(torch.einsum(a, [0, 2], b, [1, 2], [0, 1])), wanted, BOUNDS)
    assert_close(to_numpy(torch.einsum("ij,kj->ik", [a, b])), wanted, BOUNDS)
    summed = torch.einsum(a, [..., 0], [...])
    assert_close(to_numpy(summed), A.sum(1), BOUNDS)


@pytest.mark.skipif(IS_TORCH, reason="PyTorch promises no layout")
@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,jk->ki", "bij,bjk->bki", "i,j->ji"])
def test_einsum_results_come_out_in_order(equation):
    """No permutation is left over: the operands change places where that saves one."""
    operands = [torch.ones([3] * len(term)) for term in equation.split("->")[0].split(",")]
    assert torch.einsum(equation, *operands).is_contiguous()


@pytest.mark.skipif(IS_TORCH, reason="looks at our plans")
def test_einsum_contracts_the_cheapest_pair_first():
    from tapegrad._composed.contraction import make_plan

    sizes = {"a": 100, "b": 2, "c": 100, "d": 2}
    shapes = [(100, 2), (2, 100), (100, 2)]
    plan = make_plan([("a", "b"), ("b", "c"), ("c", "d")], shapes, sizes, ("a", "d"))
    assert {plan.pairs[0].left, plan.pairs[0].right} == {1, 2}
    assert [pair.product for pair in plan.pairs] == ["mm", "mm"]


def composed_modules():
    package = importlib.import_module("tapegrad._composed")
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"tapegrad._composed.{name}") for name in names]
    extra = ["tapegrad._tensor_str", "tapegrad.autograd", "tapegrad.autograd.grad_mode"]
    return modules + [importlib.import_module(name) for name in extra]


@pytest.mark.skipif(IS_TORCH, reason="reads our docstrings")
def test_examples_in_docstrings_run():
    tried = 0
    for module in composed_modules():
        outcome = doctest.testmod(module, extraglobs={"torch": torch})
        assert outcome.failed == 0, module.__name__
        tried += outcome.attempted
    assert tried > 100


@pytest.mark.skipif(IS_TORCH, reason="reads our docstrings")
def test_every_operation_is_documented_and_published():
    package = importlib.import_module("tapegrad._composed")
    for name, operation in {**package.FUNCTIONS, **package.METHODS}.items():
        text = inspect.getdoc(operation) or ""
        for section in ("Args:", "Returns:", "Example:"):
            assert section in text, f"{name} has no section {section}"
    for name, operation in package.FUNCTIONS.items():
        assert getattr(torch, name) is operation
    for name, operation in package.METHODS.items():
        assert getattr(torch.Tensor, name) is operation


@pytest.mark.skipif(IS_TORCH, reason="looks into our native module")
def test_no_operation_is_written_twice():
    package = importlib.import_module("tapegrad._composed")
    native = importlib.import_module("tapegrad._C")
    assert [name for name in package.FUNCTIONS if hasattr(native, name)] == []


def test_aliases_are_the_same_objects():
    for alias, name in (("arccos", "acos"), ("multiply", "mul"), ("clip", "clamp")):
        if not IS_TORCH:
            assert getattr(torch, alias) is getattr(torch, name)
            assert getattr(torch.Tensor, alias + "_") is getattr(torch.Tensor, name + "_")
        x = torch.tensor([0.5, 0.25])
        arguments = () if name == "acos" else (0.5,)
        assert torch.equal(getattr(torch, alias)(x, *arguments), getattr(x, name)(*arguments))


@pytest.mark.skipif(IS_TORCH, reason="reads our list of aliases")
def test_aliases_are_methods_where_their_first_names_are():
    for alias in importlib.import_module("tapegrad._aliases").__all__:
        names = [name for name in dir(torch) if getattr(torch, name) is getattr(torch, alias)]
        assert len(names) > 1, f"{alias} is no second name"
        for suffix in ("", "_"):
            methods = [getattr(torch.Tensor, name + suffix, None) for name in names]
            assert all(method is methods[0] for method in methods), alias + suffix


# ---- beside PyTorch


def test_unique_consecutive_along_a_dimension_of_size_one():
    x = torch.ones(1, 3)
    found, inverse, counts = torch.unique_consecutive(
        x, return_inverse=True, return_counts=True, dim=0
    )
    assert torch.equal(found, x) and inverse.tolist() == [0] and counts.tolist() == [1]


@pytest.mark.parametrize("equation", ["i,i->", "ij,jk->ik", "bij,bjk->bik", "ij,ij->i"])
def test_einsum_refuses_to_sum_products_of_mixed_dtypes(equation):
    left, right = (torch.ones((2,) * len(term)) for term in equation.split("->")[0].split(","))
    with pytest.raises(RuntimeError):
        torch.einsum(equation, left, right.double())
    assert torch.einsum("i,j->ij", torch.ones(2), torch.ones(2).double()).dtype is torch.float64


def test_rsub_checks_alpha_like_sub():
    assert torch.rsub(torch.tensor([1, 2]), 10, alpha=3).tolist() == [7, 4]
    with pytest.raises(RuntimeError):
        torch.rsub(torch.tensor([1, 2]), 10, alpha=0.5)
    with pytest.raises(RuntimeError):
        torch.rsub(torch.tensor([True]), 1)


def test_unique_along_a_dimension_keeps_the_order_of_the_others():
    x = torch.tensor([[[1, 1], [0, 1]], [[1, 1], [1, 0]], [[1, 1], [0, 1]], [[1, 0], [1, 0]]])
    found, inverse = torch.unique(x, dim=2, return_inverse=True)
    assert torch.equal(found, x) and inverse.tolist() == [0, 1]
    rows = x.movedim(2, 0).reshape(2, -1).tolist()
    assert rows == sorted(rows)


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_unique_along_every_dimension_is_sorted_by_rows(dim):
    array = np.random.default_rng(dim).integers(0, 2, (3, 4, 2, 3))
    found, inverse = torch.unique(torch.tensor(array), dim=dim, return_inverse=True)
    expected, back = np.unique(array, axis=dim, return_inverse=True)
    assert found.tolist() == expected.tolist() and inverse.tolist() == back.reshape(-1).tolist()


def test_isin_of_a_number_takes_the_dtype_of_the_elements():
    assert torch.isin(torch.tensor([0.1], dtype=torch.float64), 0.1).item()
    assert torch.isin(torch.tensor([0.1], dtype=torch.float16), 0.1).item()
    assert not torch.isin(torch.tensor([0.1], dtype=torch.float16), 0.1, invert=True).item()
    with pytest.raises(RuntimeError):
        torch.isin(torch.tensor([True]), True)


def test_older_names_of_linear_algebra():
    """Their relatives in torch.linalg have rows, and linalg/ compares these with PyTorch."""
    a = torch.from_numpy(values(4, 4)) + 4 * torch.eye(4, dtype=torch.float64)
    b = torch.from_numpy(values(4, 2))
    factors, pivots = torch.lu(a)
    p, low, up = torch.lu_unpack(factors, pivots)
    assert torch.allclose(p @ low @ up, a)
    assert torch.allclose(a @ torch.lu_solve(b, factors, pivots), b)
    assert torch.allclose(a.triu() @ torch.triangular_solve(b, a).solution, b)
    reflectors, tau = torch.geqrf(a)
    r = reflectors.triu()
    assert torch.allclose(torch.ormqr(reflectors, tau, r), a)
    assert torch.allclose(torch.matrix_power(a, 3), a @ a @ a)
    assert torch.svd_lowrank(a, q=2)[1].shape == (2,)
    assert torch.pca_lowrank(a, q=2)[1].shape == (2,)
    assert torch.lobpcg(torch.eye(6), 2)[1].shape == (6, 2)
    with pytest.raises(RuntimeError, match="eigh"):
        torch.symeig(a)
