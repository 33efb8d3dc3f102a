"""What ops and modules make of tensors whose channels lie last, beside PyTorch 2.13.

Results have PyTorch's strides, and so have the gradients that arrive at ``.grad``, and those that
``autograd.grad`` returns for gradients of results that lie as the results do; values are PyTorch's.
"""

import numpy as np
import pytest
from cases import each_op
from library import IS_TORCH, pytorch_for_parity, torch
from op_db.row import Sample, Value, results, walk
from op_db.sampler import draw
from test_result_layout import REFUSALS, laid_out, lift_in

pytorch, REASON = pytorch_for_parity()
if pytorch is None or IS_TORCH:
    pytest.skip(REASON or "there is nothing to compare PyTorch with", allow_module_level=True)

# ---- differences, and why

VIEW = "the gradient of a mean is a view of one value here, and a copy there"
OPERANDS = "operands of its formula for the gradient disagree, and PyTorch's stand in another order"
KEPT = "the gradient keeps the format of the input, which PyTorch's loses on the way"
UNORDERED = "the gradient is put together in the usual order here, which PyTorch's leaves"
PARTS = "the gradient of real numbers is a view of a complex one's real parts there"
ELSEWHERE = "not about formats: the gradient of a matrix is a transposed view here"
# Of gradients that autograd.grad() returns; those in .grad have no differences.
RETURNED = {
    **dict.fromkeys(["mean", "mean.hw", "mean.keepdim"], VIEW),
    **dict.fromkeys(["pow", "xlogy", "xlog1py", "fmax", "fmin", "amax", "amin", "prod"], OPERANDS),
    **dict.fromkeys(["put", "take", "masked_select", "setitem", "Conv2d.same"], UNORDERED),
    **dict.fromkeys(["AdaptiveAvgPool2d.one", "GLU", "mse_loss", "as_strided"], KEPT),
    **dict.fromkeys(["copysign", "nextafter", "max", "min", "mvlgamma", "sgn"], KEPT),
    **dict.fromkeys(["Upsample", "Upsample.exact", "Upsample.bicubic"], KEPT),
    **dict.fromkeys(["matmul", "Linear"], ELSEWHERE),
    **dict.fromkeys(
        ["fft.fft", "fft.ifft", "fft.rfft", "fft.ihfft", "fft.irfft", "fft.hfft"], PARTS
    ),
    **dict.fromkeys(["fft.fftn", "fft.rfftn", "fft.irfftn", "istft"], PARTS),
    "linalg.pinv": "not about formats: the gradient of a matrix is a transposed view there",
}
# Of results.
RESULTS = {
    "RReLU": "PyTorch's result is contiguous, though that of leaky_relu keeps a format",
    "mvlgamma": "a sum along a dimension there, whose result is contiguous",
}
# One of the two refuses.
REFUSED = {
    "max_pool3d": "a volume without a batch looks like images",
    "MaxPool3d": "the same",
    "PixelShuffle": "of volumes",
    "PixelUnshuffle": "the same",
    "floor_divide": "there is no derivative there, and zero here",
    "set_": "the gradient stops here, and is refused there",
    **dict.fromkeys(
        ["scatter", "scatter_add", "scatter_reduce", "scatter_reduce.prod"],
        "the gradient of a source larger than the index is refused there",
    ),
    "AdaptiveAvgPool2d.one": "PyTorch takes volumes for images",
    "take_along_dim": "an index of other sizes is broadcast there alone",
}
MOST_DIFFERENCES = 59


def test_differences_are_few():
    assert len(RETURNED) + len(RESULTS) + len(REFUSED) <= MOST_DIFFERENCES


# ---- one call on one library


def strides(y):
    """Return shape and strides; along a dimension of size one nobody steps."""
    pairs = zip(y.shape, y.stride(), strict=True)
    return tuple(y.shape), [step if n > 1 and y.numel() else None for n, step in pairs]


def seed_of(library, y, layout):
    """Return a gradient for a result: contiguous, or laid out as the result is."""
    numbers = np.asarray(np.arange(y.numel()).reshape(tuple(y.shape)) % 5 - 1.5, np.float32)
    seed = library.from_numpy(numbers).to(y.dtype)
    return library.empty_like(y).detach().copy_(seed) if layout == "like" else seed


