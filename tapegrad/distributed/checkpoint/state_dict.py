"""State with the names of parameters, whatever modules are wrapped in.

The names are those of the module without `DistributedDataParallel`, checkpoint wrappers and
compiled modules around its parts; the state of an optimizer goes by them as well. So what one run
saves fits another that is wrapped in another way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.tensor import DTensor, distribute_tensor
from tapegrad.nn.modules.module import Module
from tapegrad.optim.optimizer import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_WRAPPERS = ("_checkpoint_wrapped_module", "_orig_mod", "_fsdp_wrapped_module")


@dataclass
class StateDictOptions:
    """What is returned and how strictly it is taken over.

    Attributes:
        full_state_dict: whether DTensors are returned whole. With `cpu_offload` only the first
            process has them then, as in PyTorch. What is set may be whole in any case.
        cpu_offload: whether tensors are copied to the host.
        ignore_frozen_params: whether parameters that require no grad are left out.
        keep_submodule_prefixes: accepted.
        strict: whether names must fit exactly.
        broadcast_from_rank0: whether the first process's state is set in all.
        flatten_optimizer_state_dict: whether an optimizer's state is one dict of dotted names.
        dsd_fqn_modifiers: accepted.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _bare_name(model: Module, name: str) -> str:
    """Return a name of a model's state without what wrappers add to it."""
    from tapegrad.nn.parallel import DataParallel, DistributedDataParallel

    kept: list[str] = []
    part: Any = model
    for word in name.split("."):
        is_parallel = isinstance(part, (DataParallel, DistributedDataParallel))
        if not (is_parallel and word == "module") and word not in _WRAPPERS:
            kept.append(word)
        part = getattr(part, "_modules", {}).get(word) if isinstance(part, Module) else None
    return ".".join(kept)


def _names(model: Module) -> dict[str, str]:
    """Return the bare name of each entry of a model's state, by the name it has there."""
    return {name: _bare_name(model, name) for name in model.state_dict()}


def _param_names(model: Module) -> dict[Tensor, str]:
    return {param: _bare_name(model, name) for name, param in model.named_parameters()}


def _placed(value: Any, options: StateDictOptions) -> Any:
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.detach().full_tensor()
    if options.cpu_offload and isinstance(value, Tensor):
        return value.detach().to("cpu")
    return value


def _divided_state(model: Module) -> dict[str, Any]:
    """Return the state of a model, with DTensors where parameters are divided."""
    from tapegrad.distributed.fsdp import FullyShardedDataParallel, StateDictType

    divided = StateDictType.SHARDED_STATE_DICT
    with FullyShardedDataParallel.state_dict_type(model, divided):
        return model.state_dict()


def _is_left_out(options: StateDictOptions) -> bool:
    """Return whether this process returns nothing: the first has all."""
    from tapegrad import distributed

    only_first = options.full_state_dict and options.cpu_offload and distributed.is_initialized()
    return only_first and distributed.get_rank() != 0


def _taken(value: Any, like: Any) -> Any:
    """Return a whole tensor as one that lies as another does."""
    is_whole = isinstance(value, Tensor) and not isinstance(value, DTensor)
    if not (isinstance(like, DTensor) and is_whole and tuple(value.shape) == tuple(like.shape)):
        return value
    mesh, ways = like.device_mesh, like.placements
    return distribute_tensor(value.to(like.device), mesh, ways, src_data_rank=None)


def _from_first(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    from tapegrad import distributed

    if not options.broadcast_from_rank0 or not distributed.is_initialized():
        return state
    box = [state]
    distributed.broadcast_object_list(box, 0)
    return box[0]


def _no_submodules(submodules: Any, name: str) -> None:
    if submodules:
        raise NotImplementedError(f"{name}: submodules is not supported; pass the submodule itself")


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return the state of a model by bare names.

    Args:
        model: the model.
        submodules: refused.
        options: see `StateDictOptions`.

    Example:
        >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 1), device_ids=[0])
        >>> state_dict = torch.distributed.checkpoint.state_dict
        >>> list(state_dict.get_model_state_dict(model))
        ['weight', 'bias']
    """
    _no_submodules(submodules, "get_model_state_dict")
    given = options or StateDictOptions()
    state, names = _divided_state(model), _names(model)
    frozen = set()
    if given.ignore_frozen_params:
        frozen = {n for p, n in _param_names(model).items() if not p.requires_grad}
    found = {names[key]: _placed(value, given) for key, value in state.items()}
    if _is_left_out(given):
        return {}
    return {name: value for name, value in found.items() if name not in frozen}


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Give a model a state that goes by bare names.

    Args:
        model: the model.
        model_state_dict: the state.
        options: see `StateDictOptions`.

    Returns:
        The keys that were missing and those that were not expected.
    """
    given = options or StateDictOptions()
    model_state_dict = _from_first(model_state_dict, given)
    wrapped = {bare: name for name, bare in _names(model).items()}
    own = {wrapped[_bare_name(model, name)]: value for name, value in _divided_state(model).items()}
    state = {wrapped.get(name, name): value for name, value in model_state_dict.items()}
    state = {name: _taken(value, own.get(name)) for name, value in state.items()}
    if given.ignore_frozen_params:
        for name, param in model.named_parameters():
            if not param.requires_grad and name not in state:
                state[name] = param
    return model.load_state_dict(state, strict=given.strict)


