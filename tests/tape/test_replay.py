"""Sweeping a tape again, stepping through it, and running a recorded block on new inputs."""

import copy
import gc
import re
import threading
import weakref

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape is tapegrad's own", allow_module_level=True)

from tapegrad import _C, tape

from .models import GPT, MODELS, ResNet18

functional = torch.nn.functional


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


class TestVjp:
    def test_sweeps_repeatedly(self):
        x = leaf(1.0, 2.0)
        t = tape.of(x * x)
        rows = [t.vjp(g)[x].tolist() for g in torch.eye(2)]
        assert rows == [[2.0, 0.0], [0.0, 4.0]]
        assert x.grad is None

    def test_by_name_and_by_tensor(self):
        model = torch.nn.Linear(3, 2)
        grads = tape.of(model(torch.ones(1, 3)).sum(), model=model).vjp()
        assert sorted(grads) == ["Linear.bias", "Linear.weight"]
        assert grads[model.weight] is grads["Linear.weight"]
        assert model.weight in grads and torch.ones(1) not in grads
        assert len(grads) == 2

    def test_an_unknown_key_is_named(self):
        x = leaf(1.0)
        grads = tape.of(x * 2).vjp()
        with pytest.raises(KeyError, match="no gradient reached 'nonsense'"):
            grads["nonsense"]

    def test_several_outputs(self):
        x = leaf(1.0, 2.0)
        y, z = x * 3, (x * x).sum()
        grads = tape.of([y, z]).vjp([torch.tensor([1.0, 10.0]), torch.tensor(1.0)])
        assert grads[x].tolist() == [5.0, 34.0]

    def test_until_an_entry(self):
        x = leaf(2.0)
        y = x * x
        t = tape.of(y.exp() * 3)
        (grad,) = t.vjp(until=t.filter(op="mul")[0])
        (expected,) = torch.autograd.grad(y.exp() * 3, y)
        assert torch.equal(grad, expected)
        assert torch.equal(t.vjp(until=t.filter(op="mul")[0].index)[0], expected)

    def test_until_an_entry_with_several_outputs(self):
        x = torch.randn(4, requires_grad=True)
        parts = (x * 1).split(2)
        t = tape.of(parts[1].sum())
        first, second = t.vjp(until=t.filter(op="split_with_sizes")[0])
        assert first is None and second.tolist() == [1.0, 1.0]

    def test_of_a_recorded_block(self):
        x = leaf(3.0)
        with tape.record() as t:
            y = x * x  # noqa: F841  the entry lives
        assert t.vjp()[x].tolist() == [6.0]

    def test_goes_on_behind_the_block(self):
        x = leaf(3.0)
        y = x * x
        with tape.record() as t:
            z = y * 2  # noqa: F841
        assert next(iter(t.vjp().values())).tolist() == [12.0]

    def test_a_gradient_of_the_wrong_shape(self):
        t = tape.of(leaf(1.0, 2.0) * 2)
        with pytest.raises(RuntimeError, match=r"vjp: expected a gradient of shape \(2,\)"):
            t.vjp(torch.ones(3))
        with pytest.raises(RuntimeError, match="only that of a scalar may be left out"):
            t.vjp()
        with pytest.raises(ValueError, match="each of 1 outputs, got 2"):
            t.vjp([torch.ones(2), torch.ones(2)])

    def test_an_empty_tape(self):
        with pytest.raises(RuntimeError, match="vjp: expected a tape with entries"):
            tape.Tape().vjp()

    def test_after_a_sweep_that_dropped_the_values(self):
        x = leaf(2.0)
        y = x * x
        t = tape.of(y)
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            t.vjp()

    def test_a_leaf_that_wants_no_gradient_any_more(self):
        x, y = leaf(2.0), leaf(3.0)
        t = tape.of(x * y)
        y.requires_grad_(False)
        grads = t.vjp()
        assert x in grads and y not in grads


