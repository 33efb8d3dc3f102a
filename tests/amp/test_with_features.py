"""Autocast together with checkpoints, transforms, budgets, codings, replays, programs, meta."""

import pytest
from library import IS_TORCH, torch

if IS_TORCH:
    pytest.skip("most of these are tapegrad's own", allow_module_level=True)

from tapegrad import tape
from tapegrad.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

nn, functional = torch.nn, torch.nn.functional
LOWER = torch.bfloat16


@pytest.fixture
def model():
    return nn.Sequential(
        nn.Linear(8, 16),
        nn.GELU(),
        nn.LayerNorm(16),
        nn.Linear(16, 16),
        nn.Tanh(),
        nn.Linear(16, 4),
    )


@pytest.fixture
def x():
    return torch.randn(5, 8)


def loss_of(model, x):
    with torch.autocast("cpu"):
        return functional.cross_entropy(model(x), torch.arange(5) % 4)


def gradients(model, x, run=loss_of, sweep=torch.Tensor.backward):
    model.zero_grad()
    loss = run(model, x)
    sweep(loss)
    return [loss.detach(), *(each.grad.clone() for each in model.parameters())]


def assert_equal(found, expected):
    assert all(map(torch.equal, found, expected))


# ---- recomputation


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_as_it_ran(model, x, reentrant, inside):
    x.requires_grad_()
    expected = gradients(model, x)

    def run(model, x):
        with torch.autocast("cpu"):
            y = checkpoint(model[:4], x, use_reentrant=reentrant)
            return functional.cross_entropy(model[4:](y), torch.arange(5) % 4)

    def sweep(loss):
        with torch.autocast("cpu", enabled=inside):
            loss.backward()

    assert_equal(gradients(model, x, run, sweep), expected)
    assert not torch.is_autocast_enabled("cpu") and torch.autocast_increment_nesting() == 1
    torch.autocast_decrement_nesting()


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_around_a_block(model, x, reentrant):
    x.requires_grad_()
    expected = gradients(model, x)

    def run(model, x):
        return checkpoint(lambda x: loss_of(model, x), x, use_reentrant=reentrant)

    assert_equal(gradients(model, x, run), expected)


def test_a_checkpoint_outside_of_autocast_that_is_swept_inside(model, x):
    def run(model, x):
        return checkpoint(model, x, use_reentrant=False).square().sum()

    expected = gradients(model, x, lambda model, x: model(x).square().sum())

    def sweep(loss):
        with torch.autocast("cpu"):
            loss.backward()

    assert_equal(gradients(model, x, run, sweep), expected)


@pytest.mark.parametrize("shared", [False, True])
def test_a_selective_checkpoint(model, x, shared):
    """Also where a cast was made before the region, and is not made inside of it."""
    expected = gradients(model, x)
    keep = [torch.nn.functional.linear]

    def contexts():
        return create_selective_checkpoint_contexts(
            lambda ctx, op, *args, **kwargs: (
                CheckpointPolicy.MUST_SAVE if op in keep else CheckpointPolicy.PREFER_RECOMPUTE
            )
        )

    def run(model, x):
        with torch.autocast("cpu"):
            if shared:
                model[0](x)
            y = checkpoint(model, x, use_reentrant=False, context_fn=contexts)
            return functional.cross_entropy(y, torch.arange(5) % 4)

    assert_equal(gradients(model, x, run), expected)


def test_a_budget_changes_no_bit(model, x):
    expected = gradients(model, x)
    with pytest.warns(tape.BudgetWarning), tape.budget(64):
        found = gradients(model, x)
    assert_equal(found, expected)


@pytest.mark.filterwarnings("ignore::tapegrad.tape.BudgetWarning")
@pytest.mark.parametrize("limit", [1 << 30, 64])
@pytest.mark.parametrize("outer", [False, True])
def test_steps_in_one_block_are_those_in_several(x, limit, outer):
    """Kept casts, also evicted ones, are of the parameters that the last step has left."""

    def losses(outer, limit):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with tape.budget(limit), torch.autocast("cpu", enabled=outer):
            for _ in range(4):
                optimizer.zero_grad()
                with torch.autocast("cpu"):
                    loss = functional.cross_entropy(model(x) + model(x), torch.arange(5) % 4)
                loss.backward()
                optimizer.step()
                yield loss.item()

    assert list(losses(outer, limit)) == list(losses(False, 1 << 30))


def test_codings(model, x):
    expected = gradients(model, x)
    with tape.compress("exact", min_bytes=1):
        assert_equal(gradients(model, x), expected)
    with tape.compress("int8", min_bytes=1):
        found = gradients(model, x)
    for mine, other in zip(found, expected, strict=True):
        assert torch.allclose(mine, other, atol=0.05 * float(other.abs().max()))


def test_offloading(model, x, tmp_path):
    expected = gradients(model, x)
    with tape.offload(tmp_path, min_bytes=1):
        assert_equal(gradients(model, x), expected)


# ---- programs


def test_a_replay_reads_the_parameters_of_its_time(model, x):
    """A cast that was kept before is no part of it: parameters change until the replay."""
    with torch.autocast("cpu"):
        model(x)  # casts of all parameters are kept now
        with tape.record(replay=True, inputs=x) as t, torch.no_grad():
            y = model(x)
        program = t.program(names={"x": x, **dict(model.named_parameters())}, outputs={"y": y})
        with torch.no_grad():
            for each in model.parameters():
                each.mul_(2)
        other = torch.randn(5, 8)
        expected = model(other)
    assert y.dtype is LOWER
    assert {each.name for each in program.inputs} == {"x", *dict(model.named_parameters())}
    given = {name: each.detach() for name, each in model.named_parameters()}
    assert torch.equal(program.run({"x": other, **given})["y"], expected)


