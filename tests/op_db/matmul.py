"""Rows of the products of vectors, matrices and batches of them."""

import operator

import dtypes as dt
import numpy as np

from op_db.row import Bad, Op, Sample, Skip, Tolerance
from op_db.sampler import Sampler


def tensor(*shape, dtype="float32"):
    return Sampler(dtype).value(shape)


# Sums of up to a hundred products of numbers up to nine, whose signs cancel.
PRODUCTS = Tolerance(relative=16, absolute=512, half=2)
MATMUL_DTYPES = dt.NUMBERS
FIXED_RANK = {"zero_dim": "the operands have one dimension or more"}


def shapes(*cases, kwargs=({},), prefix=()):
    """Sample operands by their shapes; ``prefix`` holds arguments that come before them."""

    def samples(sampler):
        for case in cases:
            if sampler.gradient and (any(0 in s for s in case) or max(map(np.prod, case)) > 100):
                continue
            for extra in kwargs:
                yield Sample(*prefix, *(sampler.value(shape) for shape in case), **extra)

    return samples


def mixed_dtypes(first, second):
    return Bad(
        tensor(*first),
        tensor(*second, dtype="float64"),
        raises=RuntimeError,
        text="dtype|type|float",
    )


def not_a_tensor(first):
    return (
        Bad(tensor(*first), None, raises=TypeError, text="None|Tensor"),
        Bad(tensor(*first), 3.0, raises=TypeError, text="float|Tensor"),
    )


def matmul(a, b):
    return np.matmul(a, b)


def scaled_sum(product):
    """Reference of addmm and baddbmm: ``beta * input + alpha * product``, beta 0 ignoring NaN."""

    def reference(x, a, b, *, beta=1, alpha=1):
        result = alpha * product(a, b)
        return np.broadcast_to(result if beta == 0 else beta * x + result, result.shape)

    return reference


SCALES = ({}, {"beta": 2, "alpha": 3}, {"beta": 0})


def tensordot(a, b, dims=2):
    return np.tensordot(a, b, axes=dims)


def linear(x, weight, bias=None):
    product = x @ weight.T
    return product if bias is None else product + bias


def einsum(equation, *operands):
    return np.asarray(np.einsum(equation, *operands))


def einsum_samples(sampler):
    cases = (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,jk", (2, 3), (3, 4)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
        ("ii->i", (3, 3)),
        ("ii", (3, 3)),
        ("ij->ji", (2, 3)),
        ("ij->j", (2, 3)),
        ("i,j->ij", (3,), (2,)),
        ("i,i", (3,), (3,)),
        ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
        ("bhqd,bhkd->bhqk", (1, 2, 3, 2), (1, 2, 4, 2)),
        ("ij,ij,j->i", (2, 3), (2, 3), (3,)),
        ("ij,j->i", (0, 3), (3,)),
        (",i->i", (), (3,)),
    )
    for equation, *operands in cases:
        if not (sampler.gradient and any(0 in shape for shape in operands)):
            yield Sample(equation, *(sampler.value(shape) for shape in operands))


MATRICES = (
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((65, 33), (33, 17)),
    ((1, 64), (64, 5)),
)

