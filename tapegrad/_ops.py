"""What ops there are: the records that dispatch, the tape and saved programs share."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from tapegrad import _C

__all__ = ["Derivative", "OpRecord", "OpRegistry", "ops", "ops_run_by", "runs"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Derivative(NamedTuple):
    """What an op records on the tape.

    Attributes:
        name: the name of the entry, ``"MmBackward0"``.
        function: the function that records it: what the tape calls it.
        saved: the names of the values that it may save. One with a star stands for any number.
    """

    name: str
    function: str
    saved: tuple[str, ...]


class OpRecord(NamedTuple):
    """What is known of an op.

    Attributes:
        name: its name, unique and stable.
        attributes: the names of the numbers that a call has besides its tensors. One with a star
            stands for as many as any other with one: the stride of every dimension.
        traits: ``elementwise`` (each element by itself), ``random``, ``overwrites`` (the result may
            take the place of the first operand), ``contracts`` (sums products), ``host_read`` (the
            result is looked at on the host at once: it is a size, or a check), ``any_order`` (adds
            what meets in one place: in one order on the CPU, in any on a back end that does not say
            otherwise), ``no_derivative`` (the result depends on nothing smoothly), ``unrecorded``
            (a step of a derivative, an optimizer or a coding: where its own derivative is wanted,
            recorded ops run in its place), ``moves`` (from one device to another),
            ``host_numbers`` (numbers that it writes may be on the CPU, whatever device the rest is
            on), ``leading_dims`` (works matrix by matrix: dimensions in front of all operands are a
            batch).
        devices: where it has a kernel.
        derivatives: what it records. Several functions may run one op, and record it under their
            own names.
    """

    name: str
    attributes: tuple[str, ...]
    traits: tuple[str, ...]
    devices: tuple[str, ...]
    derivatives: tuple[Derivative, ...]


def ops() -> list[OpRecord]:
    """Return the record of every op, by name.

    These are what a captured program is made of: kernels, forward and backward. Many functions are
    one of them, others are several, and views are none.

    Example:
        >>> [softmax] = [op for op in torch.ops() if op.name == "softmax"]
        >>> softmax.attributes, softmax.devices
        (('dim',), ('cpu', 'cuda'))
        >>> softmax.derivatives
        (Derivative(name='SoftmaxBackward0', function='softmax', saved=('result',)),)
    """
    derivatives: dict[str, list[Derivative]] = {}
    for name, function, _, op, saved in _C._entry_kinds():
        names = tuple(each for each, _ in saved)
        derivatives.setdefault(op, []).append(Derivative(name, function, names))
    return [
        OpRecord(name, attributes, traits, devices, tuple(derivatives.get(name, ())))
        for name, attributes, traits, devices in _C._ops()
    ]


class OpRegistry:
    """`torch.ops`: called, the list of `ops`; its attributes are PyTorch's registries of ops.

    Example:
        >>> torch.ops.aten.add.Tensor(torch.tensor([1]), torch.tensor([2]))
        tensor([3])
    """

    def __call__(self) -> list[OpRecord]:
        """Return the record of every op, by name."""
        return ops()

    @property
    def loaded_libraries(self) -> set[str]:
        """The libraries of ops that were loaded: none."""
        return set()

    def load_library(self, path: str) -> None:
        """Refuse to load a library of ops: it is compiled for PyTorch.

        Packages that have one go on without it, as where it was built for another version.

        Args:
            path: of the library.

        Raises:
            OSError: always.
        """
        raise OSError(
            f"load_library: {path} has ops that were compiled for PyTorch, which tapegrad cannot "
            "run; torch.library.custom_op makes an op of a Python function"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"torch.ops has no attribute {name!r}")
        from tapegrad._op_namespaces import Namespace

        namespace = Namespace(name)
        setattr(self, name, namespace)
        return namespace


# ---- which op a function runs
#
# Most functions have the name of their op, or of the entry that they record: the records tell. Of
# other native functions the line that binds them tells (csrc/python/function_ops.h), and of those
# in Python the decorator `runs`. A test holds all of them to what the functions do.


def runs(*names: str) -> Callable[[_Function], _Function]:
    """Say of a function that it is one op besides copies and views, which has another name.

    Args:
        names: the op, or several of which the arguments choose one.
    """

    def mark(function: _Function) -> _Function:
        function.__runs__ = names  # type: ignore[attr-defined]
        return function

    return mark


def ops_run_by(function: Any) -> tuple[str, ...]:
    """Return the ops of which a function of the library runs one; none if it runs none or several.

    Example:
        >>> from tapegrad._ops import ops_run_by
        >>> ops_run_by(torch.bmm), ops_run_by(torch.nn.functional.conv2d)
        (('matmul',), ('conv',))
    """
    marked: tuple[str, ...] | None = getattr(function, "__runs__", None)
    if marked is not None:
        return marked
    name, known = function.__name__, _ops_by_function()
    return known.get(name) or known.get(name.removesuffix("_"), ())


@functools.cache
def _ops_by_function() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for record in ops():
        for name in dict.fromkeys([record.name, *(each.function for each in record.derivatives)]):
            found[name] = (*found.get(name, ()), record.name)
    return found | {name: tuple(names) for name, names in _C._function_ops().items()}
