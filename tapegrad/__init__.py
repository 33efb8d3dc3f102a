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

# Parts of the native module that are no part of the public one.
for _name in ("build_info", "install_source_lines", "live_counts", "pointwise_table", "run_backward",
              "set_blas_library"):
    del globals()[_name]
_C.install_source_lines(str(_Path(__file__).parent))
_LIBRARY = _Path(__file__).parent / "lib" / "libscipy_openblas.so"
if _LIBRARY.exists():
    _C.set_blas_library(str(_LIBRARY))

from tapegrad import __config__, _aliases, _composed, _tensor, autograd, cuda, nn, return_types
from tapegrad._tensor_str import get_printoptions, printoptions, set_printoptions
from tapegrad.autograd import (
    enable_grad,
    inference_mode,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

for _row in _C.pointwise_table():  # these live in nn.functional, as in PyTorch
    if _row["activation"]:
        for _name in (_row["name"], _row["name"] + "_"):
            globals().pop(_name, None)
_tensor.install()
globals().update(_composed.FUNCTIONS)
for _name, _value in _composed.METHODS.items():
    setattr(Tensor, _name, _value)
_aliases.install(globals(), Tensor)

newaxis = None
