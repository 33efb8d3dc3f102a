"""The switch of PyTorch's second path through attention for inference; here there is one path."""

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """Return what `set_fastpath_enabled` has set.

    Example:
        >>> torch.backends.mha.get_fastpath_enabled()
        True
    """
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Keep whether a program wants the path, which changes nothing.

    Args:
        value: whether it does.
    """
    global _enabled
    _enabled = value
