"""`FullyShardedDataParallel`, the older wrapper, on what `fully_shard` is made of."""

import contextlib
from collections.abc import Iterator
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from tapegrad.distributed.fsdp._fully_shard import FSDPModule, fully_shard
from tapegrad.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictType,
)
from tapegrad.distributed.fsdp.wrap import CustomPolicy, ModuleWrapPolicy, apply_policy
from tapegrad.distributed.tensor import DTensor, distribute_tensor
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "CustomPolicy",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "ModuleWrapPolicy",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictType",
]

_PREFIX = "_fsdp_wrapped_module."


def _mesh_for(strategy: ShardingStrategy, group: Any, mesh: DeviceMesh | None) -> DeviceMesh:
    """Return the mesh on which a strategy is what `fully_shard` does."""
    from tapegrad import distributed

    if isinstance(group, tuple):
        raise NotImplementedError(
            "FullyShardedDataParallel: a tuple of process groups is not supported; give a "
            "device_mesh of two dimensions"
        )
    if mesh is None and group is not None:
        mesh = DeviceMesh.from_group(group, "cpu")
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    if hybrid and (mesh is None or mesh.ndim != 2):
        raise ValueError(
            f"FullyShardedDataParallel: {strategy} needs a device_mesh of two dimensions"
        )
    if strategy is ShardingStrategy.NO_SHARD:  # all processes have copies
        if mesh is not None and mesh.ndim == 2 and mesh.size(1) == 1:
            return mesh
        if mesh is not None and mesh.size() != distributed.get_world_size():
            raise NotImplementedError(
                "FullyShardedDataParallel: NO_SHARD is supported for all processes only"
            )
        return init_device_mesh("cpu", (distributed.get_world_size(), 1))
    return mesh or init_device_mesh("cpu", (distributed.get_world_size(),))


