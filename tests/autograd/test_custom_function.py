"""autograd.Function in both styles, and everything its context can say."""

import contextlib
import gc
import weakref

import pytest

from .values import constant, leaf, near


def make_scale(torch):
    """Return a function that multiplies by a number, in the style of one ``forward(ctx, ...)``."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None

    return Scale


def make_square(torch):
    """Return a square whose backward is made of recorded ops."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    return Square


def make_split_style(torch):
    """Return a product in the style of ``forward`` and ``setup_context``, with a jvp."""

    class Product(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y = inputs
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x

        @staticmethod
        def jvp(ctx, tangent_x, tangent_y):
            x, y = ctx.saved_tensors
            return tangent_x * y + x * tangent_y

    return Product


def test_forward_and_backward(torch):
    x = leaf(torch, [1.0, 2.0])
    y = make_scale(torch).apply(x, 3.0)
    assert y.tolist() == [3.0, 6.0] and y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_setup_context_style(torch):
    x, y = leaf(torch, [2.0]), leaf(torch, [5.0])
    make_split_style(torch).apply(x, y).sum().backward()
    assert x.grad.tolist() == [5.0] and y.grad.tolist() == [2.0]


def test_setup_context_gets_the_inputs_and_the_output(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(x, number, text):
            return x * number

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append((inputs[1:], output.tolist()))

        @staticmethod
        def backward(ctx, grad):
            return grad, None, None

    Watch.apply(leaf(torch, [2.0]), 3, "name")
    assert seen == [((3, "name"), [6.0])]


def test_forward_runs_without_recording(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    Watch.apply(leaf(torch, [1.0]))
    assert seen == [False]


def test_nothing_is_recorded_when_no_input_requires_grad(torch):
    y = make_square(torch).apply(constant(torch, [2.0]))
    assert not y.requires_grad and y.grad_fn is None


def test_nothing_is_recorded_under_no_grad(torch):
    with torch.no_grad():
        y = make_square(torch).apply(leaf(torch, [2.0]))
    assert not y.requires_grad


def test_the_node_is_named_after_the_function(torch):
    y = make_square(torch).apply(leaf(torch, [2.0]))
    assert y.grad_fn.name() == "SquareBackward"
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)


def test_an_attribute_of_ctx_is_an_attribute_of_the_node(torch):
    y = make_scale(torch).apply(leaf(torch, [2.0]), 7.0)
    assert y.grad_fn.factor == 7.0


def test_needs_input_grad(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, number):
            seen.append(ctx.needs_input_grad)
            return x * y * number

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad, None, None

    Watch.apply(leaf(torch, [1.0]), constant(torch, [1.0]), 3).sum().backward()
    assert seen == [(True, False, False)] * 2


def test_saved_tensors_are_the_saved_objects(torch):
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, None, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            seen.extend(ctx.saved_tensors)
            return grad, grad

    x, y = leaf(torch, [2.0]), leaf(torch, [5.0])
    Watch.apply(x, y).sum().backward()
    assert seen[0] is x and seen[1] is None and seen[2] is y


def test_a_saved_output_knows_its_node(torch):
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    x = leaf(torch, [0.5])
    y = Exponential.apply(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert near(first, x.exp()) and near(second, x.exp()) and near(third, x.exp())


def test_overwriting_a_saved_tensor_raises(torch):
    x = leaf(torch, [2.0])
    y = x * 1
    z = make_square(torch).apply(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_tensors_are_freed_by_backward(torch):
    y = make_square(torch).apply(leaf(torch, [2.0])).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_save_for_backward_takes_tensors_alone(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, 3)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(TypeError):
        Wrong.apply(leaf(torch, [1.0]))


def test_double_backward(torch):
    x = leaf(torch, [3.0])
    y = make_square(torch).apply(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [6.0] and second.tolist() == [2.0]


def test_gradcheck_of_both_styles(torch):
    x, y = leaf(torch, [0.3, 0.7]), leaf(torch, [1.1, -0.4])
    assert torch.autograd.gradcheck(make_square(torch).apply, (x,))
    assert torch.autograd.gradgradcheck(make_square(torch).apply, (x,))
    assert torch.autograd.gradcheck(make_split_style(torch).apply, (x, y))


def test_once_differentiable_gives_first_gradients(torch):
    once_differentiable = torch.autograd.function.once_differentiable

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = leaf(torch, [3.0])
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_once_differentiable_refuses_the_second_gradient(torch):
    once_differentiable = torch.autograd.function.once_differentiable

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = leaf(torch, [3.0])
    (first,) = torch.autograd.grad((Square.apply(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_several_outputs(torch):
    class SinCos(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, grad_sin, grad_cos):
            (x,) = ctx.saved_tensors
            return grad_sin * x.cos() - grad_cos * x.sin()

    x = leaf(torch, [0.4])
    sin, cos = SinCos.apply(x)
    assert sin.grad_fn is cos.grad_fn and (sin.output_nr, cos.output_nr) == (0, 1)
    (sin * 2 + cos * 3).sum().backward()
    assert near(x.grad, 2 * x.cos() - 3 * x.sin())


def test_the_gradient_of_an_unused_output_is_zeros(torch):
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            seen.extend([first.tolist(), second.tolist()])
            return first + 2 * second

    x = leaf(torch, [1.0])
    Twice.apply(x)[0].sum().backward()
    assert seen == [[1.0], [0.0]] and x.grad.tolist() == [1.0]


def test_set_materialize_grads_false_gives_none(torch):
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            seen.extend([first is None, second is None])
            return 2 * second

    x = leaf(torch, [1.0])
    Twice.apply(x)[1].sum().backward()
    assert seen == [True, False] and x.grad.tolist() == [2.0]


def test_mark_non_differentiable(torch):
    class Largest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            values, indices = x.max(0)
            ctx.mark_non_differentiable(indices)
            ctx.save_for_backward(x, indices)
            return values, indices

        @staticmethod
        def backward(ctx, grad, grad_indices):
            x, indices = ctx.saved_tensors
            return torch.zeros_like(x).index_fill(0, indices, 1.0) * grad

    x = leaf(torch, [1.0, 5.0, 2.0])
    value, index = Largest.apply(x)
    assert value.requires_grad and not index.requires_grad and index.item() == 1
    value.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


def test_mark_non_differentiable_on_a_floating_output(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            norm = x * 0 + 7
            ctx.mark_non_differentiable(norm)
            return x * 2, norm

        @staticmethod
        def backward(ctx, grad, grad_norm):
            return grad * 2

    doubled, norm = Both.apply(leaf(torch, [1.0]))
    assert doubled.requires_grad and not norm.requires_grad


def make_add_one_in_place(torch):
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 10

    return AddOne


def test_mark_dirty_returns_the_input_itself(torch):
    x = leaf(torch, [1.0])
    y = x * 2
    version = y._version
    z = make_add_one_in_place(torch).apply(y)
    assert z is y and y.tolist() == [3.0] and y._version > version
    assert y.grad_fn.name() == "AddOneBackward"
    z.sum().backward()
    assert x.grad.tolist() == [20.0]


def test_mark_dirty_on_a_leaf_that_requires_grad_raises(torch):
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        make_add_one_in_place(torch).apply(leaf(torch, [1.0]))


def test_mark_dirty_through_a_view_rewrites_the_base(torch):
    x = leaf(torch, [1.0, 2.0])
    y = x * 1
    make_add_one_in_place(torch).apply(y[1:])
    assert y.tolist() == [1.0, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0]


def test_returning_an_input_unchanged_gives_a_new_tensor(torch):
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 5

    x = leaf(torch, [1.0])
    y = Identity.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [5.0]


def test_a_gradient_reversal(torch):
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return -grad

    x = leaf(torch, [1.0, 2.0])
    (Reverse.apply(x) * 3).sum().backward()
    assert x.grad.tolist() == [-3.0, -3.0]


def test_too_few_gradients_raise(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad

    y = Wrong.apply(leaf(torch, [1.0]), leaf(torch, [1.0]))
    with pytest.raises(RuntimeError, match=r"Wrong.*number of gradients"):
        y.sum().backward()


def test_too_many_gradients_raise(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    y = Wrong.apply(leaf(torch, [1.0]))
    with pytest.raises(RuntimeError, match=r"Wrong.*number of gradients"):
        y.sum().backward()


def test_extra_gradients_that_are_none_are_allowed(torch):
    class Extra(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2, None, None

    x = leaf(torch, [1.0])
    Extra.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_gradient_of_the_wrong_shape_raises(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(5, dtype=torch.float64)

    y = Wrong.apply(leaf(torch, [1.0, 2.0]))
    with pytest.raises(RuntimeError, match=r"Wrong.*shape"):
        y.sum().backward()


def test_a_gradient_that_broadcasts_from_the_argument_is_summed(torch):
    class Spread(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.expand(3).clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(torch, [1.0])
    Spread.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_a_gradient_that_is_no_tensor_raises(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return "text"

    y = Wrong.apply(leaf(torch, [1.0]))
    with pytest.raises((RuntimeError, TypeError)):
        y.sum().backward()


def test_a_gradient_of_none_is_no_gradient(torch):
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    x = leaf(torch, [1.0])
    Stop.apply(x).sum().backward()
    assert x.grad is None


def test_a_gradient_is_cast_to_the_dtype_of_its_argument(torch):
    class Cast(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.double()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(2, requires_grad=True)
    Cast.apply(x).sum().backward()
    assert x.grad.dtype is torch.float32


def test_an_error_in_forward_is_the_callers(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise ValueError("in forward")

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(ValueError, match="in forward"):
        Fails.apply(leaf(torch, [1.0]))
    assert torch.is_grad_enabled()


def test_an_error_in_backward_is_the_callers(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("in backward")

    y = Fails.apply(leaf(torch, [1.0]))
    with pytest.raises(ValueError, match="in backward"):
        y.sum().backward()


def test_a_missing_backward_raises(torch):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    y = Nothing.apply(leaf(torch, [1.0]))
    with pytest.raises(NotImplementedError):
        y.sum().backward()


def test_arguments_that_are_not_tensors_pass_through(torch):
    class Affine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, options, names, flag):
            ctx.slope = options["slope"]
            assert names == ["a", "b"] and flag is None
            return x * ctx.slope

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.slope, None, None, None

    x = leaf(torch, [2.0])
    Affine.apply(x, {"slope": 4.0}, ["a", "b"], None).sum().backward()
    assert x.grad.tolist() == [4.0]


def test_tensors_inside_a_list_are_not_tracked(torch):
    class Total(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensors):
            return tensors[0] + tensors[1]

        @staticmethod
        def backward(ctx, grad):
            return (None,)

    y = Total.apply([leaf(torch, [1.0]), leaf(torch, [2.0])])
    assert not y.requires_grad


def test_an_output_that_is_not_a_tensor_passes_through(torch):
    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, "label"

        @staticmethod
        def backward(ctx, grad, nothing):
            return grad * 2

    x = leaf(torch, [1.0])
    y, label = Pair.apply(x)
    y.sum().backward()
    assert label == "label" and x.grad.tolist() == [2.0]


def test_an_input_saved_on_ctx_and_the_same_input_twice(torch):
    x = leaf(torch, [3.0])
    make_split_style(torch).apply(x, x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_jvp_in_forward_mode(torch):
    forward_ad = torch.autograd.forward_ad
    x, y = constant(torch, [2.0]), constant(torch, [5.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, constant(torch, [1.0]))
        out = make_split_style(torch).apply(dual, forward_ad.make_dual(y, constant(torch, [10.0])))
        assert forward_ad.unpack_dual(out).tangent.tolist() == [25.0]


def test_under_func_grad(torch):
    product = make_split_style(torch)
    grad = torch.func.grad(lambda x: product.apply(x, x * x).sum())(constant(torch, [2.0]))
    assert grad.tolist() == [12.0]


def test_under_func_jvp(torch):
    product = make_split_style(torch)
    x, y = constant(torch, [2.0]), constant(torch, [5.0])
    one = constant(torch, [1.0])
    _, tangent = torch.func.jvp(product.apply, (x, y), (one, one))
    assert tangent.tolist() == [7.0]


def test_a_generated_vmap_rule(torch):
    product = make_split_style(torch)
    x, y = constant(torch, [[1.0, 2.0], [3.0, 4.0]]), constant(torch, [10.0, 20.0])
    out = torch.func.vmap(product.apply, in_dims=(0, None))(x, y)
    assert out.tolist() == [[10.0, 40.0], [30.0, 80.0]]


def test_a_generated_vmap_rule_under_grad(torch):
    product = make_split_style(torch)
    x = constant(torch, [1.0, 2.0, 3.0])
    grads = torch.func.vmap(torch.func.grad(lambda v: product.apply(v, v)))(x)
    assert grads.tolist() == [2.0, 4.0, 6.0]


def make_with_vmap(torch, seen):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(x, number):
            return x * number

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.number = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.number, None

        @staticmethod
        def vmap(info, in_dims, x, number):
            seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
            return Double.apply(x, number), in_dims[0]

    return Double


def test_a_vmap_static_method_sees_the_batched_tensor(torch):
    seen = []
    double = make_with_vmap(torch, seen)
    x = constant(torch, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    out = torch.func.vmap(lambda v: double.apply(v, 2.0), in_dims=1)(x)
    ((size, randomness, in_dims, shape),) = seen
    assert (size, randomness, in_dims[1]) == (3, "error", None)
    assert (
        sorted(shape) == [2, 3] and shape[in_dims[0]] == 3
    )  # Where the batch is, is the library's choice.
    assert out.tolist() == [[2.0, 8.0], [4.0, 10.0], [6.0, 12.0]]


def test_backward_may_call_backward(torch):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                (inner,) = torch.autograd.grad((x**3).sum(), x)
            return inner * grad

    x = leaf(torch, [2.0])
    Inner.apply(x).sum().backward()
    assert near(x.grad, [12.0])


def test_a_checkpoint_recomputes_and_sends_gradients_to_what_it_closes_over(torch):
    weight = leaf(torch, [3.0])

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run = run
            ctx.save_for_backward(x)
            return run(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = ctx.run(x)
            torch.autograd.backward(y, grad)
            return None, x.grad

    x = leaf(torch, [2.0])
    Checkpoint.apply(lambda v: v * v * weight, x).sum().backward()
    assert x.grad.tolist() == [12.0] and weight.grad.tolist() == [4.0]


def test_ctx_dies_with_the_graph(torch):
    class Token:
        pass

    class Holds(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, token):
            ctx.token = token
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    token = Token()
    alive = weakref.ref(token)
    y = Holds.apply(leaf(torch, [1.0]), token)
    del token
    assert alive() is not None
    del y
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("shape", [None, (-1,)], ids=["the input itself", "a view of it"])
def test_what_shows_the_memory_of_an_input_is_not_written(torch, shape):
    """Only the function knows what a write would mean for its backward."""

    class Ten(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x if shape is None else x.view(shape)

        @staticmethod
        def backward(ctx, grad):
            return grad.reshape(2, 1) * 10

    x = leaf(torch, [[2.0], [3.0]])
    base = x * 1
    shown = Ten.apply(base)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        shown.mul_(2)
    shown.sum().backward()
    assert x.grad.tolist() == [[10.0], [10.0]]
    shown = Ten.apply(base)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="base or another view of its base has been modified"):
        shown.sum().backward()
        shown.mul_(2)


def test_backward_records_with_what_was_saved(torch):
    """A checkpoint written by hand runs the block again on the saved input to differentiate it."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                (inner,) = torch.autograd.grad((x**3).sum(), x)
            return grad * inner

    x = leaf(torch, [2.0])
    Cube.apply(x * 1).sum().backward()
    assert x.grad.tolist() == [12.0]


class Given:
    """A custom function with an optional argument, and what its backward was told."""

    def __init__(self, torch):
        self.needs = []
        needs = self.needs

        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, y=2.0, z=3.0):
                ctx.factors = y, z
                return x * y * z

            @staticmethod
            def backward(ctx, grad):
                needs.append(ctx.needs_input_grad)
                y, z = ctx.factors
                return (grad * y * z, grad * z, None)[: len(ctx.needs_input_grad)]

        self.function = Product


def test_arguments_by_name_have_gradients(torch):
    given = Given(torch)
    x, y = leaf(torch, [1.0, 2.0]), leaf(torch, [3.0, 4.0])
    given.function.apply(x=x).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    x.grad = None
    given.function.apply(y=y, x=x).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([9.0, 12.0], [3.0, 3.0])
    given.function.apply(x, y=y).sum().backward()
    assert y.grad.tolist() == [6.0, 6.0]
    assert given.needs == [(True,), (True, True), (True, True)]
    with pytest.raises(TypeError):
        given.function.apply(x, other=1)


@pytest.mark.parametrize("writes", [False, True])
def test_an_input_that_is_returned_as_a_constant_has_no_history(torch, writes):
    class Constant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if writes:
                ctx.mark_dirty(x.mul_(2))
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            raise AssertionError("nothing to differentiate")

    for x in [leaf(torch, [1.0]).clone()] + ([] if writes else [leaf(torch, [1.0])]):
        y = Constant.apply(x)
        assert (y.requires_grad, y.grad_fn, y.is_leaf) == (False, None, True)
        assert y.tolist() == ([2.0] if writes else [1.0])
        assert x.requires_grad or writes


def test_gradients_of_constants_need_not_be_made(torch):
    seen = []

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            outputs = x.clone(), x.clone()
            ctx.mark_non_differentiable(outputs[1])
            ctx._materialize_non_diff_grads = False
            return outputs

        @staticmethod
        def backward(ctx, grad, nothing):
            seen.append(nothing)
            return grad

    Pair.apply(leaf(torch, [1.0]))[0].sum().backward()
    assert seen == [None]


def test_what_is_marked_must_be_tensors(torch):
    class Marks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mark):
            getattr(ctx, mark)(3)
            return x.clone()

    x = leaf(torch, [1.0])
    words = {
        "mark_dirty": "mark_dirty can only accept variables",
        "save_for_backward": (
            "save_for_backward can only save variables, but argument 0 is of type int"
        ),
        "mark_non_differentiable": "mark_non_differentiable only accepts variable arguments",
    }
    for mark, text in words.items():
        with pytest.raises((TypeError, RuntimeError), match=text):
            Marks.apply(x, mark)


def test_functions_of_the_old_style(torch):
    class Old(torch.autograd.Function):
        def forward(self, x):
            return x

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = Old()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward"):
        old(torch.ones(1))
    assert torch.autograd.function.InplaceFunction.apply is not None
    with (
        pytest.warns(DeprecationWarning) if torch.__name__ == "torch" else contextlib.nullcontext()
    ):
        assert torch.autograd.function.InplaceFunction(True).inplace


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda torch, g: (g, g), r"function BadBackward returned an incorrect number of "
         r"gradients \(expected 1, got 2\)"),
        (lambda torch, g: torch.ones(3), r"Function BadBackward returned an invalid gradient at "
         r"index 0 - got \[3\] but expected shape compatible with \[2\]"),
    ],
)  # fmt: skip
def test_words_about_what_backward_returns(torch, result, words):
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return result(torch, grad)

    with pytest.raises(RuntimeError, match=words):
        Bad.apply(leaf(torch, [1.0, 2.0])).sum().backward()


def test_private_helpers_may_have_any_name(torch):
    class Twice(torch.autograd.Function):
        @staticmethod
        def _run_forward(x):
            return 2 * x

        @staticmethod
        def _backward(grad, factor):
            return factor * grad

        @staticmethod
        def forward(ctx, x):
            return Twice._run_forward(x)

        @staticmethod
        def backward(ctx, grad):
            return Twice._backward(grad, 2)

    x = leaf(torch, [1.0, 2.0])
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_variable_is_a_leaf_that_shows_a_tensor(torch):
    Variable = torch.autograd.Variable
    x = leaf(torch, [1.0, 2.0])
    shown, wanted = Variable(x * 1), Variable(x, requires_grad=True)
    assert shown.is_leaf and not shown.requires_grad
    assert wanted.is_leaf and wanted is not x and wanted.data_ptr() == x.data_ptr()
    (wanted * wanted).sum().backward()
    assert wanted.grad.tolist() == [2.0, 4.0] and x.grad is None
    assert isinstance(x, Variable) and not isinstance([1.0], Variable)
    assert Variable().shape == (0,)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])
    with pytest.raises(RuntimeError, match="floating point"):
        Variable(torch.tensor([1]), requires_grad=True)
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(x, volatile=True)
