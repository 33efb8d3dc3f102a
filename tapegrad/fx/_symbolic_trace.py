"""Graphs of functions and modules, made by calling them once with proxies.

While a module is traced, three things stand in other places: calls of modules ask the tracer
whether they are leaves, reads of parameters give proxies, and functions that a program marked with
`wrap`, or that take numbers only (those of `math`), look for proxies among their arguments.
"""

import collections
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import tapegrad
from tapegrad import nn
from tapegrad._C import Tensor
from tapegrad.fx._interception import INTERCEPTION, find_proxy
from tapegrad.fx._torch_names import native_functions
from tapegrad.fx.graph import Graph
from tapegrad.fx.graph_module import GraphModule
from tapegrad.fx.node import Argument
from tapegrad.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from tapegrad.utils import _pytree as pytree

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

_HAS_VARARGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_proxyable_classes: dict[type, None] = {}
_wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
_WRAPPED_HERE = "__fx_wrapped__"  # names that generated code marks, in its own globals
_PATCHING = threading.RLock()
_tracing = threading.local()


class PHBase:
    """An argument that is to be a proxy, inside a container given as ``concrete_args``."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """An argument that is to be a proxy, with what its node is to know.

    Args:
        ph_key: a name by which it is told from others.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


PH = PHBase()


class ProxyableClassMeta(type):
    """A class whose objects are made of proxies in a graph as well."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = cls.__new__(cls)  # type: ignore[call-overload]
        if not is_fx_tracing():
            cls.__init__(made, *args, **kwargs)  # type: ignore[misc]
            return made
        proxy = find_proxy((args, kwargs))
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(made, *args, **kwargs)  # type: ignore[misc]
        return made


def is_fx_tracing() -> bool:
    """Return whether this thread makes a graph of a function now."""
    return getattr(_tracing, "depth", 0) > 0


is_fx_symbolic_tracing = is_fx_tracing


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


# ---- what stands in other places


class _Patcher:
    """Puts values in other places and back, the last one first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._visited: set[int] = set()

    def patch(self, table: dict[str, Any], name: str, value: Any) -> None:
        """Put a value under a name of a dict."""
        missing = name not in table
        before = table.get(name)
        table[name] = value
        self._undo.append(
            lambda: table.pop(name, None) if missing else table.__setitem__(name, before)
        )

    def patch_method(self, cls: type, name: str, value: Any) -> None:
        """Put a value under a name of a class."""
        own = name in vars(cls)
        before = vars(cls).get(name)
        setattr(cls, name, value)
        self._undo.append(lambda: setattr(cls, name, before) if own else delattr(cls, name))

    def visit_once(self, table: Any) -> bool:
        """Return whether a dict is seen for the first time."""
        if id(table) in self._visited:
            return False
        self._visited.add(id(table))
        return True

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()


def _wrapped(function: Callable[..., Any], marks: bool = True) -> Callable[..., Any]:
    """Return a function that becomes a node where it gets proxies."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy((args, kwargs))
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        if marks:
            made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _recorded_method(cls: type, name: str) -> Callable[..., Any]:
    """Return a method that becomes a node where it gets proxies."""
    method = getattr(cls, name)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return recorded


def _unpatched(method: Any) -> Any:
    """Return a method as it was before a tracer around this one took its place."""
    return getattr(method, "_fx_original", method)


def _patch_marked(patcher: _Patcher, table: dict[str, Any], names: Iterable[str]) -> None:
    """Wrap functions of a module that the module marked."""
    import builtins

    for name in names:
        function = table.get(name, getattr(builtins, name, None))
        if callable(function):
            patcher.patch(table, name, _wrapped(function))


def wrap(fn_or_name: Any) -> Any:
    """Mark a function that becomes one node, and is not looked into.

    It is to be called where the module is written, not in a function.

    Args:
        fn_or_name: the function, or the name of one that the module has.

    Example:
        >>> torch.fx.wrap("len")
        'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    current = inspect.currentframe()
    frame = None if current is None else current.f_back
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    if frame.f_code.co_filename.startswith("<eval_with_key>"):
        frame.f_globals.setdefault(_WRAPPED_HERE, set()).add(name)
    else:
        _wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


