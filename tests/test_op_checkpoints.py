"""Every op inside a selective checkpoint: whatever is kept of it, gradients are as without."""

import functools
import itertools

import pytest
from cases import each_op
from checks import leaves_of
from library import IS_TORCH, torch
from op_db.row import results
from test_op_gradients import gradient_samples

if IS_TORCH:
    pytest.skip("what an op is made of is tapegrad's own", allow_module_level=True)

from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def everything():
    return lambda context, op, *args, **kwargs: True


def every_second_call():
    count = itertools.count()
    return lambda context, op, *args, **kwargs: next(count) % 2 == 0


def gradients(op, sample, **options):
    """Return the gradients of all inputs; with options, those of a checkpointed call."""
    leaves, rebuild = leaves_of(sample)
    args, kwargs = rebuild(leaves)

    def function(args, kwargs):
        return [y.sin() for y in results(op.function()(*args, **kwargs)) if y.requires_grad]

    torch.manual_seed(0)
    if options:
        outputs = checkpoint(function, args, kwargs, use_reentrant=False, **options)
    else:
        outputs = function(args, kwargs)
    if outputs:
        sum((y.sum() for y in outputs[1:]), outputs[0].sum()).backward()
    return [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves]


def makes_results(op):
    """Not one that writes to what it is given: a kept result that is written to is an error."""
    return op.gradient_order >= 1 and not op.name.endswith("_") and op.name != "setitem"


@pytest.mark.parametrize("policy", [everything, every_second_call])
@each_op("test_kept_results", having=makes_results)
def test_kept_results(op, policy):
    for sample in gradient_samples(op):
        keep = functools.partial(create_selective_checkpoint_contexts, policy())
        found = gradients(op, sample, context_fn=keep)
        # As text, in which nan is nan.
        assert repr(found) == repr(gradients(op, sample)), f"of {op.name}{sample}"
