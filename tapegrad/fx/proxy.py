"""Values that write down what is done with them, and what they are written down with."""

import collections
import copy
import dis
import enum
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any
from weakref import finalize

from tapegrad import _C, _types
from tapegrad._C import Tensor
from tapegrad.fx._codegen import magic_methods, reflectable_magic_methods
from tapegrad.fx._interception import INTERCEPTION
from tapegrad.fx._torch_names import arguments_of
from tapegrad.fx.graph import Graph
from tapegrad.fx.node import Argument, Node, Target, map_aggregate

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_CONSTANTS = (
    *(str, int, float, bool, complex, type(None), type(...), enum.Enum, range),
    *(_C.dtype, _types.device, _types.memory_format, _types.layout, Tensor),
)


class TraceError(ValueError):
    """A function looks at values that are not known while a graph is made of it."""


class Scope:
    """Where in the module tree a call is: a path and the class of the module there.

    Args:
        module_path: the path.
        module_type: the class.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager(AbstractContextManager[Scope]):
    """Makes a scope another one while a block runs.

    Args:
        scope: the scope that changes.
        current_scope: what it becomes.
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = copy.copy(scope)
        self._scope = scope
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path = self._before.module_path
        self._scope.module_type = self._before.module_type


class TracerBase:
    """What makes nodes of calls with proxies; `Tracer` is the one that traces modules."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: "collections.OrderedDict[str, tuple[str, Any]]"
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node to the graph.

        Args:
            kind, target, args, kwargs, name, type_expr: those of `Graph.create_node`.
        """
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        return node

    def proxy(self, node: Node) -> "Proxy":
        """Return a proxy for the result of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], "Proxy"] | None = None,
    ) -> "Proxy":
        """Add a node for a call with proxies, and return a proxy for its result.

        Args:
            kind, target, args, kwargs, name, type_expr: those of `Graph.create_node`, with proxies
                among the arguments.
            proxy_factory_fn: makes the proxy of the node.
        """
        made_args, made_kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(made_args, tuple) or not isinstance(made_kwargs, dict):
            raise AssertionError("create_proxy: arguments became something else")
        node = self.create_node(kind, target, made_args, made_kwargs, name, type_expr)
        proxy = self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)
        if self.record_stack_traces and not proxy.node.stack_trace:
            proxy.node.stack_trace = "".join(_lines_of_the_program())
        return proxy

    def create_arg(self, a: Any) -> Argument:
        """Return an argument of a call as a node holds it, with nodes for proxies.

        Args:
            a: the argument.

        Raises:
            NotImplementedError: if a graph cannot hold such an object.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*map(self.create_arg, a))
        if isinstance(a, tuple | list):
            items = [self.create_arg(item) for item in a]
            return items if isinstance(a, list) else _tuple_like(a, items)
        if isinstance(a, dict):
            return self._create_dict(a)
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*map(self.create_arg, (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            given = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), given)
        if isinstance(a, _CONSTANTS):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_dict(self, a: dict[Any, Any]) -> dict[Any, Argument]:
        made = {}
        for key, value in a.items():
            new_key = self.create_arg(key)
            if _find_nodes(new_key):
                raise RuntimeError(
                    "Keys for dictionaries used as an argument cannot contain a Node. "
                    f"Got key: {key.node if isinstance(key, Proxy) else key}"
                )
            made[new_key] = self.create_arg(value)
        return made

    # ---- what Python asks of a value

    def to_bool(self, obj: "Proxy") -> bool:
        """Answer for a proxy that is used as a condition. Override it for another answer."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: "Proxy") -> Iterator[Any]:
        """Return the parts of a proxy that is iterated. Override it for another answer."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: "Proxy") -> Any:
        """Return the keys of a proxy that is unpacked with ``**``."""
        return Attribute(obj, "keys")()


