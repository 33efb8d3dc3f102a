"""Build MODULE's wheel from a clean copy of its sources: clean_build.py MODULE.

Only what git knows or would add is copied, so no earlier build can help. Build requirements are
taken from the running environment: the time is the compiler's, not the network's.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

root = Path(__file__).resolve().parents[2]


def copy_sources(target: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        source = root / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def wheel_bytes(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        blas = sum(i.compress_size for i in archive.infolist() if "openblas" in i.filename.lower())
    total = wheel.stat().st_size
    return {"wheel": total, "wheel_without_openblas": total - blas}


with tempfile.TemporaryDirectory() as folder:
    sources, out = Path(folder) / "sources", Path(folder) / "wheel"
    sources.mkdir()
    copy_sources(sources)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-deps",
        "--no-build-isolation",
        "--quiet",
        "--wheel-dir",
        str(out),
    ]
    start = time.perf_counter()
    built = subprocess.run(command, cwd=sources, capture_output=True, text=True)
    elapsed = time.perf_counter() - start
    if built.returncode != 0:
        sys.exit(f"clean_build: pip wheel failed: {built.stderr.strip().splitlines()[-1:]}")
    wheel = next(out.glob(f"{sys.argv[1]}-*.whl"))
    print(json.dumps({"time": elapsed, **wheel_bytes(wheel)}))
