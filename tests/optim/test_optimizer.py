"""Groups, hooks, states, errors and switches of optimizers, in both libraries."""

import copy
import gc
import importlib
import pickle
import subprocess
import sys
import weakref

import pytest

NAMES = [
    *("SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta"),
    *("ASGD", "Rprop", "Adafactor", "LBFGS"),
]


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def base_module(torch):
    return importlib.import_module(f"{torch.__name__}.optim.optimizer")


def stepped(torch, kind="SGD", **options):
    """Return a parameter and an optimizer that has taken a step."""
    x = leaf(torch, 1.0, 2.0)
    optimizer = getattr(torch.optim, kind)([x], **options)
    (x * x).sum().backward()
    optimizer.step()
    return x, optimizer


# ---- construction


def test_parameters_come_from_any_iterable(torch):
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    optimizer = torch.optim.SGD(iter([x, y]), lr=0.5)
    assert len(optimizer.param_groups) == 1
    group = optimizer.param_groups[0]
    assert [param is each for param, each in zip(group["params"], (x, y), strict=True)] == [
        True
    ] * 2
    assert group["lr"] == 0.5
    assert group["momentum"] == 0
    assert optimizer.defaults["lr"] == 0.5


def test_a_bare_tensor_is_refused(torch):
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts"):
        torch.optim.SGD(leaf(torch, 1.0))


def test_no_parameters_are_refused(torch):
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        torch.optim.SGD([])


def test_other_things_than_tensors_are_refused(torch):
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is"):
        torch.optim.SGD([1.0])


def test_sets_are_refused(torch):
    with pytest.raises(TypeError, match="ordered collections"):
        torch.optim.SGD([{"params": {leaf(torch, 1.0)}}])


def test_a_group_must_be_a_dict(torch):
    optimizer = torch.optim.SGD([leaf(torch, 1.0)])
    with pytest.raises(TypeError, match="param_group must be a dict"):
        optimizer.add_param_group([leaf(torch, 1.0)])


def test_a_non_leaf_is_refused(torch):
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        torch.optim.SGD([leaf(torch, 1.0) * 2])


def test_a_non_leaf_that_retains_its_gradient_is_taken(torch):
    y = leaf(torch, 1.0) * 2
    y.retain_grad()
    optimizer = torch.optim.SGD([y])
    assert len(optimizer.param_groups[0]["params"]) == 1


def test_duplicates_in_a_group_are_warned_of(torch):
    x = leaf(torch, 1.0)
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters") as record:
        torch.optim.SGD([x, x])
    assert len(record) == 1


def test_the_warning_of_duplicates_names_the_callers_line(tapegrad):
    x = leaf(tapegrad, 1.0)
    with pytest.warns(UserWarning, match="duplicate parameters") as record:
        tapegrad.optim.Adam([x, x])
    assert record[0].filename == __file__


def test_one_parameter_in_two_groups_is_refused(torch):
    x = leaf(torch, 1.0)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        torch.optim.SGD([{"params": [x]}, {"params": [x]}])


def test_groups_are_added_with_the_defaults(torch):
    optimizer = torch.optim.SGD([leaf(torch, 1.0)], lr=0.1, momentum=0.5)
    optimizer.add_param_group({"params": leaf(torch, 2.0), "lr": 0.2})
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]
    assert [group["momentum"] for group in optimizer.param_groups] == [0.5, 0.5]
    assert isinstance(optimizer.param_groups[1]["params"], list)


