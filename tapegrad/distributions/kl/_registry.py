"""Which function computes the divergence of two kinds of distributions."""

import warnings
from collections.abc import Callable
from typing import Any

from tapegrad import Tensor
from tapegrad.distributions.distribution import Distribution

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable[..., Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Say, as a decorator, that a function computes the divergence of two kinds of distributions.

    The most specific function for a pair is used; a warning tells of pairs where it depends on
    which of the two is looked at first.

    Args:
        type_p: a subclass of `Distribution`.
        type_q: a subclass of `Distribution`.

    Example:
        >>> d = torch.distributions
        >>> class Standard(d.Normal):
        ...     def __init__(self):
        ...         super().__init__(0.0, 1.0)
        >>> @d.register_kl(Standard, Standard)
        ... def kl(p, q):
        ...     return torch.zeros(())
        >>> d.kl_divergence(Standard(), Standard())
        tensor(0.)
    """
    for name, each in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(each, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {each}")

    def decorator(fun: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


def _distance(special: type, general: type) -> int:
    """How far a class stands from one of its bases."""
    return special.__mro__.index(general)


def _dispatch_kl(type_p: type, type_q: type) -> Callable[..., Any]:
    """Return the most specific function for a pair; p decides before q."""
    matches = [
        pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])
    ]
    if not matches:
        return lambda p, q: NotImplemented
    by_p = min(matches, key=lambda m: (_distance(type_p, m[0]), _distance(type_q, m[1])))
    by_q = min(matches, key=lambda m: (_distance(type_q, m[1]), _distance(type_p, m[0])))
    left, right = _KL_REGISTRY[by_p], _KL_REGISTRY[by_q]
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return left


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of `q` from `p`, of the batch's shape.

    Args:
        p: the distribution over which the expectation is taken.
        q: the other one.

    Example:
        >>> normal = torch.distributions.Normal
        >>> torch.distributions.kl_divergence(normal(0.0, 1.0), normal(1.0, 1.0))
        tensor(0.5000)
    """
    pair = type(p), type(q)
    function = _KL_MEMOIZE.get(pair)
    if function is None:
        function = _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    result = function(p, q)
    if result is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} "
            f"and q type {q.__class__.__name__}"
        )
    return result
