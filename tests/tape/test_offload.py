"""Saved values in a file: the same gradients, in less memory."""

import contextlib
import gc
import os
import random
import threading
import warnings

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the tape as an object is tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.autograd.graph import saved_tensors_hooks
from tapegrad.utils.checkpoint import checkpoint

from .offload_cases import (
    ROWS,
    VALUE,
    WIDTH,
    assert_same,
    batch,
    chain,
    gradients,
    memory_left,
    network,
    plain_chain_gradient,
    plain_gradients,
)

# ---- the same gradients


@pytest.mark.parametrize("memory", [None, "256 KiB", "1 MiB"])
@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_gradients_are_bitwise_equal(tmp_path, memory, prefetch):
    model = network()
    with tape.offload(tmp_path, memory=memory, prefetch=prefetch) as o:
        loss = model(batch()).square().mean()
        o.flush()
        loss.backward()
    assert_same(gradients(model), plain_gradients())
    assert o.written_bytes > 0
    assert memory_left(o) == 0
    assert os.listdir(tmp_path) == []


def train(model, steps=4):
    """Return the losses of a few steps, and the most bytes that the core counted as saved."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    gc.collect()
    before = torch.memory_stats()["saved_bytes"]
    torch.reset_peak_memory_stats()
    losses = []
    for step in range(steps):
        loss = model(batch(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.memory_stats()["peak_saved_bytes"] - before


@pytest.mark.parametrize("per_step", [False, True], ids=["one block", "a block per step"])
def test_a_tape_of_four_times_the_memory_trains(tmp_path, per_step):
    """Every step is bitwise that of a run without; what is saved stays within a quarter."""
    model = network(seed=1)
    losses, whole = train(model)
    allowed = whole // 4
    other = network(seed=1)
    o = tape.offload(tmp_path, memory=allowed)
    if per_step:
        forward = other.forward

        def offloaded(x):
            with o:
                return forward(x)

        other.forward = offloaded
        found, counted = train(other)
    else:
        with o:
            found, counted = train(other)
    assert found == losses
    assert_same(list(other.parameters()), list(model.parameters()))
    assert o.peak_memory <= allowed
    assert o.written_bytes > 4 * (whole - allowed) * 0.9
    # Outside of the block, what the loss saves is the tape's own.
    assert counted <= allowed + (2 * VALUE if per_step else 0)


def test_live_saved_bytes_stay_within_the_memory(tmp_path):
    """What the core counts of saved values, after each op, stays within the limit."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    gc.collect()
    before = torch.memory_stats()["saved_bytes"]
    allowed = 10 * VALUE
    with tape.offload(tmp_path, memory=allowed) as o:
        y = x
        for _ in range(40):
            y = torch.tanh(y)
            assert torch.memory_stats()["saved_bytes"] - before <= allowed
            assert o.memory_now <= allowed
        y.sum().backward()
    assert o.peak_memory <= allowed
    assert torch.memory_stats()["saved_bytes"] == before