def test_a_saved_program(model, x, tmp_path):
    with torch.autocast("cpu"), tape.record(replay=True, inputs=x) as t, torch.no_grad():
        y = model(x)
    parameters = dict(model.named_parameters())
    program = t.program(names={"x": x, **parameters}, outputs={"y": y})
    program.save(tmp_path / "model.program")
    loaded = tape.load_program(tmp_path / "model.program")
    assert {"copy", "matmul"} <= {step.op for step in loaded.steps}
    given = {name: each.detach() for name, each in parameters.items()}
    assert torch.equal(loaded.run({"x": x, **given})["y"], y)


def test_a_replay_of_a_training_step(model, x):
    parameters = list(model.parameters())
    with tape.record(replay=True) as t:
        expected = gradients(model, x)
    t.replay()
    assert_equal([each.grad for each in parameters], expected[1:])


# ---- transforms


def test_double_backward(model, x):
    def penalty(autocast):
        y = x.clone().requires_grad_()
        with torch.autocast("cpu", enabled=autocast):
            value = model(y).float().square().sum()
        (grad,) = torch.autograd.grad(value, y, create_graph=True)
        assert grad.dtype is torch.float32
        model.zero_grad()
        grad.square().sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for mine, exact in zip(penalty(True), penalty(False), strict=True):
        assert torch.allclose(mine, exact, atol=0.05 * float(exact.abs().max()))


def test_vmap(model, x):
    weight = torch.randn(8, 3, requires_grad=True)
    with torch.autocast("cpu"):
        alone = torch.stack([row @ weight for row in x])
        mapped = torch.vmap(lambda row: row @ weight)(x)
        inside = torch.vmap(lambda row: torch.autocast("cpu")(lambda: row @ weight)())(x)
        of_weights = torch.vmap(lambda w: x @ w)(weight.detach().expand(2, 8, 3))
    assert mapped.dtype is of_weights.dtype is LOWER
    assert torch.equal(mapped, alone) and torch.equal(inside, alone)
    mapped.float().sum().backward()
    assert weight.grad is not None and weight.grad.dtype is torch.float32


def test_forward_mode(model, x):
    weight = torch.randn(8, 3, requires_grad=True)
    tangent = torch.randn(5, 8)
    with torch.autocast("cpu"):
        x @ weight  # a cast is kept
        y, dy = torch.func.jvp(lambda x: x @ weight, (x,), (tangent,))
        _, dw = torch.func.jvp(lambda w: x @ w, (weight.detach(),), (weight.detach(),))
        plain = torch.nn.functional.linear(x, weight.t())
    assert y.dtype is dy.dtype is LOWER
    assert torch.equal(dy, tangent.to(LOWER) @ weight.to(LOWER))
    assert torch.equal(dw, plain)


def test_a_parameter_with_a_tangent_is_not_taken_from_the_kept_casts(x):
    forward_ad = torch.autograd.forward_ad
    weight = torch.randn(8, 3, requires_grad=True)
    with torch.autocast("cpu"):
        x @ weight
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(weight, torch.ones(8, 3))
            _, tangent = forward_ad.unpack_dual(x @ dual)
    assert torch.equal(tangent, x.to(LOWER) @ torch.ones(8, 3, dtype=LOWER))


def test_gradient_transforms(model, x):
    parameters = dict(model.named_parameters())

    def loss(parameters, x):
        with torch.autocast("cpu"):
            y = torch.func.functional_call(model, parameters, (x,))
        return y.float().square().sum()

    model.zero_grad()
    loss(parameters, x).backward()
    with torch.autocast("cpu"):
        model(x)  # casts are kept outside of the transform
        found = torch.func.grad(loss)(parameters, x)
    for name, each in parameters.items():
        assert torch.allclose(found[name], each.grad, atol=0.02 * float(each.grad.abs().max()))
    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x[:, None])
    for name, each in parameters.items():
        total = per_sample[name].sum(0)
        assert torch.allclose(total, each.grad, atol=0.02 * float(each.grad.abs().max()))


# ---- the rest


def test_the_tape_shows_casts(model, x):
    with tape.record() as t:
        loss = loss_of(model, x)
    casts = [entry for entry in t if entry.op == "to_copy" and entry.dtype is LOWER]
    assert len(casts) == 7  # of six parameters, and of what a layer norm gives
    assert all("test_with_features.py" in entry.where for entry in casts) and loss.requires_grad


def test_meta_tensors_are_not_cast(model):
    with torch.autocast("cpu"):
        y = model.to("meta")(torch.empty(5, 8, device="meta"))
    assert y.dtype is torch.float32


def test_views_and_in_place_writes(x):
    weight = torch.randn(8, 8, requires_grad=True)
    with torch.autocast("cpu"):
        part = weight[:4]
        y = x[:, :4] @ part
        y.mul_(2)
        z = x @ weight.t()
        z[0] = 0
    (y.float().sum() + z.float().sum()).backward()
    exact = torch.zeros(8, 8)
    exact[:4] += 2 * x[:, :4].sum(0)[:, None]
    exact += x[1:].sum(0)
    assert torch.allclose(weight.grad, exact, atol=0.1)


def test_inference_mode(model, x):
    with torch.inference_mode(), torch.autocast("cpu"):
        first = model(x)
        assert torch.equal(model(x), first) and first.dtype is LOWER


def test_saved_tensor_hooks_see_what_is_cast(model, x):
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: seen.append(each.dtype) or each, lambda each: each
    ):
        loss_of(model, x).backward()
    assert LOWER in seen and torch.float32 in seen


def test_the_profiler_sees_casts(model, x):
    with torch.profiler.profile() as profile:
        loss_of(model, x)
    assert "copy" in str(profile.key_averages().table())
