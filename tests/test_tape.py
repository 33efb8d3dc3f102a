"""Mechanics of the tape and the sweep: entries, sums, saved values, depth, threads, leaks."""

import gc
import subprocess
import sys
import threading

import pytest
from library import IS_TORCH, torch


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


class TestEntries:
    def test_names_and_edges(self):
        x = leaf(1.0, 2.0)
        y = x * x + torch.sin(x)
        assert y.grad_fn.name() == "AddBackward0"
        (mul, number), (sin, _) = y.grad_fn.next_functions
        assert (mul.name(), number, sin.name()) == ("MulBackward0", 0, "SinBackward0")
        accumulate = sin.next_functions[0][0]
        assert accumulate.name() in ("AccumulateGrad", "torch::autograd::AccumulateGrad")
        assert accumulate.variable is x

    def test_the_same_entry_is_the_same_object(self):
        y = leaf(1.0) * 2
        assert y.grad_fn is y.grad_fn

    def test_an_operand_that_needs_no_gradient_has_no_edge(self):
        y = leaf(1.0) * torch.ones(1)
        assert y.grad_fn.next_functions[1] == (None, 0)

    @pytest.mark.skipif(IS_TORCH, reason="PyTorch keeps no source line")
    def test_source_line(self):
        y = leaf(1.0) * 2
        assert "test_tape.py" in y.grad_fn.source_line
        assert "test_source_line" in y.grad_fn.source_line

    def test_leaves(self):
        x = leaf(1.0)
        assert x.is_leaf and x.grad_fn is None
        assert not (x * 2).is_leaf
        assert (x * 2).detach().is_leaf
        assert torch.ones(2).is_leaf


