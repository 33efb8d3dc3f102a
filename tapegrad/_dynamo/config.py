"""Settings of PyTorch's compiler that programs change. They are kept, and change nothing here."""

cache_size_limit: int = 8
recompile_limit: int = 8
accumulated_cache_size_limit: int = 256
accumulated_recompile_limit: int = 256
suppress_errors: bool = False
verbose: bool = False
dynamic_shapes: bool = True
assume_static_by_default: bool = True
automatic_dynamic_shapes: bool = True
capture_scalar_outputs: bool = False
capture_dynamic_output_shape_ops: bool = False
optimize_ddp: bool = True
inline_inbuilt_nn_modules: bool = True
force_parameter_static_shapes: bool = True
allow_unspec_int_on_nn_module: bool = False
