"""Rows of the ops that change shape, layout or dtype: views, joins, copies and casts."""

import dtypes as dt
import numpy as np

from op_db.row import Bad, Dtype, Op, Sample, Skip, Tolerance
from op_db.sampler import Sampler

MATRIX = Sampler("float32").value((2, 3))
CUBE = Sampler("float32").value((2, 3, 4))
VECTOR = Sampler("float32").value((3,))
EXACT = Tolerance(relative=0, half=0)
NO_SCALAR = {"zero_dim": "a 0-d tensor has no dimension to take apart"}

NEEDS_STRIDES = (Skip("test_noncontiguous", "its meaning depends on the strides of its argument"),)


def calls(*cases):
    """Return a sample generator from ``(shape, positional arguments, keyword arguments)`` cases."""

    def samples(sampler):
        for shape, args, kwargs in cases:
            if not (sampler.gradient and 0 in shape):
                yield Sample(
                    sampler.distinct(shape) if cases_fit(sampler, shape) else sampler.value(shape),
                    *args,
                    **kwargs,
                )

    return samples


def cases_fit(sampler, shape):
    """Whether a dtype holds enough values for every element of a shape to differ."""
    return sampler.dtype != "bool" and int(np.prod(shape)) < 100


def case(shape, *args, **kwargs):
    return shape, args, kwargs


def row(name, reference, *cases, **fields):
    """Return the row of an op that only moves elements: every dtype, exact, any gradient order."""
    fields = {"dtypes": dt.ALL, "result": "same", "tolerance": EXACT, "method": name, **fields}
    return Op(name, reference, calls(*cases), **fields)


def out_of_range(*args, dim, value=MATRIX, **kwargs):
    text = rf"dim.*{dim}|{dim}.*dim"
    return Bad(value, *args, raises=IndexError, text=text, **kwargs)


def sizes(arguments):
    """Accept both ``f(2, 3)`` and ``f((2, 3))``."""
    single = len(arguments) == 1 and isinstance(arguments[0], tuple | list)
    return tuple(arguments[0]) if single else tuple(arguments)


def flatten(x, start_dim=0, end_dim=-1):
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape(
        (*x.shape[:start], int(np.prod(x.shape[start : end + 1])), *x.shape[end + 1 :])
    )


