"""Export of models to ONNX, as ``torch.onnx``: docs/onnx.md."""

from typing import TYPE_CHECKING

from tapegrad._missing import names_of_torch as _names_of_torch
from tapegrad.onnx import errors, operators
from tapegrad.onnx._export import (
    OperatorExportTypes,
    TrainingMode,
    export,
    is_in_onnx_export,
    register_custom_op_symbolic,
)
from tapegrad.onnx._program import ONNXProgram
from tapegrad.onnx.errors import OnnxExporterError

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "errors",
    "export",
    "is_in_onnx_export",
    "operators",
    "register_custom_op_symbolic",
]

if not TYPE_CHECKING:
    __getattr__ = _names_of_torch(__name__)
