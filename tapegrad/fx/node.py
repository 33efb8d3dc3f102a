"""Nodes: the calls of a graph, each with what it calls, its arguments and who uses its result."""

import builtins
import operator
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapegrad import _C, _types
from tapegrad._C import Tensor
from tapegrad.fx._torch_names import name_of
from tapegrad.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from tapegrad.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = (
    str
    | int
    | float
    | bool
    | complex
    | _C.dtype
    | Tensor
    | _types.device
    | _types.memory_format
    | _types.layout
)
base_types = (str, int, float, bool, complex, _C.dtype, Tensor, _types.device, _types.memory_format)
Target = Callable[..., Any] | str
Argument = Any

_legal_ops = dict.fromkeys(
    ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
)
_side_effectful_functions: set[Callable[..., Any]] = {operator.setitem}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of a function in graphs though nothing uses their results.

    Args:
        fn: the function, which is returned.

    Example:
        >>> @torch.fx.has_side_effect
        ... def report(x):
        ...     print(x)
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return an argument with each value in its containers replaced.

    Args:
        a: a value, or tuples, lists, dicts and slices of such.
        fn: takes a value and returns the one in its place.
    """
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[["Node"], Any]) -> Any:
    """Return an argument with each node in its containers replaced.

    Args:
        a: a value, or tuples, lists, dicts and slices of such.
        fn: takes a node and returns what comes in its place.
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """Return the name under which generated code calls a function."""
    public = name_of(func)
    if public is not None:
        return public
    name = getattr(func, "__name__", None) or str(func)
    if getattr(builtins, name, None) is func:
        return str(name)
    if isinstance(func, types.BuiltinMethodType | type(Tensor.add)) and func is getattr(
        Tensor, name, None
    ):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        raise RuntimeError(
            "Unable to determine the module of a lambda; give the function a name with def"
        )
    module = str(getattr(func, "__module__", None) or "builtins")
    module = re.sub(r"^tapegrad\b", "torch", module)
    return f"{module}.{name}"


