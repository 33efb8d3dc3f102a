"""Rows of convolutions, against sums over the elements of the kernel."""

import itertools

import dtypes as dt
import numpy as np

from op_db.row import Bad, Op, Sample, Skip, Tolerance
from op_db.sampler import Sampler

FIXED_RANK = {"zero_dim": "the operands have two dimensions or more"}
# Sums of up to a few hundred products of numbers up to nine, whose signs cancel.
SUMS = Tolerance(relative=16, absolute=1024, half=2)
LETTERS = "xyz"
SMALL_INTEGERS = ("uint8", "int8", "int16", "int32")
HALVES = ("float16", "bfloat16")
ROUNDED = "PyTorch rounds to the half type after each addition"
ROUNDED_SUMS = (
    Skip("test_parity", ROUNDED, HALVES),
    Skip("test_forward", ROUNDED, HALVES, library="torch"),
)


def each(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def places_of_taps(kernel, out, stride, dilation):
    """Yield the places of a kernel, and what of a padded image lies under each."""
    for place in itertools.product(*map(range, kernel)):
        yield (
            place,
            tuple(
                slice(k * step, k * step + (size - 1) * move + 1, move)
                for k, size, move, step in zip(place, out, stride, dilation, strict=True)
            ),
        )


def grouped(x, weight, groups):
    """Return x and weight with the groups as a dimension of their own."""
    batch, channels, *sizes = x.shape
    return (
        x.reshape(batch, groups, channels // groups, *sizes),
        weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]),
    )


