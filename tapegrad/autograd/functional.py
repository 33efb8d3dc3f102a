"""Derivatives of functions rather than of tensors: Jacobians, Hessians and products with them.

Each function here takes a Python function of tensors and a point, runs the function on fresh
copies of the point's tensors, and sweeps what was recorded. A single tensor may stand for a tuple
of one; results nest the same way: the inputs' nesting inside the outputs' nesting.

Products with the Jacobian from the right (`jvp`, `hvp`) come from two reverse sweeps. The first,
with a placeholder w for the gradient of the outputs, gives J^T w, which is linear in w; the
gradient of <J^T w, v> with respect to w is then J v, whatever w was.

`create_graph=True` records the work, so that its results can be differentiated with respect to the
inputs.
`strict=True` raises where a result is zero because nothing connects it to an input.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import enable_grad, set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_Tensors: TypeAlias = tuple[Tensor, ...]
_Grads: TypeAlias = tuple[Tensor | None, ...]
_OneOrMore: TypeAlias = Tensor | tuple[Tensor, ...]
_Function: TypeAlias = Callable[..., Any]

_STRATEGIES = ("forward-mode", "reverse-mode")


def vjp(
    func: _Function,
    inputs: _OneOrMore,
    v: _OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[_OneOrMore, _OneOrMore]:
    """Return the outputs of `func`, and a vector `v` times its Jacobian.

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: the tensor or the tuple of tensors to call it with.
        v: a tensor for each output, of the same size; may be left out for an output of one element.
        create_graph: record the result, so that it can be differentiated.
        strict: raise when an output does not depend on an input.

    Returns:
        The outputs, and one product for each input.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.vjp(lambda x: x * x, x, torch.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        nested, points = _points("vjp", inputs, create_graph)
        outputs_nested, outputs = _call("vjp", func, points, strict)
        weights: _Tensors | None = None
        if v is not None:
            weights = _vector("vjp", v, outputs, create_graph)
        elif len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(
                "vjp: The vector v can only be None if the user-provided function returns a "
                "single Tensor with a single element; pass v, of the size of the outputs"
            )
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        grads = _sweep(outputs, points, weights, create_graph=create_graph)
        found = _filled("vjp", grads, points, strict, create_graph, _NO_GRADIENT)
    return _nest(_finish(outputs, create_graph), outputs_nested), _nest(
        _finish(found, create_graph), nested
    )


def jvp(
    func: _Function,
    inputs: _OneOrMore,
    v: _OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[_OneOrMore, _OneOrMore]:
    """Return the outputs of `func`, and its Jacobian times a vector `v`, by two reverse sweeps.

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: the tensor or the tuple of tensors to call it with.
        v: a tensor for each input, of the same size; may be left out for an input of one element.
        create_graph: record the result, so that it can be differentiated.
        strict: raise when an output does not depend on an input.

    Returns:
        The outputs, and one product for each output.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.jvp(lambda x: x * x, x, torch.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        _, points = _points("jvp", inputs, create_graph)
        vector = _vector_at_inputs("jvp", v, points, create_graph)
        outputs_nested, outputs = _call("jvp", func, points, strict)
        holders = tuple(_C.zeros_like(output, requires_grad=True) for output in outputs)
        transposed = _sweep(outputs, points, holders, create_graph=True)
        _check_connected(
            "jvp", transposed, strict, "the gradient with respect to input {} is independent of"
        )
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        grads = _sweep(transposed, holders, vector, create_graph=create_graph)
        found = _filled("jvp", grads, outputs, strict, create_graph, _NO_GRADIENT_TWICE)
    return _nest(_finish(outputs, create_graph), outputs_nested), _nest(
        _finish(found, create_graph), outputs_nested
    )


def vhp(
    func: _Function,
    inputs: _OneOrMore,
    v: _OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, _OneOrMore]:
    """Return the output of a scalar `func`, and a vector `v` times its Hessian.

    Args:
        func: a function from tensors to a tensor of one element.
        inputs: the tensor or the tuple of tensors to call it with.
        v: a tensor for each input, of the same size; may be left out for an input of one element.
        create_graph: record the result, so that it can be differentiated.
        strict: raise when the output or its gradient does not depend on an input.

    Returns:
        The output, and one product for each input.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.vhp(lambda x: (x * x * x).sum(), x, torch.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        nested, points = _points("vhp", inputs, create_graph)
        vector = _vector_at_inputs("vhp", v, points, create_graph)
        outputs = _call_scalar("vhp", func, points, strict)
        gradient = _sweep(outputs, points, None, create_graph=True)
        _check_connected(
            "vhp", gradient, strict, "the jacobian with respect to input {} is independent of"
        )
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        grads = _sweep(gradient, points, vector, create_graph=create_graph)
        found = _filled("vhp", grads, points, strict, create_graph, _NO_CURVATURE)
    (output,) = _finish(outputs, create_graph)
    return output, _nest(_finish(found, create_graph), nested)


def hvp(
    func: _Function,
    inputs: _OneOrMore,
    v: _OneOrMore | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, _OneOrMore]:
    """Return the output of a scalar `func`, and its Hessian times a vector `v`.

    The Hessian of a function with continuous second derivatives is symmetric, and then `vhp` gives
    the same with one sweep less.

    Args:
        func: a function from tensors to a tensor of one element.
        inputs: the tensor or the tuple of tensors to call it with.
        v: a tensor for each input, of the same size; may be left out for an input of one element.
        create_graph: record the result, so that it can be differentiated.
        strict: raise when the output or its gradient does not depend on an input.

    Returns:
        The output, and one product for each input.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.hvp(lambda x: (x * x * x).sum(), x, torch.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        nested, points = _points("hvp", inputs, create_graph)
        vector = _vector_at_inputs("hvp", v, points, create_graph)
        outputs = _call_scalar("hvp", func, points, strict)
        gradient = _sweep(outputs, points, None, create_graph=True)
        _check_connected(
            "hvp", gradient, strict, "the jacobian with respect to input {} is independent of"
        )
        holders = tuple(_C.zeros_like(point, requires_grad=True) for point in points)
        transposed = _sweep(gradient, points, holders, create_graph=True)
        _check_connected(
            "hvp", transposed, strict, "the hessian with respect to input {} is independent of"
        )
    with set_grad_enabled(create_graph or _C.is_grad_enabled()):
        grads = _sweep(transposed, holders, vector, create_graph=create_graph)
        found = _filled("hvp", grads, points, strict, create_graph, _NO_CURVATURE_TWICE)
    (output,) = _finish(outputs, create_graph)
    return output, _nest(_finish(found, create_graph), nested)


def jacobian(
    func: _Function,
    inputs: _OneOrMore,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of `func`.

    Args:
        func: a function from tensors to a tensor or a tuple of tensors.
        inputs: the tensor or the tuple of tensors to call it with.
        create_graph: record the result, so that it can be differentiated.
        strict: raise when an output does not depend on an input.
        vectorize: compute all rows in one batched pass, which is faster and takes more memory.
        strategy: ``"reverse-mode"``, or ``"forward-mode"`` together with ``vectorize=True``, which
            is cheaper when there are more outputs than inputs.

    Returns:
        A tensor of the output's sizes followed by the input's sizes; for a tuple of inputs a tuple
        of such tensors; for a tuple of outputs a tuple of those.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.jacobian(lambda x: x * x, x)
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_strategy("jacobian", "strategy", strategy)
    if strategy == "forward-mode":
        _check_forward_options(create_graph, strict, vectorize)
        return _jacobian_forward(func, inputs)
    if vectorize and strict:
        raise RuntimeError(
            "jacobian: `strict=True` and `vectorize=True` are not supported together: a batched "
            "sweep cannot tell zero from independent; pass one of them"
        )
    with enable_grad():
        nested, points = _points("jacobian", inputs, create_graph)
        outputs_nested, outputs = _call("jacobian", func, points, strict)
        rows = _rows_at_once if vectorize else _rows_in_turn
        blocks = tuple(
            tuple(
                _finish(
                    rows(number, output, points, create_graph=create_graph, strict=strict),
                    create_graph,
                )
            )
            for number, output in enumerate(outputs)
        )
    return _nest(tuple(_nest(row, nested) for row in blocks), outputs_nested)


def hessian(
    func: _Function,
    inputs: _OneOrMore,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a scalar `func`: the Jacobian of its gradient.

    Args:
        func: a function from tensors to a tensor of one element.
        inputs: the tensor or the tuple of tensors to call it with.
        create_graph: record the result, so that it can be differentiated.
        strict: raise when the output or its gradient does not depend on an input.
        vectorize: compute all rows in one batched pass, which is faster and takes more memory.
        outer_jacobian_strategy: how the gradient is differentiated: ``"reverse-mode"``, or
            ``"forward-mode"`` together with ``vectorize=True``.

    Returns:
        A tensor of the input's sizes twice over; for a tuple of inputs a tuple of tuples of the
        blocks.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.hessian(lambda x: (x * x * x).sum(), x)
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    _check_strategy("hessian", "outer_jacobian_strategy", outer_jacobian_strategy)
    nested, tensors = _as_tuple("hessian", "inputs", inputs)

    def scalar(*points: Tensor) -> Tensor:
        (output,) = _call_scalar("hessian", func, points, strict)
        return output.reshape(())

    def gradient(*points: Tensor) -> _Tensors:
        if outer_jacobian_strategy == "forward-mode":
            points = tuple(point.requires_grad_() for point in points)
        found = jacobian(scalar, points, create_graph=True)
        _check_connected(
            "hessian", found, strict, "the jacobian with respect to input {} is independent of"
        )
        return tuple(found)

    blocks = jacobian(
        gradient,
        tensors,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return _nest(tuple(_nest(row, nested) for row in blocks), nested)


# ---- Jacobians by rows and by columns


def _rows_in_turn(
    number: int, output: Tensor, points: _Tensors, *, create_graph: bool, strict: bool
) -> _Tensors:
    """Return the Jacobians of one output by every point, one sweep for each element of it."""
    rows: list[list[Tensor]] = [[] for _ in points]
    for element in output.reshape(-1).unbind() if output.numel() else ():
        grads = _sweep((element,), points, None, create_graph=create_graph, retain_graph=True)
        for place, (found, grad, point) in enumerate(zip(rows, grads, points, strict=True)):
            if strict and grad is None:
                raise RuntimeError(
                    f"jacobian: Output {number} of the user-provided function is independent of "
                    f"input {place}; pass strict=False for zeros"
                )
            if strict and create_graph and grad is not None and not grad.requires_grad:
                raise RuntimeError(
                    "jacobian: The jacobian of the user-provided function is independent of input "
                    f"{place}, where strict=True and create_graph=True are given"
                )
            found.append(_C.zeros_like(point) if grad is None else grad)
    return tuple(
        (_C.stack(found) if found else _empty_rows(output, point)).reshape(
            tuple(output.shape) + tuple(point.shape)
        )
        for found, point in zip(rows, points, strict=True)
    )


def _rows_at_once(
    number: int, output: Tensor, points: _Tensors, *, create_graph: bool, strict: bool
) -> _Tensors:
    """Return the same as `_rows_in_turn` from one batched sweep, weighted by an identity matrix."""
    count = output.numel()
    grads: _Grads = (None,) * len(points)
    if output.requires_grad and count:
        from tapegrad import autograd

        identity = _C.eye(count, dtype=output.dtype, device=output.device).reshape(
            (count, *output.shape)
        )
        grads = autograd.grad(
            output,
            points,
            identity,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=True,
        )
    return tuple(
        (_empty_rows(output, point) if grad is None else grad).reshape(
            tuple(output.shape) + tuple(point.shape)
        )
        for grad, point in zip(grads, points, strict=True)
    )


def _empty_rows(output: Tensor, point: Tensor) -> Tensor:
    return _C.zeros((output.numel(), *point.shape), dtype=point.dtype, device=point.device)


def _jacobian_forward(func: _Function, inputs: _OneOrMore) -> Any:
    """Return the Jacobian column by column, all columns in one call under `vmap`."""
    from tapegrad.autograd import forward_ad
    from tapegrad.func import vmap

    nested, tensors = _as_tuple("jacobian", "inputs", inputs)
    shape: dict[str, Any] = {}

    def columns(*tangents: Tensor) -> _Tensors:
        with forward_ad.dual_level():
            duals = tuple(
                forward_ad.make_dual(tensor.detach(), tangent.reshape(tensor.shape))
                for tensor, tangent in zip(tensors, tangents, strict=True)
            )
            shape["nested"], outputs = _as_tuple(
                "jacobian", "outputs of the user-provided function", func(*duals)
            )
            unpacked = [forward_ad.unpack_dual(output) for output in outputs]
        shape["outputs"] = [tuple(pair.primal.shape) for pair in unpacked]
        return tuple(
            _C.zeros_like(pair.primal) if pair.tangent is None else pair.tangent
            for pair in unpacked
        )

    sizes = [tensor.numel() for tensor in tensors]
    total = sum(sizes)
    # One row for each element of each input: the one tangent that is 1 there.
    basis = tuple(
        _C.eye(total, dtype=tensor.dtype, device=tensor.device)[:, start : start + size]
        for tensor, size, start in zip(tensors, sizes, _starts(sizes), strict=True)
    )
    blocks = []
    for column, sizes_of_output in zip(vmap(columns)(*basis), shape["outputs"], strict=True):
        parts = column.detach().split(sizes, dim=0)
        blocks.append(
            tuple(
                part.movedim(0, -1).reshape(sizes_of_output + tuple(tensor.shape))
                for part, tensor in zip(parts, tensors, strict=True)
            )
        )
    return _nest(tuple(_nest(row, nested) for row in blocks), shape["nested"])


def _starts(sizes: list[int]) -> list[int]:
    return [sum(sizes[:index]) for index in range(len(sizes))]


def _check_strategy(operation: str, name: str, strategy: str) -> None:
    if strategy not in _STRATEGIES:
        raise AssertionError(
            f"{operation}: Expected {name} to be either 'reverse-mode' or 'forward-mode', got "
            f"{strategy!r}"
        )


def _check_forward_options(create_graph: bool, strict: bool, vectorize: bool) -> None:
    if create_graph:
        raise NotImplementedError(
            'jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported '
            'together; use strategy="reverse-mode", or func.jacfwd, whose results are recorded'
        )
    if strict:
        raise RuntimeError(
            'jacobian: `strict=True` and `strategy="forward-mode"` are not supported together; '
            'use strategy="reverse-mode"'
        )
    if not vectorize:
        raise NotImplementedError(
            "jacobian: forward mode is only implemented for `vectorize=True`; pass it, or use "
            'strategy="reverse-mode"'
        )


# ---- what the functions share


def _as_tuple(operation: str, name: str, value: Any) -> tuple[bool, _Tensors]:
    """Return whether a value is a tuple, and the value as a tuple of tensors."""
    nested = isinstance(value, tuple)
    tensors = value if nested else (value,)
    for index, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            where = f"the value at index {index}" if nested else f"the given {name}"
            raise TypeError(
                f"{operation}: The {name} must be either a Tensor or a tuple of Tensors, but "
                f"{where} has type {type(tensor).__name__}"
            )
    return nested, tensors


def _nest(values: tuple[Any, ...], nested: bool) -> Any:
    return values if nested else values[0]


def _finish(tensors: _Tensors, create_graph: bool) -> _Tensors:
    return tensors if create_graph else tuple(tensor.detach() for tensor in tensors)


def _points(operation: str, inputs: Any, create_graph: bool) -> tuple[bool, _Tensors]:
    """Return whether the inputs are a tuple, and tensors in their place to differentiate by.

    The history of an input is cut, unless results are to be differentiated through it.
    """
    nested, tensors = _as_tuple(operation, "inputs", inputs)
    return nested, tuple(
        tensor.view_as(tensor)
        if create_graph and tensor.requires_grad
        else tensor.detach().requires_grad_()
        for tensor in tensors
    )


def _vector(operation: str, v: Any, like: _Tensors, create_graph: bool) -> _Tensors:
    """Return `v` as a tuple, once its sizes are known to be those of the tensors it multiplies."""
    _, vector = _as_tuple(operation, "v", v)
    if len(vector) != len(like):
        raise RuntimeError(
            f"{operation}: v is a tuple of invalid length: should be {len(like)} but got "
            f"{len(vector)}"
        )
    for index, (tensor, other) in enumerate(zip(vector, like, strict=True)):
        if tensor.shape != other.shape:
            raise RuntimeError(
                f"{operation}: v has invalid size: entry {index} should be {tuple(other.shape)} "
                f"but got {tuple(tensor.shape)}"
            )
    return vector if create_graph else tuple(tensor.detach() for tensor in vector)


def _vector_at_inputs(
    operation: str, v: Any, points: _Tensors, create_graph: bool
) -> _Tensors | None:
    if v is not None:
        return _vector(operation, v, points, create_graph)
    if len(points) != 1 or points[0].numel() != 1:
        raise RuntimeError(
            f"{operation}: The vector v can only be None if the input to the user-provided "
            "function is a single Tensor with a single element; pass v, of the size of the inputs"
        )
    return tuple(_C.ones_like(point).detach() for point in points)


def _call(operation: str, func: _Function, points: _Tensors, strict: bool) -> tuple[bool, _Tensors]:
    nested, outputs = _as_tuple(operation, "outputs of the user-provided function", func(*points))
    if strict:
        for number, output in enumerate(outputs):
            if not output.requires_grad:
                raise RuntimeError(
                    f"{operation}: Output {number} of the user-provided function does not require "
                    "gradients; compute it from the inputs with recorded operations, or pass "
                    "strict=False"
                )
    return nested, outputs


def _call_scalar(operation: str, func: _Function, points: _Tensors, strict: bool) -> _Tensors:
    nested, outputs = _call(operation, func, points, strict)
    if nested:
        raise RuntimeError(
            f"{operation}: The function given to {operation} should return a single Tensor, got a "
            f"tuple of {len(outputs)}"
        )
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"{operation}: The Tensor returned by the function given to {operation} should contain "
            f"a single element, got one of shape {tuple(outputs[0].shape)}"
        )
    return outputs


def _sweep(
    outputs: Sequence[Tensor | None],
    inputs: _Tensors,
    weights: _Tensors | None,
    *,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> _Grads:
    """Sweep from those outputs that are recorded; None for inputs that none of them leads to."""
    from tapegrad import autograd

    paired = zip(outputs, weights or (None,) * len(outputs), strict=True)
    roots = [(root, weight) for root, weight in paired if root is not None and root.requires_grad]
    if not roots:
        return (None,) * len(inputs)
    return autograd.grad(
        [root for root, _ in roots],
        inputs,
        [weight for _, weight in roots],
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )


# What strict mode says of an input or an output that the result is not connected to.
_NO_GRADIENT = "The output of the user-provided function is independent of input {}"
_NO_GRADIENT_TWICE = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when "
    "using the double backward trick"
)
_NO_CURVATURE = "The jacobian of the user-provided function is independent of input {}"
_NO_CURVATURE_TWICE = (
    "The hessian of the user-provided function is independent of entry {} in the grad_jacobian"
)


def _filled(
    operation: str,
    grads: _Grads,
    like: _Tensors,
    strict: bool,
    create_graph: bool,
    independent: str,
) -> _Tensors:
    """Return gradients with zeros in place of None; in strict mode both are errors."""
    of = "hessian" if independent in (_NO_CURVATURE, _NO_CURVATURE_TWICE) else "jacobian"
    for index, grad in enumerate(grads) if strict else ():
        if grad is None:
            raise RuntimeError(
                f"{operation}: {independent.format(index)}; pass strict=False for zeros"
            )
        if create_graph and not grad.requires_grad:
            raise RuntimeError(
                f"{operation}: The {of} of the user-provided function is independent of input "
                f"{index}, where strict=True and create_graph=True are given"
            )
    return tuple(
        _C.zeros_like(tensor).detach() if grad is None else grad
        for grad, tensor in zip(grads, like, strict=True)
    )


def _check_connected(operation: str, grads: _Grads, strict: bool, independent: str) -> None:
    """In strict mode, raise for a derivative that is None or does not depend on the inputs."""
    for index, grad in enumerate(grads) if strict else ():
        if grad is None:
            raise RuntimeError(
                f"{operation}: The output of the user-provided function is independent of input "
                f"{index}; pass strict=False for zeros"
            )
        if not grad.requires_grad:
            raise RuntimeError(
                f"{operation}: {independent.format(index)} the input; pass strict=False for zeros"
            )
