"""The class of values in graphs, of which there are none."""

from tapegrad.fx import Proxy

__all__ = ["Proxy"]