def squeeze(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = [d % max(x.ndim, 1) for d in (dim if isinstance(dim, tuple) else (dim,))]
    kept = [size for d, size in enumerate(x.shape) if not (d in dims and size == 1)]
    return x.reshape(kept)


def expand(x, *shape):
    shape = sizes(shape)
    lead = len(shape) - x.ndim
    resolved = [x.shape[i - lead] if size == -1 else size for i, size in enumerate(shape)]
    return np.broadcast_to(x, resolved)


def narrow(x, dim, start, length):
    start = start % x.shape[dim] if start < 0 else start
    return np.take(x, np.arange(start, start + length), axis=dim)


def unfold(x, dimension, size, step):
    if x.ndim == 0:
        return x.reshape(1)[:size]
    starts = range(0, x.shape[dimension] - size + 1, step)
    windows = [
        np.moveaxis(np.take(x, np.arange(s, s + size), axis=dimension), dimension, -1)
        for s in starts
    ]
    return np.stack(windows, axis=dimension % x.ndim)


def as_strided(x, size, stride, storage_offset=0):
    flat = x.reshape(-1)
    index = np.full(size, storage_offset)
    for axis, step in enumerate(stride):
        shape = [1] * len(size)
        shape[axis] = size[axis]
        index = index + (np.arange(size[axis]) * step).reshape(shape)
    return flat[index]


def split(x, split_size_or_sections, dim=0):
    size, length = split_size_or_sections, x.shape[dim]
    if isinstance(size, list | tuple):
        return tuple(np.split(x, np.cumsum(size)[:-1], axis=dim))
    return tuple(
        narrow(x, dim, start, min(size, length - start))
        for start in range(0, max(length, 1), max(size, 1))
    )


def chunk(x, chunks, dim=0):
    return split(x, max(-(-x.shape[dim] // chunks), 1), dim)


def unbind(x, dim=0):
    return tuple(np.take(x, i, axis=dim) for i in range(x.shape[dim]))


def repeat(x, *counts):
    return np.tile(x.reshape((1,) * (len(sizes(counts)) - x.ndim) + x.shape), sizes(counts))


def roll(x, shifts, dims=None):
    return np.roll(x, shifts, dims)


def move_to_end(x, source, destination):
    return np.moveaxis(x, source, destination)


RESHAPING = (
    row(
        "view",
        lambda x, *shape: x.reshape(sizes(shape)),
        case((2, 3), 3, 2),
        case((2, 3), (6,)),
        case((2, 3), -1),
        case((), 1, 1),
        case((1,), ()),
        case((0, 3), 3, 0),
        case((2, 6), 2, -1, 3),
        path="Tensor.view",
        method=None,
        view=True,
        skips=NEEDS_STRIDES,
        bad=(
            Bad(MATRIX, 4, 2, raises=RuntimeError, text="6"),
            Bad(MATRIX, -1, -1, raises=RuntimeError, text="-1|infer"),
            Bad(MATRIX, -1, 4, raises=RuntimeError, text="6|4"),
            Bad(MATRIX, -2, 3, raises=RuntimeError, text="-2|negative"),
            Bad(MATRIX, "wide", raises=TypeError, text="str|view"),
        ),
    ),
    row(
        "reshape",
        lambda x, shape: x.reshape(shape),
        case((2, 3), (3, 2)),
        case((2, 3), (-1,)),
        case((), (1, 1)),
        case((1,), ()),
        case((0, 3), (3, 0)),
        case((2, 6), (2, -1, 3)),
        view=None,
        bad=(
            Bad(MATRIX, (4, 2), raises=RuntimeError, text="6"),
            Bad(MATRIX, (-1, -1), raises=RuntimeError, text="-1|infer"),
            Bad(MATRIX, (-2, 3), raises=RuntimeError, text="-2|negative"),
        ),
    ),
    row(
        "flatten",
        flatten,
        case((2, 3, 4)),
        case((2, 3, 4), 1),
        case((2, 3, 4), 0, 1),
        case(()),
        case((0, 3)),
        case((2, 3, 4), start_dim=-2),
        view=None,
        bad=(
            out_of_range(5, dim=5),
            Bad(CUBE, 2, 1, raises=RuntimeError, text="start_dim.*end_dim"),
        ),
    ),
    row(
        "squeeze",
        squeeze,
        case((1, 3, 1)),
        case((1, 3, 1), 0),
        case((1, 3, 1), 1),
        case(()),
        case((1, 3, 1), (0, -1)),
        case((1, 0)),
        case((), 0),
        view=True,
        bad=(out_of_range(5, dim=5),),
    ),
    row(
        "unsqueeze",
        lambda x, dim: np.expand_dims(x, dim),
        case((2, 3), 0),
        case((2, 3), -1),
        case((2, 3), 1),
        case((), 0),
        case((0,), 1),
        view=True,
        bad=(out_of_range(4, dim=4),),
    ),
    row(
        "transpose",
        np.swapaxes,
        case((2, 3), 0, 1),
        case((2, 3, 4), 0, -1),
        case((0, 3), 0, 1),
        case((2, 3, 4), 1, 1),
        view=True,
        missing=NO_SCALAR,
        bad=(out_of_range(0, 2, dim=2),),
    ),
    row(
        "t",
        np.transpose,
        case((2, 3)),
        case((3,)),
        case(()),
        case((0, 3)),
        view=True,
        bad=(Bad(CUBE, raises=RuntimeError, text="2.*3"),),
    ),
    row(
        "adjoint",
        lambda x: np.swapaxes(x, -2, -1),
        case((2, 3)),
        case((2, 3, 4)),
        case((0, 3)),
        view=True,
        missing=NO_SCALAR,
        bad=(Bad(VECTOR, raises=RuntimeError, text="matri"),),
    ),
    row(
        "permute",
        np.transpose,
        case((2, 3, 4), (2, 0, 1)),
        case((2, 3), (-1, 0)),
        case((), ()),
        case((0, 3), (1, 0)),
        view=True,
        bad=(
            out_of_range((0, 5), dim=5),
            Bad(CUBE, (0, 1), raises=RuntimeError, text="3"),
            Bad(MATRIX, (0, 0), raises=RuntimeError, text="dup|twice|repeat|unique|0"),
        ),
    ),
    row(
        "movedim",
        move_to_end,
        case((2, 3, 4), 0, 2),
        case((2, 3, 4), (0, 1), (-1, 0)),
        case((0, 3), 0, 1),
        view=True,
        missing=NO_SCALAR,
        bad=(
            out_of_range(0, 5, dim=5),
            Bad(CUBE, (0, 1), (0,), raises=RuntimeError, text="source.*destination|same number"),
            Bad(CUBE, (0, 0), (0, 1), raises=RuntimeError, text="dim|repeat"),
        ),
    ),
)


def reshaped_in_place(name):
    """Return a wrapper that changes the shape of a copy by an in-place method."""

    def wrapper(library):
        def reshape(x, *args):
            copy = x.clone()
            answer = getattr(copy, name)(*args)
            assert answer is copy
            return answer

        return reshape

    return wrapper


def in_place(name, reference, *cases, **fields):
    wrapper = reshaped_in_place(name)
    fields = {"path": f"Tensor.{name}", "wrapper": wrapper, "method": None, **fields}
    return row(name, reference, *cases, **fields)


def resized(library):
    def resize(x, *size):
        return x.detach().contiguous().clone().resize_(*size)

    return resize


def resized_as(library):
    def resize_as(x, *size):
        template = library.empty(size[0] if isinstance(size[0], tuple) else size)
        return x.detach().contiguous().clone().resize_as_(template)

    return resize_as


def set_to(library):
    def set_(x):
        return library.empty(0, dtype=x.dtype).set_(x)

    return set_


IN_PLACE = (
    in_place(
        "squeeze_",
        squeeze,
        case((1, 3, 1)),
        case((1, 3, 1), 0),
        case((1, 3, 1), (0, -1)),
        case(()),
        case((1, 0)),
        bad=(out_of_range(5, dim=5),),
    ),
    in_place(
        "unsqueeze_",
        lambda x, dim: np.expand_dims(x, dim),
        case((2, 3), 1),
        case((2, 3), -1),
        case((), 0),
        case((0,), 1),
        bad=(out_of_range(4, dim=4),),
    ),
    in_place(
        "transpose_",
        np.swapaxes,
        case((2, 3), 0, 1),
        case((2, 3, 4), 0, -1),
        case((0, 3), 0, 1),
        missing=NO_SCALAR,
        bad=(out_of_range(0, 2, dim=2),),
    ),
    in_place(
        "t_",
        np.transpose,
        case((2, 3)),
        case((3,)),
        case(()),
        case((0, 3)),
        bad=(Bad(CUBE, raises=RuntimeError, text="2.*3"),),
    ),
    in_place(
        "resize_",
        lambda x, *shape: x.reshape(-1)[: np.prod(sizes(shape), dtype=int)].reshape(sizes(shape)),
        case((2, 3), 3, 2),
        case((2, 3), (2, 2)),
        case((5,), (3,)),
        case((), (1, 1)),
        case((0, 3), 3, 0),
        wrapper=resized,
        gradient_order=0,
        bad=(Bad(MATRIX, -1, raises=RuntimeError, text="negative|overflow"),),
    ),
    in_place(
        "resize_as_",
        lambda x, *shape: x.reshape(-1)[: np.prod(sizes(shape), dtype=int)].reshape(sizes(shape)),
        case((2, 3), 3, 2),
        case((2, 3), (2, 2)),
        case((), (1, 1)),
        case((0, 3), 3, 0),
        wrapper=resized_as,
        gradient_order=0,
        bad=(Bad(MATRIX, 3, -1, raises=RuntimeError, text="negative|overflow"),),
    ),
    in_place(
        "set_",
        lambda x: x,
        case((2, 3)),
        case(()),
        case((0, 3)),
        wrapper=set_to,
        gradient_order=0,
        view=True,
    ),
)

EXPANDING = (
    row(
        "expand",
        expand,
        case((3, 1), 3, 4),
        case((1, 3), 2, -1),
        case((3,), (2, 3)),
        case((), 2, 2),
        case((1, 0), 3, 0),
        path="Tensor.expand",
        method=None,
        view=True,
        bad=(
            Bad(MATRIX, 2, 5, raises=RuntimeError, text="5.*3|3.*5"),
            Bad(MATRIX, 3, raises=RuntimeError, text="dim|size"),
            Bad(VECTOR, -1, 3, raises=RuntimeError, text="-1"),
        ),
    ),
    row(
        "broadcast_to",
        np.broadcast_to,
        case((3, 1), (3, 4)),
        case((3,), (2, 3)),
        case((), (2, 2)),
        case((1, 0), (3, 0)),
        view=True,
        bad=(Bad(MATRIX, (2, 5), raises=RuntimeError, text="5.*3|3.*5"),),
    ),
    Op(
        "expand_as",
        lambda x, other: np.broadcast_to(x, other.shape),
        lambda sampler: (
            Sample(sampler.value(a), sampler.value(b))
            for a, b in (((3, 1), (3, 4)), ((), (2,)), ((3,), (2, 3)), ((1,), (0,)))
            if not (sampler.gradient and 0 in b)
        ),
        path="Tensor.expand_as",
        dtypes=dt.ALL,
        result="same",
        tolerance=EXACT,
        view=True,
        bad=(Bad(MATRIX, VECTOR, raises=RuntimeError, text="dim|size|shape"),),
    ),
)

SELECTING = (
    row(
        "narrow",
        narrow,
        case((3, 4), 1, 1, 2),
        case((3, 4), 0, -2, 2),
        case((3, 4), 0, 3, 0),
        case((0, 3), 1, 0, 2),
        view=True,
        missing=NO_SCALAR,
        bad=(
            Bad(MATRIX, 0, 1, 5, raises=RuntimeError, text="5"),
            out_of_range(4, 0, 1, dim=4),
            Bad(MATRIX, 0, 0, -1, raises=RuntimeError, text="-1|negative"),
        ),
    ),
    row(
        "select",
        lambda x, dim, index: np.take(x, index, axis=dim),
        case((3, 4), 0, 1),
        case((3, 4), -1, -1),
        case((0, 3), 1, 2),
        view=True,
        missing=NO_SCALAR,
        bad=(Bad(MATRIX, 0, 7, raises=IndexError, text="7"), out_of_range(4, 0, dim=4)),
    ),
    row(
        "unfold",
        unfold,
        case((7,), 0, 3, 2),
        case((3, 5), 1, 2, 1),
        case((4, 2), -2, 3, 1),
        case((), 0, 1, 1),
        case((0, 4), 1, 2, 2),
        path="Tensor.unfold",
        method=None,
        view=True,
        bad=(
            Bad(MATRIX, 0, 5, 1, raises=RuntimeError, text="5"),
            Bad(MATRIX, 0, 1, 0, raises=RuntimeError, text="step|0"),
            Bad(MATRIX, 0, -1, 1, raises=RuntimeError, text="size|-1"),
        ),
    ),
    row(
        "as_strided",
        as_strided,
        case((12,), (3, 2), (2, 1)),
        case((12,), (2, 2), (1, 1), 3),
        case((4, 3), (3, 4), (1, 3)),
        case((6,), (), (), 2),
        case((6,), (0, 2), (1, 1)),
        view=True,
        missing=dict.fromkeys(("zero_size", "zero_dim"), "strides need a storage to walk in"),
        skips=NEEDS_STRIDES,
        bad=(
            Bad(MATRIX, (7,), (1,), raises=RuntimeError, text="storage|out of bounds"),
            Bad(MATRIX, (2,), (-1,), raises=RuntimeError, text="stride|negative"),
            Bad(MATRIX, (2,), (1, 1), raises=RuntimeError, text="length|size|stride"),
            Bad(MATRIX, (2,), (1,), -1, raises=RuntimeError, text="offset|-1"),
        ),
    ),
    row(
        "split",
        split,
        case((7,), 3),
        case((2, 6), 2, 1),
        case((2, 6), [1, 2, 3], dim=1),
        case((0, 3), 2),
        view=True,
        missing=NO_SCALAR,
        bad=(
            Bad(VECTOR, -1, raises=RuntimeError, text="-1|negative"),
            Bad(VECTOR, [1, 1], raises=RuntimeError, text="3|sum"),
            out_of_range(1, 4, dim=4),
        ),
    ),
    row(
        "chunk",
        chunk,
        case((7,), 3),
        case((2, 6), 4, 1),
        case((2, 6), 2, dim=-1),
        case((0, 3), 2, 1),
        view=True,
        missing=NO_SCALAR,
        bad=(Bad(VECTOR, 0, raises=RuntimeError, text="0|positive"), out_of_range(1, 4, dim=4)),
    ),
    row(
        "unbind",
        unbind,
        case((3,)),
        case((2, 3), 1),
        case((2, 3, 4), -1),
        case((0, 2), 1),
        view=True,
        missing=NO_SCALAR,
        bad=(out_of_range(4, dim=4),),
    ),
)


def joining(*cases):
    """Sample lists of tensors from ``(shapes, keyword arguments)`` cases."""

    def samples(sampler):
        for shapes, kwargs in cases:
            if not (sampler.gradient and any(0 in shape for shape in shapes)):
                yield Sample([sampler.value(shape) for shape in shapes], **kwargs)
        if not sampler.gradient:
            other = "float64" if sampler.dtype == "float32" else "float32"
            mixed = [sampler.value((2, 3)), sampler.value((2, 3), dtype=other)]
            yield Sample(mixed)

    return samples


JOINING = (
    Op(
        "cat",
        lambda tensors, dim=0: np.concatenate(
            [t for t in tensors if t.shape != (0,)] or tensors, axis=dim
        ),
        joining(
            ([(2, 3), (1, 3)], {}),
            ([(2, 3), (2, 1), (2, 2)], {"dim": 1}),
            ([(3,)], {}),
            ([(2, 0), (2, 3)], {"dim": -1}),
            ([(0,), (2, 3)], {}),
            ([(0, 2), (0, 2)], {}),
        ),
        dtypes=dt.ALL,
        out=True,
        tolerance=EXACT,
        missing=NO_SCALAR,
        bad=(
            Bad([MATRIX, CUBE], raises=RuntimeError, text="dim"),
            Bad([MATRIX, MATRIX], dim=3, raises=IndexError, text="3"),
            Bad([MATRIX, Sampler("float32").value((2, 4))], raises=RuntimeError, text="3.*4|4.*3"),
            Bad([], raises=(RuntimeError, ValueError), text="empty|non-empty|at least one"),
            Bad([MATRIX, "text"], raises=TypeError, text="str|Tensor"),
            Bad([Sampler("float32").value(())], raises=RuntimeError, text="zero-dim|0-d|scalar"),
        ),
    ),
    Op(
        "stack",
        lambda tensors, dim=0: np.stack(tensors, axis=dim),
        joining(
            ([(2, 3), (2, 3)], {}),
            ([(2, 3)] * 3, {"dim": -1}),
            ([(), ()], {}),
            ([(0, 2)] * 2, {"dim": 1}),
        ),
        dtypes=dt.ALL,
        out=True,
        tolerance=EXACT,
        bad=(
            Bad([MATRIX, VECTOR], raises=RuntimeError, text="size|shape"),
            Bad([MATRIX], dim=4, raises=IndexError, text="4"),
            Bad([], raises=(RuntimeError, ValueError), text="empty|non-empty|at least one"),
        ),
    ),
)

REPEATING = (
    row(
        "repeat",
        repeat,
        case((2, 3), 2, 1),
        case((3,), (2, 2)),
        case((), 3),
        case((0, 2), 2, 2),
        case((2,), 0),
        path="Tensor.repeat",
        method=None,
        bad=(
            Bad(MATRIX, 2, raises=RuntimeError, text="dim|2"),
            Bad(MATRIX, 1, -1, raises=RuntimeError, text="-1|negative"),
        ),
    ),
    row(
        "tile",
        np.tile,
        case((2, 3), (2, 1)),
        case((3,), (2, 2)),
        case((2, 3), (2,)),
        case((), (3,)),
        case((0, 2), (2, 2)),
        bad=(Bad(MATRIX, (1, -1), raises=RuntimeError, text="-1|negative"),),
    ),
    row(
        "repeat_interleave",
        lambda x, repeats, dim=None: np.repeat(x, repeats, dim),
        case((3,), 2),
        case((2, 3), 2),
        case((2, 3), 2, 1),
        case((2, 3), 3, dim=-2),
        case((), 2),
        case((0, 2), 2, 0),
        bad=(Bad(VECTOR, -1, raises=RuntimeError, text="-1|negative"),),
    ),
    Op(
        "repeat_interleave.tensor",
        lambda x, repeats, dim=None: np.repeat(x, repeats, dim),
        lambda sampler: (
            Sample(sampler.value((3, 2)), sampler.index((3,), 3), dim=0) for _ in range(2)
        ),
        path="repeat_interleave",
        method="repeat_interleave",
        dtypes=dt.ALL,
        result="same",
        tolerance=EXACT,
        missing={"zero_size": "see repeat_interleave", "zero_dim": "as before"},
        bad=(
            Bad(
                VECTOR, Sampler("int64").index((2,), 3), dim=0, raises=RuntimeError, text="size|2|3"
            ),
        ),
    ),
    row(
        "flip",
        np.flip,
        case((3,), (0,)),
        case((2, 3), (0, 1)),
        case((2, 3, 4), (-1,)),
        case((), ()),
        case((0, 3), (1,)),
        bad=(out_of_range((5,), dim=5), Bad(MATRIX, (0, 0), raises=RuntimeError, text="dim")),
    ),
    row(
        "roll",
        roll,
        case((5,), 2),
        case((2, 3), -1, 1),
        case((2, 3), (1, 2), (0, 1)),
        case((2, 3), 4),
        case((), 1),
        case((0, 3), 1, 1),
        case((5,), 7, 0),
        bad=(out_of_range(1, 5, dim=5), Bad(MATRIX, (1, 2), 0, raises=RuntimeError, text="shift")),
    ),
)


def copied(library):
    def copy(x, source):
        return x.clone().copy_(source)

    return copy


def copy_samples(sampler):
    for target, source in (
        ((2, 3), (2, 3)),
        ((2, 3), (3,)),
        ((), ()),
        ((2, 3), ()),
        ((0, 3), (1, 3)),
    ):
        if not (sampler.gradient and 0 in target):
            yield Sample(sampler.value(target), sampler.value(source))
    if not sampler.gradient:
        yield Sample(sampler.value((4,)), sampler.value((4,), dtype="int32"))
        yield Sample(sampler.value((4,)), sampler.value((4,), 0.0, 3.0, dtype="float64"))


def copy(x, source):
    """A copy keeps the target's dtype: from floats to integers it truncates, as a C cast does."""
    if source.dtype.kind == "f" and x.dtype.kind in "iu":
        source = np.trunc(source)
    return np.broadcast_to(source, x.shape).astype(x.dtype)


SAME_SHAPES = (case((2, 3)), case(()), case((0, 2)), case((67,)))
# Of real tensors these are the tensor itself; complex ones are in complex/cases.py.
NOT_TEXT = (Bad("a", raises=TypeError, text="str|Tensor|incompatible"),)
REAL_PARTS = (
    row("real", lambda x: x, *SAME_SHAPES, method=None, view=None, bad=NOT_TEXT),
    row(
        "conj",
        lambda x: x,
        *SAME_SHAPES,
        wrapper=lambda library: lambda x: library.conj(x),
        view=None,
        bad=NOT_TEXT,
    ),
    row(
        "conj_physical",
        lambda x: x,
        *SAME_SHAPES,
        wrapper=lambda library: lambda x: library.conj_physical(x),
        inplace="conj_physical_",
        view=None,
        bad=NOT_TEXT,
    ),
    row("resolve_conj", lambda x: x, *SAME_SHAPES, view=None, bad=NOT_TEXT),
    row("resolve_neg", lambda x: x, *SAME_SHAPES, view=None, bad=NOT_TEXT),
)

COPYING = (
    row("contiguous", lambda x: x, *SAME_SHAPES, path="Tensor.contiguous", method=None, view=None),
    row("clone", lambda x: x, *SAME_SHAPES, bad=(Bad("a", raises=TypeError, text="str|Tensor"),)),
    row(
        "detach",
        lambda x: x,
        *SAME_SHAPES,
        gradient_order=0,
        view=True,
        path="Tensor.detach",
        method=None,
    ),
    Op(
        "copy_",
        copy,
        copy_samples,
        wrapper=copied,
        dtypes=dt.ALL,
        result="same",
        tolerance=EXACT,
        bad=(
            Bad(MATRIX, CUBE, raises=RuntimeError, text="size|shape|dim"),
            Bad(MATRIX, "text", raises=TypeError, text="str|Tensor"),
        ),
    ),
)


def converted(x, dtype=None, **_):
    """Conversion between dtypes: to integers by truncation, to bool by comparison with zero."""
    return x if dtype is None else dt.cast(x, str(dtype))


def cast_samples(sampler):
    for target in dt.ALL:
        # Finite differences see nothing through a rounding dtype.
        if not sampler.gradient or target == "float64":
            yield Sample(sampler.value((4,), 0.0, 9.0), Dtype(target))
            yield Sample(sampler.value((), 0.0, 9.0), Dtype(target))
    if not sampler.gradient:
        yield Sample(sampler.value((0, 2)), Dtype("float64"))


# A rounding cast has a gradient that finite differences cannot measure; parity compares it.
ROUNDS = tuple(
    Skip(test, "finite differences see steps, not slopes, through a rounding cast")
    for test in ("test_gradient", "test_second_gradient")
)
CASTS = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
    "bool": "bool",
}
CASTING = (
    Op(
        "to",
        converted,
        cast_samples,
        path="Tensor.to",
        dtypes=dt.ALL,
        view=None,
        tolerance=EXACT,
        result=lambda sample: str(sample.args[1]),
        bad=(
            Bad(MATRIX, "nowhere", raises=RuntimeError, text="nowhere"),
            Bad(MATRIX, None, 3, 4, 5, 6, raises=TypeError, text="to|argument"),
        ),
    ),
    *(
        Op(
            f"Tensor.{name}",
            lambda x, target=target: dt.cast(x, target),
            lambda sampler: (
                Sample(sampler.value(shape, 0.0, 9.0))
                for shape in (((4,), ()) if sampler.gradient else ((4,), (), (0, 2)))
            ),
            path=f"Tensor.{name}",
            dtypes=dt.ALL,
            result=target,
            view=None,
            tolerance=EXACT,
            gradient_order=2 if dt.is_float(target) else 0,
            skips=ROUNDS if target in ("float32", "float16", "bfloat16") else (),
        )
        for name, target in CASTS.items()
    ),
)

ROWS = (
    RESHAPING
    + IN_PLACE
    + EXPANDING
    + SELECTING
    + JOINING
    + REPEATING
    + REAL_PARTS
    + COPYING
    + CASTING
)
