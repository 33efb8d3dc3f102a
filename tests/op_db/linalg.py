"""Rows of linear algebra. Where signs are free, what does not depend on them is compared."""

import numpy as np

from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value
from op_db.sampler import Sampler

FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
# Sums of products, divided by pivots that are not small.
SOLVED = Tolerance(relative=256, absolute=256)
MATRICES = {"zero_dim": "a matrix has two dimensions"}
SQUARES = ((2, 2), (3, 3), (2, 4, 4), (1, 1), (2, 1, 3, 3), (0, 0), (0, 2, 2))
RECTANGLES = ((3, 2), (2, 3), (2, 4, 3), (1, 1), (0, 3), (3, 0), (0, 2, 2))


def tensor(*shape, dtype="float32"):
    return Sampler(dtype).value(shape)


def regular(sampler, shape):
    """Draw matrices whose diagonal outweighs the rest."""
    value = sampler.value(shape, -1, 1)
    array = value.array + 3 * np.eye(shape[-2], shape[-1])
    return Value(array.astype(value.array.dtype), sampler.dtype)


def is_left_out(sampler, *shapes):
    return sampler.gradient and any(0 in shape for shape in shapes)


def squares(sampler):
    for shape in SQUARES:
        # PyTorch does not look at the dtype of no elements.
        if not (is_left_out(sampler, shape) or (0 in shape and sampler.dtype not in FLOATS)):
            yield Sample(regular(sampler, shape))


def exponents(sampler):
    for shape in SQUARES:
        if not is_left_out(sampler, shape):
            yield Sample(sampler.value(shape, -0.5, 0.5))


def rectangles(sampler):
    for shape in RECTANGLES:
        if not is_left_out(sampler, shape):
            yield Sample(regular(sampler, shape))


def systems(*cases, **kwargs):
    def samples(sampler):
        for a, b in cases:
            if not is_left_out(sampler, a, b):
                yield Sample(regular(sampler, a), sampler.value(b, -1, 1), **kwargs)

    return samples


SYSTEMS = (
    ((3, 3), (3, 2)),
    ((3, 3), (3,)),
    ((2, 3, 3), (2, 3, 1)),
    ((2, 3, 3), (3, 2)),
    ((0, 0), (0, 2)),
    ((0, 2, 2), (0, 2, 1)),
)


def solve(a, b):
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return np.linalg.solve(a, b[..., None])[..., 0]
    return np.linalg.solve(a, b)


def triangle(upper):
    def reference(a, b, **kwargs):
        return np.linalg.solve(np.triu(a) if upper else np.tril(a), b)

    return reference


def expm(a):
    """Sum the series after scaling by 2**4, and square."""
    term = result = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for k in range(1, 40):
        term = term @ (a / 2**4) / k
        result = result + term
    for _ in range(4):
        result = result @ result
    return result


def householder(a, tau):
    m, n = a.shape[-2:]
    result = np.broadcast_to(np.eye(m, n), a.shape)
    v = np.tril(a, -1) + np.eye(m, n)
    for k in reversed(range(tau.shape[-1])):
        column = v[..., k : k + 1]
        result = result - tau[..., k, None, None] * (column @ (column.swapaxes(-1, -2) @ result))
    return result


def reflectors(sampler):
    for shape, count in (((3, 2), 2), ((3, 3), 3), ((2, 4, 3), 2)):
        if not is_left_out(sampler, shape):
            tau = sampler.value((*shape[:-2], count), -1, 1)
            yield Sample(sampler.value(shape, -1, 1), tau)


def cholesky_factors(sampler):
    for a, b in (((3, 3), (3, 2)), ((2, 2, 2), (2, 2, 1)), ((0, 0), (0, 1))):
        if not is_left_out(sampler, a, b):
            yield Sample(sampler.value(b, -1, 1), regular(sampler, a))


def cholesky_solve(b, factor):
    lower = np.tril(factor)
    return np.linalg.solve(lower @ lower.swapaxes(-1, -2), b)


def positive(a):
    return a @ a.swapaxes(-1, -2) + np.eye(a.shape[-1])


