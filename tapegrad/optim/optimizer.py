"""What all optimizers share: parameter groups, per-parameter state, hooks, saving and loading.

Where to start reading: `Optimizer` is PyTorch's base class, for any subclass to override
``step``. `GroupwiseOptimizer` below it is what most of the algorithms of this package build on: it
runs the closure and updates each group by one native call, which reads parameters, gradients,
options and state where they lie (csrc/ops/optimizer.cpp). What that call does not take (a first
step, odd layouts, memory shared between parameters, an algorithm without native step) is collected
here and handed, as lists, to one function per algorithm, which says the same in tensor ops.
"""

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import tapegrad
from tapegrad import _C, Tensor
from tapegrad.optim._torch_helpers import (
    default_to_fused_or_foreach as _default_to_fused_or_foreach,  # noqa: F401
)
from tapegrad.optim._torch_helpers import (
    get_capturable_supported_devices as _get_capturable_supported_devices,  # noqa: F401
)
from tapegrad.optim._torch_helpers import group_tensors_by_device_and_dtype
from tapegrad.optim._torch_helpers import (
    use_grad_for_differentiable as _use_grad_for_differentiable,  # noqa: F401
)
from tapegrad.utils.hooks import RemovableHandle, register

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

Group = dict[str, Any]
Params = Iterable[Any]  # of tensors, of (name, tensor) pairs, or of groups
ParamsT = Params
Closure = Callable[[], Any]

printed = [0]  # how often an optimizer was: traces read its options anew, texts do not
_global_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

# What a group of an older or foreign checkpoint means where it does not mention a switch.
_UNMENTIONED = {
    "amsgrad": False,
    "capturable": False,
    "centered": False,
    "decoupled_weight_decay": False,
    "differentiable": False,
    "foreach": None,
    "fused": None,
    "maximize": False,
    "momentum": 0,
    "nesterov": False,
}


_NATIVE = {name: number for number, name in enumerate(_C._optimizer_names())}


