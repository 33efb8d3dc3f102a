"""Where ``import tapegrad`` takes its parts from in a clone, whose source has no extension.

Python looks into the current folder first, so in a clone it finds the source before the package
that `make` or `pip install .` has built and installed. The source then takes its parts from there.
Nothing else loads this module, so that an installed package pays nothing for it.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

__all__ = ["installed_init"]

_TO_DO = (
    "run `make install` and start .venv/bin/python, "
    "or run `pip install .` in the environment of this Python"
)


def installed_init(init: str, error: ImportError) -> str:
    """Return the ``__init__.py`` of the first built tapegrad on the path.

    Args:
        init: The ``__init__.py`` that is running.
        error: Why it could not load its extension; raised again if it has one.
    """
    here = Path(init).parent
    if _has_extension([str(here)]):
        raise error  # it is there and does not load, which it says best itself
    for folder in sys.path:
        spec = PathFinder.find_spec("tapegrad", [folder])
        if spec and spec.origin and _has_extension(spec.submodule_search_locations):
            break
    else:
        raise ImportError(
            f"tapegrad: {here} is the source, which is not built for this Python "
            f"({sys.executable}), and no built one is installed there; {_TO_DO}",
            name="tapegrad",
        ) from None
    # The rest of the running file is executed next, on top of the parts of the other one.
    if Path(spec.origin).read_bytes() != Path(init).read_bytes():
        raise ImportError(
            f"tapegrad: {here} is the source, and the tapegrad that is installed in "
            f"{Path(spec.origin).parent} is of another state of it; {_TO_DO}, again, "
            "or start Python in another folder",
            name="tapegrad",
        ) from None
    return spec.origin


def _has_extension(folders: list[str] | None) -> bool:
    return PathFinder.find_spec("tapegrad._C", folders) is not None
