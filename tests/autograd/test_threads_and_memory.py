"""Backward from several threads, and what is freed, when, and by whom."""

import gc
import threading
import weakref

import pytest

from .values import constant, leaf, near


class Token:
    """An object whose end of life can be watched."""


def run_in_threads(work, count=4):
    """Run ``work(number)`` in several threads at once and pass on the first exception."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_on_separate_graphs_and_leaves(torch):
    leaves = [leaf(torch, [float(number)]) for number in range(4)]

    def work(number):
        for _ in range(50):
            leaves[number].grad = None
            (leaves[number] ** 2).sum().backward()

    run_in_threads(work)
    assert [x.grad.item() for x in leaves] == [0.0, 2.0, 4.0, 6.0]


def test_threads_accumulate_into_a_shared_leaf(torch):
    weight = torch.ones(32, 32, dtype=torch.float64, requires_grad=True)
    data = torch.ones(8, 32, dtype=torch.float64)
    (data @ weight).sum().backward()  # So that every thread adds to a gradient that exists.

    def work(number):
        for _ in range(25):
            (data @ weight).sum().backward()

    run_in_threads(work)
    assert torch.equal(weight.grad, torch.full_like(weight.grad, 101 * 8.0))


def test_threads_with_autograd_grad_on_a_shared_leaf(torch):
    x, found = leaf(torch, [3.0]), [None] * 4

    def work(number):
        for _ in range(50):
            (found[number],) = torch.autograd.grad((x ** (number + 1)).sum(), x)

    run_in_threads(work)
    assert [near(found[k], [(k + 1) * 3.0**k]) for k in range(4)] == [True] * 4


def test_threads_on_one_retained_graph(torch):
    x, found = leaf(torch, [3.0]), [None] * 4
    y = (x.exp() * x).sum()

    def work(number):
        for _ in range(25):
            (found[number],) = torch.autograd.grad(y, x, retain_graph=True)

    run_in_threads(work)
    assert all(near(grad, x.exp() * (x + 1)) for grad in found)


def test_a_graph_made_in_one_thread_is_swept_in_another(torch):
    x, graphs = leaf(torch, [3.0]), []
    run_in_threads(lambda number: graphs.append((x * x).sum()), count=1)
    graphs[0].backward()
    assert x.grad.tolist() == [6.0]


def test_hooks_run_in_the_thread_that_calls_backward(torch):
    x, seen = leaf(torch, [3.0]), []
    x.register_hook(lambda grad: seen.append(threading.get_ident()))
    expected = []

    def work(number):
        expected.append(threading.get_ident())
        (x * 2).sum().backward()

    run_in_threads(work, count=1)
    assert seen == expected


def test_an_exception_in_one_thread_does_not_disturb_another(torch):
    def work(number):
        x = leaf(torch, [2.0])
        for _ in range(25):
            y = x * 3
            if number % 2:
                y.register_hook(lambda grad: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    y.sum().backward()
            else:
                x.grad = None
                y.sum().backward()
                assert x.grad.tolist() == [3.0]

    run_in_threads(work)


def test_custom_functions_in_threads(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    def work(number):
        x = leaf(torch, [float(number)])
        for _ in range(25):
            x.grad = None
            Square.apply(x).sum().backward()
        assert x.grad.item() == 2.0 * number

    run_in_threads(work)


def test_double_backward_in_threads(torch):
    def work(number):
        x = leaf(torch, [1.0 + number])
        for _ in range(25):
            (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x)
        assert near(second, [6.0 * (1 + number)])

    run_in_threads(work)


def test_saved_tensor_hooks_are_thread_local(torch):
    packed, x = [], leaf(torch, [2.0])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(1) or t, lambda t: t):
        run_in_threads(lambda number: x.exp(), count=1)
    assert packed == []


def test_a_tensor_dies_with_its_last_name(torch):
    x = torch.ones(2)
    alive = weakref.ref(x)
    del x
    assert alive() is None


def test_the_graph_keeps_leaves_alive_and_lets_them_go(torch):
    x = leaf(torch, [2.0])
    alive = weakref.ref(x)
    y = x * x
    del x
    assert alive() is not None
    del y
    gc.collect()
    assert alive() is None


def test_backward_frees_saved_tensors(torch):
    x = leaf(torch, [2.0])
    factor = constant(torch, [3.0])
    alive = weakref.ref(factor)
    y = x * factor
    del factor
    assert alive() is not None or y.grad_fn._saved_other.tolist() == [3.0]
    y.sum().backward()
    gc.collect()
    assert alive() is None


def test_an_inner_tensor_that_is_not_saved_is_freed_at_once(torch):
    x = leaf(torch, [2.0])
    y = x + 1
    alive = weakref.ref(y)
    z = y * 2
    del y
    assert alive() is None and z.requires_grad


def test_a_cycle_through_a_tensor_attribute_is_collected(torch):
    x = leaf(torch, [2.0])
    token = Token()
    x.token, token.tensor = token, x
    alive = weakref.ref(token)
    del x, token
    gc.collect()
    assert alive() is None


def test_a_cycle_through_a_tensor_hook_is_collected(torch):
    x = leaf(torch, [2.0])
    token = Token()
    x.register_hook(lambda grad, x=x, token=token: None)
    alive = weakref.ref(token)
    del x, token
    gc.collect()
    assert alive() is None


def test_a_cycle_through_ctx_is_collected(torch):
    class Holds(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, token):
            ctx.token = token
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    token = Token()
    y = Holds.apply(leaf(torch, [2.0]), token)
    y.grad_fn.result = y  # The node now holds its own output.
    alive = weakref.ref(token)
    del y, token
    gc.collect()
    assert alive() is None


def test_an_output_saved_for_backward_makes_no_cycle(torch):
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, token):
            y = x.exp()
            ctx.save_for_backward(y)
            ctx.token = token
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0], None

    gc.collect()
    gc.disable()
    try:
        token = Token()
        y = Exponential.apply(leaf(torch, [2.0]), token)
        alive = weakref.ref(token)
        del y, token
        assert alive() is None
    finally:
        gc.enable()


def test_a_saved_result_makes_no_cycle(torch):
    gc.collect()
    gc.disable()
    try:
        x = leaf(torch, [2.0])
        y = x.exp()
        y.grad_fn.metadata["token"] = token = Token()
        alive = weakref.ref(token)
        del x, y, token
        assert alive() is None
    finally:
        gc.enable()


def test_an_exception_in_backward_leaves_nothing_behind(torch):
    def attempt():
        token = Token()
        y = leaf(torch, [2.0]) * 3

        def fail(grad, token=token):
            raise ValueError

        y.register_hook(fail)
        with pytest.raises(ValueError):
            y.sum().backward()
        return weakref.ref(token)

    alive = attempt()
    gc.collect()
    assert alive() is None


def test_create_graph_in_a_loop_leaves_nothing_behind(torch):
    x = leaf(torch, [2.0])
    tokens = []
    for _ in range(20):
        y = (x**3).sum()
        token = Token()
        y.grad_fn.metadata["token"] = token
        tokens.append(weakref.ref(token))
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        torch.autograd.grad(first.sum(), x)
        del y, first, token
    gc.collect()
    assert [alive() for alive in tokens] == [None] * 20


def test_the_hooks_of_a_handle_die_when_it_is_removed(torch):
    token = Token()
    x = leaf(torch, [2.0])
    handle = x.register_hook(lambda grad, token=token: None)
    alive = weakref.ref(token)
    del token
    handle.remove()
    gc.collect()
    assert alive() is None


def test_a_deep_graph_is_freed_without_recursion(torch):
    x = leaf(torch, [1.0])
    y = x
    for _ in range(50_000):
        y = y + 1
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


def test_a_node_may_outlive_its_tensor(torch):
    x = leaf(torch, [2.0])
    node = (x * x).grad_fn
    gc.collect()
    assert node.name() == "MulBackward0" and node._saved_self.tolist() == [2.0]


def test_collecting_young_objects_does_not_walk_a_long_chain_of_custom_functions(torch):
    if torch.__name__ == "torch":
        pytest.skip("counts what tapegrad shows the collector")

    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    def grow(y, links):
        for _ in range(links):
            y = Add.apply(y, y)
        return y

    y = grow(leaf(torch, [0.0]), 2000)
    gc.collect()
    before = torch._C._walked_entries()
    for _ in range(20):
        y = grow(y, 1)
        gc.collect(0)
    assert torch._C._walked_entries() - before < 200
    y.sum().backward()
