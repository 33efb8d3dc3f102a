"""Functions of PyTorch's with an underscore that programs call all the same, and `from_file`."""

import os
import sys
from typing import Any

import tapegrad
from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._composed.segments import segment_reduce as _segment_reduce

__all__ = [
    "_assert",
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "_log_softmax_backward_data",
    "_scaled_mm",
    "_segment_reduce",
    "_shape_as_tensor",
    "_softmax_backward_data",
    "from_file",
]


def _assert(condition: Any, message: str) -> None:
    """Raise an AssertionError with a message unless a condition holds.

    Args:
        condition: a bool, or a tensor of one element, which is then looked at.
        message: what the error says.

    Example:
        >>> torch._assert(torch.ones(1) == 1, "one is one")
    """
    if not condition:
        raise AssertionError(message)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the sizes of a tensor as one of integers.

    Args:
        self: the tensor.

    Example:
        >>> torch._shape_as_tensor(torch.zeros(2, 3))
        tensor([2, 3])
    """
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Return where each row begins among sorted numbers of rows, and where the last one ends.

    Args:
        input: the numbers, in ascending order.
        size: how many rows there are.
        out_int32: whether the result is int32 instead of int64.

    Example:
        >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 1, 1, 3]), 4)
        tensor([0, 1, 3, 3, 4])
    """
    rows = _C.arange(size + 1, dtype=input.dtype, device=input.device)
    return _C.searchsorted(input.contiguous(), rows, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return numbers of rows and columns of elements, of where the rows begin.

    Args:
        crow_indices: where each row begins, and where the last one ends.
        col_indices: the columns.
        out_int32: whether the result is int32 instead of int64.
        transpose: put the columns first.

    Example:
        >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 1, 3]), torch.tensor([5, 6, 7]))
        tensor([[0, 1, 1],
                [5, 6, 7]])
    """
    dtype = _C.int32 if out_int32 else _C.int64
    counts = crow_indices[1:] - crow_indices[:-1]
    rows = _C.arange(len(counts), dtype=dtype, device=counts.device)
    pair = (rows.repeat_interleave(counts), col_indices.to(dtype))
    return _C.stack(pair[::-1] if transpose else pair)


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """Return the gradient of the input of a softmax, of that of its output.

    Args:
        grad_output: the gradient of the output.
        output: the output.
        dim: the dimension of the softmax.
        input_dtype: the dtype of the input, which the result has.

    Example:
        >>> y = torch.softmax(torch.tensor([0.0, 0.0]), 0)
        >>> torch._softmax_backward_data(torch.tensor([1.0, 0.0]), y, 0, torch.float32)
        tensor([ 0.2500, -0.2500])
    """
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """Return the gradient of the input of a log_softmax, of that of its output.

    Args:
        grad_output: the gradient of the output.
        output: the output.
        dim: the dimension of the softmax.
        input_dtype: the dtype of the input, which the result has.

    Example:
        >>> y = torch.log_softmax(torch.tensor([0.0, 0.0]), 0)
        >>> torch._log_softmax_backward_data(torch.tensor([1.0, 0.0]), y, 0, torch.float32)
        tensor([ 0.5000, -0.5000])
    """
    total = grad_output.sum(dim, keepdim=True)
    return (grad_output - output.exp() * total).to(input_dtype)


def _scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Return the product of two matrices of 8-bit floats, each times its scale.

    The product is computed in float32: no kernel here multiplies 8-bit floats.

    Args:
        self: the first matrix.
        mat2: the second.
        scale_a: one number for the first matrix, or one for each row, of shape ``(rows, 1)``.
        scale_b: one number for the second, or one for each column, of shape ``(1, columns)``.
        bias: is added to each row.
        scale_result: what the result is divided by, where `out_dtype` is one of 8-bit floats.
        out_dtype: of the result; that of the first matrix if None.
        use_fast_accum: ignored.

    Example:
        >>> a = torch.ones(2, 16).to(torch.float8_e4m3fn)
        >>> b, half = a.t(), torch.tensor(0.5)
        >>> torch._scaled_mm(a, b, half, half, out_dtype=torch.float32)
        tensor([[4., 4.],
                [4., 4.]])
    """
    for name, matrix in (("self", self), ("mat2", mat2)):
        if matrix.dim() != 2 or not str(matrix.dtype).startswith("torch.float8"):
            raise ValueError(
                f"_scaled_mm: expected {name} to be a matrix of 8-bit floats, got "
                f"{matrix.dim()} dimensions of {matrix.dtype}"
            )
    if self.shape[1] != mat2.shape[0]:
        raise ValueError(
            f"_scaled_mm: mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x"
            f"{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    rows, columns = (self.shape[0], 1), (1, mat2.shape[1])
    by_row = tuple(scale_a.shape) == rows and tuple(scale_b.shape) == columns
    both_one = scale_a.numel() == 1 and scale_b.numel() == 1
    if scale_a.dtype != _C.float32 or scale_b.dtype != _C.float32 or not (by_row or both_one):
        raise ValueError(
            "_scaled_mm: Invalid scaling configuration: expected two scales of float32 with one "
            f"number, or of shapes {rows} and {columns}, got {tuple(scale_a.shape)} of "
            f"{scale_a.dtype} and {tuple(scale_b.shape)} of {scale_b.dtype}"
        )
    if not by_row:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    product = _C.matmul(self.float() * scale_a, mat2.float() * scale_b)
    if bias is not None:
        product = product + bias.float()
    dtype = self.dtype if out_dtype is None else out_dtype
    if scale_result is not None and str(out_dtype).startswith("torch.float8"):
        product = product / scale_result
    return product.to(dtype)


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a vector over the bytes of a file, which are read when they are used.

    Args:
        filename: the file.
        shared: whether what is written to the tensor goes to the file, which is made, or made
            longer, where it is too short. Otherwise it does not.
        size: how many elements to show.
        dtype: their dtype; the default dtype if left out.
        layout: `torch.strided` is the only one.
        device: the CPU is the only one.
        pin_memory: refused: the memory is the file's.
        requires_grad: whether gradients are wanted.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     x = torch.from_file(file.name, shared=True, size=2)
        ...     x.copy_(torch.tensor([1.0, 2.0])), file.read() == x.numpy().tobytes()
        (tensor([1., 2.]), True)
    """
    import mmap  # which most programs do without

    strided = layout is None or layout is tapegrad.strided
    host = device is None or tapegrad.device(device).type == "cpu"
    if pin_memory or not (strided and host):
        raise NotImplementedError(
            "from_file: a file is shown in strided memory of the CPU that is not pinned; copy the "
            "tensor with .to(), .pin_memory() or .to_sparse()"
        )
    kind = _C.get_default_dtype() if dtype is None else dtype
    if size < 0:
        raise RuntimeError(f"from_file: expected size to be at least 0, got {size}")
    if size == 0:
        return _C.empty(0, dtype=kind, requires_grad=requires_grad)
    nbytes = size * kind.itemsize
    access = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        file = os.open(filename, access | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as error:
        raise RuntimeError(f"from_file: unable to open {filename!r}: {error.strerror}") from error
    try:
        held = os.fstat(file).st_size
        if held < nbytes:
            if not shared:
                raise RuntimeError(
                    f"from_file: {filename!r} has {held} bytes, and {size} elements of {kind} "
                    f"take {nbytes}"
                )
            os.ftruncate(file, nbytes)
        mapping = mmap.mmap(file, nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    finally:
        os.close(file)
    return _C.frombuffer(mapping, dtype=kind, count=size, requires_grad=requires_grad)


def _get_tracing_state() -> Any:
    """Return something true while `torch.jit.trace` runs a function, else None."""
    trace = sys.modules.get("tapegrad.jit._trace")
    return trace.state if trace is not None and trace.is_tracing() else None


def _written_in_python(name: str) -> Any:
    if name in ("DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet"):
        from tapegrad import _dispatch_keys

        return getattr(_dispatch_keys, name)
    raise AttributeError(f"module 'tapegrad._C' has no attribute {name!r}")


def install() -> None:
    """Give the native module what PyTorch's has and is written in Python here."""
    _C._get_tracing_state = _get_tracing_state
    vars(_C)["_get_privateuse1_backend_name"] = lambda: "privateuseone"
    vars(_C)["__getattr__"] = _written_in_python
