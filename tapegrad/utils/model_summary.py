"""A table of a model's layers: what comes out of each, its parameters and its work.

`summary` runs the model once with hooks on its modules. The tree is that of the modules, not of the
calls: a module that is called three times is one row with three calls, and one that stands in two
places has its parameters counted where it comes first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tapegrad
from tapegrad import Tensor, nn
from tapegrad.utils._units import human_bytes, human_count

__all__ = ["LayerSummary", "ModelSummary", "summary"]


@dataclass
class LayerSummary:
    """One row: a module and everything inside it.

    Attributes:
        name: the last part of the path, empty for the model itself.
        path: as in ``model.named_modules()``.
        kind: the class.
        depth: 0 for the model itself.
        output: shape of what the first call returned; a tuple of shapes where that was several
            tensors; None if the module was not called.
        parameters, trainable: numbers of parameters, each counted in one row of the same depth.
        multiply_adds: over all calls.
        calls: how often the module ran.
    """

    name: str
    path: str
    kind: str
    depth: int
    output: Any = None
    parameters: int = 0
    trainable: int = 0
    multiply_adds: int = 0
    calls: int = 0
    lead: str = field(default="", repr=False)


@dataclass
class ModelSummary:
    """What `summary` returns; it prints as a table.

    Attributes:
        layers: the rows, as `LayerSummary`.
        parameters, trainable: numbers of parameters.
        multiply_adds: of linear and convolution layers.
        not_counted: classes with weights whose multiply-adds are not known.
        parameter_bytes, buffer_bytes, input_bytes: memory.
        activation_bytes: outputs of the innermost modules.
        tape_bytes: measured: what the outputs and the tape hold after forward, for backward.
    """

    layers: list[LayerSummary]
    parameters: int
    trainable: int
    multiply_adds: int
    not_counted: list[str]
    parameter_bytes: int
    buffer_bytes: int
    input_bytes: int
    activation_bytes: int
    tape_bytes: int

    def __str__(self) -> str:
        heads = ("layer", "output", "parameters", "multiply-adds")
        rows = [heads, *(_cells(layer) for layer in self.layers)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip()
            for a, b, c, d in rows
        ]
        rule = "-" * (sum(widths) + 6)
        return "\n".join([lines[0], rule, *lines[1:], rule, *self._totals()])

    __repr__ = __str__

    def _totals(self) -> list[str]:
        frozen = self.parameters - self.trainable
        work = f"multiply-adds  {human_count(self.multiply_adds)}"
        if self.not_counted:
            work += f", without those of {', '.join(self.not_counted)}"
        memory = {
            "input": self.input_bytes,
            "parameters": self.parameter_bytes,
            "buffers": self.buffer_bytes,
            "outputs of layers": self.activation_bytes,
            "held for backward": self.tape_bytes,
        }
        sizes = [f"{name} {human_bytes(size)}" for name, size in memory.items()]
        return [
            f"parameters     {self.parameters:,}, of which {frozen:,} are frozen",
            work,
            f"memory         {', '.join(sizes)}",
        ]


def summary(
    model: nn.Module,
    input_size: Any = None,
    input_data: Any = None,
    *,
    dtypes: Any = None,
    depth: int | None = None,
) -> ModelSummary:
    """Run a model once and describe its layers.

    It runs in eval mode, so that a batch of one passes a batch norm and no running average moves;
    afterwards every module is in the mode that it was in, and the hooks are gone.

    Args:
        model: to describe.
        input_size: shape of the input with the batch, or a list of shapes for several inputs,
            which are made on the device of the first parameter.
        input_data: the input itself instead: a tensor, a tuple or list of positional arguments,
            or a dict of keyword arguments.
        dtypes: of inputs made from ``input_size``: one, or a list; float32 if None.
        depth: how deep to show the tree; all of it if None.

    Returns:
        A `ModelSummary`, which prints as a table.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> torch.utils.summary(model, (2, 4))
        layer         output  parameters  multiply-adds
        -----------------------------------------------
        Sequential    [2, 8]          40             64
        ├─ 0: Linear  [2, 8]          40             64
        └─ 1: ReLU    [2, 8]           -              -
        -----------------------------------------------
        parameters     40, of which 0 are frozen
        multiply-adds  64
        memory         input 32 B, parameters 160 B, buffers 0 B, outputs of layers 128 B, held ...
    """
    args, kwargs = _inputs(input_size, input_data, dtypes, _device_of(model))
    watch = _Watch(model)
    tape_bytes = watch.run(args, kwargs)
    layers = _rows(model, LayerSummary("", "", type(model).__name__, 0), watch, set())
    inner = [m for m in model.modules() if not any(True for _ in m.children())]
    total = layers[0]
    return ModelSummary(
        layers=[layer for layer in layers if depth is None or layer.depth <= depth],
        parameters=total.parameters,
        trainable=total.trainable,
        multiply_adds=total.multiply_adds,
        not_counted=sorted({type(m).__name__ for m in inner if _is_unknown(m)}),
        parameter_bytes=_bytes(model.parameters()),
        buffer_bytes=_bytes(model.buffers()),
        input_bytes=_bytes([*_tensors(args), *_tensors(kwargs)]),
        activation_bytes=sum(watch.output_bytes.get(id(m), 0) for m in inner),
        tape_bytes=tape_bytes,
    )


class _Watch:
    """Notes what each module returns while the model runs. Nothing of it stays behind."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.outputs: dict[int, Any] = {}
        self.calls: dict[int, int] = {}
        self.multiply_adds: dict[int, int] = {}
        self.output_bytes: dict[int, int] = {}

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Call the model and return the bytes that its outputs and the tape held."""
        modules = list(self.model.modules())
        modes = [(module, module.training) for module in modules]
        handles = [module.register_forward_hook(self._note) for module in modules]
        try:
            self.model.eval()
            before = _live_bytes()
            with tapegrad.enable_grad():
                out = self.model(*args, **kwargs)
            held = _live_bytes() - before
            del out
            return max(0, held)
        finally:
            for handle in handles:
                handle.remove()
            for module, training in modes:
                module.training = training

    def _note(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        key = id(module)
        self.calls[key] = self.calls.get(key, 0) + 1
        self.outputs.setdefault(key, _shapes(output))
        self.output_bytes[key] = self.output_bytes.get(key, 0) + _bytes(_tensors(output))
        count = _COUNTERS.get(_known_kind(module))
        if count is not None:
            work = count(module, args, output)
            self.multiply_adds[key] = self.multiply_adds.get(key, 0) + work


def _rows(
    module: nn.Module, row: LayerSummary, watch: _Watch, seen: set[int], stem: str = ""
) -> list[LayerSummary]:
    """Return the rows of a tree; each sums what is inside it, what was seen before apart."""
    key = id(module)
    row.output, row.calls = watch.outputs.get(key), watch.calls.get(key, 0)
    if key in seen:
        return [row]
    seen.add(key)
    row.multiply_adds = watch.multiply_adds.get(key, 0)
    for parameter in module.parameters(recurse=False):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            row.parameters += parameter.numel()
            row.trainable += parameter.numel() if parameter.requires_grad else 0
    rows = [row]
    children = [(name, child) for name, child in module._modules.items() if child is not None]
    for index, (name, child) in enumerate(children):
        corner, below_it = ("└─ ", "   ") if index == len(children) - 1 else ("├─ ", "│  ")
        path = f"{row.path}.{name}" if row.path else name
        below = LayerSummary(name, path, type(child).__name__, row.depth + 1)
        below.lead = stem + corner
        rows += _rows(child, below, watch, seen, stem + below_it)
        row.parameters += below.parameters
        row.trainable += below.trainable
        row.multiply_adds += below.multiply_adds
    return rows


def _cells(layer: LayerSummary) -> tuple[str, str, str, str]:
    name = f"{layer.name}: {layer.kind}" if layer.name else layer.kind
    calls = f", {layer.calls} calls" if layer.calls > 1 else ""
    return (
        layer.lead + name + calls,
        _shape_text(layer.output),
        f"{layer.parameters:,}" if layer.parameters else "-",
        f"{layer.multiply_adds:,}" if layer.multiply_adds else "-",
    )


# ---- inputs and outputs


def _device_of(model: nn.Module) -> Any:
    first = next(model.parameters(), None)
    return None if first is None else first.device


def _live_bytes() -> int:
    """Return what tensors hold, on all devices."""
    cuda = tapegrad.cuda
    devices = range(cuda.device_count()) if cuda.is_initialized() else ()
    on_cpu: int = tapegrad.memory_stats()["live_bytes"]
    return on_cpu + sum(map(cuda.memory_allocated, devices))


def _inputs(
    size: Any, data: Any, dtypes: Any, device: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments of the call."""
    if (size is None) == (data is None):
        raise ValueError("summary: expected either input_size or input_data")
    if isinstance(data, dict):
        return (), data
    if data is not None:
        return (tuple(data) if isinstance(data, list | tuple) else (data,)), {}
    several = isinstance(size, list | tuple) and any(not isinstance(s, int) for s in size)
    sizes = list(size) if several else [size]
    kinds = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes] * len(sizes)
    if len(kinds) != len(sizes):
        raise ValueError(f"summary: expected {len(sizes)} dtypes, got {len(kinds)}")
    zeros = (
        tapegrad.zeros(tuple(s), dtype=d, device=device) for s, d in zip(sizes, kinds, strict=True)
    )
    return tuple(zeros), {}


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _shapes(value: Any) -> Any:
    shapes = tuple(tuple(tensor.shape) for tensor in _tensors(value))
    return shapes[0] if isinstance(value, Tensor) else shapes


