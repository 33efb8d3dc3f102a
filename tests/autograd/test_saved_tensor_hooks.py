"""Hooks that pack what an op saves for backward and unpack it again, and what an op has saved."""

import gc
import weakref

import pytest

from .values import constant, leaf, near


def keep(value):
    return value


def test_pack_runs_at_save_and_unpack_at_backward(torch):
    events = []

    def pack(tensor):
        events.append(("pack", tensor.tolist()))
        return tensor

    def unpack(packed):
        events.append(("unpack", packed.tolist()))
        return packed

    x = leaf(torch, [3.0])
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    assert events == [("pack", y.tolist())]
    y.sum().backward()
    assert events == [("pack", y.tolist()), ("unpack", y.tolist())]


def test_every_operand_that_backward_reads_is_packed(torch):
    packed = []
    x, y = leaf(torch, [2.0]), leaf(torch, [5.0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.item()) or t, keep):
        _ = x * y
    assert sorted(packed) == [2.0, 5.0]


def test_nothing_is_packed_for_an_op_that_saves_nothing(torch):
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, keep):
        _ = leaf(torch, [2.0]) + 1
    assert packed == []


def test_nothing_is_packed_when_nothing_is_recorded(torch):
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, keep):
        _ = constant(torch, [2.0]).exp()
        with torch.no_grad():
            _ = leaf(torch, [2.0]).exp()
    assert packed == []


def test_pack_may_return_any_object(torch):
    x = leaf(torch, [2.0, 3.0])
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: tensor.tolist(),
        lambda numbers: torch.tensor(numbers, dtype=torch.float64),
    ):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_the_unpacked_value_is_what_backward_uses(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor * 10):
        y = x * constant(torch, [3.0])
    y.sum().backward()
    assert x.grad.tolist() == [30.0]


def test_hooks_apply_to_ops_inside_the_block_alone(torch):
    unpacked = []
    x = leaf(torch, [2.0])
    before = x.exp()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: unpacked.append(t) or t):
        inside = x.exp()
    after = x.exp()
    (before + inside + after).sum().backward()
    assert len(unpacked) == 1


def test_backward_may_run_outside_the_block(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
        y = constant(torch, [3.0]) * x
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_only_the_innermost_pair_applies(torch):
    x = leaf(torch, [2.0])
    outer, inner = [], []
    graph = torch.autograd.graph
    with graph.saved_tensors_hooks(lambda t: outer.append(1) or t, keep):
        with graph.saved_tensors_hooks(lambda t: inner.append(1) or t, keep):
            _ = x.exp()
        assert (len(outer), len(inner)) == (0, 1)
        _ = x.exp()
    assert (len(outer), len(inner)) == (1, 1)


def test_hooks_are_gone_after_an_exception(torch):
    packed = []
    with (
        pytest.raises(KeyError),
        torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, keep),
    ):
        raise KeyError
    _ = leaf(torch, [2.0]).exp()
    assert packed == []


def test_an_error_in_pack_leaves_the_op(torch):
    def fail(tensor):
        raise ValueError("no room")

    x = leaf(torch, [2.0])
    with (
        torch.autograd.graph.saved_tensors_hooks(fail, keep),
        pytest.raises(ValueError, match="no room"),
    ):
        x.exp()


def test_an_error_in_unpack_leaves_backward(torch):
    def fail(packed):
        raise ValueError("lost")

    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(keep, fail):
        y = x.exp()
    with pytest.raises(ValueError, match="lost"):
        y.sum().backward()


def test_unpack_must_return_a_tensor(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda packed: "text"):
        y = x.exp()
    with pytest.raises(TypeError):
        y.sum().backward()


def test_pack_must_not_change_its_input(torch):
    x = leaf(torch, [2.0])
    y = x * 1
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().mul_(2), keep),
        pytest.raises(RuntimeError),
    ):
        _ = y * constant(torch, [3.0]) * y


def test_an_overwritten_value_does_no_harm_once_packed_elsewhere(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), keep):
        y = x * factor
    factor.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_retain_graph_unpacks_again(torch):
    count = []
    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: count.append(1) or t):
        y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(count) == 2


def test_a_custom_function_packs_what_it_saves(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    events = []
    x = leaf(torch, [3.0])
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: events.append("pack") or t, lambda t: events.append("unpack") or t
    ):
        y = Square.apply(x)
    y.sum().backward()
    assert events == ["pack", "unpack"] and x.grad.tolist() == [6.0]


def test_double_backward_through_packed_values(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(keep, keep):
        y = (x**3).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert near(first, [12.0]) and near(second, [12.0])


def test_a_packed_object_dies_with_the_graph(torch):
    class Box:
        def __init__(self, tensor):
            self.tensor = tensor.detach().clone()

    boxes = []

    def pack(tensor):
        box = Box(tensor)
        boxes.append(weakref.ref(box))
        return box

    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: box.tensor):
        y = x.exp().sum()
    assert boxes[0]() is not None
    y.backward()
    gc.collect()
    assert boxes[0]() is None and near(x.grad, x.exp())


