"""Functions that are captured as they run and replayed without their Python: see `compile`."""

from tapegrad.compiler._compile import compile, disable, explain, is_compiling, list_backends, reset
from tapegrad.compiler._explain import Explanation, TraceInfo

__all__ = [
    "Explanation",
    "TraceInfo",
    "compile",
    "disable",
    "explain",
    "is_compiling",
    "is_dynamo_compiling",
    "list_backends",
    "reset",
]

is_dynamo_compiling = is_compiling
