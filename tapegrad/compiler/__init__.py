"""Functions that are captured as they run and replayed without their Python: see `compile`."""

from tapegrad.compiler._compile import compile, disable, explain, is_compiling, list_backends, reset
from tapegrad.compiler._explain import Explanation, TraceInfo
from tapegrad.compiler._marks import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    is_exporting,
)

__all__ = [
    "Explanation",
    "TraceInfo",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "explain",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]

is_dynamo_compiling = is_compiling
