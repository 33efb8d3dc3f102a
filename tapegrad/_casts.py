"""What autocast does with functions that are written in Python.

Native functions say it beside their ops (csrc/graph/autocast.h), and functions that are made of
others by the decorator `casts`. Both are on one list, `cast_rules`.
"""

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from tapegrad import _C

__all__ = ["CastRule", "cast_rules", "casts"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CPU, _CUDA = 1, 2  # the bits of _C._autocast_devices()


class CastRule(NamedTuple):
    """What autocast does with the operands of a function.

    Attributes:
        function: its name.
        cpu: ``"lower"`` (cast to the dtype of the block), ``"float32"``, ``"total"`` (it has an
            argument `dtype`, which is float32 unless it is given), ``"widest"`` (float32 if one
            operand is of that dtype, else that of the block), ``"refused"`` or ``"none"``.
        cuda: the same on CUDA devices.
    """

    function: str
    cpu: str
    cuda: str


def cast_rules() -> list[CastRule]:
    """Return what autocast does with every function that it knows, by name.

    Example:
        >>> from tapegrad._casts import cast_rules
        >>> [rule for rule in cast_rules() if rule.function == "linear"]
        [CastRule(function='linear', cpu='lower', cuda='lower')]
    """
    importlib.import_module("tapegrad.linalg")  # whose functions have theirs once they are loaded
    known: dict[str, CastRule] = {}
    for rule in itertools.starmap(CastRule, _C._cast_rules()):
        if (rule.cpu, rule.cuda) == ("none", "none"):
            continue
        # A function that has one for each of its ways.
        other = known.get(rule.function, rule)
        cpu, cuda = (
            theirs if ours == "none" else ours
            for ours, theirs in ((rule.cpu, other.cpu), (rule.cuda, other.cuda))
        )
        known[rule.function] = CastRule(rule.function, cpu, cuda)
    return sorted(known.values())


def casts(
    cpu: str = "none", cuda: str = "none", of: str | None = None, transparent: bool = False
) -> Callable[[_Function], _Function]:
    """Say what autocast does with the tensors that a function is given.

    Inside of the function autocast is off, also where there is no rule: so it is for a function
    that is one operation to PyTorch, and made of several here.

    Args:
        cpu: a rule of `CastRule`, on the CPU.
        cuda: the same on CUDA devices.
        of: the name of the public function, if it is not that of this one.
        transparent: whether autocast stays on inside where there is no rule: it casts the
            operations that the function is made of, as in PyTorch.
    """

    def mark(function: _Function) -> _Function:
        number = _C._add_cast_rule(of or function.__name__, cpu, cuda)
        is_on, call_cast = _C._autocast_devices, _C._call_cast
        known = sum(bit for bit, rule in ((_CPU, cpu), (_CUDA, cuda)) if rule != "none")
        in_force = known if transparent else _CPU | _CUDA

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if not is_on() & in_force:
                return function(*arguments, **options)
            return call_cast(number, function, arguments, options)

        return call  # type: ignore[return-value]

    return mark
