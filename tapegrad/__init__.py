"""tapegrad: PyTorch's programming model, light, with a tape that is an object.

    >>> import tapegrad as torch
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> y = x * x + torch.sin(x)
    >>> y.backward()
    >>> x.grad
    tensor(3.5839)
"""

from math import e, inf, nan, pi
from pathlib import Path as _Path

from tapegrad import _C
from tapegrad._version import __version__
from tapegrad._C import *  # noqa: F403
from tapegrad._C import Tensor, dtype
from tapegrad._types import (
    Size,
    channels_last,
    contiguous_format,
    device,
    layout,
    memory_format,
    preserve_format,
    strided,
)

_C.install_source_lines(str(_Path(__file__).parent))
_LIBRARY = _Path(__file__).parent / "lib" / "libscipy_openblas.so"
if _LIBRARY.exists():
    _C.set_blas_library(str(_LIBRARY))

from tapegrad import __config__, _aliases, _composed, _tensor, autograd, nn
from tapegrad._tensor_str import get_printoptions, printoptions, set_printoptions
from tapegrad.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled

_tensor.install()
for _name, _value in vars(_C).items():
    if not _name.startswith("_") and _name not in globals():
        globals()[_name] = _value
globals().update(_composed.FUNCTIONS)
for _name, _value in _composed.METHODS.items():
    setattr(Tensor, _name, _value)
_aliases.install(globals(), Tensor)

newaxis = None
