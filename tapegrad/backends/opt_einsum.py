"""The package opt_einsum, which orders the products of `einsum` in PyTorch: it is not used.

`torch.einsum` contracts from the left to the right.
"""

from typing import Any

__all__ = ["enabled", "get_opt_einsum", "is_available", "set_flags", "strategy"]

# What PyTorch has where the package is missing. Setting them changes nothing.
enabled: bool = False
strategy: str | None = None


def is_available() -> bool:
    """Return False: the package is not used, even where it is installed."""
    return False


def get_opt_einsum() -> Any:
    """Return None: the package is not used."""
    return None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, Any]:
    """Refuse to turn it on; return the settings before.

    Args:
        _enabled: whether products shall be ordered; True is refused.
        _strategy: how they shall be ordered; anything but None is refused.
    """
    if _enabled or _strategy is not None:
        raise ValueError(
            "opt_einsum is not used: einsum contracts from the left to the right; order its "
            "operands, or call it in steps"
        )
    return enabled, strategy
