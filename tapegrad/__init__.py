"""tapegrad: PyTorch's programming model, light, with a tape that is an object.

>>> import tapegrad as torch
>>> x = torch.tensor(2.0, requires_grad=True)
>>> y = x * x + torch.sin(x)
>>> y.backward()
>>> x.grad
tensor(3.5839)
"""
# ruff: noqa: F401, F403, E402

from math import e, inf, nan, pi
from os import path as _path  # pathlib takes as long to load as all the rest
from typing import TYPE_CHECKING as _TYPE_CHECKING

try:
    from tapegrad import _C
except ImportError as _error:  # in a clone the source hides the installed package
    from tapegrad._source_tree import installed_init as _installed_init

    __file__ = __spec__.origin = _installed_init(__file__, _error)
    __path__[:] = [_path.dirname(__file__)]
    from tapegrad import _C
from tapegrad._attention_backends import _fused_sdp_choice
from tapegrad._C import (
    Tensor,
    _amp_foreach_non_finite_check_and_unscale_,
    _amp_update_scale_,
)
from tapegrad._types import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    finfo,
    iinfo,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from tapegrad._version import __version__

_C.install_source_lines(_path.dirname(_path.abspath(__file__)))
# Beside the extension, which an editable install has in another folder than the source.
_OPENBLAS = _path.join(_path.dirname(_path.abspath(_C.__file__)), "lib", "libscipy_openblas.so")
if _path.exists(_OPENBLAS):
    _C.set_blas_library(_OPENBLAS)

from tapegrad import (
    __config__,
    _tensor,
    autograd,
    func,
    nn,
    return_types,
    utils,
)
from tapegrad._aliases import *
from tapegrad._determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from tapegrad._devices import get_default_device, set_default_device
from tapegrad._names import *
from tapegrad._ops import ops
from tapegrad._precision import get_float32_matmul_precision, set_float32_matmul_precision
from tapegrad._tensor_str import get_printoptions, printoptions, set_printoptions
from tapegrad.autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tapegrad.func import vmap
from tapegrad.nn.functional import (
    adaptive_avg_pool1d,
    avg_pool1d,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from tapegrad.nn.functional.convolutions import convolution

_tensor.install()
autograd.graph.install()

newaxis = None

if _TYPE_CHECKING:
    from tapegrad import (
        _dynamo,
        accelerator,
        amp,
        backends,
        compiler,
        cpu,
        cuda,
        onnx,
        optim,
        profiler,
        random,
        serialization,
        tape,
        version,
    )
    from tapegrad.amp import autocast
    from tapegrad.compiler import compile
    from tapegrad.cuda import Event, Stream
    from tapegrad.serialization import load, save
else:
    _LATER = frozenset(
        ("_dynamo", "accelerator", "amp", "backends", "compiler", "cpu", "cuda", "onnx", "optim",
         "profiler", "random", "serialization", "tape", "version")
    )  # fmt: skip

    def __getattr__(name):
        """Load the parts that many programs do without when they are first asked for."""
        from importlib import import_module

        if name in ("save", "load"):
            return getattr(import_module("tapegrad.serialization"), name)
        if name in ("Event", "Stream"):
            return getattr(import_module("tapegrad.cuda"), name)
        if name == "compile":
            return import_module("tapegrad.compiler").compile
        if name == "autocast":
            return import_module("tapegrad.amp").autocast
        if name in _LATER:
            return import_module(f"tapegrad.{name}")
        raise AttributeError(f"module 'tapegrad' has no attribute {name!r}")
