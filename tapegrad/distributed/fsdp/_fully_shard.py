"""`fully_shard`: modules whose parameters are divided between processes."""

import threading
from collections.abc import Iterable
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from tapegrad.distributed.fsdp._param_group import ParamGroup, Place, saved_values
from tapegrad.distributed.fsdp.api import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from tapegrad.distributed.tensor import DTensor, Shard
from tapegrad.nn.modules.container import ModuleDict, ModuleList
from tapegrad.nn.modules.module import Module
from tapegrad.utils._pytree import tree_map

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


class _Running(threading.local):
    """The outermost module that runs in a thread, and what has run inside of it, in order."""

    def __init__(self) -> None:
        self.root: _State | None = None
        self.order: list[_State] = []


_running = _Running()


class _State:
    """What `fully_shard` knows of a module."""

    def __init__(
        self, group: ParamGroup | None, policy: MixedPrecisionPolicy, reshard: bool | None
    ) -> None:
        self.group, self.policy = group, policy
        self.reshard_after_forward = reshard  # None: unless it is the outermost
        self.forward_prefetch: list[_State] = []
        self.backward_prefetch: list[_State] | None = None
        self.is_root: bool | None = None
        self.depth = 0  # of calls that are under way

    def run(self, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the module with whole parameters."""
        outermost = _running.root is None
        if outermost:
            _running.root, _running.order = self, []
        if self.is_root is None:
            self.is_root = outermost
        self.depth += 1
        try:
            if self.policy.param_dtype is not None and self.policy.cast_forward_inputs:
                args, kwargs = _cast((args, kwargs), self.policy.param_dtype)
            self._before()
            if self.group is not None:
                args, kwargs = tree_map(self._watched_input, (args, kwargs))
            with saved_values():
                result = forward(*args, **kwargs)
            if self.group is not None:
                tree_map(self._watch_output, result)
        finally:
            self.depth -= 1
            if not self.depth:
                self._after()
            if outermost:
                _running.root, _running.order = None, []
        if self.policy.output_dtype is not None:
            result = _cast(result, self.policy.output_dtype)
        return result

    def _before(self) -> None:
        if self.group is None or self.depth > 1:
            return
        self.group.put(self.group.recorded())
        for state in self.forward_prefetch:
            if state.group is not None:
                state.group.begin()
        self._note_order()

    # Backward may run parts of forward again, as checkpoints do, which need whole parameters in the
    # module: from its first gradient, that of an output, to its last, that of an input or of the
    # parameters themselves (`ParamGroup.reduce`).

    def _watch_output(self, value: Any) -> Any:
        if isinstance(value, Tensor) and value.requires_grad and tapegrad.is_grad_enabled():
            value.register_hook(self._begin_backward)
        return value

    def _begin_backward(self, grad: Tensor) -> None:
        assert self.group is not None
        if self.group.is_trained():
            with tapegrad.enable_grad():
                self.group.put(self.group.recorded())
            self.group.begin_before()

    def _watched_input(self, value: Any) -> Any:
        if isinstance(value, Tensor) and value.requires_grad and tapegrad.is_grad_enabled():
            value = value.view_as(value)
            value.register_hook(self._end_backward)
        return value

    def _end_backward(self, grad: Tensor) -> None:
        assert self.group is not None
        if not self.depth:
            self.group.put_back()

    def _note_order(self) -> None:
        """Let backward gather, with this module's parameters, those of the module before."""
        assert self.group is not None
        if self.backward_prefetch is not None:
            before = self.backward_prefetch
        else:
            before = _running.order[-1:]
        self.group.prefetched = [s.group for s in before if s.group not in (None, self.group)]  # type: ignore[misc]
        _running.order.append(self)

    def _after(self) -> None:
        if self.group is None:
            return
        self.group.put_back()
        keeps = self.reshard_after_forward is False
        if self.reshard_after_forward is None:
            keeps = bool(self.is_root)
        if not keeps or not tapegrad.is_grad_enabled():
            self.group.free()


def _cast(values: Any, dtype: Any) -> Any:
    def cast(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.to(dtype)
        return value

    return tree_map(cast, values)


class UnshardHandle:
    """What `FSDPModule.unshard` returns."""

    _state: _State

    def wait(self) -> None:
        """Wait until the parameters are there, and put them into the module."""
        group = self._state.group
        if group is not None:
            group.put(group.recorded())


class FSDPModule:
    """What modules become by `fully_shard`: a class beside their own."""

    _fsdp_state: _State

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a module of the class that was there before, which is not divided."""
        original = cls.__mro__[2]
        return original(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module with whole parameters."""
        return self._fsdp_state.run(super().forward, args, kwargs)  # type: ignore[misc]

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError(
            "FSDP does not support deepcopy. Please use state dict for serialization."
        )

    def _states(self, recurse: bool = True) -> list[_State]:
        modules: Iterable[Any] = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [module._fsdp_state for module in modules if isinstance(module, FSDPModule)]

    def _own_groups(self, recurse: bool = True) -> list[ParamGroup]:
        return [state.group for state in self._states(recurse) if state.group is not None]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Put whole parameters into this module, without those inside that are divided apart.

        Args:
            async_op: return a handle whose ``wait()`` does it; gathering begins now.
        """
        handle = UnshardHandle()
        handle._state = self._fsdp_state
        if async_op:
            if self._fsdp_state.group is not None:
                self._fsdp_state.group.begin()
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Put the parts back, and free whole parameters."""
        group = self._fsdp_state.group
        if group is not None:
            group.put_back()
            group.free()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Take note of PyTorch's hint: nothing waits between backwards here.

        Args:
            is_last_backward: whether no further backward comes before a step.
        """

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Set whether backward reduces gradients, or adds them up in each process.

        Args:
            requires_gradient_sync: False to accumulate without communication.
            recurse: also inside.
        """
        for group in self._own_groups(recurse):
            group.sync_gradients = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients between copies, where the mesh has two dimensions.

        Args:
            requires_all_reduce: False to accumulate parts.
            recurse: also inside.
        """
        for group in self._own_groups(recurse):
            group.sync_copies = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether whole parameters are freed after forward.

        Args:
            reshard_after_forward: whether they are.
            recurse: also inside.
        """
        for state in self._states(recurse):
            state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Set whether whole parameters are freed after backward.

        Args:
            reshard_after_backward: whether they are.
            recurse: also inside.
        """
        for group in self._own_groups(recurse):
            group.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Begin to gather the parameters of other modules when this one runs.

        Args:
            modules: the modules that run next.
        """
        self._fsdp_state.forward_prefetch = _states_of("forward", modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Begin to gather the parameters of other modules in this one's backward.

        Args:
            modules: the modules whose backward runs next; by itself the one that ran before.
        """
        self._fsdp_state.backward_prefetch = _states_of("backward", modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide sums of gradients by a factor, in place of the number of processes.

        Args:
            factor: the factor.
        """
        for group in self._own_groups(recurse=False):
            group.divide_factor = float(factor)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Take note of PyTorch's hint: backward gathers what it asks for, and nothing else.

        Args:
            unshard_in_backward: whether whole parameters are needed.
        """

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Take note of PyTorch's hint: gathering begins without waiting wherever it can."""

    def set_post_optim_event(self, event: Any) -> None:
        """Take note of an event of a GPU's stream: there is none on CPUs.

        Args:
            event: the event.
        """


def _states_of(name: str, modules: list[Any]) -> list[_State]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(
                f"set_modules_to_{name}_prefetch: expected modules that fully_shard was called "
                f"with, got {type(module).__name__}"
            )
    return [module._fsdp_state for module in modules]


def _expect_dividable(name: str, param: Any) -> None:
    if isinstance(param, DTensor):
        raise NotImplementedError(
            f"fully_shard: {name} is a DTensor already; parameters that are divided by "
            "parallelize_module as well are not supported"
        )
    if getattr(param, "_divided", False):
        raise ValueError(
            f"fully_shard: {name} is shared with a module that was divided before; call "
            "fully_shard for a module that holds both, and leave the inner one out"
        )
    if not param.dim():
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with "
            "numel equal to 1."
        )


def _places(modules: list[Any], ignored: set[Any]) -> list[list[Place]]:
    """Return where the parameters are that no module inside has divided; shared ones together."""
    found: dict[int, list[Place]] = {}
    seen: set[Any] = set()

    def visit(module: Any, prefix: str) -> None:
        if module in seen or (isinstance(module, FSDPModule) and module not in modules):
            return
        seen.add(module)
        for name, param in module._parameters.items():
            if param is not None and param not in ignored:
                _expect_dividable(prefix + name, param)
                found.setdefault(id(param), []).append(Place(module, name))
        for name, child in module._modules.items():
            if child is not None:
                visit(child, f"{prefix}{name}.")

    for module in modules:
        visit(module, "")
    return list(found.values())


def _checked_mesh(mesh: DeviceMesh | None, modules: list[Any]) -> DeviceMesh:
    from tapegrad import distributed

    if mesh is None:
        params = (param for module in modules for param in module.parameters())
        first = next(params, None)
        on = "cpu" if first is None or first.is_meta else first.device.type
        mesh = init_device_mesh(on, (distributed.get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    return mesh


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divide the parameters of a module between processes.

    They become DTensors, each process with a part of the rows. Forward gathers them, and frees them
    when it is over; backward gathers them again, and reduces gradients to averages of which each
    process has its part. Call it for inner modules first, then for the whole: each call makes one
    group that is gathered at a time. An optimizer is made afterwards.

    Args:
        module: the module, which is changed, or a list of modules that are gathered together.
        mesh: the processes; all if None. Of two dimensions the first has copies.
        reshard_after_forward: whether whole parameters are freed after forward. None says yes for
            all but the outermost module; a number counts as True.
        shard_placement_fn: called with each parameter; only None and Shard(0) are supported.
        mp_policy: dtypes of computing, reducing and results.
        offload_policy: CPUOffloadPolicy needs a mesh of CPUs, where parameters lie anyway.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: only None is supported; pass the part of the mesh that divides.

    Returns:
        The module, whose class is one beside its own, with the methods of `FSDPModule`.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        >>> for layer in model:
        ...     _ = torch.distributed.fsdp.fully_shard(layer)
        >>> _ = torch.distributed.fsdp.fully_shard(model)
        >>> model(torch.ones(4, 2)).sum().backward()
        >>> model[0].weight.placements, model[0].weight.grad.shape
        ((Shard(dim=0),), torch.Size([3, 2]))
        >>> torch.distributed.destroy_process_group()
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError(
            "fully_shard: dp_mesh_dims is not supported; pass the mesh that divides parameters"
        )
    modules = list(module) if isinstance(module, list | tuple) else [module]
    for each in modules:
        if isinstance(each, ModuleList | ModuleDict):
            raise ValueError(f"fully_shard does not support containers that do not implement "
                             f"forward: {each}")  # fmt: skip
        if not isinstance(each, Module):
            raise ValueError(f"fully_shard: expected a module, got {type(each).__name__}")
        if isinstance(each, FSDPModule):
            raise AssertionError(
                f"fully_shard: it was called with this {type(each).__name__} already"
            )
    mesh = _checked_mesh(mesh, modules)
    if isinstance(offload_policy, CPUOffloadPolicy) and mesh.device_type != "cpu":
        raise NotImplementedError(
            "fully_shard: CPUOffloadPolicy is not supported for a mesh of GPUs"
        )
    places = _places(modules, set(ignored_params or ()))
    if shard_placement_fn is not None:
        for each in places:
            wanted = shard_placement_fn(each[0].module._parameters[each[0].name])
            if wanted not in (None, Shard(0)):
                raise NotImplementedError(
                    f"fully_shard: expected None or Shard(0) of shard_placement_fn, got {wanted}"
                )
    policy = mp_policy or MixedPrecisionPolicy()
    group = ParamGroup(places, mesh, policy) if places else None
    reshard = None if reshard_after_forward is None else bool(reshard_after_forward)
    for each in modules:
        each._fsdp_state = _State(group, policy, reshard)
        _change_class(each)
        each.register_state_dict_pre_hook(_parts_only)
    return module


def _parts_only(module: Any, prefix: str, keep_vars: bool) -> None:
    module.reshard()


def _change_class(module: Any) -> None:
    own = type(module)
    if "forward" in module.__dict__:  # an instance's own, which runs inside as well
        inner = module.__dict__["forward"]
        module.forward = lambda *args, **kwargs: module._fsdp_state.run(inner, args, kwargs)
    module.__class__ = type(f"FSDP{own.__name__}", (FSDPModule, own), {})


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let another method of a module run with whole parameters, as forward does.

    Args:
        module: a module that `fully_shard` was called with; others are left alone.
        method_name: the method.
    """
    if not isinstance(module, FSDPModule):
        return
    inner = getattr(module, method_name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return module._fsdp_state.run(inner, args, kwargs)

    setattr(module, method_name, call)