def test_memory_is_really_free(tmp_path):
    """The allocator's live bytes are bounded as well, not only our count."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    gc.collect()
    before = torch.memory_stats()["live_bytes"]
    with tape.offload(tmp_path, memory=8 * VALUE):
        y = chain(x, 100)
        assert torch.memory_stats()["live_bytes"] - before < 14 * VALUE
    loss = y.sum()
    del y
    loss.backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 100))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_dtypes(tmp_path, dtype):
    x = torch.randn(ROWS, WIDTH).to(dtype).requires_grad_()
    with tape.offload(tmp_path, memory=6 * VALUE * 2) as o:
        y = chain(x)
        (y * y.t().contiguous().t()).sum().backward()
    z = x.detach().clone().requires_grad_()
    y = chain(z)
    (y * y.t().contiguous().t()).sum().backward()
    assert torch.equal(x.grad, z.grad)
    assert o.written_bytes > 0


def test_integers_and_masks(tmp_path):
    """Indices and conditions are saved values, too."""

    def loss(x):
        mask = chain(x, 3) > 0
        index = torch.argsort(x.detach(), dim=1)
        y = torch.where(mask, x, 2 * x)
        return (torch.gather(y, 1, index) * chain(x, 30)).sum()

    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE) as o:
        value = loss(x)
        value.backward()
    z = x.detach().clone().requires_grad_()
    loss(z).backward()
    assert torch.equal(x.grad, z.grad)
    assert o.written_bytes > 0


# ---- geometry: views of one storage


def test_views_of_one_storage_are_written_once(tmp_path):
    x = torch.randn(ROWS, 3 * WIDTH, requires_grad=True)

    def loss(x, after):
        q, k, v = torch.tanh(x).chunk(3, dim=1)
        y = torch.sin(q) * torch.cos(k) * v.exp()
        del q, k, v
        return after(y)

    with tape.offload(tmp_path) as o:
        value = loss(x, lambda y: chain(y, 6).sum())
        o.flush()
    written = o.written_bytes
    value.backward()
    z = x.detach().clone().requires_grad_()
    loss(z, lambda y: chain(y, 6).sum()).backward()
    assert torch.equal(x.grad, z.grad)
    # tanh's result once, not also q, k, v: sin, cos, exp and two products are five more.
    assert 8 * VALUE < written <= 3 * VALUE + 5 * VALUE + 6 * VALUE


def test_only_the_part_that_is_shown_is_written(tmp_path):
    weight = torch.randn(WIDTH, requires_grad=True)
    with tape.offload(tmp_path) as o:
        large = torch.randn(100 * ROWS, WIDTH)
        part = (large[50] * weight).sum() + (large[60] * weight).sum()
        expected = large[50] + large[60]
        del large
        o.flush()
    part.backward()
    assert torch.equal(weight.grad, expected)
    assert o.written_bytes == o.read_bytes == 11 * WIDTH * 4


def test_expanded_transposed_and_empty_views(tmp_path):
    def loss(x):
        a = torch.tanh(x)
        wide = a[:, :1].expand(ROWS, WIDTH)
        b = torch.sin(a.t()) + torch.cos(wide.t()) * wide.t()
        nothing = a[:0] * a[:0]
        del a, wide
        return chain(b, 10).sum() + nothing.sum()

    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE):
        value = loss(x)
        value.backward()
    z = x.detach().clone().requires_grad_()
    loss(z).backward()
    assert torch.equal(x.grad, z.grad)


def test_geometry_comes_back_as_it_was(tmp_path):
    """Size, strides and place of an unpacked value are those that were saved."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path) as o:
        a = torch.tanh(x)
        y = torch.sin(a[3:, 5:].t())
        expected = a[3:, 5:].t().detach().clone()
        strides = a[3:, 5:].t().stride()
        node = y.grad_fn
        del a
        o.flush()
    saved = node._saved_self
    assert o.read_bytes > 0
    assert torch.equal(saved, expected)
    assert saved.stride() == strides


# ---- what is not moved


def test_parameters_and_held_values_stay(tmp_path):
    """What the program holds is neither written nor duplicated: a sweep gets that memory itself."""
    x = batch().requires_grad_()
    weight = torch.randn(WIDTH, WIDTH, requires_grad=True)
    with tape.offload(tmp_path) as o:
        held = torch.tanh(x @ weight)
        loss = (held * held).sum()
        o.flush()
        assert o.written_bytes == 0
        node = loss.grad_fn.next_functions[0][0]
        assert node._saved_self.data_ptr() == held.data_ptr()
        pointers = {
            value.data_ptr()
            for value in (
                getattr(node, name) for node in entries(loss) for name in saved_names(node)
            )
        }
        assert pointers == {held.data_ptr(), x.data_ptr(), weight.data_ptr()}
        del held
        o.flush()
        assert o.written_bytes == VALUE
        loss.backward()
    assert o.read_bytes == VALUE


