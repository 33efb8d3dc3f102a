"""Gradients around casts: which dtype they have on the way, and that nobody can tell.

See Note [Dtypes of gradients] in csrc/graph/node.h.
"""

import pytest
from library import torch

F = torch.nn.functional


def make(seed=0, width=24):
    torch.manual_seed(seed)
    parts = {
        "norm": torch.nn.LayerNorm(width),
        "near": torch.nn.Linear(width, 2 * width),
        "far": torch.nn.Linear(2 * width, width),
        "head": torch.nn.Linear(width, 5, bias=False),
    }
    return torch.nn.ModuleDict(parts).cuda()


def loss_of(model, x, watch=lambda name, value: None):
    """Return the loss of two residual blocks that share their weights, under autocast."""
    with torch.autocast("cuda", torch.bfloat16):
        for number in range(2):
            normal = model["norm"](x)
            watch(f"norm {number}", normal)
            branch = model["far"](F.gelu(model["near"](normal)))
            watch(f"branch {number}", branch)
            x = x + branch
            watch(f"sum {number}", x)
        scores = model["head"](model["norm"](x))
        watch("scores", scores)
        return F.cross_entropy(scores.flatten(0, 1), torch.arange(12, device="cuda") % 5)


def inputs(width=24):
    torch.manual_seed(1)
    return torch.randn(3, 4, width).cuda().requires_grad_()


def gradients(model, x):
    """Take them away: those that were recorded would hold the graph that holds them."""
    leaves = [*model.parameters(), x]
    found = [leaf.grad.detach() for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return found


def run(watch=lambda name, value: None, **options):
    model, x = make(), inputs()
    loss_of(model, x, watch).backward(**options)
    return gradients(model, x)


def kernels_of(sweep):
    with torch.profiler.profile() as profile:
        sweep()
    return {event.key: event.count for event in profile.key_averages()}


def assert_close(found, wanted, tolerance):
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype == torch.float32
        assert (a - b).abs().max().item() <= tolerance * b.abs().max().item()


def test_they_are_those_of_casts_everywhere():
    """A sweep that is recorded casts everything; halves have eight bits."""
    assert_close(run(), run(create_graph=True), 0.02)


def test_they_are_nearer_to_the_truth():
    """Of a product that is not rounded to halves on its way to the parameter."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(40, 8).cuda()
    x, g = torch.randn(50, 40).cuda(), torch.randn(50, 8).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        y = layer(x)
    y.backward(g.to(torch.bfloat16))
    rounded = [value.to(torch.bfloat16).double() for value in (g, x)]
    wanted = rounded[0].t() @ rounded[1]
    assert (layer.weight.grad - wanted).abs().max().item() < 1e-5 * wanted.abs().max().item()
    wanted = rounded[0].sum(0)
    assert (layer.bias.grad - wanted).abs().max().item() < 1e-5 * wanted.abs().max().item()


@pytest.mark.parametrize("kind", ["hook", "retain_grad", "node hooks"])
def test_whoever_looks_sees_the_dtype_of_the_value(kind):
    seen, kept = {}, {}

    def watch(name, value):
        kept[name] = value
        if kind == "hook":
            value.register_hook(lambda grad: seen.setdefault(name, grad.dtype) and None)
        elif kind == "retain_grad":
            value.retain_grad()
        else:
            value.grad_fn.register_prehook(
                lambda grads: seen.setdefault(name, grads[0].dtype) and None
            )

    found = run(watch)
    if kind == "retain_grad":
        seen = {name: value.grad.dtype for name, value in kept.items()}
    assert seen == {name: value.dtype for name, value in kept.items()}
    assert {value.dtype for value in kept.values()} == {torch.float32, torch.bfloat16}
    for a, b in zip(found, run(), strict=True):
        assert torch.equal(a, b)


def test_a_hook_on_a_cast_weight():
    """The cast of a parameter is looked at: its gradient is of a half type, and used so."""
    weight = torch.randn(6, 4).cuda().requires_grad_()
    x, seen = torch.randn(5, 4).cuda().to(torch.bfloat16), []
    half = weight.to(torch.bfloat16)
    half.register_hook(lambda grad: seen.append(grad) or grad * 2)
    F.linear(x, half).sum().backward()
    assert seen[0].dtype == torch.bfloat16
    assert torch.equal(weight.grad, (seen[0] * 2).float())


def test_asked_for_by_name():
    model, x = make(), inputs()
    values = {}
    loss = loss_of(model, x, values.__setitem__)
    found = torch.autograd.grad(loss, [*values.values(), x])
    assert [grad.dtype for grad in found[:-1]] == [value.dtype for value in values.values()]
    assert torch.equal(found[-1], run()[-1])


def test_what_is_used_twice_adds_up_in_the_widest_dtype():
    """Halves that meet at a norm's result, or at a weight, are not added as halves."""
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(16).cuda()
    weights = [torch.randn(16, 16).cuda().requires_grad_() for _ in range(2)]
    x = torch.randn(9, 16).cuda().requires_grad_()
    g = [torch.randn(9, 16).cuda().to(torch.bfloat16) for _ in range(3)]

    def outputs(y):
        halves = [y.to(torch.bfloat16) for _ in range(3)]
        same = weights[1].to(torch.bfloat16)
        return [F.linear(halves[0], weights[0].to(torch.bfloat16)), halves[1] @ same.t(),
                F.linear(halves[2], same)]  # fmt: skip

    seen = []
    y = norm(x)
    torch.autograd.backward(outputs(y), g)
    found = [x.grad, *(w.grad for w in weights)]
    x.grad = weights[0].grad = weights[1].grad = None
    y = norm(x)
    y.register_hook(seen.append)
    torch.autograd.backward(outputs(y), g)
    for a, b in zip(found, [x.grad, *(w.grad for w in weights)], strict=True):
        assert torch.equal(a, b)
    halves = [w.detach().to(torch.bfloat16) for w in weights]
    terms = [g[0] @ halves[0], g[1] @ halves[1], g[2] @ halves[1]]
    wanted = terms[0].float() + terms[1].float() + terms[2].float()
    assert (seen[0] - wanted).abs().max().item() < 1e-5 * wanted.abs().max().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("width", [24, 40, 700, 20_000])
@pytest.mark.parametrize("centred", [True, False], ids=["layer_norm", "rms_norm"])
def test_a_norm_adds_to_what_waits(dtype, width, centred):
    """The sum of two gradients is written by the norm's kernel, with the bits of an add."""

    def sweep(watch):
        torch.manual_seed(0)
        norm = (torch.nn.LayerNorm if centred else torch.nn.RMSNorm)(width).cuda().to(dtype)
        x = torch.randn(5, width).cuda().to(dtype).requires_grad_()
        first = x * 1.5
        total = first + norm(first).sin()
        if watch:
            sine = total.grad_fn.next_functions[1][0]
            sine.next_functions[0][0].register_hook(lambda *_: None)
        y = total * 2
        kernels = kernels_of(lambda: y.backward(torch.ones_like(y)))
        return [x.grad, norm.weight.grad], kernels.get("add", 0)

    found, adds = sweep(False)
    wanted, more = sweep(True)
    assert more == adds + 1
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)


