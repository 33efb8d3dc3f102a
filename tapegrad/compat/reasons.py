"""Why a name of PyTorch's is not there, and how far one that is there goes.

Both are texts with indented patterns below, which are matched with the whole path behind `torch.`;
the first that fits speaks. A name that is there needs no reason, so that patterns may cover whole
areas while parts of them are there.
"""

import re

__all__ = ["LIMITS", "ONLY_REFUSES", "REASONS", "limit_of", "read", "reason_of"]

# Names that are there to refuse in words.
ONLY_REFUSES = frozenset(
    {
        "torch.distributed.autograd",
        "torch.distributed.autograd.backward",
        "torch.distributed.autograd.context",
        "torch.distributed.autograd.get_gradients",
        "torch.distributed.checkpoint.optimizer.load_sharded_optimizer_state_dict",
        "torch.distributed.nn.RemoteModule",
        "torch.distributed.optim.DistributedOptimizer",
        "torch.distributed.rpc",
        "torch.distributed.rpc.RRef",
        "torch.distributed.rpc.TensorPipeRpcBackendOptions",
        "torch.distributed.rpc.functions.async_execution",
        "torch.distributed.rpc.get_worker_info",
        "torch.distributed.rpc.init_rpc",
        "torch.distributed.rpc.remote",
        "torch.distributed.rpc.rpc_async",
        "torch.distributed.rpc.rpc_sync",
        "torch.distributed.rpc.shutdown",
        "torch.nn.attention.flex_attention.BlockMask",
        "torch.nn.attention.flex_attention.create_block_mask",
        "torch.nn.attention.flex_attention.create_mask",
        "torch.nn.attention.flex_attention.flex_attention",
    }
)


def read(text: str) -> dict[str, str]:
    """Return the text that stands above each pattern, by the pattern."""
    found: dict[str, str] = {}
    said = ""
    for line in text.splitlines():
        if line.startswith(" "):
            found.update(dict.fromkeys(line.split(), said))
        elif line:
            said = line
    return found


