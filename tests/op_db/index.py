"""Rows of indexing: subscripts, gather and scatter, and the ``index_*`` and ``masked_*`` ops."""

import dtypes as dt
import numpy as np

from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value, walk
from op_db.sampler import Sampler

EXACT = Tolerance(relative=0, half=0)
SUMS = Tolerance(relative=8, absolute=32, half=4)

MATRIX = Sampler("float32").value((2, 3))
DOUBLES = Sampler("float64").value((1, 3))
FLOATING_INDEX = Value(np.array([[0.0]], np.float32), "float32")


def indices(*values):
    """Return an int64 index tensor from nested lists."""
    return Value(np.array(values, np.int64), "int64", differentiable=False)


def mask(*values):
    return Value(np.array(values, bool), "bool", differentiable=False)


def floats(*shape):
    return Sampler("float32").value(shape)


TRUE = Value(np.array(True), "bool")
OUT_OF_RANGE = r"7.*dim.*0.*2"

# Subscripts of a tensor of shape (3, 4, 5). Tuples and lists keep their Python meaning.
BASIC = (
    1,
    -1,
    slice(1, 3),
    slice(None, None, 2),
    slice(10, 20),
    slice(-2, None),
    (slice(None), 2),
    (Ellipsis, 0),
    (None, 1, slice(None), None),
    (1, 2, 3),
    (slice(0, 0), Ellipsis),
    (Ellipsis, slice(1, 4, 2)),
    None,
    Ellipsis,
    (),
)
ADVANCED = (
    indices(0, 2, 2),
    indices([0, 1], [2, -1]),
    (indices(0, 2), indices(1, 3)),
    (slice(None), indices(3, 0)),
    (indices(0, 2), slice(None), indices(4, 0)),
    (slice(None), indices(1, 2), indices(0, 4)),
    (indices([0], [2]), indices(1, 3)),
    (1, indices(0, 2)),
    (Ellipsis, indices(0, 4, 4)),
    [0, 2],
    indices(),
    mask(True, False, True),
    mask(False, False, False),
    (slice(None), mask(True, False, True, True)),
    (mask(True, True, False), indices(1, 3)),
    (None, indices(1)),
)
ON_SCALAR = (Ellipsis, None, ())
TALL = (3, 4, 5)


def subscripts(keys):
    def samples(sampler):
        for key in keys:
            yield Sample(sampler.value(TALL), key)
        for key in ON_SCALAR if keys is BASIC else ():
            yield Sample(sampler.value(()), key)
        if not sampler.gradient:
            yield Sample(sampler.value((0, 4)), (slice(None), keys[0]))

    return samples


def getitem(x, key):
    return np.asarray(x[key])


def assigned(library):
    """Return ``x[key] = value`` as a function that leaves its argument alone."""

    def assign(x, key, value):
        x = x.clone()
        x[key] = value
        return x

    return assign


def setitem(x, key, value):
    x = x.copy()
    x[key] = value
    return x


def assignments(sampler):
    """Numbers, broadcast tensors and full tensors assigned by basic and advanced subscripts."""
    unrepeated = [key for key in (*BASIC, *ADVANCED) if not repeats(key)]
    for key in unrepeated:
        target = sampler.value(TALL)
        shape = np.empty(TALL)[walk(key, lambda k: k.array if isinstance(k, Value) else k)].shape
        yield Sample(target, key, sampler.scalar())
        yield Sample(sampler.value(TALL), key, sampler.value(shape))
        if len(shape) > 1:
            yield Sample(sampler.value(TALL), key, sampler.value(shape[-1:]))
    yield Sample(sampler.value(()), Ellipsis, sampler.value(()))
    if not sampler.gradient:
        yield Sample(sampler.value((0, 4)), slice(None), sampler.value((4,)))


def repeats(key):
    """Whether a subscript names an element twice: then which value stays is not specified."""
    counts = np.zeros(TALL)
    np.add.at(counts, walk(key, lambda k: k.array if isinstance(k, Value) else k), 1)
    return counts.max() > 1


def along(x, dim, index):
    """Return the subscript that pairs every position of ``index`` with its index along ``dim``."""
    grid = list(np.indices(index.shape))
    if grid:
        grid[dim] = index
    return tuple(grid)


