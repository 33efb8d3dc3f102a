"""The class of nodes of graphs, of which there are none, and the types that annotations name."""

from collections.abc import Callable
from typing import Any

from tapegrad.fx import Node

__all__ = ["Node"]

Target = Callable[..., Any] | str
Argument = Any
