"""How this program was started, for advice that can be typed as it stands."""

import os
import sys
from pathlib import Path

__all__ = ["program"]


def program() -> str:
    """Return ``tapegrad``, the path to it, or ``python -m tapegrad``."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{_shortest(Path(sys.executable))} -m tapegrad"
    return _shortest(called) if called.name == "tapegrad" else "tapegrad"


def _shortest(path: Path) -> str:
    """Return a command's name if the shell finds it, or else the shorter way to write its path."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    first = next((Path(f) / path.name for f in folders if (Path(f) / path.name).exists()), None)
    if first is not None and path.exists() and first.samefile(path):
        return path.name
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
