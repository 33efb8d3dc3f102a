"""Export of models to ONNX, as ``torch.onnx``: docs/onnx.md."""

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