class TestBackward:
    def test_accumulates(self):
        x = leaf(3.0)
        (x * x).backward()
        (x * x).backward()
        assert x.grad.tolist() == [12.0]

    def test_grad_is_one_object(self):
        x = leaf(3.0)
        (x * x).backward()
        grad = x.grad
        (x * x).backward()
        assert x.grad is grad and grad.tolist() == [12.0]

    def test_the_given_gradient_is_not_kept_or_changed(self):
        x = leaf(1.0, 2.0)
        given = torch.tensor([1.0, 1.0])
        (x + 0).backward(given)
        (x + 0).backward(given)
        assert given.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 2.0]

    def test_one_gradient_for_two_leaves_is_not_shared(self):
        x, y = leaf(1.0), leaf(2.0)
        (x + y).backward()
        x.grad.mul_(10)
        assert y.grad.tolist() == [1.0]

    def test_diamond(self):
        x = leaf(2.0)
        y = x * 3
        (y * y + y).backward()
        assert x.grad.tolist() == [39.0]

    def test_broadcast_dimensions_are_summed(self):
        x, y = torch.ones(3, 1, requires_grad=True), torch.ones(4, requires_grad=True)
        (x * y).sum().backward()
        assert x.grad.tolist() == [[4.0]] * 3 and y.grad.tolist() == [3.0] * 4

    def test_gradient_takes_the_dtype_of_its_leaf(self):
        x = torch.ones(2, requires_grad=True)
        (x * torch.ones(2, dtype=torch.float64)).sum().backward()
        assert x.grad.dtype is torch.float32

    def test_inputs(self):
        x, y = leaf(2.0), leaf(3.0)
        (x * y).backward(inputs=[x])
        assert x.grad.tolist() == [3.0] and y.grad is None

    def test_grad_of_an_inner_tensor(self):
        x = leaf(2.0)
        y = x * x
        (g,) = torch.autograd.grad(y * y, y)
        assert g.tolist() == [8.0] and x.grad is None

    def test_retain_grad(self):
        x = leaf(2.0)
        y = x * x
        y.retain_grad()
        (y * 3).backward()
        assert y.grad.tolist() == [3.0] and y.retains_grad

    def test_retain_grad_follows_an_in_place_write(self):
        x = leaf(2.0)
        y = x * x
        y.retain_grad()
        y.mul_(5)
        (y * 3).backward()
        assert y.grad.tolist() == [3.0] and x.grad.tolist() == [60.0]

    def test_an_inner_tensor_may_die_after_retain_grad(self):
        x = leaf(2.0)
        y = x * x
        y.retain_grad()
        z = y * 3
        del y
        z.backward()
        assert x.grad.tolist() == [12.0]

    @pytest.mark.parametrize("order", [2, 3, 4])
    def test_higher_order(self, order):
        x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        y = torch.exp(2 * x)
        for _ in range(order):
            (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(2**order * torch.exp(2 * x).item(), rel=1e-12)


class TestErrors:
    def test_not_scalar(self):
        with pytest.raises(RuntimeError, match="only for scalar outputs"):
            (leaf(1.0, 2.0) * 2).backward()

    def test_nothing_to_do(self):
        with pytest.raises(RuntimeError, match="does not require grad"):
            torch.ones(1).backward()

    def test_integers_cannot_require_grad(self):
        with pytest.raises(RuntimeError, match="floating point"):
            torch.ones(2, dtype=torch.int64).requires_grad_()

    def test_second_backward(self):
        x = leaf(2.0)
        y = x * x
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()

    def test_retained_graph_sweeps_twice(self):
        x = leaf(2.0)
        y = x * x
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.tolist() == [8.0]

    def test_overwritten_saved_value(self):
        x, factor = leaf(2.0), torch.tensor([3.0])
        y = x * factor
        factor.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
            y.backward()
        if not IS_TORCH:
            assert "MulBackward0" in str(error.value) and "test_tape.py" in str(error.value)

    def test_overwritten_output(self):
        x = leaf(2.0)
        y = torch.exp(x)
        z = y * 2
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()

    def test_in_place_on_a_leaf(self):
        x = leaf(2.0)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            x.add_(1)
        with torch.no_grad():
            x.add_(1)
        assert x.tolist() == [3.0]


class TestInPlace:
    def test_records(self):
        x = leaf(2.0)
        y = x * 1
        y.mul_(x)
        y.backward()
        assert x.grad.tolist() == [4.0]

    def test_on_itself(self):
        x = leaf(3.0)
        y = x * 1
        if IS_TORCH:
            return  # PyTorch refuses the gradient; here the operand is kept
        y.mul_(y)
        y.backward()
        assert x.grad.tolist() == [6.0]

    def test_through_a_view(self):
        x = leaf(1.0, 2.0, 3.0)
        y = x * 1
        y[0].mul_(5)
        y[1:] = 7.0
        y.sum().backward()
        assert x.grad.tolist() == [5.0, 0.0, 0.0]

    def test_a_view_sees_a_write_to_its_base(self):
        x = leaf(1.0, 2.0)
        base = x * 1
        view = base[0]
        base.mul_(3)
        view.backward()
        assert x.grad.tolist() == [3.0, 0.0]

    def test_a_view_gets_a_gradient_from_a_write_that_brings_one(self):
        x = leaf(2.0)
        base = torch.zeros(2)
        view = base[1:]
        base.add_(x)
        assert view.requires_grad
        (view * view).sum().backward()
        assert x.grad.tolist() == [4.0]


CHAIN = """
import sys
import tapegrad as torch
length = int(sys.argv[1])
x = torch.ones(4, requires_grad=True)
y = x
for _ in range(length):
    y = y * 1.0
y.sum().backward()
assert x.grad.tolist() == [1.0] * 4
y = x
for _ in range(length):
    y = y * 1.0
del y
"""


@pytest.mark.skipif(IS_TORCH, reason="the chain runs tapegrad")
@pytest.mark.parametrize("stack_kilobytes", [512, 8192])
def test_a_chain_of_a_million_entries_neither_recurses_nor_overflows(stack_kilobytes, tmp_path):
    command = f"ulimit -s {stack_kilobytes}; exec {sys.executable} - 1000000"
    done = subprocess.run(
        ["bash", "-c", command], input=CHAIN, text=True, capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_two_threads_on_shared_weights():
    weight = torch.ones(64, 64, requires_grad=True)
    data = torch.full((256, 64), 0.5)
    rounds, failures = 20, []

    def work():
        try:
            for _ in range(rounds):
                (data @ weight).sum().backward()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert torch.equal(weight.grad, torch.full((64, 64), 2 * rounds * 128.0))


@pytest.mark.skipif(IS_TORCH, reason="the counters are tapegrad's own")
class TestLeaks:
    def measure(self, work):
        from tapegrad import _C

        work()
        gc.collect()
        before = _C.live_counts()
        for _ in range(50):
            work()
        gc.collect()
        return before, _C.live_counts()

    def test_training_steps(self):
        weight = torch.randn(3, 3, requires_grad=True)

        def step():
            weight.grad = None
            torch.tanh(torch.ones(2, 3) @ weight).sum().backward()

        before, after = self.measure(step)
        assert before == after

    def test_graphs_that_are_never_swept(self):
        x = torch.randn(3, requires_grad=True)
        before, after = self.measure(lambda: (x * x).exp().view(3, 1)[0].sum())
        assert before == after

    def test_failing_ops(self):
        x = torch.randn(3, requires_grad=True)

        def fail():
            with pytest.raises(RuntimeError):
                (x * 2) + torch.ones(4)

        before, after = self.measure(fail)
        assert before == after

    def test_attributes_and_subclasses(self):
        class Named(torch.Tensor):
            pass

        def make():
            x = torch.ones(2)
            x.note = "kept"
            y = torch.Tensor._make_subclass(Named, x)
            y.other = x
            assert isinstance(y, Named) and y.other.note == "kept"

        before, after = self.measure(make)
        assert before == after
