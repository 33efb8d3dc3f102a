"""What a function may read of Python, followed as far as it can be, and watched.

A trace repeats what a function did. It may only if the function would do the same again, which
depends on its arguments, on the modes of the thread, and on everything its code can get at:
variables of closures, globals, attributes of modules, optimizers and other objects, items of lists
and dicts, default arguments, other functions with all of theirs. `Walk` starts at the function and
its arguments and follows these references. Everything on the way that can change is an entry of a
`_C._Watch`; tensors are collected, for the trace knows them by identity.

Which attributes of a class or a module a function uses is told by the names in its code, so that a
class is not followed into methods that nobody calls. Code of this library is not followed: what it
reads besides its arguments and the objects it is a method of is listed here (`_LIBRARY_STATE`) or
is a mode of the thread (`_C._Environment`). What cannot be followed (a generator, a file, a random
number of Python's, an object of an extension module) is a `Refusal`, whose text says what it was;
the function then runs itself.

Changes that the function makes to what is watched are seen by the same watch, compared after a
call.
"""

import builtins
import dis
import enum
import functools
import importlib.util
import inspect
import os
import re
import sys
import types
import typing
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterable
from typing import Any

from tapegrad import _C
from tapegrad._C import Tensor
from tapegrad._types import Size, device, layout, memory_format
from tapegrad.compiler._known import (
    ADDRESSES,
    COMPUTED,
    EFFECT_NAMES,
    EFFECTS,
    GRAD_MODES,
    HIDDEN_STATE,
    LIFTED,
    MAKING,
    OFFSETS,
    OPTION_READERS,
    PURE_BUILTINS,
    PURE_MODULES,
    SEEDING,
    SPECIAL,
)
from tapegrad.nn.parameter import Buffer, Parameter
from tapegrad.optim.optimizer import GroupwiseOptimizer, Optimizer
from tapegrad.utils._pytree_nodes import SUPPORTED_NODES

__all__ = ["Change", "Refusal", "Walk"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST = 50_000  # objects: comparing them must not take longer than running
_MOST_NAMES = 500_000  # of modules: an object that holds a module leads to all that it imports

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), range)
_FIELD: type = type(vars(namedtuple("_One", "first"))["first"])
_INERT = (
    *(*_PLAIN, _C.dtype, device, layout, memory_format, Size, slice, types.CodeType, enum.Enum),
    _FIELD,
)
_INERT_TYPES = frozenset(_INERT)
_CALLABLES_OF_C = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_GLOBAL_OPS = frozenset(
    ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
)
_ATTRIBUTE_OPS = frozenset(
    ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "LOAD_SUPER_ATTR", "IMPORT_FROM")
)


_FORMATTED = re.compile(r"\.([A-Za-z_]\w*)")  # an attribute in "{0.scale}"
_HEAP_TYPE = 1 << 9
_VISIBLE = frozenset(
    (
        *(object, dict, list, tuple, set, OrderedDict, defaultdict, typing.Generic),
        *(Exception, BaseException, int, float, str, bytes, types.SimpleNamespace),
    )
)


class Refusal(Exception):
    """Why a function, or a call of it, is not replayed."""


class Change(Refusal):
    """A call changed Python's state, as a first call does that makes what later ones find."""


def _library_state() -> list[tuple[Any, str]]:
    """Return what code of this library reads besides its arguments and modes of the thread."""
    from tapegrad import _tensor_str
    from tapegrad.nn.modules import _hooks
    from tapegrad.optim import optimizer

    found: list[tuple[Any, str]] = [
        (_hooks.GLOBAL, "hooks of all modules"),
        (optimizer._global_pre_hooks, "hooks of all optimizers"),
        (optimizer._global_post_hooks, "hooks of all optimizers"),
        (_tensor_str._options, "the print options"),
    ]
    return found


def is_library(where: str | None) -> bool:
    """Whether a module's name is one of this library's."""
    return where is not None and (where == "tapegrad" or where.startswith("tapegrad."))


