"""All parameters as one vector, and back."""

from collections.abc import Iterable

from tapegrad import _C
from tapegrad._C import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters as one vector.

    Args:
        parameters: the parameters.

    Returns:
        The vector; gradients pass through it.

    Example:
        >>> torch.nn.utils.parameters_to_vector(torch.nn.Linear(2, 3).parameters()).shape
        torch.Size([9])
    """
    parts = [parameter.reshape(-1) for parameter in parameters]
    if not parts:
        raise ValueError("parameters_to_vector: expected at least one parameter, got none")
    return _C.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make slices of a vector the values of parameters, whose memory is the vector's then.

    Args:
        vec: the vector.
        parameters: the parameters.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(
            f"vector_to_parameters: expected torch.Tensor, but got: {type(vec).__name__}"
        )
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop
