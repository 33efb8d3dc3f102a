"""A softmax over very many classes, in clusters by frequency."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.nn import functional as F
from tapegrad.nn.modules.container import ModuleList, Sequential
from tapegrad.nn.modules.linear import Linear
from tapegrad.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """What forward returns: the log-probability of every target, and the mean loss."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A log_softmax over classes sorted by frequency: a head, and a tail of smaller clusters.

    The head has the frequent classes and one for each cluster; a cluster is computed for the
    samples alone whose targets are in it.

    Args:
        in_features: the size of a sample.
        n_classes: the number of classes, the most frequent first.
        cutoffs: where the clusters begin.
        div_value: by how much the width shrinks from one cluster to the next.
        head_bias: whether the head has a bias.
        device: where the parameters are.
        dtype: of the parameters; the default dtype if None.

    Example:
        >>> softmax = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
        >>> softmax.log_prob(torch.ones(3, 8)).shape
        torch.Size([3, 20])
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        is_sorted = cutoffs == sorted(set(cutoffs)) and all(int(c) == c for c in cutoffs)
        if not is_sorted or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1, got {cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, head_bias, **options)
        self.tail = ModuleList()
        for cluster in range(self.n_clusters):
            width = int(in_features // (div_value ** (cluster + 1)))
            size = self.cutoffs[cluster + 1] - self.cutoffs[cluster]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, **options),
                    Linear(width, size, False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw the parameters again."""
        self.head.reset_parameters()
        for narrow, wide in self.tail:
            narrow.reset_parameters()
            wide.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log-probabilities of the targets, and the mean of their negatives.

        Args:
            input_: samples, of shape ``(N, in_features)`` or ``(in_features,)``.
            target_: classes, of shape ``(N,)`` or ``()``.
        """
        self._check_target(input_, target_)
        is_batched = target_.dim() > 0
        input = input_ if is_batched else input_.unsqueeze(0)
        target = target_ if is_batched else target_.unsqueeze(0)
        head_class = target
        rows_of_clusters = []
        for cluster in range(self.n_clusters):
            low, high = self.cutoffs[cluster], self.cutoffs[cluster + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            rows_of_clusters.append(rows)
            if rows.numel():
                head_class = head_class.index_fill(0, rows, self.shortlist_size + cluster)
        output = F.log_softmax(self.head(input), dim=1).gather(1, head_class.unsqueeze(1))
        output = output.squeeze(1)
        for cluster, rows in enumerate(rows_of_clusters):
            if rows.numel():
                scores = F.log_softmax(self.tail[cluster](input.index_select(0, rows)), dim=1)
                place = target.index_select(0, rows) - self.cutoffs[cluster]
                output = output.index_add(0, rows, scores.gather(1, place.unsqueeze(1)).squeeze(1))
        loss = (-output).mean()
        return _ASMoutput(output if is_batched else output.squeeze(0), loss)

    def _check_target(self, input: Tensor, target: Tensor) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.dim() == 1 and (input.dim() == 1 or input.shape[0] != target.shape[0]):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target.dim() == 0 and input.dim() != 1:
            raise RuntimeError("0D target tensor should be used with 1D input tensor")
        least, most = int(target.min()), int(target.max())
        if least < 0 or most >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{least}, {most}] were found. "
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, part in enumerate(self.tail):
            inside = F.log_softmax(part(input), dim=1)
            parts.append(inside + head[:, self.shortlist_size + cluster].unsqueeze(1))
        return _C.cat(parts, 1).to(input.dtype)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes.

        Args:
            input: samples, of shape ``(N, in_features)``.

        Returns:
            A tensor of shape ``(N, n_classes)``.
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the likeliest class of every sample; clusters are computed where they are needed.

        Args:
            input: samples, of shape ``(N, in_features)``.

        Returns:
            A tensor of shape ``(N,)``.
        """
        head_output = self.head(input)
        output = head_output.argmax(1)
        rows = (output >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel():
            some = input.index_select(0, rows)
            scores = self._get_full_log_prob(some, head_output.index_select(0, rows))
            output = output.index_copy(0, rows, scores.argmax(1))
        return output