def test_save_on_cpu_gives_the_same_gradient(torch):
    x = leaf(torch, [0.3, 0.4])
    with torch.autograd.graph.save_on_cpu():
        y = x.exp() * x
    y.sum().backward()
    assert near(x.grad, (x.exp() * (x + 1)))


def test_disable_saved_tensors_hooks_refuses_new_hooks(torch):
    graph = torch.autograd.graph
    with (
        graph.disable_saved_tensors_hooks("not here, please"),
        pytest.raises(RuntimeError, match="not here, please"),
        graph.saved_tensors_hooks(keep, keep),
    ):
        pass


def test_disable_saved_tensors_hooks_refuses_inside_active_hooks(torch):
    graph = torch.autograd.graph
    with (
        graph.saved_tensors_hooks(keep, keep),
        pytest.raises(RuntimeError, match="cannot pack"),
        graph.disable_saved_tensors_hooks("cannot pack"),
    ):
        pass


def test_disable_saved_tensors_hooks_ends_with_its_block(torch):
    graph, packed = torch.autograd.graph, []
    with graph.disable_saved_tensors_hooks("off"):
        pass
    with graph.saved_tensors_hooks(lambda t: packed.append(1) or t, keep):
        _ = leaf(torch, [2.0]).exp()
    assert packed == [1]


def test_ops_without_hooks_run_while_hooks_are_disabled(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.graph.disable_saved_tensors_hooks("off"):
        x.exp().sum().backward()
    assert near(x.grad, x.exp())


def test_allow_mutation_keeps_the_value_of_the_save(torch):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(torch, [2.0, 3.0])
        y = x.clone()
        out = (y**2).sum()
        y.sin_()
        out.backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_allow_mutation_through_a_view(torch):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(torch, [2.0, 3.0])
        y = x.clone()
        out = (y**2).sum()
        y[0].zero_()
        out.backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_allow_mutation_with_several_saves_and_writes(torch):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(torch, [1.0])
        y = x.clone()
        first = y * y
        y.mul_(3)
        second = y * y
        y.mul_(5)
        (first + second).sum().backward()
    assert x.grad.tolist() == [20.0]


def test_saved_attributes_of_a_product(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [5.0])
    entry = (x * y).grad_fn
    assert entry._saved_self is x and entry._saved_other is y


def test_the_saved_result_is_the_result(torch):
    y = leaf(torch, [2.0]).exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn


def test_saved_attributes_hold_numbers_and_dimensions_too(torch):
    x = leaf(torch, [[1.0, 2.0, 3.0]])
    assert (x**3).grad_fn._saved_exponent == 3
    summed = x.sum(1).grad_fn
    assert tuple(summed._saved_dim) == (1,) and summed._saved_keepdim is False


def test_an_operand_that_backward_does_not_read_is_not_saved(torch):
    entry = (leaf(torch, [2.0]) * constant(torch, [5.0])).grad_fn
    assert entry._saved_self is None and entry._saved_other.tolist() == [5.0]


def test_reading_a_freed_saved_attribute_raises(torch):
    y = leaf(torch, [2.0]).exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        _ = y.grad_fn._saved_result


def test_a_saved_attribute_goes_through_unpack(torch):
    x = leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t + 100):
        y = x.exp()
    assert near(y.grad_fn._saved_result, y + 100)


def test_the_saved_tensors_of_a_custom_function_are_read_from_its_entry(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = leaf(torch, [3.0])
    (saved,) = Square.apply(x).grad_fn.saved_tensors
    assert saved.tolist() == [3.0]


def test_a_python_number_is_not_packed(torch):
    x = leaf(torch, [2.0])
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor * 4

    for function, expected in ((lambda x: x**3, 192.0), (lambda x: x**2.0, 16.0)):
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, keep):
            y = function(x)
        assert len(packed) == 1
        assert torch.autograd.grad(y.sum(), x)[0].tolist() == [expected]


def test_a_hook_that_fails_in_forward_mode(torch):
    """The op's entry is not complete, so nothing may ask it for a tangent."""
    forward_ad = torch.autograd.forward_ad

    def fail(tensor):
        raise ZeroDivisionError

    x = leaf(torch, [2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, constant(torch, [1.0]))
        scale = leaf(torch, [3.0])
        hooks = torch.autograd.graph.saved_tensors_hooks(fail, keep)
        with pytest.raises(ZeroDivisionError), hooks:
            dual * scale
        assert forward_ad.unpack_dual(dual * scale).tangent.tolist() == [3.0]


def test_hooks_do_not_see_what_serves_forward_mode_alone(torch):
    """Not even after an unpack hook has used a block of hooks itself."""
    if torch.__name__ == "torch":
        pytest.skip("PyTorch computes tangents from what it has at hand")
    forward_ad, packed = torch.autograd.forward_ad, []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor

    def unpack(tensor):
        with torch.autograd.graph.saved_tensors_hooks(keep, keep):
            return tensor * 1

    def run(unpack):
        packed.clear()
        x = leaf(torch, [3.0, 1.0])
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, constant(torch, [1.0, 2.0]))
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                dual.gather(0, dual.argsort()).sum()
        return list(packed)

    assert run(unpack) == run(keep)
