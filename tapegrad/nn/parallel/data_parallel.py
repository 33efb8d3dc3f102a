"""`DataParallel` of one device, so that programs that wrap their model run as they are."""

from collections.abc import Sequence
from typing import Any

from tapegrad._C import Tensor
from tapegrad._types import device
from tapegrad.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Wraps a module; its inputs are moved to the device, and its state has the prefix ``module.``.

    Args:
        module: the module.
        device_ids: the devices to use: all GPUs if left out. With none the module is called as it
            is. More than one are refused: a module runs on one device.
        output_device: where results go; the device if left out.
        dim: the dimension of the batch.

    Example:
        >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 1), device_ids=[0])
        >>> list(model.state_dict())
        ['module.weight', 'module.bias']
    """

    module: Module

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        devices = _devices(device_ids)
        self.module = module
        self.dim = dim
        self.device_ids = [place.index or 0 for place in devices]
        if not devices:
            return
        output = devices[0] if output_device is None else _device(output_device)
        self.output_device = output.index or 0
        self.src_device_obj = devices[0]
        self.module.to(devices[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module, with its inputs on the device."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        place = self.src_device_obj
        for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers()):
            if tensor.device != place:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{place} (device_ids[0]) but found one of them on device: {tensor.device} "
                    f"({name})"
                )
        result = self.module(*_moved(inputs, place), **_moved(kwargs, place))
        if self.output_device == self.device_ids[0]:
            return result
        return _moved(result, device("cuda", self.output_device))


def _device(place: Any) -> device:
    return device("cuda", place) if isinstance(place, int) else device(place)


def _devices(device_ids: Sequence[Any] | None) -> list[device]:
    from tapegrad import cuda

    if not cuda.is_available():
        return []
    chosen = range(cuda.device_count()) if device_ids is None else device_ids
    devices = [_device(place) for place in chosen]
    if len(devices) > 1:
        raise NotImplementedError(
            f"DataParallel: a module runs on one device, got {len(devices)}; give device_ids=[0]"
        )
    return devices


def _moved(value: Any, place: device) -> Any:
    if isinstance(value, Tensor):
        return value.to(place)
    if isinstance(value, dict):
        return {key: _moved(item, place) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_moved(item, place) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module as `DataParallel` does.

    Args:
        module: the module.
        inputs: its input, or a tuple of its inputs.
        device_ids: the devices to use, at most one.
        output_device: where results go.
        dim: the dimension of the batch.
        module_kwargs: its named arguments.

    Example:
        >>> torch.nn.parallel.data_parallel(torch.nn.Identity(), torch.ones(2), [0]).cpu()
        tensor([1., 1.])
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    wrapped = DataParallel(module, device_ids, output_device, dim)
    return wrapped(*inputs, **(module_kwargs or {}))
