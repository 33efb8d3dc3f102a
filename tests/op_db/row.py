"""What a row of the op database is, and how its samples become calls.

Samples are library-neutral: a tensor is a ``Value`` (a NumPy array and a dtype name), a dtype
argument is a ``Dtype``. ``lift`` turns them into a library's tensors, ``lower`` into the arrays
that a reference takes. One sample thereby serves the library under test, PyTorch beside it, and
NumPy.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import dtypes as dt
import numpy as np
from library import NAME, resolve, torch


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor argument: its values, its dtype, and whether a gradient may be taken by it."""

    array: np.ndarray
    dtype: str
    differentiable: bool = True

    def __repr__(self):
        if self.array.size <= 6:
            return f"tensor({self.array.tolist()}, dtype={self.dtype})"
        return f"tensor(shape={self.array.shape}, dtype={self.dtype})"


class Dtype(str):
    """A dtype argument, by name."""

    def __repr__(self):
        return f"torch.{self}"


@dataclass(frozen=True)
class Unspecified:
    """A reference's answer when only the shape of the result is specified (``empty``, ``rand``)."""

    shape: tuple[int, ...]


class Sample:
    """The arguments of one call."""

    def __init__(self, *args, **kwargs):
        self.args = args
        self.kwargs = kwargs

    def values(self):
        """Return the tensors among the arguments, also inside lists and tuples."""
        found = []
        walk((self.args, self.kwargs), lambda leaf: isinstance(leaf, Value) and found.append(leaf))
        return found

    def numel(self):
        return max((value.array.size for value in self.values()), default=0)

    def __repr__(self):
        parts = [repr(arg) for arg in self.args]
        parts += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"({', '.join(parts)})"


class Bad:
    """A call that must be refused: its arguments, the exception type and a pattern in its text."""

    def __init__(self, *args, raises, text, **kwargs):
        self.sample = Sample(*args, **kwargs)
        self.raises = raises
        self.text = text


@dataclass(frozen=True)
class Skip:
    """A test that a row does not run, and why. Few, and capped by the completeness test.

    With ``library="torch"`` the test is not run when PyTorch itself is under test: the row asks
    for more than PyTorch delivers.
    """

    test: str
    reason: str
    dtypes: tuple[str, ...] = dt.ALL
    library: str = ""


@dataclass(frozen=True)
class Tolerance:
    """The error allowed, in units of the result dtype's epsilon.

    ``relative`` times epsilon bounds the error relative to the expected value; ``absolute`` times
    epsilon is allowed on top, for results near zero that come from the difference of larger values.
    Half dtypes are computed in float32 and rounded once, so one unit is the whole allowance there,
    unless the op accumulates in several roundings (``half`` says how many).
    """

    relative: float = 4.0
    absolute: float = 0.0
    half: float = 1.0

    def bounds(self, dtype):
        if dtype not in dt.EPSILON:
            return 0.0, 0.0
        epsilon = dt.EPSILON[dtype]
        if dtype in ("float16", "bfloat16"):
            absolute = min(self.absolute, self.half)
            return self.half * epsilon, absolute * epsilon + self.half * dt.TINIEST[dtype]
        return self.relative * epsilon, self.absolute * epsilon + dt.TINIEST[dtype]