# ---- tracing


class Tracer(TracerBase):
    """Makes graphs of modules and functions; to be subclassed for other leaves and other nodes.

    Args:
        autowrap_modules: modules whose functions become nodes where they get proxies.
        autowrap_functions: further functions that do.
        param_shapes_constant: whether sizes of parameters are numbers in the graph.

    Example:
        >>> class Whole(torch.fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return False
        >>> graph = Whole().trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'call_function', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function) for function in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}
        self.num_calls: dict[str, int] = {}
        self.tensor_attrs: dict[int, tuple[Any, str]] = {}

    # ---- what may be overridden

    def create_arg(self, a: Any) -> Argument:
        """Return an argument of a call as a node holds it.

        Parameters, buffers and other tensors of the module are read from it; other tensors become
        attributes ``_tensor_constant0`` and so on.

        Args:
            a: the argument.
        """
        if isinstance(a, nn.Parameter):
            for name, param in self.root.named_parameters():
                if a is param:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._constant(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), items, {})
        if type(a) in _proxyable_classes:
            known = self.tensor_attrs.get(id(a))
            name = known[1] if known else self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            if not known:
                self.tensor_attrs[id(a)] = (a, name)
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, tensor: Tensor) -> str:
        """Return the name under which the module has a tensor, which it may get now."""
        known = self.tensor_attrs.get(id(tensor))
        if known is not None:
            return known[1]
        name = self.get_fresh_qualname("_tensor_constant")
        self.tensor_attrs[id(tensor)] = (tensor, name)
        setattr(self.root, name, tensor)
        return name

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name that the module has not.

        Args:
            prefix: its beginning, to which a number comes.
        """
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether calls of a module become one node. Those of `torch.nn` do by default.

        Args:
            m: the module.
            module_qualified_name: its path.
        """
        own = m.__module__.startswith(("tapegrad.nn", "torch.nn", "torch.ao.nn"))
        return own and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module below the one that is traced.

        Args:
            mod: the module.

        Raises:
            NameError: if it is not below it.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Make one node of a module's call if it is a leaf, or call it.

        Args:
            m: the module.
            forward: calls it.
            args, kwargs: the arguments.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            number = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{number}" if number else scope.module_path
            self.module_stack[key] = (scope.module_path, scope.module_type)
            self.num_calls[path] = number + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem(last=True)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return what a read of a module's attribute gives while it is traced.

        Args:
            attr: the name.
            attr_val: what the module has there.
            parameter_proxy_cache: proxies of parameters that were read before, by their paths.
        """
        if isinstance(attr_val, nn.Parameter):
            return self._read(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._read(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _read(self, value: Any, named: Iterable[tuple[str, Any]], known: dict[str, Any]) -> Any:
        for name, tensor in named:
            if tensor is not value:
                continue
            if name not in known:
                shaped = self.param_shapes_constant and isinstance(value, nn.Parameter)

                def make(node: Any, name: str = name) -> Proxy:
                    return ParameterProxy(self, node, name, value)

                # Subclasses may not take what they are not given by default.
                factory: dict[str, Any] = {"proxy_factory_fn": make} if shaped else {}
                known[name] = self.create_proxy("get_attr", name, (), {}, **factory)
            return known[name]
        return value

    # ---- arguments

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Add the function's arguments to the graph.

        Args:
            root_fn: the function.
            is_module: whether its first argument is the module.
            concrete_args: values of arguments that are not to be proxies, by their names.

        Returns:
            A function that takes all arguments by position, and these.
        """
        analysed: Any = inspect.unwrap(root_fn)
        code: CodeType = analysed.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        skipped = 0
        if is_module:
            if count == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            skipped, args = 1, [self.root]
        signature = inspect.signature(analysed)
        if isinstance(concrete_args, tuple):
            wanted = names[skipped:count]
            if len(concrete_args) != len(wanted):
                raise RuntimeError(
                    f"Tracing expected {len(wanted)} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(wanted, concrete_args, strict=True))
        given = concrete_args or {}
        for name in names[skipped:count]:
            args.append(self._root_argument(name, signature, analysed, given))
        end = count
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                args.append(self._placeholder(f"{stars}{names[end]}", signature, analysed))
                end += 1
        if code.co_kwonlyargcount or code.co_flags & _HAS_VARARGS:
            root_fn = _all_by_position(analysed, len(args))
        return root_fn, args

    def _placeholder(self, name: str, signature: inspect.Signature, function: Any) -> Proxy:
        parameter = signature.parameters.get(name.lstrip("*"))
        default: tuple[Any, ...] = ()
        if name[0] != "*" and parameter is not None and parameter.default is not parameter.empty:
            default = (parameter.default,)
        kind = _annotation(function, name.lstrip("*"))
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _root_argument(
        self, name: str, signature: inspect.Signature, function: Any, given: dict[str, Any]
    ) -> Any:
        if name not in given:
            return self._placeholder(name, signature, function)
        value = given[name]
        if isinstance(value, PHBase):
            return self._placeholder(name, signature, function)
        leaves, spec = pytree.tree_flatten(value)
        if len(leaves) != 1 or leaves[0] is not value:
            return self._container_argument(name, leaves, spec)
        default = () if signature.parameters[name].default is inspect.Parameter.empty else (value,)
        proxy = self.create_proxy("placeholder", f"{name}_1", default, {})
        said = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, said), {})
        elif isinstance(value, int | float) or type(value) is bool:
            tapegrad._assert(proxy == value, said)
        elif type(value) is not str and not isinstance(value, Tensor | nn.Module):
            import warnings

            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with.",
                stacklevel=6,
            )
        return value

    def _container_argument(self, name: str, leaves: list[Any], spec: Any) -> Any:
        """Make one argument of a container, and proxies of its parts that are `PH`."""
        if not any(isinstance(leaf, PHBase) for leaf in leaves):
            self.create_proxy("placeholder", name, (), {})
            return pytree.tree_unflatten(leaves, spec)
        whole = self.create_proxy("placeholder", name, (), {})
        paths = [
            path
            for path, _ in pytree.tree_flatten_with_path(
                pytree.tree_unflatten(list(range(len(leaves))), spec)
            )[0]
        ]
        made: list[Any] = []
        for leaf, path in zip(leaves, paths, strict=True):
            if not isinstance(leaf, PHBase):
                made.append(leaf)
                continue
            part: Any = whole
            for key in path:
                part = part[getattr(key, "idx", getattr(key, "key", None))]
            made.append(part)
        return pytree.tree_unflatten(made, spec)

    # ---- the call

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """Call a module or function with proxies and return the graph of what it did.

        Args:
            root: the module or function.
            concrete_args: values of arguments that are not to be proxies, by their names. Control
                flow may depend on those.

        Raises:
            TraceError: if control flow depends on a value.
        """
        function: Any
        if isinstance(root, nn.Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = nn.Module()
            function = root
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
        self._collect_tensors()
        if not isinstance(function, FunctionType):
            function = _as_function(function)
        with self._tracing_root(function):
            call, args = self.create_args_for_root(
                function, isinstance(root, nn.Module), concrete_args
            )
            returned = _annotation(inspect.unwrap(function), "return")
            result = self.create_arg(call(*args))
            self.create_node("output", "output", (result,), {}, type_expr=returned)
        self.submodule_paths = None
        self.tensor_attrs = {}
        return self.graph

    def _collect_tensors(self) -> None:
        """Note the tensors that modules have as plain attributes."""
        self.tensor_attrs = {}
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    full = f"{path}.{name}" if path else name
                    self.tensor_attrs.setdefault(id(value), (value, full))

    @contextmanager
    def _tracing_root(self, function: FunctionType) -> Iterator[None]:
        """Have modules, parameters, functions and indexing see proxies while a block runs."""
        patcher = _Patcher()
        with _PATCHING:
            INTERCEPTION.retain()
            _tracing.depth = getattr(_tracing, "depth", 0) + 1
            try:
                self._patch_modules(patcher)
                for name in ("__getitem__", "__setitem__"):
                    patcher.patch_method(Tensor, name, _recorded_method(Tensor, name))
                for (_, name), table in _wrapped_functions.items():
                    _patch_marked(patcher, table, (name,))
                self._wrap_functions_of(patcher, inspect.unwrap(function).__globals__)
                for module in (tapegrad, tapegrad.special, *self._autowrap_search):
                    self._wrap_functions_of(patcher, vars(module))
                yield
            finally:
                patcher.undo()
                _tracing.depth -= 1
                INTERCEPTION.release()

    def _patch_modules(self, patcher: _Patcher) -> None:
        read, call = map(_unpatched, (nn.Module.__getattr__, nn.Module.__call__))
        thread = threading.get_ident()
        known: dict[str, Any] = {}

        def module_getattr(module: nn.Module, name: str) -> Any:
            value = read(module, name)
            if threading.get_ident() != thread:
                return value
            return self.getattr(name, value, known)

        def module_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return call(module, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            forward_globals = getattr(getattr(module, "forward", module), "__globals__", {})
            self._wrap_functions_of(patcher, forward_globals)
            return self.call_module(module, forward, args, kwargs)

        module_getattr._fx_original = read  # type: ignore[attr-defined]
        module_call._fx_original = call  # type: ignore[attr-defined]
        patcher.patch_method(nn.Module, "__getattr__", module_getattr)
        patcher.patch_method(nn.Module, "__call__", module_call)

    def _wrap_functions_of(self, patcher: _Patcher, table: dict[str, Any]) -> None:
        """Wrap what a module's globals hold of the functions that become nodes."""
        if not patcher.visit_once(table):
            return
        _patch_marked(patcher, table, table.get(_WRAPPED_HERE, ()))
        native = native_functions()
        for name, value in list(table.items()):
            if name.startswith("_"):
                continue
            if id(value) in self._autowrap_function_ids:
                patcher.patch(table, name, _wrapped(value))
            elif id(value) in native:
                patcher.patch(table, name, _wrapped(value, marks=False))


def _annotation(function: Any, name: str) -> Any:
    kind = getattr(function, "__annotations__", {}).get(name)
    return None if kind is Any else kind


def _as_function(function: Any) -> Any:
    """Return a plain function for a bound method, a partial or another callable."""
    if isinstance(function, MethodType):
        method, owner = function.__func__, function.__self__
        code = method.__code__
        names = code.co_varnames[1 : code.co_argcount]
        if code.co_flags & _HAS_VARARGS or code.co_kwonlyargcount:
            raise TypeError(
                "symbolic_trace: expected a module or a function, got a bound method with * or "
                "keyword-only arguments; write a function that calls it"
            )
        text = f"lambda {', '.join(names)}: _method(_owner{''.join(', ' + n for n in names)})"
        made = eval(text, {"_method": method, "_owner": owner})
        made.__defaults__ = method.__defaults__
        return made
    if isinstance(inspect.unwrap(function), FunctionType):
        return inspect.unwrap(function)
    raise TypeError(
        f"symbolic_trace: expected a module or a Python function, got {type(function).__name__}"
    )


def _all_by_position(function: Any, count: int) -> FunctionType:
    """Return a function with the same body whose arguments all come by position."""
    code = function.__code__.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=function.__code__.co_flags & ~_HAS_VARARGS,
    )
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def symbolic_trace(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Return a module whose forward is the graph of what a module or function does.

    Args:
        root: the module or function. It is called once, with proxies.
        concrete_args: values of arguments that are not to be proxies, by their names.

    Raises:
        TraceError: if control flow depends on a value.

    Example:
        >>> def double_relu(x):
        ...     return torch.relu(x) * 2
        >>> print(torch.fx.symbolic_trace(double_relu).code.strip())
        def forward(self, x):
            relu = torch.relu(x);  x = None
            mul = relu * 2;  relu = None
            return mul
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
