"""A graph cut into several modules that are called one after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tapegrad import nn
from tapegrad.fx.graph import Graph
from tapegrad.fx.graph_module import GraphModule
from tapegrad.fx.node import Node, map_arg

__all__ = ["split_module"]


@dataclass
class _Part:
    """The nodes of one part, what it takes and what it gives to others."""

    name: str
    graph: Graph = field(default_factory=Graph)
    inputs: dict[Node, Node] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    nodes: dict[Node, Node] = field(default_factory=dict)
    needs: dict["_Part", None] = field(default_factory=dict)

    __hash__ = object.__hash__

    def value_of(self, node: Node) -> Node:
        """Return the part's node for one of the graph's, as an argument if it is not its own."""
        if node in self.nodes:
            return self.nodes[node]
        if node not in self.inputs:
            with self.graph.inserting_before(self._first_call()):
                made = self.graph.placeholder(node.name, type_expr=node.type)
            made.meta = dict(node.meta)
            self.inputs[node] = made
        return self.inputs[node]

    def _first_call(self) -> Node:
        return next((n for n in self.graph.nodes if n.op != "placeholder"), self.graph._root)


def split_module(
    m: GraphModule,
    root_m: nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Return a module that calls parts of a graph, ``submod_0``, ``submod_1``, ..., in turn.

    Args:
        m: the module with the graph.
        root_m: the module that has what the graph names.
        split_callback: returns the number of the part of a node.
        qualname_map: takes up the old path of each module below a part, by its new one.
        keep_original_order, keep_original_node_name, keep_original_input_name: taken as PyTorch's;
            parts keep the order of the graph as far as their values allow it, and names stay.
        partition_affix: a text in the names of the parts.
        tuple_return: whether each part returns a tuple, though it has one result.

    Raises:
        RuntimeError: if parts need each other's results in a circle.
    """
    affix = f"{partition_affix}_" if partition_affix else ""
    parts: dict[Any, _Part] = {}
    part_of: dict[Node, _Part] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        number = split_callback(node)
        part = parts.setdefault(number, _Part(f"submod_{affix}{number}"))
        part_of[node] = part
        part.nodes[node] = part.graph.node_copy(node, part.value_of)
        for needed in node.all_input_nodes:
            other = part_of.get(needed)
            if other is not None and other is not part:
                other.outputs.setdefault(needed)
                part.needs.setdefault(other)
    for node in m.graph.output_node().all_input_nodes:
        if node in part_of:
            part_of[node].outputs.setdefault(node)
    base = Graph(tracer_cls=m.graph._tracer_cls)
    values = _copy_inputs(m.graph, base)
    attributes: dict[str, Any] = {}
    for part in _in_order(list(parts.values())):
        attributes[part.name] = _close(part, root_m, qualname_map, tuple_return)
        _call(base, part, values, tuple_return)
    output = m.graph.output_node()
    base.output(map_arg(output.args[0], values.__getitem__), output.type).meta = dict(output.meta)
    return GraphModule(_root_of(attributes, m.graph, root_m), base)


def _copy_inputs(graph: Graph, base: Graph) -> dict[Node, Node]:
    values: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node] = base.node_copy(node, values.__getitem__)
    return values


def _in_order(parts: list[_Part]) -> list[_Part]:
    """Return the parts, each after those that it needs."""
    done: dict[_Part, None] = {}
    while len(done) < len(parts):
        ready = [p for p in parts if p not in done and all(n in done for n in p.needs)]
        if not ready:
            names = ", ".join(part.name for part in parts if part not in done)
            raise RuntimeError(
                f"split_module: parts {names} need each other's results in a circle (cycle exists "
                "between partitions!); put their nodes into other parts"
            )
        done.setdefault(ready[0])
    return list(done)


def _close(
    part: _Part, root_m: nn.Module, qualname_map: dict[str, str] | None, tuple_return: bool
) -> GraphModule:
    """Return a part as a module."""
    results = tuple(part.nodes[node] for node in part.outputs)
    part.graph.output(results[0] if len(results) == 1 and not tuple_return else results)
    made = GraphModule(root_m, part.graph)
    if qualname_map is not None:
        for node in part.graph.nodes:
            if node.op == "call_module":
                qualname_map[f"{part.name}.{node.target}"] = str(node.target)
    return made


def _call(base: Graph, part: _Part, values: dict[Node, Node], tuple_return: bool) -> None:
    """Add the call of a part, and the parts of its result."""
    from operator import getitem

    args = tuple(values[node] for node in part.inputs)
    called = base.create_node("call_module", part.name, args)
    if len(part.outputs) == 1 and not tuple_return:
        values[next(iter(part.outputs))] = called
        return
    for place, node in enumerate(part.outputs):
        values[node] = base.call_function(getitem, (called, place))


def _root_of(attributes: dict[str, Any], graph: Graph, root_m: nn.Module) -> dict[str, Any]:
    """Return what the whole names: the parts, and the attributes that it reads itself."""
    from tapegrad.fx.graph_module import _get_attr

    for node in graph.nodes:
        if node.op == "get_attr":
            attributes[str(node.target)] = _get_attr(root_m, str(node.target))
    return attributes
