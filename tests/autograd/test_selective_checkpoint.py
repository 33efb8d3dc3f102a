"""Selective checkpointing: results of chosen ops are kept, gradients are as without."""

import functools
import gc
import importlib
import math

import pytest

from .values import constant, leaf


@pytest.fixture
def checkpointing(torch):
    """Give the library's torch.utils.checkpoint."""
    return importlib.import_module(f"{torch.__name__}.utils.checkpoint")


@pytest.fixture
def tapegrad(torch):
    """Give tapegrad, for what PyTorch does not have."""
    if torch.__name__ == "torch":
        pytest.skip("ops are chosen by name in tapegrad alone")
    return torch


def product(torch):
    """The op of a matrix product, as the library names it."""
    return torch.mm if torch.__name__ == "tapegrad" else torch.ops.aten.mm.default


def sine(torch):
    return torch.sin if torch.__name__ == "tapegrad" else torch.ops.aten.sin.default


def choosing(checkpointing, chosen, **options):
    """Return a context_fn."""
    return functools.partial(checkpointing.create_selective_checkpoint_contexts, chosen, **options)


def run(torch, checkpointing, function, context_fn, *inputs):
    """Return the value and the gradients of a checkpointed call."""
    inputs = [each.detach().requires_grad_() for each in inputs]
    options = {} if context_fn is None else {"context_fn": context_fn}
    if context_fn == "plain":
        y = function(*inputs)
    else:
        y = checkpointing.checkpoint(function, *inputs, use_reentrant=False, **options)
    y.sum().backward()
    return y.tolist(), [each.grad.tolist() for each in inputs]


MATRIX = [[0.5, -1.0, 0.3], [2.0, 0.25, -0.7], [0.1, 0.9, 1.5]]


def layers(x, w):
    return ((x @ w).sin() @ w).sin().exp() @ x


# ---- the same as without


@pytest.mark.parametrize("chosen", ["mm", "sin", "both", "nothing", "all"])
def test_values_and_gradients(torch, checkpointing, chosen):
    policies = {
        "mm": [product(torch)],
        "sin": [sine(torch)],
        "both": [product(torch), sine(torch)],
        "nothing": [],
        "all": lambda context, op, *args, **kwargs: checkpointing.CheckpointPolicy.MUST_SAVE,
    }
    x, w = constant(torch, MATRIX), constant(torch, MATRIX) * 0.5
    expected = run(torch, checkpointing, layers, "plain", x, w)
    keep = choosing(checkpointing, policies[chosen])
    assert run(torch, checkpointing, layers, keep, x, w) == expected


def test_policies(torch, checkpointing):
    policy = checkpointing.CheckpointPolicy
    assert [each.name for each in policy][:4] == [
        "MUST_SAVE",
        "PREFER_SAVE",
        "MUST_RECOMPUTE",
        "PREFER_RECOMPUTE",
    ]
    x, w = constant(torch, MATRIX), constant(torch, MATRIX) * 0.5
    expected = run(torch, checkpointing, layers, "plain", x, w)
    for answer in (*list(policy)[:4], True, False):
        keep = choosing(checkpointing, lambda context, op, *args, answer=answer, **kwargs: answer)
        assert run(torch, checkpointing, layers, keep, x, w) == expected


def test_a_context_for_policies(torch, checkpointing):
    seen = []

    def policy(context, op, *args, **kwargs):
        seen.append((isinstance(context, checkpointing.SelectiveCheckpointContext), op))
        assert context.is_recompute is False
        return False

    x, w = constant(torch, MATRIX), constant(torch, MATRIX)
    run(torch, checkpointing, layers, choosing(checkpointing, policy), x, w)
    assert seen and all(fits for fits, _ in seen)


def test_bad_policies(torch, checkpointing):
    create = checkpointing.create_selective_checkpoint_contexts
    with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list"):
        create(3)
    for bad in (len, 7, torch.nn.Linear):
        with pytest.raises(ValueError, match=r"(?i)expected"):
            create([bad])