def convolution(rank):
    def reference(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if x.ndim == rank + 1:
            return reference(x[None], weight, bias, stride, padding, dilation, groups)[0]
        kernel = weight.shape[2:]
        stride, dilation = each(stride, rank), each(dilation, rank)
        if padding == "same":
            totals = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
            borders = [(total // 2, total - total // 2) for total in totals]
        else:
            borders = [(width, width) for width in each(0 if padding == "valid" else padding, rank)]
        padded = np.pad(x, [(0, 0), (0, 0), *borders])
        out = [
            (size - step * (k - 1) - 1) // move + 1
            for size, k, move, step in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
        ]
        images, parts = grouped(padded, weight, groups)
        places = LETTERS[:rank]
        result = np.zeros((x.shape[0], groups, weight.shape[0] // groups, *out))
        for place, under in places_of_taps(kernel, out, stride, dilation):
            result += np.einsum(
                f"bgi{places},goi->bgo{places}",
                images[(..., *under)],
                parts[(slice(None), slice(None), slice(None), *place)],
            )
        return with_bias(result.reshape(x.shape[0], weight.shape[0], *out), bias)

    return reference


def transpose(rank):
    def reference(
        x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
    ):
        if x.ndim == rank + 1:
            args = (bias, stride, padding, output_padding, groups, dilation)
            return reference(x[None], weight, *args)[0]
        kernel, sizes = weight.shape[2:], x.shape[2:]
        stride, padding, more, dilation = (
            each(value, rank) for value in (stride, padding, output_padding, dilation)
        )
        whole = [
            (sizes[d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1 + more[d]
            for d in range(rank)
        ]
        images, parts = grouped(x, weight, groups)
        channels, places = weight.shape[1] * groups, LETTERS[:rank]
        result = np.zeros((x.shape[0], groups, weight.shape[1], *whole))
        for place, under in places_of_taps(kernel, sizes, stride, dilation):
            result[(..., *under)] += np.einsum(
                f"bgi{places},gio->bgo{places}",
                images,
                parts[(slice(None), slice(None), slice(None), *place)],
            )
        inside = tuple(slice(padding[d], whole[d] - padding[d]) for d in range(rank))
        result = result[(..., *inside)]
        return with_bias(result.reshape(x.shape[0], channels, *result.shape[3:]), bias)

    return reference


def with_bias(y, bias):
    return y if bias is None else y + bias.reshape(-1, *[1] * (y.ndim - 2))


SIZES = {1: (11,), 2: (7, 9), 3: (4, 5, 6)}
SMALL = {1: (5,), 2: (3, 4), 3: (3, 3, 3)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 1, 3)}
SMALL_KERNELS = {1: (2,), 2: (2, 2), 3: (2, 2, 2)}
WIDE = {1: (100,), 2: (33, 34), 3: (5, 12, 17)}

# PyTorch warns where "same" needs more zeros at one end than at the other; see test_conv.py.
ODD_KERNELS = {1: (3,), 2: (3, 1), 3: (1, 3, 3)}

PLAIN = (
    {},
    {"padding": 1},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "padding": 2},
    {"groups": 2, "padding": 1},
    {"groups": 2, "stride": 3, "padding": 2, "dilation": 2},
)
NAMED = ({"padding": "same"}, {"padding": "same", "dilation": 2}, {"padding": "valid", "stride": 2})
LONGER = (
    {"stride": 3, "output_padding": 2, "padding": 1},
    {"dilation": 3, "output_padding": 1, "groups": 2},
)


def calls(rank, cases, transposed):
    def samples(sampler):
        sizes, kernel = SIZES[rank], KERNELS[rank]
        if sampler.gradient:
            sizes, kernel = SMALL[rank], SMALL_KERNELS[rank]
        channels = 2 if sampler.gradient else 4
        for place, kwargs in enumerate(cases):
            if "dilation" in kwargs and sampler.dtype in SMALL_INTEGERS:
                continue  # PyTorch knows these of int64 alone.
            groups = kwargs.get("groups", 1)
            # Weights are (out, in / groups) and (in, out / groups).
            taps = ODD_KERNELS[rank] if kwargs.get("padding") == "same" else kernel
            weight = (
                (channels, 2 // groups, *taps) if transposed else (2, channels // groups, *taps)
            )
            bias = [sampler.value((2,))] if place % 2 else []
            yield Sample(
                sampler.value((1 if sampler.gradient else 2, channels, *sizes)),
                sampler.value(weight),
                *bias,
                **kwargs,
            )
        weight = sampler.value((channels, channels, *kernel))
        yield Sample(sampler.value((channels, *sizes)), weight, sampler.value((channels,)))
        if sampler.gradient:
            return
        yield Sample(sampler.value((0, 4, *sizes)), weight)
        yield Sample(sampler.value((1, 4, *sizes)), sampler.value((4, 4, *[1] * rank)))
        yield Sample(sampler.value((2, 4, *WIDE[rank])), weight, padding=1)
        wide = sampler.value((4, 1, *kernel))
        yield Sample(sampler.value((2, 4, *WIDE[rank])), wide, groups=4)

    return samples


def bad_calls(rank, transposed):
    """Return calls that no convolution of a rank takes."""
    sampler = Sampler("float32")
    x = sampler.value((2, 4, *SIZES[rank]))
    w = sampler.value((4, 4, *KERNELS[rank]))
    other_rank = sampler.value((4, 4, *KERNELS[rank % 3 + 1]))
    return (
        Bad(x, other_rank, raises=RuntimeError, text="dimension"),
        Bad(sampler.value((4,)), w, raises=RuntimeError, text="unbatched"),
        Bad(sampler.value((2, 3, *SIZES[rank])), w, raises=RuntimeError, text="4 channels"),
        Bad(x, w, sampler.value((5,)), raises=RuntimeError, text="bias"),
        Bad(x, w, stride=0, raises=RuntimeError, text="stride"),
        Bad(x, w, stride=(1,) * (rank + 1), raises=RuntimeError, text="stride"),
        Bad(x, w, padding=-1, raises=RuntimeError, text="negative padding"),
        Bad(x, w, padding=1.5, raises=TypeError, text="padding|float"),
        Bad(x, w, dilation=0, raises=RuntimeError, text="dilation"),
        Bad(x, w, groups=0, raises=RuntimeError, text="groups"),
        Bad(x, w, groups=3, raises=RuntimeError, text="groups=3"),
        Bad(x, None, raises=TypeError, text="None"),
        Bad(None, w, raises=TypeError, text="None"),
        *(bad_transposes(x, w) if transposed else bad_names(x, w)),
    )


def bad_names(x, w):
    return (
        Bad(x, w, dilation=99, raises=RuntimeError, text="Kernel size"),
        Bad(x, w, padding="some", raises=RuntimeError, text="Invalid padding string"),
        Bad(x, w, padding="same", stride=2, raises=RuntimeError, text="strided"),
        Bad(x, w, padding="same", dilation=0, raises=RuntimeError, text="dilation"),
    )


def bad_transposes(x, w):
    return (
        Bad(x, w, output_padding=1, raises=RuntimeError, text="output padding"),
        Bad(x, w, padding=99, raises=RuntimeError, text="too small"),
        Bad(x, w, padding="same", raises=TypeError, text="padding|str"),
    )


ROWS = tuple(
    row
    for rank in (1, 2, 3)
    for row in (
        Op(
            f"conv{rank}d",
            convolution(rank),
            calls(rank, PLAIN + NAMED, False),
            path=f"nn.functional.conv{rank}d",
            dtypes=(*dt.FLOATS, *SMALL_INTEGERS, "int64"),
            tolerance=SUMS,
            missing=FIXED_RANK,
            bad=bad_calls(rank, False),
        ),
        Op(
            f"conv_transpose{rank}d",
            transpose(rank),
            calls(rank, PLAIN + LONGER, True),
            path=f"nn.functional.conv_transpose{rank}d",
            dtypes=(*dt.FLOATS, "int64"),
            skips=ROUNDED_SUMS,
            tolerance=SUMS,
            missing=FIXED_RANK,
            bad=bad_calls(rank, True),
        ),
    )
)