def array_of(x):
    return x.detach().double().numpy()


class Outcome:
    """Strides and values of a call's results and gradients."""

    def __init__(self, library, make, layout):
        """Call what `make` returns, a function and its leaves; again for another sweep."""
        function, leaves = make()
        self.results = results(function())
        self.strides = [strides(y) for y in self.results if hasattr(y, "stride")]
        self.values = [array_of(y) for y in self.results if hasattr(y, "stride")]
        self.returned, self.kept = [], []
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        outputs = self._differentiable(self.results)
        if not leaves or not outputs:
            return
        seeds = [seed_of(library, y, layout) for y in outputs]
        found = library.autograd.grad(outputs, leaves, seeds, allow_unused=True)
        self.returned = [None if grad is None else strides(grad) for grad in found]
        self.values += [array_of(grad) for grad in found if grad is not None]
        function, leaves = make()
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        library.autograd.backward(self._differentiable(results(function())), seeds)
        self.kept = [None if leaf.grad is None else strides(leaf.grad) for leaf in leaves]

    @staticmethod
    def _differentiable(answer):
        return [y for y in answer if hasattr(y, "stride") and y.requires_grad]


def both(make, layout):
    """Return the outcomes in this library and in PyTorch; None where a call is refused."""
    found = []
    for library in (torch, pytorch):
        try:
            found.append(Outcome(library, lambda library=library: make(library), layout))
        except REFUSALS:
            found.append(None)
    return found


def check(name, make, context, *, values=True):
    """Compare two outcomes, but for the differences that are known."""
    for layout in ("like", "contiguous"):
        ours, theirs = both(make, layout)
        if ours is None or theirs is None:
            assert (ours is None) == (theirs is None) or name in REFUSED, f"{context}: refused"
            continue
        assert ours.strides == theirs.strides or name in RESULTS, context
        assert ours.kept == theirs.kept, f".grad of {context}, gradient {layout}"
        if layout == "like" and name not in RETURNED:
            assert ours.returned == theirs.returned, f"gradient of {context}"
        if values:
            for mine, other in zip(ours.values, theirs.values, strict=True):
                np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-4, err_msg=context)


# ---- rows of the op database


def widened(sample, rank):
    """Return a sample whose tensors have more dimensions behind their own, or None."""
    most = max((value.array.ndim for value in sample.values()), default=0)
    if not 1 <= most <= rank:
        return None
    behind = (2, 3, 2, 3)[: rank - most]

    def visit(leaf):
        if not isinstance(leaf, Value) or leaf.array.ndim == 0 or not behind:
            return leaf
        array = leaf.array.reshape(leaf.array.shape + (1,) * len(behind))
        array = np.broadcast_to(array, leaf.array.shape + behind).copy()
        if array.dtype.kind == "f":  # no two equal, for sorts
            array *= np.linspace(0.9, 1, array.size).reshape(array.shape).astype(array.dtype)
        return Value(array, leaf.dtype, leaf.differentiable)

    args, kwargs = walk((sample.args, sample.kwargs), visit)
    return Sample(*args, **kwargs)


def mixtures(sample):
    yield ("channels_last",)
    if len(sample.values()) > 1:
        yield "channels_last", "contiguous"
        yield "contiguous", "channels_last"


def call_of(op, sample, layouts):
    def make(library):
        (args, kwargs), tensors = lift_in(sample, layouts, library)
        for tensor in tensors:
            if tensor.is_floating_point() and op.gradient_order:
                tensor.requires_grad_()
        return lambda: op.function(library)(*args, **kwargs), tensors

    return make


@pytest.mark.filterwarnings("ignore")
# Without a derivative there, PyTorch has no gradient to compare with.
@each_op("test_layout", having=lambda op: op.pytorch_gradient)
def test_rows(op):
    for rank in (4, 5):
        for sample in draw(op, op.dtypes[0]):
            wide = widened(sample, rank) if sample.numel() <= 200 else None
            if wide is None or any(value.array.size == 0 for value in wide.values()):
                continue
            for layouts in mixtures(wide):
                # Values are those of other layouts (test_result_layout.py), which are NumPy's.
                check(
                    op.name, call_of(op, wide, layouts), f"{op.name}{wide} {layouts}", values=False
                )


# ---- modules and functions without a row


