"""Rows of pooling, against loops over windows."""

import itertools

import numpy as np

from op_db.row import Bad, Op, Sample, Skip, Tolerance, Value
from op_db.sampler import Sampler

FIXED_RANK = {"zero_dim": "the operands have two dimensions or more"}
PLANE = Sampler("float32").value((2, 5, 6))


def each(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def starts(size, kernel, stride, padding, dilation, ceil_mode):
    """Return where the windows of a dimension begin."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return [o * stride - padding for o in range(count)]


def pool(x, windows, reduce):
    """Apply ``reduce(plane, places)`` to every plane and every product of places."""
    rank = len(windows)
    lead, sizes = x.shape[:-rank], x.shape[-rank:]
    outs = tuple(len(places) for places in windows)
    planes = x.reshape(-1, *sizes)
    result = [[reduce(plane, places) for places in itertools.product(*windows)] for plane in planes]
    width = np.shape(result)[2:] if len(planes) else ()
    return np.array(result).reshape(*lead, *outs, *width)


def largest(plane, places):
    """Return the largest element of a window, and its number in the plane; the last NaN wins."""
    best, index = -np.inf, None
    for place in itertools.product(*places):
        value, number = plane[place], np.ravel_multi_index(place, plane.shape)
        if index is None:
            index = number
        if value > best or np.isnan(value):
            best, index = value, number
    return best, index


def max_pool(rank):
    def reference(
        x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    ):
        kernels, paddings, dilations = (each(v, rank) for v in (kernel, padding, dilation))
        strides = kernels if stride is None else each(stride, rank)
        windows = [
            [
                [i for i in (s + k * dilations[d] for k in range(kernels[d])) if 0 <= i < size]
                for s in starts(size, kernels[d], strides[d], paddings[d], dilations[d], ceil_mode)
            ]
            for d, size in enumerate(x.shape[-rank:])
        ]
        return both_or_values(x, windows, return_indices)

    return reference


def both_or_values(x, windows, return_indices):
    if x.size == 0:
        shape = (*x.shape[: -len(windows)], *(len(places) for places in windows))
        both = np.zeros((*shape, 2))
    else:
        both = pool(x, windows, largest)
    if return_indices:
        return both[..., 0], both[..., 1].astype(np.int64)
    return both[..., 0]


def avg_pool(rank):
    def reference(
        x,
        kernel,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        kernels, paddings = each(kernel, rank), each(padding, rank)
        strides = kernels if stride is None else each(stride, rank)
        sizes = x.shape[-rank:]
        windows = [
            [
                range(s, min(s + kernels[d], size + paddings[d]))
                for s in starts(size, kernels[d], strides[d], paddings[d], 1, ceil_mode)
            ]
            for d, size in enumerate(sizes)
        ]

        def mean(plane, places):
            inside = [
                [i for i in range_ if 0 <= i < size]
                for range_, size in zip(places, sizes, strict=True)
            ]
            total = sum(plane[place] for place in itertools.product(*inside))
            counted = places if count_include_pad else inside
            return total / (divisor_override or np.prod([len(p) for p in counted]))

        if x.size == 0:
            return np.zeros((*x.shape[:-rank], *(len(places) for places in windows)))
        return pool(x, windows, mean)

    return reference


def parts(x, rank, output_size):
    sizes = x.shape[-rank:]
    wanted = output_size if isinstance(output_size, tuple) else (output_size,) * rank
    outs = [size if out is None else out for out, size in zip(wanted, sizes, strict=True)]
    return [
        [range(o * size // out, -(-(o + 1) * size // out)) for o in range(out)]
        for out, size in zip(outs, sizes, strict=True)
    ]


def adaptive_max(rank):
    def reference(x, output_size, return_indices=False):
        return both_or_values(x, parts(x, rank, output_size), return_indices)

    return reference


def adaptive_avg(rank):
    def reference(x, output_size):
        windows = parts(x, rank, output_size)
        if x.size == 0:
            return np.zeros((*x.shape[:-rank], *(len(places) for places in windows)))
        return pool(x, windows, lambda plane, places: plane[np.ix_(*places)].mean())

    return reference


SHAPES = {1: (2, 2, 11), 2: (2, 2, 7, 9), 3: (1, 2, 4, 5, 6)}
# Small enough for finite differences.
SMALL = {1: (1, 2, 9), 2: (1, 1, 5, 6), 3: (1, 1, 4, 4, 5)}
WIDE = {1: (3, 70), 2: (2, 3, 40), 3: (1, 3, 3, 20)}

# Windows that every rank takes: whole, moved one by one, dilated, padded, with a rest at the end.
WINDOWS = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1},
    {"kernel_size": 4, "stride": 1, "padding": 2},
)
DILATED = ({"kernel_size": 2, "stride": 1, "dilation": 2}, {"kernel_size": 2, "dilation": 3})


def windowed(rank, windows, **last):
    def samples(sampler):
        shape = (SMALL if sampler.gradient else SHAPES)[rank]
        for kwargs in windows:
            kwargs = dict(kwargs)
            kernel = kwargs.pop("kernel_size")
            yield Sample(sampler.distinct(shape, step=0.0625), kernel, **kwargs)
        yield Sample(sampler.distinct(shape[1:], step=0.0625), 3, **last)
        if sampler.gradient:
            return
        yield Sample(sampler.distinct(WIDE[rank]), 3 if rank < 3 else (2, 2, 3), 1)
        yield Sample(sampler.value((0, *SHAPES[rank][1:])), 2)

    return samples


def adaptive(rank, sizes, **last):
    def samples(sampler):
        shape = (SMALL if sampler.gradient else SHAPES)[rank]
        for size in sizes:
            yield Sample(sampler.distinct(shape, step=0.0625), size)
        yield Sample(sampler.distinct(shape[1:], step=0.0625), 2, **last)
        if not sampler.gradient:
            yield Sample(sampler.value((0, *SHAPES[rank][1:])), 2)

    return samples


ADAPTIVE_SIZES = {
    1: (1, 4, 11),
    2: (1, 3, (None, 5), (7, 2)),
    3: (1, 2, (None, 3, 4), (3, 2, 1)),
}


def value_and_index(sample):
    own = sample.args[0].dtype
    return [own, "int64"] if sample.kwargs.get("return_indices") else own


def bad_windows(rank, text=""):
    """Return calls that no pooling takes."""
    x = Sampler("float32").value(SHAPES[rank])
    return (
        Bad(x, 0, raises=RuntimeError, text="greater than zero|kernel"),
        Bad(x, 2, 0, raises=RuntimeError, text="zero|stride"),
        Bad(x, 2, 1, 2, raises=RuntimeError, text="pad"),
        Bad(x, 2, 1, -1, raises=RuntimeError, text="pad"),
        Bad(x, (2,) * (rank + 1), raises=RuntimeError, text="kernel_size|int"),
        Bad(x, 99, raises=RuntimeError, text="too small|size"),
        Bad(
            Value(np.zeros(3, np.float32), "float32"), 2, raises=RuntimeError, text="Expected|3D|2D"
        ),
        Bad(None, 2, raises=TypeError, text="None|Tensor|incompatible"),
    )


SUMS = Tolerance(relative=16, absolute=64)
HALVES = Skip(
    "test_parity",
    "PyTorch has no averages of half types over three dimensions on the CPU",
    ("float16", "bfloat16"),
)

ROWS = tuple(
    row
    for rank in (1, 2, 3)
    for row in (
        Op(
            f"max_pool{rank}d",
            max_pool(rank),
            windowed(rank, WINDOWS + DILATED, return_indices=True),
            path=f"nn.functional.max_pool{rank}d",
            result=value_and_index,
            missing=FIXED_RANK,
            bad=bad_windows(rank),
        ),
        Op(
            f"avg_pool{rank}d",
            avg_pool(rank),
            windowed(
                rank,
                WINDOWS
                + ({"kernel_size": 3, "padding": 1, "count_include_pad": False},)
                + (({"kernel_size": 2, "divisor_override": 3},) if rank > 1 else ()),
            ),
            path=f"nn.functional.avg_pool{rank}d",
            tolerance=SUMS,
            skips=(HALVES,) if rank == 3 else (),
            missing=FIXED_RANK,
            bad=bad_windows(rank),
        ),
        Op(
            f"adaptive_max_pool{rank}d",
            adaptive_max(rank),
            adaptive(rank, ADAPTIVE_SIZES[rank], return_indices=True),
            path=f"nn.functional.adaptive_max_pool{rank}d",
            result=value_and_index,
            missing=FIXED_RANK,
            bad=(
                Bad(
                    PLANE,
                    (2,) * (rank + 1),
                    raises=(RuntimeError, ValueError),
                    text="output_size|Expected|Input dimension",
                ),
                Bad(None, 2, raises=TypeError, text="None|Tensor|incompatible|input"),
            ),
        ),
        Op(
            f"adaptive_avg_pool{rank}d",
            adaptive_avg(rank),
            adaptive(rank, ADAPTIVE_SIZES[rank]),
            path=f"nn.functional.adaptive_avg_pool{rank}d",
            tolerance=SUMS,
            missing=FIXED_RANK,
            bad=(
                Bad(
                    PLANE,
                    (2,) * (rank + 1),
                    raises=(RuntimeError, ValueError),
                    text="output_size|Expected|Input dimension",
                ),
                Bad(None, 2, raises=TypeError, text="None|Tensor|incompatible|input"),
            ),
        ),
    )
)
