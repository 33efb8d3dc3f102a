"""gradcheck and gradgradcheck: slow and fast, both modes, batched, and wrong gradients caught."""

import pytest

from .values import constant, leaf


def make_wrong(torch):
    """Return a square whose gradient is off by a factor, and whose tangent is too."""

    class Wrong(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] * grad

        @staticmethod
        def jvp(ctx, tangent):
            return 3 * ctx.saved_tensors[0] * tangent

    return Wrong.apply


def make_wrong_second(torch):
    """Return a square whose gradient is right and whose second derivative is missing."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0].detach() ** 2 * grad

    return Wrong.apply


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_right_gradient_passes(torch, fast_mode):
    x, y = leaf(torch, [[0.3, 0.7]]), leaf(torch, [[0.2], [0.9]])
    assert torch.autograd.gradcheck(lambda a, b: (a * b).sin(), (x, y), fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_wrong_gradient_raises(torch, fast_mode):
    with pytest.raises(RuntimeError):
        torch.autograd.gradcheck(make_wrong(torch), leaf(torch, [0.3, 0.7]), fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_raise_exception_false_returns_false(torch, fast_mode):
    found = torch.autograd.gradcheck(
        make_wrong(torch), leaf(torch, [0.3, 0.7]), fast_mode=fast_mode, raise_exception=False
    )
    assert found is False


def test_one_tensor_may_be_given_without_a_tuple(torch):
    assert torch.autograd.gradcheck(torch.sin, leaf(torch, [0.3]))


def test_inputs_that_need_no_gradient_are_allowed(torch):
    x, plain = leaf(torch, [0.3]), constant(torch, [2.0])
    assert torch.autograd.gradcheck(lambda a, b, n: a * b + n, (x, plain, 3))


def test_no_input_that_needs_a_gradient_raises(torch):
    with pytest.raises(ValueError):
        torch.autograd.gradcheck(torch.sin, constant(torch, [0.3]))


def test_single_precision_inputs_warn(torch):
    x = torch.tensor([0.3], requires_grad=True)
    with pytest.warns(UserWarning, match="double precision"):
        torch.autograd.gradcheck(lambda t: t * 2, x, atol=1e-1, rtol=1e-1, eps=1e-2)


def test_several_outputs(torch):
    assert torch.autograd.gradcheck(lambda t: (t.sin(), t.sum()), leaf(torch, [0.3, 0.7]))


def test_a_wrong_gradient_of_one_of_several_outputs_raises(torch):
    wrong = make_wrong(torch)
    with pytest.raises(RuntimeError):
        torch.autograd.gradcheck(lambda t: (t.sin(), wrong(t)), leaf(torch, [0.3, 0.7]))


def test_outputs_without_gradient_are_checked_to_be_constant(torch):
    assert torch.autograd.gradcheck(lambda t: (t * 2, t.detach() * 0), leaf(torch, [0.3]))


def test_a_tolerance_may_be_given(torch):
    x = leaf(torch, [0.5])
    assert torch.autograd.gradcheck(make_wrong(torch), x, atol=1.0, rtol=1.0)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_forward_mode(torch, fast_mode):
    x = leaf(torch, [0.3, 0.7])
    assert torch.autograd.gradcheck(
        lambda t: t.sin().cumsum(0), x, check_forward_ad=True, fast_mode=fast_mode
    )


def test_forward_mode_alone(torch):
    x = leaf(torch, [0.3, 0.7])
    assert torch.autograd.gradcheck(torch.exp, x, check_forward_ad=True, check_backward_ad=False)


def test_a_wrong_tangent_raises(torch):
    with pytest.raises(RuntimeError):
        torch.autograd.gradcheck(
            make_wrong(torch),
            leaf(torch, [0.3, 0.7]),
            check_forward_ad=True,
            check_backward_ad=False,
        )


def test_nothing_to_check_raises(torch):
    with pytest.raises((AssertionError, ValueError)):
        torch.autograd.gradcheck(
            torch.sin, leaf(torch, [0.3]), check_forward_ad=False, check_backward_ad=False
        )


def test_batched_gradients(torch):
    x = leaf(torch, [[0.3, 0.7], [0.1, 0.2]])
    assert torch.autograd.gradcheck(lambda t: t.softmax(1), x, check_batched_grad=True)


def test_batched_forward_gradients(torch):
    x = leaf(torch, [0.3, 0.7])
    assert torch.autograd.gradcheck(
        torch.sin, x, check_forward_ad=True, check_batched_forward_grad=True
    )


def test_gradients_of_views_and_in_place_ops(torch):
    def function(t):
        y = t * 2
        y[0].mul_(t[1])
        return y.t().reshape(-1)

    assert torch.autograd.gradcheck(function, leaf(torch, [[0.3, 0.7], [0.1, 0.2]]))


def test_an_empty_output(torch):
    assert torch.autograd.gradcheck(lambda t: t[:0] * 2, leaf(torch, [0.3]))


def test_a_backward_that_differs_from_run_to_run_raises(torch):
    runs = []

    class Unsteady(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            runs.append(1)
            return grad * (2 + 1e-7 * len(runs))

    with pytest.raises(RuntimeError):
        torch.autograd.gradcheck(Unsteady.apply, leaf(torch, [0.3]))


def test_nondet_tol_allows_small_differences(torch):
    runs = []

    class Unsteady(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            runs.append(1)
            return grad * (2 + 1e-9 * len(runs))

    assert torch.autograd.gradcheck(
        Unsteady.apply, leaf(torch, [0.3]), nondet_tol=1e-3, check_undefined_grad=False
    )


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradgradcheck(torch, fast_mode):
    x, y = leaf(torch, [0.3, 0.7]), leaf(torch, [0.2, 0.9])
    assert torch.autograd.gradgradcheck(lambda a, b: (a * b).sin(), (x, y), fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradgradcheck_catches_a_wrong_second_derivative(torch, fast_mode):
    x = leaf(torch, [0.3, 0.7])
    wrong = make_wrong_second(torch)
    assert torch.autograd.gradcheck(wrong, x)
    with pytest.raises(RuntimeError):
        torch.autograd.gradgradcheck(wrong, x, fast_mode=fast_mode)
    assert torch.autograd.gradgradcheck(wrong, x, raise_exception=False) is False


def test_gradgradcheck_with_given_grad_outputs(torch):
    x, weights = leaf(torch, [0.3, 0.7]), leaf(torch, [1.0, 2.0])
    assert torch.autograd.gradgradcheck(lambda t: t**3, x, weights)


def test_gradgradcheck_with_strided_grad_outputs(torch):
    x = leaf(torch, [[0.3, 0.7], [0.1, 0.4]])
    assert torch.autograd.gradgradcheck(lambda t: t**3, x, gen_non_contig_grad_outputs=True)


def test_gradgradcheck_forward_over_reverse(torch):
    x = leaf(torch, [0.3, 0.7])
    assert torch.autograd.gradgradcheck(
        lambda t: t.tanh(),
        x,
        check_fwd_over_rev=True,
        check_rev_over_rev=False,
        check_undefined_grad=False,
    )


def test_a_function_without_a_gradient_at_all_raises(torch):
    with pytest.raises((RuntimeError, ValueError)):
        torch.autograd.gradcheck(lambda t: t.detach() * 2, leaf(torch, [0.3]))