def test_written_results_are_noticed(torch, checkpointing):
    def function(x, w):
        y = x @ w
        z = y.sin()
        y.detach().add_(1)
        return z

    x, w = leaf(torch, MATRIX), leaf(torch, MATRIX)
    keep = choosing(checkpointing, [product(torch)])
    y = checkpointing.checkpoint(function, x, w, use_reentrant=False, context_fn=keep)
    with pytest.raises(RuntimeError, match=r"mutat|written in place"):
        y.sum().backward()
    keep = choosing(checkpointing, [product(torch)], allow_cache_entry_mutation=True)
    y = checkpointing.checkpoint(function, x, w, use_reentrant=False, context_fn=keep)
    y.sum().backward()


def test_without_recording(torch, checkpointing):
    keep = choosing(checkpointing, [product(torch)])
    x = constant(torch, MATRIX)
    with torch.no_grad():
        y = checkpointing.checkpoint(layers, x, x, use_reentrant=False, context_fn=keep)
    assert y.tolist() == layers(x, x).tolist()


# ---- what is kept, and what runs again


def test_chosen_ops_do_not_run_again(tapegrad, checkpointing):
    """The second time, the result of a chosen op is the memory of the first time."""
    x, w = leaf(tapegrad, MATRIX), leaf(tapegrad, MATRIX)

    def ran_again(chosen):
        results = []

        def function(x, w):
            product = x @ w
            sine = product.sin()
            results.extend([product.detach(), sine.detach()])
            return sine.exp().cos()

        y = checkpointing.checkpoint(
            function, x, w, use_reentrant=False, context_fn=choosing(checkpointing, chosen)
        )
        y.sum().backward()
        first, again = results[:2], results[2:]
        return [a.data_ptr() != b.data_ptr() for a, b in zip(first, again, strict=True)]

    assert ran_again([]) == [True, True]
    assert ran_again(["matmul"]) == [False, True]
    assert ran_again([tapegrad.sin]) == [True, False]
    assert ran_again([tapegrad.nn.functional.linear, "sin"]) == [False, False]


def test_memory_is_that_of_the_kept_results(tapegrad, checkpointing):
    size = 1 << 20
    x = tapegrad.ones(512, 512, requires_grad=True)  # 1 MiB

    def function(x):
        y = x.sin()
        for _ in range(3):
            y = (y @ x).exp().cos().tanh()
        return y.sum()

    def live(**options):
        gc.collect()
        before = tapegrad.memory_stats()["live_bytes"]
        y = function(x) if not options else checkpointing.checkpoint(function, x, **options)
        now = tapegrad.memory_stats()["live_bytes"] - before
        y.backward()
        x.grad = None
        del y
        gc.collect()
        assert tapegrad.memory_stats()["live_bytes"] == before, "all is gone after backward"
        return now

    keep = choosing(checkpointing, ["matmul"])
    plain, nothing = live(), live(use_reentrant=False)
    chosen = live(use_reentrant=False, context_fn=keep)
    assert nothing < size / 2
    assert abs(chosen - nothing - 3 * size) < size / 2
    assert plain > 6 * size


def test_two_backwards(tapegrad, checkpointing):
    """PyTorch allows one."""
    x, w = leaf(tapegrad, MATRIX), leaf(tapegrad, MATRIX)
    y = checkpointing.checkpoint(
        layers, x, w, use_reentrant=False, context_fn=choosing(checkpointing, ["matmul"])
    ).sum()
    y.backward(retain_graph=True)
    once = x.grad.tolist()
    x.grad = None
    y.backward()
    assert x.grad.tolist() == once


def test_random_ops_that_are_kept(tapegrad, checkpointing):
    """Draws run again whatever the policy says, and are the same."""
    functional = tapegrad.nn.functional

    def function(x):
        x = functional.dropout(x.sin(), 0.5)
        x = x * tapegrad.rand(3, 3)
        return functional.dropout(x.exp(), 0.3).cos()

    x = constant(tapegrad, MATRIX)
    tapegrad.manual_seed(3)
    expected = run(tapegrad, checkpointing, function, "plain", x)
    for chosen in (["random_bernoulli"], ["random_uniform"], ["mul"], ["sin", "random_bernoulli"]):
        tapegrad.manual_seed(3)
        assert (
            run(tapegrad, checkpointing, function, choosing(checkpointing, chosen), x) == expected
        )


