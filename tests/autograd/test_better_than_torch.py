"""What tapegrad does and PyTorch does not; these tests run on tapegrad alone.

Errors name source lines, a write beside a saved value is no error, and cycles through the graph
are collected.
"""

import gc
import importlib
import math
import re
import sys
import warnings
import weakref

import pytest
from library import IS_TORCH

from .values import constant, leaf, near

STALE = "modified by an inplace operation"
STEPS = 2_000


@pytest.fixture(params=["tapegrad"])
def torch(request):
    """Give tapegrad, under the name that all tests of this folder use."""
    if IS_TORCH:
        pytest.skip("these tests are of tapegrad alone")
    library = importlib.import_module("tapegrad")
    library.manual_seed(0)
    return library


class Token:
    """An object whose end of life can be watched."""


def next_line():
    """Return "file:line" of the line after the caller's, as messages write it."""
    return f"test_better_than_torch.py:{sys._getframe(1).f_lineno + 1}"


def whole_text(error):
    """Return the message of an exception with its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


# Stale saved values: the error tells the whole story.


def test_a_stale_value_names_the_op_that_saved_it_and_its_line(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    saved = next_line()
    y = x * factor
    factor.add_(1)
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    assert "MulBackward0" in str(error.value) and saved in str(error.value)


def test_a_stale_value_names_the_op_that_overwrote_it_and_its_line(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    written = next_line()
    factor.add_(1)
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    assert "add_" in str(error.value) and written in str(error.value)


def test_a_stale_value_comes_with_a_remedy(torch):
    x, factor = leaf(torch, [2.0]), constant(torch, [3.0])
    y = x * factor
    factor.add_(1)
    with pytest.raises(RuntimeError, match="clone"):
        y.sum().backward()


def test_a_stale_result_names_both_lines(torch):
    x = leaf(torch, [2.0])
    saved = next_line()
    y = x.exp()
    written = next_line()
    y.mul_(2)
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    message = str(error.value)
    assert "ExpBackward0" in message and saved in message
    assert "mul_" in message and written in message


def test_an_assignment_to_a_slice_is_named_by_its_line(torch):
    x, factor = leaf(torch, [2.0, 2.0]), constant(torch, [3.0, 3.0])
    y = x * factor
    written = next_line()
    factor[0] = 5.0
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    assert written in str(error.value)


def test_a_write_through_a_view_is_named_by_its_line(torch):
    x, factor = leaf(torch, [2.0, 2.0]), constant(torch, [3.0, 3.0])
    y = x * factor
    view = factor[1:]
    written = next_line()
    view.zero_()
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    assert "zero_" in str(error.value) and written in str(error.value)


def test_a_write_under_no_grad_is_named_by_its_line(torch):
    x, weight = leaf(torch, [2.0]), leaf(torch, [3.0])
    y = x * weight
    with torch.no_grad():
        written = next_line()
        weight.sub_(0.1)
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    assert "sub_" in str(error.value) and written in str(error.value)


def test_the_write_that_did_the_harm_is_named_and_not_a_later_harmless_one(torch):
    x, base = leaf(torch, [2.0]), constant(torch, [3.0, 4.0])
    y = x * base[:1]
    harmful = next_line()
    base[:1].add_(1)
    harmless = next_line()
    base[1:].mul_(2)
    with pytest.raises(RuntimeError, match=STALE) as error:
        y.sum().backward()
    assert harmful in str(error.value) and harmless not in str(error.value)


def test_a_stale_tensor_of_a_custom_function_names_both_lines(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    y = leaf(torch, [2.0]) * 1
    saved = next_line()
    z = Square.apply(y)
    written = next_line()
    y.add_(1)
    with pytest.raises(RuntimeError, match=STALE) as error:
        z.sum().backward()
    message = str(error.value)
    assert "Square" in message and saved in message and written in message


# Writes that do not touch the saved bytes.


def test_writing_another_row_is_no_error(torch):
    x, table = leaf(torch, [2.0, 3.0]), constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = x * table[0]
    table[1].zero_()
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_writing_another_column_is_no_error(torch):
    x, table = leaf(torch, [2.0, 3.0]), constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = x * table[:, 0]
    table[:, 1].zero_()
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 3.0]


def test_writing_interleaved_elements_is_no_error(torch):
    x, row = leaf(torch, [2.0, 3.0]), constant(torch, [1.0, 2.0, 3.0, 4.0])
    y = x * row[::2]
    row[1::2].zero_()
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 3.0]


def test_writing_the_other_triangle_of_blocks_is_no_error(torch):
    x = leaf(torch, [[1.0, 1.0], [1.0, 1.0]])
    table = torch.arange(16, dtype=torch.float64).reshape(4, 4)
    y = x * table[:2, :2]
    table[2:, :2].zero_()
    table[:2, 2:].zero_()
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0], [4.0, 5.0]]


def test_an_overlapping_row_is_an_error(torch):
    x, table = leaf(torch, [2.0, 3.0]), constant(torch, [[1.0, 2.0], [3.0, 4.0]])
    y = x * table[0]
    table[:, 1].zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_overlapping_slices_are_an_error(torch):
    x, row = leaf(torch, [2.0, 3.0, 4.0]), constant(torch, [1.0, 2.0, 3.0, 4.0, 5.0])
    y = x * row[:3]
    row[2:].zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_writing_a_part_of_what_was_saved_whole_is_an_error(torch):
    x, row = leaf(torch, [2.0, 3.0]), constant(torch, [1.0, 2.0])
    y = x * row
    row[1:].zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_writing_the_whole_of_which_a_part_was_saved_is_an_error(torch):
    x, row = leaf(torch, [2.0]), constant(torch, [1.0, 2.0])
    y = x * row[:1]
    row.zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_disjoint_write_does_not_hide_an_overlapping_one(torch):
    x, row = leaf(torch, [2.0]), constant(torch, [1.0, 2.0, 3.0])
    y = x * row[:1]
    row[1].zero_()
    row[0].zero_()
    row[2].zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_many_disjoint_writes_are_no_error(torch):
    x, row = leaf(torch, [2.0]), torch.ones(1000, dtype=torch.float64)
    y = x * row[:1]
    for index in range(1, 1000):
        row[index] = float(index)
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_many_disjoint_writes_do_not_hide_an_overlapping_one(torch):
    x, row = leaf(torch, [2.0]), torch.ones(1000, dtype=torch.float64)
    y = x * row[:1]
    row[0] = 7.0
    for index in range(1, 1000):
        row[index] = float(index)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_buffer_filled_step_by_step_from_its_own_past(torch):
    x = leaf(torch, 1.5)
    states = torch.zeros(4, dtype=torch.float64)
    states[0] = x
    for step in range(1, 4):
        states[step] = states[step - 1] * x  # Saves the last state and writes the next one.
    states[3].backward()
    assert near(x.grad, 4 * 1.5**3)


def test_rows_of_a_tensor_with_history_written_one_after_the_other(torch):
    x = leaf(torch, [1.0, 2.0])
    y = x * 1
    first = y[0] ** 2
    y[1].mul_(10)
    (first + y[1]).backward()
    assert near(x.grad, [2.0, 10.0])


def test_a_key_value_cache(torch):
    keys = torch.zeros(3, 2, dtype=torch.float64)
    x, scores = leaf(torch, [1.0, 2.0]), []
    for step in range(3):
        keys[step] = torch.ones(2, dtype=torch.float64) * (step + 1)
        scores.append(x @ keys[step])
    torch.stack(scores).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_disjoint_writes_leave_second_derivatives_right(torch):
    x, row = leaf(torch, [2.0]), constant(torch, [3.0, 4.0])
    y = (x**3 * row[:1]).sum()
    row[1:].zero_()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    row[1:].add_(5)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert near(first, [36.0]) and near(second, [36.0])


# A graph swept twice, and errors in the sweep.


def test_a_second_backward_names_the_op_and_both_lines(torch):
    x = leaf(torch, [2.0])
    recorded = next_line()
    y = x.exp()
    first = next_line()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as error:
        y.sum().backward()
    message = str(error.value)
    assert "ExpBackward0" in message and recorded in message and first in message


def test_a_second_autograd_grad_names_the_line_of_the_first(torch):
    x = leaf(torch, [2.0])
    y = (x * x).sum()
    first = next_line()
    torch.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as error:
        torch.autograd.grad(y, x)
    assert first in str(error.value) and "retain_graph" in str(error.value)


def test_reading_a_freed_saved_attribute_names_the_op(torch):
    y = leaf(torch, [2.0]).exp()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="ExpBackward0"):
        _ = y.grad_fn._saved_result


def test_an_error_in_a_custom_backward_carries_the_forward_line(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("inside")

    recorded = next_line()
    y = Fails.apply(leaf(torch, [2.0]))
    with pytest.raises(ValueError, match="inside") as error:
        y.sum().backward()
    assert recorded in whole_text(error.value)


def test_a_gradient_of_the_wrong_shape_carries_the_forward_line_and_the_argument(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            return x * weight

        @staticmethod
        def backward(ctx, grad):
            return grad, torch.ones(5, dtype=torch.float64)

    recorded = next_line()
    y = Wrong.apply(leaf(torch, [2.0, 2.0]), leaf(torch, [3.0, 3.0]))
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    message = whole_text(error.value)
    assert "Wrong" in message and "weight" in message and recorded in message


def test_the_wrong_number_of_gradients_carries_the_forward_line(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            return x * weight

        @staticmethod
        def backward(ctx, grad):
            return grad

    recorded = next_line()
    y = Wrong.apply(leaf(torch, [2.0]), leaf(torch, [3.0]))
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    message = whole_text(error.value)
    assert "Wrong" in message and recorded in message


def test_an_error_in_a_hook_carries_the_forward_line(torch):
    def fail(grad):
        raise ValueError("inside")

    recorded = next_line()
    y = leaf(torch, [2.0]).exp()
    y.register_hook(fail)
    with pytest.raises(ValueError, match="inside") as error:
        y.sum().backward()
    assert recorded in whole_text(error.value)


@pytest.mark.filterwarnings("ignore")
def test_a_nan_gradient_in_anomaly_mode_names_the_forward_line(torch):
    x = leaf(torch, [0.0])
    with torch.autograd.detect_anomaly():
        recorded = next_line()
        y = x.sqrt()
        with pytest.raises(RuntimeError, match="nan") as error:
            (y * 0).sum().backward()
    assert "SqrtBackward0" in str(error.value) and recorded in whole_text(error.value)


@pytest.mark.filterwarnings("ignore")
def test_anomaly_mode_checks_forward_values(torch):
    x = leaf(torch, [-1.0])
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        x.log()


def test_in_place_on_itself_keeps_the_operand(torch):
    x = leaf(torch, [3.0])
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert x.grad.tolist() == [6.0]


# Cycles and live bytes.


def test_a_cycle_through_a_hook_on_an_inner_tensor_is_collected(torch):
    token = Token()
    y = leaf(torch, [2.0]) * 3
    y.register_hook(lambda grad, y=y, token=token: None)
    alive = weakref.ref(token)
    del y, token
    gc.collect()
    assert alive() is None


def test_a_cycle_through_a_node_hook_is_collected(torch):
    token = Token()
    y = leaf(torch, [2.0]) * 3
    y.grad_fn.register_hook(lambda inputs, outputs, y=y, token=token: None)
    alive = weakref.ref(token)
    del y, token
    gc.collect()
    assert alive() is None


def test_a_cycle_through_node_metadata_is_collected(torch):
    token = Token()
    y = leaf(torch, [2.0]) * 3
    y.grad_fn.metadata["cycle"] = (y.grad_fn, token)
    alive = weakref.ref(token)
    del y, token
    gc.collect()
    assert alive() is None


def test_a_buffer_that_saved_a_view_of_itself_is_collected(torch):
    x = leaf(torch, 1.5)
    states = torch.zeros(2, dtype=torch.float64)
    states[0] = x
    states[1] = states[0] * x  # The product saves a view whose base comes to hold the product.
    alive = weakref.ref(states)
    del states
    gc.collect()
    assert alive() is None


def live_bytes_before_and_after(torch, step):
    """Return the live bytes after a few steps and after many more, with cycles collected."""
    for _ in range(10):
        step()
    gc.collect()
    before = torch.memory_stats()["live_bytes"]
    for _ in range(STEPS):
        step()
    gc.collect()
    return before, torch.memory_stats()["live_bytes"]


def test_live_bytes_stay_flat_over_create_graph_steps(torch):
    x = leaf(torch, [2.0, 3.0])

    def step():
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        torch.autograd.grad((first**2).sum(), x)

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


@pytest.mark.filterwarnings("ignore:Using backward")
def test_live_bytes_stay_flat_when_grad_holds_its_own_graph(torch):
    x = leaf(torch, [2.0, 3.0])

    def step():
        x.grad = None
        (x**3).sum().backward(create_graph=True)

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_live_bytes_stay_flat_over_hooks_that_hold_their_tensor(torch):
    x = leaf(torch, [2.0, 3.0])

    def step():
        x.grad = None
        y = x * x
        y.register_hook(lambda grad: grad * y.detach())
        y.grad_fn.register_hook(lambda inputs, outputs: None if y is None else inputs)
        y.sum().backward()

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_live_bytes_stay_flat_over_cycles_through_ctx(torch):
    class Holds(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            ctx.y = x * 2  # The result, held by the node that makes it.
            return ctx.y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(torch, [2.0, 3.0])

    def step():
        x.grad = None
        y = Holds.apply(x)
        y.grad_fn.result = y
        y.sum().backward()

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_live_bytes_stay_flat_over_sweeps_that_fail(torch):
    x = leaf(torch, [2.0, 3.0])

    def fail(grad):
        raise ValueError

    def step():
        y = x * x
        y.register_hook(fail)
        with pytest.raises(ValueError):
            y.exp().sum().backward()

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_live_bytes_stay_flat_over_graphs_that_are_never_swept(torch):
    x = leaf(torch, [2.0, 3.0])
    before, after = live_bytes_before_and_after(torch, lambda: (x * x).exp()[0].sin())
    assert after == before


def test_live_bytes_stay_flat_over_buffers_that_saved_views_of_themselves(torch):
    x = leaf(torch, 1.5)

    def step():
        states = torch.zeros(2, dtype=torch.float64)
        states[0] = x
        states[1] = states[0] * x

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_live_bytes_stay_flat_over_transforms(torch):
    x = constant(torch, [2.0, 3.0])
    one = constant(torch, [1.0, 1.0])

    def step():
        torch.func.vmap(torch.func.grad(lambda v: v**3))(x)
        torch.func.jvp(lambda v: v.sin(), (x,), (one,))

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_live_bytes_stay_flat_over_saved_tensor_hooks(torch):
    x = leaf(torch, [2.0, 3.0])

    def step():
        x.grad = None
        with torch.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda box: box[0]):
            y = x.exp() * x
        y.sum().backward()

    before, after = live_bytes_before_and_after(torch, step)
    assert after == before


def test_a_write_through_data_that_falsifies_a_gradient_is_warned_of_once(torch):
    for warned in (True, False):
        x = leaf(torch, [2.0])
        y = x * x
        x.data.fill_(5.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y.sum().backward()
        assert x.grad.tolist() == [10.0]
        texts = [str(each.message) for each in caught]
        assert len(texts) == warned
        for text in texts:
            saved, written = re.findall(r"test_better_than_torch.py:(\d+)", text)
            assert "MulBackward0" in text and "through .data by fill_" in text
            assert int(written) == int(saved) + 1


def test_a_write_through_data_that_would_falsify_a_gradient_can_be_an_error(torch):
    x = leaf(torch, [2.0])
    y = x * x
    x.data.fill_(5.0)
    with torch.autograd.set_data_writes("error"):
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*by fill_ at"):
            y.sum().backward()
        with pytest.raises(ValueError, match="expected one of warn, error, got 'raise'"):
            torch.autograd.set_data_writes("raise")
        x = leaf(torch, [2.0])
        (x * 2).sum().backward()  # it needs no value
        x.data.fill_(5.0)
        assert x.grad.tolist() == [2.0]


def test_another_write_beside_one_through_data_is_an_error(torch):
    x = leaf(torch, [2.0, 3.0])
    y = x * x
    x.data[0] = 5.0
    with torch.no_grad():
        x[1] = 7.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_dual_levels_nest(torch):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level() as outer:
        x = forward_ad.make_dual(constant(torch, [2.0]), constant(torch, [1.0]))
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, constant(torch, [1.0])) ** 3
            first = forward_ad.unpack_dual(y).tangent
        second = forward_ad.unpack_dual(first, level=outer).tangent
    assert near(first, [12.0]) and near(second, [12.0])


def test_a_function_without_jvp_has_forward_mode_from_its_backward(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    _, pushed = torch.func.jvp(Cube.apply, (constant(torch, [2.0]),), (constant(torch, [10.0]),))
    assert near(pushed, [120.0])
    assert near(torch.func.vmap(Cube.apply)(constant(torch, [1.0, 2.0])), [1.0, 8.0])
    assert near(torch.func.grad(lambda x: Cube.apply(x).sum())(constant(torch, [2.0])), [12.0])


def test_a_buffer_made_inside_vmap_may_be_filled(torch):
    def fill(row):
        buffer = torch.zeros(3, dtype=torch.float64)
        buffer[1:] = row
        return buffer

    out = torch.func.vmap(fill)(constant(torch, [[1.0, 2.0], [3.0, 4.0]]))
    assert out.tolist() == [[0.0, 1.0, 2.0], [0.0, 3.0, 4.0]]


def test_a_former_leaf_keeps_its_history_when_the_old_graph_goes(torch):
    x = leaf(torch, [1.0])
    old = x * 2
    x.requires_grad_(False)
    x.mul_(leaf(torch, [3.0]))
    del old
    assert x.grad_fn.name() == "MulBackward0"
    x.sum().backward()


def test_a_dual_level_ends_even_if_a_tangent_fails(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("no derivative")

    with pytest.raises(ValueError, match="no derivative"):
        torch.func.jvp(Fails.apply, (constant(torch, [1.0]),), (constant(torch, [1.0]),))
    forward_ad = torch.autograd.forward_ad
    x = constant(torch, [1.0])
    assert forward_ad.unpack_dual(x * 2).tangent is None
    assert torch._C._tangent_levels(x) == []
    _, pushed = torch.func.jvp(torch.exp, (x,), (x,))
    assert near(pushed, [math.e])


def test_columns_written_step_by_step(torch):
    """Each step saves a column and writes the next: 600 writes that no saved value minds."""
    steps = 600
    rate = leaf(torch, [0.5])
    buffer = torch.zeros(4, steps, dtype=torch.float64)
    buffer[:, 0] = 1.0
    for step in range(1, steps):
        buffer[:, step] = buffer[:, step - 1] * rate + 1.0
    (grad,) = torch.autograd.grad(buffer[:, 3].sum(), rate)
    assert near(grad, [4 * (3 * 0.25 + 2 * 0.5 + 1)])


def test_a_batch_too_large_to_address_is_refused(torch):
    huge = constant(torch, [1.0]).expand(2**57)
    with pytest.raises(RuntimeError, match=r"larger than can be addressed|could not get"):
        torch.func.vmap(torch.sin)(huge)
