"""Backward through remote procedure calls: refused in words."""

from tapegrad._refused import Refused, refused

__all__ = ["backward", "context", "get_gradients"]

_WHY = "backward through remote procedure calls is not supported"

backward = refused("distributed.autograd.backward", _WHY)
get_gradients = refused("distributed.autograd.get_gradients", _WHY)


class context(Refused):
    """Refuses: there are no remote procedure calls."""

    _why = _WHY
