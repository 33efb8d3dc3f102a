"""Questions of packages about PyTorch's compiler."""

from typing import Any

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Return whether PyTorch's compiler makes code for a kind of device: there is none here.

    Packages ask before they compile functions of their own inside an op.

    Args:
        device_type: ``"cpu"``, ``"cuda"``.
    """
    return False
