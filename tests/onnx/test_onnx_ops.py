"""Every row of the op database as a graph, forward, in float32."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("PyTorch's exporter is its own", allow_module_level=True)
pytest.importorskip("onnx.checker")
pytest.importorskip("onnxruntime")

import numpy as np
from onnx_comparing import checked
from op_db import FAMILIES, OPS
from op_db.fft import TRANSFORMS
from op_db.row import Unspecified, Value, expected, lift, results, walk
from op_db.sampler import draw
from op_db.special import ROWS as SPECIAL_ROWS

from tapegrad.onnx.errors import OnnxExporterError, UnsupportedOperatorError

# The functions of torch.special that are no formula of the table.
FORMULAS = ("entr", "logit", "xlog1py")
SPECIAL = [op.name for op in SPECIAL_ROWS if op.name not in FORMULAS]
# Rows that no graph tells: the refusal must name a reason that is one of these.
DEPENDS = "depend on its inputs|total_repeats|run_numbers"  # sizes of results depend on elements
REFUSED = {
    "erfinv": "no function",
    "lgamma": "no function",
    "digamma": "no function",
    "polygamma": "no function",
    **dict.fromkeys(SPECIAL, "no function"),
    "nextafter": "no function",
    "mode": "no form",
    "masked_select": DEPENDS,
    "masked_scatter": DEPENDS,
    "nonzero": DEPENDS,
    "nonzero.tuple": DEPENDS,
    "where.one": DEPENDS,
    "repeat_interleave.tensor": DEPENDS,
    "unique": DEPENDS,
    "bincount": DEPENDS,
    "gcd": "no function",
    "lcm": "no function",
    **{op.name: "no form" for op in FAMILIES["linalg"]},
    **dict.fromkeys(TRANSFORMS, "complex64"),
}
# What has complex numbers on the way, whatever the ops.
COMPLEX = {"linalg.eig", "linalg.eigvals", *TRANSFORMS}
# Rows some of whose samples are refused, and why.
PARTLY_REFUSED = {
    "getitem.advanced": DEPENDS,  # by masks
    "setitem": DEPENDS,
    "frexp": "are read as",
    "adaptive_max_pool1d": "places of maxima",
    "adaptive_max_pool2d": "places of maxima",
    "adaptive_max_pool3d": "places of maxima",
}
# Whether a maximum with a NaN is NaN is up to the runtime.
NO_NANS = {*("max", "max.dim", "amax", "argmax", "cummax"), *("min", "min.dim", "amin", "argmin")}
NO_NANS |= {"cummin"}


class Place:
    """Where a tensor stood among the arguments."""

    def __init__(self, number):
        self.number = number


def as_function(op, sample):
    """Return a function of tensors alone that makes a sample's call, and the tensors."""
    tensors = []

    def taken_out(leaf):
        if not isinstance(leaf, Value):
            return lift(leaf)
        tensors.append(lift(leaf))
        return Place(len(tensors) - 1)

    spec = walk((sample.args, sample.kwargs), taken_out)

    def function(*given):
        args, kwargs = walk(spec, lambda x: given[x.number] if isinstance(x, Place) else x)
        return results(op.function()(*args, **kwargs))

    return function, tensors


def is_comparable(op, sample, wanted):
    """Return whether elements of a result are specified, and NumPy has their dtype."""
    if any(isinstance(each, Unspecified) for each in expected(op, sample)):
        return False
    if not all(isinstance(each, torch.Tensor) for each in wanted):
        return False
    if any(each.dtype is torch.bfloat16 for each in wanted):
        return False
    has_nans = any(np.isnan(value.array).any() for value in sample.values())
    return not (op.name in NO_NANS and has_nans)


def compare(op, sample):
    """Export a call and compare it; return whether it could be."""
    function, tensors = as_function(op, sample)
    wanted = function(*(tensor.clone() for tensor in tensors))
    if not is_comparable(op, sample, wanted):
        return False
    program = checked(torch.onnx.export(function, tuple(tensors)))
    found = program(*tensors)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), f"{op.name}{sample}"
        values = theirs.detach().double().numpy()
        # Sums round as the runtime adds.
        scale = max(1.0, np.abs(values).max(initial=0.0, where=np.isfinite(values)))
        np.testing.assert_allclose(
            ours.double().numpy(),
            values,
            rtol=2e-5,
            atol=2e-5 * scale,
            err_msg=f"{op.name}{sample}",
        )
    return True


def dtype_of(op):
    return "float32" if "float32" in op.dtypes else op.dtypes[0]


ROWS = [op for op in OPS if op.family != "random"]


@pytest.mark.parametrize(
    "op", [op for op in ROWS if op.name not in REFUSED], ids=lambda op: op.name
)
def test_row(op):
    compared = refused = 0
    for sample in draw(op, dtype_of(op)):
        try:
            compared += compare(op, sample)
        except UnsupportedOperatorError as error:
            if op.name not in PARTLY_REFUSED:
                raise
            assert any(part in str(error) for part in PARTLY_REFUSED[op.name].split("|"))
            refused += 1
    assert (refused > 0) is (op.name in PARTLY_REFUSED)
    assert compared or op.name.startswith("empty") or op.name == "Tensor.bfloat16"


@pytest.mark.parametrize("op", [op for op in ROWS if op.name in REFUSED], ids=lambda op: op.name)
def test_refused_row(op):
    samples = [each for each in draw(op, dtype_of(op)) if each.numel() > 1]
    function, tensors = as_function(op, samples[0])
    if op.name in COMPLEX:
        with pytest.raises(OnnxExporterError, match=r"no form for tensors of .*complex64"):
            torch.onnx.export(function, tuple(tensors))
        return
    with pytest.raises(UnsupportedOperatorError, match=REFUSED[op.name]) as caught:
        torch.onnx.export(function, tuple(tensors))
    line = op.samples.__code__.co_filename if op.wrapper else __file__
    assert "called at " in str(caught.value)
    assert __file__ in str(caught.value) or line in str(caught.value)


def test_lists_are_short_and_current():
    names = {op.name for op in OPS}
    assert names >= REFUSED.keys() | PARTLY_REFUSED.keys() | NO_NANS
    families = len(FAMILIES["linalg"]) + len(SPECIAL) + len(TRANSFORMS)
    assert len(REFUSED) <= 16 + families and len(PARTLY_REFUSED) <= 6


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize(
    "name", ["add", "mul", "maximum", "where", "sum", "cat", "eq", "neg", "masked_fill"]
)
def test_other_dtypes(name, dtype):
    (op,) = (op for op in OPS if op.name == name)
    if dtype not in op.dtypes:
        pytest.skip(f"{name} takes no {dtype}")
    for sample in draw(op, dtype):
        compare(op, sample)