def _type_repr(obj: Any) -> str:
    """Return a type as annotations write it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        module = re.sub(r"^tapegrad(\._C)?\b", "torch", obj.__module__)
        return f"{module}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    if isinstance(arg, list | tuple) and not hasattr(arg, "_fields"):
        shown = [_format_arg(a) for i, a in enumerate(arg) if i < max_list_len]
        if len(arg) > max_list_len:
            shown.append(f"...[total_len={len(arg)}]")
        if isinstance(arg, list):
            return f"[{', '.join(shown)}]"
        return f"({', '.join(shown)}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_format_arg(value)}' for key, value in arg.items())}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step of a graph: an argument, an attribute, a call, or what is returned.

    Args:
        graph: the graph that it is of.
        name: the name of its result.
        op: ``"placeholder"``, ``"get_attr"``, ``"call_function"``, ``"call_module"``,
            ``"call_method"`` or ``"output"``.
        target: a function, or the name of an argument, a method, a module or an attribute.
        args, kwargs: the arguments, among which are nodes.
        return_type: the type of the result, for an annotation.
    """

    _op: str
    _target: Any

    def __init__(
        self,
        graph: "Graph",
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        wanted = "Callable" if op == "call_function" else "str"
        if not (callable(target) if wanted == "Callable" else isinstance(target, str)):
            from tapegrad import typename

            where = f"Node [graph = {graph}, name = '{name}'] target {target}"
            raise ValueError(f"{where} has type {typename(target)} but a {wanted} is expected")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = immutable_dict()
        self._repr_fn: Callable[[Node], str] | None = None
        self._prev = self
        self._next = self
        self._erased = False
        self.meta: dict[str, Any] = {}
        self._set_arguments(args, kwargs)

    # ---- its place

    @property
    def next(self) -> "Node":
        """The node behind this one."""
        return self._next

    @property
    def prev(self) -> "Node":
        """The node in front of this one."""
        return self._prev

    def prepend(self, x: "Node") -> None:
        """Move a node of the same graph in front of this one.

        Args:
            x: the node that is moved.
        """
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: "Node") -> None:
        """Move a node of the same graph behind this one.

        Args:
            x: the node that is moved.
        """
        self._next.prepend(x)

    def _unlink(self) -> None:
        before, behind = self._prev, self._next
        before._next, behind._prev = behind, before
        self._prev = self._next = self

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        if self.graph is not other.graph:
            return id(self.graph) < id(other.graph)
        order = {node: place for place, node in enumerate(self.graph.nodes)}
        return order.get(self, -1) < order.get(other, -1)

    def __gt__(self, other: Any) -> bool:
        return other < self if isinstance(other, Node) else NotImplemented

    def __le__(self, other: Any) -> bool:
        return self is other or self < other

    def __ge__(self, other: Any) -> bool:
        return self is other or self > other

    # ---- its arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The arguments by position. Give a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name. Give a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    def _set_arguments(self, args: Any, kwargs: Mapping[str, Any]) -> None:
        if not isinstance(args, tuple | list) or not isinstance(kwargs, Mapping):
            raise TypeError(
                f"Node {self.name}: expected a tuple of arguments and a dict of those by name, "
                f"got {type(args).__name__} and {type(kwargs).__name__}"
            )
        inputs: dict[Node, None] = {}

        def seen(node: Node) -> Node:
            inputs.setdefault(node)
            return node

        new_args, new_kwargs = map_arg(tuple(args), seen), map_arg(dict(kwargs), seen)
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = new_args, new_kwargs, inputs
        for node in inputs:
            node.users.setdefault(self)

    @property
    def all_input_nodes(self) -> list["Node"]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one argument.

        Args:
            idx: its position.
            arg: what comes in its place.
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put an argument in front of the one at a position.

        Args:
            idx: the position, at most the number of arguments.
            arg: the argument.
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace one argument by name.

        Args:
            key: its name.
            arg: what comes in its place.
        """
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Put another node in the place of one, wherever it is among the arguments.

        Args:
            old_input: the node that is replaced.
            new_input: the node in its place.
        """

        def replaced(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set_arguments(map_arg(self.args, replaced), map_arg(self.kwargs, replaced))

    def replace_all_uses_with(
        self,
        replace_with: "Node",
        delete_user_cb: Callable[["Node"], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list["Node"]:
        """Put another node in the place of this one in all that use it.

        Args:
            replace_with: the node in its place.
            delete_user_cb: tells which of the users are changed; all by default.
            propagate_meta: whether the other node takes over what this one's `meta` holds.

        Returns:
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- what it does

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node has to stay though nothing uses its result.

        Writes count, as do functions of `has_side_effect` and modules with ``_is_impure``.

        Args:
            impure_random: taken as PyTorch's; draws of random numbers may go here.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            called = module.get_submodule(str(self.target))
            return bool(getattr(called, "_is_impure", False) or getattr(called, "inplace", False))
        if self.op == "call_function" and self.target in _side_effectful_functions:
            return True
        return self.op in ("call_function", "call_method") and self._writes()

    def _writes(self) -> bool:
        """Return whether a call writes to an argument, by its name and its arguments."""
        name = self.target if isinstance(self.target, str) else _name_of_callable(self.target)
        if self.kwargs.get("inplace") or self.kwargs.get("out") is not None:
            return True
        if name == "_assert" or name == "__setitem__":
            return True
        if isinstance(self.target, types.BuiltinFunctionType) and name in _WRITING_OPERATORS:
            return getattr(operator, name) is self.target
        return (
            name.endswith("_")
            and not name.startswith("_")
            and not name.endswith("__")
            and (name not in ("and_", "or_", "not_", "is_"))
        )

    def normalized_arguments(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: there are no schemas of ops that arguments could be put in the order of."""
        raise NotImplementedError(
            "Node.normalized_arguments: there are no schemas of ops; inspect.signature of the "
            "target tells the parameters"
        )

    # ---- names and text

    @property
    def stack_trace(self) -> str | None:
        """Where the program made the call, if the tracer recorded it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        name = _get_qualified_name(target)
        return name.replace("_operator", "operator") if "." in name else f"builtins.{name}"

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the node as one line of text.

        Args:
            placeholder_names: takes up the name of a placeholder, whose line is None then.
            maybe_return_typename: takes up the annotation of what is returned.
            include_tensor_metadata: taken as PyTorch's; shapes are in ``node.meta``.
        """
        typed = f"{_type_repr(self.type)} " if self.type else ""
        head = f"%{self.name} : {typed}[num_users={len(self.users)}] = "
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.name} : {typed}" if typed else self.name)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}{self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}{self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        return (
            f"{head}{self.op}[target={self._pretty_print_target(self.target)}]"
            f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )


_WRITING_OPERATORS = frozenset(
    {
        *("iadd", "isub", "imul", "ifloordiv", "itruediv", "imod", "ipow", "ilshift", "irshift"),
        *("iand", "ior", "ixor", "imatmul", "setitem", "delitem"),
    }
)


def _name_of_callable(target: Any) -> str:
    return str(getattr(target, "__name__", type(target).__name__))


def _find_nodes_in(values: Sequence[Any]) -> list[Node]:
    """Return the nodes among values and in their containers."""
    found: list[Node] = []
    map_arg(tuple(values), lambda node: found.append(node) or node)  # type: ignore[func-returns-value]
    return found
