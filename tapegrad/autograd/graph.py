# mypy: disable-error-code="method-assign"
"""The tape's entries from outside: hooks on them, and hooks on what they save.

Entries are `Node` objects, found as ``tensor.grad_fn``. A gradient's way can be watched and changed
at a tensor, at an entry, or at several tensors together; what the tape saves for backward can be
packed away and unpacked when a backward reads it.
"""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Node, Tensor
from tapegrad.utils.hooks import RemovableHandle, register

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """An output of an entry: a place that gradients flow to."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return where the gradient of a tensor flows to.

    Args:
        tensor: one that requires grad.

    Returns:
        The entry and output number; for a leaf, of the entry that accumulates its gradient.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> edge = torch.autograd.graph.get_gradient_edge(x * 2)
        >>> edge.node.name(), edge.output_nr
        ('MulBackward0', 0)
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that does "
            "not require gradients"
        )
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Declare tensors written to, as an in-place op would.

    For code that writes to a tensor's memory behind the library's back: saved values that show it
    are then known to be stale.

    Args:
        tensor: one tensor, or several.

    Example:
        >>> x = torch.zeros(2)
        >>> torch.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(each)


# ---- hooks on gradients


def _register_tensor_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call a function with this tensor's gradient each time it is computed.

    What the function returns, if not None, takes the gradient's place. It must not change its
    argument.

    Args:
        hook: called as ``hook(grad)``.

    Returns:
        A handle whose ``remove()`` removes the hook.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 2)
        >>> x.sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if not self.requires_grad:
        raise RuntimeError(
            "register_hook: cannot register a hook on a tensor that doesn't require gradient"
        )
    handle = register(_C._tensor_hooks(self), hook)
    _C._track_referents(hook)
    return handle


def _register_accumulate_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call a function with this leaf after its ``.grad`` has been added to.

    Args:
        hook: called as ``hook(leaf)``; returns nothing.

    Returns:
        A handle whose ``remove()`` removes the hook.

    Example:
        >>> x = torch.tensor(1.0, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
        >>> (3 * x).backward()
        tensor(3.)
    """
    if not self.requires_grad:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: cannot register a hook on a tensor that doesn't "
            "require gradient"
        )
    handle = register(_C._accumulate_hooks(self), hook)
    _C._track_referents(hook)
    return handle


def _register_node_hook(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Call a function after this entry has run, with (grad_inputs, grad_outputs).

    What it returns, if not None, takes the place of grad_inputs.
    """
    handle = register(_C._node_hooks(self, False), fn)
    _C._track_referents(fn)
    return handle


def _register_node_prehook(self: Node, fn: Callable[..., Any]) -> RemovableHandle:
    """Call a function before this entry runs, with grad_outputs.

    What it returns, if not None, takes the place of grad_outputs.
    """
    handle = register(_C._node_hooks(self, True), fn)
    _C._track_referents(fn)
    return handle


def install() -> None:
    """Give tensors and entries their hook methods."""
    Tensor.register_hook = _register_tensor_hook
    Tensor.register_post_accumulate_grad_hook = _register_accumulate_hook
    Node.register_hook = _register_node_hook
    Node.register_prehook = _register_node_prehook


class _MultiHandle:
    """Removes all hooks of one register_multi_grad_hook()."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> "_MultiHandle":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> Any:
    """Call a function once the gradients of several tensors are known.

    Args:
        tensors: the tensors to wait for.
        fn: with mode "all", called once per backward with a list of all gradients (None for a
            tensor that the backward did not reach); with mode "any", with the first that arrives.
        mode: "all" or "any".

    Returns:
        A handle whose ``remove()`` removes the hooks.

    Example:
        >>> a = torch.tensor(1.0, requires_grad=True)
        >>> b = torch.tensor(2.0, requires_grad=True)
        >>> handle = torch.autograd.graph.register_multi_grad_hook((a, b), print)
        >>> (a * b).backward()
        [tensor(2.), tensor(1.)]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: expected mode 'all' or 'any', got '{mode}'")
    lock = threading.Lock()
    if mode == "any":
        ran: set[int] = set()

        @functools.wraps(fn)
        def once(grad: Tensor) -> None:
            sweep = _C._current_sweep()
            with lock:
                if sweep in ran:
                    return
                ran.clear()
                ran.add(sweep)
            fn(grad)

        return _MultiHandle(
            tuple(tensor.register_hook(once) for tensor in tensors if tensor.requires_grad)
        )

    arrived: dict[int, list[Tensor | None]] = {}
    counts: dict[int, int] = {}
    nodes = [_C._gradient_edge(tensor)[0] for tensor in tensors]

    def hook_for(index: int) -> Callable[[Tensor], None]:
        def collect(grad: Tensor) -> None:
            sweep = _C._current_sweep()
            with lock:
                if sweep not in arrived:
                    expected = sum(_C._will_reach(nodes))
                    arrived[sweep], counts[sweep] = [None] * len(tensors), expected
                grads = arrived[sweep]
                grads[index] = grad
                counts[sweep] -= 1
                if counts[sweep] > 0:
                    return
                del arrived[sweep], counts[sweep]
            fn(grads)

        return collect

    return _MultiHandle(
        tuple(tensor.register_hook(hook_for(index)) for index, tensor in enumerate(tensors))
    )


# ---- hooks on saved values


class saved_tensors_hooks:
    """Pack what the tape saves, inside a block; unpack it when a backward reads it.

    Args:
        pack_hook: called with each tensor that an op saves; returns anything.
        unpack_hook: called with what pack_hook returned; returns the tensor.

    Example:
        >>> def pack(x):
        ...     print("packing", x)
        ...     return x
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        ...     y = x.exp()
        packing tensor(20.0855)
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception: object) -> None:
        _C._pop_saved_hooks()


