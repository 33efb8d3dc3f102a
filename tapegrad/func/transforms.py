"""Derivatives of functions: grad, vjp, jvp and linearize.

Reverse mode. `_Tracing` gives the function inputs of its own, from which its part of the tape
starts. When the function has run, the tape shows whether anything outside can want a derivative
through it (a leaf it closed over, a transform around it). Only then is the sweep recorded, and only
then do results keep a history.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

__all__ = ["grad", "grad_and_value", "jvp", "linearize", "vjp"]

Argnums = int | tuple[int, ...]


class _OutsideInference:
    """A block in which inference mode is off: a transform needs a tape even there."""

    def __enter__(self) -> None:
        self._left = _C._leave_inference()

    def __exit__(self, *exception: object) -> None:
        if self._left:
            _C._return_to_inference()


class _Tracing:
    """A block in which a function runs on inputs of a reverse-mode transform."""

    def __init__(self) -> None:
        self._recording = _C.is_grad_enabled()
        self._outside = _OutsideInference()

    def __enter__(self) -> "_Tracing":
        self._outside.__enter__()
        self._id = _C._enter_transform()
        _C.set_grad_enabled(True)
        return self

    def __exit__(self, *exception: object) -> None:
        _C.set_grad_enabled(self._recording)
        _C._exit_transform(self._id)
        self._outside.__exit__()

    def inputs(self, tree: Any) -> Any:
        def enter(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            if not _has_gradient(leaf):
                raise RuntimeError(
                    "only Tensors of floating point dtype can require gradients, got "
                    f"{leaf.dtype}; call .float() first"
                )
            return _C._transform_input(leaf, self._id)

        return tree_map(enter, tree)

    def is_wanted_outside(self, tensors: list[Tensor]) -> bool:
        return self._recording and _C._reaches_outside(tensors, self._id)

    def finish(self, tree: Any) -> Any:
        """Return results as those outside may see them: without a history that only leads here."""

        def strip(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or self.is_wanted_outside([leaf]):
                return leaf
            return _C._without_history(leaf)

        return tree_map(strip, tree)


def _has_gradient(x: Tensor) -> bool:
    return x.dtype.is_floating_point or x.dtype.is_complex


def _selected(operation: str, args: tuple[Any, ...], argnums: Argnums) -> tuple[int, ...]:
    if isinstance(argnums, bool) or not isinstance(argnums, int | tuple):
        raise RuntimeError(
            f"{operation}: argnums must be int or Tuple[int, ...], got: {type(argnums).__name__}"
        )
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError(f"{operation}: argnums must be non-empty")
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise RuntimeError(
                f"{operation}: got argnum={number}, but only {len(args)} positional inputs"
            )
    wrapped = tuple(number % len(args) for number in numbers)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"{operation}: argnums elements must be unique, got {argnums}")
    return wrapped


def _split_aux(operation: str, output: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{operation}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output


def _require_tensors(operation: str, leaves: list[Any], what: str) -> None:
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{operation}: expected {what} to be tensors, got {type(leaf).__name__}"
            )


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function, and its value.

    Args:
        func: returns a 0-d tensor; with has_aux, a pair of it and anything.
        argnums: which arguments to differentiate with respect to.
        has_aux: whether func returns auxiliary values as well.

    Returns:
        A function that returns ``(gradient, value)``, or ``(gradient, (value, aux))``.

    Example:
        >>> torch.func.grad_and_value(lambda x: x**3)(torch.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _Tracing() as tracing:
            numbers = _selected("grad", args, argnums)
            inputs = [tracing.inputs(args[number]) for number in numbers]
            replaced = list(args)
            for number, value in zip(numbers, inputs, strict=True):
                replaced[number] = value
            output, aux = _split_aux("grad", func(*replaced, **kwargs), has_aux)
            _check_scalar(output)
            leaves, structure = tree_flatten(inputs)
            _require_tensors("grad", leaves, "the arguments to differentiate")
            grads = _sweep([output], [None], leaves, tracing.is_wanted_outside([output]))
            results = tree_unflatten(tracing.finish(grads), structure)
            value = tracing.finish(output)
            gradient = results[0] if isinstance(argnums, int) else tuple(results)
            return (gradient, (value, tracing.finish(aux))) if has_aux else (gradient, value)

    return wrapper


def _check_scalar(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a tensor, got "
            f"{type(output).__name__}"
        )
    if output.dim() != 0:
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor "
            f"with {output.dim()} dims; did you want jacrev, or to reduce with .sum()?"
        )


def _sweep(
    roots: list[Tensor],
    grads: list[Tensor | None],
    inputs: list[Tensor],
    create_graph: bool,
    retain_graph: bool = False,
) -> list[Tensor]:
    """Return the gradients of the inputs, zeros for those that the roots do not depend on."""
    kept = [(root, grad) for root, grad in zip(roots, grads, strict=True) if root.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if kept and inputs:
        found = _C.run_backward(
            [root for root, _ in kept],
            [grad for _, grad in kept],
            retain_graph or create_graph,
            create_graph,
            inputs,
            False,
        )
    return [
        _C.zeros_like(value) if result is None else result
        for result, value in zip(found, inputs, strict=True)
    ]


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of a scalar function.

    Args:
        func: returns a 0-d tensor; with has_aux, a pair of it and anything.
        argnums: which arguments to differentiate with respect to.
        has_aux: whether func returns auxiliary values as well.

    Returns:
        A function that returns the gradient, or ``(gradient, aux)``.

    Example:
        >>> from tapegrad.func import grad
        >>> grad(torch.sin)(torch.tensor(0.0))
        tensor(1.)
        >>> grad(grad(torch.sin))(torch.tensor(1.0))
        tensor(-0.8415)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Run a function and return its output and the function that pulls gradients back through it.

    Args:
        func: a function of tensors, or nested containers of them.
        primals: its arguments.
        has_aux: whether func returns ``(output, aux)``.

    Returns:
        ``(output, vjp_fn)``, or ``(output, vjp_fn, aux)``; ``vjp_fn(cotangents)`` returns a tuple
        with a gradient for each primal.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> output, vjp_fn = torch.func.vjp(lambda x: x * x, x)
        >>> vjp_fn(torch.ones(2))
        (tensor([2., 4.]),)
    """
    with _Tracing() as tracing:
        inputs = tracing.inputs(primals)
        output, aux = _split_aux("vjp", func(*inputs), has_aux)
        roots, root_structure = tree_flatten(output)
        _require_tensors("vjp(f, *primals)", roots, "f(*primals)")
        for root in roots:
            if not _has_gradient(root):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                    f"Tensor with dtype {root.dtype}"
                )
        leaves, structure = tree_flatten(inputs)
        _require_tensors("vjp(f, *primals)", leaves, "primals")
        outside = tracing.is_wanted_outside(roots)
        results = tracing.finish(output)
        aux = tracing.finish(aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, given_structure = tree_flatten(cotangents)
        if not _same_tree(given_structure, root_structure):
            raise RuntimeError(
                "vjp_fn: Expected pytree structure of cotangents to be the same as pytree "
                "structure of outputs to the function"
            )
        for cotangent, root in zip(given, roots, strict=True):
            if not isinstance(cotangent, Tensor) or cotangent.shape != root.shape:
                raise RuntimeError(
                    "vjp_fn: expected a cotangent of shape "
                    f"{list(root.shape)}, got {_describe(cotangent)}"
                )
        record = create_graph
        if record is None:
            wanted = outside or any(cotangent.requires_grad for cotangent in given)
            record = wanted and _C.is_grad_enabled()
        with _OutsideInference():
            grads = _sweep(roots, given, leaves, record, retain_graph)
        return tree_unflatten(grads, structure)

    return (results, vjp_fn, aux) if has_aux else (results, vjp_fn)


def _same_tree(a: TreeSpec, b: TreeSpec) -> bool:
    if a.is_leaf() != b.is_leaf():
        return False
    return a.num_children == b.num_children and all(
        _same_tree(x, y) for x, y in zip(a.children(), b.children(), strict=True)
    )


def _describe(value: Any) -> str:
    return f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Run a function and push tangents forward through it.

    Args:
        func: a function of tensors, or nested containers of them.
        primals: a tuple of its arguments.
        tangents: a tuple of tangents, of the same structure.
        strict: whether an output that does not depend on the inputs is an error.
        has_aux: whether func returns ``(output, aux)``.

    Returns:
        ``(output, tangent of the output)``, or ``(output, tangent, aux)``.

    Example:
        >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
        (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to "
            "call f(*primals)."
        )
    if not isinstance(tangents, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected tangents to be a tuple.")
    values, structure = tree_flatten(primals)
    directions, direction_structure = tree_flatten(tangents)
    if not _same_tree(structure, direction_structure):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            "structure."
        )
    _require_tensors("jvp(f, primals, tangents)", values, "primals")
    _require_tensors("jvp(f, primals, tangents)", directions, "tangents")
    with _OutsideInference():
        unpacked, output_structure, aux = _push(func, values, structure, directions, has_aux)
    if strict and any(tangent is None for _, tangent in unpacked):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
            "This is not allowed with strict=True."
        )
    value_tree = tree_unflatten([primal for primal, _ in unpacked], output_structure)
    tangent_tree = tree_unflatten(
        [_C.zeros_like(primal) if tangent is None else tangent for primal, tangent in unpacked],
        output_structure,
    )
    return (value_tree, tangent_tree, aux) if has_aux else (value_tree, tangent_tree)


