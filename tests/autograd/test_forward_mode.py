"""Forward mode: dual numbers, levels, views and in-place ops, and mixtures with reverse mode."""

import math

import pytest

from .values import constant, leaf, near


def dual(torch, value, tangent):
    make_dual = torch.autograd.forward_ad.make_dual
    return make_dual(constant(torch, value), constant(torch, tangent))


def tangent_of(torch, tensor):
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent


def test_make_and_unpack(torch):
    forward_ad = torch.autograd.forward_ad
    value, direction = constant(torch, [2.0]), constant(torch, [3.0])
    with forward_ad.dual_level():
        unpacked = forward_ad.unpack_dual(forward_ad.make_dual(value, direction))
        assert unpacked.primal.tolist() == [2.0] and unpacked.tangent.tolist() == [3.0]
        primal, tangent = unpacked
        assert primal is unpacked.primal and tangent is unpacked.tangent


def test_a_plain_tensor_has_no_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        assert tangent_of(torch, constant(torch, [1.0])) is None


def test_a_tangent_goes_through_an_op(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [2.0], [1.0])
        assert tangent_of(torch, x**3).tolist() == [12.0]


def test_an_operand_without_a_tangent_counts_as_constant(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [2.0], [1.0])
        assert tangent_of(torch, x * constant(torch, [5.0]) + 7).tolist() == [5.0]


def test_tangents_of_both_operands_add(torch):
    with torch.autograd.forward_ad.dual_level():
        x, y = dual(torch, [2.0], [1.0]), dual(torch, [5.0], [10.0])
        assert tangent_of(torch, x * y).tolist() == [25.0]


def test_make_dual_outside_a_level_raises(torch):
    with pytest.raises(RuntimeError):
        dual(torch, [1.0], [1.0])


def test_make_dual_refuses_another_shape(torch):
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError):
        dual(torch, [1.0], [1.0, 2.0])


def test_make_dual_refuses_integers(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), pytest.raises(ValueError):
        forward_ad.make_dual(torch.tensor([1]), torch.tensor([1]))


def test_make_dual_twice_on_one_level_raises(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = dual(torch, [1.0], [1.0])
        with pytest.raises(RuntimeError):
            forward_ad.make_dual(x, constant(torch, [1.0]))


def test_the_tangent_is_gone_when_the_level_ends(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        y = dual(torch, [2.0], [1.0]) * 3
    with forward_ad.dual_level():
        assert tangent_of(torch, y) is None
    assert y.tolist() == [6.0]


def test_the_level_ends_after_an_exception(torch):
    forward_ad = torch.autograd.forward_ad
    with pytest.raises(KeyError), forward_ad.dual_level():
        raise KeyError
    with pytest.raises(RuntimeError):
        dual(torch, [1.0], [1.0])


def test_levels_can_be_entered_by_hand(torch):
    forward_ad = torch.autograd.forward_ad
    level = forward_ad.enter_dual_level()
    try:
        found = tangent_of(torch, dual(torch, [2.0], [1.0]) ** 2)
    finally:
        forward_ad.exit_dual_level(level=level)
    assert found.tolist() == [4.0]


def test_the_primal_shares_memory_with_the_input(torch):
    forward_ad = torch.autograd.forward_ad
    value = constant(torch, [2.0])
    with forward_ad.dual_level():
        assert forward_ad.make_dual(value, constant(torch, [1.0])).data_ptr() == value.data_ptr()


def test_detach_drops_the_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [2.0], [1.0])
        assert tangent_of(torch, x.detach()) is None
        assert tangent_of(torch, x).tolist() == [1.0]


def test_no_grad_does_not_stop_tangents(torch):
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        assert tangent_of(torch, dual(torch, [2.0], [1.0]) * 3).tolist() == [3.0]


def test_a_tangent_goes_through_views(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [30.0, 40.0]])
        assert tangent_of(torch, x.t()).tolist() == [[10.0, 30.0], [20.0, 40.0]]
        assert tangent_of(torch, x[1]).tolist() == [30.0, 40.0]
        assert tangent_of(torch, x.view(4)[1:3]).tolist() == [20.0, 30.0]
        assert tangent_of(torch, x.diagonal()).tolist() == [10.0, 40.0]


def test_an_in_place_op_updates_the_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [2.0], [1.0])
        y = x * 1
        y.mul_(x)
        assert y.tolist() == [4.0] and tangent_of(torch, y).tolist() == [4.0]