class _Required:
    """Stands among the defaults for an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a function before each step of every optimizer.

    Args:
        hook: called as ``hook(optimizer, args, kwargs)``, where ``args`` begins with the optimizer;
            it returns None, or new ``(args, kwargs)`` for the step.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    return register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call a function after each step of every optimizer.

    Args:
        hook: called as ``hook(optimizer, args, kwargs)``.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    return register(_global_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a class's step so that hooks run around it.

    A step that calls the step of its base class is one step: only the outermost runs the hooks.
    """

    @functools.wraps(step)
    def hooked_step(self: "Optimizer", *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        if self._opt_called is not None:
            self._opt_called = True
        self._stepping = True
        args = (self, *args)
        try:
            if _global_pre_hooks or self._optimizer_step_pre_hooks:
                args, kwargs = _call_pre_hooks(self, args, kwargs)
            result = step(*args, **kwargs)
            if _global_post_hooks or self._optimizer_step_post_hooks:
                _call_post_hooks(self, args, kwargs)
            return result
        finally:
            self._stepping = False

    hooked_step.hooked = True  # type: ignore[attr-defined]
    return hooked_step


def _call_pre_hooks(
    self: "Optimizer", args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the arguments of a step, as the hooks have changed them."""
    for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
        changed = hook(self, args, kwargs)
        if changed is not None:
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{type(self).__name__}.step: a step pre hook must return None or a tuple of "
                    f"(new_args, new_kwargs), but got {changed}"
                )
            args, kwargs = changed
    return args, kwargs


def _call_post_hooks(self: "Optimizer", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
        hook(self, args, kwargs)


class Optimizer:
    """The base class of all optimizers.

    Args:
        params: tensors, ``(name, tensor)`` pairs, or dicts that describe parameter groups, in an
            order that is the same in every run.
        defaults: the options and their values for groups that do not give them.

    Attributes:
        param_groups: a list of dicts, each with its ``params`` and options.
        state: what the algorithm keeps for each parameter.
        defaults: the options of groups that do not give them.

    Example:
        >>> class Descent(torch.optim.Optimizer):
        ...     def __init__(self, params, lr):
        ...         super().__init__(params, {"lr": lr})
        ...     @torch.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p.sub_(p.grad, alpha=group["lr"])
        >>> x = torch.tensor(1.0, requires_grad=True)
        >>> optimizer = Descent([x], lr=0.25)
        >>> (x * x).backward()
        >>> optimizer.step()
        >>> x
        tensor(0.5000, requires_grad=True)
    """

    # Entries of a parameter's state that are 0-d tensors; old checkpoints have them as numbers.
    _scalar_state: tuple[str, ...] = ("step",)
    _takes_complex = True

    # Of a class that does not call ours: its step runs without hooks, and takes none.
    _optimizer_step_pre_hooks: Any = MappingProxyType({})
    _optimizer_step_post_hooks: Any = MappingProxyType({})

    _stepping = False
    _opt_called: bool | None = None  # None until a scheduler wants to know whether step was called

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(
                f"{name}: the params argument given to the optimizer should be an iterable of "
                "Tensors or dicts, but got a Tensor; write [tensor]"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._make_hooks()
        if not hasattr(params, "__iter__") and hasattr(params, "parameters"):
            raise TypeError(
                f"{name}: {type(params).__name__!r} object is not iterable; pass its .parameters()"
            )
        groups = list(params)
        if not groups:
            raise ValueError(f"{name}: optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        hooks = Callable[..., Any]
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, hooks] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, hooks] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, hooks] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, hooks] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._make_hooks()
        for group in self.param_groups:
            for key, default in self.defaults.items():
                group.setdefault(key, _UNMENTIONED.get(key, default))
        for entry in self.state.values():
            for key in self._scalar_state if isinstance(entry, dict) else ():
                if key in entry and not isinstance(entry[key], Tensor):
                    entry[key] = scalar(float(entry[key]))

    def __repr__(self) -> str:
        printed[0] += 1
        text = type(self).__name__ + " ("
        for index, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {index}\n" + "".join(lines)
        return text + ")"

    # ---- parameter groups

    _group_tensors_by_device_and_dtype = staticmethod(group_tensors_by_device_and_dtype)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, such as layers that are trained from now on.

        Args:
            param_group: a dict with ``params`` and the options that differ from the defaults.

        Example:
            >>> x, y = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
            >>> optimizer = torch.optim.SGD([x], lr=0.1)
            >>> optimizer.add_param_group({"params": [y], "lr": 0.01})
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.1, 0.01]
        """
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: param_group must be a dict, but got {type(param_group)}")
        _unpack_parameters(name, param_group)
        for key, default in self.defaults.items():
            if default is required and key not in param_group:
                raise ValueError(
                    f"{name}: parameter group didn't specify a value of required optimization "
                    f"parameter {key}"
                )
            param_group.setdefault(key, default)
        for param in param_group["params"]:
            _check_parameter(name, param, self._takes_complex)
        self._check_against_other_groups(name, param_group)
        self.param_groups.append(param_group)

    def _check_against_other_groups(self, name: str, param_group: Group) -> None:
        params = set(param_group["params"])
        if len(params) != len(param_group["params"]):
            warnings.warn(
                f"{name}: optimizer contains a parameter group with duplicate parameters; each is "
                "updated as often as it is listed; in future, this will cause an error",
                stacklevel=_stacklevel_outside(),
            )
        named = "param_names" in param_group
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError(
                    f"{name}: all optimizer param groups should be with/without names. cannot add "
                    f"param group {'with' if named else 'without'} names to the optimizer"
                )
            if not params.isdisjoint(group["params"]):
                raise ValueError(f"{name}: some parameters appear in more than one parameter group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_none: True drops the tensors, so that parameters without a new gradient are
                skipped by the next step; False fills them with zeros.

        Example:
            >>> x = torch.ones(2, requires_grad=True)
            >>> optimizer = torch.optim.SGD([x])
            >>> x.sum().backward()
            >>> optimizer.zero_grad()
            >>> x.grad is None
            True
        """
        for group in self.param_groups:
            with suppress(NotImplementedError):  # a sparse parameter is among them
                if set_to_none and _C._drop_gradients(group["params"]):
                    continue
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    if param.grad.grad_fn is not None:
                        param.grad.detach_()
                    else:
                        param.grad.requires_grad_(False)
                    param.grad.zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once.

        Args:
            closure: computes the loss and its gradients anew and returns the loss; most optimizers
                do without.

        Returns:
            What the closure returned, or None.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.step: expected a subclass of Optimizer that defines step"
        )

    # ---- hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step.

        Args:
            hook: returns None, or new ``(args, kwargs)``; ``args`` begins with the optimizer.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step.

        Args:
            hook: returns nothing.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[["Optimizer"], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before each `state_dict`.

        Args:
            hook: returns nothing.
            prepend: True puts it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return _register_at(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[["Optimizer", dict[str, Any]], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` with the result of each `state_dict`.

        Args:
            hook: changes the dict, or returns another to take its place.
            prepend: True puts it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return _register_at(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[["Optimizer", dict[str, Any]], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before each `load_state_dict`.

        Args:
            hook: gets a shallow copy of the dict to change, or returns another to load instead.
            prepend: True puts it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return _register_at(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[["Optimizer"], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after each `load_state_dict`.

        Args:
            hook: returns nothing.
            prepend: True puts it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return _register_at(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- saving and loading

    def state_dict(self) -> dict[str, Any]:
        """Return the state in PyTorch's layout, with numbers in the place of parameters.

        Returns:
            A dict with ``state``, from a parameter's number to its entries, and ``param_groups``.
            The tensors are the optimizer's own: copy what must not follow its next steps.

        Example:
            >>> x = torch.ones(2, requires_grad=True)
            >>> optimizer = torch.optim.SGD([x], momentum=0.9)
            >>> x.sum().backward()
            >>> optimizer.step()
            >>> optimizer.state_dict()["state"]
            {0: {'momentum_buffer': tensor([1., 1.])}}
        """
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        numbers: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            for number, param in enumerate(group["params"], start):
                numbers.setdefault(id(param), number)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: entry
            for key, entry in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for after in self._optimizer_state_dict_post_hooks.values():
            changed = after(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, here or in PyTorch.

        Tensors are copied, and converted to their parameter's dtype, but for counts of steps and
        the like; parameters are matched by their position in the groups.

        Args:
            state_dict: a dict with ``state`` and ``param_groups``.
        """
        import copy

        state_dict = state_dict.copy()
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            changed = before(self, state_dict)
            if changed is not None:
                state_dict = changed
        saved_groups = copy.deepcopy(state_dict["param_groups"])
        self._check_groups_match(saved_groups)
        params: dict[Any, tuple[Tensor, Any]] = {}
        for group, saved in zip(self.param_groups, saved_groups, strict=True):
            fused = saved.get("fused") or saved.get("capturable")
            for key, param in zip(saved["params"], group["params"], strict=True):
                params[key] = param, fused
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, entry in state_dict["state"].items():
            if key in params:
                param, fused = params[key]
                state[param] = self._loaded_entry(param, entry, fused)
            else:
                state[key] = entry
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def _loaded_entry(self, param: Tensor, entry: Any, fused: Any) -> Any:
        """Return a copy of a parameter's state.

        Counts and the like keep their dtype: they would be rounded differently in another, and
        the continuation would not be the same. They go where `scalar` makes them.
        """
        loaded = _copied_for(param, entry)
        for key in self._scalar_state if isinstance(entry, dict) else ():
            if isinstance(entry.get(key), Tensor):
                narrow = fused and key == "step"
                dtype = tapegrad.float32 if narrow else entry[key].dtype
                device = param.device if fused else "cpu"
                loaded[key] = entry[key].to(device=device, dtype=dtype, copy=True)
        return loaded

    def _check_groups_match(self, saved_groups: list[Group]) -> None:
        name = type(self).__name__
        if len(saved_groups) != len(self.param_groups):
            raise ValueError(
                f"{name}.load_state_dict: loaded state dict has a different number of parameter "
                f"groups: {len(saved_groups)}, expected {len(self.param_groups)}"
            )
        for number, (group, saved) in enumerate(zip(self.param_groups, saved_groups, strict=True)):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    f"{name}.load_state_dict: loaded state dict contains a parameter group that "
                    f"doesn't match the size of optimizer's group: group {number} has "
                    f"{len(saved['params'])} parameters, expected {len(group['params'])}"
                )


def _register_at(
    hooks: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any], prepend: bool
) -> RemovableHandle:
    handle = register(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _unpack_parameters(name: str, group: Group) -> None:
    """Make a list of tensors of a group's params, and one of names where they have names."""
    params = group["params"]
    if isinstance(params, set):
        raise TypeError(
            f"{name}: optimizer parameters need to be organized in ordered collections, but the "
            "ordering of tensors in sets will change between runs. Please use a list instead."
        )
    params = [params] if isinstance(params, Tensor) else list(params)
    names = [param[0] for param in params if isinstance(param, tuple)]
    if names:
        if len(names) != len(params):
            raise ValueError(
                f"{name}: all optimizer params should be with/without names. Some param names are "
                "missing"
            )
        group["param_names"] = names
        params = [param[1] for param in params]
    group["params"] = params


def _check_parameter(name: str, param: Any, takes_complex: bool) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(
            f"{name}: optimizer can only optimize Tensors, but one of the params is "
            f"{type(param).__name__}"
        )
    if param.is_complex() and not takes_complex:
        raise NotImplementedError(
            f"{name}: complex parameters are not supported, got one of {param.dtype}; keep their "
            "parts in a real parameter, and give view_as_complex() of it to the model"
        )
    if not (param.is_leaf or param.retains_grad):
        raise ValueError(
            f"{name}: can't optimize a non-leaf Tensor; give the leaf that it was computed from, "
            "or a .detach().requires_grad_() of it"
        )


def _stacklevel_outside() -> int:
    """Return the stacklevel for a warning that names the caller of this package's code."""
    import sys

    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("tapegrad.optim"):
        level, frame = level + 1, frame.f_back
    return level


def _copied_for(param: Tensor, value: Any) -> Any:
    """Return a deep copy of an entry of state, with tensors converted to a parameter's dtype."""
    if isinstance(value, Tensor):
        dtype = param.dtype if param.is_floating_point() else value.dtype
        return value.to(device=param.device, dtype=dtype, copy=True)
    if isinstance(value, dict):
        return {key: _copied_for(param, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copied_for(param, each) for each in value)
    return value


# ---- what the algorithms share


def scalar(value: float, group: Group | None = None, param: Tensor | None = None) -> Tensor:
    """Return a 0-d tensor of state, such as a count of steps.

    It is on the host, where a step looks at it; on the device of the parameter where ``fused`` or
    ``capturable`` say that nothing may be looked at.
    """
    options = group or {}
    fused = options.get("fused")
    wide = tapegrad.get_default_dtype() is tapegrad.float64 and not fused
    dtype = tapegrad.float64 if wide else tapegrad.float32
    on_device = fused or options.get("capturable")
    device = param.device if param is not None and on_device else "cpu"
    return tapegrad.tensor(value, dtype=dtype, device=device)


def number(value: Any) -> Any:
    """Return a hyperparameter that may be given as a tensor of one element as a number."""
    return value.item() if isinstance(value, Tensor) else value


def signed(grads: list[Tensor], maximize: bool) -> list[Tensor]:
    """Return the gradients to descend along: turned around when maximizing."""
    return [-grad for grad in grads] if maximize else grads


def with_values(grad: Tensor, values: Tensor) -> Tensor:
    """Return a sparse tensor with other values at the places of a coalesced gradient."""
    return tapegrad.sparse_coo_tensor(grad.indices(), values, grad.shape, is_coalesced=True)


class GroupwiseOptimizer(Optimizer):
    """An optimizer whose step is one function over the lists of each group's tensors.

    A subclass defines `_new_state`, the state of a parameter before its first step, and
    `_update`, which calls the algorithm's function.
    """

    # Whether the parts of complex parameters are real parameters to the algorithm.
    _steps_by_parts = True

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults.get("differentiable"):
                raise RuntimeError(
                    f"{type(self).__name__}: `fused` does not support `differentiable`"
                )
            if defaults.get("foreach"):
                raise RuntimeError(
                    f"{type(self).__name__}: `fused` and `foreach` cannot be `True` together."
                )
        for group in self.param_groups:
            self._check_switches(group)

    def _native(self, group: Group) -> str | None:
        """Return which native step the group takes; None if there is none."""
        return None

    # Whether `_update` knows sparse gradients, and what to use where it does not.
    _takes_sparse = False
    _sparse_name = ""  # of the algorithm, if that is not the class
    _sparse_hint = ""

    def _check_layouts(self, group: Group, params: list[Tensor]) -> None:
        """Refuse sparse gradients where the algorithm has no way to treat them."""
        layouts = {getattr(param.grad, "layout", None) for param in params}
        if layouts == {tapegrad.strided}:
            return
        if not self._takes_sparse:
            name = type(self)._sparse_name or type(self).__name__
            raise RuntimeError(f"{name} does not support sparse gradients{self._sparse_hint}")
        if group.get("fused"):
            raise RuntimeError(f"{type(self).__name__}: `fused` does not support sparse gradients")

    def _new_state(self, group: Group, param: Tensor) -> dict[str, Any]:
        raise NotImplementedError

    def _update(
        self, group: Group, params: list[Tensor], grads: list[Tensor], states: list[Any]
    ) -> None:
        raise NotImplementedError

    def step(self, closure: Closure | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: computes the loss and its gradients anew and returns the loss.

        Returns:
            What the closure returned, or None.
        """
        loss = None
        if closure is not None:
            with tapegrad.enable_grad():
                loss = closure()
        if _C._cuda_is_capturing():
            self._check_capture()
        for group in self.param_groups:
            if self._step_natively(group):
                continue
            with tapegrad.no_grad():
                if self._found_inf is None or not self._found_inf.item():
                    self._step_group(group)
        return loss

    # A number on the device, not zero if a gradient is infinite or NaN: the step is then left out
    # there. Set by GradScaler for the time of a step.
    _found_inf: Tensor | None = None

    def _takes_found_inf(self) -> bool:
        """Whether a step can be left out by the device: nothing is counted on the host."""
        return type(self).step is GroupwiseOptimizer.step and all(
            (group.get("fused") or group.get("capturable"))
            and self._native(group)
            and all(param.is_cuda for param in group["params"])
            for group in self.param_groups
        )

    def _step_natively(self, group: Group) -> bool:
        native = self._native(group)
        if native is None:
            return False
        params, found = group["params"], self._found_inf
        if found is not None and params:
            found = found.to(params[0].device)
        return _C._optimizer_step(_NATIVE[native], params, self.state, group, found)

    def _check_capture(self) -> None:
        """Refuse a step that a CUDA graph would not take in the same way each time."""
        name = type(self).__name__
        for group in self.param_groups:
            if not group.get("capturable", True):
                raise RuntimeError(
                    f"Attempting CUDA graph capture of step() for an instance of {name} but "
                    "param_groups' capturable is False."
                )
            for key, value in group.items():
                options = value if isinstance(value, list | tuple) else (value,)
                if key == "params" or not any(
                    isinstance(option, Tensor) and not option.is_cuda for option in options
                ):
                    continue
                raise RuntimeError(
                    f"{name}: {key} is a tensor on the CPU, whose value a CUDA graph would keep "
                    "for good; put it on the device of the parameters, or give a number"
                )

    def _step_group(self, group: Group) -> None:
        params = [param for param in group["params"] if param.grad is not None]
        if not params:
            return
        self._check_switches(group)
        self._check_layouts(group, params)
        if group.get("capturable") and params[0].device.type != "cuda":
            raise AssertionError(
                f"{type(self).__name__}: if capturable=True, params and state_steps must be on a "
                f"device with graph capture; they are on {params[0].device}: set capturable=False"
            )
        if group.get("fused"):
            for param in params:
                if not param.is_floating_point():
                    raise RuntimeError(
                        f"{type(self).__name__}: `fused=True` requires all the params to be "
                        f"floating point Tensors, but one is {param.dtype}"
                    )
        states, fresh = [], False
        for param in params:
            state = self.state[param]
            if not state:
                if _C._cuda_is_capturing():
                    raise RuntimeError(
                        f"{type(self).__name__}: the state of a parameter cannot be made in a CUDA "
                        "graph, which would make it anew in every replay; take a step before the "
                        "capture, with a gradient for every parameter"
                    )
                state.update(self._new_state(group, param))
                fresh = True
            states.append(state)
        if fresh and self._step_natively(group):
            return
        grads = [param.grad for param in params]
        if self._steps_by_parts and any(param.is_complex() for param in params):
            params, grads, states = (
                [_by_parts(x) for x in each] for each in (params, grads, states)
            )
        self._update(group, params, grads, states)

    def _check_switches(self, group: Group) -> None:
        if group.get("differentiable"):
            raise NotImplementedError(
                f"{type(self).__name__}: differentiable=True is not supported: steps are not "
                "recorded; to differentiate through an update, write it out of place, as in "
                "p - lr * torch.autograd.grad(loss, p, create_graph=True)[0]"
            )


def _by_parts(x: Any) -> Any:
    """Return a view of complex numbers as pairs of real ones, also of those in a dict."""
    if isinstance(x, dict):
        return {key: _by_parts(value) for key, value in x.items()}
    return tapegrad.view_as_real(x) if isinstance(x, Tensor) and x.is_complex() else x


def listed(states: list[Any], key: str) -> list[Tensor]:
    """Return one entry of each of several parameters' states."""
    return [state[key] for state in states]


def count_step(steps: list[Tensor]) -> list[float]:
    """Add one to counts of steps and return them as numbers."""
    if _C._cuda_is_capturing():
        raise RuntimeError(
            "optim: steps are counted on the host here, and a CUDA graph would count no further; "
            "use an optimizer with capturable=True, dense parameters and gradients of their dtype"
        )
    counts = []
    for step in steps:
        step += 1
        counts.append(step.item())
    return counts
