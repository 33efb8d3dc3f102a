"""What is known of Python's modules and of this library's, for the walk over a function's state."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules whose functions depend on their arguments alone, and change nothing else.
PURE_MODULES = _names(
    """
    math cmath operator _operator functools _functools itertools typing collections collections.abc
    _collections_abc _collections dataclasses enum contextlib numbers types abc _abc __future__
    """
)
PURE_BUILTINS = _names(
    """
    abs all any bool bytearray bytes callable chr classmethod complex delattr dict divmod enumerate
    filter float format frozenset getattr hasattr hash int isinstance issubclass iter len list map
    max min next object ord pow property range repr reversed round set setattr slice sorted
    staticmethod str sum super tuple type zip Ellipsis NotImplemented __build_class__ __debug__
    __name__
    """
)
# Modules whose objects have state that is not in their attributes.
HIDDEN_STATE = _names("random threading logging io queue contextvars")
# Parts of this library that have effects which a trace does not repeat: files, settings, reports,
# messages to other processes.
EFFECTS = tuple(
    f"tapegrad.{name}"
    for name in (
        *("serialization", "utils.data", "utils.tensorboard", "utils.progress", "tape", "profiler"),
        *(
            "cli",
            "cuda",
            "random",
            "_tensor_str",
            "_precision",
            "_determinism",
            "autograd.profiler",
        ),
        *("autograd.anomaly_mode", "backends", "distributed", "compiler._stance"),
    )
)
EFFECT_NAMES = _names(
    """
    set_num_threads get_num_threads empty_cache memory_stats reset_peak_memory_stats save load
    set_default_dtype set_default_device set_autocast_enabled set_autocast_dtype
    set_autocast_cache_enabled set_autocast_cpu_enabled set_autocast_cpu_dtype
    set_autocast_gpu_dtype clear_autocast_cache live_counts
    """
)
# Functions of this library that set or read the state of a generator.
SEEDING = _names(
    "manual_seed seed get_rng_state set_rng_state initial_seed fork_rng default_generator Generator"
)
# Names that speak of gradients without looking at any.
GRAD_MODES = _names(
    "no_grad enable_grad set_grad_enabled is_grad_enabled requires_grad requires_grad_ retain_grad"
)
# Attributes that tell where a tensor is rather than what it is.
ADDRESSES = _names(
    """
    data_ptr untyped_storage storage _typed_storage _version __array_interface__ _base is_set_to
    """
)
# Names of what sees or chooses where in its memory a tensor begins, which slices differ in.
OFFSETS = _names(
    """
    storage_offset as_strided as_strided_ as_strided_copy as_strided_scatter set_
    """
)
# Names of what reads the options of an optimizer without naming them.
OPTION_READERS = _names("param_groups get_lr _get_closed_form_lr state_dict __getstate__ __dict__")
# Methods that are called without being named, by Python or by this library.
SPECIAL = _names(
    """
    __getattr__ __getattribute__ __setattr__ __delattr__ __call__ __iter__ __next__ __len__
    __getitem__ __setitem__ __delitem__ __contains__ __enter__ __exit__ __eq__ __ne__ __lt__ __le__
    __gt__ __ge__ __hash__ __bool__ __int__ __float__ __index__ __complex__ __round__ __add__
    __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__
    __itruediv__ __floordiv__ __rfloordiv__ __ifloordiv__ __mod__ __rmod__ __imod__ __divmod__
    __matmul__ __rmatmul__ __imatmul__ __pow__ __rpow__ __ipow__ __and__ __rand__ __iand__ __or__
    __ror__ __ior__ __xor__ __rxor__ __ixor__ __lshift__ __rlshift__ __ilshift__ __rshift__
    __rrshift__ __irshift__ __neg__ __pos__ __abs__ __invert__ __get__ __set__ __delete__
    __missing__ __reversed__ __length_hint__ __instancecheck__ __torch_function__ __array__
    __fspath__ __trunc__ __floor__ __ceil__ __dir__ __del__ __str__ __repr__ __format__ __bytes__
    __rdivmod__ __class_getitem__ __subclasscheck__ __subclasshook__ __copy__ __deepcopy__
    __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs__ __getnewargs_ex__
    __sizeof__ __mro_entries__ __await__ __aiter__ __anext__ __aenter__ __aexit__ __buffer__
    keys forward backward setup_context jvp vmap
    """
)
# With these, attributes are found by names that code computes.
COMPUTED = _names("__dict__ __getattribute__ __getattr__ __mro__ __bases__ attrgetter methodcaller")
MAKING = _names("__new__ __init__ __post_init__ __init_subclass__ __set_name__")
# Options of parameter groups that native steps read as numbers, and that no Python code chooses by.
LIFTED = _names(
    """
    lr betas eps weight_decay alpha rho lr_decay momentum_decay dampening lambd t0 etas step_sizes
    """
)
