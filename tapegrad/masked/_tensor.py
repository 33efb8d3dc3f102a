"""MaskedTensor: elements, and which of them count.

An operation runs on the elements with zeros where none count, so that what is there, NaN perhaps,
reaches neither results nor gradients; the mask goes on to the result.
"""

from collections.abc import Callable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad.masked import _normalizations, _reductions
from tapegrad.masked._arguments import dims_of, filled

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

_UNARY = frozenset([
    "abs", "absolute", "acos", "arccos", "acosh", "arccosh", "angle", "asin", "arcsin", "asinh",
    "arcsinh", "atan", "arctan", "atanh", "arctanh", "bitwise_not", "ceil", "clamp", "clip",
    "conj_physical", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp", "exp2",
    "expm1", "fix", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "logit", "i0",
    "isnan", "nan_to_num", "neg", "negative", "positive", "pow", "rad2deg", "reciprocal", "round",
    "rsqrt", "sigmoid", "sign", "sgn", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc", "float_power"
])  # fmt: skip
_BINARY = frozenset([
    "add", "atan2", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
    "bitwise_right_shift", "div", "divide", "floor_divide", "fmod", "logaddexp", "logaddexp2",
    "mul", "multiply", "nextafter", "remainder", "sub", "subtract", "true_divide", "eq", "ne",
    "le", "ge", "greater", "greater_equal", "gt", "less_equal", "lt", "less", "maximum",
    "minimum", "fmax", "fmin", "not_equal"
])  # fmt: skip
_NOT_IN_PLACE = frozenset([
    "angle", "positive", "signbit", "isnan", "logaddexp", "logaddexp2"
])  # fmt: skip
# What moves elements, and the mask with them.
_MOVES = frozenset([
    "broadcast_to", "chunk", "diagonal", "dsplit", "expand", "flatten", "hsplit", "movedim",
    "narrow", "permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "swapdims",
    "t", "tensor_split", "transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view",
    "vsplit", "contiguous"
])  # fmt: skip
_CASTS = frozenset([
    "bfloat16", "bool", "byte", "char", "double", "float", "half", "int", "long", "short"
])  # fmt: skip
_FACTS = frozenset([
    "dim", "element_size", "get_device", "is_complex", "is_contiguous", "is_floating_point",
    "is_signed", "nelement", "numel", "size", "storage_offset", "stride"
])  # fmt: skip


def _masks_match(a: "MaskedTensor", b: "MaskedTensor") -> None:
    if a._mask.shape != b._mask.shape or not bool((a._mask == b._mask).all()):
        raise ValueError(
            "Input masks must match. If you need support for this, fill one with to_tensor(value)"
        )


