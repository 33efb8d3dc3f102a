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
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
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
    _internal_names,
    _methods,
    _tensor,
    _typed,
    autograd,
    func,
    nn,
    return_types,
    storage,
    utils,
)
from tapegrad._aliases import *
from tapegrad._control_flow import cond
from tapegrad._determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from tapegrad._devices import get_default_device, get_device_module, set_default_device
from tapegrad._internal_names import (
    _assert,
    _convert_indices_from_coo_to_csr,
    _convert_indices_from_csr_to_coo,
    _log_softmax_backward_data,
    _scaled_mm,
    _segment_reduce,
    _shape_as_tensor,
    _softmax_backward_data,
    from_file,
)
from tapegrad._method_functions import *
from tapegrad._missing import missing as _missing
from tapegrad._names import *
from tapegrad._ops import OpRegistry as _OpRegistry
from tapegrad._precision import get_float32_matmul_precision, set_float32_matmul_precision
from tapegrad._settings import (
    get_num_interop_threads,
    init_num_threads,
    is_warn_always_enabled,
    set_flush_denormal,
    set_num_interop_threads,
    set_warn_always,
)
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
    bilinear,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    hardshrink,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
)
from tapegrad.nn.functional._by_torch_order import (
    alpha_dropout,
    alpha_dropout_,
    batch_norm,
    dropout,
    dropout_,
    embedding,
    feature_alpha_dropout,
    feature_alpha_dropout_,
    group_norm,
    instance_norm,
    layer_norm,
    rrelu,
    rrelu_,
    threshold,
    threshold_,
)
from tapegrad.nn.functional.convolutions import convolution

_internal_names.install()
_tensor.install()
_methods.install()
autograd.graph.install()

native_channel_shuffle = channel_shuffle
legacy_contiguous_format = contiguous_format
newaxis = None
ops = _OpRegistry()

# Checkers read __init__.pyi, which scripts/make_package_stub.py writes.
_LATER = frozenset(
    ("__future__", "_dynamo", "_utils", "accelerator", "amp", "ao", "backends", "compiler", "cpu",
     "cuda", "distributed", "distributions", "fft", "futures", "fx", "hub", "jit", "linalg",
     "library", "masked", "mps", "mtia", "multiprocessing", "nested", "onnx", "optim",
     "overrides", "profiler", "quasirandom", "random", "serialization", "signal", "sparse",
     "special", "tape", "testing", "torch_version", "types", "version", "xpu")
)  # fmt: skip

_SAMPLING = {
    "_dirichlet_grad": "dirichlet_grad",
    "_sample_dirichlet": "sample_dirichlet",
    "_standard_gamma": "standard_gamma",
    "_standard_gamma_grad": "standard_gamma_grad",
    "binomial": "binomial",
}

_PLACES = {
    "Future": "tapegrad.futures",
    "GradScaler": "tapegrad.amp",
    "dsmm": "tapegrad.sparse._products",
    "PyTorchFileReader": "tapegrad.serialization._reader",
    "ScriptModule": "tapegrad.jit",
    "Storage": "tapegrad.storage",
    "TypedStorage": "tapegrad.storage",
    "fork": "tapegrad.jit",
    "hspmm": "tapegrad.sparse._products",
    "is_storage": "tapegrad.storage",
    "set_default_tensor_type": "tapegrad._typed",
    "smm": "tapegrad.sparse._products",
    "sparse_compressed_tensor": "tapegrad.sparse._construct",
    "sparse_coo_tensor": "tapegrad.sparse._construct",
    "sparse_csc_tensor": "tapegrad.sparse._construct",
    "sparse_csr_tensor": "tapegrad.sparse._construct",
    "spmm": "tapegrad.sparse._products",
    "wait": "tapegrad.jit",
}


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
    if name in _SAMPLING:
        return getattr(import_module("tapegrad.distributions._sampling"), _SAMPLING[name])
    if name in _LATER:
        return import_module(f"tapegrad.{name}")
    if name.startswith("_foreach_"):
        return import_module("tapegrad._foreach").foreach(name.removeprefix("_foreach_"))
    if name.endswith("_copy") or name == "empty_permuted":
        copies = import_module("tapegrad._copies")
        if name in copies.__all__:
            return getattr(copies, name)
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name.endswith("Tensor") and name[:-6] in _typed.DTYPES:
        return _typed.tensor_type(name)
    if name.endswith("Storage") and name[:-7] in _typed.DTYPES:
        return storage.storage_type(name)
    raise _missing(__name__, name)


def __dir__():
    """Return the names that are there, the parts that are not loaded yet among them."""
    return sorted({*globals(), *_LATER})
