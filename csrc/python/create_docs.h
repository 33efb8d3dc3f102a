// Docstrings of the creation functions.
#pragma once

namespace tapegrad::python {

inline constexpr const char* kZerosDoc =
    "zeros(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor of zeros.

Args:
    size: ints, or one tuple of ints.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
)";

inline constexpr const char* kOnesDoc =
    "ones(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor of ones.

Args:
    size: ints, or one tuple of ints.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(3, dtype=torch.int64)
    tensor([1, 1, 1])
)";

inline constexpr const char* kEmptyDoc =
    "empty(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None) -> Tensor\n\n"
    R"(A tensor whose elements are not set.

Args:
    size: ints, or one tuple of ints.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])
)";

inline constexpr const char* kFullDoc =
    "full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(A tensor with the same value everywhere.

Args:
    size: a tuple of ints.
    fill_value: the number.
    out: a tensor to write to.
    dtype: the type of the elements; inferred from fill_value if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
)";

inline constexpr const char* kZerosLikeDoc =
    "zeros_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None) -> Tensor\n\n"
    R"(Zeros in the shape and memory order of another tensor.

Args:
    input: the other tensor.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    memory_format: the order in memory: that of the input, unless another is named.

Example:
    >>> torch.zeros_like(torch.ones(3))
    tensor([0., 0., 0.])
)";

inline constexpr const char* kOnesLikeDoc =
    "ones_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None) -> Tensor\n\n"
    R"(Ones in the shape and memory order of another tensor.

Args:
    input: the other tensor.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    memory_format: the order in memory: that of the input, unless another is named.

Example:
    >>> torch.ones_like(torch.zeros(3))
    tensor([1., 1., 1.])
)";

inline constexpr const char* kEmptyLikeDoc =
    "empty_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None) -> Tensor\n\n"
    R"(Elements that are not set in the shape and memory order of another tensor.

Args:
    input: the other tensor.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    memory_format: the order in memory: that of the input, unless another is named.

Example:
    >>> torch.empty_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])
)";

inline constexpr const char* kFullLikeDoc =
    "full_like(input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False, memory_format=None) -> Tensor\n\n"
    R"(The same value everywhere, in the shape and memory order of another tensor.

Args:
    input: the other tensor.
    fill_value: the number.
    dtype: the type of the elements; that of input if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.
    memory_format: the order in memory: that of the input, unless another is named.

Example:
    >>> torch.full_like(torch.zeros(3), 2)
    tensor([2., 2., 2.])
)";

inline constexpr const char* kNewZerosDoc =
    "new_zeros(*size, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor of zeros, by default with this tensor's dtype.

Args:
    size: ints, or one tuple of ints.
    dtype: the type of the elements; that of this tensor if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(1, dtype=torch.int64).new_zeros(2)
    tensor([0, 0])
)";

inline constexpr const char* kNewOnesDoc =
    "new_ones(*size, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor of ones, by default with this tensor's dtype.

Args:
    size: ints, or one tuple of ints.
    dtype: the type of the elements; that of this tensor if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(1, dtype=torch.int64).new_ones(2)
    tensor([1, 1])
)";

inline constexpr const char* kNewEmptyDoc =
    "new_empty(*size, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor whose elements are not set, by default with this tensor's dtype.

Args:
    size: ints, or one tuple of ints.
    dtype: the type of the elements; that of this tensor if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(1, dtype=torch.int64).new_empty(2).dtype
    torch.int64
)";

inline constexpr const char* kNewFullDoc =
    "new_full(size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(The same value everywhere, by default with this tensor's dtype.

Args:
    size: a tuple of ints.
    fill_value: the number.
    dtype: the type of the elements; that of this tensor if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(1).new_full((2,), 3)
    tensor([3., 3.])
)";

inline constexpr const char* kNewEmptyStridedDoc =
    "new_empty_strided(size, stride, *, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Elements that are not set, with given strides, by default with this tensor's dtype.

Args:
    size: a tuple of ints.
    stride: a tuple of as many ints: how far apart neighbours of a dimension lie.
    dtype: the type of the elements; that of this tensor if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
)";

inline constexpr const char* kNewTensorDoc =
    "new_tensor(data, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor with a copy of data, by default with this tensor's dtype.

Args:
    data: a number, nested sequences of numbers, or an array.
    dtype: the type of the elements; that of this tensor if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.ones(1).new_tensor([1, 2])
    tensor([1., 2.])
)";

inline constexpr const char* kEmptyStridedDoc =
    "empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor whose elements are not set, with given strides.

Args:
    size: a tuple of ints.
    stride: a tuple of as many ints: how far apart neighbours of a dimension lie.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
)";

inline constexpr const char* kTensorDoc =
    "tensor(data, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor with a copy of data. It has no history.

Args:
    data: a number, nested sequences of numbers, or an array.
    dtype: the type of the elements; inferred from data if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> torch.tensor(2.0)
    tensor(2.)
)";

inline constexpr const char* kAsTensorDoc =
    "as_tensor(data, dtype=None, device=None) -> Tensor\n\n"
    R"(Data as a tensor: itself if it is one, over the same memory if it is an array, else a copy.

Args:
    data: a tensor, a number, nested sequences of numbers, or an array.
    dtype: the type of the elements; inferred from data if not given.
    device: "cpu".

Example:
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
)";

inline constexpr const char* kAsArrayDoc =
    "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None) -> Tensor\n\n"
    R"(An object as a tensor, sharing its memory where that is possible.

Args:
    obj: a tensor, an array, an object with DLPack or a buffer, a number or sequences of numbers.
    dtype: the type of the elements.
    device: "cpu".
    copy: True always copies, False never; None copies where it must.
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.asarray([1.0, 2.0])
    tensor([1., 2.])
)";

inline constexpr const char* kScalarTensorDoc =
    "scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A tensor without dimensions.

Args:
    s: the number.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.scalar_tensor(3)
    tensor(3.)
)";

inline constexpr const char* kArangeDoc =
    "arange(start=0, end, step=1, *, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(The values from start, by step, up to but without end.

Args:
    start: the first value, 0 if not given.
    end: where to stop.
    step: the distance of neighbours.
    out: a tensor to write to.
    dtype: the type of the elements; int64 if all arguments are ints, else the default dtype.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> torch.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
)";

inline constexpr const char* kRangeDoc =
    "range(start=0, end, step=1, *, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(The values from start, by step, up to and with end. Deprecated: use arange().

Args:
    start: the first value, 0 if not given.
    end: the last value.
    step: the distance of neighbours.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     torch.range(0, 2)
    tensor([0., 1., 2.])
)";

inline constexpr const char* kLinspaceDoc =
    "linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, "
    "pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Values from start to end, both included, at equal distances.

Args:
    start: the first value.
    end: the last value.
    steps: how many values.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
)";

inline constexpr const char* kLogspaceDoc =
    "logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, "
    "device=None, pin_memory=False, requires_grad=False) -> Tensor\n\n"
    R"(Values from base ** start to base ** end, both included, at equal ratios.

Args:
    start: the exponent of the first value.
    end: the exponent of the last value.
    steps: how many values.
    base: what is raised to a power.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
)";

inline constexpr const char* kEyeDoc =
    "eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, "
    "requires_grad=False) -> Tensor\n\n"
    R"(A matrix with ones on the diagonal and zeros elsewhere.

Args:
    n: the number of rows.
    m: the number of columns, n if not given.
    out: a tensor to write to.
    dtype: the type of the elements; the default dtype if not given.
    layout: strided, the only one.
    device: "cpu".
    requires_grad: whether gradients are wanted.

Example:
    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
)";

}  // namespace tapegrad::python
