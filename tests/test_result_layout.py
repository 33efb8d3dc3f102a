"""Strides of results beside PyTorch 2.13, for arguments laid out in every way.

Strides can be seen: by ``stride()``, and by whether ``reshape()`` of a result is a view of it.
Where a result lies in another order than PyTorch's, or shows the memory of an argument, a program
that writes through it does something else.
"""

import copy

import numpy as np
import pytest
from cases import each, each_op
from library import IS_TORCH, pytorch_for_parity, torch
from op_db.row import Dtype, Value, results, walk
from op_db.sampler import draw
from test_parity import assert_same_outcome, assert_same_results, is_unspecified, outcome

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "there is nothing to compare PyTorch with", allow_module_level=True)

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)

LAYOUTS = (
    "contiguous", "transposed", "rotated", "stepped", "narrowed", "expanded", "channels_last",
    "lone_row",
)  # fmt: skip

# Where PyTorch's layout is not followed, and why.
EXCEPTIONS = {
    "adaptive_avg_pool3d": "the mean of a whole volume keeps a format, in strides of size one only",
    "mvlgamma": "a sum along a dimension there, whose result is contiguous",
    "max_pool3d": "without a batch, PyTorch takes a volume for images, by mistake",
}
MOST_EXCEPTIONS = 3


def in_memory_order(array, order, library):
    """Return a tensor whose dimensions lie in memory in the given order, the widest first."""
    stored = library.from_numpy(np.array(array.transpose(order), order="C"))
    return stored.permute([order.index(d) for d in range(array.ndim)])


def laid_out(array, layout, library):
    """Return a tensor of the array's shape in a layout; only ``expanded`` changes its values."""
    rank = array.ndim
    if layout == "transposed" and rank > 1:
        return in_memory_order(array, list(reversed(range(rank))), library)
    if layout == "rotated" and rank > 1:
        return in_memory_order(array, [*range(1, rank), 0], library)
    if layout == "stepped" and rank > 0:
        return library.from_numpy(np.repeat(array, 2, axis=-1))[..., 1::2]
    if layout == "narrowed" and rank > 0:
        wide = np.concatenate([array, array], axis=-1)
        return library.from_numpy(wide)[..., : array.shape[-1]]
    if layout == "expanded" and rank > 0 and array.shape[0] > 0:
        return library.from_numpy(np.array(array[:1])).expand(array.shape)
    if layout == "channels_last" and rank in (4, 5):
        return in_memory_order(array, [0, *range(2, rank), 1], library)
    if layout == "lone_row" and rank == 2 and array.shape[0] == 1:
        return library.from_numpy(array.reshape(-1).copy()).unsqueeze(1).t()
    return library.from_numpy(np.array(array, order="C"))


def lift_in(sample, layouts, library):
    """Return the arguments of a sample, its tensors in the given layouts, the last one repeated."""
    tensors = []

    def visit(leaf):
        if isinstance(leaf, Dtype):
            return getattr(library, leaf)
        if not isinstance(leaf, Value):
            return leaf
        layout = layouts[min(len(tensors), len(layouts) - 1)]
        tensor = laid_out(leaf.array, layout, library)
        tensors.append(tensor.to(library.bfloat16) if leaf.dtype == "bfloat16" else tensor)
        return tensors[-1]

    return walk((sample.args, sample.kwargs), visit), tensors


def reach(x):
    """Return the addresses of the first byte and behind the last one that a tensor shows."""
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def overlaps(y, tensors):
    """Return which of the arguments a result shares memory with."""
    begin, end = reach(y)
    spans = [reach(x) for x in tensors]
    return [begin < stop and start < end for start, stop in spans]


def layout_of(y, tensors, exact):
    """Return all that a result's place in memory tells; nothing is told of no elements.

    Along a dimension of size one nobody steps: its stride counts where the layout is `exact`.
    """
    shape = tuple(y.shape)
    if y.numel() == 0:
        return shape
    pairs = zip(shape, y.stride(), strict=True)
    return shape, [step if exact or n > 1 else None for n, step in pairs], overlaps(y, tensors)


def layouts_of(call, tensors, *, exact):
    """Return the layouts of a call's results, or None where it is refused."""
    try:
        answer = results(call())
    except REFUSALS:
        return None
    return [layout_of(y, tensors, exact) for y in answer if hasattr(y, "stride")]


def mixtures(sample):
    """Return the layouts to try: the same for all tensors, and for the first or the others only."""
    yield from ((layout,) for layout in LAYOUTS)
    if len(sample.values()) > 1:
        for layout in ("transposed", "rotated", "stepped", "expanded"):
            yield layout, "contiguous"
            yield "contiguous", layout


def with_layouts(op, sample, layouts, library):
    (args, kwargs), _ = lift_in(sample, layouts, library)
    return lambda: op.function(library)(*args, **kwargs)


def of_sample(op, sample, layouts, library):
    (args, kwargs), tensors = lift_in(sample, layouts, library)
    return layouts_of(lambda: op.function(library)(*args, **kwargs), tensors, exact=True)