class FullyShardedDataParallel(Module):
    """A module whose parameters are divided between processes; see `fully_shard`.

    Parameters are DTensors of the shapes that they had, whatever `use_orig_params`. New programs
    use `fully_shard`.

    Args:
        module: the module, which is changed.
        process_group: the processes; all if None.
        sharding_strategy: FULL_SHARD frees whole parameters after forward, SHARD_GRAD_OP after
            backward, NO_SHARD divides nothing; HYBRID_SHARD needs a mesh of two dimensions.
        cpu_offload: parameters lie on CPUs in any case.
        auto_wrap_policy: which modules inside are wrapped, and so gathered apart.
        backward_prefetch: accepted; backward gathers one module ahead.
        mixed_precision: dtypes.
        ignored_modules: modules whose parameters stay as they are.
        param_init_fn: called with each module that has parameters on the meta device.
        device_id: refused unless it is the CPU.
        sync_module_states: copy parameters and buffers of the first process to all.
        forward_prefetch, limit_all_gathers: accepted.
        use_orig_params: accepted.
        ignored_states: parameters, or modules, that stay as they are.
        device_mesh: the processes.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Any = None,
        param_init_fn: Any = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if device_id is not None and tapegrad.device(device_id).type != "cpu":
            raise NotImplementedError("FullyShardedDataParallel: only CPUs are supported")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = _mesh_for(strategy, process_group, device_mesh)
        ignored = _ignored(ignored_modules, ignored_states)
        _make_real(module, param_init_fn)
        if sync_module_states:
            _copy_from_first(module, mesh)
        if auto_wrap_policy is not None:

            def wrapped(child: Module, **changes: Any) -> Module:
                options = {"mixed_precision": mixed_precision, **changes}
                return FullyShardedDataParallel(
                    child, None, strategy, device_mesh=mesh, ignored_states=ignored, **options
                )

            _wrap_inside(module, auto_wrap_policy, wrapped)
        keeps = strategy not in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        fully_shard(
            module,
            mesh=mesh,
            reshard_after_forward=False if keeps else None,
            mp_policy=_policy(mixed_precision),
            ignored_params=set(ignored),
        )
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            for part in module.modules():
                for name, buffer in part._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        part._buffers[name] = buffer.to(mixed_precision.buffer_dtype)
        self._fsdp_wrapped_module = module
        self.sharding_strategy = strategy
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self._state_dict_type = StateDictType.FULL_STATE_DICT
        self._state_dict_config: StateDictConfig = FullStateDictConfig()
        self._optim_config: OptimStateDictConfig = FullOptimStateDictConfig()
        self._register_state_dict_hook(_collect)
        self.register_load_state_dict_pre_hook(_distribute)

    @property
    def module(self) -> Module:
        """The module inside."""
        return self._fsdp_wrapped_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return what the module inside has, where this one has not."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: int) -> Any:
        return self._fsdp_wrapped_module.__getitem__(key)  # type: ignore[operator]

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients so that the norm of all together is at most `max_norm`; return the norm.

        Args:
            max_norm: the largest norm.
            norm_type: the p of the norm.
        """
        norm: Any = tapegrad.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let backwards inside of the block add up gradients in each process."""
        _set_sync(self, False)
        try:
            yield
        finally:
            _set_sync(self, True)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """Return the wrappers in a module.

        Args:
            module: the module.
            root_only: leave out those inside of others.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if root_only:
            inner = {m for each in found for m in each.modules() if m is not each}
            found = [each for each in found if each not in inner]
        return found

    # ---- state

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Any:
        """Set what `state_dict` of the wrappers in a module returns; return what was set.

        Args:
            module: the module.
            state_dict_type: whole tensors, or DTensors. Local ones are refused.
            state_dict_config, optim_state_dict_config: where they are.
        """
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError(
                "FullyShardedDataParallel: LOCAL_STATE_DICT is not supported; use "
                "SHARDED_STATE_DICT, whose tensors have to_local()"
            )
        full = state_dict_type is StateDictType.FULL_STATE_DICT
        config = state_dict_config or (FullStateDictConfig() if full else ShardedStateDictConfig())
        optim = optim_state_dict_config or (
            FullOptimStateDictConfig() if full else ShardedOptimStateDictConfig()
        )
        before = None
        for each in FullyShardedDataParallel.fsdp_modules(module):
            before = before or (each._state_dict_type, each._state_dict_config, each._optim_config)
            each._state_dict_type, each._state_dict_config = state_dict_type, config
            each._optim_config = optim
        return before

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """Do as `set_state_dict_type` inside of a block."""
        set_type = FullyShardedDataParallel.set_state_dict_type
        before = set_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            if before is not None:
                set_type(module, *before)

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Put whole parameters into a module inside of a block.

        Args:
            module: the module.
            recurse: also into wrappers inside.
            writeback: whether changes are kept.
            rank0_only: refused with `writeback`; otherwise all processes have whole parameters.
            offload_to_cpu: accepted.
            with_grads: whether they have whole gradients.
        """
        if rank0_only and writeback:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported")
        groups = []
        for part in module.modules() if recurse else [module, *module.children()]:
            if isinstance(part, FSDPModule) and part._fsdp_state.group is not None:
                groups.append(part._fsdp_state.group)
        summoned = []
        for group in groups:
            params = group.params()
            wholes = [Parameter(p.detach().full_tensor(), p.requires_grad) for p in params]
            for param, whole in zip(params if with_grads else [], wholes, strict=False):
                whole.grad = None if param.grad is None else param.grad.full_tensor()
            group.put(wholes)
            summoned.append((group, params, wholes))
        try:
            yield
        finally:
            for group, params, wholes in summoned:
                group.put_back()
                with tapegrad.no_grad():
                    for param, whole in zip(params if writeback else [], wholes, strict=False):
                        param._local_tensor.copy_(_cut(whole, param))

    # ---- state of optimizers

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """Return an optimizer's state by names of parameters, as `set_state_dict_type` says.

        Args:
            model: the model.
            optim: the optimizer.
            optim_state_dict: refused.
            group: not used.
        """
        if optim_state_dict is not None:
            raise NotImplementedError(
                "FullyShardedDataParallel.optim_state_dict: optim_state_dict is not supported; "
                "the optimizer's own is taken"
            )
        wrappers = FullyShardedDataParallel.fsdp_modules(model)
        full, rank0_only = True, False
        if wrappers:
            full = wrappers[0]._state_dict_type is StateDictType.FULL_STATE_DICT
            rank0_only = getattr(wrappers[0]._optim_config, "rank0_only", False)
        return _optim_state(model, optim, full, rank0_only)

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True,
        group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return an optimizer's state as whole tensors by names; {} elsewhere if `rank0_only`."""
        return _optim_state(model, optim, True, rank0_only)

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """Return an optimizer's state as DTensors by names of parameters."""
        return _optim_state(model, optim, False, False)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """Return a state by names as one that the optimizer loads.

        Args:
            model: the model.
            optim: the optimizer.
            optim_state_dict: what `optim_state_dict` returned, in this run or another.
            is_named_optimizer: refused.
            load_directly: also load it.
            group: not used.
        """
        if is_named_optimizer:
            raise NotImplementedError("optim_state_dict_to_load: is_named_optimizer is refused")
        found = _optim_state_to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the part of this process of a whole state, for the optimizer to load."""
        return _optim_state_to_load(model, optim, full_optim_state_dict)

    flatten_sharded_optim_state_dict = staticmethod(
        lambda sharded_optim_state_dict, model, optim: _optim_state_to_load(
            model, optim, sharded_optim_state_dict
        )
    )

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None, model: Module, optim_input: Any = None,
        optim: Any = None, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Do as `shard_full_optim_state_dict` with the state that the first process has."""
        from tapegrad import distributed

        box = [full_optim_state_dict]
        distributed.broadcast_object_list(box, 0)
        assert box[0] is not None
        return _optim_state_to_load(model, optim, box[0])

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module,
        optim_input: Any = None, optim: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return a state by names as one by numbers, or the other way."""
        names = [_clean(name) for name, _ in model.named_parameters()]
        by_name = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        pairs = list(enumerate(names))
        new = dict(pairs) if by_name else {name: number for number, name in pairs}
        state = {new[key]: entry for key, entry in optim_state_dict["state"].items()}
        groups = [
            {**group, "params": [new[key] for key in group["params"]]}
            for group in optim_state_dict["param_groups"]
        ]
        return {"state": state, "param_groups": groups}


def _clean(name: str) -> str:
    return name.replace(_PREFIX, "").replace("_checkpoint_wrapped_module.", "")


def _policy(given: MixedPrecision | None) -> MixedPrecisionPolicy:
    if given is None:
        return MixedPrecisionPolicy()
    if given.keep_low_precision_grads:
        raise NotImplementedError(
            "FullyShardedDataParallel: keep_low_precision_grads is not supported"
        )
    casts = given.cast_forward_inputs or given.cast_root_forward_inputs
    return MixedPrecisionPolicy(given.param_dtype, given.reduce_dtype, cast_forward_inputs=casts)


def _ignored(modules: Any, states: Any) -> list[Any]:
    found = []
    for each in (*(modules or ()), *(states or ())):
        found += list(each.parameters()) if isinstance(each, Module) else [each]
    return found


def _make_real(module: Module, init: Any) -> None:
    """Give memory to parameters that have none."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if not any(each.is_meta for each in own):
            continue
        if init is not None:
            init(part)
            continue
        part.to_empty(device="cpu", recurse=False)
        reset = getattr(part, "reset_parameters", None)
        if reset is None:
            raise ValueError(
                f"FullyShardedDataParallel: {type(part).__name__} is on the meta device and has "
                "no reset_parameters(); give param_init_fn"
            )
        with tapegrad.no_grad():
            reset()