class MaskedTensor:
    """A tensor of which some elements do not count.

    It is no `Tensor`: functions of the module `tapegrad` refuse it, its methods and operators know
    it. What is not among them needs ``get_data()`` or ``to_tensor(value)`` first.

    Args:
        data: the elements.
        mask: a bool tensor of the same shape, True where elements count.
        requires_grad: whether gradients with respect to `data`, detached, are wanted.

    Example:
        >>> x = torch.masked.MaskedTensor(torch.ones(3), torch.tensor([True, False, True]))
        >>> x + 1
        MaskedTensor(
          [  2.0000,       --,   2.0000]
        )
        >>> (x * x).mean().item()
        1.0
    """

    _data: Tensor
    _mask: Tensor

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        _check_members(data, mask)
        self._data = data.detach().requires_grad_(requires_grad)
        self._mask = mask

    @classmethod
    def _of(cls, data: Tensor, mask: Tensor) -> "MaskedTensor":
        made = cls.__new__(cls)
        made._data, made._mask = data, mask
        return made

    # ---- what it is made of

    def get_data(self) -> Tensor:
        """Return the elements, those too that do not count."""
        return self._data

    def get_mask(self) -> Tensor:
        """Return the mask."""
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """Return the elements as a Tensor, with a number where they do not count."""
        return filled(self._data, self._mask, value)

    def _counting(self) -> Tensor:
        return self.to_tensor(0)

    @property
    def data(self) -> "MaskedTensor":
        """The same elements and mask, outside the tape."""
        return self._of(self._data.detach(), self._mask)

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self._data.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._data.dtype

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self._data.device

    @property
    def layout(self) -> Any:
        """How they are laid out."""
        return self._data.layout

    @property
    def is_sparse(self) -> bool:
        """Whether they are stored sparsely: they never are."""
        return False

    def __len__(self) -> int:
        return len(self._data)

    # ---- gradients

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted."""
        return self._data.requires_grad

    @property
    def is_leaf(self) -> bool:
        """Whether no operation made it."""
        return self._data.is_leaf

    @property
    def grad_fn(self) -> Any:
        """The entry of the tape that made the elements."""
        return self._data.grad_fn

    @property
    def grad(self) -> "MaskedTensor | None":
        """The gradient of the elements that count."""
        grad = self._data.grad if self._data.is_leaf else None
        return None if grad is None else self._of(grad, self._mask)

    def requires_grad_(self, requires_grad: bool = True) -> "MaskedTensor":
        """Say whether gradients are wanted."""
        self._data.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: Any = None, *args: Any, **options: Any) -> None:
        """Compute gradients with respect to the leaves; what does not count has none.

        Args:
            gradient: that of the result, a Tensor or a MaskedTensor; not needed for one element.
            args: as of `Tensor.backward`.
            options: the same.
        """
        if isinstance(gradient, MaskedTensor):
            _masks_match(self, gradient)
            gradient = gradient._counting()
        self._counting().backward(gradient, *args, **options)

    # ---- operations

    def _unary(self, name: str, args: Any, options: Any) -> "MaskedTensor":
        if any(isinstance(each, (Tensor, MaskedTensor)) for each in args):
            raise TypeError(
                f"{name}: MaskedTensor unary ops do not support additional Tensor arguments"
            )
        return self._of(getattr(self._counting(), name)(*args, **options), self._mask)

    def _operand(self, name: str, other: Any) -> Any:
        if isinstance(other, MaskedTensor):
            _masks_match(self, other)
            return other._counting()
        if isinstance(other, (Tensor, bool, int, float, complex)):
            return other
        raise TypeError(
            f"{name}: expected a MaskedTensor, a Tensor or a number, got {type(other).__name__}"
        )

    def _with_mask(self, result: Tensor) -> "MaskedTensor":
        return self._of(result, self._mask.expand(result.shape))

    def _binary(self, name: str, other: Any, **options: Any) -> "MaskedTensor":
        operand = self._operand(name, other)
        return self._with_mask(getattr(self._counting(), name)(operand, **options))

    def _reflected(self, name: str, other: Any) -> "MaskedTensor":
        operand = self._operand(name, other)
        if not isinstance(operand, Tensor):
            operand = _C.tensor(operand, device=self.device)
            dtype = _C.result_type(self._data, operand)
            operand = operand.to(dtype)
        return self._with_mask(getattr(operand, name)(self._counting()))

    def _write(self, name: str, args: Any, options: Any) -> "MaskedTensor":
        operands = [self._operand(name, args[0]), *args[1:]] if args else []
        getattr(self._data, name)(*operands, **options)
        return self

    def _moved(self, name: str, args: Any, options: Any) -> Any:
        args = [each._data if isinstance(each, MaskedTensor) else each for each in args]
        data = getattr(self._data, name)(*args, **options)
        mask = getattr(self._mask, name)(*args, **options)
        if isinstance(data, Tensor):
            return self._of(data, mask)
        return tuple(map(self._of, data, mask))

    def _reduced(self, name: str, dim: Any, keepdim: bool, options: Any) -> "MaskedTensor":
        reduce = getattr(_reductions, name)
        result = reduce(self._data, dim, keepdim=keepdim, mask=self._mask, **options)
        return self._of(result, self._any_left(name, dim, keepdim))

    def _any_left(self, name: str, dim: Any, keepdim: bool) -> Tensor:
        dims = dims_of(name, dim, self.ndim)
        return self._mask.any(dims, keepdim=keepdim) if dims else self._mask.clone()

    def all(self, dim: Any = None, keepdim: bool = False) -> "MaskedTensor":
        """Tell whether all elements that count are true."""
        dims = dims_of("all", dim, self.ndim)
        data = filled(self._data.bool(), self._mask, True)
        result = data.all(dims, keepdim=keepdim) if dims else data
        return self._of(result, self._any_left("all", dim, keepdim))

    def softmax(self, dim: int, dtype: Any = None) -> "MaskedTensor":
        """Return the softmax of the elements that count."""
        mask = self._mask
        return self._of(_normalizations.softmax(self._data, dim, dtype=dtype, mask=mask), mask)

    def where(self, condition: Tensor, other: "MaskedTensor") -> "MaskedTensor":
        """Take elements from here where a condition holds, from another where it does not."""
        if not isinstance(other, MaskedTensor):
            raise TypeError(f"where: expected a MaskedTensor, got {type(other).__name__}")
        return self._of(
            _C.where(condition, self._data, other._data),
            _C.where(condition, self._mask, other._mask),
        )

    def copy_(self, src: "MaskedTensor") -> "MaskedTensor":
        """Copy the elements of a tensor with the same mask."""
        if not isinstance(src, MaskedTensor):
            raise TypeError(f"copy_: expected a MaskedTensor, got {type(src).__name__}")
        _masks_match(self, src)
        self._data.copy_(src._data)
        return self

    def clone(self) -> "MaskedTensor":
        """Return a copy."""
        return self._of(self._data.clone(), self._mask.clone())

    def detach(self) -> "MaskedTensor":
        """Return the same elements outside the tape."""
        return self.data

    def to(self, *args: Any, **options: Any) -> "MaskedTensor":
        """Convert the elements, or move both to a device."""
        data = self._data.to(*args, **options)
        return self._of(data, self._mask.to(data.device))

    def cpu(self) -> "MaskedTensor":
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = "cuda") -> "MaskedTensor":
        """Move to a GPU."""
        return self.to(device)

    def type(self, dtype: Any = None) -> Any:
        """Return the name of the class for this dtype, or the elements in another dtype."""
        return self._data.type() if dtype is None else self._of(self._data.type(dtype), self._mask)

    def view_as(self, other: Any) -> "MaskedTensor":
        """Show the elements in the shape of another tensor."""
        return self._moved("view", tuple(other.shape), {})

    def reshape_as(self, other: Any) -> "MaskedTensor":
        """Put the elements into the shape of another tensor."""
        return self._moved("reshape", tuple(other.shape), {})

    def expand_as(self, other: Any) -> "MaskedTensor":
        """Repeat the elements up to the shape of another tensor."""
        return self._moved("expand", tuple(other.shape), {})

    @property
    def mT(self) -> "MaskedTensor":
        """The last two dimensions swapped."""
        return self._moved("transpose", (-2, -1), {})

    def __getitem__(self, index: Any) -> "MaskedTensor":
        if isinstance(index, MaskedTensor):
            raise TypeError("index: a MaskedTensor is no index; use its to_tensor(False)")
        return self._of(self._data[index], self._mask[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("assignment: MaskedTensor takes none; write to its get_data()")

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY:
            return lambda *args, **options: self._unary(name, args, options)
        if name in _BINARY:
            return lambda other, **options: self._binary(name, other, **options)
        if name in _MOVES:
            return lambda *args, **options: self._moved(name, args, options)
        if name in _REDUCTIONS:
            return _reduction(self, name)
        if name in _CASTS:
            return lambda: self._of(getattr(self._data, name)(), self._mask)
        if name in _FACTS:
            return getattr(self._data, name)
        bare = name.removesuffix("_")
        if bare != name and bare in _UNARY | _BINARY and bare not in _NOT_IN_PLACE:
            return lambda *args, **options: self._write(name, args, options)
        if hasattr(Tensor, name) and not name.startswith("_"):
            raise NotImplementedError(
                f"{name}: not implemented for MaskedTensor; use its get_data() and get_mask(), or "
                "to_tensor(value)"
            )
        raise AttributeError(f"'MaskedTensor' object has no attribute {name!r}")

    # ---- one element

    def item(self) -> Any:
        """Return the only element, which has to count."""
        if self._data.numel() == 1 and not self._mask.item():
            raise ValueError("item: the only element is masked out")
        return self._data.item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if self.ndim == 0:
            shown = _shown(self._data.item(), self.dtype) if self._mask.item() else "--"
            return f"MaskedTensor({shown}, {self._mask.item()})"
        text = _listing(self._data.detach().tolist(), self._mask.tolist(), self.dtype)
        indented = "\n".join(f"  {line}" for line in text.split("\n"))
        return f"MaskedTensor(\n{indented}\n)"


def _check_members(data: Any, mask: Any) -> None:
    if not isinstance(data, Tensor):
        raise TypeError("data must be a Tensor")
    if not isinstance(mask, Tensor):
        raise TypeError("mask must be a Tensor")
    if mask.dtype is not _C.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")


_DTYPES = (_C.float16, _C.bfloat16, _C.float32, _C.float64, _C.bool, _C.int8, _C.int16, _C.int32,
           _C.int64, _C.uint8)  # fmt: skip
_REDUCTIONS = frozenset(["amax", "amin", "argmax", "argmin", "mean", "prod", "std", "sum", "var"])


def _reduction(masked: MaskedTensor, name: str) -> Callable[..., MaskedTensor]:
    def reduce(dim: Any = None, keepdim: bool = False, **options: Any) -> MaskedTensor:
        return masked._reduced(name, dim, keepdim, options)

    return reduce


def _shown(number: Any, dtype: Any) -> str:
    return f"{number:8.4f}" if dtype.is_floating_point else str(number)


def _listing(data: Any, mask: Any, dtype: Any) -> str:
    if not isinstance(data[0] if data else 0, list):
        pairs = zip(data, mask, strict=True)
        shown = (_shown(number, dtype) if counts else "      --" for number, counts in pairs)
        return f"[{', '.join(shown)}]"
    rows = [_listing(row, counts, dtype) for row, counts in zip(data, mask, strict=True)]
    lines = ",\n".join(rows).split("\n")
    return "[\n" + "\n".join(f"  {line}" for line in lines) + "\n]"


def _install_operators() -> None:
    binary = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    }  # fmt: skip
    for operator, name in binary.items():

        def call(self: MaskedTensor, other: Any, name: str = name) -> MaskedTensor:
            return self._binary(name, other)

        def reflected(self: MaskedTensor, other: Any, name: str = name) -> MaskedTensor:
            return self._reflected(name, other)

        setattr(MaskedTensor, f"__{operator}__", call)
        setattr(MaskedTensor, f"__r{operator}__", reflected)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):

        def compare(self: MaskedTensor, other: Any, name: str = name) -> MaskedTensor:
            return self._binary(name, other)

        setattr(MaskedTensor, f"__{name}__", compare)
    for operator, name in {"neg": "neg", "pos": "positive", "abs": "abs"}.items():

        def unary(self: MaskedTensor, name: str = name) -> MaskedTensor:
            return self._unary(name, (), {})

        setattr(MaskedTensor, f"__{operator}__", unary)

    def power(self: MaskedTensor, exponent: Any) -> MaskedTensor:
        return self._unary("pow", (exponent,), {})

    def invert(self: MaskedTensor) -> MaskedTensor:
        return self._unary("bitwise_not", (), {})

    setattr(MaskedTensor, "__pow__", power)  # noqa: B010
    setattr(MaskedTensor, "__invert__", invert)  # noqa: B010


_install_operators()


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """Make a MaskedTensor of elements and a mask.

    Args:
        data: the elements, which are detached.
        mask: a bool tensor of the same shape, True where elements count.
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.masked.masked_tensor(torch.tensor([1, 2]), torch.tensor([True, False]))
        MaskedTensor(
          [1,       --]
        )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Show a tensor through a mask: gradients go on to `data`.

    Args:
        data: the elements.
        mask: a bool tensor of the same shape, True where elements count.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> masked = torch.masked.as_masked_tensor(x, torch.tensor([True, False, True]))
        >>> (masked * masked).sum().backward()
        >>> x.grad
        tensor([2., 0., 6.])
    """
    _check_members(data, mask)
    return MaskedTensor._of(data, mask)


def is_masked_tensor(obj: Any, /) -> bool:
    """Tell whether an object is a MaskedTensor.

    Args:
        obj: any object.

    Example:
        >>> torch.masked.is_masked_tensor(torch.ones(2))
        False
    """
    return isinstance(obj, MaskedTensor)