@dataclass(frozen=True)
class Op:
    """One row: everything that the tests know about one op.

    Attributes:
        name: unique, and the pytest id; a variant reads ``div.floor``, ``gelu.tanh``.
        reference: NumPy function taking the lowered arguments of a sample.
        samples: generator function from a ``Sampler`` to ``Sample`` objects.
        path: where the function lives in the library (``nn.functional.gelu``, ``Tensor.view``).
        wrapper: function of the library that returns the function to call, for what is a statement
            (``x[index] = value``) or writes into its argument.
        dtypes: accepted dtypes of the sampled tensors.
        result: rule for the result's dtype, see ``op_db.row.result_dtype``.
        tolerance: see ``Tolerance``.
        gradient_order: 0 no gradient, 1 first order only, 2 any order.
        pytorch_gradient: False where PyTorch has no derivative and this library has.
        method, inplace: names of the Tensor methods, or None; ``inplace="kwarg"`` means the
            ``inplace=True`` argument of ``nn.functional``.
        out: whether ``out=`` is accepted; a function of the sample where only some calls take it.
        operator, inplace_operator: the functions from the module ``operator`` that do the same.
        promotes: operands of mixed dtypes are promoted.
        special: NaN, infinities, signed zeros and extreme values are meaningful inputs.
        signed_zero: at special values the sign of a zero result is specified.
        native: the reference works in the sample's own dtype instead of float64.
        view: True when the results share the first argument's storage, False when they are fresh,
            None when they may do either.
        bad: calls that must be refused.
        missing: kinds of input that the op lacks (``zero_size``, ``zero_dim``), with a reason.
        skips: tests not run, with a reason.
    """

    name: str
    reference: Callable[..., Any]
    samples: Callable[..., Iterable[Sample]]
    path: str = ""
    wrapper: Callable[..., Any] | None = None
    dtypes: tuple[str, ...] = dt.FLOATS
    result: str | Callable[..., Any] = "promoted"
    tolerance: Tolerance = Tolerance()
    gradient_order: int = 2
    pytorch_gradient: bool = True
    method: str | None = None
    inplace: str | None = None
    out: bool | Callable[..., bool] = False
    operator: Callable[..., Any] | None = None
    inplace_operator: Callable[..., Any] | None = None
    promotes: bool = False
    special: bool = False
    signed_zero: bool = True
    native: bool = False
    view: bool | None = False
    bad: tuple[Bad, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    skips: tuple[Skip, ...] = ()
    family: str = ""

    def function(self, library=torch):
        """Return the op's function in a library."""
        if self.wrapper:
            return self.wrapper(library)
        return resolve(self.path or self.name, library)

    def takes_out(self, sample):
        """Return whether the call accepts ``out=``."""
        return self.out(sample) if callable(self.out) else self.out

    def skip_reason(self, test, dtype=""):
        for skip in self.skips:
            applies = skip.library in ("", NAME) and (not dtype or dtype in skip.dtypes)
            if skip.test == test and applies:
                return skip.reason
        return None


def walk(tree, visit):
    """Rebuild nested tuples, lists and dicts with every leaf replaced by ``visit(leaf)``."""
    if isinstance(tree, tuple):
        return tuple(walk(item, visit) for item in tree)
    if isinstance(tree, list):
        return [walk(item, visit) for item in tree]
    if isinstance(tree, dict):
        return {key: walk(item, visit) for key, item in tree.items()}
    return visit(tree)


LAYOUTS = ("contiguous", "transposed", "strided")


def lift_value(value, library=torch, layout="contiguous"):
    """Return a tensor with the value's elements on the default device, laid out as asked."""
    array = value.array
    if layout == "transposed" and array.ndim >= 2:
        stored = np.ascontiguousarray(array.T)
    elif layout == "strided" and array.ndim >= 1:
        # Every second column, starting at the second: an offset and a step, with junk in between.
        stored = np.repeat(array, 2, axis=-1)
        stored[..., ::2] = 1
    else:
        stored, layout = np.array(array, order="C"), "contiguous"
    tensor = library.from_numpy(stored).to(library.get_default_device())
    if value.dtype == "bfloat16":
        tensor = tensor.to(library.bfloat16)
    if layout == "transposed":
        return tensor.permute(*reversed(range(array.ndim)))
    if layout == "strided":
        return tensor[..., 1::2]
    return tensor


def lift(tree, library=torch, layout="contiguous"):
    """Turn a sample's arguments into a library's arguments."""

    def visit(leaf):
        if isinstance(leaf, Value):
            return lift_value(leaf, library, layout)
        if isinstance(leaf, Dtype):
            return getattr(library, leaf)
        return leaf

    return walk(tree, visit)


def lower(op, tree):
    """Turn a sample's arguments into a reference's: floats become float64, integers stay.

    Integers become float64 too in ops whose result is always floating.
    """

    def visit(leaf):
        if not isinstance(leaf, Value):
            return leaf
        wide = op.result == "float" or (dt.is_float(leaf.dtype) and not op.native)
        return leaf.array.astype(np.float64) if wide else leaf.array.copy()

    return walk(tree, visit)


def call(op, sample, library=torch, layout="contiguous"):
    """Call an op of a library on a sample."""
    args, kwargs = lift((sample.args, sample.kwargs), library, layout)
    return op.function(library)(*args, **kwargs)


def expected(op, sample):
    """Return what the reference says about a sample, as a list with one entry per result."""
    args, kwargs = lower(op, (sample.args, sample.kwargs))
    with np.errstate(all="ignore"):
        answer = op.reference(*args, **kwargs)
    return list(answer) if isinstance(answer, tuple | list) else [answer]


def results(answer):
    """Return an op's answer as a list, for ops with one result and with several."""
    return list(answer) if isinstance(answer, tuple | list) else [answer]


def operand_dtypes(sample):
    """Return the ``(dtype, standing)`` pairs of an op, as ``dtypes.promote`` takes them."""
    operands = []

    def visit(leaf):
        if isinstance(leaf, Value):
            operands.append((leaf.dtype, 2 if leaf.array.ndim else 1))
        elif isinstance(leaf, bool):
            operands.append(("bool", 0))
        elif isinstance(leaf, int):
            operands.append(("int64", 0))
        elif isinstance(leaf, float):
            operands.append((dt.DEFAULT_FLOAT, 0))

    walk(sample.args, visit)
    return operands


def result_dtype(op, sample):
    """Return the dtypes a row promises for its results, as a list.

    Rules: ``promoted`` (of all operands), ``same`` (the first tensor's), ``float`` (promoted,
    integers become the default float), ``sum`` (``dtype=`` if given, integers become int64),
    ``dtype`` (the ``dtype=`` argument), a dtype name, or a function of the sample that returns one
    or a list.
    """
    rule = op.result
    if callable(rule):
        rule = rule(sample)
        return rule if isinstance(rule, list) else [rule]
    given = sample.kwargs.get("dtype")
    if rule == "dtype":
        return [str(given or dt.DEFAULT_FLOAT)]
    if rule == "same":
        return [sample.values()[0].dtype]
    if rule == "sum":
        own = sample.values()[0].dtype
        return [str(given) if given else own if dt.is_float(own) else "int64"]
    if rule in ("promoted", "float"):
        dtype = dt.promote(operand_dtypes(sample))
        return [dt.DEFAULT_FLOAT if rule == "float" and not dt.is_float(dtype) else dtype]
    return [rule]