def _copy_from_first(module: Module, mesh: DeviceMesh) -> None:
    from tapegrad import distributed

    with tapegrad.no_grad():
        for each in (*module.parameters(), *module.buffers()):
            if isinstance(each, DTensor):
                continue
            for axis in reversed(range(mesh.ndim)):
                distributed.broadcast(each.detach(), group=mesh.get_group(axis), group_src=0)


def _wrap_inside(module: Module, policy: Any, wrapper: Any) -> None:
    if isinstance(policy, set):
        policy = ModuleWrapPolicy(policy)
    apply_policy(module, policy, wrapper)


def _set_sync(module: Module, sync: bool) -> None:
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_requires_gradient_sync(sync, recurse=False)


def _cut(whole: Tensor, param: Any) -> Tensor:
    """Return the part of a whole tensor that lies as a parameter's part does."""
    found = whole.detach()
    for dim, start in enumerate(param._layout.offsets()):
        length = param._local_tensor.shape[dim]
        found = found.narrow(dim, min(start, found.shape[dim] - length), length)
    return found


def _collect(module: Any, state: Any, prefix: str, local_metadata: Any) -> Any:
    """Take the wrapper out of names, and gather what is to be whole."""
    from tapegrad import distributed

    config = module._state_dict_config
    full = module._state_dict_type is StateDictType.FULL_STATE_DICT
    drop = full and getattr(config, "rank0_only", False) and distributed.get_rank() != 0
    for name in [key for key in state if key.startswith(prefix + _PREFIX)]:
        value = state.pop(name)
        if full and isinstance(value, DTensor):
            value = value.full_tensor()
        if config.offload_to_cpu and isinstance(value, Tensor):
            value = value.to("cpu")
        if not drop:
            state[prefix + name[len(prefix + _PREFIX) :]] = value
    return state