def _push(
    func: Callable[..., Any],
    values: list[Tensor],
    structure: TreeSpec,
    directions: list[Tensor],
    has_aux: bool,
) -> tuple[list[tuple[Tensor, Tensor | None]], TreeSpec, Any]:
    """Run a function on dual tensors; return (primal, tangent) of each output."""
    level = _C._enter_dual_level()
    try:
        duals = [
            _C._make_dual(value, direction, level)
            for value, direction in zip(values, directions, strict=True)
        ]
        output, aux = _split_aux("jvp", func(*tree_unflatten(duals, structure)), has_aux)
        results, output_structure = tree_flatten(output)
        _require_tensors("jvp(f, primals, tangents)", results, "f(*primals)")
        unpacked: list[tuple[Tensor, Tensor | None]] = [
            _C._unpack_dual(result, level) for result in results
        ]
        aux = tree_map(
            lambda leaf: _C._unpack_dual(leaf, level)[0] if isinstance(leaf, Tensor) else leaf, aux
        )
        return unpacked, output_structure, aux
    finally:
        _C._exit_dual_level(level)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Run a function and return its output and its linear approximation at that point.

    The function runs once. The returned one pushes tangents forward as often as wanted, from what
    the tape kept.

    Args:
        func: a function of tensors, or nested containers of them.
        primals: its arguments.

    Returns:
        ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` returns the tangent of the output.

    Example:
        >>> output, jvp_fn = torch.func.linearize(torch.sin, torch.tensor(0.0))
        >>> jvp_fn(torch.tensor(3.0))
        tensor(3.)
    """
    with _Tracing() as tracing:
        inputs = tracing.inputs(primals)
        leaves, structure = tree_flatten(inputs)
        _require_tensors("linearize", leaves, "primals")
        roots, root_structure = tree_flatten(func(*inputs))
        _require_tensors("linearize", roots, "the function's outputs")
        # The gradients are linear in the seeds: their derivative is the forward map.
        seeds = [_C._transform_input(_C.zeros_like(root), tracing._id) for root in roots]
        pulled = _sweep(roots, list(seeds), leaves, create_graph=True)
        outside = tracing.is_wanted_outside(roots)
        output = tree_unflatten(tracing.finish(roots), root_structure)

    def jvp_fn(*tangents: Any) -> Any:
        given, given_structure = tree_flatten(tangents)
        if not _same_tree(given_structure, structure):
            raise RuntimeError(
                "linearize: expected the tangents to have the structure of the primals"
            )
        for index, (tangent, leaf) in enumerate(zip(given, leaves, strict=True)):
            if not isinstance(tangent, Tensor) or tangent.shape != leaf.shape:
                raise RuntimeError(
                    f"linearize: expected a tangent of shape {list(leaf.shape)} for input {index}, "
                    f"got {_describe(tangent)}"
                )
            if tangent.dtype != leaf.dtype:
                raise RuntimeError(
                    f"linearize: expected a tangent of dtype {leaf.dtype} for input {index}, got "
                    f"{tangent.dtype}"
                )
        wanted = outside or any(tangent.requires_grad for tangent in given)
        record = wanted and _C.is_grad_enabled()
        with _OutsideInference():
            pushed = _sweep(pulled, given, seeds, record, retain_graph=True)
        return tree_unflatten(pushed, root_structure)

    return output, jvp_fn
