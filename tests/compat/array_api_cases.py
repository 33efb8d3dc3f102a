"""Calls of every function of the array API standard, drawn by hypothesis, as data.

`CASES` maps a function's name to a strategy of ``(args, kwargs)``, in which arrays are NumPy's and
dtypes are instances of `DType`; a test converts them to the namespace at hand.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
REALS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
FLOATS = REALS + COMPLEX
REAL_NUMERIC = INTEGERS + REALS
NUMERIC = REAL_NUMERIC + COMPLEX
BOOL = ("bool",)
ALL = NUMERIC + BOOL


class DType(NamedTuple):
    """A dtype by its name."""

    name: str


def elements(dtype, special=True, low=-6, high=6):
    """Return a strategy of the elements of arrays of a dtype."""
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        return st.integers(max(low, 0) if dtype == "uint8" else low, high)
    width = 32 if dtype in ("float32", "complex64") else 64
    real = st.integers(low * 8, high * 8).map(lambda each: each / 8)
    if special:
        real |= st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 1e-30])
    if dtype in REALS:
        return real.map(np.float32 if width == 32 else np.float64)
    return st.builds(complex, real, real)


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
filled = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)


@st.composite
def arrays(draw, dtypes, shape=shapes, **limits):
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(shape) if isinstance(shape, st.SearchStrategy) else shape
    return draw(hnp.arrays(dtype, shape, elements=elements(dtype, **limits)))


def args(*strategies, **kwargs):
    """Return a strategy of calls from those of their arguments."""
    return st.tuples(st.tuples(*strategies), st.fixed_dictionaries({}, optional=kwargs))


@st.composite
def pairs(draw, dtypes, same=False, scalars=True, special=True):
    """Two arrays that broadcast and promote, or an array and a number."""
    kinds = [set(BOOL), set(INTEGERS), set(REALS + COMPLEX)]
    first = draw(st.sampled_from(dtypes))
    kind = next(each for each in kinds if first in each)
    second = first if same else draw(st.sampled_from([each for each in dtypes if each in kind]))
    shape = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    x1, x2 = (
        draw(hnp.arrays(d, s, elements=elements(d, special)))
        for d, s in zip((first, second), shape.input_shapes, strict=True)
    )
    if scalars and draw(st.integers(0, 5)) == 0:
        number = draw(elements("float64" if first in FLOATS else first, special))
        number = (
            bool(number) if first == "bool" else float(number) if first in FLOATS else int(number)
        )
        return ((x1, number) if draw(st.booleans()) else (number, x1)), {}
    return (x1, x2), {}


@st.composite
def with_axis(
    draw, dtypes, shape=filled, keepdims=True, several=True, none=True, special=True, **more
):
    """An array, an axis of it or several, and whether they are kept."""
    x = draw(arrays(dtypes, shape, special=special))
    kwargs = {name: draw(each) for name, each in more.items() if draw(st.booleans())}
    choices = [st.integers(-x.ndim, x.ndim - 1)] if x.ndim else []
    if none:
        choices.append(st.none())
    if several and x.ndim:
        choices.append(hnp.valid_tuple_axes(x.ndim))
    if choices and draw(st.booleans()):
        kwargs["axis"] = draw(st.one_of(choices))
    elif not none and x.ndim:
        kwargs["axis"] = draw(choices[0])
    if keepdims and draw(st.booleans()):
        kwargs["keepdims"] = draw(st.booleans())
    return (x,), kwargs


@st.composite
def cumulative(draw):
    (x,), kwargs = draw(with_axis(REAL_NUMERIC, keepdims=False, several=False, none=False))
    if draw(st.booleans()):
        kwargs["include_initial"] = draw(st.booleans())
    return (x,), kwargs


@st.composite
def creation(draw, fill=None, like=False):
    dtype = draw(st.sampled_from(NUMERIC))
    first = draw(arrays(ALL)) if like else draw(shapes)
    rest = (draw(elements("int8", low=0)),) if fill else ()
    kwargs = {"dtype": DType(dtype)} if draw(st.booleans()) else {}
    return (first, *rest), kwargs


@st.composite
def matrices(draw, dtypes=FLOATS, square=True, kind=""):
    """Matrices that are well conditioned, in batches."""
    dtype = draw(st.sampled_from(dtypes))
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2))
    rows = draw(st.integers(1, 4))
    columns = rows if square else draw(st.integers(1, 4))
    seed = np.random.default_rng(draw(st.integers(0, 999)))
    x = seed.standard_normal((*batch, rows, columns))
    if dtype in COMPLEX:
        x = x + 1j * seed.standard_normal(x.shape)
    if square:
        x = x + 3 * rows * np.eye(rows) if kind != "hermitian" else x + x.conj().swapaxes(-1, -2)
    if kind == "definite":
        x = x @ x.conj().swapaxes(-1, -2)
    return x.astype(dtype)


@st.composite
def products(draw, dtypes=NUMERIC):
    n, k, m = (draw(st.integers(1, 3)) for _ in range(3))
    dtype = draw(st.sampled_from(dtypes))
    batch = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=1, max_side=2))
    left, right = (*batch.input_shapes[0], n, k), (*batch.input_shapes[1], k, m)
    left, right = draw(st.sampled_from([(left, right), ((k,), right), (left, (k,)), ((k,), (k,))]))
    return tuple(draw(arrays((dtype,), s, special=False)) for s in (left, right)), {}


@st.composite
def vectors(draw, size=None):
    dtype = draw(st.sampled_from(NUMERIC))
    size = size or draw(st.integers(1, 4))
    shape = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    x1, x2 = (draw(arrays((dtype,), (*s, size), special=False)) for s in shape.input_shapes)
    return (x1, x2), draw(st.sampled_from([{}, {"axis": -1}]))


@st.composite
def dotted(draw):
    dtype = draw(st.sampled_from(NUMERIC))
    x1 = draw(arrays((dtype,), filled, special=False))
    count = draw(st.integers(0, x1.ndim))
    extra = draw(hnp.array_shapes(min_dims=0, max_dims=1, max_side=3))
    x2 = draw(arrays((dtype,), (*x1.shape[x1.ndim - count :], *extra), special=False))
    if draw(st.booleans()):
        return (x1, x2), {"axes": count}
    return (x1, x2), {"axes": (list(range(x1.ndim - count, x1.ndim)), list(range(count)))}


@st.composite
def solved(draw):
    x1 = draw(matrices())
    rows = x1.shape[-1]
    shapes = [(rows,), (rows, 2), (*x1.shape[:-1], 2)]
    x2 = draw(arrays((x1.dtype.name,), draw(st.sampled_from(shapes)), special=False))
    return (x1, x2), {}


@st.composite
def shaped(draw, make):
    """A call whose other arguments depend on the array."""
    x = draw(arrays(ALL, filled))
    return make(draw, x)


def _axis(draw, x):
    return draw(st.integers(-x.ndim, x.ndim - 1))


def _axes_in_order(draw, x):
    return tuple(draw(st.permutations(range(x.ndim))))


def _reshape(draw, x):
    order = draw(st.sampled_from([x.shape[::-1], (-1,), (x.size, 1), (1, *x.shape)]))
    return (x, order), draw(st.sampled_from([{}, {"copy": True}, {"copy": None}]))


def _roll(draw, x):
    if draw(st.booleans()):
        return (x, draw(st.integers(-4, 4))), draw(st.sampled_from([{}, {"axis": -1}]))
    axes = tuple(range(x.ndim))
    return (x, draw(st.integers(-3, 3)) if x.ndim == 1 else tuple(axes)), {
        "axis": axes if x.ndim > 1 else 0
    }


def _take(draw, x):
    axis = _axis(draw, x)
    size = x.shape[axis]
    index = draw(
        hnp.arrays("int64", draw(st.integers(0, 4)), elements=st.integers(-size, size - 1))
    )
    return (x, index), {"axis": axis}


def _take_along(draw, x):
    axis = _axis(draw, x)
    size = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = draw(st.integers(1, 4))
    return (x, draw(hnp.arrays("int64", shape, elements=st.integers(-size, size - 1)))), {
        "axis": axis
    }


def _repeat(draw, x):
    return (x, draw(st.integers(0, 3))), draw(st.sampled_from([{}, {"axis": _axis(draw, x)}]))


def _squeeze(draw, x):
    axis = draw(st.integers(0, x.ndim))
    return (np.expand_dims(x, axis), axis), {}


def _joined(draw, x, new=False):
    others = [draw(arrays((x.dtype.name,), x.shape)) for _ in range(draw(st.integers(0, 2)))]
    axis = draw(st.integers(-x.ndim - new, x.ndim - 1 + new))
    choices = [{}, {"axis": axis}] + ([] if new else [{"axis": None}])
    return ([x, *others],), draw(st.sampled_from(choices))


@st.composite
def clipped(draw):
    x = draw(arrays(REAL_NUMERIC))
    number = elements(x.dtype.name, special=False).map(float if x.dtype.kind == "f" else int)
    low, high = draw(st.none() | number), draw(st.none() | number)
    if low is not None and high is not None and low > high:
        low, high = high, low
    return (x, low, high), {}


@st.composite
def searched(draw):
    dtype = draw(st.sampled_from(REAL_NUMERIC))
    x1 = np.sort(draw(arrays((dtype,), st.tuples(st.integers(1, 6)), special=False)))
    x2 = draw(arrays((dtype,), special=False))
    kwargs = {"side": draw(st.sampled_from(["left", "right"]))} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        kwargs["sorter"] = np.arange(len(x1))[::-1].copy()
        x1 = x1[::-1].copy()
    return (x1, x2), kwargs


@st.composite
def chosen(draw):
    (x1, x2), _ = draw(pairs(ALL, scalars=False))
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    return (draw(hnp.arrays("bool", shape)), x1, x2), {}


@st.composite
def differences(draw):
    (x,), kwargs = draw(with_axis(REAL_NUMERIC, keepdims=False, several=False, none=False))
    if draw(st.booleans()):
        kwargs["n"] = draw(st.integers(0, 2))
    if draw(st.booleans()):
        kwargs["prepend"] = x.copy()
    return (x,), kwargs


@st.composite
def transforms(draw, dtypes, many=False, least=1, single="n"):
    x = draw(
        arrays(
            dtypes,
            hnp.array_shapes(min_dims=1, max_dims=3, min_side=least, max_side=5),
            special=False,
        )
    )
    kwargs = (
        {"norm": draw(st.sampled_from(["backward", "ortho", "forward"]))}
        if draw(st.booleans())
        else {}
    )
    axis = _axis(draw, x)
    if draw(st.booleans()):
        kwargs |= {"axes": (axis,)} if many else {"axis": axis}
        if draw(st.booleans()):
            size = draw(st.integers(least, 6))
            kwargs |= {"s": (size,)} if many else {"n": size}
    return (x,), kwargs


@st.composite
def quotients(draw, powers=False):
    (x1, x2), _ = draw(pairs(REAL_NUMERIC, scalars=False))
    if x2.dtype.kind in "iu":  # a division by zero, or a power below zero, is nobody's rule
        x2 = np.asarray(abs(x2) if powers else np.where(x2 == 0, 1, x2), dtype=x2.dtype)
    return (x1, x2), {}


@st.composite
def shifts(draw):
    (x1, x2), _ = draw(pairs(INTEGERS, same=True, scalars=False))
    return (x1, np.asarray(abs(x2))), {}


@st.composite
def ranges(draw):
    number = draw(st.sampled_from([st.integers(-9, 9), st.integers(-36, 36).map(lambda n: n / 4)]))
    given = draw(st.lists(number, min_size=1, max_size=3))
    if len(given) == 3 and given[2] == 0:
        given[2] = 1
    return tuple(given), {}


@st.composite
def intervals(draw):
    numbers = st.integers(-9, 9) | st.floats(-9, 9, width=16)
    kwargs = {"endpoint": draw(st.booleans())} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        kwargs["dtype"] = DType(draw(st.sampled_from(REALS)))
    return (draw(numbers), draw(numbers), draw(st.integers(0, 6))), kwargs


@st.composite
def grids(draw):
    dtype = draw(st.sampled_from(NUMERIC))
    given = [
        draw(arrays((dtype,), (draw(st.integers(0, 3)),))) for _ in range(draw(st.integers(1, 3)))
    ]
    return tuple(given), draw(st.sampled_from([{}, {"indexing": "ij"}, {"indexing": "xy"}]))


@st.composite
def casts(draw):
    x = draw(arrays(ALL, special=False, low=0))
    allowed = COMPLEX if x.dtype.kind == "c" else ALL
    return (x, DType(draw(st.sampled_from(allowed)))), draw(st.sampled_from([{}, {"copy": True}]))


@st.composite
def broadcasts(draw, one=False):
    shape = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    given = [draw(arrays(ALL, s)) for s in shape.input_shapes]
    return ((given[0], shape.result_shape) if one else tuple(given)), {}


dtypes = st.sampled_from(ALL).map(DType)
kinds = st.sampled_from(
    [
        *("bool", "signed integer", "unsigned integer", "integral", "real floating"),
        *("complex floating", "numeric", DType("float32")),
        *(("bool", "integral"), (DType("int8"), "complex floating")),
    ]
)
unit = st.integers(-3, 3)


def _on(dtypes, names, make, **limits):
    return {name: make(dtypes, **limits) for name in names.split()}


def _one(dtypes):
    return args(arrays(dtypes))


def _whole(dtypes):
    # Products of infinities are found in another order by another library.
    return args(arrays(dtypes, special=False))


_MAIN = {
    **_on(NUMERIC, "abs negative positive square round isfinite isinf isnan", _one),
    **_on(NUMERIC, "reciprocal sign conj", _whole),
    **_on(REAL_NUMERIC, "ceil floor trunc", _one),
    **_on(FLOATS, "reciprocal sqrt exp log cos sin tan tanh cosh sinh", _whole),
    **_on(FLOATS, "acos acosh asin asinh atan atanh expm1 log10 log1p log2", _whole),
    **_on(INTEGERS + BOOL, "bitwise_invert", _one),
    **_on(COMPLEX, "imag real", _one),
    **_on(REALS, "signbit", _one),
    **_on(BOOL, "logical_not", _one),
    **_on(NUMERIC, "add subtract", pairs),
    **_on(NUMERIC, "multiply", pairs, special=False),
    **_on(FLOATS, "divide", pairs, special=False),
    **_on(REALS, "atan2 copysign hypot logaddexp", pairs),
    **_on(REALS, "nextafter", pairs, same=True, scalars=False),
    **_on(INTEGERS + BOOL, "bitwise_and bitwise_or bitwise_xor", pairs),
    **_on(ALL, "equal not_equal", pairs),
    **_on(REAL_NUMERIC, "greater greater_equal less less_equal maximum minimum", pairs),
    **_on(BOOL, "logical_and logical_or logical_xor", pairs),
    "floor_divide": quotients(),
    "remainder": quotients(),
    "pow": quotients(powers=True),
    "bitwise_left_shift": shifts(),
    "bitwise_right_shift": shifts(),
    "clip": clipped(),
    "arange": ranges(),
    "linspace": intervals(),
    "meshgrid": grids(),
    "asarray": args(arrays(ALL), copy=st.booleans()),
    "eye": args(st.integers(0, 4), st.integers(0, 4) | st.none(), k=unit, dtype=dtypes),
    "empty": creation(),
    "zeros": creation(),
    "ones": creation(),
    "full": creation(fill=True),
    "empty_like": creation(like=True),
    "zeros_like": creation(like=True),
    "ones_like": creation(like=True),
    "full_like": creation(like=True, fill=True),
    "tril": args(matrices(NUMERIC, square=False), k=unit),
    "triu": args(matrices(NUMERIC, square=False), k=unit),
    "astype": casts(),
    "can_cast": args(dtypes, dtypes),
    "isdtype": args(dtypes, kinds),
    "finfo": args(st.sampled_from(FLOATS).map(DType)),
    "iinfo": args(st.sampled_from(INTEGERS).map(DType)),
    "result_type": pairs(NUMERIC),
    "broadcast_arrays": broadcasts(),
    "broadcast_to": broadcasts(one=True),
    "matmul": products(),
    "matrix_transpose": args(matrices(NUMERIC, square=False)),
    "tensordot": dotted(),
    "vecdot": vectors(),
    "concat": shaped(_joined),
    "stack": shaped(lambda draw, x: _joined(draw, x, new=True)),
    "unstack": shaped(lambda draw, x: ((x,), {"axis": _axis(draw, x)})),
    "expand_dims": shaped(lambda draw, x: ((x, draw(st.integers(-x.ndim - 1, x.ndim))), {})),
    "squeeze": shaped(_squeeze),
    "flip": with_axis(ALL, keepdims=False),
    "moveaxis": shaped(lambda draw, x: ((x, _axis(draw, x), _axis(draw, x)), {})),
    "permute_dims": shaped(lambda draw, x: ((x, _axes_in_order(draw, x)), {})),
    "repeat": shaped(_repeat),
    "reshape": shaped(_reshape),
    "roll": shaped(_roll),
    "tile": args(arrays(ALL), st.lists(st.integers(0, 2), min_size=0, max_size=4).map(tuple)),
    "take": shaped(_take),
    "take_along_axis": shaped(_take_along),
    "argmax": with_axis(REAL_NUMERIC, several=False),
    "argmin": with_axis(REAL_NUMERIC, several=False),
    "count_nonzero": with_axis(ALL, shape=shapes),
    "nonzero": args(arrays(ALL, filled)),
    "searchsorted": searched(),
    "where": chosen(),
    "unique_all": args(arrays(REAL_NUMERIC)),
    "unique_counts": args(arrays(REAL_NUMERIC)),
    "unique_inverse": args(arrays(REAL_NUMERIC)),
    "unique_values": args(arrays(REAL_NUMERIC)),
    "sort": with_axis(
        REAL_NUMERIC, keepdims=False, several=False, none=False, descending=st.booleans()
    ),
    "argsort": with_axis(
        REAL_NUMERIC, keepdims=False, several=False, none=False, descending=st.booleans()
    ),
    "cumulative_sum": cumulative(),
    "cumulative_prod": cumulative(),
    "max": with_axis(REAL_NUMERIC),
    "min": with_axis(REAL_NUMERIC),
    "sum": with_axis(NUMERIC, shape=shapes),
    "prod": with_axis(NUMERIC, shape=shapes, special=False),
    "mean": with_axis(REALS),
    "std": with_axis(REALS, correction=st.sampled_from([0, 1, 0.5])),
    "var": with_axis(REALS, correction=st.sampled_from([0, 1, 0.5])),
    "all": with_axis(ALL, shape=shapes),
    "any": with_axis(ALL, shape=shapes),
    "diff": differences(),
}

_LINALG = {
    "cholesky": args(matrices(kind="definite"), upper=st.booleans()),
    "cross": vectors(size=3),
    "det": args(matrices()),
    "diagonal": args(matrices(NUMERIC, square=False), offset=unit),
    "eigh": args(matrices(kind="hermitian")),
    "eigvalsh": args(matrices(kind="hermitian")),
    "inv": args(matrices()),
    "matmul": products(),
    "matrix_norm": args(
        matrices(square=False),
        keepdims=st.booleans(),
        ord=st.sampled_from([-np.inf, np.inf, 1, -1, 2, -2, "fro", "nuc"]),
    ),
    "matrix_power": args(matrices(), st.integers(-2, 3)),
    "matrix_rank": args(matrices(square=False)),
    "matrix_transpose": args(matrices(NUMERIC, square=False)),
    "outer": st.tuples(
        st.sampled_from(NUMERIC).flatmap(
            lambda dtype: st.tuples(
                *[arrays((dtype,), st.tuples(st.integers(0, 3)), special=False)] * 2
            )
        ),
        st.just({}),
    ),
    "pinv": args(matrices(square=False), rtol=st.sampled_from([1e-3, 1e-2])),
    "qr": args(matrices(square=False), mode=st.sampled_from(["reduced", "complete"])),
    "slogdet": args(matrices()),
    "solve": solved(),
    "svd": args(matrices(square=False), full_matrices=st.booleans()),
    "svdvals": args(matrices(square=False)),
    "tensordot": dotted(),
    "trace": args(matrices(NUMERIC, square=False), offset=unit),
    "vecdot": vectors(),
    "vector_norm": with_axis(
        FLOATS, special=False, ord=st.sampled_from([np.inf, -np.inf, 0, 1, 2, 3, -1, 0.5])
    ),
}

_HALF = st.integers(1, 8)
_FFT = {
    **{name: transforms(COMPLEX) for name in ("fft", "ifft")},
    **{name: transforms(COMPLEX, many=True) for name in ("fftn", "ifftn")},
    **{name: transforms(REALS) for name in ("rfft", "ihfft")},
    **{name: transforms(COMPLEX, least=2) for name in ("irfft", "hfft")},
    "rfftn": transforms(REALS, many=True),
    "irfftn": transforms(COMPLEX, many=True, least=2),
    "fftfreq": args(_HALF, d=st.sampled_from([0.5, 2.0]), dtype=st.sampled_from(REALS).map(DType)),
    "rfftfreq": args(_HALF, d=st.sampled_from([0.5, 2.0]), dtype=st.sampled_from(REALS).map(DType)),
    "fftshift": args(arrays(FLOATS, filled), axes=st.just(-1)),
    "ifftshift": args(arrays(FLOATS, filled), axes=st.just(0)),
}

CASES = {
    **_MAIN,
    **{f"linalg.{name}": case for name, case in _LINALG.items()},
    **{f"fft.{name}": case for name, case in _FFT.items()},
}
