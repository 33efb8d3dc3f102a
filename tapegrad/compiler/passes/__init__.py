"""Passes over captured programs: each a small function that changes a `Text` in place."""

from tapegrad.compiler.passes.common import share_common
from tapegrad.compiler.passes.copies import drop_copies
from tapegrad.compiler.passes.dead import drop_dead
from tapegrad.compiler.passes.memory import Layout, check_layout, lay_out, lay_out_tile
from tapegrad.compiler.passes.recompute import recompute
from tapegrad.compiler.passes.text import Step, Text
from tapegrad.compiler.passes.tiles import Group, check_groups, find_groups

__all__ = [
    "PASSES",
    "Group",
    "Layout",
    "Step",
    "Text",
    "check_groups",
    "check_layout",
    "drop_copies",
    "drop_dead",
    "find_groups",
    "lay_out",
    "lay_out_tile",
    "recompute",
    "share_common",
]

PASSES = (drop_copies, share_common, drop_dead, recompute)
