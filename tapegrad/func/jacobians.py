"""Whole Jacobians: the rows by reverse mode, or the columns by forward mode, all in one vmap."""

import functools
from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.func.transforms import Argnums, _require_tensors, _selected, jvp, vjp
from tapegrad.func.vmapping import vmap
from tapegrad.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

__all__ = ["hessian", "jacfwd", "jacrev"]


def _with_selected(
    func: Callable[..., Any], args: tuple[Any, ...], numbers: tuple[int, ...], kwargs: Any
) -> Callable[..., Any]:
    """Return func as a function of the selected arguments alone."""

    def selected(*values: Any) -> Any:
        replaced = list(args)
        for number, value in zip(numbers, values, strict=True):
            replaced[number] = value
        return func(*replaced, **kwargs)

    return selected


def _unit_vectors(tensors: list[Tensor]) -> tuple[list[Tensor], list[int]]:
    """Return, for each tensor, all unit vectors of all tensors together, and its element count.

    The first dimension runs over the elements of all tensors.
    """
    counts = [tensor.numel() for tensor in tensors]
    total = sum(counts)
    bases = []
    begin = 0
    for tensor, count in zip(tensors, counts, strict=True):
        basis = _C.zeros(total, count, dtype=tensor.dtype, device=tensor.device)
        basis[begin : begin + count].diagonal().fill_(1)
        bases.append(basis.view(total, *tensor.shape))
        begin += count
    return bases, counts


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of a function by reverse mode.

    Best where there are fewer outputs than inputs.

    Args:
        func: a function of tensors.
        argnums: which arguments to differentiate with respect to.
        has_aux: whether func returns ``(output, aux)``.
        chunk_size: how many rows to compute at once; all by default.

    Returns:
        A function that returns the Jacobian, of shape ``output.shape + input.shape``; for several
        outputs or inputs, nested as they are.

    Example:
        >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = _selected("jacrev", args, argnums)
        primals = tuple(args[number] for number in numbers)
        function = _with_selected(func, args, numbers, kwargs)
        output, pull, *aux = vjp(function, *primals, has_aux=has_aux)
        outputs, output_structure = tree_flatten(output)
        inputs, input_structure = tree_flatten(primals)
        basis, counts = _unit_vectors(outputs)

        def row(*cotangents: Tensor) -> Any:
            grads = pull(tree_unflatten(list(cotangents), output_structure))
            return tuple(tree_flatten(grads)[0])

        rows = vmap(row, chunk_size=chunk_size)(*basis)
        blocks = []
        for k, (value, count) in enumerate(zip(outputs, counts, strict=True)):
            begin = sum(counts[:k])
            block = [
                part[begin : begin + count].reshape((*value.shape, *leaf.shape))
                for part, leaf in zip(rows, inputs, strict=True)
            ]
            nested = tree_unflatten(block, input_structure)
            blocks.append(nested[0] if isinstance(argnums, int) else nested)
        jacobian = tree_unflatten(blocks, output_structure)
        return (jacobian, aux[0]) if has_aux else jacobian

    return wrapper


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of a function by forward mode.

    Best where there are fewer inputs than outputs.

    Args:
        func: a function of tensors.
        argnums: which arguments to differentiate with respect to.
        has_aux: whether func returns ``(output, aux)``.
        randomness: as for `vmap`.

    Returns:
        A function that returns the Jacobian, of shape ``output.shape + input.shape``; for several
        outputs or inputs, nested as they are.

    Example:
        >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = _selected("jacfwd", args, argnums)
        primals = tuple(args[number] for number in numbers)
        function = _with_selected(func, args, numbers, kwargs)
        inputs, input_structure = tree_flatten(primals)
        _require_tensors("jacfwd", inputs, "the arguments to differentiate")
        basis, counts = _unit_vectors(inputs)
        seen: dict[str, Any] = {}

        def column(*tangents: Tensor) -> Any:
            directions = tree_unflatten(list(tangents), input_structure)
            _, pushed, *aux = jvp(function, primals, directions, has_aux=has_aux)
            leaves, seen["structure"] = tree_flatten(pushed)
            extra, seen["aux"] = tree_flatten(aux[0] if aux else ())
            seen["count"] = len(leaves)
            return (*leaves, *extra)

        columns = vmap(column, randomness=randomness)(*basis)
        results, extra = columns[: seen["count"]], columns[seen["count"] :]
        jacobian = _blocks_of_columns(
            results, inputs, counts, input_structure, seen["structure"], isinstance(argnums, int)
        )
        if not has_aux:
            return jacobian
        return jacobian, tree_unflatten([value[0] for value in extra], seen["aux"])

    return wrapper


def _blocks_of_columns(
    columns: tuple[Tensor, ...],
    inputs: list[Tensor],
    counts: list[int],
    input_structure: TreeSpec,
    output_structure: TreeSpec,
    single: bool,
) -> Any:
    blocks = []
    for column in columns:
        block = []
        begin = 0
        for leaf, count in zip(inputs, counts, strict=True):
            part = column[begin : begin + count].movedim(0, -1)
            block.append(part.reshape((*part.shape[:-1], *leaf.shape)))
            begin += count
        nested = tree_unflatten(block, input_structure)
        blocks.append(nested[0] if single else nested)
    return tree_unflatten(blocks, output_structure)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of a scalar function, forward over reverse.

    Args:
        func: a function of tensors.
        argnums: which arguments to differentiate with respect to.

    Example:
        >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