class TestRewind:
    def test_order_and_adjoints(self):
        x = leaf(2.0)
        y = x * x
        t = tape.of(y.exp() + y)
        seen = []
        for step in t.rewind():
            seen.append((step.entry.op, step.grads[0].item()))
        exp = torch.exp(y).item()
        assert [op for op, _ in seen] == ["add", "exp", "mul", "accumulate_grad"]
        assert seen[2][1] == pytest.approx(exp + 1)
        assert seen[3][1] == pytest.approx(4 * (exp + 1))

    def test_what_waits(self):
        x = leaf(2.0)
        a, b = x.exp(), x.sin()
        t = tape.of(a * b)
        sweep = t.rewind()
        step = next(sweep)
        assert step.entry.op == "mul" and step.waiting == []
        assert step.grad_inputs[0].item() == pytest.approx(b.item())
        step = next(sweep)
        assert step.entry.op == "sin"
        assert [entry.op for entry in step.waiting] == ["exp"]
        assert step.adjoint(t.filter(op="exp")[0]).item() == pytest.approx(b.item())
        assert step.adjoint(step.entry) is step.grads[0]
        assert step.adjoint(t[0]) is None

    def test_gradients_can_be_changed(self):
        x = leaf(2.0)
        t = tape.of((x * 3).exp())
        for step in t.rewind():
            if step.entry.op == "mul":
                step.grads[0] = torch.tensor([10.0])
        sweep = t.rewind()
        for step in sweep:
            if step.entry.op == "exp":
                step.grad_inputs[0] = torch.tensor([10.0])
        assert sweep.gradients[x].tolist() == [30.0]

    @pytest.mark.parametrize("op", ["layer_norm", "conv", "max_pool", "select"])
    def test_a_gradient_that_does_not_fit_is_refused(self, op):
        """Kernels take it that gradients have the shape of the value: they would read beyond."""
        functional = torch.nn.functional
        x = torch.randn(1, 1, 4, 4, requires_grad=True)
        y = {
            "layer_norm": lambda: functional.layer_norm(x, (4,)),
            "conv": lambda: functional.conv2d(x, torch.ones(1, 1, 3, 3)),
            "max_pool": lambda: functional.max_pool2d(x, 2),
            "select": lambda: x[0],
        }[op]()
        shape = re.escape(str(tuple(y.shape)))
        for wrong in (torch.ones(999), torch.ones(0), torch.ones(9, 9, 9, 9)):
            step = next(tape.of(y).rewind(torch.ones_like(y)))
            step.grads[0] = wrong
            with pytest.raises(RuntimeError, match=f"expected a gradient of shape {shape} for out"):
                step.grad_inputs  # noqa: B018
        step = next(tape.of(y).rewind(torch.ones_like(y)))
        expected = step.grad_inputs[0]
        step = next(tape.of(y).rewind(torch.ones_like(y)))
        step.grads[0] = torch.ones_like(y).double()  # another dtype is made the right one
        assert torch.equal(step.grad_inputs[0], expected)
        step = next(tape.of(y).rewind(torch.ones_like(y)))
        step.grads.append(None)
        with pytest.raises(RuntimeError, match=r"for each of the 1 outputs of .*, got 2"):
            step.grad_inputs  # noqa: B018

    def test_a_sweep_that_failed_does_not_go_on(self):
        x = torch.randn(3, requires_grad=True)
        for wrong, words in (
            ([torch.ones(7)], r"shape \(3,\) for output 0"),
            ([], "inputs of .*, got 0"),
        ):
            sweep = tape.of((x.exp() + x.sin()).sum()).rewind()
            with pytest.raises(RuntimeError, match=words):
                for step in sweep:
                    if step.entry.op == "sin":
                        step.grad_inputs[:] = wrong
            with pytest.raises(RuntimeError, match=r"the sweep has failed at .*begin another one"):
                sweep.run()

    def test_a_waiting_adjoint_can_be_set(self):
        x = leaf(2.0)
        t = tape.of((x * 3).exp())
        sweep = t.rewind()
        step = next(sweep)
        step.set_adjoint(t.filter(op="mul")[0], torch.tensor([1.0]))
        step.grad_inputs[0] = None
        assert sweep.run()[x].tolist() == [3.0]
        with pytest.raises(ValueError, match="expected an entry that is still to run"):
            sweep.set_adjoint(t.filter(op="exp")[0], torch.tensor([1.0]))

    def test_run_until(self):
        x = leaf(2.0)
        t = tape.of((x * 3).exp())
        sweep = t.rewind()
        assert len(sweep.run(until=t.filter(op="mul")[0])) == 0
        assert x in sweep.run()

    def test_hooks_do_not_run(self):
        x = leaf(2.0)
        y = x * 3
        calls = []
        y.register_hook(calls.append)
        tape.of(y * 2).rewind().run()
        assert not calls

    def test_a_half_way_sweep_leaves_no_garbage(self):
        x = torch.randn(3, requires_grad=True)
        gc.collect()
        gc.disable()
        try:
            before = _C.live_counts()
            t = tape.of(x.exp().sin().sum())
            for step in t.rewind():
                if step.entry.op == "sin":
                    step.grad_inputs  # noqa: B018
                    break
            del t, step
            assert _C.live_counts() == before
        finally:
            gc.enable()

    def test_a_cycle_through_a_sweep_is_collected(self):
        class Holder(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, box):
                ctx.box = box
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad, None

        class Box:
            pass

        box = Box()
        x = torch.randn(3, requires_grad=True)
        box.sweep = tape.of(Holder.apply(x, box).sin().sum()).rewind()
        next(box.sweep)
        gone = weakref.ref(box)
        del box
        gc.collect()
        assert gone() is None

    @pytest.mark.parametrize("reentrant", [False, True])
    def test_a_checkpoint_runs_again_once(self, reentrant):
        calls = []

        def function(x):
            calls.append(1)
            return x.sin().exp()

        x = torch.randn(3, requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=reentrant)
        grads = tape.of(y.sum()).rewind().run()
        assert len(calls) == 2
        y.sum().backward()
        assert torch.equal(grads[x], x.grad)

    def test_through_a_vmap(self):
        x = torch.randn(3, 2, requires_grad=True)
        w = torch.randn(2, requires_grad=True)
        t = tape.of(torch.vmap(lambda row: (row * w).sin().sum())(x).sum())
        whole, stepped = t.vjp(), t.rewind().run()
        assert torch.equal(stepped[x], whole[x]) and torch.equal(stepped[w], whole[w])

    def test_the_engine_refuses_what_does_not_fit(self):
        x = leaf(2.0)
        y = x * 3
        sweep = _C._SteppedSweep([y], [torch.ones(1)])
        with pytest.raises(RuntimeError, match="no entry is about to run"):
            sweep.run([None])
        node, _ = sweep.next()
        with pytest.raises(RuntimeError, match="has 1 outputs, but 0 gradients"):
            sweep.run([])
        with pytest.raises(RuntimeError, match="expected 2 gradients, one for each input, got 0"):
            sweep.send([])
        with pytest.raises(IndexError, match="output 7 was asked for"):
            sweep.adjoint(node, 7)
        with pytest.raises(ValueError, match="expected an entry that is still to run"):
            sweep.set_adjoint(node, 0, None)
        with pytest.raises(TypeError, match="expected an entry of the tape, got str"):
            sweep.adjoint("mul", 0)
        with pytest.raises(RuntimeError, match=r"expected a gradient of shape \[1\], got \[2\]"):
            _C._SteppedSweep([y], [torch.ones(2)])
        with pytest.raises(RuntimeError, match="got 1 roots and 0 gradients"):
            _C._SteppedSweep([y], [])


