"""Where the calls of a graph were made, as far as tracers note it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta"]


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Run a block; nodes that are copied keep their `meta` always."""
    yield


def has_preserved_node_meta() -> bool:
    """Return whether nodes take over the `meta` of those that run: they do not."""
    return False


def get_current_meta() -> dict[str, Any]:
    """Return the `meta` of the node that runs: none is told."""
    return {}


def format_stack() -> list[str]:
    """Return the stack as lines of text."""
    import traceback

    return traceback.format_list(traceback.extract_stack()[:-1])
