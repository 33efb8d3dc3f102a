"""Event files for TensorBoard, written by TensorBoard's own writer."""

try:
    import tensorboard as _tensorboard  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tapegrad.utils.tensorboard: expected the package tensorboard, which is not installed; "
        "pip install 'tapegrad[tensorboard]'"
    ) from error

from tapegrad.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