@pytest.mark.parametrize("name", MODELS)
def test_sweeps_give_bitwise_what_backward_gives(name):
    loss = MODELS[name]()
    t = tape.of(loss)
    whole, twice = t.vjp(), t.vjp()
    stepped = t.rewind().run()
    leaves = {entry.tensor for entry in t if entry.is_leaf}
    assert all(each.grad is None for each in leaves)
    loss.backward()
    reached = [each for each in leaves if each.grad is not None]
    assert len(reached) == len(whole) == len(stepped) > 0
    for each in reached:
        assert torch.equal(whole[each], each.grad)
        assert torch.equal(twice[each], each.grad)
        assert torch.equal(stepped[each], each.grad)


class TestReplay:
    def test_new_inputs_and_their_gradients(self):
        x, w = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
        with tape.record(replay=True, inputs=x) as t:
            loss = torch.tanh(x @ w).square().sum()
        for _ in range(3):
            new = torch.randn(4, 3)
            fresh = torch.tanh(new @ w).square().sum()
            (expected,) = torch.autograd.grad(fresh, w)
            assert torch.equal(t.replay(new), fresh.detach())
            assert torch.equal(t.vjp()[w], expected)
            assert torch.equal(t.rewind().run()[w], expected)
            assert torch.equal(loss, fresh), "the recorded result has the new value"
            assert torch.equal(x, new), "and the recorded input the new input"

    def test_inputs_by_tensor(self):
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        with tape.record(replay=True) as t:
            z = (x * y).sum()
        assert t.replay({y: torch.tensor([5.0, 6.0])}, outputs=z).item() == 17.0
        assert t.vjp()[x].tolist() == [5.0, 6.0]
        assert t.replay({x: torch.tensor([0.0, 1.0])}).item() == 6.0
        assert t.vjp()[y].tolist() == [0.0, 1.0]

    def test_several_outputs(self):
        x = leaf(1.0, 2.0)
        with tape.record(replay=True, inputs=[x]) as t:
            y = x.exp()
            z = y.sum()
        first, second = t.replay(torch.zeros(2), outputs=[y, z])
        assert first.tolist() == [1.0, 1.0] and second.item() == 2.0
        first.zero_()
        assert y.tolist() == [1.0, 1.0], "outputs are copies"

    def test_an_input_that_is_not_contiguous(self):
        base = torch.arange(12.0).reshape(3, 4)
        x = base.t()[1:3]
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2  # noqa: F841
        new = torch.randn(2, 3)
        assert torch.equal(t.replay(new), new * 2)
        assert torch.equal(x, new) and base[0, 0] == 0 and base[2, 3] == 11

    def test_without_inputs_it_runs_on_what_is_there(self):
        x = leaf(1.0)
        with tape.record(replay=True) as t:
            y = x * 3  # noqa: F841
        with torch.no_grad():
            x.fill_(5.0)
        assert t.replay().tolist() == [15.0]

    def test_random_ops_give_the_same_numbers(self):
        x = torch.ones(1000)
        with tape.record(replay=True, inputs=x) as t:
            y = functional.dropout(x, 0.5)
        kept = y.clone()
        assert torch.equal(t.replay(x * 2), kept * 2)

    def test_what_was_changed_in_place_changes_again(self):
        model = torch.nn.BatchNorm1d(3)
        peer = copy.deepcopy(model)
        first, second = torch.randn(8, 3), torch.randn(8, 3)
        with tape.record(replay=True, inputs=first) as t:
            loss = model(first).square().sum()  # noqa: F841
        peer(first.clone())
        result = t.replay(second)
        expected = peer(second).square().sum()
        assert torch.equal(result, expected.detach())
        for mine, other in zip(model.buffers(), peer.buffers(), strict=True):
            assert torch.equal(mine, other)
        assert model.num_batches_tracked == 2

    @pytest.mark.parametrize("kind", ["resnet", "gpt"])
    def test_whole_models(self, kind):
        if kind == "resnet":
            model, targets = ResNet18(), torch.tensor([3, 5])
            first, second = torch.randn(2, 3, 32, 32), torch.randn(2, 3, 32, 32)
        else:
            model, targets = GPT(), torch.randint(17, (16,))
            first, second = torch.randint(17, (2, 8)), torch.randint(17, (2, 8))

        def loss_of(module, x):
            return functional.cross_entropy(module(x).reshape(targets.numel(), -1), targets)

        peer = copy.deepcopy(model)
        state = torch.get_rng_state()
        with tape.record(replay=True, inputs=first) as t:
            loss = loss_of(model, first)
        torch.set_rng_state(state)
        loss_of(peer, first.clone())
        result = t.replay(second, outputs=loss)
        torch.set_rng_state(state)
        expected = loss_of(peer, second)
        expected.backward()
        assert torch.equal(result, expected.detach())
        grads = t.vjp()
        for name, parameter in peer.named_parameters():
            assert torch.equal(grads[name], parameter.grad), name
        for mine, other in zip(model.buffers(), peer.buffers(), strict=True):
            assert torch.equal(mine, other)

    def test_a_block_with_its_backward_is_a_training_step(self):
        w = torch.ones(3, requires_grad=True)
        x = torch.ones(3)
        with tape.record(replay=True, inputs=x) as t:
            (w * x).sum().backward()
        assert w.grad.tolist() == [1.0] * 3
        t.replay(torch.full((3,), 4.0))
        assert w.grad.tolist() == [4.0] * 3

    @pytest.mark.parametrize("name", ["SGD", "Adam"])
    def test_training_goes_on_as_it_would(self, name):
        batches = [torch.randn(4, 3) for _ in range(6)]
        models = [torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)]
        models[1].load_state_dict(models[0].state_dict())

        def prepare(model):
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)

            def step(x):
                optimizer.zero_grad(set_to_none=False)
                model(x).square().sum().backward()
                optimizer.step()

            return step

        eager, recorded = map(prepare, models)
        for x in batches:
            eager(x)
        recorded(batches[0])
        x = batches[1].clone()
        with tape.record(replay=True, inputs=x) as t:
            recorded(x)
        for x in batches[2:]:
            t.replay(x)
        for mine, other in zip(models[1].parameters(), models[0].parameters(), strict=True):
            assert torch.equal(mine, other)