def entries(tensor):
    seen, stack = [], [tensor.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.append(node)
            stack.extend(next_node for next_node, _ in node.next_functions)
    return seen


def saved_names(node):
    """Return the names of the tensors that an entry saved."""
    names = [name for name in dir(node) if name.startswith("_saved_")]
    return [name for name in names if isinstance(getattr(node, name), torch.Tensor)]


def test_small_values_stay(tmp_path):
    x = torch.randn(10, requires_grad=True)
    with tape.offload(tmp_path) as o:
        chain(x).sum().backward()
    assert o.written_bytes == 0
    assert o.kept == o.packed == 40


def test_min_bytes(tmp_path):
    x = torch.randn(10, requires_grad=True)
    with tape.offload(tmp_path, min_bytes=1) as o:
        chain(x).sum().backward()
    assert o.written_bytes == 0  # too little to wake the writer for
    with tape.offload(tmp_path, min_bytes=1, memory="400 B") as o:
        chain(x).sum().backward()
    assert o.written_bytes > 0


def test_the_program_holds_too_much(tmp_path):
    """The limit cannot be kept then; that is said once, and the gradients are right."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with (
        pytest.warns(UserWarning, match="more than the allowed 64.0 KiB are needed") as caught,
        tape.offload(tmp_path, memory=2 * VALUE) as o,
    ):
        held = [x]
        for _ in range(10):
            held.append(torch.tanh(held[-1]))
        held[-1].sum().backward()
    assert len(caught) == 1
    assert o.peak_memory > 2 * VALUE
    assert torch.equal(x.grad, plain_chain_gradient(x, 10))


# ---- sweeps


def test_retained_graph(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE) as o:
        y = chain(x).sum()
    expected = plain_chain_gradient(x, 40)
    for _ in range(3):
        (grad,) = torch.autograd.grad(y, x, retain_graph=True)
        assert torch.equal(grad, expected)
        assert o.memory_now <= 8 * VALUE
    y.backward()
    assert torch.equal(x.grad, expected)
    assert 32 * VALUE <= o.written_bytes <= 40 * VALUE, "each value is written once at most"
    assert memory_left(o) == 0


def test_retained_graph_without_limit_keeps_little(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, prefetch=2) as o:
        y = chain(x, 100).sum()
        o.flush()
        assert memory_left(o) == 0
        torch.autograd.grad(y, x, retain_graph=True)
    assert o.read_bytes == 100 * VALUE
    assert o.memory_now <= 7 * VALUE
    del y


def test_double_backward(tmp_path):
    def second(x, block):
        with block:
            y = chain(x, 20).sum()
            (first,) = torch.autograd.grad(y, x, create_graph=True)
            if isinstance(block, tape.offload):
                block.flush()
            (result,) = torch.autograd.grad(first.square().sum(), x)
        return result

    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    expected = second(x, contextlib.nullcontext())
    for memory in (None, 20 * VALUE):
        block = tape.offload(tmp_path, memory=memory)
        assert torch.equal(second(x, block), expected)
        assert block.written_bytes > 0


def test_double_backward_outside_of_the_block(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=6 * VALUE) as o:
        y = chain(x, 20).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (found,) = torch.autograd.grad(first.sum(), x)
    z = x.detach().clone().requires_grad_()
    (first,) = torch.autograd.grad(chain(z, 20).sum(), z, create_graph=True)
    (expected,) = torch.autograd.grad(first.sum(), z)
    assert torch.equal(found, expected)
    assert o.written_bytes > 0


def test_a_part_of_the_graph(tmp_path):
    """A sweep that skips values, and later another that needs them."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    w = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=6 * VALUE):
        a = chain(x, 15)
        b = chain(w, 15)
        loss = (a * b).sum()
        del a, b
    (grad_x,) = torch.autograd.grad(loss, x, retain_graph=True)
    (grad_w,) = torch.autograd.grad(loss, w)
    p, q = x.detach().requires_grad_(), w.detach().requires_grad_()
    (chain(p, 15) * chain(q, 15)).sum().backward()
    assert torch.equal(grad_x, p.grad)
    assert torch.equal(grad_w, q.grad)


def test_backward_in_another_thread(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=6 * VALUE):
        y = chain(x).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))


def test_several_threads_at_once(tmp_path):
    """Blocks on several threads, each with its own file, and all with one."""
    shared = tape.offload(tmp_path, memory=24 * VALUE)
    errors = []

    def work(seed, block):
        try:
            with block:
                generator = torch.Generator().manual_seed(seed)
                x = torch.randn(ROWS, WIDTH, generator=generator).requires_grad_()
                for _ in range(3):
                    x.grad = None
                    chain(x).sum().backward()
                    with threads_lock:
                        expected.setdefault(seed, []).append((x, x.grad))
        except BaseException as error:
            errors.append(error)

    expected = {}
    threads_lock = threading.Lock()
    blocks = [shared, shared, tape.offload(tmp_path, memory=8 * VALUE), tape.offload(tmp_path)]
    threads = [threading.Thread(target=work, args=(i, b)) for i, b in enumerate(blocks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    for runs in expected.values():
        for x, grad in runs:
            assert torch.equal(grad, plain_chain_gradient(x, 40))


# ---- nesting


def test_checkpoint_inside(tmp_path):
    """The inputs of a checkpointed function are saved values of the block."""
    model = network(6)
    with tape.offload(tmp_path, memory=16 * VALUE) as o:
        y = chain(batch().requires_grad_(), 20)
        for start in range(0, len(model), 3):
            y = checkpoint(model[start : start + 3], y, use_reentrant=False)
        y.square().mean().backward()
    found = gradients(model)
    other = network(6)
    y = chain(batch().requires_grad_(), 20)
    other(y).square().mean().backward()
    assert_same(found, gradients(other))
    assert o.written_bytes > 0


def test_inside_of_checkpoint(tmp_path):
    model = network(6)
    blocks = []

    def run(x):
        with tape.offload(tmp_path, memory=16 * VALUE) as o:
            blocks.append(o)
            return model(chain(x, 20))

    x = batch().requires_grad_()
    checkpoint(run, x, use_reentrant=False).square().mean().backward()
    other = network(6)
    z = batch().requires_grad_()
    other(chain(z, 20)).square().mean().backward()
    assert_same(gradients(model), gradients(other))
    assert torch.equal(x.grad, z.grad)


def test_nested_blocks(tmp_path):
    """The inner block takes what is saved in it; memory that both know is written once."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with tape.offload(tmp_path, memory=8 * VALUE) as outer:
        y = chain(x, 20)
        with tape.offload(tmp_path, memory=8 * VALUE) as inner:
            y = chain(y, 20)
        y = chain(y, 20)
        y.sum().backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 60))
    assert outer.written_bytes > 0
    assert inner.written_bytes > 0
    assert memory_left(outer) == memory_left(inner) == 0


def test_nested_in_other_hooks(tmp_path):
    seen = []
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        with tape.offload(tmp_path, memory=8 * VALUE) as o:
            y = chain(x)
        assert seen == []
        y.sum().backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))
    assert o.written_bytes > 0


def test_other_hooks_inside(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    packed = []
    with tape.offload(tmp_path, memory=8 * VALUE):
        y = chain(x, 20)
        with saved_tensors_hooks(lambda t: packed.append(0) or t, lambda t: t):
            y = chain(y, 3)
        chain(y, 20).sum().backward()
    assert len(packed) == 3
    assert torch.equal(x.grad, plain_chain_gradient(x, 43))


@pytest.mark.parametrize("outer", ["offload", "budget"])
def test_with_a_budget(tmp_path, outer):
    """A value that a budget evicted is not moved."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    blocks = [tape.offload(tmp_path, memory=30 * VALUE), tape.budget(20 * VALUE)]
    first, second = blocks if outer == "offload" else blocks[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tape.BudgetWarning)
        with first, second:
            y = chain(x, 60).sum()
            blocks[0].flush()
            y.backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 60))


def test_vmap_inside(tmp_path):
    """Values that differ over a batch stay in memory."""
    x = torch.randn(8, ROWS * WIDTH)
    with tape.offload(tmp_path, memory="1 MiB"):
        found = torch.vmap(torch.func.grad(lambda v: chain(v, 5).sum()))(x)
    assert torch.equal(found, torch.vmap(torch.func.grad(lambda v: chain(v, 5).sum()))(x))


def test_func_grad_inside(tmp_path):
    x = torch.randn(ROWS, WIDTH)
    with tape.offload(tmp_path, memory=8 * VALUE) as o:
        found = torch.func.grad(lambda v: chain(v, 40).sum())(x)
    assert torch.equal(found, plain_chain_gradient(x, 40))
    assert o.written_bytes > 0


# ---- blocks and steps


