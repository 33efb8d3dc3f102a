"""Tensors of which some elements do not count, as torch.masked.

The functions take a tensor and a boolean mask that is True where elements count. A `MaskedTensor`
carries its mask with it, through arithmetic, reductions and views.

Example:
    >>> x = torch.tensor([[1.0, 100.0], [3.0, 4.0]])
    >>> mask = torch.tensor([[True, False], [True, True]])
    >>> torch.masked.mean(x, 1, mask=mask)
    tensor([1.0000, 3.5000])
    >>> torch.masked.masked_tensor(x, mask).sum(1)
    MaskedTensor(
      [  1.0000,   7.0000]
    )
"""

from tapegrad.masked._normalizations import (
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    normalize,
    softmax,
    softmin,
)
from tapegrad.masked._reductions import (
    amax,
    amin,
    argmax,
    argmin,
    logsumexp,
    mean,
    median,
    norm,
    prod,
    std,
    sum,
    var,
)
from tapegrad.masked._tensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