class _Pinned:
    """A copy of a GPU's tensor in page-locked memory, on its way while the host goes on."""

    __slots__ = ("device", "event", "host", "index")

    def __init__(self, tensor: Tensor) -> None:
        self.device = tensor.device
        like = _C.empty_like(tensor, device="meta")
        if like.stride() != tensor.stride():  # a part of something, or expanded
            tensor = tensor.clone()
        self.host = _C._cuda_pinned_like(like)
        self.host.copy_(tensor, non_blocking=True)
        self.event = _C._CudaEvent()
        self.index = tensor.get_device()
        self.event.record_on(self.index, _C._cuda_current_stream(self.index))

    def get(self) -> Tensor:
        """Return it on its device, for the current stream."""
        self.event.wait_on(self.index, _C._cuda_current_stream(self.index))
        return self.host.to(self.device, non_blocking=True)


class save_on_cpu(saved_tensors_hooks):
    """Keep what the tape saves in the CPU's memory, inside a block.

    Every value of a GPU is copied, once for each op that saves it, and copied back when a backward
    asks for it. `torch.tape.offload("cpu")` moves each value once, leaves parameters where they
    are, copies beside the computation and ahead of the sweep.

    Args:
        pin_memory: whether copies of a GPU's values lie in page-locked memory: then the CPU does
            not wait for them.
        device_type: which devices' tensors to move.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.save_on_cpu():
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Tensor] | _Pinned:
            if pin_memory and tensor.is_cuda and tensor.numel() > 0:
                return _Pinned(tensor)
            return tensor.device, tensor.to("cpu")

        def unpack(packed: tuple[Any, Tensor] | _Pinned) -> Tensor:
            if isinstance(packed, _Pinned):
                return packed.get()
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse `saved_tensors_hooks` inside a block, with an error message.

    Args:
        error_message: the text of the RuntimeError.

    Example:
        >>> with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        ...     pass
    """
    previous = _C._disable_saved_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_hooks(previous)


_mutation = threading.Lock()  # held by the one active allow_mutation_on_saved_tensors()


class _SavedHandle:
    """Stands for a saved tensor while allow_mutation_on_saved_tensors() is active."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class _MutationContext:
    """What allow_mutation_on_saved_tensors() yields."""

    def __init__(self) -> None:
        self._handles: OrderedDict[int, list[_SavedHandle]] = OrderedDict()

    def _pack(self, tensor: Tensor) -> _SavedHandle:
        handle = _SavedHandle(tensor)
        self._handles.setdefault(_C._storage_id(tensor), []).append(handle)
        return handle

    def _before_write(self, tensor: Tensor) -> None:
        for handle in self._handles.pop(_C._storage_id(tensor), ()):
            handle.tensor = handle.tensor.clone()

    def clear(self) -> None:
        """Forget what was saved. Values packed before keep what they have."""
        self._handles.clear()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_MutationContext]:
    """Let saved tensors be written in place inside a block: a copy is kept for backward.

    A saved tensor is copied only if it is written to, just before the write.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
        ...     y = x.clone()
        ...     z = (y * y).sum()
        ...     _ = y.detach().zero_()
        ...     z.backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if not _mutation.acquire(blocking=False):
        raise RuntimeError("allow_mutation_on_saved_tensors: contexts cannot be nested")
    context = _MutationContext()
    _C._set_before_write(context._before_write)
    try:
        with saved_tensors_hooks(context._pack, lambda handle: handle.tensor):
            yield context
    finally:
        _C._set_before_write(None)
        context.clear()
        _mutation.release()