def of_positive(path):
    """Call a function on positive-definite matrices made of the argument."""

    def wrapper(library):
        function = library
        for name in path.split("."):
            function = getattr(function, name)

        def call(x, **kwargs):
            return function(
                x @ x.mT + library.eye(x.shape[-1], dtype=x.dtype, device=x.device), **kwargs
            )

        return call

    return wrapper


def symmetric_values(library):
    return lambda x: library.linalg.eigvalsh(x + x.mT)


def symmetric_parts(library):
    def parts(x):
        values, vectors = library.linalg.eigh(x + x.mT)
        return values, (vectors * values.unsqueeze(-2).sin()) @ vectors.mT

    return parts


def eigh_parts(a):
    values, vectors = np.linalg.eigh(a + a.swapaxes(-1, -2))
    return values, (vectors * np.sin(values)[..., None, :]) @ vectors.swapaxes(-1, -2)


def general_parts(library):
    def parts(x):
        """Return a sum over the eigenvalues, which have no order, and a function of the matrix."""
        values, vectors = library.linalg.eig(x)
        inside = (vectors * values.sin().unsqueeze(-2)) @ library.linalg.inv(vectors)
        return (values * values).sum(-1).real, inside.real

    return parts


def eig_parts(a):
    values, vectors = np.linalg.eig(a)
    inside = (vectors * np.sin(values)[..., None, :]) @ np.linalg.inv(vectors)
    return (values * values).sum(-1).real, inside.real


def sums_of_values(library):
    return lambda x: library.linalg.eigvals(x).square().sum(-1).real


def singular_parts(library):
    def parts(x):
        u, s, vh = library.linalg.svd(x, full_matrices=False)
        return s, (u * s.sin().unsqueeze(-2)) @ vh

    return parts


