"""What the scripts that write a file of the package share."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_or_check(target: Path, text: str, arguments: list[str], script: str) -> int:
    """Write a file; with ``--check`` compare it instead, and return 1 if it is out of date."""
    if "--check" not in arguments:
        target.write_text(text, encoding="utf-8")
        return 0
    if target.is_file() and target.read_text(encoding="utf-8") == text:
        return 0
    print(f"{target.relative_to(ROOT)}: out of date; run python scripts/{script}")
    return 1
