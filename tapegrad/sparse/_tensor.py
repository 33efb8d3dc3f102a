"""The class of sparse tensors.

See Note [A sparse tensor is no Tensor in C++] in csrc/python/sparse.h: ``isinstance(x, Tensor)``
holds because of `__class__`. A method of Tensor that has a rule is that rule; all others are
refused by their names.
"""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import Size, sparse_coo, sparse_csc, sparse_csr, strided
from tapegrad.sparse import _convert, _elementwise, _shape
from tapegrad.sparse._errors import check_coo, layout_name, refuse
from tapegrad.sparse._history import build, is_sparse, parts_of, values_of
from tapegrad.sparse._parts import Parts, empty_coo, make
from tapegrad.sparse._table import RULES, call, rule

__all__ = ["SparseTensor"]


class SparseTensor(_C._SparseBase):  # type: ignore[misc, name-defined]
    """A tensor of layout sparse_coo, sparse_csr or sparse_csc."""

    @property  # type: ignore[misc]
    def __class__(self: Any) -> Any:
        return Tensor

    # ---- what it is

    @property
    def layout(self: Any) -> Any:
        return parts_of(self).layout

    @property
    def is_sparse(self: Any) -> bool:
        return self.layout is sparse_coo

    @property
    def is_sparse_csr(self: Any) -> bool:
        return self.layout is sparse_csr

    @property
    def is_mkldnn(self: Any) -> bool:
        return False

    is_nested = is_ipu = is_maia = is_mps = is_mtia = is_vulkan = is_xla = is_xpu = is_mkldnn

    @property
    def _base(self: Any) -> None:
        return None

    @property
    def nbytes(self: Any) -> NoReturn:
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent "
            "tensors, add the nbytes of the indices and values.  If you want the size of the  "
            "equivalent dense tensor, multiply numel() by element_size()"
        )

    @property
    def data(self: Any) -> Tensor:
        return _C._sparse_detach(self)

    @data.setter
    def data(self: Any, value: Any) -> None:
        if not is_sparse(value):
            raise RuntimeError("data: a sparse tensor takes the data of a sparse tensor alone")
        with _no_grad():
            if value.shape != self.shape:
                _C._sparse_reshape(self, tuple(value.shape))
            _elementwise.write(self, value, "data")

    @property
    def T(self: Any) -> Tensor:
        return _shape.permute(self, *reversed(range(self.ndim)))

    @property
    def mT(self: Any) -> Tensor:
        return _shape.transpose(self, -2, -1)

    @property
    def H(self: Any) -> Tensor:
        return _elementwise.conj(_shape.t(self))

    @property
    def mH(self: Any) -> Tensor:
        return _elementwise.conj(_shape.transpose(self, -2, -1))

    @property
    def real(self: Any) -> Tensor:
        if not self.dtype.is_complex:
            return self
        return _elementwise.map_values(self, lambda values: values.real, True)

    @property
    def imag(self: Any) -> Tensor:
        return _elementwise.map_values(self, lambda values: values.imag, True)

    def dim(self: Any) -> int:
        return self.ndim

    ndimension = dim

    def size(self: Any, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self: Any) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    nelement = numel

    def element_size(self: Any) -> int:
        return self.itemsize

    def is_floating_point(self: Any) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self: Any) -> bool:
        return self.dtype.is_complex

    def is_signed(self: Any) -> bool:
        return self.dtype.is_signed

    def is_conj(self: Any) -> bool:
        return False

    is_neg = is_inference = is_shared = is_pinned = _is_view = is_conj

    def is_contiguous(self: Any, memory_format: Any = None) -> bool:
        return False

    def get_device(self: Any) -> int:
        return -1

    def is_same_size(self: Any, other: Tensor) -> bool:
        return self.shape == other.shape

    def __len__(self: Any) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self: Any) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self.select(0, i) for i in range(self.shape[0]))

    def __repr__(self: Any, *, tensor_contents: Any = None) -> str:
        from tapegrad.sparse._print import sparse_str

        return sparse_str(self)

    def __format__(self: Any, spec: str) -> str:
        return object.__format__(self, spec)

    def __dir__(self: Any) -> list[str]:
        return sorted({*dir(Tensor), *object.__dir__(self)})

    __hash__ = object.__hash__

    # ---- parts

    def indices(self: Any) -> Tensor:
        check_coo("indices", self)
        if not parts_of(self).coalesced:
            raise RuntimeError(
                "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
            )
        return parts_of(self).indices

    def _indices(self: Any) -> Tensor:
        check_coo("_indices", self)
        return parts_of(self).indices

    def values(self: Any) -> Tensor:
        if not parts_of(self).coalesced:
            raise RuntimeError(
                "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
            )
        return values_of(self)

    def _values(self: Any) -> Tensor:
        return parts_of(self).values.detach()

    def coalesce(self: Any) -> Tensor:
        return _convert.coalesce(self)

    def is_coalesced(self: Any) -> bool:
        check_coo("is_coalesced", self)
        return parts_of(self).coalesced

    def _coalesced_(self: Any, coalesced: bool) -> Tensor:
        check_coo("_coalesced_", self)
        parts = parts_of(self)
        parts.coalesced = bool(coalesced)
        parts._kept = {}
        return self

    def _nnz(self: Any) -> int:
        return parts_of(self).values.shape[0]

    def sparse_dim(self: Any) -> int:
        return parts_of(self).coordinates(self.shape).shape[0]

    _dimI = sparse_dim

    def dense_dim(self: Any) -> int:
        return self.ndim - self.sparse_dim()

    _dimV = dense_dim

    def _compressed(self: Any, name: str, layout: Any, kind: str) -> Parts:
        parts = parts_of(self)
        if parts.layout is not layout:
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got "
                f"{layout_name(parts.layout)}"
            )
        return parts

    def crow_indices(self: Any) -> Any:
        return self._compressed("crow_indices", sparse_csr, "row").starts

    def col_indices(self: Any) -> Any:
        return self._compressed("col_indices", sparse_csr, "row").plain

    def ccol_indices(self: Any) -> Any:
        return self._compressed("ccol_indices", sparse_csc, "column").starts

    def row_indices(self: Any) -> Any:
        return self._compressed("row_indices", sparse_csc, "column").plain

    # ---- conversions

    def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        return _convert.to_dense(self, dtype, masked_grad=masked_grad)

    def to_sparse(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        return _convert.to_sparse(self, *args, **kwargs)

    def to_sparse_coo(self: Any) -> Tensor:
        return _convert.to_sparse(self)

    def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Tensor:
        return _convert.to_layout(self, sparse_csr, dense_dim)

    def to_sparse_csc(self: Any, dense_dim: int | None = None) -> Tensor:
        return _convert.to_layout(self, sparse_csc, dense_dim)

    def to(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        return _to(self, *args, **kwargs)

    def type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        return _type(self, dtype)

    def cpu(self: Any, memory_format: Any = None) -> Tensor:
        return self

    def cuda(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "cuda: sparse tensors are supported on the CPU alone; call .to_dense() first"
        )

    def clone(self: Any, *, memory_format: Any = None) -> Tensor:
        parts, values = parts_of(self), values_of(self)
        copied = parts.with_values(parts.values)
        copied._kept = {}  # each of them may be written to
        for name in ("indices", "starts", "plain"):
            place = getattr(parts, name)
            setattr(copied, name, None if place is None else place.clone())
        return build(copied, values.clone(), self.shape)

    def detach(self: Any) -> Tensor:
        return _C._sparse_detach(self)

    def __copy__(self: Any) -> Tensor:
        return _C._sparse_detach(self) if self.grad_fn is None else self.clone()

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Tensor:
        if self.grad_fn is not None:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment; use .detach().clone()"
            )
        if id(self) in memo:
            return memo[id(self)]
        copied = self.detach().clone()
        if self.requires_grad:
            copied.requires_grad_(True)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        if self.grad_fn is not None:
            raise RuntimeError(
                "pickle: a sparse tensor that an op recorded cannot be pickled; use .detach()"
            )
        from tapegrad.sparse._files import described, made_of

        return made_of, tuple(described(self))

    # ---- gradients

    def backward(
        self: Any,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        from tapegrad import autograd

        autograd.backward([self], [gradient], retain_graph, create_graph, inputs=inputs)

    def requires_grad_(self: Any, requires_grad: bool = True) -> Tensor:
        _C._sparse_requires_grad(self, requires_grad)
        return self

    def retain_grad(self: Any) -> None:
        _C._sparse_retain_grad(self)

    def register_hook(self: Any, hook: Callable[..., Any]) -> Any:
        return Tensor.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self: Any, hook: Callable[..., Any]) -> Any:
        return Tensor.register_post_accumulate_grad_hook(self, hook)

    def detach_(self: Any) -> Tensor:
        if self.grad_fn is not None:
            raise NotImplementedError("detach_: not of a sparse tensor; use .detach()")
        self.requires_grad_(False)
        return self

    # ---- in place

    def zero_(self: Any) -> Tensor:
        parts = parts_of(self)
        if parts.layout is not sparse_coo:
            return _elementwise.write(
                self, make(parts.with_values(_C.zeros_like(parts.values)), self.shape), "zero_"
            )
        empty = empty_coo(self.shape, self.sparse_dim(), self.dtype)
        return _elementwise.write(self, make(empty, self.shape), "zero_")

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Tensor:
        return RULES["copy_"](self, src)

    def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
        return _resize(self, size, sparse_dim, dense_dim)

    def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
        check_coo("sparse_resize_and_clear_", self)
        _check_dims(size, sparse_dim, dense_dim)
        _set_parts(self, empty_coo(tuple(size), sparse_dim, self.dtype), size)
        return self

    def resize_as_sparse_(self: Any, the_template: Tensor) -> Tensor:
        return _resize(
            self, the_template.shape, the_template.sparse_dim(), the_template.dense_dim()
        )

    def __getitem__(self: Any, key: Any) -> Tensor:
        return _shape.get_item(self, key)

    def __setitem__(self: Any, key: Any, value: Any) -> NoReturn:
        refuse("Tensor.__setitem__")

    # ---- new tensors

    def new(self: Any, *args: Any) -> Tensor:
        if len(args) == 2 and isinstance(args[0], Tensor):
            args = (*args, None)
        if len(args) == 3 and isinstance(args[0], Tensor):
            from tapegrad.sparse._construct import sparse_coo_tensor

            return sparse_coo_tensor(args[0], args[1], args[2])
        size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args or (0,)
        return make(empty_coo(tuple(size), len(tuple(size)), self.dtype), tuple(size))

    # ---- everything else

    def __getattr__(self: Any, name: str) -> Any:
        """A method of Tensor: its rule, or one that refuses."""
        if name in RULES:
            return RULES[name].__get__(self)
        found = getattr(Tensor, name, None)
        if found is None or (name.startswith("__") and name not in _REFUSED_SPECIAL):
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        if not callable(found):
            refuse(f"Tensor.{name}")
        return _refusing(name)


_REFUSED_SPECIAL = ("__array__", "__dlpack__", "__dlpack_device__")


def _refusing(name: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    refused.__name__ = name
    return refused


def _no_grad() -> Any:
    from tapegrad.autograd.grad_mode import no_grad

    return no_grad()


# ---- operators


def _operator(name: str, swap: bool = False) -> Callable[..., Any]:
    def operate(self: Any, other: Any) -> Any:
        if not isinstance(other, Tensor | int | float | complex):
            return NotImplemented
        return call(name, (other, self) if swap else (self, other), {})

    return operate


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}  # fmt: skip
for _symbol, _op in _OPERATORS.items():
    setattr(SparseTensor, f"__{_symbol}__", _operator(_op))
    setattr(SparseTensor, f"__r{_symbol}__", _operator(_op, swap=True))
    if _symbol != "matmul":
        setattr(SparseTensor, f"__i{_symbol}__", _operator(_op + "_"))
for _symbol in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SparseTensor, f"__{_symbol}__", _operator(_symbol))
for _symbol, _op in {
    "neg": "neg",
    "abs": "abs",
    "pos": "positive",
    "invert": "bitwise_not",
}.items():
    setattr(SparseTensor, f"__{_symbol}__", (lambda op: lambda self: call(op, (self,), {}))(_op))


