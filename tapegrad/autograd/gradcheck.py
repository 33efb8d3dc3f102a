"""Do the gradients of a function agree with finite differences? `gradcheck` and `gradgradcheck`.

The Jacobian of an output by an input is measured by moving the input a small step each way, and
computed by the tape, one sweep for each element of the output (or, in forward mode, one call for
each element of the input); see `_jacobians`.

Fast mode asks for one number instead of the whole matrix: for a random direction u of the input and
a random weighting v of the output it compares u^T J v. A wrong entry of J escapes only by an
unlucky draw, and the price is two calls of the function and one sweep, however large the tensors.
"""

import warnings
from collections.abc import Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd._jacobians import (
    Grads,
    PythonFunction,
    Task,
    as_tuple,
    direction,
    forward_jacobians,
    measured_jacobians,
    measured_slopes,
    outputs_of,
    parts,
    sweep,
    swept_jacobians,
    tangents,
)

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck` when a gradient is found wrong."""


def gradcheck(
    func: PythonFunction,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` with finite differences; raise where they disagree.

    The defaults suit float64. Every floating input with ``requires_grad=True`` is checked against
    every output that requires grad; outputs that do not must not change with the inputs.

    Args:
        func: a function from `inputs` to a tensor or a sequence of tensors.
        inputs: a tensor, or a sequence of arguments of which at least one requires grad.
        eps: the step of the finite differences.
        atol: the absolute difference allowed.
        rtol: the difference allowed relative to the measured value.
        raise_exception: raise `GradcheckError` on a failure, where False returns False.
        nondet_tol: how much two sweeps over the same record may differ.
        check_undefined_grad: also check that a missing gradient of an output counts as zero.
        check_grad_dtypes: also check that each gradient has the dtype of its input.
        check_batched_grad: also check `grad` with ``is_grads_batched=True`` against single sweeps.
        check_batched_forward_grad: also check forward mode under `vmap` against single calls.
        check_forward_ad: also check forward mode.
        check_backward_ad: False leaves out everything that needs a reverse sweep.
        fast_mode: compare along one random direction instead of every element.
        masked: accepted for PyTorch's sake; it concerns sparse tensors, of which there are none.

    Returns:
        True when everything agrees.

    Example:
        >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.tanh, x)
        True
    """
    _expect(
        check_forward_ad or check_backward_ad,
        "Expected at least one of check_forward_ad or check_backward_ad to be True",
    )
    _expect(
        check_backward_ad or not check_batched_grad,
        "Setting check_batched_grad=True requires check_backward_ad to be True",
    )
    _expect(
        check_forward_ad or not check_batched_forward_grad,
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
    )
    arguments = as_tuple(inputs)
    task = Task(
        func=func,
        inputs=arguments,
        checked=_checked_positions(arguments),
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        same_dtype=check_grad_dtypes,
    )
    try:
        _run(
            task,
            fast=fast_mode,
            forward=check_forward_ad,
            backward=check_backward_ad,
            undefined=check_undefined_grad,
            batched=check_batched_grad,
            batched_forward=check_batched_forward_grad,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: PythonFunction,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the gradients of the gradients of `func` with finite differences.

    What is checked is the function from the inputs and from the gradients of the outputs to the
    gradients of the inputs.

    Args:
        func: a function from `inputs` to a tensor or a sequence of tensors.
        inputs: a tensor, or a sequence of arguments of which at least one requires grad.
        grad_outputs: the gradient of each output that requires grad; random by default.
        eps: the step of the finite differences.
        atol: the absolute difference allowed.
        rtol: the difference allowed relative to the measured value.
        gen_non_contig_grad_outputs: draw random `grad_outputs` that are not contiguous.
        raise_exception: raise `GradcheckError` on a failure, where False returns False.
        nondet_tol: how much two sweeps over the same record may differ.
        check_undefined_grad: also check that a missing gradient counts as zero.
        check_grad_dtypes: also check that each gradient has the dtype of its input.
        check_batched_grad: also check `grad` with ``is_grads_batched=True`` against single sweeps.
        check_fwd_over_rev: check forward mode over the reverse sweep.
        check_rev_over_rev: check the reverse sweep over the reverse sweep.
        fast_mode: compare along one random direction instead of every element.
        masked: accepted for PyTorch's sake; it concerns sparse tensors, of which there are none.

    Returns:
        True when everything agrees.

    Example:
        >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradgradcheck(torch.tanh, x)
        True
    """
    _expect(
        check_fwd_over_rev or check_rev_over_rev,
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
    )
    _expect(
        check_rev_over_rev or not check_batched_grad,
        "Setting check_batched_grad=True requires check_rev_over_rev to be True",
    )
    arguments = as_tuple(inputs)
    weights: tuple[Any, ...]
    if grad_outputs is None:
        outputs = _requiring_grad(outputs_of(func, arguments))
        if not outputs:
            raise ValueError(
                "gradgradcheck expects at least one output of func to require gradient, but none "
                "of them have requires_grad=True"
            )
        weights = tuple(
            _random_gradient(output, strided=gen_non_contig_grad_outputs) for _, output in outputs
        )
    else:
        weights = as_tuple(grad_outputs)
    count = len(arguments)
    wrt = [index for index, value in enumerate(arguments) if _requires_grad(value)]
    weighed = [index for index, value in enumerate(weights) if _requires_grad(value)]

    def gradient_of_func(*args: Any) -> tuple[Tensor, ...]:
        """Return the recorded gradients of the inputs, as a function of inputs and weights."""
        from tapegrad import autograd

        for index in [*wrt, *(count + index for index in weighed)]:
            if not args[index].requires_grad:  # Forward mode hands over detached duals.
                args[index].requires_grad_()
        outputs = [output for _, output in _requiring_grad(outputs_of(func, args[:count]))]
        grads = autograd.grad(
            outputs,
            [args[index] for index in wrt],
            args[count:],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(found for found in grads if found is not None)

    return gradcheck(
        gradient_of_func,
        arguments + weights,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


# ---- the check


def _run(
    task: Task,
    *,
    fast: bool,
    forward: bool,
    backward: bool,
    undefined: bool,
    batched: bool,
    batched_forward: bool,
) -> None:
    numbers = [number for number, _ in _requiring_grad(task.outputs())]
    if not numbers:
        _check_constant(task)
        return
    check = _check_along_directions if fast else _check_every_element
    check(task, numbers, forward=forward, backward=backward)
    if forward and undefined:
        _check_missing_tangents(task, numbers)
    if batched_forward:
        _check_batched_tangents(task, numbers)
    if backward:
        if batched:
            _check_batched_gradients(task)
        _check_scaled_by_gradient(task)
        if undefined:
            _check_missing_gradients(task)


def _check_constant(task: Task) -> None:
    """No output requires grad: then none may depend on an input either."""
    for position in task.checked:
        for number, jacobian in enumerate(measured_jacobians(task, position)):
            if bool((jacobian != 0).any()):
                raise GradcheckError(
                    "gradcheck: Numerical gradient for function expected to be zero, as no output "
                    f"requires grad, but output {number} changes with input {position}; record "
                    "the function (no detach(), no no_grad()), or give the input "
                    f"requires_grad=False\nnumerical: {jacobian}"
                )


def _check_every_element(task: Task, numbers: list[int], *, forward: bool, backward: bool) -> None:
    measured = {position: measured_jacobians(task, position) for position in task.checked}
    if forward:
        for position in task.checked:
            computed = forward_jacobians(task, position)
            for number in numbers:
                _compare(task, number, position, measured[position][number], computed[number], True)
    if backward:
        outputs = task.outputs()
        for number in numbers:
            swept = _jacobians_of(task, number, outputs[number])
            for position, jacobian in zip(task.checked, swept, strict=True):
                _compare(task, number, position, measured[position][number], jacobian, False)


def _check_along_directions(
    task: Task, numbers: list[int], *, forward: bool, backward: bool
) -> None:
    generator = _C.Generator().manual_seed(0)
    outputs = task.outputs()
    weights = {number: direction(outputs[number], generator) for number in numbers}
    directions = {
        position: direction(task.inputs[position], generator) for position in task.checked
    }
    swept = {}
    if backward:
        for number in numbers:
            swept[number] = _weighted_sweep(task, number, outputs[number], weights[number])
    for place, position in enumerate(task.checked):
        along = directions[position]
        slopes = measured_slopes(task, position, along)
        moved = tangents(task, {position: along}) if forward else None
        for number in numbers:
            weight = parts(weights[number], outputs[number])
            measured = (slopes[number] * weight).sum()
            allowed = task.atol * float(parts(along, along).abs().sum()) * float(weight.abs().sum())
            if moved is not None:
                computed = (parts(moved[number], outputs[number]) * weight).sum()
                _compare_numbers(task, number, position, (measured, computed), allowed, True)
            if backward:
                row = parts(swept[number][place], task.inputs[position])
                computed = (row * parts(along, along)).sum()
                _compare_numbers(task, number, position, (measured, computed), allowed, False)


# ---- sweeps


def _weighted_sweep(task: Task, number: int, output: Tensor, weight: Tensor) -> Grads:
    """Sweep twice from one output; return the gradients when they agree and fit their inputs."""
    first, second = sweep(task, output, weight), sweep(task, output, weight)
    for position, one, other in zip(task.checked, first, second, strict=True):
        tensor = task.inputs[position]
        if one is not None:
            _check_fits(task, number, position, one, output)
        difference = (parts(one, tensor) - parts(other, tensor)).abs()
        if bool((difference > task.nondet_tol).any()):
            raise GradcheckError(
                "gradcheck: Backward is not reentrant: two sweeps over one record gave different "
                f"gradients of output {number} with respect to input {position}, by up to "
                f"{float(difference.max()):.3g}, where nondet_tol={task.nondet_tol} is allowed"
                f"{_recorded_at(output, number)}\nfirst: {one}\nsecond: {other}"
            )
    return first


def _jacobians_of(task: Task, number: int, output: Tensor) -> list[Tensor]:
    return swept_jacobians(
        task, output, lambda weight: _weighted_sweep(task, number, output, weight)
    )


def _check_fits(task: Task, number: int, position: int, grad: Tensor, output: Tensor) -> None:
    tensor = task.inputs[position]
    if grad.shape != tensor.shape:
        raise GradcheckError(
            f"gradcheck: Analytical gradient has incorrect size: of output {number} with respect "
            f"to input {position}, expected {tuple(tensor.shape)}, got {tuple(grad.shape)}"
            f"{_recorded_at(output, number)}"
        )
    if task.same_dtype and grad.dtype != tensor.dtype:
        raise GradcheckError(
            f"gradcheck: Gradient has dtype mismatch: of output {number} with respect to input "
            f"{position}, expected {tensor.dtype}, got {grad.dtype}{_recorded_at(output, number)}"
        )


# ---- comparisons and their reports


def _compare(
    task: Task, number: int, position: int, measured: Tensor, computed: Tensor, forward: bool
) -> None:
    if not task.close(computed, measured):
        raise GradcheckError(
            f"{_headline(number, position, forward)}\n"
            + _both(task, number, position, measured, computed)
        )


def _compare_numbers(
    task: Task,
    number: int,
    position: int,
    pair: tuple[Tensor, Tensor],
    allowed: float,
    forward: bool,
) -> None:
    """Compare u^T J v as measured and as computed; on a difference, report the whole Jacobians."""
    measured, computed = (float(value) for value in pair)
    if abs(measured - computed) <= allowed + task.rtol * abs(measured):
        return
    matrix = measured_jacobians(task, position)[number]
    if forward:
        other = forward_jacobians(task, position)[number]
    else:
        swept = _jacobians_of(task, number, task.outputs()[number])
        other = swept[task.checked.index(position)]
    raise GradcheckError(
        f"{_headline(number, position, forward)}\n"
        f"fast mode, along one random direction: numerical {measured!r}, analytical {computed!r}; "
        "element by element:\n" + _both(task, number, position, matrix, other)
    )


def _headline(number: int, position: int, forward: bool) -> str:
    mode = " computed with forward mode" if forward else ""
    return (
        f"gradcheck: Jacobian{mode} mismatch for output {number} with respect to input {position},"
    )


def _both(task: Task, number: int, position: int, measured: Tensor, computed: Tensor) -> str:
    output, tensor = task.outputs()[number], task.inputs[position]
    text = f"numerical: {measured}\nanalytical: {computed}\n"
    difference = (measured - computed).abs()
    difference = _C.where(_C.isnan(difference), float("inf"), difference)
    if difference.numel():
        row, column = divmod(int(difference.argmax()), difference.shape[1])
        text += (
            f"largest difference {float(difference[row, column]):.6g}, between input element "
            f"{_index_in(tensor, row)} and output element {_index_in(output, column)}: "
            f"numerical {float(measured[row, column])!r}, "
            f"analytical {float(computed[row, column])!r}"
        )
    return text + _recorded_at(output, number)


def _index_in(tensor: Tensor, flat: int) -> list[int]:
    index = []
    if tensor.is_complex():  # of both parts
        flat //= 2
    for size in reversed(tensor.shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return index[::-1]


def _recorded_at(output: Tensor, number: int) -> str:
    """Return a line that says which operation made an output and where, when that is known."""
    entry = output.grad_fn
    if entry is None:
        return ""
    line = getattr(entry, "source_line", None)
    return f"\noutput {number} comes from {entry.name()}" + (f" at {line}" if line else "")


# ---- the other checks


def _check_scaled_by_gradient(task: Task) -> None:
    """With zero gradients of all outputs, the gradients of all inputs are zero and fit them."""
    from tapegrad import autograd

    pairs = _requiring_grad(task.outputs())
    outputs = [output for _, output in pairs]
    zeros = [_C.zeros_like(output) for output in outputs]
    grads = autograd.grad(outputs, task.tensors, zeros, allow_unused=True)
    for position, grad in zip(task.checked, grads, strict=True):
        tensor = task.inputs[position]
        if grad is None:
            continue
        if bool((grad != 0).any()):
            raise GradcheckError(
                "gradcheck: backward not multiplied by grad_output: the gradient with respect to "
                f"input {position} is not zero where the gradients of all outputs are"
                f"{_recorded_at(outputs[0], pairs[0][0])}\ngot: {grad}"
            )
        if grad.dtype != tensor.dtype or grad.shape != tensor.shape:
            raise GradcheckError(
                f"gradcheck: grad is incorrect type or size: by input {position}, expected "
                f"{tensor.dtype} {tuple(tensor.shape)}, got {grad.dtype} {tuple(grad.shape)}"
            )


def _check_missing_gradients(task: Task) -> None:
    """A gradient that does not arrive counts as zero: for all outputs, and for each alone."""
    count = len(_requiring_grad(task.outputs()))
    _check_without_gradients(task, set(range(count)))
    if count > 1:
        for missing in range(count):
            _check_without_gradients(task, {missing})


def _check_without_gradients(task: Task, missing: set[int]) -> None:
    from tapegrad import autograd
    from tapegrad.autograd.function import Function

    class Swallow(Function):
        """Passes a value on, and no gradient back."""

        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            return value.view_as(value)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> None:
            return None

    outputs = [
        Swallow.apply(output) if place in missing else output
        for place, (_, output) in enumerate(_requiring_grad(task.outputs()))
    ]
    zeros = [_C.zeros_like(output) for output in outputs]
    try:
        grads = autograd.grad(outputs, task.tensors, zeros, allow_unused=True)
    except Exception as error:
        raise GradcheckError(
            "gradcheck: Expected backward function to handle undefined output grads: with no "
            f"gradient for output(s) {sorted(missing)} it raised {type(error).__name__}: {error}; "
            "treat None as zeros, or pass check_undefined_grad=False"
        ) from error
    for position, grad in zip(task.checked, grads, strict=True):
        if grad is not None and bool((grad != 0).any()):
            raise GradcheckError(
                "gradcheck: Expected all input grads to be undefined or zero when all output "
                f"grads are undefined or zero, but the gradient with respect to input "
                f"{position} is {grad}"
            )


def _check_missing_tangents(task: Task, numbers: list[int]) -> None:
    """In forward mode, an input without a tangent counts as one with a tangent of zeros."""
    generator = _C.Generator().manual_seed(0)
    outputs = task.outputs()
    along = {position: direction(task.inputs[position], generator) for position in task.checked}
    for position in task.checked:
        zeros = _C.zeros_like(along[position])
        with_zeros = tangents(task, along | {position: zeros})
        without = tangents(task, {p: tangent for p, tangent in along.items() if p != position})
        for number in numbers:
            output = outputs[number]
            one, other = parts(with_zeros[number], output), parts(without[number], output)
            if not task.close(one, other):
                raise GradcheckError(
                    f"gradcheck: Expected the same tangent of output {number} whether input "
                    f"{position} has no tangent or one of zeros{_recorded_at(output, number)}"
                    f"\nno tangent: {other}\nzeros: {one}"
                )


_BATCH = 2


def _check_batched_gradients(task: Task) -> None:
    """One batched sweep gives what one sweep for each entry of the batch gives."""
    from tapegrad import autograd

    generator = _C.Generator().manual_seed(0)
    for number, output in _requiring_grad(task.outputs()):
        weights = [direction(output, generator) for _ in range(_BATCH)]
        single = [sweep(task, output, weight) for weight in weights]
        try:
            batched = autograd.grad(
                output,
                task.tensors,
                _C.stack(weights),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        except RuntimeError as error:
            raise GradcheckError(
                f"gradcheck: While computing batched gradients of output {number}, got: {error}"
                f"{_recorded_at(output, number)}"
            ) from error
        for place, position in enumerate(task.checked):
            tensor = task.inputs[position]
            want = _C.stack([parts(grads[place], tensor) for grads in single])
            _compare_batch(task, number, position, parts(batched[place], want), want)


def _check_batched_tangents(task: Task, numbers: list[int]) -> None:
    """Forward mode under `vmap` gives what one call for each entry of the batch gives."""
    from tapegrad.func import vmap

    generator = _C.Generator().manual_seed(0)
    outputs = task.outputs()
    for position in task.checked:
        along = [direction(task.inputs[position], generator) for _ in range(_BATCH)]
        single = [tangents(task, {position: tangent}) for tangent in along]

        def tangents_of(tangent: Tensor, position: int = position) -> tuple[Tensor, ...]:
            found = tangents(task, {position: tangent})
            return tuple(
                _C.zeros_like(outputs[number]).detach() if found[number] is None else found[number]  # type: ignore[misc]
                for number in numbers
            )

        try:
            batched = vmap(tangents_of)(_C.stack(along))
        except RuntimeError as error:
            raise GradcheckError(
                f"gradcheck: While computing batched gradients in forward mode, got: {error}"
            ) from error
        for place, number in enumerate(numbers):
            want = _C.stack([parts(found[number], outputs[number]) for found in single])
            _compare_batch(task, number, position, parts(batched[place], want), want)


def _compare_batch(task: Task, number: int, position: int, got: Tensor, want: Tensor) -> None:
    if got.shape == want.shape and task.close(got, want):
        return
    raise GradcheckError(
        f"gradcheck: the batched gradient of output {number} with respect to input {position} "
        f"differs from the gradients one by one\nexpected: {want}\ngot: {got}"
    )


# ---- arguments


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(f"gradcheck: {message}")


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _requiring_grad(outputs: Sequence[Tensor]) -> list[tuple[int, Tensor]]:
    return [(number, output) for number, output in enumerate(outputs) if output.requires_grad]


def _checked_positions(inputs: tuple[Any, ...]) -> list[int]:
    """Return the positions of the inputs to check, once they are known to be fit for it."""
    positions = [position for position, value in enumerate(inputs) if _requires_grad(value)]
    if not positions:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True"
        )
    for position in positions:
        tensor = inputs[position]
        if tensor.dtype not in (_C.float64, _C.complex128):
            warnings.warn(
                f"gradcheck: Input #{position} requires gradient and is not a double precision "
                "floating point; the check will likely fail; call .double() on it first",
                stacklevel=3,
            )
        if any(
            size > 1 and stride == 0
            for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        ):
            raise RuntimeError(
                f"gradcheck: The {position}th input has a dimension with stride 0: moving one "
                "element moves others; call .contiguous() on the input first"
            )
    return positions


def _random_gradient(output: Tensor, *, strided: bool) -> Tensor:
    """Return a random gradient for an output, a leaf that requires grad."""
    if strided and output.dim():
        wide = _C.rand((*output.shape[:-1], 2 * output.shape[-1]), dtype=output.dtype)
        values = (wide * 2 - 1)[..., ::2]
    else:
        values = _C.rand(output.shape, dtype=output.dtype) * 2 - 1
    return values.requires_grad_()
