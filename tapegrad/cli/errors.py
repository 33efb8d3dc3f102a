"""What goes wrong for reasons that a user can mend."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["UserError", "first_line", "writing"]


class UserError(Exception):
    """Shown as one line without a traceback: what happened, and what to do next."""


def first_line(error: Exception) -> str:
    """Return what an error says first."""
    return str(error).splitlines()[0].rstrip(".:")


@contextmanager
def writing(path: Path, advice: str) -> Iterator[None]:
    """Turn a full disk or an unwritable folder into a `UserError` that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write {path}: {reason}; {advice}") from error
