"""Parts of a graph that look like a pattern, replaced by something else."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tapegrad import nn
from tapegrad.fx._symbolic_trace import symbolic_trace
from tapegrad.fx.graph import Graph
from tapegrad.fx.graph_module import GraphModule, _assign_attr, _get_attr, _has_attr
from tapegrad.fx.node import Node, map_arg

__all__ = [
    "Match",
    "ReplacedPatterns",
    "replace_pattern",
    "replace_pattern_with_filters",
]


class Match(NamedTuple):
    """Where a pattern was found: the last node, and the graph's nodes by the pattern's."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A part that was replaced: its last node, its nodes by the pattern's, and the new ones."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


@dataclass
class InternalMatch:
    """A place where a pattern was found, as filters see it."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)


class _Matcher:
    """Looks for one pattern in graphs."""

    def __init__(self, pattern: Graph, ignore_literals: bool = False) -> None:
        self.pattern = pattern
        self.ignore_literals = ignore_literals
        self.placeholders = [node for node in pattern.nodes if node.op == "placeholder"]
        output = pattern.output_node()
        self.returned: list[Node] = output.all_input_nodes
        # The nodes from which every other one is reached: those that only the output uses.
        inside = [n for n in self.returned if all(user is output for user in n.users)]
        self.anchors = [n for n in inside if n.op != "placeholder"]
        if not self.anchors:
            raise ValueError(
                "replace_pattern: expected a pattern that computes something, got one that returns "
                "its arguments"
            )

    def find(self, graph: Graph) -> list[InternalMatch]:
        """Return the places that do not overlap, in the order of the graph."""
        candidates: list[list[Node]] = [
            [node for node in graph.nodes if self._same_call(anchor, node)]
            for anchor in self.anchors
        ]
        found: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in self._combinations(candidates, 0, InternalMatch([])):
            inner = self._inner(match)
            if taken.isdisjoint(inner) and self._is_closed(match, inner):
                taken.update(inner)
                found.append(match)
        order = {node: place for place, node in enumerate(graph.nodes)}
        return sorted(found, key=lambda match: order[match.anchors[0]])

    def _combinations(self, candidates: Any, at: int, match: InternalMatch) -> Any:
        if at == len(candidates):
            match.placeholder_nodes = [match.nodes_map.get(p) for p in self.placeholders]
            match.returning_nodes = [match.nodes_map[r] for r in self.returned]
            yield match
            return
        for node in candidates[at]:
            tried = InternalMatch([*match.anchors, node], dict(match.nodes_map))
            if self._match_node(self.anchors[at], node, tried.nodes_map):
                yield from self._combinations(candidates, at + 1, tried)

    def _inner(self, match: InternalMatch) -> set[Node]:
        outer = set(self.placeholders)
        return {
            node
            for mine, node in match.nodes_map.items()
            if mine not in outer and mine.op != "get_attr"
        }

    def _is_closed(self, match: InternalMatch, inner: set[Node]) -> bool:
        """Return whether nothing outside uses what the pattern does not return."""
        returned = set(match.returning_nodes)
        return all(node in returned or all(user in inner for user in node.users) for node in inner)

    def _same_call(self, mine: Node, node: Node) -> bool:
        if mine.op != node.op:
            return False
        if mine.op == "call_module":
            return self._same_module(mine, node)
        if mine.op == "get_attr":
            return _same_attribute(mine, node)
        return mine.target is node.target or mine.target == node.target

    def _same_module(self, mine: Node, node: Node) -> bool:
        owner, other = mine.graph.owning_module, node.graph.owning_module
        if owner is None or other is None:
            return mine.target == node.target
        called = _get_attr(owner, str(mine.target))
        return type(called) is type(_get_attr(other, str(node.target)))

    def _match_node(self, mine: Node, node: Any, found: dict[Node, Any]) -> bool:
        if mine in found:
            return found[mine] is node
        if mine.op == "placeholder":
            found[mine] = node
            return True
        if not isinstance(node, Node) or not self._same_call(mine, node):
            return False
        found[mine] = node
        return self._match_value(mine.args, node.args, found) and self._match_value(
            mine.kwargs, node.kwargs, found
        )

    def _match_value(self, mine: Any, value: Any, found: dict[Node, Any]) -> bool:
        if isinstance(mine, Node):
            return self._match_node(mine, value, found)
        if isinstance(value, Node):
            return False
        if isinstance(mine, list | tuple):
            if not isinstance(value, list | tuple) or len(mine) != len(value):
                return False
            return all(self._match_value(m, v, found) for m, v in zip(mine, value, strict=True))
        if isinstance(mine, dict):
            if not isinstance(value, dict) or mine.keys() != value.keys():
                return False
            return all(self._match_value(mine[key], value[key], found) for key in mine)
        if isinstance(mine, slice):
            return isinstance(value, slice) and self._match_value(
                (mine.start, mine.stop, mine.step), (value.start, value.stop, value.step), found
            )
        return self.ignore_literals or (type(mine) is type(value) and bool(mine == value))


def _same_attribute(mine: Node, node: Node) -> bool:
    if mine.target == node.target:
        return True
    last, other = str(mine.target).rpartition(".")[2], str(node.target).rpartition(".")[2]
    return last == other or last.startswith("_tensor_constant")


def _as_graph(what: Any) -> tuple[Graph, Any]:
    """Return the graph of a pattern, and the module that has what it names."""
    if isinstance(what, GraphModule):
        return what.graph, what
    if isinstance(what, Graph):
        return what, what.owning_module
    traced = symbolic_trace(what)
    return traced.graph, traced


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Replace each part of a graph that looks like a pattern, in place.

    Args:
        gm: the module, which is compiled anew.
        pattern: a function or module: its calls in that order, with whatever arguments.
        replacement: a function or module of the same arguments, which takes the pattern's place.

    Returns:
        Where the pattern was.

    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> found = torch.fx.replace_pattern(module, lambda x: torch.relu(x), lambda x: x.tanh())
        >>> len(found), module(torch.tensor(0.0))
        (1, tensor(1.))
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[..., Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace the parts of a graph that look like a pattern and pass all filters, in place.

    Args:
        gm: the module.
        pattern, replacement: those of `replace_pattern`.
        match_filters: functions of a match, the graph and the pattern's graph.
        ignore_literals: whether constants of the pattern match all constants.
        replacement_callback: makes the replacement of a match, the graph and the pattern's graph.
        node_name_match: only nodes whose name contains this are the end of a pattern.

    Returns:
        What was replaced, and by which nodes.
    """
    if (replacement is None) == (replacement_callback is None):
        raise AssertionError("Either replacement or replacement_callback must be provided")
    pattern_graph, kept = _as_graph(pattern)
    matches = [
        match
        for match in _Matcher(pattern_graph, ignore_literals).find(gm.graph)
        if node_name_match in match.anchors[0].name
        and all(accept(match, gm.graph, pattern_graph) for accept in match_filters or ())
    ]
    done: list[ReplacedPatterns] = []
    changed: dict[Node, Any] = {}
    new_modules: Any = None
    for match in matches:
        if replacement_callback is not None:
            new_graph: Graph = replacement_callback(match, gm.graph, pattern_graph)
            new_modules = new_graph.owning_module
        else:
            new_graph, new_modules = _as_graph(replacement)
        done.append(_replace(gm, pattern_graph, new_graph, match, changed))
        if isinstance(new_modules, nn.Module):
            _take_attributes(gm, new_graph, new_modules)
    gm.recompile()
    del kept
    return done


def _replace(
    gm: GraphModule, pattern: Graph, new: Graph, match: InternalMatch, changed: dict[Node, Any]
) -> ReplacedPatterns:
    """Put a copy of a graph in the place of one match."""
    placeholders = [node for node in new.nodes if node.op == "placeholder"]
    if len(placeholders) != len(match.placeholder_nodes):
        raise AssertionError(
            f"expected a replacement with {len(match.placeholder_nodes)} arguments, as the pattern "
            f"has, got one with {len(placeholders)}"
        )
    values: dict[Node, Any] = {}
    for mine, value in zip(placeholders, match.placeholder_nodes, strict=True):
        values[mine] = changed.get(value, value) if isinstance(value, Node) else value
    order = {node: place for place, node in enumerate(gm.graph.nodes)}
    inner = [n for n in match.nodes_map.values() if isinstance(n, Node) and n in order]
    own = {n for p, n in match.nodes_map.items() if p.op != "placeholder"}
    last = max((n for n in inner if n in own), key=order.__getitem__)
    first_user = min(
        (order[u] for r in match.returning_nodes for u in r.users if u not in own),
        default=len(order),
    )
    added: list[Node] = []
    point = last.next if order[last] < first_user else list(gm.graph.nodes)[first_user]
    result: Any = None
    with gm.graph.inserting_before(point):
        for node in new.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                result = map_arg(node.args[0], values.__getitem__)
                continue
            values[node] = gm.graph.node_copy(node, values.__getitem__)
            added.append(values[node])
    _use(match, pattern, result, changed)
    for node in sorted(own, key=order.__getitem__, reverse=True):
        if not node.users:
            gm.graph.erase_node(node)
    return ReplacedPatterns(match.anchors[0], dict(match.nodes_map), added)


def _use(match: InternalMatch, pattern: Graph, result: Any, changed: dict[Node, Any]) -> None:
    """Have users of what the pattern returned use the replacement's results."""
    wanted = pattern.output_node().args[0]
    old = [wanted] if isinstance(wanted, Node) else list(pattern.output_node().all_input_nodes)
    new = list(result) if isinstance(result, tuple | list) and len(old) > 1 else [result]
    if len(old) == 1 and isinstance(result, tuple | list) and len(result) == 1:
        new = [result[0]] if not isinstance(wanted, Node) else [result]
    if len(old) != len(new):
        raise AssertionError(
            f"expected a replacement that returns {len(old)} values, as the pattern does, got "
            f"{len(new)}"
        )
    for mine, value in zip(old, new, strict=True):
        node = match.nodes_map[mine]
        if mine.op == "placeholder" or node is value:
            continue
        if not isinstance(value, Node):
            raise AssertionError("expected a replacement that returns what it computes")
        node.replace_all_uses_with(value)
        changed[node] = value


def _take_attributes(gm: GraphModule, new: Graph, owner: nn.Module) -> None:
    """Give a module what a replacement names and the module has not."""
    for node in new.nodes:
        if node.op not in ("get_attr", "call_module"):
            continue
        path = str(node.target)
        if not _has_attr(gm, path) and _has_attr(owner, path):
            _assign_attr(copy.copy(_get_attr(owner, path)), gm, path)
