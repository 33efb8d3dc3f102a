"""Signatures that differ from PyTorch's, with the reason above the patterns of their names."""

from tapegrad.compat.reasons import read

DEVIATIONS = read(r"""
`unbiased` stands for `correction` unless that is given; a bool in place of `dim` is taken for it
    (std|var)(_mean)? Tensor\.(std|var)

`dx` and `x` exclude each other: None tells which was given, and is 1
    (cumulative_)?(trapezoid|trapz)

a spacing of None is 1
    gradient

`steps` is required, as PyTorch's documentation says
    (linspace|logspace)

`weights_only` of None is True
    (serialization\.)?load

padding by name and by number are one parameter
    (nn\.functional\.)?conv[123]d

one function takes what PyTorch's overloads take by several names
    (Tensor\.)?tensor_split isin

PyTorch's stubs or documentation say what PyTorch itself refuses
    (tensor|Tensor\.new_tensor|Tensor\.contiguous|Tensor\.is_contiguous|set_num_threads)
    linalg\.lstsq
    (Tensor\.(requires_grad_|record_stream)|nn\.functional\.scaled_dot_product_attention)

`from` is no name that Python knows; one number is the upper end
    Tensor\.random_

parameters have the names of PyTorch's documentation
    (unsafe_split|layout|memory_format|linalg\.norm|jit\.Future|torch\.wait|wait)

made by the library, not by its callers
    onnx\.ONNXProgram autograd\.profiler\.FunctionEvent

there is no `out_dtype`: products are of the dtype of their factors
    (addmm|baddbmm|bmm|mm)

there are no named dimensions
    full

there is no `out` here, or it is given by name
    (argsort|tensordot|slice_scatter|orgqr)

slopes are drawn by the generator of the device
    (nn\.functional\.)?rrelu_

`_disable_byteorder_record` is private
    (serialization\.)?save

`alpha` is given by name; without is PyTorch's former signature
    (Tensor\.)?subtract_?

there is one back end; limits of PyTorch's compiler have no meaning here
    (compile|compiler\.\w+)

options of PyTorch's allocator, graphs and streams that have no meaning here
    cuda\..*

options of PyTorch's profiler that have no meaning here
    (autograd\.)?profiler\..*

what stands for tqdm where that is not installed takes tqdm's parameters
    utils\.model_zoo\.tqdm

forms that PyTorch's own code uses: `implicit`, `ambiguity_check`, views of another storage, dtypes
    (Tensor\.(dim_order|expand|set_)|view_copy|UntypedStorage\.share_memory_)
""")
# How many names deviate at most.
MOST = 80
