"""Gradients of recorded operations: `backward`, `grad`, and the modes that govern recording.

Both functions are thin: they put their arguments into one form, check what a caller can get
wrong, and hand over to the native reverse sweep.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._missing import missing as _missing
from tapegrad.autograd import forward_ad, function, functional, graph
from tapegrad.autograd._vmap_numbers import enter_vmap
from tapegrad.autograd.anomaly_mode import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from tapegrad.autograd.data_writes import set_data_writes
from tapegrad.autograd.function import Function
from tapegrad.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from tapegrad.autograd.gradcheck import gradcheck, gradgradcheck
from tapegrad.autograd.graph import GradientEdge
from tapegrad.autograd.variable import Variable

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_data_writes",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

if TYPE_CHECKING:
    from tapegrad.autograd import profiler as profiler
else:

    def __getattr__(name):
        """Load the profiler when it is first asked for."""
        if name != "profiler":
            raise _missing(__name__, name)
        from importlib import import_module

        return import_module("tapegrad.autograd.profiler")


_profiler_enabled = _C._is_profiling
_Tensors: TypeAlias = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]
_OptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None] | None


def backward(
    tensors: _Tensors,
    grad_tensors: _OptionalTensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: _OptionalTensors = None,
    inputs: _Tensors | None = None,
) -> None:
    """Accumulate the gradients of `tensors` into the ``.grad`` of the leaves they came from.

    Args:
        tensors: one tensor or several, the roots of the sweep.
        grad_tensors: the gradient of the final result with respect to each root, in order; None
            stands for 1 and is allowed for roots with one element.
        retain_graph: keep what the tape saved, so that another sweep can follow. Defaults to the
            value of `create_graph`.
        create_graph: record the sweep itself, for gradients of gradients.
        grad_variables: the former name of `grad_tensors`.
        inputs: accumulate into these tensors only; by default into every leaf reached.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "backward: `grad_tensors` and `grad_variables` (deprecated) arguments both passed "
                "to backward(); please only use `grad_tensors`"
            )
        warnings.warn(
            "`grad_variables` is deprecated; use `grad_tensors`", FutureWarning, stacklevel=2
        )
        grad_tensors = grad_variables
    roots = _as_tensors("backward", "tensors", tensors)
    grad_roots = _as_gradients("backward", "grad_tensors", grad_tensors, len(roots))
    _check_gradient_shapes("backward", ("tensors", "grad_tensors"), roots, grad_roots)
    targets = None if inputs is None else _as_targets("backward", _without_edges(inputs))
    retain = create_graph if retain_graph is None else retain_graph
    _C.run_backward(roots, grad_roots, retain, create_graph, targets, True)