def test_nested(tapegrad, checkpointing):
    inner_keep = choosing(checkpointing, [tapegrad.sin])
    outer_keep = choosing(checkpointing, [tapegrad.mm])

    def inner(x, w):
        return (x @ w).sin().exp()

    def outer(x, w):
        y = checkpointing.checkpoint(inner, x, w, use_reentrant=False, context_fn=inner_keep)
        y = checkpointing.checkpoint(inner, y, w, use_reentrant=False)
        return (y @ w).sin()

    def plain(x, w):
        return (inner(inner(x, w), w) @ w).sin()

    x, w = constant(tapegrad, MATRIX), constant(tapegrad, MATRIX) * 0.3
    expected = run(tapegrad, checkpointing, plain, "plain", x, w)
    assert run(tapegrad, checkpointing, outer, None, x, w) == expected
    assert run(tapegrad, checkpointing, outer, outer_keep, x, w) == expected


def test_a_model(tapegrad, checkpointing):
    nn, functional = tapegrad.nn, tapegrad.nn.functional
    tapegrad.manual_seed(0)
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    x = tapegrad.randn(2, 5, 8)
    parameters = list(block.parameters())

    def gradients(call):
        tapegrad.manual_seed(1)
        for each in parameters:
            each.grad = None
        call(x).square().sum().backward()
        return [each.grad.tolist() for each in parameters]

    expected = gradients(block)
    for chosen in (
        [functional.linear],
        ["attention", functional.linear],
        [functional.layer_norm, "softmax"],
        lambda context, op, *args, **kwargs: op in [tapegrad.matmul, functional.layer_norm],
    ):
        keep = choosing(checkpointing, chosen)
        found = gradients(
            lambda x, keep=keep: checkpointing.checkpoint(
                block, x, use_reentrant=False, context_fn=keep
            )
        )
        assert found == expected


def test_a_function_that_changes(tapegrad, checkpointing):
    calls = []

    def function(x):
        calls.append(x)
        return (x @ x).sin() if len(calls) == 1 else (x[:2] @ x).sin()

    x = leaf(tapegrad, MATRIX)
    keep = choosing(checkpointing, ["matmul"])
    y = checkpointing.checkpoint(function, x, use_reentrant=False, context_fn=keep)
    with pytest.raises(RuntimeError, match=r"call 0 of matmul .* gives shape \[2, 3\]"):
        y.sum().backward()


# ---- policies that are asked at every call


def every_second(torch, checkpointing):
    """Return a policy that keeps the first, third, ... product of the first run."""
    policies, counts = checkpointing.CheckpointPolicy, {False: 0, True: 0}

    def policy(context, op, *args, **kwargs):
        if op != product(torch):
            return policies.PREFER_RECOMPUTE
        counts[context.is_recompute] += 1
        odd = counts[context.is_recompute] % 2
        return policies.MUST_SAVE if odd else policies.PREFER_RECOMPUTE

    return policy


def several_products(x, w, results=None):
    for _ in range(6):
        x = x @ w
        if results is not None:
            results.append(x.detach())
        x = x.sin()
    return x.exp().cos()


def test_every_second_product_is_kept(torch, checkpointing):
    x, w = constant(torch, MATRIX), constant(torch, MATRIX) * 0.5
    expected = run(torch, checkpointing, several_products, "plain", x, w)
    results = []

    def function(x, w):
        return several_products(x, w, results)

    keep = choosing(checkpointing, every_second(torch, checkpointing))
    assert run(torch, checkpointing, function, keep, x, w) == expected
    first, again = results[:6], results[6:]
    kept = [a.data_ptr() == b.data_ptr() for a, b in zip(first, again, strict=True)]
    assert kept == [True, False] * 3


def test_memory_of_every_second_product(tapegrad, checkpointing):
    size = 1 << 20
    x = tapegrad.ones(512, 512, requires_grad=True)  # 1 MiB

    def live(**options):
        gc.collect()
        before = tapegrad.memory_stats()["live_bytes"]
        y = checkpointing.checkpoint(several_products, x, x, use_reentrant=False, **options).sum()
        now = tapegrad.memory_stats()["live_bytes"] - before
        y.backward()
        x.grad = None
        del y
        gc.collect()
        assert tapegrad.memory_stats()["live_bytes"] == before, "all is gone after backward"
        return now

    half = choosing(checkpointing, every_second(tapegrad, checkpointing))
    assert live(context_fn=half) - live() == 3 * size
    assert live(context_fn=choosing(checkpointing, ["matmul"])) - live() == 6 * size


