"""How a layer is divided: what its parameters, inputs and outputs lie like."""

from collections.abc import Sequence
from typing import Any

import tapegrad
from tapegrad._C import Tensor
from tapegrad.distributed.device_mesh import DeviceMesh
from tapegrad.distributed.tensor._api import distribute_module, distribute_tensor
from tapegrad.distributed.tensor._dtensor import DTensor
from tapegrad.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle:
    """The base class of what divides a layer; a subclass defines `_apply`."""

    src_data_rank: int | None = 0

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: _apply is not defined")


def _spread(value: Any, mesh: DeviceMesh, given: Placement, wanted: Placement) -> Any:
    """Return a tensor, of which each process has a part or all, as a DTensor."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [given])
    return value.redistribute(placements=[wanted])


def _given_out(value: Any, wanted: Placement, local: bool) -> Any:
    value = value.redistribute(placements=[wanted])
    return value.to_local() if local else value


def _divide(module: Any, mesh: DeviceMesh, ways: dict[str, Placement], source: int | None) -> None:
    for name, param in list(module._parameters.items()):
        if param is not None:
            way = [ways.get(name, Replicate())]
            divided = distribute_tensor(param, mesh, way, src_data_rank=source)
            module._parameters[name] = tapegrad.nn.Parameter(divided, param.requires_grad)


class _Layer(ParallelStyle):
    """A layer with one input and one output."""

    _input: Placement = Replicate()

    def __init__(
        self, input_layouts: Placement, output_layouts: Placement, use_local_output: bool
    ) -> None:
        self.input_layouts = (input_layouts,)
        self.output_layouts = (output_layouts,)
        self.use_local_output = use_local_output

    def _wanted(self, module: Any) -> Placement:
        return Replicate()

    def _ways(self, module: Any) -> dict[str, Placement]:
        raise NotImplementedError

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        ways, wanted = self._ways(module), self._wanted(module)

        def partition(name: str, part: Any, mesh: DeviceMesh) -> None:
            _divide(part, mesh, ways, self.src_data_rank)

        def before(part: Any, inputs: Any, mesh: DeviceMesh) -> Any:
            return (_spread(inputs[0], mesh, self.input_layouts[0], wanted), *inputs[1:])

        def after(part: Any, output: Any, mesh: DeviceMesh) -> Any:
            return _given_out(output, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, before, after)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, "
            f"output_layouts={self.output_layouts}, use_local_output={self.use_local_output})"
        )


def _is_embedding(name: str, module: Any) -> bool:
    """Return whether a module is an embedding; refuse what is neither that nor linear."""
    if isinstance(module, tapegrad.nn.Embedding):
        return True
    if isinstance(module, tapegrad.nn.Linear):
        return False
    raise NotImplementedError(f"{name} currently only support nn.Linear and nn.Embedding!")


class ColwiseParallel(_Layer):
    """A linear layer whose outputs, or an embedding whose columns, are divided.

    Args:
        input_layouts: what the input of a process is; all of it by default.
        output_layouts: what the output of a process is; its part of the last dimension by default.
        use_local_output: whether the output is a plain tensor.

    Example:
        >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> tp = torch.distributed.tensor.parallel
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Linear(8, 2))
        >>> plan = {"0": tp.ColwiseParallel(), "1": tp.RowwiseParallel()}
        >>> tp.parallelize_module(model, mesh, plan)(torch.ones(1, 2)).shape
        torch.Size([1, 2])
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(
            input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output
        )

    def _ways(self, module: Any) -> dict[str, Placement]:
        if _is_embedding("ColwiseParallel", module):
            return {"weight": Shard(1)}
        return {"weight": Shard(0), "bias": Shard(0)}


class RowwiseParallel(_Layer):
    """A linear layer whose inputs, or an embedding whose rows, are divided.

    Args:
        input_layouts: what the input of a process is; its part of the last dimension by default.
        output_layouts: what the output of a process is; all of it by default.
        use_local_output: whether the output is a plain tensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(
            input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output
        )

    def _wanted(self, module: Any) -> Placement:
        return Replicate() if _is_embedding("RowwiseParallel", module) else Shard(-1)

    def _ways(self, module: Any) -> dict[str, Placement]:
        if _is_embedding("RowwiseParallel", module):
            return {"weight": Shard(0)}
        return {"weight": Shard(1)}


class SequenceParallel(_Layer):
    """A normalization or dropout of which each process has a part of the sequence.

    Args:
        sequence_dim: the dimension that is divided.
        use_local_output: whether the output is a plain tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        divided = Shard(sequence_dim)
        super().__init__(divided, divided, use_local_output)

    def _wanted(self, module: Any) -> Placement:
        return self.input_layouts[0]

    def _ways(self, module: Any) -> dict[str, Placement]:
        return {}


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return () if value is None else value if isinstance(value, tuple) else (value,)


class PrepareModuleInput(ParallelStyle):
    """Makes DTensors of the inputs of a module, and redistributes them.

    Args:
        input_layouts: what each positional input of a process is; None leaves one as it is.
        desired_input_layouts: what the module is to get.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same of inputs by name.
        use_local_output: whether the module gets plain tensors.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _as_tuple(input_layouts)
        self.desired_input_layouts = _as_tuple(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if len(self.input_layouts) != len(self.desired_input_layouts):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same keys!"
            )

    def _prepared(self, value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
        if given is None or not isinstance(value, Tensor):
            return value
        value = _spread(value, mesh, given, wanted)
        return value.to_local() if self.use_local_output else value

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        def before(part: Any, args: Any, kwargs: Any) -> Any:
            if self.input_layouts and len(args) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            ways = zip(self.input_layouts, self.desired_input_layouts, strict=True)
            if self.input_layouts:
                args = tuple(
                    self._prepared(value, device_mesh, *way)
                    for value, way in zip(args, ways, strict=True)
                )
            kwargs = dict(kwargs)
            for name in self.input_kwarg_layouts.keys() & kwargs.keys():
                given = self.input_kwarg_layouts[name]
                wanted = self.desired_input_kwarg_layouts[name]
                kwargs[name] = self._prepared(kwargs[name], device_mesh, given, wanted)
            return args, kwargs

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Makes DTensors of the outputs of a module, and redistributes them.

    Args:
        output_layouts: what each output of a process is; None leaves one as it is.
        desired_output_layouts: what comes out.
        use_local_output: whether plain tensors come out.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _as_tuple(output_layouts)
        self.desired_output_layouts = _as_tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        def after(part: Any, inputs: Any, outputs: Any) -> Any:
            values = _as_tuple(outputs)
            if len(values) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            found = []
            ways: Sequence[Any] = self.desired_output_layouts
            for value, given, wanted in zip(values, self.output_layouts, ways, strict=True):
                if given is not None:
                    value = _spread(value, device_mesh, given, wanted)
                    value = value.to_local() if self.use_local_output else value
                found.append(value)
            return tuple(found) if isinstance(outputs, tuple) else found[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Does as `PrepareModuleInput` and `PrepareModuleOutput` together.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: as
            there.
        use_local_input: whether the module gets plain tensors.
        output_layouts, desired_output_layouts, use_local_output: as there.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Any, device_mesh: DeviceMesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