def test_required_options_must_be_given(torch):
    required = base_module(torch).required

    class Descent(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": required})

    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Descent([leaf(torch, 1.0)])
    optimizer = Descent([{"params": [leaf(torch, 1.0)], "lr": 2.0}])
    assert optimizer.param_groups[0]["lr"] == 2.0


# ---- names


def test_names_are_kept_and_saved(torch):
    optimizer = torch.optim.SGD([("weight", leaf(torch, 1.0)), ("bias", leaf(torch, 2.0))])
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_names_for_all_or_for_none(torch):
    with pytest.raises(ValueError, match="Some param names are missing"):
        torch.optim.SGD([("weight", leaf(torch, 1.0)), leaf(torch, 2.0)])
    optimizer = torch.optim.SGD([leaf(torch, 1.0)])
    with pytest.raises(ValueError, match="cannot add param group with names"):
        optimizer.add_param_group({"params": [("bias", leaf(torch, 2.0))]})


def test_names_survive_a_state_without_them(torch):
    saved = torch.optim.SGD([leaf(torch, 1.0)]).state_dict()
    optimizer = torch.optim.SGD([("weight", leaf(torch, 1.0))])
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["param_names"] == ["weight"]


# ---- hyperparameters

BAD = [
    ("SGD", {"lr": -1.0}, "Invalid learning rate: -1.0"),
    ("SGD", {"momentum": -0.5}, "Invalid momentum value: -0.5"),
    ("SGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("SGD", {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
    ("SGD", {"nesterov": True, "momentum": 0.1, "dampening": 0.1}, "Nesterov momentum requires"),
    ("Adam", {"lr": -1.0}, "Invalid learning rate: -1.0"),
    ("Adam", {"lr": float("nan")}, "Invalid learning rate: nan"),
    ("Adam", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
    ("Adam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
    ("Adam", {"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
    ("Adam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("AdamW", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("Adamax", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("Adamax", {"eps": -1.0}, "Invalid epsilon value: -1.0"),
    ("NAdam", {"momentum_decay": -0.2}, "Invalid momentum_decay value: -0.2"),
    ("NAdam", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
    ("RAdam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("RMSprop", {"momentum": -1.0}, "Invalid momentum value: -1.0"),
    ("RMSprop", {"alpha": -1.0}, "Invalid alpha value: -1.0"),
    ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
    ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
    ("Adadelta", {"rho": 1.1}, "Invalid rho value: 1.1"),
    ("ASGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
    ("LBFGS", {"lr": -1.0}, "Invalid learning rate: -1.0"),
    ("Adafactor", {"beta2_decay": 0.1}, "beta2_decay should be <= 0 but is: 0.1"),
    ("Adafactor", {"eps": (-1e-30, 1e-3)}, "epsilon1 should be >= 0 but is: -1e-30"),
    ("Adafactor", {"eps": (None, -1e-3)}, "epsilon2 should be >= 0 but is: -0.001"),
    ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
    ("Adafactor", {"weight_decay": -1.0}, "weight_decay should be >= 0 but is: -1.0"),
    ("Muon", {"momentum": -1.0}, "momentum should be >= 0 but is: -1.0"),
    ("Muon", {"weight_decay": -1.0}, "weight decay should be >= 0 but is: -1.0"),
    ("Muon", {"adjust_lr_fn": "x"}, "Adjust learning rate function x is not supported"),
]


@pytest.mark.parametrize("kind, options, message", BAD)
def test_bad_hyperparameters_are_refused(torch, kind, options, message):
    param = torch.zeros(2, 2, requires_grad=True)
    with pytest.raises(ValueError) as caught:
        getattr(torch.optim, kind)([param], **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", [*NAMES, "Muon"])
def test_a_rate_of_several_elements_is_refused(torch, kind):
    param = torch.zeros(2, 2, requires_grad=True)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(torch.optim, kind)([param], lr=torch.ones(2))


def test_tensor_options_of_adam_are_restricted_as_in_pytorch(torch):
    x = leaf(torch, 1.0)
    with pytest.raises(ValueError, match="lr as a Tensor is not supported"):
        torch.optim.Adam([x], lr=torch.tensor(0.1), foreach=True)
    with pytest.raises(ValueError, match="betas must be either both floats or both Tensors"):
        torch.optim.Adam([x], betas=(torch.tensor(0.9), 0.99))


# ---- switches


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_and_foreach_exclude_each_other(torch, kind):
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
        getattr(torch.optim, kind)([leaf(torch, 1.0)], fused=True, foreach=True)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_and_differentiable_exclude_each_other(torch, kind):
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        getattr(torch.optim, kind)([leaf(torch, 1.0)], fused=True, differentiable=True)


@pytest.mark.parametrize("kind", ["Adam", "Adamax", "NAdam", "RAdam", "RMSprop", "ASGD", "Rprop"])
def test_capturable_is_for_other_devices(torch, kind):
    with pytest.raises(AssertionError, match=r"capturable=True, params.* must be on"):
        stepped(torch, kind, capturable=True)


@pytest.mark.parametrize("kind", [name for name in NAMES if name not in ("LBFGS", "Adafactor")])
def test_differentiable_is_refused(tapegrad, kind):
    with pytest.raises(NotImplementedError, match=f"{kind}: differentiable=True is not supported"):
        getattr(tapegrad.optim, kind)([leaf(tapegrad, 1.0)], differentiable=True)


def test_differentiable_is_refused_in_a_loaded_state(tapegrad):
    x, optimizer = stepped(tapegrad, "Adam")
    saved = optimizer.state_dict()
    saved["param_groups"][0]["differentiable"] = True
    optimizer.load_state_dict(saved)
    with pytest.raises(NotImplementedError, match="Adam: differentiable=True is not supported"):
        optimizer.step()
    assert x.requires_grad


# ---- stepping


@pytest.mark.parametrize("kind", NAMES)
def test_a_closure_runs_with_recording_and_its_loss_is_returned(torch, kind):
    x = leaf(torch, 1.0, 2.0)
    optimizer = getattr(torch.optim, kind)([x])
    seen = []

    def closure():
        seen.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss.detach()

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert float(loss) == 5.0
    assert all(seen)
    assert seen
    assert x.tolist() != [1.0, 2.0]


@pytest.mark.parametrize("kind", NAMES[:-1])
def test_a_step_without_closure_returns_none_and_records_nothing(torch, kind):
    x, optimizer = stepped(torch, kind)
    assert optimizer.step() is None
    assert torch.is_grad_enabled()
    assert x.is_leaf
    assert x.requires_grad
    assert not any(
        value.requires_grad for value in optimizer.state[x].values() if hasattr(value, "numpy")
    )


def test_recording_is_on_again_after_an_error_in_a_step(torch):
    x = leaf(torch, 1.0, 2.0)
    optimizer = torch.optim.Adam([x])
    optimizer.state[x]["step"] = torch.tensor(0.0)
    x.sum().backward()
    with pytest.raises(KeyError):
        optimizer.step()
    assert torch.is_grad_enabled()


def test_gradients_are_forgotten_or_zeroed(torch):
    x, optimizer = stepped(torch)
    grad = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert x.grad is None
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is None


def test_zeroing_detaches_gradients_that_have_a_graph(torch):
    x = leaf(torch, 1.0, 2.0)
    optimizer = torch.optim.SGD([x])
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    x.grad = grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.tolist() == [0.0, 0.0]
    assert x.grad.grad_fn is None
    assert not x.grad.requires_grad


def test_the_base_class_has_no_step(torch):
    optimizer = torch.optim.Optimizer([leaf(torch, 1.0)], {})
    with pytest.raises(NotImplementedError):
        optimizer.step()


def test_gradients_are_left_as_they_are(torch):
    x = leaf(torch, 1.0, 2.0)
    optimizer = torch.optim.SGD([x], weight_decay=0.1, momentum=0.9, nesterov=True, maximize=True)
    (x * x).sum().backward()
    for _ in range(2):
        optimizer.step()
    assert x.grad.tolist() == [2.0, 4.0]


def test_the_momentum_buffer_is_no_alias_of_the_gradient(torch):
    x, optimizer = stepped(torch, momentum=0.9)
    optimizer.zero_grad(set_to_none=False)
    assert optimizer.state[x]["momentum_buffer"].tolist() == [2.0, 4.0]


# ---- hooks


def test_step_hooks_run_around_the_step(torch):
    x, optimizer = stepped(torch)
    calls = []
    before = optimizer.register_step_pre_hook(
        lambda opt, args, kwargs: calls.append(("pre", opt is optimizer, len(args), x.tolist()))
    )
    after = optimizer.register_step_post_hook(
        lambda opt, args, kwargs: calls.append(("post", opt is optimizer, len(args), x.tolist()))
    )
    start = x.tolist()
    optimizer.step()
    assert calls == [("pre", True, 1, start), ("post", True, 1, x.tolist())]
    assert x.tolist() != start
    before.remove()
    after.remove()
    optimizer.step()
    assert len(calls) == 2


def test_a_pre_hook_may_change_the_arguments(torch):
    _, optimizer = stepped(torch)
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: (args, {"closure": lambda: 7.0}))
    assert optimizer.step() == 7.0


def test_a_pre_hook_that_returns_something_else_is_refused(torch):
    _, optimizer = stepped(torch)
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_hooks_for_all_optimizers(torch):
    module = base_module(torch)
    calls = []
    with (
        module.register_optimizer_step_pre_hook(lambda *args: calls.append("pre")),
        module.register_optimizer_step_post_hook(lambda *args: calls.append("post")),
    ):
        stepped(torch)
        stepped(torch, "Adam")
    assert calls == ["pre", "post"] * 2
    stepped(torch)
    assert len(calls) == 4


def test_a_subclass_that_does_not_call_its_base_class_steps_without_hooks(torch):
    """Wrappers of other packages only pass on what an optimizer has; they step in PyTorch too."""

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner, self.param_groups = inner, inner.param_groups

        def step(self, closure=None):
            return self.inner.step(closure)

    x, optimizer = stepped(torch)
    start = x.tolist()
    Wrapper(optimizer).step()
    assert x.tolist() != start


def test_hooks_run_for_a_subclass_that_overrides_step(torch):
    class Slow(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            return "slow"

    optimizer = Slow([leaf(torch, 1.0)])
    calls = []
    optimizer.register_step_post_hook(lambda *args: calls.append("post"))
    assert optimizer.step() == "slow"
    assert calls == ["post"]


def test_a_step_that_calls_its_bases_step_is_one_step(tapegrad):
    class Noted(tapegrad.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    x = leaf(tapegrad, 1.0)
    optimizer = Noted([x], lr=1.0)
    calls = []
    optimizer.register_step_pre_hook(lambda *args: calls.append("pre"))
    x.sum().backward()
    optimizer.step()
    assert calls == ["pre"]
    assert x.tolist() == [0.0]


def test_state_dict_hooks(torch):
    _, optimizer = stepped(torch, momentum=0.9)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda opt: calls.append("second"))
    optimizer.register_state_dict_pre_hook(lambda opt: calls.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda opt, state: state.update(note="kept"))
    optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "more": 1})
    saved = optimizer.state_dict()
    assert calls == ["first", "second"]
    assert saved["note"] == "kept"
    assert saved["more"] == 1


def test_load_state_dict_hooks(torch):
    _, optimizer = stepped(torch, momentum=0.9)
    saved = optimizer.state_dict()
    calls = []

    def change(opt, state):
        groups = copy.deepcopy(state["param_groups"])
        groups[0]["lr"] = 5.0
        return {**state, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(change)
    optimizer.register_load_state_dict_post_hook(
        lambda opt: calls.append(opt.param_groups[0]["lr"])
    )
    optimizer.load_state_dict(saved)
    assert calls == [5.0]
    assert saved["param_groups"][0]["lr"] != 5.0


# ---- states


def test_parameters_are_numbered_through_the_groups(torch):
    groups = [{"params": [leaf(torch, 1.0), leaf(torch, 2.0)]}, {"params": [leaf(torch, 3.0)]}]
    saved = torch.optim.SGD(groups).state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2]]
    assert saved["state"] == {}


def test_states_of_other_groups_are_refused(torch):
    saved = torch.optim.SGD([leaf(torch, 1.0)]).state_dict()
    two = torch.optim.SGD([{"params": [leaf(torch, 1.0)]}, {"params": [leaf(torch, 1.0)]}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        two.load_state_dict(saved)
    longer = torch.optim.SGD([leaf(torch, 1.0), leaf(torch, 1.0)])
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        longer.load_state_dict(saved)


def test_loading_converts_to_the_parameters_dtype_but_for_steps(torch):
    _, optimizer = stepped(torch, "Adam")
    saved = optimizer.state_dict()
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    other = torch.optim.Adam([x])
    other.load_state_dict(saved)
    assert other.state[x]["exp_avg"].dtype is torch.float64
    assert other.state[x]["step"].dtype is torch.float32


def test_loading_copies(tapegrad):
    x, optimizer = stepped(tapegrad, "Adam")
    y, other = stepped(tapegrad, "Adam")
    other.load_state_dict(optimizer.state_dict())
    before = optimizer.state[x]["exp_avg"].tolist(), optimizer.state[x]["step"].item()
    other.step()
    assert (optimizer.state[x]["exp_avg"].tolist(), optimizer.state[x]["step"].item()) == before
    assert other.state[y]["step"].item() == 2.0


def test_loading_leaves_the_given_dict_alone(torch):
    _, optimizer = stepped(torch, "Adam")
    saved = optimizer.state_dict()
    optimizer.load_state_dict(saved)
    assert saved["param_groups"][0]["params"] == [0]
    assert list(saved["state"]) == [0]


@pytest.mark.parametrize("kind", ["Adam", "NAdam", "ASGD", "Rprop", "Adadelta", "RMSprop"])
def test_steps_that_are_numbers_in_an_old_state_become_tensors(torch, kind):
    x, optimizer = stepped(torch, kind)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"] = 1
    del saved["param_groups"][0]["maximize"]
    optimizer.load_state_dict(saved)
    assert optimizer.state[x]["step"].item() == 1.0
    assert optimizer.param_groups[0]["maximize"] is False
    optimizer.step()
    assert optimizer.state[x]["step"].item() == 2.0


def test_states_without_a_parameter_are_kept(torch):
    _, optimizer = stepped(torch)
    saved = optimizer.state_dict()
    saved["state"]["note"] = {"seen": 3}
    optimizer.load_state_dict(saved)
    assert optimizer.state["note"] == {"seen": 3}
    assert optimizer.state_dict()["state"]["note"] == {"seen": 3}


def test_copies_step_on_their_own(torch):
    x, optimizer = stepped(torch, "Adam")
    twin = copy.deepcopy(optimizer)
    (y,) = twin.param_groups[0]["params"]
    assert y is not x
    assert y.tolist() == x.tolist()
    y.grad = torch.ones(2)
    twin.step()
    assert twin.state[y]["step"].item() == 2.0
    assert optimizer.state[x]["step"].item() == 1.0


def test_optimizers_are_pickled_with_their_parameters(torch):
    x, optimizer = stepped(torch, "Adam")
    twin = pickle.loads(pickle.dumps(optimizer))
    (y,) = twin.param_groups[0]["params"]
    assert y.tolist() == x.tolist()
    assert twin.state[y]["exp_avg"].tolist() == optimizer.state[x]["exp_avg"].tolist()
    twin.zero_grad()
    twin.step()
    assert y.tolist() == x.tolist()


def test_repr_is_pytorchs(both):
    texts = []
    for torch in both:
        groups = [{"params": [leaf(torch, 1.0)]}, {"params": [leaf(torch, 1.0)], "lr": 0.5}]
        texts.append(repr(torch.optim.Adam(groups)))
    assert texts[0] == texts[1]
    assert texts[0].startswith("Adam (\nParameter Group 0\n    amsgrad: False\n")


@pytest.mark.parametrize("kind", [*NAMES, "Muon"])
def test_defaults_are_pytorchs(both, kind):
    defaults = [
        getattr(torch.optim, kind)([torch.zeros(2, 2, requires_grad=True)]).defaults
        for torch in both
    ]
    assert defaults[0] == defaults[1]
    assert list(defaults[0]) == list(defaults[1])


def test_an_optimizer_leaves_no_garbage(tapegrad):
    x, optimizer = stepped(tapegrad, "Adam")
    scheduler = tapegrad.optim.lr_scheduler.StepLR(optimizer, 3)
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer, scheduler
        assert gone() is None
    finally:
        gc.enable()
    assert x.requires_grad


def test_everything_public_is_documented(tapegrad):
    modules = tapegrad.optim, tapegrad.optim.lr_scheduler, tapegrad.optim.swa_utils
    found = [(module, name) for module in modules for name in module.__all__]
    assert len(found) > 35
    for module, name in found:
        thing = getattr(module, name)
        assert (thing.__doc__ or "").strip(), name
        if isinstance(thing, type):
            methods = {key: value for key, value in vars(thing).items() if callable(value)}
            bare = [key for key, value in methods.items() if key[0] != "_" and not value.__doc__]
            assert not bare, f"{name}: no docstring: {bare}"


def test_optim_is_loaded_on_first_use(tapegrad, tmp_path):
    code = (
        "import sys, tapegrad; assert 'tapegrad.optim' not in sys.modules; "
        "tapegrad.optim.SGD; assert 'tapegrad.optim' in sys.modules; "
        "assert not hasattr(tapegrad, 'nonsense')"
    )
    # Elsewhere than in the checkout, whose folder would come before the installed package.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
