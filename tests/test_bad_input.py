"""Hostile input for every op: it is refused with a Python exception, or answered; nothing crashes.

Each family runs in a process of its own, which writes every call down before making it: when the
process dies, the last call written is the one that killed it. The process runs with little memory,
so that a huge request fails at once, and every answer is read through, so that a view beyond its
storage is caught (by a sanitizer, or by luck).

``python tests/test_bad_input.py FAMILY LOG`` runs one family by hand.
"""

import itertools
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import each_op
from library import torch
from op_db import FAMILIES, OPS
from op_db.row import Dtype, Sample, Value, lift, results, walk
from op_db.sampler import draw

REFUSALS = (
    TypeError,
    ValueError,
    RuntimeError,
    IndexError,
    MemoryError,
    OverflowError,
    AttributeError,
)
MEMORY_BEYOND_START = 1 << 30
SECONDS_PER_FAMILY = 150
READABLE = 1 << 16

HUGE = (2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30)
INTEGERS = (-1, -100, 3, *HUGE, 1.5, float("nan"), None, "text", True, [], (1,))
NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e308, 10**30, None, "text", [])
SHAPES = (
    (),
    (-1,),
    (0,),
    (7, 13),
    (2**40, 2**40),
    (2**63 - 1,),
    (2**62, 4),
    (2**64,),
    (1,) * 70,
    (2**31, 0),
    ("a",),
    (None,),
    (1.5,),
    ((1,),),
    None,
    "text",
    2**63,
)


def tensors_like(value):
    """Return tensors and non-tensors to put in a tensor's place."""
    ones = np.ones(value.array.shape)
    shapes = ((), (0,), (1,), (7, 13), (1, 1, 1, 1, 1), (0, 3, 0), (2,) * 9)
    yield from (Value(np.ones(shape, value.array.dtype), value.dtype) for shape in shapes)
    for dtype in ("int64", "uint8", "bool", "float64", "float16", "int8"):
        yield Value(ones.astype(dtype), dtype)
    if value.array.dtype.kind == "f":
        yield Value(np.full_like(value.array, np.nan), value.dtype)
        yield Value(np.full_like(value.array, np.inf), value.dtype)
    if value.array.dtype.kind in "iu":
        limits = np.iinfo(value.array.dtype)
        yield Value(np.full_like(value.array, limits.max), value.dtype)
        yield Value(np.full_like(value.array, limits.min), value.dtype)
    yield from (None, "text", 3, 2.5, 10**30, [], object, {}, [[1], [2, 3]])


def replacements(leaf):
    """Return hostile values for one argument, by what it is."""
    if isinstance(leaf, Value):
        return tensors_like(leaf)
    if isinstance(leaf, Dtype):
        return (None, "float32", 3, Dtype("bool"), Dtype("float16"), Dtype("uint8"))
    if isinstance(leaf, bool):
        return (None, 2, "text", [])
    if isinstance(leaf, int):
        return INTEGERS
    if isinstance(leaf, float):
        return NUMBERS
    if isinstance(leaf, str):
        return ("nonsense", "", None, 3)
    if isinstance(leaf, tuple | list):
        return (*SHAPES, *(type(leaf)([bad]) for item in leaf[:1] for bad in replacements(item)))
    return (None, "text", 2**63, slice(2**63, -(2**63), 2**62), slice("a", None))


def hostile_calls(op):
    """Return samples with one argument replaced, dropped or added, from the row's first shapes."""
    samples = [s for s in draw(op, op.dtypes[0]) if s.numel() <= 1000]
    for sample in samples[:1] + samples[-2:]:
        for place, leaf in enumerate(sample.args):
            for bad in replacements(leaf):
                args = (*sample.args[:place], bad, *sample.args[place + 1 :])
                yield Sample(*args, **sample.kwargs)
        for name, leaf in sample.kwargs.items():
            for bad in replacements(leaf):
                yield Sample(*sample.args, **{**sample.kwargs, name: bad})
    sample = samples[0]
    for count in range(len(sample.args)):
        yield Sample(*sample.args[:count], **sample.kwargs)
    yield Sample(*sample.args, None, None, None, None, None, None, **sample.kwargs)
    yield Sample(*sample.args, **sample.kwargs, no_such_argument=1)
    for bad in ("text", 3, [], Value(np.zeros(3, np.int8), "int8")):
        yield Sample(*sample.args, **sample.kwargs, out=bad)
    for bad in (2**63, -1, 2**40, "text", 1.5):
        yield Sample(*sample.args, **{**sample.kwargs, "dim": bad})


def read_through(answer):
    """Read every element of a small answer."""
    for result in results(answer):
        if isinstance(result, torch.Tensor) and result.numel() <= READABLE:
            result.detach().clone()


def attack(op, sample):
    """Make one call in its function form and its in-place form; refusals are fine."""
    forms = [op.function()]
    if op.inplace not in (None, "kwarg"):
        forms.append(getattr(torch.Tensor, op.inplace))
    for form in forms:
        try:
            args, kwargs = lift((sample.args, sample.kwargs))
            read_through(form(*args, **kwargs))
        except REFUSALS:
            continue


