"""Which modules are running: `ModuleTracker`."""

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.graph import register_multi_grad_hook
from tapegrad.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from tapegrad.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]

logger = logging.getLogger(__name__)


class ModuleTracker:
    """Knows, in a block, which modules run, forward or backward.

    Attributes:
        parents: the names of the modules that run now: the class of the outermost one, then the
            path in it, such as ``"Net.layers.0"``; and always ``"Global"``.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2))
        >>> from tapegrad.utils.module_tracker import ModuleTracker
        >>> with ModuleTracker() as tracker:
        ...     _ = net[0].register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
        ...     y = net(torch.ones(1, 2))
        ['Global', 'Sequential', 'Sequential.0']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Module] = weakref.WeakSet()
        self._hooks: list[Any] = []
        self._sweeping: set[int] = set()  # threads

    @property
    def is_bw(self) -> bool:
        """Whether a backward is running on this thread."""
        return threading.get_ident() in self._sweeping

    def __enter__(self) -> "ModuleTracker":
        self._before = register_module_forward_pre_hook(self._enters_forward)
        self._after = register_module_forward_hook(self._leaves_forward)
        self._listener = _C._listen_to_sweeps(self._sweep_begins, None)
        return self

    def __exit__(self, *exception: object) -> None:
        self._before.remove()
        self._after.remove()
        _C._stop_listening(self._listener)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _changed(self) -> None:
        """Called when other modules run."""

    def _sweep_begins(self, *_: Any) -> Callable[[], None]:
        self._sweeping.add(threading.get_ident())
        return self._sweep_ends

    def _sweep_ends(self) -> None:
        self._sweeping.discard(threading.get_ident())
        self.parents = {"Global"}
        self._changed()

    def _name_of(self, module: Module) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            for part, child in module.named_children():
                self._names[child] = f"{name}.{part}"
                self._name_of(child)
            self._seen.add(module)
        return name

    def _add(self, name: str) -> None:
        if name in self.parents:
            logger.info("module %s was entered again before it was left", name)
        self.parents.add(name)
        self._changed()

    def _remove(self, name: str) -> None:
        if name in self.parents:
            self.parents.remove(name)
        else:
            logger.info("module %s was left, but not entered", name)
        self._changed()

    def _enters_forward(self, module: Module, args: Any) -> None:
        name = self._name_of(module)
        self._add(name)
        self._when_gradients_come(args, lambda _: self._remove(name))

    def _leaves_forward(self, module: Module, args: Any, output: Any) -> None:
        name = self._name_of(module)
        self._remove(name)
        self._when_gradients_come(output, lambda _: self._add(name))

    def _when_gradients_come(self, values: Any, call: Callable[[Any], None]) -> None:
        tensors = [x for x in tree_leaves(values) if isinstance(x, Tensor) and x.requires_grad]
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, call))