def _distribute(module: Any, state: Any, prefix: str, *rest: Any) -> None:
    """Put the wrapper into names, and divide what is whole."""
    inner = module._fsdp_wrapped_module
    params: dict[str, Any] = {_clean(n): p for n, p in inner.named_parameters()}
    for name in [key for key in state if key.startswith(prefix)]:
        value = state.pop(name)
        rest_of_name = name[len(prefix) :].removeprefix(_PREFIX)
        param: Any = params.get(_clean(rest_of_name))
        divides = isinstance(param, DTensor) and not isinstance(value, DTensor)
        if divides and tuple(value.shape) == tuple(param.shape):
            value = DTensor._of(_cut(value, param).to(param.dtype), param._layout)
        state[f"{prefix}{_PREFIX}{rest_of_name}"] = value


def _whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _optim_state(model: Module, optim: Any, full: bool, rank0_only: bool) -> dict[str, Any]:
    from tapegrad import distributed

    names = {id(param): _clean(name) for name, param in model.named_parameters()}
    state = {
        names[id(param)]: {k: _whole(v) if full else v for k, v in entry.items()}
        for param, entry in optim.state.items()
    }
    groups = [
        {**{k: v for k, v in group.items() if k != "params"},
         "params": [names[id(param)] for param in group["params"]]}
        for group in optim.param_groups
    ]  # fmt: skip
    if full and rank0_only and distributed.get_rank() != 0:
        return {}
    return {"state": state, "param_groups": groups}


def _optim_state_to_load(model: Module, optim: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return a state by numbers, with what is whole divided as the parameters are."""
    if optim is None:
        raise ValueError("FullyShardedDataParallel: expected the optimizer as optim")
    names = {id(param): _clean(name) for name, param in model.named_parameters()}
    state: dict[int, Any] = {}
    groups, number = [], 0
    saved = {name: group for group in given["param_groups"] for name in group["params"]}
    for group in optim.param_groups:
        numbers, options = [], {k: v for k, v in group.items() if k != "params"}
        for param in group["params"]:
            name = names[id(param)]
            options |= {k: v for k, v in saved.get(name, {}).items() if k != "params"}
            if name in given["state"]:
                entry = given["state"][name]
                state[number] = {key: _as_param(value, param) for key, value in entry.items()}
            numbers.append(number)
            number += 1
        groups.append({**options, "params": numbers})
    return {"state": state, "param_groups": groups}


def _as_param(value: Any, param: Any) -> Any:
    whole = isinstance(value, Tensor) and not isinstance(value, DTensor)
    if isinstance(param, DTensor) and whole and tuple(value.shape) == tuple(param.shape):
        return distribute_tensor(value, param.device_mesh, param.placements, src_data_rank=None)
    return value
