"""Apple's GPUs, which are not supported."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: tensors cannot be on Apple's GPUs."""
    return False


def is_built() -> bool:
    """Return False: there is no back end for Apple's GPUs."""
    return False
