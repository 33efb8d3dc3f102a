"""Rows of the activations: one-argument pointwise ops that live in ``nn.functional``."""

import dtypes as dt
import numpy as np
from scipy import special

from op_db.pointwise import INTEGERS, NOT_A_TENSOR, VECTOR, log_sigmoid, torch_only
from op_db.row import Bad, Op, Skip, Tolerance
from op_db.sampler import unary

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946

REFUSES_INTEGERS = (Bad(INTEGERS, raises=RuntimeError, text="int64|Long"),)


def row(name, reference, low=-4.0, high=4.0, *, avoid=(0.0,), kwargs=({},), **fields):
    """Return the row of an activation; ``inplace="kwarg"`` is ``nn.functional``'s in-place form."""
    fields = {
        "dtypes": dt.FLOATS,
        "inplace": "kwarg",
        "special": True,
        "path": f"nn.functional.{name}",
        "bad": REFUSES_INTEGERS,
        **fields,
    }
    fields["bad"] += NOT_A_TENSOR
    return Op(name, reference, unary(low, high, avoid=avoid, kwargs=kwargs), **fields)


def relu(x):
    return np.maximum(x, 0)


def leaky_relu(x, negative_slope=0.01):
    return np.where(x > 0, x, x * negative_slope)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x))


def selu(x):
    return SELU_SCALE * elu(x, SELU_ALPHA)


def celu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * special.erfc(-x / np.sqrt(2))


def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def softsign(x):
    return x / (1 + np.abs(x))


def hardtanh(x, min_val=-1.0, max_val=1.0):
    return np.clip(x, min_val, max_val)


def hardswish(x):
    return x * (np.clip(x + 3, 0, 6) / 6)


def hardsigmoid(x):
    return np.clip(x + 3, 0, 6) / 6


def hardshrink(x, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x)


def softshrink(x, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x - np.copysign(lambd, x))


def threshold(x, threshold, value):
    return np.where(x <= threshold, value, x)


# Where an activation subtracts nearly equal values in the result's own precision, a few units of
# the operands' rounding remain in results close to zero.
CANCELS = Tolerance(relative=6, absolute=4)
GELU = {"avoid": (), "inplace": None, "tolerance": CANCELS}
SLOPES = ({}, {"negative_slope": 0.25})
ALPHAS = ({}, {"alpha": 1.5})
LAMBDAS = ({}, {"lambd": 1.5})

ROWS = (
    row(
        "relu",
        relu,
        dtypes=dt.NUMBERS,
        path="relu",
        method="relu",
        inplace="relu_",
        bad=(),
        signed_zero=False,
    ),
    row(
        "nn.functional.relu",
        relu,
        dtypes=dt.NUMBERS,
        path="nn.functional.relu",
        bad=(),
        signed_zero=False,
    ),
    row("leaky_relu", leaky_relu, kwargs=SLOPES),
    row("elu", elu, kwargs=ALPHAS),
    row("selu", selu),
    row("celu", celu, kwargs=ALPHAS),
    row("gelu", gelu, **GELU),
    row("gelu.tanh", gelu, path="nn.functional.gelu", kwargs=({"approximate": "tanh"},), **GELU),
    row("silu", lambda x: x * special.expit(x), avoid=()),
    row("mish", lambda x: x * np.tanh(np.logaddexp(0, x)), avoid=()),
    row(
        "softplus",
        softplus,
        avoid=(),
        inplace=None,
        kwargs=({}, {"beta": 2.0, "threshold": 5.0}),
        tolerance=CANCELS,
    ),
    row("softsign", softsign, dtypes=dt.NUMBERS, result="float", inplace=None, bad=()),
    row("logsigmoid", log_sigmoid, signed_zero=False, avoid=(), inplace=None, tolerance=CANCELS),
    row(
        "hardtanh",
        hardtanh,
        avoid=(-1.0, 1.0, -2.0, 2.0),
        kwargs=({}, {"min_val": -2.0, "max_val": 2.0}),
        dtypes=dt.FLOATS + dt.SIGNED,
        bad=(),
    ),
    row(
        "relu6",
        lambda x: np.clip(x, 0, 6),
        -9.0,
        9.0,
        avoid=(0.0, 6.0),
        dtypes=dt.NUMBERS,
        bad=(),
    ),
    row(
        "hardswish",
        hardswish,
        avoid=(-3.0, 3.0),
        tolerance=CANCELS,
        skips=(torch_only("hardswish overflows on its way to a finite result"),),
    ),
    row(
        "hardsigmoid",
        hardsigmoid,
        avoid=(-3.0, 3.0),
        tolerance=CANCELS,
        skips=(Skip("test_second_gradient", "not implemented in PyTorch", library="torch"),),
    ),
    row(
        "hardshrink",
        hardshrink,
        avoid=(-0.5, 0.5, -1.5, 1.5),
        kwargs=LAMBDAS,
        inplace=None,
        signed_zero=False,
    ),
    row(
        "softshrink",
        softshrink,
        avoid=(-0.5, 0.5, -1.5, 1.5),
        kwargs=LAMBDAS,
        inplace=None,
        signed_zero=False,
        bad=(*REFUSES_INTEGERS, Bad(VECTOR, -1.0, raises=RuntimeError, text="lambd.*-1")),
    ),
    row(
        "tanhshrink",
        lambda x: x - np.tanh(x),
        avoid=(),
        dtypes=dt.NUMBERS,
        result="float",
        inplace=None,
        signed_zero=False,
        tolerance=Tolerance(relative=6, absolute=4, half=2),
        bad=(),
    ),
    Op(
        "threshold",
        threshold,
        unary(
            avoid=(1.0, -2.0),
            kwargs=({"threshold": 1, "value": 3}, {"threshold": -2, "value": 0}),
        ),
        path="nn.functional.threshold",
        dtypes=dt.FLOATS + dt.SIGNED,
        inplace="kwarg",
        bad=(
            Bad(VECTOR, "a", 1.0, raises=TypeError, text="str|threshold"),
            Bad("a", 1.0, 1.0, raises=TypeError, text="str|Tensor"),
            Bad(VECTOR, raises=TypeError, text="threshold|argument"),
        ),
        skips=(Skip("test_inplace_refuses_expanded", "PyTorch writes anyway", library="torch"),),
    ),
    row(
        "nn.functional.sigmoid",
        special.expit,
        path="nn.functional.sigmoid",
        dtypes=dt.ALL,
        result="float",
        inplace=None,
        avoid=(),
        bad=(),
    ),
    row(
        "nn.functional.tanh",
        np.tanh,
        path="nn.functional.tanh",
        dtypes=dt.ALL,
        result="float",
        inplace=None,
        avoid=(),
        bad=(),
    ),
)
