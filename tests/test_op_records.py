"""The records of ops: complete, and true of every call that the op database makes."""

import functools
import itertools
import operator
import re
from pathlib import Path

import pytest
from cases import each_op
from library import IS_TORCH, torch
from op_db.row import Value, lift, lift_value, results, walk
from op_db.sampler import draw

if IS_TORCH:
    pytest.skip("records of ops are tapegrad's own", allow_module_level=True)

from tapegrad import _C, tape
from tapegrad._ops import ops_run_by

RECORDS = {record.name: record for record in torch.ops()}
KINDS = _C._entry_kinds()
# Rows whose function looks at results itself, to give an answer that is no tensor.
LOOKING = {"allclose", "equal", "is_nonzero", "item", "tolist"}


def test_every_op_has_a_kernel_on_the_cpu():
    assert len(RECORDS) > 300
    without = [name for name, record in RECORDS.items() if "cpu" not in record.devices]
    # Between devices, and where counts lie on a device: the kernel is the other one's.
    assert without == ["move", "optimizer_step_on_device"]
    assert "moves" in RECORDS["move"].traits


def test_steps_of_optimizers_may_count_on_the_host():
    named = {name for name, record in RECORDS.items() if "host_numbers" in record.traits}
    counted = {name for name, record in RECORDS.items() if record.attributes[:1] == ("which",)}
    assert "adam_step" in named
    assert named == counted - {"optimizer_step_on_device"}


def test_names_are_unique_and_sorted():
    names = [record.name for record in torch.ops()]
    assert names == sorted(set(names))


def test_random_ops_name_their_seed():
    """Elements of a batch draw from streams of their own, which differ by the seed."""
    random = [record for record in RECORDS.values() if "random" in record.traits]
    assert {"random_normal", "quantize"} <= {record.name for record in random}
    assert all({"seed", "offset"} <= set(record.attributes) for record in random)


def test_every_op_has_a_derivative_or_says_that_there_is_none():
    """The library is not loaded otherwise; here for those who read this."""
    for record in RECORDS.values():
        excused = {"no_derivative", "unrecorded"} & set(record.traits)
        assert bool(record.derivatives) != bool(excused), record.name


def test_kinds_of_entries_belong_to_ops_or_say_what_they_are():
    for name, function, role, op, saved in KINDS:
        assert (op in RECORDS) if role == "derivative" else op is None, name
        assert role in ("derivative", "view", "graph", "custom")
        assert len({value for value, _ in saved}) == len(saved), name
        assert function == function.lower() and " " not in function
    pairs = [(name, op) for name, _, _, op, _ in KINDS]
    assert len(set(pairs)) == len(pairs)


def test_functions_that_run_one_op_record_their_own_derivatives():
    functions = {each.function for each in RECORDS["matmul"].derivatives}
    assert functions == {"mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"}
    (softmax,) = RECORDS["softmax"].derivatives
    assert softmax == ("SoftmaxBackward0", "softmax", ("result",))


def test_what_pointwise_ops_save_is_read_off_the_table():
    saved = {name: dict(values) for name, _, _, op, values in KINDS if op in ("mul", "pow", "add")}
    assert saved == {
        "MulBackward0": {"self": (1,), "other": (0,)},
        "PowBackward0": {"self": (0, 1), "exponent": (0, 1), "result": (1,)},
        "AddBackward0": {},
    }


def test_values_that_an_entry_may_save_are_none_where_it_did_not():
    x = torch.ones(2, 2, requires_grad=True)
    node = torch.mm(torch.ones(2, 2), x).grad_fn
    assert node._saved_mat2 is None and node._saved_self.shape == (2, 2)
    with pytest.raises(AttributeError, match="'MmBackward0' object has no attribute '_saved_vec'"):
        node._saved_vec  # noqa: B018


def trained(sample):
    """Lift a sample, requiring gradients of all tensors by which there are some."""

    def visit(leaf):
        if not isinstance(leaf, Value):
            return lift(leaf)
        tensor = lift_value(leaf)
        return tensor.requires_grad_(leaf.differentiable and tensor.is_floating_point())

    return walk((sample.args, sample.kwargs), visit)