def _shape_text(output: Any) -> str:
    if output is None:
        return "-"
    if output and isinstance(output[0], tuple):
        return ", ".join(_shape_text(shape) for shape in output)
    return str(list(output))


def _bytes(tensors: Any) -> int:
    """Return the memory of tensors, each counted once."""
    unique = {id(tensor): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in unique.values())


# ---- multiply-adds

_Counter = Callable[[Any, tuple[Any, ...], Any], int]


def _linear(module: Any, args: tuple[Any, ...], output: Any) -> int:
    return int(output.numel() * module.in_features)


def _bilinear(module: Any, args: tuple[Any, ...], output: Any) -> int:
    return int(output.numel() * module.in1_features * module.in2_features)


def _convolution(module: Any, args: tuple[Any, ...], output: Any) -> int:
    """Each output element is one product with a filter."""
    return int(output.numel() * module.weight[0].numel())


def _transposed_convolution(module: Any, args: tuple[Any, ...], output: Any) -> int:
    """Each input element is spread by one filter."""
    return int(next(_tensors(args)).numel() * module.weight[0].numel())


def _nothing(module: Any, args: tuple[Any, ...], output: Any) -> int:
    return 0


# By the name of a class of nn or of one that a class derives from.
_COUNTERS: dict[str | None, _Counter] = {
    "Linear": _linear,
    "Bilinear": _bilinear,
    **{f"Conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _transposed_convolution for n in (1, 2, 3)},
    "Embedding": _nothing,
    "EmbeddingBag": _nothing,
}


def _known_kind(module: nn.Module) -> str | None:
    classes = [cls for cls in type(module).__mro__ if cls.__module__.startswith("tapegrad.nn.")]
    return next((cls.__name__ for cls in classes if cls.__name__ in _COUNTERS), None)


def _is_unknown(module: nn.Module) -> bool:
    """Whether a module has matrices of its own that no counter knows."""
    return _known_kind(module) is None and any(p.dim() > 1 for p in module.parameters(False))
