"""A last linear layer together with its loss."""

import math
from typing import Any, NamedTuple

from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn.modules.linear import Linear
from tapegrad.nn.modules.loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


class _Options(NamedTuple):
    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyOptions(_Options):
    """How linear_cross_entropy() divides a batch.

    Args:
        allow_retain_graph: accepted; a graph may always be retained.
        batch_chunk_size: how many samples are computed at a time.
        chunking_method: how that is chosen if it is None: ``"aspect_ratio:n"`` holds scores no
            larger than an n-th of the input; ``"auto"`` is ``"aspect_ratio:2"``.
        acc_policy: accepted; sums are kept in the dtype of the parameters.
        acc_dtype: accepted in the same way.

    Example:
        >>> torch.nn.LinearCrossEntropyOptions(batch_chunk_size=64).batch_chunk_size
        64
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> "LinearCrossEntropyOptions":
        """Make the options, and refuse what they cannot be."""
        made = super().__new__(cls, *args, **kwargs)
        made._check()
        return made

    def _check(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto") and self._divisor() < 1:
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")

    def _divisor(self) -> int:
        """Return the n of ``aspect_ratio:n``, 0 if it is none."""
        if self.chunking_method == "auto":
            return 2
        name, _, divisor = (self.chunking_method or "").partition(":")
        if name != "aspect_ratio":
            return 0
        divisor = divisor if ":" in (self.chunking_method or "") else "1"
        return int(divisor) if divisor.isdigit() else 0

    def _chunk_size(self, samples: int, in_features: int, classes: int) -> int:
        """Return how many samples to compute at a time."""
        given = self.batch_chunk_size
        if self.chunking_method is None or (self.chunking_method == "auto" and given):
            return min(given or samples, samples)
        wanted = math.ceil(samples / math.ceil(classes / in_features))
        power = 1 << (wanted - 1).bit_length()
        size = max(min(power // self._divisor(), samples), 1)
        if given is not None and given != size:
            raise ValueError(
                f"batch_chunk_size (={given}) and chunking_method ('{self.chunking_method}') give "
                f"different chunk sizes ({given} vs {size}); pass only one."
            )
        return size


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of what it returns.

    Args:
        in_features: the size of a sample.
        num_classes: the number of classes.
        out_features: the sizes of more dimensions of the loss.
        bias: whether the layer has a bias.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: a weight for each class.
        ignore_index: a class whose samples do not count.
        label_smoothing: how much of each target is spread over all classes.
        options: LinearCrossEntropyOptions() computes a part of the batch at a time.

    Example:
        >>> loss = torch.nn.LinearCrossEntropyLoss(3, 4)
        >>> loss(torch.ones(2, 3), torch.tensor([0, 3])).shape
        torch.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        rows = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, rows, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters of the layer again."""
        self.linear.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.unflatten(0, sizes) if self.out_features else self.linear.weight,
            target,
            linear_bias=bias if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
