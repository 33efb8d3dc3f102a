"""Weights of convolutions in another order in memory."""

from typing import Any, TypeVar

from tapegrad.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from tapegrad.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

_M = TypeVar("_M", bound=Module)


def convert_conv2d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Put the weights of all convolutions of images into a memory format, and nothing else.

    A convolution has its channels last if its weight has, so the input need not be converted.

    Args:
        module: the model, which is changed.
        memory_format: as `torch.channels_last`.

    Returns:
        The module.

    Example:
        >>> layer = torch.nn.Conv2d(2, 4, 3)
        >>> layer = torch.nn.utils.convert_conv2d_weight_memory_format(layer, torch.channels_last)
        >>> layer.weight.stride()
        (18, 1, 6, 2)
    """
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: _M, memory_format: Any) -> _M:
    """Put the weights of all convolutions of volumes into a memory format, and nothing else.

    Args:
        module: the model, which is changed.
        memory_format: as `torch.channels_last_3d`.

    Returns:
        The module.
    """
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: _M, kinds: tuple[type, ...], memory_format: Any) -> _M:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module
