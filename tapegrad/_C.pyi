# Written by scripts/make_stubs.py; do not edit.
# fmt: off
# ruff: noqa
# mypy: disable-error-code="misc, override, overload-overlap, overload-cannot-match"
"""The native module: tensors, ops, the tape."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, overload

from numpy import ndarray

from tapegrad import return_types as _return_types
from tapegrad._types import Size, device, layout, memory_format
from tapegrad.storage import TypedStorage
from tapegrad.utils.hooks import RemovableHandle

_device: TypeAlias = device
_layout: TypeAlias = layout
_memory_format: TypeAlias = memory_format
Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = device | str | builtins.int | None

class dtype:
    """The type of a tensor's elements."""

    def __repr__(self) -> str: ...

    @property
    def is_complex(self) -> builtins.bool: ...

    @property
    def is_floating_point(self) -> builtins.bool: ...

    @property
    def is_signed(self) -> builtins.bool: ...

    @property
    def itemsize(self) -> builtins.int: ...

    def to_complex(self) -> Any:
        """The dtype of complex numbers with parts of this one."""

    def to_real(self) -> Any:
        """The dtype of the parts of a complex number."""

_dtype: TypeAlias = dtype

bfloat16: _dtype

bool: _dtype

cdouble: _dtype

cfloat: _dtype

complex128: _dtype

complex64: _dtype

double: _dtype

float: _dtype

float16: _dtype

float32: _dtype

float64: _dtype

float8_e4m3fn: _dtype

float8_e4m3fnuz: _dtype

float8_e5m2: _dtype

float8_e5m2fnuz: _dtype

float8_e8m0fnu: _dtype

half: _dtype

int: _dtype

int16: _dtype

int32: _dtype

int64: _dtype

int8: _dtype

long: _dtype

short: _dtype

uint16: _dtype

uint32: _dtype

uint64: _dtype

uint8: _dtype

class AcceleratorError(RuntimeError):
    """A call of a GPU's driver failed; error_code is its number."""

class CallCache:
    """Results of chosen calls, kept while a function runs and used when it runs again.

    Args:
        wants: asked once for each op, with its name, whether to keep its results.
        decides: asked at each call of such an op, with the name, the inputs and the
            outputs, whether to keep this one; None keeps all.
        allow_mutation: whether to use a result that was written in place.
    """

    def __init__(self, wants: object, decides: object | None = None, allow_mutation: builtins.bool = False) -> None: ...

    def __len__(self) -> builtins.int: ...

    def _enter(self, replaying: builtins.bool) -> None:
        """Begins to keep results, or to use those kept."""

    def _hide(self) -> None:
        """Hides calls from whatever cache listens."""

    def _leave(self) -> None:
        """Ends what _enter began."""

    def _show(self) -> None:
        """Ends what _hide began."""

    def clear(self) -> None:
        """Lets go of all results."""

class Generator:
    """A stream of random numbers, given to random functions as `generator`.

    Its numbers are a function of seed and position (Philox 4x32-10), so they are the same on every
    machine and for every number of threads.

    Args:
        device: "cpu".

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.rand(3, generator=generator)
        >>> generator.manual_seed(0) is generator
        True
        >>> bool((torch.rand(3, generator=generator) == x).all())
        True
    """

    def __init__(self, device: object | None = None) -> None: ...

    def clone_state(self) -> Generator:
        """A generator of its own that goes on as this one."""

    @property
    def device(self) -> _device:
        """The device of the tensors that it fills."""

    def get_offset(self) -> builtins.int:
        """How far a CUDA generator is in the stream of its seed."""

    def get_state(self) -> Tensor:
        """The state, as a uint8 tensor."""

    def initial_seed(self) -> builtins.int:
        """The seed of the stream."""

    def manual_seed(self, seed: builtins.int) -> Generator:
        """Starts the stream of a seed from its beginning and returns the generator."""

    def seed(self) -> builtins.int:
        """Takes a seed from the system and returns it."""

    def set_offset(self, offset: builtins.int) -> None:
        """Goes to a place in the stream of a CUDA generator's seed."""

    def set_state(self, new_state: Tensor) -> None:
        """Sets the state that get_state() gave."""

class Node:
    def _sequence_nr(self) -> builtins.int:
        """The entry's place in the tape."""

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for notes about the entry."""

    def name(self) -> str:
        """The name of the op's entry, such as MulBackward0."""

    @property
    def next_functions(self) -> tuple[tuple[Node | None, builtins.int], ...]:
        """(entry, output number) of each input; (None, 0) where no gradient is needed."""

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call a function after this entry has run, with (grad_inputs, grad_outputs).

        What it returns, if not None, takes the place of grad_inputs.
        """

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call a function before this entry runs, with grad_outputs.

        What it returns, if not None, takes the place of grad_outputs.
        """

    @property
    def source_line(self) -> str:
        """The Python line that recorded the entry."""

    @property
    def variable(self) -> Tensor:
        """The leaf behind an AccumulateGrad."""

class OutOfMemoryError(RuntimeError):
    """Memory ran out, or a budget of it."""

class Program:
    """Calls, captured as they ran."""

    def __enter__(self) -> Program: ...

    def __exit__(self, *args: Any) -> None: ...

    def __init__(self) -> None: ...

    def __len__(self) -> builtins.int: ...

    def add_step(self, name: str, inputs: Sequence[tuple[builtins.int, builtins.int, builtins.int | Sequence[builtins.int], builtins.int | Sequence[builtins.int], _dtype, str] | builtins.bool | builtins.int | builtins.float], attributes: Sequence[_dtype | builtins.bool | builtins.int | builtins.float], outputs: Sequence[tuple[builtins.int, builtins.int, builtins.int | Sequence[builtins.int], builtins.int | Sequence[builtins.int], _dtype, str]], bytes: bytes | None, line: str) -> None:
        """Adds a step to a program from its parts."""

    def add_value(self, nbytes: builtins.int, device: str, is_made: builtins.bool) -> builtins.int:
        """Adds a value to a program from its parts."""

    def check_place(self, place: tuple[builtins.int, builtins.int, builtins.int | Sequence[builtins.int], builtins.int | Sequence[builtins.int], _dtype, str]) -> None:
        """Refuses one that no value has."""

    def drop_temporaries(self) -> None:
        """Lets go of memory that nobody else can see."""

    def foreign(self) -> list[Any]:
        """(tensor, whether it was written) of memory that other threads used meanwhile."""

    @property
    def has_guards(self) -> builtins.bool:
        """Whether values were looked at."""

    def is_same(self, other: Program) -> builtins.bool:
        """Whether it has the same steps."""

    def keep_lines(self) -> None:
        """Notes the line that runs with each step; of a derivative, the line of what it is of."""

    def place_guards(self, first: builtins.int, line: str) -> None:
        """Says at which line values were looked at, from a step on."""

    @property
    def refusal(self) -> str:
        """Why the program must not run again, or an empty string."""

    def replay(self) -> None:
        """Executes every call again, on the same tensors."""

    def result(self) -> Any:
        """What the last call gave, or None."""

    def run(self, given: Sequence[tuple[builtins.int, Tensor, builtins.int]], outputs: Sequence[tuple[builtins.int, builtins.int, builtins.int | Sequence[builtins.int], builtins.int | Sequence[builtins.int], _dtype, str]]) -> list[Tensor]:
        """Executes every call on (value, tensor, former offset); returns tensors at the places."""

    def steps(self) -> list[Any]:
        """(op, inputs, attributes, outputs, bytes, line) of each step. Op "read" where a value was looked at, "constant" where one came from Python."""

    def used(self) -> list[Any]:
        """(tensor, what it was then) of those from outside that calls read."""

    def values(self) -> list[Any]:
        """(memory, bytes, device, is made inside, is read, is written, bytes that are used) of each value."""

class SavedTensor:
    """A value that an entry of the tape saved."""

    def register_hooks(self, pack_hook: object, unpack_hook: object) -> None:
        """Packs the value now, and unpacks it when a backward reads it."""

