"""What a captured block relies on, and whether it still holds.

Captured calls refer to memory. The code itself would find its tensors by name: a variable, a
module's parameter, an optimizer's state, a leaf's gradient. If such a name now refers to other
memory than when the block was recorded, the calls would silently compute with the old memory; the
same goes for a learning rate or a training mode that has changed since. `Assumptions` notes these
names while a block is recorded, and refuses a replay, with the reason, when one of them refers to
something else.
"""

import sys
from collections.abc import Iterable, Mapping
from threading import get_ident
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.func.functional_call import functional_call
from tapegrad.nn.modules import _hooks
from tapegrad.nn.modules.module import Module
from tapegrad.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from tapegrad.tape.sweeps import SweepEvents

__all__ = ["Assumptions"]

# What is compared by value; other values must be the same object.
_PLAIN = (bool, int, float, str, tuple, type(None))
# Memory by its number (`_C._memory_id`), with a tensor that shows it and keeps it.
Memory = Mapping[int, Tensor]


class Assumptions:
    """The names by which a block found its tensors and numbers."""

    def __init__(self) -> None:
        self._thread = 0
        self._handles: list[Any] = []
        self._modules: dict[int, _ModuleState] = {}
        self._optimizers: dict[int, _OptimizerState] = {}
        self._first_grads: dict[int, tuple[Tensor, int]] = {}  # by leaf: the memory of its gradient
        self._grads: list[tuple[Tensor, Tensor, bool]] = []  # leaf, gradient, may be None
        self._tensors: list[Tensor] = []
        self._aliases: list[Tensor] = []
        self._shown: list[Tensor] = []  # memory that no tensor has left for another
        self._refusal = ""

    # ---- noting

    def start(self) -> None:
        """Begin to note the modules, optimizers and gradients that this thread uses."""
        self._thread = get_ident()
        sweeps = SweepEvents(begin=self._note_grads)
        sweeps.__enter__()
        self._handles = [
            _hooks.register_module_forward_pre_hook(self._note_module),
            register_optimizer_step_pre_hook(self._note_optimizer),
        ]
        self._sweeps = sweeps

    def stop(self) -> None:
        """End noting."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._sweeps.__exit__()

    def _note_module(self, module: Module, _: Any) -> None:
        if get_ident() == self._thread and id(module) not in self._modules:
            self._modules[id(module)] = _ModuleState(module)

    def _note_optimizer(self, optimizer: Optimizer, _: Any, __: Any) -> None:
        if get_ident() == self._thread and id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = _OptimizerState(optimizer)

    def _note_grads(self, roots: list[Tensor], _: bool) -> None:
        if get_ident() != self._thread:
            return
        for node in _C._tape_of([root for root in roots if root.requires_grad]):
            if node.name() == "AccumulateGrad" and id(node.variable) not in self._first_grads:
                leaf = node.variable
                memory = 0 if leaf.grad is None else _C._memory_id(leaf.grad)
                self._first_grads[id(leaf)] = (leaf, memory)

    def settle(self, read: Memory, written: Memory, used: list[tuple[Tensor, Tensor]]) -> None:
        """Note what the names refer to at the end of the block.

        Args:
            read: what the block read and did not make.
            written: what it wrote.
            used: tensors that calls read from outside, each with an alias from then.
        """
        for tensor, alias in used:
            self._expect_in_place(tensor, alias)
        self._shown = [alias for _, alias in used if not _C._was_left(alias)]
        self._settle_grads(self._leaves(used), read, written)
        states: list[_ModuleState | _OptimizerState] = [*self._modules.values()]
        states += self._optimizers.values()
        for state in states:
            self._refusal = self._refusal or state.settle(read, written)

    def _expect_in_place(self, tensor: Tensor, alias: Tensor) -> None:
        self._tensors.append(tensor)
        self._aliases.append(alias)
        base = tensor._base
        if base is None:
            return
        if _C._memory_id(base) == _C._memory_id(alias):
            self._tensors.append(base)
            self._aliases.append(base.detach())
        else:
            self._refusal = _given_other_memory(base)

    def _leaves(self, used: list[tuple[Tensor, Tensor]]) -> Iterable[Tensor]:
        """Return the leaves whose gradients the block may have used."""
        found = {id(leaf): leaf for leaf, _ in self._first_grads.values()}
        tensors = [tensor for tensor, _ in used]
        for state in self._modules.values():
            tensors += state.tensors.values()
        for optimizer in self._optimizers.values():
            tensors += optimizer.parameters()
        found.update((id(each), each) for each in tensors if each.is_leaf and each.requires_grad)
        return found.values()

    def _settle_grads(self, leaves: Iterable[Tensor], read: Memory, written: Memory) -> None:
        for leaf in leaves:
            grad = leaf.grad
            if grad is None:
                continue
            now = _C._memory_id(grad)
            _, first = self._first_grads.get(id(leaf), (leaf, 0))
            if now in written and first not in (0, now) and first in read:
                self._refusal = (
                    f"the gradient of a tensor of shape {tuple(leaf.shape)} was added to one that "
                    "was there before, and the sum went to other memory (create_graph=True?); set "
                    "gradients to zero or None in the block"
                )
            if now in read or now in written:
                self._grads.append((leaf, grad, now not in read))

    @property
    def refusal(self) -> str:
        """Why the block can never run again, or an empty string."""
        return self._refusal

    def optimizers(self) -> list[Optimizer]:
        """Return the optimizers that took a step in the block."""
        return [state.optimizer for state in self._optimizers.values()]

    # ---- checking

    def check(self) -> None:
        """Raise, with the reason, if a name refers to something else now."""
        reason = self._refusal or self._moved()
        for state in self._modules.values():
            reason = reason or state.changed()
        for optimizer in self._optimizers.values():
            reason = reason or optimizer.changed()
        for leaf, grad, may_be_none in self._grads:
            if leaf.grad is not grad and not (leaf.grad is None and may_be_none):
                reason = reason or (
                    f"the .grad of a tensor of shape {tuple(leaf.shape)} is not the one that the "
                    "block used; keep it (zero_grad(set_to_none=False))"
                )
        if reason:
            raise RuntimeError(f"replay: {reason}, or record the block again")

    def _moved(self) -> str:
        place = _C._find_moved(self._tensors, self._aliases)
        if place >= 0:
            return _given_other_memory(self._tensors[place])
        # What an op read through an alias of its own is known by its memory alone.
        left = next((alias for alias in self._shown if _C._was_left(alias)), None)
        return "" if left is None else _given_other_memory(left)

    def restore_grads(self) -> None:
        """Give leaves the gradients that the block made for them, where they were dropped since."""
        for leaf, grad, _ in self._grads:
            if leaf.grad is None:
                leaf.grad = grad


def _given_other_memory(tensor: Tensor) -> str:
    return (
        f"a tensor that the block read, of shape {tuple(tensor.shape)} now, has been given another "
        "shape or other memory (.data =, set_, resize_, t_, vector_to_parameters, an out= that is "
        "resized); write to it in place (copy_)"
    )


class _ModuleState:
    """What a module was when the block first called it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._training: bool | None = module.training
        # What functional_call lends is no longer there afterwards.
        self.tensors = {} if _is_lent() else _tensors_of(module)

    def settle(self, read: Memory, written: Memory) -> str:
        now = _tensors_of(self._module)
        if self._module.training != self._training:  # the block itself switches, and will again
            self._training = None
        for name, tensor in self.tensors.items():
            other = now.get(name)
            made = other is not None and _C._memory_id(other) in written
            if other is not tensor and (made or _C._memory_id(tensor) in read):
                return self._replaced(name)
        self.tensors = now
        return ""

    def changed(self) -> str:
        if self._training not in (None, self._module.training):
            kind, mode = type(self._module).__name__, self._module.training
            return f"a {kind} was recorded with training={not mode}, now it is {mode}; set it back"
        now = _tensors_of(self._module)
        for name, tensor in self.tensors.items():
            if now.get(name) is not tensor:
                return self._replaced(name)
        return ""

    def _replaced(self, name: str) -> str:
        kind = type(self._module).__name__
        return (
            f"'{name}' of a {kind} has been replaced by another tensor "
            "(load_state_dict(assign=True), an assignment); write to it in place (copy_)"
        )


