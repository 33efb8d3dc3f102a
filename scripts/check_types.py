"""Check the types that users see, with mypy and with pyright, both at their strictest.

- What is in tests/typing/passes and in examples must be free of errors. (Examples use packages
  without types, so pyright checks them in its standard mode.)
- In tests/typing/fails every line that is marked with ``# error``, and no other, must have one.
- Every public function must have a signature: none may be `Any`, nor take just any arguments.

Usage: python scripts/check_types.py
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE, CASES, EXAMPLES = ROOT / "tapegrad", ROOT / "tests" / "typing", ROOT / "examples"
BIN = Path(sys.executable).parent
MODULES = (
    "fft special linalg func masked optim sparse nn.functional nn.init nn.utils signal.windows"
)
# Functions that take a list of arguments of which PyTorch knows two kinds, and constructors.
ANY_ARGUMENTS = {
    "torch.ScriptModule",  # a module as any other
    "torch.Tensor",
    "torch.UntypedStorage",
    *(f"torch.{name}" for name in ("gru", "lstm", "rnn_relu", "rnn_tanh")),
}
# What a checker says on top in its strict mode where the name itself is an error.
FOLLOWS = re.compile("reportUnknown")


def literal_names(path: Path) -> list[str]:
    """Return the `__all__` of a file, if it is written out."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            try:
                return list(ast.literal_eval(node.value))
            except ValueError:
                return []
    return []


def public_names() -> Iterator[str]:
    """Yield the public names whose types are asked for, as a program writes them."""
    for node in ast.parse((PACKAGE / "__init__.pyi").read_text("utf-8")).body:
        found = [alias.asname or "_" for alias in getattr(node, "names", ())]
        found += [target.id for target in getattr(node, "targets", ())]
        yield from (f"torch.{name}" for name in found if not name.startswith("_"))
    for module in MODULES.split():
        path = PACKAGE / module.replace(".", "/")
        files = (
            [path.with_suffix(".py")]
            if path.with_suffix(".py").is_file()
            else [path / "__init__.py"]
        )
        if module == "nn.functional":
            files = [file for file in sorted(path.glob("[a-z]*.py")) if file.stem != "recurrent"]
        for file in files:
            yield from (f"torch.{module}.{name}" for name in literal_names(file))
    for node in ast.parse((PACKAGE / "_C.pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            yield from (f"torch.Tensor.{name}" for name in sorted(methods) if name[0] != "_")


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "MYPYPATH": str(ROOT)}


def run_mypy(files: list[Path]) -> list[tuple[str, int, str, str]]:
    """Return (file, line, severity, message) of what mypy says."""
    command = [
        str(BIN / "mypy"),
        "--strict",
        "--follow-imports=silent",
        "--disable-error-code=import-untyped",  # of packages that examples use
        "--disable-error-code=import-not-found",
        "--config-file=",
        "--python-executable",
        sys.executable,
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "typing"),
    ]
    done = subprocess.run(
        [*command, *map(str, files)], capture_output=True, text=True, env=environment(), check=False
    )
    found = re.findall(r"^(.*?):(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):
        raise SystemExit(f"mypy: {done.stdout}{done.stderr}")
    return [(file, int(line), severity, message) for file, line, severity, message in found]


def run_pyright(files: list[Path]) -> list[tuple[str, int, str, str]]:
    """Return the same of what pyright says, here in the build that needs no download."""
    settings = {
        "include": [str(file) for file in files],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "standard",
        "strict": [str(file) for file in files if file.parent != EXAMPLES],
        "reportMissingImports": False,
        "pythonVersion": "3.10",
    }
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "pyrightconfig.json"
        project.write_text(json.dumps(settings), encoding="utf-8")
        command = [
            str(BIN / "basedpyright"),
            "--outputjson",
            "--project",
            str(project),
            "--pythonpath",
            sys.executable,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"basedpyright: {done.stdout}{done.stderr}") from None
    return [
        (
            each["file"],
            each["range"]["start"]["line"] + 1,
            each["severity"].replace("information", "note"),
            f"{each['message']} [{each.get('rule', '')}]",
        )
        for each in report["generalDiagnostics"]
    ]


CHECKERS = {"mypy": run_mypy, "pyright": run_pyright}


def check_files(name: str) -> list[str]:
    """Return what is wrong with the user scripts and the examples, as one checker sees them."""
    files = sorted(CASES.glob("*/*.py")) + sorted(EXAMPLES.glob("*.py"))
    said = [row for row in CHECKERS[name](files) if row[2] == "error"]
    problems = []
    for file in files:
        errors: dict[int, list[str]] = {}
        for where, line, _, message in said:
            if Path(where).name == file.name:
                errors.setdefault(line, []).append(message)
        lines = file.read_text("utf-8").splitlines()
        expected = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
        place = file.relative_to(ROOT)
        for number in sorted(expected - errors.keys()):
            problems.append(f"{place}:{number}: {name} sees no error here")
        for number in sorted(errors.keys() - expected):
            problems += [f"{place}:{number}: {name}: {message}" for message in errors[number]]
    return problems


def check_signatures(name: str) -> list[str]:
    """Return the public names that have no real signature for one checker."""
    names = list(dict.fromkeys(public_names()))
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "names.py"
        lines = ["import tapegrad as torch", *(f"reveal_type({each})" for each in names)]
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        said = CHECKERS[name]([script])
    problems, seen = [], set()
    for file, line, severity, message in said:
        if Path(file).name != script.name:  # a stub of the package itself
            problems.append(f"{file}:{line}: {name}: {message}")
            continue
        asked = names[line - 2]
        seen.add(asked)
        if severity == "error" and not FOLLOWS.search(message):
            problems.append(f"{asked}: {name}: {message}")
        kind = re.search(r'(?:Revealed type is|is) "(.*)"', message)
        weak = (
            r"(Any|Unknown)|(def )?\((\*Any, \*\*Any|\*args: Any, \*\*kwargs: Any|\.\.\.)\) -> .*"
        )
        if kind and re.fullmatch(weak, kind[1]) and asked not in ANY_ARGUMENTS:
            problems.append(f"{asked}: {name} sees no signature: {kind[1]}")
    problems += [f"{asked}: {name} says nothing" for asked in names if asked not in seen]
    return problems


def main() -> int:
    """Run both checkers, print what they found, and return 1 if that is anything."""
    for tool in ("mypy", "basedpyright"):
        if not (BIN / tool).exists():
            raise SystemExit(f"check_types: {tool} is not installed; pip install 'tapegrad[lint]'")
    problems = []
    for name in CHECKERS:
        problems += check_files(name) + check_signatures(name)
    print("\n".join(problems) or f"types: {len(set(public_names()))} public names, both checkers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
