"""Jacobians of a function, measured by finite differences and computed by the tape.

Here the Jacobian of an output by an input is a float64 matrix with one row for each element of the
input and one column for each element of the output.

Inputs are moved where they lie, through memory they share with a detached tensor, and put back: a
function that reaches an input by another way than its arguments sees the step too.

A complex number is two real ones: a real step and an imaginary step are two rows, and the real and
the imaginary part of an output two columns. `units` and `parts` are the two places where a number
is taken apart.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = [
    "Grads",
    "PythonFunction",
    "Task",
    "as_tuple",
    "direction",
    "forward_jacobians",
    "measured_jacobians",
    "measured_slopes",
    "outputs_of",
    "parts",
    "sweep",
    "swept_jacobians",
    "tangents",
    "units",
]

PythonFunction: TypeAlias = Callable[..., Any]
Grads: TypeAlias = Sequence[Tensor | None]


class Task(NamedTuple):
    """What is checked, and how closely.

    Attributes:
        func: the function.
        inputs: its arguments, of any type.
        checked: positions among them of the tensors that are checked.
        eps: the step of the finite differences.
        atol: the absolute difference allowed.
        rtol: the relative difference allowed.
        nondet_tol: the difference allowed between two sweeps.
        same_dtype: whether a gradient must have its input's dtype.
    """

    func: PythonFunction
    inputs: tuple[Any, ...]
    checked: list[int]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    same_dtype: bool

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that are checked."""
        return [self.inputs[position] for position in self.checked]

    def outputs(self) -> tuple[Tensor, ...]:
        """Call the function; return all its outputs."""
        return outputs_of(self.func, self.inputs)

    def close(self, computed: Tensor, measured: Tensor) -> bool:
        """Whether every element is within the tolerances; NaN is close to nothing."""
        allowed = self.atol + self.rtol * measured.abs()
        return bool(((computed == measured) | ((computed - measured).abs() <= allowed)).all())


def units(tensor: Tensor) -> list[complex]:
    """Return the directions to go from an element: one of a real number, two of a complex one."""
    return [1, 1j] if tensor.is_complex() else [1]


def parts(value: Tensor | None, like: Tensor) -> Tensor:
    """Return the real numbers that a value consists of, in float64; None stands for zeros."""
    if value is None:
        return _C.zeros((*like.shape, 2) if like.is_complex() else like.shape, dtype=_C.float64)
    value = value.detach()
    return (_C.view_as_real(value) if value.is_complex() else value).to(_C.float64)


def _elements(tensor: Tensor) -> Iterator[tuple[int, ...]]:
    """Yield the index of every element, the last dimension fastest."""
    return itertools.product(*(range(size) for size in tensor.shape))


def _matrix(rows: list[Tensor], width: int) -> Tensor:
    if not rows:
        return _C.zeros((0, width), dtype=_C.float64)
    return _C.stack(rows)


def _call_on_values(task: Task) -> list[Tensor]:
    return [parts(output.clone(), output).reshape(-1) for output in task.outputs()]


def measured_jacobians(task: Task, position: int) -> list[Tensor]:
    """Return, for each output, its Jacobian by one input from central differences."""
    tensor = task.inputs[position]
    widths = [parts(output, output).numel() for output in task.outputs()]
    rows: list[list[Tensor]] = [[] for _ in widths]
    values = tensor.data
    for index in _elements(tensor):
        for unit in units(tensor):
            step = unit * task.eps
            kept = values[index].clone()
            try:
                values[index] = kept + step
                ahead = _call_on_values(task)
                values[index] = kept - step
                behind = _call_on_values(task)
            finally:
                values[index] = kept
            for found, after, before in zip(rows, ahead, behind, strict=True):
                found.append((after - before) / (2 * task.eps))
    return [_matrix(found, width) for found, width in zip(rows, widths, strict=True)]


