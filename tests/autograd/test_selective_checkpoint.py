"""Selective checkpointing: results of chosen ops are kept, gradients are as without."""

import functools
import gc
import importlib

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
    with pytest.raises(RuntimeError, match=r"call number 0 whose result was kept was matmul"):
        y.sum().backward()


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

    from tapegrad.utils._selective import op_of

    state = tapegrad.get_rng_state().tolist()
    assert op_of(resolve(path, tapegrad)) == name
    assert tapegrad.get_rng_state().tolist() == state


def test_functions_of_several_ops_are_refused(tapegrad, checkpointing):
    create = checkpointing.create_selective_checkpoint_contexts
    with pytest.raises(ValueError, match="got mse_loss, which runs sub, square, mean; give"):
        create([tapegrad.nn.functional.mse_loss])
    with pytest.raises(ValueError, match="got reshape, which runs none"):
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
    keep = choosing(checkpointing, lambda context, op: "save")
    with pytest.raises(TypeError, match="a CheckpointPolicy or a bool for matmul, got str"):
        checkpointing.checkpoint(layers, x, x, use_reentrant=False, context_fn=keep)