def test_a_policy_by_shape(torch, checkpointing):
    results, asked = [], []

    def policy(context, op, *args, **kwargs):
        if op != product(torch):
            return False
        a, b = args
        asked.append((tuple(a.shape), tuple(b.shape), a.dtype, b.numel()))
        return a.shape[0] > 2

    def function(x, w):
        wide, narrow = x @ w, x[:2] @ w
        results.extend([wide.detach(), narrow.detach()])
        return wide.sin().sum() + narrow.sin().exp()

    def plain(x, w):
        return (x @ w).sin().sum() + (x[:2] @ w).sin().exp()

    x, w = constant(torch, MATRIX), constant(torch, MATRIX)
    expected = run(torch, checkpointing, plain, "plain", x, w)
    assert run(torch, checkpointing, function, choosing(checkpointing, policy), x, w) == expected
    assert asked == [
        ((3, 3), (3, 3), x.dtype, 9),
        ((2, 3), (3, 3), x.dtype, 9),
    ]
    assert results[0].data_ptr() == results[2].data_ptr()
    assert results[1].data_ptr() != results[3].data_ptr()


def test_a_policy_sees_the_result(torch, checkpointing):
    seen = []

    def policy(context, op, *args, **kwargs):
        if op == product(torch):
            seen.append(context.op_output.tolist() == torch.mm(*args).tolist())
            assert not context.op_output.requires_grad
        return bool(op == product(torch) and context.op_output.sum() > 0)

    x, w = constant(torch, MATRIX), constant(torch, MATRIX)
    expected = run(torch, checkpointing, layers, "plain", x, w)
    assert run(torch, checkpointing, layers, choosing(checkpointing, policy), x, w) == expected
    assert seen == [True] * 3


def test_several_results(tapegrad, checkpointing):
    seen = {}

    def policy(context, op, *args, **kwargs):
        seen[str(op)] = (context.op_output, len(args))
        return True

    x = constant(tapegrad, MATRIX)
    keep = choosing(checkpointing, policy)

    def function(x):
        return (x.max(1).values * 2).sin()

    expected = run(tapegrad, checkpointing, function, "plain", x)
    assert run(tapegrad, checkpointing, function, keep, x) == expected
    values, places = seen["max"][0]
    assert values.tolist() == x.max(1).values.tolist() and places.dtype == tapegrad.int64
    assert seen["mul"][1] == 2, "the number is a tensor of no dimensions"
    seen.clear()


def test_a_policy_that_raises(torch, checkpointing):
    asked = []

    def policy(context, op, *args, **kwargs):
        asked.append(op)
        if asked.count(product(torch)) == 2:
            raise ZeroDivisionError("no answer")
        return True

    x, w = leaf(torch, MATRIX), leaf(torch, MATRIX)
    keep = choosing(checkpointing, policy)
    with pytest.raises(ZeroDivisionError, match="no answer"):
        checkpointing.checkpoint(layers, x, w, use_reentrant=False, context_fn=keep)
    count = len(asked)
    y = layers(x, w)
    assert len(asked) == count, "the cache is no longer there"
    assert torch.is_grad_enabled() and y.requires_grad
    asked[:] = [None] * count
    expected = run(torch, checkpointing, layers, "plain", x, w)
    keep = choosing(checkpointing, every_second(torch, checkpointing))
    assert run(torch, checkpointing, layers, keep, x, w) == expected


def test_a_policy_that_raises_leaves_nothing(tapegrad, checkpointing):
    def policy(context, op, *args, **kwargs):
        if op == tapegrad.sin:
            raise ZeroDivisionError(f"no answer for {args[0].shape}")
        return True

    def attempt():
        x, w = leaf(tapegrad, MATRIX), leaf(tapegrad, MATRIX)
        with pytest.raises(ZeroDivisionError):
            checkpointing.checkpoint(
                layers, x, w, use_reentrant=False, context_fn=choosing(checkpointing, policy)
            )

    attempt()
    gc.collect()
    before = tapegrad._C.live_counts()
    for _ in range(3):
        attempt()
    gc.collect()
    assert tapegrad._C.live_counts() == before