def test_an_in_place_op_gives_a_plain_tensor_a_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        y = constant(torch, [5.0])
        y.mul_(dual(torch, [2.0], [1.0]))
        assert tangent_of(torch, y).tolist() == [5.0]


def test_writing_through_a_view_updates_the_tangent_of_the_base(torch):
    with torch.autograd.forward_ad.dual_level():
        y = dual(torch, [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) * 1
        y[1:].mul_(10)
        assert tangent_of(torch, y).tolist() == [1.0, 10.0, 10.0]


def test_writing_a_dual_into_a_slice_of_a_plain_tensor(torch):
    with torch.autograd.forward_ad.dual_level():
        y = torch.zeros(3, dtype=torch.float64)
        y[1] = dual(torch, 2.0, 7.0)
        assert y.tolist() == [0.0, 2.0, 0.0]
        assert tangent_of(torch, y).tolist() == [0.0, 7.0, 0.0]


def test_writing_a_plain_value_clears_the_tangent_there(torch):
    with torch.autograd.forward_ad.dual_level():
        y = dual(torch, [1.0, 2.0], [1.0, 1.0]) * 1
        y[0] = 5.0
        assert tangent_of(torch, y).tolist() == [0.0, 1.0]


def test_a_view_made_earlier_sees_the_new_tangent_of_its_base(torch):
    with torch.autograd.forward_ad.dual_level():
        base = dual(torch, [1.0, 2.0], [1.0, 1.0]) * 1
        view = base[1:]
        base.mul_(10)
        assert tangent_of(torch, view).tolist() == [10.0]


def test_a_clone_has_its_own_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [1.0], [1.0])
        y = x.clone()
        y.mul_(10)
        assert tangent_of(torch, x).tolist() == [1.0] and tangent_of(torch, y).tolist() == [10.0]


def test_fill_and_zero_clear_the_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [1.0], [1.0]) * 1
        x.zero_()
        found = tangent_of(torch, x)
        assert found is None or found.tolist() == [0.0]


def test_copy_brings_the_tangent_of_its_source(torch):
    with torch.autograd.forward_ad.dual_level():
        y = torch.zeros(2, dtype=torch.float64)
        y.copy_(dual(torch, [1.0], [3.0]))
        assert tangent_of(torch, y).tolist() == [3.0, 3.0]


def test_comparisons_and_integers_have_no_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [1.0, 5.0], [1.0, 1.0])
        assert tangent_of(torch, x > 2) is None and tangent_of(torch, x.argmax()) is None


def test_reductions_and_products(torch):
    with torch.autograd.forward_ad.dual_level():
        x = dual(torch, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]])
        assert tangent_of(torch, x.sum(0)).tolist() == [1.0, 2.0]
        assert tangent_of(torch, x.mean()).item() == 0.75
        assert tangent_of(torch, x.amax(1)).tolist() == [0.0, 2.0]
        assert tangent_of(torch, x @ x).tolist() == [[2.0, 6.0], [9.0, 16.0]]


@pytest.mark.parametrize(
    "name", ["sin", "exp", "log", "tanh", "sqrt", "sigmoid", "reciprocal", "abs", "erf", "square"]
)
def test_tangents_agree_with_reverse_mode(torch, name):
    op = getattr(torch, name)
    x = leaf(torch, [0.3, 0.8])
    (grad,) = torch.autograd.grad(op(x).sum(), x)
    with torch.autograd.forward_ad.dual_level():
        pushed = tangent_of(torch, op(dual(torch, [0.3, 0.8], [1.0, 1.0])))
    assert near(pushed, grad)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("softmax", (0,)),
        ("logsumexp", (0,)),
        ("cumsum", (0,)),
        ("prod", ()),
        ("norm", ()),
        ("var", ()),
        ("flip", (0,)),
        ("clamp", (0.2, 0.5)),
        ("index_select", None),
        ("sort", None),
    ],
)
def test_tangents_satisfy_the_dot_product_test(torch, name, arguments):
    def run(x):
        if name == "index_select":
            return x.index_select(0, torch.tensor([2, 0, 2]))
        if name == "sort":
            return x.sort().values
        return getattr(x, name)(*arguments)

    values, direction = [0.3, 0.8, 0.1], constant(torch, [1.0, -2.0, 0.5])
    x = leaf(torch, values)
    y = run(x)
    weights = torch.linspace(1.0, 2.0, max(y.numel(), 1), dtype=torch.float64).reshape(y.shape)
    (pulled,) = torch.autograd.grad(y, x, grad_outputs=weights)
    with torch.autograd.forward_ad.dual_level():
        made = torch.autograd.forward_ad.make_dual(constant(torch, values), direction)
        pushed = tangent_of(torch, run(made))
    assert near((pushed * weights).sum(), (pulled * direction).sum())