def differences(op, dtype):
    found = []
    for sample in draw(op, dtype):
        if sample.numel() > 1000 or any(value.array.size == 0 for value in sample.values()):
            continue
        for layouts in mixtures(sample):
            ours = of_sample(op, sample, layouts, torch)
            theirs = of_sample(op, sample, layouts, pytorch)
            if ours is not None and theirs is not None and ours != theirs:
                found.append(f"{op.name}{sample} {layouts}: {ours}, PyTorch has {theirs}")
    return found


@pytest.mark.filterwarnings("ignore:.*non-contiguous")
@each_op("test_layout", having=lambda op: op.name not in EXCEPTIONS)
def test_layout(op):
    found = differences(op, op.dtypes[0])
    assert not found, f"{len(found)} calls, for example\n" + "\n".join(found[:5])


VALUE_LAYOUTS = (("transposed",), ("narrowed",), ("expanded",), ("rotated", "contiguous"))


def has_ties(op, layouts):
    """Whether equal elements decide the answer, of which PyTorch takes any."""
    return op.family == "sort" and layouts == ("expanded",)


@pytest.mark.filterwarnings("ignore:.*non-contiguous")
@each("test_parity")
def test_values(op, dtype):
    """Layouts change neither values nor dtypes nor refusals, in any dtype."""
    for sample in draw(op, dtype):
        if sample.numel() > 1000:
            continue
        for layouts in VALUE_LAYOUTS:
            if has_ties(op, layouts):
                continue
            context = f"{op.name}{sample} {layouts}"
            ours, theirs = (
                outcome(with_layouts(op, sample, layouts, library)) for library in (torch, pytorch)
            )
            if "Use .reshape(...) instead" in str(theirs):
                continue  # PyTorch cannot flatten what is no view; here it is copied.
            if not assert_same_outcome(ours, theirs, context):
                values = not is_unspecified(op, sample)
                assert_same_results(ours, theirs, op.tolerance, context, values=values)


def test_exceptions_are_few():
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS


def norms(t):
    functions = t.nn.functional
    return {
        "batch_norm": lambda x: functions.batch_norm(x, None, None, training=True),
        "batch_norm.eval": lambda x: functions.batch_norm(
            x, t.zeros(x.shape[1]), t.ones(x.shape[1])
        ),
        "instance_norm": functions.instance_norm,
        "group_norm": lambda x: functions.group_norm(x, 1),
        "layer_norm": lambda x: functions.layer_norm(x, x.shape[-1:]),
        "rms_norm": lambda x: functions.rms_norm(x, x.shape[-1:]),
        "normalize": functions.normalize,
        "local_response_norm": lambda x: functions.local_response_norm(x, 2),
        "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(0),
        "dropout": lambda x: functions.dropout(x, 0.5),
        "dropout.eval": lambda x: functions.dropout(x, 0.5, training=False),
        "prelu": lambda x: functions.prelu(x, t.ones(x.shape[1])),
        "glu": lambda x: functions.glu(x, 0),
    }


def images(t):
    functions = t.nn.functional
    return {
        "pad": lambda x: functions.pad(x, (1, 1)),
        "pad.reflect": lambda x: functions.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad.replicate": lambda x: functions.pad(x, (1, 1, 1, 1), mode="replicate"),
        "pad.circular": lambda x: functions.pad(x, (1, 1, 1, 1), mode="circular"),
        "interpolate": lambda x: functions.interpolate(x, scale_factor=2),
        "interpolate.bilinear": lambda x: functions.interpolate(
            x, scale_factor=2, mode="bilinear", align_corners=False
        ),
        "interpolate.area": lambda x: functions.interpolate(x, scale_factor=2, mode="area"),
        "pixel_shuffle": lambda x: functions.pixel_shuffle(x, 2),
        "pixel_unshuffle": lambda x: functions.pixel_unshuffle(x, 2),
        "channel_shuffle": lambda x: functions.channel_shuffle(x, 2),
        "unfold": lambda x: functions.unfold(x, 2),
        "max_unpool2d": lambda x: functions.max_unpool2d(
            *functions.max_pool2d(x, 1, return_indices=True), 1
        ),
        "lp_pool2d": lambda x: functions.lp_pool2d(x, 2, 1),
        "grid_sample": lambda x: functions.grid_sample(
            x, t.zeros(x.shape[0], 2, 2, 2), align_corners=False
        ),
    }


def losses(t):
    functions = t.nn.functional
    names = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
             "binary_cross_entropy_with_logits", "soft_margin_loss")  # fmt: skip

    def loss(name):
        return lambda x: getattr(functions, name)(x, x, reduction="none")

    def classes(x):
        return t.zeros((x.shape[0], *x.shape[2:]), dtype=t.int64)

    return {
        **{name: loss(name) for name in names},
        "nll_loss": lambda x: functions.nll_loss(x, classes(x), reduction="none"),
        "cross_entropy": lambda x: functions.cross_entropy(x, classes(x), reduction="none"),
    }