def limit_memory():
    """Leave the process little more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BEYOND_START
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run_family(family, log_path):
    """Attack every op of a family, writing each call down before it is made."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    limit_memory()
    with Path(log_path).open("w", encoding="utf-8") as log:
        for op in (op for op in OPS if op.family == family):
            for sample in hostile_calls(op):
                log.seek(0)
                log.truncate()
                log.write(f"{op.name}{sample}")
                log.flush()
                attack(op, sample)
        log.seek(0)
        log.truncate()
        log.write("done")


@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_input(family, tmp_path):
    log = tmp_path / "last_call.txt"
    command = [sys.executable, __file__, family, str(log)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS_PER_FAMILY, check=False, cwd=tmp_path
        )
    except subprocess.TimeoutExpired:
        pytest.fail(
            f"still running after {SECONDS_PER_FAMILY} s: {log.read_text(encoding='utf-8')}"
        )
    last = log.read_text(encoding="utf-8") if log.exists() else "nothing was called"
    errors = done.stderr.decode(errors="replace")[-2000:]
    assert done.returncode == 0, f"exit code {done.returncode} in {last}\n{errors}"
    assert last == "done"


def is_pointwise(op):
    return op.family == "pointwise"


def plain_arguments(op):
    """Return a sample whose tensors are all one-dimensional and of one length."""
    for sample in draw(op, op.dtypes[0]):
        shapes = {value.array.shape for value in sample.values()}
        if len(shapes) == 1 and len(next(iter(shapes))) == 1 and sample.numel() > 2:
            return sample
    return None


def in_place_form(op, target, args, kwargs):
    if op.inplace == "kwarg":
        return op.function()(target, *args, **kwargs, inplace=True)
    return getattr(target, op.inplace)(*args, **kwargs)


@each_op("test_inplace_refuses_expanded", having=lambda op: is_pointwise(op) and op.inplace)
def test_inplace_refuses_expanded(op):
    """Writing to a tensor several elements of which share memory is refused."""
    sample = plain_arguments(op)
    args, kwargs = lift((sample.args, sample.kwargs))
    target = args[0][:1].expand(args[0].shape[0])
    with pytest.raises(RuntimeError):
        in_place_form(op, target, args[1:], kwargs)


@each_op("test_out_refuses_partial_overlap", having=lambda op: is_pointwise(op) and op.out)
def test_out_refuses_partial_overlap(op):
    """An ``out=`` that overlaps an input in part would be read after it was written."""
    sample = plain_arguments(op)
    length = sample.numel()
    args, kwargs = lift((sample.args, sample.kwargs))
    dtype = results(op.function()(*args, **kwargs))[0].dtype
    for place, arg in enumerate(args):
        if not isinstance(arg, torch.Tensor) or arg.dtype != dtype:
            continue
        memory = torch.zeros(length + 1, dtype=dtype)
        memory[:length].copy_(arg)
        shifted = (*args[:place], memory[:length], *args[place + 1 :])
        with pytest.raises(RuntimeError):
            op.function()(*shifted, **kwargs, out=memory[1:])


@each_op("test_out_may_be_an_input", having=lambda op: is_pointwise(op) and op.out)
def test_out_may_be_an_input(op):
    """An ``out=`` that is exactly an input is what an in-place op is: allowed, and right."""
    sample = plain_arguments(op)
    args, kwargs = lift((sample.args, sample.kwargs))
    wanted = op.function()(*args, **kwargs)
    for place, arg in enumerate(args):
        if isinstance(arg, torch.Tensor) and arg.dtype == wanted.dtype:
            fresh, _ = lift((sample.args, sample.kwargs))
            answer = op.function()(*fresh, **kwargs, out=fresh[place])
            assert answer is fresh[place]
            assert np.array_equal(answer.numpy(), wanted.numpy(), equal_nan=True)


@each_op("test_none_is_refused", having=lambda op: bool(draw(op, op.dtypes[0])[0].values()))
def test_none_is_refused(op):
    """None in the place of the first tensor is a TypeError, never a crash or an answer."""
    sample = draw(op, op.dtypes[0])[0]
    replaced = itertools.count()

    def visit(leaf):
        if isinstance(leaf, Value) and next(replaced) == 0:
            return None
        return lift(leaf)

    args, kwargs = walk((sample.args, sample.kwargs), visit)
    with pytest.raises((TypeError, AttributeError)):
        op.function()(*args, **kwargs)


def test_a_memory_format_is_not_its_name():
    with pytest.raises(TypeError, match=r"must be torch.memory_format, not str"):
        torch.ones(1, 2, 3, 4).contiguous(memory_format="torch.channels_last")


def test_aminmax_takes_one_dimension():
    with pytest.raises(TypeError):
        torch.aminmax(torch.ones(2, 3), dim=())


if __name__ == "__main__":
    run_family(sys.argv[1], sys.argv[2])