def test_a_policy_that_computes(torch, checkpointing):
    """What it computes is not asked about, recorded or kept."""
    depth, deepest, sums = 0, 0, []
    weight = leaf(torch, MATRIX)

    def policy(context, op, *args, **kwargs):
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        found = (args[0].sin() @ weight).sum() if op == product(torch) else None
        if found is not None:
            assert not found.requires_grad
            sums.append(found.item())
        depth -= 1
        return found is not None and found.item() > 0

    x, w = constant(torch, MATRIX), constant(torch, MATRIX) * 0.5
    expected = run(torch, checkpointing, layers, "plain", x, w)
    assert run(torch, checkpointing, layers, choosing(checkpointing, policy), x, w) == expected
    assert deepest == 1 and len(sums) == 3 and weight.grad is None


def test_what_a_policy_computes_is_not_captured(tapegrad, checkpointing):
    def policy(context, op, *args, **kwargs):
        return args[0].cosh().sum().item() > 0

    x = leaf(tapegrad, MATRIX)
    program = tapegrad._C.Program()
    with program:
        checkpointing.checkpoint(
            layers, x, x, use_reentrant=False, context_fn=choosing(checkpointing, policy)
        )
    names = [step[0] for step in program.steps()]
    assert names.count("matmul") == 3 and not {"cosh", "read"} & set(names)


def test_a_policy_that_draws(tapegrad, checkpointing):
    """The function sees the same random numbers again, though the policy draws once."""
    functional = tapegrad.nn.functional

    def policy(context, op, *args, **kwargs):
        return tapegrad.rand(()).item() < 0.5

    def function(x):
        x = functional.dropout(x.exp(), 0.5)
        return functional.dropout((x.sin() + 2).exp(), 0.5)

    x = tapegrad.zeros(50, requires_grad=True)
    for seed in range(5):
        tapegrad.manual_seed(seed)
        x.grad = None
        kept = choosing(checkpointing, policy)
        y = checkpointing.checkpoint(function, x, use_reentrant=False, context_fn=kept)
        inner = (y.detach() / 2).log() - 2
        wanted = [
            0.0 if value == 0 or abs(sine) < 1e-6 else value * math.cos(2.0) * 2
            for value, sine in zip(y.tolist(), inner.tolist(), strict=True)
        ]
        y.sum().backward()
        assert x.grad.tolist() == pytest.approx(wanted, rel=1e-4)


def test_nested_policies(torch, checkpointing):
    def inner(x, w):
        return several_products(x, w)

    def outer(x, w):
        keep = choosing(checkpointing, every_second(torch, checkpointing))
        y = checkpointing.checkpoint(inner, x @ w, w, use_reentrant=False, context_fn=keep)
        return (y @ w).sin()

    def plain(x, w):
        return (inner(x @ w, w) @ w).sin()

    x, w = constant(torch, MATRIX), constant(torch, MATRIX) * 0.5
    expected = run(torch, checkpointing, plain, "plain", x, w)
    keep = choosing(checkpointing, every_second(torch, checkpointing))
    assert run(torch, checkpointing, outer, keep, x, w) == expected


def test_one_policy_for_several_calls(torch, checkpointing):
    keep = choosing(checkpointing, every_second(torch, checkpointing))
    results = []

    def layer(x, w):
        y = x @ w
        results.append(y.detach())
        return y.sin()

    def function(x, w):
        for _ in range(4):
            x = checkpointing.checkpoint(layer, x, w, use_reentrant=False, context_fn=keep)
        return x

    def plain(x, w):
        for _ in range(4):
            x = (x @ w).sin()
        return x

    x, w = constant(torch, MATRIX), constant(torch, MATRIX) * 0.5
    expected = run(torch, checkpointing, plain, "plain", x, w)
    assert run(torch, checkpointing, function, "plain", x, w) == expected
    again = dict(zip(range(4), reversed(results[4:]), strict=True))  # backward begins at the end
    kept = [results[i].data_ptr() == again[i].data_ptr() for i in range(4)]
    assert kept == [True, False, True, False]


