"""What `trace`, `script` and `load` give: modules and functions."""

import copy
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tapegrad._C import Tensor
from tapegrad.jit._traced import LoadedMethod, TracedMethod
from tapegrad.nn.modules.module import Module

__all__ = [
    "Attribute",
    "FrozenModule",
    "LoadedModule",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "script_function",
]

_NO_PROGRAM = (
    "save: {name} was scripted, and Python source is not compiled here, so that there is no "
    "program to write; use torch.jit.trace(model, example_inputs), or torch.jit.script(model, "
    "example_inputs=[(x,)])"
)


class Attribute(NamedTuple):
    """A value of a `ScriptModule` with its type."""

    value: Any
    type: Any


class ScriptModule(Module):
    """The class of all modules that `trace`, `script` and `load` give."""

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the module to a file for `load`.

        Args:
            f: a path.
            _extra_files: strings or bytes by name, to be stored with it.
        """
        from tapegrad.jit._file import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """Return the bytes of the file that `save` writes."""
        import io

        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

    def _traced_methods(self) -> dict[str, TracedMethod]:
        raise RuntimeError(_NO_PROGRAM.format(name=f"a {type(self).__name__}"))

    @property
    def original_name(self) -> str:
        """The name of the module's class."""
        return str(self.__dict__.get("_name", type(self).__name__))

    @property
    def graph(self) -> Any:
        """The program of ``forward``, a `tapegrad.tape.Program`."""
        return self._traced_methods()["forward"].program

    @property
    def inlined_graph(self) -> Any:
        """The same as ``graph``."""
        return self.graph

    @property
    def code(self) -> str:
        """The program of ``forward`` as text."""
        return str(self.graph)

    def _get_name(self) -> str:
        return self.original_name

    def extra_repr(self) -> str:
        """Return what the class was called."""
        return f"original_name={self.original_name}" if "_name" in self.__dict__ else ""

    def __reduce_ex__(self, protocol: Any) -> Any:
        if "_name" in self.__dict__:
            raise RuntimeError(
                f"a {type(self).__name__} cannot be pickled; write it with torch.jit.save, or "
                "pickle the model and trace it again"
            )
        return super().__reduce_ex__(protocol)


class RecursiveScriptModule(ScriptModule):
    """A module with the parameters, buffers and children of another one, which it calls."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        own = self.__dict__
        own["_original"] = module
        own["_name"] = type(module).__name__
        own["training"] = module.training
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            own[name] = module.__dict__[name]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self._original(*args, **kwargs)

    def train(self, mode: bool = True) -> "RecursiveScriptModule":
        """Set the mode."""
        self._original.train(mode)
        self.__dict__["training"] = mode
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_original" not in self.__dict__:
                raise
        return getattr(self.__dict__["_original"], name)

    def __len__(self) -> int:
        return len(self._original)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._original)  # type: ignore[call-overload]

    def __getitem__(self, index: Any) -> Any:
        return self._original[index]  # type: ignore[index]

    def __bool__(self) -> bool:
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(copy.deepcopy(self._original, memo))

    def _traced_methods(self) -> dict[str, TracedMethod]:
        examples = self.__dict__.get("_examples")
        if not examples:
            raise RuntimeError(_NO_PROGRAM.format(name=self.original_name))
        method = TracedMethod("forward", self._original, self._original, examples[0], {}, None)
        method.trace()
        return {"forward": method}


class TracedModule(RecursiveScriptModule):
    """A module that was traced: its programs run in its place."""

    def __init__(self, module: Module, methods: dict[str, TracedMethod]) -> None:
        super().__init__(module)
        self.__dict__["_methods"] = methods
        for name, method in methods.items():
            if name != "forward":
                self.__dict__[name] = method

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the arguments' sizes."""
        method = self.__dict__["_methods"].get("forward")
        if method is None:
            traced = ", ".join(self.__dict__["_methods"])
            raise RuntimeError(f"forward() was not traced, only {traced}")
        return method(*args, **kwargs)

    def train(self, mode: bool = True) -> "TracedModule":
        """Set the flag, which changes nothing: programs are in the mode of the trace."""
        self.__dict__["training"] = mode
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        module = copy.deepcopy(self._original, memo)
        methods = {}
        for name, method in self.__dict__["_methods"].items():
            methods[name] = method.copied(module, name)
        return type(self)(module, methods)

    def _traced_methods(self) -> dict[str, TracedMethod]:
        return dict(self.__dict__["_methods"])