def test_reverse_over_forward(torch):
    forward_ad = torch.autograd.forward_ad
    x, direction = leaf(torch, [2.0]), constant(torch, [1.0])
    with forward_ad.dual_level():
        pushed = tangent_of(torch, forward_ad.make_dual(x, direction) ** 3)
        (second,) = torch.autograd.grad(pushed.sum(), x)
    assert near(pushed, [12.0]) and near(second, [12.0])


def test_the_tangent_itself_is_differentiated(torch):
    forward_ad = torch.autograd.forward_ad
    direction = leaf(torch, [5.0])
    with forward_ad.dual_level():
        pushed = tangent_of(torch, forward_ad.make_dual(constant(torch, [2.0]), direction) ** 3)
        (grad,) = torch.autograd.grad(pushed.sum(), direction)
    assert near(grad, [12.0])


def test_forward_over_reverse(torch):
    forward_ad = torch.autograd.forward_ad
    x, direction = leaf(torch, [2.0]), constant(torch, [1.0])
    with forward_ad.dual_level():
        made = forward_ad.make_dual(x, direction)
        (grad,) = torch.autograd.grad((made**3).sum(), made, create_graph=True)
        assert near(grad, [12.0]) and near(tangent_of(torch, grad), [12.0])


def test_a_hessian_vector_product_forward_over_reverse(torch):
    forward_ad = torch.autograd.forward_ad
    x, direction = leaf(torch, [1.0, 2.0]), constant(torch, [1.0, -1.0])
    with forward_ad.dual_level():
        made = forward_ad.make_dual(x, direction)
        (grad,) = torch.autograd.grad(made[0] ** 2 * made[1], made, create_graph=True)
        assert near(tangent_of(torch, grad), [2.0, 2.0])


