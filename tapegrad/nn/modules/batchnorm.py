"""Normalisation over batches and instances, with running statistics."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """What batch and instance norms share: parameters, running statistics, their loading."""

    _version = 2
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            tensor = (
                Parameter(_C.empty(num_features, device=device, dtype=dtype)) if wanted else None
            )
            self.register_parameter(name, tensor)
        if track_running_stats:
            self.register_buffer("running_mean", _C.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", _C.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", _C.tensor(0, dtype=_C.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        if self.track_running_stats:
            self._buffers["running_mean"].zero_()
            self._buffers["running_var"].fill_(1)
            self._buffers["num_batches_tracked"].zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics, set the weight to ones and the bias to zeros."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        """Fill in the count of batches, which version 1 did not have."""
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = _C.tensor(0, dtype=_C.int64) if count is None else count
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input; while training, update the running statistics."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # The mean of all batches so far.
                factor = 1.0 / float(self.num_batches_tracked)
        uses_batch = self.training or (self.running_mean is None and self.running_var is None)
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            uses_batch,
            factor,
            self.eps,
        )


def _expect_dims(input: Tensor, *allowed: int) -> None:
    if input.dim() not in allowed:
        wanted = " or ".join(f"{dims}D" for dims in allowed)
        raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Shifts and scales every channel of (N, C) or (N, C, L), over the batch: mean 0, variance 1.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the part of each batch in the running statistics; None makes them plain means.
        affine: whether a weight is multiplied afterwards.
        track_running_stats: whether running statistics are kept, for evaluation.
        device: where parameters and buffers are.
        dtype: of the parameters and buffers; the default dtype if None.
        bias: whether a bias is added, too.

    Example:
        >>> norm = torch.nn.BatchNorm1d(1, affine=False)
        >>> norm(torch.tensor([[1.0], [3.0]]))
        tensor([[-1.0000],
                [ 1.0000]])
        >>> norm.running_mean
        tensor([0.2000])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _expect_dims(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """As BatchNorm1d, for inputs of shape (N, C, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        _expect_dims(input, 4)


class BatchNorm3d(_BatchNorm):
    """As BatchNorm1d, for inputs of shape (N, C, D, H, W)."""

    def _check_input_dim(self, input: Tensor) -> None:
        _expect_dims(input, 5)


class SyncBatchNorm(_BatchNorm):
    """As BatchNorm1d for any number of dimensions, in a world of one process.

    Statistics over several processes are refused: by a process_group of several, and in forward
    while training.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the part of each batch in the running statistics; None makes them plain means.
        affine: whether a weight is multiplied afterwards.
        track_running_stats: whether running statistics are kept, for evaluation.
        process_group: a group of one process.
        device: where parameters and buffers are.
        dtype: of the parameters and buffers; the default dtype if None.
        bias: whether a bias is added, too.

    Example:
        >>> torch.nn.SyncBatchNorm(3)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    _is_alone = False  # whether it was given a group of one process

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        if process_group is not None and not _is_of_one(process_group):
            raise NotImplementedError(_ONE_PROCESS)
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = None  # a group of one has no part in the statistics
        if process_group is not None:
            self._is_alone = True

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input; while training, update the running statistics."""
        if self.training and not self._is_alone and _are_several():
            raise NotImplementedError(_ONE_PROCESS)
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return a model with a SyncBatchNorm for every batch norm in it, with the same tensors.

        Args:
            module: the model, whose parts are replaced in place.
            process_group: a group of one process.

        Returns:
            The model, or what took its place if it was a batch norm itself.

        Example:
            >>> model = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
            >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)[0].num_features
            3
        """
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias"):
                result._parameters[name] = module._parameters[name]
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                result._buffers[name] = module._buffers[name]
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


_ONE_PROCESS = (
    "SyncBatchNorm: statistics over several processes are not supported; use BatchNorm1d, "
    "BatchNorm2d or BatchNorm3d"
)


def _is_of_one(process_group: Any) -> bool:
    size = getattr(process_group, "size", None)
    return callable(size) and size() == 1


def _are_several() -> bool:
    import sys

    distributed: Any = sys.modules.get("tapegrad.distributed")
    return (
        distributed is not None
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


class _InstanceNorm(_NormBase):
    _batched_dims: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _check_input_dim(self, input: Tensor) -> None:
        _expect_dims(input, self._batched_dims - 1, self._batched_dims)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input; while training, update the running statistics."""
        self._check_input_dim(input)
        is_batched = input.dim() == self._batched_dims
        channels = input.shape[1 if is_batched else 0]
        if channels != self.num_features:
            place = 1 if is_batched else 0
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={place} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            import warnings

            warnings.warn(
                f"input's size at dim={place} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        result = F.instance_norm(
            input if is_batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if is_batched else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Shifts and scales every channel of every sample of (N, C, L) or (C, L) to mean 0, variance 1.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the part of each batch in the running statistics.
        affine: whether a weight is multiplied afterwards.
        track_running_stats: whether running statistics are kept, for evaluation.
        device: where parameters and buffers are.
        dtype: of the parameters and buffers; the default dtype if None.
        bias: whether a bias is added, too.

    Example:
        >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[[1.0, 3.0]]]))
        tensor([[[-1.0000,  1.0000]]])
    """

    _batched_dims = 3


class InstanceNorm2d(_InstanceNorm):
    """As InstanceNorm1d, for inputs of shape (N, C, H, W) or (C, H, W)."""

    _batched_dims = 4


class InstanceNorm3d(_InstanceNorm):
    """As InstanceNorm1d, for inputs of shape (N, C, D, H, W) or (C, D, H, W)."""

    _batched_dims = 5