def _tuple_like(a: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    if type(a) is tuple or any(isinstance(item, Node) for item in items):
        return tuple(items)
    return type(a)(items)


def _find_nodes(value: Any) -> list[Node]:
    found: list[Node] = []

    def note(item: Any) -> Any:
        if isinstance(item, Node):
            found.append(item)
        return item

    map_aggregate(value, note)
    return found


def _lines_of_the_program() -> list[str]:
    """Return the stack as text, without the frames of this package."""
    import traceback

    own = __name__.rpartition(".")[0].replace(".", "/")
    stack = [frame for frame in traceback.extract_stack() if own not in frame.filename]
    return traceback.StackSummary.from_list(stack).format()


class GraphAppendingTracer(TracerBase):
    """Adds the calls of proxies to a graph that is there.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


def _is_tensor_method(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    if isinstance(function, FunctionType) or not isinstance(name, str):
        return False
    return getattr(Tensor, name, None) is function


def assert_fn(x: Any) -> None:
    """Fail if a value is false."""
    assert x


class Proxy:
    """Stands for a value while a graph is made: each call with it becomes a node.

    Args:
        node: the node whose result it stands for.
        tracer: what makes nodes; by default they are added to the node's graph.

    Example:
        >>> graph = torch.fx.Graph()
        >>> x = torch.fx.Proxy(graph.placeholder("x"))
        >>> (torch.relu(x) + 1).node.op
        'call_function'
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node
        INTERCEPTION.retain()
        finalize(self, INTERCEPTION.release).atexit = False

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> "Attribute":
        # No node yet: a call of it is one of a method.
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> "Proxy":
        """Copy by the attributes: names that are not there are calls of the program's."""
        state: dict[str, Any] = {}
        for key, value in self.__dict__.items():
            try:
                state[key] = copy.deepcopy(value, memo)
            except Exception:
                state[key] = copy.copy(value)  # what cannot be copied deep is shared
        made = object.__new__(type(self))
        made.__dict__ = state
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> "Proxy":
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        asking = None if frame is None else frame.f_back
        count = None if asking is None else _unpacked(asking.f_code, asking.f_lasti)
        if count is not None:
            return (self[i] for i in range(count))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> "Proxy":
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return the keys, which are asked for where a value is unpacked with ``**``."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Make a node of a call of one of the package's functions."""
        kwargs = kwargs or {}
        tracers: dict[Any, None] = {}

        def note(value: Any) -> Any:
            if isinstance(value, Proxy):
                tracers.setdefault(value.tracer)
            return value

        map_aggregate(tuple(args), note)
        map_aggregate(dict(kwargs), note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if not isinstance(orig_method, FunctionType):
            args, kwargs = arguments_of(orig_method, orig_method, args, kwargs)
        if _is_tensor_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, tuple(args), kwargs)
        return tracer.create_proxy("call_function", orig_method, tuple(args), kwargs)


def _unpacked(code: Any, offset: int) -> int | None:
    """Return into how many names the instruction at an offset unpacks, if it does."""
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset and instruction.opname == "UNPACK_SEQUENCE":
            return int(instruction.arg or 0)
    return None


class Attribute(Proxy):
    """An attribute of a proxy: a node of its own, or a method where it is called.

    Args:
        root: the proxy.
        attr: the name.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the attribute, made when it is first asked for."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose sizes are known while the graph is made.

    Args:
        tracer: what makes nodes.
        node: the node that reads the parameter.
        name: its path.
        param: the parameter.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Tensor):
            raise AssertionError(f"Expected a Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The sizes of the parameter."""
        return self.param.shape

    def size(self, *dim: Any) -> Any:
        """Return the sizes of the parameter, or that of one dim."""
        return self.param.size(*dim)

    def dim(self) -> int:
        """Return the number of dims of the parameter."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The number of dims of the parameter."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the number of elements of the parameter."""
        return self.param.numel()

    def nelement(self) -> int:
        """Return the number of elements of the parameter."""
        return self.param.nelement()


def _operator_method(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    method.__name__ = f"__{name.strip('_')}__"
    return method


def _reflected_method(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def method(self: Proxy, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    method.__name__ = f"__r{name.strip('_')}__"
    return method


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", _operator_method(_name))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", _reflected_method(_name))
