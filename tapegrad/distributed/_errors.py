"""The exceptions of collectives, stores and engines."""

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """What all exceptions of this package that PyTorch names have in common."""


class DistBackendError(DistError):
    """An engine failed, or ran out of time."""


class DistStoreError(DistError):
    """A store failed, or ran out of time."""


class DistNetworkError(DistError):
    """A connection failed."""


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""


for _error in (DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError):
    _error.__module__ = "tapegrad.distributed"