class TopLevelTracedModule(TracedModule):
    """What `trace` gives for a module."""


class FrozenModule(ScriptModule):
    """A traced module with its state as constants: a copy that later training does not change."""

    def __init__(self, traced: TracedModule, kept: Sequence[str]) -> None:
        super().__init__()
        self.__dict__["_name"] = traced.original_name
        self.__dict__["_traced"] = traced.requires_grad_(False)
        self.__dict__["training"] = False
        for name in kept:
            self.__dict__[name] = getattr(traced, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the arguments' sizes."""
        return self.__dict__["_traced"](*args, **kwargs)

    def _traced_methods(self) -> dict[str, TracedMethod]:
        return dict(self.__dict__["_traced"]._traced_methods())


class _Part(Module):
    """A module of which only the state is known."""


class LoadedModule(ScriptModule):
    """A module from a file: state and programs, no code."""

    def __init__(self, name: str, training: bool) -> None:
        super().__init__()
        self.__dict__["_name"] = name
        self.__dict__["training"] = training
        self.__dict__["_methods"] = {}

    def _hold(self, path: str, tensor: Tensor, is_parameter: bool) -> tuple[dict[str, Any], str]:
        """Take in a parameter or a buffer; return where it is held."""
        owner: Module = self
        *parents, key = path.split(".")
        for each in parents:
            if each not in owner._modules:
                owner._modules[each] = _Part()
            owner = owner._modules[each]  # type: ignore[assignment]
        held = owner._parameters if is_parameter else owner._buffers
        held[key] = tensor  # type: ignore[assignment]
        return held, key

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for the arguments' sizes."""
        methods = self.__dict__["_methods"]
        if "forward" not in methods:
            raise RuntimeError(f"forward() is not in the file, only {', '.join(methods)}")
        return methods["forward"](*args, **kwargs)

    def train(self, mode: bool = True) -> "LoadedModule":
        """Set the flag, which changes nothing: programs are in the mode of the trace."""
        for each in self.modules():
            each.__dict__["training"] = mode
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        import io

        from tapegrad.jit._file import load, save

        file = io.BytesIO()
        save(self, file)
        file.seek(0)
        return load(file)

    @property
    def graph(self) -> Any:
        """The program of ``forward``, a `tapegrad.tape.Program`."""
        return self.__dict__["_methods"]["forward"].program

    def _loaded_methods(self) -> dict[str, LoadedMethod]:
        return dict(self.__dict__["_methods"])


# ---- functions


class _IsScripted(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls.__name__ == "ScriptFunction" and getattr(instance, "_is_scripted", False) is True
        )


class ScriptFunction(metaclass=_IsScripted):
    """What `trace` gives for a function. Functions that were scripted are instances as well."""

    def __init__(self, function: Callable[..., Any], method: TracedMethod) -> None:
        self._method = method
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the arguments' sizes."""
        return self._method(*args, **kwargs)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.__name__

    @property
    def graph(self) -> Any:
        """The program, a `tapegrad.tape.Program`."""
        return self._method.program

    @property
    def code(self) -> str:
        """The program as text."""
        return str(self.graph)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write the function to a file for `load`."""
        from tapegrad.jit._file import save

        save(self, f, _extra_files)

    def __repr__(self) -> str:
        return f"<traced {self.__name__}({', '.join(self._method.arguments.names)})>"


def script_function(function: types.FunctionType, examples: Any) -> Any:
    """Return a copy of a function that counts as scripted."""
    made = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__doc__, made.__annotations__ = function.__doc__, dict(function.__annotations__)
    made.__dict__.update(function.__dict__)

    def save(f: Any, _extra_files: Any = None) -> None:
        if not examples:
            raise RuntimeError(_NO_PROGRAM.format(name=function.__name__))
        from tapegrad.jit._trace import trace

        trace(function, examples[0]).save(f, _extra_files)

    made._is_scripted = True  # type: ignore[attr-defined]
    made.save = save  # type: ignore[attr-defined]
    made.name = function.__name__  # type: ignore[attr-defined]
    return made
