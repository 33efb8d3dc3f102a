"""Whether results are the same in every run, to the bit, also where a faster way rounds anyhow."""

from tapegrad import _C

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]

_MODES = ("default", "warn", "error")
_warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Choose algorithms that give the same bits in every run on the same machine.

    On CUDA, values that are added to one place of a tensor (`scatter_add`, `index_add`,
    `index_put` with ``accumulate=True``, derivatives of `gather` and of indexing) arrive in any
    order, and floating sums differ in their last digits from run to run. With this they are sorted
    first, which takes about twice as long. The same holds for places that several values are
    stored in. On the CPU the order is always the same.

    Every op has such an algorithm: unlike PyTorch's, none raises an error.

    Args:
        mode: whether to.
        warn_only: kept for programs that ask for it; there is nothing to warn of.

    Example:
        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled()
        True
        >>> torch.use_deterministic_algorithms(False)
    """
    global _warn_only
    if not isinstance(mode, bool):
        raise TypeError(
            f"use_deterministic_algorithms: expected mode to be a bool, got {type(mode).__name__}"
        )
    _C._cuda_set_deterministic(mode)
    _warn_only = warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` has set.

    Example:
        >>> torch.are_deterministic_algorithms_enabled()
        False
    """
    return _C._cuda_is_deterministic()


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether `use_deterministic_algorithms` was called with ``warn_only=True``.

    Example:
        >>> torch.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Choose between deterministic and faster algorithms, by another name.

    Args:
        debug_mode: ``"default"`` or 0; ``"warn"`` or 1; ``"error"`` or 2. The last two
            are `use_deterministic_algorithms` with ``warn_only`` True and False.

    Example:
        >>> torch.set_deterministic_debug_mode("error")
        >>> torch.get_deterministic_debug_mode()
        2
        >>> torch.set_deterministic_debug_mode("default")
    """
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, int | str):
        raise TypeError(
            "set_deterministic_debug_mode: debug_mode must be str or int, but got "
            f"{type(debug_mode).__name__}"
        )
    if debug_mode not in (*_MODES, 0, 1, 2):
        raise RuntimeError(
            "set_deterministic_debug_mode: invalid value of debug_mode, expected one of "
            f"`default`, `warn`, `error`, 0, 1 or 2, but got {debug_mode}"
        )
    number = _MODES.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2, as `set_deterministic_debug_mode` takes them.

    Example:
        >>> torch.get_deterministic_debug_mode()
        0
    """
    if not are_deterministic_algorithms_enabled():
        return 0
    return 1 if _warn_only else 2