ROWS = (
    Op(
        "mm",
        matmul,
        shapes(*MATRICES),
        method="mm",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(2, 3), tensor(4, 5), raises=RuntimeError, text="3.*4"),
            Bad(tensor(3), tensor(3, 2), raises=RuntimeError, text="2-?D|dim|matrix|matrices"),
            mixed_dtypes((2, 3), (3, 2)),
            *not_a_tensor((2, 3)),
        ),
    ),
    Op(
        "bmm",
        matmul,
        shapes(
            ((2, 3, 4), (2, 4, 2)),
            ((1, 1, 1), (1, 1, 1)),
            ((0, 2, 3), (0, 3, 2)),
            ((2, 3, 0), (2, 0, 2)),
            ((3, 17, 20), (3, 20, 9)),
        ),
        method="bmm",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(2, 3, 4), tensor(3, 4, 2), raises=RuntimeError, text="batch|size|shape"),
            Bad(tensor(2, 3, 4), tensor(2, 3, 4), raises=RuntimeError, text="4|size|shape"),
            Bad(tensor(2, 3), tensor(3, 2), raises=RuntimeError, text="3-?D|dim"),
            *not_a_tensor((2, 3, 4)),
        ),
    ),
    Op(
        "mv",
        matmul,
        shapes(((2, 3), (3,)), ((0, 3), (3,)), ((3, 0), (0,)), ((40, 65), (65,))),
        method="mv",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(2, 3), tensor(4), raises=RuntimeError, text="3.*4|4.*3|size"),
            Bad(tensor(2, 3), tensor(3, 1), raises=RuntimeError, text="dim|1-?D|vector"),
            *not_a_tensor((2, 3)),
        ),
    ),
    Op(
        "dot",
        np.dot,
        shapes(((3,), (3,)), ((0,), (0,)), ((100,), (100,))),
        method="dot",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(3), tensor(4), raises=RuntimeError, text="3.*4|4.*3"),
            Bad(tensor(2, 3), tensor(3), raises=RuntimeError, text="1-?D|dim"),
            mixed_dtypes((3,), (3,)),
            *not_a_tensor((3,)),
        ),
    ),
    Op(
        "vdot",
        np.dot,
        shapes(((3,), (3,)), ((0,), (0,)), ((100,), (100,))),
        method="vdot",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(3), tensor(4), raises=RuntimeError, text="3.*4|4.*3"),
            Bad(tensor(2, 3), tensor(3), raises=RuntimeError, text="1-?D|dim"),
            mixed_dtypes((3,), (3,)),
            *not_a_tensor((3,)),
        ),
    ),
    Op(
        "outer",
        np.outer,
        shapes(((3,), (4,)), ((0,), (4,)), ((1,), (1,))),
        method="outer",
        dtypes=dt.ALL,
        out=True,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(2, 3), tensor(3), raises=RuntimeError, text="1-?D|dim"),
            *not_a_tensor((3,)),
        ),
    ),
    Op(
        "matmul",
        matmul,
        shapes(
            *MATRICES,
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 3, 4), (4, 2)),
            ((3, 4), (2, 4, 2)),
            ((2, 1, 2, 3), (3, 3, 2)),
            ((3,), (2, 3, 2)),
            ((2, 2, 3), (3,)),
            ((0, 2, 3), (3, 2)),
        ),
        method="matmul",
        dtypes=MATMUL_DTYPES,
        operator=operator.matmul,
        out=True,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        skips=(
            Skip(
                "test_out",
                "PyTorch resizes a fitting out= of a vector times a batch",
                library="torch",
            ),
        ),
        bad=(
            Bad(tensor(2, 3), tensor(4, 5), raises=RuntimeError, text="3.*4"),
            Bad(tensor(2, 3, 4), tensor(3, 4, 2), raises=RuntimeError, text="2.*3|batch"),
            Bad(tensor(), tensor(3), raises=RuntimeError, text="dim|0-?D|scalar"),
            mixed_dtypes((2, 3), (3, 2)),
            *not_a_tensor((2, 3)),
        ),
    ),
    Op(
        "addmm",
        scaled_sum(matmul),
        shapes(
            ((2, 4), (2, 3), (3, 4)),
            ((4,), (2, 3), (3, 4)),
            ((), (2, 3), (3, 4)),
            ((2, 1), (2, 3), (3, 4)),
            ((2, 3), (2, 0), (0, 3)),
            kwargs=SCALES,
        ),
        method="addmm",
        inplace="addmm_",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        bad=(
            Bad(tensor(2, 2), tensor(2, 3), tensor(4, 2), raises=RuntimeError, text="3.*4"),
            Bad(
                tensor(3, 3),
                tensor(2, 3),
                tensor(3, 2),
                raises=RuntimeError,
                text="size|shape|expand",
            ),
        ),
    ),
    Op(
        "addmv",
        scaled_sum(matmul),
        shapes(
            ((2,), (2, 3), (3,)),
            ((), (2, 3), (3,)),
            ((1,), (2, 3), (3,)),
            ((2,), (2, 0), (0,)),
            ((40,), (40, 65), (65,)),
            kwargs=SCALES,
        ),
        method="addmv",
        inplace="addmv_",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        bad=(
            Bad(tensor(2), tensor(2, 3), tensor(4), raises=RuntimeError, text="3.*4"),
            Bad(tensor(3), tensor(2, 3), tensor(3), raises=RuntimeError, text="3.*2|size|shape"),
        ),
    ),
    Op(
        "baddbmm",
        scaled_sum(matmul),
        shapes(
            ((2, 2, 4), (2, 2, 3), (2, 3, 4)),
            ((4,), (2, 2, 3), (2, 3, 4)),
            ((), (1, 2, 3), (1, 3, 4)),
            ((0, 2, 2), (0, 2, 3), (0, 3, 2)),
            kwargs=SCALES,
        ),
        method="baddbmm",
        inplace="baddbmm_",
        dtypes=MATMUL_DTYPES,
        out=True,
        tolerance=PRODUCTS,
        bad=(
            Bad(
                tensor(2, 2, 2),
                tensor(2, 2, 3),
                tensor(3, 3, 2),
                raises=RuntimeError,
                text="batch|size|shape",
            ),
            Bad(
                tensor(2, 2),
                tensor(2, 3),
                tensor(3, 2),
                raises=(RuntimeError, IndexError),
                text="3-?D|dim",
            ),
        ),
    ),
    Op(
        "einsum",
        einsum,
        einsum_samples,
        dtypes=(*dt.FLOATS, "int64"),
        view=None,
        tolerance=PRODUCTS,
        bad=(
            Bad("ij,jk->ik", tensor(2, 3), tensor(4, 5), raises=RuntimeError, text="3|4|size|j"),
            Bad("ij->ik", tensor(2, 3), raises=RuntimeError, text="k"),
            Bad("ij", tensor(2, 3, 4), raises=RuntimeError, text="dim|subscript"),
            Bad("i,j->ij", tensor(2), raises=(RuntimeError, ValueError), text="operand"),
            Bad("i$->i", tensor(2), raises=RuntimeError, text="subscript|letter|invalid"),
            Bad(raises=(ValueError, TypeError), text="einsum|argument"),
        ),
    ),
    Op(
        "tensordot",
        tensordot,
        shapes(((2, 3, 4), (3, 4, 5)), kwargs=({"dims": 2}, {"dims": ([1, 2], [0, 1])})),
        dtypes=MATMUL_DTYPES,
        tolerance=PRODUCTS,
        missing={"zero_size": "see matmul", "zero_dim": "see matmul"},
        bad=(
            Bad(tensor(2, 3), tensor(4, 5), dims=1, raises=RuntimeError, text="3.*4|4.*3|match"),
            Bad(tensor(2, 3), tensor(3, 2), dims=-1, raises=RuntimeError, text="-1|dims"),
            Bad(
                tensor(2, 3),
                tensor(3, 2),
                dims=([0], [0, 1]),
                raises=RuntimeError,
                text="dim|length|same",
            ),
        ),
    ),
    Op(
        "linear",
        linear,
        shapes(
            ((5, 3), (4, 3)),
            ((5, 3), (4, 3), (4,)),
            ((3,), (4, 3), (4,)),
            ((2, 5, 3), (4, 3), (4,)),
            ((0, 3), (4, 3), (4,)),
        ),
        path="nn.functional.linear",
        dtypes=MATMUL_DTYPES,
        tolerance=PRODUCTS,
        missing=FIXED_RANK,
        bad=(
            Bad(tensor(5, 3), tensor(4, 2), raises=RuntimeError, text="3.*2|2.*3|4|size|shape"),
            Bad(
                tensor(5, 3), tensor(4, 3), tensor(5), raises=RuntimeError, text="size|shape|expand"
            ),
            Bad(tensor(5, 3), None, raises=TypeError, text="None|Tensor"),
        ),
    ),
)