def modules(t):
    """Return constructors by name, which take the number of channels and the shape."""
    n, f = t.nn, t.nn.functional
    kinds = {
        "Conv2d": lambda c, s: n.Conv2d(c, 8, 3, padding=1),
        "Conv2d.strided": lambda c, s: n.Conv2d(c, 20, 3, stride=2, bias=False),
        "Conv2d.pointwise": lambda c, s: n.Conv2d(c, 16, 1),
        "Conv2d.depthwise": lambda c, s: n.Conv2d(c, c, 3, groups=c, padding=1),
        "Conv2d.multiplied": lambda c, s: n.Conv2d(c, 2 * c, 3, groups=c),
        "Conv2d.dilated": lambda c, s: n.Conv2d(c, 18, 2, dilation=2),
        "Conv2d.grouped": lambda c, s: n.Conv2d(c, 32, 3, groups=2),
        "Conv2d.same": lambda c, s: n.Conv2d(c, 4, 2, padding="same"),
        "Conv2d.reflect": lambda c, s: n.Conv2d(c, 4, 3, padding=1, padding_mode="reflect"),
        "ConvTranspose2d": lambda c, s: n.ConvTranspose2d(c, 16, 3, stride=2),
        "ConvTranspose2d.grouped": lambda c, s: n.ConvTranspose2d(c, 4, 2, groups=2),
        "Conv3d": lambda c, s: n.Conv3d(c, 6, 2),
        "ConvTranspose3d": lambda c, s: n.ConvTranspose3d(c, 6, 2),
        "BatchNorm2d": lambda c, s: n.BatchNorm2d(c),
        "BatchNorm2d.eval": lambda c, s: n.BatchNorm2d(c).eval(),
        "BatchNorm2d.plain": lambda c, s: n.BatchNorm2d(c, affine=False),
        "BatchNorm3d": lambda c, s: n.BatchNorm3d(c),
        "InstanceNorm2d": lambda c, s: n.InstanceNorm2d(c, affine=True),
        "GroupNorm": lambda c, s: n.GroupNorm(2, c),
        "LayerNorm": lambda c, s: n.LayerNorm(s[-1]),
        "LayerNorm.image": lambda c, s: n.LayerNorm(s[1:]),
        "RMSNorm": lambda c, s: n.RMSNorm(s[-1]),
        "LocalResponseNorm": lambda c, s: n.LocalResponseNorm(2),
        "MaxPool2d": lambda c, s: n.MaxPool2d(2),
        "MaxPool2d.padded": lambda c, s: n.MaxPool2d(3, stride=2, padding=1),
        "MaxPool2d.indices": lambda c, s: n.MaxPool2d(2, return_indices=True),
        "MaxPool3d": lambda c, s: n.MaxPool3d(2),
        "AvgPool2d": lambda c, s: n.AvgPool2d(2),
        "AvgPool2d.padded": lambda c, s: n.AvgPool2d(3, stride=1, padding=1),
        "AvgPool3d": lambda c, s: n.AvgPool3d(2),
        "AdaptiveAvgPool2d": lambda c, s: n.AdaptiveAvgPool2d(3),
        "AdaptiveAvgPool2d.one": lambda c, s: n.AdaptiveAvgPool2d(1),
        "AdaptiveMaxPool2d": lambda c, s: n.AdaptiveMaxPool2d(2),
        "AdaptiveMaxPool3d": lambda c, s: n.AdaptiveMaxPool3d(2),
        "LPPool2d": lambda c, s: n.LPPool2d(2, 2),
        "MaxUnpool2d": lambda c, s: (
            lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2)
        ),
        "Upsample": lambda c, s: n.Upsample(scale_factor=2),
        "Upsample.exact": lambda c, s: n.Upsample(scale_factor=1.5, mode="nearest-exact"),
        "Upsample.bilinear": lambda c, s: n.Upsample(scale_factor=2, mode="bilinear"),
        "Upsample.bicubic": lambda c, s: n.Upsample(scale_factor=2, mode="bicubic"),
        "Upsample.trilinear": lambda c, s: n.Upsample(scale_factor=2, mode="trilinear"),
        "interpolate.area": lambda c, s: lambda x: f.interpolate(x, scale_factor=0.5, mode="area"),
        "interpolate.antialias": lambda c, s: (
            lambda x: f.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)
        ),
        "ReflectionPad2d": lambda c, s: n.ReflectionPad2d(1),
        "ReplicationPad2d": lambda c, s: n.ReplicationPad2d((1, 0, 2, 1)),
        "ConstantPad2d": lambda c, s: n.ConstantPad2d((1, 0, -1, 1), 3.0),
        "CircularPad2d": lambda c, s: n.CircularPad2d(1),
        "ReplicationPad3d": lambda c, s: n.ReplicationPad3d(1),
        "ConstantPad3d": lambda c, s: n.ConstantPad3d(1, 3.0),
        "pad.channels": lambda c, s: lambda x: f.pad(x, (0, 0, 1, 0, 2, 1)),
        "PixelShuffle": lambda c, s: n.PixelShuffle(2),
        "PixelUnshuffle": lambda c, s: n.PixelUnshuffle(2),
        "ChannelShuffle": lambda c, s: n.ChannelShuffle(2),
        "Softmax2d": lambda c, s: n.Softmax2d(),
        "LogSoftmax": lambda c, s: n.LogSoftmax(1),
        "Dropout": lambda c, s: n.Dropout(0.5).eval(),
        "Flatten": lambda c, s: n.Flatten(),
        "Linear": lambda c, s: n.Linear(s[-1], 4),
        "PReLU": lambda c, s: n.PReLU(c),
        "GLU": lambda c, s: n.GLU(1),
        "grid_sample": lambda c, s: (
            lambda x: f.grid_sample(
                x, t.linspace(-0.9, 0.9, s[0] * 18).reshape(s[0], 3, 3, 2), align_corners=False
            )
        ),
        "normalize": lambda c, s: f.normalize,
        "mse_loss": lambda c, s: lambda x: f.mse_loss(x, t.zeros(s), reduction="none"),
        "cross_entropy": lambda c, s: (
            lambda x: f.cross_entropy(x, t.zeros((s[0], *s[2:]), dtype=t.int64))
        ),
        **functions(t),
    }
    for name in ("ReLU", "ReLU6", "GELU", "SiLU", "Mish", "ELU", "SELU", "Hardswish", "Hardtanh",
                 "LeakyReLU", "Sigmoid", "Tanh", "Softplus", "Softsign", "RReLU"):  # fmt: skip
        kinds[name] = lambda c, s, name=name: getattr(n, name)().eval()
    return kinds


