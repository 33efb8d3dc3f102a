"""Hooks of modules: forward, backward, of one module and of all."""

import copy
import gc
import pickle
import weakref

import pytest


def linear(torch, weight=2.0):
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(layer.weight, weight)
    return layer


def one(torch, value=3.0, requires_grad=False):
    return torch.tensor([[value]], requires_grad=requires_grad)


def test_forward_hook_sees_and_replaces(torch):
    layer = linear(torch)
    seen = []

    def hook(module, args, output):
        seen.append((module is layer, args[0].item(), output.item()))
        return output + 1

    handle = layer.register_forward_hook(hook)
    assert layer(one(torch)).item() == 7 and seen == [(True, 3.0, 6.0)]
    handle.remove()
    assert layer(one(torch)).item() == 6 and len(seen) == 1


def test_forward_pre_hook_replaces_arguments(torch):
    layer = linear(torch)
    layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 10,))
    assert layer(one(torch)).item() == 80


def test_hooks_with_kwargs(torch):
    class Scaled(torch.nn.Module):
        def forward(self, x, *, factor=1):
            return x * factor

    module = Scaled()
    seen = []

    def before(module, args, kwargs):
        return args, {"factor": kwargs["factor"] + 1}

    def after(module, args, kwargs, output):
        seen.append(kwargs["factor"])
        return output - 1

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after, with_kwargs=True)
    assert module(one(torch), factor=4).item() == 14 and seen == [5]


def test_a_pre_hook_with_kwargs_must_return_a_pair(torch):
    layer = linear(torch)
    layer.register_forward_pre_hook(lambda module, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="forward pre-hook must return None or a tuple"):
        layer(one(torch))


def test_prepend(torch):
    layer = linear(torch)
    order = []
    layer.register_forward_hook(lambda *args: order.append("first"))
    layer.register_forward_hook(lambda *args: order.append("second"), prepend=True)
    layer.register_forward_pre_hook(lambda *args: order.append("third"))
    layer.register_forward_pre_hook(lambda *args: order.append("fourth"), prepend=True)
    layer(one(torch))
    assert order == ["fourth", "third", "second", "first"]


def test_always_call(torch):
    class Failing(torch.nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    module = Failing()
    seen = []
    module.register_forward_hook(lambda *args: seen.append("no"))
    module.register_forward_hook(lambda *args: seen.append(args[2]), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        module(one(torch))
    assert seen == [None]


def test_an_error_of_an_always_called_hook_is_a_warning(torch):
    class Failing(torch.nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    def hook(module, args, output):
        raise KeyError("hook")

    module = Failing()
    module.register_forward_hook(hook, always_call=True)
    with pytest.warns(UserWarning, match="silenced"), pytest.raises(ValueError, match="broken"):
        module(one(torch))


def test_full_backward_hook(torch):
    layer = linear(torch)
    seen = []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].item(), grad_output[0].item()))
        return (grad_input[0] * 10,)

    handle = layer.register_full_backward_hook(hook)
    x = one(torch, requires_grad=True)
    (layer(x) * 5).sum().backward()
    assert seen == [(10.0, 5.0)] and x.grad.item() == 100 and layer.weight.grad.item() == 15
    handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 1 and x.grad.item() == 102


def test_full_backward_pre_hook(torch):
    layer = linear(torch)
    layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
    seen = []
    layer.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(grad_output[0].item())
    )
    x = one(torch, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.item() == 6 and layer.weight.grad.item() == 9 and seen == [3.0]


def test_backward_hook_without_inputs_that_require_grad(torch):
    layer = linear(torch)
    seen = []
    layer.register_full_backward_hook(lambda module, *grads: seen.append(grads))
    with pytest.warns(UserWarning, match="since no inputs require gradients"):
        layer(one(torch)).sum().backward()
    ((grad_input, grad_output),) = seen
    assert all(grad is None for grad in grad_input)
    assert grad_output[0].item() == 1


def test_backward_hook_with_several_inputs_and_outputs(torch):
    class Two(torch.nn.Module):
        def forward(self, x, scale, y):
            return x * scale, x * y

    module = Two()
    seen = []
    module.register_full_backward_hook(lambda module, *grads: seen.append(grads))
    x, y = one(torch, 2.0, True), one(torch, 5.0)
    first, second = module(x, 3, y)
    (first + second).sum().backward()
    ((grad_input, grad_output),) = seen
    assert len(grad_input) == 3 and grad_input[1] is None
    assert grad_input[0].item() == 8 and grad_input[2].item() == 0
    assert [grad.item() for grad in grad_output] == [1.0, 1.0]


def test_backward_hook_with_an_unused_output(torch):
    class Two(torch.nn.Module):
        def forward(self, x):
            return x * 2, x * 3

    module = Two()
    seen = []
    module.register_full_backward_hook(lambda module, *grads: seen.append(grads[1]))
    x = one(torch, 2.0, True)
    module(x)[0].sum().backward()
    assert x.grad.item() == 2 and seen[0][0].item() == 1
    assert seen[0][1] is None or seen[0][1].item() == 0


@pytest.mark.parametrize("kind", ["hook", "pre_hook"])
def test_a_backward_hook_returns_as_many(torch, kind):
    layer = linear(torch)
    getattr(layer, f"register_full_backward_{kind}")(lambda module, *grads: (None, None))
    with pytest.raises(RuntimeError, match="invalid number of grad"):
        layer(one(torch, requires_grad=True)).sum().backward()


def test_prepended_backward_hooks(torch):
    layer = linear(torch)
    order = []
    layer.register_full_backward_hook(lambda *args: order.append("first"))
    layer.register_full_backward_hook(lambda *args: order.append("second"), prepend=True)
    layer(one(torch, requires_grad=True)).sum().backward()
    assert order == ["second", "first"]


def test_backward_hooks_warn_of_other_outputs(torch):
    class Listing(torch.nn.Module):
        def forward(self, x):
            return {"x": x * 2}

    module = Listing()
    module.register_full_backward_hook(lambda *args: None)
    with pytest.warns(UserWarning, match="For backward hooks to be called"):
        module(one(torch, requires_grad=True))


def test_backward_hooks_do_nothing_without_recording(torch):
    layer = linear(torch)
    layer.register_full_backward_hook(lambda *args: None)
    with torch.no_grad():
        assert layer(one(torch)).grad_fn is None


def test_old_and_full_hooks_do_not_mix(torch):
    layer = linear(torch)
    layer.register_full_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="both"):
        layer.register_backward_hook(lambda *args: None)


def test_double_backward_through_hooked_modules(torch):
    layer = linear(torch)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    x = one(torch, requires_grad=True)
    (grad,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert grad.item() == 24 and second.item() == 8


def test_global_forward_hooks(torch):
    hooks = torch.nn.modules.module
    seen = []
    handles = [
        hooks.register_module_forward_pre_hook(lambda module, args: seen.append("before")),
        hooks.register_module_forward_hook(lambda module, args, output: output + 1),
    ]
    try:
        model = torch.nn.Sequential(linear(torch))
        assert model(one(torch)).item() == 8 and seen == ["before", "before"]
    finally:
        for handle in handles:
            handle.remove()
    assert model(one(torch)).item() == 6 and len(seen) == 2


def test_global_backward_hooks(torch):
    hooks = torch.nn.modules.module
    seen = []
    handles = [
        hooks.register_module_full_backward_pre_hook(
            lambda module, grad_output: seen.append("before")
        ),
        hooks.register_module_full_backward_hook(
            lambda module, grad_input, grad_output: (grad_input[0] * 10,)
        ),
    ]
    x = one(torch, requires_grad=True)
    try:
        linear(torch)(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert x.grad.item() == 20 and seen == ["before"]


def test_global_registration_hooks(torch):
    hooks = torch.nn.modules.module
    seen = []
    registrations = ("parameter", "buffer", "module")
    handles = [
        getattr(hooks, f"register_module_{kind}_registration_hook")(
            lambda module, name, value, kind=kind: seen.append((kind, name))
        )
        for kind in registrations
    ]
    try:
        module = torch.nn.Module()
        module.register_buffer("b", torch.ones(1))
        module.w = torch.nn.Parameter(torch.ones(1))
        module.child = torch.nn.Module()
        module.add_module("other", torch.nn.Module())
    finally:
        for handle in handles:
            handle.remove()
    assert seen == [("buffer", "b"), ("parameter", "w"), ("module", "child"), ("module", "other")]


def test_a_handle_is_a_context_manager(torch):
    layer = linear(torch)
    with layer.register_forward_hook(lambda module, args, output: output + 1):
        assert layer(one(torch)).item() == 7
    assert layer(one(torch)).item() == 6


def test_no_hooks_are_looked_at_after_the_last_is_removed():
    import tapegrad

    layer = tapegrad.nn.Linear(1, 1)
    handle = layer.register_forward_hook(lambda *args: None)
    assert layer._any_hooks
    handle.remove()
    assert not layer._any_hooks


def test_load_state_dict_hooks_of_children_see_their_own_keys(torch):
    seen = []

    class Part(torch.nn.Module):
        def __init__(self, **parts):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            for name, part in parts.items():
                setattr(self, name, part)
            self._register_load_state_dict_pre_hook(self.note)

        def note(self, state_dict, prefix, *_):
            seen.append((prefix, type(state_dict) is dict, list(state_dict)))

    model = Part(a=Part(b=Part()), ab=Part())
    model.load_state_dict(model.state_dict())
    everything = ["weight", "a.weight", "a.b.weight", "ab.weight"]
    assert seen == [
        ("", False, everything),
        ("a.", True, ["a.weight", "a.b.weight"]),
        ("a.b.", True, ["a.b.weight"]),
        ("ab.", True, ["ab.weight"]),
    ]


def test_a_module_with_a_load_state_dict_pre_hook_is_freed_at_once(torch):
    layer = linear(torch)
    layer.register_load_state_dict_pre_hook(lambda *_: None)
    gone = weakref.ref(layer)
    gc.disable()
    try:
        del layer
        assert gone() is None
    finally:
        gc.enable()


def keep_count(module, *_):
    module.count = getattr(module, "count", 0) + 1


def test_a_load_state_dict_pre_hook_is_copied_with_its_module(torch):
    layer = linear(torch)
    layer.register_load_state_dict_pre_hook(keep_count)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        twin.load_state_dict(layer.state_dict())
        assert twin.count == 1 and not hasattr(layer, "count")
