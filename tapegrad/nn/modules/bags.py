"""Tables of vectors, reduced over bags of indices."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = ["EmbeddingBag"]


class EmbeddingBag(Module):
    """A table of vectors; the sum, mean or maximum of those that a bag of indices names.

    Args:
        num_embeddings: the number of vectors.
        embedding_dim: their size.
        max_norm: vectors that are used and longer than this are shortened to it first.
        norm_type: the p of the norm for max_norm.
        scale_grad_by_freq: whether gradients are divided by how often their vector is used.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: whether the gradient of the table is sparse: of the rows that were named alone.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: indices of this vector, which begins as zeros, are left out.
        device: where the table is.
        dtype: of the table; the default dtype if None.

    Shape:
        ``(bags, indices)``, or ``(indices,)`` with offsets, to ``(bags, embedding_dim)``.

    Example:
        >>> bags = torch.nn.EmbeddingBag(10, 3, mode="sum")
        >>> bags(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 3])).shape
        torch.Size([2, 3])
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError(
                "EmbeddingBag: padding_idx must be within num_embeddings, got "
                f"{padding_idx} for {num_embeddings}"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        if _weight is None:
            self.weight = Parameter(
                _C.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            )
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError(
                    "EmbeddingBag: Shape of weight does not match num_embeddings and "
                    f"embedding_dim: {list(_weight.shape)} for {[num_embeddings, embedding_dim]}"
                )
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw normal numbers; the padding vector is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """Return one vector for each bag."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> "EmbeddingBag":
        """Make a table of given vectors.

        Args:
            embeddings: the vectors, of shape ``(num_embeddings, embedding_dim)``.
            freeze: whether they get no gradients.
            max_norm: as of the class, like the others.
            norm_type: the p of the norm for max_norm.
            scale_grad_by_freq: whether gradients are divided by frequency.
            mode: ``"sum"``, ``"mean"`` or ``"max"``.
            sparse: as of the class.
            include_last_offset: whether the last offset is the end of the last bag.
            padding_idx: indices of this vector are left out.

        Returns:
            The module.

        Example:
            >>> table = torch.nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0], [4.0]]))
            >>> table(torch.tensor([[0, 1]]))
            tensor([[2.5000]])
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        made = cls(
            embeddings.shape[0],
            embeddings.shape[1],
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made
