"""The state of a module: what state_dict() collects and load_state_dict() puts back."""

import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.parameter import Parameter, is_lazy
from tapegrad.utils.hooks import RemovableHandle

__all__ = ["Stateful"]

_EXTRA_STATE = "_extra_state"
_NO_HOOKS: Mapping[int, Any] = OrderedDict()


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The keys that load_state_dict() missed, and those it did not expect."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Stateful:
    """The part of Module that saves and loads."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Mapping[int, Any] = _NO_HOOKS
    _state_dict_pre_hooks: Mapping[int, Any] = _NO_HOOKS
    _load_state_dict_pre_hooks: Mapping[int, Any] = _NO_HOOKS
    _load_state_dict_post_hooks: Mapping[int, Any] = _NO_HOOKS

    def get_extra_state(self) -> Any:
        """Return what state_dict() shall hold beyond tensors. A subclass defines it."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: "
            f"{type(self).__name__} defines set_extra_state() alone; define both"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what get_extra_state() returned. A subclass defines it."""
        raise RuntimeError(
            f"{type(self).__name__}: set_extra_state() is not defined, but the state dict holds "
            "extra state; define it to load it"
        )

    # ---- saving

    def state_dict(
        self,
        *args: Any,
        destination: Any = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """Return the parameters and persistent buffers of the module and all below it, by name.

        Args:
            destination: the mapping to write to; a new OrderedDict if None.
            prefix: put in front of every name.
            keep_vars: whether the tensors are returned themselves, with their gradient history,
                instead of detached.

        Returns:
            The mapping, whose tensors share the module's memory.

        Example:
            >>> list(torch.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
        destination = given.get("destination", destination)
        prefix = given.get("prefix", prefix)
        keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            returned = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if returned is not None:
                    raise RuntimeError(
                        "state_dict: state_dict post-hook must return None and change the mapping "
                        f"in place, got {type(returned).__name__}"
                    )
            elif returned is not None:
                destination = returned
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write what this module itself holds."""
        tensors = [*self._parameters.items()]
        tensors += [
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        ]
        for name, tensor in tensors:
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    # ---- loading

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy parameters and buffers from a mapping into the module and all below it.

        Args:
            state_dict: tensors by name, as state_dict() returns them.
            strict: whether names that are missing or unknown are an error.
            assign: whether the tensors take the place of the module's own, with their dtypes,
                instead of being copied into them.

        Returns:
            A named tuple of missing_keys and unexpected_keys.

        Example:
            >>> layer = torch.nn.Linear(2, 3)
            >>> torch.nn.Linear(2, 3).load_state_dict(layer.state_dict())
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata
        self._load_below(state, metadata, "", assign, (missing, unexpected, errors))
        messages = []
        if strict and missing:
            messages.append(f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if strict and unexpected:
            messages.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        messages += errors
        if messages:
            listed = "\n\t".join(messages)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_below(
        self,
        state: Any,
        metadata: Mapping[str, Any] | None,
        prefix: str,
        assign: bool,
        found: tuple[list[str], list[str], list[str]],
    ) -> None:
        """Load this module, then those below, then run the post-hooks.

        Each module is shown its own keys alone, so that its hooks cannot touch those of others.
        """
        local = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local = {**local, "assign_to_params_buffers": True}
        self._load_from_state_dict(state, prefix, local, True, *found)
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}{name}."
                part = {key: value for key, value in state.items() if key.startswith(below)}
                module._load_below(part, metadata, below, assign, found)
        incompatible = _IncompatibleKeys(found[0], found[1])
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, incompatible) is not None:
                raise RuntimeError(
                    "load_state_dict: Hooks registered with ``register_load_state_dict_post_hook`` "
                    "are not expected to return new values, if incompatible_keys need to be "
                    "modified, it should be done inplace."
                )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what this module itself holds, and note what does not fit."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._parameters)
        own.update(
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        )
        for name, tensor in own.items():
            if tensor is None:
                continue
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix + _EXTRA_STATE, strict, missing_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, own, unexpected_keys)

    def _load_tensor(self, name: str, key: str, own: Tensor, given: Any, assign: bool) -> str:
        """Load one tensor and return what went wrong, or an empty string."""
        if not isinstance(given, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(given)}"
            )
        if is_lazy(own) and is_lazy(given):
            return ""
        if own.dim() == 0 and given.shape == (1,):  # Scalars were saved this way once.
            given = given[0]
        if given.shape != own.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {own.shape}."
            )
        try:
            with no_grad():
                if not assign:
                    own.copy_(given)
                elif isinstance(own, Parameter):
                    keeps = isinstance(given, Parameter)
                    self._parameters[name] = (
                        given.requires_grad_(own.requires_grad)
                        if keeps
                        else Parameter(given, own.requires_grad)
                    )
                else:
                    self._buffers[name] = given
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{own.shape} and whose dimensions in the checkpoint are {given.shape}, an "
                f"exception occurred : {error.args}."
            )
        return ""

    def _load_extra_state(
        self, state_dict: Any, key: str, strict: bool, missing_keys: list[str]
    ) -> None:
        if type(self).set_extra_state is Stateful.set_extra_state:
            return
        if key in state_dict:
            self.set_extra_state(state_dict[key])
        elif strict:
            missing_keys.append(key)

    def _find_unexpected(
        self, state_dict: Any, prefix: str, own: Mapping[str, Any], unexpected_keys: list[str]
    ) -> None:
        takes_extra_state = type(self).set_extra_state is not Stateful.set_extra_state
        for key in state_dict:
            if not key.startswith(prefix):
                continue
            name, *below = key[len(prefix) :].split(".", 1)
            if below and self._modules.get(name) is not None:
                continue
            is_tensor = not below and own.get(name) is not None
            if not is_tensor and not (key == prefix + _EXTRA_STATE and takes_extra_state):
                unexpected_keys.append(key)

    # ---- hooks

    def _own_hooks(self, name: str) -> Any:
        """Return the module's own dict of hooks, made when the first comes."""
        hooks = self.__dict__.get(name)
        if hooks is None:
            hooks = self.__dict__[name] = OrderedDict()
        return hooks

    def _add_hook(self, name: str, hook: Callable[..., Any]) -> RemovableHandle:
        hooks = self._own_hooks(name)
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before state_dict() collects this module."""
        return self._add_hook("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after this module is collected.

        The hook changes the mapping in place and returns None.
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        return self._add_hook("_state_dict_hooks", hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """As register_state_dict_post_hook(), for hooks that may return another mapping."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "_register_state_dict_hook: the hook was registered by "
                "register_state_dict_post_hook() before; use one of the two"
            )
        return self._add_hook("_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before load_state_dict() loads this module.

        Args:
            hook: called as ``hook(module, state_dict, prefix, local_metadata, strict,
                missing_keys, unexpected_keys, error_msgs)``; it may change the mapping.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _HookWithModule(hook, self) if with_module else hook
        return self._add_hook("_load_state_dict_pre_hooks", wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after this module is loaded.

        The hook may clear the lists of missing and unexpected keys, which quiets strict=True.
        """
        return self._add_hook("_load_state_dict_post_hooks", hook)


class _HookWithModule:
    """A hook that is given its module first; copied and pickled together with it.

    The module holds the hook, so the hook holds the module by a weak reference only: otherwise only
    the collector could free the two.
    """

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("load_state_dict: the module of a pre-hook no longer exists")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.module = weakref.ref(state["module"])


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
