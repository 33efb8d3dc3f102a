"""The records of ops: complete, and true of every call that the op database makes."""

import pytest
from cases import each_op
from library import IS_TORCH, torch
from op_db.row import lift, results, walk
from op_db.sampler import draw

if IS_TORCH:
    pytest.skip("records of ops are tapegrad's own", allow_module_level=True)

from tapegrad import _C

RECORDS = {record.name: record for record in torch.ops()}


def test_every_op_has_a_kernel_on_the_cpu():
    assert len(RECORDS) > 300
    assert [name for name, record in RECORDS.items() if "cpu" not in record.devices] == []


def test_names_are_unique_and_sorted():
    names = [record.name for record in torch.ops()]
    assert names == sorted(set(names))


def test_random_ops_name_their_seed():
    """Elements of a batch draw from streams of their own, which differ by the seed."""
    random = [record for record in RECORDS.values() if "random" in record.traits]
    assert {"random_normal", "quantize"} <= {record.name for record in random}
    assert all({"seed", "offset"} <= set(record.attributes) for record in random)


def trained(tree):
    """Require gradients of all floating-point tensors among a sample's arguments."""

    def visit(leaf):
        floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.requires_grad_() if floating else leaf

    return walk(tree, visit)


@each_op("test_calls_fit_the_names_of_attributes")
def test_calls_fit_the_names_of_attributes(op):
    """A program refuses a call with more or fewer attributes than its record names."""
    sample = draw(op, op.dtypes[0])[0]
    args, kwargs = trained(lift((sample.args, sample.kwargs)))
    program = _C.Program()
    with program:
        found = results(op.function()(*args, **kwargs))
        losses = [y.sum() for y in found if isinstance(y, torch.Tensor) and y.requires_grad]
        if losses and op.gradient_order:
            sum(losses).backward()
    names = {name for name, *_ in program.steps()} - {"read", "constant"}
    assert names <= RECORDS.keys()
