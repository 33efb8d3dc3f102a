"""Passes over graphs: shapes of values, and graphs cut into several."""

from tapegrad.fx.passes import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]