@each_op("test_calls_fit_the_names_of_attributes")
def test_calls_fit_the_names_of_attributes(op):
    """A program refuses a call with more or fewer attributes than its record names."""
    sample = draw(op, op.dtypes[0])[0]
    args, kwargs = trained(sample)
    program = _C.Program()
    with program:
        found = results(op.function()(*args, **kwargs))
        losses = [y.sum() for y in found if isinstance(y, torch.Tensor) and y.requires_grad]
        if losses and op.gradient_order:
            sum(losses).backward()
    names = {name for name, *_ in program.steps()} - {"read", "constant"}
    assert names <= RECORDS.keys()


@each_op("test_entries_know_the_ops_that_ran")
def test_entries_know_the_ops_that_ran(op):
    """Each entry's op is among the calls; what it saved has names."""
    sample = draw(op, op.dtypes[0])[0]
    args, kwargs = trained(sample)
    program = _C.Program()
    with program:
        found = results(op.function()(*args, **kwargs))
    ran = {name for name, *_ in program.steps()}
    ops = {}
    for name, _, _, runs, _ in KINDS:
        ops.setdefault(name, set()).add(runs)
    # Of no elements, nothing is computed.
    outputs = [y for y in found if isinstance(y, torch.Tensor) and y.requires_grad and y.numel()]
    for entry in tape.of(outputs) if outputs else ():
        names = [value.name for value in entry.saved]
        assert len(set(names)) == len(names)
        if entry.name in ops and ops[entry.name] != {None}:
            assert ops[entry.name] & ran, f"{entry.name} of {ops[entry.name]}, ran {ran}"


PLUMBING = {"copy", "fill", "read", "constant"}  # how arguments are brought into shape


@each_op("test_functions_run_the_ops_that_they_name")
def test_functions_run_the_ops_that_they_name(op):
    """Who names ops runs one of them; who always runs one op names it."""
    function = op.function()
    if not (getattr(function, "__module__", None) or "").startswith("tapegrad"):
        pytest.skip("called through a function of the tests")
    ran = []
    for sample in draw(op, op.dtypes[0]):
        program = _C.Program()
        args, kwargs = lift((sample.args, sample.kwargs))
        with program:
            results(function(*args, **kwargs))
        ran.append({name for name, *_ in program.steps()} - PLUMBING)
    named = set(ops_run_by(function))
    if named - PLUMBING and op.name != "where.one":  # the same function, but nonzero()
        assert any(named & each for each in ran), f"named {named}, ran {ran}"
    alone = set.union(*ran)
    random = {name for name in alone if name in RECORDS and "random" in RECORDS[name].traits}
    if len(alone) == 1 and all(ran) and not random:  # the results of those are never kept
        assert alone <= named, f"runs {alone}"


@each_op("test_what_is_looked_at_on_the_host_is_known")
def test_what_is_looked_at_on_the_host_is_known(op):
    if op.name in LOOKING:
        pytest.skip("looks at its results itself")
    sample = draw(op, op.dtypes[0])[0]
    args, kwargs = lift((sample.args, sample.kwargs))
    program = _C.Program()
    with program:
        op.function()(*args, **kwargs)
    steps = [name for name, *_ in program.steps()]
    for before, name in itertools.pairwise(steps):
        if name == "read" and before in RECORDS:
            assert "host_read" in RECORDS[before].traits, before


def test_no_two_flags_share_a_bit():
    """Of an enumeration of flags; two branches once took the same one, and `abs` lost its name."""
    root = Path(__file__).parents[1]
    for file, enum in (("spec/pointwise.h", "Deviation"), ("core/op.h", "OpTrait")):
        text = (root / "csrc" / file).read_text()
        body = re.search(rf"enum {enum} : \w+ {{(.*?)\n}};", text, re.S).group(1)
        shifts = re.findall(r"^ +k\w+ = 1u? << (\d+)", body, re.M)
        powers = re.findall(r"^ +k\w+ = (\d+)\b(?! <<)", body, re.M)
        bits = [1 << int(shift) for shift in shifts] + [int(power) for power in powers]
        assert len(bits) > 5
        assert sum(bits) == functools.reduce(operator.or_, bits), enum
