"""What export raises and warns of."""

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "SymbolicValueError",
    "UnsupportedOperatorError",
]


class OnnxExporterError(RuntimeError):
    """A model cannot be exported as it is; the text says why and what to do."""


class UnsupportedOperatorError(OnnxExporterError):
    """A call has no form in ONNX; the text names the op and the line that called it."""


class SymbolicValueError(OnnxExporterError):
    """A size or a number depends on the sizes of dynamic axes in a way that is not expressed."""


class OnnxExporterWarning(UserWarning):
    """Something of the model is not in the exported file."""
