"""Traces that are saved and run without their source, as ``torch.jit``: docs/jit.md.

`trace` gives a module or a function of recorded calls, `save` and `load` take it to another
process, `script` and the marks of PyTorch's compiler (`ignore`, `unused`, `export`) leave functions
as they are.
"""
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.jit._file import load, save
from tapegrad.jit._marks import (
    Error,
    Final,
    Future,
    _fork,
    _overload,
    _overload_method,
    _script_if_tracing,
    _unwrap_optional,
    _wait,
    annotate,
    enable_onednn_fusion,
    export,
    fork,
    fuser,
    ignore,
    interface,
    is_scripting,
    isinstance,
    onednn_fusion_enabled,
    optimized_execution,
    script_if_tracing,
    script_method,
    set_fusion_strategy,
    strict_fusion,
    unused,
    wait,
)
from tapegrad.jit._modules import (
    Attribute,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
)
from tapegrad.jit._trace import (
    TracerWarning,
    TracingCheckError,
    freeze,
    is_tracing,
    optimize_for_inference,
    script,
    trace,
    trace_module,
)

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
