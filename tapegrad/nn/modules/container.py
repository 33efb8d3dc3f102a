"""Modules that hold others: in a row, in a list, in a dict; and lists and dicts of parameters."""

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tapegrad._C import Tensor
from tapegrad._composed.arguments import expect_count
from tapegrad.nn.modules.module import Module, _type_name
from tapegrad.nn.parameter import Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _place(index: Any, count: int) -> int:
    """Return a place that may be counted from the end as one from the start."""
    place = operator.index(index)
    if not -count <= place < count:
        raise IndexError(f"index {place} is out of range")
    return place % count


class Container(Module):
    """A module with parts by name, before modules took them as attributes; it warns.

    Args:
        kwargs: the parts.
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, part in kwargs.items():
            self.add_module(name, part)


class _Listed(Module):
    """What Sequential and ModuleList share: modules under the names "0", "1", ..."""

    def _renumber(self, modules: Iterable[Any], names: Iterable[str] | None = None) -> None:
        modules = list(modules)
        keys = map(str, range(len(modules))) if names is None else names
        self._modules = dict(zip(keys, modules, strict=True))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Listed):
    """Modules in a row: each is called with what the one before it returned.

    Args:
        args: the modules, or one OrderedDict of modules by name.

    Example:
        >>> torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU())
        Sequential(
          (0): Linear(in_features=2, out_features=4, bias=True)
          (1): ReLU()
        )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Iterable[tuple[str, Any]] = args[0].items()
        else:
            named = ((str(place), module) for place, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Call the modules one after the other."""
        for module in self._modules.values():
            input = module(input)
        return input

    def _name_at(self, index: Any) -> str:
        return list(self._modules)[_place(index, len(self))]

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        self._renumber(self._modules.values())

    def __add__(self, other: Any) -> "Sequential":
        _expect_sequential("+", other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> "Sequential":
        _expect_sequential("+=", other)
        return self.extend(list(other))

    def __mul__(self, other: int) -> "Sequential":
        _expect_count(other, self)
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> "Sequential":
        _expect_count(other, self)
        modules = list(self)
        for _ in range(other - 1):
            self.extend(modules)
        return self

    def pop(self, key: Any) -> Any:
        """Take a module out and return it."""
        found = self[key]
        del self[key]
        return found

    def append(self, module: Module) -> "Sequential":
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> "Sequential":
        """Add a module in front of the one at a place."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index if index >= 0 else index + len(self), module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> "Sequential":
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self


def _expect_sequential(sign: str, other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"Sequential: {sign}: add operator supports only objects of Sequential class, but got "
            f"{type(other).__name__}"
        )


def _expect_count(other: Any, modules: "Sequential") -> None:
    if not isinstance(other, int):
        raise TypeError(
            f"Sequential: unsupported operand type(s) for *: Sequential and {type(other).__name__}"
        )
    if other <= 0:
        raise ValueError(f"Sequential: Non-positive multiplication factor {other}")
    expect_count("Sequential", other * len(modules), "modules", bytes_each=128)


class ModuleList(_Listed):
    """A list of modules, all of which belong to the module that holds it.

    Args:
        modules: the modules to begin with.

    Example:
        >>> layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
        >>> len(layers)
        3
        >>> layers
        ModuleList(
          (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
        )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[str(_place(idx, len(self)))]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, str(_place(idx, len(self))), module)

    def __delitem__(self, idx: Any) -> None:
        modules = list(self)
        if isinstance(idx, slice):
            del modules[idx]
        else:
            del modules[_place(idx, len(self))]
        self._renumber(modules)

    def __iadd__(self, modules: Iterable[Module]) -> "ModuleList":
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Add a module in front of the one at a place."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module) -> "ModuleList":
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Take a module out and return it."""
        found = self[key]
        del self[key]
        return found

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        """Add modules at the end."""
        _expect_iterable("ModuleList.extend", modules)
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Show modules that look alike and follow each other on one line."""
        runs: list[list[Any]] = []  # first place, last place, text
        for place, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = place
            else:
                runs.append([place, place, text])
        if not runs:
            return self._get_name() + "()"
        lines = []
        for first, last, text in runs:
            many = f"({first}-{last}): {last - first + 1} x {text}"
            line = f"({first}): {text}" if first == last else many
            lines.append(line.replace("\n", "\n  "))
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dict of modules, all of which belong to the module that holds it.

    Args:
        modules: the modules to begin with: a mapping or pairs of names and modules.

    Example:
        >>> parts = torch.nn.ModuleDict({"up": torch.nn.Linear(2, 4)})
        >>> parts["up"]
        Linear(in_features=2, out_features=4, bias=True)
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out and return it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Return the pairs of names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs of names and modules."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _expect_iterable(name: str, values: Any) -> None:
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{name} should be called with an iterable, but got {type(values).__name__}"
        )


def _pairs(owner: str, values: Any) -> list[tuple[str, Any]]:
    """Return the pairs of a mapping or of an iterable of pairs."""
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got "
            f"{type(values).__name__}"
        )
    if isinstance(values, (Mapping, ModuleDict, ParameterDict)):
        return list(values.items())
    found = []
    for place, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{place} should be Iterable; is "
                f"{type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{owner} update sequence element #{place} has length {len(pair)}; 2 is required"
            )
        found.append((pair[0], pair[1]))
    return found


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other values are kept as they are.

    Args:
        values: the values to begin with.

    Example:
        >>> scales = torch.nn.ParameterList([torch.ones(2), torch.ones(3)])
        >>> [tuple(scale.shape) for scale in scales]
        [(2,), (3,)]
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)([self[place] for place in range(*idx.indices(len(self)))])
        return getattr(self, str(_place(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(_place(idx, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> "ParameterList":
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> "ParameterList":
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> "ParameterList":
        """Add values at the end."""
        _expect_iterable("ParameterList.extend", values)
        if isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got Tensor"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join(
            _describe(str(place), value, str(getattr(value, "dtype", "")))
            for place, value in enumerate(self)
        )

    def __repr__(self) -> str:
        return _indented(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters; tensors become parameters, other values are kept as they are.

    Args:
        parameters: the values to begin with: a mapping or pairs.

    Example:
        >>> scales = torch.nn.ParameterDict({"a": torch.ones(2)})
        >>> list(scales.keys())
        ['a']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')."
            )
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> "ParameterDict":
        """Return another ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value, which is set to `default` first where it is missing."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take all values out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last pair out and return it."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or `default` where it is missing."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """Return a ParameterDict of the keys, all with one value."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """Return the keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Go through the pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Go through the values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add values from a mapping or from pairs."""
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: pair[0])  # As PyTorch does, by name.
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """Return a line for each value."""
        return "\n".join(_describe(key, value, _type_name(value)) for key, value in self.items())

    def __repr__(self) -> str:
        return _indented(self)

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> "ParameterDict":
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> "ParameterDict":
        joined = ParameterDict(other.items())
        joined.update(self)
        return joined

    def __ior__(self, other: Any) -> "ParameterDict":
        self.update(other)
        return self


def _as_parameter(value: Any) -> Any:
    is_bare = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_bare else value


def _describe(name: str, value: Any, kind: str) -> str:
    """Return the line of one value in the repr of a list or dict of parameters."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    sizes = "x".join(str(size) for size in value.shape)
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {what} containing: [{kind} of size {sizes}]"


def _indented(module: Module) -> str:
    """Lists of parameters indent even a single line."""
    extra = module.extra_repr()
    if not extra:
        return f"{module._get_name()}()"
    body = "\n  ".join(extra.split("\n"))
    return f"{module._get_name()}(\n  {body}\n)"