def functions(t):
    """Return functions of a tensor in the same way."""
    return {
        "cat": lambda c, s: lambda x: t.cat([x, x * 2], 1),
        "cat.mixed": lambda c, s: lambda x: t.cat([t.zeros(s), x], 1),
        "stack": lambda c, s: lambda x: t.stack([x, x]),
        "chunk": lambda c, s: lambda x: t.cat([part.relu() for part in x.chunk(2, 1)], 1),
        "mean.hw": lambda c, s: lambda x: x.mean((2, 3)),
        "mean.keepdim": lambda c, s: lambda x: x.mean((2, 3), keepdim=True),
        "sum.channels": lambda c, s: lambda x: x.sum(1, keepdim=True),
        "max.channels": lambda c, s: lambda x: x.max(1, keepdim=True)[0],
        "var": lambda c, s: lambda x: x.var((2, 3), keepdim=True),
        "cumsum": lambda c, s: lambda x: x.cumsum(1),
        "flip": lambda c, s: lambda x: x.flip(1),
        "roll": lambda c, s: lambda x: x.roll(1, 2),
        "add.channels": lambda c, s: lambda x: x + t.arange(float(c)).view(c, *[1] * (len(s) - 2)),
        "gate": lambda c, s: lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
        "add.mixed": lambda c, s: lambda x: t.ones(s) + x,
        "slice": lambda c, s: lambda x: x[:, 1:3],
        "index": lambda c, s: lambda x: x[:, t.tensor([0, 1])],
        "permute": lambda c, s: lambda x: x.permute(0, *range(2, len(s)), 1),
        "where": lambda c, s: lambda x: t.where(x > 0, x, 0.0),
        "masked_fill": lambda c, s: lambda x: x.masked_fill(x > 0, 1.0),
        "inplace": lambda c, s: lambda x: (x * 1).add_(1).relu_(),
        "copy_": lambda c, s: lambda x: (x * 1).copy_(x * 2),
        "copy_.mixed": lambda c, s: lambda x: t.zeros(s).copy_(x),
        "half": lambda c, s: lambda x: x.half().float(),
        "expand": lambda c, s: lambda x: x[:, :1].expand(s),
        "repeat": lambda c, s: lambda x: x.repeat(*[1] * (len(s) - 1), 2),
        "addcmul": lambda c, s: lambda x: t.addcmul(x, x, x),
        "lerp": lambda c, s: lambda x: t.lerp(x, x * 2, 0.5),
        "einsum": lambda c, s: lambda x: t.einsum("bc...,ck->bk...", x, t.ones(c, 3)),
    }


