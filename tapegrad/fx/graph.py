"""Graphs: the calls that a function makes, in their order, as nodes that can be changed."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal
from weakref import ReferenceType, ref

from tapegrad.fx._codegen import CodeGen, PythonCode
from tapegrad.fx._codegen import _format_target as _format_target
from tapegrad.fx._codegen import inplace_methods as inplace_methods
from tapegrad.fx._codegen import magic_methods as magic_methods
from tapegrad.fx._codegen import reflectable_magic_methods as reflectable_magic_methods
from tapegrad.fx._namespace import CUSTOM_BUILTINS as CUSTOM_BUILTINS
from tapegrad.fx._namespace import Namespace as _Namespace
from tapegrad.fx._torch_names import short_name_of
from tapegrad.fx.node import Argument, Node, Target, _legal_ops, map_arg
from tapegrad.fx.node import _get_qualified_name as _get_qualified_name
from tapegrad.fx.node import _type_repr as _type_repr

if TYPE_CHECKING:
    from tapegrad.fx._symbolic_trace import Tracer
    from tapegrad.fx.graph_module import GraphModule
    from tapegrad.nn import Module

__all__ = ["CodeGen", "Graph", "PythonCode"]


def _snake_case(s: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", s).lower()


class _node_list:
    """The nodes of a graph in their order; nodes may go and come while they are listed."""

    def __init__(self, graph: "Graph", direction: Literal["_prev", "_next"] = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            behind = getattr(node, self.direction)
            if not node._erased:
                yield node
                behind = getattr(node, self.direction)
            node = behind

    def __reversed__(self) -> "_node_list":
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


class Graph:
    """The calls of a function as a list of nodes, from its arguments to what it returns.

    Args:
        owning_module: the module whose function it is.
        tracer_cls: the class of the tracer that made it, which copies and pickles remember.
        tracer_extras: what else the tracer remembers.

    Example:
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(torch.relu, (x,))
        >>> _ = graph.output(y)
        >>> module = torch.fx.GraphModule(torch.nn.Module(), graph)
        >>> module(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(
        self,
        owning_module: "GraphModule | None" = None,
        tracer_cls: "type[Tracer] | None" = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._graph_namespace = _Namespace()
        self._owner: ReferenceType[Any] | None = None
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> "GraphModule | None":
        """The module whose function the graph is; the graph does not keep it."""
        return None if self._owner is None else self._owner()

    @owning_module.setter
    def owning_module(self, mod: "GraphModule | None") -> None:
        self._owner = None if mod is None else ref(mod)

    @property
    def nodes(self) -> _node_list:
        """The nodes in their order."""
        return _node_list(self)

    def output_node(self) -> Node:
        """Return the node of what is returned."""
        found = next((node for node in reversed(self.nodes) if node.op == "output"), None)
        if found is None:
            raise AssertionError("output node not found")
        return found

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes that call something.

        Args:
            op: the kind of the nodes.
            target: what they call; needed for functions.
            sort: taken as PyTorch's; the nodes come in their order always.
        """
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        found = [node for node in self.nodes if node.op == op]
        if target is None:
            return found
        if op == "call_function":
            return [node for node in found if node.target is target or node.target == target]
        return [node for node in found if node.target == target]

    # ---- new nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node where nodes are added now: at the end, or where `inserting_before` says.

        Args:
            op: ``"placeholder"``, ``"get_attr"``, ``"call_function"``, ``"call_module"``,
                ``"call_method"`` or ``"output"``.
            target: what it calls, or the name of the argument or attribute.
            args, kwargs: the arguments.
            name: the name of the result; it gets a number if it is in use.
            type_expr: the type of the result.
        """
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        wanted = name if name is not None else self._target_to_str(target)
        made = Node(
            self,
            self._graph_namespace.create_name(wanted, None),
            op,
            target,
            args,
            kwargs,
            type_expr,
        )
        self._insert(made)
        self._len += 1
        return made

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else short_name_of(target)
        if isinstance(target, str) and target.startswith("__") and target.endswith("__"):
            name = target[2:-2]
        elif name.startswith("__") and name.endswith("__") and len(name) > 4:
            name = name[2:-2]
        return _snake_case(name)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an argument of the function.

        Args:
            name: its name; with ``*`` or ``**`` in front it takes all others.
            type_expr: its type.
            default_value: what it is when it is not given; without it, it has to be.
        """
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a read of a parameter, a buffer or another attribute of the module.

        Args:
            qualified_name: its path, as ``"layer.weight"``.
            type_expr: its type.
        """
        module = self.owning_module
        if module is not None and not _has_path(module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of a module below the owning one.

        Args:
            module_name: its path.
            args, kwargs: the arguments.
            type_expr: the type of the result.
        """
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)  # an error if there is none
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of a method of the first argument.

        Args:
            method_name: the name of the method.
            args, kwargs: the arguments, the object first.
            type_expr: the type of the result.
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function.

        Args:
            the_function: the function.
            args, kwargs: the arguments.
            type_expr: the type of the result.
            name: the name of the result.
        """
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add what the function returns.

        Args:
            result: a node, or containers of nodes and constants.
            type_expr: its type.
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """Add a copy of a node, which may be of another graph.

        Args:
            node: the node.
            arg_transform: takes a node of the other graph and returns this one's in its place.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("node_copy: arguments became something else")
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(
        self, g: "Graph", val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Add copies of all nodes of another graph up to what it returns.

        Args:
            g: the other graph.
            val_map: its nodes and this graph's in their places; those that it has are not copied,
                the others are entered.
            return_output_node: whether to return the output's node as well.

        Returns:
            What the other graph returns, in nodes of this one.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "Graph":
        memo = {} if memo is None else memo
        copied = Graph(tracer_cls=self._tracer_cls)
        copied._codegen = deepcopy(self._codegen)
        nodes: dict[Node, Node] = {}
        result: Any = copied.graph_copy(self, nodes, return_output_node=True)
        if result is not None:
            value, old = result
            copied.output(value, type_expr=old.type).meta = dict(old.meta)
        memo[id(self)] = copied
        memo.update({id(old): new for old, new in nodes.items()})
        return copied

    # ---- where nodes go

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out whose result nothing uses.

        Args:
            to_erase: the node.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        before, behind = to_erase._prev, to_erase._next
        before._next, behind._prev = behind, before  # it knows its place, for those who list nodes
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> Any:
        """Have new nodes come in front of one, in the block or from now on.

        Args:
            n: the node; None means the beginning.
        """
        if n is None:
            return self.inserting_after(self._root)
        self._expect_own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Have new nodes come behind one, in the block or from now on.

        Args:
            n: the node; None means the end.
        """
        if n is None:
            return self.inserting_before(self._root)
        self._expect_own(n)
        return _InsertPoint(self, n.append)

    def _expect_own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")

    # ---- code and text

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the source of the graph's function.

        Args:
            root_module: the name of the module in it, as ``"self"``.
            verbose, include_stride, include_device, colored, expanded_def, record_func,
                additional_meta: taken as PyTorch's; the source is the plain one.
        """
        names = _Namespace()
        kept = [(node, node._repr_fn) for node in self.nodes]

        def name_in_code(node: Node) -> str:
            return names.create_name(node.name, node)

        for node, _ in kept:
            node._repr_fn = name_in_code
        try:
            return self._codegen._gen_python_code(list(self.nodes), root_module, names)
        finally:
            for node, repr_fn in kept:
                node._repr_fn = repr_fn

    def __str__(self) -> str:
        names: list[str] = []
        returned = [""]
        lines = [node.format_node(None, returned) for node in self.nodes]
        head = f"graph({', '.join(names)}){returned[0]}:"
        return "".join([head, *(f"\n    {line}" for line in lines if line)])

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        for node in self.nodes:
            rows.append([str(v) for v in (node.op, node.name, node.target, node.args, node.kwargs)])
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())

    # ---- checks

    def lint(self) -> None:
        """Raise an error if the graph is not well formed.

        Nodes have to be of this graph, to come before they are used, to have names of their own,
        and to call what the owning module has.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in _legal_ops:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node.all_input_nodes:
                self._check_argument(arg, node, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        module = self.owning_module
        if module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_path(module, node)

    def _check_argument(self, arg: Node, node: Node, seen: set[Node]) -> None:
        where = f"Argument '{arg}' of Node '{node}'"
        if arg.graph is not self:
            raise RuntimeError(
                f"{where} does not belong to this Graph, but was used as an argument! If you are "
                "copying nodes from another graph, make sure to use ``arg_transform`` on "
                f"node_copy() to remap values\n{self}"
            )
        if arg not in seen:
            raise RuntimeError(
                f"{where} was used before it has been defined! Please check that Nodes in the "
                f"graph are topologically ordered\n{self}"
            )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out the nodes whose results nothing uses.

        Writes stay (``x.add_(1)``, ``out=``, ``inplace=True``), where PyTorch removes them.

        Args:
            is_impure_node: tells which nodes stay; `Node.is_impure` by default.

        Returns:
            Whether a node went.
        """
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            stays = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not stays and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    # ---- how code is written

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have another object write the source of the function.

        Args:
            codegen: an object of a subclass of `CodeGen`.
        """
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Return arguments as the placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the results as the function returns them."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[Callable[..., Any] | None], Callable[..., Any]]
    ) -> Any:
        """Change the lines of the function before they become code.

        Args:
            make_transformer: takes the function that changes the lines so far, or None, and
                returns one that takes the list of lines and returns another one.

        Returns:
            A context manager that undoes it; without ``with`` it stays.
        """
        codegen = self._codegen
        before = codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextmanager
        def undo() -> Iterator[None]:
            try:
                yield
            finally:
                codegen._body_transformer = before

        return undo()

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)


class _InsertPoint:
    """Where new nodes go: from now on, and until the end of the block if there is one."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self._before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self._before


def _has_path(module: "Module", path: str) -> bool:
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return found is not None


def _check_path(module: "Module", node: Node) -> None:
    """Raise an error if the module does not have what a node names."""
    from tapegrad import nn

    found: Any = module
    path = module._get_name()
    for part in str(node.target).split("."):
        if not hasattr(found, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of "
                f"{path}"
            )
        found, path = getattr(found, part), f"{path}.{part}"
    if node.op == "call_module" and not isinstance(found, nn.Module):
        raise RuntimeError(
            f"Node {node} target {node.target} {path} of type {type(found).__name__} does not "
            "reference an nn.Module"
        )
