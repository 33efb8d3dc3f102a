"""What counts as the tape's memory, and what recorded blocks report of it."""

import functools
import gc
import threading
import warnings

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("policies of the tape are tapegrad's own", allow_module_level=True)

from tapegrad import _C, nn, tape
from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

WIDTH = 128
VALUE = WIDTH * WIDTH * 4  # bytes of one activation


def saved_bytes():
    return _C.memory_stats()["saved_bytes"]


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    before = saved_bytes()
    yield
    gc.collect()
    assert saved_bytes() == before


def tanh_layers(count):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)))


class Measured(torch.autograd.Function):
    """Notes the saved bytes when the sweep passes."""

    found = 0

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        Measured.found = saved_bytes()
        return grad


class TestCheckpoints:
    def test_what_a_checkpoint_computes_again_is_counted(self):
        model = tanh_layers(8)
        x = torch.randn(WIDTH, WIDTH)

        def function(x):
            return model[4:](Measured.apply(model[:4](x)))

        result = checkpoint(function, x, use_reentrant=False)
        held = saved_bytes()
        result.sum().backward()
        # The sweep is in the middle: the values of the first four layers are there, each once.
        assert Measured.found - held >= 4 * VALUE

    def test_a_budget_holds_inside_a_checkpoint(self):
        model = tanh_layers(24)
        x = torch.randn(WIDTH, WIDTH)
        checkpoint(model, x, use_reentrant=False).square().mean().backward()
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        limit = 8 * VALUE
        with tape.budget(limit, strict=True) as b:
            checkpoint(model, x, use_reentrant=False).square().mean().backward()
        assert b.peak <= limit
        assert b.evictions > 0
        for parameter, grad in zip(model.parameters(), expected, strict=True):
            assert torch.equal(parameter.grad, grad)

    def test_kept_results_of_a_selective_checkpoint_are_counted(self):
        keep = functools.partial(create_selective_checkpoint_contexts, [torch.mm])
        weight = torch.randn(WIDTH, WIDTH, requires_grad=True)
        before = saved_bytes()
        result = checkpoint(
            lambda x: (x @ weight).sin(),
            torch.ones(WIDTH, WIDTH),
            use_reentrant=False,
            context_fn=keep,
        )
        assert saved_bytes() - before >= VALUE
        result.sum().backward()

    def test_a_value_that_a_checkpoint_overwrites_again_is_an_error(self):
        """As it is without a checkpoint."""

        def function(x):
            y = x * 2
            z = y.exp()
            z.mul_(2)
            return z.sin()

        x = torch.ones(4, requires_grad=True)
        result = checkpoint(function, x, use_reentrant=False)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


class TestRecordedBlocks:
    def record(self, work):
        model = tanh_layers(2)
        batches = [torch.randn(WIDTH, WIDTH) for _ in range(2)]
        with tape.record(model) as t:
            kept = work(model, batches)
        del kept
        return t

    def test_gradient_accumulation_is_not_counted_twice(self):
        """The forward after a backward: its values were never there beside the first ones."""

        def work(model, batches):
            first = model(batches[0]).square().mean()
            first.backward()
            return first, model(batches[1]).square().mean()

        t = self.record(work)
        assert t.total_bytes == t.memory["saved_bytes"] - self.other_bytes
        assert len(t.dead()) == 0

    def test_steps_of_equal_size_show_the_last(self):
        def work(model, batches):
            for batch in batches:
                model(batch).square().mean().backward()

        t = self.record(work)
        assert t.total_bytes == t.memory["saved_bytes"] - self.other_bytes > 0
        assert len(t.dead()) == 0

    def test_two_losses_are_both_alive(self):
        """The first backward began when both graphs were there; neither is dead."""

        def work(model, batches):
            losses = [model(batch).square().mean() for batch in batches]
            for loss in losses:
                loss.backward()
            return losses

        t = self.record(work)
        assert t.total_bytes == t.memory["saved_bytes"] - self.other_bytes
        assert t.total_bytes >= 2 * 3 * VALUE
        assert len(t.dead()) == 0

    def test_values_of_a_later_smaller_step_are_not_charged(self):
        def work(model, batches):
            model(batches[0]).square().mean().backward()
            return model(batches[1][:8]).square().mean()

        t = self.record(work)
        assert t.total_bytes == t.memory["saved_bytes"] - self.other_bytes
        later = [value for entry in t for value in entry.saved if value.state == "later"]
        assert later
        assert all(value.bytes == 0 for value in later)
        numbers = {value.storage for entry in t for value in entry.saved if value.state == "held"}
        assert numbers.isdisjoint(value.storage for value in later)

    @pytest.fixture(autouse=True)
    def count_others(self):
        gc.collect()
        self.other_bytes = saved_bytes()

    def test_a_backward_that_was_bound_before_the_block(self):
        model = tanh_layers(2)
        loss = model(torch.randn(WIDTH, WIDTH)).square().mean()
        run, unbound = loss.backward, torch.Tensor.backward
        for call in (run, lambda: unbound(model(torch.randn(WIDTH, WIDTH)).square().mean())):
            with tape.record(model) as t:
                inner = model(torch.randn(WIDTH, WIDTH)).square().mean()
                call()
            assert t.total_bytes >= 3 * VALUE
            assert t.memory["saved_bytes"] >= 2 * 3 * VALUE, "the backward was not seen"
            del inner

    def test_an_unbound_backward_function(self):
        """`autograd.backward` and `grad` that were imported before the block are seen, too."""
        from tapegrad.tape.sweeps import SweepEvents

        seen = []
        x = torch.ones(3, requires_grad=True)
        backward, grad, native = torch.autograd.backward, torch.autograd.grad, _C.run_backward
        with SweepEvents(lambda roots, retain: seen.append((len(roots), retain))):
            backward([(x * x).sum(), x.sum()])
            grad((x * x).sum(), x)
            native([(x * 2).sum()], [None], False, False, None, True)
        (x * x).sum().backward()
        assert seen == [(2, False), (1, False), (1, False)]


