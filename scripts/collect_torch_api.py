"""Write tapegrad/compat/names.txt: the names of PyTorch's documented API.

They are those of the installed release. A name is public if its module lists it in `__all__`, or
defines it without an underscore where there is no list; names of `torch` and `torch.Tensor` that
come from PyTorch's registry of ops count only if they have a docstring, for the registry holds its
own parts beside what users call.

Usage: python scripts/collect_torch_api.py [--check]

With --check nothing is written, and the exit code is 1 when the file is out of date.
"""

import importlib
import inspect
import sys
import textwrap
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from generated import ROOT, write_or_check

TARGET = ROOT / "tapegrad" / "compat" / "names.txt"
HEADER = """\
# Names of PyTorch {version}'s documented API, by module or class.
# Written by scripts/collect_torch_api.py; do not edit.
"""


def _words(text: str) -> list[str]:
    return text.split()


# Modules that PyTorch documents. Those below `torch.distributed`, `torch.ao` and `torch.onnx` that
# only name parts of one implementation are left out.
MODULES = _words("""
torch torch.__config__ torch.__future__ torch.accelerator torch.accelerator.memory torch.amp
torch.ao.nn.intrinsic torch.ao.nn.quantized torch.ao.nn.quantized.dynamic torch.ao.quantization
torch.autograd torch.autograd.anomaly_mode torch.autograd.forward_ad torch.autograd.function
torch.autograd.functional torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph
torch.autograd.profiler torch.backends torch.backends.cpu torch.backends.cuda
torch.backends.cudnn torch.backends.mha torch.backends.mkl torch.backends.mkldnn
torch.backends.mps torch.backends.nnpack torch.backends.openmp torch.backends.opt_einsum
torch.backends.quantized torch.backends.xeon torch.compiler torch.cpu torch.cpu.amp torch.cuda
torch.cuda.amp torch.cuda.comm torch.cuda.gds torch.cuda.graphs torch.cuda.memory
torch.cuda.nccl torch.cuda.nvtx torch.cuda.profiler torch.cuda.random torch.cuda.sparse
torch.cuda.streams torch.cuda.tunable torch.distributed torch.distributed.algorithms.join
torch.distributed.checkpoint torch.distributed.checkpoint.state_dict torch.distributed.device_mesh
torch.distributed.elastic torch.distributed.fsdp torch.distributed.nn
torch.distributed.optim torch.distributed.pipelining torch.distributed.rpc
torch.distributed.tensor torch.distributed.tensor.parallel torch.distributions
torch.distributions.constraint_registry torch.distributions.constraints
torch.distributions.kl torch.distributions.transforms torch.export torch.fft torch.func
torch.futures torch.fx torch.hub torch.jit torch.library
torch.linalg torch.masked torch.monitor torch.mps torch.mps.profiler torch.mtia
torch.multiprocessing torch.nested torch.nn torch.nn.attention torch.nn.attention.bias
torch.nn.attention.flex_attention torch.nn.functional torch.nn.init torch.nn.modules
torch.nn.modules.module torch.nn.parallel torch.nn.parameter torch.nn.utils
torch.nn.utils.fusion torch.nn.utils.init torch.nn.utils.parametrizations
torch.nn.utils.parametrize torch.nn.utils.prune torch.nn.utils.rnn torch.nn.utils.stateless
torch.onnx torch.onnx.ops torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
torch.overrides torch.package torch.profiler torch.profiler.itt torch.quasirandom torch.random
torch.return_types torch.serialization torch.signal torch.signal.windows torch.sparse
torch.special torch.storage torch.testing torch.torch_version torch.types torch.utils
torch.utils.backend_registration torch.utils.benchmark torch.utils.checkpoint
torch.utils.collect_env torch.utils.cpp_extension torch.utils.data torch.utils.data.dataloader
torch.utils.data.dataset torch.utils.data.distributed torch.utils.data.sampler
torch.utils.deterministic torch.utils.dlpack torch.utils.flop_counter torch.utils.hooks
torch.utils.mobile_optimizer torch.utils.model_zoo torch.utils.module_tracker
torch.utils.mkldnn torch.utils.tensorboard torch.version torch.xpu
""")

# Classes whose members programs call or override.
CLASSES = _words("""
torch.Tensor torch.Generator torch.Size torch.device torch.finfo torch.iinfo torch.UntypedStorage
torch.autograd.Function torch.autograd.function.FunctionCtx torch.autograd.graph.Node
torch.amp.GradScaler torch.cuda.Event torch.cuda.Stream torch.cuda.CUDAGraph
torch.distributions.Distribution torch.distributions.transforms.Transform torch.nn.Module
torch.nn.ModuleDict torch.nn.ModuleList torch.nn.MultiheadAttention torch.nn.ParameterDict
torch.nn.ParameterList torch.nn.Sequential torch.nn.utils.rnn.PackedSequence
torch.optim.Optimizer torch.optim.lr_scheduler.LRScheduler torch.optim.swa_utils.AveragedModel
torch.profiler.profile torch.utils.data.DataLoader torch.utils.data.Dataset
torch.utils.tensorboard.SummaryWriter
""")

