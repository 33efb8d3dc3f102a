"""A tape as text for Graphviz: entries are nodes, modules are clusters."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tapegrad.tape.show.labels import type_text
from tapegrad.utils._units import human_bytes

__all__ = ["dot_text", "write_dot"]

_HEAD = """\
  graph [rankdir=TB, fontname="Helvetica", fontsize=11, color="#b3bcc9", style="rounded"];
  node [shape=box, style="rounded,filled", fillcolor="#ffffff", color="#8b95a5",
        fontname="Helvetica", fontsize=10, margin="0.12,0.06"];
  edge [color="#8b95a5", arrowsize=0.6, fontname="Helvetica", fontsize=8];"""


def write_dot(document: Mapping[str, Any], path: str | Path) -> Path:
    """Write a tape's document for Graphviz and return the path."""
    path = Path(path)
    path.write_text(dot_text(document), encoding="utf-8", errors="replace")
    return path


def dot_text(document: Mapping[str, Any]) -> str:
    """Return a tape's document in Graphviz's language.

    Node ``n5`` is entry 5. Edges go from producers to consumers; those that take another output
    than the first say which. An entry is the darker, the more bytes it keeps.
    """
    entries = document["entries"]
    root = _tree(entries)
    most = max((entry["bytes"] for entry in entries), default=0)
    lines = [f"digraph {_quoted(str(document.get('title') or 'tape'))} {{", _HEAD]
    lines += _cluster_lines(root, entries, most, "  ")
    for index, entry in enumerate(entries):
        for producer, output in entry["inputs"]:
            if producer >= 0:
                label = f' [label="{output}"]' if output else ""
                lines.append(f"  n{producer} -> n{index}{label};")
    return "\n".join([*lines, "}", ""])


class _Cluster:
    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: dict[str, _Cluster] = {}
        self.entries: list[int] = []


def _tree(entries: list[Mapping[str, Any]]) -> _Cluster:
    """Sort the entries into their modules."""
    root = _Cluster("")
    for index, entry in enumerate(entries):
        cluster = root
        for name in filter(None, (entry.get("module") or "").split(".")):
            path = f"{cluster.path}.{name}" if cluster.path else name
            cluster = cluster.parts.setdefault(name, _Cluster(path))
        cluster.entries.append(index)
    return root


def _cluster_lines(
    cluster: _Cluster, entries: list[Mapping[str, Any]], most: int, indent: str
) -> Iterator[str]:
    for index in cluster.entries:
        yield f"{indent}n{index} [{_attributes(index, entries[index], most)}];"
    for part in cluster.parts.values():
        yield f"{indent}subgraph {_quoted('cluster ' + part.path)} {{"
        yield f"{indent}  label={_quoted(part.path)};"
        yield from _cluster_lines(part, entries, most, indent + "  ")
        yield f"{indent}}}"


def _attributes(index: int, entry: Mapping[str, Any], most: int) -> str:
    if entry.get("leaf") is not None:
        label = entry["leaf"] or "leaf"
        return f'label={_quoted(label)}, shape=ellipse, fillcolor="#eef1f5"'
    shapes = [type_text(output) for output in entry["outputs"]]
    label = [f"{index}: {entry['op']}", *shapes]
    if entry["bytes"]:
        label.append(human_bytes(entry["bytes"]))
    share = entry["bytes"] / most if most else 0.0
    fill = f', fillcolor="0.6 {0.35 * share**0.5:.3f} 1.0"' if share else ""
    tip = f", tooltip={_quoted(entry['line'])}" if entry.get("line") else ""
    return f"label={_quoted(chr(10).join(label))}{fill}{tip}"


def _quoted(text: str) -> str:
    """Return a string of the language; control characters but line breaks are left out."""
    kept = "".join(c for c in text if c == "\n" or c.isprintable())
    return '"' + kept.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