class TestGuards:
    def record(self, x):
        with tape.record(replay=True, inputs=x) as t:
            y = x * x
            z = y.exp().sum() if y.sum() > 2 else y.sin().sum()
        return t, y, z

    def test_a_read_that_gives_the_same(self):
        x = leaf(1.0, 2.0)
        t, _, z = self.record(x)
        assert torch.equal(t.replay(torch.tensor([2.0, 1.0])), z)

    def test_a_read_that_gives_something_else(self):
        x = leaf(1.0, 2.0)
        t, y, z = self.record(x)
        before = (x.tolist(), y.tolist(), z.item(), t.vjp()[x].tolist())
        with pytest.raises(RuntimeError, match="a guard does not hold") as error:
            t.replay(torch.tensor([0.5, 0.5]))
        text = str(error.value)
        assert "test_replay.py" in text and "in record" in text and "nothing was changed" in text
        assert (x.tolist(), y.tolist(), z.item(), t.vjp()[x].tolist()) == before
        assert t.replay(torch.tensor([2.0, 2.0])).item() == pytest.approx(2 * 54.598, rel=1e-3)

    def test_the_right_line_of_several_is_named(self):
        x = torch.tensor([1.0])
        lines = []

        def block():
            for bound in (0.0, 3.0):
                lines.append(bound)
                float(x * bound) if bound else bool(x > 0)

        with tape.record(replay=True, inputs=x) as t:
            block()
        first = block.__code__.co_firstlineno
        with pytest.raises(RuntimeError, match=f":{first + 3}, in block"):
            t.replay(torch.tensor([2.0]))
        with tape.record(replay=True, inputs=x) as t:
            x.tolist()
            x.sum().item()
        with pytest.raises(RuntimeError, match="looked at a tensor of shape \\[1\\]"):
            t.replay(torch.tensor([2.0]))

    def test_state_that_was_changed_before_the_read_is_restored(self):
        x, count = torch.tensor([1.0]), torch.zeros(1)
        with tape.record(replay=True, inputs=x) as t:
            count += 1
            bool(x > 0)
        with pytest.raises(RuntimeError, match="a guard does not hold"):
            t.replay(torch.tensor([-1.0]))
        assert count.item() == 1.0 and x.item() == 1.0
        t.replay(torch.tensor([3.0]))
        assert count.item() == 2.0

    def test_the_number_of_nonzeros(self):
        x = torch.tensor([1.0, 0.0, 2.0])
        with tape.record(replay=True, inputs=x) as t:
            y = x[x > 0] * 2
        assert t.replay(torch.tensor([3.0, 4.0, 0.0]), outputs=y).tolist() == [6.0, 8.0]
        with pytest.raises(RuntimeError, match="a guard does not hold"):
            t.replay(torch.ones(3))
        assert y.tolist() == [6.0, 8.0]

    @pytest.mark.parametrize(
        ("new", "what"),
        [
            (lambda: torch.ones(3), r"shape \(2,\), got \(3,\)"),
            (lambda: torch.ones(2).double(), "dtype torch.float32, got torch.float64"),
        ],
        ids=["shape", "dtype"],
    )
    def test_inputs_must_fit(self, new, what):
        x = leaf(1.0, 2.0)
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2  # noqa: F841
        with pytest.raises(RuntimeError, match=f"a guard does not hold: input 0 .* {what}"):
            t.replay(new())
        assert x.tolist() == [1.0, 2.0]

    def test_bad_calls(self):
        x, other = leaf(1.0), leaf(1.0)
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2
        with pytest.raises(ValueError, match="expected 1 inputs"):
            t.replay(other, other)
        with pytest.raises(ValueError, match="was not read by the block"):
            t.replay({other: x})
        with pytest.raises(ValueError, match="output 0 to be a tensor that the block computed"):
            t.replay(other, outputs=other)
        with pytest.raises(TypeError, match="expected tensors, got Tensor and float"):
            t.replay(1.0)
        with pytest.raises(RuntimeError, match=r"made by tape.record\(replay=True\)"):
            tape.of(y).replay(other)
        with pytest.raises(ValueError, match="only with replay=True"):
            tape.record(inputs=x)

    def test_a_tensor_that_is_transposed_in_place_after_its_use(self):
        x = torch.randn(2, 3)
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2
            y.t_()
            z = y.exp()
        new = torch.randn(2, 3)
        assert torch.equal(t.replay(new, outputs=z), (new * 2).t().exp())
        with tape.record(replay=True, inputs=x) as t:
            x.view(6).t_().mul(2)
        assert torch.equal(t.replay(torch.ones(2, 3)), torch.full((6,), 2.0))

    def test_reads_are_watched_in_the_block_only(self):
        before = {name: vars(torch.Tensor).get(name) for name in ("item", "__bool__", "tolist")}
        with tape.record(replay=True):
            assert vars(torch.Tensor)["item"] is not before["item"]
        assert {name: vars(torch.Tensor).get(name) for name in before} == before

    def test_inputs_that_change_places(self):
        a, b = torch.ones(2), torch.full((2,), 5.0)
        with tape.record(replay=True) as t:
            y = a * 10 + b
        assert t.replay({a: b, b: a}, outputs=y).tolist() == [51, 51]
        assert (a.tolist(), b.tolist()) == ([5, 5], [1, 1])
        whole = torch.arange(4.0)
        with tape.record(replay=True) as t:
            y = whole * 1
        assert t.replay({whole: whole.flip(0)}).tolist() == [3, 2, 1, 0]

    def test_an_interrupt_puts_everything_back(self, monkeypatch):
        x = torch.ones(3)
        with tape.record(replay=True, inputs=x) as t:
            y = x * 2
            z = y + 1 if y.sum().item() > 0 else y

        class Interrupted:
            has_guards = True

            def replay(self):
                raise KeyboardInterrupt

        monkeypatch.setattr(t._replay, "_program", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            t.replay(torch.full((3,), 7.0))
        assert [each.tolist() for each in (x, y, z)] == [[1] * 3, [2] * 3, [3] * 3]

    def test_blocks_of_two_threads_end_in_any_order(self):
        item = vars(torch.Tensor)["item"]
        first_began, second_began, first_ended = (threading.Event() for _ in range(3))
        x, found = torch.ones(3), []

        def first():
            with tape.record(replay=True):
                first_began.set()
                second_began.wait()
            first_ended.set()

        def second():
            first_began.wait()
            with tape.record(replay=True, inputs=x) as t:
                second_began.set()
                first_ended.wait()
                y = x * 2 if x.sum().item() > 2 else x  # still watched  # noqa: F841
            found.append(t)

        threads = [threading.Thread(target=each) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert vars(torch.Tensor)["item"] is item
        with pytest.raises(RuntimeError, match=r"at .*test_replay.py:\d+, in second, the program"):
            found[0].replay(torch.zeros(3))

    def test_one_block_inside_another_is_refused(self):
        item = vars(torch.Tensor)["item"]
        x = torch.ones(3)
        with tape.record(replay=True, inputs=x) as t:
            x.exp()
            with pytest.raises(RuntimeError, match="another capture is active"):
                tape.record(replay=True).__enter__()
            x.sin()
        assert torch.equal(t.replay(torch.zeros(3)), torch.zeros(3))
        assert vars(torch.Tensor)["item"] is item

    def test_release_lets_go(self):
        x = torch.ones(3)
        gc.collect()
        counts = _C.live_counts()
        with tape.record(replay=True, inputs=x) as t:
            x.exp().sin()
        assert _C.live_counts() != counts
        t.release()
        gc.collect()
        assert _C.live_counts() == counts