def composed(t):
    return {
        "einsum": lambda x: t.einsum("...ij->...ji", x),
        "tensordot": lambda x: t.tensordot(x, x, dims=([-1], [-1])),
        "diff": t.diff,
        "kron": lambda x: t.kron(x, x),
        "cat": lambda x: t.cat([x, x], 1),
        "stack": lambda x: t.stack([x, x]),
        "stack.1": lambda x: t.stack([x, x], 1),
        "stack.last": lambda x: t.stack([x, x], -1),
        "hstack": lambda x: t.hstack([x, x]),
        "dstack": lambda x: t.dstack([x, x]),
        "tile": lambda x: x.tile(2),
        "rot90": t.rot90,
        "fliplr": t.fliplr,
        "roll": lambda x: x.roll(1, 0),
        "msort": t.msort,
        "topk": lambda x: x.topk(1, 0),
        "isclose": lambda x: t.isclose(x, x),
        "float_power": lambda x: t.float_power(x, 2),
        "logit": lambda x: t.logit(x, 1e-6),
        "rsub": lambda x: 1 - x,
        "number_to_a_power": lambda x: 2**x,
        "number_below": lambda x: x < 0,
        "rand_like": t.rand_like,
        "bernoulli": lambda x: t.bernoulli(x * 0),
        "bernoulli.p": lambda x: t.bernoulli(x, 0.5),
        "out_of_add": lambda x: t.add(x, x, out=t.empty(0)),
        "out_of_where": lambda x: t.where(x > 0, x, x, out=t.empty(0)),
        "index": lambda x: x[:, t.tensor([0, 1])],
        "index.new": lambda x: x[t.tensor([0, 1]), None],
        "index.both": lambda x: x[t.tensor([0, 1]), t.tensor([0, 1])],
        "index.apart": lambda x: x[t.tensor([0, 1]), :, t.tensor([0, 1])],
        "index.mask": lambda x: x[x > 0],
        "copy": copy.copy,
    }


def gradients(t):
    def swept(f):
        def grad(x):
            leaf = x.detach().requires_grad_()
            f(leaf).sum().backward()
            return leaf.grad

        return grad

    def asked(f):
        def grad(x):
            leaf = x.detach().requires_grad_()
            return t.autograd.grad(f(leaf).sum(), leaf)[0]

        return grad

    return {
        "grad.exp": swept(lambda x: x.exp()),
        "grad.scaled": swept(lambda x: x * 2),
        "asked.exp": asked(lambda x: x.exp()),
        "asked.square": asked(lambda x: x * x),
    }


FAMILIES = (norms, images, losses, composed, gradients)
SHAPES = (
    (4, 4),
    (3, 5),
    (2, 3, 4),
    (4, 4, 6),
    (2, 4, 6, 6),
    (2, 3, 4, 5),
    (1, 4, 2, 2),
    (2, 1, 3, 3),
)


def calls():
    return [pytest.param(family, name, id=name) for family in FAMILIES for name in family(pytorch)]


@pytest.mark.parametrize(("family", "name"), calls())
def test_layout_of_functions(family, name):
    """The same for functions that have no row."""
    for shape in SHAPES:
        array = (np.arange(np.prod(shape)).reshape(shape) % 7 - 2).astype(np.float32)
        for layout in LAYOUTS:
            answers = []
            for library in (torch, pytorch):
                x = laid_out(array, layout, library)
                call = family(library)[name]
                answers.append(layouts_of(lambda call=call, x=x: call(x), [x], exact=False))
            ours, theirs = answers
            if theirs is not None:
                assert ours == theirs, f"{name} of {shape}, {layout}"


def odd_views(library, dtype):
    """Return views of a dtype that are dense or not, overlapping or not, of several ranks."""
    x = library.arange(32).to(dtype).reshape(2, 2, 2, 4)[..., :2]
    y = library.arange(16).to(dtype).reshape(2, 2, 4)
    z = library.arange(12).to(dtype).reshape(2, 3, 2)
    return [
        *(x, x.permute(3, 1, 0, 2), x.transpose(0, 1)),
        *(z.unfold(1, 2, 1), z.unfold(1, 2, 1).transpose(0, 3)),
        *(y[..., :2], y[:, :, ::2], y[0, :, :2].t(), y[0, 0, :2]),
        *(y[0, 0, :2].expand(2, -1), y[0, :, :1].expand(2, 2), y[:1, :, :2].expand(2, 2, 2)),
    ]


@pytest.mark.parametrize("first", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("second", ["float32", "int64", "bool", "float16"])
def test_layout_of_mixed_dtypes(first, second):
    """PyTorch copies an operand of another dtype first, and the copy is dense."""
    answers = []
    for library in (torch, pytorch):
        lefts = odd_views(library, getattr(library, first))
        rights = odd_views(library, getattr(library, second))
        answers.append(
            [
                (tuple(y.shape), y.stride(), str(y.dtype))
                for a in lefts
                for b in rights
                for y in (a + b, library.maximum(a, b), a < b, library.where(b > 0, a, b))
            ]
        )
    assert answers[0] == answers[1]
