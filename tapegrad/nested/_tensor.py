"""NestedTensor: sequences of different lengths in one tensor.

`_packed` holds the elements of all sequences one behind the other along its first dimension,
whatever dimension of the nested tensor is the ragged one: 1, or 2 once it was transposed for
attention. What does not mix sequences runs on it directly.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import Size, jagged
from tapegrad.nested._structure import Structure
from tapegrad.nn import functional as F

__all__ = ["NestedTensor"]

_UNARY = frozenset([
    "abs", "acos", "asin", "atan", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "cosh", "erf",
    "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "logical_not",
    "nan_to_num", "neg", "reciprocal", "relu", "round", "rsqrt", "sgn", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "square", "tan", "tanh", "trunc", "pow"
])  # fmt: skip
_BINARY = frozenset([
    "add", "div", "eq", "floor_divide", "ge", "gt", "le", "logical_and", "logical_or", "lt",
    "maximum", "minimum", "mul", "ne", "remainder", "sub", "true_divide"
])  # fmt: skip
_FUNCTIONS = frozenset([
    "elu", "gelu", "hardtanh", "leaky_relu", "mish", "relu6", "silu", "softplus"
])  # fmt: skip
_CASTS = frozenset([
    "bfloat16", "bool", "double", "float", "half", "int", "long"
])  # fmt: skip
_FACTS = frozenset(["element_size", "get_device", "is_complex", "is_floating_point"])


class NestedTensor:
    """A batch of sequences of different lengths.

    It is no `Tensor`: functions of the module `tapegrad` refuse it. Its methods and operators know
    it, and so do `nn.Linear`, `nn.LayerNorm`, `layer_norm`, `softmax` and
    `scaled_dot_product_attention` of `nn.functional`. What is not among them needs ``values()``,
    ``unbind()`` or ``to_padded_tensor(padding)`` first.

    `nested_tensor`, `as_nested_tensor` and their like make one.

    Example:
        >>> x = torch.nested.nested_tensor([[1.0, 2.0], [3.0]])
        >>> (x * 2).unbind()
        (tensor([2., 4.]), tensor([6.]))
    """

    is_nested = True
    is_sparse = False
    layout = jagged

    def __init__(self, packed: Tensor, structure: Structure, ragged: int = 1) -> None:
        self._packed = packed
        self._structure = structure
        self._ragged = ragged

    def _with(self, packed: Tensor) -> "NestedTensor":
        return NestedTensor(packed, self._structure, self._ragged)

    # ---- what it is made of

    def values(self) -> Tensor:
        """Return the elements of all sequences, one sequence behind the other."""
        return self._packed if self._ragged == 1 else self._packed.movedim(0, self._ragged - 1)

    def offsets(self) -> Tensor:
        """Return where each sequence begins in the values, and where the last one ends."""
        return self._structure.offsets

    def lengths(self) -> None:
        """Return None: there are no gaps between sequences."""
        return

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the sequences, as views of the values.

        Args:
            dim: 0, the only dimension that can be taken apart.
        """
        if dim != 0:
            raise RuntimeError(f"unbind(): only supported for dim=0, got {dim}")
        parts = self._packed.split(self._structure.lengths)
        if self._ragged == 1:
            return tuple(parts)
        return tuple(part.movedim(0, self._ragged - 1) for part in parts)

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Return an ordinary tensor, with a number behind the end of shorter sequences.

        Args:
            padding: the number.
            output_size: the sizes of the result; those of the longest sequence if left out.
        """
        if self._ragged != 1:
            padded = self.transpose(1, self._ragged).to_padded_tensor(padding)
            return _enlarged(padded.transpose(1, self._ragged), padding, output_size)
        lengths = self._structure.lengths
        shape = (len(lengths), max(lengths, default=0), *self._packed.shape[1:])
        filled = _C.full(shape, padding, dtype=self.dtype, device=self.device)
        padded = filled.index_put(self._structure.places(), self._packed)
        return _enlarged(padded, padding, output_size)

    @property
    def shape(self) -> Any:
        """The sizes; that of the ragged dimension has a name instead of a number."""
        sizes: list[Any] = [self._structure.batch, *self._packed.shape[1:]]
        sizes.insert(self._ragged, self._structure.size)
        return tuple.__new__(Size, sizes)  # with a name among the numbers

    def size(self, dim: int | None = None) -> Any:
        """Return the sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._packed.dim() + 1

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    def numel(self) -> int:
        """Return how many elements there are."""
        return self._packed.numel()

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._packed.dtype

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self._packed.device

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a GPU."""
        return self._packed.is_cuda

    def is_contiguous(self) -> bool:
        """Tell whether elements lie in the order of the dimensions."""
        return self._ragged == 1 and self._packed.is_contiguous()

    def __len__(self) -> int:
        return self._structure.batch

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.unbind())

    def __getitem__(self, index: Any) -> Tensor:
        if not isinstance(index, int):
            raise NotImplementedError(
                "index: a NestedTensor takes the number of a sequence; index its values(), or what "
                "to_padded_tensor(padding) gives"
            )
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of bounds for a batch of {len(self)}")
        return self.unbind()[index]

    # ---- gradients

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are wanted."""
        return self._packed.requires_grad

    @property
    def is_leaf(self) -> bool:
        """Whether no operation made it."""
        return self._packed.is_leaf

    @property
    def grad_fn(self) -> Any:
        """The entry of the tape that made the values."""
        return self._packed.grad_fn

    @property
    def grad(self) -> "NestedTensor | None":
        """The gradient, of the same structure."""
        grad = self._packed.grad if self._packed.is_leaf else None
        return None if grad is None else self._with(grad)

    def requires_grad_(self, requires_grad: bool = True) -> "NestedTensor":
        """Say whether gradients are wanted."""
        self._packed.requires_grad_(requires_grad)
        return self

    def backward(self, gradient: "NestedTensor", *args: Any, **options: Any) -> None:
        """Compute gradients with respect to the leaves.

        Args:
            gradient: that of this tensor, of the same structure.
            args: as of `Tensor.backward`.
            options: the same.
        """
        if not isinstance(gradient, NestedTensor):
            raise TypeError(
                f"backward: expected a NestedTensor as gradient, got {type(gradient).__name__}"
            )
        self._packed.backward(self._operand("backward", gradient), *args, **options)

    def detach(self) -> "NestedTensor":
        """Return the same elements outside the tape."""
        return self._with(self._packed.detach())

    # ---- copies

    def clone(self) -> "NestedTensor":
        """Return a copy."""
        return self._with(self._packed.clone())

    def contiguous(self) -> "NestedTensor":
        """Return the tensor, or a copy with its elements in order; the ragged dimension is 1."""
        if self._ragged != 1:
            raise self._refusal("contiguous", "transpose back first")
        return self._with(self._packed.contiguous())

    def to(self, *args: Any, **options: Any) -> "NestedTensor":
        """Convert the elements, or move them to a device."""
        packed = self._packed.to(*args, **options)
        return NestedTensor(packed, self._structure.to(packed.device), self._ragged)

    def cpu(self) -> "NestedTensor":
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = "cuda") -> "NestedTensor":
        """Move to a GPU."""
        return self.to(device)

    # ---- operations

    def _refusal(self, name: str, advice: str) -> NotImplementedError:
        return NotImplementedError(f"{name}: not implemented for NestedTensor; {advice}")

    def _operand(self, name: str, other: Any) -> Any:
        """Return what meets the packed values: of a dense tensor, laid out as they are."""
        if isinstance(other, NestedTensor):
            if self._ragged != other._ragged or not self._structure.matches(other._structure):
                raise RuntimeError(
                    f"{name}: cannot call binary pointwise function {name} with inputs of shapes "
                    f"{tuple(self.shape)} and {tuple(other.shape)}: the lengths of the sequences "
                    "differ"
                )
            return other._packed
        if isinstance(other, (bool, int, float, complex)):
            return other
        if not isinstance(other, Tensor):
            raise TypeError(
                f"{name}: expected a NestedTensor, a Tensor or a number, got {type(other).__name__}"
            )
        behind = self.ndim - self._ragged - 1  # dimensions behind the ragged one
        if other.dim() <= behind:
            return other
        if other.dim() == self.ndim and self._ragged == 1 and other.shape[1] == 1:
            if other.shape[0] == 1:
                return other[0]
            if other.shape[0] == len(self):  # one for each sequence
                return other[:, 0][self._structure.places()[0]]
        raise self._refusal(
            name,
            f"beside a Tensor of shape {tuple(other.shape)}: expected one that broadcasts over the "
            "sequences, or with one element for each along dimension 1",
        )

    def _binary(self, name: str, other: Any, options: Any) -> "NestedTensor":
        return self._with(getattr(self._packed, name)(self._operand(name, other), **options))

    def _reflected(self, name: str, other: Any) -> "NestedTensor":
        operand = self._operand(name, other)
        if name == "sub":
            return self._with(-self._packed + operand)
        if name == "div":
            return self._with(operand / self._packed)
        return self._with(getattr(self._packed, name)(operand))

    def _dense_dim(self, name: str, dim: int) -> int:
        """Return the dimension of the packed values that one behind the ragged dimension is."""
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of [{-self.ndim}, "
                f"{self.ndim - 1}], but got {dim})"
            )
        place = dim % self.ndim
        if self._ragged != 1 or place < 2:
            raise self._refusal(
                name,
                f"along dimension {dim}: expected one behind the ragged dimension, 1; use "
                "unbind() or to_padded_tensor(padding)",
            )
        return place - 1

    def softmax(self, dim: int, dtype: Any = None) -> "NestedTensor":
        """Return the softmax along a dimension behind the ragged one."""
        return self._with(self._packed.softmax(self._dense_dim("softmax", dim), dtype=dtype))

    def log_softmax(self, dim: int, dtype: Any = None) -> "NestedTensor":
        """Return its logarithm."""
        dim = self._dense_dim("log_softmax", dim)
        return self._with(self._packed.log_softmax(dim, dtype=dtype))

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> "NestedTensor":
        """Return ``x @ weight.T + bias``."""
        self._dense_dim("linear", -1)
        return self._with(_C.linear(self._packed, weight, bias))

    def matmul(self, other: Tensor) -> "NestedTensor":
        """Return the product with a matrix."""
        if not isinstance(other, Tensor) or other.dim() != 2:
            raise self._refusal("matmul", "but with a matrix; use unbind(), or attention")
        self._dense_dim("matmul", -1)
        return self._with(self._packed.matmul(other))

    def __matmul__(self, other: Any) -> "NestedTensor":
        return self.matmul(other)

    def layer_norm(
        self,
        normalized_shape: Sequence[int],
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> "NestedTensor":
        """Shift and scale the last dimensions to mean 0 and variance 1."""
        count = len(normalized_shape)
        self._dense_dim("layer_norm", -count)
        return self._with(F.layer_norm(self._packed, tuple(normalized_shape), weight, bias, eps))

    def dropout(self, p: float = 0.5, training: bool = True) -> "NestedTensor":
        """Set elements to zero by chance, and scale the others."""
        return self._with(F.dropout(self._packed, p, training))

    def sum(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the sum of all elements, over each sequence (dimension 1), or along one behind."""
        return self._reduced("sum", dim, keepdim)

    def mean(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the mean of all elements, of each sequence (dimension 1), or along one behind."""
        return self._reduced("mean", dim, keepdim)

    def _reduced(self, name: str, dim: int | None, keepdim: bool) -> Any:
        if dim is None:
            return getattr(self._packed, name)()
        if dim % self.ndim != 1 or self._ragged != 1:
            place = self._dense_dim(name, dim)
            return self._with(getattr(self._packed, name)(place, keepdim=keepdim))
        if name == "mean" and not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise RuntimeError(
                f"mean: expected a floating or complex dtype, got {self.dtype}; call .float() first"
            )
        sums = self.to_padded_tensor(0).sum(1, keepdim=keepdim)
        if name == "sum":
            return sums
        counts = _C.tensor(self._structure.lengths, dtype=self.dtype, device=self.device)
        return sums / counts.reshape(-1, *[1] * (sums.dim() - 1))

    # ---- shapes

    def transpose(self, dim0: int, dim1: int) -> "NestedTensor":
        """Swap two dimensions, neither of them the batch."""
        a, b = sorted((dim0 % self.ndim, dim1 % self.ndim))
        if a == 0:
            raise ValueError("transpose: not supported on the batch dimension of a NestedTensor")
        if a == b:
            return self
        if self._ragged not in (a, b):
            places = [each - (each > self._ragged) for each in (a, b)]
            return self._with(self._packed.transpose(*places))
        # The packed dimension stays in front; the other one goes where the ragged one was.
        other = a + b - self._ragged
        packed_order = [each for each in range(1, self.ndim) if each != self._ragged]
        place = {each: number + 1 for number, each in enumerate(packed_order)}
        order = [
            place[other if each == self._ragged else each]
            for each in range(1, self.ndim)
            if each != other
        ]
        return NestedTensor(self._packed.permute(0, *order), self._structure, other)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> "NestedTensor":
        """Make several dimensions of one behind the ragged one."""
        return self._with(self._packed.unflatten(self._dense_dim("unflatten", dim), tuple(sizes)))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> "NestedTensor":
        """Make one dimension of several behind the ragged one."""
        first = self._dense_dim("flatten", start_dim)
        return self._with(self._packed.flatten(first, self._dense_dim("flatten", end_dim)))

    def unsqueeze(self, dim: int) -> "NestedTensor":
        """Put in a dimension of size one behind the ragged one."""
        place = dim if dim >= 0 else dim + self.ndim + 1
        if self._ragged != 1 or not 2 <= place <= self.ndim:
            raise self._refusal("unsqueeze", f"at {dim}: expected a place behind dimension 1")
        return self._with(self._packed.unsqueeze(place - 1))

    def squeeze(self, dim: int) -> "NestedTensor":
        """Take out a dimension of size one behind the ragged one."""
        return self._with(self._packed.squeeze(self._dense_dim("squeeze", dim)))

    def chunk(self, chunks: int, dim: int = 0) -> tuple["NestedTensor", ...]:
        """Take apart along a dimension behind the ragged one."""
        parts = self._packed.chunk(chunks, self._dense_dim("chunk", dim))
        return tuple(map(self._with, parts))

    def split(self, split_size: int | list[int], dim: int = 0) -> tuple["NestedTensor", ...]:
        """Take apart along a dimension behind the ragged one."""
        parts = self._packed.split(split_size, self._dense_dim("split", dim))
        return tuple(map(self._with, parts))

    def view(self, *shape: Any) -> "NestedTensor":
        """Give what is behind the ragged dimension another shape: ``(batch, -1, *sizes)``."""
        return self.reshape(*shape)

    def reshape(self, *shape: Any) -> "NestedTensor":
        """Give what is behind the ragged dimension another shape: ``(batch, -1, *sizes)``."""
        sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        ragged = sizes[1] if len(sizes) > 1 else None
        if (
            self._ragged != 1
            or sizes[0] != len(self)
            or not (ragged is self._structure.size or (isinstance(ragged, int) and ragged == -1))
        ):
            raise self._refusal(
                "reshape",
                f"to {sizes}: expected the batch, {len(self)}, then -1, then sizes of what is "
                "behind the ragged dimension",
            )
        rest = sizes[2:]
        if any(each == -1 for each in rest):
            raise self._refusal("reshape", "with another -1 than for the ragged dimension")
        if math.prod(rest) != math.prod(self._packed.shape[1:]):
            raise RuntimeError(f"reshape: shape {sizes} is invalid for {tuple(self.shape)}")
        return self._with(self._packed.reshape(self._packed.shape[0], *rest))

    # ---- attention

    def scaled_dot_product_attention(
        self,
        key: "NestedTensor",
        value: "NestedTensor",
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> "NestedTensor":
        """Return the attention of these queries, each in its own sequence.

        Args:
            key: of shape ``(batch, heads, ragged, E)``, as the queries.
            value: of shape ``(batch, heads, ragged, Ev)``, of the structure of the keys.
            attn_mask: refused: sequences have different lengths.
            dropout_p: the probability with which a weight is dropped.
            is_causal: whether query i of a sequence sees the keys 0 to i only.
            scale: multiplied with the scores; ``1 / sqrt(E)`` if None.
            enable_gqa: whether keys and values may have fewer heads.
        """
        name = "scaled_dot_product_attention"
        if attn_mask is not None:
            raise self._refusal(name, "with attn_mask; is_causal=True is there")
        for each in (self, key, value):
            if not isinstance(each, NestedTensor) or each.ndim != 4 or each._ragged != 2:
                raise self._refusal(
                    name,
                    "but of three of shape (batch, heads, ragged, size): transpose(1, 2) what has "
                    "the ragged dimension first",
                )
        if not key._structure.matches(value._structure) or len(self) != len(key):
            raise RuntimeError(
                f"{name}: expected keys and values of the same lengths, for as many sequences as "
                f"the queries, got {key.shape}, {value.shape} and {self.shape}"
            )
        choice: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        parts = [
            F.scaled_dot_product_attention(*each, **choice, enable_gqa=enable_gqa).transpose(0, 1)
            for each in zip(self, key, value, strict=True)
        ]
        return NestedTensor(_C.cat(parts), self._structure, 2)

    # ---- the rest

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY:
            return lambda *args, **options: self._unary(name, args, options)
        if name in _BINARY:
            return lambda other, **options: self._binary(name, other, options)
        if name in _CASTS:
            return lambda: self._with(getattr(self._packed, name)())
        if name in _FACTS:
            return getattr(self._packed, name)
        if name in _FUNCTIONS:
            function = getattr(F, name)
            return lambda *args, **options: self._with(function(self._packed, *args, **options))
        if hasattr(Tensor, name) and not name.startswith("_"):
            raise self._refusal(name, "use its values(), unbind() or to_padded_tensor(padding)")
        raise AttributeError(f"'NestedTensor' object has no attribute {name!r}")

    def _unary(self, name: str, args: Any, options: Any) -> "NestedTensor":
        if any(isinstance(each, (Tensor, NestedTensor)) for each in args):
            raise self._refusal(name, "with a tensor beside it; use its values()")
        return self._with(getattr(self._packed, name)(*args, **options))

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        text = f"NestedTensor(size={tuple(self.shape)}, offsets={self.offsets()}"
        if self.grad_fn is not None:
            text += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            text += ", requires_grad=True"
        return text + f", contiguous={self.is_contiguous()})"


def _enlarged(padded: Tensor, padding: float, output_size: Sequence[int] | None) -> Tensor:
    if output_size is None:
        return padded
    if len(output_size) != padded.dim():
        raise RuntimeError(
            f"to_padded_tensor: expected {padded.dim()} sizes, got {len(output_size)}"
        )
    missing = [wanted - size for wanted, size in zip(output_size, padded.shape, strict=True)]
    if any(each < 0 for each in missing):
        raise RuntimeError(
            f"to_padded_tensor: Value in output_size is less than NestedTensor padded size: "
            f"{tuple(output_size)} and {tuple(padded.shape)}"
        )
    sides = [side for each in reversed(missing) for side in (0, each)]
    return F.pad(padded, sides, value=padding)


def _install_operators() -> None:
    names = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
    }  # fmt: skip
    for operator, name in names.items():
        setattr(NestedTensor, f"__{operator}__", _operator(name))
    for operator in ("add", "sub", "mul", "truediv"):
        setattr(NestedTensor, f"__r{operator}__", _reflected_operator(names[operator]))
    setattr(NestedTensor, "__neg__", lambda self: self.neg())  # noqa: B010
    setattr(NestedTensor, "__abs__", lambda self: self.abs())  # noqa: B010
    setattr(NestedTensor, "__pow__", lambda self, exponent: self.pow(exponent))  # noqa: B010


def _operator(name: str) -> Callable[[NestedTensor, Any], NestedTensor]:
    return lambda self, other: self._binary(name, other, {})


def _reflected_operator(name: str) -> Callable[[NestedTensor, Any], NestedTensor]:
    return lambda self, other: self._reflected(name, other)


_install_operators()