def _is_lent() -> bool:
    """Whether a module is being called by functional_call, with tensors that are not its own."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not functional_call.__code__:
        frame = frame.f_back
    return frame is not None


def _tensors_of(module: Module) -> dict[str, Tensor]:
    found = {**module._parameters, **module._buffers}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


class _OptimizerState:
    """What an optimizer was when the block first took a step with it."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._options = _options_of(optimizer)
        self._state = _state_of(optimizer)

    def parameters(self) -> list[Tensor]:
        return [each for group in self.optimizer.param_groups for each in group["params"]]

    def settle(self, read: Memory, written: Memory) -> str:
        name = type(self.optimizer).__name__
        if _first_difference(self._state, _state_of(self.optimizer)) is not None:
            return (
                f"the recorded step of {name} made its state, as the first one does, and would "
                "make it again in every replay; take a step before the block"
            )
        return self.changed()

    def changed(self) -> str:
        name = type(self.optimizer).__name__
        key = _first_difference(self._options, _options_of(self.optimizer))
        if key is not None:
            return f"'{key[1]}' of {name} is not what it was at the recorded step; set it back"
        if _first_difference(self._state, _state_of(self.optimizer)) is not None:
            return f"the state of {name} has been replaced (load_state_dict); write to it in place"
        return ""


def _options_of(optimizer: Optimizer) -> dict[tuple[int, str], Any]:
    return {
        (number, key): value
        for number, group in enumerate(optimizer.param_groups)
        for key, value in group.items()
        if key not in ("params", "initial_lr")
    }


def _state_of(optimizer: Optimizer) -> dict[tuple[int, str], Any]:
    return {
        (id(parameter), key): value
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def _first_difference(
    before: Mapping[tuple[int, str], Any], now: Mapping[tuple[int, str], Any]
) -> tuple[int, str] | None:
    """Return the first key whose value is another tensor or another number."""
    for key in (*before, *now):
        one, other = before.get(key), now.get(key)
        if one is other:
            continue
        plain = isinstance(one, _PLAIN) and isinstance(other, _PLAIN)
        if not plain or one != other:
            return key
    return None
