"""In-place ops and views: what is recorded, what is refused, versions, bases and leaves."""

import math

import pytest

from .values import constant, leaf, near


def test_an_in_place_op_on_an_inner_tensor_is_recorded(torch):
    x = leaf(torch, [1.0, 2.0])
    y = x * 3
    y.mul_(4)
    y.sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]


def test_an_in_place_op_returns_the_tensor_itself(torch):
    y = leaf(torch, [1.0]) * 2
    assert y.add_(1) is y


def test_an_in_place_op_replaces_grad_fn(torch):
    y = leaf(torch, [1.0]) * 2
    assert y.grad_fn.name() == "MulBackward0"
    y.add_(1)
    assert y.grad_fn.name() == "AddBackward0"


def test_augmented_assignment_is_in_place(torch):
    x = leaf(torch, [2.0])
    y = x * 1
    same = y
    y *= x
    y -= 1
    assert same is y
    y.sum().backward()
    assert x.grad.tolist() == [4.0]


def test_in_place_on_a_leaf_that_requires_grad_raises(torch):
    x = leaf(torch, [1.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    assert x.tolist() == [1.0]


def test_in_place_on_a_view_of_a_leaf_that_requires_grad_raises(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[0].add_(1)
    assert x.tolist() == [1.0, 2.0]


def test_assigning_to_a_slice_of_a_leaf_that_requires_grad_raises(torch):
    x = leaf(torch, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[:1] = 5.0


def test_no_grad_allows_in_place_on_a_leaf(torch):
    x = leaf(torch, [1.0])
    with torch.no_grad():
        x.sub_(0.5)
    assert x.tolist() == [0.5] and x.is_leaf and x.requires_grad


def test_in_place_with_an_operand_that_requires_grad_makes_the_target_require_it(torch):
    x = leaf(torch, [2.0])
    target = constant(torch, [3.0])
    target.mul_(x)
    assert target.requires_grad and not target.is_leaf
    target.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_in_place_under_no_grad_keeps_the_history(torch):
    x = leaf(torch, [1.0])
    y = x * 2
    with torch.no_grad():
        y.add_(10)
    assert y.tolist() == [12.0] and y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_copy_in_place_cuts_the_old_history(torch):
    x, z = leaf(torch, [1.0]), leaf(torch, [5.0])
    y = x * 2
    y.copy_(z)
    y.sum().backward()
    assert x.grad.tolist() == [0.0] and z.grad.tolist() == [1.0]


def test_copy_in_place_broadcasts_and_casts_its_source(torch):
    x = torch.ones(1, requires_grad=True)
    y = constant(torch, [0.0, 0.0, 0.0])
    y.copy_(x)
    y.sum().backward()
    assert x.grad.tolist() == [3.0] and x.grad.dtype is torch.float32


def test_zero_and_fill_stop_the_gradient(torch):
    x = leaf(torch, [1.0, 2.0])
    y = x * 2
    y.zero_()
    z = x * 3
    z.fill_(7)
    (y + z).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_in_place_through_an_index_writes_the_base(torch):
    x = leaf(torch, [1.0, 2.0])
    y = x * 1
    y[0].mul_(2)
    assert y.tolist() == [2.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_assignment_to_a_slice_sends_the_gradient_to_the_value(torch):
    x, value = leaf(torch, [[1.0, 2.0, 3.0]] * 2), leaf(torch, [[4.0, 5.0]] * 2)
    y = x * 2
    y[:, 1:] = value
    (y * y).sum().backward()
    assert x.grad.tolist() == [[8.0, 0.0, 0.0]] * 2
    assert value.grad.tolist() == [[8.0, 10.0]] * 2


def test_assignment_of_a_broadcast_value(torch):
    x, value = leaf(torch, [[1.0, 2.0]] * 3), leaf(torch, 5.0)
    y = x * 1
    y[1:] = value
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]] and value.grad.item() == 4.0


def test_assignment_through_a_mask(torch):
    x = leaf(torch, [1.0, -2.0, 3.0])
    y = x * 1
    y[y < 0] = 0.0
    y.sum().backward()
    assert y.tolist() == [1.0, 0.0, 3.0] and x.grad.tolist() == [1.0, 0.0, 1.0]


def test_assignment_through_an_index_tensor(torch):
    x, value = leaf(torch, [1.0, 2.0, 3.0]), leaf(torch, [7.0, 8.0])
    y = x * 1
    y[torch.tensor([2, 0])] = value
    (y * constant(torch, [1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [0.0, 10.0, 0.0] and value.grad.tolist() == [100.0, 1.0]


def test_in_place_through_a_transpose(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = x * 1
    y.t().mul_(constant(torch, [[1.0, 2.0], [3.0, 4.0]]))
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_in_place_through_a_diagonal(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = x * 1
    y.diagonal().mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [[5.0, 1.0], [1.0, 5.0]]


def test_in_place_through_as_strided(torch):
    x = leaf(torch, [1.0, 2.0, 3.0, 4.0])
    y = x * 1
    y.as_strided((2,), (2,), 1).mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 3.0, 1.0, 3.0]


def test_in_place_through_an_unfold_without_overlap(torch):
    x = leaf(torch, [1.0, 2.0, 3.0, 4.0])
    y = x * 1
    y.unfold(0, 2, 2)[1].mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 10.0, 10.0]


def test_in_place_through_a_chain_of_views(torch):
    x = leaf(torch, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = x * 1
    y.view(3, 2).t()[1].narrow(0, 1, 2).mul_(7)
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 1.0], [7.0, 1.0, 7.0]]


def test_in_place_through_an_expanded_view_raises(torch):
    y = (leaf(torch, [1.0]) * 2).expand(3)
    with pytest.raises(RuntimeError):
        y.add_(1)


def test_a_view_made_earlier_sees_a_write_to_its_base(torch):
    x = leaf(torch, [1.0, 2.0])
    base = x * 1
    view = base[1:]
    base.mul_(5)
    view.sum().backward()
    assert view.tolist() == [10.0] and x.grad.tolist() == [0.0, 5.0]


def test_a_view_sees_a_write_through_a_sibling(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    base = x * 1
    one, other = base[:2], base[1:]
    one.mul_(4)
    other.sum().backward()
    assert other.tolist() == [8.0, 3.0] and x.grad.tolist() == [0.0, 4.0, 1.0]


def test_a_view_of_a_view_sees_a_write_through_another_branch(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    base = x * 1
    element = base.t()[1].view(2)[0]
    base.view(4)[1:3].mul_(6)
    element.backward()
    assert element.item() == 12.0 and x.grad.tolist() == [[0.0, 6.0], [0.0, 0.0]]


def test_a_write_through_a_view_regenerates_the_grad_fn_of_other_views(torch):
    base = leaf(torch, [1.0, 2.0]) * 1
    view = base[0]
    before = view.grad_fn
    base.mul_(2)
    assert view.grad_fn is not before


def test_a_write_to_a_view_of_a_plain_base_makes_the_base_require_grad(torch):
    x = leaf(torch, [3.0])
    base = constant(torch, [1.0, 2.0])
    base[1:].mul_(x)
    assert base.requires_grad and not base.is_leaf
    base.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_leaf_that_gains_history_in_place_is_no_longer_a_leaf(torch):
    buffer = torch.zeros(2, dtype=torch.float64)
    assert buffer.is_leaf
    buffer.add_(leaf(torch, [1.0, 1.0]))
    assert not buffer.is_leaf and buffer.grad_fn is not None


def test_base_of_a_view_of_a_view_is_the_root(torch):
    base = constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    assert base._base is None
    assert base.t()._base is base
    assert base.t()[0].view(2)._base is base


def test_is_view(torch):
    base = constant(torch, [1.0, 2.0])
    assert not base._is_view()
    assert base[:1]._is_view() and base.view(2, 1)._is_view()
    assert not base.clone()._is_view() and not (base + 1)._is_view()


def test_an_index_tensor_copies(torch):
    base = constant(torch, [1.0, 2.0])
    taken = base[torch.tensor([0])]
    taken.add_(5)
    assert taken._base is None and base.tolist() == [1.0, 2.0]


def test_version_counts_writes(torch):
    x = torch.zeros(3)
    assert x._version == 0
    x.add_(1)
    x[0] = 5.0
    assert x._version == 2


def test_version_is_shared_with_views(torch):
    x = torch.zeros(3)
    view = x[1:]
    view.add_(1)
    assert x._version == view._version == 1


def test_version_is_shared_with_detach(torch):
    x = torch.zeros(3)
    other = x.detach()
    other.add_(1)
    assert x._version == other._version == 1


def test_version_is_not_shared_with_a_clone(torch):
    x = torch.zeros(3)
    x.clone().add_(1)
    assert x._version == 0


def test_detach_shares_memory_and_cuts_history(torch):
    y = leaf(torch, [1.0]) * 2
    cut = y.detach()
    assert not cut.requires_grad and cut.is_leaf and cut.grad_fn is None
    cut.zero_()
    assert y.tolist() == [0.0]


def test_detach_in_place_makes_a_leaf(torch):
    y = leaf(torch, [1.0]) * 2
    y.detach_()
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None


def test_detach_in_place_on_a_view_raises(torch):
    base = leaf(torch, [1.0, 2.0]) * 2
    with pytest.raises(RuntimeError):
        base.unbind()[0].detach_()


def test_data_can_be_replaced(torch):
    x = leaf(torch, [1.0, 2.0])
    x.data = constant(torch, [3.0, 4.0])
    (x * x).sum().backward()
    assert x.is_leaf and x.grad.tolist() == [6.0, 8.0]


def test_requires_grad_after_a_view_gives_the_view_no_history(torch):
    base = constant(torch, [1.0, 2.0])
    view = base[0]
    base.requires_grad_()
    assert view.grad_fn is None and view.is_leaf
    assert base[0].grad_fn is not None and not base[0].is_leaf


def test_no_gradient_comes_to_a_view_made_before_its_base_required_grad(torch):
    """It says that it requires grad, as its base does, but is no leaf of its own."""
    base = constant(torch, [1.0, 2.0])
    view = base.view(-1)
    base.requires_grad_()
    (view * 3).sum().backward()
    assert view.requires_grad and view.grad is None and base.grad is None
    with pytest.raises(RuntimeError, match="used in the graph"):
        torch.autograd.grad((view * 3).sum(), view)
    with torch.no_grad():
        base.mul_(2)
    (view * 3).sum().backward()
    assert base.grad.tolist() == [3.0, 3.0]


def test_requires_grad_cannot_be_switched_off_on_an_inner_tensor(torch):
    y = leaf(torch, [1.0]) * 2
    with pytest.raises(RuntimeError):
        y.requires_grad_(False)


def test_writing_to_a_plain_view_of_a_leaf_that_requires_grad_raises(torch):
    base = constant(torch, [1.0, 2.0])
    view = base[:1]
    base.requires_grad_()
    with pytest.raises(RuntimeError):
        view.mul_(leaf(torch, [2.0]))


@pytest.mark.parametrize(
    "split",
    [
        lambda t: t.unbind(),
        lambda t: t.split(1),
        lambda t: t.chunk(2),
        lambda t: t.split([1, 1]),
    ],
    ids=["unbind", "split", "chunk", "split_with_sizes"],
)
def test_an_output_of_a_multi_output_view_refuses_in_place(torch, split):
    base = leaf(torch, [1.0, 2.0]) * 1
    pieces = split(base)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        pieces[0].mul_(2)


def test_an_output_of_a_multi_output_view_without_grad_may_be_written(torch):
    base = constant(torch, [1.0, 2.0])
    base.unbind()[0].mul_(5)
    assert base.tolist() == [5.0, 2.0]


def test_an_output_of_a_multi_output_view_without_grad_refuses_what_has_one(torch):
    first, _ = constant(torch, [1.0, 2.0]).unbind(0)
    with pytest.raises(RuntimeError, match=r"modified in ?place"):
        first.add_(leaf(torch, 3.0))


def test_a_tensor_copied_to_itself_may_be_expanded(torch):
    y = constant(torch, [1.0, 2.0]).expand(2, 2)
    y.copy_(y)
    assert y.tolist() == [[1.0, 2.0], [1.0, 2.0]] and y._version == 1


def test_the_gradient_flows_through_every_output_of_unbind(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    first, second = x.unbind()
    (first * 2 + second * 3).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [3.0, 3.0]]


def test_a_view_made_under_no_grad_refuses_in_place_with_recording_on(torch):
    base = leaf(torch, [1.0, 2.0]) * 1
    with torch.no_grad():
        view = base[:1]
    with pytest.raises(RuntimeError, match="no_grad"):
        view.mul_(2)


def test_a_view_made_under_no_grad_has_no_history(torch):
    base = leaf(torch, [1.0, 2.0]) * 1
    with torch.no_grad():
        view = base[:1]
    assert view.grad_fn is None and view._base is base


def test_a_view_of_a_leaf_made_under_no_grad_may_be_written_under_no_grad(torch):
    x = leaf(torch, [1.0, 2.0])
    with torch.no_grad():
        x[0].fill_(9)
    assert x.tolist() == [9.0, 2.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [18.0, 4.0]


def test_set_item_on_a_base_with_a_pending_view_write(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    y = x * 1
    row = y[1:]
    row.mul_(2)
    y[1] = 0.0
    row.mul_(3)
    y.sum().backward()
    assert y.tolist() == [1.0, 0.0, 18.0] and x.grad.tolist() == [1.0, 0.0, 6.0]


def test_in_place_shape_change_is_a_recorded_view(torch):
    x = leaf(torch, [[1.0, 2.0, 3.0]])
    y = x * constant(torch, [1.0, 2.0, 3.0])
    y.t_()
    assert y.shape == (3, 1)
    (y * constant(torch, [[1.0], [10.0], [100.0]])).sum().backward()
    assert x.grad.tolist() == [[1.0, 20.0, 300.0]]


def test_squeeze_and_unsqueeze_in_place(torch):
    x = leaf(torch, [1.0, 2.0])
    y = (x * 2).unsqueeze_(0).squeeze_(0)
    y.sum().backward()
    assert y.shape == (2,) and x.grad.tolist() == [2.0, 2.0]


def test_retain_grad_on_a_view_written_in_place(torch):
    x = leaf(torch, [1.0, 2.0])
    y = x * 1
    y.retain_grad()
    y[0].mul_(5)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [15.0, 3.0]


def test_a_buffer_filled_row_by_row(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    table = torch.zeros(3, 2, dtype=torch.float64)
    for row in range(3):
        table[row] = x[row] ** (row + 1)
    table.sum().backward()
    assert near(x.grad, [2.0, 8.0, 54.0])


def test_a_running_state_updated_in_place(torch):
    x = leaf(torch, 0.5)
    state = torch.zeros(3, dtype=torch.float64)
    for step in range(3):
        state = state.clone()
        state[step] = x * (state.sum() + 1)
    state.sum().backward()
    # With s the sum so far, s becomes s + x * (s + 1): (1 + x) ** 3 - 1 at the end.
    assert near(x.grad, 3 * 1.5**2)


def test_swapping_rows_through_a_clone(torch):
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = x * constant(torch, [[1.0, 1.0], [2.0, 2.0]])
    y[[0, 1]] = y[[1, 0]].clone()
    (y * constant(torch, [[1.0], [10.0]])).sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add_", (3,), 1.0),
        ("sub_", (3,), 1.0),
        ("mul_", (3,), 3.0),
        ("div_", (4,), 0.25),
        ("pow_", (2,), 4.0),
        ("neg_", (), -1.0),
        ("square_", (), 4.0),
        ("reciprocal_", (), -0.25),
        ("clamp_", (0, 1), 0.0),
        ("relu_", (), 1.0),
        ("abs_", (), 1.0),
        ("floor_", (), 0.0),
    ],
)
def test_every_in_place_op_has_the_gradient_of_its_plain_form(torch, name, arguments, expected):
    x = leaf(torch, [2.0])
    y = x * 1
    getattr(y, name)(*arguments)
    y.sum().backward()
    assert near(x.grad, [expected])


@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "sigmoid"])
def test_an_in_place_op_that_saves_its_result(torch, name):
    x, plain = leaf(torch, [0.7]), leaf(torch, [0.7])
    y = x * 2
    getattr(y, name + "_")()
    y.sum().backward()
    getattr(plain * 2, name)().sum().backward()
    assert near(x.grad, plain.grad)


def test_masked_fill_in_place(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    y = x * x
    y.masked_fill_(torch.tensor([False, True, False]), -1.0)
    y.sum().backward()
    assert y.tolist() == [1.0, -1.0, 9.0] and x.grad.tolist() == [2.0, 0.0, 6.0]


def test_index_add_in_place(torch):
    x, source = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0, 5.0])
    y = x * 1
    y.index_add_(0, torch.tensor([1, 1, 0]), source)
    (y * constant(torch, [1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 10.0] and source.grad.tolist() == [10.0, 10.0, 1.0]


def test_scatter_in_place(torch):
    x, source = leaf(torch, [1.0, 2.0]), leaf(torch, [5.0])
    y = x * 1
    y.scatter_(0, torch.tensor([1]), source)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 0.0] and source.grad.tolist() == [1.0]


def test_out_argument_refuses_operands_that_require_grad(torch):
    out = torch.empty(1, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        torch.add(leaf(torch, [1.0]), 1, out=out)
    with torch.no_grad():
        torch.add(leaf(torch, [1.0]), 1, out=out)
    assert out.tolist() == [2.0]


def test_an_integer_view_write_is_not_differentiable_but_counts(torch):
    x = torch.tensor([1, 2, 3])
    x[1:].add_(5)
    assert x.tolist() == [1, 7, 8] and x._version == 1 and not x.requires_grad


def test_views_of_a_tensor_with_history_require_grad(torch):
    y = leaf(torch, [[1.0, 2.0]]) * 1
    views = [y.t(), y[0], y.view(2), y.expand(3, 2), y.unsqueeze(0), y.detach().view(2)]
    assert [view.requires_grad for view in views] == [True] * 5 + [False]


def test_expand_sums_the_gradient(torch):
    x = leaf(torch, [[1.0], [2.0]])
    x.expand(2, 3).sum().backward()
    assert x.grad.tolist() == [[3.0], [3.0]]


def test_as_strided_with_overlap_sums_the_gradient(torch):
    x = leaf(torch, [1.0, 2.0, 3.0])
    x.as_strided((2, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 1.0]


def test_unfold_with_overlap_sums_the_gradient(torch):
    x = leaf(torch, [1.0, 2.0, 3.0, 4.0])
    x.unfold(0, 2, 1).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 2.0, 1.0]


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp", "sqrt", "rsqrt"])
def test_a_second_gradient_through_a_view_that_was_written(torch, name):
    grads = []
    for in_place in (True, False):
        x = leaf(torch, [0.3, 0.7, 1.1])
        y = x * x
        if in_place:
            getattr(y[:1], name + "_")()
        else:
            y = torch.cat([getattr(y[:1], name)(), y[1:]])
        (first,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * y).sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second.sum(), x)
        grads.append((first, second, third))
    for ours, wanted in zip(*grads, strict=True):
        assert near(ours, wanted)


def test_a_result_of_several_that_is_written_in_place_and_saved(torch):
    """The second output of an op is the only output of the op that overwrites it."""
    x, plain = leaf(torch, [0.3, 0.7, 1.4]), leaf(torch, [0.3, 0.7, 1.4])
    _, mean = torch.var_mean(x)
    mean.exp_()
    (first,) = torch.autograd.grad(mean, x, create_graph=True)
    (wanted,) = torch.autograd.grad(plain.mean().exp(), plain, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert near(first, wanted)
    assert near(second, torch.autograd.grad(wanted.sum(), plain)[0])


def test_a_result_that_a_write_to_a_view_saved_is_a_place_of_the_base(torch):
    """A gradient that is written in terms of it depends on the base as the write left it."""
    x = leaf(torch, [0.3, 0.7])
    y = x * 1
    view = y[:1]
    view.exp_()
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (by_result,) = torch.autograd.grad(first.sum(), y)
    assert near(by_result, [1.0, 0.0])


@pytest.mark.parametrize("key", [..., slice(None), slice(0, 2), (slice(None), slice(0, None))])
def test_assigning_to_all_of_a_tensor_is_a_write_to_the_tensor_itself(torch, key):
    """What was there has no part in the history of its gradient, and may be overwritten."""
    x = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    saved = x * 2
    y = torch.addcmul(x, saved, saved)
    y[key] = 3.0
    (first,) = torch.autograd.grad(torch.tanh(y).sum(), x, create_graph=True)
    saved.sub_(1)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == second.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_gradient_of_addcmul_keeps_products_not_operands(torch):
    """Swept twice, it needs no operand that was overwritten since the first sweep."""
    x, factor = leaf(torch, [1.0, 2.0]), constant(torch, [3.0, 5.0])
    y = torch.addcmul(x, x, factor, value=0.5)
    scale = leaf(torch, [2.0, 7.0])
    (first,) = torch.autograd.grad((y * scale).sum(), x, create_graph=True)
    factor.add_(100)
    first.sum().backward()
    assert scale.grad.tolist() == [2.5, 3.5]


WRITES_THROUGH_DATA = {
    "the whole": lambda data: data.fill_(5.0),
    "an element": lambda data: data.__setitem__(0, 5.0),
    "a view": lambda data: data.view(1, 2)[:, 1:].mul_(3),
    "what it is detached to": lambda data: data.detach().view(-1).add_(1),
    "a clamp": lambda data: data.clamp_(-0.5, 2.5),
    "a function": lambda data: data.sin_(),
}


@pytest.mark.parametrize("write", WRITES_THROUGH_DATA.values(), ids=WRITES_THROUGH_DATA)
@pytest.mark.filterwarnings("ignore:.*was overwritten through .data")
def test_a_write_through_data_is_none_that_the_sweep_minds(torch, write):
    """The gradient is computed with what is there then."""
    x = leaf(torch, [2.0, 3.0])
    y = (x * x).sum() + (x.sin() * x).sum()
    write(x.data)
    now = x.tolist()
    y.backward()
    # sin(x) * x saved the sine, which nobody wrote.
    expected = [2 * b + math.cos(b) * b + math.sin(a) for a, b in zip([2.0, 3.0], now, strict=True)]
    assert near(x.grad, expected)
