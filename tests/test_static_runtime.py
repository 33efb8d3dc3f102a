"""A C++ runtime inside the module beside another one: see Note [No streams in the library].

Building the whole library a second time takes minutes. What can go wrong lies in how errors are
made and in what the module imports and exports, so a small module is built of the library's own
error path, shapes and thread pool with the runtime linked in; the installed module is looked at.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

pytestmark = pytest.mark.skipif(IS_TORCH, reason="about tapegrad's own module")

CORE = Path(__file__).parents[1] / "csrc"
PROBE = Path(__file__).parent / "native" / "static_runtime.cpp"
COMPILER = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")

TEXTS = [
    "probe: Trying to create tensor with negative dimension -3: [2, -3]",
    "probe: 0.1 1e+300 2.5 -0.333333 1e-05 100000",
    "probe: -9223372036854775808 18446744073709551615",
    "probe: c 1 7 -7",
    "probe: inf",
    "vector::_M_range_check: __n (which is 3) >= this->size() (which is 0)",
    "probe: thread, at 0.5",
]

# Other runtimes first, as a program has it that imports the library last; into the space that all
# modules see, as some libraries do.
BESIDE_OTHERS = """
import json, os, sys
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
import numpy, scipy.linalg, scipy.sparse, scipy.special, scipy.spatial
sys.setdlopenflags(os.RTLD_NOW)
sys.path.insert(0, sys.argv[1])
import static_runtime
texts = []
for number in range(7):
    try:
        static_runtime.raise_error(number)
    except RuntimeError as error:
        texts.append(str(error))
assert scipy.linalg.det(numpy.eye(3)) == 1
print(json.dumps([texts, static_runtime.sum_on_threads()]))
"""


def has_static_runtime():
    if not COMPILER or not sys.platform.startswith("linux"):
        return False
    found = subprocess.run(
        [COMPILER, "-print-file-name=libstdc++.a"], capture_output=True, text=True, check=False
    )
    return Path(found.stdout.strip()).is_absolute()


def names_in(module, *options):
    """Return the symbols of a shared object."""
    listing = subprocess.run(
        ["nm", *options, str(module)], capture_output=True, text=True, check=True
    )
    return [line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()]


def of_streams(names):
    """Return the symbols that belong to streams and locales."""
    marks = ("St6locale", "ios_base", "basic_ios", "basic_ostream", "NSo", "NSi", "St4cout")
    return [name for name in names if any(mark in name for mark in marks)]


needs_nm = pytest.mark.skipif(
    not shutil.which("nm") or not sys.platform.startswith("linux"), reason="needs nm of binutils"
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Build the probe with the runtime linked in."""
    name = f"static_runtime{sysconfig.get_config_var('EXT_SUFFIX')}"
    module = tmp_path_factory.mktemp("static") / name
    core = [CORE / "core" / f"{name}.cpp" for name in ("error", "shape", "parallel")]
    command = [COMPILER, "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-static-libstdc++", "-static-libgcc", "-pthread"]
    command += [f"-Wl,--version-script={CORE}/exports.map"]
    command += [f"-I{CORE}", f"-I{sysconfig.get_path('include')}"]
    subprocess.run([*command, "-o", module, PROBE, *core], check=True)
    return module


@needs_nm
@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizers bring a runtime of their own")
@pytest.mark.skipif(not has_static_runtime(), reason="needs a compiler with a static libstdc++")
class TestRuntimeLinkedIn:
    def test_errors_beside_another_runtime(self, module):
        done = subprocess.run(
            [sys.executable, "-c", BESIDE_OTHERS, str(module.parent)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr[-2000:]}"
        texts, total = json.loads(done.stdout)
        assert texts == TEXTS
        assert total == sum(range(100_000))

    def test_no_state_that_two_runtimes_would_share(self, module):
        """Two runtimes of one version get along by luck; of two versions they crash."""
        assert of_streams(names_in(module)) == []
        assert names_in(module, "-D", "--defined-only") == ["PyInit_static_runtime"]


@needs_nm
class TestInstalledModule:
    def test_exports_its_entry_point_only(self):
        assert names_in(torch._C.__file__, "-D", "--defined-only") == ["PyInit__C"]

    def test_uses_no_streams_and_no_locale(self):
        names = names_in(torch._C.__file__, "-D", "--undefined-only")
        assert "PyErr_SetString" in names
        assert of_streams(names) == []
