"""Saved values that are overwritten before the backward pass reads them, and freed graphs."""

import pytest

from .values import constant, leaf, near

STALE = "modified by an inplace operation"


def test_overwriting_a_saved_operand_raises(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    factor.add_(1)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_overwriting_a_saved_result_raises(torch):
    x = leaf(torch, [2.0])
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_overwriting_an_operand_that_is_not_saved_is_fine(torch):
    x, term = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x + term
    term.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_overwriting_a_result_that_is_not_saved_is_fine(torch):
    x = leaf(torch, [2.0])
    y = x * 3
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_only_what_a_needed_gradient_reads_is_saved(torch):
    x, plain = leaf(torch, [2.0]), constant(torch, [3.0])
    y = plain * x  # The gradient of x reads plain; nobody reads x.
    with torch.no_grad():
        x.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_write_through_a_view_is_seen(torch):
    x, factor = leaf(torch, [2.0, 2.0]), constant(torch, [3.0, 3.0])
    y = x * factor
    factor[0] = 5.0
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_write_to_the_base_of_a_saved_view_is_seen(torch):
    x, base = leaf(torch, [2.0]), constant(torch, [3.0, 4.0])
    y = x * base[:1]
    base.mul_(2)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_write_through_detach_is_seen(torch):
    x = leaf(torch, [2.0])
    y = x.exp()
    y.detach().zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_write_under_no_grad_is_seen(torch):
    x, weight = leaf(torch, [2.0]), leaf(torch, [3.0])
    y = x * weight
    with torch.no_grad():
        weight.sub_(0.1)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_writing_the_same_value_back_still_raises(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    factor.copy_(factor.clone())
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_clone_keeps_the_saved_value_safe(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor.clone()
    factor.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_write_before_the_save_is_fine(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    factor.add_(1)
    y = x * factor
    y.sum().backward()
    assert x.grad.tolist() == [4.0]


def test_a_write_between_two_backwards_is_seen_by_the_second(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = (x * factor).sum()
    y.backward(retain_graph=True)
    factor.add_(1)
    with pytest.raises(RuntimeError, match=STALE):
        y.backward()
    assert x.grad.tolist() == [3.0]


def test_an_optimizer_step_between_forward_and_backward_raises(torch):
    weight = leaf(torch, [[1.0, 2.0], [3.0, 4.0]])
    second = leaf(torch, [[1.0], [1.0]])
    loss = ((constant(torch, [[1.0, 1.0]]) @ weight) @ second).sum()
    with torch.no_grad():
        second.sub_(0.1)
    with pytest.raises(RuntimeError, match=STALE):
        loss.backward()


def test_the_error_is_raised_by_autograd_grad_too(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    factor.add_(1)
    with pytest.raises(RuntimeError, match=STALE):
        torch.autograd.grad(y.sum(), x)


def test_a_stale_value_on_a_branch_that_is_not_swept_does_no_harm(torch):
    x, other, factor = leaf(torch, [2.0]), leaf(torch, [5.0]), constant(torch, [3.0])
    y = (other * 4 + x * factor).sum()
    factor.add_(1)
    (grad,) = torch.autograd.grad(y, other)
    assert grad.tolist() == [4.0]


def test_the_graph_works_again_once_a_failed_backward_is_rebuilt(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    factor.add_(1)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()
    (x * factor).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_overwriting_an_output_that_is_also_saved_downstream(torch):
    x = leaf(torch, [0.5])
    y = torch.tanh(x)
    z = y * y
    y.mul_(2)
    with pytest.raises(RuntimeError, match=STALE):
        z.sum().backward()


def test_increment_version_marks_saved_values_stale(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    torch.autograd.graph.increment_version(factor)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_backward_a_second_time_raises(torch):
    x = leaf(torch, [2.0])
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == [4.0]


def test_backward_a_second_time_through_a_shared_part_raises(torch):
    x = leaf(torch, [2.0])
    shared = x.exp()
    (shared * 2).sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        (shared * 3).sum().backward()


def test_backward_a_second_time_is_fine_when_nothing_was_saved(torch):
    x = leaf(torch, [2.0])
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_retain_graph_keeps_the_saved_values(torch):
    x = leaf(torch, [2.0])
    y = (x * x).sum()
    for _ in range(3):
        y.backward(retain_graph=True)
    assert x.grad.tolist() == [12.0]


def test_create_graph_retains_the_graph_by_default(torch):
    x = leaf(torch, [2.0])
    y = (x**3).sum()
    torch.autograd.grad(y, x, create_graph=True)
    (again,) = torch.autograd.grad(y, x)
    assert again.tolist() == [12.0]


def test_a_freed_part_that_is_not_swept_does_no_harm(torch):
    x, other = leaf(torch, [2.0]), leaf(torch, [3.0])
    shared = x.exp()
    shared.sum().backward()
    (grad,) = torch.autograd.grad((shared * other).sum(), other)
    assert near(grad, x.exp())
