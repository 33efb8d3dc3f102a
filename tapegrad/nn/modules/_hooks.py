"""The hooks of all modules, and the machinery of hooks on a module's gradients.

A module's gradient hooks need two points on the tape: one behind the module, where the gradients of
its outputs come in, and one in front of it, where those of its inputs go out. `BackwardHook` makes
each point an entry that passes its tensors through; the pre-hooks run as the entry behind begins,
the hooks as the entry in front ends.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.function import Function
from tapegrad.utils.hooks import RemovableHandle

__all__ = [
    "BackwardHook",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_Hooks = OrderedDict[int, Callable[..., Any]]


class GlobalHooks:
    """The hooks that every module runs. `any` holds a key for each hook around a call."""

    def __init__(self) -> None:
        self.any: OrderedDict[int, bool] = OrderedDict()
        self.forward_pre: _Hooks = OrderedDict()
        self.forward: _Hooks = OrderedDict()
        self.forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
        self.forward_always: OrderedDict[int, bool] = OrderedDict()
        self.backward_pre: _Hooks = OrderedDict()
        self.backward: _Hooks = OrderedDict()
        self.backward_is_full: bool | None = None
        self.parameter_registration: _Hooks = OrderedDict()
        self.buffer_registration: _Hooks = OrderedDict()
        self.module_registration: _Hooks = OrderedDict()


GLOBAL = GlobalHooks()


def _register(hooks: _Hooks, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=GLOBAL.any)
    hooks[handle.id] = hook
    GLOBAL.any[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module.

    Args:
        hook: what it returns, if not None, takes the place of the positional arguments.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    return _register(GLOBAL.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module.

    Args:
        hook: what it returns, if not None, takes the place of the output.
        with_kwargs: whether the hook is called as ``hook(module, args, kwargs, output)``.
        always_call: whether the hook is called when forward raises, too.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    extra = [GLOBAL.any, GLOBAL.forward_with_kwargs, GLOBAL.forward_always]
    handle = RemovableHandle(GLOBAL.forward, extra_dict=extra)
    GLOBAL.forward[handle.id] = hook
    GLOBAL.any[handle.id] = True
    if with_kwargs:
        GLOBAL.forward_with_kwargs[handle.id] = True
    if always_call:
        GLOBAL.forward_always[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when the gradients of any module's outputs are known.

    Args:
        hook: what it returns, if not None, takes the place of grad_output.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    return _register(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when any module's gradients are computed.

    Args:
        hook: what it returns, if not None, takes the place of grad_input.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    _expect_one_kind(is_full=True)
    return _register(GLOBAL.backward, hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call a hook on the last entry of every module; the full hook is what is wanted.

    Args:
        hook: called as ``hook(module, grad_input, grad_output)`` with the gradients of the last
            op alone.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    _expect_one_kind(is_full=False)
    return _register(GLOBAL.backward, hook)


def _expect_one_kind(is_full: bool) -> None:
    if GLOBAL.backward and GLOBAL.backward_is_full is not is_full:
        raise RuntimeError(
            "register_module_backward_hook: Cannot use both regular backward hooks and full "
            "backward hooks as a global Module hook; use full ones only"
        )
    GLOBAL.backward_is_full = is_full


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a module is given a parameter.

    What it returns, if not None, is registered instead.
    """
    handle = RemovableHandle(GLOBAL.parameter_registration)
    GLOBAL.parameter_registration[handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a module is given a buffer.

    What it returns, if not None, is registered instead.
    """
    handle = RemovableHandle(GLOBAL.buffer_registration)
    GLOBAL.buffer_registration[handle.id] = hook
    return handle


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a module is given a submodule.

    What it returns, if not None, is registered instead.
    """
    handle = RemovableHandle(GLOBAL.module_registration)
    GLOBAL.module_registration[handle.id] = hook
    return handle


# ---- gradients of a module


class BackwardHookFunction(Function):
    """Passes its tensors through, to be an entry that hooks can be put on."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Return the tensors as they are."""
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients as they are."""
        return grads


class BackwardHook:
    """The gradient hooks of one call of a module."""

    def __init__(
        self,
        module: Any,
        hooks: Iterable[Callable[..., Any]],
        pre_hooks: Iterable[Callable[..., Any]],
    ) -> None:
        self.module = module
        self.hooks = list(hooks)
        self.pre_hooks = list(pre_hooks)
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_places: list[int] | None = None
        self.input_count = 0
        self.output_places: list[int] = []
        self.output_count = 0

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments, the tensors among them behind an entry that runs the hooks."""
        self.input_count = len(args)
        new_args, entry, places = _behind_an_entry(args)
        if entry is not None:
            self.input_places = places
            entry.register_hook(self._on_grad_input)
        return new_args

    def setup_output_hook(self, output: Any) -> Any:
        """Return the output, its tensors behind an entry that runs the pre-hooks."""
        outputs = output if isinstance(output, tuple) else (output,)
        self.output_count = len(outputs)
        new_outputs, entry, self.output_places = _behind_an_entry(outputs)
        if entry is not None:
            entry.register_prehook(self._on_grad_output)
        return new_outputs if isinstance(output, tuple) else new_outputs[0]

    def _on_grad_output(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        self.grad_outputs = _among_nones(self.output_places, grads, self.output_count)
        for hook in self.pre_hooks:
            returned = hook(self.module, self.grad_outputs)
            if returned is not None:
                self.grad_outputs = _as_many("pre hook", "grad_output", returned, self.grad_outputs)
        replaced = self.grad_outputs
        if self.input_places is None:  # No gradients go out in front: the hooks run here.
            self._run_without_inputs()
        return tuple(replaced[place] for place in self.output_places)

    def _run_without_inputs(self) -> None:
        if self.hooks:
            import warnings

            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                stacklevel=2,
            )
        for hook in self.hooks:
            returned = hook(self.module, (None,) * self.input_count, self.grad_outputs)
            if returned is None:
                continue
            if not (isinstance(returned, tuple) and all(grad is None for grad in returned)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    f"return None or None for all gradients, got {type(returned).__name__}"
                )
        self.grad_outputs = None

    def _on_grad_input(self, grads: tuple[Any, ...], _: tuple[Any, ...]) -> Any:
        if self.grad_outputs is None:  # The outputs' gradients have not arrived.
            return None
        places = self.input_places or []
        grad_inputs = _among_nones(places, grads, self.input_count)
        for hook in self.hooks:
            returned = hook(self.module, grad_inputs, self.grad_outputs)
            if returned is not None:
                grad_inputs = _as_many("hook", "grad_input", returned, grad_inputs)
        self.grad_outputs = None
        return tuple(grad_inputs[place] for place in places)


def _behind_an_entry(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, list[int]]:
    """Return values with the tensors among them behind one entry, the entry, and their places."""
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = [values[place] for place in places]
    if not _C.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return values, None, places
    passed = BackwardHookFunction.apply(*tensors)
    entry = next(tensor.grad_fn for tensor in passed if tensor.requires_grad)
    replaced = list(values)
    for place, tensor in zip(places, passed, strict=True):
        replaced[place] = tensor
    # Of a named tuple, the class is kept.
    kind: Any = type(values)
    return kind(*replaced) if hasattr(values, "_fields") else tuple(replaced), entry, places


def _among_nones(places: list[int], grads: Iterable[Any], count: int) -> tuple[Any, ...]:
    found: list[Any] = [None] * count
    for place, grad in zip(places, grads, strict=False):
        found[place] = grad
    return tuple(found)


def _as_many(kind: str, what: str, returned: Any, expected: tuple[Any, ...]) -> tuple[Any, ...]:
    grads = returned if isinstance(returned, tuple) else (returned,)
    if len(grads) != len(expected):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(grads)}, but "
            f"expected {len(expected)}"
        )
    return grads
