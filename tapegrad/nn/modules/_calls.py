"""Calls of a module, and the hooks around them.

Dicts of hooks are made when the first hook comes: until then the class's empty one stands for them,
and a call is nothing but ``forward``.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from tapegrad._C import Tensor
from tapegrad.nn.modules._errors import LOCATED, locate
from tapegrad.nn.modules._hooks import GLOBAL, BackwardHook
from tapegrad.nn.modules._state import Stateful
from tapegrad.utils.hooks import RemovableHandle

__all__ = ["Hooked"]

_NO_HOOKS: Mapping[int, Any] = OrderedDict()
_ANY_GLOBAL_HOOKS = GLOBAL.any
_COMPILED = -1  # in place of a hook's number


class Hooked(Stateful):
    """The part of Module that is called, with hooks before and after."""

    forward: Callable[..., Any]
    _any_hooks: Mapping[int, bool] = OrderedDict()
    _forward_pre_hooks: Mapping[int, Any] = _NO_HOOKS
    _forward_pre_hooks_with_kwargs: Mapping[int, Any] = _NO_HOOKS
    _forward_hooks: Mapping[int, Any] = _NO_HOOKS
    _forward_hooks_with_kwargs: Mapping[int, Any] = _NO_HOOKS
    _forward_hooks_always_called: Mapping[int, Any] = _NO_HOOKS
    _backward_pre_hooks: Mapping[int, Any] = _NO_HOOKS
    _backward_hooks: Mapping[int, Any] = _NO_HOOKS
    _is_full_backward_hook: bool | None = None
    _compiled_call_impl: Callable[..., Any] | None = None

    # ---- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._any_hooks or _ANY_GLOBAL_HOOKS:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except LOCATED as error:
            locate(error, self, args, kwargs)
            raise

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module, with its hooks, in place.

        Args:
            args, kwargs: those of `tapegrad.compile`.
        """
        from tapegrad.compiler import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)
        self._own_hooks("_any_hooks")[_COMPILED] = True  # calls go the way that looks for it

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        done: set[int] = set()
        output = None
        try:
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            around = self._around_backward()
            if around is not None:
                args = around.setup_input_hook(args)
            output = self.forward(*args, **kwargs)
            for key, hook, takes_kwargs in self._all_forward_hooks():
                done.add(key)
                returned = (
                    hook(self, args, kwargs, output) if takes_kwargs else hook(self, args, output)
                )
                if returned is not None:
                    output = returned
            if around is not None:
                self._warn_of_output(output)
                output = around.setup_output_hook(output)
            self._hook_last_entry(output)
        except Exception:
            self._run_always_called(args, kwargs, output, done)
            raise
        return output

    def _run_forward_pre_hooks(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in (*GLOBAL.forward_pre.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                returned = hook(self, args, kwargs)
                if returned is None:
                    continue
                if not (isinstance(returned, tuple) and len(returned) == 2):
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {returned}."
                    )
                args, kwargs = returned
            else:
                returned = hook(self, args)
                if returned is not None:
                    args = returned if isinstance(returned, tuple) else (returned,)
        return args, kwargs

    def _all_forward_hooks(self) -> list[tuple[int, Callable[..., Any], bool]]:
        found = [
            (key, hook, key in GLOBAL.forward_with_kwargs) for key, hook in GLOBAL.forward.items()
        ]
        found += [
            (key, hook, key in self._forward_hooks_with_kwargs)
            for key, hook in self._forward_hooks.items()
        ]
        return found

    def _run_always_called(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, done: set[int]
    ) -> None:
        """After an error, run the hooks that asked for it; an error of theirs is a warning."""
        for key, hook, takes_kwargs in self._all_forward_hooks():
            asked = key in self._forward_hooks_always_called or key in GLOBAL.forward_always
            if not asked or key in done:
                continue
            try:
                _ = hook(self, args, kwargs, output) if takes_kwargs else hook(self, args, output)
            except Exception as error:
                import warnings

                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=4,
                )

    def _around_backward(self) -> BackwardHook | None:
        full_global = GLOBAL.backward.values() if GLOBAL.backward_is_full else ()
        full_own = self._backward_hooks.values() if self._is_full_backward_hook else ()
        hooks = [*full_global, *full_own]
        pre_hooks = [*GLOBAL.backward_pre.values(), *self._backward_pre_hooks.values()]
        return BackwardHook(self, hooks, pre_hooks) if hooks or pre_hooks else None

    def _warn_of_output(self, output: Any) -> None:
        if not isinstance(output, (Tensor, tuple)):
            import warnings

            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(output)}",
                stacklevel=4,
            )

    def _hook_last_entry(self, output: Any) -> None:
        """Put the old kind of backward hooks on the entry that made the output."""
        hooks = [] if GLOBAL.backward_is_full else [*GLOBAL.backward.values()]
        hooks += [] if self._is_full_backward_hook else [*self._backward_hooks.values()]
        if not hooks:
            return
        first = output
        while not isinstance(first, Tensor):
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        if first.grad_fn is None:
            return
        for hook in hooks:
            first.grad_fn.register_hook(
                lambda inputs, outputs, hook=hook: hook(self, inputs, outputs)
            )

    # ---- hooks

    def _register_call_hook(
        self, name: str, hook: Callable[..., Any], flags: Mapping[str, bool], prepend: bool
    ) -> RemovableHandle:
        hooks = self._own_hooks(name)
        marks = {"_any_hooks": True, **flags}
        extra = [self._own_hooks(flag) for flag, value in marks.items() if value]
        handle = RemovableHandle(hooks, extra_dict=extra)
        hooks[handle.id] = hook
        for table in extra:
            table[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every forward.

        Args:
            hook: what it returns, if not None, takes the place of the positional arguments.
            prepend: whether it runs before the hooks that are there.
            with_kwargs: whether it is called as ``hook(module, args, kwargs)``; it then returns
                None or new ``(args, kwargs)``.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        flags = {"_forward_pre_hooks_with_kwargs": with_kwargs}
        return self._register_call_hook("_forward_pre_hooks", hook, flags, prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every forward.

        Args:
            hook: what it returns, if not None, takes the place of the output.
            prepend: whether it runs before the hooks that are there.
            with_kwargs: whether it is called as ``hook(module, args, kwargs, output)``.
            always_call: whether it is called when forward raises, too.

        Returns:
            A handle whose ``remove()`` removes the hook.

        Example:
            >>> layer = torch.nn.Linear(2, 3)
            >>> handle = layer.register_forward_hook(lambda module, args, out: print(out.shape))
            >>> _ = layer(torch.ones(4, 2))
            torch.Size([4, 3])
        """
        flags = {
            "_forward_hooks_with_kwargs": with_kwargs,
            "_forward_hooks_always_called": always_call,
        }
        return self._register_call_hook("_forward_hooks", hook, flags, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the outputs are known.

        Args:
            hook: what it returns, if not None, takes the place of grad_output.
            prepend: whether it runs before the hooks that are there.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return self._register_call_hook("_backward_pre_hooks", hook, {}, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the module's gradients are computed.

        The two are tuples with a gradient, or None, for every positional argument and every output.

        Args:
            hook: what it returns, if not None, takes the place of grad_input.
            prepend: whether it runs before the hooks that are there.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        if self._is_full_backward_hook is False and self._backward_hooks:
            raise RuntimeError(
                "register_full_backward_hook: Cannot use both regular backward hooks and full "
                "backward hooks on a single Module; use full ones only"
            )
        self._is_full_backward_hook = True
        return self._register_call_hook("_backward_hooks", hook, {}, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook on the module's last entry; register_full_backward_hook() is what is wanted.

        Args:
            hook: called as ``hook(module, grad_input, grad_output)`` with the gradients of the
                last op alone.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        if self._is_full_backward_hook is True and self._backward_hooks:
            raise RuntimeError(
                "register_backward_hook: Cannot use both regular backward hooks and full backward "
                "hooks on a single Module; use full ones only"
            )
        self._is_full_backward_hook = False
        return self._register_call_hook("_backward_hooks", hook, {}, False)
