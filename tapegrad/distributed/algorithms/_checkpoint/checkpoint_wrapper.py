"""Modules wrapped so that backward computes their forward again, or finds it in host memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from tapegrad.autograd.graph import save_on_cpu
from tapegrad.nn.modules.module import Module
from tapegrad.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper",
    "CheckpointImpl",
    "CheckpointWrapper",
    "OffloadWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
    "offload_wrapper",
]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """How a forward is computed again; see ``use_reentrant`` of `torch.utils.checkpoint`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module, ABC):
    """A module around another, whose state has the names of the other alone."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield names, without that of the wrapper, and parameters."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), param


def _without_prefix(module: Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
    _rename(state, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)


def _with_prefix(module: Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
    _rename(state, prefix, f"{prefix}{_CHECKPOINT_PREFIX}")


def _rename(state: dict[str, Any], old: str, new: str) -> None:
    """Put another prefix before the names of a state that have one, in their order."""
    items = list(state.items())
    for name, _ in items:
        del state[name]
    for name, value in items:
        state[new + name.removeprefix(old) if name.startswith(old) else name] = value


class CheckpointWrapper(ActivationWrapper):
    """A module whose forward is computed again in backward.

    Args:
        mod: the module.
        checkpoint_impl: how.
        checkpoint_fn: in place of `torch.utils.checkpoint.checkpoint`.
        **checkpoint_fn_kwargs: its further arguments.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        self._run = checkpoint if checkpoint_fn is None else checkpoint_fn
        if checkpoint_fn is None:
            is_reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn_kwargs["use_reentrant"] = is_reentrant
        self._kwargs = checkpoint_fn_kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        module = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self._run(module, *args, **kwargs, **self._kwargs)
        names, count = list(kwargs), len(args)  # with reentry there are no keyword arguments

        def call(*values: Any) -> Any:
            return module(*values[:count], **dict(zip(names, values[count:], strict=True)))

        return self._run(call, *args, *kwargs.values(), **self._kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module that keeps what its backward needs in host memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        from tapegrad import cuda

        with save_on_cpu(pin_memory=cuda.is_available()):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def offload_wrapper(module: Module) -> Module:
    """Return a module that keeps what its backward needs in host memory.

    Args:
        module: the module.
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """Return a module whose forward is computed again in backward.

    Args:
        module: the module.
        checkpoint_impl: how.
        checkpoint_fn: in place of `torch.utils.checkpoint.checkpoint`.
        **checkpoint_fn_kwargs: its further arguments.

    Example:
        >>> wrapped = checkpoint_wrapper(torch.nn.Linear(2, 1))
        >>> wrapped(torch.ones(1, 2)).sum().backward()
        >>> list(wrapped.state_dict())
        ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap the modules inside of a model that a function chooses.

    Args:
        model: the model; it is not wrapped itself.
        checkpoint_wrapper_fn: wraps a module.
        check_fn: whether a module is wrapped.
        auto_wrap_policy: chooses modules in place of check_fn; see `torch.distributed.fsdp.wrap`.
    """
    if auto_wrap_policy is not None:
        from tapegrad.distributed.fsdp.wrap import apply_policy

        apply_policy(model, auto_wrap_policy, checkpoint_wrapper_fn)
        return
    wrapped: dict[Module, Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is not model and check_fn(child):
                if child not in wrapped:
                    wrapped[child] = checkpoint_wrapper_fn(child)
                setattr(parent, name, wrapped[child])