class Code(typing.NamedTuple):
    """The names that a code object, with those inside it, uses."""

    globals: frozenset[str]
    attributes: frozenset[str]
    imports: frozenset[str]
    strings: frozenset[str]
    catches: bool  # whether it goes on after an error, or does something before it does not
    formats: bool  # whether it formats by a text that is not in the code


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Code:
    """Return the names that a code object uses."""
    global_names: set[str] = set()
    attributes: set[str] = set()
    imports: set[str] = set()
    strings: set[str] = set()
    catches = formats = False
    waiting = [code]
    while waiting:
        each = waiting.pop()
        for const in _constants(each.co_consts):
            if isinstance(const, types.CodeType):
                waiting.append(const)
            elif isinstance(const, str):
                strings.add(const)
                if "{" in const:
                    attributes.update(_FORMATTED.findall(const))
        before = second = None  # the instructions before
        for instruction in dis.get_instructions(each):
            name = instruction.opname
            if before is not None and before.opname == "PUSH_EXC_INFO":
                catches |= name != "WITH_EXCEPT_START"
            if instruction.argval in ("format", "format_map") and name in _ATTRIBUTE_OPS:
                formats |= before is None or before.opname != "LOAD_CONST"
            if name in _GLOBAL_OPS:
                global_names.add(instruction.argval)
            elif name in _ATTRIBUTE_OPS:
                attributes.add(instruction.argval)
            elif name == "IMPORT_NAME":
                level = second.argval if second is not None else 0
                imports.add("." * level + instruction.argval)
            second, before = before, instruction
        # Whatever form the instructions of a version take, names are here.
        attributes.update(each.co_names)
    return Code(
        frozenset(global_names),
        frozenset(attributes),
        frozenset(imports),
        frozenset(strings),
        catches,
        formats,
    )


def _constants(constants: tuple[Any, ...]) -> Iterable[Any]:
    for const in constants:
        if isinstance(const, tuple | frozenset):
            yield from _constants(tuple(const))
        else:
            yield const


