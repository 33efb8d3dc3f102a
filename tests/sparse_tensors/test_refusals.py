"""Every op meets sparse tensors: it gives what it gives of dense ones, or refuses."""

import pytest
from cases import each_op
from library import IS_TORCH, torch
from op_db.row import Unspecified, Value, lift, lift_value, walk
from op_db.sampler import draw

if IS_TORCH:
    pytest.skip("PyTorch has rules of its own", allow_module_level=True)

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, BufferError, AttributeError)
# What says nothing about elements.
ANY_VALUES = ("empty_like", "rand_like", "randn_like", "randint_like", "new_empty")
# Zeros that are not stored have no sign.
OF_SIGNS = ("signbit",)


def with_sparse(sample, which):
    """Return a sample's arguments with the tensors that `which` picks in layout sparse_coo."""
    count = -1

    def visit(leaf):
        nonlocal count
        if not isinstance(leaf, Value):
            return lift(leaf)
        count += 1
        x = lift_value(leaf)
        return x.to_sparse() if which(count) and x.dim() > 0 else x

    return walk((sample.args, sample.kwargs), visit), count


def as_dense(answer):
    if isinstance(answer, torch.Tensor):
        return answer if answer.layout is torch.strided else answer.to_dense()
    if isinstance(answer, (tuple, list)):
        return [as_dense(each) for each in answer]
    return answer


def assert_same(found, wanted):
    if isinstance(wanted, torch.Tensor):
        assert isinstance(found, torch.Tensor)
        assert found.shape == wanted.shape
        same_kind = found.dtype.is_floating_point == wanted.dtype.is_floating_point
        assert found.dtype is wanted.dtype or same_kind
        torch.testing.assert_close(
            found, wanted, equal_nan=True, check_dtype=False, rtol=1e-9, atol=1e-9
        )
    elif isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for each, other in zip(found, wanted, strict=True):
            assert_same(each, other)
    else:
        assert found == wanted or found != found


@each_op("test_sparse")
def test_sparse_operands_agree_or_are_refused(op):
    dtype = "float64" if "float64" in op.dtypes else op.dtypes[0]
    for sample in [s for s in draw(op, dtype) if s.numel() < 2000][:8]:
        for which in (lambda n: n == 0, lambda n: n == 1, lambda n: True):
            (args, kwargs), count = with_sparse(sample, which)
            if count < 0 or (count == 0 and which(1)):
                continue
            torch.manual_seed(0)
            try:
                found = op.function()(*args, **kwargs)
            except REFUSALS as error:
                assert "internal error" not in str(error)
                continue
            if op.name in (*ANY_VALUES, *OF_SIGNS) or isinstance(op.reference, Unspecified):
                continue
            (dense_args, dense_kwargs), _ = with_sparse(sample, lambda n: False)
            torch.manual_seed(0)
            assert_same(as_dense(found), op.function()(*dense_args, **dense_kwargs))


def test_refusals_name_the_op_and_the_way_out():
    x = torch.eye(3).to_sparse()
    for call, name in (
        (lambda: x.exp(), "exp"),
        (lambda: torch.exp(x), "exp"),
        (lambda: torch.cumsum(x, 0), "cumsum"),
        (lambda: x.cumsum(0), "cumsum"),
        (lambda: torch.where(x, x, x), "where"),
        (lambda: torch.zeros(3, 3).lerp(x, 0.5), "lerp"),
        (lambda: torch.nn.functional.softmax(x, 1), "softmax"),
        (lambda: torch.conv1d(x[None], torch.ones(1, 3, 1)), "conv1d"),
        (lambda: torch.linalg.inv(x), "linalg_inv"),
        (lambda: x == x, "eq"),
        (lambda: torch.ones(3, 3) == x, "eq"),
        (lambda: torch.sort(x), "sort"),
        (lambda: torch.ones_like(x), "ones_like"),
    ):
        with pytest.raises(
            NotImplementedError, match=r"sparse tensors are not supported.*to_dense"
        ):
            call()
        del name


def test_bytes_are_out_of_reach():
    x = torch.eye(3).to_sparse()
    for call in (
        lambda: x.numpy(),
        lambda: x.data_ptr(),
        lambda: x.stride(),
        lambda: x.untyped_storage(),
        lambda: x.tolist(),
        lambda: x.view(9),
        lambda: x.reshape(9),
        lambda: x.expand(2, 3, 3),
        lambda: x.item(),
        lambda: torch.utils.dlpack.to_dlpack(x),
        lambda: torch.from_dlpack(x),
        lambda: __import__("numpy").asarray(x),
        lambda: x.storage(),
        lambda: x[torch.tensor([True, False, True])],
        lambda: x[0:1],
        lambda: x.__setitem__(0, 1.0),
        lambda: torch.ones(3, 3).__setitem__(slice(None), x),
        lambda: torch.ones(3, 3)[x],
        lambda: torch.nn.Parameter(x),
        lambda: x.cuda(),
        lambda: x.to("meta"),
        lambda: torch.zeros(3, 3).set_(x),
        lambda: torch.zeros(3, 3, out=x),
        lambda: torch.add(torch.ones(3, 3), 1, out=x),
        lambda: torch.mm(x, torch.ones(3, 3), out=torch.ones(3, 3)),
        lambda: setattr(torch.ones(3, 3), "data", x),
    ):
        with pytest.raises(REFUSALS) as caught:
            call()
        assert "internal" not in str(caught.value)


def test_vmap_is_refused():
    x = torch.eye(3).to_sparse()
    with pytest.raises(NotImplementedError):
        torch.vmap(lambda v: torch.sparse_coo_tensor([[0, 1]], v, (2,)))(torch.ones(4, 2))
    with pytest.raises(REFUSALS):
        torch.vmap(lambda y: y)(x)
    product = torch.vmap(lambda v: x @ v)(torch.ones(4, 3, 2))
    assert product.tolist() == torch.ones(4, 3, 2).tolist()
