"""Switches of how modules convert their parameters."""

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Keep parameter objects when a module is converted: the only way there is.

    Args:
        value: False; True is refused, which would make new parameters.

    Example:
        >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    if value:
        raise NotImplementedError(
            "set_overwrite_module_params_on_conversion: modules keep their parameter objects and "
            "give them other data; only False is supported"
        )


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether converting a module makes new parameters: never.

    Example:
        >>> torch.__future__.get_overwrite_module_params_on_conversion()
        False
    """
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Keep parameters when a module is converted, without swapping them with converted ones.

    Args:
        value: False; True is refused.

    Example:
        >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    if value:
        raise NotImplementedError(
            "set_swap_module_params_on_conversion: modules keep their parameter objects and give "
            "them other data; only False is supported"
        )


def get_swap_module_params_on_conversion() -> bool:
    """Return whether converting a module swaps its parameters with converted ones: never.

    Example:
        >>> torch.__future__.get_swap_module_params_on_conversion()
        False
    """
    return False
