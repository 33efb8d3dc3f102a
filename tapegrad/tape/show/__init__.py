"""Ways to show a tape: a page, a graph for Graphviz, JSON, a trace for Perfetto.

Each is a function of the document that `Tape.to_dict` gives, ``tapegrad.tape/1``, so that a tape
can be written down in one place and looked at in another.
"""

from tapegrad.tape.show.dot import dot_text, write_dot
from tapegrad.tape.show.json_file import write_json
from tapegrad.tape.show.lines import short_lines
from tapegrad.tape.show.notebook import short_html
from tapegrad.tape.show.page import html_page, write_html
from tapegrad.tape.show.timeline import Timeline, timeline
from tapegrad.tape.show.totals import totals, totals_table
from tapegrad.tape.show.trace import trace_events, write_perfetto

__all__ = [
    "Timeline",
    "dot_text",
    "html_page",
    "short_html",
    "short_lines",
    "timeline",
    "totals",
    "totals_table",
    "trace_events",
    "write_dot",
    "write_html",
    "write_json",
    "write_perfetto",
]