def gather(x, dim, index):
    return np.asarray(x[along(x, dim, index)] if x.ndim else x.reshape(1)[index])


def scatter(x, dim, index, src, reduce=None):
    x = x.copy()
    flat = x.reshape(1) if x.ndim == 0 else x
    key = along(x, dim, index) if x.ndim else index
    values = src[tuple(slice(0, n) for n in index.shape)] if isinstance(src, np.ndarray) else src
    if reduce is None:
        flat[key] = values
    else:
        (np.add if reduce == "add" else np.multiply).at(flat, key, values)
    return flat.reshape(x.shape)


def scatter_add(x, dim, index, src):
    return scatter(x, dim, index, src, "add")


def gather_samples(sampler):
    yield Sample(sampler.value((3, 4)), 0, sampler.index((2, 4), 3))
    yield Sample(sampler.value((3, 4)), 1, sampler.index((3, 6), 4))
    yield Sample(sampler.value((2, 3, 4)), -2, sampler.index((2, 5, 2), 3))
    yield Sample(sampler.value((4,)), 0, sampler.index((3,), 4))
    yield Sample(sampler.value(()), 0, sampler.index((), 1))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), 0, sampler.index((0, 4), 3))


def unrepeated_index(sampler, shape, size, dim):
    """Return an index no line of which along ``dim`` names a place twice."""
    order = np.argsort(sampler.random.random((*shape[:dim], size, *shape[dim + 1 :])), axis=dim)
    return Value(np.take(order, np.arange(shape[dim]), axis=dim), "int64", differentiable=False)


def scatter_samples(sampler):
    yield Sample(
        sampler.value((3, 4)), 0, unrepeated_index(sampler, (2, 4), 3, 0), sampler.value((2, 4))
    )
    yield Sample(
        sampler.value((3, 4)), -1, unrepeated_index(sampler, (3, 2), 4, 1), sampler.scalar()
    )
    yield Sample(sampler.value(()), 0, indices(0), sampler.value((1,)))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), 0, sampler.index((0, 4), 3), sampler.value((2, 4)))
        larger = sampler.value((3, 4))
        yield Sample(sampler.value((3, 4)), 1, unrepeated_index(sampler, (2, 3), 4, 1), larger)


def scatter_add_samples(sampler):
    yield Sample(sampler.value((3, 4)), 0, sampler.index((5, 4), 3), sampler.value((5, 4)))
    yield Sample(
        sampler.value((2, 3, 4)), -2, sampler.index((2, 5, 2), 3), sampler.value((2, 5, 2))
    )
    yield Sample(sampler.value(()), 0, indices(0), sampler.value((1,)))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), 0, sampler.index((0, 4), 3), sampler.value((2, 4)))
        yield Sample(sampler.value((3, 4)), 1, sampler.index((2, 6), 4), sampler.value((3, 7)))


def index_select_samples(sampler):
    yield Sample(sampler.value((3, 4)), 0, sampler.index((5,), 3))
    yield Sample(sampler.value((2, 3, 4)), -1, sampler.index((2,), 4))
    yield Sample(sampler.value((3, 4)), 1, sampler.index((3,), 4, dtype="int32"))
    yield Sample(sampler.value((3, 4)), 0, sampler.index((), 3))
    yield Sample(sampler.value(()), 0, indices(0))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), 0, sampler.index((0,), 3))
        yield Sample(sampler.value((3, 0)), 0, sampler.index((2,), 3))


def index_select(x, dim, index):
    if x.ndim == 0:
        return x
    return np.take(x, np.atleast_1d(index), axis=dim)


def lines(unique, *, kwargs=({},)):
    """Sample ``(x, dim, index, source)`` where the index names whole lines of x along dim."""

    def samples(sampler):
        for shape, dim, count in (((4, 3), 0, 3), ((2, 4, 3), 1, 2), ((2, 4), -1, 4), ((5,), 0, 2)):
            size = shape[dim]
            index = sampler.permutation(size) if unique else sampler.index((count,), size)
            index = Value(index.array[:count], "int64", differentiable=False)
            source = list(shape)
            source[dim] = count
            for extra in kwargs:
                yield Sample(
                    sampler.value(shape), dim, index, sampler.value(tuple(source)), **extra
                )
        if not sampler.gradient:
            empty = sampler.index((0,), 4)
            yield Sample(sampler.value((4, 3)), 0, empty, sampler.value((0, 3)))

    return samples