def _conversion(name: str) -> Callable[..., Any]:
    def convert(self: Any) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return getattr(_convert.to_dense(self), name)()

    return convert


for _symbol in ("__bool__", "__int__", "__float__", "__complex__", "item"):
    setattr(SparseTensor, _symbol, _conversion(_symbol))


def _says(name: str, error: type[Exception], text: str) -> None:
    def refused(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(text)

    refused.__name__ = name
    setattr(SparseTensor, name, refused)


for _symbol in ("numpy", "__array__"):
    _says(
        _symbol,
        TypeError,
        "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.",
    )
for _symbol in ("stride", "storage_offset"):
    _says(_symbol, RuntimeError, f"{_symbol}: sparse tensors do not have strides; call .to_dense()")
for _symbol in ("data_ptr", "untyped_storage", "storage", "tolist"):
    _says(
        _symbol,
        RuntimeError,
        f"{_symbol}: a sparse tensor has no memory of its elements; call .to_dense() first, or "
        "look at .indices() and .values()",
    )
for _symbol in ("__dlpack__", "__dlpack_device__"):
    _says(_symbol, BufferError, "DLPack: sparse tensors are not supported; call .to_dense() first")
for _symbol in ("view", "reshape", "flatten", "expand", "broadcast_to", "contiguous", "as_strided"):
    _says(
        _symbol,
        RuntimeError,
        f"{_symbol} is not implemented for sparse tensors; call .to_dense() first",
    )


# ---- conversions of dtype


_CASTS = {
    "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16,
    "int": _C.int32, "long": _C.int64, "short": _C.int16, "char": _C.int8, "byte": _C.uint8,
    "bool": _C.bool, "cfloat": _C.complex64, "cdouble": _C.complex128,
}  # fmt: skip


def _cast(x: Any, dtype: Any) -> Any:
    if dtype is x.dtype:
        return x
    return _elementwise.map_values(x, lambda values: values.to(dtype), True)


for _symbol, _dtype in _CASTS.items():
    setattr(
        SparseTensor, _symbol, (lambda dtype: lambda self, **kwargs: _cast(self, dtype))(_dtype)
    )


def _to(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the tensor with another dtype: all forms of Tensor.to."""
    copy = kwargs.pop("copy", False)
    kwargs.pop("non_blocking", None)
    kwargs.pop("memory_format", None)
    given = [*args, *(kwargs.pop(name) for name in ("device", "dtype", "other") if name in kwargs)]
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    dtype, booleans = x.dtype, 0
    for each in given:
        if isinstance(each, bool):  # non_blocking, then copy
            booleans += 1
            copy = each if booleans == 2 else copy
        elif isinstance(each, Tensor):
            dtype = each.dtype
            _check_cpu(each.device)
        elif isinstance(each, type(x.dtype)):
            dtype = each
        elif each is not None:
            _check_cpu(each)
    result = _cast(x, dtype)
    return x.clone() if copy and result is x else result


def _check_cpu(device: Any) -> None:
    if isinstance(device, int) or str(device).partition(":")[0] != "cpu":
        raise NotImplementedError(
            f"to: sparse tensors are supported on the CPU alone, got device '{device}'; call "
            ".to_dense() first"
        )


def _type(x: Any, dtype: Any) -> Any:
    if dtype is None:
        if x.layout is not sparse_coo:
            raise RuntimeError(f"type: there is no name for layout {x.layout}")
        return "torch.sparse." + _C.empty(0, dtype=x.dtype).type().removeprefix("torch.")
    if isinstance(dtype, type(x.dtype)):
        return _cast(x, dtype)
    from tapegrad.sparse._legacy import dtype_named

    return _cast(x, dtype_named(dtype))


@rule("type_as")
def type_as(input: Tensor, other: Tensor) -> Tensor:
    return _cast(input, other.dtype) if is_sparse(input) else input.to(other.dtype)


# ---- new tensors and writes


def _set_parts(x: Any, parts: Parts, size: Any) -> None:
    if _C.is_grad_enabled() and x.requires_grad:
        raise NotImplementedError(
            "sparse_resize_: in-place ops on sparse tensors are not recorded; use torch.no_grad()"
        )
    parts_of(x).replace(parts)
    _C._sparse_reshape(x, tuple(size))
    _C._sparse_wrote("sparse_resize_", x)


def _check_dims(size: Any, sparse_dim: int, dense_dim: int) -> None:
    if sparse_dim + dense_dim != len(tuple(size)):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(tuple(size))}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )


def _resize(x: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    check_coo("sparse_resize_", x)
    _check_dims(size, sparse_dim, dense_dim)
    parts, shape = parts_of(x), tuple(size)
    count = parts.values.shape[0]
    if count == 0:
        _set_parts(x, empty_coo(shape, sparse_dim, x.dtype), shape)
        return x
    if sparse_dim != x.sparse_dim() or dense_dim != x.dense_dim():
        raise RuntimeError(
            "changing the number of sparse or dense dimensions on a non-empty sparse tensor is not "
            "supported; make a new one with torch.sparse_coo_tensor"
        )
    old = tuple(x.shape)
    kind = (
        "sparse" if any(a < b for a, b in zip(shape[:sparse_dim], old, strict=False)) else "dense"
    )
    if any(a < b for a, b in zip(shape, old, strict=True)):
        raise RuntimeError(
            f"shrinking the size of {kind} dimensions (from {list(old)} to {list(shape)}) on a "
            "non-empty sparse tensor is not supported; make a new one with torch.sparse_coo_tensor"
        )
    values = parts.values
    if shape[sparse_dim:] != old[sparse_dim:]:
        wide = values.new_zeros((count, *shape[sparse_dim:]))
        place = (slice(None), *(slice(0, n) for n in old[sparse_dim:]))
        wide[place] = values
        values = wide
    grown = parts.with_values(values)
    grown._kept = {}
    _set_parts(x, grown, shape)
    return x


@rule("resize_as_")
def resize_as_(input: Tensor, the_template: Tensor) -> Tensor:
    if not is_sparse(input) or not is_sparse(the_template):
        raise RuntimeError("resize_as_: expected two sparse tensors; call .to_dense() first")
    return _resize(input, the_template.shape, the_template.sparse_dim(), the_template.dense_dim())


@rule("zero_")
def zero_(input: Any) -> Tensor:
    return input.zero_()


@rule("copy_")
def copy_(input: Any, src: Any, non_blocking: bool = False) -> Tensor:
    if not is_sparse(src) or not is_sparse(input):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{input.type()} and src type = {src.type()}; call .to_dense() or .to_sparse() first"
        )
    if _C.is_grad_enabled() and (input.requires_grad or src.requires_grad):
        raise NotImplementedError(
            "copy_: in-place ops on sparse tensors are not recorded; use torch.no_grad()"
        )
    if input.layout is not src.layout:
        raise RuntimeError(f"copy_: expected layout {input.layout}, got {src.layout}")
    if input.shape != src.shape:
        raise RuntimeError(
            f"copy_: expected a sparse tensor of shape {list(input.shape)}, got {list(src.shape)}"
        )
    parts = parts_of(_cast(src.detach().clone(), input.dtype))
    return _elementwise.write(input, make(parts, src.shape), "copy_")


def _like(input: Any, dtype: Any, requires_grad: bool, layout: Any) -> Tensor:
    if layout is strided or not is_sparse(input):
        return _C.zeros(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)
    if input.layout is sparse_coo:
        parts = empty_coo(input.shape, input.sparse_dim(), dtype or input.dtype)
    else:
        major = input.shape[0 if input.layout is sparse_csr else 1]
        parts = Parts(
            input.layout, _C.empty(0, dtype=dtype or input.dtype), None,
            _C.zeros(major + 1, dtype=_C.int64), _C.empty(0, dtype=_C.int64),
        )  # fmt: skip
    x = make(parts, input.shape)
    return x.requires_grad_(True) if requires_grad else x


@rule("zeros_like", "empty_like")
def zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    _check_cpu("cpu" if device is None else device)
    return _like(input, dtype, requires_grad, layout)


@rule("new_zeros", "new_empty")
def new_zeros(
    input: Any, *size: Any, dtype: Any = None, device: Any = None, layout: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    _check_cpu("cpu" if device is None else device)
    if layout is strided:
        return _C.zeros(shape, dtype=dtype or input.dtype, requires_grad=requires_grad)
    x = make(empty_coo(shape, len(shape), dtype or input.dtype), Size(shape))
    return x.requires_grad_(True) if requires_grad else x


@rule("backward")
def _backward(
    input: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Sweep back from a tensor; it, its gradient or one of the inputs is sparse."""
    from tapegrad import autograd

    autograd.backward([input], [gradient], retain_graph, create_graph, inputs=inputs)


def _of_method(name: str) -> Callable[..., Any]:
    def run(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    return run


# Functions that are the methods above.
for _symbol in (
    "clone", "detach", "numel", "is_floating_point", "is_complex", "is_signed", "is_conj", "is_neg",
    "is_same_size", "to", "type", "cpu", "cuda", "detach_", "requires_grad_",
    "dim", "size",
):  # fmt: skip
    RULES[_symbol] = _of_method(_symbol)


@rule("tensor")
def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False, **options: Any) -> Tensor:
    if not is_sparse(data):
        raise NotImplementedError("tensor: a list with sparse tensors; use torch.stack")
    copied = _cast(data.detach().clone(), dtype or data.dtype)
    return copied.requires_grad_(True) if requires_grad else copied


@rule("as_tensor")
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    if not is_sparse(data):
        raise NotImplementedError("as_tensor: a list with sparse tensors; use torch.stack")
    return _to(data, device, dtype)


# What functions written in Python ask the native core for: that it leaves the work to them.
@rule("_total_norm")
def _total_norm(tensors: Any, p: float) -> None:
    return None


@rule("_scale_tensors")
def _scale_tensors(tensors: Any, factor: Tensor) -> bool:
    return False


@rule("_amp_foreach_non_finite_check_and_unscale_")
def _unscale(tensors: Any, found_inf: Tensor, inv_scale: Tensor) -> None:
    values = []
    for x in tensors:
        if is_sparse(x) and not parts_of(x).coalesced:
            # Terms may be finite where their sum is not.
            _elementwise.write(x, x.coalesce(), "unscale_")
        values.append(parts_of(x).values if is_sparse(x) else x)
    _C._amp_foreach_non_finite_check_and_unscale_(values, found_inf, inv_scale)


_C._sparse_register(
    SparseTensor,
    call,
    lambda a, b, recorded: _elementwise.add_gradients(a, b),
    _elementwise.accumulate,
    _convert.to_dense,
)