class TestThreads:
    def test_worker_threads_are_under_the_budget(self):
        limit = 6 * VALUE
        peaks = []

        def work():
            torch.manual_seed(0)
            y = torch.randn(WIDTH, WIDTH, requires_grad=True)
            for _ in range(16):
                y = (y * 1.01).tanh()
            peaks.append(saved_bytes())
            y.sum().backward()

        with tape.budget(limit) as b:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert b.evictions > 0
        assert peaks[0] <= limit
        assert b.peak <= limit

    def test_a_thread_that_outlives_the_budget_goes_on_without(self):
        began, ended = threading.Event(), threading.Event()
        found = []

        def work():
            y = torch.randn(WIDTH, WIDTH, requires_grad=True)
            for _ in range(4):
                y = y.tanh()
            began.set()
            ended.wait(60)
            for _ in range(16):
                y = y.tanh()
            found.append(saved_bytes())
            y.sum().backward()

        with tape.budget(3 * VALUE), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thread = threading.Thread(target=work)
            thread.start()
            assert began.wait(60)
        ended.set()
        thread.join()
        assert found[0] >= 16 * VALUE


class Adjoint(torch.autograd.Function):
    """Computes its gradient by recording again, as adjoint methods do."""

    seen = ()

    @staticmethod
    def forward(ctx, function, x, *parameters):
        ctx.function = function
        ctx.save_for_backward(x, *parameters)
        with torch.no_grad():
            return function(x)

    @staticmethod
    def backward(ctx, grad):
        x, *parameters = ctx.saved_tensors
        Adjoint.seen = parameters
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            result = ctx.function(x)
        return (None, *torch.autograd.grad(result, (x, *parameters), grad))


def wrappers(folder):
    identity = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    return [
        tape.offload(folder, min_bytes=1),
        tape.offload("cpu"),
        torch.autograd.graph.save_on_cpu(),
        identity,
    ]


@pytest.mark.parametrize("number", range(4))
def test_saved_parameters_are_themselves_under_hooks(number, tmp_path):
    layer = nn.Linear(WIDTH, WIDTH)
    x = torch.randn(WIDTH, WIDTH, requires_grad=True)
    Adjoint.apply(layer, x, *layer.parameters()).square().mean().backward()
    expected = [x.grad, *(parameter.grad for parameter in layer.parameters())]
    x.grad = layer.weight.grad = layer.bias.grad = None
    with wrappers(tmp_path)[number]:
        result = Adjoint.apply(layer, x, *layer.parameters()).square().mean()
    result.backward()
    assert all(a is b for a, b in zip(Adjoint.seen, layer.parameters(), strict=True))
    found = [x.grad, *(parameter.grad for parameter in layer.parameters())]
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)
    Adjoint.seen = ()


def test_a_packed_copy_of_a_leaf_requires_grad():
    """A hook that returns other memory: the leaf's gradient still finds its way."""
    weight = torch.randn(3, requires_grad=True)
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.saved_tensors[0])
            return grad

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        result = Look.apply(weight)
    result.sum().backward()
    assert seen[0].requires_grad
    assert seen[0] is not weight
