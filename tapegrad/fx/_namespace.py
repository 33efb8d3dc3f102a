"""Names that are given out once, and are no words of Python's."""

import builtins
import keyword
import re
from collections import defaultdict
from typing import Any, NamedTuple

__all__ = ["CUSTOM_BUILTINS", "CustomBuiltin", "Namespace"]


class CustomBuiltin(NamedTuple):
    """A name that generated code has without asking, and the line that imports it."""

    import_str: str
    obj: Any


def _custom_builtins() -> dict[str, CustomBuiltin]:
    from math import inf, nan

    import tapegrad
    from tapegrad.utils import _pytree

    return {
        "inf": CustomBuiltin("from math import inf", inf),
        "nan": CustomBuiltin("from math import nan", nan),
        "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
        "torch": CustomBuiltin("import torch", tapegrad),
        "device": CustomBuiltin("from torch import device", tapegrad.device),
        "pytree": CustomBuiltin("import torch.utils._pytree as pytree", _pytree),
    }


CUSTOM_BUILTINS = _custom_builtins()
_OTHER_CHARACTERS = re.compile("[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)")


class Namespace:
    """Names that are in use, and the next number of each."""

    def __init__(self) -> None:
        self._names_of: dict[int, tuple[Any, str]] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any) -> str:
        """Return a name that is not in use, and take it.

        Args:
            candidate: the name that is wanted; it gets a number if it is in use.
            obj: what has the name, or None. The same object gets the same name again.
        """
        if obj is not None and id(obj) in self._names_of:
            return self._names_of[id(obj)][1]
        candidate = _OTHER_CHARACTERS.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        numbered = _NUMBERED.fullmatch(candidate)
        if numbered is None:
            base, number = candidate, self._base_count.get(candidate, 0)
        else:
            base, number = numbered[1], int(numbered[2])
        while candidate in self._used_names or self._is_illegal(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used_names.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._names_of[id(obj)] = (obj, candidate)
        return candidate

    def _is_illegal(self, name: str, obj: Any) -> bool:
        if name in keyword.kwlist:
            return True
        if name in vars(builtins):
            return obj is not vars(builtins)[name]
        return name in CUSTOM_BUILTINS and obj is not CUSTOM_BUILTINS[name].obj

    def _rename_object(self, obj: Any, name: str) -> None:
        self._names_of[id(obj)] = (obj, name)
        self._used_names.add(name)