class Walk:
    """What is reached from a function and its arguments."""

    def __init__(self) -> None:
        self.watch = _C._Watch()
        self.names: list[str] = []  # of the entries of the watch
        self.tensors: dict[int, tuple[Tensor, str]] = {}  # by id, with how it is reached
        self.groups: list[
            tuple[dict[str, Any], frozenset[str]]
        ] = []  # with the options that are open
        self._optimizers: list[tuple[Optimizer, str]] = []
        self._seen: dict[int, Any] = {}
        self._seen_again: set[int] = set()
        self._waiting: list[tuple[Any, str]] = []
        self._attributes: set[str] = set()  # that code names
        self._strings: set[str] = set()
        self._classes: dict[type, bool] = {}  # whether it is called
        self._partners: dict[type, set[type]] = {}  # classes of others that it has a class with
        self._library_classes: set[type] = {Tensor, Parameter}
        self._followed: set[tuple[type, str]] = set()
        self._followed_names: set[tuple[int, str]] = set()  # of modules
        self._modules: list[tuple[types.ModuleType, Code, str]] = []  # that code names
        self._named_modules: list[tuple[types.ModuleType, str]] = []  # the same, followed
        self._held_modules: list[tuple[types.ModuleType, str]] = []  # that objects hold
        self._names_looked_up = 0  # in modules
        self._any_name = False  # getattr with a name that is not known
        self.catches_errors = False  # whether code may go on after one

    def follow(self, roots: Iterable[tuple[Any, str]]) -> None:
        """Follow everything that is reached from objects, each with its name."""
        for kind in (Tensor, Parameter):
            self.add(self.watch.add_type(kind), f"the class {kind.__name__}")
            self._seen[id(kind)] = kind
        self._waiting += _library_state()
        self._waiting += roots
        self._drain()
        for optimizer, name in self._optimizers:
            self._watch_groups(optimizer, name)
        self._drain()

    def mentions_gradients(self) -> bool:
        """Whether code that was followed may look at a .grad, or an optimizer may."""
        names = self._attributes | self._strings
        return bool(self._optimizers) or any(
            name == "backward" or ("grad" in name and name not in GRAD_MODES) for name in names
        )

    def sees_gradients(self) -> bool:
        """Whether code that was followed may tell the .grad of a tensor from another tensor."""
        return "grad" in self._attributes | self._strings

    def has_reached(self, value: Any) -> bool:
        """Whether an object was reached."""
        return id(value) in self._seen

    def mentions_offsets(self) -> bool:
        """Whether code that was followed may see where in its memory a tensor begins."""
        return bool((self._attributes | self._strings) & OFFSETS)

    def _drain(self) -> None:
        while True:
            while self._waiting:
                if len(self._seen) > _MOST:
                    raise Refusal(f"it reaches more than {_MOST} objects")
                self._visit(*self._waiting.pop())
            if not self._follow_classes():
                return

    def add(self, entry: int, name: str) -> None:
        """Name an entry of the watch."""
        assert entry == len(self.names)
        self.names.append(name)

    # ---- objects

    def _visit(self, value: Any, name: str) -> None:
        if id(value) in self._seen:
            self._seen_again.add(id(value))
            if isinstance(value, type):
                self._note_bases(value, name)
            return
        if type(value) is slice:
            self._waiting += [(each, name) for each in (value.start, value.stop, value.step)]
            return
        if _is_inert(value):
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._visit_tensor(value, name)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, name)
        elif isinstance(value, type):
            self._visit_class(value, name)
        elif isinstance(value, types.ModuleType):
            self._held_modules.append((value, name))
        elif type(value) in (list, tuple, dict, OrderedDict, defaultdict, set, frozenset):
            self._visit_container(value, name)
        elif not self._visit_callable(value, name):
            self._visit_instance(value, name)

    def _visit_tensor(self, value: Tensor, name: str) -> None:
        if type(value) not in (Tensor, Parameter, Buffer):
            raise Refusal(f"{name} is of a subclass of Tensor, {type(value).__name__}")
        self.tensors[id(value)] = (value, name)
        attributes = getattr(value, "__dict__", None)
        if attributes:
            self.add(self.watch.add_items(attributes), f"attributes of {name}")
            self._waiting += [(each, f"{name}.{key}") for key, each in attributes.items()]

    def _visit_container(self, value: Any, name: str) -> None:
        if len(value) > _MOST:
            raise Refusal(f"{name} has {len(value)} items: to compare them takes too long")
        if isinstance(value, dict):
            self._visit_items(value, name)
            return
        if isinstance(value, list):
            self.add(self.watch.add_list(value), name)
        elif isinstance(value, set | frozenset):
            self._visit_set(value, name)
            return
        self._waiting += [(each, f"{name}[{number}]") for number, each in enumerate(value)]

    def _visit_items(self, value: dict[Any, Any], name: str) -> None:
        self.add(self.watch.add_items(value), name)
        self._waiting += [(key, f"a key of {name}") for key in value]
        self._waiting += [(each, _item(name, key)) for key, each in value.items()]
        if isinstance(value, defaultdict):
            self._waiting.append((value.default_factory, f"{name}.default_factory"))

    def _visit_set(self, value: set[Any] | frozenset[Any], name: str) -> None:
        for each in value:
            if not isinstance(each, _INERT):
                raise Refusal(f"{name} is a set of {type(each).__name__}")
        if isinstance(value, set):
            self.add(self.watch.add_set(value), name)
        self._waiting += [(each, f"an item of {name}") for each in value]

    def _visit_callable(self, value: Any, name: str) -> bool:
        """Follow a callable other than a function or class, or what stands for one."""
        if isinstance(value, types.MethodType):
            self._waiting += [(value.__self__, f"{name}.__self__"), (value.__func__, name)]
        elif isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords, value.__dict__)
            self._waiting += [(each, name) for each in parts]
        elif isinstance(value, property):
            getters = (value.fget, value.fset, value.fdel)
            self._waiting += [(each, name) for each in getters if each is not None]
        elif isinstance(value, staticmethod | classmethod):
            self._waiting.append((value.__func__, name))
        elif isinstance(value, weakref.ref):
            self._waiting.append((value(), name))
        elif isinstance(value, _CALLABLES_OF_C):
            self._visit_function_of_c(value, name)
        elif type(value).__module__ == "tapegrad.compiler._compiled" and "_function" in vars(value):
            self._waiting.append((value._function, name))  # which runs while a call is captured
        else:
            if type(value).__module__ == "nanobind":
                self._check_effects(value, name)
                return True
            return type(value).__module__ == "typing" or (
                isinstance(
                    value,
                    types.GenericAlias | typing.TypeVar | functools._lru_cache_wrapper,  # type: ignore[attr-defined]
                )
                and self._refuse_cache(value, name)
            )
        return True

    def _check_effects(self, value: Any, name: str) -> None:
        """Refuse functions and classes of this library that do more than compute."""
        where = getattr(value, "__module__", None) or ""
        called = getattr(value, "__name__", "")
        if called in SEEDING and is_library(where):
            raise Refusal(f"{name} seeds or reads a generator of random numbers")
        if is_library(where) and (called in EFFECT_NAMES or where.startswith(EFFECTS)):
            raise Refusal(f"{name} has effects that a trace does not repeat ({where}.{called})")

    def _refuse_cache(self, value: Any, name: str) -> bool:
        if isinstance(value, types.GenericAlias | typing.TypeVar):
            return True
        if is_library(value.__module__):
            return True
        raise Refusal(f"{name} keeps results of calls, which is not followed")

    def _visit_function_of_c(self, value: Any, name: str) -> None:
        owner = getattr(value, "__self__", None)
        where = getattr(value, "__module__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            if where == "builtins" and value.__name__ in PURE_BUILTINS:
                return
            if where in PURE_MODULES or is_library(where) or hasattr(value, "__objclass__"):
                return
            called = getattr(value, "__name__", "?")
            raise Refusal(f"{name} calls {where}.{called}, whose effects are not known")
        self._waiting.append((owner, name))

    def _visit_instance(self, value: Any, name: str) -> None:
        kind = type(value)
        for base in kind.__mro__:
            if base not in _VISIBLE and not _is_made_by_python(base):
                what = f"{kind.__module__}.{kind.__qualname__}"
                raise Refusal(f"{name} is a {what}, whose state is not visible")
        if kind.__module__ in HIDDEN_STATE:
            raise Refusal(
                f"{name} is a {kind.__module__}.{kind.__qualname__}, whose state is not followed"
            )
        self.add(self.watch.add_instance(value), f"the class of {name}")
        self._visit(kind, f"type({name})")
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            if isinstance(value, Optimizer):
                self._visit_groups(value, name)
            self.add(self.watch.add_items(attributes), f"the attributes of {name}")
            self._waiting += [
                (each, f"{name}.{key}")
                for key, each in attributes.items()
                if key != "param_groups" or not isinstance(value, Optimizer)
            ]
        if isinstance(value, dict):
            self._visit_items(value, name)
        elif isinstance(value, list):
            self.add(self.watch.add_list(value), name)
        elif isinstance(value, set):
            self._visit_set(value, name)
        if isinstance(value, list | tuple):
            self._waiting += [(each, f"{name}[{number}]") for number, each in enumerate(value)]

    # ---- classes

    def _visit_class(self, value: type, name: str) -> None:
        where = value.__module__
        if where == "builtins":
            if value.__name__ not in PURE_BUILTINS and not issubclass(value, BaseException):
                raise Refusal(f"{name} is {value.__name__}, whose effects are not known")
            return
        self._check_effects(value, name)
        for base in value.__mro__:
            if base.__module__ in HIDDEN_STATE or not (
                base.__module__ in PURE_MODULES
                or base.__module__ == "builtins"
                or is_library(base.__module__)
                or _is_made_by_python(base)
            ):
                raise Refusal(f"{name} is {where}.{value.__qualname__}, whose state is not visible")
        self._strings |= set(getattr(value, "__match_args__", ()))  # that patterns look up
        try:
            self.add(self.watch.add_type(value), f"the class {value.__qualname__}")
        except ValueError as error:
            raise Refusal(f"the class {value.__qualname__} has no version") from error
        self._note_bases(value, name)
        if value in SUPPORTED_NODES and not is_library(where):
            self._waiting += [(each, f"what flattens {name}") for each in SUPPORTED_NODES[value]]

    def _note_bases(self, value: type, name: str) -> None:
        """Note the classes whose methods are to be followed, and whether instances are made."""
        is_called = not name.startswith("type(")
        for base in value.__mro__:
            if is_library(base.__module__):
                self._library_classes.add(base)
            elif base.__module__ not in PURE_MODULES and base.__module__ != "builtins":
                self._classes[base] = self._classes.get(base, False) or is_called
                self._partners.setdefault(base, set()).update(
                    each
                    for each in value.__mro__
                    if is_library(each.__module__) or each.__module__ in PURE_MODULES
                )

    def _follow_classes(self) -> bool:
        """Follow the methods that code names; return whether there were new ones."""
        found = False
        for module, code, name in self._modules:
            strings = {each for each in code.strings if each.isidentifier()}
            self._follow_module(module, code.attributes | strings, name)
            self._named_modules.append((module, name))
        self._modules = []
        for module, name in self._held_modules:  # any code may have got hold of it
            self._follow_module(module, self._attributes | self._strings, name)
        for kind, is_called in list(self._classes.items()):
            if type(kind).__module__ not in ("builtins", "abc", "enum"):
                raise Refusal(f"the class {kind.__qualname__} has a class of its own")
            for name, value in list(vars(kind).items()):
                if (kind, name) in self._followed:
                    continue
                if not (self._is_used(name, is_called) or self._overrides(kind, name)):
                    continue
                self._followed.add((kind, name))
                self.catches_errors |= name in ("__exit__", "__aexit__")
                self._waiting.append((value, f"{kind.__qualname__}.{name}"))
                found = True
        self._follow_additions()
        if self._any_name:
            for module, name in (*self._named_modules, *self._held_modules):
                self._follow_namespace(module, name)
        return found or bool(self._waiting)

    def _follow_namespace(self, module: types.ModuleType, name: str) -> None:
        """Watch all of a module whose attributes may be found by names that code computes."""
        known = module.__name__ in PURE_MODULES or is_library(module.__name__)
        if known or (id(module), "*") in self._followed_names:
            return
        self._followed_names.add((id(module), "*"))
        self.add(self.watch.add_items(vars(module)), f"the attributes of {name}")
        for key, value in vars(module).items():
            if type(value) in (list, dict, set, tuple) and not key.startswith("__"):
                self._waiting.append((value, f"{name}.{key}"))

    def _follow_additions(self) -> None:
        """Follow functions of others that were put into classes of this library."""
        for kind in self._library_classes:
            for name in (self._attributes | self._strings | SPECIAL) & vars(kind).keys():
                value = vars(kind)[name]
                function = getattr(value, "__func__", value)
                if isinstance(function, types.FunctionType) and not self._is_trusted(function):
                    self._waiting.append((value, f"{kind.__qualname__}.{name}"))
        self._waiting = [each for each in self._waiting if id(each[0]) not in self._seen]

    def _overrides(self, kind: type, name: str) -> bool:
        """Whether code that is not followed may call a method: a class of its own has it, too."""
        return not name.startswith("__") and any(
            name in vars(partner) for partner in self._partners.get(kind, ())
        )

    def _is_used(self, name: str, is_called: bool) -> bool:
        if name in SPECIAL or name in self._attributes or name in self._strings:
            return True
        if name in MAKING:
            return is_called or "type" in self._attributes or "__class__" in self._attributes
        return self._any_name and not name.startswith("__")

    # ---- functions

    def _visit_function(self, value: types.FunctionType, name: str) -> None:
        for cell, variable in zip(value.__closure__ or (), value.__code__.co_freevars, strict=True):
            self.add(self.watch.add_cell(cell), f"the variable {variable} of {name}")
            try:
                contents = cell.cell_contents
            except ValueError:
                continue  # not assigned yet, which is watched
            if isinstance(contents, types.ModuleType) and not self._is_trusted(value):
                self._modules.append((contents, names_in(value.__code__), variable))
            else:
                self._waiting.append((contents, variable))
        self.add(self.watch.add_function(value), f"the code of {name}")
        self._waiting.append((value.__defaults__ or (), f"defaults of {name}"))
        self._waiting.append((value.__kwdefaults__ or {}, f"defaults of {name}"))
        if hasattr(value, "__wrapped__"):
            self._waiting.append((value.__wrapped__, name))
        if "_torchdynamo_disable" in value.__dict__:
            raise Refusal(
                f"{name} is marked by compiler.disable: {value.__dict__['_torchdynamo_disable']}"
            )
        if self._is_trusted(value):
            self._check_effects(value, name)
            return
        self.add(self.watch.add_items(value.__dict__), f"the attributes of {name}")
        self._waiting += [(each, f"{name}.{key}") for key, each in value.__dict__.items()]
        self._follow_code(value, name)

    def _is_trusted(self, value: types.FunctionType) -> bool:
        where = value.__globals__.get("__name__")
        return value.__code__.co_filename.startswith(_FOLDER) or where in PURE_MODULES

    def _follow_code(self, function: types.FunctionType, name: str) -> None:
        code = names_in(function.__code__)
        for attribute in code.attributes & ADDRESSES:
            raise Refusal(f"{name} uses .{attribute}, which tells where a tensor lies")
        self._attributes |= code.attributes
        self._strings |= {each for each in code.strings if each.isidentifier()}
        self._any_name = self._any_name or code.formats or bool(code.attributes & COMPUTED)
        self.catches_errors |= code.catches or "suppress" in code.attributes | code.globals
        namespace = function.__globals__
        known = namespace.get("__builtins__", builtins)
        known = known if isinstance(known, dict) else vars(known)
        for each in sorted(code.globals):
            self.add(self.watch.add_item(namespace, each), f"the global {each}")
            if each in namespace:
                self._visit_global(namespace[each], each, code)
            elif each in known:
                self._visit_builtin(known, each, name)
        for each in code.imports:
            full = _absolute(each, namespace)
            module = sys.modules.get(full)
            if module is None:
                raise Refusal(f"{name} imports {each}, which is not loaded yet")
            for part in dict.fromkeys((full, full.partition(".")[0])):
                self.add(self.watch.add_item(sys.modules, part), f"the module {part}")
                self._visit_global(sys.modules[part], full, code)

    def _visit_builtin(self, known: dict[str, Any], each: str, name: str) -> None:
        value = known[each]
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if each not in PURE_BUILTINS and not is_error:
            raise Refusal(f"{name} calls {each}(), which a trace does not repeat")
        if value is not getattr(builtins, each, None):
            raise Refusal(f"the builtin {each} has been replaced")
        if each in ("getattr", "setattr", "hasattr", "delattr"):
            self._any_name = True
        self.add(self.watch.add_item(known, each), f"the builtin {each}")

    def _visit_global(self, value: Any, name: str, code: Code) -> None:
        if isinstance(value, types.ModuleType):
            self._modules.append((value, code, name))
        else:
            self._waiting.append((value, name))

    def _follow_module(self, module: types.ModuleType, used: Iterable[str], name: str) -> None:
        if module.__name__ in PURE_MODULES:
            return
        waiting, seen = [(module, name)], {id(module)}
        while waiting:
            each, path = waiting.pop()
            namespace = vars(each)
            names = set(used) & namespace.keys() if is_library(each.__name__) else {*used}
            if not is_library(each.__name__):
                names |= {"__getattr__"}
            self._names_looked_up += len(names)
            if self._names_looked_up > _MOST_NAMES:
                raise Refusal(f"it reaches too many modules, {path} among them")
            for attribute in sorted(names):
                is_new = (id(each), attribute) not in self._followed_names
                if is_new:  # one that is not there may come
                    self._followed_names.add((id(each), attribute))
                    self.add(self.watch.add_item(namespace, attribute), f"{path}.{attribute}")
                if attribute not in namespace:
                    continue
                value = namespace[attribute]
                if isinstance(value, types.ModuleType):
                    if id(value) not in seen and value.__name__ not in PURE_MODULES:
                        seen.add(id(value))
                        waiting.append((value, f"{path}.{attribute}"))
                    continue
                if is_library(each.__name__) and attribute in SEEDING:
                    raise Refusal(f"it uses {path}.{attribute}, and draws other random numbers")
                self._waiting.append((value, f"{path}.{attribute}"))

    # ---- optimizers

    def _visit_groups(self, optimizer: Optimizer, name: str) -> None:
        """Follow parameter groups, which are watched when all code is known."""
        self._optimizers.append((optimizer, name))
        self._seen[id(optimizer.param_groups)] = optimizer.param_groups
        self.add(self.watch.add_list(optimizer.param_groups), f"{name}.param_groups")
        for group in optimizer.param_groups:
            self._seen[id(group)] = group
            self._waiting += [(each, f"{name}.{key}") for key, each in group.items()]

    def _watch_groups(self, optimizer: Optimizer, name: str) -> None:
        """Watch parameter groups, but for the numbers that native steps read anew each time."""
        is_native = (
            isinstance(optimizer, GroupwiseOptimizer)
            and is_library(type(optimizer).__module__)
            and not (self._attributes | self._strings) & OPTION_READERS
            and id(optimizer.param_groups) not in self._seen_again
        )
        for number, group in enumerate(optimizer.param_groups):
            path = f"{name}.param_groups[{number}]"
            is_open = is_native and id(group) not in self._seen_again
            lifted = {
                key
                for key, value in group.items()
                if is_open and key in LIFTED - self._strings and _is_number(value)
            }
            self.groups.append((group, frozenset(lifted)))
            self.names.append(path)
            self.watch.add_items(group, lifted)


def _is_inert(value: Any) -> bool:
    """Whether nothing about an object can change, nor about methods of a class of its own."""
    return type(value) in _INERT_TYPES


def _is_made_by_python(kind: type) -> bool:
    """Whether the state of the instances of a class is in their attributes alone."""
    if is_library(kind.__module__):
        return kind.__module__ != "tapegrad._C"
    if not kind.__flags__ & _HEAP_TYPE or kind.__base__ is None:
        return False
    # A class of Python's adds a dict and weak references; types of extension modules have more.
    grows = kind.__basicsize__ - kind.__base__.__basicsize__
    if kind.__dict__.get("__slots__"):
        return False
    return grows in (0, 8, 16) and (bool(kind.__dictoffset__) or "__slots__" in kind.__dict__)


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_number(each) for each in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _absolute(name: str, namespace: dict[str, Any]) -> str:
    """Return the full name of a module, which begins with dots where it is relative."""
    if not name.startswith("."):
        return name
    package = namespace.get("__package__") or ""
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError as error:
        raise Refusal(f"it imports {name}, which is not found") from error


def _item(name: str, key: Any) -> str:
    return f"{name}[{key!r}]" if isinstance(key, str | int) else f"{name}[...]"


def is_generator(function: Any) -> bool:
    """Whether calling it does not run it."""
    return (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    )