def svd_parts(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return s, (u * np.sin(s)[..., None, :]) @ vh


def apart(sampler):
    """Draw matrices whose singular values, and eigenvalues of the symmetric part, lie apart."""
    for shape in ((2, 2), (3, 3), (2, 4, 4), (1, 1), (0, 0), (0, 2, 2)):
        if not is_left_out(sampler, shape):
            value = sampler.value(shape, -0.3, 0.3)
            array = value.array + np.diag(np.arange(1.0, shape[-1] + 1))
            yield Sample(Value(array.astype(value.array.dtype), sampler.dtype))


NOT_SQUARE = Bad(tensor(2, 3), raises=RuntimeError, text="square|2 by 3")
NO_MATRIX = Bad(tensor(3), raises=RuntimeError, text="at least 2 dim|matri")
INTEGERS = Bad(tensor(2, 2, dtype="int64"), raises=RuntimeError, text="[Ff]loat")

ROWS = (
    Op(
        "linalg.det",
        np.linalg.det,
        squares,
        path="linalg.det",
        method="det",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(NOT_SQUARE, NO_MATRIX, INTEGERS),
    ),
    Op(
        "logdet",
        lambda a: np.log(np.linalg.det(a)),
        squares,
        method="logdet",
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(NOT_SQUARE, NO_MATRIX, INTEGERS),
    ),
    Op(
        "linalg.slogdet",
        np.linalg.slogdet,
        squares,
        path="linalg.slogdet",
        method="slogdet",
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(NOT_SQUARE, NO_MATRIX, INTEGERS),
    ),
    Op(
        "linalg.inv",
        np.linalg.inv,
        squares,
        path="linalg.inv",
        method="inverse",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(
            NOT_SQUARE,
            NO_MATRIX,
            INTEGERS,
            Bad(Value(np.zeros((2, 2)), "float64"), raises=RuntimeError, text="singular"),
        ),
    ),
    Op(
        "linalg.solve",
        solve,
        systems(*SYSTEMS),
        path="linalg.solve",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(
            Bad(tensor(2, 3), tensor(2, 1), raises=RuntimeError, text="square|2 by 3"),
            Bad(tensor(2, 2), tensor(3, 1), raises=RuntimeError, text="ncompatible"),
            Bad(tensor(2, 2), tensor(2, dtype="float64"), raises=RuntimeError, text="dtype"),
        ),
    ),
    Op(
        "linalg.solve_triangular",
        triangle(upper=True),
        systems(*(case for case in SYSTEMS if len(case[1]) > 1), upper=True),
        path="linalg.solve_triangular",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(
            Bad(tensor(2, 2), tensor(3, 1), upper=True, raises=RuntimeError, text="ncompatible"),
            Bad(tensor(2, 2), tensor(2), upper=True, raises=RuntimeError, text="2 dim"),
        ),
    ),
    Op(
        "linalg.cholesky",
        lambda a: np.linalg.cholesky(positive(a)),
        squares,
        path="linalg.cholesky",
        wrapper=of_positive("linalg.cholesky"),
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
    ),
    Op(
        "cholesky_solve",
        cholesky_solve,
        cholesky_factors,
        wrapper=lambda library: lambda b, L: library.cholesky_solve(b, L.tril()),
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(Bad(tensor(2, 1), tensor(2, 3), raises=RuntimeError, text="square|2 by 3"),),
    ),
    Op(
        "cholesky_inverse",
        lambda a: np.linalg.inv(np.tril(a) @ np.tril(a).swapaxes(-1, -2)),
        squares,
        wrapper=lambda library: lambda L: library.cholesky_inverse(L.tril()),
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(NOT_SQUARE,),
    ),
    Op(
        "linalg.qr",
        lambda a: tuple(np.linalg.qr(a)),
        rectangles,
        path="linalg.qr",
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(
            NO_MATRIX,
            INTEGERS,
            Bad(tensor(2, 2), mode="full", raises=RuntimeError, text="mode 'full'"),
        ),
    ),
    Op(
        "linalg.householder_product",
        householder,
        reflectors,
        path="linalg.householder_product",
        method="orgqr",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing={**MATRICES, "zero_size": "PyTorch records no gradient of no reflectors"},
        bad=(Bad(tensor(2, 3), tensor(2), raises=RuntimeError, text="shape"),),
    ),
    Op(
        "linalg.eigvalsh",
        lambda a: np.linalg.eigvalsh(a + a.swapaxes(-1, -2)),
        apart,
        path="linalg.eigvalsh",
        wrapper=symmetric_values,
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
    ),
    Op(
        "linalg.eigh",
        eigh_parts,
        apart,
        path="linalg.eigh",
        wrapper=symmetric_parts,
        dtypes=FLOATS,
        tolerance=Tolerance(relative=256, absolute=16384),
        missing=MATRICES,
    ),
    Op(
        "linalg.eigvals",
        lambda a: (np.linalg.eigvals(a) ** 2).sum(-1).real,
        apart,
        path="linalg.eigvals",
        wrapper=sums_of_values,
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
    ),
    Op(
        "linalg.eig",
        eig_parts,
        apart,
        path="linalg.eig",
        wrapper=general_parts,
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
    ),
    Op(
        "linalg.svd",
        svd_parts,
        apart,
        path="linalg.svd",
        wrapper=singular_parts,
        dtypes=FLOATS,
        tolerance=SOLVED,
        missing=MATRICES,
    ),
    Op(
        "linalg.svdvals",
        lambda a: np.linalg.svd(a, compute_uv=False),
        rectangles,
        path="linalg.svdvals",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(NO_MATRIX, INTEGERS),
    ),
    Op(
        "linalg.pinv",
        np.linalg.pinv,
        rectangles,
        path="linalg.pinv",
        method="pinverse",
        dtypes=FLOATS,
        out=True,
        tolerance=SOLVED,
        missing=MATRICES,
        bad=(NO_MATRIX, INTEGERS),
    ),
    Op(
        "matrix_exp",
        expm,
        exponents,
        method="matrix_exp",
        dtypes=(*FLOATS, *HALVES),
        tolerance=Tolerance(relative=256, absolute=256, half=64),
        missing=MATRICES,
        skips=(
            Skip("test_parity", "PyTorch's result in half types is wrong, of any matrix", HALVES),
            Skip("test_values", "PyTorch's result in half types is wrong, of any matrix", HALVES),
        ),
        bad=(NOT_SQUARE, NO_MATRIX),
    ),
)
