"""The document of a tape as a file of JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["write_json"]


def write_json(document: Mapping[str, Any], path: str | Path) -> Path:
    """Write a tape's document as JSON, an entry a line, and return the path."""
    path = Path(path)
    entries = ",\n".join(json.dumps(entry, allow_nan=False) for entry in document["entries"])
    head = {name: value for name, value in document.items() if name != "entries"}
    text = json.dumps(head, indent=1, allow_nan=False)[:-1].rstrip()
    comma = "," if head else ""
    path.write_text(f'{text}{comma}\n "entries": [\n{entries}\n]}}\n', encoding="utf-8")
    return path