class Tensor:
    """A multi-dimensional array of one dtype, with a history."""

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""

    @property
    def T(self) -> Tensor:
        """All dimensions reversed."""

    def __abs__(self) -> Tensor: ...

    def __add__(self, other: Any) -> Tensor: ...

    def __and__(self, other: Any) -> Tensor: ...

    def __array__(self, dtype: object | None = None, *, copy: builtins.bool | None = None) -> ndarray[Any, Any]:
        """What numpy.asarray(tensor) calls."""

    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: builtins.bool = False) -> Tensor:
        """Makes the result of numpy.sin(tensor) and its like a tensor."""

    def __bool__(self) -> builtins.bool: ...

    def __complex__(self) -> builtins.complex:
        """The only element, as a complex number."""

    def __contains__(self, element: Any) -> builtins.bool: ...

    def __copy__(self) -> Tensor:
        """What copy.copy() calls: a tensor that shares the memory."""

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        """What copy.deepcopy() calls."""

    def __dlpack__(self, *, stream: object | None = None, max_version: tuple[builtins.int, builtins.int] | None = None, dl_device: tuple[builtins.int, builtins.int] | None = None, copy: builtins.bool | None = None) -> Any:
        """A capsule by which another library takes the memory."""

    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        """Where the memory lies: (1, 0) is the CPU, (2, i) the CUDA device i."""

    def __eq__(self, other: Any) -> Tensor: ...

    def __float__(self) -> builtins.float: ...

    def __floordiv__(self, other: Any) -> Tensor: ...

    def __format__(self, spec: str) -> str: ...

    def __ge__(self, other: Any) -> Tensor: ...

    def __getitem__(self, index: Any) -> Tensor: ...

    def __gt__(self, other: Any) -> Tensor: ...

    def __hash__(self) -> builtins.int: ...

    def __iadd__(self, other: Any) -> Tensor: ...

    def __iand__(self, other: Any) -> Tensor: ...

    def __ifloordiv__(self, other: Any) -> Tensor: ...

    def __ilshift__(self, other: Any) -> Tensor: ...

    def __imod__(self, other: Any) -> Tensor: ...

    def __imul__(self, other: Any) -> Tensor: ...

    def __index__(self) -> builtins.int: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __int__(self) -> builtins.int: ...

    def __invert__(self) -> Tensor: ...

    def __ior__(self, other: Any) -> Tensor: ...

    def __ipow__(self, other: Any) -> Tensor: ...

    def __irshift__(self, other: Any) -> Tensor: ...

    def __isub__(self, other: Any) -> Tensor: ...

    def __iter__(self) -> Iterator[Tensor]: ...

    def __itruediv__(self, other: Any) -> Tensor: ...

    def __ixor__(self, other: Any) -> Tensor: ...

    def __le__(self, other: Any) -> Tensor: ...

    def __len__(self) -> builtins.int: ...

    def __lshift__(self, other: Any) -> Tensor: ...

    def __lt__(self, other: Any) -> Tensor: ...

    def __matmul__(self, other: Any) -> Tensor: ...

    def __mod__(self, other: Any) -> Tensor: ...

    def __mul__(self, other: Any) -> Tensor: ...

    def __ne__(self, other: Any) -> Tensor: ...

    def __neg__(self) -> Tensor: ...

    def __or__(self, other: Any) -> Tensor: ...

    def __pos__(self) -> Tensor: ...

    def __pow__(self, other: Any) -> Tensor: ...

    def __radd__(self, other: Any) -> Tensor: ...

    def __rand__(self, other: Any) -> Tensor: ...

    def __reduce_ex__(self, protocol: builtins.int, /) -> tuple[Any, ...]:
        """What pickle stores."""

    def __repr__(self, *, tensor_contents: Any = None) -> str: ...

    def __reversed__(self) -> Tensor: ...

    def __rfloordiv__(self, other: Any) -> Tensor: ...

    def __rlshift__(self, other: Any) -> Tensor: ...

    def __rmatmul__(self, other: Any) -> Tensor: ...

    def __rmod__(self, other: Any) -> Tensor: ...

    def __rmul__(self, other: Any) -> Tensor: ...

    def __ror__(self, other: Any) -> Tensor: ...

    def __rpow__(self, other: Any) -> Tensor: ...

    def __rrshift__(self, other: Any) -> Tensor: ...

    def __rshift__(self, other: Any) -> Tensor: ...

    def __rsub__(self, other: Any) -> Tensor: ...

    def __rtruediv__(self, other: Any) -> Tensor: ...

    def __rxor__(self, other: Any) -> Tensor: ...

    def __setitem__(self, index: Any, value: Any) -> None: ...

    def __sub__(self, other: Any) -> Tensor: ...

    def __truediv__(self, other: Any) -> Tensor: ...

    def __xor__(self, other: Any) -> Tensor: ...

    @property
    def _base(self) -> Tensor | None:
        """The tensor this one is a view of, or None."""

    @property
    def _cdata(self) -> builtins.int:
        """A number that says which tensor it is, in C++."""

    def _coalesced_(self, coalesced: builtins.bool) -> Tensor:
        """`_coalesced_` of a sparse tensor; a dense one has none."""

    def _indices(self) -> Tensor:
        """`_indices` of a sparse tensor; a dense one has none."""

    def _is_view(self) -> builtins.bool:
        """Whether the tensor is a view of another."""

    @staticmethod
    def _make_subclass(cls: builtins.type[Any], data: Tensor, require_grad: builtins.bool = False) -> Any:
        """_make_subclass(cls: object, data: Tensor, require_grad: bool = False) -> object

        A tensor of a subclass over the memory of data.
        """

    @staticmethod
    def _make_wrapper_subclass(*args: Any, **kwargs: Any) -> Any: ...

    def _nnz(self) -> builtins.int:
        """`_nnz` of a sparse tensor; a dense one has none."""

    def _typed_storage(self) -> Any:
        """Return the memory under a tensor as elements of its dtype; `untyped_storage` has the bytes.

        Example:
            >>> torch.tensor([1.0, 2.0]).storage().tolist()
            [1.0, 2.0]
        """

    def _values(self) -> Tensor:
        """`_values` of a sparse tensor; a dense one has none."""

    @property
    def _version(self) -> builtins.int:
        """How often the memory was written in place."""

    def abs(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise abs(x), where x is the operand, broadcast together.

        Gradient of x: g * sign(x)
        """

    def abs_(self) -> Tensor:
        """Elementwise abs(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * sign(x)
        """

    def absolute(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise abs(x), where x is the operand, broadcast together.

        Gradient of x: g * sign(x)
        """

    def absolute_(self) -> Tensor:
        """Elementwise abs(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * sign(x)
        """

    def acos(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise acos(x), where x is the operand, broadcast together.

        Gradient of x: -g * rsqrt(1 - x * x)
        """

    def acos_(self) -> Tensor:
        """Elementwise acos(x), in place, where x is the operand, broadcast together.

        Gradient of x: -g * rsqrt(1 - x * x)
        """

    def acosh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise acosh(x), where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x - 1)
        """

    def acosh_(self) -> Tensor:
        """Elementwise acosh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x - 1)
        """

    def add(self, other: Tensor | Number, *, out: Tensor | None = None, alpha: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a + b, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: g
        """

    def add_(self, other: Tensor | Number, *, alpha: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a + b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: g
        """

    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.complex = 1, alpha: builtins.complex = 1) -> Tensor:
        """Return ``beta * input`` plus `alpha` times the sum of the products of two batches.

        Args:
            input: the matrix to add; it broadcasts. With `beta` 0 its values are ignored.
            batch1: a batch of matrices, of shape (B, N, K).
            batch2: a batch of matrices, of shape (B, K, M).
            beta: factor of `input`.
            alpha: factor of the sum.

        Returns:
            A matrix of shape (N, M).

        Example:
            >>> torch.addbmm(torch.zeros(1, 1), torch.ones(4, 1, 3), torch.ones(4, 3, 1))
            tensor([[12.]])
        """

    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.complex = 1, alpha: builtins.complex = 1) -> Tensor:
        """`addbmm`, written into the tensor."""

    def addcdiv(self, tensor1: Tensor | Number, tensor2: Tensor | Number, value: Number | builtins.complex = 1, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a + value * (b / c), where a, b and c are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: g * (value / c)
        Gradient of c: -g * (value * (b / c) / c)
        """

    def addcdiv_(self, tensor1: Tensor | Number, tensor2: Tensor | Number, value: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a + value * (b / c), in place, where a, b and c are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: g * (value / c)
        Gradient of c: -g * (value * (b / c) / c)
        """

    def addcmul(self, tensor1: Tensor | Number, tensor2: Tensor | Number, value: Number | builtins.complex = 1, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a + value * (b * c), where a, b and c are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: g * (value * c)
        Gradient of c: g * (value * b)
        """

    def addcmul_(self, tensor1: Tensor | Number, tensor2: Tensor | Number, value: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a + value * (b * c), in place, where a, b and c are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: g * (value * c)
        Gradient of c: g * (value * b)
        """

    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * (mat1 @ mat2)."""

    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1) -> Tensor:
        """The same in place."""

    def addmv(self, mat: Tensor, vec: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * (mat @ vec)."""

    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1) -> Tensor:
        """The same in place."""

    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: builtins.complex = 1, alpha: builtins.complex = 1) -> Tensor:
        """Return ``beta * input + alpha * outer(vec1, vec2)``.

        Args:
            input: the matrix to add; it broadcasts. With `beta` 0 its values are ignored.
            vec1: a vector, one element for each row.
            vec2: a vector, one element for each column.
            beta: factor of `input`.
            alpha: factor of the outer product.

        Returns:
            A matrix.

        Example:
            >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
            tensor([[3., 4.],
                    [6., 8.]])
        """

    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: builtins.complex = 1, alpha: builtins.complex = 1) -> Tensor:
        """`addr`, written into the tensor."""

    def adjoint(self) -> Tensor:
        """The transpose of the last two dimensions."""

    @overload
    def all(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Whether all elements are nonzero.

        Args:
            dim: one dimension, several, or None for all.
            keepdim: whether reduced dimensions stay, with size one.

        Example:
            >>> torch.all(torch.tensor([[True, True], [False, True]]), dim=1)
            tensor([ True, False])
        """
    @overload
    def all(self, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

    def allclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        """Return whether all elements are close in the sense of `isclose`.

        Args:
            input: a tensor.
            other: a tensor of the same dtype, whose shape broadcasts.
            rtol: relative tolerance.
            atol: absolute tolerance.
            equal_nan: whether nan is close to nan.

        Returns:
            One bool for the whole comparison.

        Example:
            >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0000001]))
            True
        """

    @overload
    def amax(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """The largest elements; equal ones share the gradient.

        Args:
            dim: one dimension, several, or None for all.
            keepdim: whether reduced dimensions stay, with size one.

        Example:
            >>> torch.amax(torch.tensor([[1., 5.], [7., 2.]]), dim=0)
            tensor([7., 5.])
        """
    @overload
    def amax(self, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

    @overload
    def amin(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """The smallest elements; equal ones share the gradient.

        Args:
            dim: one dimension, several, or None for all.
            keepdim: whether reduced dimensions stay, with size one.

        Example:
            >>> torch.amin(torch.tensor([[1., 5.], [7., 2.]]), dim=0)
            tensor([1., 2.])
        """
    @overload
    def amin(self, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> _return_types.aminmax:
        """Smallest and largest elements.

        Args:
            input: a tensor with at least one element to compare.
            dim: the dimension to reduce; None takes all.
            keepdim: keep the reduced dimension with size 1.

        Returns:
            A named tuple (min, max).

        Example:
            >>> torch.aminmax(torch.tensor([1, -3, 5])).max
            tensor(5)
        """

    def angle(self, *, out: Tensor | None = None) -> Tensor:
        """The angles of complex numbers, in (-pi, pi]; of real ones 0 or pi.

        Example:
            >>> torch.angle(torch.tensor([1j, -1 + 0j]))
            tensor([1.5708, 3.1416])
        """

    @overload
    def any(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Whether any element is nonzero.

        Args:
            dim: one dimension, several, or None for all.
            keepdim: whether reduced dimensions stay, with size one.

        Example:
            >>> torch.any(torch.tensor([[False, True], [False, False]]), dim=1)
            tensor([ True, False])
        """
    @overload
    def any(self, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Replace every element by what a Python function makes of it; for tensors on the CPU."""

    def arccos(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise acos(x), where x is the operand, broadcast together.

        Gradient of x: -g * rsqrt(1 - x * x)
        """

    def arccos_(self) -> Tensor:
        """Elementwise acos(x), in place, where x is the operand, broadcast together.

        Gradient of x: -g * rsqrt(1 - x * x)
        """

    def arccosh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise acosh(x), where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x - 1)
        """

    def arccosh_(self) -> Tensor:
        """Elementwise acosh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x - 1)
        """

    def arcsin(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise asin(x), where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(1 - x * x)
        """

    def arcsin_(self) -> Tensor:
        """Elementwise asin(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(1 - x * x)
        """

    def arcsinh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise asinh(x), where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x + 1)
        """

    def arcsinh_(self) -> Tensor:
        """Elementwise asinh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x + 1)
        """

    def arctan(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise atan(x), where x is the operand, broadcast together.

        Gradient of x: g / (x * x + 1)
        """

    def arctan2(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise atan2(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(a * a + b * b == 0, 0, g * b / (a * a + b * b))
        Gradient of b: where(a * a + b * b == 0, 0, -g * a / (a * a + b * b))
        """

    def arctan2_(self, other: Tensor | Number) -> Tensor:
        """Elementwise atan2(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: where(a * a + b * b == 0, 0, g * b / (a * a + b * b))
        Gradient of b: where(a * a + b * b == 0, 0, -g * a / (a * a + b * b))
        """

    def arctan_(self) -> Tensor:
        """Elementwise atan(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (x * x + 1)
        """

    def arctanh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise atanh(x), where x is the operand, broadcast together.

        Gradient of x: g / (1 - x * x)
        """

    def arctanh_(self) -> Tensor:
        """Elementwise atanh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (1 - x * x)
        """

    @overload
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """The place of the first largest element.

        Args:
            dim: the dimension; without it the place in the flattened tensor.
            keepdim: whether the reduced dimension stays, with size one.

        Example:
            >>> torch.argmax(torch.tensor([3., 9., 9.]))
            tensor(1)
        """
    @overload
    def argmax(self, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

    @overload
    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """The place of the first smallest element.

        Args:
            dim: the dimension; without it the place in the flattened tensor.
            keepdim: whether the reduced dimension stays, with size one.

        Example:
            >>> torch.argmin(torch.tensor([3., 1., 9.]))
            tensor(1)
        """
    @overload
    def argmin(self, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

    @overload
    def argsort(self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool | None = False) -> Tensor:
        """The indices that sort along a dimension.

        Args:
            dim: the dimension.
            descending: the greatest first.
            stable: accepted; equal elements keep their order in any case.

        Example:
            >>> torch.argsort(torch.tensor([3, 1, 2]))
            tensor([1, 2, 0])
        """
    @overload
    def argsort(self, axis: builtins.int, descending: builtins.bool = False, *, stable: builtins.bool | None = False) -> Tensor: ...

    def argwhere(self) -> Tensor:
        """Return the indices of the elements that are not zero, one row for each.

        Args:
            input: a tensor.

        Returns:
            A matrix with one column for each dimension.

        Example:
            >>> torch.argwhere(torch.tensor([0, 7, 9]))
            tensor([[1],
                    [2]])
        """

    def as_strided(self, size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
        """A view of the storage with any sizes and strides that stay inside it."""

    def as_strided_(self, size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
        """as_strided() in place."""

    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """Copy a tensor, with other elements where `as_strided` would show them.

        Args:
            input: a tensor.
            src: the elements, of the given sizes.
            size: the sizes of the view.
            stride: its strides.
            storage_offset: where it begins; where `input` does if left out.

        Returns:
            A tensor of the shape, strides and dtype of `input`.

        Example:
            >>> torch.as_strided_scatter(torch.zeros(2, 2), torch.ones(2), (2,), (3,))
            tensor([[1., 0.],
                    [0., 1.]])
        """

    def as_subclass(self, cls: object) -> Tensor:
        """A view of all elements of a subclass, differentiable as any view is."""

    def asin(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise asin(x), where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(1 - x * x)
        """

    def asin_(self) -> Tensor:
        """Elementwise asin(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(1 - x * x)
        """

    def asinh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise asinh(x), where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x + 1)
        """

    def asinh_(self) -> Tensor:
        """Elementwise asinh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * rsqrt(x * x + 1)
        """

    def atan(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise atan(x), where x is the operand, broadcast together.

        Gradient of x: g / (x * x + 1)
        """

    def atan2(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise atan2(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(a * a + b * b == 0, 0, g * b / (a * a + b * b))
        Gradient of b: where(a * a + b * b == 0, 0, -g * a / (a * a + b * b))
        """

    def atan2_(self, other: Tensor | Number) -> Tensor:
        """Elementwise atan2(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: where(a * a + b * b == 0, 0, g * b / (a * a + b * b))
        Gradient of b: where(a * a + b * b == 0, 0, -g * a / (a * a + b * b))
        """

    def atan_(self) -> Tensor:
        """Elementwise atan(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (x * x + 1)
        """

    def atanh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise atanh(x), where x is the operand, broadcast together.

        Gradient of x: g / (1 - x * x)
        """

    def atanh_(self) -> Tensor:
        """Elementwise atanh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (1 - x * x)
        """

    def backward(self, gradient: Tensor | None = None, retain_graph: builtins.bool | None = None, create_graph: builtins.bool = False, inputs: Tensor | Sequence[Tensor] | None = None) -> None:
        """Computes the gradients of this tensor with respect to the leaves of its graph.

        Args:
            gradient: the gradient of this tensor; may be left out for a scalar.
            retain_graph: keep what the graph saved, for another backward.
            create_graph: record the sweep itself, for higher-order gradients.
            inputs: accumulate into these tensors only.

        Example:
            >>> x = torch.tensor(3.0, requires_grad=True)
            >>> (x * x).backward()
            >>> x.grad
            tensor(6.)
        """

    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * (batch1 @ batch2), for batches."""

    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1) -> Tensor:
        """The same in place."""

    def bernoulli(self, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Ones with given probabilities, else zeros. Not differentiable: the gradient is zero.

        Args:
            input: the probability of each element; with p, only the shape and dtype.
            p: one probability for all.
            generator: where the numbers come from; the default generator if not given.
            out: a tensor to write to.

        Example:
            >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
            tensor([0., 1.])
        """

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with ones with probability p, else zeros.

        Args:
            p: a number, or a tensor that broadcasts to this one.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> torch.empty(3).bernoulli_(1.0)
            tensor([1., 1., 1.])
        """

    def bfloat16(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """How often each non-negative integer occurs in a vector.

        Args:
            weights: what each element counts, instead of one.
            minlength: the least length of the result.

        Example:
            >>> torch.bincount(torch.tensor([0, 2, 2]))
            tensor([1, 0, 2])
        """

    def bitwise_and(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a & b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_and_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a & b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_left_shift(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise left_shift(a, b), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_left_shift_(self, other: Tensor | Number) -> Tensor:
        """Elementwise left_shift(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_not(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise ~x, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def bitwise_not_(self) -> Tensor:
        """Elementwise ~x, in place, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def bitwise_or(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a | b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_or_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a | b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_right_shift(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise right_shift(a, b), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_right_shift_(self, other: Tensor | Number) -> Tensor:
        """Elementwise right_shift(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_xor(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a ^ b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bitwise_xor_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a ^ b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def bmm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The products of two batches of matrices."""

    def bool(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def broadcast_to(self, size: builtins.int | Sequence[builtins.int]) -> Tensor:
        """A view broadcast to the shape `size`."""

    def byte(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def cauchy_(self, median: Any = 0, sigma: Any = 1, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with random numbers from a Cauchy distribution.

        Args:
            median: the median.
            sigma: half the distance of the quartiles.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> torch.empty(2).cauchy_().shape
            torch.Size([2])
        """

    def ccol_indices(self) -> Tensor:
        """`ccol_indices` of a sparse tensor; a dense one has none."""

    def cdouble(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def ceil(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise ceil(x), where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def ceil_(self) -> Tensor:
        """Elementwise ceil(x), in place, where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def celu(self, alpha: Number = 1, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(x > 0, x, alpha * expm1(x / alpha)), where x is the operand, broadcast together.

        Gradient of x: where(x > 0, g, g * exp(x / alpha))
        """

    def celu_(self, alpha: Number = 1) -> Tensor:
        """Elementwise where(x > 0, x, alpha * expm1(x / alpha)), in place, where x is the operand, broadcast together.

        Gradient of x: where(x > 0, g, g * exp(x / alpha))
        """

    def cfloat(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def char(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def cholesky(self, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Factor positive-definite matrices: `torch.linalg.cholesky` by its older name.

        Args:
            input: symmetric positive-definite matrices.
            upper: return the upper factors, read from the upper triangle.
            out: where to put the result.

        Returns:
            The factors.

        Example:
            >>> torch.cholesky(torch.tensor([[4.0]]))
            tensor([[2.]])
        """

    def cholesky_inverse(self, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Invert matrices by their Cholesky factors.

        Args:
            input: triangular factors of the matrices.
            upper: whether the factors are upper triangles.
            out: where to put the result.

        Returns:
            The inverses.

        Example:
            >>> torch.cholesky_inverse(torch.tensor([[2.0]]))
            tensor([[0.2500]])
        """

    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Solve ``A @ X = B`` by the Cholesky factor of A.

        Args:
            input: right-hand sides B, as columns.
            input2: triangular factors of the matrices.
            upper: whether the factors are upper triangles.
            out: where to put the result.

        Returns:
            The solutions.

        Example:
            >>> torch.cholesky_solve(torch.tensor([[8.0]]), torch.tensor([[2.0]]))
            tensor([[2.]])
        """

    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` parts of equal size."""

    def clamp(self, min: object | None = None, max: object | None = None, *, out: Tensor | None = None) -> Tensor:
        """Values below min become min, values above max become max."""

    def clamp_(self, min: object | None = None, max: object | None = None) -> Tensor:
        """clamp() in place."""

    def clamp_max(self, max: object | None, *, out: Tensor | None = None) -> Tensor:
        """Values above max become max."""

    def clamp_max_(self, max: object | None) -> Tensor:
        """clamp_max() in place."""

    def clamp_min(self, min: object | None, *, out: Tensor | None = None) -> Tensor:
        """Values below min become min."""

    def clamp_min_(self, min: object | None) -> Tensor:
        """clamp_min() in place."""

    def clip(self, min: object | None = None, max: object | None = None, *, out: Tensor | None = None) -> Tensor:
        """Values below min become min, values above max become max."""

    def clip_(self, min: object | None = None, max: object | None = None) -> Tensor:
        """clamp() in place."""

    def clone(self, *, memory_format: object | None = None) -> Tensor:
        """A copy."""

    def coalesce(self) -> Tensor:
        """`coalesce` of a sparse tensor; a dense one has none."""

    def col_indices(self) -> Tensor:
        """`col_indices` of a sparse tensor; a dense one has none."""

    def conj(self) -> Tensor:
        """The complex conjugates, computed at once; a real tensor itself.

        Example:
            >>> torch.conj(torch.tensor([1 + 2j]))
            tensor([1.-2.j])
        """

    def conj_physical(self, *, out: Tensor | None = None) -> Tensor:
        """The complex conjugates: the same as conj()."""

    def conj_physical_(self) -> Tensor:
        """Conjugates in place."""

    def const_data_ptr(self) -> builtins.int:
        """The address of the first element; 0 where there is no memory."""

    def contiguous(self, *, memory_format: object | None = None) -> Tensor:
        """This tensor if it is contiguous, else a copy."""

    def copy_(self, other: Tensor, non_blocking: builtins.bool = False) -> Tensor:
        """Copies the elements of other, broadcast and converted."""

    def copysign(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise copysign(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(a == 0, 0, g * (y / where(a == 0, 1, a)))
        Gradient of b: 0
        """

    def copysign_(self, other: Tensor | Number) -> Tensor:
        """Elementwise copysign(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: where(a == 0, 0, g * (y / where(a == 0, 1, a)))
        Gradient of b: 0
        """

    def corrcoef(self) -> Tensor:
        """Pearson correlation matrix of variables given as rows, with observations as columns.

        Args:
            input: a matrix, or a vector for one variable.

        Returns:
            A square matrix with values in [-1, 1], 0-d for one variable.

        Example:
            >>> torch.corrcoef(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
            tensor([[ 1., -1.],
                    [-1.,  1.]])
        """

    def cos(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise cos(x), where x is the operand, broadcast together.

        Gradient of x: -g * sin(x)
        """

    def cos_(self) -> Tensor:
        """Elementwise cos(x), in place, where x is the operand, broadcast together.

        Gradient of x: -g * sin(x)
        """

    def cosh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise cosh(x), where x is the operand, broadcast together.

        Gradient of x: g * sinh(x)
        """

    def cosh_(self) -> Tensor:
        """Elementwise cosh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * sinh(x)
        """

    def count_nonzero(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """How many elements are nonzero.

        Args:
            dim: one dimension, several, or None for all.

        Example:
            >>> torch.count_nonzero(torch.tensor([0, 3, 0, 5]))
            tensor(2)
        """

    def cov(self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Covariance matrix of variables given as rows, with observations as columns.

        Args:
            input: a matrix, or a vector for one variable.
            correction: what to subtract from the number of observations in the divisor.
            fweights: how many times each observation counts, integers.
            aweights: the importance of each observation.

        Returns:
            A square matrix, 0-d for one variable.

        Example:
            >>> torch.cov(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
            tensor([[ 1., -1.],
                    [-1.,  1.]])
        """

    def cpu(self, memory_format: object | None = None) -> Tensor:
        """This tensor on the CPU."""

    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """Cross product of vectors of three elements.

        Args:
            input: the left vectors.
            other: the right vectors, of a shape that broadcasts.
            dim: the dimension of size 3; by default the first of that size.

        Returns:
            The vectors perpendicular to both.

        Example:
            >>> torch.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]), dim=0)
            tensor([0, 0, 1])
        """

    def crow_indices(self) -> Tensor:
        """`crow_indices` of a sparse tensor; a dense one has none."""

    def cuda(self, device: object | None = None, non_blocking: builtins.bool = False, memory_format: object | None = None) -> Tensor:
        """This tensor on a CUDA device: the current one, unless another is named."""

    def cummax(self, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.cummax:
        """Running maxima along a dimension, and their latest places.

        Args:
            dim: the dimension.

        Example:
            >>> torch.cummax(torch.tensor([1., 3., 2.]), dim=0).values
            tensor([1., 3., 3.])
        """

    def cummin(self, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.cummin:
        """Running minima along a dimension, and their latest places.

        Args:
            dim: the dimension.

        Example:
            >>> torch.cummin(torch.tensor([2., 3., 1.]), dim=0).indices
            tensor([0, 0, 2])
        """

    @overload
    def cumprod(self, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Running products along a dimension. Integers run in int64.

        Args:
            dim: the dimension.
            dtype: what elements are converted to first.

        Example:
            >>> torch.cumprod(torch.tensor([1., 2., 3.]), dim=0)
            tensor([1., 2., 6.])
        """
    @overload
    def cumprod(self, axis: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

    def cumprod_(self, dim: builtins.int, *, dtype: _dtype | None = None) -> Tensor:
        """The same in place."""

    @overload
    def cumsum(self, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Running sums along a dimension. Integers run in int64.

        Args:
            dim: the dimension.
            dtype: what elements are converted to first.

        Example:
            >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
            tensor([1, 3, 6])
        """
    @overload
    def cumsum(self, axis: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

    def cumsum_(self, dim: builtins.int, *, dtype: _dtype | None = None) -> Tensor:
        """The same in place."""

    @property
    def data(self) -> Tensor:
        """The same memory without history."""
    @data.setter
    def data(self, value: Tensor) -> None: ...

    def data_ptr(self) -> builtins.int:
        """The address of the first element; 0 where there is no memory."""

    def deg2rad(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x * 0.017453292519943295, where x is the operand, broadcast together.

        Gradient of x: g * 0.017453292519943295
        """

    def deg2rad_(self) -> Tensor:
        """Elementwise x * 0.017453292519943295, in place, where x is the operand, broadcast together.

        Gradient of x: g * 0.017453292519943295
        """

    def dense_dim(self) -> builtins.int:
        """Return the number of dense dimensions: all."""

    def det(self) -> Tensor:
        """Determinants: another name of `torch.linalg.det`.

        Args:
            input: square matrices.

        Returns:
            A number for each matrix.

        Example:
            >>> torch.det(torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
            tensor(6.)
        """

    def detach(self) -> Tensor:
        """The same memory without history."""

    def detach_(self) -> Tensor:
        """Forgets this tensor's history."""

    @property
    def device(self) -> _device:
        """Where the memory lies."""

    def diag(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
        """A matrix with a vector on its diagonal, or the diagonal of a matrix.

        Args:
            diagonal: which one: 0 the main one, above 0 above it, below 0 below it.

        Example:
            >>> torch.diag(torch.tensor([1, 2]))
            tensor([[1, 0],
                    [0, 2]])
        """

    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Make matrices, zero elsewhere, whose diagonal is the last dimension of a tensor.

        Args:
            input: a tensor of at least one dimension.
            offset: which diagonal: 0 the main one, above 0 above it, below 0 below it.
            dim1: where the dimension of the rows goes in the result.
            dim2: where the dimension of the columns goes in the result.

        Returns:
            A tensor with one dimension more than `input`.

        Example:
            >>> torch.diag_embed(torch.tensor([1, 2]))
            tensor([[1, 0],
                    [0, 2]])
        """

    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """Make a square matrix whose diagonal holds all elements of a tensor.

        Args:
            input: a tensor of any shape.
            offset: which diagonal: 0 the main one, above 0 above it, below 0 below it.

        Returns:
            A matrix, zero elsewhere.

        Example:
            >>> torch.diagflat(torch.tensor([[1, 2]]), 1)
            tensor([[0, 1, 0],
                    [0, 0, 2],
                    [0, 0, 0]])
        """

    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """A view of the diagonal of two dimensions."""

    def diagonal_scatter(self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Copy a tensor, with other elements in a diagonal.

        Args:
            input: a tensor of at least two dimensions.
            src: the elements, of the shape of ``input.diagonal(offset, dim1, dim2)``.
            offset: which diagonal: above the main one if positive.
            dim1: the dimension of its rows.
            dim2: the dimension of its columns.

        Returns:
            A tensor of the shape and dtype of `input`.

        Example:
            >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
            tensor([[1., 0.],
                    [0., 1.]])
        """

    def diff(self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """The n-th forward difference along a dimension; for bool, whether neighbours differ.

        Args:
            input: a tensor of at least one dimension.
            n: how many times to take the difference; 0 copies `input` alone.
            dim: the dimension.
            prepend: values to put before `input` along the dimension.
            append: values to put after it.

        Returns:
            A tensor shorter by `n` along the dimension.

        Example:
            >>> torch.diff(torch.tensor([1, 3, 6]))
            tensor([2, 3])
            >>> torch.diff(torch.tensor([1, 3, 6]), n=2)
            tensor([1])
        """

    def digamma(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise digamma(x), where x is the operand, broadcast together.

        Gradient of x: g * polygamma(1, x)
        """

    def digamma_(self) -> Tensor:
        """Elementwise digamma(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * polygamma(1, x)
        """

    def dim(self) -> builtins.int:
        """The number of dimensions."""

    def dim_order(self) -> tuple[builtins.int, ...]:
        """Return the dimensions in the order in which they lie in memory, the slowest first.

        Example:
            >>> torch.empty(2, 3, 4).transpose(1, 2).dim_order()
            (0, 2, 1)
        """

    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        """The p-norm of the difference of two tensors.

        Args:
            input: a tensor.
            other: a tensor whose shape broadcasts.
            p: the order of the norm.

        Returns:
            A 0-d tensor.

        Example:
            >>> torch.dist(torch.tensor([0.0, 3.0]), torch.tensor([4.0, 0.0]))
            tensor(5.)
        """

    def div(self, other: Tensor | Number, *, out: Tensor | None = None, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
        """Elementwise a / b, where a and b are the operands, broadcast together.

        Gradient of a: g / b
        Gradient of b: -g * (a / b) / b
        """

    def div_(self, other: Tensor | Number, *, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
        """Elementwise a / b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g / b
        Gradient of b: -g * (a / b) / b
        """

    def divide(self, other: Tensor | Number, *, out: Tensor | None = None, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
        """Elementwise a / b, where a and b are the operands, broadcast together.

        Gradient of a: g / b
        Gradient of b: -g * (a / b) / b
        """

    def divide_(self, other: Tensor | Number, *, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
        """Elementwise a / b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g / b
        Gradient of b: -g * (a / b) / b
        """

    def dot(self, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The inner product of two vectors."""

    def double(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def dsplit(self, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: builtins.int | None = None) -> tuple[Tensor, ...]:
        """Split in depth: along the third dimension.

        Args:
            input: a tensor of at least three dimensions.
            *indices_or_sections: the number of equal parts, or the indices at which to cut.
            indices: the indices, as a keyword.
            sections: the number of parts, as a keyword.

        Returns:
            The parts, as views.

        Example:
            >>> torch.dsplit(torch.tensor([[[1, 2]]]), 2)
            (tensor([[[1]]]), tensor([[[2]]]))
        """

    @property
    def dtype(self) -> _dtype:
        """The element type."""

    def element_size(self) -> builtins.int:
        """Bytes per element."""

    def eq(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a == b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def eq_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a == b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def equal(self, other: Tensor) -> builtins.bool:
        """Return whether two tensors have the same shape and equal elements.

        Args:
            input: a tensor.
            other: another tensor.

        Returns:
            One bool for the whole comparison; nan equals nothing.

        Example:
            >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
            True
        """

    def erf(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise erf(x), where x is the operand, broadcast together.

        Gradient of x: 1.1283791670955126 * exp(-x * x) * g
        """

    def erf_(self) -> Tensor:
        """Elementwise erf(x), in place, where x is the operand, broadcast together.

        Gradient of x: 1.1283791670955126 * exp(-x * x) * g
        """

    def erfc(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise erfc(x), where x is the operand, broadcast together.

        Gradient of x: -1.1283791670955126 * exp(-x * x) * g
        """

    def erfc_(self) -> Tensor:
        """Elementwise erfc(x), in place, where x is the operand, broadcast together.

        Gradient of x: -1.1283791670955126 * exp(-x * x) * g
        """

    def erfinv(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise erfinv(x), where x is the operand, broadcast together.

        Gradient of x: 0.886226925452758 * exp(y * y) * g
        """

    def erfinv_(self) -> Tensor:
        """Elementwise erfinv(x), in place, where x is the operand, broadcast together.

        Gradient of x: 0.886226925452758 * exp(y * y) * g
        """

    def exp(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise exp(x), where x is the operand, broadcast together.

        Gradient of x: g * y
        """

    def exp2(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise exp2(x), where x is the operand, broadcast together.

        Gradient of x: g * y * 0.6931471805599453
        """

    def exp2_(self) -> Tensor:
        """Elementwise exp2(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * y * 0.6931471805599453
        """

    def exp_(self) -> Tensor:
        """Elementwise exp(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * y
        """

    def expand(self, *args: Any) -> Tensor:
        """A view with dimensions of size one repeated; -1 keeps a size."""

    def expand_as(self, other: Tensor) -> Tensor:
        """A view broadcast to the shape of `other`."""

    def expm1(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise expm1(x), where x is the operand, broadcast together.

        Gradient of x: g * (y + 1)
        """

    def expm1_(self) -> Tensor:
        """Elementwise expm1(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * (y + 1)
        """

    def exponential_(self, lambd: Any = 1, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with random numbers from an exponential distribution.

        Args:
            lambd: the rate, one over the mean.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> bool((torch.empty(100).exponential_() > 0).all())
            True
        """

    @overload
    def fill_(self, value: builtins.bool | builtins.int | builtins.float) -> Tensor:
        """Writes one value everywhere."""
    @overload
    def fill_(self, value: builtins.complex) -> Tensor:
        """Writes one value everywhere."""
    @overload
    def fill_(self, value: Tensor) -> Tensor:
        """Writes one value everywhere."""

    def fill_diagonal_(self, fill_value: builtins.float, wrap: builtins.bool = False) -> Tensor:
        """Write one number into the main diagonal: the elements whose indices are all equal.

        Args:
            fill_value: the number.
            wrap: whether the diagonal of a tall matrix begins anew below a row without an element.

        Example:
            >>> torch.zeros(2, 3).fill_diagonal_(5)
            tensor([[5., 0., 0.],
                    [0., 5., 0.]])
        """

    def fix(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise trunc(x), where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def fix_(self) -> Tensor:
        """Elementwise trunc(x), in place, where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Merges dimensions start_dim to end_dim into one."""

    @overload
    def flip(self, dims: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Turns the order round along some dimensions.

        Args:
            dims: the dimensions.

        Example:
            >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), [1])
            tensor([[2, 1],
                    [4, 3]])
        """
    @overload
    def flip(self, *args: Any) -> Tensor:
        """Turns the order round along some dimensions.

        Args:
            dims: the dimensions.

        Example:
            >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), [1])
            tensor([[2, 1],
                    [4, 3]])
        """

    def fliplr(self) -> Tensor:
        """Reverse the second dimension: left and right of a matrix change places.

        Args:
            input: a tensor of at least two dimensions.

        Returns:
            The flipped copy.

        Example:
            >>> torch.fliplr(torch.tensor([[0, 1], [2, 3]]))
            tensor([[1, 0],
                    [3, 2]])
        """

    def flipud(self) -> Tensor:
        """Reverse the first dimension: up and down of a matrix change places.

        Args:
            input: a tensor of at least one dimension.

        Returns:
            The flipped copy.

        Example:
            >>> torch.flipud(torch.tensor([[0, 1], [2, 3]]))
            tensor([[2, 3],
                    [0, 1]])
        """

    def float(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def float_power(self, exponent: Any) -> Tensor:
        """Power computed in float64.

        Args:
            input: the base, a tensor or a number.
            exponent: the exponent, a tensor or a number.

        Returns:
            A float64 tensor, or a complex128 one if an operand is complex.

        Example:
            >>> torch.float_power(torch.tensor([2]), 3).tolist()
            [8.0]
        """

    def float_power_(self, exponent: Any) -> Tensor:
        """`float_power`, in place, of a tensor of float64, or of complex128 if a number is complex."""

    def floor(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise floor(x), where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def floor_(self) -> Tensor:
        """Elementwise floor(x), in place, where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def floor_divide(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise floor_divide(a, b), where a and b are the operands, broadcast together.

        Gradient of a: 0
        Gradient of b: 0
        """

    def floor_divide_(self, other: Tensor | Number) -> Tensor:
        """Elementwise floor_divide(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: 0
        Gradient of b: 0
        """

    def fmax(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where((a >= b) | (b != b), a, b), where a and b are the operands, broadcast together.

        Gradient of a: where((a >= b) | (b != b), g, 0)
        Gradient of b: where((a >= b) | (b != b), 0, g)
        """

    def fmin(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where((a <= b) | (b != b), a, b), where a and b are the operands, broadcast together.

        Gradient of a: where((a <= b) | (b != b), g, 0)
        Gradient of b: where((a <= b) | (b != b), 0, g)
        """

    def fmod(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise fmod(a, b), where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g * div_trunc(a, b)
        """

    def fmod_(self, other: Tensor | Number) -> Tensor:
        """Elementwise fmod(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g * div_trunc(a, b)
        """

    def frac(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x - trunc(x), where x is the operand, broadcast together.

        Gradient of x: g
        """

    def frac_(self) -> Tensor:
        """Elementwise x - trunc(x), in place, where x is the operand, broadcast together.

        Gradient of x: g
        """

    def frexp(self, *, out: Any = None) -> _return_types.frexp:
        """Take numbers apart into a significand and a power of two: ``mantissa * 2 ** exponent``.

        Args:
            input: a tensor of a floating dtype.
            out: where to put both results.

        Returns:
            A named tuple (mantissa, exponent): absolute values in [0.5, 1), and int32.

        Example:
            >>> torch.frexp(torch.tensor([1.0, -6.0])).mantissa
            tensor([ 0.5000, -0.7500])
        """

    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
        """Elements along a dimension, one for each element of an index tensor.

        Args:
            dim: the dimension along which the index counts; the other coordinates are the index's own.
            index: int64 or int32, of the tensor's rank; the result has its shape.
            sparse_grad: accepted; gradients are dense.

        Example:
            >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
            tensor([[1, 1],
                    [4, 3]])
        """

    def gcd(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise gcd(a, b), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def gcd_(self, other: Tensor | Number) -> Tensor:
        """Elementwise gcd(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def ge(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a >= b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def ge_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a >= b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def geometric_(self, p: Any, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with numbers of trials up to and with the first success.

        Args:
            p: the probability of a success, between 0 and 1.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> bool((torch.empty(100).geometric_(0.5) >= 1).all())
            True
        """

    def geqrf(self, *, out: Sequence[Tensor] | None = None) -> _return_types.geqrf:
        """Factor matrices as LAPACK's geqrf does. It has no derivative; `torch.linalg.qr` has.

        Args:
            input: matrices.
            out: where to put the results.

        Returns:
            ``(a, tau)``: R on and above the diagonal, reflectors below it, and their scales.

        Example:
            >>> torch.geqrf(torch.tensor([[3.0], [4.0]])).a
            tensor([[-5.0000],
                    [ 0.5000]])
        """

    def ger(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The outer product of two vectors."""

    def get_device(self) -> builtins.int:
        """The number of the CUDA device; -1 elsewhere."""

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None."""
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...

    @property
    def grad_fn(self) -> Node | None:
        """The tape entry that made this tensor, or None."""

    def greater(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a > b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def greater_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a > b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def greater_equal(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a >= b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def greater_equal_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a >= b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def gt(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a > b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def gt_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a > b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def half(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """Zero where the absolute value is at most `lambd`, as nn.functional.hardshrink."""

    def hash_tensor(self, dim: builtins.int | Sequence[builtins.int] | None = None, *, keepdim: builtins.bool = False, mode: builtins.int = 0) -> Tensor:
        """Combine the bits of elements into one number, by exclusive or.

        Args:
            input: a tensor; elements count as those of float64 or int64 that have their value.
            dim: the dimension or dimensions to combine over; all if None.
            keepdim: whether these stay, with size one.
            mode: 0, the only way there is.

        Returns:
            A tensor of uint64.

        Example:
            >>> torch.hash_tensor(torch.tensor([[1, 2], [5, 6]]), 1)
            tensor([3, 3], dtype=torch.uint64)
        """

    def heaviside(self, values: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(a == 0, b, sign(maximum(a, 0))), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def heaviside_(self, values: Tensor | Number) -> Tensor:
        """Elementwise where(a == 0, b, sign(maximum(a, 0))), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
        """Count the elements in equal bins between two limits.

        Args:
            input: a tensor of a floating dtype.
            bins: the number of bins.
            min: the lower limit.
            max: the upper limit; if both limits are equal the range of the data is taken.

        Returns:
            The counts, in the dtype of `input`. Elements outside the limits and nan count nowhere.

        Example:
            >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
            tensor([0., 2., 1., 0.])
        """

    def histogram(self, bins: Any = 100, *, range: Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False, out: Any = None) -> _return_types.histogram:
        """Count the elements in bins, each of which holds its lower edge; the last both edges.

        Args:
            input: a tensor of float32 or float64.
            bins: the number of bins of equal width, or a tensor of all edges in ascending order.
            range: the lower and the upper end of equal bins; the smallest and the largest element
                if left out.
            weight: how much every element counts, of the shape of `input`.
            density: divide by the sum and the widths, so that the integral over the bins is 1.
            out: where to put the results.

        Returns:
            A named tuple (hist, bin_edges).

        Example:
            >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0)).hist
            tensor([0., 2., 1., 0.])
        """

    def hsplit(self, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: builtins.int | None = None) -> tuple[Tensor, ...]:
        """Split side by side: along the first dimension of a vector, otherwise the second.

        Args:
            input: a tensor of at least one dimension.
            *indices_or_sections: the number of equal parts, or the indices at which to cut.
            indices: the indices, as a keyword.
            sections: the number of parts, as a keyword.

        Returns:
            The parts, as views.

        Example:
            >>> torch.hsplit(torch.arange(4), 2)
            (tensor([0, 1]), tensor([2, 3]))
        """

    def hypot(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise hypot(a, b), where a and b are the operands, broadcast together.

        Gradient of a: g * (a / y)
        Gradient of b: g * (b / y)
        """

    def hypot_(self, other: Tensor | Number) -> Tensor:
        """Elementwise hypot(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: g * (a / y)
        Gradient of b: g * (b / y)
        """

    def i0(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise i0(x), where x is the operand, broadcast together.

        Gradient of x: g * i1(x)
        """

    def i0_(self) -> Tensor:
        """Elementwise i0(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * i1(x)
        """

    def igamma(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise igamma(a, b), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: g * gamma_density(a, b)
        """

    def igamma_(self, other: Tensor | Number) -> Tensor:
        """Elementwise igamma(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: g * gamma_density(a, b)
        """

    def igammac(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise igammac(a, b), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: -g * gamma_density(a, b)
        """

    def igammac_(self, other: Tensor | Number) -> Tensor:
        """Elementwise igammac(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: -g * gamma_density(a, b)
        """

    @property
    def imag(self) -> Tensor:
        """The imaginary parts, over the same memory."""

    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """A copy to whose slices along a dimension those of `source` are added.

        Args:
            dim: the dimension.
            index: to which slice each slice of `source` is added; repeats add up in order.
            source: of the tensor's shape except along `dim`.
            alpha: a factor for `source`.

        Example:
            >>> torch.index_add(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([1., 2.]))
            tensor([0., 3.])
        """

    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1) -> Tensor:
        """index_add, in place."""

    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
        """A copy whose slices along a dimension are replaced by those of `source`.

        Args:
            dim: the dimension.
            index: which slice each slice of `source` replaces, int64.
            source: of the tensor's shape except along `dim`.

        Example:
            >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2]), torch.tensor([5.]))
            tensor([0., 0., 5.])
        """

    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """index_copy, in place."""

    def index_fill(self, dim: builtins.int, index: Tensor, value: object) -> Tensor:
        """A copy whose slices along a dimension are filled with a value.

        Args:
            dim: the dimension.
            index: the slices, int64.
            value: a number or a 0-d tensor.

        Example:
            >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 1)
            tensor([1., 0., 1.])
        """

    def index_fill_(self, dim: builtins.int, index: Tensor, value: object) -> Tensor:
        """index_fill, in place."""

    def index_put(self, indices: Sequence[Tensor], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """A copy with `values` written at the places that index tensors name.

        Args:
            indices: one index tensor for each leading dimension; they broadcast together.
            values: what is written, broadcast to the shape of the places.
            accumulate: whether values are added to what is there, also where places repeat.

        Example:
            >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.tensor([1., 2.]), accumulate=True)
            tensor([3., 0., 0.])
        """

    def index_put_(self, indices: Sequence[Tensor], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """index_put, in place."""

    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
        """Copy a tensor, with slices of a source reduced into the slices that an index names.

        Args:
            input: a tensor.
            dim: the dimension of the slices.
            index: for every slice of `source`, where it goes; a vector of int64 or int32.
            source: the slices, of the dtype of `input`.
            reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
            include_self: whether what is in `input` takes part.
            out: where to put the result.

        Returns:
            A tensor of the shape and dtype of `input`.

        Example:
            >>> places, values = torch.tensor([1, 1]), torch.tensor([5.0, 3.0])
            >>> torch.index_reduce(torch.ones(2), 0, places, values, "amax")
            tensor([1., 5.])
        """

    def index_reduce_(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True) -> Tensor:
        """`index_reduce`, written into the tensor."""

    def index_select(self, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Slices along a dimension, chosen by a vector of indices.

        Args:
            dim: the dimension.
            index: int64 or int32, none negative.

        Example:
            >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
            tensor([[3, 4],
                    [3, 4]])
        """

    def indices(self) -> Tensor:
        """`indices` of a sparse tensor; a dense one has none."""

    def inner(self, other: Tensor) -> Tensor:
        """Dot product along the last dimensions; a plain product where one side is 0-d.

        Args:
            input: the left tensor.
            other: the right tensor, of the same last size.

        Returns:
            A tensor with the other dimensions of `input`, then those of `other`.

        Example:
            >>> torch.inner(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
            tensor(11.)
        """

    def int(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """Inverses: another name of `torch.linalg.inv`.

        Args:
            input: square matrices.
            out: where to put the result.

        Returns:
            The inverses.

        Example:
            >>> torch.inverse(torch.tensor([[2.0]]))
            tensor([[0.5000]])
        """

    def is_coalesced(self) -> builtins.bool:
        """`is_coalesced` of a sparse tensor; a dense one has none."""

    def is_complex(self) -> builtins.bool:
        """Whether the dtype is a complex one."""

    def is_conj(self) -> builtins.bool:
        """Always False: conjugates are computed at once, never put off."""

    def is_contiguous(self, *, memory_format: object | None = None) -> builtins.bool:
        """Whether elements lie in order without gaps."""

    @property
    def is_cpu(self) -> builtins.bool:
        """Whether the memory is the CPU's."""

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the memory is on a GPU."""

    def is_floating_point(self) -> builtins.bool:
        """Whether the dtype is a floating one."""

    def is_inference(self) -> builtins.bool:
        """Whether the tensor was made in inference mode."""

    @property
    def is_ipu(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no recorded op made this tensor."""

    @property
    def is_maia(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    @property
    def is_meta(self) -> builtins.bool:
        """Whether there is no memory: a tensor on the meta device has a shape alone."""

    @property
    def is_mkldnn(self) -> builtins.bool:
        """Always False."""

    @property
    def is_mps(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    @property
    def is_mtia(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    def is_neg(self) -> builtins.bool:
        """Always False: negation is computed at once, never put off."""

    @property
    def is_nested(self) -> builtins.bool:
        """Always False; a NestedTensor says True."""

    def is_nonzero(self) -> builtins.bool:
        """Return whether the single element of a tensor is not zero.

        Args:
            input: a tensor with one element.

        Returns:
            The truth value of the element.

        Example:
            >>> torch.is_nonzero(torch.tensor([1.5]))
            True
        """

    def is_pinned(self, device: object | None = None) -> builtins.bool:
        """Whether the tensor is in page-locked memory."""

    @property
    def is_quantized(self) -> builtins.bool:
        """Always False."""

    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Whether both have the same shape."""

    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        """Whether both show the same memory in the same way."""

    def is_shared(self) -> builtins.bool:
        """Return whether other processes see the memory, after `share_memory_`, or on a GPU."""

    def is_signed(self) -> builtins.bool:
        """Whether the dtype has a sign."""

    @property
    def is_sparse(self) -> builtins.bool:
        """Whether the layout is torch.sparse_coo."""

    @property
    def is_sparse_csr(self) -> builtins.bool:
        """Return whether the layout is sparse_csr: not that of a dense tensor."""

    @property
    def is_vulkan(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    @property
    def is_xla(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    @property
    def is_xpu(self) -> builtins.bool:
        """Return whether the tensor is on such a device: False, since there are no back ends for it."""

    def isclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
        """Compare element by element: ``|input - other| <= atol + rtol * |other|``.

        Args:
            input: a tensor.
            other: a tensor of the same dtype, whose shape broadcasts.
            rtol: relative tolerance.
            atol: absolute tolerance.
            equal_nan: whether nan is close to nan.

        Returns:
            A tensor of bool. Infinite values are close to themselves only.

        Example:
            >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0000001, 2.1]))
            tensor([ True, False])
        """

    def isfinite(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x - x == 0, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def isinf(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(x == x, x - x, 0) != 0, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def isnan(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x != x, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def isneginf(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(x - x == 0, 0, x) < 0, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def isposinf(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(x - x == 0, 0, x) > 0, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def isreal(self) -> Tensor:
        """Return which elements are real: all of a real tensor, and those without an imaginary part.

        Args:
            input: a tensor.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.isreal(torch.tensor([1 + 0j, 1j]))
            tensor([ True, False])
        """

    def istft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:
        """The signal that has this short-time Fourier transform, or comes closest to having it.

        Frames are transformed back, multiplied with the window and added up, and the sum is divided by
        that of the squared windows, which must not vanish anywhere.

        Args:
            input: what `stft` returned.
            n_fft: the length of a frame.
            hop_length: the distance between frames; by default a quarter of n_fft.
            win_length: the length of the window; by default n_fft.
            window: the window; by default ones.
            center: whether the signal was padded on both sides.
            normalized: whether the transform was divided by the root of n_fft.
            onesided: whether the input is the first half of each spectrum; by default told by its size.
            length: how much of the signal is returned: by default all that is known.
            return_complex: whether the signal was complex.

        Returns:
            A signal, or a batch of them.

        Example:
            >>> signal, window = torch.arange(8.0), torch.hann_window(4)
            >>> spectra = torch.stft(signal, 4, window=window, return_complex=True)
            >>> torch.istft(spectra, 4, window=window, length=8).round()
            tensor([0., 1., 2., 3., 4., 5., 6., 7.])
        """

    def item(self) -> Number:
        """The only element, as a Python number.

        Example:
            >>> torch.tensor([2.5]).item()
            2.5
        """

    @property
    def itemsize(self) -> builtins.int:
        """Bytes per element."""

    def kron(self, other: Tensor) -> Tensor:
        """Kronecker product: every element of `input` times the whole of `other`, as blocks.

        Args:
            input: the tensor of the outer structure.
            other: the tensor of the blocks; the one with fewer dimensions gets leading ones.

        Returns:
            A tensor whose sizes are the products of theirs.

        Example:
            >>> torch.kron(torch.tensor([[1, 2]]), torch.tensor([[1], [10]]))
            tensor([[ 1,  2],
                    [10, 20]])
        """

    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.kthvalue:
        """The k-th smallest element along a dimension, and where it was.

        Args:
            k: counts from 1.
            dim: the dimension.
            keepdim: whether the dimension stays, with size one.

        Example:
            >>> torch.kthvalue(torch.tensor([3, 9, 5]), 2).values
            tensor(5)
        """

    @property
    def layout(self) -> _layout:
        """Always strided: sparse tensors are of a class of their own."""

    def lcm(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise abs(a / where(gcd(a, b) == 0, 1, gcd(a, b)) * b), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def lcm_(self, other: Tensor | Number) -> Tensor:
        """Elementwise abs(a / where(gcd(a, b) == 0, 1, gcd(a, b)) * b), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Multiply by powers of two: ``input * 2 ** other``.

        Args:
            input: a tensor.
            other: the exponents, a tensor whose shape broadcasts.
            out: where to put the result.

        Returns:
            The products, of a floating dtype.

        Example:
            >>> torch.ldexp(torch.tensor([1.0, 3.0]), torch.tensor([1, 2]))
            tensor([ 2., 12.])
        """

    def ldexp_(self, other: Tensor) -> Tensor:
        """`ldexp`, written into the tensor."""

    def le(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a <= b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def le_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a <= b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def lerp(self, end: Tensor | Number, weight: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c)), where a, b and c are the operands, broadcast together.

        Gradient of a: g * (1 - c)
        Gradient of b: g * c
        Gradient of c: g * (b - a)
        """

    def lerp_(self, end: Tensor | Number, weight: Tensor | Number) -> Tensor:
        """Elementwise where(abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c)), in place, where a, b and c are the operands, broadcast together.

        Gradient of a: g * (1 - c)
        Gradient of b: g * c
        Gradient of c: g * (b - a)
        """

    def less(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a < b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def less_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a < b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def less_equal(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a <= b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def less_equal_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a <= b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def lgamma(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise lgamma(x), where x is the operand, broadcast together.

        Gradient of x: g * digamma(x)
        """

    def lgamma_(self) -> Tensor:
        """Elementwise lgamma(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * digamma(x)
        """

    def log(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise log(x), where x is the operand, broadcast together.

        Gradient of x: g / x
        """

    def log10(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise log10(x), where x is the operand, broadcast together.

        Gradient of x: g / (x * 2.302585092994046)
        """

    def log10_(self) -> Tensor:
        """Elementwise log10(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (x * 2.302585092994046)
        """

    def log1p(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise log1p(x), where x is the operand, broadcast together.

        Gradient of x: g / (x + 1)
        """

    def log1p_(self) -> Tensor:
        """Elementwise log1p(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (x + 1)
        """

    def log2(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise log2(x), where x is the operand, broadcast together.

        Gradient of x: g / (x * 0.6931471805599453)
        """

    def log2_(self) -> Tensor:
        """Elementwise log2(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (x * 0.6931471805599453)
        """

    def log_(self) -> Tensor:
        """Elementwise log(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / x
        """

    def log_normal_(self, mean: Any = 1, std: Any = 2, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with random numbers whose logarithm is normal.

        Args:
            mean: the mean of the logarithm.
            std: the standard deviation of the logarithm.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> bool((torch.empty(100).log_normal_() > 0).all())
            True
        """

    def log_softmax(self, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """The logarithm of softmax, computed without leaving the logarithms.

        Args:
            dim: the dimension.
            dtype: what elements are converted to first.

        Example:
            >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
            tensor([-0.6931, -0.6931])
        """

    def logaddexp(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise logaddexp(a, b), where a and b are the operands, broadcast together.

        Gradient of a: g * sigmoid(a - b)
        Gradient of b: g * sigmoid(b - a)
        """

    def logaddexp2(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise logaddexp2(a, b), where a and b are the operands, broadcast together.

        Gradient of a: g / (1 + exp2(b - a))
        Gradient of b: g / (1 + exp2(a - b))
        """

    def logcumsumexp(self, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """Logarithms of the running sums of exponentials, without overflow.

        Args:
            dim: the dimension.

        Example:
            >>> torch.logcumsumexp(torch.tensor([1000., 1000.]), dim=0)
            tensor([1000.0000, 1000.6932])
        """

    def logdet(self) -> Tensor:
        """Logarithms of determinants: -inf where one is zero, nan where a real one is negative.

        Args:
            input: square matrices.

        Returns:
            A number for each matrix.

        Example:
            >>> torch.logdet(torch.eye(2))
            tensor(0.)
        """

    def logical_and(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise (a != 0) & (b != 0), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def logical_and_(self, other: Tensor | Number) -> Tensor:
        """Elementwise (a != 0) & (b != 0), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def logical_not(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x == 0, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def logical_not_(self) -> Tensor:
        """Elementwise x == 0, in place, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def logical_or(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise (a != 0) | (b != 0), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def logical_or_(self, other: Tensor | Number) -> Tensor:
        """Elementwise (a != 0) | (b != 0), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def logical_xor(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise (a != 0) ^ (b != 0), where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def logical_xor_(self, other: Tensor | Number) -> Tensor:
        """Elementwise (a != 0) ^ (b != 0), in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def logit(self, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
        """log(x / (1 - x)), the inverse of sigmoid; x is first brought between eps and 1 - eps."""

    def logit_(self, eps: builtins.float | None = None) -> Tensor:
        """logit() in place."""

    def logsumexp(self, dim: builtins.int | Sequence[builtins.int], keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """The logarithm of the sum of exponentials, without overflow.

        Args:
            dim: one dimension, or several.
            keepdim: whether reduced dimensions stay, with size one.

        Example:
            >>> torch.logsumexp(torch.tensor([1000., 1000.]), dim=0)
            tensor(1000.6932)
        """

    def long(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def lt(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a < b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def lt_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a < b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
        """Factor matrices into triangles: `torch.linalg.lu_factor` by its older name.

        Args:
            A: matrices.
            pivot: exchange rows; must be true on the CPU.
            get_infos: return the outcomes too, instead of raising.
            out: where to put the results.

        Returns:
            ``(LU, pivots)``, and the outcomes if asked for.

        Example:
            >>> torch.lu(torch.eye(2))[1]
            tensor([1, 2], dtype=torch.int32)
        """

    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Solve equations by LU factors: `torch.linalg.lu_solve` with the right-hand side first.

        Args:
            input: right-hand sides, as columns.
            LU_data: the factors.
            LU_pivots: which rows were exchanged.
            out: where to put the result.

        Returns:
            The solutions.

        Example:
            >>> torch.lu_solve(torch.ones(2, 1), *torch.lu(2 * torch.eye(2)))
            tensor([[0.5000],
                    [0.5000]])
        """

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of the last two dimensions."""

    @property
    def mT(self) -> Tensor:
        """The last two dimensions swapped."""

    def map2_(self, x: Tensor, y: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Replace every element by what a function makes of it and the elements of two tensors."""

    def map_(self, other: Tensor, callable: Callable[..., Any]) -> Tensor:
        """Replace every element by what a function makes of it and the element of another tensor."""

    def masked_fill(self, mask: Tensor, value: object) -> Tensor:
        """A copy with a value where a mask is true.

        Args:
            mask: bool, broadcast together with the tensor.
            value: a number or a 0-d tensor.

        Example:
            >>> torch.tensor([1, 2, 3]).masked_fill(torch.tensor([True, False, True]), 0)
            tensor([0, 2, 0])
        """

    def masked_fill_(self, mask: Tensor, value: object) -> Tensor:
        """masked_fill, in place."""

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy in which elements where a mask is true are replaced, in order.

        Args:
            mask: bool, broadcast together with the tensor.
            source: at least as many elements as the mask has true ones.

        Example:
            >>> mask = torch.tensor([True, False, True])
            >>> torch.zeros(3).masked_scatter(mask, torch.tensor([7., 8.]))
            tensor([7., 0., 8.])
        """

    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """masked_scatter, in place."""

    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The elements where a mask is true, as a vector.

        Args:
            mask: bool, broadcast together with the tensor.

        Example:
            >>> x = torch.tensor([1, 2, 3])
            >>> torch.masked_select(x, x > 1)
            tensor([2, 3])
        """

    def matmul(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The matrix product of the last two dimensions, other dimensions broadcast; vectors are treated as rows or columns."""

    def matrix_exp(self) -> Tensor:
        """Exponentials of matrices: another name of `torch.linalg.matrix_exp`.

        Args:
            input: square matrices.

        Returns:
            Matrices of the same shape.

        Example:
            >>> torch.matrix_exp(torch.zeros(1, 1))
            tensor([[1.]])
        """

    def matrix_power(self, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """Powers of matrices: another name of `torch.linalg.matrix_power`.

        Args:
            input: square matrices.
            n: the exponent.
            out: where to put the result.

        Returns:
            The powers.

        Example:
            >>> torch.matrix_power(torch.tensor([[2.0]]), 3)
            tensor([[8.]])
        """

    @overload
    def max(self, *, out: Tensor | None = None) -> Tensor:
        """The largest element, also along a dimension with its place, or the larger of two.

        Args:
            dim: the dimension; the result is then a named tuple (values, indices) of the first largest.
            keepdim: whether the reduced dimension stays, with size one.
            other: a tensor to compare with, element by element.

        Example:
            >>> torch.max(torch.tensor([[1., 5.], [7., 2.]]), dim=1).indices
            tensor([1, 0])
        """
    @overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.max: ...
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def max(self, axis: builtins.int, keepdims: builtins.bool = False) -> _return_types.max: ...

    def maximum(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise maximum(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(a == b, 0.5 * g, where(a < b, 0, g))
        Gradient of b: where(a == b, 0.5 * g, where(a > b, 0, g))
        """

    @overload
    def mean(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """The mean over all or some dimensions, of a floating dtype.

        Args:
            dim: one dimension, several, or None for all.
            keepdim: whether reduced dimensions stay, with size one.
            dtype: what elements are converted to first.

        Example:
            >>> torch.mean(torch.tensor([1., 2., 6.]))
            tensor(3.)
        """
    @overload
    def mean(self, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

    @overload
    def median(self) -> Tensor:
        """The median; of an even number of elements the lower of the two in the middle.

        Args:
            dim: the dimension; the result is then a named tuple (values, indices).
            keepdim: whether the reduced dimension stays, with size one.

        Example:
            >>> torch.median(torch.tensor([3., 1., 2.]))
            tensor(2.)
        """
    @overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.median: ...

    @overload
    def min(self, *, out: Tensor | None = None) -> Tensor:
        """The smallest element, also along a dimension with its place, or the lesser of two.

        Args:
            dim: the dimension; the result is then a named tuple (values, indices) of the first smallest.
            keepdim: whether the reduced dimension stays, with size one.
            other: a tensor to compare with, element by element.

        Example:
            >>> torch.min(torch.tensor([[1., 5.], [7., 2.]]), dim=1).values
            tensor([1., 2.])
        """
    @overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.min: ...
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
    @overload
    def min(self, axis: builtins.int, keepdims: builtins.bool = False) -> _return_types.min: ...

    def minimum(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise minimum(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(a == b, 0.5 * g, where(a > b, 0, g))
        Gradient of b: where(a == b, 0.5 * g, where(a < b, 0, g))
        """

    def mm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The product of two matrices.

        Example:
            >>> torch.mm(torch.eye(2), torch.ones(2, 3)).shape
            torch.Size([2, 3])
        """

    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.mode:
        """The most frequent element along a dimension, and where it was last.

        Of several that are equally frequent it is the smallest. NaNs are equal to each other, and larger
        than numbers.

        Args:
            dim: the dimension.
            keepdim: whether the dimension stays, with size one.

        Example:
            >>> torch.mode(torch.tensor([3, 9, 5, 9]))
            torch.return_types.mode(
            values=tensor(9),
            indices=tensor(3))
        """

    def moveaxis(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Moves dimensions to other positions."""

    def movedim(self, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Moves dimensions to other positions."""

    def msort(self) -> Tensor:
        """Sort along the first dimension.

        Args:
            input: a tensor.

        Returns:
            The sorted values.

        Example:
            >>> torch.msort(torch.tensor([3, 1, 2]))
            tensor([1, 2, 3])
        """

    def mul(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a * b, where a and b are the operands, broadcast together.

        Gradient of a: g * b
        Gradient of b: g * a
        """

    def mul_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a * b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g * b
        Gradient of b: g * a
        """

    def multinomial(self, num_samples: Any, replacement: Any = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Indices drawn from each row, an index as often as its weight says.

        Args:
            input: weights, not negative, in one or two dimensions; rows need not sum to one.
            num_samples: how many indices to draw from each row.
            replacement: whether an index may be drawn again.
            generator: where the numbers come from; the default generator if not given.
            out: a tensor to write to.

        Example:
            >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
            tensor([1, 1])
        """

    def multiply(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a * b, where a and b are the operands, broadcast together.

        Gradient of a: g * b
        Gradient of b: g * a
        """

    def multiply_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a * b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g * b
        Gradient of b: g * a
        """

    def mv(self, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The product of a matrix and a vector."""

    def mvlgamma(self, p: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p: that of pi^(p (p - 1) / 4) gamma(x) gamma(x - 1/2) ... gamma(x - (p - 1) / 2)."""

    def mvlgamma_(self, p: builtins.int) -> Tensor:
        """mvlgamma() in place."""

    def nan_to_num(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
        """Replaces NaN (by 0) and infinities (by the largest finite numbers)."""

    def nan_to_num_(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        """nan_to_num() in place."""

    def nanmean(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Mean of the elements that are not nan.

        Args:
            input: a tensor of a floating dtype.
            dim: the dimension or dimensions to average over; None takes all.
            keepdim: keep the reduced dimensions with size 1.
            dtype: convert to this dtype first.

        Returns:
            The mean; nan where there is nothing to average.

        Example:
            >>> torch.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
            tensor(1.5000)
        """

    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Median of the elements that are not nan.

        Args:
            input: a tensor.
            dim: the dimension to reduce; None takes the median of all elements.
            keepdim: keep the reduced dimension with size 1.

        Returns:
            A 0-d tensor, or with `dim` a named tuple (values, indices). nan if all are.

        Example:
            >>> torch.nanmedian(torch.tensor([3.0, float("nan"), 1.0]))
            tensor(1.)
        """

    def nanquantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear') -> Tensor:
        """Quantiles of the elements that are not nan.

        Args:
            input: a tensor of float32 or float64.
            q: one fraction in [0, 1], or a 1-d tensor of them.
            dim: the dimension to reduce; None takes all elements.
            keepdim: keep the reduced dimension with size 1.
            interpolation: between two elements: linear, lower, higher, midpoint or nearest.

        Returns:
            The quantiles; for a 1-d `q` they are the first dimension.

        Example:
            >>> torch.nanquantile(torch.tensor([0.0, float("nan"), 2.0]), 0.5)
            tensor(1.)
        """

    def nansum(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Sum with nan counted as zero.

        Args:
            input: a tensor.
            dim: the dimension or dimensions to sum; None sums all.
            keepdim: keep the summed dimensions with size 1.
            dtype: convert to this dtype first.

        Returns:
            The sum.

        Example:
            >>> torch.nansum(torch.tensor([1.0, float("nan"), 2.0]))
            tensor(3.)
        """

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """The part of a dimension from start on, `length` long."""

    def narrow_copy(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """A copy of a range of positions; `narrow` gives a view of it."""

    @property
    def nbytes(self) -> builtins.int:
        """Bytes of all elements."""

    @property
    def ndim(self) -> builtins.int:
        """The number of dimensions."""

    def ndimension(self) -> builtins.int:
        """The number of dimensions."""

    def ne(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a != b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def ne_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a != b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def neg(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise -x, where x is the operand, broadcast together.

        Gradient of x: -g
        """

    def neg_(self) -> Tensor:
        """Elementwise -x, in place, where x is the operand, broadcast together.

        Gradient of x: -g
        """

    def negative(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise -x, where x is the operand, broadcast together.

        Gradient of x: -g
        """

    def negative_(self) -> Tensor:
        """Elementwise -x, in place, where x is the operand, broadcast together.

        Gradient of x: -g
        """

    def nelement(self) -> builtins.int:
        """The number of elements."""

    def new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of the dtype of this one, on its device, as its class's constructor does.

        Args:
            args: sizes, or one tensor, storage or sequence of data.
            kwargs: `device`, of the same type as this tensor's.

        Returns:
            A new tensor; one of given sizes is not initialised. `new_empty` and `new_tensor` say
            which of both is meant.

        Example:
            >>> torch.tensor([1, 2]).new([3.5, 4])
            tensor([3, 4])
        """

    def new_empty(self, *size: Any, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """A tensor whose elements are not set, by default with this tensor's dtype.

        Args:
            size: ints, or one tuple of ints.
            dtype: the type of the elements; that of this tensor if not given.
            layout: strided, the only one.
            device: "cpu".
            requires_grad: whether gradients are wanted.

        Example:
            >>> torch.ones(1, dtype=torch.int64).new_empty(2).dtype
            torch.int64
        """

    def new_empty_strided(self, size: Any, stride: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """Elements that are not set, with given strides, by default with this tensor's dtype.

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
        """

    def new_full(self, size: Any, fill_value: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """The same value everywhere, by default with this tensor's dtype.

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
        """

    def new_ones(self, *size: Any, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """A tensor of ones, by default with this tensor's dtype.

        Args:
            size: ints, or one tuple of ints.
            dtype: the type of the elements; that of this tensor if not given.
            layout: strided, the only one.
            device: "cpu".
            requires_grad: whether gradients are wanted.

        Example:
            >>> torch.ones(1, dtype=torch.int64).new_ones(2)
            tensor([1, 1])
        """

    def new_tensor(self, data: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """A tensor with a copy of data, by default with this tensor's dtype.

        Args:
            data: a number, nested sequences of numbers, or an array.
            dtype: the type of the elements; that of this tensor if not given.
            layout: strided, the only one.
            device: "cpu".
            requires_grad: whether gradients are wanted.

        Example:
            >>> torch.ones(1).new_tensor([1, 2])
            tensor([1., 2.])
        """

    def new_zeros(self, *size: Any, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """A tensor of zeros, by default with this tensor's dtype.

        Args:
            size: ints, or one tuple of ints.
            dtype: the type of the elements; that of this tensor if not given.
            layout: strided, the only one.
            device: "cpu".
            requires_grad: whether gradients are wanted.

        Example:
            >>> torch.ones(1, dtype=torch.int64).new_zeros(2)
            tensor([0, 0])
        """

    def nextafter(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise nextafter(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(a == b, 0, g)
        Gradient of b: 0
        """

    def nextafter_(self, other: Tensor | Number) -> Tensor:
        """Elementwise nextafter(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: where(a == b, 0, g)
        Gradient of b: 0
        """

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
        """nonzero(self, *, as_tuple: bool = False, out: Tensor | None = None) -> object

        The indices of the elements that are not zero.

        Args:
            as_tuple: one vector of indices for each dimension instead of a matrix.

        Example:
            >>> torch.nonzero(torch.tensor([0, 7, 9]))
            tensor([[1],
                    [2]])
        """
    @overload
    def nonzero(self, *, as_tuple: Literal[True], out: None = None) -> tuple[Tensor, ...]: ...
    @overload
    def nonzero(self, *, as_tuple: builtins.bool, out: Tensor | None = None) -> Any: ...

    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1, out: Tensor | None = None) -> Tensor:
        """Return the indices of the first elements that are not zero, as many rows as asked for.

        Args:
            input: a tensor.
            size: the number of rows.
            fill_value: what rows hold for which there is no element.
            out: where to put the result.

        Returns:
            A matrix of int64 with one column for each dimension.

        Example:
            >>> torch.nonzero_static(torch.tensor([0, 7]), size=2)
            tensor([[ 1],
                    [-1]])
        """

    def norm(self, p: object | None = 'fro', dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, dtype: _dtype | None = None) -> Tensor:
        """See torch.norm."""

    def normal_(self, mean: Any = 0, std: Any = 1, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with normal random numbers.

        Args:
            mean: the mean.
            std: the standard deviation.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> torch.empty(2).normal_().shape
            torch.Size([2])
        """

    def not_equal(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise a != b, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def not_equal_(self, other: Tensor | Number) -> Tensor:
        """Elementwise a != b, in place, where a and b are the operands, broadcast together.

        Gradient of a: none
        Gradient of b: none
        """

    def numel(self) -> builtins.int:
        """The number of elements."""

    def numpy(self, *, force: builtins.bool = False) -> ndarray[Any, Any]:
        """A NumPy array over the tensor's memory: a write to one is seen in the other.

        Args:
            force: detach first, so that a tensor that requires grad is accepted too.

        Example:
            >>> torch.tensor([1, 2]).numpy().sum().item()
            3
        """

    def orgqr(self, input2: Tensor) -> Tensor:
        """Products of reflectors: another name of `torch.linalg.householder_product`.

        Args:
            input: matrices with the reflectors below the diagonal.
            input2: their scales.

        Returns:
            Matrices of the shape of `input`.

        Example:
            >>> torch.orgqr(*torch.geqrf(torch.tensor([[3.0], [4.0]])))
            tensor([[-0.6000],
                    [-0.8000]])
        """

    def ormqr(self, input2: Tensor, input3: Tensor, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Multiply matrices by the square unitary matrix that `geqrf` gave as reflectors.

        Args:
            input: matrices with the reflectors below the diagonal.
            input2: their scales.
            input3: the matrices to multiply.
            left: multiply from the left.
            transpose: multiply with the adjoint, which is the transpose if it is real.
            out: where to put the result.

        Returns:
            Matrices of the shape of `input3`.

        Example:
            >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
            >>> torch.ormqr(a, tau, torch.tensor([[3.0], [4.0]]), transpose=True)[0]
            tensor([-5.])
        """

    def outer(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The outer product of two vectors."""

    @property
    def output_nr(self) -> builtins.int:
        """Which output of its grad_fn the tensor is."""

    def permute(self, *args: Any) -> Tensor:
        """A view with the dimensions in another order."""

    def pin_memory(self, device: object | None = None) -> Tensor:
        """This tensor in page-locked memory, which a GPU copies from while the CPU goes on."""

    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """Pseudoinverses: `torch.linalg.pinv` by its older name.

        Args:
            input: matrices.
            rcond: singular values up to this part of the largest count as zero.

        Returns:
            The pseudoinverses.

        Example:
            >>> torch.pinverse(torch.tensor([[3.0], [4.0]]))
            tensor([[0.1200, 0.1600]])
        """

    def polygamma(self, n: builtins.int) -> Tensor:
        """The n-th derivative of digamma."""

    def polygamma_(self, n: builtins.int) -> Tensor:
        """`polygamma`, written into the tensor."""

    def positive(self) -> Tensor:
        """Return the tensor itself: what ``+input`` means.

        Args:
            input: a tensor of any dtype but bool.

        Returns:
            `input`.

        Example:
            >>> torch.positive(torch.tensor([-1]))
            tensor([-1])
        """

    def pow(self, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise pow(a, b), where a and b are the operands, broadcast together.

        Gradient of a: where(b == 0, 0, g * (b * pow(a, where(b == 0, 1, b) - 1)))
        Gradient of b: g * where((a == 0) & (b >= 0), 0, y * log(a))
        """

    def pow_(self, exponent: Tensor | Number) -> Tensor:
        """Elementwise pow(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: where(b == 0, 0, g * (b * pow(a, where(b == 0, 1, b) - 1)))
        Gradient of b: g * where((a == 0) & (b >= 0), 0, y * log(a))
        """

    def prelu(self, weight: Tensor) -> Tensor:
        """The elements, those below zero times a weight, as nn.functional.prelu."""

    @overload
    def prod(self, *, dtype: _dtype | None = None) -> Tensor:
        """The product of all elements, or over one dimension.

        Args:
            dim: the dimension; without it all elements are multiplied.
            keepdim: whether the reduced dimension stays, with size one.
            dtype: what elements are converted to first.

        Example:
            >>> torch.prod(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
            tensor([ 2., 12.])
        """
    @overload
    def prod(self, dim: builtins.int, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """A copy with elements written at indices into the flattened tensor.

        Args:
            index: int64.
            source: as many elements as `index` has.
            accumulate: whether they are added to what is there.

        Example:
            >>> torch.put(torch.zeros(2, 2), torch.tensor([3]), torch.tensor([9.]))
            tensor([[0., 0.],
                    [0., 9.]])
        """

    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """put, in place."""

    def qr(self, some: builtins.bool = True, *, out: Sequence[Tensor] | None = None) -> _return_types.qr:
        """Factor matrices into orthonormal columns and an upper triangle, as `torch.linalg.qr`.

        Args:
            input: matrices.
            some: reduced factors; complete ones if false.
            out: where to put the results.

        Returns:
            ``(Q, R)``.

        Example:
            >>> torch.qr(torch.tensor([[3.0], [4.0]])).R
            tensor([[-5.]])
        """

    def quantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear') -> Tensor:
        """Quantiles: the values below which the fractions `q` of the elements lie.

        Args:
            input: a tensor of float32 or float64.
            q: one fraction in [0, 1], or a 1-d tensor of them.
            dim: the dimension to reduce; None takes all elements.
            keepdim: keep the reduced dimension with size 1.
            interpolation: between two elements: linear, lower, higher, midpoint or nearest.

        Returns:
            The quantiles; for a 1-d `q` they are the first dimension.

        Example:
            >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
            tensor(1.5000)
        """

    def rad2deg(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x * 57.29577951308232, where x is the operand, broadcast together.

        Gradient of x: g * 57.29577951308232
        """

    def rad2deg_(self) -> Tensor:
        """Elementwise x * 57.29577951308232, in place, where x is the operand, broadcast together.

        Gradient of x: g * 57.29577951308232
        """

    def random_(self, from_: Any = 0, to: Any = None, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with random integers from `from` up to but without `to`.

        Args:
            from: the smallest. A single argument is `to`.
            to: one more than the largest; the largest the dtype can count to if not given.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> x = torch.empty(100).random_(3, 5)
            >>> sorted(set(x.tolist()))
            [3.0, 4.0]
        """

    def ravel(self) -> Tensor:
        """All elements in one dimension, contiguous: a view where that is possible, else a copy."""

    @property
    def real(self) -> Tensor:
        """The real parts, over the same memory."""

    def reciprocal(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise 1 / x, where x is the operand, broadcast together.

        Gradient of x: -g * y * y
        """

    def reciprocal_(self) -> Tensor:
        """Elementwise 1 / x, in place, where x is the operand, broadcast together.

        Gradient of x: -g * y * y
        """

    def record_stream(self, stream: object) -> None:
        """Tells that a stream other than the tensor's own uses it: its memory is not used again before that stream is done with what it has now."""

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call a function with this tensor's gradient each time it is computed.

        What the function returns, if not None, takes the gradient's place. It must not change its
        argument.

        Args:
            hook: called as ``hook(grad)``.

        Returns:
            A handle whose ``remove()`` removes the hook.

        Example:
            >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
            >>> handle = x.register_hook(lambda grad: grad * 2)
            >>> x.sum().backward()
            >>> x.grad
            tensor([2., 2.])
        """

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call a function with this leaf after its ``.grad`` has been added to.

        Args:
            hook: called as ``hook(leaf)``; returns nothing.

        Returns:
            A handle whose ``remove()`` removes the hook.

        Example:
            >>> x = torch.tensor(1.0, requires_grad=True)
            >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
            >>> (3 * x).backward()
            tensor(3.)
        """

    def relu(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(x <= 0, 0, x), where x is the operand, broadcast together.

        Gradient of x: where(y <= 0, 0, g)
        """

    def relu_(self) -> Tensor:
        """Elementwise where(x <= 0, 0, x), in place, where x is the operand, broadcast together.

        Gradient of x: where(y <= 0, 0, g)
        """

    def remainder(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise remainder(a, b), where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g * floor_divide(a, b)
        """

    def remainder_(self, other: Tensor | Number) -> Tensor:
        """Elementwise remainder(a, b), in place, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g * floor_divide(a, b)
        """

    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None) -> Tensor:
        """Scale the slices along a dimension down to a norm, where theirs is larger.

        Args:
            input: a tensor of a floating dtype with at least two dimensions.
            p: the order of the norm, above 0.
            dim: the dimension that counts the slices.
            maxnorm: the largest norm that a slice keeps.
            out: where to put the result.

        Returns:
            A tensor of the shape of `input`.

        Example:
            >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
            tensor([[0.6000, 0.8000],
                    [0.3000, 0.4000]])
        """

    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """`renorm`, written into the tensor."""

    def repeat(self, *args: Any) -> Tensor:
        """Copies of the whole tensor along every dimension.

        Args:
            repeats: how often, for each dimension; more numbers than dimensions add leading ones.

        Example:
            >>> torch.tensor([1, 2]).repeat(2, 2)
            tensor([[1, 2, 1, 2],
                    [1, 2, 1, 2]])
        """

    @overload
    def repeat_interleave(self, repeats: builtins.int, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
        """Repeats every element, or slice, in its place.

        Args:
            repeats: how often: one number, or a tensor with one for each.
            dim: the dimension; None repeats the elements of the flattened tensor.
            output_size: the length of the result along `dim`, checked.

        Example:
            >>> torch.repeat_interleave(torch.tensor([7, 8]), torch.tensor([1, 2]))
            tensor([7, 8, 8])
        """
    @overload
    def repeat_interleave(self, repeats: Tensor, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor: ...

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether gradients are wanted."""
    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None: ...

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Changes whether gradients are wanted, in place."""

    def reshape(self, *shape: Any) -> Tensor:
        """Another shape: a view where that is possible, else a copy."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """The shape of `other`."""

    def resize_(self, *size: Any, memory_format: object | None = None) -> Tensor:
        """Changes the shape; new elements are undefined."""

    def resize_as_(self, the_template: Tensor, *, memory_format: object | None = None) -> Tensor:
        """Changes the shape to that of another tensor; new elements are undefined."""

    def resolve_conj(self) -> Tensor:
        """The tensor itself: conjugates are computed at once, never put off."""

    def resolve_neg(self) -> Tensor:
        """The tensor itself: negation is computed at once, never put off."""

    def retain_grad(self) -> None:
        """Makes a non-leaf tensor keep its gradient in .grad."""

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether retain_grad() was called."""

    def roll(self, shifts: builtins.int | Sequence[builtins.int], dims: object | None = None) -> Tensor:
        """Moves elements along dimensions; what falls off at one end comes back at the other.

        Args:
            shifts: by how many places, one number for each of `dims`.
            dims: the dimensions; None rolls the flattened tensor.

        Example:
            >>> torch.roll(torch.tensor([1, 2, 3]), 1)
            tensor([3, 1, 2])
        """

    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
        """Rotate by 90 degrees in the plane of two dimensions, from the first towards the second.

        Args:
            input: a tensor of at least two dimensions.
            k: how many times to rotate; negative rotates the other way.
            dims: the two dimensions of the plane.

        Returns:
            The rotated copy.

        Example:
            >>> torch.rot90(torch.tensor([[0, 1], [2, 3]]))
            tensor([[1, 3],
                    [0, 2]])
        """

    def round(self, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
        """The nearest integer, halves to even; or the nearest multiple of 10**-decimals."""

    def round_(self, *, decimals: builtins.int = 0) -> Tensor:
        """round() in place."""

    def row_indices(self) -> Tensor:
        """`row_indices` of a sparse tensor; a dense one has none."""

    def rsqrt(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise rsqrt(x), where x is the operand, broadcast together.

        Gradient of x: -0.5 * g * y * y * y
        """

    def rsqrt_(self) -> Tensor:
        """Elementwise rsqrt(x), in place, where x is the operand, broadcast together.

        Gradient of x: -0.5 * g * y * y * y
        """

    def rsub(self, other: Any, *, alpha: builtins.complex = 1) -> Tensor:
        """Subtract the other way round: ``other - alpha * input``.

        Args:
            input: the tensor to subtract.
            other: what to subtract from, a tensor or a number.
            alpha: factor of `input`.

        Returns:
            The difference.

        Example:
            >>> torch.rsub(torch.tensor([1, 2]), 10)
            tensor([9, 8])
        """

    @overload
    def scatter(self, dim: builtins.int, index: Tensor, src: object, *, reduce: str | None = None, out: Tensor | None = None) -> Tensor:
        """A copy with elements written along a dimension, one for each element of an index tensor.

        Args:
            dim: the dimension along which the index counts.
            index: int64 or int32, of the tensor's rank.
            src: the elements, a tensor at least as large as the index, or one number (`value`).
            reduce: "add" or "multiply" combine with what is there instead of replacing it.

        Example:
            >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), 5.)
            tensor([[0., 5.],
                    [5., 0.]])
        """
    @overload
    def scatter(self, dim: builtins.int, index: Tensor, value: object, *, reduce: str | None = None, out: Tensor | None = None) -> Tensor: ...

    @overload
    def scatter_(self, dim: builtins.int, index: Tensor, src: object, *, reduce: str | None = None) -> Tensor:
        """scatter, in place."""
    @overload
    def scatter_(self, dim: builtins.int, index: Tensor, value: object, *, reduce: str | None = None) -> Tensor: ...

    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
        """A copy with elements added along a dimension, one for each element of an index tensor.

        Args:
            dim: the dimension along which the index counts.
            index: int64 or int32; places that repeat add up in order.
            src: the elements.

        Example:
            >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.ones(3))
            tensor([2., 0., 1.])
        """

    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """scatter_add, in place."""

    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
        """A copy in which elements that meet at one place are reduced to one.

        Args:
            dim: the dimension along which the index counts.
            index: int64 or int32.
            src: the elements.
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: whether the element that was there takes part.

        Example:
            >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0]), torch.tensor([1., 4.]), "amax")
            tensor([4., 0.])
        """

    def scatter_reduce_(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True) -> Tensor:
        """scatter_reduce, in place."""

    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """The slice at `index`, without that dimension."""

    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """Copy a tensor, with other elements in the slice at one index.

        Args:
            input: a tensor of at least one dimension.
            src: the elements, of the shape of ``input.select(dim, index)``.
            dim: the dimension of the slice.
            index: where the slice lies.

        Returns:
            A tensor of the shape and dtype of `input`.

        Example:
            >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
            tensor([[0., 0.],
                    [1., 1.]])
        """

    def selu(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise 1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x)), where x is the operand, broadcast together.

        Gradient of x: g * 1.0507009873554805 * where(x > 0, 1, 1.6732632423543772 * exp(x))
        """

    def selu_(self) -> Tensor:
        """Elementwise 1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x)), in place, where x is the operand, broadcast together.

        Gradient of x: g * 1.0507009873554805 * where(x > 0, 1, 1.6732632423543772 * exp(x))
        """

    def set_(self, source: Tensor) -> Tensor:
        """Makes this tensor show the memory of source."""

    def sgn(self, *, out: Tensor | None = None) -> Tensor:
        """Numbers of the same angle and magnitude one, zero for zero; the sign of real ones.

        Example:
            >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
            tensor([0.6000+0.8000j, 0.0000+0.0000j])
        """

    def sgn_(self) -> Tensor:
        """sgn() in place."""

    @property
    def shape(self) -> Size:
        """The sizes, as a Size."""

    def share_memory_(self) -> Tensor:
        """Move the memory to where processes share it: what one writes, all see.

        Forked processes have it from the start; to others the tensor is sent as an argument of
        `torch.multiprocessing.Process` or through a queue, without a copy. No other tensor may show
        the memory: it would not move with this one.

        Example:
            >>> x = torch.zeros(2).share_memory_()
            >>> x.is_shared()
            True
        """

    def short(self, *, memory_format: object | None = None) -> Tensor:
        """Casts the tensor."""

    def sigmoid(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise sigmoid(x), where x is the operand, broadcast together.

        Gradient of x: g * (1 - y) * y
        """

    def sigmoid_(self) -> Tensor:
        """Elementwise sigmoid(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * (1 - y) * y
        """

    def sign(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise sign(x), where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def sign_(self) -> Tensor:
        """Elementwise sign(x), in place, where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def signbit(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise copysign(1, x) < 0, where x is the operand, broadcast together.

        Gradient of x: none
        """

    def sin(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise sin(x), where x is the operand, broadcast together.

        Gradient of x: g * cos(x)
        """

    def sin_(self) -> Tensor:
        """Elementwise sin(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * cos(x)
        """

    def sinc(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise sinc(x), where x is the operand, broadcast together.

        Gradient of x: where(x == 0, 0, g * (cos(3.141592653589793 * x) - sinc(x)) / where(x == 0, 1, x))
        """

    def sinc_(self) -> Tensor:
        """Elementwise sinc(x), in place, where x is the operand, broadcast together.

        Gradient of x: where(x == 0, 0, g * (cos(3.141592653589793 * x) - sinc(x)) / where(x == 0, 1, x))
        """

    def sinh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise sinh(x), where x is the operand, broadcast together.

        Gradient of x: g * cosh(x)
        """

    def sinh_(self) -> Tensor:
        """Elementwise sinh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * cosh(x)
        """

    @overload
    def size(self, dim: None = None) -> Size:
        """size(self, dim: int | None = None) -> object

        The sizes, or the size of one dimension.
        """
    @overload
    def size(self, dim: builtins.int) -> builtins.int: ...

    def slice_scatter(self, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1) -> Tensor:
        """Copy a tensor, with other elements in a range of positions.

        Args:
            input: a tensor of at least one dimension.
            src: the elements, of the shape of the slice.
            dim: the dimension of the slice.
            start: its first position; the beginning if left out.
            end: the position behind it; the end if left out.
            step: the distance of its positions.

        Returns:
            A tensor of the shape and dtype of `input`.

        Example:
            >>> torch.slice_scatter(torch.zeros(4), torch.ones(2), step=2, end=4)
            tensor([1., 0., 1., 0.])
        """

    def slogdet(self, *, out: Sequence[Tensor] | None = None) -> _return_types.slogdet:
        """Return signs and logarithms of determinants: `torch.linalg.slogdet` by its older name.

        Args:
            input: square matrices.
            out: where to put the results.

        Returns:
            ``(sign, logabsdet)``.

        Example:
            >>> torch.slogdet(torch.eye(2)).logabsdet
            tensor(0.)
        """

    def smm(self, mat2: Tensor) -> Tensor:
        """Return the product of a sparse matrix with this one: see `torch.smm`."""

    def softmax(self, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
        """Exponentials, scaled so that they add up to one along a dimension.

        Args:
            dim: the dimension.
            dtype: what elements are converted to first.

        Example:
            >>> torch.softmax(torch.tensor([0., 0.]), dim=0)
            tensor([0.5000, 0.5000])
        """

    @overload
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool | None = None, out: tuple[Tensor, Tensor] | None = None) -> _return_types.sort:
        """The elements along a dimension in order, and where they were. NaN counts as greatest.

        Args:
            dim: the dimension.
            descending: the greatest first.
            stable: accepted; equal elements keep their order in any case.

        Example:
            >>> torch.sort(torch.tensor([3, 1, 2])).indices
            tensor([1, 2, 0])
        """
    @overload
    def sort(self, axis: builtins.int, descending: builtins.bool = False, *, stable: builtins.bool | None = None, out: tuple[Tensor, Tensor] | None = None) -> _return_types.sort: ...

    def sparse_dim(self) -> builtins.int:
        """Return the number of sparse dimensions: none."""

    def sparse_mask(self, mask: Tensor) -> Tensor:
        """Return the elements at the places of a sparse tensor, as one."""

    def sparse_resize_(self, size: Sequence[builtins.int], sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor:
        """`sparse_resize_` of a sparse tensor; a dense one has none."""

    def sparse_resize_and_clear_(self, size: Sequence[builtins.int], sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor:
        """`sparse_resize_and_clear_` of a sparse tensor; a dense one has none."""

    def split(self, split_size: object, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Parts of a given size, or of the sizes in a list, as views."""

    def split_with_sizes(self, split_size: object, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Parts of a given size, or of the sizes in a list, as views."""

    def sqrt(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise sqrt(x), where x is the operand, broadcast together.

        Gradient of x: g / (2 * y)
        """

    def sqrt_(self) -> Tensor:
        """Elementwise sqrt(x), in place, where x is the operand, broadcast together.

        Gradient of x: g / (2 * y)
        """

    def square(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise x * x, where x is the operand, broadcast together.

        Gradient of x: 2 * g * x
        """

    def square_(self) -> Tensor:
        """Elementwise x * x, in place, where x is the operand, broadcast together.

        Gradient of x: 2 * g * x
        """

    @overload
    def squeeze(self) -> Tensor:
        """Drops all dimensions of size one."""
    @overload
    def squeeze(self, dim: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Drops the given dimensions where they have size one."""

    @overload
    def squeeze_(self) -> Tensor:
        """squeeze() in place."""
    @overload
    def squeeze_(self, dim: builtins.int | Sequence[builtins.int]) -> Tensor:
        """squeeze() in place."""

    def std(self, dim: object | None = None, unbiased: object | None = None, keepdim: builtins.bool = False, *, correction: object | None = None, out: Tensor | None = None) -> Tensor:
        """The standard deviation over all or some dimensions.

        Args:
            dim: one dimension, several, or None for all.
            unbiased: True stands for correction=1, False for correction=0.
            keepdim: whether reduced dimensions stay, with size one.
            correction: what is taken from the number of elements in the divisor, 1 by default.

        Example:
            >>> torch.std(torch.tensor([1., 3., 5.]))
            tensor(2.)
        """

    def stft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, pad_mode: str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:
        """The short-time Fourier transform: that of overlapping frames of a signal.

        Args:
            input: a signal, or a batch of them.
            n_fft: the length of a frame.
            hop_length: the distance between frames; by default a quarter of n_fft.
            win_length: the length of the window, which is put in the middle of the frame; by default
                n_fft.
            window: what frames are multiplied with; by default ones.
            center: whether the signal is padded on both sides, so that frame t is centered at
                t * hop_length.
            pad_mode: with what, as of `torch.nn.functional.pad`.
            normalized: whether the result is divided by the root of n_fft.
            onesided: whether only the first half of each spectrum is returned: the others are its
                conjugates. By default if signal and window are real.
            return_complex: whether the result is complex. Of real signals it has to be said; False,
                which is deprecated, gives real and imaginary parts in a last dimension.
            align_to_window: without `center`, whether the first frame begins with the window, not with
                the zeros around it.

        Returns:
            A tensor of shape ``(batch, frequencies, frames)``, without a batch where there was none.

        Example:
            >>> signal = torch.sin(torch.arange(16) * (torch.pi / 2))
            >>> spectra = torch.stft(signal, 4, window=torch.hann_window(4), return_complex=True)
            >>> spectra.shape, spectra.abs().mean(1)
            (torch.Size([3, 17]), tensor([0.5294, 0.9412, 0.5294]))
        """

    def storage(self) -> TypedStorage:
        """Return the memory under a tensor as elements of its dtype; `untyped_storage` has the bytes.

        Example:
            >>> torch.tensor([1.0, 2.0]).storage().tolist()
            [1.0, 2.0]
        """

    def storage_offset(self) -> builtins.int:
        """Where in its storage the first element lies."""

    def storage_type(self) -> Any:
        """Return the class of the storage of a tensor, such as `torch.FloatStorage`.

        Example:
            >>> torch.ones(2).storage_type()
            <class 'torch.FloatStorage'>
        """

    @overload
    def stride(self, dim: None = None) -> tuple[builtins.int, ...]:
        """stride(self, dim: int | None = None) -> object

        The strides in elements, or the stride of one dimension.
        """
    @overload
    def stride(self, dim: builtins.int) -> builtins.int: ...

    def sub(self, other: Tensor | Number, *, out: Tensor | None = None, alpha: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a - b, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g
        """

    def sub_(self, other: Tensor | Number, *, alpha: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a - b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g
        """

    def subtract(self, other: Tensor | Number, *, out: Tensor | None = None, alpha: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a - b, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g
        """

    def subtract_(self, other: Tensor | Number, *, alpha: Number | builtins.complex = 1) -> Tensor:
        """Elementwise a - b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g
        Gradient of b: -g
        """

    @overload
    def sum(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """The sum over all or some dimensions. Integers and bools add up as int64.

        Args:
            dim: one dimension, several, or None for all.
            keepdim: whether reduced dimensions stay, with size one.
            dtype: what elements are converted to first.

        Example:
            >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=0)
            tensor([4., 6.])
        """
    @overload
    def sum(self, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

    def sum_to_size(self, *args: Any) -> Tensor:
        """The sum over the dimensions that were broadcast, so that the result has the given size.

        Args:
            size: a shape that broadcasts to the tensor's.

        Example:
            >>> torch.ones(2, 3).sum_to_size(1, 3)
            tensor([[2., 2., 2.]])
        """

    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: Sequence[Tensor] | None = None) -> _return_types.svd:
        """Singular values and vectors: `torch.linalg.svd` by its older name, with V in place of Vh.

        Args:
            input: matrices.
            some: reduced matrices; complete ones if false.
            compute_uv: without, U and V are zeros.
            out: where to put the results.

        Returns:
            ``(U, S, V)``.

        Example:
            >>> torch.svd(torch.tensor([[3.0, 0.0], [0.0, -4.0]])).S
            tensor([4., 3.])
        """

    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """A view with two dimensions swapped."""

    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """`swapaxes`, in place."""

    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """A view with two dimensions swapped."""

    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """transpose() in place."""

    def t(self) -> Tensor:
        """The transpose of a matrix."""

    def t_(self) -> Tensor:
        """t() in place."""

    def take(self, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Elements at indices into the flattened tensor.

        Args:
            index: int64; the result has its shape.

        Example:
            >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
            tensor([1, 4])
        """

    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
        """As gather, with broadcasting and negative indices: undoes argsort and argmax.

        Args:
            indices: int64.
            dim: the dimension; None takes from the flattened tensor.

        Example:
            >>> x = torch.tensor([[3, 1], [2, 5]])
            >>> torch.take_along_dim(x, x.argsort(dim=1), dim=1)
            tensor([[1, 3],
                    [2, 5]])
        """

    def tan(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise tan(x), where x is the operand, broadcast together.

        Gradient of x: g * (1 + y * y)
        """

    def tan_(self) -> Tensor:
        """Elementwise tan(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * (1 + y * y)
        """

    def tanh(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise tanh(x), where x is the operand, broadcast together.

        Gradient of x: g * (1 - y * y)
        """

    def tanh_(self) -> Tensor:
        """Elementwise tanh(x), in place, where x is the operand, broadcast together.

        Gradient of x: g * (1 - y * y)
        """

    def tensor_split(self, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None, dim: builtins.int = 0, *, indices: Sequence[builtins.int] | None = None, sections: builtins.int | None = None) -> tuple[Tensor, ...]:
        """Split into views, at given indices or into parts that differ by at most one in size.

        Args:
            input: a tensor of at least one dimension.
            indices_or_sections: the number of parts, or the indices at which to cut.
            dim: the dimension to split.
            indices: the indices, as a keyword.
            sections: the number of parts, as a keyword.

        Returns:
            The parts.

        Example:
            >>> torch.tensor_split(torch.arange(5), 2)
            (tensor([0, 1, 2]), tensor([3, 4]))
            >>> torch.tensor_split(torch.arange(5), (1, 4))
            (tensor([0]), tensor([1, 2, 3]), tensor([4]))
        """

    def tile(self, *args: Any) -> Tensor:
        """Copies of the whole tensor, as repeat; missing leading repeats are ones.

        Args:
            dims: how often, for each of the last dimensions.

        Example:
            >>> torch.tile(torch.tensor([1, 2]), (2,))
            tensor([1, 2, 1, 2])
        """

    @overload
    def to(self, dtype: _dtype, non_blocking: builtins.bool = False, copy: builtins.bool = False, *, memory_format: _memory_format | None = None) -> Tensor:
        """to(self, *args, **kwargs) -> Tensor

        Another dtype or device: to(dtype), to(device), to(device, dtype), to(other).
        """
    @overload
    def to(self, device: Device = None, dtype: _dtype | None = None, non_blocking: builtins.bool = False, copy: builtins.bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...
    @overload
    def to(self, other: Tensor, non_blocking: builtins.bool = False, copy: builtins.bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...

    def to_dense(self, dtype: Any = None, *, masked_grad: builtins.bool | None = None) -> Tensor:
        """Return the tensor itself, or in another dtype: it is dense already."""

    def to_sparse(self, sparse_dim: builtins.int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: builtins.int | None = None) -> Tensor:
        """Return the elements that are not zero as a sparse tensor.

        Args:
            sparse_dim: how many dimensions are sparse, from the first on; all if None.
            layout: `torch.sparse_coo`, `torch.sparse_csr` or `torch.sparse_csc`; the first if None.
            blocksize: refused.
            dense_dim: how many dimensions are dense, the last ones.

        Example:
            >>> torch.tensor([[0, 3], [4, 0]]).to_sparse().indices()
            tensor([[0, 1],
                    [1, 0]])
        """

    def to_sparse_coo(self) -> Tensor:
        """Return the elements that are not zero as a sparse tensor of layout sparse_coo."""

    def to_sparse_csc(self, dense_dim: builtins.int | None = None) -> Tensor:
        """Return the elements of a matrix that are not zero, column by column."""

    def to_sparse_csr(self, dense_dim: builtins.int | None = None) -> Tensor:
        """Return the elements of a matrix that are not zero, row by row."""

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a tensor without dimensions.

        Example:
            >>> torch.tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """

    def topk(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.topk:
        """The k greatest elements along a dimension, and where they were.

        Args:
            k: how many.
            dim: the dimension.
            largest: False asks for the smallest.
            sorted: whether they come in order.

        Example:
            >>> torch.topk(torch.tensor([3, 9, 5]), 2).values
            tensor([9, 5])
        """

    def trace(self) -> Tensor:
        """Sum the diagonal of a matrix.

        Args:
            input: a matrix.

        Returns:
            A 0-d tensor.

        Example:
            >>> torch.trace(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
            tensor(5.)
        """

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """A view with two dimensions swapped."""

    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """transpose() in place."""

    def triangular_solve(self, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False, *, out: Sequence[Tensor] | None = None) -> _return_types.triangular_solve:
        """Solve ``A @ X = B`` for triangles: `torch.linalg.solve_triangular` by its older name.

        Args:
            input: right-hand sides, as columns.
            A: square matrices, of which one triangle is read.
            upper: which triangle.
            transpose: solve with the transpose.
            unitriangular: take the diagonal for ones.
            out: where to put the results.

        Returns:
            ``(solution, cloned_coefficient)``.

        Example:
            >>> torch.triangular_solve(torch.tensor([[4.0]]), torch.tensor([[2.0]])).solution
            tensor([[2.]])
        """

    def tril(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
        """The lower triangle of matrices, zero elsewhere.

        Args:
            diagonal: the last diagonal that is kept: 0 the main one, above 0 above it.

        Example:
            >>> torch.tril(torch.ones(2, 2))
            tensor([[1., 0.],
                    [1., 1.]])
        """

    def tril_(self, diagonal: builtins.int = 0) -> Tensor:
        """tril, in place."""

    def triu(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
        """The upper triangle of matrices, zero elsewhere.

        Args:
            diagonal: the first diagonal that is kept: 0 the main one, above 0 above it.

        Example:
            >>> torch.triu(torch.ones(2, 2))
            tensor([[1., 1.],
                    [0., 1.]])
        """

    def triu_(self, diagonal: builtins.int = 0) -> Tensor:
        """triu, in place."""

    def true_divide(self, other: Tensor | Number, *, out: Tensor | None = None, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
        """Elementwise a / b, where a and b are the operands, broadcast together.

        Gradient of a: g / b
        Gradient of b: -g * (a / b) / b
        """

    def true_divide_(self, other: Tensor | Number, *, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
        """Elementwise a / b, in place, where a and b are the operands, broadcast together.

        Gradient of a: g / b
        Gradient of b: -g * (a / b) / b
        """

    def trunc(self, *, out: Tensor | None = None) -> Tensor:
        """Elementwise trunc(x), where x is the operand, broadcast together.

        Gradient of x: 0
        """

    def trunc_(self) -> Tensor:
        """Elementwise trunc(x), in place, where x is the operand, broadcast together.

        Gradient of x: 0
        """

    @overload
    def type(self, dtype: None = None, non_blocking: builtins.bool = False, *, memory_format: _memory_format | None = None) -> str:
        """type(self, dtype: object | None = None, non_blocking: bool = False, *, memory_format: object | None = None) -> object

        Another dtype, given as such or by the name of a tensor type; that name if none is given.
        """
    @overload
    def type(self, dtype: _dtype | str | builtins.type[Any], non_blocking: builtins.bool = False, *, memory_format: _memory_format | None = None) -> Tensor: ...

    def type_as(self, other: Tensor) -> Tensor:
        """The dtype of `other`."""

    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """All slices along a dimension, as a tuple."""

    def unflatten(self, dim: builtins.int, sizes: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Splits one dimension into several."""

    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """All windows of `size` along a dimension, as a new last dimension."""

    def uniform_(self, from_: Any = 0, to: Any = 1, *, generator: Generator | None = None) -> Tensor:
        """Fills the tensor with random numbers, uniform on [from, to).

        Args:
            from: the lower end.
            to: the upper end.
            generator: where the numbers come from; the default generator if not given.

        Example:
            >>> x = torch.empty(1000).uniform_(2, 3)
            >>> bool(((x >= 2) & (x < 3)).all())
            True
        """

    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
        """unique(self, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> object

        The distinct elements in ascending order.

        Args:
            sorted: accepted; the result is sorted in any case.
            return_inverse: also return, for each element, the number of its value.
            return_counts: also return how often each value occurs.
            dim: the dimension whose slices are compared; None compares elements.

        Example:
            >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
            (tensor([1, 3]), tensor([1, 2]))
        """
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(self, sorted: builtins.bool = True, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(self, sorted: builtins.bool, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique(self, sorted: builtins.bool, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(self, sorted: builtins.bool, return_inverse: Literal[False], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = None) -> Any: ...

    @overload
    def unique_consecutive(self, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
        """Keep the first of every run of equal neighbours.

        Args:
            input: a tensor.
            return_inverse: also return the run that each element belongs to.
            return_counts: also return the length of each run.
            dim: the dimension whose slices to compare; None compares all elements in order.

        Returns:
            The kept elements, followed by what else was asked for.

        Example:
            >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 2, 2, 1]), return_counts=True)
            (tensor([1, 2, 1]), tensor([2, 3, 1]))
        """
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(self, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(self, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
    @overload
    def unique_consecutive(self, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(self, return_inverse: Literal[False], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def unique_consecutive(self, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = None) -> Any: ...

    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` parts of equal size."""

    def unsafe_split(self, split_size: object, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Parts of a given size, or of the sizes in a list, as views."""

    def unsafe_split_with_sizes(self, split_size: object, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Parts of a given size, or of the sizes in a list, as views."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """Inserts a dimension of size one."""

    def unsqueeze_(self, dim: builtins.int) -> Tensor:
        """unsqueeze() in place."""

    def untyped_storage(self) -> UntypedStorage:
        """The bytes under the tensor, which its views share."""

    def values(self) -> Tensor:
        """`values` of a sparse tensor; a dense one has none."""

    def var(self, dim: object | None = None, unbiased: object | None = None, keepdim: builtins.bool = False, *, correction: object | None = None, out: Tensor | None = None) -> Tensor:
        """The variance over all or some dimensions.

        Args:
            dim: one dimension, several, or None for all.
            unbiased: True stands for correction=1, False for correction=0.
            keepdim: whether reduced dimensions stay, with size one.
            correction: what is taken from the number of elements in the divisor, 1 by default.

        Example:
            >>> torch.var(torch.tensor([1., 2., 3.]))
            tensor(1.)
        """

    def vdot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The inner product of two vectors, of which the first is conjugated."""

    def view(self, *shape: Any) -> Tensor:
        """A view of another shape; -1 stands for what is left. Given a dtype, the same bytes as elements of that
        dtype: where they are larger or smaller, the last dimension is shorter or longer.

        Example:
            >>> torch.arange(6).view(2, -1)
            tensor([[0, 1, 2],
                    [3, 4, 5]])
        """

    def view_as(self, other: Tensor) -> Tensor:
        """A view with the shape of `other`."""

    def vsplit(self, *indices_or_sections: Any, indices: Sequence[builtins.int] | None = None, sections: builtins.int | None = None) -> tuple[Tensor, ...]:
        """Split into groups of rows: along the first dimension.

        Args:
            input: a tensor of at least two dimensions.
            *indices_or_sections: the number of equal parts, or the indices at which to cut.
            indices: the indices, as a keyword.
            sections: the number of parts, as a keyword.

        Returns:
            The parts, as views.

        Example:
            >>> torch.vsplit(torch.tensor([[1, 2], [3, 4]]), 2)
            (tensor([[1, 2]]), tensor([[3, 4]]))
        """

    def where(self, condition: Tensor, other: object) -> Tensor:
        """Elements of self where condition holds, of other elsewhere."""

    def xlogy(self, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        """Elementwise where(b != b, b, where(a == 0, 0, a * log(b))), where a and b are the operands, broadcast together.

        Gradient of a: where((a == 0) & (b <= 0), 0, g * log(where((a == 0) & (b <= 0), 1, b)))
        Gradient of b: g * a / b
        """

    def xlogy_(self, other: Tensor | Number) -> Tensor:
        """Elementwise where(b != b, b, where(a == 0, 0, a * log(b))), in place, where a and b are the operands, broadcast together.

        Gradient of a: where((a == 0) & (b <= 0), 0, g * log(where((a == 0) & (b <= 0), 1, b)))
        Gradient of b: g * a / b
        """

    def zero_(self) -> Tensor:
        """Writes zeros."""

class UntypedStorage:
    """The bytes under a tensor."""

    def __copy__(self) -> UntypedStorage: ...

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage: ...

    def __getitem__(self, index: Any) -> Any: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __iter__(self) -> Any: ...

    def __len__(self) -> builtins.int: ...

    def __repr__(self) -> str: ...

    def __setitem__(self, index: Any, value: builtins.int) -> None: ...

    def _address(self) -> builtins.int:
        """The same, to read the bytes at once, or to write them for the first time."""

    def _elements(self, dtype: _dtype) -> Tensor:
        """All bytes as the elements of a tensor over them."""

    def _is_same(self, other: UntypedStorage) -> builtins.bool:
        """Whether another object stands for the same bytes."""

    @classmethod
    def _new_shared(cls, *args: Any, **kwargs: Any) -> Any: ...

    def bfloat16(self, word: Any = 'BFloat16') -> Any: ...

    def bool(self, word: Any = 'Bool') -> Any: ...

    def byte(self, word: Any = 'Byte') -> Any: ...

    def char(self, word: Any = 'Char') -> Any: ...

    def clone(self) -> Any: ...

    def copy_(self, source: Any, non_blocking: builtins.bool = False) -> UntypedStorage:
        """Copy the bytes of another storage of the same size."""

    def cpu(self) -> UntypedStorage:
        """The bytes in memory of the CPU: these, or a copy."""

    def cuda(self, device: object | None = None, non_blocking: builtins.bool = False) -> UntypedStorage:
        """The bytes on a GPU, the current one if none is given: these, or a copy."""

    def data_ptr(self) -> builtins.int:
        """The address of the first byte."""

    @property
    def device(self) -> _device:
        """Where the bytes are."""

    def double(self, word: Any = 'Double') -> Any: ...

    def element_size(self) -> builtins.int: ...

    def fill_(self, value: builtins.int) -> UntypedStorage:
        """Set every byte."""

    def float(self, word: Any = 'Float') -> Any: ...

    @staticmethod
    def from_buffer(buffer: Any, byte_order: str = 'native', *, count: builtins.int = -1, offset: builtins.int = 0, dtype: Any = None) -> UntypedStorage: ...

    @staticmethod
    def from_file(filename: Any, shared: builtins.bool = False, nbytes: builtins.int = 0) -> UntypedStorage:
        """Return the bytes of a file, which are read when they are used.

        Args:
            filename: the file.
            shared: whether what is written goes to the file, which is made or made longer.
            nbytes: how many bytes.
        """

    def get_device(self) -> builtins.int | None:
        """Return the number of the device; None for the CPU."""

    def half(self, word: Any = 'Half') -> Any: ...

    def int(self, word: Any = 'Int') -> Any: ...

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the bytes are on a GPU."""

    def is_shared(self) -> builtins.bool:
        """Return whether other processes see the memory; that of a GPU counts as such."""

    def long(self, word: Any = 'Long') -> Any: ...

    def nbytes(self) -> builtins.int:
        """How many bytes there are."""

    def new(self) -> Any: ...

    def resize_(self, size: builtins.int) -> UntypedStorage:
        """Refuse: what lies in a storage of another size is a new tensor here."""

    def share_memory_(self) -> Any:
        """Return memory that is shared already; refuse to move it away from under its tensors."""

    def short(self, word: Any = 'Short') -> Any: ...

    def size(self) -> builtins.int:
        """How many bytes there are."""

    def to(self, device: object, non_blocking: builtins.bool = False) -> UntypedStorage:
        """The bytes on a device: these, or a copy."""

    def tolist(self) -> Any: ...

    def untyped(self) -> Any: ...

class _CodingPolicy:
    """How saved values are coded."""

    def __init__(self, codec: str, min_bytes: builtins.int, block8: builtins.int, block4: builtins.int, inputs: builtins.bool, ops: Sequence[tuple[str, str]]) -> None: ...

    @property
    def codec(self) -> str: ...
    @codec.setter
    def codec(self, value: str) -> None: ...

    def counts(self) -> dict[Any, Any]:
        """{codec: (values, bytes)} of what was saved."""

    @property
    def full_bytes(self) -> builtins.int: ...

    @property
    def saved_bytes(self) -> builtins.int: ...

class _CudaEvent:
    """A place in a stream."""

    def __init__(self, enable_timing: builtins.bool = False, blocking: builtins.bool = False) -> None: ...

    @property
    def cuda_event(self) -> builtins.int:
        """The driver's handle; 0 before it is recorded."""

    @property
    def device_index(self) -> builtins.int:
        """The device; -1 before it is recorded."""

    def elapsed_time(self, end_event: _CudaEvent) -> builtins.float:
        """Return the milliseconds from this event to another."""

    def query(self) -> builtins.bool:
        """Return whether everything before the event is done."""

    def record_on(self, device: builtins.int, stream: builtins.int) -> None:
        """Records the event in a stream."""

    def synchronize(self) -> None:
        """Wait until everything before the event is done."""

    def wait_on(self, device: builtins.int, stream: builtins.int) -> None:
        """Makes a stream wait for the event."""

class _CudaGraph:
    """Work of a device that is captured, to be run again."""

    def __init__(self, keep_graph: builtins.bool = False) -> None: ...

    def _abort(self) -> None:
        """Ends a capture of which nothing is wanted."""

    def _begin(self, pool: tuple[builtins.int, builtins.int] | None, mode: str) -> None:
        """Begins to capture the current stream."""

    def _end(self) -> None:
        """Ends the capture."""

    @property
    def _is_capturing(self) -> builtins.bool:
        """Whether the capture is going on."""

    @property
    def _node_count(self) -> builtins.int:
        """How many kernels, copies and fills it has."""

    def _register_generator(self, generator: Generator) -> None:
        """Draws of a generator are new in each replay."""

    def debug_dump(self, debug_path: str) -> None:
        """Write the captured work to a file, as a graph in the DOT language."""

    def enable_debug_mode(self) -> None:
        """Keep what is captured from now on for `debug_dump`."""

    def instantiate(self) -> None:
        """Make the graph ready to be replayed, once more."""

    def pool(self) -> tuple[builtins.int, builtins.int]:
        """Return the handle of the memory pool, for other captures to share."""

    def raw_cuda_graph(self) -> builtins.int:
        """Return the driver's handle of a graph that was captured with keep_graph=True."""

    def raw_cuda_graph_exec(self) -> builtins.int:
        """Return the driver's handle of the graph that is ready to be replayed."""

    def replay(self) -> None:
        """Put the captured work into the current stream."""

    def reset(self) -> None:
        """Forget the captured work, and give its memory back."""

class _EntryLink:
    """What a function's context knows of its entry."""

    def __init__(self) -> None: ...

    def node(self) -> Any:
        """The entry, or None."""

    def saved_tensors(self) -> Any:
        """The saved values, checked; None when the entry is gone."""

class _Environment:
    """The modes of this thread."""

    def __init__(self) -> None: ...

    def is_same(self, other: _Environment) -> builtins.bool:
        """Whether the modes are the same."""

class _Form:
    """What a tensor was at a moment, apart from its elements."""

    def __init__(self, tensor: Tensor) -> None: ...

    def fits(self, tensor: Tensor, same_storage: builtins.bool, same_grad: builtins.bool) -> builtins.bool:
        """Whether a tensor is like this."""

    @property
    def has_grad(self) -> builtins.bool:
        """Whether the tensor had a gradient."""

    @property
    def has_history(self) -> builtins.bool:
        """Whether an op had made it."""

    @property
    def is_odd(self) -> builtins.bool:
        """Whether it had hooks, a tangent or a kept gradient."""

    @property
    def refusal(self) -> str:
        """Why no trace takes such a tensor, or an empty string."""

    def release(self) -> None:
        """Lets go of the memory."""

class _LinAlgError(RuntimeError):
    """A matrix is singular, is not positive-definite, or its decomposition did not converge."""

class _Profile:
    """Times and memory of the calls on one thread."""

    def __init__(self, record_shapes: builtins.bool, record_lines: builtins.bool = False) -> None: ...

    def activities(self) -> list[Any]:
        """(kind, name, device, stream, start, end, number of the event, number of the launch, bytes) of what devices did."""

    def calls(self) -> list[Any]:
        """(number among the events, op, shapes of inputs, shapes of outputs) of each call."""

    def count(self) -> builtins.int:
        """How many events there are so far."""

    def events(self) -> list[Any]:
        """(name, kind, in backward, start, end, bytes allocated, bytes freed, shapes, sequence number of the entry, source line, bytes allocated and freed on the device) of each."""

    @property
    def problem(self) -> str:
        """Why CUPTI could not be used, or nothing."""

    @property
    def sees_kernels(self) -> builtins.bool:
        """Whether activities are single kernels."""

    def start(self, watch: str = '') -> None:
        """Begins to record on this thread; devices are watched by "cupti", by "events", or ""."""

    def stop(self) -> None:
        """Ends recording."""

    @property
    def thread(self) -> builtins.int: ...

class _SparseBase:
    @property
    def _version(self) -> builtins.int:
        """How often the memory was written in place."""

    @property
    def device(self) -> _device:
        """Where the memory lies."""

    @property
    def dtype(self) -> _dtype:
        """The element type."""

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None."""
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...

    @property
    def grad_fn(self) -> Node | None:
        """The tape entry that made this tensor, or None."""

    @property
    def is_cpu(self) -> builtins.bool:
        """Whether the memory is the CPU's."""

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the memory is on a GPU."""

    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no recorded op made this tensor."""

    @property
    def is_meta(self) -> builtins.bool:
        """Whether there is no memory: a tensor on the meta device has a shape alone."""

    @property
    def is_quantized(self) -> builtins.bool:
        """Always False."""

    @property
    def itemsize(self) -> builtins.int:
        """Bytes per element."""

    @property
    def ndim(self) -> builtins.int:
        """The number of dimensions."""

    @property
    def output_nr(self) -> builtins.int:
        """Which output of its grad_fn the tensor is."""

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether gradients are wanted."""
    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None: ...

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether retain_grad() was called."""

    @property
    def shape(self) -> Size:
        """The sizes, as a Size."""

class _SteppedSweep:
    """A reverse sweep, one entry at a time; the graph stays."""

    def __init__(self, roots: Sequence[Tensor], grads: Sequence[Tensor]) -> None: ...

    def adjoint(self, node: object, output_number: builtins.int) -> Tensor | None:
        """What has arrived for an output of an entry, or None."""

    def next(self) -> Any:
        """Goes on to the next entry: (entry, gradients of its outputs), or None at the end."""

    def run(self, grads: Sequence[Tensor | None]) -> list[Any]:
        """The gradients that the entry makes of those of its outputs."""

    def send(self, grads: Sequence[Tensor | None]) -> None:
        """Sends gradients on to the entries of its inputs."""

    def set_adjoint(self, node: object, output_number: builtins.int, grad: Tensor | None) -> None:
        """Replaces what has arrived for an output of an entry that is still to run."""

    def waiting(self) -> list[Any]:
        """The entries for which gradients have arrived, the next to run first."""

class _TensorMeta:
    """type(object) -> the object's type
    type(name, bases, dict, **kwds) -> a new type
    """

    def __instancecheck__(self, *args: Any, **kwargs: Any) -> Any:
        """Check if an object is an instance."""

    def __prepare__(self) -> dict[Any, Any]:
        """used to create the namespace for the class statement"""

    def __sizeof__(self, *args: Any, **kwargs: Any) -> Any:
        """Return memory consumption of the type object."""

    def __subclasscheck__(self, *args: Any, **kwargs: Any) -> Any:
        """Check if a class is a subclass."""

    def __subclasses__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a list of immediate subclasses."""

    def mro(self, *args: Any, **kwargs: Any) -> Any:
        """Return a type's method resolution order."""

class _Trace:
    """A captured call of a function, made ready to run again."""

    def __init__(self, program: object, homes: Sequence[tuple[builtins.int, builtins.int, Tensor | None]], arena_bytes: builtins.int, watch: object, environment: _Environment, device: builtins.int = -1) -> None: ...

    def add_group(self, begin: builtins.int, end: builtins.int, rows: builtins.int, length: builtins.int, tile: builtins.int, together: builtins.int, tile_bytes: builtins.int, inner: Sequence[tuple[builtins.int, builtins.int]], cuts: Sequence[tuple[builtins.int, builtins.int, builtins.int, Sequence[builtins.int], Sequence[builtins.int], builtins.int] | None]) -> None:
        """Lets steps run tile by tile."""

    def capture(self, seed: builtins.int, begin: builtins.int, end: builtins.int) -> None:
        """Captures the graphs of a trace on a CUDA device."""

    def ignore_gradients(self) -> None:
        """Lets tensors have a .grad or none: nothing looks at them."""

    def run_anywhere(self) -> None:
        """Lets it run whatever the modes are: they have done their part."""

    def set_made(self, made: list[Any]) -> None:
        """The tensors that it leaves behind."""

    def set_numbers(self, lifts: list[Any], seed: builtins.int, begin: builtins.int, end: builtins.int) -> None:
        """Steps whose attributes are read anew."""

    def set_structure(self, arguments: list[Any], results: list[Any]) -> None:
        """Trees of arguments and results, in preorder."""

    def set_tensors(self, arguments: list[Any], lasting: list[Any], sources: list[Any], grads: list[Any]) -> None:
        """The tensors that it meets, and whose memory values are."""

    def settle(self) -> None:
        """All is set."""

    def undo_errors(self, step: builtins.int) -> None:
        """Puts back what was written where a step up to this one fails."""

    def watch_gradients(self) -> None:
        """Asks that no tensor it knows is another's gradient."""

    def watch_offsets(self) -> None:
        """Asks of arguments that they begin where they did in their memory."""

class _Watch:
    """Python objects as they were, to be compared with what they are."""

    def __init__(self) -> None: ...

    def __len__(self) -> builtins.int: ...

    def add_cell(self, cell: object) -> builtins.int:
        """Watches a variable of a closure."""

    def add_function(self, function: object) -> builtins.int:
        """Watches code and default arguments of a function."""

    def add_instance(self, object: object) -> builtins.int:
        """Watches which class an object has, and which dict."""

    def add_item(self, dict: object, key: object) -> builtins.int:
        """Watches one item of a dict, or that there is none."""

    def add_items(self, dict: object, open: object | None = None) -> builtins.int:
        """Watches all items of a dict; values of some keys may change."""

    def add_list(self, list: object) -> builtins.int:
        """Watches a list."""

    def add_set(self, set: object) -> builtins.int:
        """Watches a set."""

    def add_type(self, type: object) -> builtins.int:
        """Watches a class and its bases."""

    def find_change(self) -> builtins.int:
        """The number of the first entry that differs; -1 if none does."""

    def settle(self, dict: object) -> None:
        """Watches also what could change in a dict."""

def _accumulate_hooks(tensor: Tensor) -> Any:
    """The dict of a leaf's hooks that run after its gradient has arrived."""

def _add_cast_rule(function: str, cpu: str, cuda: str) -> builtins.int:
    """Says what autocast does with a function; returns the number of the rule."""

def _amp_foreach_non_finite_check_and_unscale_(self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiplies tensors in place, and sets found_inf to one if an element is not finite."""

def _amp_update_scale_(self: Tensor, growth_tracker: Tensor, found_inf: Tensor, scale_growth_factor: builtins.float, scale_backoff_factor: builtins.float, growth_interval: builtins.int) -> Tensor:
    """Makes a scale smaller if found_inf is not zero, and larger after enough calls where it is."""

def _anomaly() -> tuple[builtins.bool, builtins.bool]:
    """(enabled, check_nan) of anomaly detection."""

def _ask_nobody(value: builtins.bool) -> builtins.bool:
    """Sets whether no __torch_function__ is called on this thread; returns what was set."""

def _attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: builtins.float, is_causal: builtins.bool, scale: builtins.float | None, enable_gqa: builtins.bool) -> Tensor | None:
    """Scaled dot product attention of (batch, heads, length, width) without the matrix of all scores; None where that is not what is to be done."""

def _attention_choice(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: builtins.float, is_causal: builtins.bool, scale: builtins.float | None, enable_gqa: builtins.bool) -> builtins.int:
    """The number of the backend that would compute it; -1 where none of the allowed ones does."""

def _attention_refusal(backend: builtins.int, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: builtins.float, is_causal: builtins.bool, scale: builtins.float | None, enable_gqa: builtins.bool) -> str:
    """Why a backend does not compute it; empty where it does."""

def _autocast_devices() -> builtins.int:
    """For which devices autocast is in force on this thread, by bit."""

def _autocast_state() -> tuple[builtins.int, _dtype, _dtype, builtins.bool]:
    """The state of autocast on this thread."""

def _batch_norm(input: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: builtins.float) -> tuple[Tensor, Tensor, Tensor]:
    """Every channel shifted and scaled; also its mean and its biased variance."""

def _budget_start(limit: builtins.int, strict: builtins.bool) -> builtins.int:
    """Keeps the tape under a number of bytes from now on; returns what ends it."""

def _budget_stats() -> dict[Any, Any]:
    """What the budget did since it began."""

def _budget_stop(number: builtins.int) -> tuple[builtins.int, builtins.int, str, str]:
    """Ends a budget; returns the most bytes saved at a time on a device, by how many the limit was passed there, what was irreducible then, and the device."""

def _call_after_sweeps(function: Callable[..., Any]) -> None:
    """Calls a function when the outermost backward of this thread is over, unless it fails."""

def _call_cast(rule: builtins.int, function: object, arguments: tuple[Any, ...], options: dict[Any, Any]) -> Any:
    """Calls a function as autocast does, by the number of its rule."""

def _cast_rules() -> list[Any]:
    """(function, on the CPU, on CUDA) of every function that autocast knows."""

def _check_count(op: str, count: builtins.int, what: str, bytes_each: builtins.int) -> None:
    """Refuses a result of more objects than memory can hold."""

def _close_range(depth: builtins.int) -> None:
    """Closes a range."""

def _coded_and_decoded(input: Tensor, policy: _CodingPolicy) -> Tensor:
    """What becomes of a tensor that is saved under a policy."""

def _computes_itself(object: object | None) -> builtins.bool:
    """Whether an object of another class has a __torch_function__."""

def _convolution(op: str, input: Tensor, weight: Tensor, bias: Tensor | None, stride: builtins.int | Sequence[builtins.int], padding: builtins.int | Sequence[builtins.int], dilation: builtins.int | Sequence[builtins.int], transposed: builtins.bool, output_padding: builtins.int | Sequence[builtins.int], groups: builtins.int) -> Tensor:
    """A convolution of one, two or three spatial dimensions, named in errors by `op`."""

def _copy_unseen(to: Tensor, source: Tensor) -> None:
    """Copies elements between tensors of one dtype, shape and device; no version changes."""

def _counting_order(numbers: Tensor, count: builtins.int) -> tuple[Tensor, Tensor]:
    """Where each number would begin among the sorted ones, and the order that sorts them."""

def _cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, reduction: builtins.int, ignore_index: builtins.int, label_smoothing: builtins.float) -> Tensor:
    """The negative log softmax of the true classes; `reduction` is 0 for none, 1 for the mean, 2 for the sum."""

def _csr_mm(starts: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """A matrix given by its rows times a dense one."""

def _csr_sampled_mm(starts: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Of a @ b.mT, the elements at the places of a matrix given by its rows."""

def _cuda_allocate(device: builtins.int, nbytes: builtins.int) -> builtins.int:
    """The address of fresh memory for the current stream."""

def _cuda_blas_version() -> builtins.int:
    """The version of cuBLASLt, such as 120904; zero where there is none."""

def _cuda_can_access_peer(device: builtins.int, peer: builtins.int) -> builtins.bool:
    """Whether a device can read the memory of another."""

def _cuda_check_device(device: builtins.int) -> None:
    """Refuses the number of a device that is not there."""

def _cuda_copy_aside(to: Tensor, from_: Tensor, stream: builtins.int, after: builtins.int) -> None:
    """Copies on a stream between page-locked memory and a device, behind another stream."""

def _cuda_create_stream(device: builtins.int, priority: builtins.int) -> builtins.int:
    """The next stream of the pool of a priority."""

def _cuda_current_device() -> builtins.int:
    """The device this thread has chosen."""

def _cuda_current_stream(device: builtins.int) -> builtins.int:
    """The stream this thread uses on a device."""

def _cuda_deallocate(device: builtins.int, address: builtins.int) -> None:
    """Takes back what _cuda_allocate() gave."""

def _cuda_depthwise_convolutions() -> builtins.int:
    """How many convolutions the kernels for depthwise ones have computed."""

def _cuda_depthwise_many(many: builtins.int) -> builtins.int:
    """How many elements are worth a kernel for their channels; returns how many were."""

def _cuda_device_count() -> builtins.int:
    """How many devices can be used."""

def _cuda_dnn_add_bias(add: builtins.bool) -> builtins.bool:
    """Whether plans of cuDNN add biases; returns whether they did."""

def _cuda_dnn_attentions() -> tuple[builtins.int, builtins.int]:
    """How many calls of attention cuDNN has computed, and how many derivatives."""

def _cuda_dnn_convolutions() -> builtins.int:
    """How many convolutions cuDNN has computed."""

def _cuda_dnn_forget_plans() -> None:
    """Plans are made again, or read where they were kept on disk."""

def _cuda_dnn_plans() -> builtins.int:
    """How many plans cuDNN was asked for: one for each kind of call that none was kept for."""

def _cuda_dnn_refusal() -> str:
    """Why the last convolution was not computed by cuDNN; empty where it was not asked."""

def _cuda_dnn_settings() -> dict[Any, Any]:
    """The settings of torch.backends.cudnn."""

def _cuda_dnn_version() -> builtins.int:
    """The version of cuDNN, such as 91900; zero where there is none."""

def _cuda_driver_version() -> builtins.int:
    """The version of CUDA that the driver supports: 1000 times the major one, 10 times the minor."""

def _cuda_empty_cache() -> None:
    """Gives memory that holds no tensors back to the driver."""

def _cuda_erase_stream(x: Tensor, stream: builtins.int) -> None:
    """Takes back record_stream(): the tensor's own stream waits for that one."""

def _cuda_generator(device: builtins.int) -> Generator:
    """The default generator of a CUDA device."""

def _cuda_generator_state(device: builtins.int) -> tuple[builtins.int, builtins.int]:
    """Seed and offset of the default generator of a CUDA device."""

def _cuda_held_calls() -> builtins.int:
    """How many calls wait for another one, or for somebody who asks for their result."""

def _cuda_is_capturing() -> builtins.bool:
    """Whether the current stream is captured."""

def _cuda_is_deterministic() -> builtins.bool:
    """Whether kernels on CUDA give the same bits in every run."""

def _cuda_is_initialized() -> builtins.bool:
    """Whether a device has been used in this process."""

def _cuda_least_held_product() -> builtins.int:
    """How many elements a product has at least that waits for GELU."""

def _cuda_limit_waiting(device: builtins.int, stream: builtins.int, most_bytes: builtins.int) -> None:
    """Hands out freed memory that waits for a stream, where there is more than this; what uses it next waits on the device."""

def _cuda_manual_seed_all(seed: object) -> None:
    """Seeds the generators of all CUDA devices."""

def _cuda_matmul_settings() -> dict[Any, Any]:
    """How exact matrix products on CUDA are."""

def _cuda_memory_fraction(device: builtins.int) -> builtins.float:
    """The part of the memory that this process may use."""

def _cuda_memory_info(device: builtins.int) -> tuple[builtins.int, builtins.int]:
    """Free and total bytes of a device, whoever uses them."""

def _cuda_memory_stats(device: builtins.int) -> dict[Any, Any]:
    """The statistics of the allocator, in dicts of dicts."""

def _cuda_merged_calls() -> builtins.int:
    """How many calls were merged with one that came before."""

def _cuda_merges_calls() -> builtins.bool:
    """Whether one kernel may run several calls."""

def _cuda_new_pool() -> tuple[builtins.int, builtins.int]:
    """A handle of a memory pool for graphs."""

def _cuda_pinned_bytes(nbytes: builtins.int) -> Tensor:
    """Fresh page-locked memory, as a tensor of uint8."""

def _cuda_pinned_for(nbytes: builtins.int, device: builtins.int, stream: builtins.int) -> Tensor:
    """The same, for a stream to write to before anybody else uses it: nobody waits for streams that used the memory before, but that one."""

def _cuda_pinned_like(x: Tensor) -> Tensor:
    """Fresh page-locked memory for a tensor whose elements lie like those of a dense one."""

def _cuda_pinned_stats() -> dict[Any, Any]:
    """Bytes and counts of page-locked memory."""

def _cuda_properties(device: builtins.int) -> dict[Any, Any]:
    """What a device is and has."""

def _cuda_record_pinned(x: Tensor, device: builtins.int, stream: builtins.int) -> None:
    """Tells that a stream uses page-locked memory."""

def _cuda_record_stream(x: Tensor, stream: builtins.int) -> None:
    """record_stream() with the driver's handle."""

def _cuda_reset_peaks(device: builtins.int) -> None:
    """Makes the peaks start again at what is there now."""

def _cuda_reset_sums(device: builtins.int) -> None:
    """Makes what was ever allocated and freed start again at zero."""

def _cuda_set_deterministic(enabled: builtins.bool) -> None:
    """Sets whether kernels on CUDA give the same bits in every run."""

def _cuda_set_device(device: builtins.int) -> None:
    """Chooses a device for this thread."""

def _cuda_set_dnn_settings(enabled: builtins.bool, benchmark: builtins.bool, benchmark_limit: builtins.int, deterministic: builtins.bool, allow_tf32: builtins.bool) -> None:
    """Set all of them."""

def _cuda_set_least_held_product(elements: builtins.int) -> None:
    """Sets how many elements a product has at least that waits for GELU."""

def _cuda_set_matmul_settings(*, float32_precision: builtins.int, allow_fp16_reduced_precision_reduction: builtins.bool, allow_bf16_reduced_precision_reduction: builtins.bool, allow_fp16_accumulation: builtins.bool) -> None:
    """Sets how exact matrix products on CUDA are."""

def _cuda_set_memory_fraction(device: builtins.int, fraction: builtins.float) -> None:
    """Sets the part of the memory that this process may use."""

def _cuda_set_merges_calls(enabled: builtins.bool) -> None:
    """Sets whether one kernel may run several calls."""

def _cuda_set_stream(device: builtins.int, stream: builtins.int) -> None:
    """Chooses the stream this thread uses on a device."""

def _cuda_set_sync_debug_mode(mode: builtins.int) -> None:
    """Sets what happens when the host waits unasked."""

def _cuda_snapshot() -> list[Any]:
    """The segments of the allocator, and their blocks."""

def _cuda_start_early_in_graphs(early: builtins.bool) -> builtins.bool:
    """Whether captured kernels start while the one before them runs; returns what was."""

def _cuda_stream_priorities(device: builtins.int) -> tuple[builtins.int, builtins.int]:
    """The least and the greatest priority, which is the lower number."""

def _cuda_stream_priority(device: builtins.int, stream: builtins.int) -> builtins.int:
    """The priority of a stream of the pools; 0 for others."""

def _cuda_stream_query(device: builtins.int, stream: builtins.int) -> builtins.bool:
    """Whether everything in a stream is done."""

def _cuda_stream_synchronize(device: builtins.int, stream: builtins.int) -> None:
    """Waits until everything in a stream is done."""

def _cuda_sync_debug_mode() -> builtins.int:
    """What happens when the host waits unasked: 0 nothing, 1 a warning, 2 an error."""

def _cuda_synchronize(device: builtins.int) -> None:
    """Waits until a device is done."""

def _cuda_time_launches(device: builtins.int, count: builtins.int, early: builtins.bool = False) -> builtins.float:
    """The seconds that a launch of an empty kernel takes."""

def _cuda_unasked_waits() -> builtins.int:
    """How often the host has waited for a device without being asked to."""

def _cuda_use_blas(use: builtins.bool) -> builtins.bool:
    """Whether matrix products go to cuBLASLt; returns whether they did."""

def _cuda_use_depthwise(use: builtins.bool) -> builtins.bool:
    """Whether depthwise convolutions go to kernels of our own; returns whether they did."""

def _cuda_why_unavailable() -> str:
    """Why no CUDA device can be used; empty if one can."""

def _current_sweep() -> builtins.int:
    """The number of the backward that runs this hook."""

def _disable_saved_hooks(message: str | None) -> str | None:
    """Refuses hooks with a message from now on, or not with None."""

def _disabled_torch_function_impl(func: object, types: object, args: tuple[Any, ...] = ..., kwargs: object | None = None) -> Any:
    """The __torch_function__ of a class that wants none: calls the function as it is."""

def _drop_gradients(params: object) -> builtins.bool:
    """Sets the gradients of a list of parameters to None."""

def _edge_tensor(node: object, output_number: builtins.int) -> Tensor:
    """A tensor that stands for an output of an entry in a sweep."""

def _enter_autocast(device_type: str, dtype: _dtype, enabled: builtins.bool, caches: builtins.bool) -> None:
    """Enters a block of autocast."""

def _enter_autocast_state(state: tuple[builtins.int, _dtype, _dtype, builtins.bool]) -> None:
    """Enters a block with the state that _autocast_state() gave."""

def _enter_device(device: object) -> None:
    """The same until _leave_device()."""

def _enter_dual_level() -> builtins.int:
    """Starts a level of forward mode."""

def _enter_transform() -> builtins.int:
    """Starts a reverse-mode transform."""

def _enter_vmap(size: builtins.int, randomness: str, former: builtins.int = 0) -> builtins.int:
    """Starts a vmap and returns its number: a new one, or the one it had when it ran first."""

def _entry_kinds() -> list[Any]:
    """(name, function, role, op or None, saved values) of every kind of entry that the library records. A saved value is (name, the inputs whose gradients are computed from it), None for all inputs."""

def _exit_dual_level(level: builtins.int) -> None:
    """Ends the innermost level."""

def _exit_transform(transform: builtins.int) -> None:
    """Ends a reverse-mode transform."""

def _exit_vmap() -> None:
    """Ends the innermost vmap."""

_fft: Any

def _fft_fft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The Fourier transform along a dimension: sums of x[j] exp(-2 pi i j k / n).

    Args:
        input: real or complex numbers.
        n: how many of them are transformed; of fewer the rest are zeros. By default all.
        dim: the dimension.
        norm: what the result is divided by: "backward" (the default), nothing; "ortho", the root of
            n; "forward", n.
        out: where to put the result.

    Example:
        >>> torch.fft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """

def _fft_fft2(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The Fourier transform along two dimensions.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.fft2(torch.eye(2))
        tensor([[2.+0.j, 0.+0.j],
                [0.+0.j, 2.+0.j]])
    """

def _fft_fftn(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The Fourier transform along several dimensions, by default all.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.fftn(torch.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """

def _fft_hfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real Fourier transform of numbers of which only the first half is given.

    The other numbers are the conjugates of these.

    Args:
        input: half of the numbers.
        n: the length of the result: by default 2 * (size - 1), an even number.
        dim: the dimension.
        norm: as of `fft`.
        out: where to put the result.

    Example:
        >>> torch.fft.hfft(torch.tensor([2.5 + 0j, -0.5 - 0.5j, -0.5 + 0j]))
        tensor([1., 2., 3., 4.])
    """

def _fft_hfft2(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real Fourier transform, along two dimensions, of numbers of which only half along the last dimension is given.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.hfft2(torch.ones(2, 3)).shape
        torch.Size([2, 4])
    """

def _fft_hfftn(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real Fourier transform, along several dimensions, by default all, of numbers of which only half along the last dimension is given.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.hfftn(torch.ones(2, 2, 3)).shape
        torch.Size([2, 2, 4])
    """

def _fft_ifft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the Fourier transform along a dimension.

    Args:
        input: real or complex numbers.
        n: how many of them are transformed; of fewer the rest are zeros. By default all.
        dim: the dimension.
        norm: what the result is divided by: "backward" (the default), n; "ortho", the root of n;
            "forward", nothing.
        out: where to put the result.

    Example:
        >>> torch.fft.ifft(torch.tensor([10 + 0j, -2 + 2j, -2 + 0j, -2 - 2j]))
        tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """

def _fft_ifft2(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the Fourier transform along two dimensions.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.ifft2(torch.eye(2) * 2)
        tensor([[1.+0.j, 0.+0.j],
                [0.+0.j, 1.+0.j]])
    """

def _fft_ifftn(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the Fourier transform along several dimensions, by default all.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.ifftn(torch.ones(2, 2))
        tensor([[1.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """

def _fft_ihfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first half of the inverse Fourier transform of real numbers.

    Args:
        input: real numbers.
        n: how many of them are transformed; of fewer the rest are zeros. By default all.
        dim: the dimension, of size n // 2 + 1 in the result.
        norm: as of `ifft`.
        out: where to put the result.

    Example:
        >>> torch.fft.ihfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([ 2.5000+0.0000j, -0.5000-0.5000j, -0.5000+0.0000j])
    """

def _fft_ihfft2(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first half, along the last dimension, of the inverse Fourier transform of real numbers along two dimensions.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.ihfft2(torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

def _fft_ihfftn(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first half, along the last dimension, of the inverse Fourier transform of real numbers along several dimensions, by default all.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.ihfftn(torch.ones(2, 2, 4)).shape
        torch.Size([2, 2, 3])
    """

def _fft_irfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real numbers of which the input is the first half of the Fourier transform.

    The imaginary part of the first element is not read, nor for an even n that of the last one.

    Args:
        input: half a spectrum.
        n: how many numbers come back: by default 2 * (size - 1), an even number.
        dim: the dimension.
        norm: as of `ifft`.
        out: where to put the result.

    Example:
        >>> torch.fft.irfft(torch.tensor([10 + 0j, -2 + 2j, -2 + 0j]))
        tensor([1., 2., 3., 4.])
    """

def _fft_irfft2(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real numbers of which the input is the first half, along the last dimension, of the transform along two dimensions.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.irfft2(torch.fft.rfft2(torch.ones(2, 2)))
        tensor([[1., 1.],
                [1., 1.]])
    """

def _fft_irfftn(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real numbers of which the input is the first half, along the last dimension, of the transform along several dimensions, by default all.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.irfftn(torch.fft.rfftn(torch.ones(2, 3)), s=(2, 3)).shape
        torch.Size([2, 3])
    """

def _fft_rfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first half of the Fourier transform of real numbers.

    The other elements are the conjugates of these.

    Args:
        input: real numbers.
        n: how many of them are transformed; of fewer the rest are zeros. By default all.
        dim: the dimension, of size n // 2 + 1 in the result.
        norm: as of `fft`.
        out: where to put the result.

    Example:
        >>> torch.fft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """

def _fft_rfft2(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first half, along the last dimension, of the Fourier transform of real numbers along two dimensions.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.rfft2(torch.ones(2, 4)).shape
        torch.Size([2, 3])
    """

def _fft_rfftn(input: Tensor, s: builtins.int | Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The first half, along the last dimension, of the Fourier transform of real numbers along several dimensions, by default all.

    Args:
        input: the numbers.
        s: how many of them are transformed along each dimension, of fewer the rest are zeros; -1 for
            all. By default all.
        dim: the dimensions.
        norm: "backward", "ortho" or "forward", as in one dimension.
        out: where to put the result.

    Example:
        >>> torch.fft.rfftn(torch.ones(2, 2, 4)).shape
        torch.Size([2, 2, 3])
    """

def _find_moved(tensors: Sequence[Tensor], aliases: Sequence[Tensor]) -> builtins.int:
    """The place of the first tensor that is not where its alias is; -1 if there is none."""

def _function_of_class(name: str) -> str:
    """What the tape calls a custom function, by the name of its class."""

def _function_ops() -> dict[Any, Any]:
    """The ops that functions run, of those that do not have the name of their op."""

def _generator_state() -> tuple[builtins.int, builtins.int]:
    """Seed and offset of the default generator."""

def _geqrf(arg: Tensor, /) -> tuple[Tensor, Tensor]: ...

def _get_default_device() -> Any:
    """The device of new tensors on this thread."""

def _get_privateuse1_backend_name() -> Any: ...

def _get_tracing_state() -> Any:
    """Return something true while `torch.jit.trace` runs a function, else None."""

def _gradient_edge(tensor: Tensor) -> tuple[Any, ...]:
    """(node, output number) where the tensor's gradient flows to."""

def _hide_batch(tensor: Tensor, dim: builtins.int, vmap: builtins.int) -> Tensor:
    """Turns a dimension into the batch of a vmap."""

def _hide_dual_levels() -> tuple[builtins.int, builtins.int]:
    """Puts all running levels out of sight; returns what _show_dual_levels() takes."""

def _in_format_of(input: Tensor, other: Tensor) -> Tensor:
    """A fresh result in the memory format that `other` has, if it has the same rank."""

def _in_usual_order(input: Tensor) -> Tensor:
    """The tensor if it is contiguous, else a copy whose gradient lies as the input does."""

def _increment_version(tensor: Tensor) -> None:
    """Declares the tensor written to."""

def _into_out(arg0: str, arg1: Tensor, arg2: Tensor, /) -> Tensor: ...

def _is_batched_at(tensor: Tensor, vmap: builtins.int) -> builtins.bool:
    """Whether the tensor differs over the batch of a vmap."""

def _is_channels_last(input: Tensor) -> builtins.bool:
    """Whether results computed from the tensor shall have their channels last."""

def _is_charged(tensor: Tensor) -> builtins.bool:
    """Whether the tape will be charged for a tensor's memory when it saves it."""

def _is_inference() -> builtins.bool:
    """Whether this thread is in inference mode."""

def _is_observed() -> builtins.bool:
    """Whether something wants to see each op of this thread by itself."""

def _is_plain_graph(tensors: Sequence[Tensor], leaves: Sequence[Tensor]) -> builtins.bool:
    """Whether the history of tensors has no hooks and ends at these leaves alone."""

def _is_profiling() -> builtins.bool:
    """Whether a profile is running on this thread."""

def _is_recorded(arg: Tensor, /) -> builtins.bool: ...

def _is_spent(x: Tensor) -> builtins.bool:
    """Whether the history of a tensor was swept and freed."""

def _is_unguarded(tensor: Tensor) -> builtins.bool:
    """Whether a tensor's memory may be written unseen, by NumPy for one."""

def _layer_norm(input: Tensor, dims: builtins.int, weight: Tensor | None, bias: Tensor | None, eps: builtins.float, centred: builtins.bool) -> Tensor:
    """The last `dims` dimensions shifted and scaled to mean 0 and variance 1."""

def _leave_autocast() -> None:
    """Leaves the innermost block of autocast."""

def _leave_device() -> None:
    """Takes back the last _enter_device() of this thread."""

def _leave_inference() -> builtins.bool:
    """Turns inference mode off for a transform; returns whether it was on."""

def _limit_dual_levels(limit: builtins.int) -> tuple[builtins.int, builtins.int]:
    """Puts levels from `limit` on out of sight; returns what _show_dual_levels() takes."""

def _linalg_cholesky(arg0: str, arg1: Tensor, arg2: builtins.bool, arg3: builtins.bool, /) -> tuple[Tensor, Tensor]: ...

def _linalg_det(arg: Tensor, /) -> Tensor: ...

def _linalg_eig(arg0: str, arg1: Tensor, arg2: builtins.bool, /) -> tuple[Tensor, Tensor]: ...

def _linalg_eigh(arg0: str, arg1: Tensor, arg2: builtins.bool, arg3: builtins.bool, /) -> tuple[Tensor, Tensor]: ...

def _linalg_householder_product(arg0: Tensor, arg1: Tensor, /) -> Tensor: ...

def _linalg_inv(arg0: str, arg1: Tensor, arg2: builtins.bool, /) -> tuple[Tensor, Tensor]: ...

def _linalg_ldl_factor(arg0: str, arg1: Tensor, arg2: builtins.bool, arg3: builtins.bool, /) -> tuple[Tensor, Tensor, Tensor]: ...

def _linalg_ldl_solve(arg0: Tensor, arg1: Tensor, arg2: Tensor, arg3: builtins.bool, /) -> Tensor: ...

def _linalg_lstsq(arg0: Tensor, arg1: Tensor, arg2: str, arg3: builtins.float, arg4: builtins.bool, /) -> tuple[Tensor, Tensor, Tensor]: ...

def _linalg_lu_factor(arg0: str, arg1: Tensor, arg2: builtins.bool, /) -> tuple[Tensor, Tensor, Tensor]: ...

def _linalg_lu_solve(arg0: Tensor, arg1: Tensor, arg2: Tensor, arg3: builtins.bool, /) -> Tensor: ...

def _linalg_matrix_exp(arg: Tensor, /) -> Tensor: ...

def _linalg_pinv(arg0: Tensor, arg1: Tensor, arg2: Tensor, arg3: builtins.bool, /) -> Tensor: ...

def _linalg_qr(arg0: str, arg1: Tensor, arg2: str, /) -> tuple[Tensor, Tensor]: ...

def _linalg_slogdet(arg: Tensor, /) -> tuple[Tensor, Tensor]: ...

def _linalg_solve(arg0: str, arg1: Tensor, arg2: Tensor, arg3: builtins.bool, /) -> tuple[Tensor, Tensor]: ...

def _linalg_solve_triangular(arg0: Tensor, arg1: Tensor, arg2: builtins.bool, arg3: builtins.bool, arg4: builtins.bool, /) -> Tensor: ...

def _linalg_svd(arg0: str, arg1: Tensor, arg2: builtins.bool, arg3: builtins.bool, /) -> tuple[Tensor, Tensor, Tensor]: ...

def _listen_to_sweeps(begin: object | None, entry: object | None) -> builtins.int:
    """Calls begin(roots, retain_graph) before every backward that is no part of another, and what it returns after it; entry(node) before every entry that runs. Returns what ends it."""

def _log_api_usage_once(event: str) -> None:
    """Does nothing: nobody counts which functions are used."""

def _lu_permutation(arg0: Tensor, arg1: builtins.int, arg2: builtins.bool, /) -> Tensor: ...

def _make_dual(tensor: Tensor, tangent: Tensor, level: builtins.int) -> Tensor:
    """A view of the tensor that carries a tangent."""

def _make_subclass(cls: object, data: Tensor, require_grad: builtins.bool = False) -> Any:
    """A tensor of a subclass over the memory of data."""

def _memory_id(tensor: Tensor) -> builtins.int:
    """The same, also for what a vmap showed of the memory."""

def _next_sequence() -> builtins.int:
    """The sequence number of the next entry."""

_nn: Any

def _node_hooks(node: object, before: builtins.bool) -> Any:
    """The dict of an entry's hooks."""

def _op_attributes(name: str) -> list[str]:
    """The names of an op's attributes."""

def _op_overwrites(name: str) -> builtins.bool:
    """Whether an op may write its first output over its first input."""

def _open_range(name: str) -> builtins.int:
    """Opens a range in this thread's profile; returns what closes it, 0 if there is none."""

def _ops() -> list[Any]:
    """(name, attributes, traits, devices) of every op, by name."""

def _optimizer_names() -> list[Any]:
    """The native steps of optimizers, in the order of their numbers."""

def _optimizer_step(which: builtins.int, params: object, state: object, group: object, found_inf: Tensor | None = None) -> builtins.bool:
    """Takes a step with a parameter group, which the device leaves out if a number is not zero; False where that is left to Python."""

def _ormqr(arg0: Tensor, arg1: Tensor, arg2: Tensor, arg3: builtins.bool, arg4: builtins.bool, /) -> Tensor: ...

def _packing_op() -> str:
    """What the tape calls the op whose value a pack hook is given; empty outside of one."""

_pooling: Any

def _pop_saved_hooks() -> None:
    """Ends the innermost packing."""

def _push_saved_hooks(pack: object, unpack: object) -> None:
    """Packs what the tape saves from now on."""

def _reaches_outside(tensors: Sequence[Tensor], transform: builtins.int) -> builtins.bool:
    """Whether somebody outside the transform may want a gradient through the tensors."""

def _reads_frames_directly() -> builtins.bool:
    """Whether source lines are taken without making frame objects."""

def _rebuild_tensor(*args: Any, **kwargs: Any) -> Any:
    """Makes a tensor from what __reduce_ex__ stored."""

def _record_function(context: object, name: str, link: _EntryLink, inputs: Sequence[Tensor], outputs: Sequence[Tensor], differentiable: Sequence[builtins.bool], dirty: Sequence[Tensor], saved: Sequence[Tensor | None], awaits_tangents: builtins.bool = False) -> list[Any]:
    """Makes a custom function's call an entry of the tape."""

def _recurrent(kind: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, state: Sequence[Tensor], bias: Tensor | None, state_bias: Tensor | None, counts: builtins.int | Sequence[builtins.int], reverse: builtins.bool) -> list[Tensor]:
    """One layer in one direction over packed steps: the outputs and the last states."""

def _refuses_unseen_reads(x: Tensor) -> builtins.bool:
    """Whether a look at bytes outside of kernels fails: in checked builds."""

def _register_types(arg0: object, arg1: list[Any], arg2: object, /) -> None: ...

def _return_to_inference() -> None:
    """Turns it on again."""

def _reveal_batch(tensor: Tensor, dim: builtins.int, vmap: builtins.int, size: builtins.int) -> Tensor:
    """Turns the batch of a vmap into a dimension."""

def _rewind_generator(counters: builtins.int) -> None:
    """Sets the default generator back by as much as was drawn."""

def _rows_of_part(rows: builtins.int, length: builtins.int) -> builtins.int:
    """How many rows have sums of their own where a matrix is summed over its rows."""

def _run_in_sweep(trace: _Trace, args: tuple[Any, ...]) -> Any:
    """What a trace of a backward gives; None where it does not hold."""

def _run_traces(traces: list[Any], args: tuple[Any, ...], kwargs: dict[Any, Any], none_holds: object, run_eagerly: object) -> Any:
    """Runs the first trace that holds, or returns one of two answers."""

def _running_line() -> tuple[object, object]:
    """The running (code, offset), as tape entries take it and by CPython's public calls."""

def _running_vmaps() -> list[tuple[builtins.int, builtins.int]]:
    """(number, size) of each running vmap, outermost first."""

def _saved_bytes() -> list[Any]:
    """(device, bytes that saved values show there, the most at a time) of each device."""

def _saved_memory(tensors: Sequence[Tensor]) -> list[builtins.int]:
    """The numbers of the memory that is saved in the history of tensors."""

def _scale_tensors(tensors: Sequence[Tensor], factor: Tensor) -> builtins.bool:
    """Multiplies tensors in place; False where that is composed."""

def _set_anomaly(enabled: builtins.bool, check_nan: builtins.bool) -> None:
    """Turns anomaly detection on or off."""

def _set_attention_backends(backends: Sequence[builtins.int]) -> None:
    """The numbers of the backends that may be used, the best first."""

def _set_before_write(hook: object | None) -> None:
    """Calls a function with each tensor that is about to be written in place."""

def _set_coding(policy: object | None) -> Any:
    """Puts a policy in force on this thread, or none; returns the one before."""

def _set_data_writes_are_errors(on: builtins.bool) -> builtins.bool:
    """Whether a write through .data to a saved value raises; returns how it was."""

def _set_default_device(device: object | None) -> None:
    """Sets the device of new tensors on this thread."""

def _set_flush_denormal(mode: builtins.bool) -> builtins.bool: ...

def _set_inference(on: builtins.bool) -> builtins.bool:
    """Turns inference mode on or off on this thread; returns how it was."""

def _set_packing(on: builtins.bool) -> builtins.bool:
    """Lifts the hooks on saved values, or ends that; returns whether they were in force."""

def _set_tangent(tensor: Tensor, tangent: Tensor, level: builtins.int) -> None:
    """Gives the output of a custom function, and what was saved of it, a tangent."""

def _set_traces_enabled(enabled: builtins.bool) -> None:
    """Lets compiled functions replay traces, or run themselves."""

def _show_dual_levels(levels: tuple[builtins.int, builtins.int]) -> None:
    """Makes those levels visible that were before."""

def _sparse_detach(tensor: Tensor) -> Tensor:
    """The same parts without history."""

def _sparse_handle(parts: object, dtype: _dtype, shape: builtins.int | Sequence[builtins.int]) -> Any:
    """A sparse tensor that holds these parts."""

def _sparse_parts(tensor: Tensor) -> Any:
    """What a sparse tensor holds."""

def _sparse_register(cls: object, call: object, add: object, accumulate: object, to_dense: object) -> None:
    """Takes the class of sparse tensors, and the functions for ops and gradients."""

def _sparse_requires_grad(tensor: Tensor, value: builtins.bool) -> None:
    """Changes whether gradients are wanted."""

def _sparse_reshape(tensor: Tensor, shape: builtins.int | Sequence[builtins.int]) -> None:
    """Gives a sparse tensor another shape, in place."""

def _sparse_retain_grad(tensor: Tensor) -> None:
    """Makes a sparse tensor keep its gradient."""

def _sparse_wrote(op: str, tensor: Tensor) -> None:
    """Declares the parts of a sparse tensor written to."""

def _special_airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise airy_ai(x), where x is the operand, broadcast together.

    Gradient of x: g * airy_ai_prime(x)
    """

def _special_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise bessel_j0(x), where x is the operand, broadcast together.

    Gradient of x: -g * bessel_j1(x)
    """

def _special_bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise bessel_j1(x), where x is the operand, broadcast together.

    Gradient of x: g * where(x == 0, 0.5, bessel_j0(x) - y / where(x == 0, 1, x))
    """

def _special_bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise bessel_y0(x), where x is the operand, broadcast together.

    Gradient of x: -g * bessel_y1(x)
    """

def _special_bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise bessel_y1(x), where x is the operand, broadcast together.

    Gradient of x: g * (bessel_y0(x) - y / x)
    """

def _special_chebyshev_polynomial_t(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise chebyshev_polynomial_t(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g * trunc(b) * gegenbauer(a, trunc(b) - 1, 1)
    Gradient of b: none
    """

def _special_chebyshev_polynomial_u(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise gegenbauer(a, b, 1), where a and b are the operands, broadcast together.

    Gradient of a: 2 * g * gegenbauer(a, trunc(b) - 1, 2)
    Gradient of b: none
    """

def _special_chebyshev_polynomial_v(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise chebyshev_polynomial_v(a, b), where a and b are the operands, broadcast together.

    Gradient of a: 2 * g * (gegenbauer(a, trunc(b) - 1, 2) - gegenbauer(a, trunc(b) - 2, 2))
    Gradient of b: none
    """

def _special_chebyshev_polynomial_w(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise chebyshev_polynomial_w(a, b), where a and b are the operands, broadcast together.

    Gradient of a: 2 * g * (gegenbauer(a, trunc(b) - 1, 2) + gegenbauer(a, trunc(b) - 2, 2))
    Gradient of b: none
    """

def _special_entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x > 0, -x * log(x), where(x == 0, 0, where(x < 0, log(0 * sign(x)), x))), where x is the operand, broadcast together.

    Gradient of x: g * (-1 - log(x))
    """

def _special_erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise erfcx(x), where x is the operand, broadcast together.

    Gradient of x: g * (2 * x * y - 1.1283791670955126)
    """

def _special_hermite_polynomial_h(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise hermite_polynomial_h(a, b), where a and b are the operands, broadcast together.

    Gradient of a: 2 * g * trunc(b) * hermite_polynomial_h(a, trunc(b) - 1)
    Gradient of b: none
    """

def _special_hermite_polynomial_he(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise hermite_polynomial_he(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g * trunc(b) * hermite_polynomial_he(a, trunc(b) - 1)
    Gradient of b: none
    """

def _special_i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise i0e(x), where x is the operand, broadcast together.

    Gradient of x: g * (i1e(x) - sign(x) * y)
    """

def _special_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise i1(x), where x is the operand, broadcast together.

    Gradient of x: g * where(x == 0, 0.5, i0(x) - y / where(x == 0, 1, x))
    """

def _special_i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise i1e(x), where x is the operand, broadcast together.

    Gradient of x: g * where(x == 0, 0.5, i0e(x) - y * (sign(x) + 1 / where(x == 0, 1, x)))
    """

def _special_laguerre_polynomial_l(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise laguerre(a, b, 0), where a and b are the operands, broadcast together.

    Gradient of a: -g * laguerre(a, trunc(b) - 1, 1)
    Gradient of b: none
    """

def _special_legendre_polynomial_p(input: Tensor, n: Any, *, out: Tensor | None = None) -> Tensor:
    """Elementwise gegenbauer(a, b, 0.5), where a and b are the operands, broadcast together.

    Gradient of a: g * gegenbauer(a, trunc(b) - 1, 1.5)
    Gradient of b: none
    """

def _special_log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise log_ndtr(x), where x is the operand, broadcast together.

    Gradient of x: g * 0.7978845608028654 / erfcx(-0.7071067811865476 * x)
    """

def _special_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise modified_bessel_k0(x), where x is the operand, broadcast together.

    Gradient of x: -g * modified_bessel_k1(x)
    """

def _special_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise modified_bessel_k1(x), where x is the operand, broadcast together.

    Gradient of x: -g * (modified_bessel_k0(x) + y / x)
    """

def _special_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise ndtr(x), where x is the operand, broadcast together.

    Gradient of x: g * normal_density(x)
    """

def _special_ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise ndtri(x), where x is the operand, broadcast together.

    Gradient of x: g * 2.5066282746310002 * exp(0.5 * y * y)
    """

def _special_scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise scaled_modified_bessel_k0(x), where x is the operand, broadcast together.

    Gradient of x: g * (y - scaled_modified_bessel_k1(x))
    """

def _special_scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise scaled_modified_bessel_k1(x), where x is the operand, broadcast together.

    Gradient of x: g * (y - scaled_modified_bessel_k0(x) - y / x)
    """

def _special_spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise spherical_bessel_j0(x), where x is the operand, broadcast together.

    Gradient of x: -g * spherical_bessel_j1(x)
    """

def _special_xlog1py(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(b != b, b, where(a == 0, 0, a * log1p(b))), where a and b are the operands, broadcast together.

    Gradient of a: where((a == 0) & (b <= -1), 0, g * log1p(where((a == 0) & (b <= -1), 0, b)))
    Gradient of b: g * a / (b + 1)
    """

def _special_zeta(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise zeta(a, b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: -g * a * zeta(a + 1, b)
    """

def _stop_listening(listener: builtins.int) -> None:
    """Ends what _listen_to_sweeps() began."""

def _storage_id(tensor: Tensor) -> builtins.int:
    """A number that tensors over the same memory share."""

def _storage_is_evicted(storage: builtins.int) -> builtins.bool:
    """Whether a budget has evicted the memory with this number, likewise."""

def _storage_uses(storage: builtins.int) -> builtins.int:
    """How many hold the memory with this number (_storage_id); the caller must."""

def _subtracting_visit_is_known() -> builtins.bool:
    """Whether cycles through entries with several owners can be collected."""

def _sweeps_begun() -> builtins.int:
    """How many sweeps have begun."""

def _tangent_levels(tensor: Tensor) -> list[builtins.int]:
    """The levels at which the tensor carries a tangent."""

def _tape_describe(nodes: list[Any]) -> list[Any]:
    """(name, op, sequence, line, edges, outputs, saved values, leaf, released) of each entry. An edge is (place in the list or -1, output number), -2 for an entry that is not in the list."""

def _tape_live(first: builtins.int, last: builtins.int) -> list[Any]:
    """The live entries with a sequence number in [first, last), in tape order."""

def _tape_of(tensors: Sequence[Tensor]) -> list[Any]:
    """The entries behind tensors, in tape order."""

def _tape_overwritten(first: builtins.int, last: builtins.int, written: Sequence[Tensor], failed: builtins.bool) -> None:
    """Marks what entries saved of memory that a replay has written."""

def _tensor_at(memory: Tensor, dtype: _dtype, size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int], storage_offset: builtins.int) -> Tensor:
    """A tensor of any dtype over the memory of another."""

def _tensor_hooks(tensor: Tensor) -> Any:
    """The dict of a tensor's gradient hooks."""

def _total_norm(tensors: Sequence[Tensor], p: builtins.float) -> Tensor | None:
    """The norm of all tensors as one vector; None where that is composed."""

def _track_referents(object: object) -> None:
    """Makes the collector of cycles track the tensors an object refers to."""

def _transform_input(tensor: Tensor, transform: builtins.int) -> Tensor:
    """The tensor as the transformed function sees it."""

def _unpack_dual(tensor: Tensor, level: builtins.int) -> tuple[Tensor, Tensor]:
    """(primal, tangent) of a level; the tangent is None if there is none."""

def _walked_entries() -> builtins.int:
    """How many tape entries the collector of cycles has gone through so far."""

def _want_early_leaves(wanted: builtins.bool) -> None:
    """Lets leaves get their gradients as soon as they can, or ends one such wish."""

def _was_left(x: Tensor) -> builtins.bool:
    """Whether a tensor that showed the same memory was given other memory."""

def _will_reach(nodes: Sequence[object]) -> list[builtins.bool]:
    """Which of the entries the backward that runs this hook will come to."""

def _with_optimizer_steps(function: Callable[..., Any]) -> Any:
    """(result, steps) of a function that a program captures: (step, optimizer, group) of each native step."""

def _without_history(tensor: Tensor) -> Tensor:
    """The value without history."""

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise abs(x), where x is the operand, broadcast together.

    Gradient of x: g * sign(x)
    """

def abs_(input: Tensor) -> Tensor:
    """Elementwise abs(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * sign(x)
    """

def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise acos(x), where x is the operand, broadcast together.

    Gradient of x: -g * rsqrt(1 - x * x)
    """

def acos_(input: Tensor) -> Tensor:
    """Elementwise acos(x), in place, where x is the operand, broadcast together.

    Gradient of x: -g * rsqrt(1 - x * x)
    """

def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise acosh(x), where x is the operand, broadcast together.

    Gradient of x: g * rsqrt(x * x - 1)
    """

def acosh_(input: Tensor) -> Tensor:
    """Elementwise acosh(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * rsqrt(x * x - 1)
    """

def add(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None, alpha: Number | builtins.complex = 1) -> Tensor:
    """Elementwise a + b, where a and b are the operands, broadcast together.

    Gradient of a: g
    Gradient of b: g
    """

def addcdiv(input: Tensor | Number, tensor1: Tensor | Number, tensor2: Tensor | Number, value: Number | builtins.complex = 1, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a + value * (b / c), where a, b and c are the operands, broadcast together.

    Gradient of a: g
    Gradient of b: g * (value / c)
    Gradient of c: -g * (value * (b / c) / c)
    """

def addcmul(input: Tensor | Number, tensor1: Tensor | Number, tensor2: Tensor | Number, value: Number | builtins.complex = 1, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a + value * (b * c), where a, b and c are the operands, broadcast together.

    Gradient of a: g
    Gradient of b: g * (value * c)
    Gradient of c: g * (value * b)
    """

def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""

def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""

def adjoint(input: Tensor) -> Tensor:
    """The transpose of the last two dimensions."""

@overload
def all(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether all elements are nonzero.

    Args:
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.

    Example:
        >>> torch.all(torch.tensor([[True, True], [False, True]]), dim=1)
        tensor([ True, False])
    """
@overload
def all(input: Tensor, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

@overload
def amax(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """The largest elements; equal ones share the gradient.

    Args:
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.

    Example:
        >>> torch.amax(torch.tensor([[1., 5.], [7., 2.]]), dim=0)
        tensor([7., 5.])
    """
@overload
def amax(input: Tensor, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

@overload
def amin(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """The smallest elements; equal ones share the gradient.

    Args:
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.

    Example:
        >>> torch.amin(torch.tensor([[1., 5.], [7., 2.]]), dim=0)
        tensor([1., 2.])
    """
@overload
def amin(input: Tensor, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angles of complex numbers, in (-pi, pi]; of real ones 0 or pi.

    Example:
        >>> torch.angle(torch.tensor([1j, -1 + 0j]))
        tensor([1.5708, 3.1416])
    """

@overload
def any(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether any element is nonzero.

    Args:
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.

    Example:
        >>> torch.any(torch.tensor([[False, True], [False, False]]), dim=1)
        tensor([ True, False])
    """
@overload
def any(input: Tensor, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

@overload
def arange(end: Any, step: Any = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """The values from start, by step, up to but without end.

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
    """
@overload
def arange(start: Any, end: Any, step: Any = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor: ...

@overload
def argmax(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """The place of the first largest element.

    Args:
        dim: the dimension; without it the place in the flattened tensor.
        keepdim: whether the reduced dimension stays, with size one.

    Example:
        >>> torch.argmax(torch.tensor([3., 9., 9.]))
        tensor(1)
    """
@overload
def argmax(input: Tensor, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

@overload
def argmin(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """The place of the first smallest element.

    Args:
        dim: the dimension; without it the place in the flattened tensor.
        keepdim: whether the reduced dimension stays, with size one.

    Example:
        >>> torch.argmin(torch.tensor([3., 1., 9.]))
        tensor(1)
    """
@overload
def argmin(input: Tensor, axis: builtins.int | None = None, keepdims: builtins.bool = False, *, out: Tensor | None = None) -> Tensor: ...

@overload
def argsort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool | None = False) -> Tensor:
    """The indices that sort along a dimension.

    Args:
        dim: the dimension.
        descending: the greatest first.
        stable: accepted; equal elements keep their order in any case.

    Example:
        >>> torch.argsort(torch.tensor([3, 1, 2]))
        tensor([1, 2, 0])
    """
@overload
def argsort(input: Tensor, axis: builtins.int, descending: builtins.bool = False, *, stable: builtins.bool | None = False) -> Tensor: ...

def as_strided(input: Tensor, size: builtins.int | Sequence[builtins.int], stride: builtins.int | Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
    """A view of the storage with any sizes and strides that stay inside it."""

def as_tensor(data: Any, dtype: _dtype | None = None, device: Device | None = None) -> Tensor:
    """Data as a tensor: itself if it is one, over the same memory if it is an array, else a copy.

    Args:
        data: a tensor, a number, nested sequences of numbers, or an array.
        dtype: the type of the elements; inferred from data if not given.
        device: "cpu".

    Example:
        >>> x = torch.ones(2)
        >>> torch.as_tensor(x) is x
        True
    """

def asarray(obj: Any, *, dtype: _dtype | None = None, device: Device | None = None, copy: Any = None, requires_grad: builtins.bool | None = None) -> Tensor:
    """An object as a tensor, sharing its memory where that is possible.

    Args:
        obj: a tensor, an array, an object with DLPack or a buffer, a number or sequences of numbers.
        dtype: the type of the elements.
        device: "cpu".
        copy: True always copies, False never; None copies where it must.
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.asarray([1.0, 2.0])
        tensor([1., 2.])
    """

def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise asin(x), where x is the operand, broadcast together.

    Gradient of x: g * rsqrt(1 - x * x)
    """

def asin_(input: Tensor) -> Tensor:
    """Elementwise asin(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * rsqrt(1 - x * x)
    """

def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise asinh(x), where x is the operand, broadcast together.

    Gradient of x: g * rsqrt(x * x + 1)
    """

def asinh_(input: Tensor) -> Tensor:
    """Elementwise asinh(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * rsqrt(x * x + 1)
    """

def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise atan(x), where x is the operand, broadcast together.

    Gradient of x: g / (x * x + 1)
    """

def atan2(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise atan2(a, b), where a and b are the operands, broadcast together.

    Gradient of a: where(a * a + b * b == 0, 0, g * b / (a * a + b * b))
    Gradient of b: where(a * a + b * b == 0, 0, -g * a / (a * a + b * b))
    """

def atan_(input: Tensor) -> Tensor:
    """Elementwise atan(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / (x * x + 1)
    """

def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise atanh(x), where x is the operand, broadcast together.

    Gradient of x: g / (1 - x * x)
    """

def atanh_(input: Tensor) -> Tensor:
    """Elementwise atanh(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / (1 - x * x)
    """

def autocast_decrement_nesting() -> builtins.int:
    """Leaves a block of autocast; returns how many this thread is in."""

def autocast_increment_nesting() -> builtins.int:
    """Enters a block of autocast; returns how many this thread is in."""

def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), for batches."""

def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Ones with given probabilities, else zeros. Not differentiable: the gradient is zero.

    Args:
        input: the probability of each element; with p, only the shape and dtype.
        p: one probability for all.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.

    Example:
        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """

def bincount(input: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
    """How often each non-negative integer occurs in a vector.

    Args:
        weights: what each element counts, instead of one.
        minlength: the least length of the result.

    Example:
        >>> torch.bincount(torch.tensor([0, 2, 2]))
        tensor([1, 0, 2])
    """

def bitwise_and(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a & b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def bitwise_left_shift(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise left_shift(a, b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise ~x, where x is the operand, broadcast together.

    Gradient of x: none
    """

def bitwise_not_(input: Tensor) -> Tensor:
    """Elementwise ~x, in place, where x is the operand, broadcast together.

    Gradient of x: none
    """

def bitwise_or(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a | b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def bitwise_right_shift(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise right_shift(a, b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def bitwise_xor(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a ^ b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two batches of matrices."""

def broadcast_to(input: Tensor, size: builtins.int | Sequence[builtins.int]) -> Tensor:
    """A view broadcast to the shape `size`."""

def build_info() -> dict[Any, Any]:
    """Compiler, instruction set, BLAS and threads."""

def cat(tensors: Sequence[Tensor], dim: builtins.int = 0, *, axis: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    """Joins tensors along a dimension they all have.

    Args:
        tensors: the tensors, of one shape except along `dim`.
        dim: the dimension along which they are laid one behind the other.
        axis: another name for `dim`.
        out: a tensor to write to.

    Example:
        >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
        tensor([1, 2, 3])
    """

def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise ceil(x), where x is the operand, broadcast together.

    Gradient of x: 0
    """

def ceil_(input: Tensor) -> Tensor:
    """Elementwise ceil(x), in place, where x is the operand, broadcast together.

    Gradient of x: 0
    """

def celu(input: Tensor, alpha: Number = 1, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x > 0, x, alpha * expm1(x / alpha)), where x is the operand, broadcast together.

    Gradient of x: where(x > 0, g, g * exp(x / alpha))
    """

def celu_(input: Tensor, alpha: Number = 1) -> Tensor:
    """Elementwise where(x > 0, x, alpha * expm1(x / alpha)), in place, where x is the operand, broadcast together.

    Gradient of x: where(x > 0, g, g * exp(x / alpha))
    """

def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of equal size."""

def clamp(input: Tensor, min: object | None = None, max: object | None = None, *, out: Tensor | None = None) -> Tensor:
    """Values below min become min, values above max become max."""

def clamp_max(input: Tensor, max: object | None, *, out: Tensor | None = None) -> Tensor:
    """Values above max become max."""

def clamp_min(input: Tensor, min: object | None, *, out: Tensor | None = None) -> Tensor:
    """Values below min become min."""

def clear_autocast_cache() -> None:
    """Drops the casts of parameters that autocast has kept on this thread."""

def clip(input: Tensor, min: object | None = None, max: object | None = None, *, out: Tensor | None = None) -> Tensor:
    """Values below min become min, values above max become max."""

def clone(input: Tensor, *, memory_format: object | None = None) -> Tensor:
    """A copy."""

def conj(input: Tensor) -> Tensor:
    """The complex conjugates, computed at once; a real tensor itself.

    Example:
        >>> torch.conj(torch.tensor([1 + 2j]))
        tensor([1.-2.j])
    """

def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugates: the same as conj()."""

def conj_physical_(input: Tensor) -> Tensor:
    """Conjugates in place."""

def copysign(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise copysign(a, b), where a and b are the operands, broadcast together.

    Gradient of a: where(a == 0, 0, g * (y / where(a == 0, 1, a)))
    Gradient of b: 0
    """

def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise cos(x), where x is the operand, broadcast together.

    Gradient of x: -g * sin(x)
    """

def cos_(input: Tensor) -> Tensor:
    """Elementwise cos(x), in place, where x is the operand, broadcast together.

    Gradient of x: -g * sin(x)
    """

def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise cosh(x), where x is the operand, broadcast together.

    Gradient of x: g * sinh(x)
    """

def cosh_(input: Tensor) -> Tensor:
    """Elementwise cosh(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * sinh(x)
    """

def count_nonzero(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """How many elements are nonzero.

    Args:
        dim: one dimension, several, or None for all.

    Example:
        >>> torch.count_nonzero(torch.tensor([0, 3, 0, 5]))
        tensor(2)
    """

def cummax(input: Tensor, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.cummax:
    """Running maxima along a dimension, and their latest places.

    Args:
        dim: the dimension.

    Example:
        >>> torch.cummax(torch.tensor([1., 3., 2.]), dim=0).values
        tensor([1., 3., 3.])
    """

def cummin(input: Tensor, dim: builtins.int, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.cummin:
    """Running minima along a dimension, and their latest places.

    Args:
        dim: the dimension.

    Example:
        >>> torch.cummin(torch.tensor([2., 3., 1.]), dim=0).indices
        tensor([0, 0, 2])
    """

@overload
def cumprod(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Running products along a dimension. Integers run in int64.

    Args:
        dim: the dimension.
        dtype: what elements are converted to first.

    Example:
        >>> torch.cumprod(torch.tensor([1., 2., 3.]), dim=0)
        tensor([1., 2., 6.])
    """
@overload
def cumprod(input: Tensor, axis: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

@overload
def cumsum(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Running sums along a dimension. Integers run in int64.

    Args:
        dim: the dimension.
        dtype: what elements are converted to first.

    Example:
        >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
        tensor([1, 3, 6])
    """
@overload
def cumsum(input: Tensor, axis: builtins.int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

default_generator: Generator

def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x * 0.017453292519943295, where x is the operand, broadcast together.

    Gradient of x: g * 0.017453292519943295
    """

def deg2rad_(input: Tensor) -> Tensor:
    """Elementwise x * 0.017453292519943295, in place, where x is the operand, broadcast together.

    Gradient of x: g * 0.017453292519943295
    """

def detach(input: Tensor) -> Tensor:
    """The same memory without history."""

def diag(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix.

    Args:
        diagonal: which one: 0 the main one, above 0 above it, below 0 below it.

    Example:
        >>> torch.diag(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """

def diagonal(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """A view of the diagonal of two dimensions."""

def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise digamma(x), where x is the operand, broadcast together.

    Gradient of x: g * polygamma(1, x)
    """

def digamma_(input: Tensor) -> Tensor:
    """Elementwise digamma(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * polygamma(1, x)
    """

def div(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None, rounding_mode: Literal["trunc", "floor"] | None = None) -> Tensor:
    """Elementwise a / b, where a and b are the operands, broadcast together.

    Gradient of a: g / b
    Gradient of b: -g * (a / b) / b
    """

def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors."""

def elu(input: Tensor, alpha: Number = 1, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x > 0, x, alpha * expm1(x)), where x is the operand, broadcast together.

    Gradient of x: where(x > 0, g, g * alpha * exp(x))
    """

def elu_(input: Tensor, alpha: Number = 1) -> Tensor:
    """Elementwise where(x > 0, x, alpha * expm1(x)), in place, where x is the operand, broadcast together.

    Gradient of x: where(x > 0, g, g * alpha * exp(x))
    """

def empty(*size: Any, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None) -> Tensor:
    """A tensor whose elements are not set.

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
    """

def empty_cache() -> None:
    """Returns cached memory to the system."""

def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None) -> Tensor:
    """Elements that are not set in the shape and memory order of another tensor.

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
    """

def empty_strided(size: Any, stride: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor whose elements are not set, with given strides.

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
    """

def eq(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a == b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise erf(x), where x is the operand, broadcast together.

    Gradient of x: 1.1283791670955126 * exp(-x * x) * g
    """

def erf_(input: Tensor) -> Tensor:
    """Elementwise erf(x), in place, where x is the operand, broadcast together.

    Gradient of x: 1.1283791670955126 * exp(-x * x) * g
    """

def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise erfc(x), where x is the operand, broadcast together.

    Gradient of x: -1.1283791670955126 * exp(-x * x) * g
    """

def erfc_(input: Tensor) -> Tensor:
    """Elementwise erfc(x), in place, where x is the operand, broadcast together.

    Gradient of x: -1.1283791670955126 * exp(-x * x) * g
    """

def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise erfinv(x), where x is the operand, broadcast together.

    Gradient of x: 0.886226925452758 * exp(y * y) * g
    """

def erfinv_(input: Tensor) -> Tensor:
    """Elementwise erfinv(x), in place, where x is the operand, broadcast together.

    Gradient of x: 0.886226925452758 * exp(y * y) * g
    """

def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise exp(x), where x is the operand, broadcast together.

    Gradient of x: g * y
    """

def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise exp2(x), where x is the operand, broadcast together.

    Gradient of x: g * y * 0.6931471805599453
    """

def exp2_(input: Tensor) -> Tensor:
    """Elementwise exp2(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * y * 0.6931471805599453
    """

def exp_(input: Tensor) -> Tensor:
    """Elementwise exp(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * y
    """

def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise expm1(x), where x is the operand, broadcast together.

    Gradient of x: g * (y + 1)
    """

def expm1_(input: Tensor) -> Tensor:
    """Elementwise expm1(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * (y + 1)
    """

def eye(n: Any, m: Any = None, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A matrix with ones on the diagonal and zeros elsewhere.

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
    """

def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    """Merges dimensions start_dim to end_dim into one."""

def flip(input: Tensor, dims: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Turns the order round along some dimensions.

    Args:
        dims: the dimensions.

    Example:
        >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), [1])
        tensor([[2, 1],
                [4, 3]])
    """

def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise floor(x), where x is the operand, broadcast together.

    Gradient of x: 0
    """

def floor_(input: Tensor) -> Tensor:
    """Elementwise floor(x), in place, where x is the operand, broadcast together.

    Gradient of x: 0
    """

def floor_divide(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise floor_divide(a, b), where a and b are the operands, broadcast together.

    Gradient of a: 0
    Gradient of b: 0
    """

def fmax(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where((a >= b) | (b != b), a, b), where a and b are the operands, broadcast together.

    Gradient of a: where((a >= b) | (b != b), g, 0)
    Gradient of b: where((a >= b) | (b != b), 0, g)
    """

def fmin(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where((a <= b) | (b != b), a, b), where a and b are the operands, broadcast together.

    Gradient of a: where((a <= b) | (b != b), g, 0)
    Gradient of b: where((a <= b) | (b != b), 0, g)
    """

def fmod(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise fmod(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g
    Gradient of b: -g * div_trunc(a, b)
    """

def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x - trunc(x), where x is the operand, broadcast together.

    Gradient of x: g
    """

def frac_(input: Tensor) -> Tensor:
    """Elementwise x - trunc(x), in place, where x is the operand, broadcast together.

    Gradient of x: g
    """

def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array.

    Args:
        ext_tensor: an object with ``__dlpack__``, or a DLPack capsule, which is consumed.
        device: where the result is to be; from another device it is copied.
        copy: True copies the memory, False refuses to; otherwise it is shared where it can be.

    Memory that its owner calls read-only is shared as well: do not write to it. On a GPU the current
    stream waits for what the producer has queued, and the producer gets its memory back when the
    streams that used it are done.

    Example:
        >>> import numpy
        >>> torch.from_dlpack(numpy.arange(3.0))
        tensor([0., 1., 2.], dtype=torch.float64)
    """

def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array: a write to one is seen in the other.

    Args:
        ndarray: the array, with non-negative strides and native byte order.

    Example:
        >>> import numpy
        >>> array = numpy.array([1, 2, 3])
        >>> x = torch.from_numpy(array)
        >>> array[0] = 10
        >>> x
        tensor([10,  2,  3])
    """

def frombuffer(buffer: object, *, dtype: _dtype, count: builtins.int = -1, offset: builtins.int = 0, requires_grad: builtins.bool = False) -> Tensor:
    """A one-dimensional tensor over the memory of an object with a buffer.

    Args:
        buffer: bytearray, memoryview, array.array, mmap, ...
        dtype: the type of the elements.
        count: how many elements to take; negative takes all.
        offset: how many bytes to skip at the beginning.
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
        tensor([1, 2], dtype=torch.int16)
    """

def full(size: Any, fill_value: Any, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor with the same value everywhere.

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
    """

def full_like(input: Tensor, fill_value: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None) -> Tensor:
    """The same value everywhere, in the shape and memory order of another tensor.

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
    """

def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Elements along a dimension, one for each element of an index tensor.

    Args:
        dim: the dimension along which the index counts; the other coordinates are the index's own.
        index: int64 or int32, of the tensor's rank; the result has its shape.
        sparse_grad: accepted; gradients are dense.

    Example:
        >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
        tensor([[1, 1],
                [4, 3]])
    """

def gcd(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise gcd(a, b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def ge(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a >= b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def gelu(input: Tensor, approximate: str = 'none') -> Tensor:
    """x * P(X <= x) for a standard normal X."""

def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""

def get_autocast_cpu_dtype() -> _dtype:
    """Deprecated: use torch.get_autocast_dtype('cpu')."""

def get_autocast_dtype(device_type: str) -> _dtype:
    """The dtype that autocast casts to on a device type.

    Args:
        device_type: "cpu" or "cuda".

    Example:
        >>> torch.get_autocast_dtype("cpu")
        torch.bfloat16
    """

def get_autocast_gpu_dtype() -> _dtype:
    """Deprecated: use torch.get_autocast_dtype('cuda')."""

def get_default_dtype() -> _dtype:
    """The dtype of new floating-point tensors."""

def get_num_threads() -> builtins.int:
    """How many threads a kernel may use."""

def get_rng_state() -> Tensor:
    """The state of the default generator, as a uint8 tensor."""

def gt(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a > b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def hardshrink(input: Tensor, lambd: Number = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where((x >= -lambd) & (x <= lambd), 0, x), where x is the operand, broadcast together.

    Gradient of x: where((x >= -lambd) & (x <= lambd), 0, g)
    """

def hardshrink_(input: Tensor, lambd: Number = 0.5) -> Tensor:
    """Elementwise where((x >= -lambd) & (x <= lambd), 0, x), in place, where x is the operand, broadcast together.

    Gradient of x: where((x >= -lambd) & (x <= lambd), 0, g)
    """

def hardsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise minimum(maximum(x + 3, 0), 6) / 6, where x is the operand, broadcast together.

    Gradient of x: where((x > -3) & (x < 3), g / 6, 0)
    """

def hardsigmoid_(input: Tensor) -> Tensor:
    """Elementwise minimum(maximum(x + 3, 0), 6) / 6, in place, where x is the operand, broadcast together.

    Gradient of x: where((x > -3) & (x < 3), g / 6, 0)
    """

def hardswish(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x * (minimum(maximum(x + 3, 0), 6) * 0.16666666666666666), where x is the operand, broadcast together.

    Gradient of x: where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g))
    """

def hardswish_(input: Tensor) -> Tensor:
    """Elementwise x * (minimum(maximum(x + 3, 0), 6) * 0.16666666666666666), in place, where x is the operand, broadcast together.

    Gradient of x: where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g))
    """

def hardtanh(input: Tensor, min_val: Number = -1, max_val: Number = 1, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x < min_val, min_val, where(x > max_val, max_val, x)), where x is the operand, broadcast together.

    Gradient of x: where((x > min_val) & (x < max_val), g, 0)
    """

def hardtanh_(input: Tensor, min_val: Number = -1, max_val: Number = 1) -> Tensor:
    """Elementwise where(x < min_val, min_val, where(x > max_val, max_val, x)), in place, where x is the operand, broadcast together.

    Gradient of x: where((x > min_val) & (x < max_val), g, 0)
    """

def heaviside(input: Tensor | Number, values: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(a == 0, b, sign(maximum(a, 0))), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def hypot(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise hypot(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g * (a / y)
    Gradient of b: g * (b / y)
    """

def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise i0(x), where x is the operand, broadcast together.

    Gradient of x: g * i1(x)
    """

def i0_(input: Tensor) -> Tensor:
    """Elementwise i0(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * i1(x)
    """

def igamma(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise igamma(a, b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: g * gamma_density(a, b)
    """

def igammac(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise igammac(a, b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: -g * gamma_density(a, b)
    """

def imag(input: Tensor) -> Tensor:
    """The imaginary parts of a complex tensor, over the same memory.

    Example:
        >>> torch.imag(torch.tensor([1 + 2j]))
        tensor([2.])
    """

def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.bool | builtins.int | builtins.float | builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """A copy to whose slices along a dimension those of `source` are added.

    Args:
        dim: the dimension.
        index: to which slice each slice of `source` is added; repeats add up in order.
        source: of the tensor's shape except along `dim`.
        alpha: a factor for `source`.

    Example:
        >>> torch.index_add(torch.zeros(2), 0, torch.tensor([1, 1]), torch.tensor([1., 2.]))
        tensor([0., 3.])
    """

def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy whose slices along a dimension are replaced by those of `source`.

    Args:
        dim: the dimension.
        index: which slice each slice of `source` replaces, int64.
        source: of the tensor's shape except along `dim`.

    Example:
        >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2]), torch.tensor([5.]))
        tensor([0., 0., 5.])
    """

def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: object) -> Tensor:
    """A copy whose slices along a dimension are filled with a value.

    Args:
        dim: the dimension.
        index: the slices, int64.
        value: a number or a 0-d tensor.

    Example:
        >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([0, 2]), 1)
        tensor([1., 0., 1.])
    """

def index_put(input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """A copy with `values` written at the places that index tensors name.

    Args:
        indices: one index tensor for each leading dimension; they broadcast together.
        values: what is written, broadcast to the shape of the places.
        accumulate: whether values are added to what is there, also where places repeat.

    Example:
        >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.tensor([1., 2.]), accumulate=True)
        tensor([3., 0., 0.])
    """

def index_select(input: Tensor, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Slices along a dimension, chosen by a vector of indices.

    Args:
        dim: the dimension.
        index: int64 or int32, none negative.

    Example:
        >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 0, torch.tensor([1, 1]))
        tensor([[3, 4],
                [3, 4]])
    """

def initial_seed() -> builtins.int:
    """The seed of the default generator."""

def install_source_lines(own_folder: str) -> None:
    """Starts noting the source line of each tape entry."""

def is_autocast_cache_enabled() -> builtins.bool:
    """Whether autocast keeps the casts of parameters until the outermost block is left."""

def is_autocast_cpu_enabled() -> builtins.bool:
    """Deprecated: use torch.is_autocast_enabled('cpu')."""

def is_autocast_enabled(device_type: str = 'cuda') -> builtins.bool:
    """Whether autocast is on for a device type on this thread.

    Args:
        device_type: "cpu" or "cuda"; "cuda" if there is none.

    Example:
        >>> with torch.autocast("cpu"):
        ...     torch.is_autocast_enabled("cpu")
        True
    """

def is_complex(input: Tensor) -> builtins.bool:
    """Whether the dtype is a complex one."""

def is_conj(input: Tensor) -> builtins.bool:
    """Always False: conjugates are computed at once, never put off."""

def is_floating_point(input: Tensor) -> builtins.bool:
    """Whether the dtype is a floating one."""

def is_grad_enabled() -> builtins.bool:
    """Whether ops are recorded on this thread."""

def is_neg(input: Tensor) -> builtins.bool:
    """Always False: negation is computed at once, never put off."""

def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Whether both have the same shape."""

def is_signed(input: Tensor) -> builtins.bool:
    """Whether the dtype has a sign."""

def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x - x == 0, where x is the operand, broadcast together.

    Gradient of x: none
    """

def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x == x, x - x, 0) != 0, where x is the operand, broadcast together.

    Gradient of x: none
    """

def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x != x, where x is the operand, broadcast together.

    Gradient of x: none
    """

def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x - x == 0, 0, x) < 0, where x is the operand, broadcast together.

    Gradient of x: none
    """

def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x - x == 0, 0, x) > 0, where x is the operand, broadcast together.

    Gradient of x: none
    """

def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.kthvalue:
    """The k-th smallest element along a dimension, and where it was.

    Args:
        k: counts from 1.
        dim: the dimension.
        keepdim: whether the dimension stays, with size one.

    Example:
        >>> torch.kthvalue(torch.tensor([3, 9, 5]), 2).values
        tensor(5)
    """

def lcm(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise abs(a / where(gcd(a, b) == 0, 1, gcd(a, b)) * b), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def le(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a <= b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def leaky_relu(input: Tensor, negative_slope: Number = 0.01, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x > 0, x, x * negative_slope), where x is the operand, broadcast together.

    Gradient of x: where(x > 0, g, g * negative_slope)
    """

def leaky_relu_(input: Tensor, negative_slope: Number = 0.01) -> Tensor:
    """Elementwise where(x > 0, x, x * negative_slope), in place, where x is the operand, broadcast together.

    Gradient of x: where(x > 0, g, g * negative_slope)
    """

def lerp(input: Tensor | Number, end: Tensor | Number, weight: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(abs(c) < 0.5, a + c * (b - a), b - (b - a) * (1 - c)), where a, b and c are the operands, broadcast together.

    Gradient of a: g * (1 - c)
    Gradient of b: g * c
    Gradient of c: g * (b - a)
    """

def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise lgamma(x), where x is the operand, broadcast together.

    Gradient of x: g * digamma(x)
    """

def lgamma_(input: Tensor) -> Tensor:
    """Elementwise lgamma(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * digamma(x)
    """

def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias."""

def linspace(start: Any, end: Any, steps: Any, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Values from start to end, both included, at equal distances.

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
    """

def live_counts() -> tuple[builtins.int, builtins.int]:
    """Live tensors and tape entries, for leak checks."""

def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise log(x), where x is the operand, broadcast together.

    Gradient of x: g / x
    """

def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise log10(x), where x is the operand, broadcast together.

    Gradient of x: g / (x * 2.302585092994046)
    """

def log10_(input: Tensor) -> Tensor:
    """Elementwise log10(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / (x * 2.302585092994046)
    """

def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise log1p(x), where x is the operand, broadcast together.

    Gradient of x: g / (x + 1)
    """

def log1p_(input: Tensor) -> Tensor:
    """Elementwise log1p(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / (x + 1)
    """

def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise log2(x), where x is the operand, broadcast together.

    Gradient of x: g / (x * 0.6931471805599453)
    """

def log2_(input: Tensor) -> Tensor:
    """Elementwise log2(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / (x * 0.6931471805599453)
    """

def log_(input: Tensor) -> Tensor:
    """Elementwise log(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / x
    """

def log_softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of softmax, computed without leaving the logarithms.

    Args:
        dim: the dimension.
        dtype: what elements are converted to first.

    Example:
        >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
        tensor([-0.6931, -0.6931])
    """

def logaddexp(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise logaddexp(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g * sigmoid(a - b)
    Gradient of b: g * sigmoid(b - a)
    """

def logaddexp2(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise logaddexp2(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g / (1 + exp2(b - a))
    Gradient of b: g / (1 + exp2(a - b))
    """

def logcumsumexp(input: Tensor, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Logarithms of the running sums of exponentials, without overflow.

    Args:
        dim: the dimension.

    Example:
        >>> torch.logcumsumexp(torch.tensor([1000., 1000.]), dim=0)
        tensor([1000.0000, 1000.6932])
    """

def logical_and(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise (a != 0) & (b != 0), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x == 0, where x is the operand, broadcast together.

    Gradient of x: none
    """

def logical_not_(input: Tensor) -> Tensor:
    """Elementwise x == 0, in place, where x is the operand, broadcast together.

    Gradient of x: none
    """

def logical_or(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise (a != 0) | (b != 0), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def logical_xor(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise (a != 0) ^ (b != 0), where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def logit(input: Tensor, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; x is first brought between eps and 1 - eps."""

def logit_(input: Tensor, eps: builtins.float | None = None) -> Tensor:
    """logit() in place."""

def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise minimum(x, 0) - log1p(exp(-abs(x))), where x is the operand, broadcast together.

    Gradient of x: g * sigmoid(-x)
    """

def logsigmoid_(input: Tensor) -> Tensor:
    """Elementwise minimum(x, 0) - log1p(exp(-abs(x))), in place, where x is the operand, broadcast together.

    Gradient of x: g * sigmoid(-x)
    """

def logspace(start: Any, end: Any, steps: Any, base: Any = 10.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Values from base ** start to base ** end, both included, at equal ratios.

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
    """

def logsumexp(input: Tensor, dim: builtins.int | Sequence[builtins.int], keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of exponentials, without overflow.

    Args:
        dim: one dimension, or several.
        keepdim: whether reduced dimensions stay, with size one.

    Example:
        >>> torch.logsumexp(torch.tensor([1000., 1000.]), dim=0)
        tensor(1000.6932)
    """

def lt(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a < b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def manual_seed(seed: builtins.int) -> Generator:
    """Seeds the default generator and returns it.

    Args:
        seed: an int from -2**63 to 2**64 - 1; negative ones count from 2**64 down.

    Example:
        >>> torch.manual_seed(1).initial_seed()
        1
    """

def masked_fill(input: Tensor, mask: Tensor, value: object) -> Tensor:
    """A copy with a value where a mask is true.

    Args:
        mask: bool, broadcast together with the tensor.
        value: a number or a 0-d tensor.

    Example:
        >>> torch.tensor([1, 2, 3]).masked_fill(torch.tensor([True, False, True]), 0)
        tensor([0, 2, 0])
    """

def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy in which elements where a mask is true are replaced, in order.

    Args:
        mask: bool, broadcast together with the tensor.
        source: at least as many elements as the mask has true ones.

    Example:
        >>> mask = torch.tensor([True, False, True])
        >>> torch.zeros(3).masked_scatter(mask, torch.tensor([7., 8.]))
        tensor([7., 0., 8.])
    """

def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where a mask is true, as a vector.

    Args:
        mask: bool, broadcast together with the tensor.

    Example:
        >>> x = torch.tensor([1, 2, 3])
        >>> torch.masked_select(x, x > 1)
        tensor([2, 3])
    """

def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product of the last two dimensions, other dimensions broadcast; vectors are treated as rows or columns."""

@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest element, also along a dimension with its place, or the larger of two.

    Args:
        dim: the dimension; the result is then a named tuple (values, indices) of the first largest.
        keepdim: whether the reduced dimension stays, with size one.
        other: a tensor to compare with, element by element.

    Example:
        >>> torch.max(torch.tensor([[1., 5.], [7., 2.]]), dim=1).indices
        tensor([1, 0])
    """
@overload
def max(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.max: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, axis: builtins.int, keepdims: builtins.bool = False) -> _return_types.max: ...

def maximum(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise maximum(a, b), where a and b are the operands, broadcast together.

    Gradient of a: where(a == b, 0.5 * g, where(a < b, 0, g))
    Gradient of b: where(a == b, 0.5 * g, where(a > b, 0, g))
    """

@overload
def mean(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The mean over all or some dimensions, of a floating dtype.

    Args:
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.
        dtype: what elements are converted to first.

    Example:
        >>> torch.mean(torch.tensor([1., 2., 6.]))
        tensor(3.)
    """
@overload
def mean(input: Tensor, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

@overload
def median(input: Tensor) -> Tensor:
    """The median; of an even number of elements the lower of the two in the middle.

    Args:
        dim: the dimension; the result is then a named tuple (values, indices).
        keepdim: whether the reduced dimension stays, with size one.

    Example:
        >>> torch.median(torch.tensor([3., 1., 2.]))
        tensor(2.)
    """
@overload
def median(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.median: ...

def memory_stats() -> dict[Any, Any]:
    """Bytes and counts of the CPU allocator: live, peak, cached, allocations, and saved by the tape."""

@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest element, also along a dimension with its place, or the lesser of two.

    Args:
        dim: the dimension; the result is then a named tuple (values, indices) of the first smallest.
        keepdim: whether the reduced dimension stays, with size one.
        other: a tensor to compare with, element by element.

    Example:
        >>> torch.min(torch.tensor([[1., 5.], [7., 2.]]), dim=1).values
        tensor([1., 2.])
    """
@overload
def min(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.min: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, axis: builtins.int, keepdims: builtins.bool = False) -> _return_types.min: ...

def minimum(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise minimum(a, b), where a and b are the operands, broadcast together.

    Gradient of a: where(a == b, 0.5 * g, where(a > b, 0, g))
    Gradient of b: where(a == b, 0.5 * g, where(a < b, 0, g))
    """

def mish(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x * tanh(logaddexp(x, 0)), where x is the operand, broadcast together.

    Gradient of x: g * (tanh(logaddexp(x, 0)) + x * sigmoid(x) * (1 - square(tanh(logaddexp(x, 0)))))
    """

def mish_(input: Tensor) -> Tensor:
    """Elementwise x * tanh(logaddexp(x, 0)), in place, where x is the operand, broadcast together.

    Gradient of x: g * (tanh(logaddexp(x, 0)) + x * sigmoid(x) * (1 - square(tanh(logaddexp(x, 0)))))
    """

def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices.

    Example:
        >>> torch.mm(torch.eye(2), torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """

def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.mode:
    """The most frequent element along a dimension, and where it was last.

    Of several that are equally frequent it is the smallest. NaNs are equal to each other, and larger
    than numbers.

    Args:
        dim: the dimension.
        keepdim: whether the dimension stays, with size one.

    Example:
        >>> torch.mode(torch.tensor([3, 9, 5, 9]))
        torch.return_types.mode(
        values=tensor(9),
        indices=tensor(3))
    """

def moveaxis(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Moves dimensions to other positions."""

def movedim(input: Tensor, source: builtins.int | Sequence[builtins.int], destination: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Moves dimensions to other positions."""

def mul(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a * b, where a and b are the operands, broadcast together.

    Gradient of a: g * b
    Gradient of b: g * a
    """

def multinomial(input: Tensor, num_samples: Any, replacement: Any = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Indices drawn from each row, an index as often as its weight says.

    Args:
        input: weights, not negative, in one or two dimensions; rows need not sum to one.
        num_samples: how many indices to draw from each row.
        replacement: whether an index may be drawn again.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.

    Example:
        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
        tensor([1, 1])
    """

def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector."""

def mvlgamma(input: Tensor, p: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p: that of pi^(p (p - 1) / 4) gamma(x) gamma(x - 1/2) ... gamma(x - (p - 1) / 2)."""

def nan_to_num(input: Tensor, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Replaces NaN (by 0) and infinities (by the largest finite numbers)."""

def narrow(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """The part of a dimension from start on, `length` long."""

def ne(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise a != b, where a and b are the operands, broadcast together.

    Gradient of a: none
    Gradient of b: none
    """

def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise -x, where x is the operand, broadcast together.

    Gradient of x: -g
    """

def neg_(input: Tensor) -> Tensor:
    """Elementwise -x, in place, where x is the operand, broadcast together.

    Gradient of x: -g
    """

def nextafter(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise nextafter(a, b), where a and b are the operands, broadcast together.

    Gradient of a: where(a == b, 0, g)
    Gradient of b: 0
    """

@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
    """nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> object

    The indices of the elements that are not zero.

    Args:
        as_tuple: one vector of indices for each dimension instead of a matrix.

    Example:
        >>> torch.nonzero(torch.tensor([0, 7, 9]))
        tensor([[1],
                [2]])
    """
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True], out: None = None) -> tuple[Tensor, ...]: ...
@overload
def nonzero(input: Tensor, *, as_tuple: builtins.bool, out: Tensor | None = None) -> Any: ...

def norm(input: Tensor, p: object | None = 'fro', dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
    """The p-norm of the elements, over all or some dimensions.

    Args:
        p: the order: a number, inf, -inf, 'fro' for 2, or 'nuc' for the sum of a matrix's singular values.
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.
        dtype: what elements are converted to first.

    Example:
        >>> torch.norm(torch.tensor([3., 4.]))
        tensor(5.)
    """

def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Normal random numbers.

    With tensors for mean or std, each element has its own; their shapes are broadcast. Sampling is not
    differentiable: gradients of mean and std are zero.

    Args:
        mean: a tensor or a number.
        std: a tensor or a number, not negative.
        size: a tuple of ints, when mean and std are numbers.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.
        dtype: the type of the elements; the default dtype if not given. Only with size.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.normal(torch.zeros(3), 1.0).shape
        torch.Size([3])
        >>> torch.normal(2.0, 0.5, (2, 2)).shape
        torch.Size([2, 2])
    """

def numel(input: Tensor) -> builtins.int:
    """The number of elements."""

def ones(*size: Any, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor of ones.

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
    """

def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None) -> Tensor:
    """Ones in the shape and memory order of another tensor.

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
    """

def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""

def permute(input: Tensor, dims: builtins.int | Sequence[builtins.int]) -> Tensor:
    """A view with the dimensions in another order."""

def pointwise_table() -> list[Any]:
    """The lines of the pointwise table, as dicts."""

def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson random numbers. Not differentiable: the gradient is zero.

    Args:
        input: the rate of each element, not negative.
        generator: where the numbers come from; the default generator if not given.

    Example:
        >>> torch.poisson(torch.zeros(3))
        tensor([0., 0., 0.])
    """

def polygamma(n: builtins.int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma; n = 0 is digamma itself."""

def pow(input: Tensor | Number, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise pow(a, b), where a and b are the operands, broadcast together.

    Gradient of a: where(b == 0, 0, g * (b * pow(a, where(b == 0, 1, b) - 1)))
    Gradient of b: g * where((a == 0) & (b >= 0), 0, y * log(a))
    """

@overload
def prod(input: Tensor, *, dtype: _dtype | None = None) -> Tensor:
    """The product of all elements, or over one dimension.

    Args:
        dim: the dimension; without it all elements are multiplied.
        keepdim: whether the reduced dimension stays, with size one.
        dtype: what elements are converted to first.

    Example:
        >>> torch.prod(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
        tensor([ 2., 12.])
    """
@overload
def prod(input: Tensor, dim: builtins.int, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

def promote_types(type1: _dtype, type2: _dtype) -> _dtype:
    """The smallest dtype both convert to."""

def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """A copy with elements written at indices into the flattened tensor.

    Args:
        index: int64.
        source: as many elements as `index` has.
        accumulate: whether they are added to what is there.

    Example:
        >>> torch.put(torch.zeros(2, 2), torch.tensor([3]), torch.tensor([9.]))
        tensor([[0., 0.],
                [0., 9.]])
    """

def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x * 57.29577951308232, where x is the operand, broadcast together.

    Gradient of x: g * 57.29577951308232
    """

def rad2deg_(input: Tensor) -> Tensor:
    """Elementwise x * 57.29577951308232, in place, where x is the operand, broadcast together.

    Gradient of x: g * 57.29577951308232
    """

def rand(*size: Any, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Random numbers, uniform on [0, 1).

    Args:
        size: ints, or one tuple of ints.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.
        dtype: the type of the elements; the default dtype if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.rand(2, 3).shape
        torch.Size([2, 3])
    """

def rand_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None, generator: Generator | None = None) -> Tensor:
    """Random numbers, uniform on [0, 1), in the shape of another tensor.

    Args:
        input: the other tensor.
        dtype: the type of the elements; that of input if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.
        generator: where the numbers come from; the default generator if not given.

    Example:
        >>> torch.rand_like(torch.zeros(4)).shape
        torch.Size([4])
    """

@overload
def randint(high: Any, size: Any, *, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Random integers from low up to but without high, all equally likely.

    Args:
        low: the smallest, 0 if not given.
        high: one more than the largest.
        size: a tuple of ints.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.
        dtype: the type of the elements; int64 if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.

    Example:
        >>> x = torch.randint(3, 5, (100,))
        >>> sorted(set(x.tolist()))
        [3, 4]
    """
@overload
def randint(low: Any, high: Any, size: Any, *, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor: ...

@overload
def randint_like(input: Tensor, high: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None, generator: Generator | None = None) -> Tensor:
    """Random integers from low up to but without high, in the shape of another tensor.

    Args:
        input: the other tensor.
        low: the smallest, 0 if not given.
        high: one more than the largest.
        dtype: the type of the elements; that of input if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.
        generator: where the numbers come from; the default generator if not given.

    Example:
        >>> torch.randint_like(torch.zeros(4), 10).shape
        torch.Size([4])
    """
@overload
def randint_like(input: Tensor, low: Any, high: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None, generator: Generator | None = None) -> Tensor: ...

def randn(*size: Any, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Random numbers, normal with mean 0 and standard deviation 1.

    Args:
        size: ints, or one tuple of ints.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.
        dtype: the type of the elements; the default dtype if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.randn(2, 3).shape
        torch.Size([2, 3])
    """

def randn_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None, generator: Generator | None = None) -> Tensor:
    """Standard normal random numbers, in the shape of another tensor.

    Args:
        input: the other tensor.
        dtype: the type of the elements; that of input if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.
        generator: where the numbers come from; the default generator if not given.

    Example:
        >>> torch.randn_like(torch.zeros(4)).shape
        torch.Size([4])
    """

def randperm(n: Any, *, generator: Generator | None = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """The integers from 0 up to but without n, in random order.

    Args:
        n: how many.
        generator: where the numbers come from; the default generator if not given.
        out: a tensor to write to.
        dtype: the type of the elements; int64 if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.

    Example:
        >>> sorted(torch.randperm(4).tolist())
        [0, 1, 2, 3]
    """

@overload
def range(end: Any, step: Any = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """The values from start, by step, up to and with end. Deprecated: use arange().

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
    """
@overload
def range(start: Any, end: Any, step: Any = 1, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor: ...

def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, contiguous: a view where that is possible, else a copy."""

def real(input: Tensor) -> Tensor:
    """The real parts, over the same memory; a real tensor itself.

    Example:
        >>> torch.real(torch.tensor([1 + 2j]))
        tensor([1.])
    """

def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise 1 / x, where x is the operand, broadcast together.

    Gradient of x: -g * y * y
    """

def reciprocal_(input: Tensor) -> Tensor:
    """Elementwise 1 / x, in place, where x is the operand, broadcast together.

    Gradient of x: -g * y * y
    """

def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x <= 0, 0, x), where x is the operand, broadcast together.

    Gradient of x: where(y <= 0, 0, g)
    """

def relu6(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x < 0, 0, where(x > 6, 6, x)), where x is the operand, broadcast together.

    Gradient of x: where((x > 0) & (x < 6), g, 0)
    """

def relu6_(input: Tensor) -> Tensor:
    """Elementwise where(x < 0, 0, where(x > 6, 6, x)), in place, where x is the operand, broadcast together.

    Gradient of x: where((x > 0) & (x < 6), g, 0)
    """

def relu_(input: Tensor) -> Tensor:
    """Elementwise where(x <= 0, 0, x), in place, where x is the operand, broadcast together.

    Gradient of x: where(y <= 0, 0, g)
    """

def remainder(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise remainder(a, b), where a and b are the operands, broadcast together.

    Gradient of a: g
    Gradient of b: -g * floor_divide(a, b)
    """

@overload
def repeat_interleave(input: Tensor, repeats: builtins.int, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
    """Repeats every element, or slice, in its place.

    Args:
        repeats: how often: one number, or a tensor with one for each.
        dim: the dimension; None repeats the elements of the flattened tensor.
        output_size: the length of the result along `dim`, checked.

    Example:
        >>> torch.repeat_interleave(torch.tensor([7, 8]), torch.tensor([1, 2]))
        tensor([7, 8, 8])
    """
@overload
def repeat_interleave(input: Tensor, repeats: Tensor, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: builtins.int | None = None) -> Tensor: ...

def reset_peak_memory_stats() -> None:
    """Makes the peaks start again at the bytes that are live now."""

def reshape(input: Tensor, shape: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Another shape: a view where that is possible, else a copy."""

def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are computed at once, never put off."""

def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negation is computed at once, never put off."""

def result_type(*args: Any) -> _dtype:
    """The dtype an op on these operands gives."""

def roll(input: Tensor, shifts: builtins.int | Sequence[builtins.int], dims: object | None = None) -> Tensor:
    """Moves elements along dimensions; what falls off at one end comes back at the other.

    Args:
        shifts: by how many places, one number for each of `dims`.
        dims: the dimensions; None rolls the flattened tensor.

    Example:
        >>> torch.roll(torch.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """

def round(input: Tensor, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer, halves to even; or the nearest multiple of 10**-decimals."""

def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise rsqrt(x), where x is the operand, broadcast together.

    Gradient of x: -0.5 * g * y * y * y
    """

def rsqrt_(input: Tensor) -> Tensor:
    """Elementwise rsqrt(x), in place, where x is the operand, broadcast together.

    Gradient of x: -0.5 * g * y * y * y
    """

def run_backward(roots: Sequence[Tensor], grad_roots: Sequence[Tensor | None], retain_graph: builtins.bool, create_graph: builtins.bool, inputs: Sequence[Tensor] | None, accumulate: builtins.bool) -> list[Tensor]:
    """The reverse sweep. Returns the inputs' gradients unless they are accumulated."""

def scalar_tensor(s: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor without dimensions.

    Args:
        s: the number.
        dtype: the type of the elements; the default dtype if not given.
        layout: strided, the only one.
        device: "cpu".
        requires_grad: whether gradients are wanted.

    Example:
        >>> torch.scalar_tensor(3)
        tensor(3.)
    """

@overload
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: object, *, reduce: str | None = None, out: Tensor | None = None) -> Tensor:
    """A copy with elements written along a dimension, one for each element of an index tensor.

    Args:
        dim: the dimension along which the index counts.
        index: int64 or int32, of the tensor's rank.
        src: the elements, a tensor at least as large as the index, or one number (`value`).
        reduce: "add" or "multiply" combine with what is there instead of replacing it.

    Example:
        >>> torch.scatter(torch.zeros(2, 2), 1, torch.tensor([[1], [0]]), 5.)
        tensor([[0., 5.],
                [5., 0.]])
    """
@overload
def scatter(input: Tensor, dim: builtins.int, index: Tensor, value: object, *, reduce: str | None = None, out: Tensor | None = None) -> Tensor: ...

def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with elements added along a dimension, one for each element of an index tensor.

    Args:
        dim: the dimension along which the index counts.
        index: int64 or int32; places that repeat add up in order.
        src: the elements.

    Example:
        >>> torch.scatter_add(torch.zeros(3), 0, torch.tensor([0, 0, 2]), torch.ones(3))
        tensor([2., 0., 1.])
    """

def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
    """A copy in which elements that meet at one place are reduced to one.

    Args:
        dim: the dimension along which the index counts.
        index: int64 or int32.
        src: the elements.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the element that was there takes part.

    Example:
        >>> torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0, 0]), torch.tensor([1., 4.]), "amax")
        tensor([4., 0.])
    """

def searchsorted(sorted_sequence: Tensor, input: object, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Where values would have to be inserted into sorted rows.

    Args:
        sorted_sequence: ascending along its last dimension.
        input: the values, a tensor or a number.
        out_int32: return int32 instead of int64.
        right: the last possible place instead of the first.
        side: "left" or "right", the same in NumPy's words.
        sorter: the order of a sequence that is not sorted itself.

    Example:
        >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
        tensor([1, 3])
    """

def seed() -> builtins.int:
    """Seeds the default generators from the system and returns the seed."""

def select(input: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """The slice at `index`, without that dimension."""

def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise 1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x)), where x is the operand, broadcast together.

    Gradient of x: g * 1.0507009873554805 * where(x > 0, 1, 1.6732632423543772 * exp(x))
    """

def selu_(input: Tensor) -> Tensor:
    """Elementwise 1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x)), in place, where x is the operand, broadcast together.

    Gradient of x: g * 1.0507009873554805 * where(x > 0, 1, 1.6732632423543772 * exp(x))
    """

def set_autocast_cache_enabled(enabled: builtins.bool) -> None:
    """Says whether autocast keeps the casts of parameters; use torch.autocast.

    Args:
        enabled: whether it does.
    """

def set_autocast_cpu_dtype(dtype: _dtype) -> None:
    """Deprecated: use torch.set_autocast_dtype('cpu', dtype)."""

def set_autocast_cpu_enabled(enabled: builtins.bool) -> None:
    """Deprecated: use torch.set_autocast_enabled('cpu', enabled)."""

def set_autocast_dtype(device_type: str, dtype: _dtype) -> None:
    """Sets the dtype that autocast casts to on a device type; use torch.autocast.

    Args:
        device_type: "cpu" or "cuda".
        dtype: float16 or bfloat16.
    """

@overload
def set_autocast_enabled(device_type: str, enabled: builtins.bool) -> None:
    """Turns autocast on or off for a device type on this thread; use torch.autocast.

    Args:
        device_type: "cpu" or "cuda"; without it, "cuda".
        enabled: whether it is on.
    """
@overload
def set_autocast_enabled(enabled: builtins.bool) -> None: ...

def set_autocast_gpu_dtype(dtype: _dtype) -> None:
    """Deprecated: use torch.set_autocast_dtype('cuda', dtype)."""

def set_blas_library(path: str) -> None:
    """Where the BLAS library lies."""

def set_default_dtype(d: _dtype) -> None:
    """Sets the dtype of new floating-point tensors."""

def set_grad_enabled(enabled: builtins.bool) -> None:
    """Turns recording on or off on this thread."""

def set_num_threads(num_threads: builtins.int) -> None:
    """Sets how many threads a kernel may use."""

def set_rng_state(new_state: Tensor) -> None:
    """Sets the state that get_rng_state() gave."""

def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Numbers of the same angle and magnitude one, zero for zero; the sign of real ones.

    Example:
        >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
        tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """

def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise sigmoid(x), where x is the operand, broadcast together.

    Gradient of x: g * (1 - y) * y
    """

def sigmoid_(input: Tensor) -> Tensor:
    """Elementwise sigmoid(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * (1 - y) * y
    """

def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise sign(x), where x is the operand, broadcast together.

    Gradient of x: 0
    """

def sign_(input: Tensor) -> Tensor:
    """Elementwise sign(x), in place, where x is the operand, broadcast together.

    Gradient of x: 0
    """

def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise copysign(1, x) < 0, where x is the operand, broadcast together.

    Gradient of x: none
    """

def silu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x * sigmoid(x), where x is the operand, broadcast together.

    Gradient of x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))
    """

def silu_(input: Tensor) -> Tensor:
    """Elementwise x * sigmoid(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * sigmoid(x) * (1 + x * (1 - sigmoid(x)))
    """

def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise sin(x), where x is the operand, broadcast together.

    Gradient of x: g * cos(x)
    """

def sin_(input: Tensor) -> Tensor:
    """Elementwise sin(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * cos(x)
    """

def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise sinc(x), where x is the operand, broadcast together.

    Gradient of x: where(x == 0, 0, g * (cos(3.141592653589793 * x) - sinc(x)) / where(x == 0, 1, x))
    """

def sinc_(input: Tensor) -> Tensor:
    """Elementwise sinc(x), in place, where x is the operand, broadcast together.

    Gradient of x: where(x == 0, 0, g * (cos(3.141592653589793 * x) - sinc(x)) / where(x == 0, 1, x))
    """

def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise sinh(x), where x is the operand, broadcast together.

    Gradient of x: g * cosh(x)
    """

def sinh_(input: Tensor) -> Tensor:
    """Elementwise sinh(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * cosh(x)
    """

def softmax(input: Tensor, dim: builtins.int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Exponentials, scaled so that they add up to one along a dimension.

    Args:
        dim: the dimension.
        dtype: what elements are converted to first.

    Example:
        >>> torch.softmax(torch.tensor([0., 0.]), dim=0)
        tensor([0.5000, 0.5000])
    """

def softplus(input: Tensor, beta: Number = 1, threshold: Number = 20, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x * beta > threshold, x, log1p(exp(x * beta)) / beta), where x is the operand, broadcast together.

    Gradient of x: where(x * beta > threshold, g, g * sigmoid(x * beta))
    """

def softplus_(input: Tensor, beta: Number = 1, threshold: Number = 20) -> Tensor:
    """Elementwise where(x * beta > threshold, x, log1p(exp(x * beta)) / beta), in place, where x is the operand, broadcast together.

    Gradient of x: where(x * beta > threshold, g, g * sigmoid(x * beta))
    """

def softshrink(input: Tensor, lambd: Number = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0)), where x is the operand, broadcast together.

    Gradient of x: where((x >= -lambd) & (x <= lambd), 0, g)
    """

def softshrink_(input: Tensor, lambd: Number = 0.5) -> Tensor:
    """Elementwise where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x * 0)), in place, where x is the operand, broadcast together.

    Gradient of x: where((x >= -lambd) & (x <= lambd), 0, g)
    """

def softsign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x / (1 + abs(x)), where x is the operand, broadcast together.

    Gradient of x: g / square(1 + abs(x))
    """

def softsign_(input: Tensor) -> Tensor:
    """Elementwise x / (1 + abs(x)), in place, where x is the operand, broadcast together.

    Gradient of x: g / square(1 + abs(x))
    """

@overload
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool | None = None, out: tuple[Tensor, Tensor] | None = None) -> _return_types.sort:
    """The elements along a dimension in order, and where they were. NaN counts as greatest.

    Args:
        dim: the dimension.
        descending: the greatest first.
        stable: accepted; equal elements keep their order in any case.

    Example:
        >>> torch.sort(torch.tensor([3, 1, 2])).indices
        tensor([1, 2, 0])
    """
@overload
def sort(input: Tensor, axis: builtins.int, descending: builtins.bool = False, *, stable: builtins.bool | None = None, out: tuple[Tensor, Tensor] | None = None) -> _return_types.sort: ...

def split(tensor: Tensor, split_size_or_sections: object, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Parts of a given size, or of the sizes in a list, as views."""

def split_with_sizes(input: Tensor, split_sizes: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes, as views."""

def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise sqrt(x), where x is the operand, broadcast together.

    Gradient of x: g / (2 * y)
    """

def sqrt_(input: Tensor) -> Tensor:
    """Elementwise sqrt(x), in place, where x is the operand, broadcast together.

    Gradient of x: g / (2 * y)
    """

def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise x * x, where x is the operand, broadcast together.

    Gradient of x: 2 * g * x
    """

def square_(input: Tensor) -> Tensor:
    """Elementwise x * x, in place, where x is the operand, broadcast together.

    Gradient of x: 2 * g * x
    """

@overload
def squeeze(input: Tensor) -> Tensor:
    """Drops all dimensions of size one."""
@overload
def squeeze(input: Tensor, dim: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Drops the given dimensions where they have size one."""

def stack(tensors: Sequence[Tensor], dim: builtins.int = 0, *, axis: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    """Joins tensors of one shape along a new dimension.

    Args:
        tensors: the tensors.
        dim: where the new dimension goes.
        axis: another name for `dim`.
        out: a tensor to write to.

    Example:
        >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """

def std(input: Tensor, dim: object | None = None, unbiased: object | None = None, keepdim: builtins.bool = False, *, correction: object | None = None, out: Tensor | None = None) -> Tensor:
    """The standard deviation over all or some dimensions.

    Args:
        dim: one dimension, several, or None for all.
        unbiased: True stands for correction=1, False for correction=0.
        keepdim: whether reduced dimensions stay, with size one.
        correction: what is taken from the number of elements in the divisor, 1 by default.

    Example:
        >>> torch.std(torch.tensor([1., 3., 5.]))
        tensor(2.)
    """

def std_mean(input: Tensor, dim: object | None = None, unbiased: object | None = None, keepdim: builtins.bool = False, *, correction: object | None = None) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean, in one pass over memory.

    Args:
        dim: one dimension, several, or None for all.
        unbiased: True stands for correction=1, False for correction=0.
        keepdim: whether reduced dimensions stay, with size one.
        correction: what is taken from the number of elements in the divisor, 1 by default.

    Example:
        >>> torch.std_mean(torch.tensor([1., 3., 5.]))
        (tensor(2.), tensor(3.))
    """

def sub(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None, alpha: Number | builtins.complex = 1) -> Tensor:
    """Elementwise a - b, where a and b are the operands, broadcast together.

    Gradient of a: g
    Gradient of b: -g
    """

@overload
def sum(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The sum over all or some dimensions. Integers and bools add up as int64.

    Args:
        dim: one dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with size one.
        dtype: what elements are converted to first.

    Example:
        >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=0)
        tensor([4., 6.])
    """
@overload
def sum(input: Tensor, axis: builtins.int | Sequence[builtins.int] | None = None, keepdims: builtins.bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...

def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor:
    """A view with two dimensions swapped."""

def swapdims(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """A view with two dimensions swapped."""

def t(input: Tensor) -> Tensor:
    """The transpose of a matrix."""

def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements at indices into the flattened tensor.

    Args:
        index: int64; the result has its shape.

    Example:
        >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
        tensor([1, 4])
    """

def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    """As gather, with broadcasting and negative indices: undoes argsort and argmax.

    Args:
        indices: int64.
        dim: the dimension; None takes from the flattened tensor.

    Example:
        >>> x = torch.tensor([[3, 1], [2, 5]])
        >>> torch.take_along_dim(x, x.argsort(dim=1), dim=1)
        tensor([[1, 3],
                [2, 5]])
    """

def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise tan(x), where x is the operand, broadcast together.

    Gradient of x: g * (1 + y * y)
    """

def tan_(input: Tensor) -> Tensor:
    """Elementwise tan(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * (1 + y * y)
    """

def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise tanh(x), where x is the operand, broadcast together.

    Gradient of x: g * (1 - y * y)
    """

def tanh_(input: Tensor) -> Tensor:
    """Elementwise tanh(x), in place, where x is the operand, broadcast together.

    Gradient of x: g * (1 - y * y)
    """

def tensor(data: Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor with a copy of data. It has no history.

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
    """

def threshold(input: Tensor, threshold: Number = 0, value: Number = 0, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(x <= threshold, value, x), where x is the operand, broadcast together.

    Gradient of x: where(x <= threshold, 0, g)
    """

def threshold_(input: Tensor, threshold: Number = 0, value: Number = 0) -> Tensor:
    """Elementwise where(x <= threshold, value, x), in place, where x is the operand, broadcast together.

    Gradient of x: where(x <= threshold, 0, g)
    """

def tile(input: Tensor, dims: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Copies of the whole tensor, as repeat; missing leading repeats are ones.

    Args:
        dims: how often, for each of the last dimensions.

    Example:
        >>> torch.tile(torch.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """

def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over a tensor's memory, for one consumer.

    Args:
        tensor: the tensor.

    No stream is made to wait: on a GPU the consumer uses the stream that is current here.

    Example:
        >>> torch.from_dlpack(torch.to_dlpack(torch.arange(3)))
        tensor([0, 1, 2])
    """

def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> _return_types.topk:
    """The k greatest elements along a dimension, and where they were.

    Args:
        k: how many.
        dim: the dimension.
        largest: False asks for the smallest.
        sorted: whether they come in order.

    Example:
        >>> torch.topk(torch.tensor([3, 9, 5]), 2).values
        tensor([9, 5])
    """

def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """A view with two dimensions swapped."""

def tril(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of matrices, zero elsewhere.

    Args:
        diagonal: the last diagonal that is kept: 0 the main one, above 0 above it.

    Example:
        >>> torch.tril(torch.ones(2, 2))
        tensor([[1., 0.],
                [1., 1.]])
    """

def triu(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of matrices, zero elsewhere.

    Args:
        diagonal: the first diagonal that is kept: 0 the main one, above 0 above it.

    Example:
        >>> torch.triu(torch.ones(2, 2))
        tensor([[1., 1.],
                [0., 1.]])
    """

def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elementwise trunc(x), where x is the operand, broadcast together.

    Gradient of x: 0
    """

def trunc_(input: Tensor) -> Tensor:
    """Elementwise trunc(x), in place, where x is the operand, broadcast together.

    Gradient of x: 0
    """

def unbind(input: Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """All slices along a dimension, as a tuple."""

def unflatten(input: Tensor, dim: builtins.int, sizes: builtins.int | Sequence[builtins.int]) -> Tensor:
    """Splits one dimension into several."""

@overload
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: builtins.int | None = None) -> Tensor:
    """unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> object

    The distinct elements in ascending order.

    Args:
        sorted: accepted; the result is sorted in any case.
        return_inverse: also return, for each element, the number of its value.
        return_counts: also return how often each value occurs.
        dim: the dimension whose slices are compared; None compares elements.

    Example:
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
@overload
def unique(input: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(input: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
@overload
def unique(input: Tensor, sorted: builtins.bool = True, *, return_inverse: Literal[False] = False, return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
@overload
def unique(input: Tensor, sorted: builtins.bool, return_inverse: Literal[True], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(input: Tensor, sorted: builtins.bool, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
@overload
def unique(input: Tensor, sorted: builtins.bool, return_inverse: Literal[False], return_counts: Literal[True], dim: builtins.int | None = None) -> tuple[Tensor, Tensor]: ...
@overload
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = None) -> Any: ...

def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor:
    """Inserts a dimension of size one."""

def var(input: Tensor, dim: object | None = None, unbiased: object | None = None, keepdim: builtins.bool = False, *, correction: object | None = None, out: Tensor | None = None) -> Tensor:
    """The variance over all or some dimensions.

    Args:
        dim: one dimension, several, or None for all.
        unbiased: True stands for correction=1, False for correction=0.
        keepdim: whether reduced dimensions stay, with size one.
        correction: what is taken from the number of elements in the divisor, 1 by default.

    Example:
        >>> torch.var(torch.tensor([1., 2., 3.]))
        tensor(1.)
    """

def var_mean(input: Tensor, dim: object | None = None, unbiased: object | None = None, keepdim: builtins.bool = False, *, correction: object | None = None) -> tuple[Tensor, Tensor]:
    """The variance and the mean, in one pass over memory.

    Args:
        dim: one dimension, several, or None for all.
        unbiased: True stands for correction=1, False for correction=0.
        keepdim: whether reduced dimensions stay, with size one.
        correction: what is taken from the number of elements in the divisor, 1 by default.

    Example:
        >>> torch.var_mean(torch.tensor([1., 2., 3.]))
        (tensor(1.), tensor(2.))
    """

def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors, of which the first is conjugated."""

def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of numbers in the last dimension as complex ones, over the same memory.

    Example:
        >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """

def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary parts in a last dimension of two, over the same memory.

    Example:
        >>> torch.view_as_real(torch.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """

@overload
def where(condition: Tensor, input: object, other: object, *, out: Tensor | None = None) -> Tensor:
    """Elements of input where condition holds, of other elsewhere."""
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...

def xlogy(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Elementwise where(b != b, b, where(a == 0, 0, a * log(b))), where a and b are the operands, broadcast together.

    Gradient of a: where((a == 0) & (b <= 0), 0, g * log(where((a == 0) & (b <= 0), 1, b)))
    Gradient of b: g * a / b
    """

def zeros(*size: Any, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """A tensor of zeros.

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
    """

def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: _layout | None = None, device: Device | None = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: Any = None) -> Tensor:
    """Zeros in the shape and memory order of another tensor.

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
    """
