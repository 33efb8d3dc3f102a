"""Gradients that are too large, made smaller."""

from collections.abc import Iterable
from types import GeneratorType

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]

_Tensors = Tensor | Iterable[Tensor]


def _gradients(parameters: _Tensors) -> list[Tensor]:
    several = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter.grad for parameter in several if parameter.grad is not None]


def get_total_norm(
    tensors: _Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all tensors together, as if they were one vector.

    Args:
        tensors: the tensors, or one.
        norm_type: the p of the norm; may be infinity.
        error_if_nonfinite: whether a norm that is nan or infinite is an error.
        foreach: accepted; there is one way to compute it.

    Returns:
        The norm.

    Example:
        >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
        tensor(5.)
    """
    several = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    with no_grad():
        if not several:
            return _C.tensor(0.0)
        total = _C._total_norm(several, norm_type)
        if total is None:
            total = _C.stack([tensor.norm(norm_type) for tensor in several]).norm(norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: _Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place so that a norm that is already known becomes at most `max_norm`.

    Args:
        parameters: the parameters whose gradients are scaled, or one.
        max_norm: the largest norm.
        total_norm: the norm of all gradients together.
        foreach: accepted; there is one way to compute it.
    """
    gradients = _gradients(parameters)
    if not gradients:
        return
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        if _C._scale_tensors(gradients, factor):
            return
        for grad in gradients:
            grad.mul_(factor.to(grad.dtype))


def clip_grad_norm_(
    parameters: _Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that the norm of all together is at most `max_norm`.

    Args:
        parameters: the parameters whose gradients are scaled, or one.
        max_norm: the largest norm.
        norm_type: the p of the norm; may be infinity.
        error_if_nonfinite: whether a norm that is nan or infinite is an error.
        foreach: accepted; there is one way to compute it.

    Returns:
        The norm before.

    Example:
        >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
        >>> x.square().sum().backward()
        >>> torch.nn.utils.clip_grad_norm_([x], 1.0)
        tensor(10.)
        >>> x.grad
        tensor([0.6000, 0.8000])
    """
    several = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not several and isinstance(parameters, GeneratorType):
        import warnings

        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    total = get_total_norm(_gradients(several), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(several, max_norm, total, foreach)
    return total


def clip_grad_value_(parameters: _Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Bring the elements of gradients in place into the range of plus and minus a value.

    Args:
        parameters: the parameters whose gradients are changed, or one.
        clip_value: the largest size of an element.
        foreach: accepted; there is one way to compute it.
    """
    clip_value = float(clip_value)
    with no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)


def clip_grad_norm(
    parameters: _Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """As clip_grad_norm_(), which took its place."""
    import warnings

    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
