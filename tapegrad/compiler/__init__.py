"""Functions that are captured as they run and replayed without their Python: see `compile`."""

from tapegrad.compiler._compile import compile, disable, explain, is_compiling, list_backends, reset
from tapegrad.compiler._explain import Explanation, TraceInfo
from tapegrad.compiler._marks import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    is_exporting,
    nested_compile_region,
)
from tapegrad.compiler._stance import set_stance

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
    "nested_compile_region",
    "reset",
    "set_stance",
]

is_dynamo_compiling = is_compiling
