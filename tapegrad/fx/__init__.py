"""Graphs of modules as objects: traced, changed, and turned into Python code again."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tapegrad.fx import immutable_collections
from tapegrad.fx._symbolic_trace import (
    PH,
    ProxyableClassMeta,
    Tracer,
    symbolic_trace,
    wrap,
)
from tapegrad.fx.graph import CodeGen, Graph
from tapegrad.fx.graph_module import GraphModule
from tapegrad.fx.interpreter import Interpreter, Transformer
from tapegrad.fx.node import Node, has_side_effect, map_arg
from tapegrad.fx.proxy import Proxy
from tapegrad.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]

_MODULES = ("experimental", "passes", "traceback")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"tapegrad.fx.{name}")
        raise AttributeError(f"module 'tapegrad.fx' has no attribute {name!r}")