REASONS = read(r"""
processes hold whole models and tensors; what divides them, and remote calls, is not there
    distributed\..* cuda\.(nccl|comm)\..*

no tensor is divided among several GPUs
    nn\.parallel\.\w+

sparse tensors have what docs/sparse.md lists
    (cuda\.)?sparse\..* (Tensor\.)?(\w*sparse\w*|hspmm|smm|sspaddmm|coalesce|is_coalesced)
    \w*_indices_copy (indices|values)_copy
    Tensor\.(indices|values|crow_indices|col_indices|dense_dim)
    UntypedStorage\.is_sparse\w*

nested tensors have what docs/nested.md lists
    nested\..* jagged Tensor\.to_padded_tensor

there are no quantized tensors and no observers
    ao\..* (Tensor\.)?\w*(quant|qscheme|q_scale|q_zero_point|q_per_channel)\w* Tensor\.int_repr
    q?u?q?int\d+(x\d)? per_(channel|tensor)_\w+ Q\w+Storage quint\w+

no kernel takes this dtype
    u?int[1-7] bits\w* bit float4\w+ chalf Tensor\.chalf complex32
    UntypedStorage\.float8\w+

storages with a dtype are for programs of long ago, which had no complex numbers
    (cuda\.)?\w+Storage UntypedStorage\.complex_\w+

devices are the CPU and NVIDIA's GPUs
    (mps|mtia|xpu)(\..*)? backends\.mps\..*
    (Tensor|nn\.Module|UntypedStorage)\.(ipu|xpu|mtia|hpu|mps|is_hpu) version\.rocm
    backends\.cuda\.(is_ck_sdpa_available|preferred_rocm_fa_library)
    (utils\.)?(\w+\.)?\w*(privateuse1)\w*

programs are captured as they run, not read: torch.jit.trace, torch.compile, torch.onnx.export
    export\..* fx\..* (jit\.)?CompilationUnit jit\.export_opnames package\..* testing\.FileCheck
    utils\.mobile_optimizer\..*

ONNX files are written from what ran; there is no graph in between to operate on
    onnx\..*

an op is written in C++ (docs/adding-an-op.md), as an autograd.Function or by library.custom_op
    library\..*

torch.compile has one back end, and compares what a step reads before each replay
    compiler\..*

sizes are numbers: nothing is computed with unknown ones
    sym_\w+ Sym(Int|Bool|Float)

C++ programs build on saved programs (docs/cpp.md); extensions are not loaded
    utils\.cpp_extension\..* utils\.(cmake_prefix_path|get_cpp_backtrace)

kernels on the CPU are tapegrad's own
    utils\.mkldnn\..* Tensor\.to_mkldnn backends\.(mkl|nnpack)\..*

kernels are chosen by their shapes; files are read through the CPU
    cuda\.(tunable|gds)\..*

there is one allocator, and nothing to choose
    cuda\.(memory\.)?(MemPool|CUDAPluggableAllocator|use_mem_pool|change_current_allocator)
    cuda\.(memory\.)?(caching_allocator_(enable|disabled)|get_allocator_backend|list_gpu_processes)
    cuda\.(memory\.)?\w*host_memory_stats\w*

nvidia-smi tells; nothing here reads NVML
    cuda\.(clock_rate|device_memory_used|memory_usage|power_draw|temperature|utilization)

the driver is called from C++ and has no names in Python
    cuda\.(cudart|cudaStatus|CudaError|check_error|GreenContext|current_(blas|solver)_handle)
    cuda\.(default_generators|DeferredCudaCallError|get_gencode_flags|has_half|has_magma)
    cuda\.Event\.\w*ipc_handle cuda\.CUDAGraph.get_graph_data

torch.cuda has these names
    accelerator\.(Graph|empty_host_cache|get_device_capability|memory\..*)

libraries and kernels are not chosen by hand
    backends\.cuda\..* nn\.attention\.\w*flash\w* nn\.attention\.WARN_FOR_UNFUSED_KERNELS

`tapegrad info` tells which instructions of the processor are used
    cpu\.get_capabilities

masks are tensors, is_causal, or those of nn.attention.bias
    nn\.attention\.flex_attention\..*

no kernel takes 8-bit floats or groups of products
    nn\.functional\.(scaled_mm|grouped_mm|scaled_grouped_mm|ScalingType|SwizzleType)

masked tensors have what docs/masked.md lists
    masked\..*

classes that are no tensors compute by `__torch_function__`; subclasses and modes do not
    overrides\..*

tapegrad.profiler and tapegrad.tape tell times, bytes and counts
    monitor\..* profiler\.itt\..*

counts of operations follow the ops that run here, which are not called by PyTorch's names
    utils\.flop_counter\.register_flop_formula

the profiler writes its own traces (docs/profiler.md)
    profiler\.(ExecutionTraceObserver|profile\..*) autograd\.profiler\..*

a checkpoint is read without running anything in it, so that there is nothing to allow
    serialization\..*

types of results are named tuples, which utils._pytree knows
    return_types\..*

data pipes are what IterableDataset is
    utils\.data\.(\w*DataPipe|DataChunk|\w+_validation\w*|functional_datapipe)
    utils\.data\.(guaranteed_\w+|non_deterministic)

Timer, Compare and Measurement are there; benchmarks/ has the rest
    utils\.benchmark\..* utils\.ThroughputBenchmark

`tapegrad info` tells what is installed
    utils\.collect_env\..*

scalars, histograms, images, figures and texts are written
    utils\.tensorboard\..*

torch.hub.load_state_dict_from_url is what is left of it
    utils\.model_zoo\..*

memory of a file does not tell the file's name
    UntypedStorage\.filename

they tell how PyTorch was built
    compiled_with_cxx11_abi __config__\.parallel_info

a generator's state is a seed and a number of draws, which graphs follow by themselves
    thread_safe_generator random\.thread_safe_generator Generator\.graphsafe_\w+

PyTorch uses it inside, and does not document it for users
    optim\.Optimizer\.Optimizer\w+Hook utils\.(set_module|hooks\..*)
    nn\.(factory_kwargs|modules\.Container|Container) nn\.functional\.assert_int_or_pair
    utils\.data\.dataloader\.\w+ utils\.checkpoint\.\w+ autograd\.function\.\w+
    autograd\.\w*(NestedIOFunction|variable) autograd\.gradcheck\..* autograd\.Function\.\w+
    autograd\.function\.FunctionCtx\.\w+ UntypedStorage\.\w+ autograd\.graph\.\w+

gradients have the layout of what they belong to
    autograd\.(grad_mode\.)?enforce_grad_layout_policy

functions are transformed as they run
    func\.(debug_unwrap|rearrange)

PyTorch removed it, or asks not to use it
    Tensor\.(eig|lstsq|solve|symeig|reinforce|resize|resize_as)

a tensor's identity is its own; load_state_dict copies
    utils\.swap_tensors optim\.swap_in_optimizer_params_and_state Tensor\.module_load

a gradient has the dtype of its tensor, and an index of a tensor is written in brackets
    Tensor\.(grad_dtype|index)
""")

LIMITS = read(r"""
of one device
    nn\.parallel\.(DataParallel|data_parallel) nn\.DataParallel

the number of processes and the rank are given
    utils\.data\.(distributed\.)?DistributedSampler

leaves Python as it is: nothing is compiled from source
    jit\.(script|script_if_tracing|ignore|unused|export|interface|fork|wait)
    jit\.(ScriptModule|ScriptFunction)

refuses: a storage keeps its bytes
    UntypedStorage\.(resize_|share_memory_)

of a tensor that alone shows its memory, or of tensors each of which does
    Tensor\.share_memory_ nn\.Module\.share_memory
""")


def _first(table: dict[str, str], path: str) -> str:
    short = path.removeprefix("torch.")
    return next((text for pattern, text in table.items() if re.fullmatch(pattern, short)), "")


def reason_of(path: str) -> str:
    """Return why a name is not there, or an empty text if nothing says so."""
    return _first(REASONS, path)


def limit_of(path: str) -> str:
    """Return what a name that is there does not do, or an empty text if it does all."""
    return _first(LIMITS, path)