MODULE_SHAPES = ((2, 4, 6, 8), (1, 4, 6, 8), (2, 16, 4, 4), (2, 4, 4, 6, 4), (1, 4, 4, 4, 4))
# Which of input and parameters have their channels last.
PLACED = (("channels_last", True), ("channels_last", False), ("contiguous", True))


def filled(library, module, shape, placed):
    """Give a module's parameters values that both libraries have, and perhaps the format."""
    if not isinstance(module, library.nn.Module):
        return module
    with library.no_grad():
        for parameter in module.parameters():
            numbers = (np.arange(parameter.numel()) * 7919 % 23 - 11) / 23
            parameter.copy_(
                library.from_numpy(numbers.astype(np.float32).reshape(tuple(parameter.shape)))
            )
    name = "channels_last" if len(shape) == 4 else "channels_last_3d"
    ranks = {parameter.dim() for parameter in module.parameters()}
    if placed and not ranks & ({4, 5} - {len(shape)}):
        module.to(memory_format=getattr(library, name))
    return module


def module_call(name, shape, layout, placed):
    numbers = (np.arange(np.prod(shape)) * 6151 % 101 - 50) / 17
    array = numbers.astype(np.float32).reshape(shape)

    def make(library):
        module = filled(library, modules(library)[name](shape[1], shape), shape, placed)
        x = laid_out(array, layout, library).requires_grad_()
        parameters = list(module.parameters()) if isinstance(module, library.nn.Module) else []
        return lambda: module(x), [x, *parameters]

    return make


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", modules(pytorch))
def test_modules(name):
    tried = 0
    for shape in MODULE_SHAPES:
        for layout, placed in PLACED:
            context = f"{name} of {shape}, input {layout}, parameters {placed}"
            make = module_call(name, shape, layout, placed)
            tried += both(make, "like")[1] is not None
            check(name, make, context)
    assert tried, "no shape fits the module"


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["Conv2d", "BatchNorm2d", "MaxPool2d", "AvgPool2d"])
def test_other_dtypes(name, dtype):
    answers = []
    for library in (torch, pytorch):
        module = filled(library, modules(library)[name](4, (2, 4, 6, 8)), (2, 4, 6, 8), True)
        module = module.to(getattr(library, dtype))
        x = laid_out(
            np.arange(384, dtype=np.float32).reshape(2, 4, 6, 8) / 100, "channels_last", library
        )
        y = module(x.to(getattr(library, dtype)))
        answers.append((strides(y), array_of(y)))
    assert answers[0][0] == answers[1][0]
    np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["Conv2d", "MaxPool2d", "BatchNorm2d", "Upsample", "PixelShuffle"])
def test_meta_tensors_have_the_same_strides(name):
    for shape in MODULE_SHAPES[:3]:
        x = laid_out(np.ones(shape, np.float32), "channels_last", torch)
        module = modules(torch)[name](shape[1], shape).to(memory_format=torch.channels_last)
        wanted = module(x).stride()
        assert module.to("meta")(x.to("meta")).stride() == wanted


@pytest.mark.filterwarnings("ignore:dropout2d")
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name", ["Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout"])
def test_random_modules_keep_the_format(name, inplace):
    for shape in MODULE_SHAPES[:4]:
        answers = []
        for library in (torch, pytorch):
            x = laid_out(np.ones(shape, np.float32), "channels_last", library).requires_grad_()
            y = getattr(library.nn, name)(inplace=inplace)(x * 1)
            (grad,) = library.autograd.grad(y, x, library.ones_like(y))
            answers.append((strides(y), strides(grad)))
        assert answers[0] == answers[1], shape
