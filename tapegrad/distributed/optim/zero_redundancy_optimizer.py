"""`ZeroRedundancyOptimizer`: each process keeps the optimizer's state of a part of the parameters.

All processes have all gradients. Each one steps its own parameters with an optimizer over them, and
sends them to the others.
"""

from typing import Any

from tapegrad._C import Tensor
from tapegrad.distributed._collectives import broadcast
from tapegrad.distributed._groups import get_group_rank, resolve
from tapegrad.distributed._objects import gather_object
from tapegrad.distributed.algorithms.join import Joinable, JoinHook
from tapegrad.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]

Group = dict[str, Any]


class _StepInPlace(JoinHook):
    """Steps along, so that parameters come from this process as long as others need them."""

    def __init__(self, zero: "ZeroRedundancyOptimizer") -> None:
        self.zero = zero

    def main_hook(self) -> None:
        """Step."""
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Shares an optimizer's state between processes.

    Args:
        params: the parameters, all of them, the same in all processes.
        optimizer_class: the optimizer that each process makes for its part.
        process_group: the processes; the world if left out.
        parameters_as_bucket_view: accepted.
        overlap_with_ddp: refused.
        **defaults: the arguments of the optimizer.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = torch.nn.Linear(2, 1)
        >>> zero = torch.distributed.optim.ZeroRedundancyOptimizer(
        ...     model.parameters(), torch.optim.Adam, lr=0.01)
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> zero.step()
        >>> torch.distributed.destroy_process_group()
    """

    optim: Optimizer

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not supported")
        group = resolve(process_group)
        if group is None:
            raise ValueError("Invalid process group specified")
        self.process_group = group
        self.world_size, self.rank = group.size(), group.rank()
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._all_state_dicts: list[Any] = []
        self._owners: dict[Tensor, int] = {}
        self._loads = [0] * self.world_size
        listed = _checked_params(params)
        super().__init__(listed, dict(defaults))
        self._share()

    # ---- who owns which parameter

    def _share(self) -> None:
        """Give each parameter to a process, the largest first, and make this one's optimizer."""
        fresh = [p for group in self.param_groups for p in group["params"]]
        fresh = [param for param in fresh if param not in self._owners]
        for param in sorted(fresh, key=lambda p: -p.numel()):
            owner = min(range(self.world_size), key=lambda rank: (self._loads[rank], rank))
            self._owners[param] = owner
            self._loads[owner] += param.numel()
        groups = [{**group, "params": self._mine(group)} for group in self.param_groups]
        for group in groups:
            group.pop("param_names", None)
        old = getattr(self, "optim", None)
        self.optim = self._optim_constructor(groups, **self._optim_defaults)
        if old is not None:
            self.optim.state.update(old.state)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            for key, value in own.items():
                group.setdefault(key, value)
        self.state = self.optim.state

    def _mine(self, group: Group) -> list[Tensor]:
        return [param for param in group["params"] if self._owners[param] == self.rank]

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters.

        Args:
            param_group: see `torch.optim.Optimizer.add_param_group`.
        """
        super().add_param_group(param_group)
        if hasattr(self, "optim"):
            self._share()

    def _copy_options(self, source: list[Group], target: list[Group]) -> None:
        """Carry over what schedulers or steps have changed."""
        for old, new in zip(source, target, strict=True):
            new.update({k: v for k, v in old.items() if k not in ("params", "param_names")})

    # ---- steps

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Step this process's parameters, and exchange all.

        Args:
            closure: computes the loss anew.
            **kwargs: further arguments of the optimizer's step.

        Returns:
            What the optimizer's step returns.
        """
        from tapegrad.distributed.algorithms.join import Join

        Join.notify_join_context(self)
        self._copy_options(self.param_groups, self.optim.param_groups)
        if closure is not None:
            kwargs["closure"] = closure
        loss = self.optim.step(**kwargs)
        self._copy_options(self.optim.param_groups, self.param_groups)
        if self.world_size > 1:
            for group in self.param_groups:
                for param in group["params"]:
                    owner = self._owners[param]
                    broadcast(param.detach(), group=self.process_group, group_src=owner)
        return loss

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what `Join` does here once this process has no inputs."""
        return _StepInPlace(self)

    @property
    def join_device(self) -> Any:
        """The device of the first parameter."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    # ---- state

    def _indices(self) -> dict[Tensor, int]:
        params = (param for group in self.param_groups for param in group["params"])
        return {param: i for i, param in enumerate(params)}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all processes to one, which `state_dict` returns there.

        Args:
            to: its rank in the world.
        """
        self._copy_options(self.param_groups, self.optim.param_groups)
        indices = self._indices()
        mine = {indices[param]: _on_host(state) for param, state in self.optim.state.items()}
        root = get_group_rank(self.process_group, to)
        found = [None] * self.world_size if self.rank == root else None
        gather_object(mine, found, group=self.process_group, group_dst=root)
        self._all_state_dicts = found or []

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parameters, as an optimizer without shares has it.

        `consolidate_state_dict` must have brought it here.
        """
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        indices = self._indices()
        groups = []
        for group in self.param_groups:
            numbers = [indices[param] for param in group["params"]]
            groups.append({**group, "params": numbers})
        merged = {i: each for part in self._all_state_dicts for i, each in part.items()}
        return {"state": {i: merged[i] for i in sorted(merged)}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state of all parameters; this process keeps its part.

        Args:
            state_dict: what `state_dict` returned, here or of an optimizer without shares.
        """
        super().load_state_dict(state_dict)
        whole = self.state
        self.optim.state.clear()
        for param, entry in whole.items():
            if self._owners.get(param) == self.rank:
                self.optim.state[param] = entry
        self.state = self.optim.state
        self._copy_options(self.param_groups, self.optim.param_groups)


def _checked_params(params: Any) -> list[Any]:
    if isinstance(params, Tensor):
        raise TypeError("`params` argument should be an iterable of Tensors, but got a Tensor")
    try:
        listed = list(params)
    except TypeError:
        raise TypeError(
            "`params` argument should be an iterable of Tensors or dicts, but got "
            f"{type(params).__name__}"
        ) from None
    if not listed:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    return listed


def _on_host(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _on_host(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(each) for each in value)
    return value