def test_one_block_around_all_steps_uses_its_file_again(tmp_path):
    model = network()
    gc.collect()
    before = torch.memory_stats()["saved_bytes"]
    loss = model(batch()).square().mean()
    whole = torch.memory_stats()["saved_bytes"] - before
    del loss
    with tape.offload(tmp_path, memory=whole // 3) as o:
        for _ in range(8):
            model.zero_grad()
            model(batch()).square().mean().backward()
    assert o.written_bytes > 4 * whole
    assert o.file_bytes <= 1.25 * whole
    assert_same(gradients(model), plain_gradients())


def test_one_object_for_many_blocks(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    o = tape.offload(tmp_path / "values", memory=8 * VALUE)
    for _ in range(3):
        x.grad = None
        with o:
            y = chain(x).sum()
        assert (tmp_path / "values").exists()
        y.backward()
        assert torch.equal(x.grad, plain_chain_gradient(x, 40))
        assert memory_left(o) == 0
        assert not (tmp_path / "values").exists()
    with o, o:  # also within itself
        chain(x).sum().backward()
    assert o.packed >= 4 * 40


def test_reenters_while_values_live(tmp_path):
    """The file of a block serves the next one while values of the first are in it."""
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    o = tape.offload(tmp_path / "values", memory=8 * VALUE)
    with o:
        first = chain(x).sum()
    with o:
        second = chain(x, 20).sum()
    first.backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))
    x.grad = None
    second.backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 20))
    assert memory_left(o) == 0
    assert os.listdir(tmp_path) == []


def test_a_graph_that_nobody_sweeps_is_freed(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    gc.collect()
    before = torch._C.live_counts()
    with tape.offload(tmp_path / "values", memory=8 * VALUE) as o:
        y = chain(x)
        assert o.memory_now > 0
        file_bytes = o.file_bytes
        del y
        gc.collect()
        assert memory_left(o) == 0
        y = chain(x)
        assert o.file_bytes <= file_bytes * 1.25
    del y
    assert memory_left(o) == 0
    assert not (tmp_path / "values").exists()
    assert torch._C.live_counts() == before


def test_an_exception_in_the_block(tmp_path):
    x = torch.randn(ROWS, WIDTH, requires_grad=True)

    def run():
        with tape.offload(tmp_path, memory=8 * VALUE):
            chain(x)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run()
    chain(x).sum().backward()
    assert torch.equal(x.grad, plain_chain_gradient(x, 40))


def test_a_generator_of_steps(tmp_path):
    """A generator that holds the block open while its consumer works."""

    def steps(x):
        with tape.offload(tmp_path, memory=8 * VALUE):
            for _ in range(3):
                yield chain(x).sum()

    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    for loss in steps(x):
        x.grad = None
        loss.backward()
        assert torch.equal(x.grad, plain_chain_gradient(x, 40))


# ---- anything


def random_program(seed, x):
    """Return a loss of x by random ops, with branches, views and values held for a while."""
    choice = random.Random(seed)
    values = [x]
    for _ in range(60):
        value = choice.choice(values[-4:])
        kind = choice.randrange(7)
        if kind == 0:
            value = torch.tanh(value)
        elif kind == 1:
            value = value * choice.choice(values[-4:])
        elif kind == 2:
            value = torch.sin(value.t()).t()
        elif kind == 3:
            left, right = torch.sigmoid(value).chunk(2, dim=1)
            value = torch.cat([torch.cos(right), left * right], dim=1)
        elif kind == 4:
            value = torch.softmax(value, dim=1)
        elif kind == 5:
            value = torch.exp(value[:1]).expand(ROWS, WIDTH) * torch.tanh(value)
        else:
            value = torch.tanh_(value + 1)
        values.append(value)
        if len(values) > 6:
            del values[choice.randrange(len(values) - 1)]
    return torch.stack(values).square().mean()


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(tmp_path, seed):
    choice = random.Random(seed)
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    random_program(seed, x).backward()
    expected, x.grad = x.grad, None
    options = {
        "prefetch": choice.choice([0, 1, 4, 16]),
        "memory": choice.choice([None, 14 * VALUE, 30 * VALUE]),
        "min_bytes": choice.choice([1, 4096]),
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="offload: .* more than the allowed")
        with tape.offload(tmp_path, **options) as o:
            loss = random_program(seed, x)
            if choice.random() < 0.5:
                o.flush()
            if choice.random() < 0.5:
                (again,) = torch.autograd.grad(loss, x, retain_graph=True)
                assert torch.equal(again, expected)
            loss.backward()
    assert torch.equal(x.grad, expected)
    assert memory_left(o) == 0
