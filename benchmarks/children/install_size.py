"""Bytes on disk of MODULE as installed, alone and with the dependencies it requires."""

import importlib.metadata as metadata
import importlib.util
import json
import sys
from pathlib import Path

from packaging.requirements import Requirement


def distribution_bytes(name: str) -> int:
    distribution = metadata.distribution(name)
    files = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
    size = sum(path.stat().st_size for path in files if path.is_file())
    spec = importlib.util.find_spec(name)
    # An editable install lists only a pointer to the source tree; count the package itself.
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if Path(folder).resolve() not in {parent for path in files for parent in path.parents}:
            size += sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    return size


def closure(name: str, seen: dict[str, int]) -> None:
    if name in seen:
        return
    try:
        seen[name] = distribution_bytes(name)
    except metadata.PackageNotFoundError:
        return
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            closure(requirement.name, seen)


sizes: dict[str, int] = {}
closure(sys.argv[1], sizes)
if sys.argv[1] not in sizes:
    sys.exit(f"install_size: {sys.argv[1]} is not installed as a distribution")
print(json.dumps({"alone": sizes[sys.argv[1]], "with_dependencies": sum(sizes.values())}))