def test_contexts_are_of_one_call(torch, checkpointing):
    contexts = checkpointing.create_selective_checkpoint_contexts([product(torch)])

    def layer(x):
        return checkpointing.checkpoint(
            lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=lambda: contexts
        )

    x = leaf(torch, MATRIX)
    # PyTorch notices in backward.
    with pytest.raises(RuntimeError, match=r"results of another call|backward an extra time"):
        layer(layer(x)).sum().backward()


def test_a_function_that_calls_more(torch, checkpointing):
    calls = []

    def function(x):
        calls.append(x)
        y = ((x @ x).sin() @ x).sin()
        if len(calls) > 1:
            x.detach() @ x.detach()
        return y.exp()

    x = leaf(torch, MATRIX)
    keep = choosing(checkpointing, every_second(torch, checkpointing))
    y = checkpointing.checkpoint(function, x, use_reentrant=False, context_fn=keep)
    new = r"call 2 of matmul .* is new in the second run: the first run made 2 and kept .* 1"
    with pytest.raises(RuntimeError, match=rf"{new}|invocation index 2"):
        y.sum().backward()


def test_calls_that_fail_are_counted(tapegrad, checkpointing):
    """A function may try an op and go on: what is kept stays in its place."""

    def function(x):
        for rows in ([0, 1, 2], [9, 9, 9], [2, 1, 0]):
            try:
                x = x * tapegrad.index_select(x.exp(), 0, tapegrad.tensor(rows)).sin()
            except IndexError:
                x = x.sin()
        return x.exp()

    x = constant(tapegrad, MATRIX)
    expected = run(tapegrad, checkpointing, function, "plain", x)
    for chosen in (["index_select"], lambda context, op, *args: op == "index_select"):
        keep = choosing(checkpointing, chosen)
        assert run(tapegrad, checkpointing, function, keep, x) == expected


def test_results_that_the_library_writes_to(torch, checkpointing):
    """A copy that the same function adds to afterwards is no result to go on from."""

    def function(x):
        y = x.exp()
        y = torch.addmm(y, x, x) + torch.baddbmm(x[None], y[None], x[None])[0]
        y = torch.index_add(y, 0, torch.tensor([0, 1]), y[:2]).sin()
        return torch.nn.functional.pad(y, (1, 1))[:, 1:4].exp()

    x = constant(torch, MATRIX)
    expected = run(torch, checkpointing, function, "plain", x)
    policies = [lambda context, op, *args, **kwargs: "copy" in str(op)]
    if torch.__name__ == "tapegrad":
        policies += [["copy"], lambda context, op, *args: True]
    for chosen in policies:
        keep = choosing(checkpointing, chosen)
        assert run(torch, checkpointing, function, keep, x) == expected


def test_buffers_do_not_shift_results(tapegrad, checkpointing):
    """A write to memory outside is a new result the first time only."""
    buffer = tapegrad.empty(3, 3)

    def function(x):
        buffer.copy_(x.detach() * 2)
        first = x.t().contiguous().sin()
        return first * (x.exp().t().contiguous() * buffer).sin()

    x = constant(tapegrad, MATRIX)
    expected = run(tapegrad, checkpointing, function, "plain", x)
    buffer = tapegrad.empty(3, 3)
    found = run(tapegrad, checkpointing, function, choosing(checkpointing, ["copy"]), x)
    assert found == expected


def test_policies_with_a_budget(tapegrad, checkpointing):
    def policy(context, op, *args, **kwargs):
        return op == tapegrad.mm and context.op_output.abs().max().item() > 0.5

    x, w = constant(tapegrad, MATRIX), constant(tapegrad, MATRIX) * 0.5
    expected = run(tapegrad, checkpointing, several_products, "plain", x, w)
    told = pytest.warns(tapegrad.tape.BudgetWarning, match="not larger than 1 KiB")
    with told, tapegrad.tape.budget(200):
        found = run(
            tapegrad, checkpointing, several_products, choosing(checkpointing, policy), x, w
        )
    assert found == expected


