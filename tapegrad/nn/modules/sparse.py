"""Tables of vectors, looked up by index."""

from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.autograd.grad_mode import no_grad
from tapegrad.nn import functional as F
from tapegrad.nn import init
from tapegrad.nn.modules.module import Module
from tapegrad.nn.parameter import Parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """A table of vectors, looked up by index.

    Args:
        num_embeddings: the number of vectors.
        embedding_dim: their size.
        padding_idx: a vector that begins as zeros and gets no gradient.
        max_norm: vectors that are used and longer than this are shortened to it first.
        norm_type: the p of the norm for max_norm.
        scale_grad_by_freq: whether gradients are divided by how often their vector is used.
        sparse: whether the gradient of the table is sparse: of the rows that were named alone.
        device: where the table is.
        dtype: of the table; the default dtype if None.

    Shape:
        ``(*)`` of integers to ``(*, embedding_dim)``.

    Example:
        >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
        torch.Size([2, 2, 3])
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    "Embedding: Padding_idx must be within num_embeddings, got "
                    f"{padding_idx} for {num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            table = _C.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError(
                    "Embedding: Shape of weight does not match num_embeddings and embedding_dim: "
                    f"{list(_weight.shape)} for {[num_embeddings, embedding_dim]}"
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw normal numbers; the padding vector is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """Return the vectors that the indices name."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the sizes and what differs from the defaults."""
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq is not False:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> "Embedding":
        """Make a table of given vectors.

        Args:
            embeddings: the vectors, of shape ``(num_embeddings, embedding_dim)``.
            freeze: whether they get no gradients.
            padding_idx: as of the class.
            max_norm: as of the class.
            norm_type: as of the class.
            scale_grad_by_freq: as of the class.
            sparse: as of the class.

        Returns:
            The module.

        Example:
            >>> table = torch.nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0]]))
            >>> table(torch.tensor([0]))
            tensor([[1., 2.]])
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )
