"""Ops on complex numbers, one line each: tests of values, gradients and transforms read this list.

A case is a name, a function of a library and its operands, and the operands: shape and whether they
are complex (``C``) or real (``R``).
"""

import numpy as np

C, R = "complex", "real"
PAIR = ((3, 4), C)
MATRIX = ((4, 2), C)


def case(name, call, *operands, differentiable=True):
    return name, call, operands or (PAIR,), differentiable


def method(name):
    return lambda t, *operands: getattr(t, name)(*operands)


UNARY = (
    "neg", "reciprocal", "square", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "sinc", "sigmoid", "abs", "angle", "sgn", "conj", "conj_physical", "real", "imag",
    "view_as_real", "clone", "sum", "mean", "prod", "var", "std", "ravel", "t", "adjoint",
)  # fmt: skip
TESTS = ("isnan", "isinf", "isfinite", "isreal", "logical_not", "any", "all", "count_nonzero")
BINARY = ("add", "sub", "mul", "div", "pow")

CASES = [
    *(case(name, method(name)) for name in UNARY),
    *(case(name, method(name), differentiable=False) for name in TESTS),
    *(case(name, method(name), PAIR, PAIR) for name in BINARY),
    *(case(f"{name}.real", method(name), PAIR, ((4,), R)) for name in BINARY),
    *(case(f"real.{name}", method(name), ((3, 1), R), PAIR) for name in BINARY),
    *(case(f"{name}.number", lambda t, x, n=name: getattr(t, n)(x, 1.5 - 0.5j)) for name in BINARY),
    *(case(f"number.{name}", lambda t, x, n=name: 0.5 + 2j + x * 1j) for name in ("add",)),
    case("rdiv", lambda t, x: (2 - 1j) / x),
    case("rdiv.real", lambda t, x: 2 / x),
    case("rpow", lambda t, x: (2 - 1j) ** x),
    case("square.pow", lambda t, x: x**2),
    case("cube", lambda t, x: x**3),
    case("root.pow", lambda t, x: x**0.5),
    case("inverse.pow", lambda t, x: x**-1),
    case("add.alpha", lambda t, x, y: t.add(x, y, alpha=0.5), PAIR, PAIR),
    case("sub.alpha", lambda t, x, y: t.sub(x, y, alpha=2), PAIR, PAIR),
    case("addcmul", lambda t, *x: t.addcmul(*x, value=0.5), PAIR, PAIR, PAIR),
    case("addcdiv", lambda t, *x: t.addcdiv(*x, value=0.5), PAIR, PAIR, PAIR),
    case("lerp", method("lerp"), PAIR, PAIR, PAIR),
    case("lerp.number", lambda t, x, y: t.lerp(x, y, 0.3), PAIR, PAIR),
    case("where", lambda t, x, y: t.where(x.real > 0, x, y), PAIR, PAIR),
    case("where.real", lambda t, x, y: t.where(y > 0, x, y), PAIR, ((3, 4), R)),
    case("add.alpha.complex", lambda t, x, y: t.add(x, y, alpha=0.5 - 1j), PAIR, PAIR),
    case("add.alpha.real", lambda t, x, y: x.add(y, alpha=0.5 - 1j), PAIR, ((4,), R)),
    case("real.add.alpha", lambda t, x, y: x.add(y, alpha=2j), ((3, 4), R), PAIR),
    case("sub.alpha.complex", lambda t, x, y: t.sub(x, y, alpha=2j), PAIR, PAIR),
    case("rsub.alpha", lambda t, x, y: t.rsub(x, y, alpha=1 + 2j), PAIR, PAIR),
    case("addcmul.complex", lambda t, *x: t.addcmul(*x, value=0.5 - 2j), PAIR, PAIR, PAIR),
    case("addcdiv.complex", lambda t, *x: t.addcdiv(*x, value=0.5 - 2j), PAIR, PAIR, PAIR),
    case("logaddexp", method("logaddexp"), PAIR, PAIR),
    case("logaddexp.real", method("logaddexp"), PAIR, ((3, 1), R)),
    case("logsumexp", lambda t, x: x.logsumexp(1)),
    case("logsumexp.all", lambda t, x: t.logsumexp(x, (0, 1), keepdim=True)),
    case("logcumsumexp", lambda t, x: x.logcumsumexp(1)),
    case("logcumsumexp.long", lambda t, x: x.logcumsumexp(0), ((9, 2), C)),
    case("silu", lambda t, x: t.nn.functional.silu(x)),
    case("softsign", lambda t, x: t.nn.functional.softsign(x)),
    case("tanhshrink", lambda t, x: t.nn.functional.tanhshrink(x)),
    case("nan_to_num", method("nan_to_num")),
    case("l1_loss", lambda t, x, y: t.nn.functional.l1_loss(x, y), PAIR, PAIR),
    case("conv1d", lambda t, *x: t.nn.functional.conv1d(*x, padding=1),
         ((2, 3, 5), C), ((4, 3, 2), C), ((4,), C)),
    case("conv2d", lambda t, *x: t.nn.functional.conv2d(*x, stride=2, groups=2, dilation=(1, 2)),
         ((1, 4, 5, 6), C), ((2, 2, 2, 2), C)),
    case("conv3d", lambda t, *x: t.nn.functional.conv3d(*x, padding="same"),
         ((1, 3, 3, 2), C), ((2, 1, 3, 1, 1), C)),
    case("conv_transpose1d", lambda t, *x: t.nn.functional.conv_transpose1d(*x, stride=2),
         ((2, 3, 4), C), ((3, 2, 2), C), ((2,), C)),
    case("conv_transpose2d", lambda t, *x: t.nn.functional.conv_transpose2d(*x, padding=1),
         ((1, 2, 3, 3), C), ((2, 1, 3, 2), C)),
    case("unfold.blocks", lambda t, x: t.nn.functional.unfold(x, 2, padding=1), ((1, 2, 3, 4), C)),
    case("fold", lambda t, x: t.nn.functional.fold(x, (3, 4), 2), ((1, 8, 6), C)),
    case("renorm", lambda t, x: t.renorm(x, 2, 0, 1.0)),
    case("corrcoef", method("corrcoef")),
    case("masked_scatter", lambda t, x, y: x.masked_scatter(t.eye(3, 4).bool(), y), PAIR, PAIR),
    case("index_add.alpha", lambda t, x, y: x.index_add(0, t.tensor([1, 1]), y, alpha=1 - 2j),
         PAIR, ((2, 4), C)),
    case("addmm.complex", lambda t, *x: t.addmm(*x, beta=0.5j, alpha=2 - 1j),
         ((3, 2), C), PAIR, MATRIX),
    case("baddbmm.complex", lambda t, *x: t.baddbmm(*x, beta=0.5j, alpha=2 - 1j),
         ((2, 3, 2), C), ((2, 3, 4), C), ((2, 4, 2), C)),
    case("addbmm.complex", lambda t, *x: t.addbmm(*x, beta=0.5j, alpha=2 - 1j),
         ((3, 2), C), ((2, 3, 4), C), ((2, 4, 2), C)),
    case("addmv.complex", lambda t, *x: t.addmv(*x, beta=0.5j, alpha=2 - 1j),
         ((3,), C), PAIR, ((4,), C)),
    case("addr.complex", lambda t, *x: t.addr(*x, beta=0.5j, alpha=2 - 1j),
         PAIR, ((3,), C), ((4,), C)),
    case("eq", method("eq"), PAIR, PAIR, differentiable=False),
    case("ne", method("ne"), PAIR, PAIR, differentiable=False),
    case("isclose", lambda t, x: t.isclose(x, x + 1e-9j), differentiable=False),
    case("complex", method("complex"), ((3, 4), R), ((4,), R)),
    case("polar", method("polar"), ((3, 4), R), ((4,), R)),
    case("view_as_complex", lambda t, x: t.view_as_complex(x), ((3, 2), R)),
    case("sum.dim", lambda t, x: x.sum(1, keepdim=True)),
    case("sum.transposed", lambda t, x: x.t().sum(0)),
    case("mean.dim", lambda t, x: x.mean((0, 1))),
    case("prod.dim", lambda t, x: x.prod(1)),
    case("var.dim", lambda t, x: x.var(1, correction=0)),
    case("norm", lambda t, x: x.norm()),
    case("norm.1", lambda t, x: t.norm(x, 1, dim=1)),
    case("norm.3", lambda t, x: t.norm(x, 3, dim=0)),
    case("norm.inf", lambda t, x: t.norm(x, float("inf"))),
    case("cumsum", lambda t, x: x.cumsum(1)),
    case("cumprod", lambda t, x: x.cumprod(1)),
    case("diff", lambda t, x: x.diff()),
    case("matmul", method("matmul"), PAIR, MATRIX),
    case("matmul.transposed", lambda t, x, y: x.mH @ y.t().mT.conj(), ((4, 3), C), MATRIX),
    case("matmul.batch", method("matmul"), ((2, 3, 4), C), MATRIX),
    case("matmul.broadcast", method("matmul"), ((2, 1, 3, 4), C), ((3, 4, 2), C)),
    case("bmm", method("bmm"), ((2, 3, 4), C), ((2, 4, 2), C)),
    case("mv", method("mv"), PAIR, ((4,), C)),
    case("dot", method("dot"), ((5,), C), ((5,), C)),
    case("vdot", method("vdot"), ((5,), C), ((5,), C)),
    case("outer", method("outer"), ((3,), C), ((4,), C)),
    case("inner", method("inner"), PAIR, PAIR),
    case("kron", method("kron"), ((2, 2), C), ((2, 2), C)),
    case("tensordot", lambda t, x, y: t.tensordot(x, y, 1), PAIR, MATRIX),
    case("addmm", lambda t, *x: t.addmm(*x, beta=0.5, alpha=2), ((3, 2), C), PAIR, MATRIX),
    case("baddbmm", method("baddbmm"), ((2, 3, 2), C), ((2, 3, 4), C), ((2, 4, 2), C)),
    case("einsum", lambda t, x, y: t.einsum("ij,jk->ik", x, y), PAIR, MATRIX),
    case("einsum.trace", lambda t, x: t.einsum("ii->", x), ((3, 3), C)),
    case("linear", lambda t, *x: t.nn.functional.linear(*x), PAIR, ((2, 4), C), ((2,), C)),
    case("trace", method("trace"), ((3, 3), C)),
    case("cov", method("cov")),
    case("vander", method("vander"), ((3,), C)),
    case("float_power", lambda t, x: t.float_power(x, 2)),
    case("cat", lambda t, x, y: t.cat([x, y]), PAIR, PAIR),
    case("cat.real", lambda t, x, y: t.cat([x, y]), PAIR, ((3, 4), R)),
    case("stack", lambda t, x, y: t.stack([x, y], 1), PAIR, PAIR),
    case("select", lambda t, x: x[1]),
    case("slice", lambda t, x: x[:, 1::2]),
    case("mask", lambda t, x: x[x.real > 0]),
    case("index", lambda t, x: x[t.tensor([2, 0, 2])]),
    case("index.two", lambda t, x: x[t.tensor([2, 0, 2]), t.tensor([1, 1, 1])]),
    case("index_select", lambda t, x: x.index_select(1, t.tensor([2, 0, 2]))),
    case("gather", lambda t, x: x.gather(1, t.tensor([[0, 0], [1, 3], [2, 2]]))),
    case("scatter", lambda t, x, y: x.scatter(1, t.tensor([[0], [1], [3]]), y), PAIR, ((3, 1), C)),
    case("scatter_add", lambda t, x, y: x.scatter_add(1, t.tensor([[0, 0], [1, 2], [3, 3]]), y),
         PAIR, ((3, 2), C)),
    case("index_add", lambda t, x, y: x.index_add(0, t.tensor([1, 1]), y), PAIR, ((2, 4), C)),
    case("index_put", lambda t, x, y: x.index_put((t.tensor([1, 1]),), y, accumulate=True),
         PAIR, ((2, 4), C)),
    case("masked_fill", lambda t, x: x.masked_fill(t.eye(3, 4).bool(), 2)),
    case("masked_select", lambda t, x: t.masked_select(x, t.eye(3, 4).bool())),
    case("flip", lambda t, x: x.flip(1)),
    case("roll", lambda t, x: x.roll(1, 0)),
    case("tril", lambda t, x: x.tril()),
    case("diag", lambda t, x: x.diag()),
    case("repeat", lambda t, x: x.repeat(2, 1)),
    case("expand", lambda t, x: x.expand(3, 4), ((1, 4), C)),
    case("unfold", lambda t, x: x.unfold(1, 3, 1)),
    case("reshape", lambda t, x: x.t().reshape(2, 6)),
    case("to.wide", lambda t, x: x.to(t.complex128)),
    case("to.complex", lambda t, x: x.to(t.complex128), ((3, 4), R)),
    case("unbind", lambda t, x: x.unbind(0)[1]),
    case("real.imag", lambda t, x: x.real * x.imag),
    case("conj.mul", lambda t, x: x * x.conj()),
    case("abs.square", lambda t, x: x.abs().square().sum()),
    case("fft", lambda t, x: t.fft.fft(x)),
    case("fft.real", lambda t, x: t.fft.fft(x, norm="ortho"), ((2, 5), R)),
    case("fft.padded", lambda t, x: t.fft.fft(x, 6)),
    case("fft.cut", lambda t, x: t.fft.ifft(x, 3, dim=0)),
    case("fft2.real", lambda t, x: t.fft.fft2(x), ((3, 4), R)),
    case("ifftn", lambda t, x: t.fft.ifftn(x, dim=(1, 0))),
    case("rfft", lambda t, x: t.fft.rfft(x), ((2, 5), R)),
    case("rfftn", lambda t, x: t.fft.rfftn(x, norm="forward"), ((3, 4), R)),
    case("irfft", lambda t, x: t.fft.irfft(x)),
    case("irfft.odd", lambda t, x: t.fft.irfft(x, 5, norm="ortho")),
    case("irfftn", lambda t, x: t.fft.irfftn(x, s=(3, 7))),
    case("hfft", lambda t, x: t.fft.hfft(x)),
    case("hfft2", lambda t, x: t.fft.hfft2(x, norm="ortho")),
    case("ihfft", lambda t, x: t.fft.ihfft(x), ((2, 6), R)),
    case("ihfftn", lambda t, x: t.fft.ihfftn(x), ((3, 4), R)),
    case("fftshift", lambda t, x: t.fft.fftshift(x)),
    case("write.real", lambda t, x: _write(t, x, "real")),
    case("write.pairs", lambda t, x: _write(t, x, "pairs")),
    case("write.part", lambda t, x: _write(t, x, "part")),
    case("write.complex", lambda t, x: _write_complex(t, x), ((3, 2), R)),
]  # fmt: skip


def _write(t, x, what):
    y = x * 1
    if what == "real":
        y.real = y.imag * 2
    elif what == "pairs":
        t.view_as_real(y).mul_(t.tensor([2.0, 3.0], dtype=y.real.dtype))
    else:
        y[1].imag.mul_(y.real[0])
    return y * y


def _write_complex(t, x):
    y = x * 1
    t.view_as_complex(y).mul_(2 + 1j)
    return y * y


IDS = [name for name, *_ in CASES]
DIFFERENTIABLE = [entry for entry in CASES if entry[3]]


def arrays(operands, wide=True, seed=0):
    """Return NumPy arrays of operands, away from zero and from the branch cuts on the axes."""
    rng = np.random.default_rng(seed)
    found = []
    for shape, kind in operands:
        radius = rng.uniform(0.4, 1.6, shape)
        if kind == R:
            found.append(radius.astype("float64" if wide else "float32"))
            continue
        quarter = rng.integers(0, 4, shape) * (np.pi / 2)
        values = radius * np.exp(1j * (quarter + rng.uniform(0.3, 1.2, shape)))
        found.append(values.astype("complex128" if wide else "complex64"))
    return found