def index_add(x, dim, index, source, alpha=1):
    x = np.moveaxis(x.copy(), dim, 0)
    np.add.at(x, index, np.moveaxis(source * np.asarray(alpha, source.dtype), dim, 0))
    return np.moveaxis(x, 0, dim)


def index_copy(x, dim, index, source):
    x = np.moveaxis(x.copy(), dim, 0)
    x[index] = np.moveaxis(source, dim, 0)
    return np.moveaxis(x, 0, dim)


def index_put(x, keys, values, accumulate=False):
    x = x.copy()
    if accumulate:
        np.add.at(x, tuple(keys), values)
    else:
        x[tuple(keys)] = values
    return x


def index_put_samples(sampler):
    yield Sample(sampler.value((3, 4)), (indices(0, 2),), sampler.value((2, 4)))
    yield Sample(sampler.value((3, 4)), (indices(0, 2), indices(1, -1)), sampler.value((2,)))
    yield Sample(sampler.value((3, 4)), (indices(0, 2, 0),), sampler.value((3, 4)), accumulate=True)
    yield Sample(sampler.value((3, 4)), (sampler.mask((3, 4)),), sampler.value(()))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), (sampler.index((0,), 3),), sampler.value((4,)))


def index_fill(x, dim, index, value):
    if x.ndim == 0:
        return np.full_like(x, value) if index.size else x
    x = np.moveaxis(x.copy(), dim, 0)
    x[index] = value
    return np.moveaxis(x, 0, dim)


def index_fill_samples(sampler):
    yield Sample(sampler.value((4, 3)), 0, sampler.index((2,), 4), sampler.scalar())
    yield Sample(sampler.value((2, 4, 3)), -2, sampler.index((3,), 4), sampler.value(()))
    yield Sample(sampler.value((5,)), 0, sampler.index((), 5), sampler.scalar())
    yield Sample(sampler.value(()), 0, indices(0), sampler.scalar())
    if not sampler.gradient:
        yield Sample(sampler.value((4, 3)), 1, sampler.index((0,), 3), sampler.scalar())


def put(x, index, source, accumulate=False):
    flat = x.copy().reshape(-1)
    if accumulate:
        np.add.at(flat, index.reshape(-1), source.reshape(-1))
    else:
        flat[index.reshape(-1)] = source.reshape(-1)
    return flat.reshape(x.shape)


def put_samples(sampler):
    places = Value(sampler.permutation(12).array[:4], "int64", differentiable=False)
    yield Sample(sampler.value((3, 4)), places, sampler.value((4,)))
    yield Sample(sampler.value((3, 4)), indices([0, -1], [5, 7]), sampler.value((4,)))
    yield Sample(sampler.value((3, 4)), sampler.index((5,), 12), sampler.value((5,)), True)
    yield Sample(sampler.value(()), indices(0), sampler.value((1,)))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), sampler.index((0,), 12), sampler.value((0,)))


REDUCTIONS = {
    "sum": (np.add, 0.0),
    "mean": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "amax": (np.maximum, -np.inf),
    "amin": (np.minimum, np.inf),
}


def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    """The mean of integers is rounded down."""
    function, neutral = REDUCTIONS[reduce]
    key = along(x, dim, index) if x.ndim else index
    flat = np.atleast_1d(x).astype(np.float64)
    counts = np.full(flat.shape, float(include_self))
    np.add.at(counts, key, 1)
    if not include_self:
        flat[key] = neutral
    function.at(flat, key, src[tuple(slice(0, n) for n in index.shape)])
    if reduce == "mean":
        flat = flat / np.maximum(counts, 1)
    return (flat if x.dtype.kind == "f" else np.floor(flat)).reshape(x.shape)