# ---- optimizers


def _listed(optimizers: Any) -> list[Optimizer]:
    listed = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    if not all(isinstance(each, Optimizer) for each in listed):
        raise TypeError("state_dict: expected an optimizer or several")
    return listed


def _init_optim_state(optim: Optimizer) -> None:
    """Let an optimizer make its state, by a step that changes no parameter."""
    if optim.state:
        return
    params = [param for group in optim.param_groups for param in group["params"]]
    if any(param.grad is not None for param in params):
        return  # an optimizer without state, such as SGD, or one before its first step
    rates = [group.get("lr") for group in optim.param_groups]
    values = [param.detach().clone() for param in params]
    for param in params:
        if param.requires_grad:
            param.grad = tapegrad.zeros_like(param)
    try:
        for group, rate in zip(optim.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = tapegrad.zeros_like(rate) if isinstance(rate, Tensor) else 0.0
        optim.step(closure=None)
    finally:
        for group, rate in zip(optim.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        with tapegrad.no_grad():
            for param, value in zip(params, values, strict=True):
                param.detach().copy_(value)
                param.grad = None


def _options_of(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in ("params", "param_names")}


def _name_of(names: dict[Tensor, str], param: Tensor) -> str:
    if param not in names:
        raise RuntimeError("state_dict: the optimizer has a parameter that the model has not")
    return names[param]


def get_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """Return the state of optimizers by names of parameters.

    Args:
        model: the model whose parameters they have.
        optimizers: an optimizer, or several.
        submodules: refused.
        options: see `StateDictOptions`.
    """
    _no_submodules(submodules, "get_optimizer_state_dict")
    given = options or StateDictOptions()
    names = _param_names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optim in _listed(optimizers):
        _init_optim_state(optim)
        for group in optim.param_groups:
            listed = [_name_of(names, param) for param in group["params"]]
            groups.append({**_options_of(group), "params": listed})
            for name, param in zip(listed, group["params"], strict=True):
                if param in optim.state:
                    entry = optim.state[param]
                    state[name] = {key: _placed(value, given) for key, value in entry.items()}
    if _is_left_out(given):
        return {}
    if not given.flatten_optimizer_state_dict:
        return {"state": state, "param_groups": groups}
    flat = {f"state.{n}.{key}": v for n, entry in state.items() for key, v in entry.items()}
    for group in groups:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{key}": v for key, v in _options_of(group).items()}
    return flat


def _unflattened(
    optimizers: list[Optimizer], names: dict[Tensor, str], flat: dict[str, Any]
) -> dict[str, Any]:
    """Return nested state of optimizers from one dict of dotted names."""
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optim in optimizers:
        for group in optim.param_groups:
            listed = [_name_of(names, param) for param in group["params"]]
            options = {}
            for name in listed:
                start = f"state.{name}."
                keys = [key for key in flat if key.startswith(start)]
                keys = [key for key in keys if "." not in key[len(start) :]]
                if keys:
                    state[name] = {key[len(start) :]: flat[key] for key in keys}
                for key in _options_of(group):
                    if f"param_groups.{name}.{key}" in flat:
                        options[key] = flat[f"param_groups.{name}.{key}"]
            groups.append({**options, "params": listed})
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Give optimizers a state that goes by names of parameters.

    Args:
        model: the model whose parameters they have.
        optimizers: an optimizer, or several.
        optim_state_dict: the state.
        options: see `StateDictOptions`.
    """
    given = options or StateDictOptions()
    listed, names = _listed(optimizers), _param_names(model)
    optim_state_dict = _from_first(optim_state_dict, given)
    if "state" not in optim_state_dict or "param_groups" not in optim_state_dict:
        optim_state_dict = _unflattened(listed, names, optim_state_dict)
    saved = {name: g for g in optim_state_dict["param_groups"] for name in g["params"]}
    for optim in listed:
        state: dict[int, Any] = {}
        groups, number = [], 0
        for group in optim.param_groups:
            numbers = []
            options_of_group = _options_of(group)
            for param in group["params"]:
                name = _name_of(names, param)
                if name in saved:
                    options_of_group.update(_options_of(saved[name]))
                elif given.strict and param.requires_grad:
                    raise RuntimeError(
                        f"set_optimizer_state_dict: the state has no parameter {name!r}"
                    )
                if name in optim_state_dict["state"]:
                    entry = optim_state_dict["state"][name]
                    state[number] = {key: _taken(value, param) for key, value in entry.items()}
                numbers.append(number)
                number += 1
            groups.append({**options_of_group, "params": numbers})
        optim.load_state_dict({"state": state, "param_groups": groups})


# ---- both


def get_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states of a model and of its optimizers, by bare names.

    Args:
        model: the model.
        optimizers: an optimizer, or several, or none.
        submodules: refused.
        options: see `StateDictOptions`.
    """
    state = get_model_state_dict(model, submodules=submodules, options=options)
    return state, get_optimizer_state_dict(model, optimizers, options=options)


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Give a model and its optimizers states that go by bare names.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        model_state_dict: the state of the model.
        optim_state_dict: the state of the optimizers.
        options: see `StateDictOptions`.

    Returns:
        The keys of the model that were missing and those that were not expected.
    """
    keys = set_model_state_dict(model, model_state_dict, options=options)
    if not isinstance(optimizers, Iterable) or list(optimizers):
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys
