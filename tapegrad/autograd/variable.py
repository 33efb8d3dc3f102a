"""The older name of what is a tensor today."""

from typing import Any

from tapegrad._C import Tensor

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Has every tensor be an instance of `Variable`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """Make a leaf that shows the memory of a tensor.

    Args:
        data: the tensor; an empty one if none is given.
        requires_grad: whether the leaf is to have a gradient.
        volatile: has no effect; ``torch.no_grad()`` took its place.

    Returns:
        A tensor without history, whatever that of ``data`` is.

    Example:
        >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __new__(  # type: ignore[misc]
        cls, data: Tensor | None = None, requires_grad: bool = False, volatile: Any = None
    ) -> Tensor:
        if volatile is not None:
            import warnings

            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