def scatter_reduce_samples(*reductions):
    def samples(sampler):
        def value(*shape):
            return sampler.value(shape, 0.5, 3.0)

        for reduce in reductions:
            for include_self in (True, False):
                way = {"reduce": reduce, "include_self": include_self}
                yield Sample(value(3, 4), 0, sampler.index((5, 4), 3), value(5, 4), **way)
                yield Sample(value(2, 4), -1, sampler.index((2, 3), 4), value(2, 3), **way)
                yield Sample(value(), 0, indices(0), value(1), **way)
                if not sampler.gradient:
                    yield Sample(value(3, 4), 0, sampler.index((0, 4), 3), value(2, 4), **way)
                    yield Sample(value(2, 4), 1, sampler.index((2, 3), 4), value(2, 5), **way)

    return samples


def take_samples(sampler):
    yield Sample(sampler.value((3, 4)), sampler.index((5,), 12))
    yield Sample(sampler.value((3, 4)), sampler.index((2, 2), 12, negative=True))
    yield Sample(sampler.value((3, 4)), sampler.index((), 12))
    yield Sample(sampler.value(()), indices(0, 0))
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), sampler.index((0,), 12))


def take_along_dim(x, index, dim=None):
    """PyTorch wraps indices around the dimension: 7 in a dimension of 2 is 1."""
    if dim is None:
        return np.take(x.reshape(-1), index.reshape(-1) % x.size)
    shape = np.broadcast_shapes(*((*a.shape[:dim], 1, *a.shape[dim + 1 :]) for a in (x, index)))
    index = np.broadcast_to(index, (*shape[:dim], index.shape[dim], *shape[dim + 1 :]))
    x = np.broadcast_to(x, (*shape[:dim], x.shape[dim], *shape[dim + 1 :]))
    return np.take_along_axis(x, index % x.shape[dim], axis=dim)


def take_along_dim_samples(sampler):
    yield Sample(sampler.value((3, 4)), sampler.index((2, 4), 3), 0)
    yield Sample(sampler.value((3, 4)), sampler.index((3, 1), 4), 1)
    yield Sample(sampler.value((3, 4)), sampler.index((5,), 12))
    yield Sample(sampler.value((1, 4)), sampler.index((3, 2), 4, negative=True), 1)
    if not sampler.gradient:
        yield Sample(sampler.value((3, 4)), sampler.index((0, 4), 3), 0)


def masked_select(x, chosen):
    x, chosen = np.broadcast_arrays(x, chosen)
    return x[chosen]


def masked_select_samples(sampler):
    yield Sample(sampler.value((3, 4)), mask([True, False, True, True]))
    yield Sample(sampler.value((4,)), sampler.mask((3, 4)))
    yield Sample(sampler.value((3, 4)), sampler.mask((3, 4)))
    yield Sample(sampler.value(()), mask(True))
    if not sampler.gradient:
        yield Sample(sampler.value((0, 4)), sampler.mask((4,)))
        yield Sample(sampler.value((4,)), mask(False, False, False, False))
        yield Sample(sampler.value((70_001,)), sampler.mask((70_001,)))


def masked_scatter(x, chosen, source):
    x, chosen = x.copy(), np.broadcast_to(chosen, x.shape)
    x[chosen] = source.reshape(-1)[: int(chosen.sum())]
    return x


def masked_scatter_samples(sampler):
    yield Sample(sampler.value((3, 4)), sampler.mask((3, 4)), sampler.value((12,)))
    yield Sample(sampler.value((3, 4)), sampler.mask((4,)), sampler.value((4, 4)))
    yield Sample(sampler.value(()), TRUE, sampler.value((2,)))
    if not sampler.gradient:
        yield Sample(sampler.value((0, 2)), sampler.mask((0, 2)), sampler.value((3,)))


def nonzero(x, as_tuple=False):
    if x.ndim == 0:
        found = np.zeros((int(x != 0), 0), np.int64)
        return (np.zeros(int(x != 0), np.int64),) if as_tuple else found
    return np.nonzero(x) if as_tuple else np.argwhere(x)


def nonzero_samples(**kwargs):
    def samples(sampler):
        for shape in ((7,), (3, 4), (2, 3, 4), (), (0,), (2, 0), (70_001,)):
            value = sampler.value(shape, -1, 1)
            if dt.is_float(sampler.dtype):
                value = Value(np.round(value.array), sampler.dtype)
            yield Sample(value, **kwargs)

    return samples


COMMON = {"dtypes": dt.ALL, "result": "same", "tolerance": EXACT}

SUBSCRIPTS = (
    Op(
        "getitem",
        getitem,
        subscripts(BASIC),
        path="Tensor.__getitem__",
        view=True,
        **COMMON,
        bad=(
            Bad(MATRIX, 7, raises=IndexError, text="7.*0.*2"),
            Bad(MATRIX, (slice(None), 7), raises=IndexError, text="7.*1.*3"),
            Bad(MATRIX, (0, 0, 0), raises=IndexError, text="2|too many"),
            Bad(MATRIX, slice(None, None, -1), raises=ValueError, text="step"),
            Bad(MATRIX, slice(None, None, 0), raises=ValueError, text="step"),
            Bad(MATRIX, 1.5, raises=IndexError, text="float"),
            Bad(MATRIX, "a", raises=(IndexError, TypeError), text="str"),
        ),
    ),
    Op(
        "getitem.advanced",
        getitem,
        subscripts(ADVANCED),
        path="Tensor.__getitem__",
        **COMMON,
        missing={"zero_dim": "see getitem"},
        bad=(
            Bad(MATRIX, indices(7), raises=IndexError, text="7.*0.*2"),
            Bad(MATRIX, indices(-9), raises=IndexError, text="-9.*0.*2"),
            Bad(MATRIX, (slice(None), indices(7)), raises=IndexError, text="7.*3"),
            Bad(MATRIX, mask(True, False, True), raises=IndexError, text="3"),
            Bad(MATRIX, (indices(0, 1), indices(0, 1, 2)), raises=IndexError, text="2.*3"),
            Bad(MATRIX, FLOATING_INDEX, raises=IndexError, text="long|int"),
        ),
    ),
    Op(
        "setitem",
        setitem,
        assignments,
        wrapper=assigned,
        path="Tensor.__setitem__",
        **COMMON,
        bad=(
            Bad(MATRIX, 7, 1.0, raises=IndexError, text="7.*0.*2"),
            Bad(MATRIX, indices(7), 1.0, raises=IndexError, text="7.*0.*2"),
            Bad(MATRIX, 0, floats(4), raises=RuntimeError, text="3.*4|4.*3"),
            Bad(MATRIX, 0, "a", raises=TypeError, text="str"),
            Bad(
                MATRIX,
                mask([True] * 3, [True] * 3),
                floats(2),
                raises=RuntimeError,
                text="2.*6|6.*2",
            ),
        ),
    ),
)