def test_the_result_of_an_op_on_duals_also_records_for_reverse_mode(torch):
    forward_ad = torch.autograd.forward_ad
    x = leaf(torch, [2.0])
    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, constant(torch, [1.0])) * 3
        y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_inference_mode_stops_forward_mode(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = dual(torch, [2.0], [1.0])
        with torch.inference_mode():
            y = x * 3
            assert tangent_of(torch, y) is None
        assert y.tolist() == [6.0]


def test_casting_a_dual_casts_its_tangent(torch):
    with torch.autograd.forward_ad.dual_level():
        found = tangent_of(torch, dual(torch, [2.0], [1.0]).float())
        assert found.dtype is torch.float32 and found.tolist() == [1.0]


def test_a_cat_of_a_dual_and_a_plain_tensor(torch):
    with torch.autograd.forward_ad.dual_level():
        joined = torch.cat([dual(torch, [2.0], [1.0]), constant(torch, [5.0])])
        assert tangent_of(torch, joined).tolist() == [1.0, 0.0]


IN_PLACE = {
    "mul": (lambda d: d.mul_(2), [4.0, 2.0, 6.0]),
    "add": (lambda d: d.add_(1), [2.0, 1.0, 3.0]),
    "exp": (lambda d: d.exp_(), [2 * math.e, math.exp(-2.0), 3 * math.exp(3.0)]),
    "zero": (lambda d: d.zero_(), [0.0, 0.0, 0.0]),
    "fill": (lambda d: d.fill_(7), [0.0, 0.0, 0.0]),
    "clamp": (lambda d: d.clamp_(0, 2), [2.0, 0.0, 0.0]),
    "setitem": (lambda d: d.__setitem__(0, 5.0), [0.0, 1.0, 3.0]),
    "masked_fill": (lambda d: d.masked_fill_(d < 0, 1.0), [2.0, 0.0, 3.0]),
    "a slice": (lambda d: d[:2].mul_(2), [4.0, 2.0, 3.0]),
    "a slice of a slice": (lambda d: d[1:][:1].mul_(-1), [2.0, -1.0, 3.0]),
    "a transposed view": (lambda d: d.view(3, 1).t().mul_(2), [4.0, 2.0, 6.0]),
    "index_fill": (lambda d: d.index_fill_(0, d.new_tensor([0]).long(), 1.0), [0.0, 1.0, 3.0]),
    "copy": (lambda d: d.copy_(d.detach()), [0.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_in_place_op_on_what_make_dual_returned(torch, name):
    write, expected = IN_PLACE[name]
    with torch.autograd.forward_ad.dual_level():
        x = constant(torch, [1.0, -2.0, 3.0])
        d = torch.autograd.forward_ad.make_dual(x, constant(torch, [2.0, 1.0, 3.0]))
        before = d[1:]
        write(d)
        assert near(tangent_of(torch, d), expected)
        assert near(tangent_of(torch, before), expected[1:])
        assert near(tangent_of(torch, d * 3), [3 * t for t in expected])
        assert near(tangent_of(torch, d[1:] * 3), [3 * t for t in expected[1:]])
        assert tangent_of(torch, x) is None and x.grad_fn is None
        assert x.tolist() == d.tolist()


def test_copying_a_dual_into_a_part_of_a_dual(torch):
    with torch.autograd.forward_ad.dual_level():
        d = dual(torch, [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
        d[:1].copy_(dual(torch, [5.0], [7.0]))
        assert tangent_of(torch, d).tolist() == [7.0, 1.0, 1.0]


def test_an_in_place_op_on_a_dual_under_no_grad(torch):
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        d = dual(torch, [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
        part = d[1:]
        part.mul_(5)
        assert tangent_of(torch, d).tolist() == [1.0, 5.0, 5.0]
        assert tangent_of(torch, part).tolist() == [5.0, 5.0]
        d.mul_(2)
        assert tangent_of(torch, part).tolist() == [10.0, 10.0]


def test_multiplying_a_dual_by_itself_in_place(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch reads the tangent that it is overwriting")
    with torch.autograd.forward_ad.dual_level():
        d = dual(torch, [1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
        d.mul_(d)
        assert tangent_of(torch, d).tolist() == [2.0, 4.0, 6.0]


def test_a_primal_with_a_history_is_not_used_after_a_write_to_its_dual(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch follows such writes")
    for part in (slice(None), slice(1)):
        with torch.autograd.forward_ad.dual_level():
            x = leaf(torch, [1.0, 2.0]) * 1
            view = x[1:]
            d = torch.autograd.forward_ad.make_dual(x, constant(torch, [1.0, 1.0]))
            d[part].mul_(2)
            assert tangent_of(torch, d).tolist() == [2.0, 2.0 if part == slice(None) else 1.0]
            for spoilt in (x, view):
                with pytest.raises(RuntimeError, match=r"through a dual tensor.*\.clone\(\)"):
                    _ = spoilt * 1


def test_writing_to_a_dual_of_a_leaf_is_refused(torch):
    with torch.autograd.forward_ad.dual_level():
        x = leaf(torch, [1.0, 2.0])
        d = torch.autograd.forward_ad.make_dual(x, constant(torch, [1.0, 1.0]))
        for target in (d, d[:1]):
            with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
                target.mul_(2)


def test_a_direction_in_the_memory_of_the_primal(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch overwrites the direction together with the primal")
    with torch.autograd.forward_ad.dual_level():
        x = constant(torch, [1.0, 2.0])
        d = torch.autograd.forward_ad.make_dual(x, x)
        d.mul_(5)
        assert tangent_of(torch, d).tolist() == [5.0, 10.0]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_tangents_in_anomaly_mode(torch):
    with torch.autograd.detect_anomaly(), torch.autograd.forward_ad.dual_level():
        x = dual(torch, [[1.0, 2.0]], [[1.0, 1.0]])
        assert near(tangent_of(torch, x @ x.t()), [[6.0]])
        assert near(tangent_of(torch, x.logsumexp(1)), [1.0])


def test_an_inference_tensor_that_cannot_be_saved(torch):
    forward_ad = torch.autograd.forward_ad
    with torch.inference_mode():
        scale = constant(torch, [3.0])
    x = leaf(torch, [2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, constant(torch, [1.0]))
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            dual * scale
        assert forward_ad.unpack_dual(dual * 2).tangent.tolist() == [2.0]