def measured_slopes(task: Task, position: int, along: Tensor) -> list[Tensor]:
    """Return the derivative of each output along a direction of one input, shaped as the output."""
    tensor = task.inputs[position]
    shapes = [parts(output, output).shape for output in task.outputs()]
    values = tensor.data
    kept = values.clone()
    step = task.eps
    try:
        values.copy_(kept + along * step)
        ahead = _call_on_values(task)
        values.copy_(kept - along * step)
        behind = _call_on_values(task)
    finally:
        values.copy_(kept)
    return [
        ((after - before) / (2 * step)).reshape(shape)
        for after, before, shape in zip(ahead, behind, shapes, strict=True)
    ]


def sweep(task: Task, output: Tensor, weight: Tensor) -> Grads:
    from tapegrad import autograd

    return autograd.grad(output, task.tensors, weight, retain_graph=True, allow_unused=True)


def swept_jacobians(
    task: Task, output: Tensor, sweep_output: Callable[[Tensor], Grads]
) -> list[Tensor]:
    """Return the Jacobians of an output with respect to each checked input, a sweep per element.

    `sweep_output` returns the gradients with respect to the checked inputs for one weighting of the
    output.
    """
    columns: list[list[Tensor]] = [[] for _ in task.checked]
    for index in _elements(output):
        for unit in units(output):
            weight = _C.zeros(output.shape, dtype=output.dtype)
            weight[index] = unit
            grads = sweep_output(weight)
            for found, grad, tensor in zip(columns, grads, task.tensors, strict=True):
                found.append(parts(grad, tensor).reshape(-1))
    return [
        _matrix(found, parts(None, tensor).numel()).transpose(0, 1)
        for found, tensor in zip(columns, task.tensors, strict=True)
    ]


def tangents(task: Task, along: dict[int, Tensor]) -> list[Tensor | None]:
    """Call the function in forward mode; return the tangent of each output, None for no tangent.

    `along` gives the tangent of each input that has one, by position.
    """
    from tapegrad.autograd import forward_ad

    with forward_ad.dual_level():
        arguments = list(task.inputs)
        for position, tangent in along.items():
            arguments[position] = forward_ad.make_dual(arguments[position].detach(), tangent)
        outputs = outputs_of(task.func, tuple(arguments))
        found = [forward_ad.unpack_dual(output).tangent for output in outputs]
    return [None if tangent is None else tangent.detach() for tangent in found]


def forward_jacobians(task: Task, position: int) -> list[Tensor]:
    """Return, for each output, its Jacobian by one input, one call for each element of it."""
    tensor = task.inputs[position]
    outputs = task.outputs()
    rows: list[list[Tensor]] = [[] for _ in outputs]
    for index in _elements(tensor):
        for unit in units(tensor):
            along = _C.zeros(tensor.shape, dtype=tensor.dtype)
            along[index] = unit
            for found, tangent, output in zip(
                rows, tangents(task, {position: along}), outputs, strict=True
            ):
                found.append(parts(tangent, output).reshape(-1))
    return [
        _matrix(found, parts(None, output).numel())
        for found, output in zip(rows, outputs, strict=True)
    ]


# ---- arguments


def as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,)


def outputs_of(func: PythonFunction, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
    outputs = as_tuple(func(*arguments))
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise TypeError(
                "gradcheck: expected func to return a tensor or a sequence of tensors, "
                f"but output {number} is of type {type(output).__name__}"
            )
    return outputs


def direction(tensor: Tensor, generator: Any) -> Tensor:
    """Return a random vector of length 1, in a tensor's shape and dtype, with no entry small."""
    place = generator.device
    shape = parts(None, tensor).shape
    vector = _C.rand(shape, dtype=_C.float64, generator=generator, device=place) + 0.1
    length = float((vector * vector).sum()) ** 0.5
    if tensor.is_complex():
        vector = _C.view_as_complex(vector)
    return (vector / length if length else vector).to(tensor.device, tensor.dtype)