def grad(
    outputs: _Tensors,
    inputs: _Tensors | Mapping[Any, Tensor],
    grad_outputs: _OptionalTensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, touching no ``.grad``.

    Args:
        outputs: one tensor or several, the roots of the sweep.
        inputs: one tensor, several, or a dict of them, leaves or not, to differentiate with respect
            to.
        grad_outputs: the gradient of the final result with respect to each output, in order; None
            stands for 1 and is allowed for outputs with one element.
        retain_graph: keep what the tape saved, so that another sweep can follow. Defaults to the
            value of `create_graph`.
        create_graph: record the sweep itself, for gradients of gradients.
        only_inputs: accepted for PyTorch's sake; only True, what always holds, is allowed.
        allow_unused: return None for an input that the outputs do not depend on, where the default
            is an error.
        is_grads_batched: the first dimension of each of `grad_outputs` is a batch: one sweep for
            each entry, the results stacked along a new first dimension.
        materialize_grads: return zeros instead of None for an unused input.

    Returns:
        A tuple with one gradient for each input; a dict if the inputs are one.

    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.autograd.grad((x * x * x).sum(), x)
        (tensor([ 3., 12.]),)
    """
    if not only_inputs:
        raise ValueError(
            "grad: expected only_inputs=True, got False; call backward() to accumulate into .grad"
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: expected allow_unused to be True or left out together with "
            "materialize_grads=True, got allow_unused=False"
        )
    if not isinstance(inputs, (Tensor, tuple, list)) and isinstance(inputs, Mapping):
        found = grad(
            outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs,
            allow_unused, is_grads_batched, materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, found, strict=True))
    roots = _as_tensors("grad", "outputs", outputs)
    targets = _as_targets("grad", inputs)
    grad_roots = _as_gradients("grad", "grad_outputs", grad_outputs, len(roots))
    retain = create_graph if retain_graph is None else retain_graph
    grads: Sequence[Tensor | None]
    if is_grads_batched:
        grads = _batched_sweep(roots, grad_roots, retain, create_graph, targets)
    else:
        if grad_outputs is not None:
            _check_gradient_shapes("grad", ("outputs", "grad_outputs"), roots, grad_roots)
        grads = _C.run_backward(roots, grad_roots, retain, create_graph, targets, False)
    if materialize_grads:
        return tuple(
            _C.zeros_like(target, requires_grad=create_graph) if found is None else found
            for found, target in zip(grads, targets, strict=True)
        )
    if not allow_unused:
        for index, each in enumerate(grads):
            if each is None:
                raise RuntimeError(
                    f"grad: expected every input to be used by the outputs, but inputs[{index}] "
                    "was not used in the graph; pass allow_unused=True to get None for it, or "
                    "materialize_grads=True to get zeros"
                )
    return tuple(grads)


def _batched_sweep(
    roots: tuple[Tensor, ...],
    grad_roots: tuple[Tensor | None, ...],
    retain: bool,
    create_graph: bool,
    targets: tuple[Tensor, ...],
) -> list[Tensor | None]:
    """Run one sweep on a whole batch of gradients, as vmap would."""
    sizes = {0 if g is None or g.dim() == 0 else g.shape[0] for g in grad_roots}
    if len(sizes) != 1 or 0 in sizes:
        raise RuntimeError(
            "grad: expected every grad_outputs to have the same first dimension, of size 1 or "
            "more, when is_grads_batched=True, got shapes "
            f"{[None if g is None else tuple(g.shape) for g in grad_roots]}"
        )
    size = sizes.pop()
    number = enter_vmap(size, "error")
    try:
        entry = tuple(_C._hide_batch(g, 0, number) for g in grad_roots if g is not None)
        _check_gradient_shapes("grad", ("outputs", "grad_outputs"), roots, entry)
        found = _C.run_backward(roots, entry, retain, create_graph, targets, False)
        return [None if g is None else _C._reveal_batch(g, 0, number, size) for g in found]
    finally:
        _C._exit_vmap()


def _as_tensors(operation: str, name: str, value: Any) -> tuple[Tensor, ...]:
    if isinstance(value, Tensor):
        return (value,)
    tensors = (value,) if isinstance(value, GradientEdge) else tuple(value)
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, (Tensor, GradientEdge)):
            raise TypeError(
                f"{operation}: expected {name}[{index}] to be a Tensor, got {type(tensor).__name__}"
            )
    return tuple(
        _C._edge_tensor(tensor.node, tensor.output_nr)
        if isinstance(tensor, GradientEdge)
        else tensor
        for tensor in tensors
    )


def _without_edges(inputs: Any) -> Any:
    """Return the inputs of backward with the edges of leaves replaced by the leaves.

    Other edges say how far the sweep goes, but have no ``.grad`` to add to.
    """
    if isinstance(inputs, Tensor):
        return inputs
    several = (inputs,) if isinstance(inputs, GradientEdge) else tuple(inputs)
    return tuple(
        e.node.variable if isinstance(e, GradientEdge) and e.node.name() == "AccumulateGrad" else e
        for e in several
    )


def _as_targets(operation: str, inputs: Any) -> tuple[Tensor, ...]:
    targets = _as_tensors(operation, "inputs", inputs)
    if not targets:
        raise RuntimeError(f"`inputs` argument to `{operation}()` cannot be empty.")
    for index, target in enumerate(targets):
        if not target.requires_grad:
            raise RuntimeError(
                f"{operation}: expected every input to require grad, but inputs[{index}] does not "
                "require grad; call .requires_grad_() on it before computing the outputs"
            )
    return targets


def _as_gradients(operation: str, name: str, value: Any, count: int) -> tuple[Tensor | None, ...]:
    if value is None:
        return (None,) * count
    gradients = (value,) if isinstance(value, Tensor) else tuple(value)
    for index, gradient in enumerate(gradients):
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(
                f"{operation}: expected {name}[{index}] to be a Tensor or None, "
                f"got {type(gradient).__name__}"
            )
    if len(gradients) != count:
        raise RuntimeError(
            f"{operation}: expected one gradient for each tensor, "
            f"got {count} tensors and {len(gradients)} gradients in {name}"
        )
    return gradients


def _check_gradient_shapes(
    operation: str,
    names: tuple[str, str],
    roots: tuple[Tensor, ...],
    gradients: tuple[Tensor | None, ...],
) -> None:
    for index, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
        if gradient is not None and gradient.shape != root.shape:
            raise RuntimeError(
                f"{operation}: expected {names[1]}[{index}] to have the shape of "
                f"{names[0]}[{index}], {tuple(root.shape)}, got {tuple(gradient.shape)}"
            )