def test_a_norm_adds_to_what_waits_in_its_own_stream():
    """Also once the process has used other streams; what waits in another one is left to an add."""

    def sweep(other, watch):
        torch.manual_seed(0)
        norm = torch.nn.LayerNorm(24).cuda()
        x = torch.randn(5, 24).cuda().requires_grad_()
        first = x * 1.5
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            branch = norm(first).sin()
        torch.cuda.current_stream().wait_stream(other)
        total = first + branch
        if watch:
            sine = total.grad_fn.next_functions[1][0]
            sine.next_functions[0][0].register_hook(lambda *_: None)
        y = total * 2
        kernels = kernels_of(lambda: y.backward(torch.ones_like(y)))
        return [x.grad, norm.weight.grad], kernels.get("add", 0)

    for other, fewer in [(torch.cuda.Stream(), 0), (torch.cuda.current_stream(), 1)]:
        found, adds = sweep(other, False)
        wanted, more = sweep(other, True)
        assert more == adds + fewer
        for a, b in zip(found, wanted, strict=True):
            assert torch.equal(a, b)


def test_what_others_hold_is_not_written_to():
    """A gradient that the program keeps, or that goes to two entries, stays as it is."""
    norm = torch.nn.LayerNorm(8).cuda()
    x = torch.randn(3, 8).cuda().requires_grad_()
    kept = []
    y = x * 2
    z = y + norm(y)
    z.register_hook(kept.append)
    z.backward(torch.full((3, 8), 3.0).cuda())
    assert torch.equal(kept[0].cpu(), torch.full((3, 8), 3.0))
    given = torch.full((3, 8), 3.0).cuda()
    y = x * 2
    (y + norm(y)).backward(given)
    assert torch.equal(given.cpu(), torch.full((3, 8), 3.0))


def test_a_norm_whose_gradient_is_asked_for_alone():
    """What waits belongs to the sweep that runs, not to one that a hook starts inside of it."""
    norm = torch.nn.LayerNorm(8).cuda()
    x = torch.randn(3, 8).cuda().requires_grad_()
    y = x * 2
    inner = norm(y)
    z = y + inner
    found = []
    z.register_hook(
        lambda grad: found.append(torch.autograd.grad(inner, y, grad, retain_graph=True)[0]) or grad
    )
    z.backward(torch.ones_like(z))
    wanted = torch.autograd.grad(norm(y.detach().requires_grad_()).sum(), norm.bias)
    assert wanted[0].shape == (8,)
    alone = y.detach().requires_grad_()
    norm(alone).backward(torch.ones_like(z))
    assert torch.equal(found[0], alone.grad)
    assert (x.grad - 2 * (1 + alone.grad)).abs().max().item() < 1e-5


def test_checkpoints_and_anomalies_have_the_same_bits():
    wanted = run()
    model, x = make(), inputs()
    block = torch.utils.checkpoint.checkpoint(lambda x: loss_of(model, x), x, use_reentrant=False)
    block.backward()
    for a, b in zip(gradients(model, x), wanted, strict=True):
        assert torch.equal(a, b)
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        found = run()
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)


def test_fewer_passes_over_memory():
    """No cast of a parameter's gradient, none of what a norm gets, and no add behind it."""
    model, x = make(), inputs()
    loss = loss_of(model, x)
    kernels = kernels_of(loss.backward)
    # Casts: of the gradient of each sum to that of its branch.
    assert kernels["copy"] == 2
    # The norm is used three times, and so are its two parameters; each linear layer twice.
    assert kernels["layer_norm_backward"] == 3