GATHERING = (
    Op(
        "gather",
        gather,
        gather_samples,
        method="gather",
        out=True,
        **COMMON,
        bad=(
            Bad(MATRIX, 0, indices([7]), raises=RuntimeError, text=OUT_OF_RANGE),
            Bad(MATRIX, 0, indices([-1]), raises=RuntimeError, text="-1.*dim.*0.*2"),
            Bad(MATRIX, 0, indices(0), raises=RuntimeError, text="dim"),
            Bad(MATRIX, 0, FLOATING_INDEX, raises=RuntimeError, text="int64"),
            Bad(MATRIX, 5, indices([0]), raises=IndexError, text="5"),
        ),
    ),
    Op(
        "scatter",
        scatter,
        scatter_samples,
        method="scatter",
        inplace="scatter_",
        out=True,
        **COMMON,
        bad=(
            Bad(MATRIX, 0, indices([7]), 1.0, raises=RuntimeError, text=OUT_OF_RANGE),
            Bad(
                MATRIX,
                0,
                indices([0, 1, 1, 1]),
                floats(1, 4),
                raises=RuntimeError,
                text="4|size|shape",
            ),
            Bad(MATRIX, 0, indices([0]), DOUBLES, raises=RuntimeError, text="dtype"),
            Bad(MATRIX, 0, indices([0]), 1.0, reduce="up", raises=RuntimeError, text="reduce"),
        ),
    ),
    Op(
        "scatter_add",
        scatter_add,
        scatter_add_samples,
        method="scatter_add",
        inplace="scatter_add_",
        out=True,
        dtypes=dt.NUMBERS,
        result="same",
        tolerance=SUMS,
        bad=(
            Bad(MATRIX, 0, indices([7]), floats(1, 1), raises=RuntimeError, text=OUT_OF_RANGE),
            Bad(MATRIX, 0, indices([0]), DOUBLES, raises=RuntimeError, text="dtype"),
        ),
    ),
    Op(
        "index_select",
        index_select,
        index_select_samples,
        method="index_select",
        out=True,
        **COMMON,
        bad=(
            Bad(MATRIX, 0, indices(7), raises=IndexError, text="index"),
            Bad(MATRIX, 0, indices(-1), raises=IndexError, text="index"),
            Bad(MATRIX, 0, indices([0]), raises=IndexError, text="vector|1-?D|dim"),
            Bad(MATRIX, 0, FLOATING_INDEX, raises=(RuntimeError, IndexError), text="int|vector"),
            Bad(MATRIX, 3, indices(0), raises=IndexError, text="3"),
        ),
    ),
    Op(
        "index_add",
        index_add,
        lines(False, kwargs=({}, {"alpha": 2})),
        method="index_add",
        inplace="index_add_",
        out=True,
        dtypes=dt.NUMBERS,
        result="same",
        tolerance=SUMS,
        missing={"zero_dim": "there are no lines to add to"},
        bad=(
            Bad(
                MATRIX,
                0,
                indices(7),
                floats(1, 3),
                raises=(RuntimeError, IndexError),
                text=OUT_OF_RANGE,
            ),
            Bad(MATRIX, 0, indices(0), floats(2, 3), raises=RuntimeError, text="1.*2|2.*1"),
            Bad(MATRIX, 0, indices(0), DOUBLES, raises=RuntimeError, text="type"),
        ),
    ),
    Op(
        "index_copy",
        index_copy,
        lines(True),
        method="index_copy",
        inplace="index_copy_",
        out=True,
        **COMMON,
        missing={"zero_dim": "there are no lines to copy to"},
        bad=(
            Bad(MATRIX, 0, indices(7), floats(1, 3), raises=IndexError, text=OUT_OF_RANGE),
            Bad(MATRIX, 0, indices(0), floats(2, 3), raises=IndexError, text="1.*2|2.*1"),
            Bad(MATRIX, 0, indices(0), DOUBLES, raises=RuntimeError, text="type"),
        ),
    ),
    Op(
        "index_put",
        index_put,
        index_put_samples,
        method="index_put",
        inplace="index_put_",
        dtypes=dt.NUMBERS,
        result="same",
        tolerance=SUMS,
        missing={"zero_dim": "there is no dimension to index"},
        bad=(
            Bad(MATRIX, (indices(7),), floats(), raises=IndexError, text=OUT_OF_RANGE),
            Bad(MATRIX, (indices(0),) * 3, floats(), raises=IndexError, text="2|too many"),
            Bad(MATRIX, (indices(0),), floats(5), raises=RuntimeError, text="5"),
            Bad(MATRIX, (indices(0),), DOUBLES, raises=RuntimeError, text="type"),
        ),
    ),
    Op(
        "index_fill",
        index_fill,
        index_fill_samples,
        method="index_fill",
        inplace="index_fill_",
        **COMMON,
        bad=(
            Bad(MATRIX, 0, indices(7), 1.0, raises=IndexError, text=OUT_OF_RANGE),
            Bad(MATRIX, 3, indices(0), 1.0, raises=IndexError, text="3"),
            Bad(MATRIX, 0, FLOATING_INDEX, 1.0, raises=IndexError, text="int64|vector"),
            Bad(MATRIX, 0, indices(0), floats(2), raises=RuntimeError, text="0-dim"),
        ),
    ),
    Op(
        "put",
        put,
        put_samples,
        method="put",
        inplace="put_",
        dtypes=dt.NUMBERS,
        result="same",
        tolerance=SUMS,
        bad=(
            Bad(MATRIX, indices(7), floats(1), raises=IndexError, text="7.*6"),
            Bad(MATRIX, indices(0), floats(2), raises=IndexError, text="number of elements"),
            Bad(MATRIX, indices(0), DOUBLES, raises=(RuntimeError, IndexError), text="type|number"),
            Bad(MATRIX, FLOATING_INDEX, floats(1), raises=RuntimeError, text="long|int"),
        ),
    ),
    *(
        Op(
            name,
            scatter_reduce,
            scatter_reduce_samples(*reductions),
            path="scatter_reduce",
            method="scatter_reduce",
            inplace="scatter_reduce_",
            out=True,
            dtypes=dt.NUMBERS,
            result="same",
            tolerance=SUMS,
            gradient_order=order,
            bad=(
                Bad(
                    MATRIX,
                    0,
                    indices([7]),
                    floats(1, 1),
                    reductions[0],
                    raises=RuntimeError,
                    text=OUT_OF_RANGE,
                ),
                Bad(MATRIX, 0, indices([0]), floats(1, 1), "up", raises=RuntimeError, text="up"),
                Bad(MATRIX, 0, indices([0]), DOUBLES, "sum", raises=RuntimeError, text="dtype"),
            ),
        )
        for name, reductions, order in (
            ("scatter_reduce", ("sum", "mean", "amax", "amin"), 2),
            ("scatter_reduce.prod", ("prod",), 1),
        )
    ),
    Op(
        "take",
        np.take,
        take_samples,
        method="take",
        out=True,
        **COMMON,
        bad=(
            Bad(MATRIX, indices(7), raises=IndexError, text="7.*6"),
            Bad(MATRIX, indices(-7), raises=IndexError, text="-7.*6"),
            Bad(MATRIX, FLOATING_INDEX, raises=RuntimeError, text="long|int"),
        ),
    ),
    Op(
        "take_along_dim",
        take_along_dim,
        take_along_dim_samples,
        method="take_along_dim",
        out=True,
        skips=(Skip("test_noncontiguous", "PyTorch refuses strided input", library="torch"),),
        missing={"zero_dim": "there is no dimension to take along"},
        **COMMON,
        bad=(
            Bad(MATRIX, indices(0), 0, raises=RuntimeError, text="dim"),
            Bad(MATRIX, FLOATING_INDEX, 0, raises=RuntimeError, text="int|long|dtype"),
        ),
    ),
)