# What users meet of the native module; the rest of it is the compiler's own.
NATIVE = frozenset(
    _words("""
AcceleratorError Event Generator OutOfMemoryError Size Stream device dtype finfo fork
get_default_dtype get_num_interop_threads get_num_threads iinfo init_num_threads is_grad_enabled
is_inference_mode_enabled layout memory_format qscheme set_flush_denormal set_num_interop_threads
set_num_threads wait
""")
)
# Members that are there for the class itself.
INTERNAL = {"T_destination", "call_super_init", "dump_patches", "profile_hook_step"}

# Modules whose names others import for themselves.
IMPORTED = {"torch.overrides", "torch._jit_internal", "torch._torch_docs", "torch.types"}

PLAIN = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme, int, float, str, bool)


def listed(owner: Any) -> list[str]:
    """Return what a module lists, or what it defines where it has no list."""
    names = getattr(owner, "__all__", None)
    if names is None:
        return [name for name in dir(owner) if is_own(owner, name)]
    return [name for name in names if not name.startswith("_")]


def is_own(owner: types.ModuleType, name: str) -> bool:
    """Return whether a name without an underscore is of PyTorch, and no module."""
    value = vars(owner).get(name)
    if name.startswith("_") or value is None or inspect.ismodule(value):
        return False
    if isinstance(value, torch.device) or type(value).__module__ in ("typing", "__future__"):
        return False
    home = str(getattr(value, "__module__", ""))
    if (
        (home in IMPORTED and owner.__name__ != home)
        or value is torch.Tensor
        or value is TYPE_CHECKING
    ):
        return False
    return isinstance(value, PLAIN) or home.startswith("torch")


def is_documented(owner: Any, name: str) -> bool:
    """Return whether a name is a constant, or has a text that tells users what it is."""
    value = getattr(owner, name, None)
    if isinstance(value, PLAIN) or inspect.isclass(value) or inspect.isfunction(value):
        return True
    return bool(getattr(value, "__doc__", None))


def is_written_in_python(name: str) -> bool:
    """Return whether a name of `torch` is that of a function or class from a public file."""
    value = getattr(torch, name)
    if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    return value.__module__ == "torch" or value.__module__ in (
        "torch.autograd.grad_mode", "torch.functional", "torch.random", "torch.serialization",
    )  # fmt: skip


def names_of_module(path: str) -> list[str]:
    """Return the public names of a module."""
    module = importlib.import_module(path)
    names = {name for name in listed(module) if hasattr(module, name)}
    if path == "torch":
        names |= {n for n in dir(torch) if isinstance(getattr(torch, n), PLAIN[:4])}
        names |= {n for n in dir(torch) if is_written_in_python(n)}
        names = {name for name in names if is_documented(torch, name)}
        names -= {n for n in names - NATIVE if vars(torch._C).get(n) is getattr(torch, n)}
    return sorted(
        name
        for name in names
        if not name.startswith("_") and not inspect.ismodule(getattr(module, name))
    )


def names_of_class(path: str) -> list[str]:
    """Return the public members of a class."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    parts = [part for part in found.__mro__ if part is found or not is_listed(part)]
    own = {name for part in parts if is_torch(part) for name in vars(part)}
    names = {name for name in own if not name.startswith("_") and name not in INTERNAL}
    if path == "torch.Tensor":
        names = {name for name in names if is_documented(found, name)}
    return sorted(names)


def is_listed(part: type) -> bool:
    """Return whether a class has a section of its own."""
    return any(path.endswith(f".{part.__name__}") for path in CLASSES)


def is_torch(part: type) -> bool:
    return part.__module__.startswith("torch") or (
        part.__module__ == "builtins" and hasattr(torch._C, part.__name__)
    )


def sections() -> Iterator[str]:
    """Yield the text of each module and class."""
    for path, names in (
        *((path, names_of_module(path)) for path in MODULES),
        *((path, names_of_class(path)) for path in CLASSES),
    ):
        if names:
            yield f"\n[{path}]\n{textwrap.fill(' '.join(names), 100, break_on_hyphens=False)}\n"


def main(arguments: list[str]) -> int:
    """Write the file, or compare it."""
    warnings.simplefilter("ignore")
    version = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    text = HEADER.format(version=version) + "".join(sections())
    return write_or_check(TARGET, text, arguments, "collect_torch_api.py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
