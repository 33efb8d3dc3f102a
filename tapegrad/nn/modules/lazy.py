"""Modules that learn the size of their inputs from the first one.

A lazy module holds parameters without a shape. A hook before the first forward gives them one,
calls the module's own initialisation, and makes the module an ordinary one of the class
`cls_to_become`.
"""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn.modules.batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from tapegrad.nn.modules.linear import Linear
from tapegrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]


class LazyModuleMixin:
    """What makes a module lazy; it comes before the module's class among the bases.

    A subclass assigns UninitializedParameter and UninitializedBuffer objects in its constructor and
    defines `initialize_parameters`, which is called with the arguments of the first forward and
    calls `materialize` on each.
    """

    cls_to_become: type | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give all parameters and buffers their shapes, from the arguments of a forward."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer of the module itself has no shape yet."""
        return any(is_lazy(own) for own in (*self._parameters.values(), *self._buffers.values()))

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take the shapes from a state dict."""
        for name, own in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(own) and given is not None and not is_lazy(given):
                with no_grad():
                    own.materialize(given.shape)

    def _infer_parameters(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(module).__name__} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose in_features are those of its first input.

    Args:
        out_features: the size of the output's last dimension.
        bias: whether there is a bias.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> layer = torch.nn.LazyLinear(3)
        >>> _ = layer(torch.ones(2, 5))
        >>> layer
        Linear(in_features=5, out_features=3, bias=True)
    """

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take in_features from the input."""
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # Loaded before the first forward.
            self.in_features = input.shape[-1]


class _LazyNorm(LazyModuleMixin):
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any
    num_features: int

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=bias)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = _C.tensor(0, dtype=_C.int64, device=device)

    def reset_parameters(self) -> None:
        """Reset the parameters, once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take num_features from the input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            own = (self.weight, self.bias, self.running_mean, self.running_var)
            for tensor in own:
                if is_lazy(tensor):
                    tensor.materialize((self.num_features,))
            self.reset_parameters()
        if self.num_features == 0:  # Loaded before the first forward.
            self.num_features = input.shape[1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d whose num_features are the channels of its first input.

    Args:
        eps: added to the variance.
        momentum: the part of each batch in the running statistics; None makes them plain means.
        affine: whether a weight is multiplied afterwards.
        track_running_stats: whether running statistics are kept, for evaluation.
        device: where parameters and buffers are.
        dtype: of the parameters and buffers; the default dtype if None.
        bias: whether a bias is added, too.

    Example:
        >>> norm = torch.nn.LazyBatchNorm1d()
        >>> _ = norm(torch.ones(2, 3))
        >>> norm.running_mean.shape
        torch.Size([3])
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """As LazyBatchNorm1d, for inputs of shape (N, C, H, W)."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """As LazyBatchNorm1d, for inputs of shape (N, C, D, H, W)."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """An InstanceNorm1d whose num_features are the channels of its first input.

    Args:
        eps: added to the variance.
        momentum: the part of each batch in the running statistics.
        affine: whether a weight is multiplied afterwards.
        track_running_stats: whether running statistics are kept, for evaluation.
        device: where parameters and buffers are.
        dtype: of the parameters and buffers; the default dtype if None.
        bias: whether a bias is added, too.

    Example:
        >>> norm = torch.nn.LazyInstanceNorm1d()
        >>> norm(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """As LazyInstanceNorm1d, for inputs of shape (N, C, H, W)."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """As LazyInstanceNorm1d, for inputs of shape (N, C, D, H, W)."""

    cls_to_become = InstanceNorm3d
