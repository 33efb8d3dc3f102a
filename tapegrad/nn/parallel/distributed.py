"""`DistributedDataParallel`: a module whose gradients are averaged over several processes."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_origin
from weakref import WeakKeyDictionary

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.distributed.algorithms.join import Joinable, JoinHook
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parallel import _join
from tapegrad.nn.parallel._reducer import GradBucket, Reducer
from tapegrad.nn.parallel.data_parallel import _device, _moved

__all__ = ["DistributedDataParallel"]

LEFT = ("_reducer", "_join_shadow")  # by copies
# Not in the modules: a step whose model has the state of a group could not be replayed.
_process_groups: WeakKeyDictionary[Module, Any] = WeakKeyDictionary()


class DistributedDataParallel(Module, Joinable):
    """Wraps a module for training by several processes, each with its own part of the data.

    Its state has the prefix ``module.``. In a world of one process there is nothing to average, and
    a backward does nothing more than that of the module, unless a communication hook is registered.

    Args:
        module: the module. It must have parameters that require grad.
        device_ids: the GPU of the module, or None; inputs are moved there.
        output_device: accepted.
        dim: accepted.
        broadcast_buffers: whether buffers of the first process replace those of others before
            each forward; True if left out.
        init_sync: whether the parameters of the first process replace those of others now.
        process_group: the processes; the world if left out.
        bucket_cap_mb: from how many megabytes on gradients are averaged as one; 25 if left out.
            The first average begins with 1 MB.
        find_unused_parameters: accepted: parameters that a step does not use are always found.
        check_reduction: accepted.
        gradient_as_bucket_view: whether gradients are views of the memory that is averaged, which
            saves a copy and memory.
        static_graph: whether all steps use the same parameters, so that the processes need not
            tell each other. A step that does not is an error.
        delay_all_reduce_named_params: refused.
        param_to_hook_all_reduce: refused.
        mixed_precision: refused: use `torch.autocast`.
        device_mesh: a mesh of one dimension, in place of process_group.
        skip_all_reduce_unused_params: accepted.
        bucket_cap_mb_list: refused.
        batched_grad_copy: accepted.
        forward_sync_buffers: in place of broadcast_buffers.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        >>> list(model.state_dict())
        ['module.weight', 'module.bias']
        >>> torch.distributed.destroy_process_group()
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Any = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        refused = {
            "delay_all_reduce_named_params": delay_all_reduce_named_params,
            "param_to_hook_all_reduce": param_to_hook_all_reduce,
            "mixed_precision": mixed_precision,
            "bucket_cap_mb_list": bucket_cap_mb_list,
        }
        for name, value in refused.items():
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")
        self._set_group(_group(process_group, device_mesh))
        self.device_mesh = device_mesh
        self._set_devices(module, device_ids, output_device)
        self.dim = dim
        self.module = module
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        asked = (forward_sync_buffers, broadcast_buffers)
        self.broadcast_buffers = next((value for value in asked if value is not None), True)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._will_sync = True  # as it was in the last forward
        self._comm_hooks: list[tuple[Any, Any]] = []
        self._reducer: Reducer | None = None
        self._join_shadow: _join.Shadow | None = None
        if self._is_shared:
            if init_sync:
                self._start_alike()
            self._make_reducer()

    @property
    def process_group(self) -> Any:
        """The processes."""
        return _process_groups[self]

    def _set_group(self, group: Any) -> None:
        _process_groups[self] = group
        self._is_shared = group.size() > 1

    def _set_devices(self, module: Module, device_ids: Any, output_device: Any) -> None:
        params = [p for p in module.parameters() if p.requires_grad]
        if not params:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        kinds = {p.device.type for p in module.parameters()}
        if len(kinds) > 1:
            raise ValueError(
                "DistributedDataParallel's input module must be on the same type of devices, but "
                f"input module parameters locate in {sorted(kinds)}."
            )
        self.device_type = kinds.pop()
        if device_ids and self.device_type == "cpu":
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters on the CPU."
            )
        self.device = params[0].device
        places = [_device(place) for place in device_ids or ()]
        self.device_ids = [place.index or 0 for place in places] or None
        self.output_device = None
        if places:
            self.output_device = places[0].index if output_device is None else output_device
        self.is_multi_device_module = len({p.device for p in module.parameters()}) > 1

    # ---- several processes

    def _trained(self) -> list[tuple[str, Tensor]]:
        named = self.module.named_parameters()
        ignored = self.parameters_to_ignore
        return [(name, p) for name, p in named if p.requires_grad and name not in ignored]

    def _start_alike(self) -> None:
        from tapegrad import distributed
        from tapegrad.distributed.utils import _sync_module_states

        mine = [(tuple(p.shape), str(p.dtype)) for _, p in self._trained()]
        shapes = [None] * self.process_group.size()
        distributed.all_gather_object(shapes, mine, self.process_group)
        if any(other != shapes[0] for other in shapes):
            raise RuntimeError(
                "DistributedDataParallel: the parameters of the processes differ in number, shape "
                "or dtype"
            )
        _sync_module_states(
            self.module,
            self.process_group,
            self.bucket_bytes_cap,
            0,
            self.parameters_to_ignore,
            self.broadcast_buffers,
        )

    def _make_reducer(self) -> None:
        self._reducer = Reducer(
            self._trained(),
            self.process_group,
            self.bucket_bytes_cap,
            lambda: self._will_sync,
            self.gradient_as_bucket_view,
            self.static_graph,
        )

    def _syncs_buffers(self) -> bool:
        return self._is_shared and self.require_forward_param_sync and self.broadcast_buffers

    def _sync_buffers(self, root: int) -> None:
        from tapegrad import distributed

        for name, buffer in self.module.named_buffers():
            if name not in self.parameters_to_ignore:
                distributed.broadcast(buffer, group=self.process_group, group_src=root)

    # ---- calls

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module, with its inputs on its device."""
        is_recorded = _C.is_grad_enabled()
        if self._is_shared:
            _join.tell(self, is_recorded)
            if self._syncs_buffers():
                self._sync_buffers(_join.root_of_buffers(self))
        if self.device_ids:
            place = _device(self.device_ids[0])
            inputs, kwargs = _moved(inputs, place), _moved(kwargs, place)
        if is_recorded:
            self._will_sync = self.require_backward_grad_sync
            self.require_forward_param_sync = self.require_backward_grad_sync
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients without averaging them, in backwards of forwards inside a block.

        Example:
            >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
            >>> with model.no_sync():
            ...     model(torch.ones(1, 2)).sum().backward()
            >>> torch.distributed.destroy_process_group()
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Let processes have different numbers of inputs, inside a block.

        A process that has no inputs left takes part in the averages of the others, with gradients
        of zero. At the end all have the model of a process that was among the last.

        Args:
            divide_by_initial_world_size: whether sums of gradients are divided by the number of all
                processes, and not by the number of those that have inputs.
            enable: whether numbers may differ.
            throw_on_early_termination: whether all raise an error once one has no inputs.

        Example:
            >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
            >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
            >>> with model.join():
            ...     model(torch.ones(1, 2)).sum().backward()
            >>> torch.distributed.destroy_process_group()
        """
        from tapegrad.distributed.algorithms.join import Join

        with Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        ):
            yield

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what `Join` does here once this process has no inputs.

        Args:
            **kwargs: ``divide_by_initial_world_size``, see `join`.
        """
        return _join.Shadow(self, **kwargs)

    @property
    def join_device(self) -> Any:
        """The device of the module."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let a function combine gradients, in place of an average.

        Args:
            state: the first argument of the function.
            hook: called as ``hook(state, bucket)`` with a `torch.distributed.GradBucket`; returns a
                `torch.futures.Future` of a tensor like the bucket's buffer.
        """
        _check_hook(hook)
        if self._comm_hooks:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._comm_hooks.append((hook, state))
        if self._reducer is None:
            self._make_reducer()
        assert self._reducer is not None
        self._reducer.hook, self._reducer.state = hook, state

    def _set_static_graph(self) -> None:
        self.static_graph = True
        if self._reducer is not None:
            self._reducer.is_static = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Any) -> None:
        """Leave parameters and buffers, by name, to each process."""
        module._ddp_params_and_buffers_to_ignore = names  # type: ignore[assignment]

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in LEFT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._set_group(_group(None, self.device_mesh))
        self._reducer = self._join_shadow = None
        hooks, self._comm_hooks = self._comm_hooks, []
        if self._is_shared:
            self._make_reducer()
        for hook, given in hooks:
            self.register_comm_hook(given, hook)


def _group(process_group: Any, device_mesh: Any) -> Any:
    from tapegrad.distributed import _groups

    if process_group is not None and device_mesh is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh is not None:
        if device_mesh.ndim != 1:
            raise RuntimeError(
                f"Only 1D device mesh is supported, but got {device_mesh.ndim} dimensions."
            )
        return device_mesh.get_group(mesh_dim=0)
    if process_group is None:
        return _groups._get_default_group()
    if not isinstance(process_group, _groups.ProcessGroup):
        raise TypeError(
            "DistributedDataParallel: expected a ProcessGroup that this process is in, got "
            f"{process_group!r}"
        )
    return process_group


def _check_hook(hook: Any) -> None:
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    if bucket is not None and not _says(bucket.annotation, GradBucket, "GradBucket"):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    if not _says(signature.return_annotation, tapegrad.futures.Future, "Future"):
        raise ValueError(
            "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
        )


def _says(annotation: Any, kind: type, name: str) -> bool:
    """Return whether an annotation is of a kind, or says nothing."""
    if annotation in (inspect.Parameter.empty, Any, kind):
        return True
    return name in annotation if isinstance(annotation, str) else kind is get_origin(annotation)