MASKING = (
    Op(
        "masked_select",
        masked_select,
        masked_select_samples,
        method="masked_select",
        out=True,
        **COMMON,
        bad=(
            Bad(MATRIX, MATRIX, raises=RuntimeError, text="bool"),
            Bad(MATRIX, mask(True, True, True, True), raises=RuntimeError, text="4.*3|3.*4"),
        ),
    ),
    Op(
        "masked_scatter",
        masked_scatter,
        masked_scatter_samples,
        method="masked_scatter",
        path="Tensor.masked_scatter",
        inplace="masked_scatter_",
        **COMMON,
        bad=(
            Bad(
                MATRIX,
                mask([True] * 3, [True] * 3),
                floats(2),
                raises=RuntimeError,
                text="source|element",
            ),
            Bad(MATRIX, MATRIX, floats(6), raises=RuntimeError, text="bool"),
            Bad(MATRIX, mask([True]), DOUBLES, raises=RuntimeError, text="type"),
        ),
    ),
    Op(
        "nonzero",
        nonzero,
        nonzero_samples(),
        method="nonzero",
        dtypes=dt.ALL,
        result="int64",
        gradient_order=0,
        out=True,
        bad=(Bad("a", raises=TypeError, text="str|Tensor"),),
    ),
    Op(
        "nonzero.tuple",
        nonzero,
        nonzero_samples(as_tuple=True),
        path="nonzero",
        method="nonzero",
        dtypes=dt.ALL,
        result="int64",
        gradient_order=0,
    ),
    Op(
        "where.one",
        lambda x: nonzero(x, as_tuple=True),
        nonzero_samples(),
        path="where",
        dtypes=dt.ALL,
        result="int64",
        gradient_order=0,
    ),
)

ROWS = SUBSCRIPTS + GATHERING + MASKING