def test_policies_are_not_leaked(tapegrad, checkpointing):
    """What a policy was given goes with it, also if it refers to the cache."""

    def train(backward):
        x, held = leaf(tapegrad, MATRIX), []

        def policy(context, op, *args, **kwargs):
            held.append((context, *args))
            return True

        contexts = checkpointing.create_selective_checkpoint_contexts(policy)
        held.append(contexts)
        y = checkpointing.checkpoint(layers, x, x, use_reentrant=False, context_fn=lambda: contexts)
        if backward:
            y.sum().backward()

    train(True)
    gc.collect()
    before = tapegrad._C.live_counts()
    for _ in range(3):
        train(True)
        train(False)
    gc.collect()
    assert tapegrad._C.live_counts() == before
    assert not any(type(each) is tapegrad._C.CallCache for each in gc.get_objects())


def test_a_list_is_asked_once_for_each_op(tapegrad):
    asked = []
    cache = tapegrad._C.CallCache(lambda op: asked.append(op) or op == "sin")
    x = constant(tapegrad, MATRIX)
    cache._enter(False)
    for _ in range(3):
        x = x.sin().exp()
    cache._leave()
    assert asked == ["sin", "exp"] and len(cache) == 3


# ---- ops by function


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("matmul", "matmul"),
        ("mm", "matmul"),
        ("bmm", "matmul"),
        ("addmm", "matmul"),
        ("einsum", "matmul"),
        ("nn.functional.linear", "matmul"),
        ("nn.functional.conv1d", "conv"),
        ("nn.functional.conv2d", "conv"),
        ("nn.functional.conv_transpose2d", "conv_grad_input"),
        ("nn.functional.scaled_dot_product_attention", "attention"),
        ("nn.functional.layer_norm", "layer_norm"),
        ("nn.functional.batch_norm", "batch_norm"),
        ("nn.functional.embedding", "index_select"),
        ("nn.functional.max_pool2d", "max_pool"),
        ("softmax", "softmax"),
        ("nn.functional.gelu", "gelu"),
        ("where", "where"),
        ("Tensor.exp", "exp"),
    ],
)
def test_functions_name_ops(tapegrad, path, name):
    from library import resolve

    from tapegrad.utils._selective import ops_of

    assert ops_of(resolve(path, tapegrad))[0] == name


def test_a_name_must_be_that_of_an_op(tapegrad, checkpointing):
    with pytest.raises(ValueError, match=r"got 'mamtul'; did you mean 'matmul'\?"):
        choosing(checkpointing, ["sin", "mamtul"])()
    with pytest.raises(ValueError, match=r"got '!'; torch.ops\(\) lists all of them"):
        choosing(checkpointing, ["!"])()


def test_functions_of_several_ops_are_refused(tapegrad, checkpointing):
    create = checkpointing.create_selective_checkpoint_contexts
    with pytest.raises(ValueError, match="got mse_loss, which runs several or none; give"):
        create([tapegrad.nn.functional.mse_loss])
    with pytest.raises(ValueError, match="got reshape, which runs several or none"):
        create([tapegrad.reshape])
    with pytest.raises(ValueError, match="or a function of the library that runs one, got"):
        create([lambda x: x])


def test_names_equal_functions(tapegrad, checkpointing):
    answers = {}

    def policy(context, op, *args, **kwargs):
        answers[str(op)] = (op == tapegrad.mm, op != tapegrad.mm, op in {"matmul"}, op == len)
        return False

    x = leaf(tapegrad, MATRIX)
    keep = choosing(checkpointing, policy)
    checkpointing.checkpoint(layers, x, x, use_reentrant=False, context_fn=keep)
    assert answers["matmul"] == (True, False, True, False)
    assert answers["sin"] == (False, True, False, False)


def test_a_policy_that_answers_with_something_else(tapegrad, checkpointing):
    x = leaf(tapegrad, MATRIX)
    keep = choosing(checkpointing, lambda context, op, *args: "save")
    with pytest.raises(TypeError, match="a CheckpointPolicy or a bool for matmul, got str"):
        checkpointing.checkpoint(layers, x, x, use_reentrant=False, context_fn=keep)
