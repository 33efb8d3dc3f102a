"""Anomaly detection: a backward that makes NaN says which op of the forward it came from."""

import warnings
from typing import Any

from tapegrad import _C

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
           "set_detect_anomaly"]  # fmt: skip


class set_detect_anomaly:
    """Turn anomaly detection on or off: at once, or for a block.

    Args:
        mode: True turns it on.
        check_nan: whether gradients that hold NaN raise an error.

    Example:
        >>> with torch.autograd.set_detect_anomaly(True):
        ...     torch.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = _C._anomaly()
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        _C._set_anomaly(*self._previous)


class detect_anomaly:
    """Run a block with anomaly detection.

    A backward inside raises as soon as an op's gradient holds NaN, and the error names the op and
    the source line that ran it. A recorded op whose result holds NaN raises as well, when it
    runs. The line of the forward op is part of every backward error even without this mode.

    Args:
        check_nan: whether gradients that hold NaN raise an error.

    Example:
        >>> x = torch.tensor(0.0, requires_grad=True)
        >>> with torch.autograd.set_detect_anomaly(True):  # detect_anomaly() warns that it is slow
        ...     y = x.sqrt() * 0
        ...     try:
        ...         y.backward()
        ...     except RuntimeError as error:
        ...         print(str(error)[:47])
        Function 'SqrtBackward0' returned nan values in
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._previous = _C._anomaly()
        _C._set_anomaly(True, self.check_nan)

    def __exit__(self, *exception: Any) -> None:
        _C._set_anomaly(*self._previous)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on.

    Example:
        >>> torch.is_anomaly_enabled()
        False
    """
    return _C._anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly detection looks for NaN.

    Example:
        >>> torch.is_anomaly_check_nan_enabled()
        True
    """
    return _C._anomaly()[1]
