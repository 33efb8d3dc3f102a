"""Writes through ``.data`` to values that a derivative needs: what the sweep does about them."""

from types import TracebackType

from tapegrad import _C

__all__ = ["set_data_writes"]

_MODES = ("warn", "error")


class set_data_writes:
    """Say what backward does with a saved value that was overwritten through ``.data``.

    The gradient is then computed with what is there at that time, as in PyTorch, which is silent
    about it. Here a warning names the op that saved the value, the one that wrote and both lines,
    once for each pair. It holds from the call on, or for a block.

    Args:
        mode: ``"warn"``, or ``"error"`` to raise instead, as for any other write.

    Example:
        >>> x = torch.tensor([2.0], requires_grad=True)
        >>> y = x * x
        >>> x.data.fill_(5.0)
        tensor([5.])
        >>> with torch.autograd.set_data_writes("error"):
        ...     try:
        ...         y.sum().backward()
        ...     except RuntimeError as error:
        ...         print("was overwritten by fill_" in str(error))
        True
    """

    def __init__(self, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(f"set_data_writes: expected one of {', '.join(_MODES)}, got {mode!r}")
        self._before = _C._set_data_writes_are_errors(mode == "error")

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _C._set_data_writes_are_errors(self._before)
