"""Graphs that run node by node, to be watched or changed on the way."""

from collections.abc import Iterator
from typing import Any

from tapegrad import nn
from tapegrad.fx._symbolic_trace import Tracer
from tapegrad.fx.graph import Graph
from tapegrad.fx.graph_module import GraphModule
from tapegrad.fx.node import Argument, Node, Target, map_aggregate, map_arg
from tapegrad.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph one node after the other; to be subclassed for what runs otherwise.

    Args:
        module: the module that has what the graph names.
        garbage_collect_values: whether values are dropped after their last use.
        graph: the graph; the module's by default.

    Example:
        >>> class Loud(torch.fx.Interpreter):
        ...     def call_function(self, target, args, kwargs):
        ...         print(target.__name__)
        ...         return super().call_function(target, args, kwargs)
        >>> Loud(torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)).run(torch.tensor(-1.0))
        relu
        add
        tensor(1.)
    """

    def __init__(
        self,
        module: nn.Module,
        garbage_collect_values: bool = True,
        graph: Graph | None = None,
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            from tapegrad.fx._codegen import _last_uses

            self.user_to_last_uses = _last_uses(list(self.graph.nodes))

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph.

        Args:
            *args: the arguments, by position.
            initial_env: values of nodes that are not run.
            enable_io_processing: whether the graph's code generator sees arguments and results.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _tell_where(error, node)
                raise
            for done in self.user_to_last_uses.get(node, ()):
                self.env.pop(done, None)
            if node.op == "output":
                result = self.env.pop(node)
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on a list of arguments, which is emptied.

        Args:
            args_list: the arguments.
        """
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """Run one node and return its result.

        Args:
            n: the node.
        """
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the next argument.

        Args:
            target: its name; with a star in front it takes all that are left.
            args: its default, if it has one.
            kwargs: nothing.
        """
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module.

        Args:
            target: its path.
            args, kwargs: nothing.
        """
        return self.fetch_attr(str(target))

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function.

        Args:
            target: the function.
            args, kwargs: the arguments.
        """
        if isinstance(target, str):
            raise AssertionError(f"Expected target to not be str, got {target}")
        return target(*args, **kwargs)

    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a method of the first argument.

        Args:
            target: its name.
            args, kwargs: the arguments.
        """
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a module.

        Args:
            target: its path.
            args, kwargs: the arguments.
        """
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the graph returns.

        Args:
            target: nothing.
            args: the result alone.
            kwargs: nothing.
        """
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return what the module has under a path.

        Args:
            target: the path.
        """
        found: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node with values in the places of nodes.

        Args:
            n: the node.
        """
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Return an argument with values in the places of nodes.

        Args:
            args: the argument.
            n: the node whose argument it is.
        """

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


def _tell_where(error: Exception, node: Node) -> None:
    """Add the node that runs to an error's message."""
    said = f"While executing {node.format_node()}"
    if node.stack_trace:
        said += f"\nOriginal traceback:\n{node.stack_trace}"
    if isinstance(error, KeyError) or not error.args or not isinstance(error.args[0], str):
        return
    error.args = (f"{error.args[0]}\n\n{said}", *error.args[1:])


class _TransformerTracer(Tracer):
    """Adds nodes to a new graph; the modules are those of the old one."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a new module by running a graph with proxies; to be subclassed for what changes.

    Args:
        module: the module.

    Example:
        >>> class NegForRelu(torch.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         target = torch.neg if target is torch.relu else target
        ...         return super().call_function(target, args, kwargs)
        >>> changed = NegForRelu(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform()
        >>> changed(torch.tensor(2.0))
        tensor(-2.)
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module
        self._running: Node | None = None

    def run_node(self, n: Node) -> Any:
        """Run one node with proxies.

        Args:
            n: the node.
        """
        self._running = n
        return super().run_node(n)

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Proxy:
        """Return a proxy for an argument of the new graph."""
        default = args[0] if args else ...
        kind = None if self._running is None else self._running.type
        return Proxy(self.new_graph.placeholder(str(target), kind, default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Return a proxy for an attribute of the module."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return a proxy for a module's result."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return a proxy for a function's result."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run the graph with proxies and return the new module."""
        result = super().run(enable_io_processing=False)
        if result is not None or self.graph.output_node().args == (None,):
            returned = map_aggregate(result, lambda v: v.node if isinstance(v, Proxy) else v)
            self._output(returned)
        return GraphModule(self.module, self.new_graph)

    def _output(self, returned: Argument) -> Node:
        old = self.graph.output_node()
        new = self.new_graph.output(returned, type_expr=old.type)
        new.meta.update(old.meta)
        return new
